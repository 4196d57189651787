// SPDX-License-Identifier: MIT OR Apache-2.0
//! The layout of data, tweaks and data unit numbers in device memory.
//!
//! A block is 16 bytes. A *stretch* is up to 256 consecutive blocks of one data unit. A unit of `b`
//! blocks (a partial last block counts) has `spu` = ⌈`b` / 256⌉ stretches. Units begin `pitch`
//! blocks apart. A queue's memory holds data, tweaks (one block for each stretch) and [`Piece`]s,
//! which give the units' numbers.

use luxor_engine::{DataUnitLen, DataUnitNumber};

/// Threads that process a stretch together.
pub(crate) const WARP: u64 = 32;

/// Bytes of a block.
pub const BLOCK: usize = 16;

/// Blocks of a stretch. One warp processes a stretch, starting from one tweak.
pub const STRETCH: usize = 256;

/// The layout of a unit in device memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UnitLayout {
    /// Bytes of the unit.
    pub(crate) len: usize,
    /// Blocks of the unit; a partial last block counts.
    pub(crate) blocks: usize,
    /// Stretches of the unit.
    pub(crate) stretches: usize,
}

impl UnitLayout {
    pub(crate) fn new(len: DataUnitLen) -> Self {
        let blocks = len.get().div_ceil(BLOCK);
        Self {
            len: len.get(),
            blocks,
            stretches: blocks.div_ceil(STRETCH),
        }
    }

    /// Returns the bytes of the unit, padded to whole blocks.
    pub(crate) fn padded(self) -> usize {
        self.blocks * BLOCK
    }

    /// Returns whether units follow each other without padding.
    pub(crate) fn is_whole(self) -> bool {
        self.len == self.padded()
    }
}

/// The numbers of the units from index `start` of a launch up to the next piece's `start`. 32
/// bytes, laid out as in device memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, align(8))]
pub struct Piece {
    /// The first unit's number, lowest word first.
    pub first: [u32; 4],
    /// The step from number to number, modulo 2¹²⁸.
    pub stride: u64,
    /// The first unit's index in the launch.
    pub start: u32,
    /// Padding, 0.
    pub pad: u32,
}

impl Piece {
    /// A piece for units numbered from `first` in steps of `stride`. The first of them has the
    /// index `start` in the launch.
    #[must_use]
    pub fn new(first: DataUnitNumber, stride: u64, start: u32) -> Self {
        let number = first.get();
        #[expect(
            clippy::cast_possible_truncation,
            reason = "takes one 32-bit word at a time"
        )]
        let first = [0, 32, 64, 96].map(|shift| (number >> shift) as u32);
        Self {
            first,
            stride,
            start,
            pad: 0,
        }
    }

    /// Returns the number of the launch's unit `index`, which must belong to this piece.
    #[must_use]
    pub fn number(&self, index: u32) -> u128 {
        let first = self.first.iter().rev();
        let first = first.fold(0, |high, &word| high << 32 | u128::from(word));
        let units = u64::from(index - self.start);
        DataUnitNumber::new(first).step(units, self.stride).get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_has_the_layout_that_the_kernels_read() {
        assert_eq!((size_of::<Piece>(), align_of::<Piece>()), (32, 8));
        let piece = Piece::new((u128::MAX - 7).into(), u64::MAX, 5);
        assert_eq!(piece.first, [u32::MAX - 7, u32::MAX, u32::MAX, u32::MAX]);
        assert_eq!(piece.number(5), u128::MAX - 7);
        assert_eq!(piece.number(7), 2 * u128::from(u64::MAX) - 8);
        let piece = Piece::new((1_u128 | 2 << 32 | 3 << 64 | 4 << 96).into(), 1, 0);
        assert_eq!(piece.first, [1, 2, 3, 4]);
    }

    #[test]
    fn a_part_of_a_block_is_a_block() {
        let unit = |len| UnitLayout::new(DataUnitLen::new(len).unwrap());
        assert_eq!((unit(16).blocks, unit(17).blocks), (1, 2));
        assert_eq!((unit(4096).stretches, unit(4097).stretches), (1, 2));
        assert_eq!((unit(17).padded(), unit(4096).padded()), (32, 4096));
        assert!(unit(512).is_whole() && !unit(520).is_whole());
    }
}
