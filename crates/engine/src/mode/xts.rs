// SPDX-License-Identifier: MIT OR Apache-2.0
//! XTS-AES: IEEE 1619-2007, section 5, with ciphertext stealing (5.3.2, 5.4.2).
//!
//! The tweak of a data unit is T, its encrypted number; block j is masked with T·αʲ before and
//! after AES. Data cannot be encrypted before T is known, so a single unit waits twice for the
//! latency of AES. Many units are therefore processed together:
//!
//! ```text
//! for each batch of up to BATCH units:
//!     encrypt all their numbers, one pass of them at a time    → T[0..n]
//!     units of whole passes (of 512 bytes with 512-bit registers):
//!         masks = those of T[0]·(α⁰ … αᵖ⁻¹), p blocks in a pass
//!         for each unit, for each pass in it:
//!             crypt p blocks, and between the rounds make the next masks:
//!                 inside the unit, masks·αᵖ, register by register
//!                 at its end, those of the next unit's T
//!         (256-bit registers, an even number of passes, 16 and more in all: the
//!         masks are windows of a stream of bits, see `windows`)
//!     units of one block: each T is used unchanged
//!     other units of whole blocks, and all where a register has one block:
//!         they are contiguous, so their blocks are one sequence:
//!         crypt p blocks, and between the rounds make p tweaks for a later
//!         pass in integer registers, across the borders of units
//!     long units that end with part of a pass: one at a time
//!     units that end with part of a block: one at a time, except the block
//!     that is completed, which is done for all units together
//! ```
//!
//! So AES never waits for a mask, and the instructions that make masks use the execution slots that
//! AES leaves free. Those slots decide the speed (according to the instruction tables of uops.info,
//! confirmed by measurement):
//!
//! - Intel CPUs with 512-bit registers start one AES instruction a cycle, on port 0. Any other
//!   instruction that runs on that port costs a cycle; shifts by bit counts and GF(2⁸) affine maps
//!   do. Byte shifts and carry-less products run on port 5, XORs on either, so masks are made of
//!   those alone. The first masks of a unit are products of T with 2ⁿ. A separate bit shift for
//!   each lane would need VBMI to avoid port 0, and is no faster.
//! - With 128-bit registers these CPUs start two AES instructions a cycle, on ports 0 and 1, which
//!   leaves five slots of port 5 for the ten rounds of a block. Making masks in vector registers
//!   needs seven. The integer units are idle meanwhile: doubling there takes five instructions, and
//!   AES runs at its limit.
//! - `AArch64` CPUs execute an AES instruction and the one that mixes its columns as one, in two or
//!   four vector units, and have as many integer units beside them. So all that can be done there is:
//!   doubling takes three instructions, and adding the first round key to the tweak two.
//! - A multiplication of integers in wide registers, even one per call, lowers the core's clock for
//!   a while, in 512-bit registers by 5 to 8 per cent. Carry-less products do not. The numbers are
//!   therefore computed by additions only.
//! - Tweaks that pass from integer registers to vectors through memory must be made some passes
//!   ahead: a load of 16 bytes from two stores of 8 waits until these stores have reached the
//!   cache.
//!
//! All of it is constant-time.

use core::{hint::black_box, marker::PhantomData, mem::MaybeUninit};

use super::blocks::{Kept, Masked, Pointers, Tweaked, load, masked_rest, pass, wipe};
use crate::{
    gf128::div_alpha,
    kernel::vector::{Beside, DEPTH, Each, MAX_PASS, Nothing, Permutation, Vector, unrolled},
    run::{DataUnitNumber, Run},
};

/// The number of units whose numbers are encrypted together: enough to fill every pass, and few
/// enough to stay in the L1 cache.
const BATCH: usize = 128;

/// The tweaks of a batch as they are stored in memory, and one extra entry. The masks after the
/// last unit are made from it and never used.
///
/// It is not cleared beforehand, and each entry is overwritten as it is used: a pass over all
/// entries would take a good part of the time of a short run.
#[repr(align(64))]
struct Tweaks(MaybeUninit<[u128; BATCH + 1]>);

