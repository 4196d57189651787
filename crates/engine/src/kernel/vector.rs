// SPDX-License-Identifier: MIT OR Apache-2.0
//! The operations on registers that the modes need.
//!
//! A value of a [`Vector`] type proves that the CPU has its instructions: only the unsafe
//! constructors make one, and only a kernel that holds its token calls them. Functions that take a
//! vector are therefore safe.
//!
//! All functions here, and the generic functions that use them, are `inline(always)`, and traits
//! are used instead of closures. The instructions may be used only inside a function that enables
//! their target features, which is the kernel's entry function, so everything must be inlined into
//! it.

/// The number of vectors that go through AES together.
///
/// An AES instruction takes 3 to 8 cycles, and one or two can start each cycle. Eight independent
/// ones keep the units busy, and eight data registers, eight masks and the eight masks of the next
/// pass fit in 32 registers.
pub(crate) const DEPTH: usize = 8;

/// Repeats `$body` for each `$i` below a constant of at most [`DEPTH`]. A kernel has thousands of
/// such loops in one function, and the compiler would take minutes to unroll them.
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

/// The largest number of blocks in one pass: [`DEPTH`] registers of 4 blocks.
pub(crate) const MAX_PASS: usize = DEPTH * 4;

/// How many bytes ahead of a pass its lines are prefetched into the L1 cache, and beside that into the L2
/// cache, which can wait for more lines at a time. 0 is not at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Prefetch {
    pub(crate) l1: usize,
    pub(crate) l2: usize,
}

impl Prefetch {
    pub(crate) const NONE: Self = Self { l1: 0, l2: 0 };

    /// Found on Intel's CPUs. With the L1 prefetch alone, 256 MiB took a seventh longer. A few hundred
    /// bytes more or less make little difference.
    pub(crate) const USUAL: Self = Self { l1: 1536, l2: 3584 };
}

/// A register of whole blocks.
pub(crate) trait Vector: Copy + MaskedRest {
    /// The number of blocks in a register: 1, 2 or 4.
    const BLOCKS: usize;

    /// Returns a register of zeros.
    ///
    /// # Safety
    /// The CPU has the instructions.
    unsafe fn zero() -> Self;

    /// # Safety
    /// The CPU has the instructions, and `16 · BLOCKS` bytes at `p` are readable.
    unsafe fn load(p: *const u8) -> Self;

    /// As [`Vector::load`], for `p` aligned to the register's size. Older instructions can then
    /// read the operand from memory directly.
    ///
    /// # Safety
    /// As for [`Vector::load`], and `p` is a multiple of `16 · BLOCKS`.
    unsafe fn load_aligned(p: *const u8) -> Self;

    /// # Safety
    /// `16 · BLOCKS` bytes at `p` are writable.
    unsafe fn store(self, p: *mut u8);

    /// As [`Vector::store`], but around the caches; an ordinary store if the CPU has no such
    /// instruction. [`Vector::fence`] must follow before any other code reads the memory.
    ///
    /// # Safety
    /// `16 · BLOCKS` bytes at `p` are writable, and `p` is a multiple of that.
    #[inline(always)]
    unsafe fn store_around(self, p: *mut u8) {
        // SAFETY: the caller guarantees it, as `# Safety` requires.
        unsafe { self.store(p) }
    }

    /// Completes the stores of [`Vector::store_around`].
    #[inline(always)]
    fn fence() {}

    /// What long runs prefetch on this CPU.
    fn prefetch_ahead() -> Prefetch {
        Prefetch::USUAL
    }

    /// Prefetches the cache line at `p` into the L1 cache. `p` may be any address.
    #[inline(always)]
    fn prefetch(p: *const u8) {
        let _ = p;
    }

    /// As [`prefetch`](Self::prefetch), but only into the L2 cache.
    #[inline(always)]
    fn prefetch_l2(p: *const u8) {
        let _ = p;
    }

