// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who takes part in a case, and how a sample is taken.

use std::time::{Duration, Instant};

use luxor_engine::{Buffer, InOut};

use super::matrix::{Case, Place};
use crate::{cipher::Cipher, limit::Limit, rivals::About, size};

/// How often, and for how long.
pub(super) struct Rounds {
    pub(super) count: usize,
    /// What a sample should take.
    sample: Duration,
}

impl Rounds {
    pub(super) fn new(case: &Case, quick: bool) -> Self {
        Self {
            count: match (case.in_memory(), quick) {
                (false, false) => 201,
                (false, true) => 41,
                (true, false) => 13,
                (true, true) => 5,
            },
            // The clock follows the instructions within a millisecond.
            sample: Duration::from_micros(80),
        }
    }
}

/// A contestant, with what was measured of it.
pub(super) struct Lane {
    pub(super) name: String,
    pub(super) rival: bool,
    /// Whether it uses AES instructions.
    pub(super) hardware: bool,
    pub(super) threads: usize,
    cipher: Box<dyn Cipher>,
    /// How often the buffer is gone through in a sample.
    passes: u32,
    /// Takes part in the rounds whose number is a multiple of this.
    every: usize,
    /// One sample a round.
    pub(super) seconds_per_byte: Vec<Option<f64>>,
    /// Of the limit loop, between their passes.
    pub(super) limit_seconds_per_byte: Vec<Option<f64>>,
}

/// One pass through the buffer that takes longer makes everybody wait: such a
/// contestant is timed in every fourth round only.
const SLOW: Duration = Duration::from_millis(100);

impl Lane {
    pub(super) fn kernel(name: &str, threads: usize, cipher: Box<dyn Cipher>) -> Self {
        Self {
            name: name.to_owned(),
            rival: false,
            hardware: Limit::of(name).is_some(),
            threads,
            cipher,
            passes: 1,
            every: 1,
            seconds_per_byte: Vec::new(),
            limit_seconds_per_byte: Vec::new(),
        }
    }

    pub(super) fn rival(about: &About, cipher: Box<dyn Cipher>) -> Self {
        Self {
            rival: true,
            hardware: about.hardware,
            ..Self::kernel(&about.name, 1, cipher)
        }
    }

    /// Compares every byte of the answer with `expected`.
    ///
    /// # Errors
    /// When the cipher fails or one byte differs.
    pub(super) fn check(
        &mut self,
        case: &Case,
        bytes: &mut Bytes,
        expected: &[u8],
    ) -> Result<(), String> {
        let (input, output) = bytes.both(case);
        match case.place {
            Place::In => output.copy_from_slice(input),
            Place::Out => output.fill(0),
        }
        self.pass(case, input, output)?;
        let Some(at) = first_difference(output, expected) else {
            return Ok(());
        };
        Err(format!(
            "{} ({} threads) gives another answer than `portable`: {} AES-{} {}, data units of {}, \
             calls of {}, first at byte {at}. Nothing of it is timed",
            self.name,
            self.threads,
            case.mode,
            case.key_size.bytes() * 8,
            super::direction_name(case.direction),
            size::text(case.unit),
            size::text(case.call),
        ))
    }

    /// Warms up, and finds how many passes make a sample.
    pub(super) fn calibrate(
        &mut self,
        case: &Case,
        bytes: &mut Bytes,
        rounds: &Rounds,
    ) -> Result<(), String> {
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
        self.passes = passes(rounds.sample, once);
        Ok(())
    }

    /// Its turn in a round, with the limit loop before each pass.
    pub(super) fn sample(
        &mut self,
        round: usize,
        case: &Case,
        bytes: &mut Bytes,
        rounds: &Rounds,
        limit: Option<&LimitLane>,
    ) -> Result<(), String> {
        if !round.is_multiple_of(self.every) {
            self.seconds_per_byte.push(None);
            self.limit_seconds_per_byte.push(None);
            return Ok(());
        }
        let (input, output) = bytes.both(case);
        // The caches and the clock are still the one before's.
        if !case.in_memory() {
            for _ in 0..self.passes.div_ceil(2) {
                self.pass(case, input, output)?;
            }
        }
        let mut seconds = 0.0;
        let mut limit_seconds = limit.map(|_| 0.0);
        for _ in 0..self.passes {
            if let Some((sum, limit)) = limit_seconds.as_mut().zip(limit) {
                *sum += limit.slice(case, rounds);
            }
            let start = Instant::now();
            self.pass(case, input, output)?;
            seconds += start.elapsed().as_secs_f64();
        }
        let done = f64::from(self.passes) * case.buffer as f64;
        self.seconds_per_byte.push(Some(seconds / done));
        let per_byte = limit_seconds.map(|sum| sum / f64::from(self.passes));
        self.limit_seconds_per_byte.push(per_byte);
        Ok(())
    }

