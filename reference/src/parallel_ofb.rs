// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parallel tweakable OFB: B. Damjanović and D. Simić, "Tweakable parallel OFB
//! mode of operation with delayed thread synchronization", Security and
//! Communication Networks, 2015, Listings 3 and 4.

use crate::{Aes, Block, multiply_by_alpha, xor};

/// One of the modes of the paper. Encryption and decryption are the same operation.
///
/// Where the paper's text and listings differ, this follows the listings: the last block uses the
/// head of the key stream (`MSB_u`), without ciphertext stealing. The output is as long as the
/// input, which may be empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TweakableOfb {
    /// If true, the tweak is added before and after the encryption (Listing 3, XEX). Otherwise it
    /// is added only before (Listing 4, XE).
    pub xex: bool,
    /// If true, `T_i = αⁱ ⊗ T_(i−1)`, as printed in the listings. Otherwise `T_i = α ⊗ T_(i−1)`, as
    /// in the text around them.
    pub as_printed: bool,
}

impl TweakableOfb {
    /// Two chains, merged: `2x 128` in the paper's tables. `key` is K1, then K2. The IV is the 16
    /// big-endian bytes of `iv`, as in [`ofb`](crate::ofb).
    ///
    /// # Panics
    /// If the key does not have 32 bytes.
    #[must_use]
    pub fn two_chains(self, key: &[u8], iv: u128, input: &[u8]) -> Vec<u8> {
        assert_eq!(key.len(), 32, "the key of two chains has 32 bytes");
        let (k1, k2) = split(key);
        let n = input.len().div_ceil(16);
        let first = self.chain(&k1, &k2, iv, n);
        let second = self.chain(&k2, &k1, iv, n);
        let merged: Vec<Block> = first
            .into_iter()
            .zip(second)
            .map(|(c1, c2)| xor(c1, c2))
            .collect();
        added(input, &merged)
    }

    /// The first chain alone: `1x 128` and `1x 256` in the paper's tables. `key` is K1, then K2, 16
    /// or 32 bytes each. The IV is as in [`TweakableOfb::two_chains`].
    ///
    /// # Panics
    /// If the key has neither 32 nor 64 bytes.
    #[must_use]
    pub fn one_chain(self, key: &[u8], iv: u128, input: &[u8]) -> Vec<u8> {
        assert!(
            matches!(key.len(), 32 | 64),
            "the key of one chain has 32 or 64 bytes, not {}",
            key.len()
        );
        let (k1, k2) = split(key);
        added(input, &self.chain(&k1, &k2, iv, input.len().div_ceil(16)))
    }

    /// Returns `C'_1, …, C'_n` of a chain with these primary and secondary keys.
    fn chain(self, primary: &Aes, secondary: &Aes, iv: u128, n: usize) -> Vec<Block> {
        let eiv = secondary.encrypt(iv.to_be_bytes());
        let mut t = eiv;
        let mut f = eiv;
        let mut alpha_i = ALPHA;
        let mut chain = Vec::with_capacity(n);
        for _ in 1..=n {
            t = if self.as_printed {
                multiply(alpha_i, t)
            } else {
                multiply_by_alpha(t)
            };
            let o = primary.encrypt(xor(t, f));
            let c = if self.xex { xor(t, o) } else { o };
            chain.push(c);
            f = c;
            alpha_i = multiply_by_alpha(alpha_i);
        }
        chain
    }
}

