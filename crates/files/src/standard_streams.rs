// SPDX-License-Identifier: MIT OR Apache-2.0
//! Standard input and output, and whether the program was given them.
//!
//! Rust's runtime opens `/dev/null` in place of a standard stream that is closed. What is
//! written there is lost without an error, so that this looks before the runtime does.

use std::{
    fs::File,
    io,
    os::fd::{AsFd, RawFd},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};

use nix::{
    errno::Errno,
    fcntl::{FcntlArg::F_GETFL, OFlag, fcntl},
    libc::{self, STDIN_FILENO, STDOUT_FILENO},
    sys::socket::{AddressFamily, SockFlag, SockType, socket},
    unistd::{dup2_stderr, dup2_stdin, dup2_stdout},
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
        was_closed.store(unsafe { libc::fcntl(stream, libc::F_GETFD) } == -1, Relaxed);
    }
}

/// Standard input, for reading without a buffer.
///
/// # Errors
/// When it is closed or open for writing only, and those of the system.
pub fn stdin() -> io::Result<File> {
    check(STDIN_FILENO)?;
    Ok(File::from(io::stdin().as_fd().try_clone_to_owned()?))
}

/// Standard output, for writing without a buffer.
///
/// # Errors
/// When it is closed or open for reading only, and those of the system.
pub fn stdout() -> io::Result<File> {
    check_stdout()?;
    Ok(File::from(io::stdout().as_fd().try_clone_to_owned()?))
}

/// For those who write to it by themselves: Rust's [`io::stdout`] takes what cannot be written
/// there for written.
///
/// # Errors
/// When it is closed, or open for reading only.
pub fn check_stdout() -> io::Result<()> {
    check(STDOUT_FILENO)
}

/// Puts what cannot be read, written or opened again in the place of each standard stream that
/// was closed, so that no name leads to the runtime's `/dev/null`, in children neither. For a
/// program to call before anything else.
///
/// # Errors
/// Those of the system.
pub fn keep_closed() -> io::Result<()> {
    for (stream, was_closed) in (0..).zip(&WAS_CLOSED) {
        if !was_closed.load(Relaxed) {
            continue;
        }
        // A socket has no file that could be opened, and this one has no peer.
        let nothing = socket(
            AddressFamily::Unix,
            SockType::SeqPacket,
            SockFlag::SOCK_CLOEXEC,
            None,
        )?;
        match stream {
            STDIN_FILENO => dup2_stdin(&nothing),
            STDOUT_FILENO => dup2_stdout(&nothing),
            _ => dup2_stderr(&nothing),
        }?;
    }
    Ok(())
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
