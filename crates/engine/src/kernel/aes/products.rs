// SPDX-License-Identifier: MIT OR Apache-2.0
//! Multiplication in the field of XTS by carry-less products.

use super::Registers;

/// For each exponent n below 8: 2ⁿ, and the field's reduction (see `gf128`).
#[repr(align(64))]
struct Multipliers([[u64; 2]; 8]);

static MULTIPLIERS: Multipliers = {
    let mut lanes = [[0, 0x87]; 8];
    let mut n = 0;
    while n < 8 {
        lanes[n][0] = 1 << n;
        n += 1;
    }
    Multipliers(lanes)
};

/// The entries of `MULTIPLIERS` from `i · BLOCKS` on, one for each block of a register.
///
/// # Safety
/// The CPU has the instructions.
#[inline(always)]
unsafe fn multipliers<V: Registers>(i: usize) -> V {
    let lanes = &MULTIPLIERS.0[i * V::BLOCKS..][..V::BLOCKS];
    // SAFETY: `lanes` has as many entries as a register has blocks.
    unsafe { V::load(lanes.as_ptr().cast()) }
}

/// For a register with T in every place, returns T·αⁿ, T·αⁿ⁺¹, … with n = `i · BLOCKS`, for
/// exponents below 8.
#[inline(always)]
pub(in crate::kernel) fn spread<V: Registers>(t: V, i: usize) -> V {
    // SAFETY: a value proves that the CPU has the instructions.
    mul_few(t, unsafe { multipliers(i) })
}

/// Multiplies each block by α.
#[inline(always)]
pub(in crate::kernel) fn mul_alpha_each<V: Registers>(x: V) -> V {
    // SAFETY: a value proves that the CPU has the instructions; the entry has 16 bytes.
    mul_few(x, unsafe { V::broadcast(MULTIPLIERS.0[1].as_ptr().cast()) })
}

/// Multiplies each block by αⁿ with n < 8. `by` holds an entry of `MULTIPLIERS` for each block.
#[inline(always)]
fn mul_few<V: Registers>(x: V, by: V) -> V {
    // Multiply both halves by 2ⁿ. The product of the high half moves up by half a block, and the at
    // most 7 bits that are shifted past the top are reduced.
    let low = x.clmul::<0x00>(by);
    let high = x.clmul::<0x01>(by);
    let over = high.clmul::<0x11>(by);
    low.xor(high.shl::<8>()).xor(over)
}

/// Multiplies each block by α to the power `8 · B`. `B + REST` is 16 and `B` at most 7.
#[inline(always)]
pub(in crate::kernel) fn mul_alpha_bytes<V: Registers, const B: i32, const REST: i32>(x: V) -> V {
    const { assert!(B + REST == 16 && B < 8) };
    // The at most 7 bytes that are shifted past the top are multiplied by x⁷ + x² + x + 1.
    let over = x.shr::<REST>();
    // SAFETY: a value proves that the CPU has the instructions.
    let reduced = over.clmul::<0x10>(unsafe { multipliers(0) });
    x.shl::<B>().xor(reduced)
}

/// Multiplies each block by the corresponding block of `b`.
#[inline(always)]
pub(in crate::kernel) fn mul<V: Registers>(a: V, b: V) -> V {
    // Multiply the halves to a 256-bit product. Its upper 128 bits are reduced by one
    // multiplication with the reduction, and what still exceeds 128 bits by another.
    // SAFETY: a value proves that the CPU has the instructions.
    let by = unsafe { multipliers(0) };
    let low = a.clmul::<0x00>(b);
    let middle = a.clmul::<0x01>(b).xor(a.clmul::<0x10>(b));
    let high = a.clmul::<0x11>(b).xor(middle.shr::<8>());
    let low = low.xor(middle.shl::<8>());
    let upper = high.clmul::<0x11>(by);
    let over = upper.clmul::<0x11>(by);
    let lower = high.clmul::<0x10>(by);
    low.xor(lower).xor(upper.shl::<8>().xor(over))
}
