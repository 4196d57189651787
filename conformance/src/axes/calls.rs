// SPDX-License-Identifier: MIT OR Apache-2.0
//! The axes about calls: with several runs, long ones, from several threads, and such as must be refused.

use std::{num::NonZeroUsize, thread};

use luxor_engine::{
    AesSize, Backend, BackendError, CryptErrorKind, DataUnitLen, Direction, Executor, Mode, PAGE,
    Run,
};

use crate::{
    cases::Cases,
    kit::{Kit, Offsets, Shape, TestRun, has_whole_blocks, key_kinds, key_spec},
    random::Random,
};

/// Calls with several runs: all kinds mixed, empty ones in between, many short ones, and no run at
/// all.
///
/// # Panics
/// If the backend does not conform.
pub fn calls(backend: &dyn Backend, cases: Cases) {
    let random = &mut Random::for_test("calls");
    for kit in Kit::all(backend, random) {
        kit.check(&[]);
        let empty = || Shape {
            unit_len: 512,
            units: 0,
            first: 7,
            stride: 1,
        };
        for place in [
            Offsets::InPlace(0),
            Offsets::Separate {
                input: 0,
                output: 0,
            },
        ] {
            let pieces = [
                kit.piece(random, empty(), place),
                kit.piece(
                    random,
                    Shape {
                        units: 3,
                        ..empty()
                    },
                    place,
                ),
                kit.piece(random, empty(), place),
                kit.piece(random, empty(), place),
                kit.piece(
                    random,
                    Shape {
                        units: 1,
                        ..empty()
                    },
                    place,
                ),
                kit.piece(random, empty(), place),
            ];
            kit.check(&pieces);
            kit.check(&pieces[..1]);
        }
        // A queue of single sectors from random positions of a disk.
        let queue: Vec<_> = (0..70)
            .map(|_| {
                let shape = Shape::one(512, random.u128());
                kit.piece(random, shape, Offsets::InPlace(0))
            })
            .collect();
        for len in [1, 2, 7, 8, 9, 70] {
            kit.check(&queue[..len]);
        }
        for _ in 0..cases.pick(40, 8) {
            let pieces = mixture(&kit, random, 6, 400, 20);
            kit.check(&pieces);
        }
    }
}

/// Makes up to `most` runs with up to `units` units each, of up to about `unit_len` bytes.
fn mixture(
    kit: &Kit,
    random: &mut Random,
    most: usize,
    unit_len: usize,
    units: usize,
) -> Vec<TestRun> {
    (0..=random.below(most))
        .map(|_| {
            let len = 16 + random.below(unit_len);
            let unit_len = if has_whole_blocks(kit.mode) {
                len / 16 * 16
            } else {
                len
            };
            let shape = Shape {
                unit_len,
                units: random.below(units + 1),
                first: random.u128(),
                stride: random.u64() >> random.below(64),
            };
            let place = match random.below(2) {
                0 => Offsets::InPlace(random.below(64)),
                _ => Offsets::Separate {
                    input: random.below(64),
                    output: random.below(64),
                },
            };
            kit.piece(random, shape, place)
        })
        .collect()
}

/// The longest data unit of 2²⁰ blocks, in which α is multiplied a million times. Also long units
/// in the other modes, and with ciphertext stealing in XTS.
///
/// # Panics
/// If the backend does not conform.
pub fn long_units(backend: &dyn Backend, cases: Cases) {
    let random = &mut Random::for_test("long_units");
    for kit in Kit::few(backend, random) {
        let part = if has_whole_blocks(kit.mode) { 0 } else { 15 };
        let number = u128::MAX - random.u128() % 1000;
        let len = cases.pick(1 << 20, 240 << 10);
        for len in [len, len + part] {
            kit.check_one(random, Shape::one(len, number), Offsets::InPlace(0));
        }
    }
    if cases == Cases::Few {
        return;
    }
    let kit = Kit::new(backend, Mode::Xts, None, random.bytes(32));
    let shape = Shape::one(DataUnitLen::MAX.get(), 1);
    kit.check_one(
        random,
        shape,
        Offsets::Separate {
            input: 0,
            output: 0,
        },
    );
}

/// Runs of many mebibytes, for which a backend may store around the caches or prefetch. The results
/// must equal those of small runs in place.
///
/// # Panics
/// If the backend does not conform.
pub fn large_runs(backend: &dyn Backend, cases: Cases) {
    let random = &mut Random::for_test("large_runs");
    for kit in Kit::few(backend, random) {
        // OFB works block by block, so it has no special way for large runs.
        if kit.mode.is_feedback() || kit.size() != AesSize::Aes256 {
            continue;
        }
        // Numbers far from a carry. In CTR also counters that continue from unit to unit, with a
        // carry into the high half at each position in a register.
        let mut numbers = vec![(random.u128() >> 1, 8)];
        if kit.mode == Mode::Ctr {
            numbers.extend((1..=4).map(|before| ((7 << 64) - before, 256)));
        }
        for (first, stride) in numbers {
            let shape = Shape {
                unit_len: 4096,
                units: cases.pick_of_three(17 << 20, 1 << 20, 64 << 10) / 4096,
                first,
                stride,
            };
            let piece = kit.piece_by_small_runs(random, shape, 16);
            kit.check_piece_at(
                piece,
                &[(0, 0), (0, 16), (3, 1)]
                    .map(|(input, output)| Offsets::Separate { input, output }),
            );
        }
    }
}