    /// Loads the block at `p` into every place of the register.
    ///
    /// # Safety
    /// The CPU has the instructions, and 16 bytes at `p` are readable.
    unsafe fn broadcast(p: *const u8) -> Self;

    /// Returns the numbers `first`, `first + stride`, …, little-endian, one in each block. Only the
    /// low halves are added to, and they wrap.
    ///
    /// # Safety
    /// The CPU has the instructions.
    unsafe fn count(first: u128, stride: u64) -> Self;

    /// Adds `n` to the low half of each block, wrapping.
    fn add_low(self, n: u64) -> Self;

    /// Reverses the bytes of each block.
    fn swap_bytes(self) -> Self;

    fn xor(self, other: Self) -> Self;

    fn and(self, other: Self) -> Self;

    /// Returns, for each block, the one before it; `before` is the register before this one.
    fn preceding(self, before: Self) -> Self;

    /// For a register with T in every place, returns T·αⁿ, T·αⁿ⁺¹, … with n = `i · BLOCKS`, for
    /// exponents below 8.
    fn spread(self, i: usize) -> Self;

    /// Does nothing, but makes the compiler compute `self` before `later`.
    #[inline(always)]
    fn before(&mut self, later: &mut Self) {
        let _ = later;
    }

    /// As [`Vector::before`], for the low half of an integer.
    #[inline(always)]
    fn integer_before(first: &mut u128, later: &mut Self) {
        let _ = (first, later);
    }

    /// Returns T·α, computed in integer registers.
    #[inline(always)]
    fn mul_alpha(t: u128) -> u128 {
        crate::gf128::mul_alpha(t)
    }

    /// Multiplies each block by α.
    fn mul_alpha_each(self) -> Self;

    /// Multiplies each block by the corresponding block of `other`.
    fn mul(self, other: Self) -> Self;

    /// Transposes: register i of the result has block i of each input, for i < `BLOCKS`. The other
    /// registers of the result have no meaning.
    fn exchanged(x: [Self; 4]) -> [Self; 4];

    /// Multiplies each block by α⁸.
    fn mul_alpha8(self) -> Self;

    /// Multiplies each block by α to the power `DEPTH · BLOCKS`, which is one pass further on.
    fn mul_pass(self) -> Self;
}

/// [`rest`](crate::mode::blocks::rest) for blocks under masks, as a separate function with the
/// instructions enabled. XTS calls it in many places, and each inlined copy would cost the compiler
/// seconds.
pub(crate) trait MaskedRest: Sized {
    /// Processes `bytes` bytes, fewer than a pass, from `src` to `dst`, which are equal or do not
    /// overlap. Returns the mask of the first register that was not fully used.
    ///
    /// # Safety
    /// The CPU has the instructions of `P`, `bytes` bytes at `src` are readable and `bytes` bytes
    /// at `dst` are writable.
    unsafe fn masked_rest<P: Permutation<V = Self>>(
        p: &P,
        masks: &[Self; DEPTH],
        bytes: usize,
        src: *const u8,
        dst: *mut u8,
    ) -> Self;
}

/// Supplies a value for each register of a pass.
pub(crate) trait Each<V>: Copy {
    /// The value for register `i`.
    fn at(self, i: usize) -> V;
}

impl<V: Copy, const D: usize> Each<V> for [V; D] {
    #[inline(always)]
    fn at(self, i: usize) -> V {
        self[i]
    }
}

/// Small pieces of other work that run in order between the rounds.
pub(crate) trait Beside<V> {
    /// Runs piece `i` of [`DEPTH`], before `next` enters its next round.
    fn step(&mut self, i: usize, next: &mut V);
}

/// No other work.
pub(crate) struct Nothing;

impl<V> Beside<V> for Nothing {
    #[inline(always)]
    fn step(&mut self, _: usize, _: &mut V) {}
}

