// SPDX-License-Identifier: MIT OR Apache-2.0
//! Electronic codebook: SP 800-38A, 6.1. Unit boundaries and numbers have no effect.

use super::blocks::{Masked, Pointers, pass, rest};
use crate::{
    kernel::vector::{DEPTH, Nothing, Permutation, Vector},
    run::Run,
};

/// # Safety
/// The CPU has the instructions of `P`, and the unit length is a multiple of 16.
#[inline(always)]
pub(crate) unsafe fn crypt<P: Permutation>(p: &P, run: &mut Run<'_>) {
    let bytes = 16 * P::V::BLOCKS * DEPTH;
    let mut left = run.len();
    let mut at = Pointers::from_run(run, bytes, P::V::prefetch_ahead());
    let masks = [p.leave(); DEPTH];
    // SAFETY: `left` bytes remain at `at`, and each step takes at most that many.
    unsafe {
        while left >= bytes {
            pass::<DEPTH, Masked, P>(p, masks, at, &mut Nothing);
            at = at.add(bytes);
            left -= bytes;
        }
        rest::<Masked, P>(p, masks, left, at);
    }
    at.finish::<P::V>();
}
