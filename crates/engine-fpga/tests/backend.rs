// SPDX-License-Identifier: MIT OR Apache-2.0
//! The backend on a double of the core.

mod double;

use std::sync::Arc;

use double::{Double, Fault, KeySlot, Options};
use luxor_conformance::{
    Random,
    axes::{self, Cases},
};
use luxor_engine::{
    AesKey, Backend, BackendError, CryptErrorKind, DataUnitLen, DataUnitNumber, Direction, KeySpec,
    LoadedKey, Mode, Registry, Run, XtsKey,
};
use luxor_engine_fpga::{DriverError, FpgaBackend, Waiting, driver::DescriptorError};
use luxor_reference as reference;

fn backend(double: &Double) -> FpgaBackend<Double> {
    FpgaBackend::new(double.clone(), "double", 0).unwrap()
}

fn stalling(seed: u64, lanes: u32) -> Double {
    Double::with(&Options {
        lanes,
        stalls: Some(seed),
        ..Options::default()
    })
}

// The axes of the conformance suite that are fast enough on a double with the reference's cipher.

#[test]
fn identity() {
    axes::identity(&backend(&Double::new()), Cases::All);
}

#[test]
fn known_answers() {
    axes::known_answers(&backend(&stalling(1, 1)), Cases::All);
}

#[test]
fn keys() {
    let double = Double::new();
    axes::keys(&backend(&double), Cases::All);
    assert!(double.core().is_clean());
}

#[test]
fn calls() {
    for lanes in [1, 2, 4] {
        axes::calls(&backend(&stalling(2, lanes)), Cases::All);
    }
}

#[test]
fn calls_with_interrupts() {
    let double = stalling(5, 1);
    let backend = backend(&double).with_waiting(Waiting::Interrupts).unwrap();
    axes::calls(&backend, Cases::All);
    assert!(double.core().waits > 0);
}

#[test]
fn refusals() {
    axes::refusals(&backend(&Double::new()), Cases::All);
}

#[test]
fn memory() {
    axes::memory(&backend(&stalling(3, 2)), Cases::All);
}

#[test]
fn threads() {
    let double = stalling(4, 1);
    axes::threads(&backend(&double), Cases::All);
    assert!(double.core().is_clean());
}

#[test]
fn a_core_that_cannot_do_it_all_is_refused() {
    for (has, what) in [
        (0b1110, "AES-128"),
        (0b1101, "AES-256"),
        (0b1011, "encryption"),
        (0b0111, "decryption"),
    ] {
        let double = Double::with(&Options {
            has,
            ..Options::default()
        });
        let error = FpgaBackend::new(double, "double", 0).err();
        assert_eq!(error, Some(DriverError::Lacks { what }));
    }
}

#[test]
fn equal_halves_are_refused_when_the_key_is_loaded() {
    let double = Double::new();
    let backend = backend(&double);
    let key = XtsKey::new_permitting_equal_halves(&[7; 32]).unwrap();
    let error = backend.load_key(&KeySpec::Xts(key)).err().unwrap();
    assert!(
        matches!(error, BackendError::EqualHalves { backend: "fpga" }),
        "{error}"
    );
    let key = AesKey::new(&[7; 32]).unwrap();
    assert!(backend.load_key(&KeySpec::Ecb(key)).is_ok());
}

#[test]
fn a_key_is_zeroised_when_it_is_dropped() {
    let double = Double::new();
    let backend = backend(&double);
    let load = |seed: u8| {
        let bytes: Vec<u8> = (0..32).map(|i| i ^ seed).collect();
        backend
            .load_key(&KeySpec::Xts(XtsKey::new(&bytes).unwrap()))
            .unwrap()
    };
    let mut keys: Vec<_> = (0..7).map(|seed| load(seed * 32)).collect();
    let full = || {
        let core = double.core();
        let keys = core.slots.iter();
        keys.filter(|slot| matches!(slot, KeySlot::Key(_))).count()
    };
    assert_eq!(full(), 4);
    // The first key has no slot any more.
    drop(keys.remove(0));
    assert_eq!(full(), 4);
    for left in [3, 2, 1, 0] {
        drop(keys.pop());
        assert_eq!(full(), left);
    }
    // Two keys are left, and still work.
    for key in &keys {
        let mut bytes = [0; 16];
        crypt(&**key, Direction::Encrypt, 16, &mut [&mut bytes]).unwrap();
        assert_ne!(bytes, [0; 16]);
    }
    drop(keys);
    assert!(double.core().is_clean());
    // A key is also zeroised in a core that fails to execute the command.
    for fault in [Fault::KeyStuck, Fault::KeyResult { code: 9 }] {
        let key = load(0);
        assert_eq!(full(), 1);
        double.break_with(fault);
        drop(key);
        assert!(double.core().is_clean(), "{fault:?}");
    }
}