/// α itself.
const ALPHA: Block = [2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// The product in the field of XTS (IEEE 1619-2007, 5.2): the sum of `b` ⊗ αᵏ over all αᵏ in `a`.
fn multiply(a: Block, b: Block) -> Block {
    let mut product = [0; 16];
    let mut b_alpha_k = b;
    for k in 0..128 {
        if a[k / 8] >> (k % 8) & 1 == 1 {
            product = xor(product, b_alpha_k);
        }
        b_alpha_k = multiply_by_alpha(b_alpha_k);
    }
    product
}

/// Expands K1 and K2.
fn split(key: &[u8]) -> (Aes, Aes) {
    let (k1, k2) = key.split_at(key.len() / 2);
    (Aes::new(k1), Aes::new(k2))
}

/// Returns the XOR of the input and the head of the key stream.
fn added(input: &[u8], key_stream: &[Block]) -> Vec<u8> {
    input
        .iter()
        .zip(key_stream.as_flattened())
        .map(|(byte, k)| byte ^ k)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const XEX: TweakableOfb = TweakableOfb {
        xex: true,
        as_printed: false,
    };
    const XE: TweakableOfb = TweakableOfb { xex: false, ..XEX };
    const ALL: [TweakableOfb; 4] = [
        XEX,
        XE,
        TweakableOfb {
            as_printed: true,
            ..XEX
        },
        TweakableOfb {
            as_printed: true,
            ..XE
        },
    ];

    const IV: Block = *b"not a palindrome";

    fn number() -> u128 {
        u128::from_be_bytes(IV)
    }

    fn pattern(len: usize) -> Vec<u8> {
        (0..len)
            .map(|i| u8::try_from(i * 31 % 251).unwrap())
            .collect()
    }

    /// αʲ ⊗ `block`, with one multiplication by α at a time.
    fn alphas(j: usize, block: Block) -> Block {
        (0..j).fold(block, |product, _| multiply_by_alpha(product))
    }

    /// `Ciph` of the paper.
    fn ciph(block: Block, key: &[u8]) -> Block {
        Aes::new(key).encrypt(block)
    }

    /// The tweaks of the first three blocks.
    fn three_tweaks(mode: TweakableOfb, eiv: Block) -> [Block; 3] {
        let t_1 = alphas(1, eiv);
        let (t_2, t_3);
        if mode.as_printed {
            t_2 = alphas(2, t_1);
            t_3 = alphas(3, t_2);
        } else {
            t_2 = alphas(1, t_1);
            t_3 = alphas(1, t_2);
        }
        [t_1, t_2, t_3]
    }

    /// A thread of Listing 3, line by line.
    fn thread_of_listing_3(mode: TweakableOfb, k1: &[u8], k2: &[u8]) -> [Block; 3] {
        let eiv = ciph(IV, k2);
        let [t_1, t_2, t_3] = three_tweaks(mode, eiv);
        let f_1 = eiv;
        let i_1 = xor(t_1, f_1);
        let o_1 = ciph(i_1, k1);
        let c_1 = xor(t_1, o_1);

        let f_2 = c_1;
        let i_2 = xor(t_2, f_2);
        let o_2 = ciph(i_2, k1);
        let c_2 = xor(t_2, o_2);

        let f_3 = c_2;
        let i_3 = xor(t_3, f_3);
        let o_3 = ciph(i_3, k1);
        let c_3 = xor(t_3, o_3);
        [c_1, c_2, c_3]
    }

    /// A thread of Listing 4, line by line.
    fn thread_of_listing_4(mode: TweakableOfb, k1: &[u8], k2: &[u8]) -> [Block; 3] {
        let eiv = ciph(IV, k2);
        let [t_1, t_2, t_3] = three_tweaks(mode, eiv);
        let f_1 = eiv;
        let i_1 = xor(t_1, f_1);
        let o_1 = ciph(i_1, k1);
        let c_1 = o_1;

        let f_2 = o_1;
        let i_2 = xor(t_2, f_2);
        let o_2 = ciph(i_2, k1);
        let c_2 = o_2;

        let f_3 = o_2;
        let i_3 = xor(t_3, f_3);
        let o_3 = ciph(i_3, k1);
        let c_3 = o_3;
        [c_1, c_2, c_3]
    }

    #[test]
    fn three_blocks_are_those_of_the_listings() {
        for mode in ALL {
            let thread = if mode.xex {
                thread_of_listing_3
            } else {
                thread_of_listing_4
            };
            let p = pattern(48);
            let key = pattern(64);

            let (k1, k2) = (&key[..16], &key[16..32]);
            let [first, second] = [thread(mode, k1, k2), thread(mode, k2, k1)];
            let c = mode.two_chains(&key[..32], number(), &p);
            for (k, byte) in c.iter().enumerate() {
                let (block, at) = (k / 16, k % 16);
                let expected = p[k] ^ first[block][at] ^ second[block][at];
                assert_eq!(*byte, expected, "{mode:?}, byte {k}");
            }

            for len in [16, 32] {
                let (k1, k2) = (&key[..len], &key[len..2 * len]);
                let first = thread(mode, k1, k2).concat();
                let c = mode.one_chain(&key[..2 * len], number(), &p);
                for (k, byte) in c.iter().enumerate() {
                    assert_eq!(*byte, p[k] ^ first[k], "{mode:?}, {len}, byte {k}");
                }
            }
        }
    }

    /// α¹²⁸ has more than one bit set.
    #[test]
    fn the_printed_tweaks_are_powers_of_alpha_beyond_the_first_128() {
        let key = pattern(32);
        let mode = TweakableOfb {
            as_printed: true,
            ..XE
        };
        let key_stream = mode.one_chain(&key, number(), &[0; 16 * 300]);
        let o: Vec<Block> = key_stream
            .chunks_exact(16)
            .map(|block| block.try_into().unwrap())
            .collect();
        let mut t = ciph(IV, &key[16..]);
        for i in 1..=300 {
            t = alphas(i, t);
            if i > 1 {
                let expected = ciph(xor(t, o[i - 2]), &key[..16]);
                assert_eq!(o[i - 1], expected, "block {i}");
            }
        }
    }

    #[test]
    fn the_last_block_is_truncated_and_decryption_is_encryption() {
        let key = pattern(64);
        let plaintext = pattern(70);
        for mode in ALL {
            type Form = fn(TweakableOfb, &[u8], u128, &[u8]) -> Vec<u8>;
            let two_chains: Form = TweakableOfb::two_chains;
            let one_chain: Form = TweakableOfb::one_chain;
            for (form, key) in [
                (two_chains, &key[..32]),
                (one_chain, &key[..32]),
                (one_chain, &key[..]),
            ] {
                let longest = form(mode, key, number(), &plaintext);
                for len in 0..=70 {
                    let ciphertext = form(mode, key, number(), &plaintext[..len]);
                    assert_eq!(ciphertext, longest[..len]);
                    assert_eq!(form(mode, key, number(), &ciphertext), plaintext[..len]);
                }
            }
        }
    }

    /// A property of OFB that the paper emphasises: a transmission error does not spread.
    #[test]
    fn a_wrong_bit_of_ciphertext_is_a_wrong_bit_of_plaintext() {
        let key = pattern(32);
        let plaintext = pattern(50);
        for mode in ALL {
            let ciphertext = mode.two_chains(&key, 7, &plaintext);
            for bit in 0..50 * 8 {
                let mut damaged = ciphertext.clone();
                damaged[bit / 8] ^= 1 << (bit % 8);
                let mut expected = plaintext.clone();
                expected[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(mode.two_chains(&key, 7, &damaged), expected, "{mode:?}");
            }
        }
    }

    /// The reason why other code refuses such keys.
    #[test]
    fn chains_under_equal_keys_cancel_each_other_out() {
        for mode in ALL {
            assert_eq!(mode.two_chains(&[7; 32], 1, &pattern(40)), pattern(40));
        }
    }

    #[test]
    #[should_panic(expected = "has 32 bytes")]
    fn two_chains_of_aes_256_are_not_in_the_paper() {
        let _ = XEX.two_chains(&pattern(64), 0, &[0; 16]);
    }
}