impl Tweaks {
    #[inline(always)]
    fn as_mut_ptr(&mut self) -> *mut u128 {
        self.0.as_mut_ptr().cast()
    }

    /// The first `count` tweaks.
    ///
    /// # Safety
    /// They have been written, and `count <= BATCH + 1`.
    #[inline(always)]
    unsafe fn first(&mut self, count: usize) -> &mut [u128] {
        debug_assert!(count <= BATCH + 1);
        // SAFETY: the caller guarantees that `count` entries of the array have been written.
        unsafe { core::slice::from_raw_parts_mut(self.as_mut_ptr(), count) }
    }
}

/// # Safety
/// The CPU has the instructions of `E` and `P`, and the unit length is at least 16.
#[inline(always)]
pub(crate) unsafe fn encrypt<E: Permutation<V: WholePasses>, P: Permutation<V = E::V>>(
    tweak: &E,
    data: &P,
    run: &mut Run<'_>,
) {
    // SAFETY: the caller guarantees it, as `# Safety` requires.
    unsafe { crypt::<false, E, P>(tweak, data, run) }
}

/// As [`encrypt`]; `data` is the inverse permutation.
///
/// # Safety
/// As for [`encrypt`].
#[inline(always)]
pub(crate) unsafe fn decrypt<E: Permutation<V: WholePasses>, P: Permutation<V = E::V>>(
    tweak: &E,
    data: &P,
    run: &mut Run<'_>,
) {
    // SAFETY: the caller guarantees it, as `# Safety` requires.
    unsafe { crypt::<true, E, P>(tweak, data, run) }
}

#[inline(always)]
unsafe fn crypt<const DECRYPT: bool, E: Permutation<V: WholePasses>, P: Permutation<V = E::V>>(
    tweak: &E,
    data: &P,
    run: &mut Run<'_>,
) {
    let pass_bytes = 16 * P::V::BLOCKS * DEPTH;
    let section_bytes = pass_bytes * P::V::SECTION;
    let (first, stride, unit_len) = (run.first(), run.stride(), run.unit_len().get());
    let units = run.units();
    let mut at = Pointers::from_run(run, pass_bytes, P::V::prefetch_ahead());
    let mut tweaks = Tweaks(MaybeUninit::uninit());
    let mut done = 0;
    while done < units {
        let count = BATCH.min(units - done);
        // SAFETY: `at` is at unit `done`, and the run has at least `done + count` units.
        unsafe {
            let first = first.step(done as u64, stride);
            let made = encrypt_numbers(tweak, first, stride, count, &mut tweaks);
            let used = if unit_len == 16 {
                count.next_multiple_of(pass_bytes / 16)
            } else {
                count + 1
            };
            // Overwrite the tweaks of units beyond the batch, and initialise those that are read
            // but were not made.
            for unused in count..made.max(used) {
                tweaks.as_mut_ptr().add(unused).write(0);
            }
            // With one block per register, the integer units make tweaks as fast as AES needs them.
            // With wider registers they are a little slower, but for short units this still beats
            // handling the partial pass of each unit.
            let one_by_one = P::V::BLOCKS == 1
                || (unit_len < 4 * pass_bytes && !unit_len.is_multiple_of(section_bytes));
            if unit_len == 16 {
                single_blocks(data, &mut tweaks, count, at);
            } else if one_by_one && unit_len.is_multiple_of(16) {
                side_by_side(data, tweaks.first(count + 1), unit_len / 16, at);
            } else if !unit_len.is_multiple_of(16) {
                for (i, some) in tweaks.first(count).chunks_mut(MAX_PASS).enumerate() {
                    let at = at.add(i * MAX_PASS * unit_len);
                    stealing_units::<DECRYPT, P>(data, some, unit_len, at);
                }
            } else if P::V::BLOCKS > 1 && unit_len.is_multiple_of(section_bytes) {
                let passes = unit_len / pass_bytes;
                P::V::whole_passes(data, tweaks.first(count + 1), passes, at);
            } else {
                for (i, t) in tweaks.first(count).iter_mut().enumerate() {
                    whole_blocks(data, t, unit_len, at.add(i * unit_len));
                }
            }
            at = at.add(unit_len * count);
        }
        done += count;
    }
    at.finish::<P::V>();
    // Keeps the zeros written over the tweaks, which the compiler would drop as nothing reads them.
    black_box(&mut tweaks);
}

