// SPDX-License-Identifier: MIT OR Apache-2.0
//! A device's context, and memory in it: on the device and pinned on the host. What goes
//! is wiped first.

#![allow(unsafe_code, reason = "memory of devices, by address")]

use std::{
    ptr::NonNull,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use luxor_engine_gpu::{DeviceError, DeviceMemory, HostMemory, Ranges};

use crate::{
    driver::{Address, Context, Driver, Failure, Stream},
    error::device_error,
};

/// A device with its context.
pub(crate) struct Gpu {
    pub(crate) driver: Arc<dyn Driver>,
    device: u32,
    context: Context,
    ranges: Arc<Ranges>,
}

impl Gpu {
    /// The device numbered `device`, whose driver is ready. `ranges` are those of all devices
    /// of that driver.
    pub(crate) fn open(
        driver: &Arc<dyn Driver>,
        device: u32,
        ranges: &Arc<Ranges>,
    ) -> Result<Self, Failure> {
        Ok(Self {
            driver: Arc::clone(driver),
            device,
            context: driver.retain_context(device)?,
            ranges: Arc::clone(ranges),
        })
    }

    /// Calls of the calling thread are for this device from now on.
    pub(crate) fn enter(&self) -> Result<(), Failure> {
        self.driver.make_current(self.context)
    }

    pub(crate) fn is_pinned(&self, bytes: &[u8]) -> bool {
        self.ranges.contain(bytes)
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        // SAFETY: whatever was made in the context has this value behind an `Arc`.
        unsafe { self.driver.release_context(self.device) };
    }
}

/// A stream for what belongs to no queue: keys, wiping, copies that are waited for.
pub(crate) struct Service {
    gpu: Arc<Gpu>,
    stream: Mutex<Stream>,
}

impl Service {
    pub(crate) fn new(gpu: &Arc<Gpu>) -> Result<Self, Failure> {
        gpu.enter()?;
        Ok(Self {
            gpu: Arc::clone(gpu),
            stream: Mutex::new(gpu.driver.create_stream()?),
        })
    }

    /// Does `work` on the stream and waits for it. What `work` was given memory for is under
    /// way no more afterwards, whatever failed.
    pub(crate) fn run(
        &self,
        work: impl FnOnce(&dyn Driver, Stream) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let stream = lock(&self.stream);
        self.gpu.enter()?;
        let begun = work(&*self.gpu.driver, *stream);
        // SAFETY: the stream was made for this context and is there until `drop`.
        let done = unsafe { self.gpu.driver.wait(*stream) };
        begun.and(done)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let stream = *lock(&self.stream);
        if self.gpu.enter().is_ok() {
            // SAFETY: as in `run`; nobody has it any more.
            unsafe { self.gpu.driver.destroy_stream(stream) };
        }
    }
}

/// Memory on a device. Wiped when dropped.
pub struct CudaMemory {
    service: Arc<Service>,
    address: Address,
    len: usize,
}

impl CudaMemory {
    /// `len` zero bytes.
    pub(crate) fn zeroed(service: &Arc<Service>, len: usize) -> Result<Self, Failure> {
        service.gpu.enter()?;
        let memory = Self {
            service: Arc::clone(service),
            // The driver has no memory of no bytes.
            address: service.gpu.driver.alloc(len.max(1))?,
            len,
        };
        memory.wipe(len)?;
        Ok(memory)
    }

    /// Whether it is on the device that has this service.
    pub(crate) fn is_of(&self, service: &Arc<Service>) -> bool {
        Arc::ptr_eq(&self.service, service)
    }

    /// Where it begins.
    pub(crate) fn address(&self) -> Address {
        self.address
    }

    /// Overwrites the first `len` bytes.
    fn wipe(&self, len: usize) -> Result<(), Failure> {
        let len = len.min(self.len);
        self.service.run(|driver, stream| {
            if len == 0 {
                return Ok(());
            }
            // SAFETY: the memory has so many bytes. Nothing else is under way in it: a queue
            // waits before it wipes, and who drops memory has waited.
            unsafe { driver.fill_with_zeros(self.address, len, stream) }
        })
    }

    pub(crate) fn write(&mut self, at: usize, bytes: &[u8]) -> Result<(), DeviceError> {
        self.check(at, bytes.len())?;
        let to = self.address.after(at);
        self.service
            .run(|driver, stream| {
                // SAFETY: `check`; `run` waits, and until then the bytes are borrowed.
                unsafe { driver.upload(to, bytes.as_ptr(), bytes.len(), stream) }
            })
            .map_err(|failure| device_error(&failure))
    }

    pub(crate) fn read(&self, at: usize, bytes: &mut [u8]) -> Result<(), DeviceError> {
        self.check(at, bytes.len())?;
        let from = self.address.after(at);
        self.service
            .run(|driver, stream| {
                // SAFETY: as in `write`.
                unsafe { driver.download(bytes.as_mut_ptr(), from, bytes.len(), stream) }
            })
            .map_err(|failure| device_error(&failure))
    }

    /// The first `len` bytes of `from`, which is on the same device.
    pub(crate) fn copy(&mut self, from: &Self, len: usize) -> Result<(), DeviceError> {
        self.check(0, len)?;
        from.check(0, len)?;
        if !Arc::ptr_eq(&self.service, &from.service) {
            let message = "the memory is another device's".into();
            return Err(DeviceError::Launch { message });
        }
        self.service
            .run(|driver, stream| {
                // SAFETY: `check`; both are there until `run` has waited.
                unsafe { driver.copy(self.address, from.address, len, stream) }
            })
            .map_err(|failure| device_error(&failure))
    }
}

impl DeviceMemory for CudaMemory {
    fn len(&self) -> usize {
        self.len
    }
}

impl Drop for CudaMemory {
    fn drop(&mut self) {
        // If that fails the device is lost, and its memory with it.
        let _ = self.wipe(self.len);
        let gpu = &self.service.gpu;
        if gpu.enter().is_ok() {
            // SAFETY: it is from `alloc`, and nothing uses it any more: queues and callers
            // wait before they drop it.
            unsafe { gpu.driver.free(self.address) };
        }
    }
}

/// Pinned memory of the host. Wiped when dropped.
pub(crate) type Pinned = HostMemory<PinnedOwner>;

/// Gives pinned memory back.
pub(crate) struct PinnedOwner {
    gpu: Arc<Gpu>,
    start: NonNull<u8>,
}

// SAFETY: the pointer is for `free_host`, and nobody reads or writes by it.
unsafe impl Send for PinnedOwner {}
// SAFETY: as above.
unsafe impl Sync for PinnedOwner {}

impl Gpu {
    /// Pinned memory of `len` zero bytes.
    pub(crate) fn pinned(self: &Arc<Self>, len: usize) -> Result<Pinned, Failure> {
        self.enter()?;
        // The driver has no memory of no bytes.
        let start = self.driver.alloc_host(len.max(1))?;
        let gpu = Arc::clone(self);
        // SAFETY: it is of so many bytes, and there until the owner gives it back.
        Ok(unsafe { HostMemory::new(start, len, PinnedOwner { gpu, start }) })
    }

    /// As [`Gpu::pinned`], and known to [`Gpu::is_pinned`].
    pub(crate) fn pinned_for_callers(self: &Arc<Self>, len: usize) -> Result<Pinned, Failure> {
        Ok(self.pinned(len)?.listed(&self.ranges))
    }
}

impl Drop for PinnedOwner {
    fn drop(&mut self) {
        if self.gpu.enter().is_ok() {
            // SAFETY: it is from `alloc_host`, and copies into and out of it are waited for
            // before it goes.
            unsafe { self.gpu.driver.free_host(self.start) };
        }
    }
}

/// A panic elsewhere changes nothing of what is locked here.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
