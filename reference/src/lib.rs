// SPDX-License-Identifier: MIT OR Apache-2.0
//! XTS-AES and other AES modes, slow and simple. Every backend is compared with it.
//!
//! Nothing here is optimised. Each function follows the text of its standard, in the standard's
//! words, so that it can be verified by reading the two next to each other. It shares no code with
//! the engine and has no dependencies; even AES is its own ([`aes`]).
//!
//! | to do this | use |
//! |---|---|
//! | one data unit of XTS | [`xts_encrypt`], [`xts_decrypt`] |
//! | whole blocks, each independently | [`ecb_encrypt`], [`ecb_decrypt`] |
//! | whole blocks, chained | [`cbc_encrypt`], [`cbc_decrypt`] |
//! | counter mode, output feedback (one function for both directions) | [`ctr`], [`ofb`] |
//! | parallel tweakable output feedback, from a paper | [`TweakableOfb`] |
//! | the tweak of the next block | [`multiply_by_alpha`] |
//! | one block | [`Aes`] |
//!
//! Invalid arguments cause a panic. The code is not constant-time and wipes nothing: use it for
//! tests only.
//!
//! ```
//! // Vector 1 of IEEE 1619-2007, Annex B: all bytes of the key and the plaintext are 0.
//! let ciphertext = luxor_reference::xts_encrypt(&[0; 32], 0, &[0; 32]);
//! assert_eq!(ciphertext[..4], [0x91, 0x7c, 0xf6, 0x9e]);
//! assert_eq!(luxor_reference::xts_decrypt(&[0; 32], 0, &ciphertext), [0; 32]);
//! ```

#![forbid(unsafe_code)]

pub mod aes;
mod parallel_ofb;

pub use aes::{Aes, Block};
pub use parallel_ofb::TweakableOfb;

/// XTS-AES encryption of one data unit (IEEE 1619-2007, 5.3.2).
///
/// `key` is Key1, the data key, followed by Key2, the tweak key: 32 bytes for XTS-AES-128, 64 for
/// XTS-AES-256 (5.1). Equal keys are accepted. `number` is the data unit number i. If the length is
/// not a multiple of 16, ciphertext stealing is used. The result is as long as `plaintext`.
///
/// # Panics
/// If the key has another length, or `plaintext` has fewer than 16 bytes.
#[must_use]
pub fn xts_encrypt(key: &[u8], number: u128, plaintext: &[u8]) -> Vec<u8> {
    let (key1, key2) = xts_keys(key);
    let block_encrypt = |p: Block, t: Block| xor(key1.encrypt(xor(p, t)), t); // 5.3.1
    let (blocks, rest) = xts_blocks(plaintext);
    let tweaks = tweaks(&key2, number, blocks.len() + 1);

    let mut ciphertext: Vec<Block> = blocks
        .iter()
        .zip(&tweaks)
        .map(|(p, t)| block_encrypt(*p, *t))
        .collect();
    if rest.is_empty() {
        return ciphertext.concat();
    }
    // P_(m−1) is the last whole block, P_m the remaining b bits. CC is the result of the last whole
    // block.
    let m = blocks.len();
    let b = rest.len();
    let cc = ciphertext[m - 1];
    let (c_m, cp) = cc.split_at(b);
    let pp = joined(rest, cp);
    ciphertext[m - 1] = block_encrypt(pp, tweaks[m]);
    [&ciphertext.concat(), c_m].concat()
}

/// XTS-AES decryption of one data unit (IEEE 1619-2007, 5.4.2); see
/// [`xts_encrypt`].
///
/// # Panics
/// If the key has another length, or `ciphertext` has fewer than 16 bytes.
#[must_use]
pub fn xts_decrypt(key: &[u8], number: u128, ciphertext: &[u8]) -> Vec<u8> {
    let (key1, key2) = xts_keys(key);
    let block_decrypt = |c: Block, t: Block| xor(key1.decrypt(xor(c, t)), t); // 5.4.1
    let (blocks, rest) = xts_blocks(ciphertext);
    let tweaks = tweaks(&key2, number, blocks.len() + 1);

    let mut plaintext: Vec<Block> = blocks
        .iter()
        .zip(&tweaks)
        .map(|(c, t)| block_decrypt(*c, *t))
        .collect();
    if rest.is_empty() {
        return plaintext.concat();
    }
    // The last two blocks were encrypted in exchanged order: C_(m−1) is decrypted with the tweak of
    // m, then CC with that of m − 1.
    let m = blocks.len();
    let b = rest.len();
    let pp = block_decrypt(blocks[m - 1], tweaks[m]);
    let (p_m, cp) = pp.split_at(b);
    let cc = joined(rest, cp);
    plaintext[m - 1] = block_decrypt(cc, tweaks[m - 1]);
    [&plaintext.concat(), p_m].concat()
}

/// Multiplies a tweak by α, a primitive element of GF(2¹²⁸) that is represented by x (IEEE
/// 1619-2007, 5.2), byte by byte as in the standard.
#[must_use]
pub fn multiply_by_alpha(a: Block) -> Block {
    let mut next = [0; 16];
    next[0] = (2 * (a[0] % 128)) ^ (135 * (a[15] / 128));
    for k in 1..16 {
        next[k] = (2 * (a[k] % 128)) ^ (a[k - 1] / 128);
    }
    next
}

