// SPDX-License-Identifier: MIT OR Apache-2.0
//! The launches that units of one length need.

use luxor_engine::Direction;

use crate::{
    launch::Launch,
    layout::{BLOCK, UnitLayout},
};

/// Consecutive units of one length in device memory. They take one set of launches.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) unit: UnitLayout,
    pub(crate) units: usize,
    pub(crate) pieces: usize,
    pub(crate) input_at: usize,
    pub(crate) output_at: usize,
    pub(crate) tweaks_at: usize,
    pub(crate) pieces_at: usize,
}

impl Span {
    /// Returns a span without units at the beginning of the memory.
    pub(crate) fn empty(unit: UnitLayout) -> Self {
        Self {
            unit,
            units: 0,
            pieces: 0,
            input_at: 0,
            output_at: 0,
            tweaks_at: 0,
            pieces_at: 0,
        }
    }

    /// Returns the bytes of its tweaks.
    pub(crate) fn tweaks(&self) -> usize {
        self.units * self.unit.stretches * BLOCK
    }

    /// Returns its launches, in order.
    pub(crate) fn launches(
        self,
        tweaks: bool,
        direction: Direction,
    ) -> impl Iterator<Item = Launch> {
        let count =
            |n: usize| u32::try_from(n).expect("a queue's memory holds fewer than 2^32 units");
        let Self {
            unit,
            input_at,
            output_at,
            tweaks_at,
            pieces_at,
            ..
        } = self;
        let (units, piece_count) = (count(self.units), count(self.pieces));
        let (pitch, spu) = (count(unit.blocks), count(unit.stretches));
        let tail = count(unit.len % BLOCK);
        if !tweaks {
            let ctr = Launch::Ctr {
                input_at,
                output_at,
                pieces_at,
                piece_count,
                units,
                len: count(unit.len),
                pitch,
                spu,
            };
            return [Some(ctr), None, None].into_iter().flatten();
        }
        // With a tail, the last whole block belongs to the launch for tails.
        let blocks = if tail == 0 { pitch } else { pitch - 2 };
        let tweaks = Launch::Tweaks {
            pieces_at,
            piece_count,
            units,
            spu,
            tweaks_at,
        };
        let whole = (blocks > 0).then_some(Launch::Xts {
            direction,
            input_at,
            output_at,
            tweaks_at,
            units,
            blocks,
            pitch,
            spu,
        });
        let tails = (tail > 0).then_some(Launch::Tails {
            direction,
            input_at,
            output_at,
            tweaks_at,
            units,
            blocks,
            pitch,
            spu,
            tail,
        });
        [Some(tweaks), whole, tails].into_iter().flatten()
    }
}
