// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bitsliced AES: four blocks at once in 64-bit integers, with no table and no branch on secrets.
//!
//! A state is eight words: word i has bit i of each of the 64 bytes. The bits of a word are ordered
//! by row, then column, then block: bit 16r + 4c + b is from row r and column c of block b. AES is
//! then a sequence of logical operations on whole words:
//!
//! ```text
//! x = bits(blocks) ⊕ K[0]
//! for i in 1..=N:                         (N = 10, 12 or 14)
//!     x = S-box as a circuit of gates     (without its constant 63₁₆, which is in the next key)
//!     if i < N:
//!         x = MixColumns of the columns as they lie after i rounds
//!     x = x ⊕ K[i]
//! blocks = ShiftRows^N(x)
//! ```
//!
//! `ShiftRows` moves no bits here ("fixslicing": Adomnicai and Peyrin, "Fixslicing AES-like
//! Ciphers", IACR TCHES 2021-1). After i rounds, the byte of row r and column c lies in column
//! c + i·r (mod 4). That only changes the distances in `MixColumns`: the next row of the same column
//! is one row and i columns further on. After four rounds all bytes lie in their places again, so 12
//! rounds need no correction. 10 and 14 rounds end as two rounds do, with rows 1 and 3 rotated by two
//! columns, which is corrected in the blocks.
//!
//! The S-box is the circuit of Boyar and Peralta, "A New Combinational Logic Minimization Technique
//! with Applications to Cryptology", SEA 2010, with 115 gates. The inverse has the same middle part,
//! an inversion in GF(2⁸), between two linear parts that a program found with the heuristic of that
//! paper, and also 115 gates.
//!
//! All functions that [`encrypt`] and [`decrypt`] use are inlined into them.

use core::iter;

use luxor_secret::SecretBytes;

use super::four_blocks::Blocks;
use crate::key::AesKey;

type State = [u64; 8];

/// The constant of the S-box in every byte of a block. `MixColumns` does not change such a block.
const CONSTANT: u128 = u128::from_ne_bytes([0x63; 16]);

/// The words of a round key, in bytes, because memory for secrets can have any alignment.
pub(super) type RoundKey = [[u8; 8]; 8];

/// The round keys of both directions as they are added: bitsliced, the same for all four blocks,
/// moved as the state is after as many rounds, and all but the first with [`CONSTANT`] added.
pub(super) struct Schedule(SecretBytes);

impl Schedule {
    /// Leaves parts of the key on the stack.
    pub(super) fn new(key: &AesKey) -> Self {
        // The schedule of AES-256.
        let mut words = [0; 60];
        let words = &mut words[..4 * (key.size().rounds() + 1)];
        expand(key.expose().as_chunks().0, words);

        let mut schedule = SecretBytes::zeroed(words.len() / 4 * size_of::<RoundKey>());
        let round_keys = schedule.expose_mut().as_chunks_mut().0;
        let round_keys = round_keys.as_chunks_mut().0;
        for (i, (to, from)) in iter::zip(round_keys, words.as_chunks::<4>().0).enumerate() {
            let mut moved = [0; 16];
            for (column, word) in from.iter().enumerate() {
                for (row, byte) in word.to_le_bytes().into_iter().enumerate() {
                    moved[4 * ((column + i * row) % 4) + row] = byte;
                }
            }
            let constant = if i == 0 { 0 } else { CONSTANT };
            let block = u128::from_le_bytes(moved) ^ constant;
            *to = bits([block; 4]).map(u64::to_ne_bytes);
        }
        Self(schedule)
    }

    pub(super) fn is_lost(&self) -> bool {
        self.0.is_lost()
    }

    #[inline(always)]
    pub(super) fn round_keys(&self) -> &[RoundKey] {
        self.0.expose().as_chunks().0.as_chunks().0
    }
}

