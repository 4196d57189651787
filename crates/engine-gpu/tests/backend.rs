// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the backend asks of a device, observed on the double.

mod double;

use std::thread;

use double::{Double, Fault, Op, Options, Trouble};
use luxor_conformance::Random;
use luxor_engine::{
    AesKey, Backend, CbcKey, DataUnitLen, Direction, InOut, KeySpec, LoadedKey, Run, XtsKey,
};
use luxor_engine_gpu::{
    Device, GpuBackend, Launch, Resident, ResidentError, ResidentRun, Tables, Tuning,
};
use luxor_reference as reference;

const KEY: [u8; 32] = [
    9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18,
    19, 20, 21, 22,
];

fn xts() -> KeySpec {
    KeySpec::Xts(XtsKey::new(&KEY).unwrap())
}

fn tuning(batch: usize, queues: usize) -> Tuning {
    let mut tuning = Tuning::default();
    tuning.batch = batch;
    tuning.least_batch = batch.min(4096);
    tuning.queues = queues;
    tuning.direct = 1024;
    tuning.resident_tweaks = 0;
    tuning
}

fn unit(len: usize) -> DataUnitLen {
    DataUnitLen::new(len).unwrap()
}

/// Encrypts units of `unit_len` bytes, numbered from `first`, with the reference.
fn encrypted(first: u128, stride: u64, unit_len: usize, input: &[u8]) -> Vec<u8> {
    let mut number = first;
    let mut output = Vec::new();
    for unit in input.chunks(unit_len) {
        output.extend(reference::xts_encrypt(&KEY, number, unit));
        number = number.wrapping_add(stride.into());
    }
    output
}

#[test]
fn units_of_any_length_work_in_any_memory() {
    let random = &mut Random::for_test("units");
    for (unit_len, units) in [
        (16, 3000),
        (17, 300),
        (31, 300),
        (32, 1000),
        (512, 100),
        (520, 100),
        (4096, 20),
        (65536, 3),
        (1 << 20, 2),
    ] {
        for late in [true, false] {
            let double = Double::with(Options {
                late,
                ..Options::default()
            });
            let backend = GpuBackend::new(vec![double.clone()], tuning(64 << 10, 3));
            let key = backend.load_key(&xts()).unwrap();
            let (first, stride) = (random.u128(), random.u64());
            let len = unit_len * units;
            let plaintext = random.bytes(len);
            let ciphertext = encrypted(first, stride, unit_len, &plaintext);
            let run = |buf: InOut<'_>, direction| {
                let run = Run::new(first.into(), stride, unit(unit_len), buf).unwrap();
                key.crypt(direction, &mut [run]).unwrap();
            };
            // In place and separate, each in pinned and in ordinary memory.
            let mut pinned = backend.alloc(len);
            pinned.copy_from_slice(&plaintext);
            run((&mut pinned[..]).into(), Direction::Encrypt);
            assert!(*pinned == *ciphertext, "{unit_len}");
            let mut plain = vec![0; len];
            let buf = InOut::Separate {
                input: &pinned,
                output: &mut plain,
            };
            run(buf, Direction::Decrypt);
            assert!(plain == plaintext, "{unit_len}");
            pinned.fill(0);
            let buf = InOut::Separate {
                input: &plain,
                output: &mut pinned,
            };
            run(buf, Direction::Encrypt);
            assert!(*pinned == *ciphertext, "{unit_len}");
            let mut other = backend.alloc(len);
            let buf = InOut::Separate {
                input: &pinned,
                output: &mut other,
            };
            run(buf, Direction::Decrypt);
            assert!(*other == *plaintext, "{unit_len}");
            run((&mut plain[..]).into(), Direction::Encrypt);
            assert!(plain == ciphertext, "{unit_len}");
        }
    }
}

#[test]
fn the_longest_unit_is_a_batch_of_its_own() {
    let double = Double::new();
    let backend = GpuBackend::new(vec![double.clone()], tuning(64 << 10, 2));
    let key = backend.load_key(&xts()).unwrap();
    let mut random = Random::for_test("longest");
    let mut short = random.bytes(100 * 512);
    let mut long = random.bytes(16 << 20);
    let (before_short, before_long) = (short.clone(), long.clone());
    let mut runs = [
        Run::new(1_u64.into(), 1, unit(512), &mut short[..]).unwrap(),
        Run::new(7_u64.into(), 1, unit(16 << 20), &mut long[..]).unwrap(),
    ];
    key.crypt(Direction::Encrypt, &mut runs).unwrap();
    assert!(short == encrypted(1, 1, 512, &before_short));
    assert!(long == encrypted(7, 1, 16 << 20, &before_long));
    let record = double.record();
    // There were at most two queues, and each may have grown to the length of the unit.
    assert!(record.most_queues <= 2);
    assert!(
        record.most_bytes <= 2 * ((16 << 20) * 7 / 4),
        "{}",
        record.most_bytes
    );
}

