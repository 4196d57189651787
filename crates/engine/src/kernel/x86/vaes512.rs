// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel for 512-bit registers: Intel's server CPUs since Ice Lake, AMD's since Zen 4.

use core::arch::x86_64::{
    __m512i, _mm_loadu_si128, _mm512_add_epi64, _mm512_aesdec_epi128, _mm512_aesdeclast_epi128,
    _mm512_aesenc_epi128, _mm512_aesenclast_epi128, _mm512_alignr_epi64, _mm512_and_si512,
    _mm512_broadcast_i32x4, _mm512_bslli_epi128, _mm512_bsrli_epi128, _mm512_clmulepi64_epi128,
    _mm512_load_si512, _mm512_loadu_si512, _mm512_maskz_set1_epi64, _mm512_set_epi64,
    _mm512_setzero_si512, _mm512_shuffle_epi8, _mm512_shuffle_i64x2, _mm512_storeu_si512,
    _mm512_stream_si512, _mm512_xor_si512,
};

use super::registers;
use crate::{
    detect::Vaes512,
    kernel::aes::{kernel, of_size, ties},
};

registers! {
    /// Four blocks.
    Zmm(__m512i), 4 blocks,
    zero _mm512_setzero_si512, load _mm512_loadu_si512 aligned _mm512_load_si512, store _mm512_storeu_si512,
    around _mm512_stream_si512, xor _mm512_xor_si512, and _mm512_and_si512, broadcast _mm512_broadcast_i32x4,
    shuffle _mm512_shuffle_epi8, preceding preceding, count count, low low, add _mm512_add_epi64, before before integer_before,
    aes _mm512_aesenc_epi128 _mm512_aesenclast_epi128 _mm512_aesdec_epi128
        _mm512_aesdeclast_epi128,
    shift _mm512_bslli_epi128 _mm512_bsrli_epi128, multiply _mm512_clmulepi64_epi128, exchanged exchanged
}

kernel!(
    Vaes512,
    "vaes512",
    "CPU, VAES in 512-bit registers",
    Zmm,
    4 chains,
    "aes,pclmulqdq,sse4.1,avx2,vaes,vpclmulqdq,avx512f,avx512bw,avx512vl"
);

/// Returns `first` in the lowest block, and in each further block the same with `stride` more in
/// its low half.
#[target_feature(enable = "avx512f")]
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "takes the two halves")]
fn count(first: u128, stride: u64) -> __m512i {
    let high = ((first >> 64) as u64).cast_signed();
    let low = |n| {
        (first as u64)
            .wrapping_add(stride.wrapping_mul(n))
            .cast_signed()
    };
    _mm512_set_epi64(high, low(3), high, low(2), high, low(1), high, low(0))
}

/// The last block of `before`, then all blocks of `x` except the last.
#[target_feature(enable = "avx512f")]
#[inline]
fn preceding(x: __m512i, before: __m512i) -> __m512i {
    _mm512_alignr_epi64::<6>(x, before)
}

/// `n` in the low half of each block.
#[target_feature(enable = "avx512f")]
#[inline]
fn low(n: u64) -> __m512i {
    _mm512_maskz_set1_epi64(0b0101_0101, n.cast_signed())
}

/// Transposes a square of 4 by 4 blocks, first by halves of registers, then by single blocks.
#[target_feature(enable = "avx512f")]
#[inline]
fn exchanged([a, b, c, d]: [__m512i; 4]) -> [__m512i; 4] {
    let low = |a, b| _mm512_shuffle_i64x2::<0x44>(a, b);
    let high = |a, b| _mm512_shuffle_i64x2::<0xee>(a, b);
    let even = |a, b| _mm512_shuffle_i64x2::<0x88>(a, b);
    let odd = |a, b| _mm512_shuffle_i64x2::<0xdd>(a, b);
    let (first, second) = ([low(a, b), low(c, d)], [high(a, b), high(c, d)]);
    [
        even(first[0], first[1]),
        odd(first[0], first[1]),
        even(second[0], second[1]),
        odd(second[0], second[1]),
    ]
}

ties!(__m512i, zmm_reg "", "avx512f");
