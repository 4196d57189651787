// SPDX-License-Identifier: MIT OR Apache-2.0
//! How concurrent calls share queues. Only the pool shows that a call is waiting.

use std::{
    sync::{Arc, Barrier},
    thread,
};

use luxor_engine::{AesKey, DataUnitLen, Direction, KeySpec, LoadedKey, Run, XtsKey};

use crate::{GpuBackend, Launch, Tuning, double::Double};

#[test]
fn a_long_call_does_not_block_others() {
    let double = Double::new();
    let mut tuning = Tuning::default();
    (tuning.batch, tuning.least_batch, tuning.queues) = (4096, 4096, 1);
    let backend = GpuBackend::new(vec![double.clone()], tuning);
    let secret: Vec<u8> = (0..32).collect();
    let xts = KeySpec::Xts(XtsKey::new(&secret).unwrap());
    let ctr = KeySpec::Ctr(AesKey::new(&secret[..16]).unwrap());
    let (xts, ctr) = (backend.load(&xts).unwrap(), backend.load(&ctr).unwrap());
    let crypt = |key: &dyn LoadedKey, len| {
        let unit = DataUnitLen::new(512).unwrap();
        let mut bytes = vec![7; len];
        let run = Run::new(0_u64.into(), 1, unit, &mut bytes[..]).unwrap();
        key.crypt(Direction::Encrypt, &mut [run]).unwrap();
    };
    let gate = Arc::new(Barrier::new(2));
    double.hold_at_wait(&gate);
    thread::scope(|scope| {
        scope.spawn(|| crypt(&xts, 10 * 4096));
        // The long call now waits for its first batch and holds the only queue.
        gate.wait();
        scope.spawn(|| crypt(&ctr, 512));
        while !ctr.pool().is_wanted() {
            thread::yield_now();
        }
        gate.wait();
    });
    let record = double.record();
    let mut launches = record.launches.iter();
    // The short call runs after the tweaks and the data of the first batch.
    let short = launches.position(|launch| matches!(launch, Launch::Ctr { .. }));
    assert_eq!((short, record.launches.len()), (Some(2), 21));
}
