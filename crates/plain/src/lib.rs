// SPDX-License-Identifier: MIT OR Apache-2.0
//! Plain volumes: encrypted data with no header, as `cryptsetup open --type plain` maps them. The
//! caller supplies what a header would contain, and the secret is the key itself.
//!
//! ```
//! use luxor_plain::PlainVolume;
//! use luxor_sector::MemoryStorage;
//! use luxor_volume::{Format, SecretKind};
//!
//! let volume = PlainVolume { offset: 8, ..PlainVolume::default() };
//! assert_eq!(volume.secret_kind(), SecretKind::Key { len: 32 });
//! let header = volume.read(&MemoryStorage::new(vec![0; 12_288]))?;
//! assert_eq!(header.extents(12_288)?[0].len, 8192);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

use std::collections::BTreeMap;

use luxor_engine::{Backend, KeyError};
use luxor_sector::{Geometry, SectorSize, Storage};
use luxor_volume::{
    Description, Encryption, Extent, ExtentCipher, ExtentError, Findings, Format, Header,
    HeaderError, HeaderErrorKind, NotUnlocked, NotUnlockedKind, Reencryption, Secret, SecretKind,
    UnlockOptions, Unlocked, VolumeKey,
};

/// The unit of offsets and lengths, in bytes, as in dm-crypt.
const UNIT: u64 = 512;

/// Where the data of a plain volume are, and how they are encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlainVolume {
    /// The encryption.
    pub encryption: Encryption,
    /// The length of the key in bits: 256 or 512 for XTS, 128 or 256 for CBC.
    pub key_bits: u32,
    /// Where the data begin in the file or device, in units of 512 bytes (cryptsetup's `--offset`).
    pub offset: u64,
    /// The length of the data, in units of 512 bytes; `None` means up to the end of the file or
    /// device.
    pub size: Option<u64>,
    /// The position from which the IVs are counted, in units of 512 bytes (cryptsetup's `--skip`):
    /// the first sector of the data has the IV of byte `512 * skip` of a volume.
    pub skip: u64,
    /// The length of a data unit.
    pub sector_size: SectorSize,
    /// Whether IVs count sectors instead of units of 512 bytes (dm-crypt's `iv_large_sectors`).
    pub iv_large_sectors: bool,
}

impl Default for PlainVolume {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl PlainVolume {
    /// The defaults of cryptsetup for aes-xts-plain64: a key of 256 bits, sectors of 512 bytes.
    pub const DEFAULT: Self = Self {
        encryption: Encryption::AesXtsPlain64,
        key_bits: 256,
        offset: 0,
        size: None,
        skip: 0,
        sector_size: SectorSize::B512,
        iv_large_sectors: false,
    };

    /// Checks the values against dm-crypt's rules. The encryption has keys of `key_bits`. The
    /// offset, the size and `skip` are whole numbers of sectors. The size is not 0. Offset and size
    /// are below 8 EiB. `iv_large_sectors` needs sectors of more than 512 bytes.
    ///
    /// # Errors
    /// [`PlainError`] names the value that breaks a rule.
    pub fn check(&self) -> Result<(), PlainError> {
        let lens = self.encryption.key_lens().map(|bytes| 8 * bytes);
        if !lens.contains(&self.key_bits) {
            return Err(PlainError::KeyBits {
                encryption: self.encryption,
                found: self.key_bits,
            });
        }
        if self.iv_large_sectors && self.sector_size == SectorSize::B512 {
            return Err(PlainError::LargeSectors);
        }
        if self.size == Some(0) {
            return Err(PlainError::NoData);
        }
        let counts = [
            ("skip", self.skip),
            ("offset", self.offset),
            ("size", self.size.unwrap_or_default()),
        ];
        for (name, units) in counts {
            if !units.is_multiple_of(self.sector_size.units()) {
                let sector_size = self.sector_size;
                return Err(PlainError::PartSector {
                    name,
                    units,
                    sector_size,
                });
            }
        }
        for (name, units) in &counts[1..] {
            let bytes = units.checked_mul(UNIT);
            if bytes.is_none_or(|bytes| i64::try_from(bytes).is_err()) {
                return Err(PlainError::TooLarge {
                    name,
                    units: *units,
                });
            }
        }
        Ok(())
    }

