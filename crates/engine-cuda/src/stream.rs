// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kernels on streams and memory of a caller.
//!
//! Everything is enqueued on the caller's stream, so nothing there waits and no order is lost. The
//! memory for numbers and tweaks is allocated, wiped and freed in the stream's order. The numbers are
//! copied from ordinary memory, which the driver has read when the call returns. The key's slot is
//! held until an event after the last kernel ([`crate::slots`]).

#![allow(unsafe_code, reason = "memory and streams are given by address")]

use luxor_engine_gpu::{Bounds, CallersStream, DeviceError, DeviceRange, StreamDevice, StreamWork};

use crate::{
    device::Cuda,
    driver::{Address, Driver, Failure, Stream},
    error::device_error,
    memory::CudaMemory,
    shared::{CudaKey, Places, Shared},
};

impl Cuda {
    /// Returns the position in `devices` of the device whose memory `address` is, if it is any's.
    ///
    /// # Errors
    /// [`DeviceError`] of the failed call.
    pub fn of_address(devices: &[Self], address: u64) -> Result<Option<usize>, DeviceError> {
        let Some(first) = devices.first() else {
            return Ok(None);
        };
        let gpu = &first.inner().gpu;
        let pointer = gpu
            .enter()
            .and_then(|()| gpu.driver.pointer(Address(address)));
        let number = pointer.map_err(|failure| device_error(&failure))?.device;
        Ok(devices
            .iter()
            .position(|device| Some(device.number()) == number))
    }
}

impl StreamDevice for Cuda {
    unsafe fn enqueue(
        &self,
        key: &CudaKey,
        stream: CallersStream<'_>,
        work: &StreamWork<'_>,
    ) -> Result<(), DeviceError> {
        let device = self.inner();
        if !std::ptr::eq(device, &*key.device) {
            return refused("the key is another device's".to_owned());
        }
        let pieces = size_of_val(work.pieces);
        let bounds = Bounds {
            input: work.input.len,
            output: work.output.len,
            tweaks: work.tweaks,
            pieces,
        };
        if work.pieces.len() > StreamWork::MOST_PIECES {
            return refused(format!("{} pieces are too many", work.pieces.len()));
        }
        for launch in work.launches {
            launch.check(bounds)?;
        }
        let driver = &*device.gpu.driver;
        device
            .gpu
            .enter()
            .map_err(|failure| device_error(&failure))?;
        for stream in stream.after.iter().chain([&stream.stream]) {
            // SAFETY: the caller promises that the streams are valid.
            unsafe { check_stream(device, *stream) }?;
        }
        for range in [work.input, work.output] {
            check_memory(driver, range)?;
        }

        let slots = &device.program(key.words.size())?.slots;
        let slot = slots.acquire(key.id, &key.words)?;
        let event = match driver.create_event() {
            Ok(event) => event,
            Err(failure) => {
                slots.release(slot);
                return Err(device_error(&failure));
            }
        };
        let on = Stream {
            stream: stream.stream,
            event,
        };
        // SAFETY: the caller promises that the streams are valid, and the launches were checked. The
        // slot holds the key until the event is complete.
        let begun = unsafe { begin(device, key, slot, on, stream.after, work) };
        // Also after an error, since some kernels may be under way.
        // SAFETY: the stream is valid, and the event was created above.
        match unsafe { driver.record(on) } {
            Ok(()) => slots.release_after(slot, event),
            Err(_) => {
                // SAFETY: as above; nothing uses the event after the wait.
                unsafe {
                    let _ = driver.wait(on);
                    driver.destroy_event(event);
                }
                slots.release(slot);
            }
        }
        begun
    }

    unsafe fn borrow(
        &self,
        range: DeviceRange,
        after: &[usize],
    ) -> Result<CudaMemory, DeviceError> {
        let device = self.inner();
        let driver = &*device.gpu.driver;
        let failed = |failure: Failure| device_error(&failure);
        device.gpu.enter().map_err(failed)?;
        check_memory(driver, range)?;
        for &stream in after {
            // SAFETY: the caller promises that the streams are valid.
            unsafe { check_stream(device, stream) }?;
        }
        for &stream in after {
            let event = driver.create_event().map_err(failed)?;
            // SAFETY: as above. The event is from `create_event`, and nothing uses it after the wait.
            let waited = unsafe {
                let waited = driver.wait(Stream { stream, event });
                driver.destroy_event(event);
                waited
            };
            waited.map_err(failed)?;
        }
        let address = Address(range.address);
        Ok(CudaMemory::of_caller(&device.service, address, range.len))
    }
}

