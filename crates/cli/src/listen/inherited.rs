// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sockets inherited from the parent process (`sd_listen_fds(3)`).

use std::{env, os::fd::AsFd};

use listenfd::ListenFd;
use luxor_serve::nbd::Listener;
use nix::sys::socket::{getsockopt, sockopt};

use crate::error::{Error, Result};

/// Returns the sockets of `LISTEN_FDS`, if they are for this process. Call this only once.
///
/// # Errors
/// Fails when one of them is not a listening Unix or TCP socket.
pub(crate) fn inherited() -> Result<Vec<Listener>> {
    // Without `LISTEN_PID` the crate would assume that the sockets are for this process.
    if env::var_os("LISTEN_PID").is_none() {
        return Ok(Vec::new());
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