/// The key expansion of FIPS 197, 5.2, with little-endian words.
fn expand(key: &[[u8; 4]], words: &mut [u32]) {
    for (word, bytes) in iter::zip(&mut *words, key) {
        *word = u32::from_le_bytes(*bytes);
    }
    let mut round_constant = 1_u8;
    for i in key.len()..words.len() {
        let mut word = words[i - 1];
        if i % key.len() == 0 {
            word = substituted(word).rotate_right(8) ^ u32::from(round_constant);
            round_constant = (round_constant << 1) ^ ((round_constant >> 7) * 0x1b);
        } else if key.len() == 8 && i % 8 == 4 {
            word = substituted(word);
        }
        words[i] = words[i - key.len()] ^ word;
    }
}

/// `SubWord` of FIPS 197, 5.2.
#[expect(
    clippy::cast_possible_truncation,
    reason = "the word is in the low bytes"
)]
fn substituted(word: u32) -> u32 {
    let [block, ..] = blocks(sub_bytes(bits([word.into(), 0, 0, 0])));
    (block ^ CONSTANT) as u32
}

/// The round keys as FIPS 197 has them.
#[cfg(test)]
pub(super) fn standard_round_keys(schedule: &Schedule) -> impl Iterator<Item = [u8; 16]> {
    let round_keys = schedule.round_keys().iter().enumerate();
    round_keys.map(|(i, round_key)| {
        let [moved, ..] = blocks(round_key.map(u64::from_ne_bytes));
        let constant = if i == 0 { 0 } else { CONSTANT };
        let moved = (moved ^ constant).to_le_bytes();
        core::array::from_fn(|n| moved[4 * ((n / 4 + i * (n % 4)) % 4) + n % 4])
    })
}

/// Encrypts all blocks.
///
/// This is a function of its own because it is long, and every mode calls it in several places.
#[inline(never)]
pub(super) fn encrypt(keys: &[RoundKey], registers: &mut [Blocks]) {
    let [first, second, middle @ .., last] = keys else {
        unreachable!("a schedule has 11, 13 or 15 round keys");
    };
    let (fours, two) = middle.as_chunks::<4>();
    for Blocks(register) in registers {
        let mut x = add_round_key(bits(*register), first);
        x = add_round_key(mix_columns(1, sub_bytes(x)), second);
        for [a, b, c, d] in fours {
            x = add_round_key(mix_columns(2, sub_bytes(x)), a);
            x = add_round_key(mix_columns(3, sub_bytes(x)), b);
            x = add_round_key(mix_columns(0, sub_bytes(x)), c);
            x = add_round_key(mix_columns(1, sub_bytes(x)), d);
        }
        if let [a, b] = two {
            x = add_round_key(mix_columns(2, sub_bytes(x)), a);
            x = add_round_key(mix_columns(3, sub_bytes(x)), b);
        }
        x = add_round_key(sub_bytes(x), last);
        *register = blocks(x);
        if two.is_empty() {
            *register = register.map(shift_rows_twice);
        }
    }
}

/// Decrypts all blocks, see [`encrypt`].
#[inline(never)]
pub(super) fn decrypt(keys: &[RoundKey], registers: &mut [Blocks]) {
    let [first, second, middle @ .., last] = keys else {
        unreachable!("a schedule has 11, 13 or 15 round keys");
    };
    let (fours, two) = middle.as_chunks::<4>();
    for Blocks(register) in registers {
        if two.is_empty() {
            *register = register.map(shift_rows_twice);
        }
        let mut x = add_round_key(bits(*register), last);
        if let [a, b] = two {
            x = inv_mix_columns(3, add_round_key(inv_sub_bytes(x), b));
            x = inv_mix_columns(2, add_round_key(inv_sub_bytes(x), a));
        }
        for [a, b, c, d] in fours.iter().rev() {
            x = inv_mix_columns(1, add_round_key(inv_sub_bytes(x), d));
            x = inv_mix_columns(0, add_round_key(inv_sub_bytes(x), c));
            x = inv_mix_columns(3, add_round_key(inv_sub_bytes(x), b));
            x = inv_mix_columns(2, add_round_key(inv_sub_bytes(x), a));
        }
        x = inv_mix_columns(1, add_round_key(inv_sub_bytes(x), second));
        x = add_round_key(inv_sub_bytes(x), first);
        *register = blocks(x);
    }
}

