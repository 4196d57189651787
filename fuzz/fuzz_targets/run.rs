// SPDX-License-Identifier: MIT OR Apache-2.0
//! Any lengths, numbers, strides, places and splits: what is no run is refused
//! without a panic, and what is one comes out of every kernel of this machine as
//! it comes out of the reference.

#![no_main]

use std::sync::{Arc, LazyLock};

use libfuzzer_sys::{arbitrary, arbitrary::Arbitrary, fuzz_target};
use luxor_engine::{
    AesKey, Backend, BackendError, CbcKey, Construction, CryptError, CryptErrorKind, DataUnitLen,
    DataUnitNumber, Direction, InOut, KeySpec, LoadedKey, ParallelOfbKey, Registry, Run, RunError,
    TweakSchedule, XtsKey,
};
use luxor_reference::{self as reference, TweakableOfb};

/// Bytes in all runs together: the reference is slow.
const MOST_BYTES: usize = 32 << 10;

/// Any bytes: the engine does not look whether they are the key's hash.
const ESSIV_HASH: [u8; 32] = *b"of the data key, or so they say.";

#[derive(Arbitrary, Debug)]
struct Input {
    mode: FuzzMode,
    key: Key,
    decrypt: bool,
    runs: Vec<Piece>,
    /// Where the first run is split before a second call.
    split: u16,
    /// What the bytes are made of.
    seed: u64,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum FuzzMode {
    Xts,
    Ecb,
    Ctr,
    Ofb,
    Cbc,
    CbcEssiv,
    ParallelOfb {
        xex: bool,
        as_printed: bool,
        one_chain: bool,
    },
}

#[derive(Arbitrary, Debug)]
enum Key {
    /// A key that is right for the mode.
    Aes128([u8; 32]),
    Aes256([u8; 32], [u8; 32]),
    /// Any bytes, which are hardly ever a key.
    Any(Vec<u8>),
}

#[derive(Arbitrary, Debug)]
struct Piece {
    first: u128,
    stride: u64,
    unit_len: Length,
    /// Bytes in the run; rounded to whole units unless `ragged`.
    len: u16,
    ragged: bool,
    /// Bytes after a 64-byte boundary.
    offset: u8,
    place: Place,
}

#[derive(Arbitrary, Debug)]
enum Length {
    Small(u8),
    Middle(u16),
    Any(usize),
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Place {
    Same,
    Separate,
    /// Separate, with an output of another length, which is no run.
    Longer(u8),
}

static BACKENDS: LazyLock<Vec<Arc<dyn Backend>>> = LazyLock::new(|| {
    let present: Vec<_> = Registry::cpu()
        .probe_all()
        .filter_map(|(name, backend)| match backend {
            Ok(backend) => {
                let info = backend.info();
                assert_eq!(info.name, name);
                eprintln!("{name}: {}", info.device);
                Some(backend)
            }
            Err(why) => {
                eprintln!("{name}: absent, {why}");
                None
            }
        })
        .collect();
    assert!(!present.is_empty());
    present
});

fuzz_target!(|input: Input| fuzz(&input));

fn fuzz(input: &Input) {
    let Some((spec, key)) = key_spec(input.mode, &input.key) else {
        return;
    };
    let mode = spec.mode();
    let direction = if input.decrypt {
        Direction::Decrypt
    } else {
        Direction::Encrypt
    };

    let mut left = MOST_BYTES;
    let mut memories = Vec::new();
    for piece in &input.runs {
        if let Some(memory) = Memory::new(piece, &mut left, input.seed) {
            memories.push(memory);
        }
    }
    let lawful = memories
        .iter()
        .all(|memory| mode.accepts_unit_len(memory.unit_len.get()));
    let expected: Vec<Vec<u8>> = memories
        .iter()
        .map(|memory| {
            if lawful {
                memory.by_reference(input.mode, &key, direction)
            } else {
                vec![]
            }
        })
        .collect();

    for backend in &*BACKENDS {
        let name = backend.info().name;
        let has = backend.info().modes.contains(&mode);
        let loaded = match backend.load_key(&spec) {
            Ok(loaded) => loaded,
            Err(BackendError::Unsupported { .. }) if !has => continue,
            Err(error) => panic!("{name}: {error}, although it has {mode} is {has}"),
        };
        assert!(has, "{name} loads a key for {mode}, which it does not list");
        if !lawful {
            let mut tried = memories.clone();
            let mut runs: Vec<_> = tried.iter_mut().map(Memory::run).collect();
            let error = loaded
                .crypt(direction, &mut runs)
                .expect_err("a unit length is bad");
            assert_eq!(error.done, 0);
            assert!(matches!(error.kind, CryptErrorKind::UnitLen { .. }));
            assert!(
                tried == memories,
                "{name}: touched something in spite of: {error}"
            );
            continue;
        }
        for split in [None, Some(usize::from(input.split))] {
            let mut done = memories.clone();
            let mut runs: Vec<_> = done.iter_mut().map(Memory::run).collect();
            crypt(&*loaded, direction, &mut runs, split).expect("all units are lawful");
            for ((after, before), expected) in done.iter().zip(&memories).zip(&expected) {
                assert!(
                    after.output.bytes() == *expected,
                    "{name}, {mode}, {direction:?}, split {split:?}: a wrong result"
                );
                assert!(
                    after.output.same_around(&before.output),
                    "{name}: out of bounds"
                );
                assert!(
                    after.input == before.input,
                    "{name}: changed a separate input"
                );
            }
        }
    }
}

/// One call, or two with the first run split so many units on (modulo all of
/// them), the second part first.
fn crypt(
    key: &dyn LoadedKey,
    direction: Direction,
    runs: &mut [Run<'_>],
    split: Option<usize>,
) -> Result<(), CryptError> {
    let (Some(split), [first, rest @ ..]) = (split, &mut *runs) else {
        return key.crypt(direction, runs);
    };
    let units = first.units();
    let (head, tail) = first.reborrow().split_at(split % (units + 1));
    assert_eq!(head.units() + tail.units(), units);
    let mut later = vec![tail];
    later.extend(rest.iter_mut().map(Run::reborrow));
    key.crypt(direction, &mut later)?;
    key.crypt(direction, &mut [head])
}

/// The key and its bytes, when it is one.
fn key_spec(mode: FuzzMode, key: &Key) -> Option<(KeySpec, Vec<u8>)> {
    let (own, wanted) = match key {
        Key::Aes128(bytes) => (bytes.to_vec(), Some(16)),
        Key::Aes256(a, b) => ([*a, *b].concat(), Some(32)),
        Key::Any(bytes) => (bytes.clone(), None),
    };
    let bytes = match (mode, wanted) {
        (FuzzMode::Xts | FuzzMode::ParallelOfb { .. }, _) | (_, None) => own,
        (_, Some(len)) => own[..len].to_vec(),
    };
    let spec = match mode {
        FuzzMode::Xts => XtsKey::new(&bytes).map(KeySpec::Xts),
        FuzzMode::Ecb => AesKey::new(&bytes).map(KeySpec::Ecb),
        FuzzMode::Ctr => AesKey::new(&bytes).map(KeySpec::Ctr),
        FuzzMode::Ofb => AesKey::new(&bytes).map(KeySpec::Ofb),
        FuzzMode::Cbc => AesKey::new(&bytes).map(|key| KeySpec::Cbc(CbcKey::plain(key))),
        FuzzMode::CbcEssiv => {
            AesKey::new(&bytes).map(|key| KeySpec::Cbc(CbcKey::essiv_sha256(key, &ESSIV_HASH)))
        }
        FuzzMode::ParallelOfb {
            xex,
            as_printed,
            one_chain,
        } => {
            let construction = if xex {
                Construction::Xex
            } else {
                Construction::Xe
            };
            let schedule = if as_printed {
                TweakSchedule::Printed
            } else {
                TweakSchedule::Alpha
            };
            let key = if one_chain {
                ParallelOfbKey::one_chain(&bytes, construction, schedule)
            } else {
                ParallelOfbKey::new(&bytes, construction, schedule)
            };
            key.map(KeySpec::ParallelOfb)
        }
    };
    let (first, second) = bytes.split_at(bytes.len() / 2);
    let lawful = match mode {
        FuzzMode::ParallelOfb {
            one_chain: false, ..
        } => bytes.len() == 32 && first != second,
        FuzzMode::Xts | FuzzMode::ParallelOfb { .. } => {
            matches!(bytes.len(), 32 | 64) && first != second
        }
        _ => matches!(bytes.len(), 16 | 32),
    };
    assert_eq!(spec.is_ok(), lawful, "{spec:?}");
    let bytes = match mode {
        FuzzMode::CbcEssiv => [&bytes[..], &ESSIV_HASH].concat(),
        _ => bytes,
    };
    Some((spec.ok()?, bytes))
}

/// A run's bytes, with others around them.
#[derive(Clone, PartialEq)]
struct Memory {
    first: u128,
    stride: u64,
    unit_len: DataUnitLen,
    input: Option<Guarded>,
    output: Guarded,
}

impl Memory {
    /// `None` for what is no run, after seeing that it is refused in so many words.
    fn new(piece: &Piece, left: &mut usize, seed: u64) -> Option<Self> {
        let unit_len = match piece.unit_len {
            Length::Small(len) => len.into(),
            Length::Middle(len) => len.into(),
            Length::Any(len) => len,
        };
        let lawful_len = (1..=1 << 24).contains(&unit_len);
        let unit_len = match DataUnitLen::new(unit_len) {
            Ok(len) => {
                assert!(lawful_len);
                len
            }
            Err(error) => {
                assert!(!lawful_len);
                assert_eq!(error, RunError::UnitLen { found: unit_len });
                return None;
            }
        };
        let wanted = usize::from(piece.len).min(*left);
        let whole = wanted / unit_len.get() * unit_len.get();
        let len = if piece.ragged { wanted } else { whole };

        let content = bytes(seed ^ piece.first as u64, len);
        let offset = usize::from(piece.offset % 64);
        let (input, output) = match piece.place {
            Place::Same => (None, Guarded::new(offset, &content)),
            Place::Separate => (
                Some(Guarded::new(offset, &content)),
                Guarded::new(0, &vec![0x5a; len]),
            ),
            Place::Longer(by) => {
                let longer = len + usize::from(by);
                (
                    Some(Guarded::new(0, &content)),
                    Guarded::new(0, &vec![0x5a; longer]),
                )
            }
        };
        let mut memory = Self {
            first: piece.first,
            stride: piece.stride,
            unit_len,
            input,
            output,
        };
        let lengths = (len, memory.output.bytes().len());
        let error = match memory.try_run() {
            Ok(run) => {
                assert_eq!((run.units() * unit_len.get(), len), (len, whole));
                assert_eq!(lengths.0, lengths.1);
                *left -= len;
                return Some(memory);
            }
            Err(error) => error,
        };
        if lengths.0 == lengths.1 {
            assert_ne!(len, whole);
            assert_eq!(
                error,
                RunError::PartUnit {
                    len,
                    unit_len: unit_len.get()
                }
            );
        } else {
            assert_eq!(
                error,
                RunError::OutputLen {
                    input: lengths.0,
                    output: lengths.1
                }
            );
        }
        None
    }

    fn try_run(&mut self) -> Result<Run<'_>, RunError> {
        let output = self.output.bytes_mut();
        let buf = match &self.input {
            None => InOut::InPlace(output),
            Some(input) => InOut::Separate {
                input: input.bytes(),
                output,
            },
        };
        Run::new(
            DataUnitNumber::new(self.first),
            self.stride,
            self.unit_len,
            buf,
        )
    }

    fn run(&mut self) -> Run<'_> {
        self.try_run().expect("it was one when it was made")
    }

