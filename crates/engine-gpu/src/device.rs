// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a library that runs the kernels of `kernels/` has to offer: a [`Device`] with
//! in-order [`Queue`]s, and what a [`Launch`] means.
//!
//! A block is 16 bytes. A *stretch* is up to 256 consecutive blocks of one data unit; a
//! unit of `b` blocks, a part of one at its end counted, has `spu` = ⌈`b` / 256⌉ of them.
//! Units lie `pitch` blocks apart. In a queue's memory are data, tweaks (one block for each
//! stretch) and [`Piece`]s, which say the units' numbers.

use std::ops::Range;

use luxor_engine::{Buffer, DataUnitNumber, Direction};

use crate::keys::{AesSize, KeyWords, Tables};

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

/// One run of a kernel. All places are bytes from the beginning of their memory, multiples
/// of 16; those of pieces are multiples of 32. No number is 0 but places and `tail`s that
/// say otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Launch {
    /// For each unit `u` and each of its stretches `s` the tweak: block `u · spu + s`
    /// becomes `u`'s number, little-endian and encrypted under the tweak key, times
    /// α^(256 `s`).
    Tweaks {
        /// Where the pieces are.
        pieces_at: usize,
        /// How many.
        piece_count: u32,
        /// How many units.
        units: u32,
        /// Stretches of a unit.
        spu: u32,
        /// Where the tweaks go.
        tweaks_at: usize,
    },
    /// XTS of the first `blocks` blocks of each unit. Where ciphertext is stolen, those are
    /// all but the last whole one.
    Xts {
        /// Which way.
        direction: Direction,
        /// Where the first unit is read.
        input_at: usize,
        /// Where it is written; the same or apart.
        output_at: usize,
        /// What [`Launch::Tweaks`] made.
        tweaks_at: usize,
        /// How many units.
        units: u32,
        /// Blocks of each.
        blocks: u32,
        /// Blocks from unit to unit.
        pitch: u32,
        /// Tweaks of each unit.
        spu: u32,
    },
    /// The last whole block of each unit, which has the index `blocks`, and the part of a
    /// block of `tail` bytes behind it (IEEE 1619-2007, 5.3.2 and 5.4.2). Bytes behind the
    /// tail make no difference and are not written.
    Tails {
        /// Which way.
        direction: Direction,
        /// As for [`Launch::Xts`].
        input_at: usize,
        /// As for [`Launch::Xts`].
        output_at: usize,
        /// What [`Launch::Tweaks`] made.
        tweaks_at: usize,
        /// How many units.
        units: u32,
        /// Whole blocks of each but one; may be 0.
        blocks: u32,
        /// Blocks from unit to unit.
        pitch: u32,
        /// Tweaks of each unit.
        spu: u32,
        /// 1 to 15.
        tail: u32,
    },
    /// CTR: each unit, of any length, begins with its number as the counter, big-endian.
    /// Bytes behind a unit's end are not written.
    Ctr {
        /// As for [`Launch::Xts`].
        input_at: usize,
        /// As for [`Launch::Xts`].
        output_at: usize,
        /// Where the pieces are.
        pieces_at: usize,
        /// How many.
        piece_count: u32,
        /// How many units.
        units: u32,
        /// Bytes of each.
        len: u32,
        /// Blocks from unit to unit.
        pitch: u32,
        /// Stretches of a unit.
        spu: u32,
    },
}