/// Exchanges bits between two words: those of `high` for which `mask` is 1, and those of `low`
/// `shift` places further up.
#[inline(always)]
fn exchange(x: &mut State, low: usize, high: usize, shift: u32, mask: u64) {
    let differences = ((x[low] >> shift) ^ x[high]) & mask;
    x[low] ^= differences << shift;
    x[high] ^= differences;
}

/// Exchanges a bit of the numbers of the words, 1, 2 or 4, for one of the numbers of the bits
/// within them, `shift`.
#[inline(always)]
fn exchange_all(x: &mut State, of_words: usize, shift: u32, mask: u64) {
    for word in 0..8 {
        if word & of_words == 0 {
            exchange(x, word, word | of_words, shift, mask);
        }
    }
}

/// Words of eight bytes of one block → words of one bit.
///
/// The number of a byte in a block is 4c + r. The lower four words begin with columns 0 and 1 of
/// each block, the upper four with columns 2 and 3.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "halves")]
fn bits(blocks: [u128; 4]) -> State {
    let [a, b, c, d] = blocks;
    let halves = [a, b, c, d, a >> 64, b >> 64, c >> 64, d >> 64];
    let mut x = halves.map(|half| half as u64);
    exchange_all(&mut x, 4, 8, 0x00ff_00ff_00ff_00ff);
    exchange_all(&mut x, 4, 16, 0x0000_ffff_0000_ffff);
    exchange_all(&mut x, 4, 32, 0x0000_0000_ffff_ffff);
    exchange_all(&mut x, 4, 4, 0x0f0f_0f0f_0f0f_0f0f);
    exchange_all(&mut x, 2, 2, 0x3333_3333_3333_3333);
    exchange_all(&mut x, 1, 1, 0x5555_5555_5555_5555);
    x
}

/// The inverse of [`bits`].
#[inline(always)]
fn blocks(mut x: State) -> [u128; 4] {
    exchange_all(&mut x, 1, 1, 0x5555_5555_5555_5555);
    exchange_all(&mut x, 2, 2, 0x3333_3333_3333_3333);
    exchange_all(&mut x, 4, 4, 0x0f0f_0f0f_0f0f_0f0f);
    exchange_all(&mut x, 4, 32, 0x0000_0000_ffff_ffff);
    exchange_all(&mut x, 4, 16, 0x0000_ffff_0000_ffff);
    exchange_all(&mut x, 4, 8, 0x00ff_00ff_00ff_00ff);
    let [a, b, c, d, e, f, g, h] = x.map(u128::from);
    [a | e << 64, b | f << 64, c | g << 64, d | h << 64]
}

/// Rotates rows 1 and 3 of a block by two columns, which exchanges bytes of the two halves.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "halves")]
fn shift_rows_twice(block: u128) -> u128 {
    let (low, high) = (block as u64, (block >> 64) as u64);
    let differences = (low ^ high) & 0xff00_ff00_ff00_ff00;
    u128::from(low ^ differences) | u128::from(high ^ differences) << 64
}

#[inline(always)]
fn add_round_key(mut x: State, key: &RoundKey) -> State {
    for (word, key) in iter::zip(&mut x, key) {
        *word ^= u64::from_ne_bytes(*key);
    }
    x
}

/// For each place, returns the bit `rows` rows and `columns` columns further on.
#[inline(always)]
fn further_on(x: u64, rows: u32, columns: u32) -> u64 {
    let rotated = x.rotate_right(16 * rows + 4 * columns);
    if columns == 0 {
        return rotated;
    }
    // The last `columns` columns come from the beginning of the row.
    let around = x.rotate_right(16 * (rows - 1) + 4 * columns);
    let first_columns = (0xffff >> (4 * columns)) * 0x0001_0001_0001_0001;
    around ^ ((rotated ^ around) & first_columns)
}

/// The product of each byte and x in GF(2⁸).
#[inline(always)]
fn times_x(x: State) -> State {
    let [a, b, c, d, e, f, g, h] = x;
    [h, a ^ h, b, c ^ h, d ^ h, e, f, g]
}

