// SPDX-License-Identifier: MIT OR Apache-2.0
//! Storage for tests that fails on demand and can lose its power. It exists only with the cargo
//! feature `faulty`, which only `[dev-dependencies]` enable.
//!
//! | to do this | use |
//! |---|---|
//! | show that an operation survives a power cut at any moment | [`PowerCuts::check`] |
//! | show that this test would detect a missing sync | the same with [`Faults::ignore_syncs`] |
//! | test code with an error, a full disk or short transfers | [`FaultyStorage::with_faults`] |
//! | see in what order something was written and synced | [`FaultyStorage::operations`] |
//! | cut the power of a storage after any history | [`FaultyStorage::cut_power`] |
//! | cut the power of several files at one moment | [`FaultyStorage::file`] |
//! | continue after a program that was killed | [`Killed::after_syncs`] |
//! | tell long images apart | [`ImageHasher`] |
//!
//! What a disk may contain after a power cut, and what it may not:
//!
//! - Everything written before the last successful sync is there. Each later write may be kept,
//!   lost or torn. Of a torn write, some 512-byte sectors are there and some are not, in any
//!   pattern. A sector itself is never torn; sectors begin at multiples of 512 bytes of the
//!   storage.
//! - A sync of one [file](FaultyStorage::file) makes only that file durable.
//! - Writes between two syncs reach the disk in any order, so an earlier one may overwrite a later
//!   one. None passes a sync.
//! - The growth of a file is a separate operation, just before the write that causes it. Without
//!   the growth, the file ends where it did, and what was written beyond is cut off. Without the
//!   write, there are zeros.
//! - What was written between the last successful sync and a failed one may be lost for good,
//!   because later syncs do not retry it. (Linux behaves like this: a page that could not be
//!   written counts as clean afterwards.) Reads still see it, as they see everything until the
//!   power is cut.
//!
//! ```
//! use luxor_sector::{Storage, faulty::{Faults, PowerCuts}};
//!
//! // The second copy is written when the first one is durable.
//! let update = |storage: &dyn Storage| -> std::io::Result<()> {
//!     for offset in [0, 1024] {
//!         storage.write_all_at(&[2; 1024], offset)?;
//!         storage.sync()?;
//!     }
//!     Ok(())
//! };
//! let cuts = PowerCuts { image: &[1; 2048], ..PowerCuts::default() };
//! let check = |after: luxor_sector::MemoryStorage, cut: &luxor_sector::faulty::Cut<'_>| {
//!     let bytes = after.into_bytes();
//!     let whole = bytes.chunks(1024).find(|copy| *copy == [1; 1024] || *copy == [2; 1024]);
//!     whole.map(|_| ()).ok_or("both copies are damaged")
//! };
//! cuts.check(|storage| update(storage).unwrap(), check)?;
//!
//! // This would be noticed:
//! let faults = Faults { ignore_syncs: true, ..Faults::default() };
//! let error = PowerCuts { faults, ..cuts }.check(|storage| update(storage).unwrap(), check);
//! assert!(error.unwrap_err().to_string().starts_with("both copies are damaged"));
//! # Ok::<(), luxor_sector::faulty::Broken>(())
//! ```

mod hasher;
mod killed;
mod power_cut;
#[cfg(test)]
mod tests;

use std::{
    fmt, io,
    num::NonZeroUsize,
    ops::Range,
    os::unix::fs::FileExt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

pub use self::{
    hasher::ImageHasher,
    killed::Killed,
    power_cut::{Broken, Cut, PowerCuts},
};

use crate::{
    MemoryStorage,
    storage::{self, Storage},
};

/// The faults of a [`FaultyStorage`], by default none.
///
/// A transfer is one system call that reads or writes. A call of [`Storage`] is one transfer,
/// unless transfers are short: it then repeats them until everything is done.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// The number of successful read transfers after which one fails with EIO.
    pub fail_read_after: Option<u64>,
    /// The number of successful write transfers after which one fails with EIO, writing nothing.
    pub fail_write_after: Option<u64>,
    /// The number of successful syncs after which one fails with EIO.
    pub fail_sync_after: Option<u64>,
    /// By how many bytes the storage can grow, holes included. A write beyond that writes what
    /// fits, then fails with [`io::ErrorKind::StorageFull`] (ENOSPC). So does every later write
    /// that would grow the storage.
    pub room: Option<u64>,
    /// The most bytes that one transfer moves.
    pub longest_transfer: Option<NonZeroUsize>,
    /// Syncs do nothing and succeed, as on a disk that lies about syncs, or in code that lacks
    /// them.
    pub ignore_syncs: bool,
}

