// SPDX-License-Identifier: MIT OR Apache-2.0
//! Data on their way between a storage and a device's memory: compared with the reference, and with
//! every call of the device failing once.

mod double;

use std::{
    collections::BTreeMap,
    ops::Range,
    panic::{self, AssertUnwindSafe},
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use double::{Double, Fault, Op, Options, Trouble};
use luxor_conformance::Random;
use luxor_engine::{DataUnitLen, KeySpec, XtsKey};
use luxor_engine_gpu::{Device, DeviceError, GpuBackend, GpuKey, Portion, ResidentRun, Tuning};
use luxor_reference as reference;

const KEY: [u8; 32] = *b"a key whose two halves differ...";
const UNIT: usize = 512;
/// Bytes of the storage, of which the last 1000 are not encrypted on the device.
const LEN: usize = 20 * 4096 + 1000;
const ENCRYPTED: usize = 20 * 4096;
const PORTION: usize = 4096;

fn backend(doubles: &[Double]) -> GpuBackend<Double> {
    let mut tuning = Tuning::default();
    tuning.batch = PORTION;
    tuning.queues = 3;
    GpuBackend::new(doubles.to_vec(), tuning)
}

fn key(backend: &GpuBackend<Double>) -> GpuKey<Double> {
    let key = KeySpec::Xts(XtsKey::new(&KEY).unwrap());
    backend.load(&key).unwrap()
}

/// What the storage has for this plaintext.
fn stored(plaintext: &[u8]) -> Vec<u8> {
    let (encrypted, rest) = plaintext.split_at(ENCRYPTED);
    let units = encrypted.chunks(UNIT).zip(100_u128..);
    let units = units.flat_map(|(unit, number)| reference::xts_encrypt(&KEY, number, unit));
    units.chain(rest.iter().copied()).collect()
}

/// The portions with the bytes of `wanted`, which follow each other in the memory from byte `at` on.
fn portions<'k>(
    key: &'k GpuKey<Double>,
    wanted: &[Range<usize>],
    mut at: usize,
) -> Vec<Portion<'k, Double, Range<usize>>> {
    let mut places = BTreeMap::<usize, Vec<(Range<usize>, usize)>>::new();
    for range in wanted {
        let mut begin = range.start;
        while begin < range.end {
            let portion = begin / PORTION * PORTION;
            let end = range.end.min(portion + PORTION);
            let copies = places.entry(portion).or_default();
            copies.push((begin - portion..end - portion, at));
            at += end - begin;
            begin = end;
        }
    }
    let portions = places.into_iter().map(|(begin, copies)| {
        let len = PORTION.min(LEN - begin);
        let run = ResidentRun {
            first: (100 + (begin / UNIT) as u64).into(),
            stride: 1,
            unit_len: DataUnitLen::new(UNIT).unwrap(),
            units: len / UNIT,
            input_at: 0,
            output_at: 0,
        };
        Portion {
            source: begin..begin + len,
            len,
            crypt: (begin < ENCRYPTED).then(|| (key, vec![run])),
            copies,
        }
    });
    portions.collect()
}

/// An error of the storage or the device.
#[derive(Debug)]
enum Failed {
    Storage,
    Device(DeviceError),
}

impl From<DeviceError> for Failed {
    fn from(error: DeviceError) -> Self {
        Self::Device(error)
    }
}

fn load(
    backend: &GpuBackend<Double>,
    key: &GpuKey<Double>,
    storage: &[u8],
    wanted: &[Range<usize>],
    at: usize,
    len: usize,
) -> Result<Vec<u8>, Failed> {
    let device = &backend.devices()[0];
    let mut memory = device.memory(len)?;
    let read = |source: &Range<usize>, buf: &mut [u8]| {
        buf.copy_from_slice(&storage[source.clone()]);
        Ok(())
    };
    let portions = portions(key, wanted, at).into_iter();
    backend.read_into::<_, Failed>(0, &mut memory, portions, read)?;
    let mut found = vec![0; len];
    device.read(&memory, 0, &mut found)?;
    Ok(found)
}

