// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counter mode: SP 800-38A, 6.5, with the standard incrementing function over all 128 bits
//! (appendix B.1): big-endian, wrapping.
//!
//! Registers hold the counters little-endian, where adding is one instruction. While one pass is in
//! AES, the counters of the next are made between the rounds. The addition does not carry into the
//! high half, so a message is split where the low half wraps, which happens at most once.

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
    let mut at = Pointers::from_run(run, 16 * P::V::BLOCKS * DEPTH, P::V::prefetch_ahead());
    // If each unit's counters continue those of the unit before, the run is one message.
    let (messages, len) = if stride.checked_mul(16) == Some(unit_len as u64) {
        (1, run.len())
    } else {
        (run.units(), unit_len)
    };
    for message in 0..messages {
        let counter = first.step(message as u64, stride);
        // Bytes until the low half of the counter wraps.
        let room = (1 << 68) - 16 * u128::from(counter.low());
        let room = usize::try_from(room).unwrap_or(usize::MAX);
        let (counter, head) = (counter.get(), len.min(room));
        // SAFETY: the run has `messages · len` bytes, and `head <= len`.
        unsafe {
            stretch(p, counter, head, at);
            if head < len {
                let wrapped = counter.wrapping_add((room / 16) as u128);
                // The second part can begin at any block, so it may not be aligned for stores
                // around the caches.
                stretch(p, wrapped, len - head, at.add(head).through_caches());
            }
            at = at.add(len);
        }
    }
    at.finish::<P::V>();
}

/// Processes `len` bytes of a message, within which the low half of the counter does not wrap.
///
/// # Safety
/// The CPU has the instructions of `P`, and `len` bytes of the run remain at `at`.
#[inline(always)]
unsafe fn stretch<P: Permutation>(p: &P, counter: u128, mut len: usize, mut at: Pointers) {
    let bytes = 16 * P::V::BLOCKS * DEPTH;
    // SAFETY: the caller guarantees `len` bytes at `at`, and each step takes at most what remains.
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

/// Makes the counters of the next pass, with the first round key added.
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
