// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernels of the double, over the slow reference.

use std::sync::LazyLock;

use luxor_engine::Direction;
use luxor_engine_gpu::{KeyWords, Launch, Piece, Tables};
use luxor_reference::{
    Block,
    aes::{INVERSE_S_BOX, S_BOX, multiply},
    multiply_by_alpha,
};

/// A cipher that uses the words of a key; `new` takes the indices at which the schedules begin.
#[derive(Clone)]
pub(super) struct Aes {
    encryption: Vec<[u32; 4]>,
    decryption: Vec<[u32; 4]>,
}

/// The tables T0 of encryption and of decryption.
static TABLES: LazyLock<[[u32; 256]; 2]> = LazyLock::new(|| {
    let table = |box_: &[u8; 256], factors: [u8; 4]| {
        box_.map(|b| u32::from_le_bytes(factors.map(|factor| multiply(b, factor))))
    };
    [
        table(&S_BOX, [2, 1, 1, 3]),
        table(&INVERSE_S_BOX, [0x0e, 0x09, 0x0d, 0x0b]),
    ]
});

impl Aes {
    pub(super) fn new(
        words: &KeyWords,
        [encryption, decryption]: [usize; 2],
        tables: Tables,
    ) -> Self {
        let rounds = words.size().rounds();
        let schedule = |from: usize, by: u32| {
            let keys = words.expose()[from..].chunks_exact(4).take(rounds + 1);
            let inner = 1..rounds;
            keys.enumerate()
                .map(|(round, key)| {
                    let by = if inner.contains(&round) { by } else { 0 };
                    std::array::from_fn(|i| key[i].rotate_left(by))
                })
                .collect()
        };
        Self {
            encryption: schedule(encryption, if tables == Tables::Two { 8 } else { 0 }),
            decryption: schedule(decryption, 0),
        }
    }

    fn encrypt(&self, block: Block) -> Block {
        Self::cipher(&self.encryption, &TABLES[0], &S_BOX, 1, block)
    }

    fn decrypt(&self, block: Block) -> Block {
        Self::cipher(&self.decryption, &TABLES[1], &INVERSE_S_BOX, 3, block)
    }

    /// `turn` is the column offset, counted from the result's column, of the byte in row 1.
    fn cipher(
        keys: &[[u32; 4]],
        table: &[u32; 256],
        s_box: &[u8; 256],
        turn: usize,
        block: Block,
    ) -> Block {
        let words: [u32; 4] =
            std::array::from_fn(|i| u32::from_le_bytes(block[4 * i..][..4].try_into().unwrap()));
        let mut state: [u32; 4] = std::array::from_fn(|i| words[i] ^ keys[0][i]);
        for (round, key) in keys.iter().enumerate().skip(1) {
            let before = state.map(u32::to_le_bytes);
            let is_last = round + 1 == keys.len();
            state = *key;
            for (column, word) in state.iter_mut().enumerate() {
                for (row, bits) in [0, 8, 16, 24].into_iter().enumerate() {
                    let byte = usize::from(before[(column + turn * row) % 4][row]);
                    *word ^= if is_last {
                        u32::from(s_box[byte]) << bits
                    } else {
                        table[byte].rotate_left(bits)
                    };
                }
            }
        }
        state.map(u32::to_le_bytes).concat().try_into().unwrap()
    }
}

