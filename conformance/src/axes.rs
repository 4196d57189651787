// SPDX-License-Identifier: MIT OR Apache-2.0
//! The axes of the suite. Each goes through all its own values, combined with a few of the other
//! axes, for every mode and key size of the backend, in both directions.

use std::{num::NonZeroUsize, thread};

use luxor_engine::{
    Backend, BackendError, CryptErrorKind, DataUnitLen, Direction, Executor, KeySize, Mode, PAGE,
    Run, self_test,
};

pub use crate::{cases::Cases, messages::messages, parts::parts};
use crate::{
    cases::is_long,
    kit::{Kit, Offsets, Shape, TestRun, has_whole_blocks, key_kinds, key_spec},
    random::Random,
    vectors,
};

/// The backend describes itself, has distinct modes and passes its self-test.
///
/// # Panics
/// If the backend does not conform. This holds for all functions of this module.
pub fn identity(backend: &dyn Backend, _: Cases) {
    let info = backend.info();
    println!("{}: {} {:?}", info.name, info.device, info.modes);
    assert!(!info.device.is_empty());
    assert!(info.modes.contains(&Mode::Xts), "every backend has XTS");
    for &mode in Mode::ALL {
        assert!(
            info.modes.iter().filter(|m| **m == mode).count() <= 1,
            "{mode} twice"
        );
    }
    if let Err(e) = self_test(backend) {
        panic!("{e}");
    }
}

/// The published answers in `vectors/`, except those with AES-192 and those with data units that
/// end within a byte. Prints and checks how many ran. With [`Cases::Few`] one of each nine, but all
/// if `LUXOR_TEST_LONG` is set. A backend may refuse XTS keys with equal halves: either all of them
/// or none.
///
/// # Panics
/// If the backend does not conform.
pub fn known_answers(backend: &dyn Backend, cases: Cases) {
    let modes = backend.info().modes;
    let every = if is_long() { 1 } else { cases.pick(1, 9) };
    for file in vectors::FILES {
        if !modes.contains(&file.mode) {
            println!("{}: the backend has no {}", file.path, file.mode);
            continue;
        }
        let (mut run, mut left_out, mut aes192) = (0, 0, 0);
        let (mut equal, mut refused) = (0, 0);
        for (i, answer) in file
            .read()
            .unwrap_or_else(|e| panic!("{e}"))
            .into_iter()
            .enumerate()
        {
            if file.is_aes192(&answer) {
                aes192 += 1;
                continue;
            }
            if i % every != 0 {
                left_out += 1;
                continue;
            }
            let (data, tweak) = answer.key.split_at(answer.key.len() / 2);
            let has_equal_halves = file.mode == Mode::Xts && data == tweak;
            equal += usize::from(has_equal_halves);
            let kit = match Kit::load(backend, file.mode, answer.form, answer.key) {
                Ok(kit) => kit,
                Err(BackendError::EqualHalves { .. }) if has_equal_halves => {
                    refused += 1;
                    continue;
                }
                Err(e) => panic!("{}, line {}: {e}", file.path, answer.line),
            };
            let shape = Shape::one(answer.plaintext.len(), answer.number);
            let place = Offsets::InPlace(answer.line % 64);
            let (plaintext, ciphertext) = (answer.plaintext, answer.ciphertext);
            kit.check(&[TestRun {
                shape,
                place,
                plaintext,
                ciphertext,
            }]);
            run += 1;
        }
        println!(
            "{}: ran {run}, left out {left_out}, refused {refused} (equal halves), skipped {aes192} \
             (AES-192) and {} (part bytes)",
            file.path, file.part_bytes
        );
        assert!(refused == 0 || refused == equal, "{}", file.path);
        let found = (run + left_out + refused, aes192);
        assert_eq!(found, (file.run, file.aes192), "{}", file.path);
    }
}

/// Many keys, each with a single bit set, all of them loaded at the same time.
///
/// # Panics
/// If the backend does not conform.
pub fn keys(backend: &dyn Backend, cases: Cases) {
    let random = &mut Random::for_test("keys");
    for &mode in backend.info().modes {
        for kind in key_kinds(mode) {
            let kits: Vec<_> = cases
                .of(0..kind.len * 8, 7)
                .map(|bit| {
                    let mut key = vec![0; kind.len];
                    key[bit / 8] = 0x80 >> (bit % 8);
                    Kit::new(backend, mode, kind.form, key)
                })
                .collect();
            for kit in &kits {
                let shape = Shape {
                    unit_len: 32,
                    units: 2,
                    first: random.u128(),
                    stride: 1,
                };
                kit.check_one(random, shape, Offsets::InPlace(0));
            }
        }
    }
}

