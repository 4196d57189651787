// SPDX-License-Identifier: MIT OR Apache-2.0
//! AES as specified in FIPS 197: the state is an array of bytes, every step is a separate function,
//! and every constant is computed from its definition. (Section numbers are those of the 2001
//! edition; the 2023 update moved no definition.)
//!
//! It looks up tables by secret bytes and wipes nothing: use it for tests only, never for data.

/// A block of 128 bits, in the order of input and output (3.3).
pub type Block = [u8; 16];

/// The S-box (5.1.1): the inverse in GF(2⁸), then an affine transformation.
pub const S_BOX: [u8; 256] = s_box();

/// The inverse of the S-box (5.3.2).
pub const INVERSE_S_BOX: [u8; 256] = inverse_s_box();

/// The AES block cipher under one key: the key schedule of 5.2.
#[derive(Clone, Debug)]
pub struct Aes {
    /// w[0] to w[4·(Nr + 1) − 1].
    schedule: Vec<[u8; 4]>,
}

impl Aes {
    /// Expands a key of 16, 24 or 32 bytes (5.2, figure 11).
    ///
    /// # Panics
    /// For any other length.
    #[must_use]
    pub fn new(key: &[u8]) -> Self {
        // Nk words of key and Nr rounds: figure 4.
        let (nk, rounds) = match key.len() {
            16 => (4, 10),
            24 => (6, 12),
            32 => (8, 14),
            other => panic!("an AES key has 16, 24 or 32 bytes, not {other}"),
        };
        let mut w: Vec<[u8; 4]> = key
            .chunks_exact(4)
            .map(|word| [word[0], word[1], word[2], word[3]])
            .collect();
        let mut rcon = 1;
        for i in nk..4 * (rounds + 1) {
            let mut temp = w[i - 1];
            if i % nk == 0 {
                // SubWord(RotWord(temp)) xor Rcon[i / Nk]
                temp.rotate_left(1);
                temp = temp.map(|b| S_BOX[usize::from(b)]);
                temp[0] ^= rcon;
                rcon = multiply(rcon, 2);
            } else if nk > 6 && i % nk == 4 {
                temp = temp.map(|b| S_BOX[usize::from(b)]);
            }
            let before = w[i - nk];
            w.push([0, 1, 2, 3].map(|k| before[k] ^ temp[k]));
        }
        Self { schedule: w }
    }

    /// The key schedule w, four words a round.
    #[must_use]
    pub fn schedule(&self) -> &[[u8; 4]] {
        &self.schedule
    }

    /// Cipher (5.1, figure 5).
    #[must_use]
    pub fn encrypt(&self, input: Block) -> Block {
        let rounds = self.rounds();
        let mut state = self.add_round_key(input, 0);
        for round in 1..rounds {
            state = sub_bytes(state);
            state = shift_rows(state);
            state = mix_columns(state);
            state = self.add_round_key(state, round);
        }
        state = sub_bytes(state);
        state = shift_rows(state);
        self.add_round_key(state, rounds)
    }

    /// `InvCipher` (5.3, figure 12).
    #[must_use]
    pub fn decrypt(&self, input: Block) -> Block {
        let rounds = self.rounds();
        let mut state = self.add_round_key(input, rounds);
        for round in (1..rounds).rev() {
            state = inverse_shift_rows(state);
            state = inverse_sub_bytes(state);
            state = self.add_round_key(state, round);
            state = inverse_mix_columns(state);
        }
        state = inverse_shift_rows(state);
        state = inverse_sub_bytes(state);
        self.add_round_key(state, 0)
    }

    fn rounds(&self) -> usize {
        self.schedule.len() / 4 - 1
    }

    /// `AddRoundKey` (5.1.4): column c is combined with word 4·round + c.
    fn add_round_key(&self, mut state: Block, round: usize) -> Block {
        for c in 0..4 {
            for r in 0..4 {
                state[at(r, c)] ^= self.schedule[4 * round + c][r];
            }
        }
        state
    }
}

/// The index of s[r, c] of the state in a block: `in[r + 4c]` (3.4).
const fn at(r: usize, c: usize) -> usize {
    r + 4 * c
}

/// `SubBytes` (5.1.1).
fn sub_bytes(state: Block) -> Block {
    state.map(|b| S_BOX[usize::from(b)])
}

/// `InvSubBytes` (5.3.2).
fn inverse_sub_bytes(state: Block) -> Block {
    state.map(|b| INVERSE_S_BOX[usize::from(b)])
}

/// `ShiftRows` (5.1.2): s′[r, c] = s[r, (c + r) mod 4].
fn shift_rows(state: Block) -> Block {
    let mut result = state;
    for r in 1..4 {
        for c in 0..4 {
            result[at(r, c)] = state[at(r, (c + r) % 4)];
        }
    }
    result
}

/// `InvShiftRows` (5.3.1): s′[r, (c + r) mod 4] = s[r, c].
fn inverse_shift_rows(state: Block) -> Block {
    let mut result = state;
    for r in 1..4 {
        for c in 0..4 {
            result[at(r, (c + r) % 4)] = state[at(r, c)];
        }
    }
    result
}

/// `MixColumns` (5.1.3): each column times {03}x³ + {01}x² + {01}x + {02}.
fn mix_columns(state: Block) -> Block {
    static ROW: [[u8; 256]; 4] = products([2, 3, 1, 1]);
    multiply_columns(state, &ROW)
}