#[test]
fn the_work_of_the_core_is_counted() {
    let double = stalling(5, 1);
    let backend = backend(&double);
    let key = KeySpec::Ecb(AesKey::new(&[7; 32]).unwrap());
    let key = backend.load_key(&key).unwrap();
    for calls in 1..4 {
        crypt(&*key, Direction::Encrypt, 64, &mut [&mut [0; 1024]]).unwrap();
        let counters = backend.counters().unwrap();
        assert_eq!((counters.beats, counters.blocks), (64 * calls, 64 * calls));
        assert!(counters.cycles > counters.beats);
    }
}

#[test]
fn long_runs_are_split() {
    let bytes: Vec<u8> = (0..64).collect();
    let spec = KeySpec::Xts(XtsKey::new(&bytes).unwrap());
    let mut random = Random::for_test("long_runs");
    // Number of units, unit length, bytes of a batch: a run in many batches, a run in several
    // descriptors, and units longer than a descriptor or a batch.
    for (units, unit_len, batch) in [
        (300, 48, 1000),
        (300, 50, 1000),
        (700, 512, 4 << 20),
        (3, 5000, 1000),
        (2, 300_001, 4 << 20),
    ] {
        let double = Double::new();
        let backend = backend(&double).with_batch(batch);
        let key = backend.load_key(&spec).unwrap();
        let (first, stride) = (random.u128(), random.u64());
        let input = random.bytes(units * unit_len);
        let mut output = input.clone();
        let run = Run::new(
            first.into(),
            stride,
            DataUnitLen::new(unit_len).unwrap(),
            &mut output[..],
        );
        key.crypt(Direction::Encrypt, &mut [run.unwrap()]).unwrap();
        let mut number = first;
        for (input, output) in input.chunks(unit_len).zip(output.chunks(unit_len)) {
            assert!(output == reference::xts_encrypt(&bytes, number, input));
            number = number.wrapping_add(stride.into());
        }
    }
}

/// One call with a run for each buffer. Run `i` is numbered from 1000 `i`.
fn crypt(
    key: &dyn LoadedKey,
    direction: Direction,
    unit_len: usize,
    buffers: &mut [&mut [u8]],
) -> Result<(), luxor_engine::CryptError> {
    let unit_len = DataUnitLen::new(unit_len).unwrap();
    let mut runs: Vec<_> = (0..)
        .zip(buffers)
        .map(|(i, bytes)| Run::new(DataUnitNumber::new(i * 1000), 1, unit_len, &mut **bytes))
        .map(Result::unwrap)
        .collect();
    key.crypt(direction, &mut runs)
}

/// A call of 60 runs of three 80-byte units, in batches of 25 units, with a fault at one
/// descriptor.
struct Broken {
    fault: Fault,
    /// Units that are finished when the fault is noticed.
    done: usize,
    message: String,
}

