// SPDX-License-Identifier: MIT OR Apache-2.0
//! XTS for units of whole sections, with masks from a stream of bits.
//!
//! Of the tweaks T₀, T₁ = T₀·α, … of a unit, all bits but the lowest 7 are a window of one stream of
//! bits, which moves by one bit for each block: a multiplication by α moves all bits up, and what it
//! adds goes to the lowest 8. So let Wⱼ be such a window of all 128 bits. Then, with o the highest 7
//! bits of Tⱼ, which are also those of Wⱼ:
//!
//! ```text
//! Tⱼ = Wⱼ ⊕ o ⊕ (o >> 5) ⊕ (o >> 6)                          the correction, which fits a byte
//! the next bits of the stream = Wⱼ ⊕ (Wⱼ << 1) ⊕ (Wⱼ << 2) ⊕ (Wⱼ << 7), from the highest on
//! ```
//!
//! In memory, a window that has moved by 8 bits begins a byte earlier. So the stream is stored 8
//! times, shifted by 0 to 7 bits, and each window is a load from one of these. All that is left for
//! vector instructions is to pair windows, to move the corrections to their blocks, and to add both:
//! no multiplication, and one shuffle for each register. Integer instructions make the stream, 32
//! bits at a time for 32 blocks, a *section*:
//!
//! ```text
//! for each section, of two passes:
//!     crypt a pass under masks A, and between the rounds
//!         make masks B from this section
//!         make the first half of the next section but one
//!     crypt a pass under masks B, and between the rounds
//!         make masks A from the next section
//!         make the other half
//! ```
//!
//! A section is made so early because a load that takes bytes of several stores waits until these
//! have reached the cache.
//!
//! AMD's CPUs since Zen 3 have four vector pipes, of which two do AES. The masks by carry-less
//! products that wider registers use (see [`super::xts`]) keep these two busy: a product takes both
//! of them for two cycles. On Intel's CPUs, which start two 256-bit AES instructions a cycle on two
//! of three ports, the third one is enough for what is left here.

use core::{hint::black_box, mem::MaybeUninit};

use super::{
    blocks::{Masked, Pointers, pass},
    xts::{self, InMemory},
};
use crate::kernel::vector::{Beside, DEPTH, Permutation, Vector, unrolled};

/// The number of passes in a section.
pub(crate) const PASSES: usize = 2;

/// The number of passes from which on windows are faster than products: for fewer, the beginning of a
/// stream takes too long.
const WORTH: usize = 16;

/// The operations on registers of two blocks that windows need.
pub(crate) trait Windows: Vector {
    /// Loads a block each from `first` and from `second`.
    ///
    /// # Safety
    /// The CPU has the instructions. 16 bytes at `first` and at `second` are readable and initialised,
    /// and so are the 16 bytes before `second`.
    unsafe fn load_two(first: *const u8, second: *const u8) -> Self;

    /// The corrections of a section, from the highest 64 bits of its first window at `high`. Byte
    /// 4·i + 3 − j of the first block is for the window 8·j + 2·i, and that of the second block for
    /// the one after it.
    ///
    /// # Safety
    /// The CPU has the instructions, and 8 bytes at `high` are readable.
    unsafe fn corrections(high: *const u8) -> Self;

    /// For each byte of `places`, the byte of the same block that it numbers, or 0 if it is 0x80.
    fn shuffle(self, places: Self) -> Self;

    /// Doubles an integer, which begins with its lowest word, and drops the carry. Additions with carry
    /// are fewer instructions than shifts.
    fn double(words: [u64; 3]) -> [u64; 3];

    /// Returns a pointer that the compiler does not know to be the same. Otherwise it would compute
    /// the addresses of all registers of a pass before it decides how to store them.
    fn opaque(pointer: *mut u8) -> *mut u8;
}

/// The stream of a section for each shift: the new bits, and above them those of the first window.
/// The fourth word is loaded beside a window, and not used.
type Section = [[u64; 4]; 8];

/// All memory that is used. It is not initialised beforehand, as that would take a good part of the
/// time of a short run.
#[repr(C, align(64))]
struct Memory {
    masks: [[u128; 2 * DEPTH]; 2],
    sections: [Section; 3],
}