/// Makes the tweaks of `count` consecutive units, and of some more to fill the last registers.
/// Returns the number of tweaks made.
///
/// # Safety
/// The CPU has the instructions of `E`.
#[inline(always)]
unsafe fn encrypt_numbers<E: Permutation>(
    tweak: &E,
    first: DataUnitNumber,
    stride: u64,
    count: usize,
    tweaks: &mut Tweaks,
) -> usize {
    const { assert!(BATCH.is_multiple_of(MAX_PASS)) };
    let width = E::V::BLOCKS;
    let low = first.low();
    // The number of a single unit may be secret: that of a part of a unit is (`CpuKey::number_of`).
    let wraps = count > 1
        && stride
            .checked_mul(BATCH as u64)
            .is_none_or(|all| low.checked_add(all).is_none());
    let p = tweaks.as_mut_ptr().cast::<u8>();
    if wraps {
        // The vector addition does not carry from the low half to the high half.
        let mut number = first;
        for i in 0..count.next_multiple_of(DEPTH * width) {
            // IEEE 1619-2007, 5.1: the number is little-endian in memory.
            // SAFETY: `i < BATCH`, since a batch is a multiple of a pass.
            unsafe { p.cast::<u128>().add(i).write(number.get().to_le()) };
            number = number.step(1, stride);
        }
        let mut done = 0;
        while done < count {
            // SAFETY: `done` stays a multiple of a pass, and so does `BATCH`.
            unsafe {
                let at = p.add(16 * done);
                store(encrypt_numbers_of(tweak, load::<DEPTH, E::V>(at)), at);
            }
            done += DEPTH * width;
        }
        return done;
    }
    // SAFETY: the caller guarantees the instructions. `BATCH` is a multiple of a pass, so every
    // store stays inside `tweaks`.
    unsafe {
        let mut numbers = E::V::count(first.get(), stride);
        let step = stride.wrapping_mul(width as u64);
        let mut done = 0;
        while count - done > 4 * width {
            let x = consecutive::<DEPTH, E::V>(&mut numbers, step);
            store(encrypt_numbers_of(tweak, x), p.add(16 * done));
            done += DEPTH * width;
            if done >= count {
                return done;
            }
        }
        let p = p.add(16 * done);
        if count - done > 2 * width {
            let x = consecutive::<4, E::V>(&mut numbers, step);
            store(encrypt_numbers_of(tweak, x), p);
            done + 4 * width
        } else if count - done > width {
            let x = consecutive::<2, E::V>(&mut numbers, step);
            store(encrypt_numbers_of(tweak, x), p);
            done + 2 * width
        } else {
            store(encrypt_numbers_of(tweak, [numbers]), p);
            done + width
        }
    }
}

/// Returns `D` registers of numbers, each `step` after the one before, and advances `numbers`.
#[inline(always)]
fn consecutive<const D: usize, V: Vector>(numbers: &mut V, step: u64) -> [V; D] {
    let mut x = [*numbers; D];
    unrolled!(i in 0..D => {
        x[i] = *numbers;
        *numbers = numbers.add_low(step);
        // Without this, the compiler multiplies `step` by 6, which lowers the clock (see the head
        // of this file).
        numbers.before(&mut x[i]);
    });
    x
}

#[inline(always)]
fn encrypt_numbers_of<const D: usize, E: Permutation>(e: &E, mut x: [E::V; D]) -> [E::V; D] {
    unrolled!(i in 0..D => {
        x[i] = e.enter(x[i]);
    });
    e.rounds(x, [e.leave(); D], &mut Nothing)
}

/// # Safety
/// `16 · BLOCKS · D` bytes at `p` are writable.
#[inline(always)]
unsafe fn store<const D: usize, V: Vector>(x: [V; D], p: *mut u8) {
    unrolled!(i in 0..D => {
        // SAFETY: the caller guarantees `16 · BLOCKS · D` bytes, and `i < D`.
        unsafe { x[i].store(p.add(16 * V::BLOCKS * i)) };
    });
}

