// SPDX-License-Identifier: MIT OR Apache-2.0
//! Models of the crew: many schedules of its threads, each chosen at random or by priorities.

use std::{env, vec::Vec};

use super::*;
use crate::executor::Shares;

/// Runs `model` under many schedules, and fails if one of them ends in a panic or a deadlock.
fn check(model: fn()) {
    let schedules = env::var("LUXOR_MODEL_SCHEDULES").map_or(1000, |n| n.parse().unwrap());
    shuttle::check_random(model, schedules);
    shuttle::check_pct(model, schedules, 3);
}

/// Two callers share two helpers. Each piece is done once, no call returns while a helper works for it,
/// and the helpers end with the crew.
#[test]
fn every_piece_is_done_once_before_a_call_returns() {
    check(|| {
        let crew = Arc::new(Crew::new(2));
        let callers: Vec<_> = (0..2)
            .map(|_| {
                let crew = Arc::clone(&crew);
                thread::spawn(move || {
                    for _ in 0..2 {
                        let shares = Shares::new(4, 3);
                        let done: Vec<_> = (0..4).map(|_| AtomicUsize::new(0)).collect();
                        let inside = AtomicUsize::new(0);
                        crew.run(2, &|me| {
                            inside.fetch_add(1, Ordering::SeqCst);
                            for piece in shares.pieces(me) {
                                done[piece].fetch_add(1, Ordering::SeqCst);
                            }
                            inside.fetch_sub(1, Ordering::SeqCst);
                        });
                        assert_eq!(
                            inside.load(Ordering::SeqCst),
                            0,
                            "a helper is still at work"
                        );
                        for done in done {
                            assert_eq!(done.load(Ordering::SeqCst), 1);
                        }
                    }
                })
            })
            .collect();
        for caller in callers {
            caller.join().unwrap();
        }
        assert_eq!(crew.shared.places.load(Ordering::SeqCst), 0);
        assert!(crew.shared.lock().offers.is_empty());
    });
}

/// A call on which the caller waits for a helper, so that an offer that wakes none is a deadlock.
#[test]
fn an_offer_wakes_a_helper() {
    check(|| {
        let crew = Crew::new(1);
        for _ in 0..2 {
            let (came, signal) = (Mutex::new(false), Condvar::new());
            crew.run(1, &|me| {
                let mut came = came.lock().unwrap();
                if me == 0 {
                    while !*came {
                        came = signal.wait(came).unwrap();
                    }
                } else {
                    *came = true;
                    signal.notify_one();
                }
            });
        }
    });
}

/// Panics of helpers and of the caller reach the caller after all have left.
#[test]
fn a_panic_reaches_the_caller_after_all_have_left() {
    check(|| {
        let crew = Crew::new(2);
        for panics in 0..3 {
            let inside = AtomicUsize::new(0);
            let came = AtomicUsize::new(0);
            let call = AssertUnwindSafe(|| {
                crew.run(2, &|me| {
                    inside.fetch_add(1, Ordering::SeqCst);
                    thread::yield_now();
                    inside.fetch_sub(1, Ordering::SeqCst);
                    if me == panics {
                        came.fetch_add(1, Ordering::SeqCst);
                        resume_unwind(Box::new(()));
                    }
                });
            });
            let panicked = catch_unwind(call).is_err();
            assert_eq!(
                inside.load(Ordering::SeqCst),
                0,
                "a helper is still at work"
            );
            assert_eq!(panicked, came.load(Ordering::SeqCst) > 0);
        }
    });
}