/// Performs a launch. The caller has checked that the memories are long enough.
pub(super) fn run(
    launch: &Launch,
    data: &Aes,
    tweak: &Aes,
    pieces: &[Piece],
    tweaks: &mut [u8],
    input: &[u8],
    output: &mut [u8],
) {
    match *launch {
        Launch::Tweaks {
            pieces_at,
            piece_count,
            units,
            spu,
            tweaks_at,
        } => {
            let pieces = &pieces[pieces_at / 32..][..piece_count as usize];
            for unit in 0..units {
                let mut block = tweak.encrypt(number(pieces, unit).to_le_bytes());
                for stretch in 0..spu {
                    let at = tweaks_at + 16 * (unit as usize * spu as usize + stretch as usize);
                    tweaks[at..][..16].copy_from_slice(&block);
                    if stretch + 1 < spu {
                        for _ in 0..256 {
                            block = multiply_by_alpha(block);
                        }
                    }
                }
            }
        }
        Launch::Xts {
            direction,
            input_at,
            output_at,
            tweaks_at,
            units,
            blocks,
            pitch,
            spu,
        } => {
            for unit in 0..units as usize {
                let tweaks = &tweaks[tweaks_at + 16 * unit * spu as usize..];
                let mut mask = block(tweaks, 0);
                for index in 0..blocks as usize {
                    if index.is_multiple_of(256) {
                        // Reload the mask, as a warp does that knows only the tweak of its stretch.
                        mask = block(tweaks, index / 256);
                    }
                    let at = 16 * (unit * pitch as usize + index);
                    let from = block(&input[input_at + at..], 0);
                    let to = &mut output[output_at + at..][..16];
                    to.copy_from_slice(&xex(data, direction, from, mask));
                    mask = multiply_by_alpha(mask);
                }
            }
        }
        Launch::Tails {
            direction,
            input_at,
            output_at,
            tweaks_at,
            units,
            blocks,
            pitch,
            spu,
            tail,
        } => {
            assert!((1..16).contains(&tail));
            let (blocks, tail) = (blocks as usize, tail as usize);
            for unit in 0..units as usize {
                let tweaks = &tweaks[tweaks_at + 16 * unit * spu as usize..];
                let mask = |index: usize| {
                    assert!(index / 256 < spu as usize);
                    let first = block(tweaks, index / 256);
                    (0..index % 256).fold(first, |mask, _| multiply_by_alpha(mask))
                };
                let (whole, last) = (mask(blocks), mask(blocks + 1));
                let (first, second) = match direction {
                    Direction::Encrypt => (whole, last),
                    Direction::Decrypt => (last, whole),
                };
                let at = 16 * (unit * pitch as usize + blocks);
                let middle = xex(data, direction, block(&input[input_at + at..], 0), first);
                let mut joined = middle;
                joined[..tail].copy_from_slice(&input[input_at + at + 16..][..tail]);
                let to = &mut output[output_at + at..][..16 + tail];
                to[..16].copy_from_slice(&xex(data, direction, joined, second));
                to[16..].copy_from_slice(&middle[..tail]);
            }
        }
        Launch::Ctr {
            input_at,
            output_at,
            pieces_at,
            piece_count,
            units,
            len,
            pitch,
            ..
        } => {
            let pieces = &pieces[pieces_at / 32..][..piece_count as usize];
            for unit in 0..units {
                let at = 16 * unit as usize * pitch as usize;
                let mut counter = number(pieces, unit);
                let from = &input[input_at + at..][..len as usize];
                let to = &mut output[output_at + at..][..len as usize];
                for (from, to) in from.chunks(16).zip(to.chunks_mut(16)) {
                    let stream = data.encrypt(counter.to_be_bytes());
                    for ((from, to), key) in from.iter().zip(to).zip(stream) {
                        *to = from ^ key;
                    }
                    counter = counter.wrapping_add(1);
                }
            }
        }
    }
}

fn number(pieces: &[Piece], unit: u32) -> u128 {
    assert!(pieces.is_sorted_by(|a, b| a.start < b.start) && pieces[0].start == 0);
    let piece = pieces.partition_point(|piece| piece.start <= unit) - 1;
    pieces[piece].number(unit)
}

fn block(bytes: &[u8], index: usize) -> Block {
    bytes[16 * index..][..16].try_into().unwrap()
}

fn xex(aes: &Aes, direction: Direction, input: Block, mask: Block) -> Block {
    let xor = |a: Block, b: Block| std::array::from_fn(|i| a[i] ^ b[i]);
    let inside = xor(input, mask);
    let inside = match direction {
        Direction::Encrypt => aes.encrypt(inside),
        Direction::Decrypt => aes.decrypt(inside),
    };
    xor(inside, mask)
}
