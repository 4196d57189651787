// SPDX-License-Identifier: MIT OR Apache-2.0
//! Distributes the work of a large call over several cores.
//!
//! A call is cut into pieces, and each thread has a share of them. If all threads are needed, each
//! thread begins with the same piece in every call, so that the data may still be in its core's own
//! cache. A thread that has finished its share takes pieces that are left in the shares of others.

mod chains;
mod crew;
mod sync;

use alloc::{string::ToString, vec, vec::Vec};
use core::num::NonZeroUsize;
use std::sync::{Mutex, OnceLock, PoisonError};

pub use self::chains::Chains;
use self::{
    crew::Crew,
    sync::{AtomicUsize, Ordering},
};
use crate::{
    backend::{CryptError, CryptErrorKind, Direction, LoadedKey},
    mode::blocks::AROUND_CACHES,
    run::{InOut, Run},
};

/// The fewest bytes for which another thread is woken. Waking it takes the caller some
/// microseconds, and the thread takes longer to start than a core needs to encrypt fewer bytes.
const MIN_SHARE: usize = 512 << 10;

/// The largest number of threads. No known machine gains from more, and asking the system for
/// 100,000 threads would harm it.
const MAX_THREADS: usize = 1024;

/// Pieces per thread in a call: a few, so that other threads can help when another program takes
/// time from one core.
const PIECES: usize = 4;

/// The smallest piece in bytes, so that batches of units stay long.
const MIN_PIECE: usize = 64 << 10;

/// Pieces contain a multiple of this many units, unless the units are too long for that. The widest
/// kernel encrypts this many numbers together.
const UNITS: usize = 32;

/// Parts of units are multiples of this many bytes, whole passes of every kernel.
const PART: usize = 4096;

/// Splits runs by units over a pool of threads, which starts when it is first needed and then
/// stays. Long units of XTS are split too ([`LoadedKey::takes_parts_of_units`]).
///
/// It is for CPU keys, which run each call on one thread. A device's backend schedules its own
/// work, and receives long calls whole ([`LoadedKey::whole_from`]).
#[derive(Debug)]
pub struct Executor {
    threads: usize,
    /// All threads except the caller's.
    crew: OnceLock<Crew>,
}

impl Executor {
    /// Makes an executor with `threads` threads, at most 1024. With one thread, or if the system
    /// refuses to start more, all work runs on the caller's thread.
    #[must_use]
    pub fn new(threads: NonZeroUsize) -> Self {
        Self {
            threads: threads.get().min(MAX_THREADS),
            crew: OnceLock::new(),
        }
    }

    /// The number of threads that take part in a sufficiently large call.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// As [`LoadedKey::crypt`], on as many threads as get at least 512 KiB each. Several threads
    /// may call it at once; they share the pool.
    ///
    /// # Errors
    /// As [`LoadedKey::crypt`]: the first [`CryptError::done`] units are finished, and all others
    /// hold their original input. Units beyond them that other threads had already finished in
    /// place are restored; a separate output keeps them. A unit length that the mode does not
    /// accept is found before any work begins.
    ///
    /// # Panics
    /// If the key panics, which the keys of this crate do not. The panic is passed on once no
    /// thread works on `runs` any more, and the executor stays usable. The contents of the buffers
    /// are then undefined: any number of units may be finished, and some may be half finished.
    pub fn crypt(
        &self,
        key: &dyn LoadedKey,
        direction: Direction,
        runs: &mut [Run<'_>],
    ) -> Result<(), CryptError> {
        let total: usize = runs.iter().map(Run::len).sum();
        let threads = self.threads.min(total / MIN_SHARE);
        if threads < 2 || total >= key.whole_from() {
            return key.crypt(direction, runs);
        }
        // Let the key check the unit lengths of all runs before any work begins.
        let mut empty: Vec<_> = runs
            .iter_mut()
            .map(|run| run.reborrow().split_at(0).0)
            .collect();
        key.crypt(direction, &mut empty)?;
        drop(empty);

        let piece = piece_len(total, threads);
        let pieces: Vec<_> = batches(runs, piece, key.takes_parts_of_units())
            .map(|batch| Mutex::new((batch, Ok(()))))
            .collect();
        let crew = self.crew.get_or_init(|| Crew::new(self.threads - 1));
        let shares = Shares::new(pieces.len(), crew.len() + 1);
        // With long units there may be fewer pieces than threads.
        crew.run(threads.min(pieces.len()) - 1, &|me| {
            for piece in shares.pieces(me) {
                let mut piece = pieces[piece].lock().expect("each piece is locked once");
                let (batch, result) = &mut *piece;
                *result = key.crypt(direction, batch);
            }
        });
        let (mut batches, results): (Vec<_>, Vec<_>) = pieces
            .into_iter()
            .map(|piece| piece.into_inner().unwrap_or_else(PoisonError::into_inner))
            .unzip();
        match results.iter().position(Result::is_err) {
            None => Ok(()),
            Some(failed) => Err(turn_back(key, direction, &mut batches, results, failed)),
        }
    }
}

/// The assignment of pieces to threads.
struct Shares {
    /// For each share, its next piece and the index after its last.
    shares: Vec<(AtomicUsize, usize)>,
}

impl Shares {
    fn new(pieces: usize, threads: usize) -> Self {
        let begin = |thread| pieces * thread / threads;
        let share = |thread| (AtomicUsize::new(begin(thread)), begin(thread + 1));
        Self {
            shares: (0..threads).map(share).collect(),
        }
    }