#[test]
fn scattered_single_sectors_need_one_launch() {
    let double = Double::new();
    let backend = GpuBackend::new(vec![double.clone()], Tuning::default());
    let key = backend.load_key(&xts()).unwrap();
    let mut random = Random::for_test("sectors");
    let input = random.bytes(10_000 * 512);
    let numbers: Vec<u128> = (0..10_000).map(|_| random.u128()).collect();
    let mut output = input.clone();
    let sectors = output.chunks_mut(512).zip(&numbers);
    let mut runs: Vec<_> = sectors
        .map(|(sector, &number)| Run::new(number.into(), 1, unit(512), sector).unwrap())
        .collect();
    key.crypt(Direction::Encrypt, &mut runs).unwrap();
    for ((input, output), &number) in input.chunks(512).zip(output.chunks(512)).zip(&numbers) {
        assert!(output == reference::xts_encrypt(&KEY, number, input));
    }
    // 5 MB are split over four queues; each has one launch for tweaks and one for data.
    assert_eq!(double.record().launches.len(), 8);
    assert_eq!(double.calls(Op::UploadStaging), 4);
    assert_eq!(double.calls(Op::Wait), 4);
}

#[test]
fn each_unit_length_needs_its_own_launch() {
    let double = Double::new();
    let backend = GpuBackend::new(vec![double.clone()], Tuning::default());
    let key = backend.load_key(&xts()).unwrap();
    let mut random = Random::for_test("mixed");
    let lens: Vec<usize> = (0..300).map(|i| [512, 520, 17][i % 3]).collect();
    let inputs: Vec<Vec<u8>> = lens.iter().map(|len| random.bytes(len * 2)).collect();
    let mut outputs = inputs.clone();
    let mut runs: Vec<_> = (0_u64..)
        .zip(lens.iter().zip(&mut outputs))
        .map(|(i, (len, bytes))| Run::new(i.into(), 5, unit(*len), &mut bytes[..]).unwrap())
        .collect();
    key.crypt(Direction::Encrypt, &mut runs).unwrap();
    for (i, (input, output)) in (0..).zip(inputs.iter().zip(&outputs)) {
        assert!(*output == encrypted(i, 5, input.len() / 2, input), "{i}");
    }
    // Three launches of tweaks, one of whole units, two for units with whole blocks and their
    // tails, and one for units of 17 bytes, which are tails only.
    let record = double.record();
    let tails = |launch: &&Launch| matches!(launch, Launch::Tails { .. });
    assert_eq!(record.launches.len(), 3 + 1 + 2 + 1);
    assert_eq!(record.launches.iter().filter(tails).count(), 2);
}

#[test]
fn pinned_memory_is_not_staged() {
    let double = Double::new();
    let backend = GpuBackend::new(vec![double.clone()], tuning(64 << 10, 2));
    let key = backend.load_key(&xts()).unwrap();
    let len = 256 << 10;
    let (mut a, mut b) = (backend.alloc(len), backend.alloc(len));
    let counts = || {
        [
            Op::Upload,
            Op::Download,
            Op::UploadStaging,
            Op::DownloadStaging,
        ]
        .map(|op| double.calls(op))
    };
    let mut crypt = |unit_len: usize, in_place: bool| {
        let buf = if in_place {
            InOut::InPlace(&mut a[..])
        } else {
            let (input, output) = (&a[..], &mut b[..]);
            InOut::Separate { input, output }
        };
        let before = counts();
        let run = Run::new(0_u64.into(), 1, unit(unit_len), buf).unwrap();
        key.crypt(Direction::Encrypt, &mut [run]).unwrap();
        let after = counts();
        std::array::from_fn(|i| after[i] - before[i])
    };
    assert_eq!(crypt(4096, false), [4, 4, 0, 0]);
    // In-place results are staged, so that the input stays intact until the batch has succeeded.
    assert_eq!(crypt(4096, true), [4, 0, 0, 4]);
    // Units of 17 bytes must be padded, so they are staged; `spread` of them fit a batch.
    let spread = 65536 / 32;
    assert_eq!(spread * 17 * 8, 278_528);
    assert_eq!(crypt(1 << 18, false), [1, 1, 0, 0]);
    drop(key);
    let odd = 17 * 1024;
    let (input, output) = (&a[..odd], &mut b[..odd]);
    let key = backend.load_key(&xts()).unwrap();
    let before = counts();
    let run = Run::new(0_u64.into(), 1, unit(17), InOut::Separate { input, output }).unwrap();
    key.crypt(Direction::Encrypt, &mut [run]).unwrap();
    let after = counts();
    assert_eq!((after[0], after[1]), (before[0], before[1]));
    assert!(after[2] > before[2] && after[3] > before[3]);
}