/// All unit lengths that the mode accepts up to 1100 bytes, and around 4096 and 65536, as one unit
/// and as several.
///
/// # Panics
/// If the backend does not conform.
pub fn lengths(backend: &dyn Backend, cases: Cases) {
    const LONGEST: usize = 65536 + 20;

    let random = &mut Random::for_test("lengths");
    for kit in Kit::few(backend, random) {
        let number = random.u128();
        // The reference is slow. All modes except XTS encrypt the head of a message as if it were
        // the whole message, so one long message is enough for them.
        let longest = kit.piece(
            random,
            Shape::one(LONGEST / 16 * 16, number),
            Offsets::InPlace(0),
        );
        let all = (1..=1100)
            .chain(4096 - 20..=4096 + 20)
            .chain(65536 - 20..=LONGEST);
        let few = [
            1, 15, 16, 17, 31, 32, 33, 47, 48, 512, 520, 1024, 4095, 4096, 4097, 4112, 65536,
            LONGEST,
        ];
        let lengths = cases.pick(all.collect(), few.to_vec());
        for len in lengths
            .into_iter()
            .filter(|&len| kit.mode.accepts_unit_len(len))
        {
            let shape = Shape::one(len, number);
            let mut piece = if kit.mode == Mode::Xts || len > longest.plaintext.len() {
                kit.piece(random, shape, Offsets::InPlace(len * 7 % 64))
            } else {
                TestRun {
                    shape,
                    place: Offsets::InPlace(len * 7 % 64),
                    plaintext: longest.plaintext[..len].to_vec(),
                    ciphertext: longest.ciphertext[..len].to_vec(),
                }
            };
            kit.check(std::slice::from_ref(&piece));
            piece.place = Offsets::Separate {
                input: len * 5 % 64,
                output: len * 11 % 64,
            };
            kit.check(&[piece]);
            if len <= 1100 {
                let first = u128::from(u64::MAX) - 8;
                let shape = Shape {
                    unit_len: len,
                    units: 1 + len % 4,
                    first,
                    stride: 8,
                };
                kit.check_one(random, shape, Offsets::InPlace(0));
            }
        }
    }
}

/// Runs of 1 to 70 units, of around 128 and 256, and of thousands, with unit lengths on both sides
/// of everything that a kernel could treat as a special case.
///
/// # Panics
/// If the backend does not conform.
pub fn units(backend: &dyn Backend, cases: Cases) {
    const MOST: usize = 260;

    let random = &mut Random::for_test("units");
    for kit in Kit::few(backend, random) {
        let all = [1, 15, 16, 17, 31, 32, 48, 63, 64, 129, 255, 256, 512];
        let lengths = cases.pick(all.to_vec(), vec![1, 16, 31, 256]);
        for unit_len in lengths
            .into_iter()
            .filter(|&len| kit.mode.accepts_unit_len(len))
        {
            // The results for fewer units are the head of those for `MOST` units.
            let first = u128::from(u64::MAX) - 30;
            for stride in [1, 8] {
                let shape = Shape {
                    unit_len,
                    units: MOST,
                    first,
                    stride,
                };
                let all = kit.piece(random, shape, Offsets::InPlace(0));
                let counts = (1..=70).chain(124..=132).chain(252..=MOST);
                for units in cases.pick(counts.collect(), vec![1, 2, 33, 129, MOST]) {
                    let len = units * unit_len;
                    kit.check(&[TestRun {
                        shape: Shape { units, ..shape },
                        place: match units % 3 {
                            0 => Offsets::Separate {
                                input: units % 64,
                                output: 0,
                            },
                            _ => Offsets::InPlace(units % 64),
                        },
                        plaintext: all.plaintext[..len].to_vec(),
                        ciphertext: all.ciphertext[..len].to_vec(),
                    }]);
                }
            }
        }
        let shape = Shape {
            unit_len: 4096,
            units: 19,
            first: 1 << 40,
            stride: 8,
        };
        kit.check_one(random, shape, Offsets::InPlace(1));
        // Many units, in which the numbers wrap. The lengths from 768 on are sections of `vaes256`, or
        // an odd number of its passes.
        let many = vec![
            (16, 10_000),
            (33, 3_333),
            (520, 1_000),
            (768, 9),
            (1024, 133),
            (1280, 5),
            (1536, 9),
        ];
        let few = vec![(16, 5_000), (33, 333), (520, 100), (1536, 9)];
        for (unit_len, units) in cases
            .pick(many, few)
            .into_iter()
            .filter(|&(len, _)| kit.mode.accepts_unit_len(len))
        {
            let shape = Shape {
                unit_len,
                units,
                first: 0_u128.wrapping_sub(units as u128 / 2),
                stride: 1,
            };
            kit.check_one(random, shape, Offsets::InPlace(0));
        }
    }
}

