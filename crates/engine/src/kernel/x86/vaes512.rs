// SPDX-License-Identifier: MIT OR Apache-2.0
//! 512-bit registers: Intel's servers since Ice Lake, AMD's since Zen 4.

use core::{
    arch::x86_64::{
        __m512i, _mm_loadu_si128, _mm512_aesdec_epi128, _mm512_aesdeclast_epi128,
        _mm512_aesenc_epi128, _mm512_aesenclast_epi128, _mm512_and_si512, _mm512_broadcast_i32x4,
        _mm512_bslli_epi128, _mm512_bsrli_epi128, _mm512_clmulepi64_epi128, _mm512_loadu_si512,
        _mm512_set_epi64, _mm512_set1_epi64, _mm512_set4_epi64, _mm512_setzero_si512,
        _mm512_shuffle_epi32, _mm512_sllv_epi64, _mm512_srlv_epi64, _mm512_storeu_si512,
        _mm512_sub_epi64, _mm512_xor_si512,
    },
    ptr,
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
    multiply _mm512_clmulepi64_epi128 by _mm512_set1_epi64,
    tweaks first_eight
}

kernel!(
    Vaes512,
    "vaes512",
    "CPU, VAES in 512-bit registers",
    Zmm,
    "aes,pclmulqdq,sse4.1,avx2,vaes,vpclmulqdq,avx512f,avx512bw,avx512vl"
);

/// T·α⁰ … T·α⁷: each lane shifts T by a count of its own.
///
/// # Safety
/// The CPU has the instructions.
#[inline(always)]
unsafe fn first_eight(t: &u128) -> [Zmm; 2] {
    // SAFETY: the caller says that the instructions are there.
    unsafe {
        let t = _mm512_broadcast_i32x4(_mm_loadu_si128(ptr::from_ref(t).cast()));
        let swapped = _mm512_shuffle_epi32::<0b01_00_11_10>(t);
        let high_halves = _mm512_set4_epi64(-1, 0, -1, 0);
        let mut tweaks = [Zmm(t); 2];
        for (tweak, counts) in tweaks.iter_mut().zip([
            _mm512_set_epi64(3, 3, 2, 2, 1, 1, 0, 0),
            _mm512_set_epi64(7, 7, 6, 6, 5, 5, 4, 4),
        ]) {
            let left = _mm512_sllv_epi64(t, counts);
            // What leaves each half: of the low one into the high one, of the
            // high one (at most 7 bits) back into the field.
            let over = _mm512_srlv_epi64(swapped, _mm512_sub_epi64(_mm512_set1_epi64(64), counts));
            let carried = _mm512_and_si512(over, high_halves);
            let reduced = _mm512_clmulepi64_epi128::<0>(over, _mm512_set1_epi64(0x87));
            *tweak = Zmm(_mm512_xor_si512(_mm512_xor_si512(left, carried), reduced));
        }
        tweaks
    }
}
