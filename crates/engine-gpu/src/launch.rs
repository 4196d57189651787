// SPDX-License-Identifier: MIT OR Apache-2.0
//! One launch of a kernel: its kernel, its arguments, and the check that it stays within its
//! memories.

use luxor_engine::Direction;

use crate::{
    error::DeviceError,
    keys::AesSize,
    layout::{BLOCK, Piece, STRETCH, WARP},
};

/// One launch of a kernel. Offsets (`…_at`) count bytes from the beginning of their memory; they
/// are multiples of 16, those of pieces multiples of 32. Offsets may be 0; other numbers are at
/// least 1 unless their field says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Launch {
    /// Computes the tweak of each stretch `s` of each unit `u`: block `u · spu + s` becomes `u`'s
    /// number, little-endian, encrypted under the tweak key and multiplied by α^(256 `s`).
    Tweaks {
        /// Offset of the pieces.
        pieces_at: usize,
        /// Number of pieces.
        piece_count: u32,
        /// Number of units.
        units: u32,
        /// Stretches per unit.
        spu: u32,
        /// Offset of the tweaks that it writes.
        tweaks_at: usize,
    },
    /// XTS on the first `blocks` blocks of each unit. With ciphertext stealing these are all blocks
    /// but the last whole one.
    Xts {
        /// Encryption or decryption.
        direction: Direction,
        /// Offset of the first unit in the input.
        input_at: usize,
        /// Offset of the first unit in the output: equal to the input or disjoint from it.
        output_at: usize,
        /// Offset of the tweaks that [`Launch::Tweaks`] wrote.
        tweaks_at: usize,
        /// Number of units.
        units: u32,
        /// Blocks to process of each unit.
        blocks: u32,
        /// Blocks from the beginning of one unit to the next.
        pitch: u32,
        /// Stretches, and so tweaks, per unit.
        spu: u32,
    },
    /// Ciphertext stealing: the last whole block of each unit, at index `blocks`, and the partial
    /// block of `tail` bytes after it (IEEE 1619-2007, 5.3.2 and 5.4.2). The result does not depend
    /// on the bytes after the tail, and they are not written.
    Tails {
        /// Encryption or decryption.
        direction: Direction,
        /// As for [`Launch::Xts`].
        input_at: usize,
        /// As for [`Launch::Xts`].
        output_at: usize,
        /// Offset of the tweaks that [`Launch::Tweaks`] wrote.
        tweaks_at: usize,
        /// Number of units.
        units: u32,
        /// Whole blocks of each unit minus one; may be 0.
        blocks: u32,
        /// Blocks from the beginning of one unit to the next.
        pitch: u32,
        /// Stretches, and so tweaks, per unit.
        spu: u32,
        /// Bytes of the partial block, 1 to 15.
        tail: u32,
    },
    /// CTR. The counter of each unit starts at the unit's number, big-endian. Units have any
    /// length; bytes after a unit's end are not written.
    Ctr {
        /// As for [`Launch::Xts`].
        input_at: usize,
        /// As for [`Launch::Xts`].
        output_at: usize,
        /// Offset of the pieces.
        pieces_at: usize,
        /// Number of pieces.
        piece_count: u32,
        /// Number of units.
        units: u32,
        /// Bytes of each unit.
        len: u32,
        /// Blocks from the beginning of one unit to the next.
        pitch: u32,
        /// Stretches per unit.
        spu: u32,
    },
}

impl Launch {
    /// Returns the kernel's name, such as `xts_tweaks_128`, `xts_encrypt_256` or `ctr_128`.
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

