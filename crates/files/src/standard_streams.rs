// SPDX-License-Identifier: MIT OR Apache-2.0
//! Standard input and output, and whether the program was given them.
//!
//! Rust's runtime opens `/dev/null` in place of a standard stream that is closed. What is
//! written there is lost without an error, so that this looks before the runtime does.

use std::{
    fs::File,
    io,
    os::fd::{AsFd, RawFd},
    path::Path,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};

use nix::{
    errno::Errno,
    libc::{F_GETFD, STDIN_FILENO, STDOUT_FILENO, fcntl},
};

/// For standard input, output and error.
static WAS_CLOSED: [AtomicBool; 3] = [const { AtomicBool::new(false) }; 3];

/// Called before `main` and before Rust's runtime: by glibc and musl, and by what else
/// loads ELF programs.
#[expect(unsafe_code, reason = "nothing else runs before the runtime")]
// SAFETY: the section has pointers to functions of this type.
#[unsafe(link_section = ".init_array")]
#[used]
static LOOK: extern "C" fn() = look;

#[expect(
    unsafe_code,
    reason = "a closed descriptor has no owner to borrow from"
)]
extern "C" fn look() {
    for (stream, was_closed) in (0..).zip(&WAS_CLOSED) {
        // SAFETY: the call takes no pointer, and knows any number.
        was_closed.store(unsafe { fcntl(stream, F_GETFD) } == -1, Relaxed);
    }
}

/// Standard input, for reading without a buffer.
///
/// # Errors
/// When it is closed, and those of the system.
pub fn stdin() -> io::Result<File> {
    check(STDIN_FILENO)?;
    Ok(File::from(io::stdin().as_fd().try_clone_to_owned()?))
}

/// Standard output, for writing without a buffer.
///
/// # Errors
/// When it is closed, and those of the system.
pub fn stdout() -> io::Result<File> {
    check_stdout()?;
    Ok(File::from(io::stdout().as_fd().try_clone_to_owned()?))
}

/// For those who write to it by themselves.
///
/// # Errors
/// When it is closed.
pub fn check_stdout() -> io::Result<()> {
    check(STDOUT_FILENO)
}

/// A path may name a standard stream too.
///
/// # Errors
/// When that is closed.
pub fn check_path(path: &Path) -> io::Result<()> {
    const NAMES: [(&str, RawFd); 3] = [("stdin", 0), ("stdout", 1), ("stderr", 2)];
    let named = |(name, stream): &(&str, RawFd)| {
        path == Path::new("/dev").join(name)
            || ["/dev/fd", "/proc/self/fd"]
                .iter()
                .any(|folder| path == Path::new(folder).join(stream.to_string()))
    };
    match NAMES.iter().find(|entry| named(entry)) {
        Some(&(_, stream)) => check(stream),
        None => Ok(()),
    }
}

fn check(stream: RawFd) -> io::Result<()> {
    let was_closed = usize::try_from(stream)
        .ok()
        .and_then(|index| WAS_CLOSED.get(index))
        .is_some_and(|was_closed| was_closed.load(Relaxed));
    match was_closed {
        true => Err(Errno::EBADF.into()),
        false => Ok(()),
    }
}
