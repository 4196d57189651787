// SPDX-License-Identifier: MIT OR Apache-2.0
//! Keys in the kernels' format: 192 words, with all schedules expanded.
//!
//! The CPU expands the schedules in constant time: it computes the S-box, four bytes side by side,
//! and never reads a table at an index that depends on the key.

pub use luxor_engine::AesSize;
use luxor_engine::{AesKey, XtsKey};
use zeroize::Zeroizing;

/// Words of a key in the kernels' format.
pub const KEY_WORDS: usize = 192;

/// Words of one schedule: room for AES-256, the longest.
const SCHEDULE: usize = 60;

/// The T-tables that the kernels keep in shared memory: `-DTABLES=`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Tables {
    /// T0. The kernels rotate its entries to get the others.
    One,
    /// T0 and T2. The round keys of encryption are rotated to match.
    Two,
    /// T0 to T3.
    Four,
}

/// A key in the kernels' format. Wiped when dropped; `Debug` shows no key.
///
/// Each word is four bytes of a round key, read little-endian. Words 0 to 59 are the data key's
/// schedule for encryption (FIPS 197, 5.2). Words 60 to 119 are its schedule for the equivalent
/// inverse cipher (5.3.5), in the order of use. Words 120 to 179 are the tweak key's schedule for
/// encryption. All other words, also those that shorter keys leave free, are 0.
///
/// With [`Tables::Two`], the words of the encryption schedules are rotated right by 8 bits, except
/// in the first round key (added before any table lookup) and the last (its round has no table).
/// One rotation then serves two tables: a column of a round is
/// `T0[a] ^ T2[c] ^ rotl8(T0[b] ^ T2[d] ^ k)`.
#[derive(Clone)]
pub struct KeyWords {
    size: AesSize,
    /// Boxed, so that moving the key leaves no copy behind.
    words: Box<Zeroizing<[u32; KEY_WORDS]>>,
}

impl KeyWords {
    /// Expands the keys of XTS.
    #[must_use]
    pub fn xts(key: &XtsKey, tables: Tables) -> Self {
        let tweak = Some(key.tweak_key().expose());
        Self::expand(key.size(), key.data_key().expose(), tweak, tables)
    }

    /// Expands a key of CTR in the place of the data key. There is no tweak key.
    #[must_use]
    pub fn ctr(key: &AesKey, tables: Tables) -> Self {
        Self::expand(key.size(), key.expose(), None, tables)
    }

    /// Expands a data key and a tweak key, or a CTR key if `tweak` is `None`. For comparisons with
    /// AES-192 and for tests: it does not check whether the two keys are equal.
    ///
    /// # Panics
    /// If a key does not have [`AesSize::bytes`] bytes.
    #[must_use]
    pub fn of_bytes(size: AesSize, data: &[u8], tweak: Option<&[u8]>, tables: Tables) -> Self {
        for key in [Some(data), tweak].into_iter().flatten() {
            let (bits, len) = (size.bits(), key.len());
            assert!(len == size.bytes(), "{len} bytes for a key of AES-{bits}");
        }
        Self::expand(size, data, tweak, tables)
    }

    fn expand(size: AesSize, data: &[u8], tweak: Option<&[u8]>, tables: Tables) -> Self {
        let mut words = Box::new(Zeroizing::new([0; KEY_WORDS]));
        let used = 4 * (size.rounds() + 1);
        let (encryption, rest) = words.split_at_mut(SCHEDULE);
        let (decryption, rest) = rest.split_at_mut(SCHEDULE);
        schedule(&mut encryption[..used], data);
        invert(&mut decryption[..used], &encryption[..used]);
        rotate(&mut encryption[..used], tables);
        if let Some(tweak) = tweak {
            schedule(&mut rest[..used], tweak);
            rotate(&mut rest[..used], tables);
        }
        Self { size, words }
    }

    /// Returns the AES variant of the kernels that take this key.
    #[must_use]
    pub fn size(&self) -> AesSize {
        self.size
    }

    /// Returns the words.
    #[must_use]
    pub fn expose(&self) -> &[u32; KEY_WORDS] {
        &self.words
    }
}

impl std::fmt::Debug for KeyWords {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "KeyWords({:?})", self.size)
    }
}

/// Expands `key` into `w` by FIPS 197, 5.2. The length of `w` gives the number of rounds.
fn schedule(w: &mut [u32], key: &[u8]) {
    let nk = key.len() / 4;
    for (word, bytes) in w.iter_mut().zip(key.chunks_exact(4)) {
        *word = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    }
    let mut rcon = 1;
    for i in nk..w.len() {
        let mut temp = w[i - 1];
        if i % nk == 0 {
            // RotWord moves byte 1 to the front, which is the low end of a little-endian word.
            temp = substitute(temp.rotate_right(8)) ^ rcon;
            rcon = times_x(rcon);
        } else if nk > 6 && i % nk == 4 {
            temp = substitute(temp);
        }
        w[i] = w[i - nk] ^ temp;
    }
}

