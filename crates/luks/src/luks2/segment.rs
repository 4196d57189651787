// SPDX-License-Identifier: MIT OR Apache-2.0
//! Segments: the location and encryption of the data (LUKS2 specification, section 3.3).

use std::fmt;

use luxor_sector::{Geometry, SectorSize};
use luxor_volume::{Encryption, ExtentCipher, brief, is_cipher_null};

use super::{
    field::{Field, Object},
    foreign::Foreign,
    metadata_error::MetadataError,
};

/// A data segment of type `crypt`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Segment {
    /// The offset of the first byte of the data in the storage that holds them. 0 if the header is
    /// detached.
    pub offset: u64,
    /// The length of the segment.
    pub size: SegmentSize,
    /// The encryption of the data.
    pub encryption: Encryption,
    /// Its name in the metadata, which may be another spelling of [`Encryption::name`].
    pub encryption_name: String,
    /// The division of the data into data units.
    pub geometry: Geometry,
}

impl Segment {
    /// Returns the encryption of the segment, with the key of the digest with this number.
    pub(crate) fn cipher(&self, digest: u32) -> ExtentCipher {
        ExtentCipher {
            key: digest,
            encryption: Some(self.encryption),
            geometry: self.geometry,
        }
    }
}

/// The length of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentSize {
    /// The segment extends to the end of the storage.
    Dynamic,
    /// The segment has this many bytes.
    Fixed(u64),
}

impl fmt::Display for SegmentSize {
    /// Prints the field `size` of the metadata.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dynamic => f.write_str("dynamic"),
            Self::Fixed(size) => size.fmt(f),
        }
    }
}

impl SegmentSize {
    /// Returns whether the segment contains its byte `position`, counted from its beginning.
    pub(crate) fn reaches(self, position: u64) -> bool {
        match self {
            Self::Dynamic => true,
            Self::Fixed(size) => position < size,
        }
    }

    fn parse(field: Field<'_>) -> Result<Self, MetadataError> {
        match field.clone().text()? {
            "dynamic" => Ok(Self::Dynamic),
            _ => Ok(Self::Fixed(field.decimal()?)),
        }
    }
}

/// A segment of any type.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SegmentEntry {
    /// The role of the segment.
    pub role: SegmentRole,
    /// The contents of the segment.
    pub kind: SegmentKind,
}

/// The role of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SegmentRole {
    /// A part of the data. All parts in the order of their numbers make up the plaintext.
    Regular,
    /// A part of the data on which a re-encryption works: a hot zone.
    InReencryption,
    /// Not a part of the data. Describes all the data as they were before the re-encryption.
    BackupPrevious,
    /// Not a part of the data. Describes all the data as they will be after the re-encryption.
    BackupFinal,
    /// Not a part of the data. Describes the part that was moved to make room.
    BackupMoved,
    /// A backup segment with a flag that this version does not know. Not a part of the data.
    OtherBackup,
}

/// The contents of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SegmentKind {
    /// Encrypted data.
    Crypt(Segment),
    /// Data that are not encrypted yet, or no longer encrypted.
    Linear {
        /// The offset of the first byte, as in [`Segment::offset`].
        offset: u64,
        /// The length of the segment.
        size: SegmentSize,
    },
    /// A segment that this version does not support.
    Foreign {
        /// The offset of the first byte, as in [`Segment::offset`].
        offset: u64,
        /// The length of the segment.
        size: SegmentSize,
        /// What is not supported.
        what: Foreign,
    },
}

impl SegmentRole {
    /// The flag for this role in the metadata.
    pub(crate) const fn flag(self) -> Option<&'static str> {
        match self {
            Self::Regular | Self::OtherBackup => None,
            Self::InReencryption => Some("in-reencryption"),
            Self::BackupPrevious => Some("backup-previous"),
            Self::BackupFinal => Some("backup-final"),
            Self::BackupMoved => Some("backup-moved-segment"),
        }
    }

    const FLAGGED: [Self; 4] = [
        Self::InReencryption,
        Self::BackupPrevious,
        Self::BackupFinal,
        Self::BackupMoved,
    ];

    /// Returns whether the segment is a part of the data.
    #[must_use]
    pub const fn is_data(self) -> bool {
        matches!(self, Self::Regular | Self::InReencryption)
    }
}

