// SPDX-License-Identifier: MIT OR Apache-2.0
//! The operations of the modes in the 128-bit registers of `AArch64`.

use core::arch::aarch64::{
    uint8x16_t, vaddq_u64, vaeseq_u8, vaesimcq_u8, vandq_u8, vcombine_u64, vcreate_u64, vdupq_n_u8,
    vdupq_n_u32, veorq_u8, vextq_u8, vgetq_lane_p64, vgetq_lane_u32, vld1q_u8, vmull_high_p64,
    vmull_p64, vqtbl1q_u8, vreinterpretq_p64_u8, vreinterpretq_u8_p128, vreinterpretq_u8_u32,
    vreinterpretq_u8_u64, vreinterpretq_u32_u8, vreinterpretq_u64_u8, vst1q_u8,
};

use super::held::Held;
use crate::{
    kernel::{
        aes::{Registers, mul, mul_alpha_bytes, mul_alpha_each, spread, ties},
        vector::{DEPTH, Vector},
    },
    mode::xts::WholePasses,
};

/// One block. With `EOR3`, the kernel enables that instruction, into which the compiler combines [`xor`].
///
/// [`xor`]: Vector::xor
#[derive(Clone, Copy)]
pub(super) struct Quad<const EOR3: bool>(uint8x16_t);

impl<const EOR3: bool> Vector for Quad<EOR3>
where
    Self: crate::kernel::vector::MaskedRest,
{
    const BLOCKS: usize = 1;

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: the caller guarantees the instructions.
        Self(unsafe { vdupq_n_u8(0) })
    }

    #[inline(always)]
    unsafe fn load(p: *const u8) -> Self {
        // SAFETY: the caller guarantees the bytes; this load needs no alignment.
        Self(unsafe { vld1q_u8(p) })
    }

    #[inline(always)]
    unsafe fn load_aligned(p: *const u8) -> Self {
        // SAFETY: the caller guarantees it, as `# Safety` requires.
        unsafe { Self::load(p) }
    }

    #[inline(always)]
    unsafe fn store(self, p: *mut u8) {
        // SAFETY: the caller guarantees the bytes; this store needs no alignment.
        unsafe { vst1q_u8(p, self.0) }
    }

    #[inline(always)]
    fn prefetch(p: *const u8) {
        // SAFETY: a prefetch is a hint and never faults.
        unsafe {
            core::arch::asm!(
                "prfm pldl1keep, [{}]",
                in(reg) p,
                options(readonly, nostack, preserves_flags)
            );
        }
    }

    #[inline(always)]
    fn prefetch_l2(p: *const u8) {
        // SAFETY: a prefetch is a hint and never faults.
        unsafe {
            core::arch::asm!(
                "prfm pldl2keep, [{}]",
                in(reg) p,
                options(readonly, nostack, preserves_flags)
            );
        }
    }

    #[inline(always)]
    unsafe fn broadcast(p: *const u8) -> Self {
        // SAFETY: the caller guarantees it, as `# Safety` requires.
        unsafe { Self::load(p) }
    }

    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "takes the two halves")]
    unsafe fn count(first: u128, _: u64) -> Self {
        let (low, high) = (first as u64, (first >> 64) as u64);
        // SAFETY: the caller guarantees the instructions.
        unsafe {
            let halves = vcombine_u64(vcreate_u64(low), vcreate_u64(high));
            Self(vreinterpretq_u8_u64(halves))
        }
    }

    #[inline(always)]
    fn add_low(self, n: u64) -> Self {
        // SAFETY: a value proves that the CPU has the instructions.
        unsafe {
            let n = vcombine_u64(vcreate_u64(n), vcreate_u64(0));
            let sum = vaddq_u64(vreinterpretq_u64_u8(self.0), n);
            Self(vreinterpretq_u8_u64(sum))
        }
    }

    #[inline(always)]
    fn swap_bytes(self) -> Self {
        const ORDER: [u8; 16] = [15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0];
        // SAFETY: a value proves that the CPU has the instructions; the array has 16 bytes.
        Self(unsafe { vqtbl1q_u8(self.0, vld1q_u8(ORDER.as_ptr())) })
    }

    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        // SAFETY: a value proves that the CPU has the instructions.
        Self(unsafe { veorq_u8(self.0, other.0) })
    }

    #[inline(always)]
    fn and(self, other: Self) -> Self {
        // SAFETY: a value proves that the CPU has the instructions.
        Self(unsafe { vandq_u8(self.0, other.0) })
    }

    /// Returns `before`, since a register is one block.
    #[inline(always)]
    fn preceding(self, before: Self) -> Self {
        before
    }

    #[inline(always)]
    fn spread(self, i: usize) -> Self {
        spread(self, i)
    }

    #[inline(always)]
    fn before(&mut self, later: &mut Self) {
        // SAFETY: a value proves that the CPU has the instructions.
        unsafe { before(&mut self.0, &mut later.0) }
    }

    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "the low half")]
    fn integer_before(first: &mut u128, later: &mut Self) {
        let mut low = *first as u64;
        // SAFETY: a value proves that the CPU has the instructions.
        unsafe { integer_before(&mut low, &mut later.0) }
        *first = (*first >> 64 << 64) | u128::from(low);
    }

    /// As `gf128::mul_alpha`, in three instructions. A compiler that sees several doublings in a
    /// row takes four for each.
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "takes the two halves")]
    fn mul_alpha(t: u128) -> u128 {
        let (mut low, mut high) = (t as u64, (t >> 64) as u64);
        // SAFETY: the instructions only compute registers from registers.
        unsafe {
            core::arch::asm!(
                "and {over}, {reduction}, {high}, asr #63",
                "extr {high}, {high}, {low}, #63",
                "eor {low}, {over}, {low}, lsl #1",
                over = out(reg) _,
                reduction = in(reg) 0x87_u64,
                high = inout(reg) high,
                low = inout(reg) low,
                options(pure, nomem, nostack, preserves_flags)
            );
        }
        u128::from(high) << 64 | u128::from(low)
    }

    #[inline(always)]
    fn mul_alpha_each(self) -> Self {
        mul_alpha_each(self)
    }

    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        mul(self, other)
    }

    #[inline(always)]
    fn exchanged(x: [Self; 4]) -> [Self; 4] {
        x
    }

    #[inline(always)]
    fn mul_alpha8(self) -> Self {
        mul_alpha_bytes::<Self, 1, 15>(self)
    }

    #[inline(always)]
    fn mul_pass(self) -> Self {
        const { assert!(DEPTH == 8) };
        self.mul_alpha8()
    }
}