#[test]
fn a_devices_memory_is_bounded() {
    let double = Double::new();
    let backend = GpuBackend::new(vec![double.clone()], tuning(64 << 10, 3));
    let key = backend.load_key(&xts()).unwrap();
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let mut bytes = vec![7; 1 << 20];
                for _ in 0..3 {
                    let run = Run::new(3_u64.into(), 1, unit(512), &mut bytes[..]).unwrap();
                    key.crypt(Direction::Encrypt, &mut [run]).unwrap();
                }
            });
        }
    });
    let record = double.record();
    assert_eq!(record.most_queues, 3);
    assert!(record.most_bytes <= 3 * (64 << 10) * 7 / 4);
    assert_eq!(record.queues, 3);
}

#[test]
fn all_devices_work_for_one_call() {
    let doubles = [Double::new(), Double::new(), Double::new()];
    let backend = GpuBackend::new(doubles.to_vec(), tuning(64 << 10, 2));
    assert_eq!(backend.info().device, "3 devices: double; double; double");
    let key = backend.load_key(&xts()).unwrap();
    // The key spreads calls over its queues itself, so callers should never split them.
    assert_eq!(key.whole_from(), 0);
    let mut bytes = vec![7; 1 << 20];
    let expected = encrypted(3, 1, 512, &bytes);
    let run = Run::new(3_u64.into(), 1, unit(512), &mut bytes[..]).unwrap();
    key.crypt(Direction::Encrypt, &mut [run]).unwrap();
    assert!(bytes == expected);
    for double in &doubles {
        assert_eq!(double.record().most_queues, 2);
    }
}

#[test]
fn keys_data_and_numbers_are_wiped() {
    for late in [true, false] {
        let double = Double::with(Options {
            late,
            ..Options::default()
        });
        let backend = GpuBackend::new(vec![double.clone()], tuning(16 << 10, 2));
        let crypt = |key: &dyn LoadedKey, len: usize, direction| {
            let mut bytes = vec![7; len];
            let run = Run::new(3_u64.into(), 1, unit(33), &mut bytes[..len / 33 * 33]).unwrap();
            key.crypt(direction, &mut [run])
        };
        let a = backend.load_key(&xts()).unwrap();
        let b = backend
            .load_key(&KeySpec::Ctr(AesKey::new(&KEY).unwrap()))
            .unwrap();
        crypt(&*a, 50_000, Direction::Encrypt).unwrap();
        crypt(&*b, 5000, Direction::Encrypt).unwrap();
        assert_eq!(double.record().keys, 2);
        drop(a);
        assert_eq!(double.calls(Op::Wipe), 0);
        // The queues are wiped with the last key.
        drop(b);
        assert_eq!(double.record().keys, 0);
        assert_eq!(double.calls(Op::Wipe), 2);
        // A queue that was wiped and not used since is not wiped again.
        let a = backend.load_key(&xts()).unwrap();
        drop(a);
        assert_eq!(double.calls(Op::Wipe), 2);
        // A queue that failed is wiped and dropped.
        let a = backend.load_key(&xts()).unwrap();
        for op in [Op::Launch, Op::UploadPieces, Op::DownloadStaging, Op::Wait] {
            double.break_with(Fault {
                op: Some(op),
                nth: 1,
                trouble: Trouble::Launch,
            });
            assert!(crypt(&*a, 50_000, Direction::Decrypt).is_err());
        }
        crypt(&*a, 50_000, Direction::Decrypt).unwrap();
        double.record().failed = false;
        drop(a);
        drop(backend);
        let record = double.record();
        assert_eq!((record.queues, record.dirty, record.abandoned), (0, 0, 0));
    }
}

#[test]
fn other_modes_are_refused() {
    let backend = GpuBackend::new(vec![Double::new()], Tuning::default());
    let cbc = KeySpec::Cbc(CbcKey::plain(AesKey::new(&KEY).unwrap()));
    let error = backend.load_key(&cbc).err().unwrap().to_string();
    assert_eq!(error, "the engine opencl has no cbc mode");
    // Equal halves are permitted, as on the CPU, for reading volumes that have such keys.
    let equal = XtsKey::new_permitting_equal_halves(&[7; 32]).unwrap();
    assert!(backend.load_key(&KeySpec::Xts(equal)).is_ok());
}

