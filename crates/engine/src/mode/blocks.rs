// SPDX-License-Identifier: MIT OR Apache-2.0
//! Passes over consecutive blocks, shared by all modes.

use core::{hint::black_box, mem::MaybeUninit};

use crate::kernel::vector::{
    Beside, DEPTH, Each, Leaving, MaskedRest, Nothing, Permutation, Prefetch, Vector, unrolled,
};
use crate::run::{InOut, Run};

/// The length in bytes from which a separate output is stored around the caches. Through the
/// caches, such an output would evict everything else, and the CPU would read each of its lines
/// before writing it. A smaller output is likely to be used soon, so it goes through the caches.
pub(crate) const AROUND_CACHES: usize = 16 << 20;

/// The length in bytes from which a buffer is probably not in the L1 cache, so that the kernels
/// prefetch. Relying on the hardware's own prefetching is a few per cent slower even from L2, and
/// the hardware stops at the end of each page.
const AHEAD: usize = 16 << 10;

/// The length in bytes from which a buffer is probably not in the L2 cache either.
const FAR_AHEAD: usize = 1 << 20;

/// Where a run's bytes are read and written: at one address, or at two that do not overlap.
#[derive(Clone, Copy)]
pub(crate) struct Pointers {
    pub(crate) src: *const u8,
    pub(crate) dst: *mut u8,
    /// Whether whole passes are stored around the caches.
    around: bool,
    /// What whole passes prefetch.
    ahead: Prefetch,
}

impl Pointers {
    /// The pointers of `run`. `pass` is the number of bytes in a pass of the kernel, and `ahead` what
    /// long runs prefetch.
    pub(crate) fn from_run(run: &mut Run<'_>, pass: usize, ahead: Prefetch) -> Self {
        let len = run.len();
        let ahead = match ahead {
            _ if len < AHEAD => Prefetch::NONE,
            Prefetch { l1, .. } if len < FAR_AHEAD => Prefetch { l1, l2: 0 },
            ahead => ahead,
        };
        let whole_passes = run.unit_len().get().is_multiple_of(pass);
        match run.io() {
            InOut::InPlace(buf) => Self {
                ahead,
                ..Self::in_place(buf.as_mut_ptr())
            },
            InOut::Separate { input, output } => {
                // `Run::new` has checked this. Asserted again, because it keeps the raw writes in
                // bounds.
                assert!(input.len() == len && output.len() == len);
                Self {
                    src: input.as_ptr(),
                    dst: output.as_mut_ptr(),
                    around: len >= AROUND_CACHES
                        && whole_passes
                        && output.as_ptr().addr().is_multiple_of(64),
                    ahead,
                }
            }
        }
    }

    #[inline(always)]
    pub(crate) fn in_place(p: *mut u8) -> Self {
        Self::separate(p, p)
    }

    /// Separate pointers that store through the caches and prefetch nothing.
    #[inline(always)]
    pub(crate) fn separate(src: *const u8, dst: *mut u8) -> Self {
        Self {
            src,
            dst,
            around: false,
            ahead: Prefetch::NONE,
        }
    }

    /// The pointers of bytes that are not part of a run.
    ///
    /// # Panics
    /// If input and output differ in length.
    pub(crate) fn of_bytes(buf: &mut InOut<'_>) -> Self {
        buf.assert_one_length();
        match buf {
            InOut::InPlace(buf) => Self::in_place(buf.as_mut_ptr()),
            InOut::Separate { input, output } => {
                Self::separate(input.as_ptr(), output.as_mut_ptr())
            }
        }
    }

    /// Writes the sum of the input and `stream` to the output.
    ///
    /// # Safety
    /// At least `stream.len()` bytes remain at the pointers.
    pub(crate) unsafe fn add_bytes(self, stream: &[u8]) {
        for (i, byte) in stream.iter().enumerate() {
            // SAFETY: `i < stream.len()`, and the caller guarantees that many bytes.
            unsafe { self.dst.add(i).write(self.src.add(i).read() ^ byte) };
        }
    }

    /// The pointers `bytes` bytes further on.
    ///
    /// # Safety
    /// The result is inside the run or at its end.
    #[inline(always)]
    pub(crate) unsafe fn add(self, bytes: usize) -> Self {
        // SAFETY: the caller keeps both pointers inside their allocations.
        unsafe {
            Self {
                src: self.src.add(bytes),
                dst: self.dst.add(bytes),
                ..self
            }
        }
    }

    /// The same pointers, but storing through the caches: for addresses that are not aligned.
    #[inline(always)]
    pub(crate) fn through_caches(self) -> Self {
        Self {
            around: false,
            ..self
        }
    }

    /// Reads the next block.
    ///
    /// # Safety
    /// At least 16 bytes of the run remain.
    #[inline(always)]
    pub(crate) unsafe fn read(self) -> u128 {
        // SAFETY: the caller guarantees 16 bytes; a byte array needs no alignment.
        u128::from_le_bytes(unsafe { self.src.cast::<[u8; 16]>().read() })
    }

