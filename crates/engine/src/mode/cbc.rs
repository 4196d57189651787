// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cipher block chaining: SP 800-38A, 6.2. Each data unit is a separate chain. Its IV is its
//! number, little-endian, or with ESSIV that number encrypted under a second key.
//!
//! The number is little-endian as in XTS, and unlike in CTR and output feedback, because dm-crypt
//! makes the IV this way. Otherwise consecutive sectors would not be one run. The caller supplies
//! the key of ESSIV (`CbcKey`): the SHA-256 of the data key, so it is an AES-256 key. The engine
//! encrypts the numbers of many units together, as in XTS.
//!
//! Decryption adds to each block the ciphertext before it, so no block waits for another, and whole
//! passes work as in the other modes:
//!
//! ```text
//! for each pass of units: make their IVs together
//!     for each unit:
//!         before = its IV
//!         for each pass in it:
//!             x = D(pass) ⊕ (the last block of before, the pass without its last block)
//!             before = the last register of the pass
//!             store x
//! ```
//!
//! The rounds need the ciphertext blocks once more at their end, shifted by one block. They are
//! loaded again from memory then: with 16 registers there is no room to keep them. In place they
//! are still there, since nothing of the pass has been stored yet. Only the block before the pass
//! has been overwritten, and it comes from `before`.
//!
//! Encryption needs the result of each block for the next, so a pass takes one block from each of
//! several units.

use core::hint::black_box;

use super::blocks::{Chained, Form, Masked, Pointers, load, pass};
use crate::{
    kernel::vector::{DEPTH, Each, MAX_PASS, Nothing, Permutation, Prefetch, Vector},
    run::{DataUnitNumber, Run},
};

/// # Safety
/// The CPU has the instructions of `E` and `P`, and the unit length is a multiple of 16.
#[inline(always)]
pub(crate) unsafe fn encrypt<E: Permutation, P: Permutation<V = E::V>>(
    essiv: Option<&E>,
    data: &P,
    run: &mut Run<'_>,
) {
    let unit_len = run.unit_len().get();
    let mut left = run.units();
    let mut ivs = Ivs::new(essiv, run);
    let mut at = Pointers::from_run(run, 16, Prefetch::NONE);
    while left > 0 {
        // SAFETY: `left` units remain at `at`, and `count <= left`.
        unsafe {
            let count = ivs.make(left);
            match count.div_ceil(P::V::BLOCKS) {
                1 => side_by_side::<1, P>(data, &ivs.blocks, count, unit_len, at),
                2 => side_by_side::<2, P>(data, &ivs.blocks, count, unit_len, at),
                3 | 4 => side_by_side::<4, P>(data, &ivs.blocks, count, unit_len, at),
                _ => side_by_side::<DEPTH, P>(data, &ivs.blocks, count, unit_len, at),
            }
            at = at.add(unit_len * count);
            left -= count;
        }
    }
    ivs.blocks.wipe();
}

/// As [`encrypt`]; `data` is the inverse permutation.
///
/// # Safety
/// As for [`encrypt`].
#[inline(always)]
pub(crate) unsafe fn decrypt<E: Permutation, P: Permutation<V = E::V>>(
    essiv: Option<&E>,
    data: &P,
    run: &mut Run<'_>,
) {
    let unit_len = run.unit_len().get();
    let mut left = run.units();
    let mut ivs = Ivs::new(essiv, run);
    let mut at = Pointers::from_run(run, 16 * P::V::BLOCKS * DEPTH, P::V::prefetch_ahead());
    while left > 0 {
        // SAFETY: `left` units remain at `at`, and `count <= left`.
        unsafe {
            let count = ivs.make(left);
            for iv in &ivs.blocks.0[..count] {
                let iv = P::V::broadcast(core::ptr::from_ref(iv).cast());
                decrypt_unit(data, iv, unit_len, at);
                at = at.add(unit_len);
            }
            left -= count;
        }
    }
    at.finish::<P::V>();
    ivs.blocks.wipe();
}

/// Up to a pass of blocks, as they are stored in memory.
#[repr(align(64))]
struct Blocks([u128; MAX_PASS]);

impl Blocks {
    #[inline(always)]
    fn as_mut_ptr(&mut self) -> *mut u8 {
        self.0.as_mut_ptr().cast()
    }

    #[inline(always)]
    fn wipe(&mut self) {
        self.0 = [0; MAX_PASS];
        black_box(self);
    }
}

/// The IVs of a pass of units.
struct Ivs<'a, E> {
    essiv: Option<&'a E>,
    next: DataUnitNumber,
    stride: u64,
    blocks: Blocks,
}

impl<'a, E: Permutation> Ivs<'a, E> {
    #[inline(always)]
    fn new(essiv: Option<&'a E>, run: &Run<'_>) -> Self {
        Self {
            essiv,
            next: run.first(),
            stride: run.stride(),
            blocks: Blocks([0; MAX_PASS]),
        }
    }