#[test]
fn every_layout_of_tables_has_its_keys() {
    for tables in [Tables::One, Tables::Two, Tables::Four] {
        let double = Double::with(Options {
            tables,
            ..Options::default()
        });
        let backend = GpuBackend::new(vec![double], Tuning::default());
        let key = backend.load_key(&xts()).unwrap();
        let mut bytes = [7; 100];
        let run = Run::new(3_u64.into(), 1, unit(50), &mut bytes[..]).unwrap();
        key.crypt(Direction::Encrypt, &mut [run]).unwrap();
        assert_eq!(bytes[..], encrypted(3, 1, 50, &[7; 100]));
    }
}

#[test]
fn resident_data_stay_on_the_device() {
    let random = &mut Random::for_test("resident");
    let doubles = [Double::new(), Double::new()];
    // These units need more tweaks than a queue has room for, or have stolen ciphertext, or are
    // very long.
    for (unit_len, units) in [(16, 2000), (17, 17_000), (520, 9), (4096, 7), (70_000, 1)] {
        let backend = GpuBackend::new(doubles.to_vec(), tuning(16 << 10, 2));
        let key = backend.load(&xts()).unwrap();
        let padded = usize::next_multiple_of(unit_len, 16);
        let input = random.bytes(units * padded);
        let (first, stride) = (random.u128(), random.u64());
        let mut expected = input.clone();
        let mut number = first;
        for unit in expected.chunks_mut(padded) {
            let (unit, _) = unit.split_at_mut(unit_len);
            unit.copy_from_slice(&reference::xts_encrypt(&KEY, number, unit));
            number = number.wrapping_add(stride.into());
        }
        let device = &backend.devices()[1];
        let mut memory = device.memory(input.len() + 32).unwrap();
        device.write(&mut memory, 32, &input).unwrap();
        let mut run = ResidentRun {
            first: first.into(),
            stride,
            unit_len: unit(unit_len),
            units,
            input_at: 32,
            output_at: 32,
        };
        let data = Resident::InPlace(&mut memory);
        key.crypt_resident(1, Direction::Encrypt, &[run], data)
            .unwrap();
        let mut found = vec![0; input.len()];
        device.read(&memory, 32, &mut found).unwrap();
        assert!(found == expected, "{unit_len}");

        let mut other = device.memory(input.len()).unwrap();
        run.output_at = 0;
        let data = Resident::Separate {
            input: &memory,
            output: &mut other,
        };
        key.crypt_resident(1, Direction::Decrypt, &[run], data)
            .unwrap();
        device.read(&other, 0, &mut found).unwrap();
        for (found, input) in found.chunks(padded).zip(input.chunks(padded)) {
            assert!(found[..unit_len] == input[..unit_len], "{unit_len}");
            assert!(found[unit_len..].iter().all(|&b| b == 0));
        }
    }
    let record = doubles[0].record();
    assert_eq!((record.launches.len(), record.queues), (0, 0));
    assert_eq!(doubles[1].record().dirty, 0);
    let nothing = [
        Op::Upload,
        Op::UploadStaging,
        Op::Download,
        Op::DownloadStaging,
    ];
    assert_eq!(nothing.map(|op| doubles[1].calls(op)), [0; 4]);
}

/// 5000 data units need 80,000 bytes of tweaks. A queue begins with 8 KiB.
#[test]
fn a_long_call_on_a_device_takes_more_memory_for_tweaks() {
    let (unit_len, units) = (16, 5000);
    let queue = (16 << 10) + (8 << 10) + (1 << 10);
    for (limit, memory, launches, bytes) in [
        // One launch for the tweaks and one for the data, each time that the memory is full.
        (0, usize::MAX, 2 * 10, queue),
        (1 << 20, usize::MAX, 2, queue + (120 << 10)),
        (40 << 10, usize::MAX, 2 * 2, queue + (32 << 10)),
        (1 << 20, queue + (100 << 10), 2 * 10, queue),
    ] {
        let double = Double::with(Options {
            memory,
            ..Options::default()
        });
        let mut tuning = tuning(16 << 10, 1);
        tuning.resident_tweaks = limit;
        let backend = GpuBackend::new(vec![double.clone()], tuning);
        let key = backend.load(&xts()).unwrap();
        let mut memory = backend.devices()[0].memory(units * unit_len).unwrap();
        let run = ResidentRun {
            first: 7_u64.into(),
            stride: 3,
            unit_len: unit(unit_len),
            units,
            input_at: 0,
            output_at: 0,
        };
        for direction in [Direction::Encrypt, Direction::Decrypt] {
            let data = Resident::InPlace(&mut memory);
            key.crypt_resident(0, direction, &[run], data).unwrap();
        }
        let mut found = vec![1; units * unit_len];
        backend.devices()[0].read(&memory, 0, &mut found).unwrap();
        assert!(found.iter().all(|&byte| byte == 0));
        let record = double.record();
        assert_eq!((record.launches.len(), record.bytes), (2 * launches, bytes));
        drop(record);
        drop((key, backend));
        let record = double.record();
        assert_eq!((record.bytes, record.dirty), (0, 0));
    }
}

