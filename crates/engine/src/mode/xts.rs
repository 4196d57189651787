// SPDX-License-Identifier: MIT OR Apache-2.0
//! XTS-AES: IEEE 1619-2007, section 5, with ciphertext stealing (5.3.2, 5.4.2).
//!
//! A data unit's tweak is the encryption T of its number; block j is masked
//! with T·αʲ on both sides of AES. Data cannot be encrypted before T is known,
//! so a unit by itself waits for the latency of AES twice. Hence many units go
//! together:
//!
//! ```text
//! for each batch of up to BATCH units:
//!     encrypt all their numbers side by side                 → T[0..n]
//!     units of whole passes (of 512 bytes with 512-bit registers):
//!         for each unit: masks = T·(α⁰ … αᵖ⁻¹), p blocks in a pass
//!             for each pass: crypt p blocks; masks = masks·αᵖ, no chain within a pass
//!     units of any other whole number of blocks:
//!         they lie side by side, so their blocks are one sequence:
//!         fill a pass with masks, on over the units' borders; crypt it
//!     units that end with part of a block:
//!         all but the last whole block alike, then ciphertext stealing
//! ```
//!
//! All is constant-time: masks by shifts and carry-less multiplication.

use zeroize::Zeroize;

use super::blocks::{Form, Masks, Place, UNMASKED, masked, single, xor};
use crate::{
    gf128::mul_alpha,
    kernel::vector::{DEPTH, Permutation, Vector},
    run::{DataUnitNumber, Run},
};

/// Units whose numbers are encrypted together: enough to fill every pass, and
/// few enough to stay in the L1 cache.
const BATCH: usize = 128;

/// # Safety
/// The CPU has the instructions of `E` and `P`; units have 16 bytes and more.
#[inline(always)]
pub(crate) unsafe fn encrypt<E: Permutation, P: Permutation>(
    tweak: &E,
    data: &P,
    run: &mut Run<'_>,
) {
    // SAFETY: as the caller says.
    unsafe { crypt::<false, E, P>(tweak, data, run) }
}

/// As [`encrypt`]; `data` is the inverse permutation.
///
/// # Safety
/// As for [`encrypt`].
#[inline(always)]
pub(crate) unsafe fn decrypt<E: Permutation, P: Permutation>(
    tweak: &E,
    data: &P,
    run: &mut Run<'_>,
) {
    // SAFETY: as the caller says.
    unsafe { crypt::<true, E, P>(tweak, data, run) }
}

#[inline(always)]
unsafe fn crypt<const DECRYPT: bool, E: Permutation, P: Permutation>(
    tweak: &E,
    data: &P,
    run: &mut Run<'_>,
) {
    let (first, stride, unit_len) = (run.first(), run.stride(), run.unit_len().get());
    let (blocks, tail) = (unit_len / 16, unit_len % 16);
    let units = run.units();
    let mut at = Place::of(run);
    let mut tweaks = [0_u128; BATCH];
    let mut done = 0;
    while done < units {
        let tweaks = &mut tweaks[..BATCH.min(units - done)];
        // SAFETY: `done + tweaks.len()` units are in the run.
        unsafe {
            encrypt_numbers(tweak, first.step(done as u64, stride), stride, tweaks);
            if tail != 0 {
                for (i, t) in tweaks.iter().enumerate() {
                    stealing_unit::<DECRYPT, P>(data, *t, blocks, tail, at.add(i * unit_len));
                }
            } else if blocks.is_multiple_of(DEPTH * P::V::BLOCKS) {
                for (i, t) in tweaks.iter().enumerate() {
                    whole_passes(data, t, blocks, at.add(i * unit_len));
                }
            } else {
                units_of_blocks(data, tweaks, blocks, at);
            }
            at = at.add(unit_len * tweaks.len());
        }
        done += tweaks.len();
    }
    tweaks[..BATCH.min(units)].zeroize();
}

