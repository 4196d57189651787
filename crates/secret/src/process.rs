// SPDX-License-Identifier: MIT OR Apache-2.0
//! Protection of keys that applies to the whole process.

use std::{io, mem::MaybeUninit, vec::Vec};

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

/// Gives threads that libraries start a stack of at least `len` bytes, unless they ask for a size. The C
/// library gives them as much as `ulimit -s` says, which can be too little for the code that an OpenCL driver
/// compiles. Threads of Rust have stacks of their own size.
///
/// This applies to the whole process, so this library never calls it by itself. Call it before such threads
/// are started.
///
/// # Errors
/// Fails when the system refuses the size.
#[cfg(target_os = "linux")]
pub fn set_default_stack(len: usize) -> io::Result<()> {
    // Both C libraries of Linux have it; the crate `libc` does not.
    unsafe extern "C" {
        fn pthread_setattr_default_np(attr: *const libc::pthread_attr_t) -> libc::c_int;
    }
    let mut attr = MaybeUninit::<libc::pthread_attr_t>::uninit();
    // SAFETY: `attr` is valid for writes of its type, and initialised where this returns 0. It is then
    // passed to functions that take an initialised one, and to nothing after `pthread_attr_destroy`.
    let code = unsafe {
        match libc::pthread_attr_init(attr.as_mut_ptr()) {
            0 => {
                let code = match libc::pthread_attr_setstacksize(attr.as_mut_ptr(), len) {
                    0 => pthread_setattr_default_np(attr.as_ptr()),
                    code => code,
                };
                libc::pthread_attr_destroy(attr.as_mut_ptr());
                code
            }
            code => code,
        }
    };
    match code {
        0 => Ok(()),
        code => Err(io::Error::from_raw_os_error(code)),
    }
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
