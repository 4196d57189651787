// SPDX-License-Identifier: MIT OR Apache-2.0
//! The contestants, and the check of their bytes.

use std::{num::NonZeroUsize, thread};

use luxor_engine::{
    AesKey, Backend, Chains, Construction, DataUnitNumber, Direction, Executor, InOut, KeyError,
    KeySize, KeySpec, LoadedKey, Message, ParallelOfbKey, TweakSchedule,
};
use luxor_reference::TweakableOfb;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

use super::{ARRAYS, SMALL};
use crate::{cipher::crypt, rivals::Rival};

/// One thread per chain, or per half of a message in CTR.
pub(super) const THREADS: NonZeroUsize = NonZeroUsize::new(2).unwrap();

/// Bytes that are compared with the reference, which is slow.
const PREFIX: usize = 9000;

pub(super) const IV: u64 = 0x0123_4567_89ab_cdef;

/// The mode that produces the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// One chain of AES-256.
    Ofb,
    /// Two chains of AES-128.
    Two(Construction, TweakSchedule),
    /// The first of two chains alone.
    One(Construction, KeySize),
    /// AES-256 in CTR.
    Ctr,
}

/// The division of the work among threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Division {
    /// One chain on one thread.
    Serial,
    /// One thread per chain, merged array by array.
    Apart,
    /// Both chains on one thread.
    Together,
    /// The engine's own choice.
    Auto,
    /// One thread for each half of the message.
    Halves,
}

/// Encrypts a message from one buffer to another, in arrays of the given length.
type Pass<'a> = Box<dyn Fn(usize, &[u8], &mut [u8]) -> Result<(), String> + 'a>;

/// A contestant.
pub(super) struct Lane<'a> {
    pub(super) contestant: String,
    pub(super) rival: bool,
    pub(super) form: Form,
    pub(super) way: Division,
    pub(super) pass: Pass<'a>,
}

/// Returns the engine in all forms and ways, and the rivals.
pub(super) fn all<'a>(
    backend: &dyn Backend,
    executor: &'a Executor,
    rivals: &'a [Box<dyn Rival>],
) -> Result<Vec<Lane<'a>>, String> {
    let mut kinds = vec![(Form::Ofb, Division::Serial)];
    for construction in [Construction::Xex, Construction::Xe] {
        let two = |schedule| Form::Two(construction, schedule);
        kinds.extend([
            (two(TweakSchedule::Alpha), Division::Apart),
            (two(TweakSchedule::Alpha), Division::Together),
            (two(TweakSchedule::Alpha), Division::Auto),
            (two(TweakSchedule::Printed), Division::Together),
            (Form::One(construction, KeySize::Aes128), Division::Serial),
            (Form::One(construction, KeySize::Aes256), Division::Serial),
        ]);
    }
    kinds.push((Form::Ctr, Division::Halves));
    let mut lanes = Vec::new();
    for (form, way) in kinds {
        let key = form.load(backend)?;
        lanes.push(Lane {
            contestant: backend.info().name.to_owned(),
            rival: false,
            form,
            way,
            pass: match way {
                Division::Halves => {
                    Box::new(move |array, input, output| ctr_halves(&*key, array, input, output))
                }
                _ => Box::new(move |array, input, output| {
                    let mut message = message(&*key, IV)?;
                    for (input, output) in input.chunks(array).zip(output.chunks_mut(array)) {
                        let buf = InOut::Separate { input, output };
                        let chains = match way {
                            Division::Apart => Chains::Apart { array },
                            Division::Together => Chains::Together,
                            Division::Auto => Chains::Auto,
                            Division::Serial | Division::Halves => {
                                message.crypt(buf);
                                continue;
                            }
                        };
                        executor.crypt_message(&mut message, buf, chains);
                    }
                    Ok(())
                }),
            },
        });
    }
    for rival in rivals {
        if rival.ofb(&Form::Ofb.key(), IV).is_none() {
            continue;
        }
        lanes.push(Lane {
            contestant: rival.about().name.clone(),
            rival: true,
            form: Form::Ofb,
            way: Division::Serial,
            pass: Box::new(|array, input, output| {
                let stream = rival.ofb(&Form::Ofb.key(), IV);
                let mut stream = stream.ok_or("the rival has lost the mode")??;
                for (input, output) in input.chunks(array).zip(output.chunks_mut(array)) {
                    stream.crypt(InOut::Separate { input, output })?;
                }
                Ok(())
            }),
        });
    }
    Ok(lanes)
}

