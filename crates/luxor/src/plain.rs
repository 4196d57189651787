// SPDX-License-Identifier: MIT OR Apache-2.0
//! Plain volumes: encrypted data with no header, as `cryptsetup open --type plain` maps them. The
//! caller supplies what a header would contain, and the secret is the key itself.

use std::collections::BTreeMap;

use luxor_secret::SecretBytes;
use luxor_sector::{Geometry, SectorSize};
use luxor_volume::{Encryption, Extent, ExtentCipher, Plaintext, VolumeKey};

use crate::{Error, Result};

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
    /// The defaults of cryptsetup for aes-xts-plain64: a key of 256 bits, sectors of 512 bytes.
    fn default() -> Self {
        Self {
            encryption: Encryption::AesXtsPlain64,
            key_bits: 256,
            offset: 0,
            size: None,
            skip: 0,
            sector_size: SectorSize::B512,
            iv_large_sectors: false,
        }
    }
}

impl PlainVolume {
    /// Checks the values against dm-crypt's rules. The encryption has keys of `key_bits`. The
    /// offset, the size and `skip` are whole numbers of sectors. The size is not 0. Offset and size
    /// are below 8 EiB. `iv_large_sectors` needs sectors of more than 512 bytes.
    ///
    /// # Errors
    /// Fails with a message that names the value that breaks a rule.
    pub fn check(&self) -> Result<()> {
        let [short, long] = self.encryption.key_lens().map(|bytes| 8 * bytes);
        if ![short, long].contains(&self.key_bits) {
            return Err(Error::failure(format!(
                "{} has keys of {short} and {long} bits, not of {}",
                self.encryption.name(),
                self.key_bits
            )));
        }
        if self.iv_large_sectors && self.sector_size == SectorSize::B512 {
            return Err(Error::failure(
                "large sectors for IVs need a sector size above 512",
            ));
        }
        if self.size == Some(0) {
            return Err(Error::failure("size 0: there would be no data"));
        }
        let counts = [
            ("skip", self.skip),
            ("offset", self.offset),
            ("size", self.size.unwrap_or_default()),
        ];
        for (name, units) in counts {
            if !units.is_multiple_of(self.sector_size.units()) {
                return Err(Error::failure(format!(
                    "{name} {units} is not a whole number of sectors of {} bytes",
                    self.sector_size
                ))
                .hint(format!(
                    "The unit is 512 bytes: give a multiple of {}.",
                    self.sector_size.units()
                )));
            }
        }
        for (name, units) in &counts[1..] {
            let bytes = units.checked_mul(UNIT);
            if bytes.is_none_or(|bytes| i64::try_from(bytes).is_err()) {
                let message = format!("{name} {units} is 8 EiB or more");
                return Err(Error::failure(message));
            }
        }
        Ok(())
    }

    /// The length of the key in bytes.
    #[must_use]
    pub fn key_len(&self) -> usize {
        self.key_bits as usize / 8
    }

    /// Returns the one extent of the plaintext, in a storage of `storage_len` bytes, which messages
    /// call `name`.
    ///
    /// # Errors
    /// Those of [`PlainVolume::check`]. Also fails when the data do not fit into the storage, or,
    /// without a size, when the rest of the storage is not a whole number of sectors or is empty.
    pub fn extent(&self, storage_len: u64, name: &str) -> Result<Extent> {
        self.check()?;
        let offset = self.offset * UNIT;
        let there = storage_len.saturating_sub(offset);
        let sector = self.sector_size.bytes() as u64;
        let whole = there - there % sector;
        let len =
            match self.size.map(|units| units * UNIT) {
                Some(size) if size <= there => size,
                Some(size) => {
                    return Err(Error::failure(format!(
                        "{name} has {storage_len} bytes, and the offset and the size need {}",
                        u128::from(offset) + u128::from(size)
                    )));
                }
                None if whole == 0 => {
                    return Err(Error::failure(format!(
                        "{name} has {storage_len} bytes, and the data would begin at byte {offset}"
                    )));
                }
                None if whole < there => {
                    return Err(Error::failure(format!(
                    "{name}: the data have {there} bytes, which is not a whole number of sectors \
                     of {sector} bytes"
                ))
                .hint(format!("To leave the rest out, set the size to {}.", whole / UNIT)));
                }
                None => there,
            };
        let geometry = Geometry {
            sector_size: self.sector_size,
            iv_mode: self.encryption.iv_mode(),
            iv_offset: self.skip,
            iv_large_sectors: self.iv_large_sectors,
        };
        let cipher = ExtentCipher {
            key: 0,
            encryption: self.encryption,
            geometry,
        };
        Ok(Extent {
            offset,
            len,
            cipher: Some(cipher),
        })
    }

    /// Returns the plaintext in `extent` (from [`PlainVolume::extent`]) with its key, which is the
    /// secret itself, not a passphrase. Whether it is the right key cannot be checked.
    ///
    /// # Errors
    /// Fails when `key` does not have [`PlainVolume::key_len`] bytes, and when the halves of an XTS
    /// key are equal and `allow_weak_key` is not set.
    pub fn plaintext(
        &self,
        extent: Extent,
        key: SecretBytes,
        allow_weak_key: bool,
    ) -> Result<Plaintext> {
        if key.len() != self.key_len() {
            let (found, needed) = (key.len(), self.key_len());
            let message = format!("the key has {found} bytes; it must have {needed}");
            return Err(Error::failure(message));
        }
        let key = VolumeKey::new(key, self.encryption, allow_weak_key)
            .map_err(|error| Error::failure(format!("the key file: {error}")))?;
        Ok(Plaintext {
            extents: vec![extent],
            len: None,
            keys: BTreeMap::from([(0, key)]),
        })
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
            let found = volume.extent(storage, "x").ok();
            let shown = format!("{offset} {size:?} {storage}");
            assert_eq!(found.as_ref().map(|extent| extent.len), expected, "{shown}");
            if let Some(extent) = found {
                assert_eq!(extent.offset, 512 * offset, "{shown}");
                let geometry = extent.cipher.unwrap().geometry;
                assert_eq!(geometry.iv_offset, 16);
                assert_eq!(geometry.sector_size, SectorSize::B4096);
            }
        }
        let error = volume(0, None).extent(10_000, "x").unwrap_err();
        assert!(
            error.hint_text().unwrap().ends_with("the size to 16."),
            "{error}"
        );
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