fn store(
    backend: &GpuBackend<Double>,
    key: &GpuKey<Double>,
    storage: &Mutex<Vec<u8>>,
    wanted: &[Range<usize>],
    at: usize,
    bytes: &[u8],
) -> Result<(), Failed> {
    let device = &backend.devices()[0];
    let mut memory = device.memory(bytes.len())?;
    device.write(&mut memory, 0, bytes)?;
    let portions = portions(key, wanted, at).into_iter();
    backend.write_from::<_, Failed>(
        0,
        &memory,
        portions,
        |source, buf| {
            buf.copy_from_slice(&storage.lock().unwrap()[source.clone()]);
            Ok(())
        },
        |source, buf| {
            storage.lock().unwrap()[source.clone()].copy_from_slice(buf);
            Ok(())
        },
    )
}

/// Ranges in order, with and without gaps.
fn ranges(random: &mut Random) -> Vec<Range<usize>> {
    let (mut ranges, mut at) = (Vec::new(), 0);
    while at < LEN {
        let begin = (at + random.below(3) * random.below(6000)).min(LEN);
        let end = (begin + 1 + random.below(9000)).min(LEN);
        if begin < end {
            ranges.push(begin..end);
        }
        at = end;
    }
    ranges
}

#[test]
fn any_bytes_come_from_a_storage_and_go_back() {
    let random = &mut Random::for_test("transfer");
    for late in [true, false] {
        let double = Double::with(Options {
            late,
            ..Options::default()
        });
        let backend = backend(std::slice::from_ref(&double));
        let key = key(&backend);
        for _ in 0..20 {
            let plaintext = random.bytes(LEN);
            let wanted = ranges(random);
            let (at, rest) = (random.below(70), random.below(70));
            let bytes: Vec<u8> = wanted
                .iter()
                .cloned()
                .flat_map(|range| plaintext[range].to_vec())
                .collect();
            let len = at + bytes.len() + rest;
            let wipes = double.calls(Op::Wipe);
            let found = load(&backend, &key, &stored(&plaintext), &wanted, at, len).unwrap();
            assert!(found[at..][..bytes.len()] == bytes);
            assert!(
                found[..at]
                    .iter()
                    .chain(&found[len - rest..])
                    .all(|&byte| byte == 0)
            );

            assert!(double.calls(Op::Wipe) > wipes);

            // Other bytes keep their plaintext.
            let old = random.bytes(LEN);
            let storage = Mutex::new(stored(&old));
            store(&backend, &key, &storage, &wanted, at, &found).unwrap();
            let mut new = old;
            for range in wanted {
                new[range.clone()].copy_from_slice(&plaintext[range]);
            }
            assert!(storage.into_inner().unwrap() == stored(&new));
        }
        let record = double.record();
        assert!(
            (2..=3).contains(&record.most_queues),
            "{}",
            record.most_queues
        );
    }
}

