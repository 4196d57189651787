// SPDX-License-Identifier: MIT OR Apache-2.0
//! What keeps keys in the process as a whole.

use std::{io, vec::Vec};

/// To be called before a secret is read: from then on the process leaves no core dump, and on
/// Linux no other process of the same user may look into its memory. Returns what the system
/// refused, nothing as a rule.
///
/// Both hold for the whole process and cannot be taken back for the limit of core dumps, which
/// is why this library never does it unasked.
#[must_use]
pub fn harden_process() -> Vec<NotHardened> {
    let mut refused = Vec::new();
    #[cfg(target_os = "linux")]
    // SAFETY: this operation has one number as its argument and touches no memory.
    if unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0) } != 0 {
        refused.push(NotHardened::Dumpable(io::Error::last_os_error()));
    }
    let none = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `none` is a limit, which the call reads.
    if unsafe { libc::setrlimit(libc::RLIMIT_CORE, &raw const none) } != 0 {
        refused.push(NotHardened::CoreDumps(io::Error::last_os_error()));
    }
    refused
}

/// What the system refused to [`harden_process`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NotHardened {
    /// Other processes of the same user can read its memory.
    #[error("the process could not be made undumpable: {0}")]
    Dumpable(#[source] io::Error),
    /// A crash may write its memory to a file.
    #[error("core dumps could not be switched off: {0}")]
    CoreDumps(#[source] io::Error),
}