    /// The length of the key in bytes.
    #[must_use]
    pub fn key_len(&self) -> usize {
        self.key_bits as usize / 8
    }

    /// Returns the one extent of the plaintext, in a storage of `storage_len` bytes.
    ///
    /// # Errors
    /// Those of [`PlainVolume::check`], and [`PlainError::TooShort`], [`PlainError::Empty`] and
    /// [`PlainError::Rest`].
    pub fn extent(&self, storage_len: u64) -> Result<Extent, PlainError> {
        self.check()?;
        let offset = self.offset * UNIT;
        let there = storage_len.saturating_sub(offset);
        let sector = self.sector_size.bytes() as u64;
        let whole = there - there % sector;
        let len = match self.size.map(|units| units * UNIT) {
            Some(size) if size <= there => size,
            Some(size) => {
                let needed = u128::from(offset) + u128::from(size);
                return Err(PlainError::TooShort {
                    storage_len,
                    needed,
                });
            }
            None if whole == 0 => {
                return Err(PlainError::Empty {
                    storage_len,
                    offset,
                });
            }
            None if whole < there => {
                return Err(PlainError::Rest {
                    there,
                    sector_size: self.sector_size,
                });
            }
            None => there,
        };
        Ok(self.extent_of(len))
    }

    fn extent_of(&self, len: u64) -> Extent {
        let geometry = Geometry {
            sector_size: self.sector_size,
            iv_mode: self.encryption.iv_mode(),
            iv_offset: self.skip,
            iv_large_sectors: self.iv_large_sectors,
        };
        let cipher = ExtentCipher {
            key: 0,
            encryption: Some(self.encryption),
            geometry,
        };
        Extent {
            offset: self.offset * UNIT,
            len,
            cipher: Some(cipher),
        }
    }
}

impl Format for PlainVolume {
    fn name(&self) -> &'static str {
        "plain"
    }

    fn summary(&self) -> &'static str {
        "dm-crypt without a header"
    }

    fn has_signature(&self) -> bool {
        false
    }

    fn secret_kind(&self) -> SecretKind {
        SecretKind::Key {
            len: self.key_len(),
        }
    }

    fn read(&self, _: &dyn Storage) -> Result<Box<dyn Header>, HeaderError> {
        match self.check() {
            Ok(()) => Ok(Box::new(*self)),
            Err(error) => Err(HeaderError {
                kind: HeaderErrorKind::Unsupported,
                source: Box::new(error),
            }),
        }
    }
}

impl Header for PlainVolume {
    fn describe(&self) -> Description {
        let bits = format!("{} bits", self.key_bits);
        let mut details = vec![
            ("Encryption", self.encryption.name().to_owned()),
            ("Key", bits),
            ("Sector size", format!("{} bytes", self.sector_size)),
            ("Begins at", format!("byte {}", self.offset * UNIT)),
        ];
        if let Some(units) = self.size {
            details.push(("Length", format!("{} bytes", units * UNIT)));
        }
        if self.skip != 0 {
            details.push(("First number", self.skip.to_string()));
        }
        if self.iv_large_sectors {
            details.push(("Numbers count", "sectors".to_owned()));
        }
        Description {
            format: "plain",
            uuid: String::new(),
            details,
            mode: self.encryption.mode(),
            data_offset: self.offset * UNIT,
            metadata_len: 0,
            sector_size: self.sector_size,
            file_length: None,
            allows_discards: false,
            reencryption: Reencryption::Impossible,
        }
    }

    fn check(&self, _: Option<u64>) -> Findings {
        let words = "header: none (a plain volume), so nothing shows whether the key is right";
        Findings {
            good: vec![words.into()],
            ..Findings::default()
        }
    }

