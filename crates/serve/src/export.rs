// SPDX-License-Identifier: MIT OR Apache-2.0
//! A disk that is offered to other programs, and what all its frontends share.

use std::{
    fmt, io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use luxor_sector::{Buffers, Disk};

use crate::{frontend::ServeError, memory_budget::MemoryBudget, stats::Stats};

/// A disk that is offered to other programs, by one frontend or several. They share its statistics,
/// its buffers and the limit on the memory for requests.
pub struct Export {
    disk: Arc<Disk>,
    stats: Arc<Stats>,
    buffers: Buffers,
    memory: Arc<MemoryBudget>,
    has_lost_writes: AtomicBool,
}

impl Export {
    /// Makes an export of `disk`. Whether clients can write, and whether they can discard, depends on
    /// the [`DiskOptions`](luxor_sector::DiskOptions) of the disk.
    #[must_use]
    pub fn new(disk: Arc<Disk>) -> Arc<Self> {
        Arc::new(Self {
            disk,
            stats: Arc::default(),
            buffers: Buffers::default(),
            memory: Arc::default(),
            has_lost_writes: AtomicBool::new(false),
        })
    }

    /// The disk.
    #[must_use]
    pub fn disk(&self) -> &Arc<Disk> {
        &self.disk
    }

    /// The statistics of all frontends together.
    #[must_use]
    pub fn stats(&self) -> &Arc<Stats> {
        &self.stats
    }

    pub(crate) fn buffers(&self) -> &Buffers {
        &self.buffers
    }

    pub(crate) fn memory(&self) -> &Arc<MemoryBudget> {
        &self.memory
    }

    /// Lets every flush fail from now on, because a program between the disk and its users has lost
    /// what they wrote.
    pub fn lose_writes(&self) {
        self.has_lost_writes.store(true, Relaxed);
    }

    /// Makes everything durable that was written.
    ///
    /// # Errors
    /// Those of the disk, and one after [`Export::lose_writes`].
    pub fn flush(&self) -> io::Result<()> {
        self.disk.flush()?;
        if self.has_lost_writes.load(Relaxed) {
            return Err(io::Error::other("earlier writes have failed"));
        }
        Ok(())
    }

    /// Makes everything durable after a frontend has `ended`, with success or not. The loss of writes is
    /// the graver of two errors.
    pub(crate) fn flush_after(&self, ended: Result<(), ServeError>) -> Result<(), ServeError> {
        self.flush()
            .map_err(|source| ServeError::Flush { source })?;
        ended
    }
}

impl fmt::Debug for Export {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Export").finish_non_exhaustive()
    }
}