    /// Writes the next block.
    ///
    /// # Safety
    /// At least 16 bytes of the run remain.
    #[inline(always)]
    pub(crate) unsafe fn write(self, block: u128) {
        // SAFETY: the caller guarantees 16 bytes; a byte array needs no alignment.
        unsafe { self.dst.cast::<[u8; 16]>().write(block.to_le_bytes()) }
    }

    /// Loads the next `D` registers.
    ///
    /// # Safety
    /// The CPU has the instructions of `V`, and at least `16 · BLOCKS · D` bytes of the run remain.
    #[inline(always)]
    pub(crate) unsafe fn load<const D: usize, V: Vector>(self) -> [V; D] {
        let Prefetch { l1, l2 } = self.ahead;
        if l1 != 0 && D == DEPTH {
            unrolled!(line in 0..V::BLOCKS * D / 4 => {
                V::prefetch(self.src.wrapping_add(l1 + 64 * line));
            });
            if l2 != 0 {
                unrolled!(line in 0..V::BLOCKS * D / 4 => {
                    V::prefetch_l2(self.src.wrapping_add(l2 + 64 * line));
                });
            }
        }
        // SAFETY: the caller guarantees it, as `# Safety` requires.
        unsafe { load(self.src) }
    }

    /// Stores `x` to the next `D` registers' bytes.
    ///
    /// # Safety
    /// At least `16 · BLOCKS · D` bytes of the run remain.
    #[inline(always)]
    pub(crate) unsafe fn store<const D: usize, V: Vector>(self, x: [V; D]) {
        if self.around && D == DEPTH {
            debug_assert!(self.dst.addr().is_multiple_of(16 * V::BLOCKS));
            unrolled!(i in 0..D => {
                // SAFETY: the caller guarantees the bytes. With `around` set, every whole pass
                // begins at a multiple of the register's size, see `of` and `through_caches`.
                unsafe { x[i].store_around(self.dst.add(16 * V::BLOCKS * i)) };
            });
        } else {
            unrolled!(i in 0..D => {
                // SAFETY: the caller guarantees `16 · BLOCKS · D` bytes, and `i < D`.
                unsafe { x[i].store(self.dst.add(16 * V::BLOCKS * i)) };
            });
        }
    }

    /// Must be called when the run is finished: orders the stores around the caches.
    #[inline(always)]
    pub(crate) fn finish<V: Vector>(self) {
        if self.around {
            V::fence();
        }
    }
}

/// Loads `D` registers from `p` on.
///
/// # Safety
/// The CPU has the instructions of `V`, and `16 · BLOCKS · D` bytes at `p` are readable.
#[inline(always)]
pub(crate) unsafe fn load<const D: usize, V: Vector>(p: *const u8) -> [V; D] {
    // SAFETY: the caller guarantees that `16 · BLOCKS · D` bytes are readable.
    unsafe {
        let mut x = [V::zero(); D];
        unrolled!(i in 0..D => {
            x[i] = V::load(p.add(16 * V::BLOCKS * i));
        });
        x
    }
}

/// What a mode does to a block, given a value that belongs to that block.
pub(crate) trait Form {
    /// Processes one pass of `D` registers. `with` supplies the value for each register.
    fn crypt<const D: usize, P: Permutation, W: Beside<P::V>>(
        p: &P,
        x: [P::V; D],
        with: impl Each<P::V>,
        work: &mut W,
    ) -> [P::V; D];
}

/// P(x ⊕ tweak) ⊕ tweak, given the mask. XTS uses it, and ECB with the tweak 0.
pub(crate) struct Masked;

impl Form for Masked {
    #[inline(always)]
    fn crypt<const D: usize, P: Permutation, W: Beside<P::V>>(
        p: &P,
        x: [P::V; D],
        with: impl Each<P::V>,
        work: &mut W,
    ) -> [P::V; D] {
        p.rounds_masked(x, with, work)
    }
}

/// P(x ⊕ tweak) ⊕ tweak, given the tweak as [`Permutation::kept_with`] describes.
pub(crate) struct Kept;

impl Form for Kept {
    #[inline(always)]
    fn crypt<const D: usize, P: Permutation, W: Beside<P::V>>(
        p: &P,
        x: [P::V; D],
        with: impl Each<P::V>,
        work: &mut W,
    ) -> [P::V; D] {
        p.rounds_kept(x, with, work)
    }
}

/// P(x ⊕ tweak) ⊕ tweak, given the tweak.
pub(crate) struct Tweaked;

impl Form for Tweaked {
    #[inline(always)]
    fn crypt<const D: usize, P: Permutation, W: Beside<P::V>>(
        p: &P,
        x: [P::V; D],
        with: impl Each<P::V>,
        work: &mut W,
    ) -> [P::V; D] {
        p.rounds_tweaked(x, with, work)
    }
}

