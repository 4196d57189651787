// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tracks what has been written, and how much of it is durable.

use std::{
    io,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use crate::storage::Storage;

/// Counts writes and syncs, so that a flush can rely on a sync that another thread has made.
#[derive(Debug, Default)]
pub struct Durability {
    /// The number of finished writes.
    written: AtomicU64,
    /// The number of writes that are durable. Locked while the storage syncs.
    synced: Mutex<u64>,
    /// Whether a sync has failed. What was written before may then be lost, whatever later syncs
    /// return.
    lost: AtomicBool,
}

impl Durability {
    /// Must be called after a write is finished, and before its caller is notified.
    pub fn note_write(&self) {
        self.written.fetch_add(1, Ordering::Release);
    }

    /// Returns when all writes that were noted before the call are durable.
    ///
    /// # Errors
    /// The error of the storage. After a failed sync, every later call fails too, unless the sync
    /// was only interrupted.
    pub fn flush(&self, storage: &dyn Storage) -> io::Result<()> {
        let wanted = self.written.load(Ordering::Acquire);
        // A thread that had to wait here usually finds that the one before has done its work.
        let mut synced = self.synced.lock().unwrap_or_else(PoisonError::into_inner);
        if self.lost.load(Ordering::Relaxed) {
            return Err(io::Error::other(
                "an earlier attempt to make the data durable has failed: some may be lost",
            ));
        }
        if *synced >= wanted {
            return Ok(());
        }
        let now = self.written.load(Ordering::Acquire);
        match storage.sync() {
            Ok(()) => {
                *synced = now;
                Ok(())
            }
            Err(error) => {
                if error.kind() != io::ErrorKind::Interrupted {
                    self.lost.store(true, Ordering::Relaxed);
                }
                Err(error)
            }
        }
    }

    /// Whether a flush would have to sync.
    pub fn is_dirty(&self) -> bool {
        match self.synced.try_lock() {
            Ok(synced) => *synced < self.written.load(Ordering::Acquire),
            // A sync is in progress, so there is something to make durable.
            Err(_) => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Storage that notes another write during every sync, and fails if there is an error.
    #[derive(Default)]
    struct Busy {
        durability: Durability,
        syncs: AtomicU64,
        error: Option<io::ErrorKind>,
    }

    impl Storage for Busy {
        fn len(&self) -> io::Result<u64> {
            unreachable!()
        }

        fn read_exact_at(&self, _: &mut [u8], _: u64) -> io::Result<()> {
            unreachable!()
        }

        fn write_all_at(&self, _: &[u8], _: u64) -> io::Result<()> {
            unreachable!()
        }

        fn sync(&self) -> io::Result<()> {
            self.syncs.fetch_add(1, Ordering::Relaxed);
            self.durability.note_write();
            self.error.map_or(Ok(()), |kind| Err(kind.into()))
        }
    }

    #[test]
    fn a_write_during_a_sync_needs_another_sync() {
        let busy = Busy::default();
        busy.durability.flush(&busy).unwrap();
        busy.durability.note_write();
        for syncs in 1..4 {
            busy.durability.flush(&busy).unwrap();
            assert_eq!(busy.syncs.load(Ordering::Relaxed), syncs);
            assert!(busy.durability.is_dirty());
        }
    }

    #[test]
    fn only_an_interrupted_sync_is_tried_again() {
        for (kind, tries) in [
            (io::ErrorKind::Interrupted, 2),
            (io::ErrorKind::StorageFull, 1),
        ] {
            let busy = Busy {
                error: Some(kind),
                ..Busy::default()
            };
            busy.durability.note_write();
            for _ in 0..2 {
                busy.durability.flush(&busy).unwrap_err();
            }
            assert_eq!(busy.syncs.load(Ordering::Relaxed), tries);
            assert!(busy.durability.is_dirty());
        }
    }
}