impl<const EOR3: bool> WholePasses for Quad<EOR3> where Self: crate::kernel::vector::MaskedRest {}

impl<const EOR3: bool> Registers for Quad<EOR3>
where
    Self: crate::kernel::vector::MaskedRest,
{
    const FIRST_KEY: usize = 0;
    type InLoop<'a> = Held<Self>;

    #[inline(always)]
    unsafe fn sub_word(word: u32) -> u32 {
        // SAFETY: the caller guarantees the instructions.
        unsafe { sub_word(word) }
    }

    #[inline(always)]
    unsafe fn inv_mix_columns(key: u128) -> u128 {
        // SAFETY: the caller guarantees the instructions.
        unsafe { inv_mix_columns(key) }
    }

    #[inline(always)]
    fn enter(self, _: Self) -> Self {
        self
    }

    #[inline(always)]
    fn encrypt(self, key: Self) -> Self {
        // SAFETY: a value proves that the CPU has the instructions.
        Self(unsafe { aese_aesmc(self.0, key.0) })
    }

    #[inline(always)]
    fn encrypt_last(self, key: Self, post: Self) -> Self {
        // SAFETY: as above.
        Self(unsafe { aese(self.0, key.0) }).xor(post)
    }

    #[inline(always)]
    fn decrypt(self, key: Self) -> Self {
        // SAFETY: as above.
        Self(unsafe { aesd_aesimc(self.0, key.0) })
    }

    #[inline(always)]
    fn decrypt_last(self, key: Self, post: Self) -> Self {
        // SAFETY: as above.
        Self(unsafe { aesd(self.0, key.0) }).xor(post)
    }

    #[inline(always)]
    fn clmul<const HALVES: i32>(self, other: Self) -> Self {
        // SAFETY: as above.
        Self(unsafe { clmul::<HALVES>(self.0, other.0) })
    }

    #[inline(always)]
    fn shl<const BYTES: i32>(self) -> Self {
        // SAFETY: as above.
        let zero = unsafe { vdupq_n_u8(0) };
        // `vextq_u8` needs a constant that is not computed from a parameter.
        // SAFETY: as above.
        Self(unsafe {
            match BYTES {
                1 => vextq_u8::<15>(zero, self.0),
                8 => vextq_u8::<8>(zero, self.0),
                _ => unreachable!("no kernel shifts by so many bytes"),
            }
        })
    }

    #[inline(always)]
    fn shr<const BYTES: i32>(self) -> Self {
        // SAFETY: as above.
        unsafe { Self(vextq_u8::<BYTES>(self.0, vdupq_n_u8(0))) }
    }
}