/// `InvMixColumns` (5.3.3): each column times {0b}x³ + {0d}x² + {09}x + {0e}.
fn inverse_mix_columns(state: Block) -> Block {
    static ROW: [[u8; 256]; 4] = products([0x0e, 0x0b, 0x0d, 0x09]);
    multiply_columns(state, &ROW)
}

/// Multiplies each column by a circulant matrix (4.3), given the products of its first row.
fn multiply_columns(state: Block, row: &[[u8; 256]; 4]) -> Block {
    let mut result = [0; 16];
    for c in 0..4 {
        for r in 0..4 {
            for k in 0..4 {
                result[at(r, c)] ^= row[(k + 4 - r) % 4][usize::from(state[at(k, c)])];
            }
        }
    }
    result
}

/// The products of each factor with every byte. Computing them anew for each block would take ten
/// times as long, and the conformance suite mostly waits for this code.
#[expect(
    clippy::cast_possible_truncation,
    reason = "the counter stays below 256"
)]
const fn products(factors: [u8; 4]) -> [[u8; 256]; 4] {
    let mut tables = [[0; 256]; 4];
    let mut i = 0;
    while i < 4 {
        let mut b = 0_usize;
        while b < 256 {
            tables[i][b] = multiply(b as u8, factors[i]);
            b += 1;
        }
        i += 1;
    }
    tables
}

/// Multiplies in GF(2⁸) modulo x⁸ + x⁴ + x³ + x + 1 (4.2), by repeated multiplication by x (4.2.1,
/// `xtime`).
#[must_use]
pub const fn multiply(a: u8, b: u8) -> u8 {
    let mut product = 0;
    let mut power = a;
    let mut rest = b;
    while rest != 0 {
        if rest & 1 != 0 {
            product ^= power;
        }
        power = (power << 1) ^ if power & 0x80 != 0 { 0x1b } else { 0 };
        rest >>= 1;
    }
    product
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "the counters stay below 256"
)]
const fn s_box() -> [u8; 256] {
    let mut table = [0; 256];
    let mut b = 0_usize;
    while b < 256 {
        // {00} is mapped to itself.
        let mut inverse = 0;
        let mut candidate = 1_usize;
        while candidate < 256 {
            if multiply(b as u8, candidate as u8) == 1 {
                inverse = candidate as u8;
            }
            candidate += 1;
        }
        // b′ᵢ = bᵢ ⊕ b₍ᵢ₊₄₎ ⊕ b₍ᵢ₊₅₎ ⊕ b₍ᵢ₊₆₎ ⊕ b₍ᵢ₊₇₎ ⊕ cᵢ, indices modulo 8 (equation 5.1).
        table[b] = inverse
            ^ inverse.rotate_right(4)
            ^ inverse.rotate_right(5)
            ^ inverse.rotate_right(6)
            ^ inverse.rotate_right(7)
            ^ 0x63;
        b += 1;
    }
    table
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "the counter stays below 256"
)]
const fn inverse_s_box() -> [u8; 256] {
    let mut table = [0; 256];
    let mut b = 0_usize;
    while b < 256 {
        table[S_BOX[b] as usize] = b as u8;
        b += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn multiplication_is_that_of_the_examples() {
        // FIPS 197, 4.2 and 4.2.1.
        assert_eq!(multiply(0x57, 0x83), 0xc1);
        assert_eq!(multiply(0x57, 0x13), 0xfe);
        assert_eq!(
            [0x02, 0x04, 0x08, 0x10].map(|b| multiply(0x57, b)),
            [0xae, 0x47, 0x8e, 0x07]
        );
    }

    #[test]
    fn the_s_box_is_that_of_figure_7() {
        assert_eq!(S_BOX[..8], [0x63, 0x7c, 0x77, 0x7b, 0xf2, 0x6b, 0x6f, 0xc5]);
        assert_eq!(S_BOX[0x53], 0xed);
        assert_eq!(S_BOX[0xff], 0x16);
        let mut seen = [false; 256];
        for b in 0..=u8::MAX {
            let image = S_BOX[usize::from(b)];
            assert_eq!(INVERSE_S_BOX[usize::from(image)], b);
            seen[usize::from(image)] = true;
        }
        assert_eq!(seen, [true; 256]);
    }

    #[test]
    fn the_steps_undo_their_inverses() {
        let state: Block = core::array::from_fn(|i| u8::try_from(i * 15 + 3).unwrap());
        assert_eq!(inverse_shift_rows(shift_rows(state)), state);
        assert_eq!(inverse_mix_columns(mix_columns(state)), state);
        assert_eq!(inverse_sub_bytes(sub_bytes(state)), state);
    }

    #[test]
    fn appendix_c_both_ways() {
        let input: Block = core::array::from_fn(|i| u8::try_from(i * 0x11).unwrap());
        let key: [u8; 32] = core::array::from_fn(|i| u8::try_from(i).unwrap());
        for (key, first_and_last) in [
            (&key[..16], [0x69, 0x5a]),
            (&key[..24], [0xdd, 0x91]),
            (&key[..], [0x8e, 0x89]),
        ] {
            let aes = Aes::new(key);
            let output = aes.encrypt(input);
            assert_eq!([output[0], output[15]], first_and_last);
            assert_eq!(aes.decrypt(output), input);
        }
    }

    #[test]
    #[should_panic(expected = "not 17")]
    fn other_key_lengths_are_refused() {
        let _ = Aes::new(&[0; 17]);
    }
}
