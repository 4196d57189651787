// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory on a device, and memory of the host that a device gets at fast. What goes is wiped
//! first.

#![allow(
    unsafe_code,
    reason = "memory of devices, and memory that the library gives"
)]

use std::{
    ops::{Deref, DerefMut},
    ptr::NonNull,
    slice,
    sync::Arc,
};

use luxor_engine::PAGE;
use luxor_engine_gpu::{DeviceError, DeviceMemory, Ranges};
use zeroize::Zeroize;

use crate::{
    cl::{Buffer, CommandQueue, Context, Event, Kind},
    error::Failure,
};

/// A device's context, with a queue for what belongs to no other one: keys, wiping, copies
/// that are waited for.
pub(crate) struct Service {
    pub(crate) context: Arc<Context>,
    queue: CommandQueue,
    pub(crate) ranges: Ranges,
}

impl Service {
    pub(crate) fn new(context: &Arc<Context>) -> Result<Self, Failure> {
        Ok(Self {
            context: Arc::clone(context),
            queue: CommandQueue::new(context)?,
            ranges: Ranges::default(),
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

    /// That `len` bytes from byte `at` on are in the memory.
    pub(crate) fn check(&self, at: usize, len: usize) -> Result<(), DeviceError> {
        let room = self.buffer.len();
        if at.checked_add(len).is_some_and(|end| end <= room) {
            return Ok(());
        }
        let message = format!("{len} bytes at {at} of {room} on the device");
        Err(DeviceError::Launch { message })
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
pub(crate) struct Pinned {
    service: Arc<Service>,
    buffer: Buffer,
    mapped: NonNull<u8>,
    /// At the beginning of a page.
    start: NonNull<u8>,
    len: usize,
    listed: bool,
}

// SAFETY: it is memory like any other, by way of `&self` and `&mut self` alone.
unsafe impl Send for Pinned {}
// SAFETY: as above.
unsafe impl Sync for Pinned {}

impl Pinned {
    /// `len` zero bytes.
    pub(crate) fn zeroed(service: &Arc<Service>, len: usize) -> Result<Self, Failure> {
        // Libraries align it for their own purposes only.
        let room = len.saturating_add(PAGE - 1);
        let buffer = Buffer::new(&service.context, Kind::Host, room)?;
        let mapped = service.queue.map(&buffer)?;
        let before = mapped.addr().get().next_multiple_of(PAGE) - mapped.addr().get();
        // SAFETY: less than a page further on, where `len` bytes are left.
        let start = unsafe { mapped.add(before) };
        // SAFETY: so many bytes are there, and nobody else's.
        unsafe { start.as_ptr().write_bytes(0, len) };
        Ok(Self {
            service: Arc::clone(service),
            buffer,
            mapped,
            start,
            len,
            listed: false,
        })
    }

    /// As [`Pinned::zeroed`], and known to [`Service::ranges`].
    pub(crate) fn listed(service: &Arc<Service>, len: usize) -> Result<Self, Failure> {
        let mut memory = Self::zeroed(service, len)?;
        memory.listed = true;
        service.ranges.add(&memory);
        Ok(memory)
    }

    /// The same bytes as values of another type.
    ///
    /// # Safety
    /// Any bytes are a `T`.
    pub(crate) unsafe fn slice_of<T>(&mut self) -> &mut [T] {
        let start = self.start.cast::<T>();
        assert!(start.is_aligned(), "it begins at a page");
        // SAFETY: aligned, within the memory, borrowed as `self` is, and any bytes will do.
        unsafe { slice::from_raw_parts_mut(start.as_ptr(), self.len / size_of::<T>()) }
    }
}

impl Deref for Pinned {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: so many bytes are mapped, written when it was made, and borrowed as `self`.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl DerefMut for Pinned {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        self.zeroize();
        if self.listed {
            self.service.ranges.remove(self);
        }
        // SAFETY: it is what `map` gave, and copies into and out of it are waited for before
        // it goes.
        unsafe { self.service.queue.unmap(&self.buffer, self.mapped) };
    }
}
