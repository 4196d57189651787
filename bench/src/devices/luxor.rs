// SPDX-License-Identifier: MIT OR Apache-2.0
//! Luxor's own kernels on a device: on data that are there, and from memory to memory.

#![allow(unsafe_code, reason = "copies continue after their call returns")]

use std::rc::Rc;

use luxor_engine::{
    Backend, Buffer, DataUnitLen, DataUnitNumber, Direction, InOut, KeySpec, LoadedKey, Run,
};
use luxor_engine_gpu::{
    Device, DeviceError, GpuBackend, GpuKey, Queue, QueueSizes, Resident, ResidentRun,
};

use super::{About, said};

/// A device of one of the engine's backends, with memory on the device and on the host: an input,
/// and an output of the same length. Every call returns when its work is done.
///
/// Calls fail if [`LuxorKernels::key`], [`LuxorKernels::resident`] or [`LuxorKernels::host`] must
/// come first and has not been called, and if a length exceeds the memory.
pub(crate) trait LuxorKernels {
    fn about(&self) -> &About;

    fn key(&mut self, key: &KeySpec) -> Result<(), String>;

    /// Allocates `len` bytes of input and of output on the device, replacing the previous ones.
    fn resident(&mut self, len: usize) -> Result<(), String>;

    /// Allocates `len` bytes of pinned input and output on the host, replacing the previous ones.
    fn host(&mut self, len: usize) -> Result<(), String>;

    /// Returns the host's input and output.
    fn host_bytes(&mut self) -> Result<(&mut [u8], &mut [u8]), String>;

    /// Writes the device's input.
    fn write(&mut self, at: usize, bytes: &[u8]) -> Result<(), String>;

    /// Reads the device's output.
    fn read(&self, at: usize, bytes: &mut [u8]) -> Result<(), String>;

    /// Processes the device's input into its output.
    fn crypt_resident(&mut self, direction: Direction, work: Work) -> Result<(), String>;

    /// Copies the device's input to its output.
    fn copy_resident(&mut self, len: usize) -> Result<(), String>;

    /// As [`LuxorKernels::crypt_resident`], from the host's input to its output.
    fn crypt_host(&mut self, direction: Direction, work: Work) -> Result<(), String>;

    /// Copies the host's input to the device, and at the same time as many bytes from the device to
    /// the host's output, each on its own queue.
    fn copy_host(&mut self, len: usize) -> Result<(), String>;
}

/// `len` bytes in data units of `unit` bytes, numbered from `first`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Work {
    pub(crate) first: u64,
    pub(crate) unit: usize,
    pub(crate) len: usize,
}

/// Bytes of one copy between host and device.
const PART: usize = 32 << 20;

/// Uses the backend's only device.
pub(super) fn on<D: Device>(about: About, backend: Rc<GpuBackend<D>>) -> Box<dyn LuxorKernels> {
    Box::new(OnDevice {
        about,
        key: None,
        resident: None,
        queues: None,
        host: None,
        backend,
    })
}

/// A device with its key and its memory.
struct OnDevice<D: Device> {
    about: About,
    key: Option<GpuKey<D>>,
    resident: Option<(D::Memory, D::Memory)>,
    /// Declared before the host's memory, which the queues may be using.
    queues: Option<(D::Queue, D::Queue, usize)>,
    host: Option<(Buffer, Buffer)>,
    backend: Rc<GpuBackend<D>>,
}

impl<D: Device> OnDevice<D> {
    fn device(&self) -> &D {
        &self.backend.devices()[0]
    }
}

const NO_KEY: &str = "no key has been loaded";
const NO_MEMORY: &str = "no memory has been allocated";

impl<D: Device> LuxorKernels for OnDevice<D> {
    fn about(&self) -> &About {
        &self.about
    }

    fn key(&mut self, key: &KeySpec) -> Result<(), String> {
        self.key = Some(said(self.backend.load(key))?);
        Ok(())
    }

    fn resident(&mut self, len: usize) -> Result<(), String> {
        self.resident = None;
        let memory = || said(self.device().memory(len));
        self.resident = Some((memory()?, memory()?));
        Ok(())
    }

    fn host(&mut self, len: usize) -> Result<(), String> {
        (self.queues, self.host) = (None, None);
        let buffers = (self.backend.alloc(len), self.backend.alloc(len));
        if !self.device().is_pinned(&buffers.0) || !self.device().is_pinned(&buffers.1) {
            return Err(format!("cannot allocate {len} bytes of pinned memory"));
        }
        let part = PART.min(len).next_multiple_of(16);
        let sizes = QueueSizes {
            data: part,
            tweaks: 16,
            pieces: 32,
        };
        let queue = || said(self.device().queue(sizes));
        self.queues = Some((queue()?, queue()?, part));
        self.host = Some(buffers);
        Ok(())
    }

    fn host_bytes(&mut self) -> Result<(&mut [u8], &mut [u8]), String> {
        let (input, output) = self.host.as_mut().ok_or(NO_MEMORY)?;
        Ok((input, output))
    }