/// Enqueues the work on the stream `on`.
///
/// # Safety
/// All streams are valid, the launches stay within the memories, and the slot holds the key until
/// the work is done.
unsafe fn begin(
    device: &Shared,
    key: &CudaKey,
    slot: usize,
    on: Stream,
    after: &[usize],
    work: &StreamWork<'_>,
) -> Result<(), DeviceError> {
    let failed = |failure: Failure| device_error(&failure);
    let driver = &*device.gpu.driver;
    for &other in after.iter().filter(|&&other| other != on.stream) {
        // SAFETY: the caller promises that the streams are valid.
        unsafe { driver.follow(on, other) }.map_err(failed)?;
    }
    // Tweaks begin at a multiple of 32 after the pieces, which have 32 bytes each.
    let pieces = size_of_val(work.pieces);
    let len = pieces + work.tweaks;
    // SAFETY: as above.
    let memory = unsafe { driver.alloc_on(len, on) }.map_err(failed)?;
    let places = Places {
        input: Address(work.input.address),
        output: Address(work.output.address),
        pieces: memory,
        tweaks: memory.after(pieces),
    };
    let run = || {
        // SAFETY: the memory begins with room for the pieces, which are not pinned.
        unsafe { driver.upload(memory, work.pieces.as_ptr().cast(), pieces, on) }
            .map_err(failed)?;
        for launch in work.launches {
            // SAFETY: the caller promises that the launch stays within these memories.
            unsafe { device.launch(on, key.words.size(), slot, &places, launch) }?;
        }
        Ok(())
    };
    let done = run();
    // SAFETY: the memory has this length, and only the kernels above use it.
    let wiped = unsafe { driver.fill_with_zeros(memory, len, on) };
    // SAFETY: nothing uses the memory after the commands above.
    let freed = unsafe { driver.free_on(memory, on) };
    done.and(wiped.and(freed).map_err(failed))
}

/// Refuses a stream of another context, and one whose commands do not run but become a graph, which
/// would use the memory and the key when it is launched.
///
/// # Safety
/// `stream` is a valid handle.
unsafe fn check_stream(device: &Shared, stream: usize) -> Result<(), DeviceError> {
    let driver = &*device.gpu.driver;
    // SAFETY: the caller promises that the stream is valid, here and below.
    let context = unsafe { driver.context_of(stream) };
    if !device
        .gpu
        .is_in(context.map_err(|failure| device_error(&failure))?)
    {
        return refused(format!(
            "the stream {stream:#x} is not of the GPU's primary context"
        ));
    }
    // SAFETY: as above.
    let captures = unsafe { driver.is_capturing(stream) };
    if captures.map_err(|failure| device_error(&failure))? {
        return refused(format!("the stream {stream:#x} is being captured"));
    }
    Ok(())
}

/// Refuses memory that kernels of the current context cannot use.
fn check_memory(driver: &dyn Driver, range: DeviceRange) -> Result<(), DeviceError> {
    let DeviceRange { address, len } = range;
    let of = |at: u64| {
        let pointer = driver.pointer(Address(at));
        let pointer = pointer.map_err(|failure| device_error(&failure))?;
        if !pointer.is_usable {
            let message = format!("the GPU cannot use {len} bytes at {address:#x}");
            return Err(DeviceError::Launch { message });
        }
        Ok(pointer)
    };
    let end = address.saturating_add(len as u64);
    let mut at = address;
    // Memory that was mapped piece by piece has several allocations side by side.
    while at < end {
        let pointer = of(at)?;
        let next = pointer.start.0.saturating_add(pointer.len as u64);
        if !(pointer.start.0..next).contains(&at) {
            // The driver does not know the allocation.
            of(end - 1)?;
            break;
        }
        at = next;
    }
    Ok(())
}

fn refused<T>(message: String) -> Result<T, DeviceError> {
    Err(DeviceError::Launch { message })
}
