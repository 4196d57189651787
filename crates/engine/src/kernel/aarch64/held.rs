// SPDX-License-Identifier: MIT OR Apache-2.0
//! Round keys in registers. The 32 registers have room for eight blocks, their tweaks and all round
//! keys, and so nothing but data and tweaks is loaded in a pass.

use crate::kernel::aes::{Registers, Slots, Stored, expanded::SLOTS};

/// A schedule in registers. The compiler drops the values that are not used.
#[derive(Clone, Copy)]
pub(super) struct Held<V>([V; SLOTS]);

impl<'a, V: Registers> From<Stored<'a, V>> for Held<V> {
    #[inline(always)]
    #[rustfmt::skip]
    fn from(from: Stored<'a, V>) -> Self {
        Self([
            from.slot(0), from.slot(1), from.slot(2), from.slot(3), from.slot(4), from.slot(5),
            from.slot(6), from.slot(7), from.slot(8), from.slot(9), from.slot(10), from.slot(11),
            from.slot(12), from.slot(13), from.slot(14), from.slot(15), from.slot(16),
            from.slot(17),
        ])
    }
}

impl<V: Copy> Slots<V> for Held<V> {
    type InLoop = Self;

    #[inline(always)]
    fn slot(&self, i: usize) -> V {
        self.0[i]
    }

    #[inline(always)]
    fn in_loop(&self) -> Self {
        *self
    }
}
