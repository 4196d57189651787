// SPDX-License-Identifier: MIT OR Apache-2.0
//! A pool of threads that wait for work and help with the calls of others.
//!
//! The caller begins its own work at once, whether or not a helper arrives, and never waits for a
//! helper that has not begun. A sleeping thread takes as long to wake as a core takes to encrypt a
//! megabyte, and much longer on a busy machine.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    time::Duration,
};

use luxor_secret::with_key_stack;

use super::sync::{
    Arc, AtomicUsize, Condvar, Instant, JoinHandle, Mutex, MutexGuard, Ordering, PoisonError, hint,
    thread,
};

/// How long a helper polls for more work before it sleeps, and how long a caller polls for its
/// helpers to finish before it sleeps. It is a few times the time that waking a thread takes.
/// Polling yields the core to other threads, see [`pause`].
const LINGER: Duration = Duration::from_micros(200);

/// The threads, which end when this is dropped.
#[derive(Debug)]
pub(super) struct Crew {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// Signalled when work was offered or the crew is dismissed.
    offered: Condvar,
    /// Signalled when a helper has finished.
    finished: Condvar,
    /// The sum of `places` over all offers, readable without the lock.
    places: AtomicUsize,
}

#[derive(Debug, Default)]
struct State {
    offers: Vec<Offer>,
    next_id: u64,
    dismissed: bool,
}

type Work<'a> = dyn Fn(usize) + Sync + 'a;

/// A call that accepts help.
struct Offer {
    id: u64,
    /// Only helpers that are counted in `inside` may call it.
    work: &'static Work<'static>,
    /// The number of helpers that may still enter.
    places: usize,
    /// The number of helpers at work.
    inside: usize,
    panic: Option<Box<dyn Any + Send>>,
}

impl core::fmt::Debug for Offer {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Offer")
            .field("places", &self.places)
            .field("inside", &self.inside)
            .finish_non_exhaustive()
    }
}

impl Crew {
    /// Starts up to `threads` threads, or as many as the system permits.
    pub(super) fn new(threads: usize) -> Self {
        let shared = Arc::new(Shared::default());
        let spawn = |i| {
            let shared = Arc::clone(&shared);
            thread::Builder::new()
                .name(alloc::format!("luxor-aes-{i}"))
                .spawn(move || shared.serve(i))
                .ok()
        };
        let threads = (1..=threads).map_while(spawn).collect();
        Self { shared, threads }
    }

    /// The number of threads that can help.
    pub(super) fn len(&self) -> usize {
        self.threads.len()
    }

