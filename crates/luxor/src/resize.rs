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

use crate::{Context, Error, LuksVolume, Result, key_scope::warn_of_key_scope};

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
    let refused = |text: String| Error::failure(format!("{name}: {text}"));
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
    let _no_reencryption = opened.keep_reencryptions_out()?;
    let storage_len = data.len()?;
    let recorded = opened.header.file_length();
    let before = opened.plaintext_len().map_err(|error| {
        opened.accept_cut_off();
        match (opened.plaintext_len(), recorded) {
            (Ok(Some(left)), Some(length)) => error.hint(shorten(length, left)),
            (Ok(_), _) => error.hint("--shrink makes the volume as long as what is left of it."),
            (Err(_), _) => error,
        }
    });
    let before = before?.unwrap_or(storage_len);
    let Some(segment) = opened.header.segment() else {
        return Err(refused("its data consist of several parts".to_owned()));
    };
    if opened.header.has_trailer() {
        let text = "the length of its data is in a trailer after them, which only the key can make";
        return Err(refused(text.to_owned()).hint("Decrypt it, and encrypt the file again."));
    }

    let (offset, old_size) = (segment.offset, segment.size);
    let sector_size = segment.geometry.sector_size;
    let sector = sector_size.bytes() as u64;
    if let (Some(length), None) = (recorded.filter(|&length| length > before), size) {
        let text = format!("only {before} bytes of the {length} of the file in it are left");
        return Err(refused(text).hint(shorten(length, before)));
    }
    // What follows a file in a volume is no part of it.
    let after = size.or(recorded);
    let after = after.unwrap_or_else(|| storage_len.saturating_sub(offset) / sector * sector);
    if recorded.is_none() && (after == 0 || !after.is_multiple_of(sector)) {
        return Err(refused(format!(
            "it would hold {after} bytes: that must be a multiple of the sector size ({sector}), \
             and not 0"
        )));
    }
    let payload = sector_size.payload_len(after);
    let end = payload.and_then(|payload| payload.checked_add(offset));
    let end = end.filter(|&end| i64::try_from(end).is_ok());
    let (Some(payload), Some(end)) = (payload, end) else {
        return Err(refused(format!("{after} bytes are too many for a volume")));
    };

    let is_file = data.can_set_len();
    if !is_file && end > storage_len {
        let what = match volume.part {
            VolumePart::Whole => "a device",
            _ => "a part",
        };
        return Err(refused(format!(
            "it would end at byte {end} of {what} of {storage_len} bytes"
        )));
    }
    let is_luks1 = opened.header.version() == LuksVersion::Luks1;
    if !is_file && is_luks1 && end < storage_len {
        return Err(refused("LUKS1 data always extend to the end".to_owned()));
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
        let text = format!("its last {lost} bytes would be lost");
        return Err(refused(text).hint("--shrink makes it shorter nevertheless."));
    }
    if !shrink && is_file && end < storage_len {
        let rest = storage_len - end;
        let text = format!("the file has {rest} bytes after the new end, which would be lost");
        return Err(refused(text).hint("--shrink makes the file shorter nevertheless."));
    }
    if shrink && end > storage_len {
        let text = "it would become longer, and --shrink was given";
        return Err(refused(text.to_owned()));
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

/// How to make a file of `length` bytes, of which only the first `left` are there, shorter.
fn shorten(length: u64, left: u64) -> String {
    format!(
        "To lose the other {} bytes, add --shrink --size {left}.",
        length - left
    )
}
