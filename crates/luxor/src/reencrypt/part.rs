// SPDX-License-Identifier: MIT OR Apache-2.0
//! The first part of the data, where only that is changed.

use std::path::Path;

use luxor_files::{DataFile, VolumePlace, is_same_file, locks::Access, path_name};
use luxor_luks::{DataEnd, ReencryptionState, SegmentSize};
use luxor_sector::SectorSize;

use super::{PartError, ReencryptError, ReencryptOptions, is_plain};
use crate::{Context, LuksMetadata, Result, error::Cause};

/// Returns how many bytes of the data come after the first `size` bytes, and are lost when only these are
/// re-encrypted. `volume` may have plain data, and its `header` need not exist yet.
///
/// # Errors
/// Fails when the volume or its header cannot be read, when the volume is in use, and when this size is not
/// possible.
pub fn data_beyond<'a>(
    volume: impl Into<VolumePlace<'a>>,
    header: Option<&Path>,
    size: u64,
    context: &Context,
) -> Result<u64> {
    let volume = volume.into();
    let only = ReencryptOptions {
        device_size: Some(size),
        ..ReencryptOptions::default()
    };
    let data = DataFile::open(volume, Access::Read)?;
    let header = header.filter(|header| header.exists() && !is_same_file(volume.path, header));
    let metadata = match header {
        Some(header) => Some(DataFile::open(header, Access::Read)?),
        None => None,
    };
    let input = || metadata.as_ref().unwrap_or(&data).input();
    let name = path_name(volume.path);
    let failed = |error: ReencryptError| error.about(&name);
    let storage_len = data.len()?;
    // A header that is half written is neither.
    if !matches!(LuksMetadata::version(input()?, context), Ok(Some(_))) {
        let checked = check_part(
            &only,
            storage_len,
            SectorSize::B512,
            SegmentSize::Dynamic,
            None,
        );
        return Ok(checked
            .map_err(failed)?
            .map_or(0, |part| storage_len - part));
    }
    let LuksMetadata { header, .. } = LuksMetadata::read_input(input()?, None, context)?;
    let Some(luks2) = header.luks2().filter(|_| !is_plain(&header)) else {
        return Ok(0);
    };
    let len = luks2.data_len(storage_len);
    let len = len.map_err(|error| error.about(&name))?;
    let state = luks2.reencryption(len);
    let state = state.map_err(|error| error.about(&name))?;
    if let Some(state) = state {
        return Ok(state.progress.len().saturating_sub(size));
    }
    let Some(segment) = header.segment() else {
        return Ok(0);
    };
    let checked = check_part(
        &only,
        len,
        segment.geometry.sector_size,
        segment.size,
        header.file_length(),
    );
    Ok(checked.map_err(failed)?.map_or(0, |part| len - part))
}

/// Checks that the first part of the data can be changed alone, and that no more is lost than the
/// options permit. Returns the length of the part, or `None` for all. The data have `data_len` bytes, sectors of `unit`, `size` in the metadata, and a file of `file_length`.
pub(super) fn check_part(
    options: &ReencryptOptions,
    data_len: u64,
    unit: SectorSize,
    size: SegmentSize,
    file_length: Option<u64>,
) -> Result<Option<u64>, ReencryptError> {
    let part = options.device_size;
    let Some(part) = part.filter(|part| *part != data_len) else {
        return Ok(None);
    };
    let is_whole = part > 0 && part.is_multiple_of(unit.bytes() as u64);
    let why = if !is_whole {
        PartError::PartSector { unit }
    } else if part > data_len {
        PartError::TooLong { len: data_len }
    } else if let Some(len) = file_length.filter(|len| *len > part) {
        PartError::CutsFile { len }
    } else if size != SegmentSize::Dynamic {
        PartError::FixedLength
    } else if let Some(permitted) = options.most_lost.filter(|most| data_len - part > *most) {
        // The data became longer while the user was asked.
        let lost = data_len - part;
        return Err(ReencryptError::LosesMore {
            lost,
            part,
            permitted,
        });
    } else {
        return Ok(Some(part));
    };
    Err(ReencryptError::Part { part, why })
}

/// Warns if a re-encryption was begun with only the first part of the `data_len` bytes of data.
pub(super) fn warn_of_rest(
    state: &ReencryptionState,
    data_len: u64,
    name: &str,
    context: &Context,
) {
    let (len, done) = (state.progress.len(), state.progress.done());
    if done < len && len < data_len && state.resilience.shift().is_none() {
        let rest = data_len - len;
        context.events.warning(&format!(
            "{name}: it has begun with only {len} bytes of the data, and the other {rest} are lost"
        ));
    }
}

/// Returns whether a re-encryption that has begun may do only the first `size` bytes.
pub(super) fn may_end_at(state: &ReencryptionState, size: u64) -> bool {
    let len = state.progress.len();
    match state.end {
        DataEnd::At(end) => size == end,
        DataEnd::After(_) if state.resilience.shift().is_some() => size == len,
        DataEnd::After(begin) => begin < size && size <= len,
    }
}
