// SPDX-License-Identifier: MIT OR Apache-2.0
//! Protection of keys that applies to the whole process.

use std::{io, vec::Vec};

/// Disables core dumps for this process and, on Linux, denies other processes of the same user
/// access to its memory. Call it before reading a secret. Returns what the system refused, which is
/// normally nothing.
///
/// Both settings apply to the whole process, and the limit on core dumps cannot be raised again.
/// This library therefore never calls it by itself.
#[must_use]
pub fn harden_process() -> Vec<NotHardened> {
    let mut refused = Vec::new();
    #[cfg(target_os = "linux")]
    // SAFETY: PR_SET_DUMPABLE takes one integer argument and accesses no memory of the process.
    if unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0) } != 0 {
        refused.push(NotHardened::Dumpable(io::Error::last_os_error()));
    }
    let none = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `none` is a valid `rlimit` that outlives the call, which only reads it.
    if unsafe { libc::setrlimit(libc::RLIMIT_CORE, &raw const none) } != 0 {
        refused.push(NotHardened::CoreDumps(io::Error::last_os_error()));
    }
    refused
}

/// What the system refused in [`harden_process`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NotHardened {
    /// Other processes of the same user can read the memory of this one.
    #[error("the process could not be made undumpable: {0}")]
    Dumpable(#[source] io::Error),
    /// A crash may write this process's memory to a file.
    #[error("core dumps could not be switched off: {0}")]
    CoreDumps(#[source] io::Error),
}
