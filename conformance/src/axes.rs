// SPDX-License-Identifier: MIT OR Apache-2.0
//! The axes of the suite. Each goes through all its own values, combined with a few of the other
//! axes, for every mode and key size of the backend, in both directions.

mod calls;

use luxor_engine::{AesSize, Backend, BackendError, Mode, self_test};

pub use self::calls::{calls, executor, large_runs, long_units, memory, refusals, threads};
pub use crate::{cases::Cases, masks::masks, messages::messages, parts::parts};
use crate::{
    cases::is_long,
    kit::{Kit, Offsets, Shape, TestRun, has_whole_blocks, key_kinds},
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

/// The published answers in `vectors/`, except those of keys that the backend lacks and those with data units that
/// end within a byte. Prints and checks how many ran. With [`Cases::Few`] one of each nine, but all
/// if `LUXOR_TEST_LONG` is set. A backend may refuse XTS keys with equal halves: either all of them
/// or none.
///
/// # Panics
/// If the backend does not conform.
pub fn known_answers(backend: &dyn Backend, cases: Cases) {
    let info = backend.info();
    let has_aes192 = info.key_sizes.contains(&AesSize::Aes192);
    let every = if is_long() { 1 } else { cases.pick(1, 9) };
    for file in vectors::FILES {
        if !info.modes.contains(&file.mode) {
            println!("{}: the backend has no {}", file.path, file.mode);
            continue;
        }
        let (mut run, mut left_out, mut skipped) = (0, 0, 0);
        let (mut equal, mut refused) = (0, 0);
        for (i, answer) in file
            .read()
            .unwrap_or_else(|e| panic!("{e}"))
            .into_iter()
            .enumerate()
        {
            if file.is_aes192(&answer) && !has_aes192 {
                skipped += 1;
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
            "{}: ran {run}, left out {left_out}, refused {refused} (equal halves), skipped {skipped} \
             (AES-192) and {} (part bytes)",
            file.path, file.part_bytes
        );
        assert!(refused == 0 || refused == equal, "{}", file.path);
        let without = if has_aes192 { 0 } else { file.aes192 };
        let found = (run + left_out + refused, skipped);
        let records = file.run + file.aes192 - without;
        assert_eq!(found, (records, without), "{}", file.path);
    }
}

/// Many keys, each with a single bit set, all of them loaded at the same time.
///
/// # Panics
/// If the backend does not conform.
pub fn keys(backend: &dyn Backend, cases: Cases) {
    let random = &mut Random::for_test("keys");
    let info = backend.info();
    for &mode in info.modes {
        for kind in key_kinds(mode, info.key_sizes) {
            let kits: Vec<_> = cases
                .sample(0..kind.len * 8, 7)
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
            for before in cases.sample(0..=70, 23) {
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
            for before in cases.sample([127, 128, 129], 2) {
                let first = edge.wrapping_sub(before);
                let shape = Shape {
                    unit_len: 16,
                    units: 200,
                    first,
                    stride: 1,
                };
                kit.check_one(random, shape, Offsets::InPlace(0));
            }
            for before in cases.sample(1..=17, 8) {
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
        for bit in cases.sample(0..128, 13) {
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
            for first in cases.sample(firsts, 2) {
                for (unit_len, units) in cases.sample([(16, 33), (80, 17)], 2) {
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
