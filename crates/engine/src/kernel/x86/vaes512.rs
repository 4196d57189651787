// SPDX-License-Identifier: MIT OR Apache-2.0
//! 512-bit registers: Intel's servers since Ice Lake, AMD's since Zen 4.

use core::arch::x86_64::{
    __m512i, _mm_loadu_si128, _mm512_aesdec_epi128, _mm512_aesdeclast_epi128, _mm512_aesenc_epi128,
    _mm512_aesenclast_epi128, _mm512_broadcast_i32x4, _mm512_bslli_epi128, _mm512_bsrli_epi128,
    _mm512_clmulepi64_epi128, _mm512_loadu_si512, _mm512_set1_epi64, _mm512_setzero_si512,
    _mm512_storeu_si512, _mm512_xor_si512,
};

use super::{kernel, registers};
use crate::detect::Vaes512;

registers! {
    /// Four blocks.
    Zmm(__m512i), 4 blocks,
    zero _mm512_setzero_si512, load _mm512_loadu_si512, store _mm512_storeu_si512,
    xor _mm512_xor_si512,
    broadcast _mm512_broadcast_i32x4,
    aes _mm512_aesenc_epi128 _mm512_aesenclast_epi128 _mm512_aesdec_epi128
        _mm512_aesdeclast_epi128,
    shift _mm512_bslli_epi128 _mm512_bsrli_epi128,
    multiply _mm512_clmulepi64_epi128 by _mm512_set1_epi64
}

kernel!(
    Vaes512,
    "vaes512",
    "CPU, VAES in 512-bit registers",
    Zmm,
    "aes,pclmulqdq,sse4.1,avx2,vaes,vpclmulqdq,avx512f,avx512bw,avx512vl"
);