impl Launch {
    /// The kernel's name: `xts_tweaks_128`, `xts_encrypt_256`, `ctr_128`.
    #[must_use]
    pub const fn kernel(&self, size: AesSize) -> &'static str {
        macro_rules! sized {
            ($name:literal) => {
                match size {
                    AesSize::Aes128 => concat!($name, "_128"),
                    AesSize::Aes192 => concat!($name, "_192"),
                    AesSize::Aes256 => concat!($name, "_256"),
                }
            };
        }
        match self {
            Self::Tweaks { .. } => sized!("xts_tweaks"),
            Self::Ctr { .. } => sized!("ctr"),
            Self::Xts { direction, .. } => match direction {
                Direction::Encrypt => sized!("xts_encrypt"),
                Direction::Decrypt => sized!("xts_decrypt"),
            },
            Self::Tails { direction, .. } => match direction {
                Direction::Encrypt => sized!("xts_tails_encrypt"),
                Direction::Decrypt => sized!("xts_tails_decrypt"),
            },
        }
    }

    /// The kernel's arguments behind its key, in their order.
    #[must_use]
    pub fn arguments(&self) -> Vec<Argument> {
        use Argument::{Input, Number, Output, Pieces, Tweaks};

        match *self {
            Self::Tweaks {
                pieces_at,
                piece_count,
                units,
                spu,
                tweaks_at,
            } => vec![
                Pieces(pieces_at),
                Number(piece_count),
                Number(units),
                Number(spu),
                Tweaks(tweaks_at),
            ],
            Self::Xts {
                direction: _,
                input_at,
                output_at,
                tweaks_at,
                units,
                blocks,
                pitch,
                spu,
            } => vec![
                Input(input_at),
                Output(output_at),
                Tweaks(tweaks_at),
                Number(units),
                Number(blocks),
                Number(pitch),
                Number(spu),
            ],
            Self::Tails {
                direction: _,
                input_at,
                output_at,
                tweaks_at,
                units,
                blocks,
                pitch,
                spu,
                tail,
            } => vec![
                Input(input_at),
                Output(output_at),
                Tweaks(tweaks_at),
                Number(units),
                Number(blocks),
                Number(pitch),
                Number(spu),
                Number(tail),
            ],
            Self::Ctr {
                input_at,
                output_at,
                pieces_at,
                piece_count,
                units,
                len,
                pitch,
                spu,
            } => vec![
                Input(input_at),
                Output(output_at),
                Pieces(pieces_at),
                Number(piece_count),
                Number(units),
                Number(len),
                Number(pitch),
                Number(spu),
            ],
        }
    }

    /// How many threads have something to do: one for each tweak or unit, a warp of 32 for
    /// each stretch.
    #[must_use]
    pub fn threads(&self) -> u64 {
        match *self {
            Self::Tweaks { units, spu, .. } => u64::from(units) * u64::from(spu),
            Self::Tails { units, .. } => units.into(),
            Self::Xts { units, spu, .. } | Self::Ctr { units, spu, .. } => {
                u64::from(units) * u64::from(spu) * 32
            }
        }
    }

    /// That the launch stays within memories of so many bytes, its places are multiples of
    /// what they must be, and its units have their stretches.
    ///
    /// # Errors
    /// [`DeviceError::Launch`], with what does not fit.
    pub fn check(&self, bounds: Bounds) -> Result<(), DeviceError> {
        self.check_stretches()?;
        if let Self::Tweaks {
            pieces_at,
            piece_count,
            ..
        }
        | Self::Ctr {
            pieces_at,
            piece_count,
            ..
        } = *self
        {
            let unit = size_of::<Piece>();
            let len = u64::from(piece_count) * unit as u64;
            fits("pieces", pieces_at, len, bounds.pieces, unit)?;
        }
        if let Self::Tweaks {
            tweaks_at,
            units,
            spu,
            ..
        }
        | Self::Xts {
            tweaks_at,
            units,
            spu,
            ..
        }
        | Self::Tails {
            tweaks_at,
            units,
            spu,
            ..
        } = *self
        {
            let tweaks = u64::from(units) * u64::from(spu);
            let len = tweaks.saturating_mul(BLOCK as u64);
            fits("tweaks", tweaks_at, len, bounds.tweaks, BLOCK)?;
        }
        let (input_at, output_at, len) = match *self {
            Self::Tweaks { .. } => return Ok(()),
            Self::Xts {
                input_at,
                output_at,
                units,
                blocks,
                pitch,
                ..
            } => {
                let unit = u64::from(blocks) * BLOCK as u64;
                (input_at, output_at, extent(units, pitch, unit)?)
            }
            Self::Tails {
                input_at,
                output_at,
                units,
                blocks,
                pitch,
                tail,
                ..
            } => {
                let unit = (u64::from(blocks) + 1) * BLOCK as u64 + u64::from(tail);
                (input_at, output_at, extent(units, pitch, unit)?)
            }
            Self::Ctr {
                input_at,
                output_at,
                units,
                len,
                pitch,
                ..
            } => (input_at, output_at, extent(units, pitch, len.into())?),
        };
        fits("input", input_at, len, bounds.input, BLOCK)?;
        fits("output", output_at, len, bounds.output, BLOCK)
    }

    /// That a unit's blocks are within its stretches, since the kernels take its tweaks by
    /// them; that no kernel divides by 0, or counts to 2³¹.
    fn check_stretches(&self) -> Result<(), DeviceError> {
        let (units, spu, blocks) = match *self {
            Self::Tweaks { units, spu, .. } => (units, spu, 1),
            Self::Xts {
                units, spu, blocks, ..
            } => (units, spu, blocks.into()),
            Self::Tails {
                units, spu, blocks, ..
            } => (units, spu, u64::from(blocks) + 2),
            Self::Ctr {
                units, spu, len, ..
            } => (units, spu, u64::from(len).div_ceil(BLOCK as u64)),
        };
        let all = u64::from(units) * u64::from(spu);
        if blocks <= u64::from(spu) * STRETCH as u64 && all < 1 << 31 {
            return Ok(());
        }
        let message = format!("{units} units of {blocks} blocks in {spu} stretches each");
        Err(DeviceError::Launch { message })
    }
}

