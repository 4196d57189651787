// SPDX-License-Identifier: MIT OR Apache-2.0
//! A clock for connections whose threads wait for the disk.

use std::{
    sync::{
        Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

/// A clock that ticks while requests are in progress.
#[derive(Debug, Default)]
pub struct Ticker {
    /// Counts how often a batch was started.
    begun: AtomicU64,
    asleep: AtomicBool,
    over: Mutex<bool>,
    woken: Condvar,
}

impl Ticker {
    /// How long a connection may wait for the disk before more of its requests are received.
    const TICK: Duration = Duration::from_millis(1);

    /// After this many ticks without a new batch the clock sleeps.
    const PATIENCE: u32 = 20;

    /// Called when a batch is started.
    pub fn batch_begins(&self) {
        self.begun.fetch_add(1, Ordering::SeqCst);
        if self.asleep.load(Ordering::SeqCst) {
            drop(self.lock());
            self.woken.notify_one();
        }
    }

    /// Calls `tick` every millisecond while batches are started, until [`Ticker::end`].
    pub fn run(&self, tick: impl Fn()) {
        let mut seen = self.begun.load(Ordering::SeqCst);
        let mut idle = 0;
        let mut over = self.lock();
        while !*over {
            over = if idle < Self::PATIENCE {
                let waited = self.woken.wait_timeout(over, Self::TICK);
                waited.unwrap_or_else(PoisonError::into_inner).0
            } else {
                self.asleep.store(true, Ordering::SeqCst);
                // A thread that starts a batch after this check sees `asleep`.
                if self.begun.load(Ordering::SeqCst) == seen {
                    let waited = self.woken.wait(over);
                    over = waited.unwrap_or_else(PoisonError::into_inner);
                }
                self.asleep.store(false, Ordering::SeqCst);
                over
            };
            let now = self.begun.load(Ordering::SeqCst);
            idle = if now == seen { idle + 1 } else { 0 };
            seen = now;
            drop(over);
            tick();
            over = self.lock();
        }
    }

    /// Ends [`Ticker::run`].
    pub fn end(&self) {
        *self.lock() = true;
        self.woken.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, bool> {
        self.over.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
