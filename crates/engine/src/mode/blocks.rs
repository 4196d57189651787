// SPDX-License-Identifier: MIT OR Apache-2.0
//! Passes over consecutive blocks: what the modes have in common.

use core::{hint::black_box, mem::MaybeUninit};

use crate::kernel::vector::{
    Beside, DEPTH, Each, MaskedRest, Nothing, Permutation, Vector, unrolled,
};
use crate::run::{InOut, Run};

/// From this many bytes on, a separate output goes around the caches. Otherwise
/// it would push out everything else, and each of its lines would be read before
/// it is written; but a smaller output is likely to be wanted soon.
pub(crate) const AROUND_CACHES: usize = 16 << 20;

/// From this many bytes on, a buffer is not likely to be in the L1 cache, and what
/// comes later is asked for: the hardware's own prefetching is late by a few
/// hundredths even from L2, and stops at the end of each page.
const AHEAD: usize = 16 << 10;

/// From this many bytes on it is not likely to be in the L2 cache either.
const FAR_AHEAD: usize = 1 << 20;

/// How far ahead lines are wanted in the L1 cache, and how far in the L2 cache, which
/// can wait for more of them at a time: with the nearer request alone, 256 MiB took a
/// seventh longer. Some hundreds of bytes more or less matter little.
const AHEAD_L1: usize = 1536;
const AHEAD_L2: usize = 3584;

/// Where a run's bytes are read and written: one place, or two that do not overlap.
#[derive(Clone, Copy)]
pub(crate) struct Pointers {
    pub(crate) src: *const u8,
    pub(crate) dst: *mut u8,
    /// Whole passes are stored around the caches.
    around: bool,
    /// Whole passes ask for what comes [`AHEAD_L1`] bytes later.
    ahead: bool,
    /// And for what comes [`AHEAD_L2`] bytes later.
    far_ahead: bool,
}

impl Pointers {
    /// `pass` is the number of bytes in a pass of the kernel.
    pub(crate) fn of(run: &mut Run<'_>, pass: usize) -> Self {
        let len = run.len();
        let whole_passes = run.unit_len().get().is_multiple_of(pass);
        match run.io() {
            InOut::InPlace(buf) => Self {
                ahead: len >= AHEAD,
                far_ahead: len >= FAR_AHEAD,
                ..Self::in_place(buf.as_mut_ptr())
            },
            InOut::Separate { input, output } => {
                // `Run::new` saw to it; here it is what keeps writes in bounds.
                assert!(input.len() == len && output.len() == len);
                Self {
                    src: input.as_ptr(),
                    dst: output.as_mut_ptr(),
                    around: len >= AROUND_CACHES
                        && whole_passes
                        && output.as_ptr().addr().is_multiple_of(64),
                    ahead: len >= AHEAD,
                    far_ahead: len >= FAR_AHEAD,
                }
            }
        }
    }

    #[inline(always)]
    pub(crate) fn in_place(p: *mut u8) -> Self {
        Self::separate(p, p)
    }

    /// Through the caches, and with nothing asked for.
    #[inline(always)]
    pub(crate) fn separate(src: *const u8, dst: *mut u8) -> Self {
        Self {
            src,
            dst,
            around: false,
            ahead: false,
            far_ahead: false,
        }
    }

    /// Bytes outside of a run.
    ///
    /// # Panics
    /// If input and output are not of one length.
    pub(crate) fn of_bytes(buf: &mut InOut<'_>) -> Self {
        buf.assert_one_length();
        match buf {
            InOut::InPlace(buf) => Self::in_place(buf.as_mut_ptr()),
            InOut::Separate { input, output } => {
                Self::separate(input.as_ptr(), output.as_mut_ptr())
            }
        }
    }

    /// Adds `stream` to the bytes at the place.
    ///
    /// # Safety
    /// So many are left there.
    pub(crate) unsafe fn add_bytes(self, stream: &[u8]) {
        for (i, byte) in stream.iter().enumerate() {
            // SAFETY: as the caller says.
            unsafe { self.dst.add(i).write(self.src.add(i).read() ^ byte) };
        }
    }

    /// The place `bytes` further on.
    ///
    /// # Safety
    /// That is inside the run or at its end.
    #[inline(always)]
    pub(crate) unsafe fn add(self, bytes: usize) -> Self {
        // SAFETY: the caller keeps both inside their allocation.
        unsafe {
            Self {
                src: self.src.add(bytes),
                dst: self.dst.add(bytes),
                ..self
            }
        }
    }

    /// The same place, stored to through the caches: for what is not aligned.
    #[inline(always)]
    pub(crate) fn through_caches(self) -> Self {
        Self {
            around: false,
            ..self
        }
    }

    /// The block at the place.
    ///
    /// # Safety
    /// 16 bytes of the run are left there.
    #[inline(always)]
    pub(crate) unsafe fn read(self) -> u128 {
        // SAFETY: as the caller says.
        u128::from_le_bytes(unsafe { self.src.cast::<[u8; 16]>().read() })
    }

    /// Replaces the block at the place.
    ///
    /// # Safety
    /// 16 bytes of the run are left there.
    #[inline(always)]
    pub(crate) unsafe fn write(self, block: u128) {
        // SAFETY: as the caller says.
        unsafe { self.dst.cast::<[u8; 16]>().write(block.to_le_bytes()) }
    }