/// The places of the corrections of each register of a section: in each block the lowest byte is a
/// correction, and the others are 0.
#[repr(align(64))]
struct Places([[[[u8; 16]; 2]; DEPTH]; PASSES]);

static PLACES: Places = {
    let mut places = [[[[0x80; 16]; 2]; DEPTH]; PASSES];
    let mut register: u8 = 0;
    while register < 16 {
        let (i, j) = (register % 4, register / 4);
        let of_register = &mut places[register as usize / DEPTH][register as usize % DEPTH];
        of_register[0][0] = 4 * i + 3 - j;
        of_register[1][0] = 4 * i + 3 - j;
        register += 1;
    }
    Places(places)
};

/// Makes sections.
struct Stream<'a> {
    tweaks: core::slice::IterMut<'a, u128>,
    sections_in_unit: usize,
    left_in_unit: usize,
    /// The section that is being made or was made last.
    section: *mut Section,
    /// The next part of it.
    words: [u64; 3],
    to: *mut [u64; 4],
}

impl Stream<'_> {
    /// Begins a section. After the last unit it is one of zeros, which is not used.
    ///
    /// # Safety
    /// A section can be written at `section`. The last one is complete.
    #[inline(always)]
    unsafe fn begin(&mut self, section: *mut Section) {
        let window = if self.left_in_unit == 0 {
            self.left_in_unit = self.sections_in_unit;
            let tweak = self.tweaks.next().map_or(0, core::mem::take);
            let tweak = u128::from_le(tweak);
            let over = tweak >> 121;
            tweak ^ over ^ (over >> 5) ^ (over >> 6)
        } else {
            // The window 32 bits after the first one.
            // SAFETY: the caller guarantees that the last section has been written.
            u128::from_le(unsafe { self.section.byte_add(4).cast::<u128>().read_unaligned() })
        };
        self.left_in_unit -= 1;
        #[expect(clippy::cast_possible_truncation, reason = "takes the two halves")]
        let (low, high) = (window as u64, (window >> 64) as u64);
        // The lowest 7 bits are wrong. Only 32 are used.
        let new = high ^ (high << 1) ^ (high << 2) ^ (high << 7);
        self.words = [new, low, high];
        self.section = section;
        self.to = section.cast();
    }

    /// Makes the stream for the next shift, before `next` enters its next round.
    ///
    /// # Safety
    /// The section is not complete.
    #[inline(always)]
    unsafe fn step<V: Windows>(&mut self, next: &mut V) {
        let words = self.words.map(u64::to_le);
        // SAFETY: the caller guarantees that the section has room for this shift.
        unsafe { self.to.cast::<[u64; 3]>().write(words) };
        self.to = self.to.wrapping_add(1);
        self.words = V::double(self.words);
        let mut low = u128::from(self.words[0]);
        V::integer_before(&mut low, next);
        #[expect(clippy::cast_possible_truncation, reason = "a word before, too")]
        let low = low as u64;
        self.words[0] = low;
    }
}

/// Makes the masks of the next pass, and half a section.
struct NextMasks<'a, P: Permutation> {
    p: &'a P,
    /// The last round key, kept in a register.
    last: P::V,
    corrections: P::V,
    places: &'static [[[u8; 16]; 2]; DEPTH],
    windows: *const u8,
    to: *mut u8,
    stream: Stream<'a>,
}

impl<P: Permutation<V: Windows>> NextMasks<'_, P> {
    /// Prepares to make the masks of a pass of `section`, and to write them to `to`.
    ///
    /// # Safety
    /// `section` is complete, and a pass of masks can be written at `to`.
    #[inline(always)]
    unsafe fn begin<const PASS: usize>(&mut self, section: *const Section, to: *mut u128) {
        // SAFETY: the caller guarantees that the section has been written. The CPU has the
        // instructions, as `p` proves.
        unsafe {
            if PASS == 0 {
                self.last = self.p.leave();
                self.corrections = P::V::corrections(section.byte_add(16).cast());
                self.last.before(&mut self.corrections);
            }
            // The first window of a section is above the 8 bytes of new bits. Those of a pass are in
            // two bytes.
            self.windows = section.byte_add(8 - 2 * PASS).cast();
        }
        self.places = &PLACES.0[PASS];
        self.to = to.cast();
    }

    /// Makes the mask of register `i`, before `next` enters its next round.
    ///
    /// # Safety
    /// `begin` has been called.
    #[inline(always)]
    unsafe fn mask(&self, i: usize, next: &mut P::V) {
        // SAFETY: register i holds the windows 8·(i / 4) + 2·(i % 4) of the pass and the next one.
        // Windows of a section are at most 3 bytes below the first one for their shift, which is 8
        // bytes above the section's begin.
        unsafe {
            let first = self.windows.add(64 * (i % 4)).sub(i / 4);
            let places = P::V::load_aligned(self.places[i].as_ptr().cast());
            let windows = P::V::load_two(first, first.add(32));
            let corrections = self.corrections.shuffle(places);
            let mut mask = windows.xor(corrections.xor(self.last));
            mask.before(next);
            mask.store(self.to.add(32 * i));
        }
    }
}

