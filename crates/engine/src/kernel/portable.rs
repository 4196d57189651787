// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel for any CPU: the bitsliced AES of the `aes` crate, which takes 4
//! blocks at once and neither branches on secrets nor looks up by them.
//!
//! On a CPU with AES instructions that crate uses them by itself unless it was
//! compiled with `--cfg aes_backend="soft"`, as this workspace does.
//! [`Kernel::device`] says which of the two it is.

use alloc::{boxed::Box, string::String};

use aes::cipher::{BlockCipherDecrypt, BlockCipherEncrypt, BlockSizeUser, KeyInit, consts::U16};

use super::{
    Kernel,
    vector::{Beside, DEPTH, Each, Permutation, Vector},
};
use crate::{
    backend::Direction,
    gf128::{mul_alpha, mul_alpha8},
    key::{AesKey, KeySize},
    mode::{ctr, ecb, ofb, xts},
    run::Run,
};

#[derive(Clone, Copy)]
pub(super) struct Portable;

/// Boxed: a bitsliced key schedule has a kilobyte and more. Wiped when dropped,
/// by the `aes` crate.
pub(super) enum Key {
    Aes128(Box<aes::Aes128>),
    Aes256(Box<aes::Aes256>),
}

/// Runs `$body` with `$cipher` as the cipher of either size.
macro_rules! with_cipher {
    ($key:expr, $cipher:ident => $body:expr) => {
        match $key {
            Key::Aes128(cipher) => {
                let $cipher = &**cipher;
                $body
            }
            Key::Aes256(cipher) => {
                let $cipher = &**cipher;
                $body
            }
        }
    };
}

impl Kernel for Portable {
    const NAME: &'static str = "portable";
    type Key = Key;

    fn device(self) -> String {
        if aes::hardware_accelerated() {
            // Right all the same, but not what the name promises.
            "CPU, instructions of the aes crate's choice (built without --cfg \
             aes_backend=\"soft\")"
                .into()
        } else {
            "CPU, bitsliced, any processor".into()
        }
    }

    fn expand(self, key: &AesKey) -> Key {
        let valid = "an AesKey has its size's length";
        match key.size() {
            KeySize::Aes128 => Key::Aes128(Box::new(
                aes::Aes128::new_from_slice(key.expose()).expect(valid),
            )),
            KeySize::Aes256 => Key::Aes256(Box::new(
                aes::Aes256::new_from_slice(key.expose()).expect(valid),
            )),
        }
    }

    fn xts(self, data: &Key, tweak: &Key, direction: Direction, run: &mut Run<'_>) {
        with_cipher!(tweak, tweak => with_cipher!(data, data => match direction {
            // SAFETY: `Block` needs no instructions; the caller checked the units.
            Direction::Encrypt => unsafe { xts::encrypt(&Enc(tweak), &Enc(data), run) },
            // SAFETY: as above.
            Direction::Decrypt => unsafe { xts::decrypt(&Enc(tweak), &Dec(data), run) },
        }));
    }

    fn ecb(self, key: &Key, direction: Direction, run: &mut Run<'_>) {
        with_cipher!(key, key => match direction {
            // SAFETY: `Block` needs no instructions; the caller checked the units.
            Direction::Encrypt => unsafe { ecb::crypt(&Enc(key), run) },
            // SAFETY: as above.
            Direction::Decrypt => unsafe { ecb::crypt(&Dec(key), run) },
        });
    }

    fn ctr(self, key: &Key, run: &mut Run<'_>) {
        // SAFETY: `Block` needs no instructions.
        with_cipher!(key, key => unsafe { ctr::crypt(&Enc(key), run) });
    }

    fn ofb(self, key: &Key, run: &mut Run<'_>) {
        // SAFETY: `Block` needs no instructions.
        with_cipher!(key, key => unsafe { ofb::crypt(&Enc(key), run) });
    }
}

/// One block as a little-endian integer.
#[derive(Clone, Copy)]
struct Block(u128);

impl Vector for Block {
    const BLOCKS: usize = 1;

    #[inline(always)]
    unsafe fn zero() -> Self {
        Self(0)
    }

    #[inline(always)]
    unsafe fn load(p: *const u8) -> Self {
        // SAFETY: the caller lets 16 bytes be read; an array of bytes has no alignment.
        Self(u128::from_le_bytes(unsafe { p.cast::<[u8; 16]>().read() }))
    }

    #[inline(always)]
    unsafe fn load_aligned(p: *const u8) -> Self {
        // SAFETY: as the caller says.
        unsafe { Self::load(p) }
    }

    #[inline(always)]
    unsafe fn store(self, p: *mut u8) {
        // SAFETY: the caller lets 16 bytes be written; an array of bytes has no alignment.
        unsafe { p.cast::<[u8; 16]>().write(self.0.to_le_bytes()) }
    }

    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        Self(self.0 ^ other.0)
    }

    #[inline(always)]
    unsafe fn broadcast(p: *const u8) -> Self {
        // SAFETY: as the caller says.
        unsafe { Self::load(p) }
    }

    #[inline(always)]
    unsafe fn count(first: u128, _: u64) -> Self {
        Self(first)
    }

    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "the low half")]
    fn add_low(self, n: u64) -> Self {
        let low = (self.0 as u64).wrapping_add(n);
        Self((self.0 >> 64 << 64) | u128::from(low))
    }

    #[inline(always)]
    fn swap_bytes(self) -> Self {
        Self(self.0.swap_bytes())
    }

    #[inline(always)]
    fn spread(self, i: usize) -> Self {
        Self((0..i).fold(self.0, |t, _| mul_alpha(t)))
    }

    #[inline(always)]
    fn mul_alpha8(self) -> Self {
        Self(mul_alpha8(self.0))
    }

    #[inline(always)]
    fn mul_pass(self) -> Self {
        const { assert!(DEPTH * Self::BLOCKS == 8) };
        self.mul_alpha8()
    }
}

struct Enc<'a, C>(&'a C);
struct Dec<'a, C>(&'a C);

macro_rules! permutation {
    ($name:ident, $cipher:ident, $method:ident) => {
        /// The crate adds the first and the last round key by itself.
        impl<C: $cipher + BlockSizeUser<BlockSize = U16>> Permutation for $name<'_, C> {
            type V = Block;

            #[inline(always)]
            fn enter(&self, x: Block) -> Block {
                x
            }

            #[inline(always)]
            fn enter_masked(&self, x: Block, mask: Block) -> Block {
                x.xor(mask)
            }

            #[inline(always)]
            fn leave(&self) -> Block {
                Block(0)
            }

            #[inline(always)]
            fn rounds<const D: usize, W: Beside<Block>>(
                &self,
                x: [Block; D],
                post: impl Each<Block>,
                work: &mut W,
            ) -> [Block; D] {
                let mut blocks = x.map(|x| aes::Block::from(x.0.to_le_bytes()));
                self.0.$method(&mut blocks);
                let mut y = blocks.map(|block| Block(u128::from_le_bytes(block.into())));
                for i in 0..DEPTH {
                    work.step(i, &mut y[0]);
                }
                for (i, y) in y.iter_mut().enumerate() {
                    *y = y.xor(post.at(i));
                }
                y
            }

            #[inline(always)]
            fn mask_mul_alpha8(&self, mask: Block) -> Block {
                mask.mul_alpha8()
            }

            #[inline(always)]
            fn mask_mul_pass(&self, mask: Block) -> Block {
                mask.mul_pass()
            }
        }
    };
}

permutation!(Enc, BlockCipherEncrypt, encrypt_blocks);
permutation!(Dec, BlockCipherDecrypt, decrypt_blocks);
