// SPDX-License-Identifier: MIT OR Apache-2.0
//! A GPU that runs the kernels.

use std::sync::Arc;

use luxor_engine::Buffer;
use luxor_engine_gpu::{AesSize, Device, DeviceError, KeyWords, QueueSizes, Ranges, Tables};

use crate::{
    driver::{Attribute, Driver, Failure},
    error::{Unusable, device_error},
    kernels,
    library::NO_DEVICE,
    memory::{CudaMemory, Gpu, Service},
    queue::CudaQueue,
    shared::{CudaKey, Shared},
};

/// The backend's name.
pub const NAME: &str = "cuda";

/// An NVIDIA GPU that is ready to run the kernels.
pub struct Cuda(Arc<Shared>);

impl Cuda {
    pub(crate) fn inner(&self) -> &Shared {
        &self.0
    }

    /// Opens every device of `driver` that can run the kernels; at least one.
    ///
    /// # Errors
    /// [`Unusable`]: the reason why there is no device, or why the first one cannot be used.
    pub fn all(driver: &Arc<dyn Driver>) -> Result<Vec<Self>, Unusable> {
        let found = driver.version()?;
        let needed = kernels::DRIVER;
        if found < needed {
            return Err(Unusable::DriverTooOld { found, needed });
        }
        let none = |failure: Failure| match failure.code {
            NO_DEVICE => Unusable::NoDevice,
            _ => failure.into(),
        };
        driver.init().map_err(none)?;
        let count = driver.device_count().map_err(none)?;
        let ranges = Arc::new(Ranges::default());
        let mut usable = Vec::new();
        let mut first = None;
        for device in 0..count {
            match Self::open(driver, device, &ranges) {
                Ok(device) => usable.push(device),
                Err(why) => first = first.or(Some(why)),
            }
        }
        match first {
            _ if !usable.is_empty() => Ok(usable),
            Some(why) => Err(why),
            None => Err(Unusable::NoDevice),
        }
    }

    /// Returns the driver's number of this device, from 0.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.0.gpu.device
    }

    fn open(driver: &Arc<dyn Driver>, device: u32, ranges: &Arc<Ranges>) -> Result<Self, Unusable> {
        let name = driver.device_name(device)?;
        let attribute = |attribute| driver.attribute(device, attribute);
        let capability = (
            attribute(Attribute::ComputeCapabilityMajor)?,
            attribute(Attribute::ComputeCapabilityMinor)?,
        );
        let shared = attribute(Attribute::SharedMemoryPerBlock)?;
        let multiprocessors = attribute(Attribute::Multiprocessors)?;
        let lacks = |found, needed| {
            Err(Unusable::Device {
                device: name.clone(),
                found,
                needed,
            })
        };
        let of = |(major, minor)| format!("compute capability {major}.{minor}");
        if capability < kernels::COMPUTE_CAPABILITY {
            return lacks(of(capability), of(kernels::COMPUTE_CAPABILITY));
        }
        if shared < kernels::SHARED {
            let of = |bytes| format!("{bytes} bytes of shared memory per block");
            return lacks(of(shared), of(kernels::SHARED));
        }

        let gpu = Arc::new(Gpu::open(driver, device, ranges)?);
        let cuda = driver.version()?;
        let (major, minor) = capability;
        let description = format!(
            "{name}, compute capability {major}.{minor}, {multiprocessors} multiprocessors, \
             driver for CUDA {}.{}",
            cuda / 1000,
            cuda % 1000 / 10
        );
        let inner = Shared {
            service: Arc::new(Service::new(&gpu)?),
            gpu,
            multiprocessors,
            description,
            programs: Default::default(),
        };
        // AES-256 is the default, so load it now. If these kernels fail to load, the others fail
        // too.
        inner.program(AesSize::Aes256)?;
        Ok(Self(Arc::new(inner)))
    }
}

impl Device for Cuda {
    type Queue = CudaQueue;
    type Key = CudaKey;
    type Memory = CudaMemory;

    fn name(&self) -> &'static str {
        NAME
    }

    fn description(&self) -> String {
        self.0.description.clone()
    }

    fn tables(&self) -> Tables {
        kernels::TABLES
    }

    fn load_key(&self, words: &KeyWords) -> Result<CudaKey, DeviceError> {
        Ok(CudaKey {
            id: self.0.program(words.size())?.slots.add(words)?,
            device: Arc::clone(&self.0),
            words: words.clone(),
        })
    }

    fn queue(&self, sizes: QueueSizes) -> Result<CudaQueue, DeviceError> {
        CudaQueue::new(&self.0, sizes).map_err(|failure| device_error(&failure))
    }

    fn alloc(&self, len: usize) -> Option<Buffer> {
        let memory = self.0.gpu.pinned_for_callers(len).ok()?;
        let aligned = memory.as_ptr().addr().is_multiple_of(luxor_engine::PAGE);
        aligned.then(|| Buffer::from_owner(memory))
    }

    fn is_pinned(&self, bytes: &[u8]) -> bool {
        self.0.gpu.is_pinned(bytes)
    }

    fn memory(&self, len: usize) -> Result<CudaMemory, DeviceError> {
        CudaMemory::zeroed(&self.0.service, len).map_err(|failure| device_error(&failure))
    }

    fn write(&self, memory: &mut CudaMemory, at: usize, bytes: &[u8]) -> Result<(), DeviceError> {
        memory.write(at, bytes)
    }

    fn read(&self, memory: &CudaMemory, at: usize, bytes: &mut [u8]) -> Result<(), DeviceError> {
        memory.read(at, bytes)
    }

    fn copy(&self, from: &CudaMemory, to: &mut CudaMemory, len: usize) -> Result<(), DeviceError> {
        to.copy(from, len)
    }
}