/// Electronic codebook, encryption (SP 800-38A, 6.1).
///
/// # Panics
/// If the key does not have 16, 24 or 32 bytes, or the length of `plaintext` is not a multiple of
/// 16.
#[must_use]
pub fn ecb_encrypt(key: &[u8], plaintext: &[u8]) -> Vec<u8> {
    let aes = Aes::new(key);
    whole_blocks(plaintext)
        .into_iter()
        .flat_map(|p| aes.encrypt(p))
        .collect()
}

/// Electronic codebook, decryption (SP 800-38A, 6.1).
///
/// # Panics
/// If the key does not have 16, 24 or 32 bytes, or the length of `ciphertext` is not a multiple of
/// 16.
#[must_use]
pub fn ecb_decrypt(key: &[u8], ciphertext: &[u8]) -> Vec<u8> {
    let aes = Aes::new(key);
    whole_blocks(ciphertext)
        .into_iter()
        .flat_map(|c| aes.decrypt(c))
        .collect()
}

/// Cipher block chaining of one data unit, encryption (SP 800-38A, 6.2).
///
/// `key` is the data key, and with ESSIV also its SHA-256 of 32 bytes. The IV is the data unit
/// number as in dm-crypt: 16 little-endian bytes (`plain`, `plain64`), and with ESSIV these bytes
/// encrypted under the hash.
///
/// # Panics
/// If the data key does not have 16, 24 or 32 bytes, or the length of `plaintext` is not a multiple
/// of 16.
#[must_use]
pub fn cbc_encrypt(key: &[u8], number: u128, plaintext: &[u8]) -> Vec<u8> {
    let (aes, mut previous) = cbc_key_and_iv(key, number);
    let mut ciphertext = Vec::with_capacity(plaintext.len());
    for p in whole_blocks(plaintext) {
        let c = aes.encrypt(xor(p, previous));
        ciphertext.extend(c);
        previous = c;
    }
    ciphertext
}

/// Cipher block chaining of one data unit, decryption (SP 800-38A, 6.2); see
/// [`cbc_encrypt`].
///
/// # Panics
/// As for [`cbc_encrypt`].
#[must_use]
pub fn cbc_decrypt(key: &[u8], number: u128, ciphertext: &[u8]) -> Vec<u8> {
    let (aes, mut previous) = cbc_key_and_iv(key, number);
    let mut plaintext = Vec::with_capacity(ciphertext.len());
    for c in whole_blocks(ciphertext) {
        plaintext.extend(xor(aes.decrypt(c), previous));
        previous = c;
    }
    plaintext
}

/// Counter mode (SP 800-38A, 6.5). The counter is the whole block, a big-endian integer that wraps
/// at 2¹²⁸ (B.1 with m = 128). `input` may have any length. Encryption and decryption are the same
/// operation.
///
/// # Panics
/// If the key does not have 16, 24 or 32 bytes.
#[must_use]
pub fn ctr(key: &[u8], initial_counter: u128, input: &[u8]) -> Vec<u8> {
    let aes = Aes::new(key);
    let mut counter = initial_counter;
    let mut output = Vec::with_capacity(input.len());
    for segment in input.chunks(16) {
        let key_stream = aes.encrypt(counter.to_be_bytes());
        output.extend(segment.iter().zip(key_stream).map(|(byte, k)| byte ^ k));
        counter = counter.wrapping_add(1);
    }
    output
}

/// Output feedback (SP 800-38A, 6.4). The IV is the 16 big-endian bytes of `iv`. `input` may have
/// any length. Encryption and decryption are the same operation.
///
/// # Panics
/// If the key does not have 16, 24 or 32 bytes.
#[must_use]
pub fn ofb(key: &[u8], iv: u128, input: &[u8]) -> Vec<u8> {
    let aes = Aes::new(key);
    let mut feedback = iv.to_be_bytes();
    let mut output = Vec::with_capacity(input.len());
    for segment in input.chunks(16) {
        feedback = aes.encrypt(feedback);
        output.extend(segment.iter().zip(feedback).map(|(byte, k)| byte ^ k));
    }
    output
}

/// Key1 and Key2 (IEEE 1619-2007, 5.1).
fn xts_keys(key: &[u8]) -> (Aes, Aes) {
    assert!(
        matches!(key.len(), 32 | 64),
        "an XTS key has 32 or 64 bytes, not {}",
        key.len()
    );
    let (key1, key2) = key.split_at(key.len() / 2);
    (Aes::new(key1), Aes::new(key2))
}

fn cbc_key_and_iv(key: &[u8], number: u128) -> (Aes, Block) {
    let number = number.to_le_bytes();
    if key.len() > 32 {
        let (data, hash) = key.split_at(key.len() - 32);
        (Aes::new(data), Aes::new(hash).encrypt(number))
    } else {
        (Aes::new(key), number)
    }
}

