// SPDX-License-Identifier: MIT OR Apache-2.0
//! The paper's GPU systems on a device.

use std::{ops::Range, time::Instant};

use luxor_engine_gpu::keys::{AesSize, KeyWords, Tables};

use super::{
    Times,
    host::{BLOCK, Step, Xts},
};
use crate::devices::{About, Host, Launch, Memory, Paper, PaperKernels};

/// The number of streams in the paper, and the most here.
pub(crate) const STREAMS: usize = 32;

/// A device with memory for `bytes` bytes of data.
pub(crate) struct OnDevice<'a> {
    gpu: &'a mut dyn PaperKernels,
    pub(crate) bytes: usize,
    input: Host,
    output: Host,
    host_starts: Host,
    device_input: Memory,
    device_output: Memory,
    starts: Memory,
    tweaks: Memory,
    size: Option<AesSize>,
}

impl<'a> OnDevice<'a> {
    pub(crate) fn new(gpu: &'a mut dyn PaperKernels, input: &[u8]) -> Result<Self, String> {
        gpu.queues(STREAMS)?;
        let bytes = input.len();
        let device = Self {
            bytes,
            input: gpu.host(bytes)?,
            output: gpu.host(bytes)?,
            host_starts: gpu.host(bytes)?,
            device_input: gpu.memory(bytes)?,
            device_output: gpu.memory(bytes)?,
            // Enough for Algorithm 2. Algorithm 1 has all tweaks and uses `tweaks`.
            starts: gpu.memory(bytes.div_ceil(8))?,
            tweaks: gpu.memory(bytes)?,
            size: None,
            gpu,
        };
        device.gpu.bytes(device.input)?.copy_from_slice(input);
        Ok(device)
    }

    pub(crate) fn about(&self) -> &About {
        self.gpu.about()
    }

    pub(crate) fn key(&mut self, size: AesSize, key: &[u8]) -> Result<(), String> {
        self.size = Some(size);
        let words = KeyWords::of_bytes(size, &key[..size.bytes()], None, Tables::One);
        self.gpu.load(Paper::AnSeo, &words)
    }

    /// Computes the powers on the host, encrypts with copies to and from the device in `streams`
    /// streams, and then times the kernels alone on the data there. Compares the output with
    /// `expected`.
    pub(crate) fn run(
        &mut self,
        xts: &Xts,
        step: Step,
        streams: usize,
        expected: &[u8],
    ) -> Result<Times, String> {
        let blocks = self.bytes / BLOCK;
        let gap = xts.gap(step);
        self.gpu.bytes(self.output)?.fill(0);

        let host_starts = self.gpu.bytes(self.host_starts)?;
        let begun = Instant::now();
        let len = xts.starts(step, blocks, host_starts);
        let alpha = begun.elapsed().as_secs_f64();

        let begun = Instant::now();
        let part = (len / BLOCK).div_ceil(streams);
        for (queue, from) in (0..len / BLOCK).step_by(part).enumerate() {
            let gaps = from..(from + part).min(len / BLOCK);
            let bytes = gaps.start * gap * BLOCK..gaps.end * gap * BLOCK;
            let starts = gaps.start * BLOCK..gaps.end * BLOCK;
            let to = if gap == 1 { self.tweaks } else { self.starts };
            self.gpu.upload(queue, self.host_starts, to, starts)?;
            let (input, output) = (self.device_input, self.device_output);
            self.gpu.upload(queue, self.input, input, bytes.clone())?;
            self.kernels(queue, xts, gaps, gap)?;
            self.gpu.download(queue, output, self.output, bytes)?;
        }
        self.gpu.wait()?;
        let encryption = begun.elapsed().as_secs_f64();

        if self.gpu.bytes(self.output)? != expected {
            return Err("the bytes differ from the naive CPU's".into());
        }
        let begun = Instant::now();
        self.kernels(0, xts, 0..len / BLOCK, gap)?;
        self.gpu.wait()?;
        let kernels = begun.elapsed().as_secs_f64();
        Ok(Times {
            alpha: Some(alpha),
            encryption: Some(encryption),
            kernels: Some(kernels),
            total: alpha + encryption,
        })
    }

    fn kernels(
        &mut self,
        queue: usize,
        xts: &Xts,
        gaps: Range<usize>,
        gap: usize,
    ) -> Result<(), String> {
        let number = |n: usize| u32::try_from(n).map_err(|e| e.to_string());
        if gap > 1 {
            let fill = Launch::Fill {
                starts: self.starts,
                tweaks: self.tweaks,
                from: number(gaps.start)?,
                count: number(gaps.len())?,
                gap: number(gap)?,
            };
            self.gpu.launch(queue, &fill)?;
        }
        if self.size != Some(xts.size) {
            return Err("another key is loaded".into());
        }
        let encrypt = Launch::Encrypt {
            size: xts.size,
            input: self.device_input,
            output: self.device_output,
            tweaks: self.tweaks,
            from: number(gaps.start * gap)?,
            count: number(gaps.len() * gap)?,
        };
        self.gpu.launch(queue, &encrypt)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::devices;

    /// The committed PTX in the emulator: all systems, units of one gap and less, several streams.
    #[test]
    fn the_emulated_gpu_agrees_with_the_reference() {
        let input: Vec<u8> = (0..=250).cycle().take(2 * 4096).collect();
        let key: Vec<u8> = (1..=64).collect();
        {
            let mut gpu = devices::emulated().papers;
            let mut device = OnDevice::new(&mut *gpu, &input).unwrap();
            for size in [AesSize::Aes128, AesSize::Aes256] {
                let key = &key[..2 * size.bytes()];
                device.key(size, key).unwrap();
                for (unit, streams) in [(4096, 1), (512, 3)] {
                    let units = (0..).zip(input.chunks(unit));
                    let expected: Vec<u8> = units
                        .flat_map(|(number, unit)| luxor_reference::xts_encrypt(key, number, unit))
                        .collect();
                    let xts = Xts::new(size, key, unit / BLOCK);
                    for step in [Step::One, Step::Eight, Step::By128] {
                        device.run(&xts, step, streams, &expected).unwrap();
                    }
                    assert!(device.run(&xts, Step::One, 1, &input).is_err());
                }
            }
        }
    }
}
