// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bulk work over the cores.

use alloc::{vec, vec::Vec};
use core::num::NonZeroUsize;
use std::{sync::OnceLock, thread};

use rayon::prelude::*;

use crate::{
    backend::{CryptError, CryptErrorKind, Direction, LoadedKey},
    run::{InOut, Run},
};

/// Calls with fewer bytes than this stay on the calling thread: to wake another
/// one takes some microseconds, in which a core encrypts this much.
const MIN_SPLIT: usize = 256 << 10;

/// No machine gains from more, and a system asked for a hundred thousand suffers.
const MAX_THREADS: usize = 1024;

/// A few pieces a thread even out what other programs take from a core.
const PIECES: usize = 4;

/// No piece is smaller than this, so that batches of units stay long.
const MIN_PIECE: usize = 64 << 10;

/// Nor than this, where a thread has as much to do: what kernels do with runs that
/// no cache holds shall be done with their pieces.
const LARGE: usize = 4 << 20;

/// Pieces begin at a multiple of so many units, where they are that long: as many
/// numbers as the widest kernel encrypts side by side.
const UNITS: usize = 32;

/// Splits runs by units over a pool of threads, which is made when it is first
/// needed, and kept.
///
/// For the CPU's keys, each of whose calls runs on one thread. A device's
/// backend does its own scheduling.
#[derive(Debug)]
pub struct Executor {
    threads: usize,
    /// None where the system makes no more threads.
    pool: OnceLock<Option<rayon::ThreadPool>>,
}

impl Executor {
    /// An executor with `threads` threads, 1024 at most. With one, or where the
    /// system makes no more threads, all work stays on the caller's.
    #[must_use]
    pub fn new(threads: NonZeroUsize) -> Self {
        Self {
            threads: threads.get().min(MAX_THREADS),
            pool: OnceLock::new(),
        }
    }

    /// As many threads as the process may use cores.
    #[must_use]
    pub fn for_this_machine() -> Self {
        Self::new(thread::available_parallelism().unwrap_or(NonZeroUsize::MIN))
    }

    /// The number of threads that do the work when there is enough of it.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.threads
    }

    fn pool(&self) -> Option<&rayon::ThreadPool> {
        let make = || {
            rayon::ThreadPoolBuilder::new()
                .num_threads(self.threads)
                .thread_name(|i| alloc::format!("luxor-aes-{i}"))
                .build()
                .ok()
        };
        self.pool.get_or_init(make).as_ref()
    }

    /// As [`LoadedKey::crypt`], on all threads when there is enough to do.
    ///
    /// # Errors
    /// As [`LoadedKey::crypt`]: after an error the first [`CryptError::done`]
    /// units are finished and all others hold their original input. What other
    /// threads had finished beyond that is turned back.
    pub fn crypt(
        &self,
        key: &dyn LoadedKey,
        direction: Direction,
        runs: &mut [Run<'_>],
    ) -> Result<(), CryptError> {
        let total: usize = runs.iter().map(Run::len).sum();
        if self.threads == 1 || total < MIN_SPLIT {
            return key.crypt(direction, runs);
        }
        let Some(pool) = self.pool() else {
            return key.crypt(direction, runs);
        };
        // A key that refuses one of the runs does so before any of them is begun.
        let mut empty: Vec<_> = runs
            .iter_mut()
            .map(|run| run.reborrow().split_at(0).0)
            .collect();
        key.crypt(direction, &mut empty)?;
        drop(empty);

        let mut batches = batches(runs, piece_len(total, self.threads));
        // A caller that takes a share itself, and then waits for a job that nobody has
        // begun, is held up while the other core is busy: beside other programs, calls of
        // 1 MiB fell to a fifth of this speed. The pool's threads steal from each other.
        let results: Vec<_> = pool.install(|| {
            batches
                .par_iter_mut()
                .with_max_len(1)
                .map(|batch| key.crypt(direction, batch))
                .collect()
        });
        match results.iter().position(Result::is_err) {
            None => Ok(()),
            Some(failed) => Err(turn_back(key, direction, &mut batches, results, failed)),
        }
    }
}

/// The bytes in a piece when `threads` threads share `total`, about.
fn piece_len(total: usize, threads: usize) -> usize {
    let share = total.div_ceil(threads);
    match share / LARGE {
        0 => (share / PIECES).max(MIN_PIECE),
        large => share.div_ceil(large.min(PIECES)),
    }
}

