// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a library that runs the kernels of `kernels/` has to offer: a [`Device`] with
//! in-order [`Queue`]s.

use std::ops::Range;

use luxor_engine::Buffer;

use crate::{
    error::DeviceError,
    keys::{KeyWords, Tables},
    launch::Launch,
    layout::Piece,
};

/// One device, and the library through which it is had.
pub trait Device: Send + Sync + 'static {
    /// See [`Queue`].
    type Queue: Queue<Key = Self::Key, Memory = Self::Memory> + 'static;
    /// A key on the device. Wiped there when dropped.
    type Key: Send + Sync + 'static;
    /// Memory on the device that a caller owns. Wiped when dropped.
    type Memory: DeviceMemory;

    /// The backend's name: `opencl`, `cuda`.
    fn name(&self) -> &'static str;

    /// The device in words.
    fn description(&self) -> String;

    /// Which layout of tables its kernels have, and so which form of keys they want.
    fn tables(&self) -> Tables;

    /// Loads a key. Any number of keys can be loaded at a time, more than may have a place
    /// in a memory for constants: between two [waits](Queue::wait) a queue is given one
    /// key only, so there need be no more places than queues.
    ///
    /// # Errors
    /// [`DeviceError::Library`] where the kernels cannot be built, and others.
    fn load_key(&self, words: &KeyWords) -> Result<Self::Key, DeviceError>;

    /// An in-order queue with memory of its own on the device, and pinned staging memory.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`] where smaller or fewer queues may do, and others.
    fn queue(&self, sizes: QueueSizes) -> Result<Self::Queue, DeviceError>;

    /// Pinned memory of `len` zero bytes for [`Backend::alloc`](luxor_engine::Backend::alloc);
    /// `None` where there is none.
    fn alloc(&self, len: usize) -> Option<Buffer>;

    /// Whether `bytes` lie wholly in memory of [`Device::alloc`], of this device or of
    /// another one of the same backend, if that is as good.
    fn is_pinned(&self, bytes: &[u8]) -> bool;

    /// Memory on the device, `len` bytes.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`] where there is less, and others.
    fn memory(&self, len: usize) -> Result<Self::Memory, DeviceError>;

    /// Copies `bytes` into `memory` from byte `at` on, and returns when that is done.
    ///
    /// # Errors
    /// [`DeviceError::Launch`] where `memory` is too short, and others.
    fn write(&self, memory: &mut Self::Memory, at: usize, bytes: &[u8]) -> Result<(), DeviceError>;

    /// Copies from `memory`, from byte `at` on, into `bytes`, and returns when that is done.
    ///
    /// # Errors
    /// As [`Device::write`].
    fn read(&self, memory: &Self::Memory, at: usize, bytes: &mut [u8]) -> Result<(), DeviceError>;

    /// Copies the first `len` bytes on the device, and returns when that is done.
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
    /// The number of bytes.
    fn len(&self) -> usize;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// That `len` bytes from byte `at` on are in the memory.
    ///
    /// # Errors
    /// [`DeviceError::Launch`], if they are not.
    fn check(&self, at: usize, len: usize) -> Result<(), DeviceError> {
        let room = self.len();
        if at.checked_add(len).is_some_and(|end| end <= room) {
            return Ok(());
        }
        let message = format!("{len} bytes at {at} of {room} on the device");
        Err(DeviceError::Launch { message })
    }
}

/// Bytes of a queue's memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueSizes {
    /// Data on the device, and as many of staging memory; a multiple of 16.
    pub data: usize,
    /// Tweaks on the device; a multiple of 16.
    pub tweaks: usize,
    /// Pieces on the device, and as many of staging memory; a multiple of 32.
    pub pieces: usize,
}

/// What is asked of a queue happens on the device in the order in which it was asked, some
/// time before [`Queue::wait`] returns. Different queues know nothing of each other.
///
/// Dropping a queue waits for what is under way.
pub trait Queue: Send {
    /// As the device's.
    type Key;
    /// As the device's.
    type Memory;

    /// The staging memory for data, as long as [`QueueSizes::data`]. Waits first if
    /// anything is under way.
    fn staging(&mut self) -> &mut [u8];

