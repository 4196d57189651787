// SPDX-License-Identifier: MIT OR Apache-2.0
//! The paper's kernels on a device.

use std::time::Instant;

use luxor_engine::{Direction, Mode};
use luxor_engine_gpu::keys::{KeyWords, Tables};
use luxor_reference::{Aes, Block, multiply_by_alpha};

use super::{FIRST, Task, same};
use crate::devices::{About, Host, Launch, Memory, Paper, PaperKernels};

/// A device with memory for files of up to `longest` bytes.
pub(super) struct OnDevice<'a> {
    gpu: &'a mut dyn PaperKernels,
    pub(super) longest: usize,
    host: Host,
    input: Memory,
    output: Memory,
    first: Memory,
}

impl<'a> OnDevice<'a> {
    pub(super) fn new(gpu: &'a mut dyn PaperKernels, longest: usize) -> Result<Self, String> {
        gpu.queues(1)?;
        Ok(Self {
            longest,
            host: gpu.host(longest)?,
            input: gpu.memory(longest)?,
            output: gpu.memory(longest)?,
            first: gpu.memory(16)?,
            gpu,
        })
    }

    pub(super) fn about(&self) -> &About {
        self.gpu.about()
    }

    /// Loads the key, and the block from which the first tweak or counter starts.
    pub(super) fn key(&mut self, task: Task) -> Result<(), String> {
        let key = task.key();
        let (data_key, tweak_key) = key.split_at(task.size.bytes());
        let words = KeyWords::of_bytes(task.size, data_key, None, Tables::One);
        self.gpu.load(Paper::Sanida, &words)?;
        let number = u128::from(FIRST).to_le_bytes();
        let first = match task.mode {
            Mode::Xts => Aes::new(tweak_key).encrypt(number),
            _ => number,
        };
        self.gpu.bytes(self.host)?[..16].copy_from_slice(&first);
        self.gpu.upload(0, self.host, self.first, 0..16)?;
        self.gpu.wait()
    }

    /// Returns the seconds of one of `times` runs, each measured from its launch to its end.
    pub(super) fn run(
        &mut self,
        task: Task,
        per_item: u32,
        input: &[u8],
        expected: &[u8],
        times: usize,
    ) -> Result<f64, String> {
        let len = input.len();
        // Overwrite the results of earlier runs.
        self.gpu.bytes(self.host)?[..len].fill(0);
        self.gpu.upload(0, self.host, self.output, 0..len)?;
        self.gpu.bytes(self.host)?[..len].copy_from_slice(input);
        self.gpu.upload(0, self.host, self.input, 0..len)?;
        self.gpu.wait()?;
        let launch = Launch::Sanida {
            size: task.size,
            xts: (task.mode == Mode::Xts).then_some(task.direction),
            per_item,
            input: self.input,
            output: self.output,
            first: self.first,
            blocks: u32::try_from(len / 16).map_err(|e| e.to_string())?,
        };
        let begun = Instant::now();
        for _ in 0..times {
            self.gpu.launch(0, &launch)?;
            self.gpu.wait()?;
        }
        let seconds = begun.elapsed().as_secs_f64() / times as f64;
        self.gpu.download(0, self.output, self.host, 0..len)?;
        same(&self.gpu.bytes(self.host)?[..len], expected)?;
        Ok(seconds)
    }
}

/// XTS of whole blocks with any key size, by the reference's AES and its multiplication by α.
pub(super) fn xts(key: &[u8], number: u128, direction: Direction, input: &[u8]) -> Vec<u8> {
    let (data, tweak) = key.split_at(key.len() / 2);
    let data = Aes::new(data);
    let mut tweak = Aes::new(tweak).encrypt(number.to_le_bytes());
    let add = |a: Block, b: Block| -> Block { std::array::from_fn(|i| a[i] ^ b[i]) };
    let mut output = Vec::with_capacity(input.len());
    for block in input.as_chunks::<16>().0 {
        let inner = add(*block, tweak);
        let inner = match direction {
            Direction::Encrypt => data.encrypt(inner),
            Direction::Decrypt => data.decrypt(inner),
        };
        output.extend(add(inner, tweak));
        tweak = multiply_by_alpha(tweak);
    }
    output
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::devices;

    /// The committed PTX in the emulator. It leaves out one byte per work-item, which the emulator
    /// would report as a race, because it tracks words of the device's memory.
    #[test]
    fn the_emulated_gpu_agrees_with_the_reference() {
        let input: Vec<u8> = (0..=250).cycle().take(528).collect();
        {
            let mut gpu = devices::emulated().papers;
            let mut device = OnDevice::new(&mut *gpu, input.len()).unwrap();
            for task in Task::all() {
                let expected = &task.answers(&input, &[input.len()]).unwrap()[0];
                device.key(task).unwrap();
                for per_item in [16, 8, 4] {
                    let run = device.run(task, per_item, &input, expected, 1);
                    assert!(run.is_ok(), "{task:?}, {per_item}: {run:?}");
                }
            }
        }
    }

    #[test]
    fn the_composed_xts_agrees_with_the_reference() {
        let input: Vec<u8> = (0..=255).cycle().take(1024).collect();
        for len in [32, 64] {
            let key: Vec<u8> = (1..=len).collect();
            let encrypted = xts(&key, 7, Direction::Encrypt, &input);
            assert_eq!(encrypted, luxor_reference::xts_encrypt(&key, 7, &input));
            assert_eq!(xts(&key, 7, Direction::Decrypt, &encrypted), input);
        }
    }
}
