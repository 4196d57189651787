// SPDX-License-Identifier: MIT OR Apache-2.0
//! What has been written, and what of it is durable.

use std::{
    io,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use crate::storage::Storage;

/// Counts writes and syncs, so that a sync that others have made is not made again.
#[derive(Debug, Default)]
pub struct Durability {
    /// How many writes are done.
    written: AtomicU64,
    /// So many of them are durable. Held while the storage syncs.
    synced: Mutex<u64>,
    /// A sync has failed: what was written before may be lost, whatever later ones say.
    lost: AtomicBool,
}

impl Durability {
    /// To be called when a write is done, and before anybody is told so.
    pub fn note_write(&self) {
        self.written.fetch_add(1, Ordering::Release);
    }

    /// Returns when all writes are durable that were noted before.
    ///
    /// # Errors
    /// Those of the storage; and after the first of them always.
    pub fn flush(&self, storage: &dyn Storage) -> io::Result<()> {
        let wanted = self.written.load(Ordering::Acquire);
        // Who waits here finds the work done by the one before, as a rule.
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
                self.lost.store(true, Ordering::Relaxed);
                Err(error)
            }
        }
    }

    /// Whether a flush would have something to do.
    pub fn is_dirty(&self) -> bool {
        match self.synced.try_lock() {
            Ok(synced) => *synced < self.written.load(Ordering::Acquire),
            // A sync at work: there is something.
            Err(_) => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// While this syncs another write is done.
    #[derive(Default)]
    struct Busy {
        durability: Durability,
        syncs: AtomicU64,
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
            Ok(())
        }
    }

    #[test]
    fn what_is_written_during_a_sync_needs_another() {
        let busy = Busy::default();
        busy.durability.flush(&busy).unwrap();
        busy.durability.note_write();
        for syncs in 1..4 {
            busy.durability.flush(&busy).unwrap();
            assert_eq!(busy.syncs.load(Ordering::Relaxed), syncs);
            assert!(busy.durability.is_dirty());
        }
    }
}
