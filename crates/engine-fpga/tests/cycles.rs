// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts the clock cycles of work on the Verilated core behind its driver, with the core's own
//! counters. The counts are the same on every machine.

use luxor_conformance::Random;
use luxor_engine::{AesKey, DataUnitNumber, Direction, XtsKey};
use luxor_engine_fpga::{
    Driver, Waiting,
    driver::{CoreMode, Counters, Descriptor, SlotKey},
    model::Model,
};

fn driver_with_key(random: &mut Random) -> (Driver<Model>, u8) {
    let mut driver = Driver::new(Model::new()).unwrap();
    let key = SlotKey::xts(&XtsKey::new(&random.bytes(64)).unwrap());
    let slot = driver.seat(&key).unwrap().expect("all slots are free");
    (driver, slot)
}

/// Runs `count` descriptors with the ring as full as possible. Returns the counts from before the
/// first to after the last.
fn taken(
    driver: &mut Driver<Model>,
    count: usize,
    packet: &[u8],
    descriptor: impl Fn(usize) -> Descriptor,
) -> Counters {
    let mut answer = vec![0; packet.len()];
    let before = driver.counters().unwrap();
    let mut submitted = 0;
    for _ in 0..count {
        while submitted < count && driver.room() > 0 {
            driver.submit(&descriptor(submitted), packet).unwrap();
            submitted += 1;
        }
        driver.complete(&mut answer).unwrap().status.unwrap();
    }
    let after = driver.counters().unwrap();
    driver.settle().unwrap();
    Counters {
        cycles: after.cycles - before.cycles,
        beats: after.beats - before.beats,
        blocks: after.blocks - before.blocks,
    }
}

/// 8192 data units of 512 bytes take one cycle per block, tweaks included. The remaining cycles are
/// for writing the descriptor, for the latency of the pipeline, and for reading the result.
#[test]
fn data_units_of_512_bytes_are_a_block_a_cycle() {
    let random = &mut Random::for_test("a_block_a_cycle");
    let (mut driver, slot) = driver_with_key(random);
    let packet = random.bytes(4 << 20);
    for direction in Direction::ALL {
        let taken = taken(&mut driver, 1, &packet, |_| Descriptor {
            first: DataUnitNumber::new(1 << 40),
            stride: 1,
            unit_len: 512,
            units: 8192,
            slot,
            direction,
            mode: CoreMode::Xts,
        });
        println!("{direction:?}: {taken:?}");
        assert_eq!(taken.beats, 262_144);
        assert_eq!(taken.blocks, 262_144);
        assert!(taken.cycles - taken.beats < 200, "{taken:?}");
    }
}

/// Counter mode encrypts nothing but the counters: a data unit of 4 MiB takes one cycle per block, and
/// so do units of 512 bytes.
#[test]
fn counter_mode_is_a_block_a_cycle() {
    let random = &mut Random::for_test("counter_mode");
    let mut driver = Driver::new(Model::new()).unwrap();
    let bytes = random.bytes(32);
    let key = SlotKey::aes(&AesKey::new(&bytes).unwrap());
    let slot = driver.seat(&key).unwrap().expect("all slots are free");
    let packet = random.bytes(4 << 20);
    for (unit_len, units) in [(4 << 20, 1), (512, 8192)] {
        let taken = taken(&mut driver, 1, &packet, |_| Descriptor {
            first: DataUnitNumber::new(u128::MAX - 1000),
            stride: 32,
            unit_len,
            units,
            slot,
            direction: Direction::Encrypt,
            mode: CoreMode::Ctr,
        });
        println!("{units} of {unit_len} bytes: {taken:?}");
        assert_eq!(taken.beats, 262_144);
        assert!(taken.cycles - taken.beats < 200, "{taken:?}");
    }
}

/// Requests of 512-byte data units, with as many under way as the ring holds, take one cycle per
/// block over all of them. A unit has 32 cycles, in which the bus must write the changed words and
/// the doorbell, and read the status.
fn requests_follow_one_another(units: u32, count: usize) {
    let random = &mut Random::for_test("requests");
    let (mut driver, slot) = driver_with_key(random);
    let packet = random.bytes(512 * units as usize);
    let taken = taken(&mut driver, count, &packet, |n| Descriptor {
        first: DataUnitNumber::new(u128::from(units) * n as u128),
        stride: 1,
        unit_len: 512,
        units,
        slot,
        direction: Direction::Encrypt,
        mode: CoreMode::Xts,
    });
    println!("{count} of {units} data units: {taken:?}");
    assert_eq!(taken.beats, (count * packet.len() / 16) as u64);
    assert!(taken.cycles - taken.beats < 500, "{taken:?}");
}

#[test]
fn requests_of_512_bytes_follow_one_another() {
    requests_follow_one_another(1, 8192);
}

#[test]
fn requests_of_4_kib_follow_one_another() {
    requests_follow_one_another(8, 512);
}

/// With interrupts, a request of a data unit takes a few cycles more, for clearing the interrupt. A
/// missed one would take a million.
#[test]
fn an_interrupt_takes_a_few_cycles() {
    let random = &mut Random::for_test("an_interrupt");
    let packet = random.bytes(512);
    let [polling, interrupts] = [Waiting::Polling, Waiting::Interrupts].map(|waiting| {
        let (mut driver, slot) = driver_with_key(random);
        driver.set_waiting(waiting).unwrap();
        let mut one = || {
            taken(&mut driver, 1, &packet, |_| Descriptor {
                first: DataUnitNumber::new(7),
                stride: 1,
                unit_len: 512,
                units: 1,
                slot,
                direction: Direction::Encrypt,
                mode: CoreMode::Xts,
            })
        };
        // The first 32 descriptors are written in full.
        let taken: Vec<_> = (0..40).map(|_| one().cycles).collect();
        assert!(taken[33..].iter().all(|cycles| *cycles == taken[32]));
        taken[32]
    });
    println!("polling {polling}, interrupts {interrupts}");
    assert!((1..10).contains(&(interrupts - polling)), "{interrupts}");
}