    /// Yields the pieces that `thread` takes: first its own share, then what is left of the others.
    /// No piece is yielded twice.
    fn pieces(&self, thread: usize) -> impl Iterator<Item = usize> {
        let (before, from) = self.shares.split_at(thread);
        from.iter().chain(before).flat_map(|(next, end)| {
            core::iter::from_fn(|| Some(next.fetch_add(1, Ordering::Relaxed)))
                .take_while(|piece| piece < end)
        })
    }
}

/// Returns the approximate length in bytes of a piece when `threads` threads share `total` bytes.
fn piece_len(total: usize, threads: usize) -> usize {
    let share = total.div_ceil(threads);
    // A share that is long enough for the kernels to store around the caches is cut into pieces
    // that still are.
    match share / AROUND_CACHES {
        0 => share.div_ceil(PIECES).max(MIN_PIECE),
        large => share.div_ceil(large),
    }
}

/// Cuts and groups `runs` into batches of about `piece` bytes, in order. With `splits_units`,
/// longer units are cut into parts.
fn batches<'a>(
    runs: &'a mut [Run<'_>],
    piece: usize,
    splits_units: bool,
) -> impl Iterator<Item = Vec<Run<'a>>> {
    let mut batches = Batches {
        piece,
        room: piece,
        batches: vec![Vec::new()],
    };
    for run in runs {
        let run = run.reborrow();
        if splits_units && run.unit_len().get() > piece {
            batches.add_in_parts(run);
        } else {
            batches.add(run);
        }
    }
    let batches = batches.batches.into_iter();
    batches.filter(|batch| !batch.is_empty())
}

struct Batches<'a> {
    piece: usize,
    /// The bytes for which there is room in the last batch.
    room: usize,
    batches: Vec<Vec<Run<'a>>>,
}

impl<'a> Batches<'a> {
    fn add(&mut self, mut rest: Run<'a>) {
        while !rest.is_empty() {
            self.make_room(rest.unit_len().get());
            // Take at least one unit, however long it is.
            let fit = match self.room / rest.unit_len().get() {
                fit @ 0..UNITS => fit.max(1),
                fit => fit.next_multiple_of(UNITS),
            };
            let units = rest.units();
            let (head, tail) = rest.split_at(fit.min(units));
            self.push(head);
            rest = tail;
        }
    }

    fn add_in_parts(&mut self, mut rest: Run<'a>) {
        while !rest.is_empty() {
            let (mut unit, later) = rest.split_at(1);
            loop {
                self.make_room(PART);
                let part = self.room.next_multiple_of(PART);
                // No part is shorter than `PART`.
                if unit.len() < part + PART {
                    self.push(unit);
                    break;
                }
                let (head, tail) = unit.split_unit(part);
                self.push(head);
                unit = tail;
            }
            rest = later;
        }
    }

    /// Begins another batch if there is no room for `len` bytes in the last one.
    fn make_room(&mut self, len: usize) {
        if self.room < len {
            self.batches.push(Vec::new());
            self.room = self.piece;
        }
    }

