// SPDX-License-Identifier: MIT OR Apache-2.0
//! A register for any CPU: four blocks in integers.

use super::vector::{DEPTH, MaskedRest, Permutation, Vector};
use crate::{
    gf128::{mul, mul_alpha, mul_alpha8, mul_alpha32},
    mode::{
        blocks::{Masked, Pointers, rest},
        xts::WholePasses,
    },
};

/// Four blocks as little-endian integers.
#[derive(Clone, Copy)]
pub(super) struct Blocks(pub(super) [u128; 4]);

impl Blocks {
    #[inline(always)]
    fn each(self, f: fn(u128) -> u128) -> Self {
        let [a, b, c, d] = self.0;
        Self([f(a), f(b), f(c), f(d)])
    }
}

impl Vector for Blocks {
    const BLOCKS: usize = 4;

    #[inline(always)]
    unsafe fn zero() -> Self {
        Self([0; 4])
    }

    #[inline(always)]
    unsafe fn load(p: *const u8) -> Self {
        // SAFETY: the caller guarantees 64 readable bytes.
        Self(unsafe { p.cast::<[u128; 4]>().read_unaligned() }).each(u128::from_le)
    }

    #[inline(always)]
    unsafe fn load_aligned(p: *const u8) -> Self {
        // SAFETY: the caller guarantees it, as `# Safety` requires.
        unsafe { Self::load(p) }
    }

    #[inline(always)]
    unsafe fn store(self, p: *mut u8) {
        // SAFETY: the caller guarantees 64 writable bytes.
        unsafe {
            p.cast::<[u128; 4]>()
                .write_unaligned(self.each(u128::to_le).0);
        }
    }

    #[inline(always)]
    unsafe fn broadcast(p: *const u8) -> Self {
        // SAFETY: the caller guarantees 16 readable bytes; a byte array needs no alignment.
        Self([u128::from_le_bytes(unsafe { p.cast::<[u8; 16]>().read() }); 4])
    }

    #[inline(always)]
    unsafe fn count(first: u128, stride: u64) -> Self {
        let mut next = Self([first; 4]);
        for (i, block) in (0..).zip(&mut next.0) {
            *block = add_low(first, stride.wrapping_mul(i));
        }
        next
    }

    #[inline(always)]
    fn add_low(mut self, n: u64) -> Self {
        for block in &mut self.0 {
            *block = add_low(*block, n);
        }
        self
    }

    #[inline(always)]
    fn swap_bytes(self) -> Self {
        self.each(u128::swap_bytes)
    }

    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        let ([a, b, c, d], [e, f, g, h]) = (self.0, other.0);
        Self([a ^ e, b ^ f, c ^ g, d ^ h])
    }

    #[inline(always)]
    fn and(self, other: Self) -> Self {
        let ([a, b, c, d], [e, f, g, h]) = (self.0, other.0);
        Self([a & e, b & f, c & g, d & h])
    }

    #[inline(always)]
    fn preceding(self, before: Self) -> Self {
        let [a, b, c, _] = self.0;
        Self([before.0[3], a, b, c])
    }

    #[inline(always)]
    fn spread(self, i: usize) -> Self {
        let mut t = (0..i * Self::BLOCKS).fold(self.0[0], |t, _| mul_alpha(t));
        let mut spread = self;
        for block in &mut spread.0 {
            *block = t;
            t = mul_alpha(t);
        }
        spread
    }

    #[inline(always)]
    fn mul_alpha_each(self) -> Self {
        self.each(mul_alpha)
    }

    #[inline(always)]
    fn mul(mut self, other: Self) -> Self {
        for (block, other) in self.0.iter_mut().zip(other.0) {
            *block = mul(*block, other);
        }
        self
    }

    #[inline(always)]
    fn exchanged(x: [Self; 4]) -> [Self; 4] {
        core::array::from_fn(|i| Self(x.map(|x| x.0[i])))
    }

    #[inline(always)]
    fn mul_alpha8(self) -> Self {
        self.each(mul_alpha8)
    }

    #[inline(always)]
    fn mul_pass(self) -> Self {
        const { assert!(DEPTH * Self::BLOCKS == 32) };
        self.each(mul_alpha32)
    }
}

impl WholePasses for Blocks {}

impl MaskedRest for Blocks {
    #[inline(never)]
    unsafe fn masked_rest<P: Permutation<V = Self>>(
        p: &P,
        masks: &[Self; DEPTH],
        bytes: usize,
        src: *const u8,
        dst: *mut u8,
    ) -> Self {
        // SAFETY: the caller guarantees it, as `# Safety` requires.
        unsafe { rest::<Masked, P>(p, *masks, bytes, Pointers::separate(src, dst)) }
    }
}

/// Adds `n` to the low half, wrapping.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "the low half")]
fn add_low(block: u128, n: u64) -> u128 {
    (block >> 64 << 64) | u128::from((block as u64).wrapping_add(n))
}