/// Makes the masks of the next pass in the same unit, register by register.
struct NextPass<'a, P: Permutation> {
    p: &'a P,
    masks: [P::V; DEPTH],
}

impl<P: Permutation> Beside<P::V> for NextPass<'_, P> {
    #[inline(always)]
    fn step(&mut self, i: usize, next: &mut P::V) {
        self.masks[i] = self.p.mask_mul_pass(self.masks[i]);
        self.masks[i].before(next);
    }
}

/// Makes the first masks of a unit, register by register. Overwrites the unit's tweak with 0.
struct FirstPass<'a, P: Permutation> {
    p: &'a P,
    t: P::V,
    masks: [P::V; DEPTH],
}

impl<'a, P: Permutation> FirstPass<'a, P> {
    /// # Safety
    /// The CPU has the instructions of `P`.
    #[inline(always)]
    unsafe fn new(p: &'a P, tweak: &mut u128) -> Self {
        // SAFETY: the caller guarantees it, as `# Safety` requires.
        let t = unsafe { P::V::broadcast(core::ptr::from_ref(tweak).cast()) };
        *tweak = 0;
        Self {
            p,
            t,
            masks: [t; DEPTH],
        }
    }

    #[inline(always)]
    fn all(mut self) -> [P::V; DEPTH] {
        let mut t = self.t;
        unrolled!(i in 0..DEPTH => {
            self.step(i, &mut t);
        });
        self.masks
    }
}

impl<P: Permutation> Beside<P::V> for FirstPass<'_, P> {
    #[inline(always)]
    fn step(&mut self, i: usize, next: &mut P::V) {
        // `spread` makes the exponents below 8; every further register is α⁸ times an earlier one.
        let in_a_byte = 8 / P::V::BLOCKS;
        self.masks[i] = if i < in_a_byte {
            self.t.spread(i).xor(self.p.leave())
        } else {
            self.p.mask_mul_alpha8(self.masks[i - in_a_byte])
        };
        self.masks[i].before(next);
    }
}

/// How registers of this kind process units of whole passes. `vaes256` has a way of its own.
pub(crate) trait WholePasses: Vector {
    /// The number of passes that [`WholePasses::whole_passes`] takes together.
    const SECTION: usize = 1;

    /// Processes units of `passes` whole passes, a multiple of `SECTION`, one for each of `tweaks`
    /// except the last.
    ///
    /// # Safety
    /// The CPU has the instructions of `P`, and the units' bytes remain at `at`.
    #[inline(always)]
    unsafe fn whole_passes<P: Permutation<V = Self>>(
        p: &P,
        tweaks: &mut [u128],
        passes: usize,
        at: Pointers,
    ) {
        // SAFETY: the caller guarantees it, as `# Safety` requires.
        unsafe { whole_passes(p, tweaks, passes, at) }
    }
}

/// [`WholePasses::whole_passes`] for any register.
///
/// # Safety
/// The CPU has the instructions of `P`, and the units' bytes remain at `at`.
#[inline(always)]
pub(crate) unsafe fn whole_passes<P: Permutation>(
    p: &P,
    tweaks: &mut [u128],
    passes: usize,
    mut at: Pointers,
) {
    let bytes = 16 * P::V::BLOCKS * DEPTH;
    // SAFETY: the caller guarantees it, as `# Safety` requires.
    unsafe {
        let mut tweaks = tweaks.iter_mut();
        let Some(first) = tweaks.next() else { return };
        let mut masks = FirstPass::new(p, first).all();
        for next_unit in tweaks {
            for _ in 1..passes {
                let mut next = NextPass { p, masks };
                pass::<DEPTH, Masked, P>(p, masks, at, &mut next);
                masks = next.masks;
                at = at.add(bytes);
            }
            let mut next = FirstPass::new(p, next_unit);
            pass::<DEPTH, Masked, P>(p, masks, at, &mut next);
            masks = next.masks;
            at = at.add(bytes);
        }
    }
}

