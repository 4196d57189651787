// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a kind of registers must do for the modes.
//!
//! A value of a [`Vector`] type is proof that the CPU has its instructions:
//! only the unsafe constructors make one, and only a kernel that holds its
//! token calls them. So all that takes a vector is safe.
//!
//! Every function here and every generic function above is `inline(always)`,
//! and traits stand where closures would: the instructions may be used only
//! inside a function that enables their target features, which is the kernel's
//! entry, so all has to end up in there.

/// How many vectors go through AES side by side.
///
/// An AES instruction takes 3 to 8 cycles and one or two can start each cycle:
/// eight independent ones keep the units busy, and eight data registers, eight
/// masks and the eight of the next pass fit 32 registers.
pub(crate) const DEPTH: usize = 8;

/// For each `i` below a constant of at most [`DEPTH`], written out: a kernel has thousands of
/// such loops in one function, and the compiler takes minutes to find out that it can unroll them.
macro_rules! unrolled {
    ($i:ident in 0..$count:expr => $body:block) => {
        const { assert!($count <= crate::kernel::vector::DEPTH) };
        unrolled!(@ $i, $count, $body, 0 1 2 3 4 5 6 7);
    };
    (@ $i:ident, $count:expr, $body:block, $($value:literal)*) => {$(
        if const { $value < $count } {
            let $i: usize = $value;
            $body
        }
    )*};
}
pub(crate) use unrolled;

/// The most blocks in one pass: [`DEPTH`] registers of 4 blocks.
pub(crate) const MAX_PASS: usize = DEPTH * 4;

/// A register of whole blocks.
pub(crate) trait Vector: Copy + MaskedRest {
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

    /// As [`Vector::load`], when `p` is a multiple of the register's bytes: older
    /// instructions then take it from memory by themselves.
    ///
    /// # Safety
    /// As for [`Vector::load`], and `p` is such a multiple.
    unsafe fn load_aligned(p: *const u8) -> Self;

    /// # Safety
    /// `16 · BLOCKS` bytes at `p` can be written.
    unsafe fn store(self, p: *mut u8);

    /// As [`Vector::store`], around the caches; where there is no such
    /// instruction, an ordinary store. [`Vector::fence`] must follow before
    /// anything else looks at the memory.
    ///
    /// # Safety
    /// `16 · BLOCKS` bytes at `p` can be written, and `p` is a multiple of that.
    #[inline(always)]
    unsafe fn store_around(self, p: *mut u8) {
        // SAFETY: as the caller says.
        unsafe { self.store(p) }
    }

    /// Ends [`Vector::store_around`].
    #[inline(always)]
    fn fence() {}

    /// Says that the cache line at `p`, which may be anywhere, is wanted soon.
    #[inline(always)]
    fn prefetch(p: *const u8) {
        let _ = p;
    }

    /// As [`prefetch`](Self::prefetch), less soon: in the L2 cache.
    #[inline(always)]
    fn prefetch_l2(p: *const u8) {
        let _ = p;
    }

    /// The block at `p` in all places.
    ///
    /// # Safety
    /// The CPU has the instructions, and 16 bytes at `p` can be read.
    unsafe fn broadcast(p: *const u8) -> Self;

    /// The numbers `first`, `first` + `stride`, …, little-endian, one a block;
    /// the low halves wrap by themselves.
    ///
    /// # Safety
    /// The CPU has the instructions.
    unsafe fn count(first: u128, stride: u64) -> Self;

    /// Adds `n` to the low half of each block, wrapping.
    fn add_low(self, n: u64) -> Self;

    /// Each block's bytes in the other order.
    fn swap_bytes(self) -> Self;

    fn xor(self, other: Self) -> Self;

    fn and(self, other: Self) -> Self;

    /// The block before each of these, where `before` is the register before.
    fn preceding(self, before: Self) -> Self;

    /// From a register with T in all places: T·αⁿ, T·αⁿ⁺¹, … with n = `i` ·
    /// `BLOCKS`, for n < 8.
    fn spread(self, i: usize) -> Self;

