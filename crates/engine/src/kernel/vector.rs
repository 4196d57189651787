// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a kind of registers must do for the modes.
//!
//! A value of a [`Vector`] type is proof that the CPU has its instructions:
//! only the unsafe constructors make one, and only a kernel that holds its
//! token calls them. So all that takes a vector is safe.
//!
//! Every function here and every generic function above is `inline(always)`,
//! and loops stand where closures would: the instructions may be used only
//! inside a function that enables their target features, which is the kernel's
//! entry, so all has to end up in there.

/// How many vectors go through AES side by side.
///
/// An AES instruction takes 3 to 8 cycles and one or two can start each cycle:
/// eight independent ones keep the units busy, and eight data registers, eight
/// tweaks and the round keys fit 32 registers (with 16, keys come from memory).
pub(crate) const DEPTH: usize = 8;

/// The most blocks in one pass: [`DEPTH`] registers of 4 blocks.
pub(crate) const MAX_PASS: usize = DEPTH * 4;

/// A register of whole blocks.
pub(crate) trait Vector: Copy {
    /// Blocks in a register: 1, 2 or 4.
    const BLOCKS: usize;

    /// All bits zero.
    ///
    /// # Safety
    /// The CPU has the instructions.
    unsafe fn zero() -> Self;

    /// # Safety
    /// The CPU has the instructions, and `16 · BLOCKS` bytes at `p` can be read.
    unsafe fn load(p: *const u8) -> Self;

    /// # Safety
    /// `16 · BLOCKS` bytes at `p` can be written.
    unsafe fn store(self, p: *mut u8);

    fn xor(self, other: Self) -> Self;

    /// The tweaks of a data unit's first `DEPTH · BLOCKS` blocks: T·α⁰, T·α¹, …
    /// where T is the encrypted data unit number as it is in memory.
    ///
    /// # Safety
    /// The CPU has the instructions.
    unsafe fn unit_tweaks(t: &u128) -> [Self; DEPTH];

    /// The tweaks one pass further on: times α to the `DEPTH · BLOCKS`.
    fn next_pass(self) -> Self;
}

/// An expanded key for one direction.
pub(crate) trait Permutation {
    type V: Vector;

    /// Each block x becomes P(x) ⊕ post.
    fn apply<const D: usize>(&self, x: [Self::V; D], post: [Self::V; D]) -> [Self::V; D];
}
