// SPDX-License-Identifier: MIT OR Apache-2.0
//! Storage as seen by a program that is killed.

use std::{
    io,
    sync::{Mutex, MutexGuard, PoisonError},
};

use crate::storage::Storage;

/// The storage of a program that is killed at one of its syncs. That sync and all later calls fail
/// and do not reach the storage, which keeps what was written before.
///
/// The next program uses the storage directly. It reads everything that was written, even what may
/// not be durable.
pub struct Killed<'a> {
    storage: &'a dyn Storage,
    /// The number of syncs left, or `None` when the program is dead.
    syncs_left: Mutex<Option<u64>>,
}

impl<'a> Killed<'a> {
    /// Makes storage of a program that is killed at the sync after the first `syncs`.
    #[must_use]
    pub fn after_syncs(storage: &'a dyn Storage, syncs: u64) -> Self {
        Self {
            storage,
            syncs_left: Mutex::new(Some(syncs)),
        }
    }

    fn state(&self) -> MutexGuard<'_, Option<u64>> {
        let state = self.syncs_left.lock();
        state.unwrap_or_else(PoisonError::into_inner)
    }

    fn alive(&self) -> io::Result<&dyn Storage> {
        match *self.state() {
            Some(_) => Ok(self.storage),
            None => Err(killed()),
        }
    }
}

fn killed() -> io::Error {
    io::Error::other("killed")
}

impl Storage for Killed<'_> {
    fn len(&self) -> io::Result<u64> {
        self.alive()?.len()
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.alive()?.read_exact_at(buf, offset)
    }

    fn write_all_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.alive()?.write_all_at(buf, offset)
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.state();
        match *state {
            Some(left @ 1..) => {
                *state = Some(left - 1);
                self.storage.sync()
            }
            _ => {
                *state = None;
                Err(killed())
            }
        }
    }
}
