// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernels with AES instructions: key expansion, the order of the rounds,
//! and multiplication by α, over the three widths of registers.

mod aesni;
mod vaes256;
mod vaes512;

use core::arch::x86_64::{
    __m128i, _mm_aesimc_si128, _mm_aeskeygenassist_si128, _mm_cvtsi128_si32, _mm_loadu_si128,
    _mm_set1_epi32, _mm_storeu_si128,
};

use zeroize::Zeroize;

use super::vector::{Permutation, Vector};
use crate::{
    key::{AesKey, KeySize},
    secret::SecretBytes,
};

/// Both key schedules: encryption's, then that of the equivalent inverse cipher
/// (FIPS 197, 5.3.5), each of [`MAX_KEYS`] round keys.
pub(super) struct Expanded {
    size: KeySize,
    schedules: SecretBytes,
}

/// AES-256's 14 rounds and the first key.
const MAX_KEYS: usize = 15;

impl Expanded {
    /// Key expansion: FIPS 197, 5.2.
    #[target_feature(enable = "aes,sse4.1")]
    fn new(key: &AesKey) -> Self {
        let size = key.size();
        let (nk, rounds) = (size.bytes() / 4, size.rounds());
        let mut words = [0_u32; 4 * MAX_KEYS];
        for (word, bytes) in words.iter_mut().zip(key.expose().chunks_exact(4)) {
            *word = u32::from_le_bytes(bytes.try_into().expect("4 bytes"));
        }
        let mut rcon = 1_u32;
        for i in nk..4 * (rounds + 1) {
            let mut word = words[i - 1];
            if i % nk == 0 {
                // Words are little-endian here, so RotWord turns right.
                word = sub_word(word).rotate_right(8) ^ rcon;
                rcon = (rcon << 1) ^ (0x11b * (rcon >> 7));
            } else if nk == 8 && i % nk == 4 {
                word = sub_word(word);
            }
            words[i] = words[i - nk] ^ word;
        }

        let mut schedules = SecretBytes::zeroed(2 * MAX_KEYS * 16);
        let (forward, inverse) = schedules.expose_mut().split_at_mut(MAX_KEYS * 16);
        for (bytes, word) in forward.chunks_exact_mut(4).zip(words) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        words.zeroize();
        for round in 0..=rounds {
            let from = &forward[16 * (rounds - round)..][..16];
            let to = &mut inverse[16 * round..][..16];
            // SAFETY: both have 16 bytes.
            unsafe {
                let mut key = _mm_loadu_si128(from.as_ptr().cast());
                if !matches!(round, 0) && round != rounds {
                    key = _mm_aesimc_si128(key);
                }
                _mm_storeu_si128(to.as_mut_ptr().cast(), key);
            }
        }
        Self { size, schedules }
    }

    fn forward(&self) -> &[u8] {
        &self.schedules.expose()[..MAX_KEYS * 16]
    }

    fn inverse(&self) -> &[u8] {
        &self.schedules.expose()[MAX_KEYS * 16..]
    }
}

#[target_feature(enable = "aes")]
#[expect(clippy::cast_sign_loss, reason = "bits, not a number")]
fn sub_word(word: u32) -> u32 {
    let all: __m128i = _mm_set1_epi32(word.cast_signed());
    _mm_cvtsi128_si32(_mm_aeskeygenassist_si128::<0>(all)) as u32
}

/// Registers with AES and carry-less multiplication. As for [`Vector`], a value
/// is proof of the instructions.
trait Registers: Vector {
    /// The block at `p` in all places.
    ///
    /// # Safety
    /// The CPU has the instructions, and 16 bytes at `p` can be read.
    unsafe fn broadcast(p: *const u8) -> Self;

    fn aesenc(self, key: Self) -> Self;
    fn aesenclast(self, key: Self) -> Self;
    fn aesdec(self, key: Self) -> Self;
    fn aesdeclast(self, key: Self) -> Self;

    /// Each block times α to the 8·`B`; `B + REST` is 16, `B` at most 7.
    fn mul_alpha_bytes<const B: i32, const REST: i32>(self) -> Self;
}

