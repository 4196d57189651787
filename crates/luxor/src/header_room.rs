// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where an encryption in place puts the header in front of the data, and how an interruption while it is
//! written is recognised.

use std::{io, sync::Arc};

use luxor_luks::{Luks2Header, ReencryptDirection, ReencryptMode};
use luxor_sector::{MemoryStorage, Storage};

/// What a disk writes whole or not at all, in bytes.
pub(crate) const SECTOR: usize = 512;
/// The length of a header is a multiple of this number of bytes.
pub(crate) const PAGE: u64 = 4096;
/// The length of both copies of the metadata in bytes.
pub(crate) const FRONT: u64 = 2 * (16 << 10);
/// The longest header of this kind, in bytes.
pub(crate) const MAX_HEADER: u64 = (128 << 20) + FRONT;

/// Where the header and the first bytes of the data go.
#[derive(Clone, Copy)]
pub(crate) struct HeaderRoom {
    /// The length of the header, and the distance by which the data are moved, in bytes.
    pub shift: u64,
    /// The length of the data in bytes. Twice the shift is free after them.
    pub data_len: u64,
}

impl HeaderRoom {
    /// Where the first bytes of the data go.
    pub(crate) fn moved(self) -> u64 {
        self.data_len.saturating_add(self.shift)
    }

    /// Returns the header that the encryption has written after the data, if the storage begins with
    /// it and no data have changed. Its keyslots may be missing at the beginning.
    pub(crate) fn interrupted(
        self,
        storage: &dyn Storage,
    ) -> io::Result<Option<Arc<MemoryStorage>>> {
        let mut bytes = vec![0; usize::try_from(self.shift).map_err(io::Error::other)?];
        storage.read_exact_at(&mut bytes, self.data_len)?;
        let mut front = [0; SECTOR];
        storage.read_exact_at(&mut front, 0)?;
        if bytes[..SECTOR] != front {
            return Ok(None);
        }
        let header = MemoryStorage::new(bytes);
        let state = Luks2Header::read(&header).ok();
        let state = state.and_then(|luks2| luks2.reencryption(self.data_len).ok().flatten());
        let is_of_this = state.is_some_and(|state| {
            let moved = state.moved.map(|(moved, _)| moved.offset);
            (state.mode, state.direction) == (ReencryptMode::Encrypt, ReencryptDirection::Backward)
                && (state.old.offset, state.new.offset) == (0, self.shift)
                && state.progress.len() == self.data_len
                && state.progress.done() == 0
                && moved == Some(self.moved())
        });
        Ok(is_of_this.then(|| Arc::new(header)))
    }
}

/// Returns the number of bytes by which an encryption with its header in front was to reduce the data, if it was
/// interrupted while it wrote the header. The copy of the header that is not yet overwritten says so; its place
/// depends on that number, so all of them are tried.
pub(crate) fn interrupted_encryption(storage: &dyn Storage) -> Option<u64> {
    let len = storage.len().ok()?;
    let mut front = [0; SECTOR];
    storage.read_exact_at(&mut front, 0).ok()?;
    if !front.starts_with(b"LUKS") {
        return None;
    }
    // In the order of their offsets, which is faster on a rotating disk.
    let last = MAX_HEADER.min(len / 3) / PAGE;
    (FRONT / PAGE..=last)
        .rev()
        .map(|pages| pages * PAGE)
        .find_map(|shift| {
            let data_len = len - 2 * shift;
            let mut copy = [0; SECTOR];
            storage.read_exact_at(&mut copy, data_len).ok()?;
            let place = HeaderRoom { shift, data_len };
            let header = (copy == front).then(|| place.interrupted(storage));
            header?.ok()?.map(|_| 2 * shift)
        })
}
