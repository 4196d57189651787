// SPDX-License-Identifier: MIT OR Apache-2.0
//! Output feedback: SP 800-38A, 6.4. Each block of key stream is the encryption
//! of the one before, so a message is bound by the latency of AES.

use super::blocks::{Place, single};
use crate::{kernel::vector::Permutation, run::Run};

/// # Safety
/// The CPU has the instructions of `P`.
#[inline(always)]
pub(crate) unsafe fn crypt<P: Permutation>(p: &P, run: &mut Run<'_>) {
    let (first, stride, unit_len) = (run.first(), run.stride(), run.unit_len().get());
    let units = run.units();
    let mut at = Place::of(run, 16);
    for unit in 0..units {
        let iv = first.step(unit as u64, stride).get();
        // SAFETY: the run has `units` units of `unit_len` bytes.
        unsafe {
            message(p, iv.swap_bytes(), unit_len, at);
            at = at.add(unit_len);
        }
    }
}

/// `stream` is the IV as a little-endian integer.
///
/// # Safety
/// As for [`crypt`]; `len` bytes of the run are left at `at`.
#[inline(always)]
unsafe fn message<P: Permutation>(p: &P, mut stream: u128, len: usize, at: Place) {
    for block in 0..len / 16 {
        // SAFETY: a whole block is left.
        unsafe {
            stream = single(p, stream, 0);
            let at = at.add(16 * block);
            at.write(at.read() ^ stream);
        }
    }
    let rest = len % 16;
    if rest > 0 {
        // SAFETY: as the caller says.
        let (mut stream, at) = unsafe { (single(p, stream, 0), at.add(len - rest)) };
        for i in 0..rest {
            // Not through an array, which would have to be wiped.
            #[expect(clippy::cast_possible_truncation, reason = "the lowest byte")]
            let byte = stream as u8;
            stream >>= 8;
            // SAFETY: `rest` bytes are left.
            unsafe { at.dst.add(i).write(at.src.add(i).read() ^ byte) };
        }
    }
}
