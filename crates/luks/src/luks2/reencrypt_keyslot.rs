// SPDX-License-Identifier: MIT OR Apache-2.0
//! The keyslot of type `reencrypt`. It holds no key, but describes a re-encryption and how it
//! survives a crash.

use luxor_volume::brief;

use super::{field::Object, metadata_error::MetadataError};

/// The kind of a re-encryption.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReencryptMode {
    /// Encrypts data that were not encrypted.
    Encrypt,
    /// Changes the key, cipher or sector size.
    Reencrypt,
    /// Decrypts the data permanently.
    Decrypt,
}

/// The direction in which a re-encryption proceeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReencryptDirection {
    /// From the first byte to the last.
    Forward,
    /// From the last byte to the first.
    Backward,
}

/// How a re-encryption survives a crash.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Resilience {
    /// It does not survive a crash.
    None,
    /// It copies the data of the hot zone first.
    Journal,
    /// It stores checksums of the hot zone first.
    Checksum {
        /// The hash of the checksums, by its name in the metadata.
        hash: String,
        /// The number of bytes that each checksum covers.
        sector_size: u32,
    },
    /// It writes at a distance from where it reads.
    DataShift {
        /// The distance in bytes.
        shift: u64,
    },
    /// Data shift together with a journal.
    DataShiftJournal {
        /// The distance in bytes.
        shift: u64,
    },
    /// Data shift together with checksums.
    DataShiftChecksum {
        /// The hash of the checksums, by its name in the metadata.
        hash: String,
        /// The number of bytes that each checksum covers.
        sector_size: u32,
        /// The distance in bytes.
        shift: u64,
    },
}

/// A keyslot of type `reencrypt`, which holds the state of a re-encryption.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReencryptKeyslot {
    /// The kind of re-encryption.
    pub mode: ReencryptMode,
    /// The direction in which it proceeds.
    pub direction: ReencryptDirection,
    /// How it survives a crash.
    pub resilience: Resilience,
    /// The offset of its area from the beginning of the storage.
    pub offset: u64,
    /// The length of the area in bytes.
    pub size: u64,
}

impl ReencryptMode {
    const ALL: [Self; 3] = [Self::Encrypt, Self::Reencrypt, Self::Decrypt];

    /// The name in the metadata.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Encrypt => "encrypt",
            Self::Reencrypt => "reencrypt",
            Self::Decrypt => "decrypt",
        }
    }
}

impl ReencryptDirection {
    const ALL: [Self; 2] = [Self::Forward, Self::Backward];

    /// The name in the metadata.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Forward => "forward",
            Self::Backward => "backward",
        }
    }
}

impl Resilience {
    /// The area's type in the metadata.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Journal => "journal",
            Self::Checksum { .. } => "checksum",
            Self::DataShift { .. } => "datashift",
            Self::DataShiftJournal { .. } => "datashift-journal",
            Self::DataShiftChecksum { .. } => "datashift-checksum",
        }
    }

    /// The hash of the checksums by its name in the metadata, and the number of bytes that each
    /// checksum covers.
    #[must_use]
    pub fn checksum(&self) -> Option<(&str, u32)> {
        match self {
            Self::Checksum { hash, sector_size }
            | Self::DataShiftChecksum {
                hash, sector_size, ..
            } => Some((hash, *sector_size)),
            _ => None,
        }
    }

    /// Returns what protects a zone that is not written at a distance.
    #[must_use]
    pub fn without_shift(&self) -> Self {
        match self.clone() {
            Self::DataShiftJournal { .. } => Self::Journal,
            Self::DataShiftChecksum {
                hash, sector_size, ..
            } => Self::Checksum { hash, sector_size },
            other => other,
        }
    }

    /// The distance of a data shift in bytes.
    #[must_use]
    pub fn shift(&self) -> Option<u64> {
        match *self {
            Self::DataShift { shift }
            | Self::DataShiftJournal { shift }
            | Self::DataShiftChecksum { shift, .. } => Some(shift),
            _ => None,
        }
    }

    fn parse(area: &Object<'_>) -> Result<Self, MetadataError> {
        let hash = || Ok(area.required("hash")?.name()?.to_owned());
        let sector_size = || {
            let field = area.required("sector_size")?;
            let place = field.place.to_string();
            let found = field.number(1..=u32::MAX)?;
            if found < 512 || !found.is_power_of_two() {
                return Err(MetadataError::ChecksumUnit { place, found });
            }
            Ok(found)
        };
        let shift = || {
            let field = area.required("shift_size")?;
            let place = field.place.to_string();
            let found = field.decimal()?;
            if found == 0 || !found.is_multiple_of(512) {
                return Err(MetadataError::Unaligned {
                    place,
                    found,
                    unit: 512,
                });
            }
            Ok(found)
        };
        let kind = area.required("type")?;
        let place = kind.place.to_string();
        Ok(match kind.text()? {
            "none" => Self::None,
            "journal" => Self::Journal,
            "checksum" => Self::Checksum {
                hash: hash()?,
                sector_size: sector_size()?,
            },
            "datashift" => Self::DataShift { shift: shift()? },
            "datashift-journal" => Self::DataShiftJournal { shift: shift()? },
            "datashift-checksum" => Self::DataShiftChecksum {
                hash: hash()?,
                sector_size: sector_size()?,
                shift: shift()?,
            },
            other => {
                return Err(MetadataError::Unsupported {
                    place,
                    what: format!("it is {}", brief(other)),
                });
            }
        })
    }
}

impl ReencryptKeyslot {
    pub(crate) fn parse(object: &Object<'_>) -> Result<Self, MetadataError> {
        // The keyslot holds no key. By convention its `key_size` is 1.
        object.required("key_size")?.number(1..=1)?;
        let mode = object.required("mode")?;
        let mode = mode.one_of(ReencryptMode::ALL.map(|mode| (mode.name(), mode)))?;
        let direction = object.required("direction")?;
        let direction = direction
            .one_of(ReencryptDirection::ALL.map(|direction| (direction.name(), direction)))?;
        let area = object.required("area")?.object()?;
        Ok(Self {
            mode,
            direction,
            resilience: Resilience::parse(&area)?,
            offset: area.required("offset")?.decimal()?,
            size: area.required("size")?.decimal()?,
        })
    }

    /// Appends this keyslot's part of the bytes that the digest of the re-encryption covers.
    pub(super) fn push_bytes(&self, out: &mut Vec<u8>) {
        out.extend(self.mode.name().as_bytes());
        out.extend(self.direction.name().as_bytes());
        out.extend(self.resilience.name().as_bytes());
        out.extend(self.offset.to_be_bytes());
        out.extend(self.size.to_be_bytes());
        if let Some((hash, sector_size)) = self.resilience.checksum() {
            out.extend(hash.as_bytes());
            out.extend(sector_size.to_be_bytes());
        }
        if let Some(shift) = self.resilience.shift() {
            out.extend(shift.to_be_bytes());
        }
    }
}