    /// Takes the secret as the key. Whether it is the right one cannot be checked.
    fn unlock(
        &self,
        _: &dyn Storage,
        secret: Secret<'_>,
        _: &dyn Backend,
        options: &UnlockOptions,
    ) -> Result<Unlocked, NotUnlocked> {
        let (Secret::Passphrase(key) | Secret::VolumeKey(key)) = secret;
        let needed = self.key_len();
        if key.len() != needed {
            let found = key.len();
            return Err(PlainError::KeyLen { found, needed }.into());
        }
        let key = VolumeKey::new(key.clone(), self.encryption, options.allow_weak_key);
        let key = key.map_err(|source| PlainError::Key { source })?;
        Ok(Unlocked {
            keys: BTreeMap::from([(0, key.into())]),
            keyslots: Vec::new(),
        })
    }

    fn extents(&self, storage_len: u64) -> Result<Vec<Extent>, ExtentError> {
        Ok(vec![self.extent(storage_len)?])
    }

    fn whole_extents(&self, storage_len: u64) -> Result<Vec<Extent>, ExtentError> {
        let sector = self.sector_size.bytes() as u64;
        let offset = self.offset * UNIT;
        let there = storage_len.saturating_sub(offset).max(1);
        let end = offset.saturating_add(there.next_multiple_of(sector));
        let size = self.size.map_or(0, |units| offset + units * UNIT);
        self.extents(end.max(size))
    }

    fn stream_extent(&self) -> Option<Extent> {
        Some(self.extent_of(self.size.map_or(u64::MAX, |units| units * UNIT)))
    }

    fn has_same_data(&self, other: &dyn Header) -> bool {
        other.downcast_ref() == Some(self)
    }
}

/// Why a plain volume cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlainError {
    /// The encryption has no keys of this length.
    #[error(
        "{} has keys of {} and {} bits, not of {found}",
        encryption.name(),
        8 * encryption.key_lens()[0],
        8 * encryption.key_lens()[1]
    )]
    KeyBits {
        /// The encryption.
        encryption: Encryption,
        /// The length in bits.
        found: u32,
    },
    /// IVs that count sectors need sectors of more than 512 bytes.
    #[error("large sectors for IVs need a sector size above 512")]
    LargeSectors,
    /// The size is 0.
    #[error("size 0: there would be no data")]
    NoData,
    /// A value is not a whole number of sectors.
    #[error("{name} {units} is not a whole number of sectors of {sector_size} bytes")]
    PartSector {
        /// The name of the value: `offset`, `size` or `skip`.
        name: &'static str,
        /// The value in units of 512 bytes.
        units: u64,
        /// The length of a sector.
        sector_size: SectorSize,
    },
    /// A value is too large.
    #[error("{name} {units} is 8 EiB or more")]
    TooLarge {
        /// The name of the value: `offset` or `size`.
        name: &'static str,
        /// The value in units of 512 bytes.
        units: u64,
    },
    /// The storage ends before the data do.
    #[error("it has {storage_len} bytes, and the offset and the size need {needed}")]
    TooShort {
        /// The length of the storage in bytes.
        storage_len: u64,
        /// The length in bytes that it must have.
        needed: u128,
    },
    /// The storage ends before the first sector does.
    #[error("it has {storage_len} bytes, and the data would begin at byte {offset}")]
    Empty {
        /// The length of the storage in bytes.
        storage_len: u64,
        /// The offset of the data in bytes.
        offset: u64,
    },
    /// The last sector is not whole, and no size leaves it out.
    #[error(
        "the data have {there} bytes, which is not a whole number of sectors of {sector_size} bytes"
    )]
    Rest {
        /// The bytes after the offset.
        there: u64,
        /// The length of a sector.
        sector_size: SectorSize,
    },
    /// The key has another length.
    #[error("the key has {found} bytes; it must have {needed}")]
    KeyLen {
        /// The length of the key in bytes.
        found: usize,
        /// The length in bytes that it must have.
        needed: usize,
    },
    /// The key is refused.
    #[error("the key is refused: {source}")]
    Key {
        /// The reason.
        source: KeyError,
    },
}

