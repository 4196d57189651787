// SPDX-License-Identifier: MIT OR Apache-2.0
//! 256-bit registers: CPUs with VAES but no AVX-512, such as AMD's since Zen 3
//! and Intel's client parts since Alder Lake.

use core::arch::x86_64::{
    __m256i, _mm_loadu_si128, _mm256_aesdec_epi128, _mm256_aesdeclast_epi128, _mm256_aesenc_epi128,
    _mm256_aesenclast_epi128, _mm256_broadcastsi128_si256, _mm256_bslli_epi128,
    _mm256_bsrli_epi128, _mm256_clmulepi64_epi128, _mm256_loadu_si256, _mm256_set1_epi64x,
    _mm256_setzero_si256, _mm256_storeu_si256, _mm256_xor_si256,
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
    multiply _mm256_clmulepi64_epi128 by _mm256_set1_epi64x
}

kernel!(
    Vaes256,
    "vaes256",
    "CPU, VAES in 256-bit registers",
    Ymm,
    "aes,pclmulqdq,sse4.1,avx2,vaes,vpclmulqdq"
);