    fn by_reference(&self, mode: FuzzMode, key: &[u8], direction: Direction) -> Vec<u8> {
        let input = self.input.as_ref().unwrap_or(&self.output).bytes();
        let mut number = self.first;
        let mut output = Vec::with_capacity(input.len());
        for unit in input.chunks_exact(self.unit_len.get()) {
            output.extend(match (mode, direction) {
                (FuzzMode::Xts, Direction::Encrypt) => reference::xts_encrypt(key, number, unit),
                (FuzzMode::Xts, Direction::Decrypt) => reference::xts_decrypt(key, number, unit),
                (FuzzMode::Ecb, Direction::Encrypt) => reference::ecb_encrypt(key, unit),
                (FuzzMode::Ecb, Direction::Decrypt) => reference::ecb_decrypt(key, unit),
                (FuzzMode::Ctr, _) => reference::ctr(key, number, unit),
                (FuzzMode::Cbc | FuzzMode::CbcEssiv, Direction::Encrypt) => {
                    reference::cbc_encrypt(key, number, unit)
                }
                (FuzzMode::Cbc | FuzzMode::CbcEssiv, Direction::Decrypt) => {
                    reference::cbc_decrypt(key, number, unit)
                }
                (FuzzMode::Ofb, _) => reference::ofb(key, number, unit),
                (
                    FuzzMode::ParallelOfb {
                        xex,
                        as_printed,
                        one_chain,
                    },
                    _,
                ) => {
                    let mode = TweakableOfb { xex, as_printed };
                    if one_chain {
                        mode.one_chain(key, number, unit)
                    } else {
                        mode.two_chains(key, number, unit)
                    }
                }
            });
            number = number.wrapping_add(self.stride.into());
        }
        output
    }
}

/// Bytes so many after a 64-byte boundary, with 256 others on each side.
struct Guarded {
    offset: usize,
    len: usize,
    memory: Vec<u8>,
    start: usize,
}

impl Guarded {
    const GUARD: usize = 256;

