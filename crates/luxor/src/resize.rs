// SPDX-License-Identifier: MIT OR Apache-2.0
//! Changes the size of a volume, without its keys.
//!
//! ```text
//! growing     the file becomes longer, then the metadata say so
//! shrinking   the metadata say so, then the file becomes shorter
//! ```
//!
//! Each of the two is durable before the next begins, so that the data are never shorter than the
//! metadata say.

use std::path::Path;

use luxor_files::{DataFile, VolumePart, VolumePlace, is_same_file, locks::Access, path_name};
use luxor_luks::{LuksVersion, SegmentSize};
use luxor_sector::SectorSize;

use crate::{
    Context, Error, ErrorClass, LuksVolume, Result, error::Cause, key_scope::warn_of_key_scope,
};

/// Why the size of a volume is not changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResizeError {
    /// The volume has several data segments.
    #[error("its data consist of several parts")]
    SeveralParts,
    /// The length of the data is in a trailer.
    #[error("the length of its data is in a trailer after them, which only the key can make")]
    Trailer,
    /// The end of the data is missing.
    #[error("{source}")]
    CutOff {
        /// What is missing.
        source: Error,
        /// The recorded length of the file in the volume, and the number of its bytes that remain.
        file: Option<(u64, u64)>,
    },
    /// The end of the file in the volume is missing.
    #[error("only {left} bytes of the {length} of the file in it are left")]
    FileCutOff {
        /// The recorded length in bytes.
        length: u64,
        /// The number of bytes that remain.
        left: u64,
    },
    /// The new size does not divide into sectors.
    #[error(
        "it would hold {len} bytes: that must be a multiple of the sector size ({sector_size}), and not 0"
    )]
    PartSector {
        /// The new length in bytes.
        len: u64,
        /// The sector size.
        sector_size: SectorSize,
    },
    /// The volume would be longer than a file can be.
    #[error("{len} bytes are too many for a volume")]
    TooLong {
        /// The new length in bytes.
        len: u64,
    },
    /// The device, or the part of it that holds the volume, is shorter.
    #[error("it would end at byte {end} of {what} of {room} bytes")]
    NoRoom {
        /// The end of the volume in bytes.
        end: u64,
        /// The place of the volume, in words.
        what: &'static str,
        /// Its length in bytes.
        room: u64,
    },
    /// LUKS1 has no field for the size.
    #[error("LUKS1 data always extend to the end")]
    Luks1,
    /// The end of the data would be lost.
    #[error("its last {lost} bytes would be lost")]
    LosesData {
        /// The number of bytes.
        lost: u64,
    },
    /// Bytes of the file behind the data would be lost.
    #[error("the file has {rest} bytes after the new end, which would be lost")]
    LosesRest {
        /// The number of bytes.
        rest: u64,
    },
    /// The volume was to become shorter.
    #[error("it would become longer, and was to be made shorter")]
    Grows,
}

impl Cause for ResizeError {
    fn class(&self) -> ErrorClass {
        match self {
            Self::CutOff { source, .. } => source.class(),
            _ => ErrorClass::Failure,
        }
    }
}

/// The numbers of bytes of plaintext before and after a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resized {
    /// Before the change, as the metadata state it: fewer are there of data whose end was cut off.
    pub before: u64,
    /// Now.
    pub after: u64,
}

