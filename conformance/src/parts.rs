// SPDX-License-Identifier: MIT OR Apache-2.0
//! The axis of parts of data units, into which an executor splits long units.

use std::{
    num::NonZeroUsize,
    sync::atomic::{AtomicUsize, Ordering},
};

use luxor_engine::{Backend, CryptError, DataUnitLen, Direction, Executor, LoadedKey, Run};

use crate::{
    cases::Cases,
    kit::{Kit, Offsets, Shape},
    random::Random,
};

/// Long units give the same results on several threads as on one, if the key takes parts of units.
///
/// # Panics
/// If the backend does not conform.
pub fn parts(backend: &dyn Backend, cases: Cases) {
    const MIB: usize = 1 << 20;
    // The last part of most of these units ends with stolen ciphertext.
    let shapes = [
        (MIB + 1, 1),
        (MIB, 1),
        (MIB - 1, 2),
        (MIB + 16, 2),
        (2 * MIB + 4097, 2),
        (DataUnitLen::MAX.get(), 1),
    ];
    let shapes = &shapes[..cases.pick_of_three(6, 2, 1)];
    let executors = [2, 3].map(|n| Executor::new(NonZeroUsize::new(n).expect("not 0")));
    let random = &mut Random::for_test("parts");
    let mut kits = Kit::few(backend, random);
    kits.retain(|kit| kit.loaded().takes_parts_of_units());
    for kit in kits {
        for &(unit_len, units) in shapes {
            let shape = Shape {
                unit_len,
                units,
                first: u128::MAX,
                stride: 3,
            };
            let mut piece = kit.piece_by_backend(random, shape, Offsets::InPlace(0));
            let separate = Offsets::Separate {
                input: 1,
                output: 3,
            };
            for (executor, place) in executors.iter().zip([Offsets::InPlace(0), separate]) {
                let key = PartsCounted::new(kit.loaded());
                let crypt = |direction, runs: &mut [Run<'_>]| executor.crypt(&key, direction, runs);
                piece.place = place;
                kit.check_through(&crypt, std::slice::from_ref(&piece));
                assert!(key.parts() > 0, "{unit_len} bytes were not split");
            }
        }
    }
}

/// A key that counts the runs that begin inside a data unit.
pub struct PartsCounted<'a> {
    key: &'a dyn LoadedKey,
    parts: AtomicUsize,
}

impl<'a> PartsCounted<'a> {
    /// Does all work with `key`.
    pub fn new(key: &'a dyn LoadedKey) -> Self {
        Self {
            key,
            parts: AtomicUsize::new(0),
        }
    }

    /// The number of these runs until now.
    pub fn parts(&self) -> usize {
        self.parts.load(Ordering::Relaxed)
    }
}

impl LoadedKey for PartsCounted<'_> {
    fn crypt(&self, direction: Direction, runs: &mut [Run<'_>]) -> Result<(), CryptError> {
        let parts = runs.iter().filter(|run| run.unit_offset() > 0).count();
        self.parts.fetch_add(parts, Ordering::Relaxed);
        self.key.crypt(direction, runs)
    }

    fn takes_parts_of_units(&self) -> bool {
        self.key.takes_parts_of_units()
    }
}