/// An argument of a kernel: a place in one of a launch's memories, in bytes from its
/// beginning, or a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Argument {
    /// In what is read.
    Input(usize),
    /// In what is written.
    Output(usize),
    /// Among the tweaks.
    Tweaks(usize),
    /// Among the pieces.
    Pieces(usize),
    /// 32 bits.
    Number(u32),
}

/// Bytes of the memories that a launch uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Data that are read.
    pub input: usize,
    /// Data that are written.
    pub output: usize,
    /// Tweaks.
    pub tweaks: usize,
    /// Pieces.
    pub pieces: usize,
}

/// That `len` bytes at `at`, a multiple of `unit`, are within `room`.
fn fits(what: &str, at: usize, len: u64, room: usize, unit: usize) -> Result<(), DeviceError> {
    let end = (at as u64).saturating_add(len);
    if end <= room as u64 && at.is_multiple_of(unit) {
        return Ok(());
    }
    let message = format!("{len} bytes of {what} at {at}, of {room}");
    Err(DeviceError::Launch { message })
}

/// Bytes from the first of `units` units, of `unit` bytes each, to the last one's end.
fn extent(units: u32, pitch: u32, unit: u64) -> Result<u64, DeviceError> {
    let between = u64::from(pitch) * BLOCK as u64;
    if units == 0 || (units > 1 && unit > between) {
        let message = format!("{units} units of {unit} bytes, {between} apart");
        return Err(DeviceError::Launch { message });
    }
    Ok(u64::from(units - 1) * between + unit)
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

    #[test]
    fn kernels_have_their_names() {
        let tails = |direction| Launch::Tails {
            direction,
            input_at: 0,
            output_at: 0,
            tweaks_at: 0,
            units: 3,
            blocks: 0,
            pitch: 2,
            spu: 1,
            tail: 1,
        };
        let name = |launch: Launch| launch.kernel(AesSize::Aes192);
        assert_eq!(name(tails(Direction::Encrypt)), "xts_tails_encrypt_192");
        assert_eq!(name(tails(Direction::Decrypt)), "xts_tails_decrypt_192");
        assert_eq!(tails(Direction::Encrypt).threads(), 3);
        let ctr = Launch::Ctr {
            input_at: 0,
            output_at: 0,
            pieces_at: 0,
            piece_count: 1,
            units: 3,
            len: 9000,
            pitch: 600,
            spu: 3,
        };
        assert_eq!(ctr.kernel(AesSize::Aes256), "ctr_256");
        assert_eq!(ctr.threads(), 9 * 32);
    }

    #[test]
    fn a_launch_stays_within_its_memories() {
        let bounds = Bounds {
            input: 3 * 64 - 16,
            output: 16 + 3 * 64 - 16,
            tweaks: 16 + 48,
            pieces: 32,
        };
        let xts = |units, blocks, tweaks_at, output_at| Launch::Xts {
            direction: Direction::Encrypt,
            input_at: 0,
            output_at,
            tweaks_at,
            units,
            blocks,
            pitch: 4,
            spu: 1,
        };
        assert_eq!(xts(3, 3, 16, 16).check(bounds), Ok(()));
        for (launch, what) in [
            (xts(3, 4, 16, 16), "192 bytes of input at 0, of 176"),
            (xts(3, 3, 16, 32), "176 bytes of output at 32, of 192"),
            (xts(3, 3, 32, 16), "48 bytes of tweaks at 32, of 64"),
            (xts(3, 3, 8, 16), "48 bytes of tweaks at 8, of 64"),
            (xts(3, 5, 16, 16), "3 units of 80 bytes, 64 apart"),
            (xts(0, 3, 16, 16), "0 units of 48 bytes, 64 apart"),
        ] {
            let message = what.into();
            assert_eq!(launch.check(bounds), Err(DeviceError::Launch { message }));
        }
        let tweaks = |pieces_at, piece_count, units, spu| Launch::Tweaks {
            pieces_at,
            piece_count,
            units,
            spu,
            tweaks_at: 0,
        };
        assert_eq!(tweaks(0, 1, 2, 2).check(bounds), Ok(()));
        assert!(tweaks(0, 2, 2, 2).check(bounds).is_err());
        assert!(tweaks(32, 1, 2, 2).check(bounds).is_err());
        assert!(tweaks(0, 1, 5, 1).check(bounds).is_err());
        assert!(tweaks(0, 1, u32::MAX, u32::MAX).check(bounds).is_err());
        let tails = |tail, blocks| Launch::Tails {
            direction: Direction::Decrypt,
            input_at: 0,
            output_at: 0,
            tweaks_at: 0,
            units: 3,
            blocks,
            pitch: 4,
            spu: 1,
            tail,
        };
        assert_eq!(tails(15, 1).check(bounds), Ok(()));
        assert!(tails(1, 2).check(bounds).is_err());
        let ctr = |len| Launch::Ctr {
            input_at: 0,
            output_at: 0,
            pieces_at: 0,
            piece_count: 1,
            units: 3,
            len,
            pitch: 4,
            spu: 1,
        };
        assert_eq!(ctr(48).check(bounds), Ok(()));
        assert!(ctr(49).check(bounds).is_err());
    }

    #[test]
    fn a_units_blocks_are_within_its_stretches() {
        let bounds = Bounds {
            input: 1 << 40,
            output: 1 << 40,
            tweaks: 1 << 40,
            pieces: 32,
        };
        let direction = Direction::Encrypt;
        let (input_at, output_at, tweaks_at, pieces_at, piece_count) = (0, 0, 0, 0, 1);
        let (units, pitch) = (1, 1000);
        let xts = |blocks, spu| Launch::Xts {
            direction,
            input_at,
            output_at,
            tweaks_at,
            units,
            blocks,
            pitch,
            spu,
        };
        let tails = |blocks, spu| Launch::Tails {
            direction,
            input_at,
            output_at,
            tweaks_at,
            units,
            blocks,
            pitch,
            spu,
            tail: 1,
        };
        let ctr = |len, spu| Launch::Ctr {
            input_at,
            output_at,
            pieces_at,
            piece_count,
            units,
            len,
            pitch,
            spu,
        };
        let tweaks = |units, spu| Launch::Tweaks {
            pieces_at,
            piece_count,
            units,
            spu,
            tweaks_at,
        };
        for (launch, fits) in [
            (xts(256, 1), true),
            (xts(257, 1), false),
            (xts(1, 0), false),
            (tails(254, 1), true),
            (tails(255, 1), false),
            (tails(0, 0), false),
            (ctr(4096, 1), true),
            (ctr(4097, 1), false),
            (tweaks(1 << 20, (1 << 11) - 1), true),
            (tweaks(1 << 20, 1 << 11), false),
            (tweaks(1, 0), false),
        ] {
            assert_eq!(launch.check(bounds).is_ok(), fits, "{launch:?}");
        }
    }
}
