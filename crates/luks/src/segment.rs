// SPDX-License-Identifier: MIT OR Apache-2.0
//! Segments: where the encrypted data is (LUKS2 specification, section 3.3).

use luxor_sector::{Geometry, SectorSize};

use crate::{
    cipher::Encryption,
    field::Object,
    json::brief,
    metadata::{MetadataError, is_cipher_null},
};

/// The data segment: of type `crypt`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Segment {
    /// The first byte of the data, counted from the beginning of the storage that
    /// has it. 0 when the header is detached.
    pub offset: u64,
    /// How far it goes.
    pub size: SegmentSize,
    /// How it is encrypted.
    pub encryption: Encryption,
    /// How its bytes become data units.
    pub geometry: Geometry,
}

/// How far a segment goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentSize {
    /// To the storage's end.
    Dynamic,
    /// So many bytes.
    Fixed(u64),
}

impl Segment {
    pub(crate) fn parse(object: &Object<'_>) -> Result<Self, MetadataError> {
        let unsupported = |what: String| MetadataError::Unsupported {
            place: object.place.to_string(),
            what,
        };
        let kind = object.required("type")?.text()?;
        if kind != "crypt" {
            return Err(unsupported(format!("it is of type {}", brief(kind))));
        }
        if object.optional("integrity").is_some() {
            return Err(unsupported("it has integrity tags".into()));
        }
        if let Some(flags) = object.optional("flags")
            && let Some(flag) = flags.texts()?.first()
        {
            return Err(unsupported(format!("it has the flag {}", brief(flag))));
        }

        let offset_field = object.required("offset")?;
        let offset_place = offset_field.place.to_string();
        let offset = offset_field.decimal()?;
        if !offset.is_multiple_of(512) {
            return Err(MetadataError::Unaligned {
                place: offset_place,
                found: offset,
                unit: 512,
            });
        }

        let encryption = object.required("encryption")?;
        let encryption_place = encryption.place.to_string();
        let encryption = encryption.text()?;
        if is_cipher_null(encryption) {
            return Err(MetadataError::CipherNull {
                place: encryption_place,
            });
        }
        let expected = Encryption::AesXtsPlain64;
        if encryption != expected.name() {
            return Err(MetadataError::Unsupported {
                place: encryption_place,
                what: format!("it is {}, not {}", brief(encryption), expected.name()),
            });
        }
        let encryption = expected;

        let sector_field = object.required("sector_size")?;
        let sector_place = sector_field.place.to_string();
        let sector_bytes = sector_field.number(1..=u32::MAX)?;
        let sector_size =
            SectorSize::try_from(sector_bytes).map_err(|_| MetadataError::SectorSize {
                place: sector_place,
                found: sector_bytes,
            })?;

        let size_field = object.required("size")?;
        let size_place = size_field.place.to_string();
        let size = match size_field.clone().text()? {
            "dynamic" => SegmentSize::Dynamic,
            _ => SegmentSize::Fixed(size_field.decimal()?),
        };
        if let SegmentSize::Fixed(bytes) = size {
            if bytes == 0 || !bytes.is_multiple_of(sector_bytes.into()) {
                return Err(MetadataError::Unaligned {
                    place: size_place,
                    found: bytes,
                    unit: sector_bytes.into(),
                });
            }
            if offset.checked_add(bytes).is_none() {
                return Err(MetadataError::Wraps {
                    place: object.place.to_string(),
                });
            }
        }

        let iv_offset = object.required("iv_tweak")?.decimal()?;
        let geometry = Geometry {
            sector_size,
            iv_mode: encryption.iv_mode(),
            iv_offset,
        };
        Ok(Self {
            offset,
            size,
            encryption,
            geometry,
        })
    }

    /// The length of the data in bytes, in a storage of `storage_len` bytes.
    ///
    /// # Errors
    /// [`SegmentError`] when the storage is too short, or does not end with a
    /// whole sector.
    pub fn payload_len(&self, storage_len: u64) -> Result<u64, SegmentError> {
        let sector = self.geometry.sector_size.bytes() as u64;
        let there = storage_len
            .checked_sub(self.offset)
            .ok_or(SegmentError::NoData {
                offset: self.offset,
                storage_len,
            })?;
        match self.size {
            SegmentSize::Fixed(size) if size <= there => Ok(size),
            SegmentSize::Fixed(size) => Err(SegmentError::CutOff { size, there }),
            SegmentSize::Dynamic if there == 0 => Err(SegmentError::NoData {
                offset: self.offset,
                storage_len,
            }),
            SegmentSize::Dynamic if there.is_multiple_of(sector) => Ok(there),
            SegmentSize::Dynamic => Err(SegmentError::PartSector { there, sector }),
        }
    }
}

/// Why a storage cannot hold the segment's data.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SegmentError {
    /// The storage ends before the first sector.
    #[error(
        "the encrypted data begins at byte {offset}, and there are {storage_len} bytes: is the \
         file cut off?"
    )]
    NoData {
        /// Where the data begins, in bytes.
        offset: u64,
        /// The storage's length in bytes.
        storage_len: u64,
    },
    /// Less data than the metadata says.
    #[error("the encrypted data has {there} of {size} bytes: is the file cut off?")]
    CutOff {
        /// The segment's length in bytes.
        size: u64,
        /// The bytes that are there.
        there: u64,
    },
    /// The last sector is not whole.
    #[error(
        "the encrypted data has {there} bytes, which is no multiple of the sector size ({sector}): \
         is the file cut off?"
    )]
    PartSector {
        /// The bytes that are there.
        there: u64,
        /// The sector size in bytes.
        sector: u64,
    },
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
        };
        let mut segment = Segment {
            offset: 1 << 24,
            size: SegmentSize::Dynamic,
            encryption: Encryption::AesXtsPlain64,
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