/// The backend's own memory: aligned to pages, zero, of any length, and usable for runs.
///
/// # Panics
/// If the backend does not conform.
pub fn memory(backend: &dyn Backend, _: Cases) {
    for len in [0, 1, 16, PAGE - 1, PAGE, PAGE + 1, 1 << 20] {
        let buffer = backend.alloc(len);
        assert_eq!(buffer.len(), len);
        assert_eq!(buffer.as_ptr().addr() % PAGE, 0);
        assert!(buffer.iter().all(|&b| b == 0));
    }
    let random = &mut Random::for_test("memory");
    for kit in Kit::all(backend, random) {
        let shape = Shape {
            unit_len: 512,
            units: 20,
            first: random.u128(),
            stride: 1,
        };
        let piece = kit.piece(random, shape, Offsets::InPlace(0));
        let mut buffer = backend.alloc(piece.plaintext.len());
        buffer.copy_from_slice(&piece.plaintext);
        let unit_len = DataUnitLen::new(shape.unit_len).expect("a valid length");
        for (direction, expected) in Direction::ALL
            .into_iter()
            .zip([&piece.ciphertext, &piece.plaintext])
        {
            let run = Run::new(shape.first.into(), shape.stride, unit_len, &mut *buffer);
            kit.loaded()
                .crypt(direction, &mut [run.expect("whole units")])
                .expect("valid runs");
            assert!(
                *buffer == **expected,
                "{}, {direction:?}, memory of the backend",
                kit.mode
            );
        }
    }
}

/// One loaded key used by many threads at once, each with its own work.
///
/// # Panics
/// If the backend does not conform.
pub fn threads(backend: &dyn Backend, cases: Cases) {
    let random = &mut Random::for_test("threads");
    for kit in Kit::few(backend, random) {
        let work: Vec<_> = (0..8).map(|_| mixture(&kit, random, 4, 600, 12)).collect();
        thread::scope(|scope| {
            for pieces in &work {
                let kit = &kit;
                scope.spawn(move || {
                    for _ in 0..cases.pick(25, 3) {
                        kit.check(pieces);
                    }
                });
            }
        });
    }
}