/// Storage in memory that fails on demand, and records what a power cut may lose.
///
/// It behaves like a file, and like [`MemoryStorage`], with the same
/// [limit](MemoryStorage::MAX_LEN).
pub struct FaultyStorage {
    /// The initial content, which is durable.
    image: Vec<u8>,
    faults: Faults,
    state: Mutex<State>,
}

struct State {
    /// The bytes that reads see.
    bytes: Vec<u8>,
    operations: Vec<Operation>,
    /// The numbers of transfers and syncs so far, failed ones included.
    reads: u64,
    writes: u64,
    syncs: u64,
}

/// An operation on a [`FaultyStorage`].
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Operation {
    /// A write transfer.
    Write {
        /// The first byte written.
        offset: usize,
        /// The bytes written, at least one. With a full disk or short transfers they may be fewer
        /// than the caller asked for.
        bytes: Vec<u8>,
    },
    /// The storage grew. The [`Operation::Write`] that caused it follows.
    Growth {
        /// The length in bytes before.
        from: usize,
        /// The length in bytes after.
        to: usize,
    },
    /// A sync.
    Sync(SyncOutcome),
    /// A sync of a [file](FaultyStorage::file).
    FileSync {
        /// The bytes of the storage that are the file.
        file: Range<usize>,
        /// What the sync did with the file.
        outcome: SyncOutcome,
    },
}

/// What a sync did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncOutcome {
    /// It made everything durable, except what an earlier failed sync had given up.
    Durable,
    /// It failed.
    Failed,
    /// It succeeded without effect because of [`Faults::ignore_syncs`].
    Ignored,
}

impl FaultyStorage {
    /// Makes storage with `image` as its durable content and no faults. Its power can be cut.
    #[must_use]
    pub fn new(image: Vec<u8>) -> Self {
        Self::with_faults(image, Faults::default())
    }

    /// Makes storage with `image` as its durable content, and with `faults`.
    #[must_use]
    pub fn with_faults(image: Vec<u8>, faults: Faults) -> Self {
        let state = State {
            bytes: image.clone(),
            operations: Vec::new(),
            reads: 0,
            writes: 0,
            syncs: 0,
        };
        Self {
            image,
            faults,
            state: Mutex::new(state),
        }
    }

    /// All operations so far that left a trace: no reads, and no writes that wrote nothing.
    #[must_use]
    pub fn operations(&self) -> Vec<Operation> {
        self.lock().operations.clone()
    }

    /// The number of [operations](FaultyStorage::operations) so far. A test can record it when
    /// something is acknowledged as durable, and compare it with [`Cut::after`].
    #[must_use]
    pub fn operation_count(&self) -> usize {
        self.lock().operations.len()
    }

    /// A copy of the bytes that reads see, as if the power is never cut.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        self.lock().bytes.clone()
    }

    /// Makes a file of the bytes `range`, which must be there. Files must not overlap. All use the faults
    /// and the history of the storage, so that a power cut hits them at one moment.
    ///
    /// # Panics
    /// If the storage is shorter.
    #[must_use]
    pub fn file(self: &Arc<Self>, range: Range<usize>) -> FaultyFile {
        assert!(range.end <= self.lock().bytes.len(), "{range:?}");
        FaultyFile {
            storage: Arc::clone(self),
            range,
        }
    }

    /// Counts a sync, and records it as `operation` makes it.
    fn record_sync(&self, operation: impl FnOnce(SyncOutcome) -> Operation) -> io::Result<()> {
        let state = &mut *self.lock();
        let result = count(&mut state.syncs, self.faults.fail_sync_after);
        let outcome = match result {
            Err(_) => SyncOutcome::Failed,
            Ok(()) if self.faults.ignore_syncs => SyncOutcome::Ignored,
            Ok(()) => SyncOutcome::Durable,
        };
        state.operations.push(operation(outcome));
        result
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn shortened(&self, len: usize) -> usize {
        self.faults
            .longest_transfer
            .map_or(len, |longest| len.min(longest.get()))
    }

    /// The greatest length to which the storage can grow.
    fn max_len(&self) -> usize {
        let room = self.faults.room.unwrap_or(MemoryStorage::MAX_LEN);
        let max = (self.image.len() as u64).saturating_add(room);
        usize::try_from(max.min(MemoryStorage::MAX_LEN)).unwrap_or(usize::MAX)
    }
}

