// SPDX-License-Identifier: MIT OR Apache-2.0
//! Submits entries to the kernel and waits for all of them.

use std::{io, process, thread};

use io_uring::{IoUring, squeue::Entry};

/// Submits `entries` to the kernel, and returns when the kernel is finished with all of them. The
/// outcome of the `n`th entry is stored in the `n`th of `results`. Anything else that prevents
/// this, a panic included, aborts the process.
///
/// # Errors
/// The system's error, if it did not accept all entries. The results of entries that it did not
/// accept are unchanged. Those entries are still in `ring`, which the caller must drop.
///
/// # Safety
/// Until this returns, memory and descriptors that `entries` name must be valid, and no other code
/// may use memory that the kernel writes to. `ring` must be empty.
pub unsafe fn fly(
    ring: &mut IoUring,
    entries: impl IntoIterator<Item = Entry>,
    results: &mut [io::Result<usize>],
) -> io::Result<()> {
    let mut flight = Flight {
        ring,
        unfinished: 0,
    };
    for (number, entry) in (0..).zip(entries) {
        // SAFETY: this function returns only when the kernel is finished with the entry, or has not
        // accepted it and never will, since it reads the queue only in `submit_and_wait`. The
        // caller guarantees that memory and descriptors are valid until then.
        let pushed = unsafe { flight.ring.submission().push(&entry.user_data(number)) };
        pushed.expect("the ring was empty and has DEPTH entries");
        flight.unfinished += 1;
    }
    while flight.unfinished > 0 {
        let entered = flight.ring.submit_and_wait(flight.unfinished);
        flight.reap(results);
        let Err(error) = entered else { continue };
        if error.kind() == io::ErrorKind::Interrupted {
            continue;
        }
        // The kernel had no room, or returned an unexpected error.
        if flight.taken() == 0 {
            flight.unfinished = 0;
            return Err(error);
        }
        if !matches!(
            error.kind(),
            io::ErrorKind::WouldBlock | io::ErrorKind::ResourceBusy
        ) {
            // The kernel has accepted entries but does not let us wait for them.
            process::abort();
        }
        thread::yield_now();
    }
    Ok(())
}

struct Flight<'a> {
    ring: &'a mut IoUring,
    /// The number of entries that are in the queue or accepted by the kernel.
    unfinished: usize,
}

impl Flight<'_> {
    fn reap(&mut self, results: &mut [io::Result<usize>]) {
        for done in self.ring.completion() {
            self.unfinished -= 1;
            let result = usize::try_from(done.result()).map_err(|_| outcome(-done.result()));
            let place = usize::try_from(done.user_data()).ok();
            *place
                .and_then(|place| results.get_mut(place))
                .expect("`fly` numbered the entries") = result;
        }
    }

    /// The number of entries that the kernel has accepted.
    fn taken(&mut self) -> usize {
        self.unfinished - self.ring.submission().len()
    }
}

/// Why a transfer failed.
fn outcome(errno: i32) -> io::Error {
    match errno {
        // A transfer that must block needs a kernel thread, and the kernel could not start one.
        ECANCELED => io::ErrorKind::Interrupted.into(),
        errno => io::Error::from_raw_os_error(errno),
    }
}

// The value on all architectures with Linux's generic error numbers.
const ECANCELED: i32 = 125;

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        if self.unfinished > 0 {
            process::abort();
        }
    }
}
