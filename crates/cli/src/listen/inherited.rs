// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sockets inherited from the parent process (`sd_listen_fds(3)`).

use std::{
    env,
    os::fd::{AsFd, RawFd},
    process,
};

use listenfd::ListenFd;
use luxor_serve::Listener;
use nix::sys::socket::{getsockopt, sockopt};

use crate::error::{Error, Result};

/// The most sockets that a process takes over.
const MAX: u64 = 128;

/// The numbers that the first of them may have: not a standard stream, and never beyond what a process
/// can have open.
const FIRST: std::ops::Range<RawFd> = 3..1 << 20;

/// Returns the sockets of `LISTEN_FDS`, if they are for this process. Call this only once.
///
/// # Errors
/// Fails when there are too many, and when one of them is not a listening Unix or TCP socket.
pub(crate) fn inherited() -> Result<Vec<Listener>> {
    let number = |name| {
        env::var(name)
            .ok()
            .and_then(|text| text.parse::<u64>().ok())
    };
    // The environment may describe the sockets of another process, of which nothing is of interest here.
    // Without `LISTEN_PID` the crate would assume that they are for this one.
    let is_for_this = number("LISTEN_PID") == Some(process::id().into());
    let count = number("LISTEN_FDS").filter(|&count| count > 0 && is_for_this);
    let Some(count) = count else {
        return Ok(Vec::new());
    };
    // The crate makes a list of as many sockets as the environment says.
    if count > MAX {
        return Err(Error::failure(format!(
            "LISTEN_FDS is {count}, and at most {MAX} sockets are taken over"
        )));
    }
    if let Ok(first) = env::var("LISTEN_FDS_FIRST_FD")
        && !first.parse().is_ok_and(|first| FIRST.contains(&first))
    {
        return Err(Error::failure(
            "LISTEN_FDS_FIRST_FD is not the number of a descriptor from 3 on",
        ));
    }
    let mut given = ListenFd::from_env();
    (0..given.len())
        .map(|index| take(&mut given, index))
        .collect()
}

fn take(given: &mut ListenFd, index: usize) -> Result<Listener> {
    let refused = || {
        Error::failure(format!(
            "socket {} of LISTEN_FDS is not a listening Unix or TCP socket",
            index + 1
        ))
        .hint("A systemd socket unit needs ListenStream= and Accept=no.")
    };
    let found = match given.take_unix_listener(index) {
        Ok(Some(listener)) => Listener::Unix(listener),
        _ => match given.take_tcp_listener(index) {
            Ok(Some(listener)) => Listener::Tcp(listener),
            _ => return Err(refused()),
        },
    };
    match getsockopt(&found.as_fd(), sockopt::AcceptConn) {
        Ok(true) => Ok(found),
        _ => Err(refused()),
    }
}
