// SPDX-License-Identifier: MIT OR Apache-2.0
//! Standard input and output, with a check whether the parent process provided them, and other
//! descriptors that it passed on.
//!
//! Rust's runtime opens `/dev/null` in place of a closed standard stream. Data written there are
//! lost without an error. Therefore this module looks before the runtime starts.

use std::{
    fs::{self, File},
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};

use nix::{
    errno::Errno,
    fcntl::{FcntlArg::F_GETFL, OFlag, fcntl},
    libc::{self, STDIN_FILENO, STDOUT_FILENO},
    sys::socket::{AddressFamily, SockFlag, SockType, socket},
    unistd::{dup2_stderr, dup2_stdin, dup2_stdout},
};

/// The number of standard input.
pub const STDIN: RawFd = STDIN_FILENO;

/// Whether standard input, output and error were closed when the program started.
static WAS_CLOSED: [AtomicBool; 3] = [const { AtomicBool::new(false) }; 3];

/// `look` runs before `main` and before Rust's runtime. glibc, musl and other ELF loaders call it.
#[expect(unsafe_code, reason = "only `.init_array` runs before the runtime")]
// SAFETY: `.init_array` holds pointers to `extern "C"` functions, and `LOOK` is one.
#[unsafe(link_section = ".init_array")]
#[used]
static LOOK: extern "C" fn() = look;

#[expect(
    unsafe_code,
    reason = "a closed descriptor has no owner to borrow from"
)]
extern "C" fn look() {
    for (stream, was_closed) in (0..).zip(&WAS_CLOSED) {
        // SAFETY: `F_GETFD` takes no pointer, and for a closed `stream` it only returns an error.
        was_closed.store(unsafe { libc::fcntl(stream, libc::F_GETFD) } == -1, Relaxed);
    }
}

/// Returns standard input for unbuffered reading.
///
/// # Errors
/// An error if it was closed or is open for writing only, or an error of the system.
pub fn stdin() -> io::Result<File> {
    check(STDIN_FILENO)?;
    Ok(File::from(io::stdin().as_fd().try_clone_to_owned()?))
}

/// Returns standard output for unbuffered writing.
///
/// # Errors
/// An error if it was closed or is open for reading only, or an error of the system.
pub fn stdout() -> io::Result<File> {
    check_stdout()?;
    Ok(File::from(io::stdout().as_fd().try_clone_to_owned()?))
}

/// Returns the file descriptor `number` that the parent process has passed on, with its position.
///
/// # Errors
/// `EBADF` if there is none, or an error of the system. A descriptor that this process has opened
/// itself is none.
#[expect(unsafe_code, reason = "only the number of the descriptor is known")]
pub fn inherited(number: RawFd) -> io::Result<File> {
    if number == STDIN_FILENO {
        return stdin();
    }
    // SAFETY: `F_GETFD` takes no pointer, and for a closed `number` it only returns an error.
    let flags = unsafe { libc::fcntl(number, libc::F_GETFD) };
    // What this process opens has the flag, which keeps a descriptor from being passed on.
    if flags == -1 || flags & libc::FD_CLOEXEC != 0 {
        return Err(Errno::EBADF.into());
    }
    // SAFETY: `number` is open, and nothing in this process owns it, so nothing closes it.
    let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
    Ok(File::from(descriptor.try_clone_to_owned()?))
}

/// Keeps the descriptors that the parent process has passed on, except the standard streams, from the
/// programs that this process starts from now on. They may be those of secrets. [`inherited`] no longer
/// finds them.
///
/// # Errors
/// An error of the system, such as when `/proc` is missing.
#[expect(unsafe_code, reason = "only the number of the descriptor is known")]
pub fn keep_from_children() -> io::Result<()> {
    for entry in fs::read_dir("/proc/self/fd")? {
        let number = entry?.file_name();
        let number: Option<RawFd> = number.to_str().and_then(|number| number.parse().ok());
        let Some(number @ 3..) = number else { continue };
        // SAFETY: `F_SETFD` takes a number and no pointer. For a closed `number` it returns an error.
        unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) };
    }
    Ok(())
}

/// Checks standard output for callers that write to it themselves. Rust's [`io::stdout`] reports
/// success if standard output is closed.
///
/// # Errors
/// An error if it was closed or is open for reading only.
pub fn check_stdout() -> io::Result<()> {
    check(STDOUT_FILENO)
}

/// Replaces each standard stream that was closed by a socket that cannot be read, written or
/// reopened. Without this, names such as `/dev/stdout` would lead to the runtime's `/dev/null`, in
/// child processes too. A program calls this before anything else.
///
/// # Errors
/// An error of the system.
pub fn keep_closed() -> io::Result<()> {
    for (stream, was_closed) in (0..).zip(&WAS_CLOSED) {
        if !was_closed.load(Relaxed) {
            continue;
        }
        let nothing = unconnected()?;
        match stream {
            STDIN_FILENO => dup2_stdin(&nothing),
            STDOUT_FILENO => dup2_stdout(&nothing),
            _ => dup2_stderr(&nothing),
        }?;
    }
    Ok(())
}

/// Returns a descriptor with which nothing can be done: a socket cannot be reopened through `/proc`, and
/// this one has no peer.
pub(crate) fn unconnected() -> nix::Result<OwnedFd> {
    socket(
        AddressFamily::Unix,
        SockType::SeqPacket,
        SockFlag::SOCK_CLOEXEC,
        None,
    )
}

fn check(stream: RawFd) -> io::Result<()> {
    let was_closed = usize::try_from(stream)
        .ok()
        .and_then(|index| WAS_CLOSED.get(index))
        .is_some_and(|was_closed| was_closed.load(Relaxed));
    let (flags, other_way) = match stream {
        STDIN_FILENO => (fcntl(io::stdin(), F_GETFL)?, OFlag::O_WRONLY),
        _ => (fcntl(io::stdout(), F_GETFL)?, OFlag::O_RDONLY),
    };
    let flags = OFlag::from_bits_retain(flags);
    if was_closed || flags & OFlag::O_ACCMODE == other_way {
        Err(Errno::EBADF.into())
    } else {
        Ok(())
    }
}
