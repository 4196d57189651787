// SPDX-License-Identifier: MIT OR Apache-2.0
//! The keyslot of type `reencrypt`: it holds no key, but what a re-encryption does and how
//! it survives a crash.

use luxor_volume::brief;

use super::{field::Object, metadata_error::MetadataError};

/// What a re-encryption does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReencryptMode {
    /// Encrypts what was not.
    Encrypt,
    /// Encrypts otherwise: with another key, cipher or sector size.
    Reencrypt,
    /// Decrypts for good.
    Decrypt,
}

/// From where it goes to where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReencryptDirection {
    /// From the first byte to the last.
    Forward,
    /// From the last byte to the first.
    Backward,
}

/// How it survives a crash.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Resilience {
    /// Not at all.
    None,
    /// By a copy of what it works on.
    Journal,
    /// By checksums of what it works on.
    Checksum {
        /// The checksums' hash, by its name in the metadata.
        hash: String,
        /// The bytes that each of them is of.
        sector_size: u32,
    },
    /// By a gap between what is read and what is written.
    DataShift {
        /// The gap, in bytes.
        shift: u64,
    },
    /// By both.
    DataShiftJournal {
        /// The gap, in bytes.
        shift: u64,
    },
    /// By both.
    DataShiftChecksum {
        /// The checksums' hash, by its name in the metadata.
        hash: String,
        /// The bytes that each of them is of.
        sector_size: u32,
        /// The gap, in bytes.
        shift: u64,
    },
}

/// A keyslot of type `reencrypt`: no key, but the state of a re-encryption.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReencryptKeyslot {
    /// What is done.
    pub mode: ReencryptMode,
    /// From where to where.
    pub direction: ReencryptDirection,
    /// How it survives a crash.
    pub resilience: Resilience,
    /// The first byte of its area, counted from the storage's beginning.
    pub offset: u64,
    /// The area's length in bytes.
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

    /// The hash of its checksums by its name in the metadata, and how many bytes each is
    /// of.
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

    /// Its gap, in bytes.
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
        // It holds no key, and says so by the least length that a keyslot can have.
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

    /// Its part of what the digest of the re-encryption covers.
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