/// Processes `count` units of one block. Each tweak is used once, unchanged.
///
/// # Safety
/// The CPU has the instructions of `P`, whole passes of `tweaks` have been written, and `count`
/// blocks remain at `at`.
#[inline(always)]
unsafe fn single_blocks<P: Permutation>(
    p: &P,
    tweaks: &mut Tweaks,
    mut count: usize,
    mut at: Pointers,
) {
    let pass_blocks = DEPTH * P::V::BLOCKS;
    let mut tweaks = tweaks.as_mut_ptr();
    // SAFETY: the caller guarantees the blocks and tweaks; a batch is a multiple of a pass.
    unsafe {
        while count >= pass_blocks {
            pass::<DEPTH, Tweaked, P>(p, InMemory(tweaks), at, &mut Nothing);
            store([P::V::zero(); DEPTH], tweaks.cast());
            at = at.add(16 * pass_blocks);
            tweaks = tweaks.add(pass_blocks);
            count -= pass_blocks;
        }
        if count > 0 {
            masked_rest(p, masks_of(p, tweaks), 16 * count, at);
            store([P::V::zero(); DEPTH], tweaks.cast());
        }
    }
}

/// The masks of a pass of tweaks.
///
/// # Safety
/// The CPU has the instructions of `P`, and `DEPTH · BLOCKS` tweaks at `tweaks` are readable.
#[inline(always)]
unsafe fn masks_of<P: Permutation>(p: &P, tweaks: *const u128) -> [P::V; DEPTH] {
    // SAFETY: the caller guarantees it, as `# Safety` requires.
    let mut masks = unsafe { load::<DEPTH, P::V>(tweaks.cast()) };
    unrolled!(i in 0..DEPTH => {
        masks[i] = masks[i].xor(p.leave());
    });
    masks
}

/// Processes units of any whole number of blocks as one sequence of blocks. Their tweaks are made
/// one by one in integer registers.
///
/// # Safety
/// The CPU has the instructions of `P`, and `blocks` blocks for each of `tweaks` except the last
/// remain at `at`.
#[inline(always)]
unsafe fn side_by_side<P: Permutation>(
    p: &P,
    tweaks: &mut [u128],
    blocks: usize,
    mut at: Pointers,
) {
    let pass_blocks = DEPTH * P::V::BLOCKS;
    let mut left = (tweaks.len() - 1) * blocks;
    let mut ring = Ring(MaybeUninit::uninit());
    let ring = ring.0.as_mut_ptr().cast::<u128>();
    let mut tweaks = tweaks.iter_mut();
    let mut next = Sequence {
        t: tweaks.next().map_or(0, take),
        left_in_unit: blocks,
        blocks,
        units: tweaks,
        to: ring,
        kept_with: p.kept_with(),
        registers: PhantomData::<P::V>,
    };
    // SAFETY: the caller guarantees the blocks; `slot <= PASSES_AHEAD`, and the ring has
    // `PASSES_AHEAD + 1` passes.
    unsafe {
        let mut none = P::V::zero();
        for i in 0..PASSES_AHEAD * DEPTH {
            next.step(i, &mut none);
        }
        let mut slot = 0;
        let in_loop = &p.in_loop();
        while left >= pass_blocks {
            next.to = ring.add((slot + PASSES_AHEAD) % (PASSES_AHEAD + 1) * pass_blocks);
            let tweaks = InMemory(ring.add(slot * pass_blocks));
            if next.left_in_unit >= pass_blocks {
                let mut doubling = Doubling::<P::V> {
                    t: next.t,
                    to: next.to,
                    kept_with: next.kept_with,
                    registers: PhantomData,
                };
                pass::<DEPTH, Kept, P::InLoop>(in_loop, tweaks, at, &mut doubling);
                next.t = doubling.t;
                next.left_in_unit -= pass_blocks;
                if next.left_in_unit == 0 {
                    next.begin_unit();
                }
            } else {
                pass::<DEPTH, Kept, P::InLoop>(in_loop, tweaks, at, &mut next);
            }
            at = at.add(16 * pass_blocks);
            left -= pass_blocks;
            slot = (slot + 1) % (PASSES_AHEAD + 1);
        }
        let mut masks = load::<DEPTH, P::V>(ring.add(slot * pass_blocks).cast());
        unrolled!(i in 0..DEPTH => {
            masks[i] = p.leave_kept(masks[i]);
        });
        masked_rest(p, masks, 16 * left, at);
        for pass in 0..=PASSES_AHEAD {
            store([P::V::zero(); DEPTH], ring.add(pass * pass_blocks).cast());
        }
    }
    black_box(ring);
}

