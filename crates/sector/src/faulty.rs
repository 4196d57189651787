// SPDX-License-Identifier: MIT OR Apache-2.0
//! Storage that fails and whose power can be cut, for tests. It is here with the
//! cargo feature `faulty`, which only `[dev-dependencies]` switch on.
//!
//! | to do this | use |
//! |---|---|
//! | show that an operation survives a power cut at any moment | [`PowerCuts::check`] |
//! | show that this test would notice a missing sync | the same with [`Faults::ignore_syncs`] |
//! | see how code takes an error, a full disk or short transfers | [`FaultyStorage::with_faults`] |
//! | see in what order something was written and synced | [`FaultyStorage::operations`] |
//! | cut the power of a storage with a history of its own | [`FaultyStorage::cut_power`] |
//! | go on after a program that was killed | [`Killed::after_syncs`] |
//!
//! What a disk may hold after a power cut, and what it may not:
//!
//! - What was written before the last successful sync is there. Each write since
//!   may be kept, lost or torn: some of its 512-byte sectors are there and some are
//!   not, in any pattern. A sector is never torn; sectors begin at multiples of 512
//!   bytes of the storage.
//! - Writes between two syncs reach the disk in any order, so an earlier one may
//!   cover a later one. None passes a sync.
//! - A file's growth is an operation of its own, just before the write that causes
//!   it. Without it the file ends where it did, and what was written behind is cut
//!   off; without the write there are zeros.
//! - What was written between the last successful sync and a failed one may be there
//!   or not for ever: later syncs do not bring it back. (So does Linux: a page that
//!   could not be written counts as clean afterwards.) Reads see it all the same, as
//!   they see everything until the power is cut.
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

mod killed;
mod power_cut;
#[cfg(test)]
mod tests;

use std::{
    fmt, io,
    num::NonZeroUsize,
    os::unix::fs::FileExt,
    sync::{Mutex, MutexGuard, PoisonError},
};

pub use self::{
    killed::Killed,
    power_cut::{Broken, Cut, PowerCuts},
};

use crate::{
    MemoryStorage,
    storage::{self, Storage},
};

/// What goes wrong with a [`FaultyStorage`]; by default nothing.
///
/// A transfer is one read or write of the system's. A call of [`Storage`] is one
/// transfer, unless transfers are short: then it goes on until all is done.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// After so many transfers that read, one fails with EIO.
    pub fail_read_after: Option<u64>,
    /// After so many transfers that write, one fails with EIO and writes nothing.
    pub fail_write_after: Option<u64>,
    /// After so many syncs, one fails with EIO.
    pub fail_sync_after: Option<u64>,
    /// By how many bytes the storage can grow, holes included. A write that goes
    /// farther writes what there is room for, then fails with
    /// [`io::ErrorKind::StorageFull`] (ENOSPC), and so do all that grow afterwards.
    pub room: Option<u64>,
    /// The most bytes that one transfer moves.
    pub longest_transfer: Option<NonZeroUsize>,
    /// Syncs do nothing and succeed, as on a disk that lies, or in code without them.
    pub ignore_syncs: bool,
}

/// Storage in memory that remembers what a power cut may take away, and fails on
/// demand.
///
/// It behaves as a file does, and as [`MemoryStorage`], whose
/// [limit](MemoryStorage::MAX_LEN) it has too.
pub struct FaultyStorage {
    /// Durable from the beginning.
    image: Vec<u8>,
    faults: Faults,
    state: Mutex<State>,
}

struct State {
    /// What reads see.
    bytes: Vec<u8>,
    operations: Vec<Operation>,
    /// The transfers and syncs so far, failed ones included.
    reads: u64,
    writes: u64,
    syncs: u64,
}

/// What was done to a [`FaultyStorage`].
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Operation {
    /// A transfer.
    Write {
        /// Where it begins.
        offset: usize,
        /// What was written: with a full disk or short transfers not all that was
        /// to be. At least one byte.
        bytes: Vec<u8>,
    },
    /// The storage became longer. The [`Operation::Write`] that did it follows.
    Growth {
        /// The length in bytes before.
        from: usize,
        /// And after.
        to: usize,
    },
    /// A sync.
    Sync(SyncOutcome),
}

/// What a sync did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncOutcome {
    /// It made everything durable that no failed sync had given up.
    Durable,
    /// It failed.
    Failed,
    /// It succeeded and did nothing, for [`Faults::ignore_syncs`].
    Ignored,
}

impl FaultyStorage {
    /// Storage that holds `image`, durably, and has no faults. Its power can be cut.
    #[must_use]
    pub fn new(image: Vec<u8>) -> Self {
        Self::with_faults(image, Faults::default())
    }

    /// The same with `faults`.
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

    /// Everything that was done so far and left a trace: not reads, and not writes
    /// that wrote nothing.
    #[must_use]
    pub fn operations(&self) -> Vec<Operation> {
        self.lock().operations.clone()
    }

    /// How many [operations](FaultyStorage::operations) there are so far. Who notes it
    /// when something is acknowledged as durable can compare it with [`Cut::after`].
    #[must_use]
    pub fn operation_count(&self) -> usize {
        self.lock().operations.len()
    }

    /// A copy of the bytes that reads see: those that are there as long as the power
    /// is.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        self.lock().bytes.clone()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn shortened(&self, len: usize) -> usize {
        self.faults
            .longest_transfer
            .map_or(len, |longest| len.min(longest.get()))
    }

    /// The length up to which it can grow.
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
        let state = &mut *self.lock();
        let result = count(&mut state.syncs, self.faults.fail_sync_after);
        let outcome = match result {
            Err(_) => SyncOutcome::Failed,
            Ok(()) if self.faults.ignore_syncs => SyncOutcome::Ignored,
            Ok(()) => SyncOutcome::Durable,
        };
        state.operations.push(Operation::Sync(outcome));
        result
    }
}

/// Single transfers, as the system makes them. What completes short ones is the same
/// for this and for files.
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
        let offset = usize::try_from(offset).expect("there is room from there on");
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

// The same on all systems that are alike enough to have these names.
const EIO: i32 = 5;
const ENOSPC: i32 = 28;

/// Counts one more, which fails when `good` came before it.
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

/// `write of 512 bytes at 4096` and the like.
impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Write { offset, bytes } => {
                write!(f, "write of {} bytes at {offset}", bytes.len())
            }
            Self::Growth { from, to } => write!(f, "growth from {from} to {to} bytes"),
            Self::Sync(SyncOutcome::Durable) => f.write_str("sync"),
            Self::Sync(SyncOutcome::Failed) => f.write_str("sync that fails"),
            Self::Sync(SyncOutcome::Ignored) => f.write_str("sync that is ignored"),
        }
    }
}

/// As in words: what was written would fill pages.
impl fmt::Debug for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
