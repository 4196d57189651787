// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a library that runs the kernels of `kernels/` has to offer: a [`Device`] with
//! in-order [`Queue`]s, and what a [`Launch`] means.
//!
//! A block is 16 bytes. A *stretch* is up to 256 consecutive blocks of one data unit; a
//! unit of `b` blocks, a part of one at its end counted, has `spu` = ⌈`b` / 256⌉ of them.
//! Units lie `pitch` blocks apart. In a queue's memory are data, tweaks (one block for each
//! stretch) and [`Piece`]s, which say the units' numbers.

use std::ops::Range;

use luxor_engine::{Buffer, DataUnitNumber};

use crate::{
    keys::{KeyWords, Tables},
    launch::Launch,
};

/// Bytes of a block.
pub const BLOCK: usize = 16;

/// Blocks of a stretch: what one warp walks, with one tweak to begin from.
pub const STRETCH: usize = 256;

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
    /// [`DeviceError`].
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
    /// [`DeviceError`].
    fn memory(&self, len: usize) -> Result<Self::Memory, DeviceError>;

    /// Copies `bytes` into `memory` from byte `at` on, and returns when that is done.
    ///
    /// # Errors
    /// [`DeviceError`]; [`DeviceError::Launch`] where `memory` is too short.
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
    /// [`DeviceError`].
    fn upload_pieces(&mut self, count: usize) -> Result<(), DeviceError>;

    /// Copies `len` bytes from `from` into the data from byte `at` on.
    ///
    /// # Errors
    /// [`DeviceError`].
    ///
    /// # Safety
    /// `from` is valid for reads of `len` bytes, and nothing writes to them, until the next
    /// call of [`Queue::wait`] returns or the queue has been dropped.
    #[expect(unsafe_code, reason = "the copy goes on after the call")]
    unsafe fn upload(&mut self, from: *const u8, len: usize, at: usize) -> Result<(), DeviceError>;

    /// Runs a kernel on the queue's own data, from [`Launch`]'s `input_at` to `output_at`.
    ///
    /// # Errors
    /// [`DeviceError`].
    fn launch(&mut self, key: &Self::Key, launch: &Launch) -> Result<(), DeviceError>;

    /// As [`Queue::launch`], on data elsewhere; tweaks and pieces are the queue's. The
    /// caller keeps the memory until the next [`Queue::wait`].
    ///
    /// # Errors
    /// [`DeviceError`].
    fn launch_on(
        &mut self,
        data: &mut Resident<'_, Self::Memory>,
        key: &Self::Key,
        launch: &Launch,
    ) -> Result<(), DeviceError>;

    /// Copies `range` of the data to the same place of the staging memory.
    ///
    /// # Errors
    /// [`DeviceError`].
    fn download_staging(&mut self, range: Range<usize>) -> Result<(), DeviceError>;

    /// Copies `len` bytes of the data from byte `at` on to `to`.
    ///
    /// # Errors
    /// [`DeviceError`].
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

/// The numbers of units from index `start` of a launch on, up to the next piece's: 32
/// bytes, as they lie in the device's memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, align(8))]
pub struct Piece {
    /// The first unit's number, the low word first.
    pub first: [u32; 4],
    /// The step from number to number, modulo 2¹²⁸.
    pub stride: u64,
    /// The first unit's index in the launch.
    pub start: u32,
    /// 0.
    pub pad: u32,
}

impl Piece {
    /// Units numbered from `first` in steps of `stride`, the first of which is the
    /// launch's unit `start`.
    #[must_use]
    pub fn new(first: DataUnitNumber, stride: u64, start: u32) -> Self {
        let number = first.get();
        #[expect(clippy::cast_possible_truncation, reason = "a word at a time")]
        let first = [0, 32, 64, 96].map(|shift| (number >> shift) as u32);
        Self {
            first,
            stride,
            start,
            pad: 0,
        }
    }

    /// The number of the launch's unit `index`, which the piece has.
    #[must_use]
    pub fn number(&self, index: u32) -> u128 {
        let first = self.first.iter().rev();
        let first = first.fold(0, |high, &word| high << 32 | u128::from(word));
        let units = u64::from(index - self.start);
        DataUnitNumber::new(first).step(units, self.stride).get()
    }
}

/// What goes wrong with a device.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// Memory of the device, or pinned memory, is too short.
    #[error("out of memory: {message}")]
    OutOfMemory {
        /// What the library said.
        message: String,
    },
    /// The library is not there, or lacks something, or the kernels cannot be built by it.
    #[error("{message}")]
    Library {
        /// What is missing.
        message: String,
    },
    /// A kernel or a copy was refused or failed.
    #[error("a launch failed: {message}")]
    Launch {
        /// What the library said.
        message: String,
    },
    /// The device does not answer any more: nothing will succeed again in this process.
    #[error("the device is lost: {message}")]
    Lost {
        /// What the library said.
        message: String,
    },
}

impl DeviceError {
    /// Whether nothing will succeed again.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        matches!(self, Self::Lost { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_is_what_the_kernels_read() {
        assert_eq!((size_of::<Piece>(), align_of::<Piece>()), (32, 8));
        let piece = Piece::new((u128::MAX - 7).into(), u64::MAX, 5);
        assert_eq!(piece.first, [u32::MAX - 7, u32::MAX, u32::MAX, u32::MAX]);
        assert_eq!(piece.number(5), u128::MAX - 7);
        assert_eq!(piece.number(7), 2 * u128::from(u64::MAX) - 8);
        let piece = Piece::new((1_u128 | 2 << 32 | 3 << 64 | 4 << 96).into(), 1, 0);
        assert_eq!(piece.first, [1, 2, 3, 4]);
    }
}