    /// The staging memory for pieces. Waits first if anything is under way.
    fn pieces(&mut self) -> &mut [Piece];

    /// Copies `range` of the staging memory to the same place of the data.
    ///
    /// # Errors
    /// [`DeviceError`], as of all that follow: those that begin something may tell of what
    /// was begun before. Nothing is to be begun after an error but [`Queue::wait`] and
    /// [`Queue::wipe`].
    fn upload_staging(&mut self, range: Range<usize>) -> Result<(), DeviceError>;

    /// Copies the first `count` pieces.
    ///
    /// # Errors
    /// As [`Queue::upload_staging`].
    fn upload_pieces(&mut self, count: usize) -> Result<(), DeviceError>;

    /// Copies `len` bytes from `from` into the data from byte `at` on.
    ///
    /// # Errors
    /// As [`Queue::upload_staging`].
    ///
    /// # Safety
    /// `from` is valid for reads of `len` bytes, and nothing writes to them, until the next
    /// call of [`Queue::wait`] returns or the queue has been dropped.
    #[expect(unsafe_code, reason = "the copy goes on after the call")]
    unsafe fn upload(&mut self, from: *const u8, len: usize, at: usize) -> Result<(), DeviceError>;

    /// Runs a kernel on the queue's own data, from [`Launch`]'s `input_at` to `output_at`.
    ///
    /// # Errors
    /// As [`Queue::upload_staging`].
    fn launch(&mut self, key: &Self::Key, launch: &Launch) -> Result<(), DeviceError>;

    /// As [`Queue::launch`], on data elsewhere; tweaks and pieces are the queue's. The
    /// caller keeps the memory until the next [`Queue::wait`].
    ///
    /// # Errors
    /// As [`Queue::upload_staging`].
    fn launch_on(
        &mut self,
        data: &mut Resident<'_, Self::Memory>,
        key: &Self::Key,
        launch: &Launch,
    ) -> Result<(), DeviceError>;

    /// Copies `range` of the data to the same place of the staging memory.
    ///
    /// # Errors
    /// As [`Queue::upload_staging`].
    fn download_staging(&mut self, range: Range<usize>) -> Result<(), DeviceError>;

    /// Copies `len` bytes of the data from byte `at` on to `to`.
    ///
    /// # Errors
    /// As [`Queue::upload_staging`].
    ///
    /// # Safety
    /// `to` is valid for writes of `len` bytes, and nothing reads or writes them, until the
    /// next call of [`Queue::wait`] returns or the queue has been dropped.
    #[expect(unsafe_code, reason = "the copy goes on after the call")]
    unsafe fn download(&mut self, at: usize, to: *mut u8, len: usize) -> Result<(), DeviceError>;

    /// Returns when all is done, or something failed. After an error, too, nothing is under
    /// way any more that touches memory of the host.
    ///
    /// # Errors
    /// [`DeviceError`], if anything failed since the last wait.
    fn wait(&mut self) -> Result<(), DeviceError>;

    /// Overwrites the first bytes of the data, the tweaks, the pieces and both staging
    /// memories, as many as `used` says, after a wait. The host's memory is overwritten
    /// even where the device fails.
    ///
    /// # Errors
    /// [`DeviceError`], when the device's memory was not overwritten.
    fn wipe(&mut self, used: QueueSizes) -> Result<(), DeviceError>;
}

/// Data that are on the device already: where a kernel reads and where it writes.
#[derive(Debug)]
pub enum Resident<'a, M> {
    /// The result replaces the input.
    InPlace(&'a mut M),
    /// The result goes elsewhere.
    Separate {
        /// What is read.
        input: &'a M,
        /// What is written.
        output: &'a mut M,
    },
}

impl<M> Resident<'_, M> {
    /// What is read.
    #[must_use]
    pub fn input(&self) -> &M {
        match self {
            Self::InPlace(memory) => memory,
            Self::Separate { input, .. } => input,
        }
    }

    /// What is written.
    #[must_use]
    pub fn output(&self) -> &M {
        match self {
            Self::InPlace(memory) => memory,
            Self::Separate { output, .. } => output,
        }
    }
}
