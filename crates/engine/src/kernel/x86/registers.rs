// SPDX-License-Identifier: MIT OR Apache-2.0
//! The operations of the modes, built from the instructions of one register width.

use core::arch::x86_64::{
    __m128i, _addcarry_u64, _mm_aesimc_si128, _mm_aeskeygenassist_si128, _mm_cvtsi128_si32,
    _mm_loadu_si128, _mm_set1_epi32, _mm_storeu_si128,
};

/// As `gf128::mul_alpha`, but by addition with carry. The compiler would choose a double shift,
/// which competes with AES for its port.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "takes the two halves")]
pub(super) fn mul_alpha(t: u128) -> u128 {
    let (low, high) = (t as u64, (t >> 64) as u64);
    let over = (high.cast_signed() >> 63).cast_unsigned() & 0x87;
    let (mut low2, mut high2) = (0, 0);
    let carry = _addcarry_u64(0, low, low, &mut low2);
    _addcarry_u64(carry, high, high, &mut high2);
    u128::from(high2) << 64 | u128::from(low2 ^ over)
}

/// [`Registers::inv_mix_columns`].
#[target_feature(enable = "aes")]
pub(super) fn inv_mix_columns(key: u128) -> u128 {
    let mut bytes = key.to_le_bytes();
    // SAFETY: the array has 16 bytes.
    unsafe {
        let p = bytes.as_mut_ptr().cast();
        _mm_storeu_si128(p, _mm_aesimc_si128(_mm_loadu_si128(p)));
    }
    u128::from_le_bytes(bytes)
}

/// [`Registers::sub_word`].
#[target_feature(enable = "aes,sse4.1")]
#[expect(clippy::cast_sign_loss, reason = "a bit pattern, not a number")]
pub(super) fn sub_word(word: u32) -> u32 {
    let all: __m128i = _mm_set1_epi32(word.cast_signed());
    _mm_cvtsi128_si32(_mm_aeskeygenassist_si128::<0>(all)) as u32
}

