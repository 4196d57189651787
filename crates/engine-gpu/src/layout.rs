// SPDX-License-Identifier: MIT OR Apache-2.0
//! How data, tweaks and numbers lie in a device's memory.
//!
//! A block is 16 bytes. A *stretch* is up to 256 consecutive blocks of one data unit; a
//! unit of `b` blocks, a part of one at its end counted, has `spu` = ⌈`b` / 256⌉ of them.
//! Units lie `pitch` blocks apart. In a queue's memory are data, tweaks (one block for each
//! stretch) and [`Piece`]s, which say the units' numbers.

use luxor_engine::{DataUnitLen, DataUnitNumber};

/// Bytes of a block.
pub const BLOCK: usize = 16;

/// Blocks of a stretch: what one warp walks, with one tweak to begin from.
pub const STRETCH: usize = 256;

/// How a unit lies in a device's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UnitLayout {
    /// Its bytes.
    pub(crate) len: usize,
    /// Its blocks, a part of one counted.
    pub(crate) blocks: usize,
    /// Its stretches.
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

    /// Its bytes with what fills the last block.
    pub(crate) fn padded(self) -> usize {
        self.blocks * BLOCK
    }

    /// Whether units follow on one another with nothing between.
    pub(crate) fn is_whole(self) -> bool {
        self.len == self.padded()
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
    fn a_part_of_a_block_is_a_block() {
        let unit = |len| UnitLayout::new(DataUnitLen::new(len).unwrap());
        assert_eq!((unit(16).blocks, unit(17).blocks), (1, 2));
        assert_eq!((unit(4096).stretches, unit(4097).stretches), (1, 2));
        assert_eq!((unit(17).padded(), unit(4096).padded()), (32, 4096));
        assert!(unit(512).is_whole() && !unit(520).is_whole());
    }
}
