// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes that are durable on return: the steps of every change.

use std::{io, ops::Range};

use luxor_sector::Storage;
use luxor_volume::rng;

use super::error::ChangeError;

/// Writes `bytes` at byte `offset`.
pub(crate) fn write(storage: &dyn Storage, bytes: &[u8], offset: u64) -> io::Result<()> {
    storage.write_all_at(bytes, offset)?;
    storage.sync()
}

/// Writes a keyslot's area, or a part of it, at byte `offset`.
pub(crate) fn write_area(
    storage: &dyn Storage,
    bytes: &[u8],
    offset: u64,
) -> Result<(), ChangeError> {
    write(storage, bytes, offset).map_err(|source| ChangeError::WriteArea { offset, source })
}

/// Checks that the bytes that [`write_area`] has written are still there.
///
/// # Errors
/// [`ChangeError::WrittenOver`] if they are not, and [`ChangeError::ReadArea`] if they cannot be
/// read.
pub(crate) fn check_area(
    storage: &dyn Storage,
    bytes: &[u8],
    offset: u64,
) -> Result<(), ChangeError> {
    let mut now = vec![0; bytes.len()];
    storage
        .read_exact_at(&mut now, offset)
        .map_err(|source| ChangeError::ReadArea { offset, source })?;
    if now == bytes {
        Ok(())
    } else {
        Err(ChangeError::WrittenOver)
    }
}

/// Writes `bytes` over the area of a keyslot with this number and offset, and then the metadata by
/// `commit`. Writes the old bytes back if the metadata still describe them.
///
/// # Errors
/// [`ChangeError::KeyslotLost`] if the area and the metadata may not belong together.
pub(crate) fn replace_area(
    storage: &dyn Storage,
    bytes: &[u8],
    (keyslot, offset): (u32, u64),
    commit: impl FnOnce() -> Result<(), ChangeError>,
) -> Result<(), ChangeError> {
    let mut before = vec![0; bytes.len()];
    storage
        .read_exact_at(&mut before, offset)
        .map_err(|source| ChangeError::ReadArea { offset, source })?;
    let error = match write_area(storage, bytes, offset).and_then(|()| commit()) {
        result @ (Ok(()) | Err(ChangeError::Unfinished { .. })) => return result,
        Err(error) => error,
    };
    // If the new metadata may be there, the old bytes would be wrong for them.
    let is_unknown = matches!(
        error,
        ChangeError::Unsettled { .. } | ChangeError::WrittenOver
    );
    if !is_unknown && write_area(storage, &before, offset).is_ok() {
        return Err(error);
    }
    Err(ChangeError::KeyslotLost {
        keyslot,
        error: Box::new(error),
    })
}

/// Overwrites `range` with random bytes, up to the end of the storage. The storage may end within
/// `range`, as a detached header may, and does not grow.
pub(crate) fn overwrite(storage: &dyn Storage, range: Range<u64>) -> Result<(), ChangeError> {
    let write = || -> io::Result<()> {
        let end = range.end.min(storage.len()?);
        rng::write(range.start..end, |bytes, offset| {
            storage.write_all_at(bytes, offset)
        })?;
        storage.sync()
    };
    write().map_err(|source| ChangeError::WriteArea {
        offset: range.start,
        source,
    })
}
