// SPDX-License-Identifier: MIT OR Apache-2.0
//! 256-bit registers: CPUs with VAES but no AVX-512, such as AMD's since Zen 3
//! and Intel's client parts since Alder Lake.

use core::{
    arch::x86_64::{
        __m256i, _mm_loadu_si128, _mm256_aesdec_epi128, _mm256_aesdeclast_epi128,
        _mm256_aesenc_epi128, _mm256_aesenclast_epi128, _mm256_and_si256,
        _mm256_broadcastsi128_si256, _mm256_bslli_epi128, _mm256_bsrli_epi128,
        _mm256_clmulepi64_epi128, _mm256_loadu_si256, _mm256_set_epi64x, _mm256_set1_epi64x,
        _mm256_setzero_si256, _mm256_shuffle_epi32, _mm256_sllv_epi64, _mm256_srlv_epi64,
        _mm256_storeu_si256, _mm256_sub_epi64, _mm256_xor_si256,
    },
    ptr,
};

use super::{kernel, registers};
use crate::detect::Vaes256;

registers! {
    /// Two blocks.
    Ymm(__m256i), 2 blocks,
    zero _mm256_setzero_si256, load _mm256_loadu_si256, store _mm256_storeu_si256,
    xor _mm256_xor_si256,
    broadcast _mm256_broadcastsi128_si256,
    aes _mm256_aesenc_epi128 _mm256_aesenclast_epi128 _mm256_aesdec_epi128
        _mm256_aesdeclast_epi128,
    shift _mm256_bslli_epi128 _mm256_bsrli_epi128,
    multiply _mm256_clmulepi64_epi128 by _mm256_set1_epi64x,
    tweaks first_eight
}

kernel!(
    Vaes256,
    "vaes256",
    "CPU, VAES in 256-bit registers",
    Ymm,
    "aes,pclmulqdq,sse4.1,avx2,vaes,vpclmulqdq"
);

/// T·α⁰ … T·α⁷: each lane shifts T by a count of its own.
///
/// # Safety
/// The CPU has the instructions.
#[inline(always)]
unsafe fn first_eight(t: &u128) -> [Ymm; 4] {
    // SAFETY: the caller says that the instructions are there.
    unsafe {
        let t = _mm256_broadcastsi128_si256(_mm_loadu_si128(ptr::from_ref(t).cast()));
        let swapped = _mm256_shuffle_epi32::<0b01_00_11_10>(t);
        let high_halves = _mm256_set_epi64x(-1, 0, -1, 0);
        let mut tweaks = [Ymm(t); 4];
        for (tweak, counts) in tweaks.iter_mut().zip([
            _mm256_set_epi64x(1, 1, 0, 0),
            _mm256_set_epi64x(3, 3, 2, 2),
            _mm256_set_epi64x(5, 5, 4, 4),
            _mm256_set_epi64x(7, 7, 6, 6),
        ]) {
            let left = _mm256_sllv_epi64(t, counts);
            // What leaves each half: of the low one into the high one, of the
            // high one (at most 7 bits) back into the field.
            let over = _mm256_srlv_epi64(swapped, _mm256_sub_epi64(_mm256_set1_epi64x(64), counts));
            let carried = _mm256_and_si256(over, high_halves);
            let reduced = _mm256_clmulepi64_epi128::<0>(over, _mm256_set1_epi64x(0x87));
            *tweak = Ymm(_mm256_xor_si256(_mm256_xor_si256(left, carried), reduced));
        }
        tweaks
    }
}