/// T for j = 0, 1, …: AES-enc(Key2, i) ⊗ αʲ (5.3.1, step 1). The number is encoded as a
/// little-endian byte array (5.1).
fn tweaks(key2: &Aes, number: u128, count: usize) -> Vec<Block> {
    let first = key2.encrypt(number.to_le_bytes());
    core::iter::successors(Some(first), |t| Some(multiply_by_alpha(*t)))
        .take(count)
        .collect()
}

/// Splits a data unit into its whole blocks and the bytes after them.
fn xts_blocks(unit: &[u8]) -> (Vec<Block>, &[u8]) {
    assert!(
        unit.len() >= 16,
        "a data unit of XTS has at least 16 bytes, not {}",
        unit.len()
    );
    let (whole, rest) = unit.split_at(unit.len() / 16 * 16);
    (whole_blocks(whole), rest)
}

fn whole_blocks(bytes: &[u8]) -> Vec<Block> {
    assert!(
        bytes.len().is_multiple_of(16),
        "{} bytes are no whole blocks",
        bytes.len()
    );
    bytes
        .chunks_exact(16)
        .map(|block| block.try_into().unwrap())
        .collect()
}

fn joined(head: &[u8], tail: &[u8]) -> Block {
    [head, tail].concat().try_into().unwrap()
}

fn xor(a: Block, b: Block) -> Block {
    core::array::from_fn(|k| a[k] ^ b[k])
}

// The package `luxor-conformance` checks the known answers of all standards, from `vectors/`.
#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(len: usize) -> Vec<u8> {
        (0..len)
            .map(|i| u8::try_from(i * 31 % 251).unwrap())
            .collect()
    }

    #[test]
    fn decryption_undoes_encryption_at_every_length() {
        let key = pattern(64);
        for key in [&key[..32], &key[..]] {
            for len in 16..=100 {
                let plaintext = pattern(len);
                let ciphertext = xts_encrypt(key, u128::MAX - 5, &plaintext);
                assert_eq!(ciphertext.len(), len);
                assert_ne!(ciphertext, plaintext);
                assert_eq!(
                    xts_decrypt(key, u128::MAX - 5, &ciphertext),
                    plaintext,
                    "{len}"
                );
            }
        }
    }

    #[test]
    fn stealing_touches_the_last_two_blocks_only() {
        let key = pattern(32);
        let whole = xts_encrypt(&key, 7, &pattern(64));
        let stolen = xts_encrypt(&key, 7, &pattern(75));
        assert_eq!(stolen[..48], whole[..48]);
        assert_ne!(stolen[48..64], whole[48..64]);
        // C_m is the head of the result that block m − 1 alone would have.
        assert_eq!(stolen[64..], whole[48..59]);
    }

    #[test]
    fn alpha_is_x_modulo_the_polynomial() {
        // As an integer: doubled, and XORed with 135 if a bit is shifted out.
        let product = |a: u128| u128::from_le_bytes(multiply_by_alpha(a.to_le_bytes()));
        for bit in 0..127 {
            assert_eq!(product(1 << bit), 1 << (bit + 1));
        }
        assert_eq!(product(1 << 127), 135);
        assert_eq!(product(u128::MAX), (u128::MAX - 1) ^ 135);
    }

    #[test]
    fn the_counter_wraps_over_all_128_bits() {
        let key = pattern(16);
        let stream = ctr(&key, u128::MAX, &[0; 32]);
        let aes = Aes::new(&key);
        assert_eq!(stream[..16], aes.encrypt([0xff; 16]));
        assert_eq!(stream[16..], aes.encrypt([0; 16]));
    }

    #[test]
    fn a_chain_is_undone_and_begins_with_its_number() {
        let key = pattern(64);
        let number = u128::from_le_bytes(*b"data unit number");
        for key in [&key[..16], &key[..32], &key[..48], &key[..]] {
            let plaintext = pattern(80);
            let ciphertext = cbc_encrypt(key, number, &plaintext);
            assert_eq!(cbc_decrypt(key, number, &ciphertext), plaintext);
            // A damaged block is wrong itself, and flips one bit of the next.
            let mut damaged = ciphertext.clone();
            damaged[16] ^= 1;
            let mut expected = plaintext.clone();
            expected[32] ^= 1;
            let found = cbc_decrypt(key, number, &damaged);
            assert_ne!(found[16..32], expected[16..32]);
            assert_eq!(
                [&found[..16], &found[32..]].concat(),
                [&expected[..16], &expected[32..]].concat()
            );
        }
        let first = xor(*b"data unit number", pattern(16).try_into().unwrap());
        let first = Aes::new(&key[..16]).encrypt(first);
        assert_eq!(cbc_encrypt(&key[..16], number, &pattern(16)), first);
    }

    #[test]
    #[should_panic(expected = "at least 16 bytes")]
    fn a_unit_of_15_bytes_is_refused() {
        let _ = xts_encrypt(&pattern(32), 0, &[0; 15]);
    }

    #[test]
    #[should_panic(expected = "no whole blocks")]
    fn ecb_refuses_a_partial_block() {
        let _ = ecb_encrypt(&pattern(16), &[0; 17]);
    }
}