#[test]
fn many_runs_on_a_device_need_one_wait() {
    let double = Double::new();
    let backend = GpuBackend::new(vec![double.clone()], Tuning::default());
    let bytes = KEY[..16].to_vec();
    let key = backend
        .load(&KeySpec::Ctr(AesKey::new(&bytes).unwrap()))
        .unwrap();
    let mut memory = backend.devices()[0].memory(100 * 64).unwrap();
    let runs: Vec<_> = (0..100_usize)
        .map(|i| ResidentRun {
            first: (i as u64).into(),
            stride: 1,
            unit_len: unit(50),
            units: 1,
            input_at: i * 64,
            output_at: i * 64,
        })
        .collect();
    let data = Resident::InPlace(&mut memory);
    key.crypt_resident(0, Direction::Encrypt, &runs, data)
        .unwrap();
    assert_eq!((double.calls(Op::Wait), double.calls(Op::Launch)), (1, 100));
    let mut found = vec![0; 100 * 64];
    backend.devices()[0].read(&memory, 0, &mut found).unwrap();
    for (i, found) in (0_u128..).zip(found.chunks(64)) {
        assert_eq!(found[..50], reference::ctr(&bytes, i, &[0; 50]));
        assert_eq!(found[50..], [0; 14]);
    }
}

#[test]
fn runs_beyond_a_devices_memory_are_refused() {
    let double = Double::new();
    let backend = GpuBackend::new(vec![double.clone()], Tuning::default());
    let key = backend.load(&xts()).unwrap();
    let mut memory = backend.devices()[0].memory(1000).unwrap();
    let mut crypt = |units, unit_len, input_at, output_at| {
        let run = ResidentRun {
            first: 0_u64.into(),
            stride: 1,
            unit_len: unit(unit_len),
            units,
            input_at,
            output_at,
        };
        let data = Resident::InPlace(&mut memory);
        key.crypt_resident(0, Direction::Encrypt, &[run], data)
    };
    let (units, len) = (2, 1000);
    crypt(2, 488, 0, 0).unwrap();
    crypt(0, 488, 992, 0).unwrap();
    for (unit_len, input_at, output_at, at) in [
        (488, 32, 0, 32),
        (488, 0, 32, 32),
        (488, 8, 0, 8),
        (505, 0, 0, 0),
        (488, usize::MAX - 15, 0, usize::MAX - 15),
    ] {
        let error = crypt(units, unit_len, input_at, output_at).unwrap_err();
        assert_eq!(error, ResidentError::Bounds { units, at, len });
    }
    assert!(crypt(usize::MAX, 16, 0, 0).is_err());
    // Input and output must be the same or disjoint, otherwise units would be read after they were
    // written.
    crypt(2, 100, 0, 224).unwrap();
    crypt(2, 100, 224, 0).unwrap();
    crypt(0, 100, 16, 0).unwrap();
    for (input_at, output_at) in [(0, 16), (16, 0), (0, 208), (208, 0)] {
        let error = crypt(2, 100, input_at, output_at).unwrap_err();
        let (input, output) = (input_at..input_at + 212, output_at..output_at + 212);
        assert_eq!(error, ResidentError::Overlap { input, output });
    }
    let error = crypt(1, 15, 0, 0).unwrap_err();
    assert!(matches!(error, ResidentError::UnitLen { unit_len: 15, .. }));
    double.break_with(Fault {
        op: Some(Op::Launch),
        nth: 1,
        trouble: Trouble::Lost,
    });
    let error = crypt(1, 16, 0, 0).unwrap_err();
    assert!(matches!(error, ResidentError::Device(error) if error.is_lost()));
    assert!(crypt(1, 16, 0, 0).is_err());
    drop((key, backend));
    let record = double.record();
    assert_eq!((record.queues, record.dirty, record.abandoned), (0, 0, 0));
}