/// How many passes ahead of AES the tweaks are made. See the head of this file.
const PASSES_AHEAD: usize = 3;

/// The tweaks of the pass in AES and of the passes made ahead.
#[repr(align(64))]
struct Ring(MaybeUninit<[u128; (PASSES_AHEAD + 1) * MAX_PASS]>);

/// A pass of tweaks in memory, aligned for registers. It is part of a [`Ring`] or [`Tweaks`],
/// or the masks of a pass of [`windows`](super::windows).
#[derive(Clone, Copy)]
pub(super) struct InMemory(pub(super) *const u128);

impl<V: Vector> Each<V> for InMemory {
    #[inline(always)]
    fn at(self, i: usize) -> V {
        debug_assert!(self.0.addr().is_multiple_of(16 * V::BLOCKS));
        // SAFETY: it is only ever made of a whole pass, in a `Ring`, in `Tweaks` or in masks of
        // `windows`, and `i < DEPTH`.
        unsafe { V::load_aligned(self.0.add(i * V::BLOCKS).cast()) }
    }
}

/// Makes tweaks one after the other, across the borders of units.
struct Sequence<'a, V> {
    t: u128,
    left_in_unit: usize,
    blocks: usize,
    units: core::slice::IterMut<'a, u128>,
    /// The pass in a [`Ring`] that is being filled.
    to: *mut u128,
    /// What is added to each tweak there.
    kept_with: u128,
    registers: PhantomData<V>,
}

impl<V> Sequence<'_, V> {
    #[inline(always)]
    fn begin_unit(&mut self) {
        self.t = self.units.next().map_or(0, take);
        self.left_in_unit = self.blocks;
    }
}

impl<V: Vector> Beside<V> for Sequence<'_, V> {
    #[inline(always)]
    fn step(&mut self, i: usize, _: &mut V) {
        unrolled!(block in 0..V::BLOCKS => {
            // SAFETY: `to` is a whole pass, and `i < DEPTH`.
            unsafe { self.to.add(i * V::BLOCKS + block).write((self.t ^ self.kept_with).to_le()) };
            self.left_in_unit -= 1;
            if self.left_in_unit == 0 {
                self.begin_unit();
            } else {
                self.t = V::mul_alpha(self.t);
            }
        });
    }
}

/// As [`Sequence`], but within one unit, and so without a branch per block.
struct Doubling<V> {
    t: u128,
    to: *mut u128,
    kept_with: u128,
    registers: PhantomData<V>,
}

impl<V: Vector> Beside<V> for Doubling<V> {
    #[inline(always)]
    fn step(&mut self, i: usize, next: &mut V) {
        unrolled!(block in 0..V::BLOCKS => {
            // SAFETY: `to` is a whole pass, and `i < DEPTH`.
            unsafe { self.to.add(i * V::BLOCKS + block).write((self.t ^ self.kept_with).to_le()) };
            self.t = V::mul_alpha(self.t);
        });
        V::integer_before(&mut self.t, next);
    }
}

/// Returns a tweak and overwrites it with 0.
#[inline(always)]
fn take(t: &mut u128) -> u128 {
    u128::from_le(core::mem::take(t))
}

/// Processes a unit of any whole number of blocks, or the whole blocks of a longer unit. Returns
/// the register of masks that contains the mask of the next block.
///
/// # Safety
/// The CPU has the instructions of `P`, and `len` bytes, a multiple of 16, remain at `at`.
#[inline(always)]
unsafe fn whole_blocks<P: Permutation>(
    p: &P,
    t: &mut u128,
    mut len: usize,
    mut at: Pointers,
) -> P::V {
    let bytes = 16 * P::V::BLOCKS * DEPTH;
    // SAFETY: the caller guarantees it, as `# Safety` requires.
    unsafe {
        let mut masks = FirstPass::new(p, t).all();
        while len >= bytes {
            let mut next = NextPass { p, masks };
            pass::<DEPTH, Masked, P>(p, masks, at, &mut next);
            masks = next.masks;
            at = at.add(bytes);
            len -= bytes;
        }
        masked_rest(p, masks, len, at)
    }
}