    /// `D` registers.
    ///
    /// # Safety
    /// The CPU has the instructions of `V`, and so many bytes of the run are left.
    #[inline(always)]
    pub(crate) unsafe fn load<const D: usize, V: Vector>(self) -> [V; D] {
        if self.ahead && D == DEPTH {
            unrolled!(line in 0..V::BLOCKS * D / 4 => {
                V::prefetch(self.src.wrapping_add(AHEAD_L1 + 64 * line));
            });
            if self.far_ahead {
                unrolled!(line in 0..V::BLOCKS * D / 4 => {
                    V::prefetch_l2(self.src.wrapping_add(AHEAD_L2 + 64 * line));
                });
            }
        }
        // SAFETY: as the caller says.
        unsafe { load(self.src) }
    }

    /// Replaces `D` registers' bytes.
    ///
    /// # Safety
    /// So many bytes of the run are left.
    #[inline(always)]
    pub(crate) unsafe fn store<const D: usize, V: Vector>(self, x: [V; D]) {
        if self.around && D == DEPTH {
            debug_assert!(self.dst.addr().is_multiple_of(16 * V::BLOCKS));
            unrolled!(i in 0..D => {
                // SAFETY: as the caller says; the run and its passes begin at
                // multiples of a register, see `of` and `through_caches`.
                unsafe { x[i].store_around(self.dst.add(16 * V::BLOCKS * i)) };
            });
        } else {
            unrolled!(i in 0..D => {
                // SAFETY: as the caller says.
                unsafe { x[i].store(self.dst.add(16 * V::BLOCKS * i)) };
            });
        }
    }

    /// To be called when the run is done.
    #[inline(always)]
    pub(crate) fn finish<V: Vector>(self) {
        if self.around {
            V::fence();
        }
    }
}

/// `D` registers from `p` on.
///
/// # Safety
/// The CPU has the instructions, and so many bytes can be read.
#[inline(always)]
pub(crate) unsafe fn load<const D: usize, V: Vector>(p: *const u8) -> [V; D] {
    // SAFETY: the caller lets `16 · BLOCKS · D` bytes be read.
    unsafe {
        let mut x = [V::zero(); D];
        unrolled!(i in 0..D => {
            x[i] = V::load(p.add(16 * V::BLOCKS * i));
        });
        x
    }
}

/// What becomes of a block, given a value that belongs to it.
pub(crate) trait Form {
    /// One pass of `D` registers, the belonging values in `with`.
    fn crypt<const D: usize, P: Permutation, W: Beside<P::V>>(
        p: &P,
        x: [P::V; D],
        with: impl Each<P::V>,
        work: &mut W,
    ) -> [P::V; D];
}

/// P(x ⊕ tweak) ⊕ tweak, given the mask: XTS, and ECB with the tweak 0.
pub(crate) struct Masked;

impl Form for Masked {
    #[inline(always)]
    fn crypt<const D: usize, P: Permutation, W: Beside<P::V>>(
        p: &P,
        mut x: [P::V; D],
        with: impl Each<P::V>,
        work: &mut W,
    ) -> [P::V; D] {
        unrolled!(i in 0..D => {
            x[i] = p.enter_masked(x[i], with.at(i));
        });
        p.rounds(x, with, work)
    }
}

/// P(x ⊕ tweak) ⊕ tweak, given the tweak.
pub(crate) struct Tweaked;

impl Form for Tweaked {
    #[inline(always)]
    fn crypt<const D: usize, P: Permutation, W: Beside<P::V>>(
        p: &P,
        mut x: [P::V; D],
        with: impl Each<P::V>,
        work: &mut W,
    ) -> [P::V; D] {
        unrolled!(i in 0..D => {
            x[i] = p.enter(x[i].xor(with.at(i)));
        });
        p.rounds(x, Leaving { p, tweaks: with }, work)
    }
}

/// The masks of tweaks.
struct Leaving<'a, P, T> {
    p: &'a P,
    tweaks: T,
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
        self.tweaks.at(i).xor(self.p.leave())
    }
}

/// P(x) ⊕ previous, given the previous block: CBC's decryption.
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
        p.rounds(x, Leaving { p, tweaks: with }, work)
    }
}

/// P(counter) ⊕ x, given the counter with the first round key added: CTR.
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

/// One pass of `D` registers.
///
/// # Safety
/// The CPU has the instructions of `P`, and `16 · D · BLOCKS` bytes of the run
/// are left at `at`.
#[inline(always)]
pub(crate) unsafe fn pass<const D: usize, F: Form, P: Permutation>(
    p: &P,
    with: impl Each<P::V>,
    at: Pointers,
    work: &mut impl Beside<P::V>,
) {
    // SAFETY: as the caller says.
    unsafe {
        let x = at.load::<D, P::V>();
        at.store(F::crypt(p, x, with, work));
    }
}

/// The last `bytes` bytes, fewer than a pass has. Returns the value that belongs
/// to the first register that was not wholly used.
///
/// # Safety
/// The CPU has the instructions of `P`, and so many bytes are left at `at`.
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
    // SAFETY: each step takes no more than there is.
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
            // Less than a register: through a full one on the stack.
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

/// [`rest`] under masks, in a function by itself.
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
    // SAFETY: as the caller says; the copy has a place for each of the masks.
    unsafe {
        // The masks themselves stay in registers: what has an address is always in memory.
        unrolled!(i in 0..DEPTH => {
            copy.as_mut_ptr().cast::<P::V>().add(i).write(masks[i]);
        });
        P::V::masked_rest(p, copy.assume_init_ref(), bytes, at.src, at.dst)
    }
}

/// Overwrites what nothing will read any more.
#[inline(always)]
pub(crate) fn wipe(blocks: &mut [u128; 4]) {
    *blocks = [0; 4];
    black_box(blocks);
}