impl Storage for FaultyStorage {
    fn len(&self) -> io::Result<u64> {
        Ok(self.lock().bytes.len() as u64)
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        storage::read_exact_at(&Transfers(self), buf, offset)
    }

    fn write_all_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        storage::write_all_at(&Transfers(self), buf, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.record_sync(Operation::Sync)
    }
}

/// A file that is a part of a [`FaultyStorage`], and cannot grow. See [`FaultyStorage::file`].
#[derive(Debug)]
pub struct FaultyFile {
    storage: Arc<FaultyStorage>,
    range: Range<usize>,
}

impl FaultyFile {
    /// Returns where the bytes are in the storage.
    fn place(&self, len: usize, offset: u64) -> io::Result<u64> {
        let end = offset.checked_add(len as u64);
        match end {
            Some(end) if end <= self.range.len() as u64 => Ok(self.range.start as u64 + offset),
            _ => Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
        }
    }
}

impl Storage for FaultyFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.range.len() as u64)
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let place = self.place(buf.len(), offset)?;
        self.storage.read_exact_at(buf, place)
    }

    fn write_all_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        let place = self.place(buf.len(), offset)?;
        self.storage.write_all_at(buf, place)
    }

    fn sync(&self) -> io::Result<()> {
        let file = self.range.clone();
        self.storage
            .record_sync(|outcome| Operation::FileSync { file, outcome })
    }
}

/// Single transfers, as the system makes them. The code that repeats short ones is shared with
/// files.
struct Transfers<'a>(&'a FaultyStorage);

impl FileExt for Transfers<'_> {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let state = &mut *self.0.lock();
        count(&mut state.reads, self.0.faults.fail_read_after)?;
        let there = usize::try_from(offset)
            .ok()
            .and_then(|offset| state.bytes.get(offset..))
            .unwrap_or_default();
        let len = self.0.shortened(buf.len()).min(there.len());
        buf[..len].copy_from_slice(&there[..len]);
        Ok(len)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        let state = &mut *self.0.lock();
        count(&mut state.writes, self.0.faults.fail_write_after)?;
        let room = usize::try_from(offset)
            .ok()
            .and_then(|offset| self.0.max_len().checked_sub(offset))
            .unwrap_or(0);
        if room == 0 {
            return Err(io::Error::from_raw_os_error(ENOSPC));
        }
        let bytes = &buf[..self.0.shortened(buf.len()).min(room)];
        let offset = usize::try_from(offset).expect("the offset is below max_len");
        let (from, to) = (state.bytes.len(), offset + bytes.len());
        if to > from {
            state.operations.push(Operation::Growth { from, to });
            state.bytes.resize(to, 0);
        }
        state.bytes[offset..to].copy_from_slice(bytes);
        state.operations.push(Operation::Write {
            offset,
            bytes: bytes.to_vec(),
        });
        Ok(bytes.len())
    }
}

// These values are the same on all Unix systems.
const EIO: i32 = 5;
const ENOSPC: i32 = 28;

/// Counts one more transfer or sync, and fails if exactly `good` came before it.
fn count(so_far: &mut u64, good: Option<u64>) -> io::Result<()> {
    let before = *so_far;
    *so_far += 1;
    if good == Some(before) {
        return Err(io::Error::from_raw_os_error(EIO));
    }
    Ok(())
}

impl fmt::Debug for FaultyStorage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.lock();
        f.debug_struct("FaultyStorage")
            .field("len", &state.bytes.len())
            .field("faults", &self.faults)
            .field("operations", &state.operations)
            .finish()
    }
}

/// Writes, for example, `write of 512 bytes at 4096`.
impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Write { offset, bytes } => {
                write!(f, "write of {} bytes at {offset}", bytes.len())
            }
            Self::Growth { from, to } => write!(f, "growth from {from} to {to} bytes"),
            Self::Sync(outcome) => outcome.fmt(f),
            Self::FileSync { file, outcome } => {
                write!(f, "{outcome}, of bytes {} to {}", file.start, file.end)
            }
        }
    }
}

impl fmt::Display for SyncOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Durable => "sync",
            Self::Failed => "sync that fails",
            Self::Ignored => "sync that is ignored",
        })
    }
}

/// The same as `Display`: the written bytes would fill pages.
impl fmt::Debug for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
