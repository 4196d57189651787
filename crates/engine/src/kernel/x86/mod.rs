// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernels with AES instructions: key expansion, the order of the rounds,
//! and multiplication by α, over the three widths of registers.

mod aesni;
mod expanded;
mod lanes;
mod vaes256;
mod vaes512;

use core::{arch::x86_64::_addcarry_u64, marker::PhantomData};

use self::expanded::{ALPHA8, ENTER_MASKED, Expanded, PASS, SLOTS};
use super::vector::{Beside, Each, Permutation, Vector};

/// As `gf128::mul_alpha`, by addition with carry: the compiler would take a
/// double shift, which competes with AES for its port.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "halves")]
fn mul_alpha(t: u128) -> u128 {
    let (low, high) = (t as u64, (t >> 64) as u64);
    let over = (high.cast_signed() >> 63).cast_unsigned() & 0x87;
    let (mut low2, mut high2) = (0, 0);
    let carry = _addcarry_u64(0, low, low, &mut low2);
    _addcarry_u64(carry, high, high, &mut high2);
    u128::from(high2) << 64 | u128::from(low2 ^ over)
}

/// Registers with AES. As for [`Vector`], a value is proof of the instructions.
trait Registers: Vector {
    fn aesenc(self, key: Self) -> Self;
    fn aesenclast(self, key: Self) -> Self;
    fn aesdec(self, key: Self) -> Self;
    fn aesdeclast(self, key: Self) -> Self;
}

/// For each lane n of eight: 2ⁿ, and the field's reduction (see `gf128`).
#[repr(align(64))]
struct Multipliers([[u64; 2]; 8]);

static MULTIPLIERS: Multipliers = {
    let mut lanes = [[0, 0x87]; 8];
    let mut n = 0;
    while n < 8 {
        lanes[n][0] = 1 << n;
        n += 1;
    }
    Multipliers(lanes)
};

