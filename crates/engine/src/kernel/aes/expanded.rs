// SPDX-License-Identifier: MIT OR Apache-2.0
//! Key expansion with AES instructions.

use zeroize::Zeroize;

use super::Registers;
use luxor_secret::SecretBytes;

use crate::{
    gf128::mul_alpha8,
    key::{AesKey, AesSize},
};

/// Both key schedules, first that of encryption, then that of the equivalent inverse cipher (FIPS
/// 197, 5.3.5), and the constants that masks need.
///
/// Each value is repeated for every block of a register, so that one load fills the register. The
/// kernels read the schedules from memory: with 24 registers of data and masks there is no room for
/// round keys, and one load for eight AES instructions costs nothing.
pub(in crate::kernel) struct Expanded {
    pub(in crate::kernel) size: AesSize,
    /// Two schedules of [`SLOTS`] values each.
    pub(in crate::kernel) schedules: SecretBytes,
}

/// The number of round keys of AES-256: one before its 14 rounds and one for each.
const MAX_KEYS: usize = 15;

// The values after the round keys; see `Permutation` for masks.
/// The first round key ⊕ the last one.
pub(super) const ACROSS: usize = MAX_KEYS;
/// The constant to add to a mask after multiplying it by α⁸.
pub(super) const ALPHA8: usize = MAX_KEYS + 1;
/// The constant to add after multiplying it by the power of α of a pass.
pub(super) const PASS: usize = MAX_KEYS + 2;

pub(in crate::kernel) const SLOTS: usize = MAX_KEYS + 3;

impl Expanded {
    /// Expands a key (FIPS 197, 5.2) for registers of type `V`.
    ///
    /// # Safety
    /// The CPU has the instructions of `V`.
    pub(in crate::kernel) unsafe fn new<V: Registers>(key: &AesKey) -> Self {
        let blocks = V::BLOCKS;
        // SAFETY: the caller guarantees the instructions.
        let sub_word = |word| unsafe { V::sub_word(word) };
        let size = key.size();
        let (nk, rounds) = (size.bytes() / 4, size.rounds());
        let mut words = [0_u32; 4 * MAX_KEYS];
        for (word, bytes) in words.iter_mut().zip(key.expose().chunks_exact(4)) {
            *word = u32::from_le_bytes(bytes.try_into().expect("4 bytes"));
        }
        let mut rcon = 1_u32;
        for i in nk..4 * (rounds + 1) {
            let mut word = words[i - 1];
            if i % nk == 0 {
                // Words are little-endian here, so RotWord rotates right.
                word = sub_word(word).rotate_right(8) ^ rcon;
                rcon = (rcon << 1) ^ (0x11b * (rcon >> 7));
            } else if nk == 8 && i % nk == 4 {
                word = sub_word(word);
            }
            words[i] = words[i - nk] ^ word;
        }

        let mut values = [[0_u128; SLOTS]; 2];
        for (i, key) in words.chunks_exact(4).enumerate().take(rounds + 1) {
            let key = key.iter().rev().fold(0, |k, &w| (k << 32) | u128::from(w));
            values[0][i] = key;
            values[1][rounds - i] = if i == 0 || i == rounds {
                key
            } else {
                // SAFETY: the caller guarantees the instructions.
                unsafe { V::inv_mix_columns(key) }
            };
        }
        words.zeroize();
        for values in &mut values {
            let last = values[rounds];
            values[ACROSS] = values[0] ^ last;
            values[ALPHA8] = mul_alpha8(last) ^ last;
            values[PASS] = (0..blocks).fold(last, |k, _| mul_alpha8(k)) ^ last;
        }

        let mut schedules = SecretBytes::zeroed(2 * SLOTS * 16 * blocks);
        let slots = schedules.expose_mut().chunks_exact_mut(16 * blocks);
        for (slot, value) in slots.zip(values.as_flattened()) {
            for block in slot.chunks_exact_mut(16) {
                block.copy_from_slice(&value.to_le_bytes());
            }
        }
        values.zeroize();
        Self { size, schedules }
    }
}
