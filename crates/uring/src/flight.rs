// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the kernel has been given, and the wait for all of it.

use std::{io, process, thread};

use io_uring::{IoUring, squeue::Entry};

/// Gives `entries` to the kernel, and returns when it has no more to do with any of them.
/// The `n`th one's outcome goes to the `n`th of `results`. Whatever else could happen,
/// a panic on the way included, ends the process.
///
/// # Errors
/// Those of the system, when it would not take them all. The outcomes of those that it
/// did not take are as they were; they are still in `ring`, which is to be dropped.
///
/// # Safety
/// Memory and descriptors that `entries` name are valid until this returns, and what is
/// written to is used by nobody else. `ring` is empty.
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
        // SAFETY: this returns when the kernel is done with the entry, or never took it
        // and never will: it looks at the queue when it is told to only. Until then all
        // is valid, says the caller.
        let pushed = unsafe { flight.ring.submission().push(&entry.user_data(number)) };
        pushed.expect("a ring is empty, and has room for a batch");
        flight.unfinished += 1;
    }
    while flight.unfinished > 0 {
        let entered = flight.ring.submit_and_wait(flight.unfinished);
        flight.reap(results);
        let Err(error) = entered else { continue };
        if error.kind() == io::ErrorKind::Interrupted {
            continue;
        }
        // No room, or something that cannot be.
        if flight.taken() == 0 {
            flight.unfinished = 0;
            return Err(error);
        }
        if !matches!(
            error.kind(),
            io::ErrorKind::WouldBlock | io::ErrorKind::ResourceBusy
        ) {
            // It cannot be waited for.
            process::abort();
        }
        thread::yield_now();
    }
    Ok(())
}

struct Flight<'a> {
    ring: &'a mut IoUring,
    /// Those in the queue, and those that the kernel has.
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
                .expect("the number is one that was given") = result;
        }
    }

    /// How many the kernel has.
    fn taken(&mut self) -> usize {
        self.unfinished - self.ring.submission().len()
    }
}

/// Why nothing was transferred.
fn outcome(errno: i32) -> io::Error {
    match errno {
        // What has to wait needs a thread of the kernel's, and none was to be had.
        ECANCELED => io::ErrorKind::Interrupted.into(),
        errno => io::Error::from_raw_os_error(errno),
    }
}

// The same wherever Linux has the usual numbers.
const ECANCELED: i32 = 125;

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        if self.unfinished > 0 {
            process::abort();
        }
    }
}
