// SPDX-License-Identifier: MIT OR Apache-2.0
//! The sequence of AES rounds, for registers of any width.

use core::marker::PhantomData;

use super::{
    Registers,
    expanded::{ACROSS, ALPHA8, Expanded, PASS, SLOTS},
};
use crate::{
    kernel::vector::{Beside, Each, Permutation, unrolled},
    mode::blocks::{Form, Tweaked},
};

/// The round keys and constants of a schedule.
pub(in crate::kernel) trait Slots<V>: Copy {
    /// The form in which a long loop uses them.
    type InLoop: Slots<V>;

    fn slot(&self, i: usize) -> V;

    fn in_loop(&self) -> Self::InLoop;
}

/// A schedule in memory. Its values are loaded where they are used.
#[derive(Clone, Copy)]
pub(in crate::kernel) struct Stored<'a, V> {
    slots: &'a [u8],
    registers: PhantomData<V>,
}

impl<'a, V: Registers> Stored<'a, V> {
    /// # Safety
    /// The CPU has the instructions of `V`.
    #[inline(always)]
    unsafe fn new(key: &'a Expanded, schedule: usize) -> Self {
        let len = SLOTS * 16 * V::BLOCKS;
        Self {
            slots: &key.schedules.expose()[schedule * len..][..len],
            registers: PhantomData,
        }
    }
}

impl<'a, V: Registers> Slots<V> for Stored<'a, V> {
    type InLoop = V::InLoop<'a>;

    #[inline(always)]
    fn slot(&self, i: usize) -> V {
        assert!(i < SLOTS);
        // SAFETY: `i < SLOTS`, and `of` took `SLOTS` registers' bytes from the schedule. The caller
        // of `of` guarantees the instructions.
        unsafe { V::load(self.slots.as_ptr().add(16 * V::BLOCKS * i)) }
    }

    #[inline(always)]
    fn in_loop(&self) -> V::InLoop<'a> {
        (*self).into()
    }
}

/// Turns each kept tweak into its mask.
#[derive(Clone, Copy)]
struct KeptMasks<P, K> {
    p: P,
    kept: K,
}

impl<P: Permutation, K: Each<P::V>> Each<P::V> for KeptMasks<&P, K> {
    #[inline(always)]
    fn at(self, i: usize) -> P::V {
        self.p.leave_kept(self.kept.at(i))
    }
}

macro_rules! permutation {
    ($(#[$doc:meta])* $name:ident, $schedule:literal, $round:ident, $last:ident) => {
        $(#[$doc])*
        pub(in crate::kernel) struct $name<V, const ROUNDS: usize, S> {
            slots: S,
            registers: PhantomData<V>,
        }

        impl<'a, V: Registers, const ROUNDS: usize> $name<V, ROUNDS, Stored<'a, V>> {
            /// # Safety
            /// The CPU has the instructions of `V`.
            #[inline(always)]
            pub(in crate::kernel) unsafe fn new(key: &'a Expanded) -> Self {
                Self {
                    // SAFETY: the caller guarantees the instructions.
                    slots: unsafe { Stored::new(key, $schedule) },
                    registers: PhantomData,
                }
            }
        }

        impl<V: Registers, const ROUNDS: usize, S: Slots<V>> $name<V, ROUNDS, S> {
            #[inline(always)]
            fn slot(&self, i: usize) -> V {
                self.slots.slot(i)
            }

            #[inline(always)]
            fn round<const D: usize>(&self, x: &mut [V; D], i: usize) {
                let key = self.slot(i - 1 + V::FIRST_KEY);
                unrolled!(i in 0..D => {
                    x[i] = x[i].$round(key);
                });
            }

            /// All rounds but the first.
            #[inline(always)]
            fn later_rounds<const D: usize, W: Beside<V>>(
                &self,
                mut x: [V; D],
                post: impl Each<V>,
                work: &mut W,
            ) -> [V; D] {
                const { assert!(ROUNDS == 10 || ROUNDS == 12 || ROUNDS == 14) };
                // Written out, because the compiler does not unroll a loop of this length, and
                // would then keep all state of `work` in memory.
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
                if ROUNDS >= 12 {
                    self.round(&mut x, 10);
                    self.round(&mut x, 11);
                }
                if ROUNDS == 14 {
                    self.round(&mut x, 12);
                    self.round(&mut x, 13);
                }
                let key = self.slot(ROUNDS - 1 + V::FIRST_KEY);
                unrolled!(i in 0..D => {
                    x[i] = x[i].$last(key, post.at(i));
                });
                x
            }
        }

        impl<V: Registers, const ROUNDS: usize, S: Slots<V>> Permutation for $name<V, ROUNDS, S> {
            type V = V;
            type InLoop = $name<V, ROUNDS, S::InLoop>;

            #[inline(always)]
            fn in_loop(&self) -> Self::InLoop {
                $name {
                    slots: self.slots.in_loop(),
                    registers: PhantomData,
                }
            }

            #[inline(always)]
            fn enter(&self, x: V) -> V {
                x.enter(self.slot(0))
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
                self.round(&mut x, 1);
                self.later_rounds(x, post, work)
            }

            #[inline(always)]
            fn rounds_masked<const D: usize, W: Beside<V>>(
                &self,
                mut x: [V; D],
                masks: impl Each<V>,
                work: &mut W,
            ) -> [V; D] {
                let across = self.slot(ACROSS);
                if V::FIRST_KEY == 1 {
                    unrolled!(i in 0..D => {
                        x[i] = x[i].xor(masks.at(i)).xor(across);
                    });
                    return self.rounds(x, masks, work);
                }
                unrolled!(i in 0..D => {
                    x[i] = x[i].$round(masks.at(i).xor(across));
                });
                self.later_rounds(x, masks, work)
            }

            #[inline(always)]
            fn kept_with(&self) -> u128 {
                if V::FIRST_KEY == 1 {
                    return 0;
                }
                let mut first = [0_u128; 4];
                // SAFETY: the array has room for the widest register.
                unsafe { self.slot(0).store(first.as_mut_ptr().cast()) };
                u128::from_le(first[0])
            }

            #[inline(always)]
            fn leave_kept(&self, kept: V) -> V {
                let to_mask = if V::FIRST_KEY == 1 { ROUNDS } else { ACROSS };
                kept.xor(self.slot(to_mask))
            }

            #[inline(always)]
            fn rounds_kept<const D: usize, W: Beside<V>>(
                &self,
                mut x: [V; D],
                kept: impl Each<V>,
                work: &mut W,
            ) -> [V; D] {
                if V::FIRST_KEY == 1 {
                    return Tweaked::crypt(self, x, kept, work);
                }
                // Kept in registers, too.
                let mut tweaks = x;
                unrolled!(i in 0..D => {
                    tweaks[i] = kept.at(i);
                    x[i] = x[i].$round(tweaks[i]);
                });
                self.later_rounds(x, KeptMasks {
                        p: self,
                        kept: tweaks,
                    }, work)
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
    Enc, 0, encrypt, encrypt_last
}
permutation! {
    /// The equivalent inverse cipher with `ROUNDS` rounds.
    Dec, 1, decrypt, decrypt_last
}
