// SPDX-License-Identifier: MIT OR Apache-2.0
//! A limit on the threads that use the CPU.

use std::{
    num::NonZeroUsize,
    sync::{Condvar, Mutex, PoisonError},
};

/// Limits how many threads work at a time. There are more threads, so that some read or write while
/// others use the cores.
pub(crate) struct Permits {
    free: Mutex<usize>,
    freed: Condvar,
}

/// One permit, returned when dropped.
pub(crate) struct Permit<'a>(&'a Permits);

impl Permits {
    pub(crate) fn new(threads: NonZeroUsize) -> Self {
        Self {
            free: Mutex::new(threads.get()),
            freed: Condvar::new(),
        }
    }

    /// Waits for a permit.
    pub(crate) fn take(&self) -> Permit<'_> {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let mut free = self
            .freed
            .wait_while(free, |free| *free == 0)
            .unwrap_or_else(PoisonError::into_inner);
        *free -= 1;
        Permit(self)
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        let mut free = self.0.free.lock().unwrap_or_else(PoisonError::into_inner);
        *free += 1;
        self.0.freed.notify_one();
    }
}