macro_rules! permutation {
    ($(#[$doc:meta])* $name:ident, $schedule:ident, $round:ident, $last:ident) => {
        $(#[$doc])*
        struct $name<V, const ROUNDS: usize>([V; MAX_KEYS]);

        impl<V: Registers, const ROUNDS: usize> $name<V, ROUNDS> {
            /// # Safety
            /// The CPU has the instructions of `V`.
            #[inline(always)]
            unsafe fn load(key: &Expanded) -> Self {
                let bytes = &key.$schedule()[..16 * (ROUNDS + 1)];
                // SAFETY: the slice has `ROUNDS + 1` round keys.
                unsafe {
                    let mut keys = [V::zero(); MAX_KEYS];
                    for i in 0..=ROUNDS {
                        keys[i] = V::broadcast(bytes.as_ptr().add(16 * i));
                    }
                    Self(keys)
                }
            }
        }

        impl<V: Registers, const ROUNDS: usize> Permutation for $name<V, ROUNDS> {
            type V = V;

            #[inline(always)]
            fn apply<const D: usize>(&self, mut x: [V; D], post: [V; D]) -> [V; D] {
                for x in &mut x {
                    *x = x.xor(self.0[0]);
                }
                for round in 1..ROUNDS {
                    for x in &mut x {
                        *x = x.$round(self.0[round]);
                    }
                }
                for i in 0..D {
                    // The last round ends with an XOR of its key: `post` goes along.
                    x[i] = x[i].$last(self.0[ROUNDS].xor(post[i]));
                }
                x
            }
        }
    };
}

permutation! {
    /// AES in `ROUNDS` rounds.
    Enc, forward, aesenc, aesenclast
}
permutation! {
    /// The equivalent inverse cipher in `ROUNDS` rounds.
    Dec, inverse, aesdec, aesdeclast
}

/// A kernel: the modes over one width of registers, inside functions that
/// enable its instructions.
macro_rules! kernel {
    ($token:ty, $name:literal, $device:literal, $vector:ty, $features:literal) => {
        impl crate::kernel::Kernel for $token {
            const NAME: &'static str = $name;
            type Key = crate::kernel::x86::Expanded;

            fn device(self) -> alloc::string::String {
                $device.into()
            }

            fn expand(self, key: &crate::key::AesKey) -> Self::Key {
                // SAFETY: each token stands for AES and SSE4.1 too.
                unsafe { Self::Key::new(key) }
            }

            fn xts(
                self,
                data: &Self::Key,
                tweak: &Self::Key,
                direction: crate::Direction,
                run: &mut crate::Run<'_>,
            ) {
                use crate::{Direction, KeySize};
                // SAFETY: the token stands for the features.
                unsafe {
                    match (direction, data.size) {
                        (Direction::Encrypt, KeySize::Aes128) => {
                            entry::encrypt::<10>(data, tweak, run)
                        }
                        (Direction::Encrypt, KeySize::Aes256) => {
                            entry::encrypt::<14>(data, tweak, run)
                        }
                        (Direction::Decrypt, KeySize::Aes128) => {
                            entry::decrypt::<10>(data, tweak, run)
                        }
                        (Direction::Decrypt, KeySize::Aes256) => {
                            entry::decrypt::<14>(data, tweak, run)
                        }
                    }
                }
            }

            fn ecb(self, key: &Self::Key, direction: crate::Direction, run: &mut crate::Run<'_>) {
                use crate::{Direction, KeySize};
                // SAFETY: the token stands for the features.
                unsafe {
                    match (direction, key.size) {
                        (Direction::Encrypt, KeySize::Aes128) => entry::ecb_encrypt::<10>(key, run),
                        (Direction::Encrypt, KeySize::Aes256) => entry::ecb_encrypt::<14>(key, run),
                        (Direction::Decrypt, KeySize::Aes128) => entry::ecb_decrypt::<10>(key, run),
                        (Direction::Decrypt, KeySize::Aes256) => entry::ecb_decrypt::<14>(key, run),
                    }
                }
            }

            fn ctr(self, key: &Self::Key, run: &mut crate::Run<'_>) {
                // SAFETY: the token stands for the features.
                unsafe {
                    match key.size {
                        crate::KeySize::Aes128 => entry::ctr::<10>(key, run),
                        crate::KeySize::Aes256 => entry::ctr::<14>(key, run),
                    }
                }
            }

            fn ofb(self, key: &Self::Key, run: &mut crate::Run<'_>) {
                // SAFETY: the token stands for the features.
                unsafe {
                    match key.size {
                        crate::KeySize::Aes128 => entry::ofb::<10>(key, run),
                        crate::KeySize::Aes256 => entry::ofb::<14>(key, run),
                    }
                }
            }
        }

        /// The functions into which everything generic is inlined.
        mod entry {
            use super::*;
            use crate::{
                kernel::x86::{Dec, Enc, Expanded},
                mode::{ctr as counter, ecb, ofb as feedback, xts},
                run::Run,
            };

            #[target_feature(enable = $features)]
            pub(super) fn encrypt<const R: usize>(
                data: &Expanded,
                tweak: &Expanded,
                run: &mut Run<'_>,
            ) {
                // SAFETY: this function's features are those of the registers; a
                // backend's caller has checked the unit length.
                unsafe {
                    let tweak = Enc::<$vector, R>::load(tweak);
                    xts::encrypt(&tweak, &Enc::<$vector, R>::load(data), run);
                }
            }

            #[target_feature(enable = $features)]
            pub(super) fn decrypt<const R: usize>(
                data: &Expanded,
                tweak: &Expanded,
                run: &mut Run<'_>,
            ) {
                // SAFETY: as above.
                unsafe {
                    let tweak = Enc::<$vector, R>::load(tweak);
                    xts::decrypt(&tweak, &Dec::<$vector, R>::load(data), run);
                }
            }

            #[target_feature(enable = $features)]
            pub(super) fn ecb_encrypt<const R: usize>(key: &Expanded, run: &mut Run<'_>) {
                // SAFETY: as above.
                unsafe { ecb::crypt(&Enc::<$vector, R>::load(key), run) }
            }

            #[target_feature(enable = $features)]
            pub(super) fn ecb_decrypt<const R: usize>(key: &Expanded, run: &mut Run<'_>) {
                // SAFETY: as above.
                unsafe { ecb::crypt(&Dec::<$vector, R>::load(key), run) }
            }

            #[target_feature(enable = $features)]
            pub(super) fn ctr<const R: usize>(key: &Expanded, run: &mut Run<'_>) {
                // SAFETY: as above.
                unsafe { counter::crypt(&Enc::<$vector, R>::load(key), run) }
            }

            #[target_feature(enable = $features)]
            pub(super) fn ofb<const R: usize>(key: &Expanded, run: &mut Run<'_>) {
                // SAFETY: as above.
                unsafe { feedback::crypt(&Enc::<$vector, R>::load(key), run) }
            }
        }
    };
}
use kernel;

/// What [`Vector`] and [`Registers`] are made of in one width.
macro_rules! registers {
    (
        $(#[$doc:meta])*
        $name:ident($raw:ident), $blocks:literal blocks,
        zero $zero:ident, load $load:ident, store $store:ident, xor $xor:ident,
        broadcast $broadcast:expr,
        aes $enc:ident $enclast:ident $dec:ident $declast:ident,
        shift $shl:ident $shr:ident, multiply $clmul:ident by $set:ident,
        tweaks $first_eight:ident
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy)]
        struct $name($raw);

        impl crate::kernel::vector::Vector for $name {
            const BLOCKS: usize = $blocks;

            #[inline(always)]
            unsafe fn zero() -> Self {
                // SAFETY: the caller says that the instructions are there.
                Self(unsafe { $zero() })
            }

            #[inline(always)]
            unsafe fn load(p: *const u8) -> Self {
                // SAFETY: as the caller says; the load has no alignment.
                Self(unsafe { $load(p.cast()) })
            }

            #[inline(always)]
            unsafe fn store(self, p: *mut u8) {
                // SAFETY: as the caller says; the store has no alignment.
                unsafe { $store(p.cast(), self.0) }
            }

            #[inline(always)]
            fn xor(self, other: Self) -> Self {
                // SAFETY: a value is proof of the instructions.
                Self(unsafe { $xor(self.0, other.0) })
            }

            #[inline(always)]
            unsafe fn unit_tweaks(t: &u128) -> [Self; crate::kernel::vector::DEPTH] {
                // SAFETY: the caller says that the instructions are there.
                let first = unsafe { $first_eight(t) };
                let mut tweaks = [first[0]; _];
                tweaks[..first.len()].copy_from_slice(&first);
                for i in first.len()..tweaks.len() {
                    use crate::kernel::x86::Registers;
                    tweaks[i] = tweaks[i - first.len()].mul_alpha_bytes::<1, 15>();
                }
                tweaks
            }

            #[inline(always)]
            fn next_pass(self) -> Self {
                use crate::kernel::x86::Registers;
                // α to the DEPTH · BLOCKS is a shift by BLOCKS bytes.
                const { assert!(crate::kernel::vector::DEPTH == 8) };
                self.mul_alpha_bytes::<$blocks, { 16 - $blocks }>()
            }
        }

        impl crate::kernel::x86::Registers for $name {
            #[inline(always)]
            unsafe fn broadcast(p: *const u8) -> Self {
                // SAFETY: as the caller says.
                Self(unsafe { $broadcast(_mm_loadu_si128(p.cast())) })
            }

            #[inline(always)]
            fn aesenc(self, key: Self) -> Self {
                // SAFETY: a value is proof of the instructions.
                Self(unsafe { $enc(self.0, key.0) })
            }

            #[inline(always)]
            fn aesenclast(self, key: Self) -> Self {
                // SAFETY: as above.
                Self(unsafe { $enclast(self.0, key.0) })
            }

            #[inline(always)]
            fn aesdec(self, key: Self) -> Self {
                // SAFETY: as above.
                Self(unsafe { $dec(self.0, key.0) })
            }

            #[inline(always)]
            fn aesdeclast(self, key: Self) -> Self {
                // SAFETY: as above.
                Self(unsafe { $declast(self.0, key.0) })
            }

            #[inline(always)]
            fn mul_alpha_bytes<const B: i32, const REST: i32>(self) -> Self {
                const { assert!(B + REST == 16 && B < 8) };
                // What leaves at the top, at most 7 bytes, times x⁷ + x² + x + 1.
                // SAFETY: a value is proof of the instructions.
                unsafe {
                    let over = $shr::<REST>(self.0);
                    let reduced = $clmul::<0>(over, $set(0x87));
                    Self($xor($shl::<B>(self.0), reduced))
                }
            }
        }
    };
}
use registers;