    /// Does nothing, but lets the compiler compute `later` only after `self`.
    #[inline(always)]
    fn before(&mut self, later: &mut Self) {
        let _ = later;
    }

    /// As [`Vector::before`], for an integer's low half.
    #[inline(always)]
    fn integer_before(first: &mut u128, later: &mut Self) {
        let _ = (first, later);
    }

    /// T·α in integer registers.
    #[inline(always)]
    fn mul_alpha(t: u128) -> u128 {
        crate::gf128::mul_alpha(t)
    }

    /// Each block times α.
    fn mul_alpha_each(self) -> Self;

    /// Each block times the other's.
    fn mul(self, other: Self) -> Self;

    /// Register i gets the blocks i of all, for i < `BLOCKS`; those after them do not
    /// count.
    fn exchanged(x: [Self; 4]) -> [Self; 4];

    /// Each block times α⁸.
    fn mul_alpha8(self) -> Self;

    /// Each block times α to the `DEPTH · BLOCKS`: one pass further on.
    fn mul_pass(self) -> Self;
}

/// [`rest`](crate::mode::blocks::rest) of blocks under masks, as a function by itself with the
/// instructions enabled: XTS ends in one in many places, and each copy takes the compiler seconds.
pub(crate) trait MaskedRest: Sized {
    /// `bytes` bytes, fewer than a pass has, from `src` to `dst`, which are one place or do not
    /// overlap. Returns the mask of the first register that was not wholly used.
    ///
    /// # Safety
    /// The CPU has the instructions of `P`, and so many bytes can be read and written.
    unsafe fn masked_rest<P: Permutation<V = Self>>(
        p: &P,
        masks: &[Self; DEPTH],
        bytes: usize,
        src: *const u8,
        dst: *mut u8,
    ) -> Self;
}

/// A value for each register of a pass.
pub(crate) trait Each<V>: Copy {
    /// That of register `i`.
    fn at(self, i: usize) -> V;
}

impl<V: Copy, const D: usize> Each<V> for [V; D] {
    #[inline(always)]
    fn at(self, i: usize) -> V {
        self[i]
    }
}

/// Small pieces of other work, in order, for the gaps between the rounds.
pub(crate) trait Beside<V> {
    /// Piece `i` of [`DEPTH`], before `next` goes on into the next round.
    fn step(&mut self, i: usize, next: &mut V);
}

/// No other work.
pub(crate) struct Nothing;

impl<V> Beside<V> for Nothing {
    #[inline(always)]
    fn step(&mut self, _: usize, _: &mut V) {}
}

/// AES under one key in one direction, taken apart: P(x) = [`rounds`]([`enter`](x))
/// with [`leave`] as what the last round adds.
///
/// A *mask* is a tweak with [`leave`] already added. So a block x under the tweak
/// t is [`rounds`]([`enter_masked`](x, mask), mask), and the last round adds both
/// in one instruction. Masks are affine in tweaks: to go on by a power of α, go
/// on and add a constant.
///
/// [`rounds`]: Permutation::rounds
/// [`enter`]: Permutation::enter
/// [`enter_masked`]: Permutation::enter_masked
/// [`leave`]: Permutation::leave
pub(crate) trait Permutation {
    type V: Vector;

    /// x ⊕ first round key.
    fn enter(&self, x: Self::V) -> Self::V;

    /// x ⊕ tweak ⊕ first round key.
    fn enter_masked(&self, x: Self::V, mask: Self::V) -> Self::V;

    /// The last round key: the mask of the tweak 0.
    fn leave(&self) -> Self::V;

    /// All rounds; the last adds `post` in place of its key. Work goes between.
    fn rounds<const D: usize, W: Beside<Self::V>>(
        &self,
        x: [Self::V; D],
        post: impl Each<Self::V>,
        work: &mut W,
    ) -> [Self::V; D];

    /// The mask of the tweak times α⁸.
    fn mask_mul_alpha8(&self, mask: Self::V) -> Self::V;

    /// The mask of the tweak one pass further on.
    fn mask_mul_pass(&self, mask: Self::V) -> Self::V;
}
