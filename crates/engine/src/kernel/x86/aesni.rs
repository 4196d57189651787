// SPDX-License-Identifier: MIT OR Apache-2.0
//! 128-bit registers: every x86-64 CPU with AES-NI, since 2010. Without AVX, so
//! that the oldest and the smallest of them run it too.

use core::arch::x86_64::{
    __m128i, _mm_aesdec_si128, _mm_aesdeclast_si128, _mm_aesenc_si128, _mm_aesenclast_si128,
    _mm_bslli_si128, _mm_bsrli_si128, _mm_clmulepi64_si128, _mm_loadu_si128, _mm_set1_epi64x,
    _mm_setzero_si128, _mm_storeu_si128, _mm_xor_si128,
};

use super::{kernel, registers};
use crate::{detect::AesNi, gf128::mul_alpha, kernel::vector::DEPTH};

registers! {
    /// One block.
    Xmm(__m128i), 1 blocks,
    zero _mm_setzero_si128, load _mm_loadu_si128, store _mm_storeu_si128, xor _mm_xor_si128,
    broadcast core::convert::identity,
    aes _mm_aesenc_si128 _mm_aesenclast_si128 _mm_aesdec_si128 _mm_aesdeclast_si128,
    shift _mm_bslli_si128 _mm_bsrli_si128, multiply _mm_clmulepi64_si128 by _mm_set1_epi64x,
    tweaks first_eight
}

kernel!(
    AesNi,
    "aesni",
    "CPU, AES-NI in 128-bit registers",
    Xmm,
    "aes,pclmulqdq,sse4.1"
);

/// T·α⁰ … T·α⁷ by doubling: SSE has no shift by a count of each lane's own.
///
/// # Safety
/// The CPU has the instructions.
#[inline(always)]
unsafe fn first_eight(t: &u128) -> [Xmm; DEPTH] {
    let mut t = u128::from_le(*t);
    // SAFETY: the caller says that the instructions are there.
    let mut tweaks = [unsafe { <Xmm as crate::kernel::vector::Vector>::zero() }; DEPTH];
    for tweak in &mut tweaks {
        // SAFETY: the array has 16 bytes.
        *tweak = Xmm(unsafe { _mm_loadu_si128(t.to_le_bytes().as_ptr().cast()) });
        t = mul_alpha(t);
    }
    tweaks
}
