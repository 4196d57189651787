// SPDX-License-Identifier: MIT OR Apache-2.0
//! The plaintext of volumes in the memory of NVIDIA GPUs.

use std::{fmt, mem::ManuallyDrop, sync::Arc};

use luxor::{
    DeviceDisk, UnlockedVolume, VolumeDisk,
    engine_cuda::{Cuda, CudaMemory, Library, keeping_context},
    engine_gpu::{DeviceError, DeviceRange, GpuBackend, StreamDevice},
};

use crate::error::Error;

/// The GPUs of this machine, for the volumes that are opened with them.
#[derive(Clone)]
pub(crate) struct Gpus {
    driver: Arc<Library>,
    backend: Arc<GpuBackend<Cuda>>,
}

impl Gpus {
    pub(crate) fn open() -> Result<Self, Error> {
        let refused = |error: &dyn fmt::Display| luxor::Error::failure(format!("no GPU: {error}"));
        let driver = Library::open().map_err(|error| refused(&error))?;
        let backend = keeping_context(&*driver, luxor::engine_cuda::backend);
        let backend = Arc::new(backend.map_err(|error| refused(&error))?);
        Ok(Self { driver, backend })
    }

    /// Loads the keys of a volume.
    pub(crate) fn disk(&self, volume: UnlockedVolume) -> Result<GpuDisk, Error> {
        let disk = keeping_context(&*self.driver, || volume.disk_on(&self.backend))?;
        Ok(GpuDisk {
            gpus: self.clone(),
            disk: ManuallyDrop::new(disk),
        })
    }
}

/// A volume with its keys on the GPUs.
pub(crate) struct GpuDisk {
    gpus: Gpus,
    disk: ManuallyDrop<DeviceDisk<Cuda>>,
}

impl Drop for GpuDisk {
    fn drop(&mut self) {
        keeping_context(&*self.gpus.driver, || {
            // SAFETY: nothing uses the disk after this.
            unsafe { ManuallyDrop::drop(&mut self.disk) };
        });
    }
}

impl GpuDisk {
    pub(crate) fn disk(&self) -> &VolumeDisk {
        self.disk.disk()
    }

    /// Lends `len` bytes at `address` to `work`, with the number of their GPU, for a copy from or to them.
    ///
    /// # Safety
    /// As [`StreamDevice::borrow`], with the stream whose work comes first.
    pub(crate) unsafe fn with<T>(
        &self,
        address: u64,
        len: usize,
        stream: usize,
        work: impl FnOnce(&DeviceDisk<Cuda>, usize, &mut CudaMemory) -> T,
    ) -> Result<T, Error> {
        keeping_context(&*self.gpus.driver, || {
            let devices = self.gpus.backend.devices();
            let refused = |error: DeviceError| Error::invalid(error.to_string());
            let device = Cuda::of_address(devices, address).map_err(refused)?;
            let device = device.ok_or_else(|| {
                Error::invalid(format!("address {address:#x} is in the memory of no GPU"))
            })?;
            let range = DeviceRange { address, len };
            // SAFETY: guaranteed by the caller.
            let borrowed = unsafe { devices[device].borrow(range, &[stream]) };
            Ok(work(&self.disk, device, &mut borrowed.map_err(refused)?))
        })
    }
}