/// Numbers that cross 2⁸, 2³², 2⁶⁴, 2⁹⁶ and 2¹²⁸ at every position of a run. In CTR the counter
/// does so at every block of a unit too.
///
/// # Panics
/// If the backend does not conform.
pub fn numbers(backend: &dyn Backend, cases: Cases) {
    let random = &mut Random::for_test("numbers");
    let edges = [1 << 8, 1 << 32, 1 << 64, 1 << 96, 0_u128];
    for kit in Kit::few(backend, random) {
        for edge in edges {
            for before in cases.of(0..=70, 23) {
                let first = edge.wrapping_sub(before);
                for (unit_len, units) in [(16, 70), (48, 9), (16 * 70, 1)] {
                    let shape = Shape {
                        unit_len,
                        units,
                        first,
                        stride: 1,
                    };
                    kit.check_one(random, shape, Offsets::InPlace(0));
                }
            }
            for before in cases.of([127, 128, 129], 2) {
                let first = edge.wrapping_sub(before);
                let shape = Shape {
                    unit_len: 16,
                    units: 200,
                    first,
                    stride: 1,
                };
                kit.check_one(random, shape, Offsets::InPlace(0));
            }
            for before in cases.of(1..=17, 8) {
                let first = edge.wrapping_sub(before * 8);
                let shape = Shape {
                    unit_len: 512,
                    units: 17,
                    first,
                    stride: 8,
                };
                kit.check_one(random, shape, Offsets::InPlace(0));
            }
        }
        for bit in cases.of(0..128, 13) {
            for units in [1, 5] {
                let shape = Shape {
                    unit_len: 32,
                    units,
                    first: 1 << bit,
                    stride: 1,
                };
                kit.check_one(random, shape, Offsets::InPlace(0));
            }
        }
    }
}

/// Strides of 0 and 1, of 8 as in LUKS2, and large ones, from various first numbers.
///
/// # Panics
/// If the backend does not conform.
pub fn strides(backend: &dyn Backend, cases: Cases) {
    let random = &mut Random::for_test("strides");
    let around = |n: u64| [n - 1, n, n.wrapping_add(1)];
    let strides: Vec<u64> = [1, 8, 1 << 8, 1 << 31, 1 << 32, 1 << 63, u64::MAX]
        .into_iter()
        .flat_map(around)
        .collect();
    for kit in Kit::few(backend, random) {
        let firsts = [0, 1, u128::from(u64::MAX), u128::MAX - 7, random.u128()];
        for &stride in &strides {
            for first in cases.of(firsts, 2) {
                for (unit_len, units) in cases.of([(16, 33), (80, 17)], 2) {
                    let shape = Shape {
                        unit_len,
                        units,
                        first,
                        stride,
                    };
                    kit.check_one(random, shape, Offsets::InPlace(0));
                }
            }
        }
    }
}

/// Buffers at every offset from a 64-byte boundary, in place and separate.
///
/// # Panics
/// If the backend does not conform.
pub fn alignment(backend: &dyn Backend, cases: Cases) {
    let random = &mut Random::for_test("alignment");
    let mut places = Vec::new();
    for a in 0..64 {
        places.push(Offsets::InPlace(a));
        for b in [0, 1, 16, 33, a] {
            places.push(Offsets::Separate {
                input: a,
                output: b,
            });
            places.push(Offsets::Separate {
                input: b,
                output: a,
            });
        }
    }
    let every = cases.pick_of_three(1, 5, 41);
    let places: Vec<_> = places.into_iter().step_by(every).collect();
    for kit in Kit::all(backend, random) {
        let stealing = usize::from(!has_whole_blocks(kit.mode));
        for (unit_len, units) in [(16 + stealing, 21), (512, 9), (1040 + 15 * stealing, 2)] {
            let shape = Shape {
                unit_len,
                units,
                first: random.u128(),
                stride: 8,
            };
            kit.check_places(random, shape, &places);
        }
    }
}

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
        if kit.mode.is_feedback() || kit.size() != KeySize::Aes256 {
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

/// What a backend must refuse: unit lengths that the mode does not accept, and modes that the
/// backend does not list. Both must be errors of the right kind that leave the buffers unchanged.
///
/// # Panics
/// If the backend does not conform.
pub fn refusals(backend: &dyn Backend, cases: Cases) {
    let info = backend.info();
    for &mode in Mode::ALL {
        for kind in key_kinds(mode) {
            let key: Vec<u8> = (0..=u8::MAX).take(kind.len).collect();
            let loaded = backend.load_key(&key_spec(mode, kind.form, &key));
            match (info.modes.contains(&mode), loaded) {
                (true, Ok(_)) => {}
                (
                    false,
                    Err(BackendError::Unsupported {
                        backend,
                        mode: named,
                    }),
                ) => {
                    assert_eq!((backend, named), (info.name, mode));
                }
                (has, Ok(_)) => panic!("{mode} loads, and `info` lists it: {has}"),
                (has, Err(e)) => panic!("{mode}: {e}, and `info` lists it: {has}"),
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
