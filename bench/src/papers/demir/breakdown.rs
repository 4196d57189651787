// SPDX-License-Identifier: MIT OR Apache-2.0
//! The time of the parts of XTS, as in the paper's Tables 1 and 2, in software.
//!
//! The engine's kernels do all work on a block while it is in a register, so the parts are measured
//! separately. Each part makes passes over the same number of bytes, in calls of the same length:
//! the engine's ECB with the tweak key encrypts the data unit numbers, [`powers`] multiplies by
//! powers of α, plain loops do the two XORs, and ECB with the data key encrypts the data. A check
//! ensures that the parts together produce the same bytes as the whole. The sum of the parts
//! exceeds the whole by the time that their fusion saves.
//!
//! The clock is read around a pass, not around a call.

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use luxor_engine::{
    Backend, Buffer, DataUnitLen, DataUnitNumber, Direction, InOut, KeySpec, LoadedKey, Run, XtsKey,
};
use serde::{Deserialize, Serialize};

use super::{REQUESTS, Requests};
use crate::{
    cipher::{crypt, direction_name},
    coprocessor::{BLOCK, powers, xor},
    disk::KEY,
    plaintext::Pattern,
    stats::{self, Summary},
};

/// The buffer of all passes. With its tweaks it fits an L2 cache.
pub(super) const BUFFER: usize = 64 << 10;

/// The paper's 50 MB, in whole buffers.
pub(super) const BYTES: usize = 763 * BUFFER;

/// The times of the parts and of the whole.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct SoftwareTimes {
    pub(super) direction: &'static str,
    #[serde(flatten)]
    pub(super) requests: Requests,
    pub(super) seconds: Parts,
}

#[derive(Debug, Deserialize, Serialize)]
pub(super) struct Parts {
    pub(super) whole: Summary,
    /// Encryption of the data unit numbers.
    pub(super) numbers: Summary,
    /// Multiplication by powers of α.
    pub(super) powers: Summary,
    pub(super) first_xor: Summary,
    pub(super) cipher: Summary,
    pub(super) second_xor: Summary,
    /// The whole minus its parts: negative if doing them together saves time.
    pub(super) other: Summary,
    /// The whole minus numbers and cipher: the cost of the powers and the XORs when the engine does
    /// everything together.
    pub(super) fused: Summary,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Whole,
    Numbers,
    Powers,
    FirstXor,
    Cipher,
    SecondXor,
}

const PARTS: [Part; 6] = [
    Part::Whole,
    Part::Numbers,
    Part::Powers,
    Part::FirstXor,
    Part::Cipher,
    Part::SecondXor,
];

/// Returns the bytes that are measured: in a quick run an eighth.
pub(super) fn bytes(quick: bool) -> usize {
    if quick {
        BYTES / BUFFER / 4 * BUFFER
    } else {
        BYTES
    }
}

/// Measures all rows of both tables.
pub(super) fn measure(backend: &dyn Backend, quick: bool) -> Result<Vec<SoftwareTimes>, String> {
    let mut rows = Vec::new();
    for direction in [Direction::Encrypt, Direction::Decrypt] {
        for requests in REQUESTS {
            let mut work = Work::new(backend, direction, requests)?;
            work.check()
                .map_err(|e| format!("{}: {e}", requests.text()))?;
            let seconds = work.time(if quick { 3 } else { 31 }, bytes(quick))?;
            rows.push(SoftwareTimes {
                direction: direction_name(direction),
                requests,
                seconds,
            });
        }
    }
    Ok(rows)
}

/// Returns the time of two reads of the clock, in nanoseconds.
pub(super) fn clock() -> f64 {
    const READS: u32 = 100_000;
    let begun = Instant::now();
    let mut sum = Duration::ZERO;
    for _ in 0..READS {
        sum += black_box(Instant::now()).elapsed();
    }
    black_box(sum);
    begun.elapsed().as_secs_f64() * 1e9 / f64::from(READS)
}

/// One direction and one length of requests.
struct Work {
    direction: Direction,
    sector: usize,
    request: usize,
    whole: Box<dyn LoadedKey>,
    data_key: Box<dyn LoadedKey>,
    tweak_key: Box<dyn LoadedKey>,
    input: Buffer,
    output: Buffer,
    /// The data unit numbers as blocks, then all blocks of tweaks.
    numbers: Buffer,
    tweaks: Buffer,
}

impl Work {
    fn new(
        backend: &dyn Backend,
        direction: Direction,
        requests: Requests,
    ) -> Result<Self, String> {
        let key = XtsKey::new(&KEY).map_err(|e| e.to_string())?;
        let load = |key: KeySpec| backend.load_key(&key).map_err(|e| e.to_string());
        let mut input = Buffer::zeroed(BUFFER);
        Pattern::new().fill(&mut input);
        Ok(Self {
            direction,
            sector: requests.sector_bytes,
            request: requests.request_bytes.unwrap_or(BUFFER),
            data_key: load(KeySpec::Ecb(key.data_key().clone()))?,
            tweak_key: load(KeySpec::Ecb(key.tweak_key().clone()))?,
            whole: load(KeySpec::Xts(key))?,
            input,
            output: Buffer::zeroed(BUFFER),
            numbers: Buffer::zeroed(BUFFER / requests.sector_bytes * BLOCK),
            tweaks: Buffer::zeroed(BUFFER),
        })
    }