/// P(x) ⊕ previous, given the previous ciphertext block: CBC decryption.
pub(crate) struct Chained;

impl Form for Chained {
    #[inline(always)]
    fn crypt<const D: usize, P: Permutation, W: Beside<P::V>>(
        p: &P,
        mut x: [P::V; D],
        with: impl Each<P::V>,
        work: &mut W,
    ) -> [P::V; D] {
        unrolled!(i in 0..D => {
            x[i] = p.enter(x[i]);
        });
        p.rounds(x, Leaving { p, values: with }, work)
    }
}

/// P(counter) ⊕ x, given the counter with the first round key already added: CTR.
pub(crate) struct Stream;

impl Form for Stream {
    #[inline(always)]
    fn crypt<const D: usize, P: Permutation, W: Beside<P::V>>(
        p: &P,
        mut x: [P::V; D],
        with: impl Each<P::V>,
        work: &mut W,
    ) -> [P::V; D] {
        let mut entered = x;
        unrolled!(i in 0..D => {
            entered[i] = with.at(i);
            x[i] = x[i].xor(p.leave());
        });
        p.rounds(entered, x, work)
    }
}

/// Processes one pass of `D` registers.
///
/// # Safety
/// The CPU has the instructions of `P`, and at least `16 · D · BLOCKS` bytes of the run remain at
/// `at`.
#[inline(always)]
pub(crate) unsafe fn pass<const D: usize, F: Form, P: Permutation>(
    p: &P,
    with: impl Each<P::V>,
    at: Pointers,
    work: &mut impl Beside<P::V>,
) {
    // SAFETY: the caller guarantees it, as `# Safety` requires.
    unsafe {
        let x = at.load::<D, P::V>();
        at.store(F::crypt(p, x, with, work));
    }
}

/// Processes the last `bytes` bytes, fewer than a pass. Returns the value in `with` of the first
/// register that was not fully used.
///
/// # Safety
/// The CPU has the instructions of `P`, and at least `bytes` bytes remain at `at`.
#[inline(always)]
pub(crate) unsafe fn rest<F: Form, P: Permutation>(
    p: &P,
    with: [P::V; DEPTH],
    mut bytes: usize,
    mut at: Pointers,
) -> P::V {
    const { assert!(DEPTH == 8) };
    let register = 16 * P::V::BLOCKS;
    let [a, b, c, d, e, f, g, h] = with;
    let mut left = [a, b, c, d];
    // SAFETY: each step takes at most the `bytes` that remain.
    unsafe {
        if bytes >= 4 * register {
            pass::<4, F, P>(p, left, at, &mut Nothing);
            left = [e, f, g, h];
            bytes -= 4 * register;
            at = at.add(4 * register);
        }
        if bytes >= 2 * register {
            pass::<2, F, P>(p, [left[0], left[1]], at, &mut Nothing);
            left[0] = left[2];
            left[1] = left[3];
            bytes -= 2 * register;
            at = at.add(2 * register);
        }
        if bytes >= register {
            pass::<1, F, P>(p, [left[0]], at, &mut Nothing);
            left[0] = left[1];
            bytes -= register;
            at = at.add(register);
        }
        if bytes > 0 {
            // Less than a register remains: copy it to a full one on the stack.
            let mut block = [0_u128; 4];
            let copy = block.as_mut_ptr().cast::<u8>();
            at.src.copy_to_nonoverlapping(copy, bytes);
            pass::<1, F, P>(p, [left[0]], Pointers::in_place(copy), &mut Nothing);
            copy.copy_to_nonoverlapping(at.dst, bytes);
            wipe(&mut block);
        }
    }
    left[0]
}

/// [`rest`] for [`Masked`], as a separate function.
///
/// # Safety
/// As for [`rest`].
#[inline(always)]
pub(crate) unsafe fn masked_rest<P: Permutation>(
    p: &P,
    masks: [P::V; DEPTH],
    bytes: usize,
    at: Pointers,
) -> P::V {
    if bytes == 0 {
        return masks[0];
    }
    let mut copy = MaybeUninit::<[P::V; DEPTH]>::uninit();
    // SAFETY: the caller guarantees what `rest` needs; `copy` has room for all `DEPTH` masks.
    unsafe {
        // Pass a copy: taking the address of `masks` itself would keep it in memory, not in
        // registers, throughout the caller.
        unrolled!(i in 0..DEPTH => {
            copy.as_mut_ptr().cast::<P::V>().add(i).write(masks[i]);
        });
        P::V::masked_rest(p, copy.assume_init_ref(), bytes, at.src, at.dst)
    }
}

/// Overwrites secret blocks that no code will read again.
#[inline(always)]
pub(crate) fn wipe(blocks: &mut [u128; 4]) {
    *blocks = [0; 4];
    black_box(blocks);
}