/// Cuts and groups runs into batches of about `piece` bytes, in order.
fn batches<'a>(runs: &'a mut [Run<'_>], piece: usize) -> Vec<Vec<Run<'a>>> {
    let mut batches = vec![Vec::new()];
    let mut room = piece;
    for run in runs {
        let mut rest = run.reborrow();
        loop {
            // At least one unit, however long it is.
            let fit = match room / rest.unit_len().get() {
                fit @ 0..UNITS => fit.max(1),
                fit => fit - fit % UNITS,
            };
            if fit >= rest.units() {
                room = room.saturating_sub(rest.len());
                batches.last_mut().expect("never empty").push(rest);
                break;
            }
            let (head, tail) = rest.split_at(fit);
            batches.last_mut().expect("never empty").push(head);
            batches.push(Vec::new());
            room = piece;
            rest = tail;
        }
        if room == 0 {
            batches.push(Vec::new());
            room = piece;
        }
    }
    batches.retain(|batch| !batch.is_empty());
    batches
}

/// Undoes what was finished after the first failure, and says how far all is done.
fn turn_back(
    key: &dyn LoadedKey,
    direction: Direction,
    batches: &mut [Vec<Run<'_>>],
    results: Vec<Result<(), CryptError>>,
    failed: usize,
) -> CryptError {
    let before: usize = batches[..failed].iter().flatten().map(Run::units).sum();
    let mut error = None;
    for (batch, result) in batches.iter_mut().zip(results).skip(failed) {
        let mut finished = match result {
            Ok(()) => usize::MAX,
            Err(e) => {
                let done = e.done;
                if error.is_none() {
                    error = Some(CryptError {
                        done: before + done,
                        kind: e.kind,
                    });
                    continue;
                }
                done
            }
        };
        for run in batch {
            let units = finished.min(run.units());
            finished -= units;
            // Separate output leaves the input as it was.
            if matches!(run.buf(), InOut::InPlace(_)) {
                let (done, _) = run.reborrow().split_at(units);
                if key.crypt(direction.inverse(), &mut [done]).is_err()
                    && let Some(error) = &mut error
                {
                    error.kind = CryptErrorKind::Torn {
                        cause: alloc::format!("{}", error.kind),
                    };
                }
            }
        }
    }
    error.expect("one batch failed")
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::run::{DataUnitLen, DataUnitNumber};

    /// Flips every bit, but fails at the unit with a given number.
    struct FailsAt(u128);

    impl LoadedKey for FailsAt {
        fn crypt(&self, _: Direction, runs: &mut [Run<'_>]) -> Result<(), CryptError> {
            let mut done = 0;
            for run in runs {
                let (first, len) = (run.first().get(), run.unit_len().get());
                for (number, unit) in (first..).zip(run.output().chunks_mut(len)) {
                    if number == self.0 {
                        let kind = CryptErrorKind::Device {
                            backend: "double",
                            message: "pulled".into(),
                        };
                        return Err(CryptError { done, kind });
                    }
                    unit.iter_mut().for_each(|b| *b = !*b);
                    done += 1;
                }
            }
            Ok(())
        }
    }

    #[test]
    fn after_an_error_the_rest_is_as_it_was() {
        let executor = Executor::new(NonZeroUsize::new(3).unwrap());
        let unit = DataUnitLen::new(512).unwrap();
        for bad in [0, 1, 700, 1500, 1501, 2047, u128::MAX] {
            let mut bytes = vec![0x5a; 1 << 20];
            let (a, b) = bytes.split_at_mut(1500 * 512);
            let mut runs = [
                Run::new(DataUnitNumber::new(0), 1, unit, a).unwrap(),
                Run::new(DataUnitNumber::new(1500), 1, unit, b).unwrap(),
            ];
            let result = executor.crypt(&FailsAt(bad), Direction::Encrypt, &mut runs);
            let done = match result {
                Ok(()) => 2048,
                Err(e) => {
                    assert_eq!(e.done as u128, bad);
                    e.done
                }
            };
            assert!(bytes[..done * 512].iter().all(|&b| b == 0xa5), "{bad}");
            assert!(bytes[done * 512..].iter().all(|&b| b == 0x5a), "{bad}");
        }
    }

    #[test]
    fn a_run_that_is_refused_stops_all_before_they_begin() {
        /// Has no units of 32 bytes.
        struct Picky;
        impl LoadedKey for Picky {
            fn crypt(&self, direction: Direction, runs: &mut [Run<'_>]) -> Result<(), CryptError> {
                if let Some(run) = runs.iter().find(|run| run.unit_len().get() == 32) {
                    let kind = CryptErrorKind::UnitLen {
                        mode: crate::Mode::Xts,
                        unit_len: run.unit_len().get(),
                    };
                    return Err(CryptError { done: 0, kind });
                }
                FailsAt(u128::MAX).crypt(direction, runs)
            }
        }
        let executor = Executor::new(NonZeroUsize::new(3).unwrap());
        let input = vec![0; 1 << 20];
        let mut output = vec![0x5a; 1 << 20];
        let (a, rest) = output.split_at_mut(1 << 19);
        let (b, c) = rest.split_at_mut(64);
        let mut from = input.as_slice();
        let runs = [(a, 512), (b, 32), (c, 64)].map(|(output, unit)| {
            let (input, behind) = from.split_at(output.len());
            from = behind;
            let unit = DataUnitLen::new(unit).unwrap();
            Run::new(
                DataUnitNumber::new(0),
                1,
                unit,
                InOut::Separate { input, output },
            )
            .unwrap()
        });
        let mut runs = runs;
        let error = executor
            .crypt(&Picky, Direction::Encrypt, &mut runs)
            .unwrap_err();
        assert_eq!(error.done, 0);
        assert!(output.iter().all(|&b| b == 0x5a));
    }

    #[test]
    fn pieces_are_even_and_large_where_there_is_much() {
        const MIB: usize = 1 << 20;
        for (total, threads, expected) in [
            (MIN_SPLIT, 2, MIN_PIECE),
            (MIN_SPLIT, 64, MIN_PIECE),
            (MIB, 2, MIB / 8),
            (8 * MIB - 2, 2, MIB - 1),
            (8 * MIB, 2, 4 * MIB),
            (16 * MIB, 2, 4 * MIB),
            (20 * MIB, 2, 5 * MIB),
            (256 * MIB, 2, 32 * MIB),
            (256 * MIB, 16, 4 * MIB),
        ] {
            assert_eq!(
                piece_len(total, threads),
                expected,
                "{total} bytes, {threads} threads"
            );
        }
        let mut bytes = vec![0; 1000 * 512];
        let unit = DataUnitLen::new(512).unwrap();
        let mut runs = [Run::new(DataUnitNumber::new(0), 1, unit, bytes.as_mut_slice()).unwrap()];
        let units: Vec<_> = batches(&mut runs, 200 * 512)
            .iter()
            .map(|batch| batch[0].units())
            .collect();
        assert_eq!(units, [192, 192, 192, 192, 192, 40]);
    }

    #[test]
    fn batches_keep_the_order_and_lose_nothing() {
        let mut bytes = vec![0; 3 << 20];
        let (a, b) = bytes.split_at_mut(1 << 20);
        let big = DataUnitLen::new(1 << 20).unwrap();
        let small = DataUnitLen::new(16).unwrap();
        let mut runs = [
            Run::new(DataUnitNumber::new(0), 1, small, a).unwrap(),
            Run::new(DataUnitNumber::new(7), 3, big, b).unwrap(),
        ];
        let batches = batches(&mut runs, 100_000);
        let mut next = 0;
        for run in batches
            .iter()
            .flatten()
            .filter(|run| run.unit_len() == small)
        {
            assert_eq!(run.first().get(), next);
            next += run.units() as u128;
        }
        assert_eq!(next, 65536);
        let firsts: Vec<_> = batches
            .iter()
            .flatten()
            .filter(|run| run.unit_len() == big)
            .map(|run| (run.first().get(), run.units()))
            .collect();
        assert_eq!(firsts, [(7, 1), (10, 1)]);
    }

    #[test]
    fn the_pool_is_used() {
        struct Counts(AtomicUsize);
        impl LoadedKey for Counts {
            fn crypt(&self, _: Direction, _: &mut [Run<'_>]) -> Result<(), CryptError> {
                self.0.fetch_add(1, Ordering::Relaxed);
                Ok(())
            }
        }
        let unit = DataUnitLen::new(512).unwrap();
        let calls = |threads, len| {
            let mut bytes = vec![0; len];
            let run = Run::new(DataUnitNumber::new(0), 1, unit, bytes.as_mut_slice()).unwrap();
            let counts = Counts(AtomicUsize::new(0));
            let executor = Executor::new(NonZeroUsize::new(threads).unwrap());
            assert_eq!(executor.threads(), threads);
            executor
                .crypt(&counts, Direction::Encrypt, &mut [run])
                .unwrap();
            counts.0.into_inner()
        };
        assert_eq!(calls(4, MIN_SPLIT - 512), 1);
        assert_eq!(calls(1, 8 << 20), 1);
        // One more asks whether all runs will do.
        assert_eq!(calls(2, 6 << 20), 1 + 8);
        assert_eq!(calls(2, 8 << 20), 1 + 2);
    }
}
