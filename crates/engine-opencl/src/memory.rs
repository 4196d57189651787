// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory on a device, and memory of the host that a device gets at fast. What goes is wiped
//! first.

#![allow(
    unsafe_code,
    reason = "memory of devices, and memory that the library gives"
)]

use std::{ptr::NonNull, sync::Arc};

use luxor_engine::PAGE;
use luxor_engine_gpu::{DeviceError, DeviceMemory, HostMemory, Ranges};

use crate::{
    cl::{Buffer, CommandQueue, Context, Event, Kind},
    error::Failure,
};

/// A device's context, with a queue for what belongs to no other one: keys, wiping, copies
/// that are waited for.
pub(crate) struct Service {
    pub(crate) context: Arc<Context>,
    queue: CommandQueue,
    pub(crate) ranges: Arc<Ranges>,
}

impl Service {
    pub(crate) fn new(context: &Arc<Context>) -> Result<Self, Failure> {
        Ok(Self {
            context: Arc::clone(context),
            queue: CommandQueue::new(context)?,
            ranges: Arc::default(),
        })
    }

    /// Does one thing on the queue, and waits for it even if it failed.
    pub(crate) fn run(
        &self,
        work: impl FnOnce(&CommandQueue) -> Result<Event, Failure>,
    ) -> Result<(), Failure> {
        let begun = work(&self.queue);
        let finished = self.queue.finish();
        let event = begun?;
        finished?;
        event.outcome()
    }
}

/// Memory on a device. Wiped when dropped.
pub struct OpenClMemory {
    service: Arc<Service>,
    pub(crate) buffer: Buffer,
}

impl OpenClMemory {
    /// `len` zero bytes.
    pub(crate) fn zeroed(service: &Arc<Service>, kind: Kind, len: usize) -> Result<Self, Failure> {
        let memory = Self {
            service: Arc::clone(service),
            buffer: Buffer::new(&service.context, kind, len)?,
        };
        memory.wipe()?;
        Ok(memory)
    }

    /// Whether it is on the device that has this service.
    pub(crate) fn is_of(&self, service: &Arc<Service>) -> bool {
        Arc::ptr_eq(&self.service, service)
    }

    fn wipe(&self) -> Result<(), Failure> {
        let len = self.buffer.len();
        if len == 0 {
            return Ok(());
        }
        self.service
            .run(|queue| queue.fill_with_zeros(&self.buffer, len))
    }

    pub(crate) fn write(&mut self, at: usize, bytes: &[u8]) -> Result<(), DeviceError> {
        self.check(at, bytes.len())?;
        if bytes.is_empty() {
            return Ok(());
        }
        let write = self.service.run(|queue| {
            // SAFETY: `run` waits, and until then the bytes are borrowed; `check`.
            unsafe { queue.write(&self.buffer, at, bytes.as_ptr(), bytes.len()) }
        });
        Ok(write?)
    }

    pub(crate) fn read(&self, at: usize, bytes: &mut [u8]) -> Result<(), DeviceError> {
        self.check(at, bytes.len())?;
        if bytes.is_empty() {
            return Ok(());
        }
        let read = self.service.run(|queue| {
            // SAFETY: as in `write`.
            unsafe { queue.read(&self.buffer, at, bytes.as_mut_ptr(), bytes.len()) }
        });
        Ok(read?)
    }

    /// The first `len` bytes of `from`.
    pub(crate) fn copy(&mut self, from: &Self, len: usize) -> Result<(), DeviceError> {
        self.check(0, len)?;
        from.check(0, len)?;
        if len == 0 {
            return Ok(());
        }
        let copied = self
            .service
            .run(|queue| queue.copy(&from.buffer, &self.buffer, len));
        Ok(copied?)
    }
}

impl DeviceMemory for OpenClMemory {
    fn len(&self) -> usize {
        self.buffer.len()
    }
}

impl Drop for OpenClMemory {
    fn drop(&mut self) {
        // If that fails the device is lost, and its memory with it.
        let _ = self.wipe();
    }
}

/// Memory of the host from the library (`CL_MEM_ALLOC_HOST_PTR`): pinned where there is a bus
/// to cross. It stays mapped, so that it is memory like any other here. Wiped when dropped.
pub(crate) type Pinned = HostMemory<PinnedOwner>;

/// Gives pinned memory back.
pub(crate) struct PinnedOwner {
    service: Arc<Service>,
    buffer: Buffer,
    mapped: NonNull<u8>,
}

// SAFETY: the pointer is for `unmap`, and nobody reads or writes by it.
unsafe impl Send for PinnedOwner {}
// SAFETY: as above.
unsafe impl Sync for PinnedOwner {}

impl Service {
    /// Pinned memory of `len` zero bytes.
    pub(crate) fn pinned(self: &Arc<Self>, len: usize) -> Result<Pinned, Failure> {
        // Libraries align it for their own purposes only.
        let room = len.saturating_add(PAGE - 1);
        let buffer = Buffer::new(&self.context, Kind::Host, room)?;
        let mapped = self.queue.map(&buffer)?;
        let before = mapped.addr().get().next_multiple_of(PAGE) - mapped.addr().get();
        // SAFETY: less than a page further on, where `len` bytes are left.
        let start = unsafe { mapped.add(before) };
        let owner = PinnedOwner {
            service: Arc::clone(self),
            buffer,
            mapped,
        };
        // SAFETY: so many bytes are there, and nobody else's, until the owner unmaps them.
        Ok(unsafe { HostMemory::new(start, len, owner) })
    }

    /// As [`Service::pinned`], and known to [`Service::ranges`].
    pub(crate) fn pinned_for_callers(self: &Arc<Self>, len: usize) -> Result<Pinned, Failure> {
        Ok(self.pinned(len)?.listed(&self.ranges))
    }
}

impl Drop for PinnedOwner {
    fn drop(&mut self) {
        // SAFETY: it is what `map` gave, and copies into and out of it are waited for before
        // it goes.
        unsafe { self.service.queue.unmap(&self.buffer, self.mapped) };
    }
}