/// Implements [`Vector`](crate::kernel::vector::Vector) and [`Registers`](crate::kernel::aes::Registers) for one register width.
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
        $(, $windows:ident)?
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy)]
        struct $name($raw);

        impl crate::kernel::vector::Vector for $name {
            const BLOCKS: usize = $blocks;

            #[inline(always)]
            unsafe fn zero() -> Self {
                // SAFETY: the caller guarantees the instructions.
                Self(unsafe { $zero() })
            }

            #[inline(always)]
            unsafe fn load(p: *const u8) -> Self {
                // SAFETY: the caller guarantees the bytes; this load needs no alignment.
                Self(unsafe { $load(p.cast()) })
            }

            #[inline(always)]
            unsafe fn load_aligned(p: *const u8) -> Self {
                // SAFETY: the caller guarantees it, as `# Safety` requires.
                Self(unsafe { $aligned(p.cast()) })
            }

            #[inline(always)]
            unsafe fn store(self, p: *mut u8) {
                // SAFETY: the caller guarantees the bytes; this store needs no alignment.
                unsafe { $store(p.cast(), self.0) }
            }

            #[inline(always)]
            unsafe fn store_around(self, p: *mut u8) {
                // SAFETY: the caller guarantees it, as `# Safety` requires.
                unsafe { $stream(p.cast(), self.0) }
            }

            #[inline(always)]
            fn fence() {
                // SAFETY: every x86-64 CPU has this instruction.
                unsafe { core::arch::x86_64::_mm_sfence() }
            }

            #[inline(always)]
            fn prefetch_ahead() -> crate::kernel::vector::Prefetch {
                super::prefetch_ahead($blocks)
            }

            #[inline(always)]
            fn prefetch(p: *const u8) {
                use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
                // SAFETY: a prefetch is a hint and never faults.
                unsafe { _mm_prefetch::<_MM_HINT_T0>(p.cast()) }
            }

            #[inline(always)]
            fn prefetch_l2(p: *const u8) {
                use core::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
                // SAFETY: a prefetch is a hint and never faults.
                unsafe { _mm_prefetch::<_MM_HINT_T1>(p.cast()) }
            }

            #[inline(always)]
            unsafe fn broadcast(p: *const u8) -> Self {
                // SAFETY: the caller guarantees it, as `# Safety` requires.
                Self(unsafe { $broadcast(_mm_loadu_si128(p.cast())) })
            }

            #[inline(always)]
            unsafe fn count(first: u128, stride: u64) -> Self {
                // SAFETY: the caller guarantees the instructions.
                Self(unsafe { $count(first, stride) })
            }

            #[inline(always)]
            fn add_low(self, n: u64) -> Self {
                // SAFETY: a value proves that the CPU has the instructions.
                Self(unsafe { $add(self.0, $low(n)) })
            }

            #[inline(always)]
            fn swap_bytes(self) -> Self {
                const ORDER: [u8; 16] = [15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0];
                // SAFETY: a value proves that the CPU has the instructions.
                unsafe { Self($shuffle(self.0, Self::broadcast(ORDER.as_ptr()).0)) }
            }

            #[inline(always)]
            fn xor(self, other: Self) -> Self {
                // SAFETY: a value proves that the CPU has the instructions.
                Self(unsafe { $xor(self.0, other.0) })
            }

            #[inline(always)]
            fn and(self, other: Self) -> Self {
                // SAFETY: a value proves that the CPU has the instructions.
                Self(unsafe { $and(self.0, other.0) })
            }

            #[inline(always)]
            fn preceding(self, before: Self) -> Self {
                // SAFETY: a value proves that the CPU has the instructions.
                Self(unsafe { $preceding(self.0, before.0) })
            }

            #[inline(always)]
            fn spread(self, i: usize) -> Self {
                crate::kernel::aes::spread(self, i)
            }

            #[inline(always)]
            fn before(&mut self, later: &mut Self) {
                // SAFETY: a value proves that the CPU has the instructions.
                unsafe { $before(&mut self.0, &mut later.0) }
            }

            #[inline(always)]
            #[expect(clippy::cast_possible_truncation, reason = "the low half")]
            fn integer_before(first: &mut u128, later: &mut Self) {
                let mut low = *first as u64;
                // SAFETY: a value proves that the CPU has the instructions.
                unsafe { $integer_before(&mut low, &mut later.0) }
                *first = (*first >> 64 << 64) | u128::from(low);
            }

            #[inline(always)]
            fn mul_alpha(t: u128) -> u128 {
                crate::kernel::x86::registers::mul_alpha(t)
            }

            #[inline(always)]
            fn mul_alpha_each(self) -> Self {
                crate::kernel::aes::mul_alpha_each(self)
            }

            #[inline(always)]
            fn mul(self, other: Self) -> Self {
                crate::kernel::aes::mul(self, other)
            }

            #[inline(always)]
            fn exchanged(x: [Self; 4]) -> [Self; 4] {
                // SAFETY: a value proves that the CPU has the instructions.
                unsafe { $exchanged(x.map(|x| x.0)) }.map(Self)
            }

            #[inline(always)]
            fn mul_alpha8(self) -> Self {
                crate::kernel::aes::mul_alpha_bytes::<Self, 1, 15>(self)
            }

            #[inline(always)]
            fn mul_pass(self) -> Self {
                // α to the power `DEPTH · BLOCKS` is a shift by `BLOCKS` bytes.
                const { assert!(crate::kernel::vector::DEPTH == 8) };
                crate::kernel::aes::mul_alpha_bytes::<Self, $blocks, { 16 - $blocks }>(self)
            }
        }

        impl crate::mode::xts::WholePasses for $name {
            $(
                const SECTION: usize = crate::mode::$windows::PASSES;

                #[inline(always)]
                unsafe fn whole_passes<P: crate::kernel::vector::Permutation<V = Self>>(
                    p: &P,
                    tweaks: &mut [u128],
                    passes: usize,
                    at: crate::mode::blocks::Pointers,
                ) {
                    // SAFETY: the caller guarantees it, as `# Safety` requires.
                    unsafe { crate::mode::$windows::whole_passes(p, tweaks, passes, at) }
                }
            )?
        }

        impl crate::kernel::aes::Registers for $name {
            const FIRST_KEY: usize = 1;
            type InLoop<'a> = crate::kernel::aes::Stored<'a, Self>;

            #[inline(always)]
            unsafe fn sub_word(word: u32) -> u32 {
                // SAFETY: the caller guarantees the instructions.
                unsafe { crate::kernel::x86::registers::sub_word(word) }
            }

            #[inline(always)]
            unsafe fn inv_mix_columns(key: u128) -> u128 {
                // SAFETY: the caller guarantees the instructions.
                unsafe { crate::kernel::x86::registers::inv_mix_columns(key) }
            }

            #[inline(always)]
            fn enter(self, first: Self) -> Self {
                // SAFETY: a value proves that the CPU has the instructions.
                Self(unsafe { $xor(self.0, first.0) })
            }

            #[inline(always)]
            fn encrypt(self, key: Self) -> Self {
                // SAFETY: a value proves that the CPU has the instructions.
                Self(unsafe { $enc(self.0, key.0) })
            }

            #[inline(always)]
            fn encrypt_last(self, _: Self, post: Self) -> Self {
                // SAFETY: as above.
                Self(unsafe { $enclast(self.0, post.0) })
            }

            #[inline(always)]
            fn decrypt(self, key: Self) -> Self {
                // SAFETY: as above.
                Self(unsafe { $dec(self.0, key.0) })
            }

            #[inline(always)]
            fn decrypt_last(self, _: Self, post: Self) -> Self {
                // SAFETY: as above.
                Self(unsafe { $declast(self.0, post.0) })
            }

            #[inline(always)]
            fn clmul<const HALVES: i32>(self, other: Self) -> Self {
                // SAFETY: as above.
                Self(unsafe { $clmul::<HALVES>(self.0, other.0) })
            }

            #[inline(always)]
            fn shl<const BYTES: i32>(self) -> Self {
                // SAFETY: as above.
                Self(unsafe { $shl::<BYTES>(self.0) })
            }

            #[inline(always)]
            fn shr<const BYTES: i32>(self) -> Self {
                // SAFETY: as above.
                Self(unsafe { $shr::<BYTES>(self.0) })
            }
        }
    };
}
pub(super) use registers;
