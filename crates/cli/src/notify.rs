// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tells the service manager whether the program serves (`sd_notify(3)`). Without `NOTIFY_SOCKET` in
//! the environment nothing happens.
//!
//! A confined process can make no socket. So there is one for all messages.

use std::{
    env,
    ffi::OsStr,
    io,
    os::{
        linux::net::SocketAddrExt,
        unix::{
            ffi::OsStrExt,
            net::{SocketAddr, UnixDatagram},
        },
    },
    sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
};

use crate::console::Console;

/// Whether the service manager knows that the program stops.
static STOPS: AtomicBool = AtomicBool::new(false);

/// The connection to the service manager, if there is one.
static MANAGER: OnceLock<io::Result<UnixDatagram>> = OnceLock::new();

/// Connects to the service manager.
pub(crate) fn connect() {
    if let Some(address) = env::var_os("NOTIFY_SOCKET") {
        let _ = MANAGER.set(connected(&address));
    }
}

fn connected(address: &OsStr) -> io::Result<UnixDatagram> {
    let address = match address.as_bytes().split_first() {
        Some((b'@', name)) => SocketAddr::from_abstract_name(name),
        _ => SocketAddr::from_pathname(address),
    }?;
    let socket = UnixDatagram::unbound()?;
    socket.connect_addr(&address)?;
    Ok(socket)
}

/// Says that clients can connect. `status` is a sentence for people, without newlines.
pub(crate) fn ready(console: Console, status: &str) {
    if let Err(error) = send(&format!("READY=1\nSTATUS={status}\n")) {
        console.warn(format!("cannot reach the socket of NOTIFY_SOCKET: {error}"));
    }
}

/// Says that the program stops, unless that has been said.
pub(crate) fn stopping() {
    if !STOPS.swap(true, Relaxed) {
        // A failure was reported by `ready`.
        let _ = send("STOPPING=1\nSTATUS=Stopping: the last writes become durable\n");
    }
}

/// The same, for threads that must not block: the service manager may be slow to read.
pub(crate) fn stopping_without_waiting() {
    // If there is no thread, the end of the process says it.
    let _ = thread::Builder::new().name("notify".into()).spawn(stopping);
}

fn send(message: &str) -> Result<(), String> {
    let text = |error: &io::Error| error.to_string();
    match MANAGER.get() {
        Some(Ok(manager)) => manager
            .send(message.as_bytes())
            .map(drop)
            .map_err(|error| text(&error)),
        Some(Err(error)) => Err(text(error)),
        None => Ok(()),
    }
}