    /// Calls `work(0)` on this thread, and `work(n)` on up to `helpers` threads of the crew, each
    /// with its own `n` from 1 to [`len`](Self::len). Only helpers that enter before the first call
    /// returns take part, since then no work is left. When this returns, no thread runs `work` any
    /// more.
    ///
    /// # Panics
    /// If one of the calls panics, once all of them have ended.
    pub(super) fn run(&self, helpers: usize, work: &Work<'_>) {
        // SAFETY: only the lifetime changes. A helper calls `lent` only while it is counted in the
        // offer's `inside`, and can enter only while the offer has `places`. `close` sets `places`
        // to 0 and waits until `inside` is 0. It is always reached, since `catch_unwind` stops a
        // panic of `work(0)`.
        #[allow(unsafe_code)]
        let lent = unsafe { core::mem::transmute::<&Work<'_>, &'static Work<'static>>(work) };
        let id = self.shared.open(lent, helpers.min(self.len()));
        let own = catch_unwind(AssertUnwindSafe(|| work(0)));
        let others = self.shared.close(id);
        match (own, others) {
            (Err(panic), others) => {
                // Not dropped: its drop could panic, and the caller's own panic would be lost.
                core::mem::forget(others);
                resume_unwind(panic)
            }
            (Ok(()), Some(panic)) => resume_unwind(panic),
            (Ok(()), None) => {}
        }
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        self.shared.lock().dismissed = true;
        self.shared.offered.notify_all();
        for thread in self.threads.drain(..) {
            // A join error means a panic, but `serve` catches those of `work` and has no others.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // No code panics while it holds the lock, so ignore poisoning.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open(&self, work: &'static Work<'static>, places: usize) -> u64 {
        let mut state = self.lock();
        let id = state.next_id;
        state.next_id += 1;
        state.offers.push(Offer {
            id,
            work,
            places,
            inside: 0,
            panic: None,
        });
        self.places.fetch_add(places, Ordering::Relaxed);
        drop(state);
        for _ in 0..places {
            self.offered.notify_one();
        }
        id
    }

    /// Lets no further helper in, and waits until none is inside.
    fn close(&self, id: u64) -> Option<Box<dyn Any + Send>> {
        let begin = Instant::now();
        let mut state = self.lock();
        loop {
            let at = state.offers.iter().position(|offer| offer.id == id)?;
            let offer = &mut state.offers[at];
            self.places.fetch_sub(offer.places, Ordering::Relaxed);
            offer.places = 0;
            if offer.inside == 0 {
                return state.offers.swap_remove(at).panic;
            }
            state = if begin.elapsed() < LINGER {
                drop(state);
                pause();
                self.lock()
            } else {
                let woken = self.finished.wait(state);
                woken.unwrap_or_else(PoisonError::into_inner)
            };
        }
    }

    /// The main loop of a helper.
    fn serve(&self, me: usize) {
        while let Some((id, work)) = self.next() {
            let mut panic = with_key_stack(|| catch_unwind(AssertUnwindSafe(|| work(me)))).err();
            let mut state = self.lock();
            if let Some(offer) = state.offers.iter_mut().find(|offer| offer.id == id) {
                self.places.fetch_sub(offer.places, Ordering::Relaxed);
                offer.places = 0;
                offer.inside -= 1;
                if offer.panic.is_none() {
                    offer.panic = panic.take();
                }
            }
            drop(state);
            self.finished.notify_all();
            // Only one panic is passed on. Dropping the payload of another one could run any code,
            // and could panic itself.
            core::mem::forget(panic);
        }
    }

    /// Enters the next offer. Returns `None` when the crew is dismissed.
    fn next(&self) -> Option<(u64, &'static Work<'static>)> {
        let begin = Instant::now();
        while self.places.load(Ordering::Relaxed) == 0 && begin.elapsed() < LINGER {
            pause();
        }
        let mut state = self.lock();
        loop {
            if state.dismissed {
                return None;
            }
            if let Some(offer) = state.offers.iter_mut().find(|offer| offer.places > 0) {
                offer.places -= 1;
                offer.inside += 1;
                self.places.fetch_sub(1, Ordering::Relaxed);
                return Some((offer.id, offer.work));
            }
            let woken = self.offered.wait(state);
            state = woken.unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Waits a moment, and lets another thread have the core.
fn pause() {
    for _ in 0..16 {
        hint::spin_loop();
    }
    thread::yield_now();
}

#[cfg(all(test, model))]
mod models;

#[cfg(all(test, not(model)))]
mod tests {
    use std::{sync::Barrier, vec};

    use super::*;

    #[test]
    fn helpers_enter_once_and_all_leave() {
        let crew = Crew::new(2);
        assert_eq!(crew.len(), 2);
        for _ in 0..100 {
            // Waits until all three are inside.
            let barrier = Barrier::new(3);
            let mut seen = Mutex::new(vec![]);
            crew.run(5, &|me| {
                barrier.wait();
                seen.lock().unwrap().push(me);
            });
            // Each has entered once, and left.
            let seen = seen.get_mut().unwrap();
            seen.sort_unstable();
            assert_eq!(*seen, [0, 1, 2]);
        }
        assert_eq!(crew.shared.places.load(Ordering::Relaxed), 0);
        assert!(crew.shared.lock().offers.is_empty());
    }

    #[test]
    fn a_call_does_not_wait_for_busy_helpers() {
        let crew = Crew::new(1);
        let (held, release) = (Barrier::new(2), Barrier::new(3));
        let callers = Mutex::new(vec![]);
        thread::scope(|scope| {
            // Keeps the only helper inside a call.
            scope.spawn(|| {
                crew.run(1, &|me| {
                    if me == 1 {
                        held.wait();
                    }
                    release.wait();
                });
            });
            held.wait();
            for _ in 0..10 {
                crew.run(1, &|me| callers.lock().unwrap().push(me));
            }
            release.wait();
        });
        assert_eq!(callers.into_inner().unwrap(), [0; 10]);
        assert_eq!(crew.shared.places.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_finished_thread_closes_the_offer() {
        let crew = Crew::new(2);
        let came = Barrier::new(2);
        let entered = AtomicUsize::new(0);
        // One of the two helpers is busy, so one place stays open and no helper may take it later.
        let busy = Barrier::new(3);
        thread::scope(|scope| {
            scope.spawn(|| {
                crew.run(1, &|_| {
                    busy.wait();
                    busy.wait();
                });
            });
            busy.wait();
            crew.run(2, &|me| {
                if me != 0 && entered.fetch_add(1, Ordering::Relaxed) > 0 {
                    return;
                }
                came.wait();
                if me == 0 {
                    thread::sleep(2 * LINGER);
                }
            });
            busy.wait();
        });
        assert_eq!(entered.into_inner(), 1);
    }

    #[test]
    fn a_panic_payload_that_panics_on_drop_does_no_harm() {
        struct Bomb;
        impl Drop for Bomb {
            fn drop(&mut self) {
                assert!(thread::panicking(), "dropped on purpose");
            }
        }
        let crew = Crew::new(2);
        for _ in 0..2 {
            let barrier = Barrier::new(3);
            let call = AssertUnwindSafe(|| {
                crew.run(2, &|me| {
                    barrier.wait();
                    if me == 0 {
                        thread::sleep(2 * LINGER);
                    } else {
                        std::panic::panic_any(Bomb);
                    }
                });
            });
            core::mem::forget(catch_unwind(call).unwrap_err());
        }
    }

    #[test]
    fn sleepers_are_woken() {
        let crew = Crew::new(1);
        let barrier = Barrier::new(2);
        for _ in 0..3 {
            thread::sleep(3 * LINGER);
            crew.run(1, &|_| {
                barrier.wait();
            });
        }
    }

    #[test]
    fn a_panic_propagates_after_all_have_left() {
        let crew = Crew::new(1);
        for panics in [0, 1] {
            let barrier = Barrier::new(2);
            let left = AtomicUsize::new(0);
            let call = AssertUnwindSafe(|| {
                crew.run(1, &|me| {
                    barrier.wait();
                    assert_ne!(me, panics, "on purpose");
                    thread::sleep(2 * LINGER);
                    left.fetch_add(1, Ordering::Relaxed);
                });
            });
            assert!(catch_unwind(call).is_err());
            assert_eq!(left.load(Ordering::Relaxed), 1);
        }
        // The crew still has its helper.
        let barrier = Barrier::new(2);
        crew.run(1, &|_| {
            barrier.wait();
        });
    }
}
