// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel for 256-bit registers: CPUs with VAES but no AVX-512, such as AMD's since Zen 3 and
//! Intel's client CPUs since Alder Lake.

use core::arch::x86_64::{
    __m128i, __m256i, _addcarry_u64, _mm_loadu_si128, _mm256_add_epi64, _mm256_aesdec_epi128,
    _mm256_aesdeclast_epi128, _mm256_aesenc_epi128, _mm256_aesenclast_epi128, _mm256_and_si256,
    _mm256_blend_epi32, _mm256_broadcastsi128_si256, _mm256_bslli_epi128, _mm256_bsrli_epi128,
    _mm256_castps_si256, _mm256_castsi128_si256, _mm256_castsi256_ps, _mm256_clmulepi64_epi128,
    _mm256_load_si256, _mm256_loadu_si256, _mm256_permute2x128_si256, _mm256_set_epi64x,
    _mm256_set1_epi8, _mm256_set1_epi64x, _mm256_setzero_si256, _mm256_shuffle_epi8,
    _mm256_shuffle_ps, _mm256_sllv_epi64, _mm256_srli_epi16, _mm256_storeu_si256,
    _mm256_stream_si256, _mm256_xor_si256,
};

use super::registers;
use crate::{
    detect::Vaes256,
    kernel::aes::{kernel, of_size, ties},
    mode::windows::Windows,
};

registers! {
    /// Two blocks.
    Ymm(__m256i), 2 blocks,
    zero _mm256_setzero_si256, load _mm256_loadu_si256 aligned _mm256_load_si256, store _mm256_storeu_si256,
    around _mm256_stream_si256, xor _mm256_xor_si256, and _mm256_and_si256, broadcast _mm256_broadcastsi128_si256,
    shuffle _mm256_shuffle_epi8, preceding preceding, count count, low low, add _mm256_add_epi64, before before integer_before,
    aes _mm256_aesenc_epi128 _mm256_aesenclast_epi128 _mm256_aesdec_epi128
        _mm256_aesdeclast_epi128,
    shift _mm256_bslli_epi128 _mm256_bsrli_epi128, multiply _mm256_clmulepi64_epi128, exchanged exchanged,
    windows
}

kernel!(
    Vaes256,
    "vaes256",
    "CPU, VAES in 256-bit registers",
    Ymm,
    8 chains,
    "aes,pclmulqdq,sse4.1,avx2,vaes,vpclmulqdq"
);

/// Returns `first` in the low block, and in the other block the same with `stride` added to its low
/// half.
#[target_feature(enable = "avx2")]
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "takes the two halves")]
fn count(first: u128, stride: u64) -> __m256i {
    let high = ((first >> 64) as u64).cast_signed();
    let low = first as u64;
    let next = low.wrapping_add(stride);
    _mm256_set_epi64x(high, next.cast_signed(), high, low.cast_signed())
}

/// The last block of `before`, then the first block of `x`.
#[target_feature(enable = "avx2")]
#[inline]
fn preceding(x: __m256i, before: __m256i) -> __m256i {
    _mm256_permute2x128_si256::<0x21>(before, x)
}

/// `n` in the low half of each block.
#[target_feature(enable = "avx2")]
#[inline]
fn low(n: u64) -> __m256i {
    _mm256_set_epi64x(0, n.cast_signed(), 0, n.cast_signed())
}

/// The first blocks of `a` and `b`, then their second blocks.
#[target_feature(enable = "avx2")]
#[inline]
fn exchanged([a, b, c, d]: [__m256i; 4]) -> [__m256i; 4] {
    [
        _mm256_permute2x128_si256::<0x20>(a, b),
        _mm256_permute2x128_si256::<0x31>(a, b),
        c,
        d,
    ]
}

impl Windows for Ymm {
    #[inline(always)]
    unsafe fn load_two(first: *const u8, second: *const u8) -> Self {
        // SAFETY: the caller guarantees the bytes, also those before `second`.
        Self(unsafe {
            two(
                _mm_loadu_si128(first.cast()),
                _mm256_loadu_si256(second.sub(16).cast()),
            )
        })
    }

    #[inline(always)]
    unsafe fn corrections(high: *const u8) -> Self {
        // SAFETY: the caller guarantees 8 bytes and the instructions.
        Self(unsafe { corrections(high.cast::<i64>().read_unaligned()) })
    }

    #[inline(always)]
    fn shuffle(self, places: Self) -> Self {
        // SAFETY: a value proves that the CPU has the instructions.
        Self(unsafe { _mm256_shuffle_epi8(self.0, places.0) })
    }

    #[inline(always)]
    fn double([a, b, c]: [u64; 3]) -> [u64; 3] {
        let mut twice = [0; 3];
        let carry = _addcarry_u64(0, a, a, &mut twice[0]);
        let carry = _addcarry_u64(carry, b, b, &mut twice[1]);
        _addcarry_u64(carry, c, c, &mut twice[2]);
        twice
    }

    #[inline(always)]
    #[expect(
        clippy::pointers_in_nomem_asm_block,
        reason = "the block has no instruction and accesses no memory"
    )]
    fn opaque(mut pointer: *mut u8) -> *mut u8 {
        // Miri runs no assembly.
        if cfg!(miri) {
            return pointer;
        }
        // SAFETY: the block contains only a comment.
        unsafe {
            core::arch::asm!(
                "/* {0} */",
                inout(reg) pointer,
                options(nomem, nostack, preserves_flags)
            );
        }
        pointer
    }
}

/// `first`, then the second block of `second`. A blend, because an insertion uses a pipe of AES on
/// AMD's CPUs.
#[target_feature(enable = "avx2")]
#[inline]
fn two(first: __m128i, second: __m256i) -> __m256i {
    _mm256_blend_epi32::<0xf0>(_mm256_castsi128_si256(first), second)
}

/// [`Windows::corrections`]: from the highest bytes of the first window for each shift, o ⊕ (o >> 5)
/// ⊕ (o >> 6), where o is the byte without its lowest bit.
#[target_feature(enable = "avx2")]
#[inline]
fn corrections(high: i64) -> __m256i {
    let high = _mm256_set1_epi64x(high);
    let shifted = |counts| _mm256_castsi256_ps(_mm256_sllv_epi64(high, counts));
    let low_shifts = shifted(_mm256_set_epi64x(3, 1, 2, 0));
    let high_shifts = shifted(_mm256_set_epi64x(7, 5, 6, 4));
    let bytes = _mm256_castps_si256(_mm256_shuffle_ps::<0xdd>(low_shifts, high_shifts));
    let of_each = |bytes, mask| _mm256_and_si256(bytes, _mm256_set1_epi8(mask));
    let o = of_each(_mm256_srli_epi16::<1>(bytes), 0x7f);
    let o_5 = of_each(_mm256_srli_epi16::<6>(bytes), 0x03);
    let o_6 = of_each(_mm256_srli_epi16::<7>(bytes), 0x01);
    _mm256_xor_si256(o, _mm256_xor_si256(o_5, o_6))
}

ties!(__m256i, ymm_reg "", "avx2");
