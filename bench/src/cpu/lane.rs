// SPDX-License-Identifier: MIT OR Apache-2.0
//! The contestants of a case, and how a sample is taken.

use std::time::{Duration, Instant};

use luxor_engine::{Buffer, InOut};

use super::matrix::{Case, ResultPlace};
use crate::{
    cipher::{Cipher, direction_name},
    limit::Limit,
    neighbour::Neighbour,
    rivals::About,
    size, stats,
};

/// The number of rounds, and their lengths.
pub(super) struct Rounds {
    pub(super) count: usize,
    /// Untimed work at the beginning of a turn. For half a millisecond, a core without recent
    /// 512-bit instructions runs them slowly; after five milliseconds its clock is stable.
    settle: Duration,
    /// The target length of a sample, of which the contestant has the core for itself.
    sample: Duration,
    /// The length of a sample on a core that another program shares.
    longest_sample: Duration,
}

impl Rounds {
    pub(super) fn new(case: &Case, quick: bool) -> Self {
        Self {
            count: match (case.in_memory(), quick) {
                (false, false) => 31,
                (false, true) => 5,
                (true, false) => 13,
                (true, true) => 3,
            },
            settle: Duration::from_millis(5),
            sample: Duration::from_millis(1),
            longest_sample: Duration::from_millis(8),
        }
    }
}

/// A contestant with its measurements.
pub(super) struct Lane {
    pub(super) name: String,
    pub(super) rival: bool,
    /// Whether it uses AES instructions.
    pub(super) hardware: bool,
    pub(super) threads: usize,
    /// Whether its result is the input, and not that of the mode.
    copies: bool,
    cipher: Box<dyn Cipher>,
    /// The contestant takes part in rounds that are multiples of this.
    every: usize,
    /// One sample per round.
    pub(super) seconds_per_byte: Vec<Option<f64>>,
    /// The ratio to the limit loop between the passes.
    pub(super) of_limit: Vec<Option<f64>>,
}

struct Copy;

impl Cipher for Copy {
    fn crypt(&mut self, _: u64, _: usize, bytes: InOut<'_>) -> Result<(), String> {
        match bytes {
            InOut::Separate { input, output } => output.copy_from_slice(input),
            InOut::InPlace(_) => return Err("a copy needs two buffers".to_owned()),
        }
        Ok(())
    }
}

/// Some passes, and the slice of the limit loop behind them, in seconds per byte.
struct Piece {
    own: f64,
    slice: Option<f64>,
    /// Whether no [`Neighbour`] was seen before and behind them.
    alone: bool,
}

/// Returns the median time of the passes: of those alone on the core, if there are any.
fn seconds(pieces: &[Piece]) -> Option<f64> {
    let of = |pieces: &mut dyn Iterator<Item = &Piece>| {
        stats::median(pieces.map(|piece| piece.own).collect())
    };
    let alone = of(&mut pieces.iter().filter(|piece| piece.alone));
    alone.or_else(|| of(&mut pieces.iter()))
}

/// Returns the median ratio to the limit of the pieces that were alone on the core. Each is compared with
/// the slices before and behind it, so a change of the clock changes both sides, and a program that takes
/// the core away for a while spoils two pieces.
fn of_limit(pieces: &[Piece]) -> Option<f64> {
    // The slice before the first piece belongs to another contestant.
    let before = pieces.iter().take(1).chain(pieces);
    let pairs = pieces.iter().zip(before).filter(|(piece, _)| piece.alone);
    let ratios = pairs
        .filter_map(|(piece, before)| Some(f64::midpoint(before.slice?, piece.slice?) / piece.own));
    stats::median(ratios.collect())
}

/// Bytes that the limit loop does in a slice: 10 to 30 µs.
const SLICE: u64 = 256 << 10;

/// The least bytes that a contestant does between two slices, in as many passes as that takes. Each
/// switch between the two costs some hundred cycles, which belong to neither. With slices as long
/// as this, the clock would be that of neither.
const BETWEEN_SLICES: u64 = 1 << 20;

/// Bytes of a slice after a pass through memory, which takes many milliseconds.
const LONG_SLICE: u64 = 4 << 20;

/// If one pass through the buffer takes longer than this, the contestant is timed only in every
/// fourth round, because all others wait for it.
const SLOW: Duration = Duration::from_millis(100);

impl Lane {
    pub(super) fn kernel(name: &str, threads: usize, cipher: Box<dyn Cipher>) -> Self {
        Self {
            name: name.to_owned(),
            rival: false,
            hardware: Limit::for_kernel(name).is_some(),
            threads,
            copies: false,
            cipher,
            every: 1,
            seconds_per_byte: Vec::new(),
            of_limit: Vec::new(),
        }
    }

    pub(super) fn rival(about: &About, cipher: Box<dyn Cipher>) -> Self {
        Self {
            rival: true,
            hardware: about.hardware,
            ..Self::kernel(&about.name, 1, cipher)
        }
    }

    /// `memcpy`, which is as fast as one thread can be from one buffer in memory to another.
    pub(super) fn copy() -> Self {
        Self {
            rival: true,
            copies: true,
            ..Self::kernel("memcpy", 1, Box::new(Copy))
        }
    }

