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
    if count(|name| env::var(name).ok())? == 0 {
        return Ok(Vec::new());
    }
    let mut given = ListenFd::from_env();
    (0..given.len())
        .map(|index| take(&mut given, index))
        .collect()
}

/// Returns how many sockets the environment gives this process.
fn count(value: impl Fn(&str) -> Option<String>) -> Result<u64> {
    let number = |name| value(name)?.parse::<u64>().ok();
    // The environment may describe the sockets of another process, of which nothing is of interest here.
    // Without `LISTEN_PID` the crate would assume that they are for this one.
    let is_for_this = number("LISTEN_PID") == Some(process::id().into());
    let count = number("LISTEN_FDS").filter(|&count| count > 0 && is_for_this);
    let Some(count) = count else {
        return Ok(0);
    };
    // The crate makes a list of as many sockets as the environment says.
    if count > MAX {
        return Err(Error::failure(format!(
            "LISTEN_FDS is {count}, and at most {MAX} sockets are taken over"
        )));
    }
    if let Some(first) = value("LISTEN_FDS_FIRST_FD")
        && !first.parse().is_ok_and(|first| FIRST.contains(&first))
    {
        return Err(Error::failure(
            "LISTEN_FDS_FIRST_FD is not the number of a descriptor from 3 on",
        ));
    }
    Ok(count)
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

#[cfg(test)]
mod tests {
    use super::*;

    /// All combinations of these values.
    #[test]
    fn only_a_few_sockets_of_this_process_are_counted() {
        let own = process::id().to_string();
        let values = [
            None,
            Some(own.as_str()),
            Some(""),
            Some("0"),
            Some("1"),
            Some("-1"),
            Some("128"),
            Some("129"),
            Some(" 3"),
            Some("3\n"),
            Some("3"),
            Some("1048575"),
            Some("1048576"),
            Some("2147483647"),
            Some("4294967296"),
            Some("18446744073709551615"),
            Some("18446744073709551616"),
            Some("0x3"),
            Some("é"),
        ];
        for pid in values {
            for fds in values {
                for first in values {
                    let found = count(|name| {
                        let value = match name {
                            "LISTEN_PID" => pid,
                            "LISTEN_FDS" => fds,
                            _ => first,
                        };
                        value.map(str::to_owned)
                    });
                    let wanted = fds.and_then(|fds| fds.parse::<u64>().ok()).unwrap_or(0);
                    let wanted = if pid == Some(&own) { wanted } else { 0 };
                    let is_first = matches!(first, None | Some("128" | "129" | "3" | "1048575"))
                        || first == Some(&own);
                    let is_taken = wanted == 0 || wanted <= MAX && is_first;
                    assert_eq!(
                        found.ok(),
                        is_taken.then_some(wanted),
                        "{pid:?} {fds:?} {first:?}"
                    );
                }
            }
        }
    }
}
