// SPDX-License-Identifier: MIT OR Apache-2.0
//! The request to stop, for a thread that waits for clients.

use std::{
    io::{self, Read, Write},
    os::{
        fd::{AsFd, BorrowedFd},
        unix::net::UnixStream,
    },
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// Asks a frontend with listeners to stop. Clones stand for the same request, and can be used from any
/// thread. Each frontend needs a stop of its own.
#[derive(Clone, Debug)]
pub struct Stop {
    requested: Arc<AtomicBool>,
    waker: Arc<UnixStream>,
    woken: Arc<UnixStream>,
}

impl Stop {
    /// Makes a stop that is not requested yet.
    ///
    /// # Errors
    /// Those of the system, when there are too many open files.
    pub fn new() -> io::Result<Self> {
        let (waker, woken) = UnixStream::pair()?;
        waker.set_nonblocking(true)?;
        woken.set_nonblocking(true)?;
        Ok(Self {
            requested: Arc::default(),
            waker: Arc::new(waker),
            woken: Arc::new(woken),
        })
    }

    /// Requests the stop: the frontend accepts no more clients, and disconnects the present ones.
    pub fn request(&self) {
        self.requested.store(true, Ordering::SeqCst);
        self.wake();
    }

    /// Whether the stop has been requested.
    #[must_use]
    pub fn is_requested(&self) -> bool {
        self.requested.load(Ordering::SeqCst)
    }

    /// Waits for at most `limit`, until the stop is requested or [`Stop::wake`] is called.
    pub(crate) fn wait(&self, limit: Duration) {
        let limit = PollTimeout::try_from(limit).unwrap_or(PollTimeout::ZERO);
        let _ = poll(
            &mut [PollFd::new(self.woken.as_fd(), PollFlags::POLLIN)],
            limit,
        );
    }

    /// Wakes the thread that accepts clients.
    pub(crate) fn wake(&self) {
        // If the socket is full, there are enough bytes in it to wake the server.
        let _ = (&*self.waker).write(&[0]);
    }

    /// Forgets earlier calls of [`Stop::wake`].
    pub(crate) fn clear(&self) {
        let mut bytes = [0; 64];
        while matches!((&*self.woken).read(&mut bytes), Ok(1..)) {}
    }

    /// The descriptor that becomes readable when the thread is woken.
    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.woken.as_fd()
    }
}