/// Changes the length of the plaintext to `size` bytes. Without a size the volume fills its file or
/// device, unless its metadata record the length of a file in it: that length changes only to a `size`,
/// and bytes after it are cut off. A file becomes as long as the volume needs,
/// but not if the volume is in a part of it. New sectors are not
/// written: they decrypt to noise, as in a new volume. With a `header` the metadata are there, and
/// `volume` has only the data.
///
/// # Errors
/// Fails when the volume or file would become shorter and `shrink` is false, when LUKS1, a device or
/// the sector size does not permit the size, when the length of the data is in a trailer, when the
/// data are in use or cut off, during a re-encryption, and when something cannot be read, locked or
/// written.
pub fn resize<'a>(
    volume: impl Into<VolumePlace<'a>>,
    header: Option<&Path>,
    size: Option<u64>,
    shrink: bool,
    context: &Context,
) -> Result<Resized> {
    let volume = volume.into();
    let name = path_name(volume.path);
    let refused = |error: ResizeError| Err(error.about(&name));
    let data = DataFile::open(volume, Access::Write)?;
    let header = header.filter(|header| !is_same_file(volume.path, header));
    let metadata = header.map_or(volume, VolumePlace::from);
    let mut opened = LuksVolume::open(metadata, context)?;
    if header.is_some() {
        opened = opened.with_data(data.input()?);
    }
    if shrink {
        opened.accept_cut_off();
    }
    opened.check_changeable()?;
    opened.check_data_are_no_volume(&*data.storage()?)?;
    let _no_reencryption = opened.keep_reencryptions_out()?;
    let storage_len = data.len()?;
    let recorded = opened.header.file_length();
    let before = opened.plaintext_len().map_err(|source| {
        opened.accept_cut_off();
        match opened.plaintext_len() {
            Ok(left) => {
                let file = recorded.zip(left);
                ResizeError::CutOff { source, file }.into()
            }
            Err(_) => source,
        }
    });
    let before = before?.unwrap_or(storage_len);
    let Some(segment) = opened.header.segment() else {
        return refused(ResizeError::SeveralParts);
    };
    if opened.header.has_trailer() {
        return refused(ResizeError::Trailer);
    }

    let (offset, old_size) = (segment.offset, segment.size);
    let sector_size = segment.geometry.sector_size;
    let sector = sector_size.bytes() as u64;
    if let (Some(length), None) = (recorded.filter(|&length| length > before), size) {
        let left = before;
        return refused(ResizeError::FileCutOff { length, left });
    }
    // What follows a file in a volume is no part of it.
    let after = size.or(recorded);
    let after = after.unwrap_or_else(|| storage_len.saturating_sub(offset) / sector * sector);
    if recorded.is_none() && (after == 0 || !after.is_multiple_of(sector)) {
        let len = after;
        return refused(ResizeError::PartSector { len, sector_size });
    }
    let payload = sector_size.payload_len(after);
    let end = payload.and_then(|payload| payload.checked_add(offset));
    let end = end.filter(|&end| i64::try_from(end).is_ok());
    let (Some(payload), Some(end)) = (payload, end) else {
        return refused(ResizeError::TooLong { len: after });
    };

    let is_file = data.can_set_len();
    if !is_file && end > storage_len {
        let what = match volume.part {
            VolumePart::Whole => "a device",
            _ => "a part",
        };
        let room = storage_len;
        return refused(ResizeError::NoRoom { end, what, room });
    }
    let is_luks1 = opened.header.version() == LuksVersion::Luks1;
    if !is_file && is_luks1 && end < storage_len {
        return refused(ResizeError::Luks1);
    }
    // What the metadata say of data whose end is missing.
    let stated = match (recorded, old_size) {
        (Some(length), _) => length,
        (None, SegmentSize::Fixed(size)) => size,
        (None, SegmentSize::Dynamic) => {
            let there = storage_len.saturating_sub(offset);
            there.next_multiple_of(sector)
        }
    };
    let lost = before.saturating_sub(after);
    if !shrink && lost > 0 {
        return refused(ResizeError::LosesData { lost });
    }
    if !shrink && is_file && end < storage_len {
        let rest = storage_len - end;
        return refused(ResizeError::LosesRest { rest });
    }
    if shrink && end > storage_len {
        return refused(ResizeError::Grows);
    }

    if after > before {
        warn_of_key_scope(&name, after, context);
    }
    let new_size = match old_size {
        SegmentSize::Dynamic if is_file || end == storage_len => SegmentSize::Dynamic,
        SegmentSize::Fixed(_) if size.is_none() && !is_file && end == storage_len => {
            SegmentSize::Dynamic
        }
        _ => SegmentSize::Fixed(payload),
    };
    let set_len = || {
        data.set_len(end).map_err(|error| {
            let is_done = data.len().is_ok_and(|len| len == end);
            let what = match (is_done, end < storage_len && !is_luks1) {
                (true, _) => "its length is changed, but that cannot be made durable",
                (false, false) => "cannot change its length",
                (false, true) => "its metadata are changed, but the file cannot be cut off",
            };
            Error::io(format!("{name}: {what}"), &error)
        })
    };
    // A crash after this leaves a longer file, of which the metadata use what they used before.
    if is_file && end > storage_len {
        set_len()?;
    }
    if !is_luks1 {
        let file_length = recorded.map(|_| after);
        opened.change(context, |header, storage| {
            header.set_data_size(storage, new_size, file_length)
        })?;
    }
    if is_file && end < storage_len {
        set_len()?;
    }
    Ok(Resized {
        before: stated,
        after,
    })
}