/// AES under one key in one direction, in parts: P(x) = [`rounds`]([`enter`](x)) with [`leave`] as
/// the value that the last round adds.
///
/// A *mask* is a tweak with [`leave`] already added. [`rounds_masked`] encrypts a block under a
/// tweak, given the mask, and the last round adds the tweak and its key in one instruction. Masks
/// are affine in tweaks: to multiply the tweak by a power of α, multiply the mask and add a constant.
///
/// [`rounds`]: Permutation::rounds
/// [`rounds_masked`]: Permutation::rounds_masked
/// [`enter`]: Permutation::enter
/// [`leave`]: Permutation::leave
pub(crate) trait Permutation {
    type V: Vector;
    /// The same permutation in the form that is fastest in a long loop.
    type InLoop: Permutation<V = Self::V>;

    /// Loads round keys into registers, if there is room for them.
    fn in_loop(&self) -> Self::InLoop;

    /// Returns x ⊕ first round key, or x if the instructions of the first round add the key.
    fn enter(&self, x: Self::V) -> Self::V;

    /// Returns the last round key, which is the mask of the tweak 0.
    fn leave(&self) -> Self::V;

    /// Applies all rounds. The last one adds `post` instead of its key. `work` runs between the
    /// rounds.
    fn rounds<const D: usize, W: Beside<Self::V>>(
        &self,
        x: [Self::V; D],
        post: impl Each<Self::V>,
        work: &mut W,
    ) -> [Self::V; D];

    /// Encrypts each block under a tweak.
    #[inline(always)]
    fn rounds_tweaked<const D: usize, W: Beside<Self::V>>(
        &self,
        mut x: [Self::V; D],
        tweaks: impl Each<Self::V>,
        work: &mut W,
    ) -> [Self::V; D]
    where
        Self: Sized,
    {
        unrolled!(i in 0..D => {
            x[i] = self.enter(x[i].xor(tweaks.at(i)));
        });
        self.rounds(
            x,
            Leaving {
                p: self,
                values: tweaks,
            },
            work,
        )
    }

    /// Encrypts each block under a tweak, given its mask.
    fn rounds_masked<const D: usize, W: Beside<Self::V>>(
        &self,
        x: [Self::V; D],
        masks: impl Each<Self::V>,
        work: &mut W,
    ) -> [Self::V; D];

    /// What is added to a tweak that is made in integer registers and kept in memory for
    /// [`rounds_kept`](Self::rounds_kept).
    #[inline(always)]
    fn kept_with(&self) -> u128 {
        0
    }

    /// Returns the mask of a kept tweak.
    #[inline(always)]
    fn leave_kept(&self, kept: Self::V) -> Self::V {
        kept.xor(self.leave())
    }

    /// Encrypts each block under a tweak, given the kept tweak.
    #[inline(always)]
    fn rounds_kept<const D: usize, W: Beside<Self::V>>(
        &self,
        x: [Self::V; D],
        kept: impl Each<Self::V>,
        work: &mut W,
    ) -> [Self::V; D]
    where
        Self: Sized,
    {
        self.rounds_tweaked(x, kept, work)
    }

    /// Returns the mask of the tweak times α⁸.
    fn mask_mul_alpha8(&self, mask: Self::V) -> Self::V;

    /// Returns the mask of the tweak one pass further on.
    fn mask_mul_pass(&self, mask: Self::V) -> Self::V;
}

/// Adds [`Permutation::leave`] to each value: a tweak becomes its mask.
pub(crate) struct Leaving<'a, P, T> {
    pub(crate) p: &'a P,
    pub(crate) values: T,
}

impl<P, T: Copy> Clone for Leaving<'_, P, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P, T: Copy> Copy for Leaving<'_, P, T> {}

impl<P: Permutation, T: Each<P::V>> Each<P::V> for Leaving<'_, P, T> {
    #[inline(always)]
    fn at(self, i: usize) -> P::V {
        self.values.at(i).xor(self.p.leave())
    }
}