/// `MixColumns` after `rounds` rounds (mod 4).
///
/// With t = (byte) ⊕ (next row's byte), the result is x·t ⊕ (next row's byte) ⊕ (t two rows
/// further on).
#[inline(always)]
fn mix_columns(rounds: u32, x: State) -> State {
    let next = x.map(|word| further_on(word, 1, rounds));
    let mut sums = x;
    for (sum, next) in iter::zip(&mut sums, next) {
        *sum ^= next;
    }
    let mut mixed = times_x(sums);
    for (mixed, (next, sum)) in iter::zip(&mut mixed, iter::zip(next, sums)) {
        *mixed ^= next ^ further_on(sum, 2, 2 * rounds % 4);
    }
    mixed
}

/// The inverse of [`mix_columns`]: `MixColumns` of (byte) ⊕ x²·((byte) ⊕ (byte two rows further
/// on)).
#[inline(always)]
fn inv_mix_columns(rounds: u32, mut x: State) -> State {
    let sums = x.map(|word| word ^ further_on(word, 2, 2 * rounds % 4));
    for (word, product) in iter::zip(&mut x, times_x(times_x(sums))) {
        *word ^= product;
    }
    mix_columns(rounds, x)
}

/// The S-box without its constant.
#[inline(always)]
fn sub_bytes(x: State) -> State {
    let [x7, x6, x5, x4, x3, x2, x1, x0] = x;
    let y14 = x3 ^ x5;
    let y13 = x0 ^ x6;
    let y9 = x0 ^ x3;
    let y8 = x0 ^ x5;
    let t0 = x1 ^ x2;
    let y1 = t0 ^ x7;
    let y4 = y1 ^ x3;
    let y12 = y13 ^ y14;
    let y2 = y1 ^ x0;
    let y5 = y1 ^ x6;
    let y3 = y5 ^ y8;
    let t1 = x4 ^ y12;
    let y15 = t1 ^ x5;
    let y20 = t1 ^ x1;
    let y6 = y15 ^ x7;
    let y10 = y15 ^ t0;
    let y11 = y20 ^ y9;
    let y7 = x7 ^ y11;
    let y17 = y10 ^ y11;
    let y19 = y10 ^ y8;
    let y16 = t0 ^ y11;
    let y21 = y13 ^ y16;
    let y18 = x0 ^ y16;
    let y = [
        x7, y1, y2, y3, y4, y5, y6, y7, y8, y9, y10, y11, y12, y13, y14, y15, y16, y17, y18, y19,
        y20, y21,
    ];
    let z = inverted(y);

    let t46 = z[15] ^ z[16];
    let t47 = z[10] ^ z[11];
    let t48 = z[5] ^ z[13];
    let t49 = z[9] ^ z[10];
    let t50 = z[2] ^ z[12];
    let t51 = z[2] ^ z[5];
    let t52 = z[7] ^ z[8];
    let t53 = z[0] ^ z[3];
    let t54 = z[6] ^ z[7];
    let t55 = z[16] ^ z[17];
    let t56 = z[12] ^ t48;
    let t57 = t50 ^ t53;
    let t58 = z[4] ^ t46;
    let t59 = z[3] ^ t54;
    let t60 = t46 ^ t57;
    let t61 = z[14] ^ t57;
    let t62 = t52 ^ t58;
    let t63 = t49 ^ t58;
    let t64 = z[4] ^ t59;
    let t65 = t61 ^ t62;
    let t66 = z[1] ^ t63;
    let t67 = t64 ^ t65;
    let s3 = t53 ^ t66;
    [
        t48 ^ t60,
        t56 ^ t62,
        t47 ^ t65,
        t51 ^ t66,
        s3,
        t55 ^ t67,
        t64 ^ s3,
        t59 ^ t63,
    ]
}