    /// Goes once through the buffer, call by call.
    fn pass(&mut self, part: Part) -> Result<(), String> {
        let stride = (self.sector / 512) as u64;
        let first_of = |request: usize| (request / 512) as u64;
        let units = self.request / self.sector;
        let steps = (0..BUFFER).step_by(self.request);
        match part {
            Part::Whole => {
                for at in steps {
                    let range = at..at + self.request;
                    let bytes = InOut::Separate {
                        input: &self.input[range.clone()],
                        output: &mut self.output[range],
                    };
                    let unit = DataUnitLen::new(self.sector).map_err(|e| e.to_string())?;
                    let first = DataUnitNumber::from(first_of(at));
                    let run = Run::new(first, stride, unit, bytes).map_err(|e| e.to_string())?;
                    let done = self.whole.crypt(self.direction, &mut [run]);
                    done.map_err(|e| e.to_string())?;
                }
            }
            Part::Numbers => {
                for at in steps {
                    let begin = at / self.sector * BLOCK;
                    let blocks = &mut self.numbers[begin..begin + units * BLOCK];
                    let mut number = first_of(at);
                    for block in blocks.chunks_exact_mut(BLOCK) {
                        block.copy_from_slice(&u128::from(number).to_le_bytes());
                        number += stride;
                    }
                    ecb(&*self.tweak_key, Direction::Encrypt, InOut::InPlace(blocks))?;
                }
            }
            Part::Powers => {
                for at in steps {
                    let begin = at / self.sector * BLOCK;
                    let numbers = &self.numbers[begin..begin + units * BLOCK];
                    let tweaks = &mut self.tweaks[at..at + self.request];
                    for (number, tweaks) in numbers
                        .chunks_exact(BLOCK)
                        .zip(tweaks.chunks_exact_mut(self.sector))
                    {
                        powers(number, tweaks);
                    }
                }
            }
            Part::FirstXor => {
                for at in steps {
                    let range = at..at + self.request;
                    let blocks = InOut::Separate {
                        input: &self.input[range.clone()],
                        output: &mut self.output[range.clone()],
                    };
                    xor(blocks, &self.tweaks[range]);
                    black_box(&mut self.output);
                }
            }
            Part::Cipher => {
                for at in steps {
                    let request = &mut self.output[at..at + self.request];
                    ecb(&*self.data_key, self.direction, InOut::InPlace(request))?;
                }
            }
            Part::SecondXor => {
                for at in steps {
                    let range = at..at + self.request;
                    let blocks = InOut::InPlace(&mut self.output[range.clone()]);
                    xor(blocks, &self.tweaks[range]);
                    black_box(&mut self.output);
                }
            }
        }
        Ok(())
    }

    /// Checks that the parts, one after the other, produce the bytes of the whole.
    fn check(&mut self) -> Result<(), String> {
        self.pass(Part::Whole)?;
        let expected = self.output.to_vec();
        self.output.fill(0);
        for part in &PARTS[1..] {
            self.pass(*part)?;
        }
        if self.output[..] == expected {
            Ok(())
        } else {
            Err("the parts of XTS together differ from the engine's XTS".to_owned())
        }
    }

    /// Measures all parts in turns.
    fn time(&mut self, rounds: usize, bytes: usize) -> Result<Parts, String> {
        let mut samples = [const { Vec::new() }; PARTS.len()];
        for at in stats::turns(rounds, PARTS.len()) {
            // The clock follows the instructions, so the first passes are not timed.
            for _ in 0..bytes / BUFFER {
                self.pass(PARTS[at])?;
            }
            let begun = Instant::now();
            for _ in 0..bytes / BUFFER {
                self.pass(PARTS[at])?;
            }
            samples[at].push(begun.elapsed().as_secs_f64());
        }
        let less = |parts: &[Part]| {
            let of = |part: Part, round: usize| samples[part as usize][round];
            let rest =
                |round| of(Part::Whole, round) - parts.iter().map(|&p| of(p, round)).sum::<f64>();
            (0..rounds).map(rest).collect()
        };
        let other = less(&PARTS[1..]);
        let fused = less(&[Part::Numbers, Part::Cipher]);
        let summary =
            |samples: Vec<f64>| Summary::from_samples(samples).ok_or("no round was measured");
        let [whole, numbers, powers, first_xor, cipher, second_xor] = samples;
        Ok(Parts {
            whole: summary(whole)?,
            numbers: summary(numbers)?,
            powers: summary(powers)?,
            first_xor: summary(first_xor)?,
            cipher: summary(cipher)?,
            second_xor: summary(second_xor)?,
            other: summary(other)?,
            fused: summary(fused)?,
        })
    }
}

/// Processes blocks as one data unit.
fn ecb(key: &dyn LoadedKey, direction: Direction, blocks: InOut<'_>) -> Result<(), String> {
    crypt(key, direction, 0_u64, blocks.len(), blocks)
}

#[cfg(test)]
mod tests {
    use luxor_engine::Registry;

    use super::*;

    #[test]
    fn the_parts_give_the_same_result_as_the_whole() {
        let portable = Registry::cpu().get("portable").unwrap();
        for direction in [Direction::Encrypt, Direction::Decrypt] {
            for requests in REQUESTS {
                let mut work = Work::new(&*portable, direction, requests).unwrap();
                assert_eq!(work.check(), Ok(()), "{requests:?}");
            }
        }
    }
}