/// Writes the schedule of the equivalent inverse cipher (FIPS 197, 5.3.5) in the order of use.
fn invert(decryption: &mut [u32], encryption: &[u32]) {
    let rounds = encryption.len() / 4 - 1;
    let (to, from) = (decryption.chunks_exact_mut(4), encryption.chunks_exact(4));
    for (round, (to, from)) in to.zip(from.rev()).enumerate() {
        to.copy_from_slice(from);
        if (1..rounds).contains(&round) {
            to.iter_mut().for_each(|word| *word = inverse_mix(*word));
        }
    }
}

/// Rotates the inner round keys for [`Tables::Two`]; see [`KeyWords`].
fn rotate(encryption: &mut [u32], tables: Tables) {
    if tables == Tables::Two {
        let end = encryption.len() - 4;
        for word in &mut encryption[4..end] {
            *word = word.rotate_right(8);
        }
    }
}

/// Applies the S-box to four bytes (FIPS 197, 5.1.1): the inverse in GF(2⁸), which is the 254th
/// power, then the affine transformation.
fn substitute(word: u32) -> u32 {
    let power_2 = multiply(word, word);
    let power_3 = multiply(power_2, word);
    let power_6 = multiply(power_3, power_3);
    let power_12 = multiply(power_6, power_6);
    let power_15 = multiply(power_12, power_3);
    let mut power_240 = power_15;
    for _ in 0..4 {
        power_240 = multiply(power_240, power_240);
    }
    let power_252 = multiply(power_240, power_12);
    let inverse = multiply(power_252, power_2);
    let mut result = inverse ^ 0x6363_6363;
    for bits in 1..=4 {
        result ^= rotate_bytes_left(inverse, bits);
    }
    result
}

/// Rotates each byte left on its own, by 1 to 7 bits.
fn rotate_bytes_left(word: u32, bits: u32) -> u32 {
    let low = (0xff_u32 >> bits) * 0x0101_0101;
    ((word & low) << bits) | ((word & !low) >> (8 - bits))
}

/// Multiplies four pairs of bytes in GF(2⁸) (FIPS 197, 4.2), without a branch on either factor.
fn multiply(mut a: u32, b: u32) -> u32 {
    let mut product = 0;
    for bit in 0..8 {
        // 0xff in each byte of `b` that has the bit set.
        let mask = ((b >> bit) & 0x0101_0101) * 0xff;
        product ^= a & mask;
        a = times_x(a);
    }
    product
}

/// Multiplies four bytes by x (FIPS 197, 4.2.1).
fn times_x(word: u32) -> u32 {
    let carries = (word >> 7) & 0x0101_0101;
    ((word & 0x7f7f_7f7f) << 1) ^ (carries * 0x1b)
}

/// Applies `InvMixColumns` to a column (FIPS 197, 5.3.3), row 0 in the low byte.
fn inverse_mix(column: u32) -> u32 {
    let by_2 = times_x(column);
    let by_4 = times_x(by_2);
    let by_8 = times_x(by_4);
    let by_9 = by_8 ^ column;
    let (by_14, by_11, by_13) = (by_8 ^ by_4 ^ by_2, by_9 ^ by_2, by_9 ^ by_4);
    // Row r of the result combines rows r, r + 1, r + 2 and r + 3 with these factors.
    by_14 ^ by_11.rotate_right(8) ^ by_13.rotate_right(16) ^ by_9.rotate_right(24)
}

#[cfg(test)]
mod tests {
    use luxor_reference::{
        Aes,
        aes::{INVERSE_S_BOX, S_BOX, multiply as reference_multiply},
    };

    use super::*;

    fn key(seed: u8, len: usize) -> Vec<u8> {
        (0..len)
            .map(|i| u8::try_from(i * 37 % 251).unwrap() ^ seed)
            .collect()
    }

    fn reference_schedule(key: &[u8]) -> Vec<u32> {
        let aes = Aes::new(key);
        aes.schedule()
            .iter()
            .map(|word| u32::from_le_bytes(*word))
            .collect()
    }

    #[test]
    fn the_computed_s_box_is_that_of_the_standard() {
        for b in 0..=u8::MAX {
            let bytes = [b, b ^ 0x5a, !b, b.rotate_left(3)];
            let found = substitute(u32::from_le_bytes(bytes)).to_le_bytes();
            assert_eq!(found, bytes.map(|b| S_BOX[usize::from(b)]), "{b:#x}");
        }
    }

    #[test]
    fn schedules_are_those_of_the_reference() {
        for size in AesSize::ALL {
            let used = 4 * (size.rounds() + 1);
            for seed in [0, 0x80, 0xff] {
                let (data, tweak) = (key(seed, size.bytes()), key(seed ^ 0x33, size.bytes()));
                for tables in [Tables::One, Tables::Four] {
                    let words = KeyWords::of_bytes(size, &data, Some(&tweak), tables);
                    let words = words.expose();
                    assert_eq!(words[..used], reference_schedule(&data));
                    assert_eq!(words[120..120 + used], reference_schedule(&tweak));
                    for unused in [used..60, 60 + used..120, 120 + used..192] {
                        assert!(words[unused].iter().all(|&word| word == 0));
                    }
                }
            }
        }
    }