    fn push(&mut self, run: Run<'a>) {
        self.room = self.room.saturating_sub(run.len());
        let last = self.batches.last_mut();
        last.expect("there is always one").push(run);
    }
}

/// Restores what was finished in place after the first failure, and returns the resulting error.
fn turn_back(
    key: &dyn LoadedKey,
    direction: Direction,
    batches: &mut [Vec<Run<'_>>],
    results: Vec<Result<(), CryptError>>,
    failed: usize,
) -> CryptError {
    let units = |batch: &[Run<'_>]| batch.iter().map(Run::units).sum::<usize>();
    // The first part of a unit counts for the unit. The failed batch begins with a whole unit,
    // since calls with parts do not fail (`LoadedKey::takes_parts_of_units`).
    let begun = batches[..failed].iter().flatten();
    let begun = begun.filter(|run| run.unit_offset() == 0);
    let before: usize = begun.map(Run::units).sum();
    let mut first = None;
    // Whether a unit after the finished ones is neither finished nor restored.
    let mut torn = false;
    for (batch, result) in batches.iter_mut().zip(results).skip(failed) {
        let mut finished = units(batch);
        if let Err(e) = result {
            // A wrong `done` from a backend must not reach beyond its batch.
            finished = finished.min(e.done);
            torn |= matches!(e.kind, CryptErrorKind::Torn { .. });
            if first.is_none() {
                first = Some((finished, e.kind));
                continue;
            }
        }
        for run in batch {
            let units = finished.min(run.units());
            finished -= units;
            // A separate output needs no restoring: its input is unchanged.
            if units > 0 && matches!(run.buf(), InOut::InPlace(_)) {
                let (done, _) = run.reborrow().split_at(units);
                torn |= key.crypt(direction.inverse(), &mut [done]).is_err();
            }
        }
    }
    let (done, kind) = first.expect("one batch failed");
    let kind = match kind {
        torn @ CryptErrorKind::Torn { .. } => torn,
        kind if torn => CryptErrorKind::Torn {
            cause: kind.to_string(),
        },
        kind => kind,
    };
    CryptError::new(before + done, kind)
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::{
        key::{AesKey, KeySpec},
        run::{DataUnitLen, DataUnitNumber},
    };

    /// The batches of two units of `len` bytes: for each run of a batch, the number of its first
    /// unit, its offset and its length.
    fn two_units(len: usize, piece: usize, splits_units: bool) -> Vec<Vec<(u128, usize, usize)>> {
        let mut bytes = vec![0; 2 * len];
        let unit = DataUnitLen::new(len).unwrap();
        let run = Run::new(DataUnitNumber::new(7), 3, unit, bytes.as_mut_slice()).unwrap();
        let describe = |run: Run<'_>| {
            assert_eq!(run.is_part(), run.len() < len);
            (run.first().get(), run.unit_offset(), run.len())
        };
        batches(&mut [run], piece, splits_units)
            .map(|batch| batch.into_iter().map(describe).collect())
            .collect()
    }

    #[test]
    fn units_longer_than_a_piece_are_split() {
        let whole = [[(7, 0, 50_000)], [(10, 0, 50_000)]];
        assert_eq!(two_units(50_000, 49_999, false), whole);
        assert_eq!(two_units(50_000, 50_000, true), whole);
        assert_eq!(
            two_units(50_000, 40_960, true),
            [
                vec![(7, 0, 40_960)],
                vec![(7, 40_960, 9040), (10, 0, 32_768)],
                vec![(10, 32_768, 17_232)],
            ]
        );
        // No part is shorter than 4096 bytes.
        assert_eq!(
            two_units(2 * 40_960 + 4095, 40_960, true),
            [
                [(7, 0, 40_960)],
                [(7, 40_960, 45_055)],
                [(10, 0, 40_960)],
                [(10, 40_960, 45_055)]
            ]
        );
    }

    /// Returns by how many per cent the last of equally fast threads is late.
    fn lateness(len: usize, units: usize, threads: usize) -> usize {
        let mut bytes = vec![0; len * units];
        let unit = DataUnitLen::new(len).unwrap();
        let run = Run::new(DataUnitNumber::new(7), 3, unit, bytes.as_mut_slice()).unwrap();
        let mut runs = [run];
        let piece = piece_len(len * units, threads);
        let batches: Vec<_> = batches(&mut runs, piece, true).collect();
        let shares = Shares::new(batches.len(), threads);
        let mut works: Vec<_> = (0..threads).map(|me| (0, shares.pieces(me))).collect();
        loop {
            // The thread that is free first takes its next piece.
            let (time, pieces) = works.iter_mut().min_by_key(|work| work.0).unwrap();
            match pieces.next() {
                Some(piece) => *time += batches[piece].iter().map(Run::len).sum::<usize>(),
                None => break,
            }
        }
        let last = works.iter().map(|work| work.0).max().unwrap();
        100 * last * threads / (len * units) - 100
    }

    #[test]
    fn threads_finish_long_units_together() {
        for threads in [2, 3, 4, 6, 12] {
            for (len, units) in [
                ((1 << 20) + 1, threads),
                ((1 << 20) + 1, 2 * threads + 1),
                ((2 << 20) + 1, threads),
                (DataUnitLen::MAX.get(), 1),
                (DataUnitLen::MAX.get(), 2),
            ] {
                let late = lateness(len, units, threads);
                assert!(
                    late <= 5,
                    "{threads} threads, {units} units of {len} bytes: {late} %"
                );
            }
        }
    }

    /// A key that flips every bit, and fails at the units with the given numbers.
    #[derive(Default)]
    struct Double {
        fails: Vec<u128>,
        /// As `fails`, but the error is `Torn`.
        tears: Vec<u128>,
        /// Errors claim more finished units than there are.
        boasts: bool,
        /// Decryption fails, so finished units cannot be restored.
        cannot_undo: bool,
        panics: Vec<u128>,
    }

    impl Double {
        fn failing(units: &[u128]) -> Self {
            Self {
                fails: units.into(),
                ..Self::default()
            }
        }
    }

    fn pulled(number: u128) -> CryptErrorKind {
        CryptErrorKind::Device {
            backend: "double",
            message: alloc::format!("pulled at {number}"),
        }
    }

    impl LoadedKey for Double {
        fn crypt(&self, direction: Direction, runs: &mut [Run<'_>]) -> Result<(), CryptError> {
            if self.cannot_undo && direction == Direction::Decrypt {
                return Err(CryptError::new(0, pulled(u128::MAX)));
            }
            let mut done = 0;
            for run in runs {
                let (first, len) = (run.first().get(), run.unit_len().get());
                for (number, unit) in (first..).zip(run.output().chunks_mut(len)) {
                    assert!(!self.panics.contains(&number), "the double panics");
                    let said = if self.boasts { usize::MAX } else { done };
                    if self.fails.contains(&number) {
                        return Err(CryptError::new(said, pulled(number)));
                    }
                    if self.tears.contains(&number) {
                        let cause = pulled(number).to_string();
                        return Err(CryptError::new(said, CryptErrorKind::Torn { cause }));
                    }
                    unit.iter_mut().for_each(|b| *b = !*b);
                    done += 1;
                }
            }
            Ok(())
        }
    }

    /// Encrypts 2048 units of 512 bytes, 0x5a each, with an executor: a dozen batches.
    fn crypt_2048(key: &dyn LoadedKey) -> (Result<(), CryptError>, Vec<u8>) {
        let executor = Executor::new(NonZeroUsize::new(3).unwrap());
        let unit = DataUnitLen::new(512).unwrap();
        let mut bytes = vec![0x5a; 1 << 20];
        let run = Run::new(DataUnitNumber::new(0), 1, unit, bytes.as_mut_slice()).unwrap();
        let result = executor.crypt(key, Direction::Encrypt, &mut [run]);
        (result, bytes)
    }

    fn assert_done(bytes: &[u8], done: usize) {
        assert!(bytes[..done * 512].iter().all(|&b| b == 0xa5), "{done}");
        assert!(bytes[done * 512..].iter().all(|&b| b == 0x5a), "{done}");
    }

    #[test]
    fn work_of_later_batches_is_undone() {
        // The first two cases fail inside batches of 128 units.
        for fails in [[300, 1500], [300, 301], [0, 2047]] {
            let (result, bytes) = crypt_2048(&Double::failing(&fails));
            let e = result.unwrap_err();
            assert_eq!((e.done as u128, e.kind), (fails[0], pulled(fails[0])));
            assert_done(&bytes, e.done);
        }
    }

    #[test]
    fn torn_data_are_reported_once() {
        let torn = |cause| CryptErrorKind::Torn {
            cause: pulled(cause).to_string(),
        };
        for (fails, tears, cannot_undo) in [
            // Tears in the first batch that fails, and in later ones.
            (vec![], vec![300], false),
            (vec![300], vec![1500], false),
            (vec![], vec![300, 1500], false),
            // Many batches after the first cannot be restored.
            (vec![300], vec![], true),
            (vec![], vec![300], true),
        ] {
            let (result, bytes) = crypt_2048(&Double {
                fails,
                tears,
                cannot_undo,
                ..Double::default()
            });
            let e = result.unwrap_err();
            assert_eq!((e.done, e.kind), (300, torn(300)));
            assert!(bytes[..300 * 512].iter().all(|&b| b == 0xa5));
        }
    }

    #[test]
    fn done_never_exceeds_the_end_of_the_failed_batch() {
        for fails in [vec![0], vec![700], vec![2047], vec![700, 1500]] {
            let (result, _) = crypt_2048(&Double {
                boasts: true,
                ..Double::failing(&fails)
            });
            let e = result.unwrap_err();
            let first = usize::try_from(fails[0]).unwrap();
            // The end of the batch that failed, not of the call.
            let batch = (piece_len(1 << 20, 2) / 512).next_multiple_of(UNITS);
            let end = (first + 1).next_multiple_of(batch).min(2048);
            assert_eq!(e.done, end);
        }
    }

    #[test]
    fn a_panic_propagates_and_the_crew_survives() {
        let executor = Executor::new(NonZeroUsize::new(3).unwrap());
        let unit = DataUnitLen::new(512).unwrap();
        let mut bytes = vec![0x5a; 1 << 20];
        let mut crypt = |key: &Double| {
            let run = Run::new(DataUnitNumber::new(0), 1, unit, bytes.as_mut_slice()).unwrap();
            executor.crypt(key, Direction::Encrypt, &mut [run])
        };
        let panicking = Double {
            panics: vec![300],
            ..Double::default()
        };
        let panic = std::panic::AssertUnwindSafe(|| crypt(&panicking));
        let payload = std::panic::catch_unwind(panic).unwrap_err();
        let text = payload.downcast_ref::<&str>();
        assert_eq!(text, Some(&"the double panics"));
        crypt(&Double::default()).unwrap();
    }

    #[test]
    fn a_bad_run_is_refused_before_a_good_one_is_begun() {
        let executor = Executor::new(NonZeroUsize::new(2).unwrap());
        let spec = KeySpec::Ecb(AesKey::new(&[7; 16]).unwrap());
        let key = crate::kernel::portable().load_key(&spec).unwrap();
        let mut good = vec![0x5a; 1 << 20];
        let mut bad = [0x5a; 34];
        let mut runs = [(16, good.as_mut_slice()), (17, bad.as_mut_slice())].map(|(len, bytes)| {
            let unit = DataUnitLen::new(len).unwrap();
            Run::new(DataUnitNumber::new(0), 1, unit, bytes).unwrap()
        });
        let e = executor
            .crypt(&*key, Direction::Encrypt, &mut runs)
            .unwrap_err();
        assert_eq!(e.done, 0);
        assert!(matches!(
            e.kind,
            CryptErrorKind::UnitLen { unit_len: 17, .. }
        ));
        assert!(good.iter().chain(&bad).all(|&b| b == 0x5a));
    }

    #[test]
    fn after_an_error_the_rest_is_unchanged() {
        let executor = Executor::new(NonZeroUsize::new(3).unwrap());
        let unit = DataUnitLen::new(512).unwrap();
        for bad in [0, 1, 700, 1500, 1501, 2047, u128::MAX] {
            let mut bytes = vec![0x5a; 1 << 20];
            let (a, b) = bytes.split_at_mut(1500 * 512);
            let mut runs = [
                Run::new(DataUnitNumber::new(0), 1, unit, a).unwrap(),
                Run::new(DataUnitNumber::new(1500), 1, unit, b).unwrap(),
            ];
            let result = executor.crypt(&Double::failing(&[bad]), Direction::Encrypt, &mut runs);
            let done = match result {
                Ok(()) => 2048,
                Err(e) => {
                    assert_eq!(e.done as u128, bad);
                    e.done
                }
            };
            assert_done(&bytes, done);
        }
    }

    #[test]
    fn a_run_that_is_refused_stops_all_before_they_begin() {
        /// A key that refuses units of 32 bytes.
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
                Double::default().crypt(direction, runs)
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
    fn pieces_are_even_and_grow_with_the_call() {
        const MIB: usize = 1 << 20;
        for (total, threads, expected) in [
            (MIB, 2, MIB / 8),
            (MIB, 64, MIN_PIECE),
            (32 * MIB - 2, 2, 4 * MIB),
            (32 * MIB, 2, AROUND_CACHES),
            (100 * MIB, 2, 50 * MIB / 3 + 1),
            (256 * MIB, 2, AROUND_CACHES),
            (256 * MIB, 16, AROUND_CACHES),
            (240 * MIB, 16, 15 * MIB / 4),
        ] {
            assert_eq!(
                piece_len(total, threads),
                expected,
                "{total} bytes, {threads} threads"
            );
        }
        let mut bytes = vec![0; 1000 * 512];
        let unit = DataUnitLen::new(512).unwrap();
        let run = Run::new(DataUnitNumber::new(0), 1, unit, bytes.as_mut_slice()).unwrap();
        let units: Vec<_> = batches(&mut [run], 200 * 512, true)
            .map(|batch| batch[0].units())
            .collect();
        assert_eq!(units, [224, 224, 224, 224, 104]);
    }

    #[test]
    fn every_piece_is_taken_once() {
        for (pieces, threads) in [(1, 1), (1, 4), (8, 3), (3, 8), (1000, 7)] {
            let shares = Shares::new(pieces, threads);
            // All threads except the last take one piece, and the last takes the rest.
            let mut taken: Vec<_> = (0..threads - 1)
                .filter_map(|thread| shares.pieces(thread).next())
                .collect();
            let own: Vec<_> = taken.clone();
            taken.extend(shares.pieces(threads - 1));
            taken.sort_unstable();
            assert_eq!(taken, Vec::from_iter(0..pieces), "{threads} threads");
            let begins = |thread: &usize| pieces * thread / threads;
            if pieces >= threads {
                assert_eq!(own, Vec::from_iter((0..threads - 1).map(|i| begins(&i))));
            }
            assert_eq!(shares.pieces(0).next(), None);
        }
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
        let batches: Vec<_> = batches(&mut runs, 100_000, false).collect();
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
    fn large_calls_are_split_unless_the_key_takes_them_whole() {
        struct Counts {
            calls: AtomicUsize,
            whole_from: usize,
        }
        impl LoadedKey for Counts {
            fn crypt(&self, _: Direction, _: &mut [Run<'_>]) -> Result<(), CryptError> {
                self.calls.fetch_add(1, Ordering::Relaxed);
                Ok(())
            }

            fn whole_from(&self) -> usize {
                self.whole_from
            }
        }
        let unit = DataUnitLen::new(512).unwrap();
        let calls_of = |threads, len, whole_from| {
            let mut bytes = vec![0; len];
            let run = Run::new(DataUnitNumber::new(0), 1, unit, bytes.as_mut_slice()).unwrap();
            let counts = Counts {
                calls: AtomicUsize::new(0),
                whole_from,
            };
            let executor = Executor::new(NonZeroUsize::new(threads).unwrap());
            assert_eq!(executor.threads(), threads);
            executor
                .crypt(&counts, Direction::Encrypt, &mut [run])
                .unwrap();
            counts.calls.into_inner()
        };
        let calls = |threads, len| calls_of(threads, len, usize::MAX);
        assert_eq!(calls(4, 2 * MIN_SHARE - 512), 1);
        assert_eq!(calls(1, 8 << 20), 1);
        // One more call checks that the key accepts all runs.
        assert_eq!(calls(2, 6 << 20), 1 + 8);
        assert_eq!(calls(2, 32 << 20), 1 + 2);
        assert_eq!(calls_of(2, 6 << 20, 6 << 20), 1);
        assert_eq!(calls_of(2, 6 << 20, (6 << 20) + 1), 1 + 8);
    }
}
