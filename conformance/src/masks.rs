// SPDX-License-Identifier: MIT OR Apache-2.0
//! The axis of masks: for each block *j* of a unit, the tweak T of the unit times αʲ (IEEE 1619-2007,
//! 5.3.2).

use luxor_engine::{Backend, Mode};

use crate::{
    cases::Cases,
    kit::{Kit, Offsets, Shape},
    random::Random,
};

/// Units whose tweak T is 0 or has a single bit, for all 128 bits.
///
/// This proves the masks for all T: they are sums of T's bits, shifted and multiplied by constants
/// without carries, and no branch depends on T, as the check for constant time shows. Such a
/// function is linear over GF(2), and two linear functions that agree on a basis agree everywhere.
/// T is the encryption of a unit's number, so a number for each T is its decryption.
///
/// The units are short and long, whole blocks and with stolen ciphertext, alone and among others
/// before which a kernel computes masks ahead. Parts of units begin with T·αʲ as another T.
///
/// # Panics
/// If the backend does not conform.
pub fn masks(backend: &dyn Backend, cases: Cases) {
    // The length of a unit, the units of a run, and the one whose T is chosen.
    let shapes = [
        (16, 1, 0),
        (16 * 15 + 9, 1, 0),
        (512, 9, 0),
        (512, 9, 7),
        (520, 5, 4),
        (4096, 1, 0),
        (4096 + 512 + 16 * 17 + 1, 2, 1),
    ];
    let random = &mut Random::for_test("masks");
    let mut kits = Kit::few(backend, random);
    kits.retain(|kit| kit.mode == Mode::Xts);
    for kit in kits {
        for (unit_len, units, chosen) in cases.sample(shapes, 3) {
            let bits = (0..128).map(|bit| 1 << bit);
            let pieces: Vec<_> = bits
                .chain([0])
                .map(|t| {
                    let shape = Shape {
                        unit_len,
                        units,
                        first: kit.number_of(t).wrapping_sub(chosen),
                        stride: 1,
                    };
                    kit.piece(random, shape, Offsets::InPlace(0))
                })
                .collect();
            // At most 256 KiB in a call, for slow backends.
            for pieces in pieces.chunks(26) {
                kit.check(pieces);
            }
        }
    }
}
