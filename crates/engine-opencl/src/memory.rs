// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory of a device, and host memory to which a device has fast access. All of it is wiped when
//! it is dropped.

#![allow(unsafe_code, reason = "the library owns the memory")]

use std::{ptr::NonNull, sync::Arc};

use luxor_engine::PAGE;
use luxor_engine_gpu::{DeviceError, DeviceMemory, HostMemory, Ranges};

use crate::{
    cl::{Buffer, CommandQueue, Context, Event, Kind},
    error::Failure,
};

/// A device's context, with a queue for work that belongs to no other queue: keys, wiping and
/// blocking copies.
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

    /// Runs one command on the queue, and waits for the queue even if the command failed.
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
    /// Allocates `len` zero bytes.
    pub(crate) fn zeroed(service: &Arc<Service>, kind: Kind, len: usize) -> Result<Self, Failure> {
        let memory = Self {
            service: Arc::clone(service),
            buffer: Buffer::new(&service.context, kind, len)?,
        };
        memory.wipe()?;
        Ok(memory)
    }

    /// Returns whether the memory is on the device of this service.
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
            // SAFETY: `run` waits before `bytes` is given back to the caller; `check` bounds the
            // range.
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

    /// Copies the first `len` bytes of `from`.
    pub(crate) fn copy(&mut self, from: &Self, len: usize) -> Result<(), DeviceError> {
        self.check(0, len)?;
        from.check(0, len)?;
        if len == 0 {
            return Ok(());
        }
        let copied = self
            .service
            .run(|queue| queue.copy((&from.buffer, 0), (&self.buffer, 0), len));
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
        // If wiping fails, the device is lost together with its memory.
        let _ = self.wipe();
    }
}

/// Host memory from the library (`CL_MEM_ALLOC_HOST_PTR`): pinned memory where data cross a bus. It
/// stays mapped, so it can be used as ordinary memory. Wiped when dropped.
pub(crate) type Pinned = HostMemory<PinnedOwner>;

/// Frees pinned memory.
pub(crate) struct PinnedOwner {
    service: Arc<Service>,
    buffer: Buffer,
    mapped: NonNull<u8>,
}

// SAFETY: the pointer is only passed to `unmap`; nothing reads or writes through it.
unsafe impl Send for PinnedOwner {}
// SAFETY: as for `Send`.
unsafe impl Sync for PinnedOwner {}

impl Service {
    /// Allocates `len` zero bytes of pinned memory, aligned to a page.
    pub(crate) fn pinned(self: &Arc<Self>, len: usize) -> Result<Pinned, Failure> {
        // Allocate enough to align the start to a page: libraries align only for their own
        // purposes.
        let room = len.saturating_add(PAGE - 1);
        let buffer = Buffer::new(&self.context, Kind::Host, room)?;
        let mapped = self.queue.map(&buffer)?;
        let before = mapped.addr().get().next_multiple_of(PAGE) - mapped.addr().get();
        // SAFETY: `before` < `PAGE`, and the buffer has `len + PAGE - 1` bytes.
        let start = unsafe { mapped.add(before) };
        let owner = PinnedOwner {
            service: Arc::clone(self),
            buffer,
            mapped,
        };
        // SAFETY: `len` bytes from `start` on are mapped and used by nothing else until `owner` is
        // dropped.
        Ok(unsafe { HostMemory::new(start, len, owner) })
    }

    /// As [`Service::pinned`], and lists the memory in [`Service::ranges`].
    pub(crate) fn pinned_for_callers(self: &Arc<Self>, len: usize) -> Result<Pinned, Failure> {
        Ok(self.pinned(len)?.listed(&self.ranges))
    }
}

impl Drop for PinnedOwner {
    fn drop(&mut self) {
        // SAFETY: `mapped` is the pointer from `map`, and all copies into and out of the memory
        // have finished before it is dropped.
        unsafe { self.service.queue.unmap(&self.buffer, self.mapped) };
    }
}
