// SPDX-License-Identifier: MIT OR Apache-2.0
//! The plaintext of volumes in the memory of NVIDIA GPUs.

use std::{ffi::c_void, mem::ManuallyDrop, sync::Arc};

use luxor::{
    DeviceCopy, DeviceDisk, UnlockedVolume, VolumeDisk,
    engine_cuda::{Cuda, CudaMemory, Library, keeping_context},
    engine_gpu::{DeviceError, DeviceRange, GpuBackend, StreamDevice},
};

use crate::{
    error::{Error, call, luxor_code, luxor_error},
    pointers,
    volume::{check_range, check_writable, failed, luxor_volume},
};

/// The GPUs of this machine, for the volumes that are opened with them.
#[derive(Clone)]
pub(crate) struct Gpus {
    driver: Arc<Library>,
    backend: Arc<GpuBackend<Cuda>>,
}

impl Gpus {
    pub(crate) fn open() -> Result<Self, Error> {
        let refused =
            |error: &dyn std::fmt::Display| luxor::Error::failure(format!("no GPU: {error}"));
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

    /// Lends `len` bytes at `address` to `work`, with the number of their GPU.
    ///
    /// # Safety
    /// As [`StreamDevice::borrow`], with the stream whose work comes first.
    unsafe fn with<T>(
        &self,
        address: u64,
        len: usize,
        stream: usize,
        work: impl FnOnce(usize, &mut CudaMemory) -> T,
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
            Ok(work(device, &mut borrowed.map_err(refused)?))
        })
    }
}

/// As `luxor_volume_read_at`, into the memory of an NVIDIA GPU: `address` is a `CUdeviceptr`. Ciphertext
/// crosses the bus, and the GPU decrypts it. The volume was opened with `luxor_options_set_gpus`.
///
/// Before anything is written, the work that `stream` has now is done: a `CUstream` of the GPU's primary
/// context, or NULL for the default stream. When the function returns, everything is done. A stream or an
/// address that the driver does not know is undefined behaviour.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn luxor_volume_read_to_gpu(
    volume: *const luxor_volume,
    address: u64,
    len: usize,
    offset: u64,
    stream: *mut c_void,
    error: *mut *mut luxor_error,
) -> luxor_code {
    // SAFETY: all pointers keep the caller's contract.
    unsafe {
        call(error, || {
            let gpus = pointers::here(volume, "volume")?.on_gpus()?;
            let disk = gpus.disk();
            check_range(disk, len, offset)?;
            if len == 0 {
                return Ok(());
            }
            let copy = DeviceCopy { offset, len, at: 0 };
            let read = gpus.with(address, len, stream.addr(), |device, memory| {
                gpus.disk.read_into(device, memory, &[copy])
            })?;
            read.map_err(|error| failed(disk, "read", len, offset, &error))
        })
    }
}

/// As `luxor_volume_write_at`, from the memory of an NVIDIA GPU. `address` and `stream` are as for
/// `luxor_volume_read_to_gpu`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn luxor_volume_write_from_gpu(
    volume: *const luxor_volume,
    address: u64,
    len: usize,
    offset: u64,
    stream: *mut c_void,
    error: *mut *mut luxor_error,
) -> luxor_code {
    // SAFETY: all pointers keep the caller's contract.
    unsafe {
        call(error, || {
            let gpus = pointers::here(volume, "volume")?.on_gpus()?;
            let disk = gpus.disk();
            check_range(disk, len, offset)?;
            check_writable(disk)?;
            if len == 0 {
                return Ok(());
            }
            let copy = DeviceCopy { offset, len, at: 0 };
            let written = gpus.with(address, len, stream.addr(), |device, memory| {
                gpus.disk.write_from(device, memory, &[copy])
            })?;
            written.map_err(|error| failed(disk, "write", len, offset, &error))
        })
    }
}
