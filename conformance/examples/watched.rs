// SPDX-License-Identifier: MIT OR Apache-2.0
//! The program that `cargo xtask guard` runs under valgrind. It runs forced engines, one case after
//! another.
//!
//! **Callgrind** counts instructions. A case consists of two calls of [`counted`]. The second does
//! the same work twice, so the difference of the two counts is the cost of the work alone. For each
//! case a line is printed with the engine, the mode, the direction, the bits of an AES key, the
//! bytes of a data unit and the blocks of the work.
//!
//! **Memcheck** reports each branch and each address that depends on undefined memory. This program
//! declares the bytes of keys and input undefined, so memcheck reports what depends on secrets. The
//! engine "reference", whose AES uses tables, shows that it does. The name "parts" stands for all
//! engines of this CPU with a long data unit, which two threads share.
//!
//! The results of counted calls are compared with the reference's.

use std::{error::Error, num::NonZeroUsize, process::ExitCode};

use luxor_conformance::{
    PartsCounted, Random,
    memcheck::{hide, publish},
    parallel_ofb::Form,
};
use luxor_engine::{
    AesKey, AesSize, CbcKey, DataUnitLen, DataUnitNumber, Direction, Executor, InOut, KeySpec,
    LoadedKey, Mode, Registry, Run, TweakSchedule, XtsKey,
};

/// The length of the work in bytes, rounded down to whole data units: a run of many units, without
/// threads.
const BYTES: usize = 64 << 10;

/// In CTR and OFB, encryption and decryption are the same.
const CASES: [(Mode, Direction); 10] = [
    (Mode::Xts, Direction::Encrypt),
    (Mode::Xts, Direction::Decrypt),
    (Mode::Ctr, Direction::Encrypt),
    (Mode::Ecb, Direction::Encrypt),
    (Mode::Ecb, Direction::Decrypt),
    (Mode::Cbc, Direction::Encrypt),
    (Mode::Cbc, Direction::Decrypt),
    (Mode::Ofb, Direction::Encrypt),
    (Mode::OfbXex, Direction::Encrypt),
    (Mode::OfbXe, Direction::Encrypt),
];

/// The lengths of a data unit in bytes. The second ends with part of a block and is used for XTS
/// alone: in CTR the units are pieces of one message.
const UNITS: [usize; 3] = [512, 520, 4096];

const FIRST: u128 = 0x1234_5678;