impl SegmentEntry {
    /// Parses segment `number`.
    pub(crate) fn parse(number: u32, object: &Object<'_>) -> Result<Self, MetadataError> {
        let (role, unknown) = parse_flags(number, object)?;
        let offset_field = object.required("offset")?;
        let size_field = object.required("size")?;
        let places = [offset_field.place.to_string(), size_field.place.to_string()];
        let (offset, size) = (offset_field.decimal()?, SegmentSize::parse(size_field)?);
        let kind = SegmentKind::parse(object, offset, size, unknown)?;
        let mut entry = Self { role, kind };
        if !offset.is_multiple_of(UNIT) {
            let [place, _] = places;
            return Err(MetadataError::Unaligned {
                place,
                found: offset,
                unit: UNIT,
            });
        }
        if let SegmentSize::Fixed(bytes) = size {
            let unit = entry.unit();
            if bytes == 0 || !bytes.is_multiple_of(unit) {
                let [_, place] = places;
                return Err(MetadataError::Unaligned {
                    place,
                    found: bytes,
                    unit,
                });
            }
            // No storage can hold such a segment. It is shown, not refused, because cryptsetup
            // shows it too.
            if offset.checked_add(bytes).is_none() {
                let what = "offset and size together exceed 64 bits".into();
                let what = Foreign::unknown("segment", what);
                entry.kind = SegmentKind::Foreign { offset, size, what };
            }
        }
        Ok(entry)
    }

    /// The offset of the first byte, as in [`Segment::offset`].
    #[must_use]
    pub fn offset(&self) -> u64 {
        match self.kind {
            SegmentKind::Crypt(Segment { offset, .. })
            | SegmentKind::Linear { offset, .. }
            | SegmentKind::Foreign { offset, .. } => offset,
        }
    }

    /// The length of the segment.
    #[must_use]
    pub fn size(&self) -> SegmentSize {
        match self.kind {
            SegmentKind::Crypt(Segment { size, .. })
            | SegmentKind::Linear { size, .. }
            | SegmentKind::Foreign { size, .. } => size,
        }
    }

    /// The encrypted data, if the segment contains any.
    #[must_use]
    pub fn crypt(&self) -> Option<&Segment> {
        match &self.kind {
            SegmentKind::Crypt(segment) => Some(segment),
            _ => None,
        }
    }

    /// The length of the segment is a multiple of this number of bytes.
    pub(crate) fn unit(&self) -> u64 {
        self.crypt()
            .map_or(UNIT, |segment| segment.geometry.sector_size.bytes() as u64)
    }

    /// Like [`Segment::payload_len`].
    pub(crate) fn payload_len(&self, storage_len: u64) -> Result<u64, SegmentError> {
        payload_len(self.offset(), self.size(), self.unit(), storage_len)
    }
}

/// Returns the role that the flags of segment `number` give it, and a flag that this version does
/// not know, if there is one.
fn parse_flags(
    number: u32,
    object: &Object<'_>,
) -> Result<(SegmentRole, Option<Foreign>), MetadataError> {
    let mut role = SegmentRole::Regular;
    let mut unknown = None;
    let flags = object.optional("flags");
    for flag in flags.map_or(Ok(Vec::new()), Field::texts)? {
        let of_flag = SegmentRole::FLAGGED
            .into_iter()
            .find(|role| role.flag() == Some(flag));
        match (of_flag, role.flag()) {
            (Some(one), None) => role = one,
            (Some(one), Some(first)) if one != role => {
                return Err(MetadataError::SegmentFlags {
                    segment: number,
                    first,
                    second: one.flag().unwrap_or_default(),
                });
            }
            (Some(_), _) => {}
            (None, _) => {
                if flag.starts_with("backup-") && role == SegmentRole::Regular {
                    role = SegmentRole::OtherBackup;
                }
                let what = format!("it has the flag {}", brief(flag));
                unknown = Some(Foreign::unknown("segment", what));
            }
        }
    }
    Ok((role, unknown))
}

