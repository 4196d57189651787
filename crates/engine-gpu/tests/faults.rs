// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fails every call of a device once, in every way. Checks that `done` is right, that all other
//! units keep their input, that a CPU can continue from there, and that nothing is left under way
//! or unwiped.

mod double;

use std::{
    panic::{self, AssertUnwindSafe},
    sync::{
        Arc, LazyLock, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use double::{Double, Fault, Op, Options, Trouble};
use luxor_conformance::Random;
use luxor_engine::{
    Backend, BackendError, Buffer, CryptError, CryptErrorKind, DataUnitLen, Direction, Fallback,
    InOut, KeySpec, LoadedKey, Registry, Run, XtsKey,
};
use luxor_engine_gpu::{GpuBackend, Tuning};

const TROUBLES: [Trouble; 5] = [
    Trouble::OutOfMemory,
    Trouble::Launch,
    Trouble::Lost,
    Trouble::TooOld,
    Trouble::Panic,
];

fn xts() -> KeySpec {
    let bytes: Vec<u8> = (0..64).collect();
    KeySpec::Xts(XtsKey::new(&bytes).unwrap())
}

/// The most queues of a device.
const QUEUES: usize = 2;

fn backend(doubles: &[Double]) -> GpuBackend<Double> {
    let mut tuning = Tuning::default();
    tuning.batch = 4096;
    tuning.least_batch = 1024;
    tuning.queues = QUEUES;
    tuning.direct = 1024;
    GpuBackend::new(doubles.to_vec(), tuning)
}

/// The runs of a call: unit length, number of units, whether in place, whether in pinned memory.
const SHAPES: [(usize, usize, bool, bool); 5] = [
    (512, 5, true, false),
    (17, 90, true, false),
    (1024, 6, false, true),
    (1024, 4, true, true),
    (5000, 1, false, false),
];

static RANDOM: LazyLock<Mutex<Random>> = LazyLock::new(|| Mutex::new(Random::for_test("faults")));

struct Work {
    buffers: Vec<(Buffer, Option<Buffer>)>,
    input: Vec<Vec<u8>>,
}

impl Work {
    fn new(backend: &GpuBackend<Double>) -> Self {
        let mut random = RANDOM.lock().unwrap().clone();
        let (mut buffers, mut input) = (Vec::new(), Vec::new());
        for (unit_len, units, in_place, pinned) in SHAPES {
            let bytes = random.bytes(unit_len * units);
            let alloc = |len| {
                if pinned {
                    backend.alloc(len)
                } else {
                    Buffer::zeroed(len)
                }
            };
            let mut buffer = alloc(bytes.len());
            buffer.copy_from_slice(&bytes);
            let output = (!in_place).then(|| alloc(bytes.len()));
            buffers.push((buffer, output));
            input.push(bytes);
        }
        Self { buffers, input }
    }

    fn runs(&mut self) -> Vec<Run<'_>> {
        let buffers = self.buffers.iter_mut().zip(SHAPES);
        (0_u64..)
            .zip(buffers)
            .map(|(i, ((buffer, output), (unit_len, ..)))| {
                let buf = match output {
                    None => InOut::InPlace(&mut buffer[..]),
                    Some(output) => InOut::Separate {
                        input: &buffer[..],
                        output: &mut output[..],
                    },
                };
                let unit = DataUnitLen::new(unit_len).unwrap();
                Run::new((i * 100).into(), 3, unit, buf).unwrap()
            })
            .collect()
    }

    fn outputs(&self) -> Vec<Vec<u8>> {
        let output = |(buffer, output): &(Buffer, Option<Buffer>)| {
            output.as_ref().unwrap_or(buffer).to_vec()
        };
        self.buffers.iter().map(output).collect()
    }

    /// Checks that `done` units are finished and all others are unchanged.
    fn check(&self, done: usize, expected: &[Vec<u8>]) {
        let mut left = done;
        for (i, (unit_len, units, in_place, _)) in SHAPES.into_iter().enumerate() {
            let mine = left.min(units);
            left -= mine;
            let (finished, found) = (mine * unit_len, &self.outputs()[i]);
            assert!(
                found[..finished] == expected[i][..finished],
                "run {i}, {done}"
            );
            if in_place {
                assert!(
                    found[finished..] == self.input[i][finished..],
                    "run {i}, {done}"
                );
            } else {
                assert!(*self.buffers[i].0 == *self.input[i], "run {i}, {done}");
            }
        }
        assert_eq!(left, 0, "`done` is more than the number of units");
    }
}

/// Returns the outputs that the CPU produces.
fn expected(direction: Direction) -> Vec<Vec<u8>> {
    let mut work = Work::new(&backend(&[Double::new()]));
    let key = cpu();
    key.crypt(direction, &mut work.runs()).unwrap();
    work.outputs()
}

fn cpu() -> Box<dyn LoadedKey> {
    let portable = Registry::cpu().get("portable").unwrap();
    portable.load_key(&xts()).unwrap()
}

/// Processes the units that are not done on the CPU.
fn finish(direction: Direction, mut done: usize, runs: Vec<Run<'_>>) {
    let mut rest = Vec::new();
    for run in runs {
        let units = done.min(run.units());
        done -= units;
        rest.push(run.split_at(units).1);
    }
    cpu().crypt(direction, &mut rest).unwrap();
}

/// Returns the number of calls that one `crypt` makes of the double.
fn calls(options: &Options) -> usize {
    let double = Double::with(options.clone());
    let backend = backend(std::slice::from_ref(&double));
    let mut work = Work::new(&backend);
    let key = backend.load_key(&xts()).unwrap();
    key.crypt(Direction::Encrypt, &mut work.runs()).unwrap();
    let record = double.record();
    record.calls.values().sum()
}

#[test]
fn after_any_failure_done_is_right_and_the_cpu_can_continue() {
    let direction = Direction::Encrypt;
    let expected = expected(direction);
    let mut dones = Vec::new();
    for late in [true, false] {
        let options = Options {
            late,
            ..Options::default()
        };
        let most = calls(&options);
        assert!(most > 40, "{most}");
        for trouble in TROUBLES {
            for nth in 0..most {
                let double = Double::with(options.clone());
                let backend = backend(std::slice::from_ref(&double));
                let mut work = Work::new(&backend);
                let key = backend.load_key(&xts()).unwrap();
                double.break_with(Fault {
                    op: None,
                    nth,
                    trouble,
                });
                let result = panic::catch_unwind(AssertUnwindSafe(|| {
                    key.crypt(direction, &mut work.runs())
                }));
                let at = format!("{trouble:?} at {nth}, late {late}");
                let failed = double.record().failed;
                let lost = trouble == Trouble::Lost && matches!(result, Ok(Err(_)));
                match result {
                    Ok(Ok(())) => {
                        // The fault was not reached, or it hit a step that the call can do without.
                        let done = SHAPES.iter().map(|shape| shape.1).sum();
                        work.check(done, &expected);
                    }
                    Ok(Err(error)) => {
                        assert!(failed, "{at}");
                        device_failed(&error, &at);
                        work.check(error.done, &expected);
                        dones.push(error.done);
                        finish(direction, error.done, work.runs());
                        assert!(work.outputs() == expected, "{at}");
                    }
                    Err(_) => assert_eq!(trouble, Trouble::Panic, "{at}"),
                }
                // Nothing of the failed call is left, and a device that is not lost can be used
                // again.
                double.mend();
                let mut work = Work::new(&backend);
                let again = key.crypt(direction, &mut work.runs());
                match again {
                    Ok(()) => assert!(!lost, "{at}"),
                    // The device may also have been lost where the first call could do without it.
                    Err(_) => assert!(trouble == Trouble::Lost && failed, "{at}"),
                }
                drop((key, backend));
                let record = double.record();
                let left = (record.queues, record.keys, record.abandoned, record.dirty);
                assert_eq!(left, (0, 0, 0, 0), "{at}");
            }
        }
    }
    // Faults struck at the beginning, in the middle and at the end.
    let most = SHAPES.iter().map(|shape| shape.1).sum::<usize>();
    assert!(dones.contains(&0) && dones.iter().any(|&done| done > most / 2 && done < most));
}

fn device_failed(error: &CryptError, at: &str) {
    let CryptErrorKind::Device { backend, .. } = &error.kind else {
        panic!("{at}: {error}");
    };
    assert_eq!(*backend, "opencl", "{at}");
}

#[test]
fn the_cpu_carries_on_and_one_warning_is_given() {
    let direction = Direction::Decrypt;
    let expected = expected(direction);
    let options = Options::default();
    for trouble in [
        Trouble::OutOfMemory,
        Trouble::Launch,
        Trouble::Lost,
        Trouble::TooOld,
    ] {
        // Also fail at the call that loads the key, and after all calls.
        for nth in 0..calls(&options) + 5 {
            let double = Double::with(options.clone());
            double.break_with(Fault {
                op: None,
                nth,
                trouble,
            });
            let told = Arc::new(AtomicUsize::new(0));
            let hears = Arc::clone(&told);
            let tell = move |_: &str| _ = hears.fetch_add(1, Ordering::Relaxed);
            let cpu = Registry::cpu().get("portable").unwrap();
            let backend = Arc::new(backend(std::slice::from_ref(&double)));
            let fallback = Fallback::new(backend.clone(), cpu, tell);
            let key = fallback.load_key(&xts()).unwrap();
            for _ in 0..3 {
                let mut work = Work::new(&backend);
                key.crypt(direction, &mut work.runs()).unwrap();
                assert!(work.outputs() == expected, "{trouble:?} at {nth}");
            }
            let told = told.load(Ordering::Relaxed);
            assert_eq!(
                told,
                usize::from(fallback.has_failed()),
                "{trouble:?} at {nth}"
            );
            if trouble == Trouble::Lost && double.record().failed {
                // The loss is noticed when the device is next used: a loss while memory was being
                // pinned fails nothing by itself.
                assert_eq!(told, 1, "{trouble:?} at {nth}");
            }
        }
    }
}

#[test]
fn a_device_that_is_lost_leaves_the_work_to_others() {
    let direction = Direction::Decrypt;
    let expected = expected(direction);
    let options = Options::default();
    for nth in 0..calls(&options) {
        let doubles = [Double::new(), Double::new()];
        let backend = backend(&doubles);
        let key = backend.load_key(&xts()).unwrap();
        let mut work = Work::new(&backend);
        doubles[0].break_with(Fault {
            op: None,
            nth,
            trouble: Trouble::Lost,
        });
        if let Err(error) = key.crypt(direction, &mut work.runs()) {
            work.check(error.done, &expected);
        }
        let lost = doubles[0].record().lost;
        // The next call succeeds, with the same key and with a new one.
        for key in [&key, &backend.load_key(&xts()).unwrap()] {
            let mut work = Work::new(&backend);
            let result = key.crypt(direction, &mut work.runs());
            if !doubles[0].record().failed {
                result.unwrap();
            } else if lost {
                result.unwrap_or_else(|error| panic!("{nth}: {error}"));
                assert!(work.outputs() == expected);
            }
        }
    }
}

#[test]
fn with_little_memory_there_are_fewer_or_smaller_queues() {
    let direction = Direction::Encrypt;
    let expected = expected(direction);
    let one = {
        let double = Double::new();
        let backend = backend(std::slice::from_ref(&double));
        let key = backend.load_key(&xts()).unwrap();
        let mut bytes = [0; 512];
        let unit = DataUnitLen::new(512).unwrap();
        let run = Run::new(0_u64.into(), 1, unit, &mut bytes[..]).unwrap();
        key.crypt(direction, &mut [run]).unwrap();
        double.record().most_bytes
    };
    let mut enough = Vec::new();
    for memory in (0..=3 * one).step_by(one / 16) {
        let double = Double::with(Options {
            memory,
            ..Options::default()
        });
        let backend = backend(std::slice::from_ref(&double));
        let key = backend.load_key(&xts()).unwrap();
        let mut work = Work::new(&backend);
        match key.crypt(direction, &mut work.runs()) {
            Ok(()) => enough.push(memory),
            Err(error) => {
                assert!(error.to_string().contains("out of memory"), "{error}");
                work.check(error.done, &expected);
                // Units before the long one may still be done.
                assert!(error.done == 0 || memory >= one / 2, "{memory}");
                finish(direction, error.done, work.runs());
            }
        }
        assert!(work.outputs() == expected, "{memory}");
        assert!(double.record().most_bytes <= memory);
    }
    // The long unit's need is enough, even though a batch would use more.
    assert_eq!(enough.last(), Some(&(3 * one)));
    assert!(enough[0] <= 2 * one, "{enough:?} of {one}");
    let all: Vec<_> = (0..=3 * one)
        .step_by(one / 16)
        .filter(|m| *m >= enough[0])
        .collect();
    assert_eq!(enough, all);
}

#[test]
fn a_device_that_was_short_of_memory_is_tried_again() {
    let double = Double::new();
    let backend = backend(std::slice::from_ref(&double));
    let key = backend.load_key(&xts()).unwrap();
    let crypt = |units: usize| {
        let mut bytes = vec![0; units * 512];
        let unit = DataUnitLen::new(512).unwrap();
        let run = Run::new(0_u64.into(), 1, unit, &mut bytes[..]).unwrap();
        key.crypt(Direction::Encrypt, &mut [run])
    };
    double.break_with(Fault {
        op: Some(Op::MakeQueue),
        nth: 0,
        trouble: Trouble::OutOfMemory,
    });
    assert!(crypt(64).is_err());
    // For now there is only one queue.
    crypt(64).unwrap();
    assert_eq!(double.record().most_queues, 1);
    // One more queue is allowed each time, up to the limit.
    for queues in [2, QUEUES] {
        for _ in 0..1024 {
            crypt(1).unwrap();
        }
        crypt(64).unwrap();
        assert_eq!(double.record().most_queues, queues);
    }
}

#[test]
fn a_batch_is_made_smaller_than_it_would_like_to_be() {
    let mut tuning = Tuning::default();
    tuning.batch = 8 << 20;
    let double = Double::with(Options {
        memory: 1 << 20,
        ..Options::default()
    });
    let backend = GpuBackend::new(vec![double.clone()], tuning);
    let key = backend.load_key(&xts()).unwrap();
    let mut bytes = vec![3; 4 << 20];
    let mut expected = bytes.clone();
    let unit = DataUnitLen::new(4096).unwrap();
    let run = Run::new(0_u64.into(), 1, unit, &mut bytes[..]).unwrap();
    key.crypt(Direction::Encrypt, &mut [run]).unwrap();
    let run = Run::new(0_u64.into(), 1, unit, &mut expected[..]).unwrap();
    cpu().crypt(Direction::Encrypt, &mut [run]).unwrap();
    assert!(bytes == expected);
    let record = double.record();
    assert!(record.most_bytes <= 1 << 20);
    assert_eq!(record.most_queues, 1);
}

#[test]
fn a_key_that_cannot_be_loaded_says_why() {
    for (trouble, word) in [
        (Trouble::OutOfMemory, "out of memory"),
        (Trouble::TooOld, "LoadKey"),
        (Trouble::Lost, "lost"),
    ] {
        let doubles = [Double::new(), Double::new()];
        let backend = backend(&doubles);
        for double in &doubles {
            double.break_with(Fault {
                op: Some(Op::LoadKey),
                nth: 0,
                trouble,
            });
        }
        let error = backend.load_key(&xts()).err().unwrap();
        assert!(
            matches!(&error, BackendError::Device { backend: "opencl", message }
            if message.contains(word))
        );
        assert_eq!(doubles[0].record().keys + doubles[1].record().keys, 0);
    }
    // A lost device is skipped.
    let doubles = [Double::new(), Double::new()];
    let backend = backend(&doubles);
    doubles[0].break_with(Fault {
        op: Some(Op::LoadKey),
        nth: 0,
        trouble: Trouble::Lost,
    });
    let key = backend.load_key(&xts()).unwrap();
    let mut work = Work::new(&backend);
    key.crypt(Direction::Encrypt, &mut work.runs()).unwrap();
    assert!(work.outputs() == expected(Direction::Encrypt));
    assert_eq!(doubles[0].record().queues, 0);
}

#[test]
fn memory_that_cannot_be_pinned_is_ordinary_memory() {
    let double = Double::new();
    let backend = backend(std::slice::from_ref(&double));
    for trouble in [Trouble::OutOfMemory, Trouble::Lost] {
        double.break_with(Fault {
            op: Some(Op::Pin),
            nth: 0,
            trouble,
        });
        let buffer = backend.alloc(5000);
        assert_eq!((buffer.len(), buffer.iter().max()), (5000, Some(&0)));
    }
}

#[test]
fn a_failing_call_does_not_harm_concurrent_calls() {
    let direction = Direction::Encrypt;
    let expected = expected(direction);
    for trouble in [Trouble::Launch, Trouble::Panic, Trouble::OutOfMemory] {
        for nth in [0, 7, 30, 60] {
            let double = Double::new();
            let backend = backend(std::slice::from_ref(&double));
            let key = backend.load_key(&xts()).unwrap();
            double.break_with(Fault {
                op: None,
                nth,
                trouble,
            });
            let failures: usize = thread::scope(|scope| {
                let threads: Vec<_> = (0..6)
                    .map(|_| {
                        scope.spawn(|| {
                            let mut work = Work::new(&backend);
                            match key.crypt(direction, &mut work.runs()) {
                                Ok(()) => assert!(work.outputs() == expected),
                                Err(error) => {
                                    work.check(error.done, &expected);
                                    return 1;
                                }
                            }
                            0
                        })
                    })
                    .collect();
                threads
                    .into_iter()
                    .map(|thread| thread.join().unwrap_or(1))
                    .sum()
            });
            assert!(failures <= 1, "{trouble:?} at {nth}: {failures}");
            drop((key, backend));
            let record = double.record();
            assert_eq!((record.queues, record.abandoned, record.dirty), (0, 0, 0));
        }
    }
}