    /// Once through the buffer; in place that is `output`.
    fn pass(&mut self, case: &Case, input: &[u8], output: &mut [u8]) -> Result<(), String> {
        walk(&mut *self.cipher, case, input, output).map_err(|e| format!("{}: {e}", self.name))
    }
}

/// Calls over all of `output`, which in place is the input too.
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
            Place::In => InOut::InPlace(output),
            Place::Out => InOut::Separate { input, output },
        };
        cipher.crypt(k * per_call, case.unit, bytes)?;
    }
    Ok(())
}

/// The limit loop of one width, beside the contestants.
pub(super) struct LimitLane {
    pub(super) limit: Limit,
    /// In all cases.
    pub(super) per_cycle: Vec<f64>,
    pub(super) ghz: Vec<f64>,
    /// Bytes of AES-128 in a nanosecond, at a guess.
    pace: f64,
}

impl LimitLane {
    pub(super) fn new(limit: Limit) -> Self {
        Self {
            limit,
            per_cycle: Vec::new(),
            ghz: Vec::new(),
            pace: 10.0,
        }
    }

    /// Bytes that take a sample's time.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "some megabytes"
    )]
    fn bytes(&self, aes_rounds: u64, rounds: &Rounds) -> u64 {
        (rounds.sample.as_nanos() as f64 * self.pace * 10.0 / aes_rounds as f64) as u64
    }

    /// Seconds a byte, for a pass of a contestant: of as many bytes, but no longer
    /// than a sample.
    fn slice(&self, case: &Case, rounds: &Rounds) -> f64 {
        let aes_rounds = case.key_size.rounds() as u64;
        let bytes = self.bytes(aes_rounds, rounds).min(case.buffer as u64);
        self.limit.run(bytes, aes_rounds).as_secs_f64() / bytes as f64
    }

    /// Its turn in a round.
    pub(super) fn sample(&mut self, aes_rounds: u64, rounds: &Rounds) -> Result<(), String> {
        let bytes = self.bytes(aes_rounds, rounds);
        self.limit.time(bytes / 8, aes_rounds)?;
        let pace = self.limit.time(bytes, aes_rounds)?;
        let seconds = pace.elapsed.as_secs_f64();
        self.per_cycle.push(pace.per_cycle);
        self.ghz.push(pace.ghz);
        self.pace = (bytes as f64 * aes_rounds as f64 / 10.0 / (seconds * 1e9)).clamp(0.1, 1000.0);
        Ok(())
    }
}

/// The memory that everybody works on.
pub(super) struct Bytes {
    input: Buffer,
    output: Buffer,
}

impl Bytes {
    /// Of `len` bytes each, the input filled with bytes of no pattern.
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

/// Page-aligned memory, all pages present.
///
/// # Errors
/// When there is too little.
pub(super) fn memory(len: usize) -> Result<Buffer, String> {
    let mut buffer = Buffer::try_zeroed(len).map_err(|_| {
        format!(
            "there is no memory for {}, which is needed three times; see --size and --call",
            size::text(len)
        )
    })?;
    buffer.fill(1);
    Ok(buffer)
}

fn passes(target: Duration, once: Duration) -> u32 {
    let passes = target.as_nanos() / once.as_nanos().max(1);
    u32::try_from(passes).unwrap_or(u32::MAX).clamp(1, 1 << 20)
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

    /// Adds the number of the data unit to its bytes; wrong from a byte on.
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

    #[test]
    fn one_wrong_byte_is_named() {
        for place in [Place::In, Place::Out] {
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

    #[test]
    fn samples_have_a_length() {
        let ms = Duration::from_millis;
        assert_eq!(passes(ms(2), ms(50)), 1);
        assert_eq!(passes(ms(2), Duration::from_micros(4)), 500);
        assert_eq!(passes(ms(2), Duration::ZERO), 1 << 20);
    }
}