    /// Returns the kernel's arguments after its key, in order.
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
            }
            | Self::Tails {
                direction: _,
                input_at,
                output_at,
                tweaks_at,
                units,
                blocks,
                pitch,
                spu,
                tail: _,
            } => {
                let mut arguments = vec![
                    Input(input_at),
                    Output(output_at),
                    Tweaks(tweaks_at),
                    Number(units),
                    Number(blocks),
                    Number(pitch),
                    Number(spu),
                ];
                if let Self::Tails { tail, .. } = *self {
                    arguments.push(Number(tail));
                }
                arguments
            }
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

    /// Returns the number of groups to run, at most `most`: one for each warp with work to do. A warp
    /// of 32 threads computes 32 tweaks or tails, or processes one stretch. The kernels give the
    /// warps of a group work only after each group has some, so that little work is spread over the
    /// whole device.
    #[must_use]
    pub fn groups(&self, most: u32) -> u32 {
        let warps = match *self {
            Self::Tweaks { units, spu, .. } => (u64::from(units) * u64::from(spu)).div_ceil(WARP),
            Self::Tails { units, .. } => u64::from(units).div_ceil(WARP),
            Self::Xts { units, spu, .. } | Self::Ctr { units, spu, .. } => {
                u64::from(units) * u64::from(spu)
            }
        };
        u32::try_from(warps).map_or(most, |warps| warps.min(most))
    }

    /// Checks that the launch stays within memories of the sizes in `bounds`, that its offsets are
    /// aligned, and that `spu` stretches cover a unit.
    ///
    /// # Errors
    /// [`DeviceError::Launch`], which names what does not fit.
    pub fn check(&self, bounds: Bounds) -> Result<(), DeviceError> {
        self.check_stretches()?;
        if let Some((at, count)) = self.pieces() {
            let unit = size_of::<Piece>();
            let len = u64::from(count) * unit as u64;
            fits("pieces", at, len, bounds.pieces, unit)?;
        }
        if let Some((at, count)) = self.tweaks() {
            let len = count.saturating_mul(BLOCK as u64);
            fits("tweaks", at, len, bounds.tweaks, BLOCK)?;
        }
        if let Some((input_at, output_at, units, pitch, unit)) = self.data() {
            let len = extent(units, pitch, unit)?;
            fits("input", input_at, len, bounds.input, BLOCK)?;
            fits("output", output_at, len, bounds.output, BLOCK)?;
        }
        Ok(())
    }

    /// Returns the offset of the pieces, and their number.
    fn pieces(&self) -> Option<(usize, u32)> {
        match *self {
            Self::Tweaks {
                pieces_at,
                piece_count,
                ..
            }
            | Self::Ctr {
                pieces_at,
                piece_count,
                ..
            } => Some((pieces_at, piece_count)),
            Self::Xts { .. } | Self::Tails { .. } => None,
        }
    }

    /// Returns the offset of the tweaks, and their number.
    fn tweaks(&self) -> Option<(usize, u64)> {
        match *self {
            Self::Tweaks {
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
            } => Some((tweaks_at, u64::from(units) * u64::from(spu))),
            Self::Ctr { .. } => None,
        }
    }

    /// Returns the offsets of input and output, the number of units, the blocks from one unit to
    /// the next, and the bytes of each unit that the launch touches.
    fn data(&self) -> Option<(usize, usize, u32, u32, u64)> {
        let block = BLOCK as u64;
        match *self {
            Self::Tweaks { .. } => None,
            Self::Xts {
                input_at,
                output_at,
                units,
                blocks,
                pitch,
                ..
            } => Some((input_at, output_at, units, pitch, u64::from(blocks) * block)),
            Self::Tails {
                input_at,
                output_at,
                units,
                blocks,
                pitch,
                tail,
                ..
            } => {
                let unit = (u64::from(blocks) + 1) * block + u64::from(tail);
                Some((input_at, output_at, units, pitch, unit))
            }
            Self::Ctr {
                input_at,
                output_at,
                units,
                len,
                pitch,
                ..
            } => Some((input_at, output_at, units, pitch, len.into())),
        }
    }

    /// Checks that `spu` stretches cover the blocks of a unit, because the kernels index its tweaks
    /// by stretch. This also refuses `spu` = 0, by which the kernels would divide, and 2³¹ or more
    /// stretches, which they could not count.
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
        let message = format!("{units} units of {blocks} blocks do not fit {spu} stretches each");
        Err(DeviceError::Launch { message })
    }
}

/// An argument of a kernel: a byte offset in one of a launch's memories, or a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Argument {
    /// An offset in the data that are read.
    Input(usize),
    /// An offset in the data that are written.
    Output(usize),
    /// An offset in the tweaks.
    Tweaks(usize),
    /// An offset in the pieces.
    Pieces(usize),
    /// A 32-bit number.
    Number(u32),
}

/// The sizes in bytes of the memories that a launch uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Bytes of the data that are read.
    pub input: usize,
    /// Bytes of the data that are written.
    pub output: usize,
    /// Bytes of the tweaks.
    pub tweaks: usize,
    /// Bytes of the pieces.
    pub pieces: usize,
}

/// Checks that `at` is a multiple of `unit` and that `len` bytes from `at` on are within `room`.
fn fits(what: &str, at: usize, len: u64, room: usize, unit: usize) -> Result<(), DeviceError> {
    let end = (at as u64).saturating_add(len);
    let message = if !at.is_multiple_of(unit) {
        format!("{what} at byte {at}, which is not a multiple of {unit}")
    } else if end > room as u64 {
        format!("{len} bytes of {what} at byte {at} exceed its {room} bytes")
    } else {
        return Ok(());
    };
    Err(DeviceError::Launch { message })
}

/// Returns the bytes from the beginning of the first of `units` units, of `unit` bytes each, to the
/// end of the last.
fn extent(units: u32, pitch: u32, unit: u64) -> Result<u64, DeviceError> {
    let between = u64::from(pitch) * BLOCK as u64;
    if units == 0 || (units > 1 && unit > between) {
        let message = format!("cannot place {units} units of {unit} bytes {between} bytes apart");
        return Err(DeviceError::Launch { message });
    }
    Ok(u64::from(units - 1) * between + unit)
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(tails(Direction::Encrypt).groups(9), 1);
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
        assert_eq!((ctr.groups(8), ctr.groups(10)), (8, 9));
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
            (
                xts(3, 4, 16, 16),
                "192 bytes of input at byte 0 exceed its 176 bytes",
            ),
            (
                xts(3, 3, 16, 32),
                "176 bytes of output at byte 32 exceed its 192 bytes",
            ),
            (
                xts(3, 3, 32, 16),
                "48 bytes of tweaks at byte 32 exceed its 64 bytes",
            ),
            (
                xts(3, 3, 8, 16),
                "tweaks at byte 8, which is not a multiple of 16",
            ),
            (
                xts(3, 5, 16, 16),
                "cannot place 3 units of 80 bytes 64 bytes apart",
            ),
            (
                xts(0, 3, 16, 16),
                "cannot place 0 units of 48 bytes 64 bytes apart",
            ),
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
