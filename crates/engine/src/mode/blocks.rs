// SPDX-License-Identifier: MIT OR Apache-2.0
//! Passes over consecutive blocks, each with a mask of its own: what the modes
//! have in common where no unit fills whole passes.

use crate::kernel::vector::{DEPTH, MAX_PASS, Permutation, Vector};
use crate::run::{InOut, Run};

/// Where a run's bytes are read and written: one place, or two that do not overlap.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    pub(crate) src: *const u8,
    pub(crate) dst: *mut u8,
}

impl Place {
    pub(crate) fn of(run: &mut Run<'_>) -> Self {
        match run.buf_mut() {
            InOut::InPlace(buf) => Self::in_place(buf.as_mut_ptr()),
            InOut::Separate { input, output } => Self {
                src: input.as_ptr(),
                dst: output.as_mut_ptr(),
            },
        }
    }

    #[inline(always)]
    pub(crate) fn in_place(p: *mut u8) -> Self {
        Self { src: p, dst: p }
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
            }
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
        // SAFETY: as the caller says.
        unsafe { load(self.src) }
    }

    /// Replaces `D` registers' bytes.
    ///
    /// # Safety
    /// So many bytes of the run are left.
    #[inline(always)]
    pub(crate) unsafe fn store<const D: usize, V: Vector>(self, x: [V; D]) {
        for (i, x) in x.into_iter().enumerate() {
            // SAFETY: as the caller says.
            unsafe { x.store(self.dst.add(16 * V::BLOCKS * i)) };
        }
    }
}

#[inline(always)]
unsafe fn load<const D: usize, V: Vector>(p: *const u8) -> [V; D] {
    // SAFETY: the caller lets `16 · BLOCKS · D` bytes be read.
    unsafe {
        let mut x = [V::zero(); D];
        for (i, x) in x.iter_mut().enumerate() {
            *x = V::load(p.add(16 * V::BLOCKS * i));
        }
        x
    }
}

/// `a[i] ⊕ b[i]` for all.
#[inline(always)]
pub(crate) fn xor<const D: usize, V: Vector>(mut a: [V; D], b: [V; D]) -> [V; D] {
    for (a, b) in a.iter_mut().zip(b) {
        *a = a.xor(b);
    }
    a
}

/// How masks go into a block.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// P(x ⊕ mask) ⊕ mask: XTS, and ECB with no mask.
    Xex,
    /// P(mask) ⊕ x: CTR.
    Stream,
}

/// A pass's worth of masks, each a block as it is in memory.
pub(crate) type Masks = [u128; MAX_PASS];

/// No masks.
pub(crate) const UNMASKED: Masks = [0; _];

/// One pass of `D` registers.
///
/// # Safety
/// The CPU has the instructions of `P`, `16 · D · BLOCKS` bytes of the run are
/// left at `at`, and as many can be read at `masks`.
#[inline(always)]
unsafe fn pass<const D: usize, P: Permutation>(p: &P, form: Form, masks: *const u128, at: Place) {
    // SAFETY: as the caller says.
    unsafe {
        let x = at.load::<D, P::V>();
        let masks = load::<D, P::V>(masks.cast());
        at.store(match form {
            Form::Xex => p.apply(xor(x, masks), masks),
            Form::Stream => p.apply(masks, x),
        });
    }
}

/// `masks.len()` consecutive blocks from `at` on.
///
/// # Safety
/// The CPU has the instructions of `P`, and so many blocks of the run are left
/// at `at`.
#[inline(always)]
pub(crate) unsafe fn masked<P: Permutation>(p: &P, form: Form, masks: &[u128], at: Place) {
    let width = P::V::BLOCKS;
    let mut done = 0;
    // SAFETY: each pass takes no more blocks than `masks` has left, which the
    // run has too.
    unsafe {
        while masks.len() - done >= DEPTH * width {
            pass::<DEPTH, P>(p, form, masks.as_ptr().add(done), at.add(16 * done));
            done += DEPTH * width;
        }
        if masks.len() - done >= 4 * width {
            pass::<4, P>(p, form, masks.as_ptr().add(done), at.add(16 * done));
            done += 4 * width;
        }
        if masks.len() - done >= 2 * width {
            pass::<2, P>(p, form, masks.as_ptr().add(done), at.add(16 * done));
            done += 2 * width;
        }
        if masks.len() - done >= width {
            pass::<1, P>(p, form, masks.as_ptr().add(done), at.add(16 * done));
            done += width;
        }
    }
    let rest = masks.len() - done;
    if rest > 0 {
        // SAFETY: `rest` blocks are left at `at`, fewer than a register has.
        unsafe { partial(p, form, &masks[done..], at.add(16 * done)) };
    }
}

/// Fewer blocks than one register has: through a full one on the stack.
///
/// # Safety
/// As for [`masked`]; there are less than `BLOCKS` masks.
#[inline(always)]
unsafe fn partial<P: Permutation>(p: &P, form: Form, masks: &[u128], at: Place) {
    let mut blocks = [0_u128; 4];
    let mut padded = [0_u128; 4];
    padded[..masks.len()].copy_from_slice(masks);
    let bytes = blocks.as_mut_ptr().cast::<u8>();
    // SAFETY: the arrays have a full register's blocks.
    unsafe {
        at.src.copy_to_nonoverlapping(bytes, 16 * masks.len());
        pass::<1, P>(p, form, padded.as_ptr(), Place::in_place(bytes));
        bytes.copy_to_nonoverlapping(at.dst, 16 * masks.len());
    }
}

/// One block by itself, as a little-endian integer: P(x ⊕ mask) ⊕ mask.
///
/// # Safety
/// The CPU has the instructions of `P`.
#[inline(always)]
pub(crate) unsafe fn single<P: Permutation>(p: &P, x: u128, mask: u128) -> u128 {
    let mut block = [x.to_le(), 0, 0, 0];
    let masks = [mask.to_le(), 0, 0, 0];
    // SAFETY: the arrays have a full register's blocks.
    unsafe {
        pass::<1, P>(
            p,
            Form::Xex,
            masks.as_ptr(),
            Place::in_place(block.as_mut_ptr().cast()),
        );
    }
    u128::from_le(block[0])
}
