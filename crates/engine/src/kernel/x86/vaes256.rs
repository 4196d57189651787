// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel for 256-bit registers: CPUs with VAES but no AVX-512, such as AMD's since Zen 3 and
//! Intel's client CPUs since Alder Lake.

use core::arch::x86_64::{
    __m256i, _mm_loadu_si128, _mm256_add_epi64, _mm256_aesdec_epi128, _mm256_aesdeclast_epi128,
    _mm256_aesenc_epi128, _mm256_aesenclast_epi128, _mm256_and_si256, _mm256_broadcastsi128_si256,
    _mm256_bslli_epi128, _mm256_bsrli_epi128, _mm256_clmulepi64_epi128, _mm256_load_si256,
    _mm256_loadu_si256, _mm256_permute2x128_si256, _mm256_set_epi64x, _mm256_setzero_si256,
    _mm256_shuffle_epi8, _mm256_storeu_si256, _mm256_stream_si256, _mm256_xor_si256,
};

use super::registers;
use crate::{
    detect::Vaes256,
    kernel::aes::{kernel, of_size, ties},
};

registers! {
    /// Two blocks.
    Ymm(__m256i), 2 blocks,
    zero _mm256_setzero_si256, load _mm256_loadu_si256 aligned _mm256_load_si256, store _mm256_storeu_si256,
    around _mm256_stream_si256, xor _mm256_xor_si256, and _mm256_and_si256, broadcast _mm256_broadcastsi128_si256,
    shuffle _mm256_shuffle_epi8, preceding preceding, count count, low low, add _mm256_add_epi64, before before integer_before,
    aes _mm256_aesenc_epi128 _mm256_aesenclast_epi128 _mm256_aesdec_epi128
        _mm256_aesdeclast_epi128,
    shift _mm256_bslli_epi128 _mm256_bsrli_epi128, multiply _mm256_clmulepi64_epi128, exchanged exchanged
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

ties!(__m256i, ymm_reg "", "avx2");
