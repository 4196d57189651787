// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel for 128-bit registers: every x86-64 CPU with AES-NI, since 2010. It uses no AVX, so
//! that it also runs on the oldest and smallest of these CPUs.

use core::arch::x86_64::{
    __m128i, _mm_add_epi64, _mm_aesdec_si128, _mm_aesdeclast_si128, _mm_aesenc_si128,
    _mm_aesenclast_si128, _mm_and_si128, _mm_bslli_si128, _mm_bsrli_si128, _mm_clmulepi64_si128,
    _mm_load_si128, _mm_loadu_si128, _mm_set_epi64x, _mm_setzero_si128, _mm_shuffle_epi8,
    _mm_storeu_si128, _mm_stream_si128, _mm_xor_si128,
};

use super::registers;
use crate::{
    detect::AesNi,
    kernel::aes::{kernel, of_size, ties},
};

registers! {
    /// One block.
    Xmm(__m128i), 1 blocks,
    zero _mm_setzero_si128, load _mm_loadu_si128 aligned _mm_load_si128, store _mm_storeu_si128,
    around _mm_stream_si128, xor _mm_xor_si128, and _mm_and_si128, broadcast core::convert::identity,
    shuffle _mm_shuffle_epi8, preceding preceding, count count, low low, add _mm_add_epi64, before before integer_before,
    aes _mm_aesenc_si128 _mm_aesenclast_si128 _mm_aesdec_si128 _mm_aesdeclast_si128,
    shift _mm_bslli_si128 _mm_bsrli_si128, multiply _mm_clmulepi64_si128, exchanged exchanged
}

kernel!(
    AesNi,
    "aesni",
    "CPU, AES-NI in 128-bit registers",
    Xmm,
    8 chains,
    "aes,pclmulqdq,sse4.1"
);

/// Returns `first`, the only block of the register.
#[target_feature(enable = "sse2")]
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "takes the two halves")]
fn count(first: u128, _: u64) -> __m128i {
    _mm_set_epi64x(
        ((first >> 64) as u64).cast_signed(),
        (first as u64).cast_signed(),
    )
}

/// Returns `before`, since a register is one block.
#[target_feature(enable = "sse2")]
#[inline]
fn preceding(_: __m128i, before: __m128i) -> __m128i {
    before
}

/// `n` in the low half, zero in the high half.
#[target_feature(enable = "sse2")]
#[inline]
fn low(n: u64) -> __m128i {
    _mm_set_epi64x(0, n.cast_signed())
}

/// Returns `x` unchanged, since a register is one block.
#[target_feature(enable = "sse2")]
#[inline]
fn exchanged(x: [__m128i; 4]) -> [__m128i; 4] {
    x
}

ties!(__m128i, xmm_reg "", "sse2");