/// The inverse of [`sub_bytes`]. The constant of the S-box has been added to the bytes twice: by the
/// S-box, and again with the round key.
#[inline(always)]
fn inv_sub_bytes(x: State) -> State {
    let [u7, u6, u5, u4, u3, u2, u1, u0] = x;
    let y3 = u0 ^ u3;
    let y5 = u1 ^ u3;
    let y6 = u0 ^ y5;
    let y8 = u0 ^ u1;
    let y9 = u3 ^ u4;
    let y1 = u7 ^ y9;
    let y10 = y6 ^ y1;
    let y13 = u6 ^ y1;
    let y2 = y5 ^ y13;
    let y4 = y9 ^ y2;
    let y7 = u2 ^ y4;
    let y12 = y3 ^ y4;
    let y14 = u4 ^ y6;
    let y16 = y1 ^ y7;
    let y18 = u2 ^ y9;
    let y19 = u3 ^ y1;
    let y21 = u6 ^ y7;
    let t0 = u0 ^ u5;
    let y0 = u2 ^ t0;
    let y11 = y4 ^ t0;
    let y15 = y6 ^ y0;
    let y17 = y10 ^ y11;
    let y20 = y9 ^ y11;
    let y = [
        y0, y1, y2, y3, y4, y5, y6, y7, y8, y9, y10, y11, y12, y13, y14, y15, y16, y17, y18, y19,
        y20, y21,
    ];
    let z = inverted(y);

    let p0 = z[6] ^ z[15];
    let p1 = z[12] ^ p0;
    let p2 = z[13] ^ p1;
    let p3 = z[16] ^ p2;
    let p4 = z[8] ^ p3;
    let p5 = z[3] ^ p4;
    let s0 = z[5] ^ p5;
    let p6 = z[4] ^ p5;
    let p7 = z[1] ^ p6;
    let p8 = z[2] ^ z[10];
    let p9 = z[0] ^ p4;
    let s3 = z[2] ^ p9;
    let p10 = z[7] ^ p6;
    let s6 = z[8] ^ p10;
    let p11 = s0 ^ p9;
    let s5 = p7 ^ p11;
    let p12 = z[11] ^ z[17];
    let p13 = p7 ^ p8;
    let p14 = z[14] ^ p13;
    let p15 = z[11] ^ z[13];
    let s2 = p14 ^ p15;
    let p16 = z[9] ^ p12;
    let s7 = z[15] ^ p16;
    let p17 = z[6] ^ s7;
    let p18 = p3 ^ p17;
    let s1 = s2 ^ p18;
    let p19 = p12 ^ p13;
    let p20 = s5 ^ p19;
    let p21 = z[16] ^ p20;
    let s4 = s6 ^ p21;
    [s7, s6, s5, s4, s3, s2, s1, s0]
}

