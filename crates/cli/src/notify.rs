// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tells the service manager whether the program serves (`sd_notify(3)`). Without `NOTIFY_SOCKET` in
//! the environment nothing happens.

use std::{
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
};

use sd_notify::NotifyState;

use crate::console::Console;

/// Whether the service manager knows that the program stops.
static STOPS: AtomicBool = AtomicBool::new(false);

/// Says that clients can connect. `status` is a sentence for people, without newlines.
pub(crate) fn ready(console: Console, status: &str) {
    let told = sd_notify::notify(&[NotifyState::Ready, NotifyState::Status(status)]);
    if let Err(error) = told {
        console.warn(format!("cannot reach the socket of NOTIFY_SOCKET: {error}"));
    }
}

/// Says that the program stops, unless that has been said.
pub(crate) fn stopping() {
    if !STOPS.swap(true, Relaxed) {
        let status = NotifyState::Status("Stopping: the last writes become durable");
        // A failure was reported by `ready`.
        let _ = sd_notify::notify(&[NotifyState::Stopping, status]);
    }
}

/// The same, for threads that must not block: the service manager may be slow to read.
pub(crate) fn stopping_without_waiting() {
    // If there is no thread, the end of the process says it.
    let _ = thread::Builder::new().name("notify".into()).spawn(stopping);
}
