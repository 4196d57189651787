// SPDX-License-Identifier: MIT OR Apache-2.0
//! Multiplication by powers of α in the field of XTS: GF(2¹²⁸) modulo
//! x¹²⁸ + x⁷ + x² + x + 1, with α = x (IEEE 1619-2007, 5.2).
//!
//! An element is a `u128` in which bit *k* is the coefficient of xᵏ: the 16 bytes of a tweak as a
//! little-endian integer.
//!
//! | to get | in constant time | by secret-indexed table |
//! |---|---|---|
//! | T·α | [`mul_alpha`] | |
//! | T/α | [`div_alpha`] | |
//! | T·α⁸ | [`mul_alpha8`] | [`mul_alpha8_table`] |
//! | T·α³² | [`mul_alpha32`] | |
//! | T·α¹²⁸ | [`mul_alpha128`] | [`mul_alpha128_table`] |
//! | T·αʲ | [`mul_alpha_pow`] | |
//! | T·U | [`mul`] | |
//!
//! The table forms are Algorithms 2 and 3 of An & Seo, "Designing a New XTS-AES Parallel
//! Optimization Implementation Technique for Fast File Encryption", IEEE Access 10, 2022. Their
//! memory accesses depend on the tweak, which is secret. They exist to reproduce that paper; no
//! code that encrypts calls them.

use core::hint::black_box;

/// The field's reduction: x¹²⁸ = x⁷ + x² + x + 1.
const REDUCTION: u128 = 0x87;

/// Returns `t`·α in constant time: Algorithm 1 of An & Seo without its branch on a secret.
#[must_use]
pub const fn mul_alpha(t: u128) -> u128 {
    (t << 1) ^ ((t >> 127) * REDUCTION)
}

/// Returns `t`/α, the inverse of [`mul_alpha`], in constant time.
#[must_use]
pub const fn div_alpha(t: u128) -> u128 {
    // If α shifted bit 127 out, it also added the reduction, which set bit 0: undo both.
    (t >> 1) ^ (mask(t & 1) & ((REDUCTION >> 1) | (1 << 127)))
}

/// Returns all ones for 1 and all zeros for 0. `black_box` hides from the compiler that the secret
/// `bit` has only two values; without it, the compiler turned the expression in [`div_alpha`] into
/// a conditional move. The product in [`mul_alpha`] needs no mask: it compiles to shifts.
#[expect(clippy::cast_possible_truncation, reason = "one bit")]
const fn mask(bit: u128) -> u128 {
    (black_box(bit as u8) as u128).wrapping_neg()
}

/// Returns `t`·α⁸ in constant time.
#[must_use]
pub const fn mul_alpha8(t: u128) -> u128 {
    (t << 8) ^ times_reduction(t >> 120)
}

/// Returns `t`·α³² in constant time.
#[must_use]
pub const fn mul_alpha32(t: u128) -> u128 {
    (t << 32) ^ times_reduction(t >> 96)
}

/// Returns `t`·α¹²⁸ in constant time.
#[must_use]
pub const fn mul_alpha128(t: u128) -> u128 {
    // α¹²⁸ is the reduction itself, so this is t·(x⁷ + x² + x + 1), the sum of four shifts. They
    // move at most 7 bits past the top.
    let over = (t >> 127) ^ (t >> 126) ^ (t >> 121);
    times_reduction(t) ^ times_reduction(over)
}

/// Returns `t`·(x⁷ + x² + x + 1) without the bits that are shifted past the top.
const fn times_reduction(t: u128) -> u128 {
    t ^ (t << 1) ^ (t << 2) ^ (t << 7)
}

/// Returns `t`·αʲ with a multiplication for each bit that is set in `j`. The time depends on `j` only.
#[must_use]
pub const fn mul_alpha_pow(t: u128, j: u128) -> u128 {
    let mut result = t;
    let mut rest = j;
    while rest != 0 {
        result = mul(result, ALPHA_POWERS[rest.trailing_zeros() as usize]);
        rest &= rest - 1;
    }
    result
}

/// Entry *k* is α to the power 2ᵏ.
const ALPHA_POWERS: [u128; 128] = {
    let mut powers = [2; 128];
    let mut k = 1;
    while k < powers.len() {
        powers[k] = mul(powers[k - 1], powers[k - 1]);
        k += 1;
    }
    powers
};

/// Returns `a`·`b` in constant time.
#[must_use]
pub const fn mul(a: u128, b: u128) -> u128 {
    let mut product = 0;
    let mut bit = 128;
    while bit > 0 {
        bit -= 1;
        product = mul_alpha(product) ^ (a & ((b >> bit) & 1).wrapping_neg());
    }
    product
}

/// An & Seo's Table 2: entry `n` is n·(x⁷ + x² + x + 1), the value that a byte `n` contributes when
/// it is shifted past the top.
#[expect(
    clippy::cast_possible_truncation,
    reason = "a product of two 8-bit polynomials has at most 15 bits"
)]
pub const ALPHA_TABLE: [u16; 256] = {
    let mut table = [0; 256];
    let mut n = 0;
    while n < 256 {
        table[n] = times_reduction(n as u128) as u16;
        n += 1;
    }
    table
};

/// Returns `t`·α⁸ by one table look-up (Algorithm 2 of An & Seo). **Not constant-time.**
#[must_use]
pub const fn mul_alpha8_table(t: u128) -> u128 {
    (t << 8) ^ ALPHA_TABLE[(t >> 120) as usize] as u128
}

/// Returns `t`·α¹²⁸ by 16 look-ups and one more for the carry (Algorithm 3 of An & Seo). **Not
/// constant-time.**
#[must_use]
pub const fn mul_alpha128_table(t: u128) -> u128 {
    let bytes = t.to_le_bytes();
    let mut result = 0;
    let mut j = 0;
    while j < 15 {
        result ^= (ALPHA_TABLE[bytes[j] as usize] as u128) << (8 * j);
        j += 1;
    }
    let top = ALPHA_TABLE[bytes[15] as usize] as u128;
    // The low byte of `top` still fits; its high byte is shifted past the top and reduced.
    result ^ (top << 120) ^ ALPHA_TABLE[(top >> 8) as usize] as u128
}