    fn new(offset: usize, content: &[u8]) -> Self {
        let len = content.len();
        let memory = vec![0xc3; 2 * Self::GUARD + 64 + offset + len];
        let after_guard = memory.as_ptr().addr() + Self::GUARD;
        let start = after_guard.next_multiple_of(64) - memory.as_ptr().addr() + offset;
        let mut guarded = Self {
            offset,
            len,
            memory,
            start,
        };
        guarded.bytes_mut().copy_from_slice(content);
        guarded
    }

    fn bytes(&self) -> &[u8] {
        &self.memory[self.start..][..self.len]
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..][..self.len]
    }

    fn same_around(&self, other: &Self) -> bool {
        let around = |g: &Self| {
            let end = g.start + g.len;
            let (before, after) = (g.start - Self::GUARD, end + Self::GUARD);
            [
                g.memory[before..g.start].to_vec(),
                g.memory[end..after].to_vec(),
            ]
        };
        around(self) == around(other)
    }
}

/// As far from a boundary as the original.
impl Clone for Guarded {
    fn clone(&self) -> Self {
        Self::new(self.offset, self.bytes())
    }
}

/// The same bytes at the same places; the memory around is [`Guarded::same_around`]'s.
impl PartialEq for Guarded {
    fn eq(&self, other: &Self) -> bool {
        self.offset == other.offset && self.bytes() == other.bytes() && self.same_around(other)
    }
}

fn bytes(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed | 1;
    (0..len)
        .map(|_| {
            // xorshift64 (Marsaglia 2003)
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()[7]
        })
        .collect()
}
