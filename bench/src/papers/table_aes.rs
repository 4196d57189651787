// SPDX-License-Identifier: MIT OR Apache-2.0
//! AES by T-tables on the CPU, the usual baseline of papers. **Not constant-time**: it reads tables
//! at indices that depend on the key and the data.

use luxor_engine_gpu::keys::{AesSize, KeyWords, Tables};

/// `MixColumns` of a column with S(x) in row 0 and zeros below, row 0 in the low byte. The tables
/// for the other rows are rotations of the first, written out as is usual.
static TABLES: [[u32; 256]; 4] = {
    let mut tables = [[0; 256]; 4];
    let mut x = 0;
    while x < 256 {
        let s = S_BOX[x] as u32;
        let by_2 = (s << 1) ^ ((s >> 7) * 0x11b);
        let mut column = by_2 | s << 8 | s << 16 | (by_2 ^ s) << 24;
        let mut row = 0;
        while row < 4 {
            tables[row][x] = column;
            column = column.rotate_left(8);
            row += 1;
        }
        x += 1;
    }
    tables
};

/// The S-box of FIPS 197, 5.1.1, computed: 3 is a generator, so the inverse of 3ⁿ is 3²⁵⁵⁻ⁿ.
static S_BOX: [u8; 256] = {
    let mut powers = [1_u8; 256];
    let mut n = 1;
    while n < 256 {
        let before = powers[n - 1];
        powers[n] = before ^ (before << 1) ^ ((before >> 7) * 0x1b);
        n += 1;
    }
    let mut s_box = [0x63; 256];
    let mut n = 0;
    while n < 255 {
        let i = powers[255 - n];
        let turned = i ^ i.rotate_left(1) ^ i.rotate_left(2) ^ i.rotate_left(3) ^ i.rotate_left(4);
        s_box[powers[n] as usize] = turned ^ 0x63;
        n += 1;
    }
    s_box
};

/// A key's schedule for encryption.
pub(crate) struct TableAes {
    rounds: Vec<[u32; 4]>,
}

impl TableAes {
    /// Expands `key`.
    ///
    /// # Panics
    /// If `key` does not have the length of `size`.
    pub(crate) fn new(size: AesSize, key: &[u8]) -> Self {
        let words = KeyWords::of_bytes(size, key, None, Tables::Four);
        let words = words.expose()[..4 * (size.rounds() + 1)].chunks_exact(4);
        Self {
            rounds: words.map(|w| [w[0], w[1], w[2], w[3]]).collect(),
        }
    }

    /// Encrypts one block, given as a little-endian number.
    pub(crate) fn encrypt(&self, block: u128) -> u128 {
        let (Some((first, rest)), Some(last)) = (self.rounds.split_first(), self.rounds.last())
        else {
            return block;
        };
        let mut w: [u32; 4] = std::array::from_fn(|i| word(block, i) ^ first[i]);
        let byte = |word: u32, row: usize| usize::from(word.to_le_bytes()[row]);
        for key in &rest[..rest.len() - 1] {
            w = std::array::from_fn(|i| {
                (0..4).fold(key[i], |sum, row| {
                    sum ^ TABLES[row][byte(w[(i + row) % 4], row)]
                })
            });
        }
        (0..4).fold(0, |block, i| {
            let bytes = std::array::from_fn(|row| S_BOX[byte(w[(i + row) % 4], row)]);
            let column = u32::from_le_bytes(bytes) ^ last[i];
            block | u128::from(column) << (32 * i)
        })
    }
}

#[expect(clippy::cast_possible_truncation, reason = "takes one 32-bit word")]
fn word(block: u128, i: usize) -> u32 {
    (block >> (32 * i)) as u32
}

#[cfg(test)]
mod tests {
    use luxor_reference::Aes;

    use super::*;

    #[test]
    fn blocks_are_those_of_the_reference() {
        for size in AesSize::ALL {
            let key: Vec<u8> = (3..).take(size.bytes()).collect();
            let (aes, reference) = (TableAes::new(size, &key), Aes::new(&key));
            let mut block = [0; 16];
            for _ in 0..300 {
                let next = reference.encrypt(block);
                assert_eq!(
                    aes.encrypt(u128::from_le_bytes(block)).to_le_bytes(),
                    next,
                    "{size:?}"
                );
                block = next;
            }
        }
    }
}