impl SegmentKind {
    /// Parses the contents of a segment. `unknown` is a flag of the segment that this version does
    /// not know.
    fn parse(
        object: &Object<'_>,
        offset: u64,
        size: SegmentSize,
        unknown: Option<Foreign>,
    ) -> Result<Self, MetadataError> {
        let foreign = |what| Self::Foreign { offset, size, what };
        let kind = object.required("type")?.name()?;
        Ok(match (kind, unknown) {
            (_, Some(what)) => foreign(what),
            ("linear", None) => Self::Linear { offset, size },
            ("crypt", None) => match Segment::parse(object, offset, size) {
                Ok(segment) => Self::Crypt(segment),
                Err(error) => foreign(Foreign::new(kind, &object.place, error)?),
            },
            _ => {
                let what = format!("it is of type {}", brief(kind));
                foreign(Foreign::unknown(kind, what))
            }
        })
    }
}

/// The unit of offsets and lengths in bytes.
const UNIT: u64 = 512;

impl Segment {
    fn parse(object: &Object<'_>, offset: u64, size: SegmentSize) -> Result<Self, MetadataError> {
        let encryption = object.required("encryption")?;
        let encryption_place = encryption.place.to_string();
        let name = encryption.name()?;
        // Checked first, so that a null cipher is reported rather than an unknown field.
        if is_cipher_null(name) {
            return Err(MetadataError::CipherNull {
                place: encryption_place,
            });
        }
        // Check each field's rule before any field is reported as unknown.
        let sector_field = object.required("sector_size")?;
        let sector_place = sector_field.place.to_string();
        let sector_bytes = sector_field.number(1..=u32::MAX)?;
        if u64::from(sector_bytes) % UNIT != 0 {
            return Err(MetadataError::SectorSize {
                place: sector_place,
                found: sector_bytes,
            });
        }
        let iv_offset = object.required("iv_tweak")?.decimal()?;
        if let Some(integrity) = object.optional("integrity") {
            integrity.object()?;
            return Err(MetadataError::Unsupported {
                place: object.place.to_string(),
                what: "it has integrity tags".into(),
            });
        }
        let encryption_name = name.to_owned();
        let Some(encryption) = Encryption::by_name(name) else {
            return Err(MetadataError::Unsupported {
                place: encryption_place,
                what: format!(
                    "it is {}, none of {}",
                    brief(name),
                    Encryption::ALL.map(Encryption::name).join(", ")
                ),
            });
        };

        let Ok(sector_size) = SectorSize::try_from(sector_bytes) else {
            // cryptsetup too refuses only to open the data of such a volume.
            return Err(MetadataError::Unsupported {
                place: sector_place,
                what: format!("it is {sector_bytes}, none of 512, 1024, 2048 and 4096"),
            });
        };
        let geometry = Geometry {
            sector_size,
            iv_mode: encryption.iv_mode(),
            iv_offset,
            iv_large_sectors: false,
        };
        Ok(Self {
            offset,
            size,
            encryption,
            encryption_name,
            geometry,
        })
    }

    /// The length of the data in bytes, if the storage has `storage_len` bytes.
    ///
    /// # Errors
    /// [`SegmentError`]: the storage is too short, or does not end with a whole sector.
    pub fn payload_len(&self, storage_len: u64) -> Result<u64, SegmentError> {
        let sector = self.geometry.sector_size.bytes() as u64;
        payload_len(self.offset, self.size, sector, storage_len)
    }
}

fn payload_len(
    offset: u64,
    size: SegmentSize,
    sector: u64,
    storage_len: u64,
) -> Result<u64, SegmentError> {
    let no_data = SegmentError::NoData {
        offset,
        storage_len,
    };
    let Some(there) = storage_len.checked_sub(offset) else {
        return Err(no_data);
    };
    match size {
        SegmentSize::Fixed(size) if size <= there => Ok(size),
        SegmentSize::Fixed(size) => Err(SegmentError::CutOff { size, there }),
        SegmentSize::Dynamic if there == 0 => Err(no_data),
        SegmentSize::Dynamic if there.is_multiple_of(sector) => Ok(there),
        SegmentSize::Dynamic => Err(SegmentError::PartSector { there, sector }),
    }
}

