// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counter mode: SP 800-38A, 6.5, with the standard incrementing function over
//! all 128 bits (appendix B.1): big-endian, wrapping.
//!
//! Counters are kept little-endian in registers, where adding is one
//! instruction; while one pass is in AES, the next one's are made between the
//! rounds. The addition has no carry into the high half, so a message is cut
//! where the low half wraps, which is at most once.

use super::blocks::{Pointers, Stream, pass, rest};
use crate::{
    kernel::vector::{Beside, DEPTH, Permutation, Vector},
    run::Run,
};

/// # Safety
/// The CPU has the instructions of `P`.
#[inline(always)]
pub(crate) unsafe fn crypt<P: Permutation>(p: &P, run: &mut Run<'_>) {
    let (first, stride, unit_len) = (run.first(), run.stride(), run.unit_len().get());
    let mut at = Pointers::of(run, 16 * P::V::BLOCKS * DEPTH);
    // Units whose counters follow on one another are one message.
    let (messages, len) = if stride.checked_mul(16) == Some(unit_len as u64) {
        (1, run.len())
    } else {
        (run.units(), unit_len)
    };
    for message in 0..messages {
        let counter = first.step(message as u64, stride);
        // Bytes until the low half wraps.
        let room = (1 << 68) - 16 * u128::from(counter.low());
        let room = usize::try_from(room).unwrap_or(usize::MAX);
        let (counter, head) = (counter.get(), len.min(room));
        // SAFETY: the run has `messages` times `len` bytes.
        unsafe {
            stretch(p, counter, head, at);
            if head < len {
                let wrapped = counter.wrapping_add((room / 16) as u128);
                // It begins at any block.
                stretch(p, wrapped, len - head, at.add(head).through_caches());
            }
            at = at.add(len);
        }
    }
    at.finish::<P::V>();
}

/// A message, or part of one, in which the low half of the counter does not wrap.
///
/// # Safety
/// As for [`crypt`]; `len` bytes of the run are left at `at`.
#[inline(always)]
unsafe fn stretch<P: Permutation>(p: &P, counter: u128, mut len: usize, mut at: Pointers) {
    let bytes = 16 * P::V::BLOCKS * DEPTH;
    // SAFETY: as the caller says; no more is taken than is left.
    unsafe {
        let mut next = Counters {
            p,
            count: P::V::count(counter, 1),
            entered: [P::V::zero(); DEPTH],
        };
        let mut none = P::V::zero();
        for i in 0..DEPTH {
            next.step(i, &mut none);
        }
        while len >= bytes {
            let entered = next.entered;
            pass::<DEPTH, Stream, P>(p, entered, at, &mut next);
            at = at.add(bytes);
            len -= bytes;
        }
        rest::<Stream, P>(p, next.entered, len, at);
    }
}

/// Makes the next pass's counters, with the first round key added.
struct Counters<'a, P: Permutation> {
    p: &'a P,
    count: P::V,
    entered: [P::V; DEPTH],
}

impl<P: Permutation> Beside<P::V> for Counters<'_, P> {
    #[inline(always)]
    fn step(&mut self, i: usize, next: &mut P::V) {
        self.entered[i] = self.p.enter(self.count.swap_bytes());
        self.entered[i].before(next);
        self.count = self.count.add_low(P::V::BLOCKS as u64);
    }
}
