// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sends random descriptors through a driver: good and bad ones, with more keys than slots, and
//! with the ring as full as possible. Compares the results with the reference.

use std::collections::VecDeque;

use luxor_conformance::Random;
use luxor_engine::{AesKey, DataUnitNumber, Direction, XtsKey};
use luxor_engine_fpga::{
    DriverError, Transport, beats,
    driver::{CoreMode, Descriptor, DescriptorError, Driver, KeyError, SlotKey},
    registers as reg,
};
use luxor_reference as reference;

/// A key and its bytes: the data key, then the tweak key.
struct Key {
    slot_key: SlotKey,
    bytes: Vec<u8>,
    mode: CoreMode,
}

impl Key {
    fn random(random: &mut Random) -> Self {
        let bytes = {
            let len = [32, 64][random.below(2)];
            random.bytes(len)
        };
        let mode = [CoreMode::Xts, CoreMode::Xts, CoreMode::Ecb, CoreMode::Ctr][random.below(4)];
        let slot_key = if mode == CoreMode::Xts {
            SlotKey::xts(&XtsKey::new(&bytes).unwrap())
        } else {
            SlotKey::aes(&AesKey::new(&bytes[..bytes.len() / 2]).unwrap())
        };
        Self {
            slot_key,
            bytes,
            mode,
        }
    }
}

/// The expected result of a descriptor.
struct Expected {
    what: String,
    status: Result<(), DescriptorError>,
    /// The first bytes of the answer, and its length if that is known.
    head: Vec<u8>,
    len: Option<usize>,
}

/// Sends `count` descriptors. Returns the number of good ones.
pub fn random_descriptors<T: Transport>(
    driver: &mut Driver<T>,
    random: &mut Random,
    count: usize,
) -> usize {
    let mut keys: Vec<Key> = (0..6).map(|_| Key::random(random)).collect();
    let mut under_way = VecDeque::new();
    let (mut good, mut sent) = (0, 0);
    while sent < count {
        let key = random.below(keys.len());
        match random.below(100) {
            // Replace a key.
            0..3 => match driver.forget(&keys[key].slot_key) {
                Ok(()) => keys[key] = Key::random(random),
                Err(DriverError::Key(KeyError::InUse)) => complete(driver, &mut under_way),
                Err(error) => panic!("{error}"),
            },
            3 => refused_key(driver, random),
            _ => {
                let Some(slot) = driver.seat(&keys[key].slot_key).unwrap() else {
                    complete(driver, &mut under_way);
                    continue;
                };
                let (descriptor, packet, expected) = job(driver, random, &keys[key], slot);
                driver.submit(&descriptor, &packet).unwrap();
                good += usize::from(expected.status.is_ok());
                under_way.push_back(expected);
                sent += 1;
            }
        }
        while driver.room() == 0 || (!under_way.is_empty() && random.below(33) == 0) {
            complete(driver, &mut under_way);
        }
        if sent % 1000 == 0 && under_way.len() < 4 {
            while !under_way.is_empty() {
                complete(driver, &mut under_way);
            }
            driver.settle().unwrap();
        }
    }
    while !under_way.is_empty() {
        complete(driver, &mut under_way);
    }
    driver.settle().unwrap();
    for key in &keys {
        driver.forget(&key.slot_key).unwrap();
    }
    good
}

/// Loads a key that the core must refuse.
fn refused_key<T: Transport>(driver: &mut Driver<T>, random: &mut Random) {
    let half = {
        let len = [16, 32][random.below(2)];
        random.bytes(len)
    };
    let key = XtsKey::new_permitting_equal_halves(&[&half[..], &half].concat()).unwrap();
    match driver.seat(&SlotKey::xts(&key)) {
        Ok(None) | Err(DriverError::Key(KeyError::Equal)) => {}
        other => panic!("{other:?}"),
    }
}

/// Returns a slot in this state, if there is one.
fn slot_in_state<T: Transport>(driver: &mut Driver<T>, state: u32) -> Option<u8> {
    let states = driver.transport().read(reg::SLOT_STATE).unwrap();
    (0..4).find(|slot| states >> (2 * slot) & 3 == state)
}

