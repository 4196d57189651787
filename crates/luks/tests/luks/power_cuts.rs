// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every change of a volume's metadata, with the power cut at each of its writes and syncs, and
//! with errors.

mod luks1;
mod luks2;

use std::{
    collections::HashMap,
    hash::{Hash, Hasher},
};

use luxor_sector::faulty::{Faults, ImageHasher};

/// Faults that every test must notice.
fn without_syncs() -> Faults {
    Faults {
        ignore_syncs: true,
        ..Faults::default()
    }
}

fn write_fails(after: u64) -> Faults {
    Faults {
        fail_write_after: Some(after),
        ..Faults::default()
    }
}

fn sync_fails(after: u64) -> Faults {
    Faults {
        fail_sync_after: Some(after),
        ..Faults::default()
    }
}

/// Caches answers by everything that they depend on, because many images differ only elsewhere.
pub(crate) struct Answers<T>(HashMap<u64, T>);

impl<T> Default for Answers<T> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<T: Clone> Answers<T> {
    pub(crate) fn to(&mut self, question: impl Hash, find: impl FnOnce() -> T) -> T {
        let mut hasher = ImageHasher::default();
        question.hash(&mut hasher);
        self.0.entry(hasher.finish()).or_insert_with(find).clone()
    }
}