impl PlainError {
    /// The size in units of 512 bytes that leaves out the sector that is not whole.
    #[must_use]
    pub fn whole_units(&self) -> Option<u64> {
        match self {
            Self::Rest { there, sector_size } => {
                let sector = sector_size.bytes() as u64;
                Some((there - there % sector) / UNIT)
            }
            _ => None,
        }
    }
}

impl From<PlainError> for NotUnlocked {
    fn from(error: PlainError) -> Self {
        Self {
            kind: NotUnlockedKind::Refused,
            source: Box::new(error),
        }
    }
}

impl From<PlainError> for ExtentError {
    fn from(error: PlainError) -> Self {
        Self {
            is_cut_off: matches!(error, PlainError::TooShort { .. }),
            source: Box::new(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_and_sizes_are_whole_sectors() {
        for sector_size in SectorSize::ALL {
            let units = sector_size.units();
            for number in 0..=2 * units {
                let whole = number % units == 0;
                let with = |change: &dyn Fn(&mut PlainVolume)| {
                    let mut volume = PlainVolume {
                        sector_size,
                        ..PlainVolume::default()
                    };
                    change(&mut volume);
                    volume.check().is_ok()
                };
                let shown = format!("{sector_size} {number}");
                assert_eq!(with(&|volume| volume.offset = number), whole, "{shown}");
                assert_eq!(with(&|volume| volume.skip = number), whole, "{shown}");
                let accepted = with(&|volume| volume.size = Some(number));
                assert_eq!(accepted, whole && number > 0, "{shown}");
            }
        }
        for size in [u64::MAX - 7, 1 << 55, 1 << 54] {
            for volume in [
                PlainVolume {
                    offset: size,
                    ..PlainVolume::default()
                },
                PlainVolume {
                    size: Some(size),
                    ..PlainVolume::default()
                },
            ] {
                assert!(volume.check().is_err(), "{volume:?}");
            }
        }
    }

    #[test]
    fn the_data_end_at_the_given_size() {
        let volume = |offset, size| PlainVolume {
            offset,
            size,
            skip: 16,
            sector_size: SectorSize::B4096,
            ..PlainVolume::default()
        };
        for (offset, size, storage, expected) in [
            (0, None, 8192, Some(8192)),
            (0, None, 8191, None),
            (0, None, 4095, None),
            (0, None, 0, None),
            (8, None, 8192, Some(4096)),
            (8, None, 4096, None),
            (8, None, 1, None),
            (0, Some(8), 8191, Some(4096)),
            (0, Some(8), 4096, Some(4096)),
            (0, Some(8), 4095, None),
            (8, Some(8), 8192, Some(4096)),
            (8, Some(8), 8191, None),
        ] {
            let volume = volume(offset, size);
            volume.check().unwrap();
            let found = volume.extent(storage).ok();
            let shown = format!("{offset} {size:?} {storage}");
            assert_eq!(found.as_ref().map(|extent| extent.len), expected, "{shown}");
            if let Some(extent) = found {
                assert_eq!(extent.offset, 512 * offset, "{shown}");
                let geometry = extent.cipher.unwrap().geometry;
                assert_eq!(geometry.iv_offset, 16);
                assert_eq!(geometry.sector_size, SectorSize::B4096);
            }
        }
        let error = volume(0, None).extent(10_000).unwrap_err();
        assert_eq!(error.whole_units(), Some(16), "{error}");
    }

    #[test]
    fn only_valid_key_lengths_and_sector_sizes_are_accepted() {
        for encryption in Encryption::ALL {
            for key_bits in 0..=1024 {
                let volume = PlainVolume {
                    encryption,
                    key_bits,
                    ..PlainVolume::default()
                };
                let known = encryption.key_lens().contains(&(key_bits / 8));
                let accepted = key_bits % 8 == 0 && known;
                assert_eq!(volume.check().is_ok(), accepted, "{volume:?}");
            }
        }
        for sector_size in SectorSize::ALL {
            let volume = PlainVolume {
                sector_size,
                iv_large_sectors: true,
                ..PlainVolume::default()
            };
            let accepted = sector_size != SectorSize::B512;
            assert_eq!(volume.check().is_ok(), accepted, "{sector_size}");
        }
    }
}