    /// Compares every byte of the result with `expected`.
    pub(super) fn check(
        &mut self,
        case: &Case,
        bytes: &mut Bytes,
        expected: &[u8],
    ) -> Result<(), String> {
        let (input, output) = bytes.both(case);
        match case.place {
            ResultPlace::In => output.copy_from_slice(input),
            ResultPlace::Out => output.fill(0),
        }
        self.pass(case, input, output)?;
        let expected = if self.copies { input } else { expected };
        let Some(at) = first_difference(output, expected) else {
            return Ok(());
        };
        Err(format!(
            "{} ({} threads) gives a different result from `portable`: {} AES-{} {}, data units \
             of {}, calls of {}, first at byte {at}. It was not timed",
            self.name,
            self.threads,
            case.mode,
            case.key_size.bytes() * 8,
            direction_name(case.direction),
            size::text(case.unit),
            size::text(case.call),
        ))
    }

    /// Warms up, and decides in which rounds the contestant takes part.
    pub(super) fn calibrate(&mut self, case: &Case, bytes: &mut Bytes) -> Result<(), String> {
        let (input, output) = bytes.both(case);
        let mut once = Duration::MAX;
        for _ in 0..3 {
            let start = Instant::now();
            self.pass(case, input, output)?;
            once = once.min(start.elapsed());
            if once > SLOW {
                break;
            }
        }
        self.every = if once > SLOW { 4 } else { 1 };
        Ok(())
    }

    /// Takes a sample: passes through the buffer, with slices of the limit loop between them.
    pub(super) fn sample(
        &mut self,
        round: usize,
        case: &Case,
        bytes: &mut Bytes,
        rounds: &Rounds,
        limit: Option<&LimitLane>,
        neighbour: &Neighbour,
    ) -> Result<(), String> {
        if !round.is_multiple_of(self.every) {
            self.seconds_per_byte.push(None);
            self.of_limit.push(None);
            return Ok(());
        }
        let (input, output) = bytes.both(case);
        let passes = BETWEEN_SLICES.div_ceil(case.buffer as u64);
        let slice = if case.in_memory() { LONG_SLICE } else { SLICE };
        // Luxor's other threads may be on the same core.
        let several = self.threads > 1;
        let is_alone = || several || neighbour.is_absent();
        let mut turn = |alone: Duration, at_most: Duration| -> Result<Vec<Piece>, String> {
            let (begun, mut pieces) = (Instant::now(), Vec::new());
            let (mut was_alone, mut time_alone) = (is_alone(), Duration::ZERO);
            while pieces.is_empty() || time_alone < alone && begun.elapsed() < at_most {
                let start = Instant::now();
                for _ in 0..passes {
                    self.pass(case, input, output)?;
                }
                let own = start.elapsed();
                // Run the slice after the passes, so that its clock is the one at which they leave
                // the core.
                let per_byte = |time: Duration, bytes: u64| time.as_secs_f64() / bytes as f64;
                let slice = limit.map(|limit| per_byte(limit.slice(slice, case), slice));
                let is_alone = is_alone();
                let piece = Piece {
                    own: per_byte(own, passes * case.buffer as u64),
                    slice,
                    alone: was_alone && is_alone,
                };
                if piece.alone {
                    time_alone += start.elapsed();
                }
                pieces.push(piece);
                was_alone = is_alone;
            }
            Ok(pieces)
        };
        // The caches and the clock are still those of the previous contestant. Passes through
        // memory take so long that they settle by themselves.
        if !case.in_memory() {
            turn(rounds.settle, rounds.settle)?;
        }
        let pieces = turn(rounds.sample, rounds.longest_sample)?;
        self.seconds_per_byte.push(seconds(&pieces));
        self.of_limit.push(of_limit(&pieces));
        Ok(())
    }

    /// Goes once through the buffer. In place, that is `output`.
    fn pass(&mut self, case: &Case, input: &[u8], output: &mut [u8]) -> Result<(), String> {
        walk(&mut *self.cipher, case, input, output).map_err(|e| format!("{}: {e}", self.name))
    }
}

/// Processes all of `output` in calls. In place, `output` is also the input.
pub(super) fn walk(
    cipher: &mut dyn Cipher,
    case: &Case,
    input: &[u8],
    output: &mut [u8],
) -> Result<(), String> {
    let per_call = (case.call / case.unit) as u64;
    let calls = output.chunks_exact_mut(case.call);
    for ((k, output), input) in (0..).zip(calls).zip(input.chunks_exact(case.call)) {
        let bytes = match case.place {
            ResultPlace::In => InOut::InPlace(output),
            ResultPlace::Out => InOut::Separate { input, output },
        };
        cipher.crypt(k * per_call, case.unit, bytes)?;
    }
    Ok(())
}

/// The limit loop of one width, timed like a contestant.
pub(super) struct LimitLane {
    pub(super) limit: Limit,
    /// Samples of all cases.
    pub(super) per_cycle: Vec<f64>,
    pub(super) ghz: Vec<f64>,
}

