// SPDX-License-Identifier: MIT OR Apache-2.0
//! Locks on byte ranges: overlapping requests are served one after the other.

use std::ops::Range;

use super::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// The ranges in use. Several readers can share a range, and a writer excludes all others.
///
/// Claims are served in the order in which they come: each waits for all earlier claims that
/// exclude it, whether these hold their ranges or still wait. So no claim waits forever, and no two
/// wait for each other.
#[derive(Debug, Default)]
pub struct Ranges {
    state: Mutex<State>,
    released: Condvar,
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    claims: Vec<Claim>,
    /// The number of claims that are for writing.
    writers: usize,
    /// The number of waiting threads.
    waiting: usize,
}

#[derive(Clone, Debug)]
struct Claim {
    ticket: u64,
    range: Range<u64>,
    write: bool,
}

impl Claim {
    fn excludes(&self, other: &Self) -> bool {
        (self.write || other.write)
            && self.range.start < other.range.end
            && other.range.start < self.range.end
    }
}

/// Claimed ranges, released when this is dropped.
#[derive(Debug)]
pub struct Claimed<'a> {
    ranges: &'a Ranges,
    ticket: u64,
}

impl Ranges {
    /// Claims one range, and waits for it.
    pub fn claim(&self, range: Range<u64>, write: bool) -> Claimed<'_> {
        self.claim_all([(range, write)])
    }

    /// Claims several ranges at once, and waits for all of them. They must not exclude each other.
    pub fn claim_all(&self, ranges: impl IntoIterator<Item = (Range<u64>, bool)>) -> Claimed<'_> {
        let mut state = self.lock();
        let ticket = state.next;
        state.next += 1;
        let before = state.claims.len();
        let claims = ranges.into_iter().map(|(range, write)| Claim {
            ticket,
            range,
            write,
        });
        state.claims.extend(claims);
        let mine = &state.claims[before..];
        let writers = mine.iter().filter(|claim| claim.write).count();
        state.writers += writers;
        // Readers alone never wait, and on an idle disk there is no earlier claim.
        if before > 0 && state.writers > 0 {
            let mine = state.claims[before..].to_vec();
            while state.must_wait(ticket, &mine) {
                state.waiting += 1;
                state = self
                    .released
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner);
                state.waiting -= 1;
            }
        }
        Claimed {
            ranges: self,
            ticket,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn must_wait(&self, ticket: u64, mine: &[Claim]) -> bool {
        let mut earlier = self.claims.iter().filter(|claim| claim.ticket < ticket);
        earlier.any(|claim| mine.iter().any(|own| own.excludes(claim)))
    }
}

impl Drop for Claimed<'_> {
    fn drop(&mut self) {
        let mut state = self.ranges.lock();
        let mut writers = 0;
        state.claims.retain(|claim| {
            let mine = claim.ticket == self.ticket;
            writers += usize::from(mine && claim.write);
            !mine
        });
        state.writers -= writers;
        let anybody = state.waiting > 0;
        drop(state);
        if anybody {
            self.ranges.released.notify_all();
        }
    }
}

#[cfg(all(test, not(model)))]
mod tests {
    use std::{
        sync::{
            Arc,
            atomic::{AtomicU32, Ordering},
            mpsc,
        },
        thread,
        time::Duration,
    };

    use super::*;

    #[test]
    fn readers_share_and_writers_exclude() {
        let ranges = Ranges::default();
        let a = ranges.claim(0..10, false);
        let b = ranges.claim(5..15, false);
        let c = ranges.claim(15..20, true);
        let d = ranges.claim_all([(20..30, false), (30..40, true)]);
        assert_eq!(ranges.lock().claims.len(), 5);
        assert_eq!(ranges.lock().writers, 2);
        drop((a, b, c, d));
        assert_eq!(ranges.lock().claims.len(), 0);
        assert_eq!(ranges.lock().writers, 0);
    }

    /// Each of these claims waits for the one before it, and not for the one after.
    #[test]
    fn overlapping_claims_wait_in_order() {
        let ranges = Arc::new(Ranges::default());
        let first = ranges.claim(0..10, true);
        let (said, heard) = mpsc::channel();
        let mut threads = Vec::new();
        for (name, range, write) in [
            ("reader", 5..6, false),
            ("writer", 0..100, true),
            ("late", 50..60, false),
        ] {
            let (others, said) = (Arc::clone(&ranges), said.clone());
            let before = ranges.lock().waiting;
            threads.push(thread::spawn(move || {
                let claimed = others.claim(range, write);
                said.send(name).unwrap();
                drop(claimed);
            }));
            while ranges.lock().waiting == before {
                thread::yield_now();
            }
        }
        // "late" overlaps only with a writer that is itself waiting.
        assert!(heard.recv_timeout(Duration::from_millis(20)).is_err());
        drop(first);
        let order: Vec<_> = heard.iter().take(3).collect();
        assert_eq!(order, ["reader", "writer", "late"]);
        for thread in threads {
            thread.join().unwrap();
        }
    }

    #[test]
    fn no_two_writers_at_once() {
        let ranges = Ranges::default();
        let cells: Vec<AtomicU32> = (0..8).map(|_| AtomicU32::new(0)).collect();
        thread::scope(|scope| {
            for k in 0..4_usize {
                let (ranges, cells) = (&ranges, &cells);
                scope.spawn(move || {
                    for i in 0..2000_usize {
                        let begin = (i * 7 + k * 3) % 8;
                        let end = (begin + 1 + i % 3).min(8);
                        let claimed = ranges.claim(begin as u64..end as u64, true);
                        for cell in &cells[begin..end] {
                            assert_eq!(cell.fetch_add(1, Ordering::Relaxed), 0);
                        }
                        for cell in &cells[begin..end] {
                            cell.fetch_sub(1, Ordering::Relaxed);
                        }
                        drop(claimed);
                    }
                });
            }
        });
    }
}