/// Compares a prefix of the engine's result in one call (CTR: in calls of 1 MiB) with the
/// reference. Compares the whole results of all contestants, in arrays of each length, with that
/// result.
pub(super) fn check(
    backend: &dyn Backend,
    lanes: &[Lane<'_>],
    input: &[u8],
    output: &mut [u8],
) -> Result<(), String> {
    let prefix = &input[..input.len().min(PREFIX)];
    let mut expected = crate::cpu::memory(input.len())?;
    let mut form = None;
    // Sort by form, so that each form's result is computed once.
    let mut order: Vec<&Lane<'_>> = lanes.iter().collect();
    order.sort_by_key(|lane| lanes.iter().position(|other| other.form == lane.form));
    for lane in order {
        let said = |what: &str| format!("{}, {}: {what}", lane.contestant, lane.form.name());
        if form != Some(lane.form) {
            form = Some(lane.form);
            let (key, output) = (lane.form.load(backend)?, &mut expected);
            match lane.form {
                // A data unit has at most 16 MiB.
                Form::Ctr => ctr_halves(&*key, 1 << 20, input, output)?,
                _ => message(&*key, IV)?.crypt(InOut::Separate { input, output }),
            }
            if expected[..prefix.len()] != lane.form.reference(IV, prefix) {
                return Err(said("the bytes differ from the reference's"));
            }
        }
        for array in ARRAYS.into_iter().chain(SMALL) {
            if !lane.takes(array) {
                continue;
            }
            output.fill(1);
            (lane.pass)(array, input, output)?;
            if *output != expected[..] {
                let what = format!(
                    "{:?}, arrays of {array}: the bytes differ from those of one call",
                    lane.way
                );
                return Err(said(&what));
            }
        }
    }
    Ok(())
}

/// Begins a message in output feedback.
pub(super) fn message(key: &dyn LoadedKey, iv: u64) -> Result<Message, String> {
    let messages = key
        .messages()
        .ok_or("the engine does not support messages")?;
    Ok(messages.begin(DataUnitNumber::from(iv)))
}

fn ctr_halves(
    key: &dyn LoadedKey,
    array: usize,
    input: &[u8],
    output: &mut [u8],
) -> Result<(), String> {
    halves(array, input, output, |at, input, output| {
        ctr(key, at, input, output)
    })
}

/// Calls `work` with two threads, with the place of each array in the message. Each thread
/// processes its half array by array, without waiting for the other.
pub(super) fn halves(
    array: usize,
    input: &[u8],
    output: &mut [u8],
    work: impl Fn(usize, &[u8], &mut [u8]) -> Result<(), String> + Sync,
) -> Result<(), String> {
    let middle = (input.len() / 2).next_multiple_of(array).min(input.len());
    let half = |from: usize, input: &[u8], output: &mut [u8]| {
        let arrays = input.chunks(array).zip(output.chunks_mut(array));
        for (at, (input, output)) in (from..).step_by(array).zip(arrays) {
            work(at, input, output)?;
        }
        Ok(())
    };
    let (first, second) = output.split_at_mut(middle);
    thread::scope(|scope| {
        let other = scope.spawn(|| half(middle, &input[middle..], second));
        half(0, &input[..middle], first)?;
        other.join().map_err(|_| "a thread panicked".to_owned())?
    })
}

/// Encrypts the bytes of a message in CTR from byte `at` on, the beginning of a block.
fn ctr(key: &dyn LoadedKey, at: usize, input: &[u8], output: &mut [u8]) -> Result<(), String> {
    let counter = u128::from(IV) + at as u128 / 16;
    let (unit, buf) = (input.len(), InOut::Separate { input, output });
    crypt(key, Direction::Encrypt, counter, unit, buf)
}

impl Lane<'_> {
    /// Returns whether the contestant is measured with arrays of this length. All are measured with
    /// the paper's arrays; short arrays are only for the forms in the table of ratios.
    pub(super) fn takes(&self, array: usize) -> bool {
        let two = matches!(self.form, Form::Two(_, TweakSchedule::Alpha));
        ARRAYS.contains(&array) || self.form == Form::Ofb || two && self.way == Division::Together
    }
}