fn main() -> ExitCode {
    for engine in std::env::args().skip(1) {
        let outcome = match engine.as_str() {
            "reference" => {
                tables();
                Ok(())
            }
            "parts" => parts(),
            _ => all_cases(&engine),
        };
        if let Err(error) = outcome {
            eprintln!("{engine}: {error}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

fn all_cases(engine: &str) -> Result<(), Box<dyn Error>> {
    let backend = Registry::cpu().get(engine)?;
    let mut random = Random::new(0x1619);
    let all_input = random.bytes(BYTES);
    let hidden_input = all_input.clone();
    hide(&hidden_input);
    for (mode, direction) in CASES {
        let has_two = matches!(mode, Mode::Xts | Mode::OfbXex | Mode::OfbXe);
        for size in AesSize::ALL {
            if has_two && size == AesSize::Aes192 {
                continue;
            }
            let bytes = random.bytes(match mode {
                _ if has_two => 2 * size.bytes(),
                // With ESSIV.
                Mode::Cbc => size.bytes() + 32,
                _ => size.bytes(),
            });
            let spec = match mode {
                Mode::Xts => KeySpec::Xts(XtsKey::new(&bytes)?),
                Mode::Ctr => KeySpec::Ctr(AesKey::new(&bytes)?),
                Mode::Cbc => {
                    let (data, hash) = bytes.split_at(size.bytes());
                    KeySpec::Cbc(CbcKey::essiv_sha256(AesKey::new(data)?, hash.try_into()?))
                }
                Mode::Ofb => KeySpec::Ofb(AesKey::new(&bytes)?),
                Mode::OfbXex | Mode::OfbXe => KeySpec::ParallelOfb(form(size).key(mode, &bytes)),
                _ => KeySpec::Ecb(AesKey::new(&bytes)?),
            };
            for key in keys(&spec) {
                hide(key.expose());
            }
            let key = backend.load_key(&spec)?;
            for unit in UNITS {
                if mode != Mode::Xts && unit % 16 != 0 {
                    continue;
                }
                let length = BYTES - BYTES % unit;
                let (input, hidden) = (&all_input[..length], &hidden_input[..length]);
                let direction_name = format!("{direction:?}").to_lowercase();
                let bits = 8 * size.bytes();
                let case = format!("{engine} {mode} {direction_name} {bits} {unit}");
                for times in [1, 2] {
                    let mut output = vec![0; length];
                    let stride = stride(mode, unit);
                    counted(&*key, direction, (unit, stride), times, hidden, &mut output)?;
                    publish(&output);
                    if !is_right(mode, direction, &bytes, (unit, stride), input, &output) {
                        return Err(format!("{case}: the result differs from the reference").into());
                    }
                }
                println!("{case} {}", length / 16);
            }
        }
    }
    Ok(())
}

/// The keys with secret bytes. (Whether the halves of a key are equal is not secret, and was
/// checked before the bytes are declared undefined.)
fn keys(spec: &KeySpec) -> Vec<&AesKey> {
    match spec {
        KeySpec::Xts(key) => vec![key.data_key(), key.tweak_key()],
        KeySpec::Cbc(key) => [Some(key.data_key()), key.essiv_key()]
            .into_iter()
            .flatten()
            .collect(),
        KeySpec::ParallelOfb(key) => vec![key.first_key(), key.second_key()],
        KeySpec::Ctr(key) | KeySpec::Ofb(key) | KeySpec::Ecb(key) => vec![key],
        other => panic!("{} has a key that is not hidden", other.mode()),
    }
}

/// Lets two threads share a data unit. The number that a kernel gets for a part of a unit is
/// secret, unlike the number of a unit.
fn parts() -> Result<(), Box<dyn Error>> {
    let bytes = Random::new(0x1619).bytes(64);
    let spec = KeySpec::Xts(XtsKey::new(&bytes)?);
    for key in keys(&spec) {
        hide(key.expose());
    }
    let unit = DataUnitLen::new((1 << 20) + 1)?;
    let executor = Executor::new(NonZeroUsize::new(2).ok_or("no threads")?);
    for (name, backend) in Registry::cpu().probe_all() {
        let Ok(backend) = backend else { continue };
        let key = backend.load_key(&spec)?;
        let key = PartsCounted::new(&*key);
        let mut bytes = vec![0; unit.get()];
        for direction in Direction::ALL {
            hide(&bytes);
            let run = Run::new(DataUnitNumber::new(FIRST), 1, unit, bytes.as_mut_slice())?;
            executor.crypt(&key, direction, &mut [run])?;
        }
        publish(&bytes);
        if bytes.iter().any(|&byte| byte != 0) {
            return Err(format!("{name}: the result differs from what was encrypted").into());
        }
        if key.parts() == 0 {
            return Err(format!("{name}: the data unit was not divided").into());
        }
    }
    Ok(())
}

/// Looks up tables by a secret, so that memcheck has something to report.
fn tables() {
    let key = [7; 32];
    hide(&key);
    std::hint::black_box(luxor_reference::xts_encrypt(&key, FIRST, &[0; 16]));
}

/// The form with two chains, or with one for AES-256, which has no other.
fn form(size: AesSize) -> Form {
    Form {
        chains: match size {
            AesSize::Aes128 => 2,
            _ => 1,
        },
        schedule: TweakSchedule::Alpha,
    }
}

/// The step between data unit numbers: 1 for sectors of a disk, or the blocks of a unit in counter
/// mode, where the units are pieces of one message.
fn stride(mode: Mode, unit: usize) -> u64 {
    if mode == Mode::Ctr {
        unit as u64 / 16
    } else {
        1
    }
}

/// The function whose instructions are counted, from its first to its return. `guard` finds it by
/// its name.
#[inline(never)]
fn counted(
    key: &dyn LoadedKey,
    direction: Direction,
    (unit, stride): (usize, u64),
    times: usize,
    input: &[u8],
    output: &mut [u8],
) -> Result<(), Box<dyn Error>> {
    for _ in 0..times {
        let (first, unit) = (DataUnitNumber::new(FIRST), DataUnitLen::new(unit)?);
        let run = Run::new(first, stride, unit, InOut::Separate { input, output })?;
        key.crypt(direction, &mut [run])?;
    }
    Ok(())
}

/// Compares the first and the last data unit only, because callgrind and the reference are slow.
fn is_right(
    mode: Mode,
    direction: Direction,
    key: &[u8],
    (unit, stride): (usize, u64),
    input: &[u8],
    output: &[u8],
) -> bool {
    let reference = |number, input| match (mode, direction) {
        (Mode::Xts, Direction::Encrypt) => luxor_reference::xts_encrypt(key, number, input),
        (Mode::Xts, Direction::Decrypt) => luxor_reference::xts_decrypt(key, number, input),
        (Mode::Cbc, Direction::Encrypt) => luxor_reference::cbc_encrypt(key, number, input),
        (Mode::Cbc, Direction::Decrypt) => luxor_reference::cbc_decrypt(key, number, input),
        (Mode::Ctr, _) => luxor_reference::ctr(key, number, input),
        (Mode::Ofb, _) => luxor_reference::ofb(key, number, input),
        (Mode::OfbXex | Mode::OfbXe, _) => {
            let size = AesSize::ALL
                .into_iter()
                .find(|size| 2 * size.bytes() == key.len());
            form(size.expect("a key's length")).reference(mode, key, number, input)
        }
        (_, Direction::Encrypt) => luxor_reference::ecb_encrypt(key, input),
        (_, Direction::Decrypt) => luxor_reference::ecb_decrypt(key, input),
    };
    [0, input.len() / unit - 1].into_iter().all(|index| {
        let place = unit * index..unit * (index + 1);
        reference(
            FIRST + index as u128 * u128::from(stride),
            &input[place.clone()],
        ) == output[place]
    })
}