/// Returns a descriptor under `key`, good in most cases.
fn job<T: Transport>(
    driver: &mut Driver<T>,
    random: &mut Random,
    key: &Key,
    slot: u8,
) -> (Descriptor, Vec<u8>, Expected) {
    let beat_len = driver.config().beat_len();
    let unit_len = {
        let len = match random.below(8) {
            0 => 16,
            1 => 512,
            2 => 16 + random.below(17),
            3 => 500 + random.below(30),
            4 => 16 + random.below(1000),
            _ => 16 + random.below(150),
        };
        match key.mode {
            CoreMode::Xts => len,
            CoreMode::Ecb => len / 16 * 16,
            CoreMode::Ctr if random.below(8) == 0 => 1 + random.below(15),
            CoreMode::Ctr => len,
        }
    };
    let units = match random.below(4) {
        0 => 1,
        1 => 1 + random.below(3),
        _ => 1 + random.below(1 + 600 / unit_len.max(16)),
    };
    let first = match random.below(4) {
        0 => u128::MAX - random.u128() % 8,
        // The low 32, 64 or 96 bits are nearly all ones.
        3 => (random.u128() | u128::MAX >> (32 * (1 + random.below(3)))) - random.u128() % 8,
        1 => random.u128() >> random.below(128),
        _ => random.u128(),
    };
    let mut descriptor = Descriptor {
        first: DataUnitNumber::new(first),
        stride: random.u64() >> random.below(64),
        unit_len: u32::try_from(unit_len).unwrap(),
        units: u32::try_from(units).unwrap(),
        slot,
        direction: Direction::ALL[random.below(2)],
        mode: key.mode,
    };
    let input = random.bytes(unit_len * units);
    let mut packet = Vec::new();
    beats::pack(&input, unit_len, beat_len, &mut packet);
    // Fill the padding, which the core must ignore.
    let padded_len = unit_len.next_multiple_of(beat_len);
    for unit in packet.chunks_exact_mut(padded_len) {
        unit[unit_len..].fill(random.u64().to_le_bytes()[0]);
    }
    let mut answer = Vec::new();
    let mut numbers = (0..).map(|k| descriptor.first.step(k, descriptor.stride).get());
    for unit in input.chunks_exact(unit_len) {
        answer.extend(crypt(key, &descriptor, numbers.next().unwrap(), unit));
        answer.resize(answer.len().next_multiple_of(beat_len), 0);
    }

    let bad = if random.below(20) == 0 {
        1 + random.below(10)
    } else {
        0
    };
    let mut status = Ok(());
    let mut fail = |error| status = Err(error);
    match bad {
        1 => {
            let (len, units) = [(0, 1), (100, 0), (0, 0)][random.below(3)];
            (descriptor.unit_len, descriptor.units) = (len, units);
            packet.clear();
            fail(DescriptorError::NoData);
        }
        2 => {
            descriptor.unit_len = 1 + u32::try_from(random.below(15)).unwrap();
            descriptor.mode = [CoreMode::Xts, CoreMode::Ecb][random.below(2)];
            fail(DescriptorError::TooShort);
        }
        3 => {
            descriptor.unit_len = (1 << 24) + 16 * (1 + u32::try_from(random.below(1000)).unwrap());
            fail(DescriptorError::TooLong);
        }
        4 => {
            descriptor.slot = 4 + u8::try_from(random.below(252)).unwrap();
            fail(DescriptorError::NoSlot);
        }
        5 | 6 => {
            let (state, error) = [
                (0, DescriptorError::EmptySlot),
                (3, DescriptorError::EqualKeys),
            ][bad - 5];
            if let Some(slot) = slot_in_state(driver, state) {
                descriptor.slot = slot;
                fail(error);
            }
        }
        7 if unit_len > 16 && unit_len % 16 != 0 => {
            descriptor.mode = CoreMode::Ecb;
            fail(DescriptorError::EcbTail);
        }
        8 if packet.len() > beat_len => {
            let beats = 1 + random.below(packet.len() / beat_len - 1);
            packet.truncate(beats * beat_len);
            fail(DescriptorError::Cut);
        }
        9 => {
            let more = (1 + random.below(40)) * beat_len;
            packet.extend(random.bytes(more));
            fail(DescriptorError::Excess);
        }
        _ => {}
    }
    let (head, len) = match status {
        Ok(()) | Err(DescriptorError::Excess) => (answer.clone(), Some(answer.len())),
        Err(DescriptorError::Cut) => {
            let whole = packet.len() / padded_len * padded_len;
            (answer[..whole].to_vec(), None)
        }
        Err(_) => (Vec::new(), Some(0)),
    };
    let expected = Expected {
        what: format!("{descriptor:?} with {} bytes", packet.len()),
        status,
        head,
        len,
    };
    (descriptor, packet, expected)
}

fn crypt(key: &Key, descriptor: &Descriptor, number: u128, unit: &[u8]) -> Vec<u8> {
    let data_key = &key.bytes[..key.bytes.len() / 2];
    match (key.mode, descriptor.direction) {
        (CoreMode::Xts, Direction::Encrypt) => reference::xts_encrypt(&key.bytes, number, unit),
        (CoreMode::Xts, Direction::Decrypt) => reference::xts_decrypt(&key.bytes, number, unit),
        (CoreMode::Ecb, Direction::Encrypt) => reference::ecb_encrypt(data_key, unit),
        (CoreMode::Ecb, Direction::Decrypt) => reference::ecb_decrypt(data_key, unit),
        (CoreMode::Ctr, _) => reference::ctr(data_key, number, unit),
    }
}

fn complete<T: Transport>(driver: &mut Driver<T>, under_way: &mut VecDeque<Expected>) {
    let Some(expected) = under_way.pop_front() else {
        return;
    };
    let mut answer = vec![0x5a; 8192];
    let completion = driver
        .complete(&mut answer)
        .unwrap_or_else(|e| panic!("{}: {e}", expected.what));
    let what = &expected.what;
    assert_eq!(completion.status, expected.status, "{what}");
    let head = &answer[..expected.head.len()];
    assert!(head == expected.head, "{what}: wrong data");
    if let Some(len) = expected.len {
        assert_eq!(completion.len, len, "{what}");
    }
}
