// SPDX-License-Identifier: MIT OR Apache-2.0
//! The part that all kernels with AES instructions share: one function for each mode, direction and
//! key size. It enables the kernel's instructions, and all generic code is inlined into it.

/// Calls the version of `entry` for the number of rounds of a key size. There is no AES-192 of XTS, and
/// so no code for it.
macro_rules! of_size {
    (xts $size:expr, $entry:ident($($argument:expr),*)) => {
        match $size {
            crate::AesSize::Aes128 => entry::$entry::<10>($($argument),*),
            crate::AesSize::Aes192 => unreachable!("no XtsKey has this size"),
            crate::AesSize::Aes256 => entry::$entry::<14>($($argument),*),
        }
    };
    ($size:expr, $entry:ident($($argument:expr),*)) => {
        match $size {
            crate::AesSize::Aes128 => entry::$entry::<10>($($argument),*),
            crate::AesSize::Aes192 => entry::$entry::<12>($($argument),*),
            crate::AesSize::Aes256 => entry::$entry::<14>($($argument),*),
        }
    };
}
pub(in crate::kernel) use of_size;

/// Defines a kernel: the modes for one width of registers, inside functions that enable its
/// instructions.
///
/// The macro is used once in a module, in which it defines a module `entry`.
macro_rules! kernel {
    (
        $token:ty, $name:literal, $device:literal, $vector:ty, $most:literal chains,
        $features:literal
    ) => {
        impl crate::kernel::modes::Kernel for $token {
            const NAME: &'static str = $name;
            type Key = crate::kernel::aes::Expanded;

            fn is_lost(key: &Self::Key) -> bool {
                key.schedules.is_lost()
            }

            fn device(self) -> alloc::string::String {
                $device.into()
            }

            fn expand(self, key: &crate::key::AesKey) -> Self::Key {
                // SAFETY: the token proves that the CPU has the instructions.
                unsafe { Self::Key::new::<$vector>(key) }
            }

            unsafe fn xts(
                self,
                data: &Self::Key,
                tweak: &Self::Key,
                direction: crate::Direction,
                run: &mut crate::Run<'_>,
            ) {
                use crate::Direction;
                // SAFETY: the token proves the features; the caller guarantees the unit length.
                unsafe {
                    match direction {
                        Direction::Encrypt => of_size!(xts data.size, encrypt(data, tweak, run)),
                        Direction::Decrypt => of_size!(xts data.size, decrypt(data, tweak, run)),
                    }
                }
            }

            unsafe fn ecb(
                self,
                key: &Self::Key,
                direction: crate::Direction,
                run: &mut crate::Run<'_>,
            ) {
                use crate::Direction;
                // SAFETY: the token proves the features; the caller guarantees the unit length.
                unsafe {
                    match direction {
                        Direction::Encrypt => of_size!(key.size, ecb_encrypt(key, run)),
                        Direction::Decrypt => of_size!(key.size, ecb_decrypt(key, run)),
                    }
                }
            }

            unsafe fn cbc(
                self,
                data: &Self::Key,
                essiv: Option<&Self::Key>,
                direction: crate::Direction,
                run: &mut crate::Run<'_>,
            ) {
                use crate::Direction;
                // SAFETY: the token proves the features; the caller guarantees the unit length.
                unsafe {
                    match direction {
                        Direction::Encrypt => of_size!(data.size, cbc_encrypt(data, essiv, run)),
                        Direction::Decrypt => of_size!(data.size, cbc_decrypt(data, essiv, run)),
                    }
                }
            }

            fn ctr(self, key: &Self::Key, run: &mut crate::Run<'_>) {
                // SAFETY: the token proves the features.
                unsafe { of_size!(key.size, ctr(key, run)) }
            }
        }

        impl crate::kernel::feedback::FeedbackKernel for $token {
            const MIXES: bool = true;
            const BLOCKS: usize = <$vector as crate::kernel::vector::Vector>::BLOCKS;
            const CHAINS: usize = $most;

            fn rounds(key: &Self::Key) -> usize {
                key.size.rounds()
            }

            unsafe fn feedback(
                self,
                form: crate::mode::ofb::Form,
                lanes: &mut [crate::mode::ofb::Lane<'_, Self::Key>],
                blocks: usize,
            ) {
                use crate::AesSize;
                let Some(lane) = lanes.first() else { return };
                let size = lane.keys[0].size;
                assert!(lanes.iter().all(|lane| lane.keys[0].size == size));
                // SAFETY: the token proves the features; the caller guarantees the blocks at each
                // lane.
                unsafe {
                    match size {
                        AesSize::Aes128 => feedback::<10>(form, lanes, blocks),
                        AesSize::Aes192 => feedback::<12>(form, lanes, blocks),
                        AesSize::Aes256 => feedback::<14>(form, lanes, blocks),
                    }
                }
            }
        }

        impl crate::kernel::vector::MaskedRest for $vector {
            #[inline(always)]
            unsafe fn masked_rest<P: crate::kernel::vector::Permutation<V = Self>>(
                p: &P,
                masks: &[Self; crate::kernel::vector::DEPTH],
                bytes: usize,
                src: *const u8,
                dst: *mut u8,
            ) -> Self {
                // SAFETY: the caller guarantees it, as `# Safety` requires.
                unsafe {
                    entry::masked_rest(
                        p,
                        masks,
                        crate::mode::blocks::Pointers::separate(src, dst),
                        bytes,
                    )
                }
            }
        }

        /// # Safety
        /// The CPU has the instructions, and at each lane's `at` at least `blocks` blocks remain.
        unsafe fn feedback<const R: usize>(
            form: crate::mode::ofb::Form,
            lanes: &mut [crate::mode::ofb::Lane<'_, crate::kernel::aes::Expanded>],
            blocks: usize,
        ) {
            use crate::{
                TweakSchedule,
                kernel::{aes::Mixed, vector::Vector},
                mode::ofb::{Alpha, Printed, Untweaked},
            };
            let schedule = form.tweaked.map(|(_, schedule)| schedule);
            let registers = lanes.len().div_ceil(<$vector as Vector>::BLOCKS);
            // Keys with two chains are always AES-128 keys, hence 10 rounds.
            let entry = match (schedule, form.chains, registers) {
                (None, _, ..=1) => entry::ofb::<Untweaked, R, 1, 1>,
                (None, _, 2) => entry::ofb::<Untweaked, R, 2, 1>,
                (None, _, 3..=4) => entry::ofb::<Untweaked, R, 4, 1>,
                (None, ..) => entry::ofb::<Untweaked, R, $most, 1>,
                (Some(TweakSchedule::Alpha), 1, _) => entry::ofb::<Alpha, R, 1, 1>,
                (Some(TweakSchedule::Alpha), _, ..=1) => entry::ofb::<Alpha, 10, 2, 2>,
                (Some(TweakSchedule::Alpha), ..) => entry::ofb::<Alpha, 10, 4, 2>,
                (Some(TweakSchedule::Printed), 1, _) => entry::ofb::<Printed, R, 1, 1>,
                (Some(TweakSchedule::Printed), ..) => entry::ofb::<Printed, 10, 2, 2>,
            };
            let mixed = Mixed::from_lanes(lanes, form.chains, <$vector as Vector>::BLOCKS);
            // SAFETY: the caller guarantees it, as `# Safety` requires.
            unsafe { entry(form, &mixed, lanes, blocks) }
        }

        /// The functions into which all generic code is inlined.
        mod entry {
            use super::*;
            use crate::{
                kernel::{
                    aes::{Dec, Enc, Expanded, Mixed, Schedules},
                    vector::{DEPTH, Permutation},
                },
                mode::{
                    blocks::{self, Masked, Pointers},
                    cbc, ctr as counter, ecb,
                    ofb::{self as feedback, Form, Lane, Tweaks},
                    xts,
                },
                run::Run,
            };

            #[target_feature(enable = $features)]
            pub(super) unsafe fn encrypt<const R: usize>(
                data: &Expanded,
                tweak: &Expanded,
                run: &mut Run<'_>,
            ) {
                // SAFETY: this function enables the instructions of `$vector`; the caller
                // guarantees the unit length.
                unsafe {
                    let tweak = Enc::<$vector, R, _>::new(tweak);
                    xts::encrypt(&tweak, &Enc::<$vector, R, _>::new(data), run);
                }
            }

            #[target_feature(enable = $features)]
            pub(super) unsafe fn decrypt<const R: usize>(
                data: &Expanded,
                tweak: &Expanded,
                run: &mut Run<'_>,
            ) {
                // SAFETY: as above.
                unsafe {
                    let tweak = Enc::<$vector, R, _>::new(tweak);
                    xts::decrypt(&tweak, &Dec::<$vector, R, _>::new(data), run);
                }
            }

            #[target_feature(enable = $features)]
            #[inline(never)]
            pub(super) unsafe fn masked_rest<P: Permutation<V = $vector>>(
                p: &P,
                masks: &[$vector; DEPTH],
                at: Pointers,
                bytes: usize,
            ) -> $vector {
                // SAFETY: the caller guarantees it, as `# Safety` requires.
                unsafe { blocks::rest::<Masked, P>(p, *masks, bytes, at) }
            }

            #[target_feature(enable = $features)]
            pub(super) unsafe fn ecb_encrypt<const R: usize>(key: &Expanded, run: &mut Run<'_>) {
                // SAFETY: as above.
                unsafe { ecb::crypt(&Enc::<$vector, R, _>::new(key), run) }
            }

            #[target_feature(enable = $features)]
            pub(super) unsafe fn ecb_decrypt<const R: usize>(key: &Expanded, run: &mut Run<'_>) {
                // SAFETY: as above.
                unsafe { ecb::crypt(&Dec::<$vector, R, _>::new(key), run) }
            }

            #[target_feature(enable = $features)]
            pub(super) unsafe fn cbc_encrypt<const R: usize>(
                data: &Expanded,
                essiv: Option<&Expanded>,
                run: &mut Run<'_>,
            ) {
                // SAFETY: as above.
                unsafe {
                    // Not `map`: in a closure, `of` is not always inlined into this function.
                    let essiv = match essiv {
                        Some(key) => Some(Enc::<$vector, 14, _>::new(key)),
                        None => None,
                    };
                    cbc::encrypt(essiv.as_ref(), &Enc::<$vector, R, _>::new(data), run);
                }
            }

            #[target_feature(enable = $features)]
            pub(super) unsafe fn cbc_decrypt<const R: usize>(
                data: &Expanded,
                essiv: Option<&Expanded>,
                run: &mut Run<'_>,
            ) {
                // SAFETY: as above.
                unsafe {
                    let essiv = match essiv {
                        Some(key) => Some(Enc::<$vector, 14, _>::new(key)),
                        None => None,
                    };
                    cbc::decrypt(essiv.as_ref(), &Dec::<$vector, R, _>::new(data), run);
                }
            }

            #[target_feature(enable = $features)]
            pub(super) fn ctr<const R: usize>(key: &Expanded, run: &mut Run<'_>) {
                // SAFETY: as above.
                unsafe { counter::crypt(&Enc::<$vector, R, _>::new(key), run) }
            }

            #[target_feature(enable = $features)]
            pub(super) unsafe fn ofb<T, const R: usize, const N: usize, const C: usize>(
                form: Form,
                mixed: &Mixed,
                lanes: &mut [Lane<'_, Expanded>],
                blocks: usize,
            ) where
                T: Tweaks,
            {
                // SAFETY: this function enables the instructions of `$vector`; the caller
                // guarantees `blocks` blocks at each lane.
                unsafe {
                    let keys = Schedules::<$vector, R, N>::from_lanes(lanes, C, mixed);
                    feedback::crypt::<_, _, T, N, C>(keys, form, lanes, blocks);
                }
            }
        }
    };
}
pub(in crate::kernel) use kernel;
