// SPDX-License-Identifier: MIT OR Apache-2.0
//! The sequence of AES rounds, for registers of any width.

use core::marker::PhantomData;

use super::{
    expanded::{ALPHA8, ENTER_MASKED, Expanded, PASS, SLOTS},
    registers::Registers,
};
use crate::kernel::vector::{Beside, Each, Permutation, unrolled};

macro_rules! permutation {
    ($(#[$doc:meta])* $name:ident, $schedule:literal, $round:ident, $last:ident) => {
        $(#[$doc])*
        pub(in crate::kernel) struct $name<'a, V, const ROUNDS: usize> {
            slots: &'a [u8],
            registers: PhantomData<V>,
        }

        impl<'a, V: Registers, const ROUNDS: usize> $name<'a, V, ROUNDS> {
            /// # Safety
            /// The CPU has the instructions of `V`.
            #[inline(always)]
            pub(in crate::kernel) unsafe fn of(key: &'a Expanded) -> Self {
                let len = SLOTS * 16 * V::BLOCKS;
                Self {
                    slots: &key.schedules.expose()[$schedule * len..][..len],
                    registers: PhantomData,
                }
            }

            #[inline(always)]
            fn slot(&self, i: usize) -> V {
                assert!(i < SLOTS);
                // SAFETY: `i < SLOTS`, and `of` took `SLOTS` registers' bytes from the schedule.
                // The caller of `of` guarantees the instructions.
                unsafe { V::load(self.slots.as_ptr().add(16 * V::BLOCKS * i)) }
            }

            #[inline(always)]
            fn round<const D: usize>(&self, x: &mut [V; D], i: usize) {
                let key = self.slot(i);
                unrolled!(i in 0..D => {
                    x[i] = x[i].$round(key);
                });
            }
        }

        impl<V: Registers, const ROUNDS: usize> Permutation for $name<'_, V, ROUNDS> {
            type V = V;

            #[inline(always)]
            fn enter(&self, x: V) -> V {
                x.xor(self.slot(0))
            }

            #[inline(always)]
            fn enter_masked(&self, x: V, mask: V) -> V {
                x.xor(mask).xor(self.slot(ENTER_MASKED))
            }

            #[inline(always)]
            fn leave(&self) -> V {
                self.slot(ROUNDS)
            }

            #[inline(always)]
            fn rounds<const D: usize, W: Beside<V>>(
                &self,
                mut x: [V; D],
                post: impl Each<V>,
                work: &mut W,
            ) -> [V; D] {
                const { assert!(ROUNDS == 10 || ROUNDS == 14) };
                // Written out, because the compiler does not unroll a loop of this length, and
                // would then keep all state of `work` in memory.
                self.round(&mut x, 1);
                work.step(0, &mut x[0]);
                self.round(&mut x, 2);
                work.step(1, &mut x[0]);
                self.round(&mut x, 3);
                work.step(2, &mut x[0]);
                self.round(&mut x, 4);
                work.step(3, &mut x[0]);
                self.round(&mut x, 5);
                work.step(4, &mut x[0]);
                self.round(&mut x, 6);
                work.step(5, &mut x[0]);
                self.round(&mut x, 7);
                work.step(6, &mut x[0]);
                self.round(&mut x, 8);
                work.step(7, &mut x[0]);
                self.round(&mut x, 9);
                if ROUNDS == 14 {
                    self.round(&mut x, 10);
                    self.round(&mut x, 11);
                    self.round(&mut x, 12);
                    self.round(&mut x, 13);
                }
                unrolled!(i in 0..D => {
                    x[i] = x[i].$last(post.at(i));
                });
                x
            }

            #[inline(always)]
            fn mask_mul_alpha8(&self, mask: V) -> V {
                mask.mul_alpha8().xor(self.slot(ALPHA8))
            }

            #[inline(always)]
            fn mask_mul_pass(&self, mask: V) -> V {
                mask.mul_pass().xor(self.slot(PASS))
            }
        }
    };
}

permutation! {
    /// AES encryption with `ROUNDS` rounds.
    Enc, 0, aesenc, aesenclast
}
permutation! {
    /// The equivalent inverse cipher with `ROUNDS` rounds.
    Dec, 1, aesdec, aesdeclast
}
