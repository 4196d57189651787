// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel for any CPU, with [bitsliced](super::bitsliced) AES. It processes 4 blocks at once,
//! and has no branch and no table look-up that depends on a secret.

use alloc::string::String;
use core::{iter, ptr};

use super::{
    bitsliced::{RoundKey, Schedule, decrypt, encrypt},
    feedback::FeedbackKernel,
    four_blocks::Blocks,
    modes::Kernel,
    vector::{Beside, DEPTH, Each, Permutation, Vector, unrolled},
};
use crate::{
    backend::Direction,
    key::{
        AesKey,
        TweakSchedule::{Alpha, Printed},
    },
    mode::{
        cbc, ctr, ecb,
        ofb::{self, Form, Lane, LaneKeys, Tweaks, Untweaked},
        xts,
    },
    run::Run,
};

#[derive(Clone, Copy)]
pub(super) struct Portable;

impl Kernel for Portable {
    const NAME: &'static str = "portable";
    type Key = Schedule;

    /// The code has more values than the CPU has registers, and keeps the others on the stack. XTS
    /// in a release build uses 11 KiB of stack below the call.
    fn wipe_stack() {
        luxor_secret::wipe_stack::<{ 12 << 10 }>();
    }

    fn is_lost(key: &Schedule) -> bool {
        key.is_lost()
    }

    fn device(self) -> String {
        "CPU, bitsliced, any processor".into()
    }

    fn expand(self, key: &AesKey) -> Schedule {
        Schedule::new(key)
    }

    unsafe fn xts(
        self,
        data: &Schedule,
        tweak: &Schedule,
        direction: Direction,
        run: &mut Run<'_>,
    ) {
        let tweak = Enc(tweak.round_keys());
        // SAFETY: `Blocks` needs no special instructions; the caller guarantees the unit length.
        unsafe {
            match direction {
                Direction::Encrypt => xts_encrypt(&tweak, &Enc(data.round_keys()), run),
                Direction::Decrypt => xts_decrypt(&tweak, &Dec(data.round_keys()), run),
            }
        }
    }

    unsafe fn ecb(self, key: &Schedule, direction: Direction, run: &mut Run<'_>) {
        // SAFETY: as above.
        unsafe {
            match direction {
                Direction::Encrypt => ecb::crypt(&Enc(key.round_keys()), run),
                Direction::Decrypt => ecb::crypt(&Dec(key.round_keys()), run),
            }
        }
    }

    unsafe fn cbc(
        self,
        data: &Schedule,
        essiv: Option<&Schedule>,
        direction: Direction,
        run: &mut Run<'_>,
    ) {
        let essiv = essiv.map(|key| Enc(key.round_keys()));
        let essiv = essiv.as_ref();
        // SAFETY: as above.
        unsafe {
            match direction {
                Direction::Encrypt => cbc_encrypt(essiv, &Enc(data.round_keys()), run),
                Direction::Decrypt => cbc_decrypt(essiv, &Dec(data.round_keys()), run),
            }
        }
    }

    fn ctr(self, key: &Schedule, run: &mut Run<'_>) {
        // SAFETY: `Blocks` needs no special instructions.
        unsafe { ctr::crypt(&Enc(key.round_keys()), run) }
    }
}

impl FeedbackKernel for Portable {
    const MIXES: bool = false;
    const BLOCKS: usize = Blocks::BLOCKS;
    const CHAINS: usize = 1;

    fn rounds(key: &Schedule) -> usize {
        key.round_keys().len() - 1
    }

    unsafe fn feedback(self, form: Form, lanes: &mut [Lane<'_, Schedule>], blocks: usize) {
        let Some(lane) = lanes.first() else { return };
        let keys = lane.keys;
        let is_same =
            |lane: &Lane<'_, Schedule>| iter::zip(lane.keys, keys).all(|(a, b)| ptr::eq(a, b));
        assert!(lanes.iter().all(is_same));
        let schedule = form.tweaked.map(|(_, schedule)| schedule);
        let [first, second] = keys.map(Schedule::round_keys);
        let (one, two) = (OneKey([first]), OneKey([first, second]));
        // SAFETY: the caller guarantees it, as `# Safety` requires.
        unsafe {
            match (schedule, form.chains) {
                (None, _) => chained::<Untweaked, 1>(one, form, lanes, blocks),
                (Some(Alpha), 2) => chained::<ofb::Alpha, 2>(two, form, lanes, blocks),
                (Some(Alpha), _) => chained::<ofb::Alpha, 1>(one, form, lanes, blocks),
                (Some(Printed), 2) => chained::<ofb::Printed, 2>(two, form, lanes, blocks),
                (Some(Printed), _) => chained::<ofb::Printed, 1>(one, form, lanes, blocks),
            }
        }
    }
}

/// [`ofb::crypt`] as a separate function, for the same reason as [`xts_encrypt`].
///
/// # Safety
/// At each lane's `at` at least `blocks` blocks remain.
#[inline(never)]
unsafe fn chained<T: Tweaks, const C: usize>(
    keys: OneKey<'_, C>,
    form: Form,
    lanes: &mut [Lane<'_, Schedule>],
    blocks: usize,
) {
    // SAFETY: the caller guarantees it, as `# Safety` requires.
    unsafe { ofb::crypt::<_, _, T, C, C>(keys, form, lanes, blocks) }
}

/// All lanes of each chain have one key. [`encrypt`] adds the first and the last round key itself,
/// so they are zero here.
struct OneKey<'a, const C: usize>([&'a [RoundKey]; C]);

