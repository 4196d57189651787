// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where an encryption in place puts the header in front of the data, and how an interruption while it is
//! written is recognised.

use std::{io, ops::Range, sync::Arc};

use luxor_luks::{Luks2Header, ReencryptDirection, ReencryptMode};
use luxor_sector::{MemoryStorage, Storage, Window};

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
    /// Returns the places of an encryption that puts `header` in front of the data, if one is under way.
    pub(crate) fn of(header: &Luks2Header) -> Option<Self> {
        let state = header.reencryption(0).ok()??;
        let place = Self {
            shift: state.resilience.shift()?,
            data_len: state.progress.len(),
        };
        let is_possible = state.mode == ReencryptMode::Encrypt
            && (FRONT..=MAX_HEADER.min(place.data_len)).contains(&place.shift);
        is_possible.then_some(place)
    }

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
        let mut sectors = [[0; SECTOR]; 2];
        storage.read_exact_at(&mut sectors[0], self.data_len)?;
        storage.read_exact_at(&mut sectors[1], 0)?;
        if sectors[0] != sectors[1] {
            return Ok(None);
        }
        self.copy(storage)
    }

    /// Whether the encryption was interrupted before it changed the data: it has written its header after
    /// them, and their first bytes are still where they were, too.
    pub(crate) fn is_prepared(self, storage: &dyn Storage) -> io::Result<bool> {
        let is_there = self.moved().saturating_add(self.shift) <= storage.len()?;
        Ok(is_there
            && self.copy(storage)?.is_some()
            && is_same(storage, 0..self.shift, storage, self.moved())?)
    }

    /// Returns the header after the data, if it is that of an encryption with these places which has not
    /// changed any data.
    fn copy(self, storage: &dyn Storage) -> io::Result<Option<Arc<MemoryStorage>>> {
        let mut bytes = vec![0; usize::try_from(self.shift).map_err(io::Error::other)?];
        storage.read_exact_at(&mut bytes, self.data_len)?;
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

/// Whether an encryption with its header in front of the data was interrupted after it wrote the metadata
/// there, and before it wrote the keyslots.
pub(crate) fn lacks_keyslots(storage: &dyn Storage) -> bool {
    let lacks = || -> Option<bool> {
        let place = HeaderRoom::of(&Luks2Header::read(storage).ok()?)?;
        let header = place.interrupted(storage).ok()??;
        let keyslots = FRONT..place.shift;
        Some(!is_same(storage, keyslots, &*header, FRONT).ok()?)
    };
    lacks().unwrap_or(false)
}

/// As [`interrupted_encryption`], for one that was interrupted before it changed the data. Its header is at
/// byte `offset`, after the data.
pub(crate) fn prepared_encryption(storage: &dyn Storage, offset: u64) -> Option<u64> {
    let left = storage.len().ok()?.checked_sub(offset)?;
    let window = Window::new(storage, offset, left).ok()?;
    let place = HeaderRoom::of(&Luks2Header::read(&window).ok()?)?;
    let is_prepared = place.data_len == offset && place.is_prepared(storage).ok()?;
    is_prepared.then_some(2 * place.shift)
}

/// Returns whether `range` of `storage` has the same bytes as `other` from `offset` on.
pub(crate) fn is_same(
    storage: &dyn Storage,
    range: Range<u64>,
    other: &dyn Storage,
    offset: u64,
) -> io::Result<bool> {
    const PIECE: usize = 1 << 20;
    for at in range.clone().step_by(PIECE) {
        let len = usize::try_from(range.end - at).map_or(PIECE, |left| left.min(PIECE));
        let mut pieces = [vec![0; len], vec![0; len]];
        storage.read_exact_at(&mut pieces[0], at)?;
        other.read_exact_at(&mut pieces[1], offset + (at - range.start))?;
        if pieces[0] != pieces[1] {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns the number of bytes by which an encryption with its header in front was to reduce the data, if it was
/// interrupted while it wrote the header, and no copy of the metadata is in front of the data yet. The copy of
/// the header that is not yet overwritten says so; its place depends on that number, so all of them are tried.
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
