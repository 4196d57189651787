// SPDX-License-Identifier: MIT OR Apache-2.0
//! A device's context, and memory in it: on the device, and pinned on the host. All memory is wiped
//! before it is freed.

#![allow(unsafe_code, reason = "device memory is given by address")]

use std::{
    ptr::NonNull,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use luxor_engine::PAGE;
use luxor_engine_gpu::{DeviceError, DeviceMemory, HostMemory, Ranges};

use crate::{
    driver::{Address, Context, Driver, Failure, Stream},
    error::device_error,
};

/// A device with its context.
pub(crate) struct Gpu {
    pub(crate) driver: Arc<dyn Driver>,
    pub(crate) device: u32,
    context: Context,
    ranges: Arc<Ranges>,
}

impl Gpu {
    /// Opens device number `device` of an initialized driver. `ranges` is shared by all devices of
    /// the driver.
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

    /// Makes this device's context current, so that the calling thread's calls are for this device.
    pub(crate) fn enter(&self) -> Result<(), Failure> {
        self.driver.make_current(self.context)
    }

    /// Returns whether this is the device's context.
    pub(crate) fn is_in(&self, context: Context) -> bool {
        self.context == context
    }

    pub(crate) fn is_pinned(&self, bytes: &[u8]) -> bool {
        self.ranges.contain(bytes)
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        // SAFETY: everything that was created in the context holds this value through an `Arc`.
        unsafe { self.driver.release_context(self.device) };
    }
}

/// A stream for work that belongs to no queue: keys, wiping and blocking copies.
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

    pub(crate) fn gpu(&self) -> &Gpu {
        &self.gpu
    }

    /// Runs `work` on the stream and waits for it. Afterwards nothing uses the memory that was
    /// passed to `work`, even after an error.
    pub(crate) fn run(
        &self,
        work: impl FnOnce(&dyn Driver, Stream) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let stream = lock(&self.stream);
        self.gpu.enter()?;
        let begun = work(&*self.gpu.driver, *stream);
        // SAFETY: the stream was created in this context and exists until `drop`.
        let done = unsafe { self.gpu.driver.wait(*stream) };
        begun.and(done)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let stream = *lock(&self.stream);
        if self.gpu.enter().is_ok() {
            // SAFETY: as in `run`; nothing uses the stream any more.
            unsafe { self.gpu.driver.destroy_stream(stream) };
        }
    }
}

/// Memory on a device. Wiped and freed when dropped, unless it is a caller's.
pub struct CudaMemory {
    service: Arc<Service>,
    address: Address,
    len: usize,
    is_callers: bool,
}

impl CudaMemory {
    /// Allocates `len` zero bytes.
    pub(crate) fn zeroed(service: &Arc<Service>, len: usize) -> Result<Self, Failure> {
        service.gpu.enter()?;
        let memory = Self {
            service: Arc::clone(service),
            // The driver refuses to allocate zero bytes.
            address: service.gpu.driver.alloc(len.max(1))?,
            len,
            is_callers: false,
        };
        memory.wipe(len)?;
        Ok(memory)
    }

    /// Memory that a caller has allocated and will free.
    pub(crate) fn of_caller(service: &Arc<Service>, address: Address, len: usize) -> Self {
        Self {
            service: Arc::clone(service),
            address,
            len,
            is_callers: true,
        }
    }

    /// Returns whether the memory is on the device of this service.
    pub(crate) fn is_of(&self, service: &Arc<Service>) -> bool {
        Arc::ptr_eq(&self.service, service)
    }

    /// Returns the address of the first byte.
    #[must_use]
    pub fn address(&self) -> Address {
        self.address
    }

    /// Overwrites the first `len` bytes.
    fn wipe(&self, len: usize) -> Result<(), Failure> {
        let len = len.min(self.len);
        self.service.run(|driver, stream| {
            if len == 0 {
                return Ok(());
            }
            // SAFETY: `len <= self.len`. Nothing else is under way in this memory: a queue waits
            // before it wipes, and owners wait before they drop it.
            unsafe { driver.fill_with_zeros(self.address, len, stream) }
        })
    }

    pub(crate) fn write(&mut self, at: usize, bytes: &[u8]) -> Result<(), DeviceError> {
        self.check(at, bytes.len())?;
        let to = self.address.after(at);
        self.service
            .run(|driver, stream| {
                // SAFETY: `check` bounds the device range; `bytes` is borrowed until `run` has
                // waited.
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

    /// Copies the first `len` bytes of `from`, which must be on the same device.
    pub(crate) fn copy(&mut self, from: &Self, len: usize) -> Result<(), DeviceError> {
        self.check(0, len)?;
        from.check(0, len)?;
        if !Arc::ptr_eq(&self.service, &from.service) {
            let message = "the memory is another device's".into();
            return Err(DeviceError::Launch { message });
        }
        self.service
            .run(|driver, stream| {
                // SAFETY: `check` bounds both ranges, in two allocations that exist until `run` has
                // waited.
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
        if self.is_callers {
            return;
        }
        // If wiping fails, the device is lost together with its memory.
        let _ = self.wipe(self.len);
        let gpu = &self.service.gpu;
        if gpu.enter().is_ok() {
            // SAFETY: `address` is from `alloc`, and nothing uses the memory any more: queues and
            // callers wait before they drop it.
            unsafe { gpu.driver.free(self.address) };
        }
    }
}

/// Pinned host memory. Wiped when dropped.
pub(crate) type Pinned = HostMemory<PinnedOwner>;

/// Frees pinned memory.
pub(crate) struct PinnedOwner {
    gpu: Arc<Gpu>,
    start: NonNull<u8>,
}

// SAFETY: the pointer is only passed to `free_host`; nothing reads or writes through it.
unsafe impl Send for PinnedOwner {}
// SAFETY: as for `Send`.
unsafe impl Sync for PinnedOwner {}

impl Gpu {
    /// Allocates `len` zero bytes of pinned memory.
    pub(crate) fn pinned(self: &Arc<Self>, len: usize) -> Result<Pinned, Failure> {
        self.enter()?;
        // At least a page, because the driver refuses to allocate zero bytes.
        let start = self.driver.alloc_host(len.max(1).next_multiple_of(PAGE))?;
        let gpu = Arc::clone(self);
        // SAFETY: `alloc_host` returned `len` bytes, which are valid until `PinnedOwner` frees
        // them.
        Ok(unsafe { HostMemory::new(start, len, PinnedOwner { gpu, start }) })
    }

    /// As [`Gpu::pinned`], and [`Gpu::is_pinned`] knows the memory.
    pub(crate) fn pinned_for_callers(self: &Arc<Self>, len: usize) -> Result<Pinned, Failure> {
        Ok(self.pinned(len)?.listed(&self.ranges))
    }
}

impl Drop for PinnedOwner {
    fn drop(&mut self) {
        if self.gpu.enter().is_ok() {
            // SAFETY: `start` is from `alloc_host`, and all copies into and out of the memory have
            // finished before it is dropped.
            unsafe { self.gpu.driver.free_host(self.start) };
        }
    }
}

/// Locks `mutex`. A panic elsewhere leaves the guarded state intact, so poisoning is ignored.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
