// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a server has done so far.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use super::request::{Command, Request};

/// What a server has done so far.
#[derive(Debug, Default)]
pub struct Stats {
    requests: AtomicU64,
    bytes_read: AtomicU64,
    bytes_written: AtomicU64,
    errors: AtomicU64,
}

impl Stats {
    /// To be called when a request is answered, after so long.
    pub fn record(&self, request: &Request, _elapsed: Duration) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        match request.command {
            Command::Read => &self.bytes_read,
            Command::Write => &self.bytes_written,
            _ => return,
        }
        .fetch_add(request.len.into(), Ordering::Relaxed);
    }

    /// To be called when it failed, besides.
    pub fn record_error(&self, _request: &Request) {
        self.errors.fetch_add(1, Ordering::Relaxed);
    }
}