impl LimitLane {
    pub(super) fn new(limit: Limit) -> Self {
        Self {
            limit,
            per_cycle: Vec::new(),
            ghz: Vec::new(),
        }
    }

    /// Runs a slice between passes.
    fn slice(&self, bytes: u64, case: &Case) -> Duration {
        self.limit.run(bytes, case.key_size.aes().rounds() as u64)
    }

    /// Takes a sample.
    pub(super) fn sample(&mut self, aes_rounds: u64) {
        const MIB: u64 = 1 << 20;
        self.limit.time(MIB / 8, aes_rounds);
        let pace = self.limit.time(MIB, aes_rounds);
        self.per_cycle.push(pace.per_cycle);
        self.ghz.push(pace.ghz);
    }
}

/// The buffers of all contestants.
pub(super) struct Bytes {
    input: Buffer,
    output: Buffer,
}

impl Bytes {
    /// Allocates buffers of `len` bytes each. The input has no pattern.
    pub(super) fn new(len: usize) -> Result<Self, String> {
        let (mut input, output) = (memory(len)?, memory(len)?);
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        for word in input.chunks_mut(8) {
            // Marsaglia's xorshift.
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            word.copy_from_slice(&state.to_le_bytes()[..word.len()]);
        }
        Ok(Self { input, output })
    }

    pub(super) fn input(&self) -> &[u8] {
        &self.input
    }

    fn both(&mut self, case: &Case) -> (&[u8], &mut [u8]) {
        (&self.input[..case.buffer], &mut self.output[..case.buffer])
    }
}

/// Allocates page-aligned memory with all pages present.
pub(crate) fn memory(len: usize) -> Result<Buffer, String> {
    let mut buffer = Buffer::try_zeroed(len).map_err(|_| {
        format!(
            "there is too little memory for three times {}; see --size and --call",
            size::text(len)
        )
    })?;
    buffer.fill(1);
    Ok(buffer)
}

fn first_difference(a: &[u8], b: &[u8]) -> Option<usize> {
    if a == b {
        return None;
    }
    let differing = a.iter().zip(b).position(|(a, b)| a != b);
    Some(differing.unwrap_or(a.len().min(b.len())))
}

#[cfg(test)]
mod tests {
    use luxor_engine::{Direction, KeySize, Mode};

    use super::*;

    /// A cipher that adds the number of the data unit to its bytes, with one wrong byte.
    struct Adder {
        wrong_from: u64,
    }

    impl Cipher for Adder {
        fn crypt(&mut self, first: u64, unit: usize, mut bytes: InOut<'_>) -> Result<(), String> {
            let input = bytes.input().to_vec();
            for (i, (to, from)) in bytes.output().iter_mut().zip(input).enumerate() {
                let number = first + (i / unit) as u64;
                let added = u8::try_from(number % 256).unwrap();
                *to = from.wrapping_add(added);
                if first * unit as u64 + i as u64 == self.wrong_from {
                    *to ^= 1;
                }
            }
            Ok(())
        }
    }

    /// In the third piece another program had the core for a while, in the last two it shared it.
    #[test]
    fn ratios_to_the_limit_are_of_neighbouring_moments_alone_on_the_core() {
        let piece = |own, slice, alone| Piece {
            own,
            slice: Some(slice),
            alone,
        };
        let pieces = [
            piece(2.0, 1.6, true),
            piece(2.0, 1.6, true),
            piece(9.0, 1.6, true),
            // The clock changes between two slices.
            piece(3.0, 3.2, true),
            piece(4.0, 3.2, true),
            piece(5.0, 3.2, false),
            piece(5.0, 3.2, false),
        ];
        let near = |found: Option<f64>, expected: f64| (found.unwrap() - expected).abs() < 1e-9;
        assert!(near(of_limit(&pieces), 0.8), "{:?}", of_limit(&pieces));
        assert!(near(seconds(&pieces), 3.0));
        assert_eq!(of_limit(&pieces[5..]), None);
        assert_eq!(seconds(&pieces[5..]), Some(5.0));
    }

    #[test]
    fn one_wrong_byte_is_named() {
        for place in [ResultPlace::In, ResultPlace::Out] {
            let case = Case {
                mode: Mode::Xts,
                key_size: KeySize::Aes128,
                direction: Direction::Encrypt,
                place,
                unit: 16,
                call: 64,
                buffer: 256,
            };
            let mut bytes = Bytes::new(256).unwrap();
            let expected: Vec<u8> = bytes
                .input()
                .iter()
                .enumerate()
                .map(|(i, byte)| byte.wrapping_add(u8::try_from(i / 16).unwrap()))
                .collect();
            let mut check = |wrong_from| {
                Lane::kernel("adder", 1, Box::new(Adder { wrong_from }))
                    .check(&case, &mut bytes, &expected)
            };
            assert_eq!(check(u64::MAX), Ok(()));
            for wrong in [0, 255] {
                let message = check(wrong).unwrap_err();
                assert!(message.contains("adder"), "{message}");
                assert!(
                    message.contains(&format!("first at byte {wrong}.")),
                    "{message}"
                );
            }
        }
    }
}