/// The tweaks of consecutive units, as they are in memory.
///
/// # Safety
/// The CPU has the instructions of `E`.
#[inline(always)]
unsafe fn encrypt_numbers<E: Permutation>(
    tweak: &E,
    first: DataUnitNumber,
    stride: u64,
    tweaks: &mut [u128],
) {
    let mut number = first;
    for t in &mut *tweaks {
        // IEEE 1619-2007, 5.1: the number is little-endian in memory.
        *t = number.get().to_le();
        number = number.step(1, stride);
    }
    for group in tweaks.chunks_mut(UNMASKED.len()) {
        let at = Place::in_place(group.as_mut_ptr().cast());
        // SAFETY: the group's blocks begin there.
        unsafe { masked(tweak, Form::Xex, &UNMASKED[..group.len()], at) };
    }
}

/// A unit of `blocks` blocks, a multiple of `DEPTH · BLOCKS`.
///
/// # Safety
/// The CPU has the instructions of `P`, and so many blocks are left at `at`.
#[inline(always)]
unsafe fn whole_passes<P: Permutation>(p: &P, t: &u128, blocks: usize, mut at: Place) {
    let pass = DEPTH * P::V::BLOCKS;
    // SAFETY: as the caller says.
    let mut masks = unsafe { P::V::unit_tweaks(t) };
    for _ in 0..blocks / pass {
        // SAFETY: a whole pass is left.
        unsafe {
            let x = at.load::<DEPTH, P::V>();
            let y = p.apply(xor(x, masks), masks);
            at.store(y);
            at = at.add(16 * pass);
        }
        for mask in &mut masks {
            *mask = mask.next_pass();
        }
    }
}

/// Units of any whole number of blocks, side by side.
///
/// # Safety
/// The CPU has the instructions of `P`, and `blocks` blocks for each of
/// `tweaks` are left at `at`.
#[inline(always)]
unsafe fn units_of_blocks<P: Permutation>(p: &P, tweaks: &[u128], blocks: usize, mut at: Place) {
    let mut masks: Masks = [0; _];
    let mut filled = 0;
    for t in tweaks {
        let mut t = u128::from_le(*t);
        for _ in 0..blocks {
            masks[filled] = t.to_le();
            filled += 1;
            t = mul_alpha(t);
            if filled == masks.len() {
                // SAFETY: no more masks are made than there are blocks.
                unsafe {
                    masked(p, Form::Xex, &masks, at);
                    at = at.add(16 * filled);
                }
                filled = 0;
            }
        }
    }
    // SAFETY: as above.
    unsafe { masked(p, Form::Xex, &masks[..filled], at) };
    masks.zeroize();
}

/// A unit of `blocks` whole blocks and `tail` bytes, 1 to 15.
///
/// # Safety
/// The CPU has the instructions of `P`, and so many bytes are left at `at`.
#[inline(always)]
unsafe fn stealing_unit<const DECRYPT: bool, P: Permutation>(
    p: &P,
    t: u128,
    blocks: usize,
    tail: usize,
    at: Place,
) {
    let before = blocks - 1;
    let mut t = u128::from_le(t);
    let mut masks: Masks = [0; _];
    let mut done = 0;
    while done < before {
        let count = masks.len().min(before - done);
        for mask in &mut masks[..count] {
            *mask = t.to_le();
            t = mul_alpha(t);
        }
        // SAFETY: so many blocks are left.
        unsafe { masked(p, Form::Xex, &masks[..count], at.add(16 * done)) };
        done += count;
    }
    masks.zeroize();

    // The last whole block lends bytes to the part of a block, which comes out
    // in its place. Decryption takes the two masks in the other order (5.4.2).
    let next = mul_alpha(t);
    let (lender, taker) = if DECRYPT { (next, t) } else { (t, next) };
    // SAFETY: a whole block and `tail` bytes are left. Each is read before it
    // is written, so input and output may be one place.
    unsafe {
        let at = at.add(16 * before);
        let part = at.add(16);
        let lent = single(p, at.read(), lender).to_le_bytes();
        let mut last = lent;
        part.src.copy_to_nonoverlapping(last.as_mut_ptr(), tail);
        lent.as_ptr().copy_to_nonoverlapping(part.dst, tail);
        at.write(single(p, u128::from_le_bytes(last), taker));
    }
}
