// SPDX-License-Identifier: MIT OR Apache-2.0
//! Values that only the process can use that made them.

use std::{
    collections::BTreeSet,
    mem,
    ops::Deref,
    os::fd::RawFd,
    sync::{
        Once,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use nix::{libc, unistd};

/// How many forks lie between this process and the one that first made an [`OfProcess`]. The number
/// of the process would do as well, but asking for it is a system call of 0.2 µs, a tenth of a short
/// read from a volume in memory.
static FORKS: AtomicU64 = AtomicU64::new(0);

extern "C" fn count_fork() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// Returns [`FORKS`], which is counted from the first call on.
fn forks() -> u64 {
    static COUNTED: Once = Once::new();
    COUNTED.call_once(count_forks);
    FORKS.load(Ordering::Relaxed)
}

#[expect(unsafe_code, reason = "there is no safe form of this call")]
fn count_forks() {
    // SAFETY: `count_fork` only adds to an atomic number, which a forked child may do.
    let result = unsafe { libc::pthread_atfork(None, None, Some(count_fork)) };
    assert_eq!(result, 0, "pthread_atfork fails only when memory runs out");
}

/// A value with keys, threads or locks, which a forked child does not have. The child does not drop
/// the value either. Dropping it would join threads that exist in the parent only, which POSIX does
/// not define, and release locks of the parent, because a `flock` belongs to the open file that both
/// processes share.
///
/// The child only closes its copies of the descriptors that the value holds. That releases nothing of
/// the parent.
#[derive(Debug)]
pub struct OfProcess<T> {
    /// [`forks`] in the process that made it.
    forks: u64,
    /// `None` only while it is dropped.
    value: Option<T>,
    /// Returns the descriptors that the value holds.
    descriptors: fn(&T) -> Vec<RawFd>,
    /// Whether a forked child has closed them.
    given_up: AtomicBool,
}

impl<T> OfProcess<T> {
    /// Makes `value` one of this process.
    #[must_use]
    pub fn new(value: T) -> Self {
        Self::holding(value, |_| Vec::new())
    }

    /// As [`OfProcess::new`], for a value that holds the descriptors that `descriptors` returns. It is
    /// called in a forked child, and must not wait for a lock there.
    #[must_use]
    pub fn holding(value: T, descriptors: fn(&T) -> Vec<RawFd>) -> Self {
        Self {
            forks: forks(),
            value: Some(value),
            descriptors,
            given_up: AtomicBool::new(false),
        }
    }

    /// Returns the value, or `None` if this process is a fork of the one that made it. [`Deref`]
    /// does not check that.
    #[must_use]
    pub fn here(&self) -> Option<&T> {
        self.is_here().then(|| &**self)
    }

    /// Returns the value, or `None` where [`OfProcess::here`] does.
    #[must_use]
    pub fn into_inner(mut self) -> Option<T> {
        if self.is_here() {
            self.value.take()
        } else {
            None
        }
    }

    /// In a forked child closes the descriptors that the value holds, as dropping it does there. The
    /// child needs this where other owners of the value were threads of the parent, which never drop
    /// it. Has no effect in the process that made the value.
    pub fn give_up(&self) {
        if let (false, Some(value)) = (self.is_here(), &self.value)
            && !self.given_up.swap(true, Ordering::Relaxed)
        {
            for descriptor in BTreeSet::from_iter((self.descriptors)(value)) {
                // The only error is that the child has closed it itself.
                let _ = unistd::close(descriptor);
            }
        }
    }

    fn is_here(&self) -> bool {
        self.forks == FORKS.load(Ordering::Relaxed)
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
        if !self.is_here() {
            self.give_up();
            mem::forget(self.value.take());
        }
    }
}
