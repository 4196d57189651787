// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parts of data units, into which an executor splits long units.

use std::sync::atomic::{AtomicUsize, Ordering};

use luxor_engine::{CryptError, Direction, LoadedKey, Run};

/// A key that counts the runs that begin inside a data unit.
pub struct PartsCounted<'a> {
    key: &'a dyn LoadedKey,
    parts: AtomicUsize,
}

impl<'a> PartsCounted<'a> {
    /// Does all work with `key`.
    pub fn new(key: &'a dyn LoadedKey) -> Self {
        Self {
            key,
            parts: AtomicUsize::new(0),
        }
    }

    /// The number of these runs until now.
    pub fn parts(&self) -> usize {
        self.parts.load(Ordering::Relaxed)
    }
}

impl LoadedKey for PartsCounted<'_> {
    fn crypt(&self, direction: Direction, runs: &mut [Run<'_>]) -> Result<(), CryptError> {
        let parts = runs.iter().filter(|run| run.unit_offset() > 0).count();
        self.parts.fetch_add(parts, Ordering::Relaxed);
        self.key.crypt(direction, runs)
    }

    fn takes_parts_of_units(&self) -> bool {
        self.key.takes_parts_of_units()
    }
}
