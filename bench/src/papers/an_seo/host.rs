// SPDX-License-Identifier: MIT OR Apache-2.0
//! The host's part: powers of α by the paper's three algorithms, and the paper's naive CPU. **Not
//! constant-time**: Algorithms 2 and 3 look up bytes of the tweak, and AES looks up bytes of the
//! data.

use luxor_engine::gf128;
use luxor_engine_gpu::keys::AesSize;

use crate::papers::table_aes::TableAes;

pub(crate) const BLOCK: usize = 16;

/// The step from one of the host's powers of α to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Algorithm 1: every tweak.
    One,
    /// Algorithm 2: every 8th tweak, with one table look-up.
    Eight,
    /// Algorithm 3: every 128th tweak, with 16 look-ups and those for the carry.
    By128,
}

impl Step {
    /// Returns the blocks from one power to the next.
    pub(crate) fn gap(self) -> usize {
        match self {
            Self::One => 1,
            Self::Eight => 8,
            Self::By128 => 128,
        }
    }

    /// Writes `first` and the powers after it as consecutive blocks.
    pub(crate) fn powers(self, first: u128, blocks: &mut [u8]) {
        fn fill(mut t: u128, blocks: &mut [u8], next: impl Fn(u128) -> u128) {
            for block in blocks.chunks_exact_mut(BLOCK) {
                block.copy_from_slice(&t.to_le_bytes());
                t = next(t);
            }
        }
        match self {
            Self::One => fill(first, blocks, gf128::mul_alpha),
            Self::Eight => fill(first, blocks, gf128::mul_alpha8_table),
            Self::By128 => fill(first, blocks, gf128::mul_alpha128_table),
        }
    }
}

/// The keys of XTS, for data units of one length numbered from 0.
pub(crate) struct Xts {
    pub(crate) size: AesSize,
    data_key: TableAes,
    tweak_key: TableAes,
    /// Blocks of a unit.
    pub(crate) unit: usize,
}

impl Xts {
    /// `key` is the data key, then the tweak key. Units have `unit` blocks.
    pub(crate) fn new(size: AesSize, key: &[u8], unit: usize) -> Self {
        let (data, tweak) = key.split_at(size.bytes());
        Self {
            size,
            data_key: TableAes::new(size, data),
            tweak_key: TableAes::new(size, tweak),
            unit,
        }
    }

    /// Returns the blocks from one power to the next. No power serves two units.
    pub(crate) fn gap(&self, step: Step) -> usize {
        step.gap().min(self.unit)
    }

    /// Writes the tweak of every [`Xts::gap`]-th of `blocks` blocks, starting again at each unit.
    /// Returns the number of bytes.
    pub(crate) fn starts(&self, step: Step, blocks: usize, starts: &mut [u8]) -> usize {
        let unit = self.unit.min(blocks);
        let len = BLOCK * unit.div_ceil(self.gap(step));
        let units = starts.chunks_mut(len).take(blocks.div_ceil(unit));
        let mut done = 0;
        for (number, starts) in (0_u128..).zip(units) {
            step.powers(self.tweak_key.encrypt(number), starts);
            done += starts.len();
        }
        done
    }

    /// The second half of the naive CPU: encrypts all blocks with their tweaks, one after the
    /// other.
    pub(crate) fn encrypt(&self, tweaks: &[u8], input: &[u8], output: &mut [u8]) {
        let blocks = input.chunks_exact(BLOCK).zip(tweaks.chunks_exact(BLOCK));
        for ((input, tweak), output) in blocks.zip(output.chunks_exact_mut(BLOCK)) {
            let tweak = number(tweak);
            let block = self.data_key.encrypt(number(input) ^ tweak) ^ tweak;
            output.copy_from_slice(&block.to_le_bytes());
        }
    }
}

fn number(block: &[u8]) -> u128 {
    let mut bytes = [0; BLOCK];
    bytes.copy_from_slice(block);
    u128::from_le_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_algorithm_gives_the_engines_powers() {
        let first = 0xfedc_ba98_7654_3210_0f1e_2d3c_4b5a_6978;
        for step in [Step::One, Step::Eight, Step::By128] {
            let mut blocks = vec![0; 3000 * BLOCK];
            step.powers(first, &mut blocks);
            for (i, block) in blocks.chunks(BLOCK).enumerate() {
                let power = gf128::mul_alpha_pow(first, (i * step.gap()) as u128);
                assert_eq!(number(block), power, "{step:?}, {i}");
            }
        }
    }

    #[test]
    fn the_naive_cpu_is_right() {
        for (size, len) in [(AesSize::Aes128, 32), (AesSize::Aes256, 64)] {
            let key: Vec<u8> = (1..=len).collect();
            let input: Vec<u8> = (0..=255).cycle().take(3 * 512).collect();
            for unit in [32, 96] {
                let xts = Xts::new(size, &key, unit);
                let (mut tweaks, mut output) = (vec![0; input.len()], vec![0; input.len()]);
                assert_eq!(xts.starts(Step::One, 96, &mut tweaks), input.len());
                xts.encrypt(&tweaks, &input, &mut output);
                let units = (0..).zip(input.chunks(unit * BLOCK));
                let right = units.flat_map(|(i, unit)| luxor_reference::xts_encrypt(&key, i, unit));
                assert!(output.iter().copied().eq(right), "{size:?}, {unit}");
            }
        }
    }

    #[test]
    fn every_start_is_the_tweak_of_its_block() {
        let key: Vec<u8> = (1..=32).collect();
        for unit in [32, 128, 256, 512] {
            let xts = Xts::new(AesSize::Aes128, &key, unit);
            let mut all = vec![0; 512 * BLOCK];
            xts.starts(Step::One, 512, &mut all);
            for step in [Step::Eight, Step::By128] {
                let mut starts = vec![0; 512 * BLOCK];
                let len = xts.starts(step, 512, &mut starts);
                let gap = xts.gap(step);
                assert_eq!(len, 512 / gap * BLOCK);
                for (i, start) in starts[..len].chunks(BLOCK).enumerate() {
                    let at = i * gap * BLOCK;
                    assert_eq!(start, &all[at..at + BLOCK], "{unit}, {step:?}, {i}");
                }
            }
        }
    }
}