impl<P: Permutation<V: Windows>> Beside<P::V> for NextMasks<'_, P> {
    #[inline(always)]
    fn step(&mut self, i: usize, next: &mut P::V) {
        // SAFETY: `whole_passes` begins the masks before each pass, and a section before two passes.
        unsafe {
            self.mask(i, next);
            if i.is_multiple_of(2) {
                self.stream.step(next);
            }
        }
    }
}

/// Processes units of `passes` passes, whole sections, one for each of `tweaks` except the last.
///
/// # Safety
/// The CPU has the instructions of `P`, and the units' bytes remain at `at`.
#[inline(always)]
pub(crate) unsafe fn whole_passes<P: Permutation<V: Windows>>(
    p: &P,
    tweaks: &mut [u128],
    passes: usize,
    mut at: Pointers,
) {
    const { assert!(P::V::BLOCKS == 2 && DEPTH == 8) };
    if (tweaks.len() - 1) * passes < WORTH {
        // SAFETY: the caller guarantees it, as `# Safety` requires.
        return unsafe { xts::whole_passes(p, tweaks, passes, at) };
    }
    let bytes = 16 * P::V::BLOCKS * DEPTH;
    let mut left = (tweaks.len() - 1) * (passes / PASSES);
    let mut memory = MaybeUninit::<Memory>::uninit();
    // The compiler must not know this pointer, or it would keep the masks in registers, too many,
    // and store and load them more often.
    let memory = black_box(memory.as_mut_ptr());
    // SAFETY: the caller guarantees the bytes. Each section is made before masks are made of it, and
    // each mask before it is used.
    unsafe {
        let [a, b] = [0, 1].map(|i| (&raw mut (*memory).masks).cast::<u128>().add(i * 2 * DEPTH));
        let sections = (&raw mut (*memory).sections).cast::<Section>();
        let [mut used, mut next, mut made] = [0, 1, 2].map(|i| sections.add(i));
        for row in 0..3 * 8 {
            let row = sections.cast::<[u64; 4]>().add(row);
            (&raw mut (*row)[3]).write(0);
        }
        let mut none = P::V::zero();
        let mut work = NextMasks {
            p,
            last: none,
            corrections: none,
            places: &PLACES.0[0],
            windows: sections.cast(),
            to: a.cast(),
            stream: Stream {
                tweaks: tweaks.iter_mut(),
                sections_in_unit: passes / PASSES,
                left_in_unit: 0,
                section: sections,
                words: [0; 3],
                to: sections.cast(),
            },
        };
        for section in [used, next] {
            work.stream.begin(section);
            unrolled!(_i in 0..8 => {
                work.stream.step(&mut none);
            });
        }
        work.begin::<0>(used, a);
        unrolled!(i in 0..DEPTH => {
            work.mask(i, &mut none);
        });
        while left > 0 {
            at.src = P::V::opaque(at.src.cast_mut());
            at.dst = P::V::opaque(at.dst);
            work.stream.begin(made);
            work.begin::<1>(used, b);
            pass::<DEPTH, Masked, P>(p, InMemory(a), at, &mut work);
            at = at.add(bytes);
            work.begin::<0>(next, a);
            pass::<DEPTH, Masked, P>(p, InMemory(b), at, &mut work);
            at = at.add(bytes);
            (used, next, made) = (next, made, used);
            left -= 1;
        }
        memory.write_bytes(0, 1);
    }
    black_box(memory);
}