impl Broken {
    fn check(&self, place: Place) {
        const UNIT: usize = 80;
        const RUNS: usize = 60;

        let double = stalling(6, 1);
        let backend = backend(&double).with_batch(25 * UNIT);
        let bytes: Vec<u8> = (0..64).collect();
        let spec = KeySpec::Xts(XtsKey::new(&bytes).unwrap());
        let key = backend.load_key(&spec).unwrap();
        let input: Vec<u8> = Random::new(7).bytes(RUNS * 3 * UNIT);
        let expected: Vec<u8> = (0..)
            .zip(input.chunks_exact(UNIT))
            .flat_map(|(unit, bytes_of_unit)| {
                let number = unit / 3 * 1000 + unit % 3;
                reference::xts_encrypt(&bytes, number, bytes_of_unit)
            })
            .collect();

        double.break_with(self.fault);
        let mut output = match place {
            Place::In => input.clone(),
            Place::Separate => vec![0x5a; input.len()],
        };
        let before = output.clone();
        let mut runs: Vec<_> = (0..)
            .zip(input.chunks(3 * UNIT).zip(output.chunks_mut(3 * UNIT)))
            .map(|(i, (input, output))| {
                let first = DataUnitNumber::new(i * 1000);
                let unit_len = DataUnitLen::new(UNIT).unwrap();
                let buf = match place {
                    Place::In => output.into(),
                    Place::Separate => luxor_engine::InOut::Separate { input, output },
                };
                Run::new(first, 1, unit_len, buf).unwrap()
            })
            .collect();
        let error = key.crypt(Direction::Encrypt, &mut runs).unwrap_err();
        let what = format!("{:?}, {place:?}: {error}", self.fault);
        assert_eq!(error.done, self.done, "{what}");
        let CryptErrorKind::Device { backend, message } = &error.kind else {
            panic!("{what}")
        };
        assert_eq!((*backend, message.as_str()), ("fpga", &*self.message));
        let done = error.done * UNIT;
        assert!(output[..done] == expected[..done], "{what}");
        assert!(output[done..] == before[done..], "{what}");

        // Nothing of the call is left, and the same key still works.
        if !matches!(self.fault, Fault::Dead { .. } | Fault::AllOnes { .. }) {
            assert!(double.core().is_clean(), "{what}");
            let mut rest = input[..UNIT].to_vec();
            crypt(&*key, Direction::Encrypt, UNIT, &mut [&mut rest]).expect(&what);
            assert!(rest == expected[..UNIT], "{what}");
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Place {
    In,
    Separate,
}

#[test]
fn after_a_fault_each_unit_is_done_or_unchanged() {
    // Descriptors have three units, but the first batch ends in the middle of a run: the second
    // batch begins with descriptor 9 and ends with descriptor 17, which have two units each.
    let descriptor = 13;
    let cases = [
        (
            Fault::Status {
                descriptor,
                code: 5,
            },
            DescriptorError::EmptySlot.to_string(),
        ),
        (
            Fault::Status {
                descriptor,
                code: 15,
            },
            DescriptorError::Unknown(15).to_string(),
        ),
        (Fault::Send { descriptor }, "the cable is out".to_owned()),
        (
            Fault::Stuck { descriptor },
            DriverError::Hangs { cycles: 1_000_000 }.to_string(),
        ),
        // The next answer takes its place. It is as long, and so are those after it, up to a
        // shorter one.
        (
            Fault::AnswerLost { descriptor: 11 },
            DriverError::AnswerLen {
                expected: 240,
                found: 160,
            }
            .to_string(),
        ),
        (
            Fault::AnswerShort { descriptor },
            DriverError::AnswerLen {
                expected: 240,
                found: 224,
            }
            .to_string(),
        ),
        (
            Fault::AnswerLong { descriptor },
            DriverError::AnswerLen {
                expected: 240,
                found: 256,
            }
            .to_string(),
        ),
        // Two batches of 25 units of five beats, and one beat more.
        (
            Fault::NullBeat { descriptor },
            DriverError::Babbles {
                found: 251,
                due: 250,
            }
            .to_string(),
        ),
        (
            Fault::NeverDone { descriptor },
            DriverError::NeverEnds {
                what: "a descriptor",
                polls: 100_000,
            }
            .to_string(),
        ),
        (
            Fault::NoStatus { descriptor },
            DriverError::NotDone { status: 0 }.to_string(),
        ),
    ];
    for (fault, message) in cases {
        let broken = Broken {
            fault,
            done: 25,
            message,
        };
        broken.check(Place::In);
        broken.check(Place::Separate);
    }
}

#[test]
fn a_core_that_is_gone_is_an_error_of_every_call() {
    let block = reference::ecb_encrypt(&[7; 32], &[0; 16]);
    for (fault, message) in [
        (Fault::Dead { after: 250 }, "does not answer"),
        (Fault::AllOnes { after: 250 }, "the core reports"),
    ] {
        let double = stalling(8, 1);
        let backend = backend(&double).with_batch(2000);
        let key = KeySpec::Ecb(AesKey::new(&[7; 32]).unwrap());
        let key = backend.load_key(&key).unwrap();
        double.break_with(fault);
        for calls in 0..3 {
            let mut bytes = vec![0; 48_000];
            let mut runs: Vec<_> = bytes.chunks_mut(480).collect();
            let error = crypt(&*key, Direction::Encrypt, 16, &mut runs).unwrap_err();
            let (done, rest) = bytes.split_at(error.done * 16);
            assert!(done.chunks(16).all(|found| found == block), "{error}");
            assert!(rest.iter().all(|&b| b == 0), "{error}");
            assert_eq!(done.is_empty(), calls > 0, "{error}");
            assert!(calls > 0 || error.to_string().contains(message), "{error}");
        }
        let other = KeySpec::Ecb(AesKey::new(&[8; 16]).unwrap());
        let error = backend.load_key(&other).err().unwrap();
        assert!(matches!(error, BackendError::Device { .. }), "{error}");
    }
}

#[test]
fn a_registry_returns_the_backend_by_name() {
    let mut registry = Registry::cpu();
    registry.register("fpga", || Ok(Arc::new(backend(&Double::new()))));
    let info = registry.get("fpga").unwrap().info();
    assert!(
        info.device.starts_with("double: AES-128 and AES-256"),
        "{}",
        info.device
    );
    // The best engine is always a CPU's.
    let best = registry.best(Mode::Xts).unwrap();
    assert_ne!(best.info().name, "fpga");
}

#[test]
fn a_core_without_counter_mode_has_the_other_modes() {
    let double = Double::with(&Options {
        ctr: false,
        ..Options::default()
    });
    let without = backend(&double);
    assert_eq!(without.info().modes, [Mode::Xts, Mode::Ecb]);
    let key = KeySpec::Ctr(AesKey::new(&[7; 32]).unwrap());
    let error = without.load_key(&key).err().unwrap();
    assert!(
        matches!(
            error,
            BackendError::Unsupported {
                mode: Mode::Ctr,
                ..
            }
        ),
        "{error}"
    );
    let with = backend(&Double::new());
    assert_eq!(with.info().modes, [Mode::Xts, Mode::Ecb, Mode::Ctr]);
    assert!(with.load_key(&key).is_ok());
}