#[test]
fn after_any_failure_nothing_is_left_and_the_device_can_be_used_again() {
    let random = &mut Random::for_test("transfer failures");
    let (plaintext, wanted) = (random.bytes(LEN), ranges(random));
    let ciphertext = stored(&plaintext);
    let bytes: Vec<u8> = wanted
        .iter()
        .cloned()
        .flat_map(|range| plaintext[range].to_vec())
        .collect();
    let troubles = [
        Trouble::OutOfMemory,
        Trouble::Launch,
        Trouble::Lost,
        Trouble::TooOld,
        Trouble::Panic,
    ];
    for is_load in [true, false] {
        let run = |backend: &GpuBackend<Double>, key: &GpuKey<Double>| {
            if is_load {
                let found = load(backend, key, &ciphertext, &wanted, 0, bytes.len())?;
                assert!(found == bytes);
                return Ok(());
            }
            let storage = Mutex::new(stored(&vec![0; LEN]));
            store(backend, key, &storage, &wanted, 0, &bytes)
        };
        let most: usize = {
            let double = Double::new();
            let backend = backend(std::slice::from_ref(&double));
            run(&backend, &key(&backend)).unwrap();
            double.record().calls.values().sum()
        };
        assert!(most > 60, "{most}");
        let mut failures = 0;
        for trouble in troubles {
            for nth in 0..most {
                let double = Double::new();
                let backend = backend(std::slice::from_ref(&double));
                let key = key(&backend);
                double.break_with(Fault {
                    op: None,
                    nth,
                    trouble,
                });
                let at = format!("{trouble:?} at {nth}, load {is_load}");
                let result = panic::catch_unwind(AssertUnwindSafe(|| run(&backend, &key)));
                match result {
                    Ok(Ok(())) => {}
                    Ok(Err(Failed::Device(_))) => failures += 1,
                    Ok(Err(Failed::Storage)) => panic!("{at}: the storage is sound"),
                    Err(_) => assert_eq!(trouble, Trouble::Panic, "{at}"),
                }
                let was_lost = double.record().lost;
                double.mend();
                match run(&backend, &key) {
                    Ok(()) => {}
                    Err(error) => assert!(was_lost, "{at}: {error:?}"),
                }
                drop((key, backend));
                let record = double.record();
                let left = (record.queues, record.keys, record.abandoned, record.dirty);
                assert_eq!(left, (0, 0, 0, 0), "{at}");
            }
        }
        assert!(failures > most, "{failures} of {most}");
    }
}

#[test]
fn an_error_of_the_storage_ends_the_call_and_wipes_the_queues() {
    let random = &mut Random::for_test("transfer storage");
    let plaintext = random.bytes(LEN);
    let ciphertext = stored(&plaintext);
    let double = Double::new();
    let backend = backend(std::slice::from_ref(&double));
    let key = key(&backend);
    let all = [0..1, 1..LEN];
    let count = portions(&key, &all, 0).len();
    for nth in 0..count {
        let reads = AtomicUsize::new(0);
        let mut memory = backend.devices()[0].memory(LEN).unwrap();
        let portions = portions(&key, &all, 0).into_iter();
        let result = backend.read_into(0, &mut memory, portions, |source, buf| {
            if reads.fetch_add(1, Ordering::Relaxed) == nth {
                return Err(Failed::Storage);
            }
            buf.copy_from_slice(&ciphertext[source.clone()]);
            Ok(())
        });
        assert!(matches!(result, Err(Failed::Storage)), "{nth}: {result:?}");
        // Threads that had begun a portion finish it.
        assert!(reads.into_inner() <= nth + 3, "{nth}");
    }
    drop((key, backend));
    let record = double.record();
    assert_eq!((record.abandoned, record.dirty), (0, 0));
}

#[test]
fn portions_that_are_not_right_are_refused() {
    let double = Double::new();
    let backend = backend(std::slice::from_ref(&double));
    let key = key(&backend);
    type Damage = fn(&mut Portion<'_, Double, Range<usize>>);
    let broken: [Damage; 6] = [
        |portion| portion.copies[0].0 = 0..PORTION + 1,
        |portion| portion.copies[0].0 = 5..5,
        |portion| portion.copies[1].1 = 2,
        |portion| portion.crypt.as_mut().unwrap().1[0].units += 1,
        |portion| portion.crypt.as_mut().unwrap().1[0].input_at = 8,
        |portion| {
            let run = &mut portion.crypt.as_mut().unwrap().1[0];
            run.unit_len = DataUnitLen::beyond_the_standard(1 << 25).unwrap();
        },
    ];
    for (which, damage) in broken.into_iter().enumerate() {
        let mut memory = backend.devices()[0].memory(PORTION).unwrap();
        let mut portions = portions(&key, &[0..1, 1..PORTION], 0);
        damage(&mut portions[0]);
        let read = |_: &Range<usize>, _: &mut [u8]| Ok::<(), Failed>(());
        let result = backend.read_into(0, &mut memory, portions.into_iter(), read);
        let Err(Failed::Device(DeviceError::Launch { message })) = result else {
            panic!("{which}: {result:?}");
        };
        assert!(!message.is_empty());
    }
}
