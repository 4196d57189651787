// SPDX-License-Identifier: MIT OR Apache-2.0
//! The operations of the modes, built from the instructions of one register width.

use core::arch::x86_64::_addcarry_u64;

use crate::kernel::vector::Vector;

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

/// Registers with AES instructions. As for [`Vector`], a value proves that the CPU has them.
pub(super) trait Registers: Vector {
    fn aesenc(self, key: Self) -> Self;
    fn aesenclast(self, key: Self) -> Self;
    fn aesdec(self, key: Self) -> Self;
    fn aesdeclast(self, key: Self) -> Self;
}

/// For each exponent n below 8: 2ⁿ, and the field's reduction (see `gf128`).
#[repr(align(64))]
pub(super) struct Multipliers(pub(super) [[u64; 2]; 8]);

pub(super) static MULTIPLIERS: Multipliers = {
    let mut lanes = [[0, 0x87]; 8];
    let mut n = 0;
    while n < 8 {
        lanes[n][0] = 1 << n;
        n += 1;
    }
    Multipliers(lanes)
};

/// Implements [`Vector`] and [`Registers`] for one register width.
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
                // SAFETY: a value proves that the CPU has the instructions.
                self.mul_few(Self(unsafe { Self::multipliers(i) }))
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
                let alpha = &crate::kernel::x86::registers::MULTIPLIERS.0[1];
                // SAFETY: a value proves that the CPU has the instructions; the array has 16 bytes.
                self.mul_few(unsafe { Self::broadcast(alpha.as_ptr().cast()) })
            }

            #[inline(always)]
            fn mul(self, other: Self) -> Self {
                // Multiply the halves to a 256-bit product. Its upper 128 bits are reduced by one
                // multiplication with the reduction, and what still exceeds 128 bits by another.
                // SAFETY: a value proves that the CPU has the instructions.
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
                // SAFETY: a value proves that the CPU has the instructions.
                unsafe { $exchanged(x.map(|x| x.0)) }.map(Self)
            }

            #[inline(always)]
            fn mul_alpha8(self) -> Self {
                self.mul_alpha_bytes::<1, 15>()
            }

            #[inline(always)]
            fn mul_pass(self) -> Self {
                // α to the power `DEPTH · BLOCKS` is a shift by `BLOCKS` bytes.
                const { assert!(crate::kernel::vector::DEPTH == 8) };
                self.mul_alpha_bytes::<$blocks, { 16 - $blocks }>()
            }
        }

        impl $name {
            /// The entries of `MULTIPLIERS` from `i · BLOCKS` on, one for each block of a register.
            ///
            /// # Safety
            /// The CPU has the instructions.
            #[inline(always)]
            unsafe fn multipliers(i: usize) -> $raw {
                let lanes = &crate::kernel::x86::registers::MULTIPLIERS.0[i * $blocks..][..$blocks];
                // SAFETY: `lanes` has as many entries as a register has blocks.
                unsafe { $load(lanes.as_ptr().cast()) }
            }

            /// Multiplies each block by αⁿ with n < 8. `by` holds an entry of `MULTIPLIERS` for
            /// each block.
            #[inline(always)]
            fn mul_few(self, by: Self) -> Self {
                // Multiply both halves by 2ⁿ. The product of the high half moves up by half a
                // block, and the at most 7 bits that are shifted past the top are reduced.
                // SAFETY: a value proves that the CPU has the instructions.
                unsafe {
                    let low = $clmul::<0x00>(self.0, by.0);
                    let high = $clmul::<0x01>(self.0, by.0);
                    let over = $clmul::<0x11>(high, by.0);
                    Self($xor($xor(low, $shl::<8>(high)), over))
                }
            }

            /// Multiplies each block by α to the power `8 · B`. `B + REST` is 16 and `B` at most 7.
            #[inline(always)]
            fn mul_alpha_bytes<const B: i32, const REST: i32>(self) -> Self {
                const { assert!(B + REST == 16 && B < 8) };
                // The at most 7 bytes that are shifted past the top are multiplied by x⁷ + x² + x +
                // 1.
                // SAFETY: a value proves that the CPU has the instructions.
                unsafe {
                    let over = $shr::<REST>(self.0);
                    let reduced = $clmul::<0x10>(over, Self::multipliers(0));
                    Self($xor($shl::<B>(self.0), reduced))
                }
            }
        }

        impl crate::kernel::x86::registers::Registers for $name {
            #[inline(always)]
            fn aesenc(self, key: Self) -> Self {
                // SAFETY: a value proves that the CPU has the instructions.
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
pub(super) use registers;