/// The executor gives the same results as one thread, for several numbers of threads and several
/// ways to cut the work.
///
/// # Panics
/// If the backend does not conform.
pub fn executor(backend: &dyn Backend, cases: Cases) {
    let random = &mut Random::for_test("executor");
    let executors = [1, 2, 3, 4, 7].map(|n| Executor::new(NonZeroUsize::new(n).unwrap()));
    for kit in Kit::few(backend, random) {
        // Stream modes are cut like XTS, and the slowest of them would take seconds.
        let executors = match (kit.mode, cases) {
            (Mode::Xts, Cases::All) => &executors[..],
            (Mode::Xts, Cases::Plain) => &executors[1..3],
            _ => &executors[2..3],
        };
        let mut calls = executor_calls(kit.mode);
        let len = |shapes: &Vec<Shape>| {
            shapes
                .iter()
                .map(|shape| shape.unit_len * shape.units)
                .sum::<usize>()
        };
        calls.retain(|shapes| len(shapes) <= cases.pick(usize::MAX, 256 << 10));
        for shapes in calls {
            let pieces: Vec<_> = shapes
                .into_iter()
                .zip(
                    [
                        Offsets::InPlace(0),
                        Offsets::Separate {
                            input: 1,
                            output: 3,
                        },
                    ]
                    .iter()
                    .cycle(),
                )
                .map(|(shape, place)| kit.piece_by_backend(random, shape, *place))
                .collect();
            for executor in executors {
                let crypt =
                    |direction, runs: &mut [Run<'_>]| executor.crypt(kit.loaded(), direction, runs);
                kit.check_through(&crypt, &pieces);
            }
        }
    }
}

/// Returns calls with runs of lengths on both sides of those that an executor splits.
fn executor_calls(mode: Mode) -> Vec<Vec<Shape>> {
    let run = |unit_len, units, stride| Shape {
        unit_len,
        units,
        first: u128::MAX - 1000,
        stride,
    };
    let odd = if has_whole_blocks(mode) { 0 } else { 5 };
    let queue = (0..1200_u32).map(|i| {
        let number = u128::from(i).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
        Shape::one(512 + 16 * (i as usize % 3), number)
    });
    vec![
        vec![],
        vec![run(512, 0, 1)],
        vec![run(512, 1, 1)],
        vec![run(512, 511, 1)],
        vec![run(512, 2049, 1)],
        vec![run(4096, 385, 8)],
        vec![run(1 << 20, 1, 1)],
        vec![
            run(16, 20_000, u64::MAX),
            run(200_000 + odd, 3, 1),
            run(512, 0, 1),
            run(1024 + odd, 300, 1 << 32),
        ],
        queue.collect(),
    ]
}

/// What a backend must refuse: unit lengths that the mode does not accept, and modes and sizes of keys
/// that the backend does not list. All must be errors of the right kind that leave the buffers
/// unchanged.
///
/// # Panics
/// If the backend does not conform.
pub fn refusals(backend: &dyn Backend, cases: Cases) {
    let info = backend.info();
    for &mode in Mode::ALL {
        for kind in key_kinds(mode, &AesSize::ALL) {
            let key: Vec<u8> = (0..=u8::MAX).take(kind.len).collect();
            let key = key_spec(mode, kind.form, &key);
            let has = (
                info.modes.contains(&mode),
                info.key_sizes.contains(&key.size()),
            );
            match (has, backend.load_key(&key)) {
                ((true, true), Ok(_)) => {}
                (
                    (false, _),
                    Err(BackendError::Unsupported {
                        backend,
                        mode: named,
                    }),
                ) => assert_eq!((backend, named), (info.name, mode)),
                ((_, false), Err(BackendError::KeySize { backend, size })) => {
                    assert_eq!((backend, size), (info.name, key.size()));
                }
                (has, Ok(_)) => panic!("{mode} loads, and `info` lists it and its key: {has:?}"),
                (has, Err(e)) => panic!("{mode}: {e}, and `info` lists it and its key: {has:?}"),
            }
        }
    }
    let random = &mut Random::for_test("refusals");
    for kit in Kit::all(backend, random) {
        let bad: Vec<usize> = match kit.mode {
            Mode::Xts => (1..16).collect(),
            mode if has_whole_blocks(mode) => (1..70).filter(|len| len % 16 != 0).collect(),
            _ => continue,
        };
        for unit_len in bad {
            assert!(!kit.mode.accepts_unit_len(unit_len));
            refuses(&kit, random, unit_len);
        }
        refuses_in_pieces(&kit, random, cases.pick(1500, 100));
    }
}

/// An executor, too, must find a bad run before it begins a good one.
fn refuses_in_pieces(kit: &Kit, random: &mut Random, units: usize) {
    let executor = Executor::new(NonZeroUsize::new(3).expect("not 0"));
    let crypt = |direction, runs: &mut [Run<'_>]| executor.crypt(kit.loaded(), direction, runs);
    for place in [
        Offsets::InPlace(1),
        Offsets::Separate {
            input: 0,
            output: 0,
        },
    ] {
        let mut good = || {
            let shape = Shape {
                unit_len: 512,
                units,
                first: 5,
                stride: 8,
            };
            kit.piece_by_backend(random, shape, place)
        };
        let shape = Shape {
            unit_len: 7,
            units: 2,
            first: 9,
            stride: 1,
        };
        let (plaintext, ciphertext) = (vec![1; 14], vec![2; 14]);
        let bad = TestRun {
            shape,
            place,
            plaintext,
            ciphertext,
        };
        for direction in Direction::ALL {
            let error = kit.check_error(&crypt, direction, &[good(), bad.clone(), good()]);
            assert_eq!(error.done, 0);
        }
    }
}

/// A bad run first, last, in the middle and alone.
fn refuses(kit: &Kit, random: &mut Random, unit_len: usize) {
    let good = |random: &mut Random, place| {
        let shape = Shape {
            unit_len: 64,
            units: 3,
            first: 5,
            stride: 1,
        };
        kit.piece(random, shape, place)
    };
    let bad = |random: &mut Random, place| {
        let shape = Shape {
            unit_len,
            units: 2,
            first: 9,
            stride: 1,
        };
        let plaintext = random.bytes(unit_len * 2);
        // There is no correct ciphertext.
        let ciphertext = random.bytes(unit_len * 2);
        TestRun {
            shape,
            place,
            plaintext,
            ciphertext,
        }
    };
    for place in [
        Offsets::InPlace(1),
        Offsets::Separate {
            input: 0,
            output: 0,
        },
    ] {
        let calls = [
            vec![bad(random, place)],
            vec![bad(random, place), good(random, place)],
            vec![good(random, place), bad(random, place)],
            vec![good(random, place), bad(random, place), good(random, place)],
        ];
        for pieces in calls {
            for direction in Direction::ALL {
                let crypt = |direction, runs: &mut [Run<'_>]| kit.loaded().crypt(direction, runs);
                let error = kit.check_error(&crypt, direction, &pieces);
                assert_eq!(error.done, 0);
                let mode = kit.mode;
                assert_eq!(error.kind, CryptErrorKind::UnitLen { mode, unit_len });
            }
        }
    }
}