impl Form {
    const ALL: [Self; 10] = {
        use Construction::{Xe, Xex};
        [
            Self::Ofb,
            Self::Two(Xex, TweakSchedule::Alpha),
            Self::Two(Xe, TweakSchedule::Alpha),
            Self::Two(Xex, TweakSchedule::Printed),
            Self::Two(Xe, TweakSchedule::Printed),
            Self::One(Xex, KeySize::Aes128),
            Self::One(Xex, KeySize::Aes256),
            Self::One(Xe, KeySize::Aes128),
            Self::One(Xe, KeySize::Aes256),
            Self::Ctr,
        ]
    };

    /// Returns the name in the paper's tables.
    pub(super) fn name(self) -> &'static str {
        use Construction::{Xe, Xex};
        match self {
            Self::Ofb => "1x 256 OFB",
            Self::Two(Xex, TweakSchedule::Alpha) => "2x 128 XEX",
            Self::Two(Xe, TweakSchedule::Alpha) => "2x 128 XE",
            Self::Two(Xex, TweakSchedule::Printed) => "2x 128 XEX, printed",
            Self::Two(Xe, TweakSchedule::Printed) => "2x 128 XE, printed",
            Self::One(Xex, KeySize::Aes128) => "1x 128 XEX",
            Self::One(Xex, KeySize::Aes256) => "1x 256 XEX",
            Self::One(Xe, KeySize::Aes128) => "1x 128 XE",
            Self::One(Xe, KeySize::Aes256) => "1x 256 XE",
            Self::Ctr => "2x 256 CTR",
        }
    }

    /// Returns whether the form is in the tables of `construction`.
    pub(super) fn is_of(self, construction: Construction) -> bool {
        match self {
            Self::Two(own, _) | Self::One(own, _) => own == construction,
            Self::Ofb | Self::Ctr => true,
        }
    }

    /// Loads its key into the engine.
    pub(super) fn load(self, backend: &dyn Backend) -> Result<Box<dyn LoadedKey>, String> {
        let spec = self.spec().map_err(|e| e.to_string())?;
        backend.load_key(&spec).map_err(|e| e.to_string())
    }

    /// Returns its key. Nothing depends on the value.
    pub(super) fn key(self) -> Vec<u8> {
        let len = match self {
            Self::One(_, KeySize::Aes256) => 64,
            _ => 32,
        };
        (1..=len).collect()
    }

    fn spec(self) -> Result<KeySpec, KeyError> {
        let key = self.key();
        Ok(match self {
            Self::Ofb => KeySpec::Ofb(AesKey::new(&key)?),
            Self::Two(construction, schedule) => {
                KeySpec::ParallelOfb(ParallelOfbKey::new(&key, construction, schedule)?)
            }
            Self::One(construction, _) => {
                let schedule = TweakSchedule::Alpha;
                KeySpec::ParallelOfb(ParallelOfbKey::one_chain(&key, construction, schedule)?)
            }
            Self::Ctr => KeySpec::Ctr(AesKey::new(&key)?),
        })
    }

    /// Returns the reference's bytes.
    pub(super) fn reference(self, iv: u64, input: &[u8]) -> Vec<u8> {
        let (key, iv) = (self.key(), iv.into());
        let mode = |construction, schedule| TweakableOfb {
            xex: construction == Construction::Xex,
            as_printed: schedule == TweakSchedule::Printed,
        };
        match self {
            Self::Ofb => luxor_reference::ofb(&key, iv, input),
            Self::Two(construction, schedule) => {
                mode(construction, schedule).two_chains(&key, iv, input)
            }
            Self::One(construction, _) => {
                mode(construction, TweakSchedule::Alpha).one_chain(&key, iv, input)
            }
            Self::Ctr => luxor_reference::ctr(&key, iv, input),
        }
    }
}

impl<'de> Deserialize<'de> for Form {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        let found = Self::ALL.into_iter().find(|form| form.name() == name);
        found.ok_or_else(|| D::Error::custom(format!("{name} is not a form of the mode")))
    }
}

impl Serialize for Form {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}
