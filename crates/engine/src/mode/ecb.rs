// SPDX-License-Identifier: MIT OR Apache-2.0
//! Electronic codebook: SP 800-38A, 6.1. Units and their numbers have no effect.

use super::blocks::{Form, Place, UNMASKED, masked};
use crate::{kernel::vector::Permutation, run::Run};

/// # Safety
/// The CPU has the instructions of `P`, and the unit length is a multiple of 16.
#[inline(always)]
pub(crate) unsafe fn crypt<P: Permutation>(p: &P, run: &mut Run<'_>) {
    let total = run.len() / 16;
    let at = Place::of(run);
    let mut done = 0;
    while done < total {
        let count = UNMASKED.len().min(total - done);
        // SAFETY: `done + count` blocks are in the run.
        unsafe { masked(p, Form::Xex, &UNMASKED[..count], at.add(16 * done)) };
        done += count;
    }
}