/// The middle part of the S-box and of its inverse.
#[inline(always)]
fn inverted(y: [u64; 22]) -> [u64; 18] {
    let t2 = y[12] & y[15];
    let t3 = y[3] & y[6];
    let t4 = t3 ^ t2;
    let t5 = y[4] & y[0];
    let t6 = t5 ^ t2;
    let t7 = y[13] & y[16];
    let t8 = y[5] & y[1];
    let t9 = t8 ^ t7;
    let t10 = y[2] & y[7];
    let t11 = t10 ^ t7;
    let t12 = y[9] & y[11];
    let t13 = y[14] & y[17];
    let t14 = t13 ^ t12;
    let t15 = y[8] & y[10];
    let t16 = t15 ^ t12;
    let t17 = t4 ^ t14;
    let t18 = t6 ^ t16;
    let t19 = t9 ^ t14;
    let t20 = t11 ^ t16;
    let t21 = t17 ^ y[20];
    let t22 = t18 ^ y[19];
    let t23 = t19 ^ y[21];
    let t24 = t20 ^ y[18];
    let t25 = t21 ^ t22;
    let t26 = t21 & t23;
    let t27 = t24 ^ t26;
    let t28 = t25 & t27;
    let t29 = t28 ^ t22;
    let t30 = t23 ^ t24;
    let t31 = t22 ^ t26;
    let t32 = t31 & t30;
    let t33 = t32 ^ t24;
    let t34 = t23 ^ t33;
    let t35 = t27 ^ t33;
    let t36 = t24 & t35;
    let t37 = t36 ^ t34;
    let t38 = t27 ^ t36;
    let t39 = t29 & t38;
    let t40 = t25 ^ t39;
    let t41 = t40 ^ t37;
    let t42 = t29 ^ t33;
    let t43 = t29 ^ t40;
    let t44 = t33 ^ t37;
    let t45 = t42 ^ t41;
    [
        t44 & y[15],
        t37 & y[6],
        t33 & y[0],
        t43 & y[16],
        t40 & y[1],
        t29 & y[7],
        t42 & y[11],
        t45 & y[17],
        t41 & y[10],
        t44 & y[12],
        t37 & y[3],
        t33 & y[4],
        t43 & y[13],
        t40 & y[5],
        t29 & y[2],
        t42 & y[9],
        t45 & y[14],
        t41 & y[8],
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The product in GF(2⁸), FIPS 197, 4.2.
    fn product(a: u8, b: u8) -> u8 {
        (0..8).rev().fold(0, |sum: u8, bit| {
            (sum << 1) ^ ((sum >> 7) * 0x1b) ^ (a * (b >> bit & 1))
        })
    }

    /// FIPS 197, 5.1.1, without the constant.
    fn s_box(byte: u8) -> u8 {
        let inverse = (0..=255).find(|&x| product(byte, x) == 1).unwrap_or(0);
        (0..5).fold(0, |sum, n| sum ^ inverse.rotate_left(n))
    }

    /// Four blocks that contain the numbers from `first` on.
    fn numbered(first: u8) -> [u128; 4] {
        core::array::from_fn(|block| {
            let byte = |i: usize| first + u8::try_from(16 * block + i).unwrap();
            u128::from_le_bytes(core::array::from_fn(byte))
        })
    }

    /// The byte of a block in row `row` and column `column` (mod 4).
    fn byte(block: u128, row: usize, column: usize) -> u8 {
        block.to_le_bytes()[4 * (column % 4) + row]
    }

    #[test]
    fn the_bits_of_a_byte_are_at_its_place_in_all_words() {
        let x = bits(numbered(0xa7));
        for (i, block) in numbered(0xa7).into_iter().enumerate() {
            for (row, column) in (0..16).map(|n| (n % 4, n / 4)) {
                let at = |word: u64| u8::try_from(word >> (16 * row + 4 * column + i) & 1).unwrap();
                let bits = x.iter().zip(0..).map(|(&word, bit)| at(word) << bit);
                assert_eq!(bits.sum::<u8>(), byte(block, row, column));
            }
        }
        assert_eq!(blocks(x), numbered(0xa7));
    }

    #[test]
    fn the_circuits_are_the_s_box_and_its_inverse_for_all_bytes() {
        for first in (0..=255).step_by(64) {
            let x = numbered(first);
            let bytes = |x: [u128; 4]| x.map(u128::to_le_bytes).concat();
            let substituted = blocks(sub_bytes(bits(x)));
            let expected = bytes(x).into_iter().map(s_box);
            assert!(bytes(substituted).into_iter().eq(expected));
            assert_eq!(blocks(inv_sub_bytes(bits(substituted))), x);
        }
    }

    /// FIPS 197, 5.1.3, for the places of the bytes after each number of rounds.
    #[test]
    fn columns_are_mixed_wherever_shift_rows_has_left_their_bytes() {
        let x = [0x10, 0x53, 0x96, 0xd9].map(|first| numbered(first / 2)[0].wrapping_mul(0x9d));
        for rounds in 0..4 {
            let mixed = blocks(mix_columns(rounds, bits(x)));
            let rounds_before = usize::try_from(rounds).unwrap();
            for (x, mixed) in iter::zip(x, mixed) {
                for (row, column) in (0..16).map(|n| (n % 4, n / 4)) {
                    let at = |row: usize| byte(x, row % 4, column + rounds_before * row);
                    let expected =
                        product(2, at(row)) ^ product(3, at(row + 1)) ^ at(row + 2) ^ at(row + 3);
                    let place = column + rounds_before * row;
                    assert_eq!(byte(mixed, row, place), expected, "{rounds} rounds");
                }
            }
            let back = inv_mix_columns(rounds, mix_columns(rounds, bits(x)));
            assert_eq!(blocks(back), x, "{rounds} rounds");
        }
    }
}