impl<const C: usize> LaneKeys<C> for OneKey<'_, C> {
    type V = Blocks;

    #[inline(always)]
    fn first(&self, _: usize) -> Blocks {
        Blocks([0; 4])
    }

    #[inline(always)]
    fn between(&self, _: usize) -> Blocks {
        Blocks([0; 4])
    }

    #[inline(always)]
    fn rounds(&self, x: &mut [Blocks; C]) {
        for (x, keys) in iter::zip(x, self.0) {
            encrypt(keys, core::slice::from_mut(x));
        }
    }

    /// `rounds` has already done the last round with its key, so `post` is all that is missing.
    #[inline(always)]
    fn last_round(&self, _: usize, x: Blocks, post: Blocks) -> Blocks {
        x.xor(post)
    }
}

/// [`xts::encrypt`] as a separate function. A single function with all modes would need much more
/// stack in a build without optimisation.
///
/// # Safety
/// The unit length is at least 16.
#[inline(never)]
unsafe fn xts_encrypt(tweak: &Enc<'_>, data: &Enc<'_>, run: &mut Run<'_>) {
    // SAFETY: `Blocks` needs no special instructions; the caller guarantees the unit length.
    unsafe { xts::encrypt(tweak, data, run) }
}

/// [`xts::decrypt`], see [`xts_encrypt`].
///
/// # Safety
/// The unit length is at least 16.
#[inline(never)]
unsafe fn xts_decrypt(tweak: &Enc<'_>, data: &Dec<'_>, run: &mut Run<'_>) {
    // SAFETY: as above.
    unsafe { xts::decrypt(tweak, data, run) }
}

/// [`cbc::encrypt`], see [`xts_encrypt`].
///
/// # Safety
/// The unit length is a multiple of 16.
#[inline(never)]
unsafe fn cbc_encrypt(essiv: Option<&Enc<'_>>, data: &Enc<'_>, run: &mut Run<'_>) {
    // SAFETY: as above.
    unsafe { cbc::encrypt(essiv, data, run) }
}

/// [`cbc::decrypt`], see [`xts_encrypt`].
///
/// # Safety
/// The unit length is a multiple of 16.
#[inline(never)]
unsafe fn cbc_decrypt(essiv: Option<&Enc<'_>>, data: &Dec<'_>, run: &mut Run<'_>) {
    // SAFETY: as above.
    unsafe { cbc::decrypt(essiv, data, run) }
}

/// Encryption under these round keys.
struct Enc<'a>(&'a [RoundKey]);

/// Decryption under these round keys.
struct Dec<'a>(&'a [RoundKey]);

macro_rules! permutation {
    ($name:ident, $crypt:ident) => {
        /// The function adds the first and the last round key itself, so they are zero here.
        impl<'a> Permutation for $name<'a> {
            type V = Blocks;
            type InLoop = $name<'a>;

            #[inline(always)]
            fn in_loop(&self) -> Self {
                Self(self.0)
            }

            #[inline(always)]
            fn enter(&self, x: Blocks) -> Blocks {
                x
            }

            #[inline(always)]
            fn leave(&self) -> Blocks {
                Blocks([0; 4])
            }

            #[inline(always)]
            fn rounds<const D: usize, W: Beside<Blocks>>(
                &self,
                mut x: [Blocks; D],
                post: impl Each<Blocks>,
                work: &mut W,
            ) -> [Blocks; D] {
                $crypt(self.0, &mut x);
                unrolled!(i in 0..DEPTH => {
                    work.step(i, &mut x[0]);
                });
                unrolled!(i in 0..D => {
                    x[i] = x[i].xor(post.at(i));
                });
                x
            }

            #[inline(always)]
            fn rounds_masked<const D: usize, W: Beside<Blocks>>(
                &self,
                mut x: [Blocks; D],
                masks: impl Each<Blocks>,
                work: &mut W,
            ) -> [Blocks; D] {
                unrolled!(i in 0..D => {
                    x[i] = x[i].xor(masks.at(i));
                });
                self.rounds(x, masks, work)
            }

            #[inline(always)]
            fn mask_mul_alpha8(&self, mask: Blocks) -> Blocks {
                mask.mul_alpha8()
            }

            #[inline(always)]
            fn mask_mul_pass(&self, mask: Blocks) -> Blocks {
                mask.mul_pass()
            }
        }
    };
}

permutation!(Enc, encrypt);
permutation!(Dec, decrypt);