/// Defines the instructions of a round as a function that enables them. CPUs execute a pair as one
/// instruction if both are adjacent and change the same register. The compiler alone separates some
/// pairs.
macro_rules! round {
    ($name:ident, $first:literal $(, $second:literal)?) => {
        #[target_feature(enable = "neon,aes")]
        #[inline]
        fn $name(mut x: uint8x16_t, key: uint8x16_t) -> uint8x16_t {
            // SAFETY: the instructions only compute registers from registers.
            unsafe {
                core::arch::asm!(
                    concat!($first, " {x:v}.16b, {key:v}.16b"),
                    $(concat!($second, " {x:v}.16b, {x:v}.16b"),)?
                    x = inout(vreg) x,
                    key = in(vreg) key,
                    options(pure, nomem, nostack, preserves_flags)
                );
            }
            x
        }
    };
}
round!(aese_aesmc, "aese", "aesmc");
round!(aesd_aesimc, "aesd", "aesimc");
round!(aese, "aese");
round!(aesd, "aesd");

/// [`Registers::sub_word`].
#[target_feature(enable = "neon,aes")]
fn sub_word(word: u32) -> u32 {
    // In a block of four equal words, `ShiftRows` has no effect.
    let block = vreinterpretq_u8_u32(vdupq_n_u32(word));
    vgetq_lane_u32::<0>(vreinterpretq_u32_u8(vaeseq_u8(block, vdupq_n_u8(0))))
}

/// [`Registers::inv_mix_columns`].
#[target_feature(enable = "neon,aes")]
fn inv_mix_columns(key: u128) -> u128 {
    let mut bytes = key.to_le_bytes();
    // SAFETY: the array has 16 bytes.
    unsafe { vst1q_u8(bytes.as_mut_ptr(), vaesimcq_u8(vld1q_u8(bytes.as_ptr()))) };
    u128::from_le_bytes(bytes)
}

/// [`Registers::clmul`].
#[target_feature(enable = "neon,aes")]
#[inline]
fn clmul<const HALVES: i32>(a: uint8x16_t, b: uint8x16_t) -> uint8x16_t {
    let (a, b) = (vreinterpretq_p64_u8(a), vreinterpretq_p64_u8(b));
    vreinterpretq_u8_p128(match HALVES {
        0x00 => vmull_p64(vgetq_lane_p64::<0>(a), vgetq_lane_p64::<0>(b)),
        0x01 => vmull_p64(vgetq_lane_p64::<1>(a), vgetq_lane_p64::<0>(b)),
        0x10 => vmull_p64(vgetq_lane_p64::<0>(a), vgetq_lane_p64::<1>(b)),
        _ => vmull_high_p64(a, b),
    })
}

ties!(uint8x16_t, vreg ":v", "neon");