    #[test]
    fn the_schedule_of_the_standards_example() {
        // FIPS 197, appendix A.2: the last round key of AES-192.
        let key = [
            0x8e, 0x73, 0xb0, 0xf7, 0xda, 0x0e, 0x64, 0x52, 0xc8, 0x10, 0xf3, 0x2b, 0x80, 0x90,
            0x79, 0xe5, 0x62, 0xf8, 0xea, 0xd2, 0x52, 0x2c, 0x6b, 0x7b,
        ];
        let words = KeyWords::of_bytes(AesSize::Aes192, &key, None, Tables::One);
        let last = [0xe98b_a06f_u32, 0x448c_773c, 0x8ecc_7204, 0x0100_2202];
        assert_eq!(words.expose()[48..52], last.map(u32::swap_bytes));
    }

    #[test]
    fn two_tables_need_rotated_round_keys() {
        for size in AesSize::ALL {
            let (data, tweak) = (key(1, size.bytes()), key(2, size.bytes()));
            let plain = KeyWords::of_bytes(size, &data, Some(&tweak), Tables::One);
            let turned = KeyWords::of_bytes(size, &data, Some(&tweak), Tables::Two);
            let last = 4 * size.rounds();
            for i in 0..KEY_WORDS {
                let (schedule, word) = (i / 60, i % 60);
                let by = if schedule != 1 && (4..last).contains(&word) {
                    8
                } else {
                    0
                };
                let expected = plain.expose()[i].rotate_right(by);
                assert_eq!(turned.expose()[i], expected, "{size:?}, word {i}");
            }
        }
    }

    /// Decrypts a block by `EqInvCipher` (FIPS 197, figure 15), using only `words`.
    fn decrypt(words: &[u32], rounds: usize, block: [u8; 16]) -> [u8; 16] {
        let add = |state: [u8; 16], round: usize| -> [u8; 16] {
            std::array::from_fn(|i| state[i] ^ words[60 + 4 * round + i / 4].to_le_bytes()[i % 4])
        };
        let mut state = add(block, 0);
        for round in 1..=rounds {
            // InvSubBytes and InvShiftRows.
            let moved: [u8; 16] = std::array::from_fn(|i| {
                let (row, column) = (i % 4, i / 4);
                INVERSE_S_BOX[usize::from(state[row + 4 * ((column + 4 - row) % 4)])]
            });
            let mixed: [u8; 16] = std::array::from_fn(|i| {
                let column = i / 4 * 4;
                let factors = [0x0e, 0x0b, 0x0d, 0x09];
                (0..4).fold(0, |sum, k| {
                    sum ^ reference_multiply(moved[column + (i + k) % 4], factors[k])
                })
            });
            state = add(if round < rounds { mixed } else { moved }, round);
        }
        state
    }

    #[test]
    fn the_inverse_schedule_decrypts() {
        for size in AesSize::ALL {
            let data = key(7, size.bytes());
            let words = KeyWords::of_bytes(size, &data, None, Tables::Two);
            let plaintext: [u8; 16] = std::array::from_fn(|i| u8::try_from(i * 11).unwrap());
            let ciphertext = Aes::new(&data).encrypt(plaintext);
            assert_eq!(
                decrypt(words.expose(), size.rounds(), ciphertext),
                plaintext
            );
        }
    }

    #[test]
    fn engine_keys_give_the_same_words() {
        let bytes = key(9, 64);
        for len in [32, 64] {
            let xts = XtsKey::new(&bytes[..len]).unwrap();
            let (data, tweak) = bytes[..len].split_at(len / 2);
            let size = xts.size();
            let words = KeyWords::xts(&xts, Tables::Two);
            assert_eq!(words.size(), size);
            let expected = KeyWords::of_bytes(size, data, Some(tweak), Tables::Two);
            assert_eq!(words.expose(), expected.expose());
            let ctr = KeyWords::ctr(&AesKey::new(data).unwrap(), Tables::One);
            let expected = KeyWords::of_bytes(size, data, None, Tables::One);
            assert_eq!(ctr.expose(), expected.expose());
        }
    }

    #[test]
    fn debug_shows_no_key() {
        let words = KeyWords::of_bytes(AesSize::Aes128, &[0x5a; 16], None, Tables::One);
        assert_eq!(format!("{words:?}"), "KeyWords(Aes128)");
    }

    #[test]
    #[should_panic(expected = "24 bytes for a key of AES-128")]
    fn a_key_of_another_size_is_refused() {
        let _ = KeyWords::of_bytes(AesSize::Aes128, &[0; 24], None, Tables::One);
    }
}
