// SPDX-License-Identifier: MIT OR Apache-2.0
//! The interface to a library that runs the kernels of `kernels/`: a [`Device`] with in-order
//! [`Queue`]s.

use std::ops::Range;

use luxor_engine::Buffer;

use crate::{
    error::DeviceError,
    keys::{KeyWords, Tables},
    launch::Launch,
    layout::Piece,
};

/// A device, together with the library that drives it.
///
/// `luxor_engine_cuda::Cuda` and `luxor_engine_opencl::OpenCl` implement it. To support another
/// library, implement it and [`Queue`].
pub trait Device: Send + Sync + 'static {
    /// The device's queues.
    type Queue: Queue<Key = Self::Key, Memory = Self::Memory> + 'static;
    /// A key on the device. Wiped there when dropped.
    type Key: Send + Sync + 'static;
    /// Memory on the device that a caller owns. Wiped when dropped.
    type Memory: DeviceMemory;

    /// The backend's name, such as `opencl` or `cuda`.
    fn name(&self) -> &'static str;

    /// Returns a description of the device in words.
    fn description(&self) -> String;

    /// Returns the table layout of the device's kernels, which decides the form of their keys.
    fn tables(&self) -> Tables;

    /// Loads a key. Any number of keys can be loaded at a time, even more than fit in constant
    /// memory: between two [waits](Queue::wait) a queue uses only one key, so constant memory needs
    /// no more slots than there are queues.
    ///
    /// # Errors
    /// [`DeviceError::Library`] if the kernels cannot be built, otherwise the error of the failed
    /// call.
    fn load_key(&self, words: &KeyWords) -> Result<Self::Key, DeviceError>;

    /// Creates an in-order queue with its own device memory and pinned staging memory.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`] if there is too little memory for `sizes`; smaller or fewer
    /// queues may still fit. Otherwise the error of the failed call.
    fn queue(&self, sizes: QueueSizes) -> Result<Self::Queue, DeviceError>;

    /// Allocates `len` zero bytes of pinned memory for
    /// [`Backend::alloc`](luxor_engine::Backend::alloc). Returns `None` if none is available.
    fn alloc(&self, len: usize) -> Option<Buffer>;

    /// Returns whether all of `bytes` lies in memory from [`Device::alloc`], called for this device
    /// or for another device of the same backend with equally usable memory.
    fn is_pinned(&self, bytes: &[u8]) -> bool;

    /// Allocates `len` zero bytes on the device, for
    /// [`GpuKey::crypt_resident`](crate::GpuKey::crypt_resident).
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`] if the device has fewer than `len` bytes free, otherwise the
    /// error of the failed call.
    fn memory(&self, len: usize) -> Result<Self::Memory, DeviceError>;

    /// Copies `bytes` into `memory`, starting at byte `at`, and returns when the copy is done.
    ///
    /// # Errors
    /// [`DeviceError::Launch`] if `memory` is too short, otherwise the error of the failed copy.
    fn write(&self, memory: &mut Self::Memory, at: usize, bytes: &[u8]) -> Result<(), DeviceError>;

    /// Fills `bytes` from `memory`, starting at byte `at`, and returns when the copy is done.
    ///
    /// # Errors
    /// As [`Device::write`].
    fn read(&self, memory: &Self::Memory, at: usize, bytes: &mut [u8]) -> Result<(), DeviceError>;

    /// Copies the first `len` bytes of `from` to `to` on the device, and returns when the copy is
    /// done.
    ///
    /// # Errors
    /// As [`Device::write`].
    fn copy(
        &self,
        from: &Self::Memory,
        to: &mut Self::Memory,
        len: usize,
    ) -> Result<(), DeviceError>;
}

/// Memory on a device.
pub trait DeviceMemory: Send + Sync + 'static {
    /// Returns the number of bytes.
    fn len(&self) -> usize;

    /// Returns whether the memory has no bytes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Checks that the memory has `len` bytes from byte `at` on.
    ///
    /// # Errors
    /// [`DeviceError::Launch`] if `at + len` is more than [`DeviceMemory::len`].
    fn check(&self, at: usize, len: usize) -> Result<(), DeviceError> {
        let room = self.len();
        if at.checked_add(len).is_some_and(|end| end <= room) {
            return Ok(());
        }
        let message = format!("{len} bytes at byte {at} exceed {room} bytes of device memory");
        Err(DeviceError::Launch { message })
    }
}

/// The sizes of a queue's memories in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueSizes {
    /// Data on the device, and the same size of staging memory. A multiple of 16.
    pub data: usize,
    /// Tweaks on the device. A multiple of 16.
    pub tweaks: usize,
    /// Pieces on the device, and the same size of staging memory. A multiple of 32.
    pub pieces: usize,
}

/// An in-order queue of a device. Commands run in the order in which they were given, and are
/// finished when [`Queue::wait`] returns. Queues are independent of each other.
///
/// Dropping a queue waits for the commands under way.
pub trait Queue: Send {
    /// The same as [`Device::Key`].
    type Key;
    /// The same as [`Device::Memory`].
    type Memory;

    /// Replaces the memory for tweaks, which no command under way may use, by zeros of this length,
    /// a multiple of 16.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`] if there is too little memory. The queue then keeps what it has.
    /// Otherwise the error of the failed call.
    fn resize_tweaks(&mut self, len: usize) -> Result<(), DeviceError>;

    /// Returns the staging memory for data, [`QueueSizes::data`] bytes. Waits first if anything is
    /// under way.
    fn staging(&mut self) -> &mut [u8];

    /// Returns the staging memory for pieces. Waits first if anything is under way.
    fn pieces(&mut self) -> &mut [Piece];

    /// Copies `range` of the staging memory to the same offset of the data.
    ///
    /// # Errors
    /// [`DeviceError`]. A method that starts a command may return the error of an earlier command.
    /// After an error, call only [`Queue::wait`] and [`Queue::wipe`]. The same holds for all
    /// methods below.
    fn upload_staging(&mut self, range: Range<usize>) -> Result<(), DeviceError>;

    /// Copies the first `count` pieces to the device.
    ///
    /// # Errors
    /// As [`Queue::upload_staging`].
    fn upload_pieces(&mut self, count: usize) -> Result<(), DeviceError>;

    /// Copies `len` bytes from `from` into the data, starting at byte `at`.
    ///
    /// # Errors
    /// As [`Queue::upload_staging`].
    ///
    /// # Safety
    /// `from` is valid for reads of `len` bytes, and nothing writes to these bytes, until the next
    /// call of [`Queue::wait`] returns or the queue has been dropped.
    #[expect(unsafe_code, reason = "the copy continues after the call returns")]
    unsafe fn upload(&mut self, from: *const u8, len: usize, at: usize) -> Result<(), DeviceError>;

    /// Runs a kernel on the queue's own data, from [`Launch`]'s `input_at` to `output_at`.
    ///
    /// # Errors
    /// As [`Queue::upload_staging`]. An implementation must call [`Launch::check`] with the sizes
    /// of the memories and return its error: the kernels check nothing.
    fn launch(&mut self, key: &Self::Key, launch: &Launch) -> Result<(), DeviceError>;

    /// As [`Queue::launch`], on `data` instead of the queue's own data. Tweaks and pieces are still
    /// the queue's. The caller must keep `data` alive until the next [`Queue::wait`] returns.
    ///
    /// # Errors
    /// As [`Queue::launch`].
    fn launch_on(
        &mut self,
        data: &mut Resident<'_, Self::Memory>,
        key: &Self::Key,
        launch: &Launch,
    ) -> Result<(), DeviceError>;

    /// Copies `range` of the data, which is not empty, to `to`, from byte `at` on. The caller must keep `to` alive until the
    /// next [`Queue::wait`] returns.
    ///
    /// # Errors
    /// As [`Queue::upload_staging`]. [`DeviceError::Launch`] if `to` is too short, or another device's.
    fn copy_to(
        &mut self,
        range: Range<usize>,
        to: &mut Self::Memory,
        at: usize,
    ) -> Result<(), DeviceError>;

    /// Copies to `range` of the data what `from` has from byte `at` on. The caller must keep `from` alive
    /// until the next [`Queue::wait`] returns.
    ///
    /// # Errors
    /// As [`Queue::copy_to`], for `from`.
    fn copy_from(
        &mut self,
        range: Range<usize>,
        from: &Self::Memory,
        at: usize,
    ) -> Result<(), DeviceError>;

    /// Copies `range` of the data to the same offset of the staging memory.
    ///
    /// # Errors
    /// As [`Queue::upload_staging`].
    fn download_staging(&mut self, range: Range<usize>) -> Result<(), DeviceError>;

    /// Copies `len` bytes of the data, starting at byte `at`, to `to`.
    ///
    /// # Errors
    /// As [`Queue::upload_staging`].
    ///
    /// # Safety
    /// `to` is valid for writes of `len` bytes, and nothing reads or writes these bytes, until the
    /// next call of [`Queue::wait`] returns or the queue has been dropped.
    #[expect(unsafe_code, reason = "the copy continues after the call returns")]
    unsafe fn download(&mut self, at: usize, to: *mut u8, len: usize) -> Result<(), DeviceError>;

    /// Waits until all commands are done or one has failed. After it returns, even with an error,
    /// no command under way touches host memory.
    ///
    /// # Errors
    /// [`DeviceError`] if a command failed since the last wait.
    fn wait(&mut self) -> Result<(), DeviceError>;

    /// Overwrites the first bytes of the data, the tweaks, the pieces and both staging memories,
    /// with the lengths in `used`. To be called after a wait. The host's memory is overwritten even
    /// if the device fails.
    ///
    /// # Errors
    /// [`DeviceError`] if the device's memory could not be overwritten.
    fn wipe(&mut self, used: QueueSizes) -> Result<(), DeviceError>;
}

/// Data already on the device: the memory that a kernel reads and the memory that it writes.
#[derive(Debug)]
pub enum Resident<'a, M> {
    /// The output replaces the input.
    InPlace(&'a mut M),
    /// The output goes to other memory.
    Separate {
        /// The memory that is read.
        input: &'a M,
        /// The memory that is written.
        output: &'a mut M,
    },
}

impl<M> Resident<'_, M> {
    /// Returns the memory that is read.
    #[must_use]
    pub fn input(&self) -> &M {
        match self {
            Self::InPlace(memory) => memory,
            Self::Separate { input, .. } => input,
        }
    }

    /// Returns the memory that is written.
    #[must_use]
    pub fn output(&self) -> &M {
        match self {
            Self::InPlace(memory) => memory,
            Self::Separate { output, .. } => output,
        }
    }
}