/// Why the data of a segment cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SegmentError {
    /// The storage ends before the first sector does.
    #[error(
        "the encrypted data begin at byte {offset}, and there are {storage_len} bytes: is the \
         file cut off?"
    )]
    NoData {
        /// The offset of the data in bytes.
        offset: u64,
        /// The length of the storage in bytes.
        storage_len: u64,
    },
    /// The storage ends before the segment does.
    #[error("the encrypted data have {there} of {size} bytes: is the file cut off?")]
    CutOff {
        /// The length of the segment in bytes.
        size: u64,
        /// The bytes of it that the storage holds.
        there: u64,
    },
    /// The last sector is not whole.
    #[error(
        "the encrypted data have {there} bytes, which is not a multiple of the sector size \
         ({sector}): is the file cut off?"
    )]
    PartSector {
        /// The bytes of the segment that the storage holds.
        there: u64,
        /// The sector size in bytes.
        sector: u64,
    },
    /// A re-encryption was interrupted in this segment.
    #[error("segment {segment}: this part may be partly old and partly new")]
    HotZone {
        /// The segment.
        segment: u32,
    },
    /// A re-encryption was interrupted in this segment, and nothing shows what was changed.
    #[error(
        "segment {segment}: this part may be partly old and partly new. Nothing protects it (resilience none), \
         so no program can finish it after a crash: restore the volume from a backup, unless another program \
         is re-encrypting it now"
    )]
    UnprotectedZone {
        /// The segment.
        segment: u32,
    },
    /// A re-encryption was interrupted in this segment, and nothing shows whether its end was changed.
    #[error(
        "segment {segment}: this part may be partly old and partly new. cryptsetup stored no checksum of \
         its last {rest} bytes, so no program can finish it: restore the volume from a backup"
    )]
    HotZoneEnd {
        /// The segment.
        segment: u32,
        /// The number of bytes without a checksum.
        rest: u64,
    },
    /// The data of a LUKS1 volume have an encryption that this version does not support.
    #[error("{what}")]
    Unsupported {
        /// What is not supported, in words.
        what: String,
    },
    /// The segment is valid, but this version does not support it.
    #[error("segment {segment}: {what}, which this version does not open")]
    Foreign {
        /// The segment.
        segment: u32,
        /// What is not supported, in words.
        what: String,
    },
    /// A token says where the file in the volume ends, and this version does not support it.
    #[error("token {token} (luxor-file), which says where the data end, is not supported: {what}")]
    FileEnd {
        /// The token.
        token: u32,
        /// What is not supported, in words.
        what: String,
    },
}

impl SegmentError {
    /// Whether the end of the data is missing.
    #[must_use]
    pub fn is_cut_off(&self) -> bool {
        matches!(
            self,
            Self::NoData { .. } | Self::CutOff { .. } | Self::PartSector { .. }
        )
    }

    /// Whether the re-encryption that was interrupted in this segment, if that is the error, can be finished
    /// after a crash.
    #[must_use]
    pub fn can_be_finished(&self) -> bool {
        !matches!(self, Self::UnprotectedZone { .. } | Self::HotZoneEnd { .. })
    }
}

#[cfg(test)]
mod tests {
    use luxor_sector::IvMode;

    use super::*;

    #[test]
    fn the_payload_is_whole_sectors_to_the_end() {
        let geometry = Geometry {
            sector_size: SectorSize::B4096,
            iv_mode: IvMode::Plain64,
            iv_offset: 0,
            iv_large_sectors: false,
        };
        let mut segment = Segment {
            offset: 1 << 24,
            size: SegmentSize::Dynamic,
            encryption: Encryption::AesXtsPlain64,
            encryption_name: "aes-xts-plain64".into(),
            geometry,
        };
        assert_eq!(segment.payload_len((1 << 24) + 8192), Ok(8192));
        for len in [0, (1 << 24) - 1, 1 << 24] {
            assert!(
                matches!(segment.payload_len(len), Err(SegmentError::NoData { .. })),
                "{len}"
            );
        }
        let part = segment.payload_len((1 << 24) + 4097);
        assert_eq!(
            part,
            Err(SegmentError::PartSector {
                there: 4097,
                sector: 4096
            })
        );

        segment.size = SegmentSize::Fixed(4096);
        assert_eq!(segment.payload_len((1 << 24) + 5000), Ok(4096));
        let cut = segment.payload_len((1 << 24) + 4095);
        assert_eq!(
            cut,
            Err(SegmentError::CutOff {
                size: 4096,
                there: 4095
            })
        );
    }
}
