// SPDX-License-Identifier: MIT OR Apache-2.0
//! The address ranges of pinned memory.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// The address ranges of the pinned memory that callers have, for implementations of
/// [`Device::is_pinned`](crate::Device::is_pinned).
#[derive(Debug, Default)]
pub struct Ranges(Mutex<BTreeMap<usize, usize>>);

impl Ranges {
    /// Adds a range.
    pub fn add(&self, memory: &[u8]) {
        self.lock().insert(memory.as_ptr().addr(), memory.len());
    }

    /// Removes a range that was added. Must be called before the memory is freed.
    pub fn remove(&self, memory: &[u8]) {
        self.lock().remove(&memory.as_ptr().addr());
    }

    /// Returns whether all of `bytes` lies in one range that was added.
    pub fn contain(&self, bytes: &[u8]) -> bool {
        let at = bytes.as_ptr().addr();
        let ranges = self.lock();
        let before = ranges.range(..=at).next_back();
        before.is_some_and(|(start, len)| at - start + bytes.len() <= *len)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<usize, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_memory_wholly_inside_is_contained() {
        let ranges = Ranges::default();
        let memory = [0; 100];
        ranges.add(&memory[10..60]);
        for (part, inside) in [
            (10..60, true),
            (10..11, true),
            (59..60, true),
            (60..60, true),
            (9..60, false),
            (10..61, false),
            (60..61, false),
            (0..10, false),
            (70..80, false),
        ] {
            assert_eq!(ranges.contain(&memory[part.clone()]), inside, "{part:?}");
        }
        ranges.remove(&memory[10..60]);
        assert!(!ranges.contain(&memory[20..30]));
    }
}