    fn write(&mut self, at: usize, bytes: &[u8]) -> Result<(), String> {
        let (input, _) = self.resident.as_mut().ok_or(NO_MEMORY)?;
        said(self.backend.devices()[0].write(input, at, bytes))
    }

    fn read(&self, at: usize, bytes: &mut [u8]) -> Result<(), String> {
        let (_, output) = self.resident.as_ref().ok_or(NO_MEMORY)?;
        said(self.device().read(output, at, bytes))
    }

    fn crypt_resident(&mut self, direction: Direction, work: Work) -> Result<(), String> {
        let key = self.key.as_ref().ok_or(NO_KEY)?;
        let (input, output) = self.resident.as_mut().ok_or(NO_MEMORY)?;
        let run = ResidentRun {
            first: DataUnitNumber::from(work.first),
            stride: 1,
            unit_len: said(DataUnitLen::new(work.unit))?,
            units: work.len / work.unit,
            input_at: 0,
            output_at: 0,
        };
        let data = Resident::Separate { input, output };
        said(key.crypt_resident(0, direction, &[run], data))
    }

    fn copy_resident(&mut self, len: usize) -> Result<(), String> {
        let (input, output) = self.resident.as_mut().ok_or(NO_MEMORY)?;
        said(self.backend.devices()[0].copy(input, output, len))
    }

    fn crypt_host(&mut self, direction: Direction, work: Work) -> Result<(), String> {
        let key = self.key.as_ref().ok_or(NO_KEY)?;
        let (input, output) = self.host.as_mut().ok_or(NO_MEMORY)?;
        let (Some(input), Some(output)) = (input.get(..work.len), output.get_mut(..work.len))
        else {
            return Err(format!("the memory is shorter than {} bytes", work.len));
        };
        let bytes = InOut::Separate { input, output };
        let unit = said(DataUnitLen::new(work.unit))?;
        let run = said(Run::new(work.first.into(), 1, unit, bytes))?;
        said(key.crypt(direction, &mut [run]))
    }

    fn copy_host(&mut self, len: usize) -> Result<(), String> {
        let (up, down, part) = self.queues.as_mut().ok_or(NO_MEMORY)?;
        let (input, output) = self.host.as_mut().ok_or(NO_MEMORY)?;
        if input.len() < len || output.len() < len {
            return Err(format!("the memory is shorter than {len} bytes"));
        }
        let mut begin = || -> Result<(), DeviceError> {
            for at in (0..len).step_by(*part) {
                let bytes = (*part).min(len - at);
                let (from, to) = (&input[at..at + bytes], &mut output[at..at + bytes]);
                // SAFETY: `from` and `to` have `bytes` bytes, and are neither used nor freed before
                // the waits below return: `queues` is declared before `host` and so dropped first.
                unsafe {
                    up.upload(from.as_ptr(), bytes, 0)?;
                    down.download(0, to.as_mut_ptr(), bytes)?;
                }
            }
            Ok(())
        };
        let begun = begin();
        // Wait for both queues, even after an error.
        let waited = (up.wait(), down.wait());
        said(begun.and(waited.0).and(waited.1))
    }
}

#[cfg(test)]
mod tests {
    use luxor_engine::XtsKey;

    use super::*;

    #[test]
    fn the_emulated_gpu_encrypts_correctly() {
        let mut own = crate::devices::emulated().luxor;
        assert_eq!(own.about().name, "cuda");
        assert!(own.about().device.starts_with("Double 0, "));
        let input: Vec<u8> = (0..=250).cycle().take(4 * 512).collect();
        let key: Vec<u8> = (1..=64).collect();
        let work = Work {
            first: 9,
            unit: 512,
            len: input.len(),
        };
        assert_eq!(own.copy_resident(1), Err(NO_MEMORY.into()));
        own.resident(input.len()).unwrap();
        own.host(input.len()).unwrap();
        assert_eq!(own.crypt_host(Direction::Encrypt, work), Err(NO_KEY.into()));
        own.key(&KeySpec::Xts(XtsKey::new(&key).unwrap())).unwrap();
        own.write(0, &input).unwrap();
        let units = (9..).zip(input.chunks(512));
        let expected: Vec<u8> = units
            .flat_map(|(number, unit)| luxor_reference::xts_encrypt(&key, number, unit))
            .collect();

        let mut found = vec![0; input.len()];
        own.copy_resident(input.len()).unwrap();
        own.read(0, &mut found).unwrap();
        assert!(found == input);
        own.crypt_resident(Direction::Encrypt, work).unwrap();
        own.read(0, &mut found).unwrap();
        assert!(found == expected);

        own.host_bytes().unwrap().0.copy_from_slice(&input);
        own.crypt_host(Direction::Encrypt, work).unwrap();
        assert!(own.host_bytes().unwrap().1 == expected);
        // The copy comes from a queue whose data are zeros.
        own.copy_host(input.len()).unwrap();
        assert!(own.host_bytes().unwrap().1.iter().all(|&b| b == 0));
        for len in [input.len() + 16, usize::MAX] {
            assert!(own.copy_resident(len).is_err() && own.copy_host(len).is_err());
        }
    }
}