/// Processes units that end with part of a block: up to a pass of units, with a tweak each.
///
/// The last whole block results in a block C. The first bytes of C become the output's partial
/// block. The rest of C completes the input's partial block, and the result of this completed block
/// is stored where C would be. When encrypting, C is made like all other blocks, and the completed
/// block has the next tweak. When decrypting, the two tweaks are exchanged (5.4.2). The block
/// operations beyond the whole blocks are done for all units together.
///
/// # Safety
/// The CPU has the instructions of `P`, and `tweaks.len()` units of `unit_len` bytes, not a
/// multiple of 16, remain at `at`.
#[inline(always)]
unsafe fn stealing_units<const DECRYPT: bool, P: Permutation>(
    p: &P,
    tweaks: &mut [u128],
    unit_len: usize,
    at: Pointers,
) {
    let (count, tail) = (tweaks.len(), unit_len % 16);
    let whole = unit_len - tail;
    let mut blocks = [0_u128; MAX_PASS];
    let mut lenders = [0_u128; MAX_PASS];
    let mut takers = [0_u128; MAX_PASS];
    // SAFETY: the caller guarantees the units. Each byte is read before it is written, so input and
    // output may be the same memory.
    unsafe {
        for (i, t) in tweaks.iter_mut().enumerate() {
            let at = at.add(i * unit_len);
            if DECRYPT {
                blocks[i] = at.add(whole - 16).read().to_le();
            }
            let mask = whole_blocks(p, t, whole, at);
            let mut register = [0_u128; 4];
            mask.xor(p.leave()).store(register.as_mut_ptr().cast());
            let next = u128::from_le(register[whole / 16 % P::V::BLOCKS]);
            wipe(&mut register);
            lenders[i] = next.to_le();
            takers[i] = if DECRYPT { div_alpha(next) } else { next }.to_le();
        }
        if DECRYPT {
            apart(p, &mut blocks, &lenders, count);
        }
        for (i, block) in blocks[..count].iter_mut().enumerate() {
            let at = at.add(i * unit_len + whole - 16);
            if !DECRYPT {
                *block = Pointers::in_place(at.dst).read().to_le();
            }
            let mut lent = block.to_ne_bytes();
            let mut last = lent;
            at.add(16)
                .src
                .copy_to_nonoverlapping(last.as_mut_ptr(), tail);
            lent.as_ptr().copy_to_nonoverlapping(at.add(16).dst, tail);
            *block = u128::from_ne_bytes(last);
            for copy in [&mut lent, &mut last] {
                *copy = [0; 16];
                black_box(copy);
            }
        }
        apart(p, &mut blocks, &takers, count);
        for (i, block) in blocks[..count].iter().enumerate() {
            let at = at.add(i * unit_len + whole - 16);
            at.write(u128::from_le(*block));
        }
    }
    for array in [&mut blocks, &mut lenders, &mut takers] {
        *array = [0; _];
        black_box(array);
    }
}

/// Processes `count` blocks apart from their units, each with its own tweak, as they are stored in
/// memory.
///
/// # Safety
/// The CPU has the instructions of `P`.
#[inline(always)]
unsafe fn apart<P: Permutation>(
    p: &P,
    blocks: &mut [u128; MAX_PASS],
    tweaks: &[u128; MAX_PASS],
    count: usize,
) {
    let pass_blocks = DEPTH * P::V::BLOCKS;
    let blocks = blocks.as_mut_ptr();
    let mut done = 0;
    // SAFETY: `blocks` and `tweaks` have `MAX_PASS` entries, a whole number of passes.
    unsafe {
        while done < count {
            let at = Pointers::in_place(blocks.add(done).cast());
            let masks = masks_of(p, tweaks.as_ptr().add(done));
            if count - done > pass_blocks / 2 {
                pass::<DEPTH, Masked, P>(p, masks, at, &mut Nothing);
            } else {
                masked_rest(p, masks, 16 * (count - done), at);
            }
            done += pass_blocks;
        }
    }
}
