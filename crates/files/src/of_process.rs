// SPDX-License-Identifier: MIT OR Apache-2.0
//! Values that only the process can use that made them.

use std::{mem, ops::Deref, process};

/// A value with keys, threads or locks, which a forked child does not have. The child does not drop
/// the value either. Dropping it would join threads that exist in the parent only, which POSIX does
/// not define, and release locks of the parent, because a `flock` belongs to the open file that both
/// processes share.
#[derive(Debug)]
pub struct OfProcess<T> {
    process: u32,
    /// `None` only while it is dropped.
    value: Option<T>,
}

impl<T> OfProcess<T> {
    /// Makes `value` one of this process.
    #[must_use]
    pub fn new(value: T) -> Self {
        Self {
            process: process::id(),
            value: Some(value),
        }
    }

    /// Returns the value, or `None` if this process is a fork of the one that made it. [`Deref`]
    /// does not check that.
    #[must_use]
    pub fn here(&self) -> Option<&T> {
        let is_here = self.process == process::id();
        is_here.then(|| &**self)
    }
}

impl<T> Deref for OfProcess<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.value.as_ref().expect("only `drop` takes the value")
    }
}

impl<T> Drop for OfProcess<T> {
    fn drop(&mut self) {
        if self.process != process::id() {
            mem::forget(self.value.take());
        }
    }
}