macro_rules! permutation {
    ($(#[$doc:meta])* $name:ident, $schedule:literal, $round:ident, $last:ident) => {
        $(#[$doc])*
        struct $name<'a, V, const ROUNDS: usize> {
            slots: &'a [u8],
            registers: PhantomData<V>,
        }

        impl<'a, V: Registers, const ROUNDS: usize> $name<'a, V, ROUNDS> {
            /// # Safety
            /// The CPU has the instructions of `V`.
            #[inline(always)]
            unsafe fn of(key: &'a Expanded) -> Self {
                let len = SLOTS * 16 * V::BLOCKS;
                Self {
                    slots: &key.schedules.expose()[$schedule * len..][..len],
                    registers: PhantomData,
                }
            }

            #[inline(always)]
            fn slot(&self, i: usize) -> V {
                assert!(i < SLOTS);
                // SAFETY: `of` took so many slots, and its caller says that the
                // instructions are there.
                unsafe { V::load(self.slots.as_ptr().add(16 * V::BLOCKS * i)) }
            }

            #[inline(always)]
            fn round<const D: usize>(&self, x: &mut [V; D], i: usize) {
                let key = self.slot(i);
                for x in x {
                    *x = x.$round(key);
                }
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
                // Written out: as a loop it is too long for the compiler to unroll,
                // and then all that the work keeps would be in memory.
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
                for i in 0..D {
                    x[i] = x[i].$last(post.at(i));
                }
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
    /// AES in `ROUNDS` rounds.
    Enc, 0, aesenc, aesenclast
}
permutation! {
    /// The equivalent inverse cipher in `ROUNDS` rounds.
    Dec, 1, aesdec, aesdeclast
}

/// A kernel: the modes over one width of registers, inside functions that
/// enable its instructions.
macro_rules! kernel {
    (
        $token:ty, $name:literal, $device:literal, $vector:ty, $most:literal chains,
        $features:literal
    ) => {
        impl crate::kernel::Kernel for $token {
            const NAME: &'static str = $name;
            type Key = crate::kernel::x86::Expanded;

            fn is_lost(key: &Self::Key) -> bool {
                key.schedules.is_lost()
            }

            fn device(self) -> alloc::string::String {
                $device.into()
            }

            fn expand(self, key: &crate::key::AesKey) -> Self::Key {
                // SAFETY: each token stands for AES and SSE4.1 too.
                unsafe { Self::Key::new(key, <$vector as crate::kernel::vector::Vector>::BLOCKS) }
            }

            unsafe fn xts(
                self,
                data: &Self::Key,
                tweak: &Self::Key,
                direction: crate::Direction,
                run: &mut crate::Run<'_>,
            ) {
                use crate::{Direction, KeySize};
                // SAFETY: the token stands for the features; the caller for the units.
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

            unsafe fn ecb(
                self,
                key: &Self::Key,
                direction: crate::Direction,
                run: &mut crate::Run<'_>,
            ) {
                use crate::{Direction, KeySize};
                // SAFETY: the token stands for the features; the caller for the units.
                unsafe {
                    match (direction, key.size) {
                        (Direction::Encrypt, KeySize::Aes128) => entry::ecb_encrypt::<10>(key, run),
                        (Direction::Encrypt, KeySize::Aes256) => entry::ecb_encrypt::<14>(key, run),
                        (Direction::Decrypt, KeySize::Aes128) => entry::ecb_decrypt::<10>(key, run),
                        (Direction::Decrypt, KeySize::Aes256) => entry::ecb_decrypt::<14>(key, run),
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
                use crate::{Direction, KeySize};
                // SAFETY: the token stands for the features; the caller for the units.
                unsafe {
                    match (direction, data.size) {
                        (Direction::Encrypt, KeySize::Aes128) => {
                            entry::cbc_encrypt::<10>(data, essiv, run)
                        }
                        (Direction::Encrypt, KeySize::Aes256) => {
                            entry::cbc_encrypt::<14>(data, essiv, run)
                        }
                        (Direction::Decrypt, KeySize::Aes128) => {
                            entry::cbc_decrypt::<10>(data, essiv, run)
                        }
                        (Direction::Decrypt, KeySize::Aes256) => {
                            entry::cbc_decrypt::<14>(data, essiv, run)
                        }
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
                use crate::KeySize;
                let Some(lane) = lanes.first() else { return };
                let size = lane.keys[0].size;
                assert!(lanes.iter().all(|lane| lane.keys[0].size == size));
                // SAFETY: the token stands for the features; the caller for the places.
                unsafe {
                    match size {
                        KeySize::Aes128 => feedback::<10>(form, lanes, blocks),
                        KeySize::Aes256 => feedback::<14>(form, lanes, blocks),
                    }
                }
            }
        }

        /// # Safety
        /// The CPU has the instructions. At each lane's place there are so many blocks.
        unsafe fn feedback<const R: usize>(
            form: crate::mode::ofb::Form,
            lanes: &mut [crate::mode::ofb::Lane<'_, crate::kernel::x86::Expanded>],
            blocks: usize,
        ) {
            use crate::{
                TweakSchedule,
                kernel::vector::Vector,
                mode::ofb::{Alpha, Printed, Untweaked},
            };
            let schedule = form.tweaked.map(|(_, schedule)| schedule);
            let registers = lanes.len().div_ceil(<$vector as Vector>::BLOCKS);
            // Two chains are AES-128's.
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
            let mixed = crate::kernel::x86::lanes::Mixed::of(
                lanes,
                form.chains,
                <$vector as Vector>::BLOCKS,
            );
            // SAFETY: as the caller says.
            unsafe { entry(form, &mixed, lanes, blocks) }
        }

        /// The functions into which everything generic is inlined.
        mod entry {
            use super::*;
            use crate::{
                kernel::x86::{
                    Dec, Enc, Expanded,
                    lanes::{Mixed, Schedules},
                },
                mode::{
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
                // SAFETY: this function's features are those of the registers; the
                // unit length is as the caller says.
                unsafe {
                    let tweak = Enc::<$vector, R>::of(tweak);
                    xts::encrypt(&tweak, &Enc::<$vector, R>::of(data), run);
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
                    let tweak = Enc::<$vector, R>::of(tweak);
                    xts::decrypt(&tweak, &Dec::<$vector, R>::of(data), run);
                }
            }

            #[target_feature(enable = $features)]
            pub(super) unsafe fn ecb_encrypt<const R: usize>(key: &Expanded, run: &mut Run<'_>) {
                // SAFETY: as above.
                unsafe { ecb::crypt(&Enc::<$vector, R>::of(key), run) }
            }

            #[target_feature(enable = $features)]
            pub(super) unsafe fn ecb_decrypt<const R: usize>(key: &Expanded, run: &mut Run<'_>) {
                // SAFETY: as above.
                unsafe { ecb::crypt(&Dec::<$vector, R>::of(key), run) }
            }

            #[target_feature(enable = $features)]
            pub(super) unsafe fn cbc_encrypt<const R: usize>(
                data: &Expanded,
                essiv: Option<&Expanded>,
                run: &mut Run<'_>,
            ) {
                // SAFETY: as above.
                unsafe {
                    let essiv = essiv.map(|key| Enc::<$vector, 14>::of(key));
                    cbc::encrypt(essiv.as_ref(), &Enc::<$vector, R>::of(data), run);
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
                    let essiv = essiv.map(|key| Enc::<$vector, 14>::of(key));
                    cbc::decrypt(essiv.as_ref(), &Dec::<$vector, R>::of(data), run);
                }
            }

            #[target_feature(enable = $features)]
            pub(super) fn ctr<const R: usize>(key: &Expanded, run: &mut Run<'_>) {
                // SAFETY: as above.
                unsafe { counter::crypt(&Enc::<$vector, R>::of(key), run) }
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
                // SAFETY: this function's features are those of the registers; the
                // places are as the caller says.
                unsafe {
                    let keys = Schedules::<$vector, R, N>::of(lanes, C, mixed);
                    feedback::crypt::<_, _, T, N, C>(keys, form, lanes, blocks);
                }
            }
        }
    };
}
use kernel;

/// [`Vector::before`] and [`Vector::integer_before`]: an empty instruction takes
/// both, so the compiler has `first` by then.
macro_rules! ties {
    ($raw:ty, $class:ident, $feature:literal) => {
        #[target_feature(enable = $feature)]
        #[inline]
        fn before(first: &mut $raw, later: &mut $raw) {
            // SAFETY: no instruction.
            unsafe {
                core::arch::asm!(
                    "/* {0} {1} */",
                    inout($class) * first,
                    inout($class) * later,
                    options(pure, nomem, nostack, preserves_flags)
                );
            }
        }

        #[target_feature(enable = $feature)]
        #[inline]
        fn integer_before(first: &mut u64, later: &mut $raw) {
            // SAFETY: no instruction.
            unsafe {
                core::arch::asm!(
                    "/* {0} {1} */",
                    inout(reg) * first,
                    inout($class) * later,
                    options(pure, nomem, nostack, preserves_flags)
                );
            }
        }
    };
}
use ties;

/// What [`Vector`] and [`Registers`] are made of in one width.
macro_rules! registers {
    (
        $(#[$doc:meta])*
        $name:ident($raw:ident), $blocks:literal blocks,
        zero $zero:ident, load $load:ident aligned $aligned:ident, store $store:ident, around $stream:ident,
        xor $xor:ident, and $and:ident, broadcast $broadcast:expr, shuffle $shuffle:ident,
        preceding $preceding:ident,
        count $count:ident, low $low:ident, add $add:ident, before $before:ident $integer_before:ident,
        aes $enc:ident $enclast:ident $dec:ident $declast:ident,
        shift $shl:ident $shr:ident, multiply $clmul:ident, exchanged $exchanged:ident
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
            unsafe fn load_aligned(p: *const u8) -> Self {
                // SAFETY: as the caller says.
                Self(unsafe { $aligned(p.cast()) })
            }

            #[inline(always)]
            unsafe fn store(self, p: *mut u8) {
                // SAFETY: as the caller says; the store has no alignment.
                unsafe { $store(p.cast(), self.0) }
            }

            #[inline(always)]
            unsafe fn store_around(self, p: *mut u8) {
                // SAFETY: as the caller says.
                unsafe { $stream(p.cast(), self.0) }
            }

            #[inline(always)]
            fn fence() {
                // SAFETY: every x86-64 CPU has it.
                unsafe { core::arch::x86_64::_mm_sfence() }
            }

            #[inline(always)]
            fn prefetch(p: *const u8) {
                use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
                // SAFETY: a hint; it never faults.
                unsafe { _mm_prefetch::<_MM_HINT_T0>(p.cast()) }
            }

            #[inline(always)]
            fn prefetch_l2(p: *const u8) {
                use core::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
                // SAFETY: a hint; it never faults.
                unsafe { _mm_prefetch::<_MM_HINT_T1>(p.cast()) }
            }

            #[inline(always)]
            unsafe fn broadcast(p: *const u8) -> Self {
                // SAFETY: as the caller says.
                Self(unsafe { $broadcast(_mm_loadu_si128(p.cast())) })
            }

            #[inline(always)]
            unsafe fn count(first: u128, stride: u64) -> Self {
                // SAFETY: the caller says that the instructions are there.
                Self(unsafe { $count(first, stride) })
            }

            #[inline(always)]
            fn add_low(self, n: u64) -> Self {
                // SAFETY: a value is proof of the instructions.
                Self(unsafe { $add(self.0, $low(n)) })
            }

            #[inline(always)]
            fn swap_bytes(self) -> Self {
                const ORDER: [u8; 16] = [15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0];
                // SAFETY: a value is proof of the instructions.
                unsafe { Self($shuffle(self.0, Self::broadcast(ORDER.as_ptr()).0)) }
            }

            #[inline(always)]
            fn xor(self, other: Self) -> Self {
                // SAFETY: a value is proof of the instructions.
                Self(unsafe { $xor(self.0, other.0) })
            }

            #[inline(always)]
            fn and(self, other: Self) -> Self {
                // SAFETY: a value is proof of the instructions.
                Self(unsafe { $and(self.0, other.0) })
            }

            #[inline(always)]
            fn preceding(self, before: Self) -> Self {
                // SAFETY: a value is proof of the instructions.
                Self(unsafe { $preceding(self.0, before.0) })
            }

            #[inline(always)]
            fn spread(self, i: usize) -> Self {
                // SAFETY: a value is proof of the instructions.
                self.mul_few(Self(unsafe { Self::multipliers(i) }))
            }

            #[inline(always)]
            fn before(&mut self, later: &mut Self) {
                // SAFETY: a value is proof of the instructions.
                unsafe { $before(&mut self.0, &mut later.0) }
            }

            #[inline(always)]
            #[expect(clippy::cast_possible_truncation, reason = "a half")]
            fn integer_before(first: &mut u128, later: &mut Self) {
                let mut low = *first as u64;
                // SAFETY: a value is proof of the instructions.
                unsafe { $integer_before(&mut low, &mut later.0) }
                *first = (*first >> 64 << 64) | u128::from(low);
            }

            #[inline(always)]
            fn mul_alpha(t: u128) -> u128 {
                crate::kernel::x86::mul_alpha(t)
            }

            #[inline(always)]
            fn mul_alpha_each(self) -> Self {
                let alpha = &crate::kernel::x86::MULTIPLIERS.0[1];
                // SAFETY: a value is proof of the instructions; the array has 16 bytes.
                self.mul_few(unsafe { Self::broadcast(alpha.as_ptr().cast()) })
            }

            #[inline(always)]
            fn mul(self, other: Self) -> Self {
                // The product of the halves, of which each that is 128 bits or more too
                // high is reduced, what then still is once more.
                // SAFETY: a value is proof of the instructions.
                unsafe {
                    let by = Self::multipliers(0);
                    let (a, b) = (self.0, other.0);
                    let low = $clmul::<0x00>(a, b);
                    let middle = $xor($clmul::<0x01>(a, b), $clmul::<0x10>(a, b));
                    let high = $xor($clmul::<0x11>(a, b), $shr::<8>(middle));
                    let low = $xor(low, $shl::<8>(middle));
                    let upper = $clmul::<0x11>(high, by);
                    let over = $clmul::<0x11>(upper, by);
                    let lower = $clmul::<0x10>(high, by);
                    Self($xor($xor(low, lower), $xor($shl::<8>(upper), over)))
                }
            }

            #[inline(always)]
            fn exchanged(x: [Self; 4]) -> [Self; 4] {
                // SAFETY: a value is proof of the instructions.
                unsafe { $exchanged(x.map(|x| x.0)) }.map(Self)
            }

            #[inline(always)]
            fn mul_alpha8(self) -> Self {
                self.mul_alpha_bytes::<1, 15>()
            }

            #[inline(always)]
            fn mul_pass(self) -> Self {
                // α to the DEPTH · BLOCKS is a shift by BLOCKS bytes.
                const { assert!(crate::kernel::vector::DEPTH == 8) };
                self.mul_alpha_bytes::<$blocks, { 16 - $blocks }>()
            }
        }

        impl $name {
            /// Lanes `i` · `BLOCKS` and on of [`MULTIPLIERS`].
            ///
            /// # Safety
            /// The CPU has the instructions.
            #[inline(always)]
            unsafe fn multipliers(i: usize) -> $raw {
                let lanes = &crate::kernel::x86::MULTIPLIERS.0[i * $blocks..][..$blocks];
                // SAFETY: there are that many.
                unsafe { $load(lanes.as_ptr().cast()) }
            }

            /// Each block times αⁿ for n < 8, in each place another of [`MULTIPLIERS`].
            #[inline(always)]
            fn mul_few(self, by: Self) -> Self {
                // Both halves times 2ⁿ. The high half's product goes half a block
                // up, and what leaves there, at most 7 bits, is reduced.
                // SAFETY: a value is proof of the instructions.
                unsafe {
                    let low = $clmul::<0x00>(self.0, by.0);
                    let high = $clmul::<0x01>(self.0, by.0);
                    let over = $clmul::<0x11>(high, by.0);
                    Self($xor($xor(low, $shl::<8>(high)), over))
                }
            }

            /// Each block times α to the 8·`B`; `B + REST` is 16, `B` at most 7.
            #[inline(always)]
            fn mul_alpha_bytes<const B: i32, const REST: i32>(self) -> Self {
                const { assert!(B + REST == 16 && B < 8) };
                // What leaves at the top, at most 7 bytes, times x⁷ + x² + x + 1.
                // SAFETY: a value is proof of the instructions.
                unsafe {
                    let over = $shr::<REST>(self.0);
                    let reduced = $clmul::<0x10>(over, Self::multipliers(0));
                    Self($xor($shl::<B>(self.0), reduced))
                }
            }
        }

        impl crate::kernel::x86::Registers for $name {
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
        }
    };
}
use registers;
