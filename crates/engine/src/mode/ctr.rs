// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counter mode: SP 800-38A, 6.5, with the standard incrementing function over
//! all 128 bits (appendix B.1): big-endian, wrapping.

use super::blocks::{Form, Masks, Place, masked};
use crate::{kernel::vector::Permutation, run::Run};

/// # Safety
/// The CPU has the instructions of `P`.
#[inline(always)]
pub(crate) unsafe fn crypt<P: Permutation>(p: &P, run: &mut Run<'_>) {
    let (first, stride, unit_len) = (run.first(), run.stride(), run.unit_len().get());
    let units = run.units();
    let mut at = Place::of(run);
    for unit in 0..units {
        let counter = first.step(unit as u64, stride).get();
        // SAFETY: the run has `units` units of `unit_len` bytes.
        unsafe {
            message(p, counter, unit_len, at);
            at = at.add(unit_len);
        }
    }
}

/// # Safety
/// As for [`crypt`]; `len` bytes of the run are left at `at`.
#[inline(always)]
unsafe fn message<P: Permutation>(p: &P, mut counter: u128, len: usize, at: Place) {
    let mut counters: Masks = [0; _];
    let mut done = 0;
    while len - done >= 16 {
        let count = counters.len().min((len - done) / 16);
        for slot in &mut counters[..count] {
            *slot = counter.to_be();
            counter = counter.wrapping_add(1);
        }
        // SAFETY: `count` blocks are left.
        unsafe { masked(p, Form::Stream, &counters[..count], at.add(done)) };
        done += 16 * count;
    }
    let rest = len - done;
    if rest > 0 {
        let mut block = [0_u8; 16];
        // SAFETY: `rest` bytes are left, less than the array has.
        unsafe {
            let at = at.add(done);
            let bytes = block.as_mut_ptr();
            at.src.copy_to_nonoverlapping(bytes, rest);
            masked(p, Form::Stream, &[counter.to_be()], Place::in_place(bytes));
            bytes.copy_to_nonoverlapping(at.dst, rest);
        }
    }
}
