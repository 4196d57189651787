// SPDX-License-Identifier: MIT OR Apache-2.0
//! The interface to a device that runs the kernels on streams and memory of a caller, without
//! waiting.

use crate::{device::Device, error::DeviceError, launch::Launch, layout::Piece};

/// Memory on a device that a caller owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceRange {
    /// The address of the first byte. For kernels, a multiple of 16.
    pub address: u64,
    /// The number of bytes.
    pub len: usize,
}

/// A caller's stream, by the handle that the device's library gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallersStream<'a> {
    /// The stream that runs the kernels.
    pub stream: usize,
    /// Other streams of the caller. The kernels begin after all commands that these have now.
    pub after: &'a [usize],
}

/// Launches on a caller's memory.
#[derive(Clone, Copy, Debug)]
pub struct StreamWork<'a> {
    /// The memory that [`Launch`]'s `input_at` counts from.
    pub input: DeviceRange,
    /// The memory that `output_at` counts from.
    pub output: DeviceRange,
    /// The pieces. [`StreamWork::MOST_PIECES`] at most.
    pub pieces: &'a [Piece],
    /// Bytes of the memory for tweaks, which all launches share.
    pub tweaks: usize,
    /// The launches, in order.
    pub launches: &'a [Launch],
}

impl StreamWork<'_> {
    /// 64 KiB of pieces. CUDA copies up to 64 KiB of ordinary memory without waiting for the stream
    /// (CUDA C++ Programming Guide, "Concurrent execution between host and device").
    pub const MOST_PIECES: usize = (64 << 10) / size_of::<Piece>();
}

/// A device that runs launches on callers' streams.
pub trait StreamDevice: Device {
    /// Enqueues `work` on a caller's stream, and returns without waiting for it. What the work needs
    /// besides the caller's memory lives until the work is done: the key's words on the device stay
    /// where they are, even if `key` is dropped, and memory for tweaks is wiped and freed in the
    /// stream's order. Dropping `key` waits for the work.
    ///
    /// # Errors
    /// [`DeviceError::Launch`] if the memory or the stream is not the device's, as far as its library
    /// can tell, or if a launch does not stay within the memories. Nothing was enqueued then. After
    /// another error a part of the work may be under way.
    ///
    /// # Safety
    /// The streams are valid streams of this device. The memory stays allocated until the work is
    /// done; in the order of the streams, nothing else uses the output while the work is under way,
    /// and nothing writes to the input.
    #[expect(unsafe_code, reason = "the work continues after the call returns")]
    unsafe fn enqueue(
        &self,
        key: &Self::Key,
        stream: CallersStream<'_>,
        work: &StreamWork<'_>,
    ) -> Result<(), DeviceError>;

    /// Waits until all commands that the streams `after` have now are done, and lends a caller's memory,
    /// at any address, for [`GpuBackend::read_into`](crate::GpuBackend::read_into) and
    /// [`GpuBackend::write_from`](crate::GpuBackend::write_from). Dropping it neither wipes nor frees the
    /// memory.
    ///
    /// # Errors
    /// [`DeviceError::Launch`] if the memory or a stream is not the device's, as far as its library can
    /// tell, otherwise the error of the failed call.
    ///
    /// # Safety
    /// The streams are valid streams of this device. Until the result is dropped, the memory stays
    /// allocated, and nothing else writes to it, nor uses what is written to it here.
    #[expect(unsafe_code, reason = "the memory is a caller's")]
    unsafe fn borrow(
        &self,
        range: DeviceRange,
        after: &[usize],
    ) -> Result<Self::Memory, DeviceError>;
}