    /// Makes the IVs of the next units, of which `left` remain. Returns the number of IVs made.
    ///
    /// # Safety
    /// The CPU has the instructions of `E`.
    #[inline(always)]
    unsafe fn make(&mut self, left: usize) -> usize {
        let count = left.min(DEPTH * E::V::BLOCKS);
        for iv in &mut self.blocks.0[..count] {
            *iv = self.next.get().to_le();
            self.next = self.next.step(1, self.stride);
        }
        if let Some(e) = self.essiv {
            let at = Pointers::in_place(self.blocks.as_mut_ptr());
            let mask = e.leave();
            // SAFETY: `self.blocks` has room for a whole pass.
            unsafe {
                match count.div_ceil(E::V::BLOCKS) {
                    1 => pass::<1, Masked, E>(e, [mask; 1], at, &mut Nothing),
                    2 => pass::<2, Masked, E>(e, [mask; 2], at, &mut Nothing),
                    3 | 4 => pass::<4, Masked, E>(e, [mask; 4], at, &mut Nothing),
                    _ => pass::<DEPTH, Masked, E>(e, [mask; DEPTH], at, &mut Nothing),
                }
            }
        }
        count
    }
}

/// Encrypts `count` units together, each unit's chain in one block of `D` registers.
///
/// # Safety
/// The CPU has the instructions of `P`, `count <= D · BLOCKS`, and `count` units of `unit_len`
/// bytes remain at `at`.
#[inline(always)]
unsafe fn side_by_side<const D: usize, P: Permutation>(
    p: &P,
    ivs: &Blocks,
    count: usize,
    unit_len: usize,
    at: Pointers,
) {
    // Plaintext blocks are gathered, and ciphertext blocks scattered, through memory. The chains
    // themselves stay in registers and do not wait for that.
    let mut blocks = Blocks([0; MAX_PASS]);
    let together = Pointers::in_place(blocks.as_mut_ptr());
    // SAFETY: the caller guarantees the units; `ivs` and `blocks` have room for a whole pass.
    unsafe {
        let mut chains = load::<D, P::V>(ivs.0.as_ptr().cast());
        for block in (0..unit_len).step_by(16) {
            for unit in 0..count {
                let plain = at.add(unit * unit_len + block).read();
                together.add(16 * unit).write(plain);
            }
            let plain = together.load::<D, P::V>();
            for (chain, plain) in chains.iter_mut().zip(plain) {
                *chain = chain.xor(plain);
            }
            chains = Masked::crypt(p, chains, [p.leave(); D], &mut Nothing);
            together.store(chains);
            for unit in 0..count {
                let cipher = together.add(16 * unit).read();
                at.add(unit * unit_len + block).write(cipher);
            }
        }
    }
    blocks.wipe();
}

/// Decrypts a unit of `len` bytes. The last block of `before` is its IV.
///
/// # Safety
/// The CPU has the instructions of `P`, and `len` bytes, a multiple of 16, remain at `at`.
#[inline(always)]
unsafe fn decrypt_unit<P: Permutation>(p: &P, mut before: P::V, mut len: usize, mut at: Pointers) {
    let register = 16 * P::V::BLOCKS;
    // SAFETY: the caller guarantees `len` bytes at `at`, and each step takes at most what remains.
    unsafe {
        while len >= DEPTH * register {
            before = chained::<DEPTH, P>(p, before, at);
            at = at.add(DEPTH * register);
            len -= DEPTH * register;
        }
        if len > 0 {
            // Less than a pass remains: copy it to whole registers on the stack.
            let mut blocks = Blocks([0; MAX_PASS]);
            let copy = blocks.as_mut_ptr();
            at.src.copy_to_nonoverlapping(copy, len);
            let place = Pointers::in_place(copy);
            match len.div_ceil(register) {
                1 => chained::<1, P>(p, before, place),
                2 => chained::<2, P>(p, before, place),
                3 | 4 => chained::<4, P>(p, before, place),
                _ => chained::<DEPTH, P>(p, before, place),
            };
            copy.copy_to_nonoverlapping(at.dst, len);
            blocks.wipe();
        }
    }
}

/// Decrypts the next `D` registers of a chain, and returns the ciphertext of the last one. `before`
/// is the ciphertext of the register before them.
///
/// # Safety
/// The CPU has the instructions of `P`, and `16 · BLOCKS · D` bytes remain at `at`.
#[inline(always)]
unsafe fn chained<const D: usize, P: Permutation>(p: &P, before: P::V, at: Pointers) -> P::V {
    // SAFETY: the caller guarantees `16 · BLOCKS · D` bytes at `at`.
    unsafe {
        let [head] = load::<1, P::V>(at.src);
        let [last] = load::<1, P::V>(at.src.add(16 * P::V::BLOCKS * (D - 1)));
        let previous = Previous {
            first: head.preceding(before),
            src: at.src,
        };
        pass::<D, Chained, P>(p, previous, at, &mut Nothing);
        last
    }
}

/// For each block of a pass the ciphertext block before it. The pass must not be stored yet.
#[derive(Clone, Copy)]
struct Previous<V> {
    /// The blocks for the first register.
    first: V,
    /// The address of the pass.
    src: *const u8,
}

impl<V: Vector> Each<V> for Previous<V> {
    #[inline(always)]
    fn at(self, i: usize) -> V {
        if i == 0 {
            return self.first;
        }
        // SAFETY: `chained` made it for a pass of `D` registers at `src`, and `0 < i < D`.
        unsafe { V::load(self.src.add(16 * (V::BLOCKS * i - 1))) }
    }
}
