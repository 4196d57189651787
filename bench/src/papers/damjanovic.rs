// SPDX-License-Identifier: MIT OR Apache-2.0
//! `damjanovic-simic-2015`: parallel tweakable OFB compared with serial OFB.
//!
//! B. Damjanović and D. Simić, "Tweakable parallel OFB mode of operation with delayed thread
//! synchronization", Security and Communication Networks, 2015, make the key stream from two chains
//! of AES-128, each in its own thread, and merge it one input array at a time. They compare this
//! with one chain of AES-256 on a file of 128 MB, with arrays of 8000 to 512000 bytes. Here the
//! engine does the same, array by array, from memory to memory, and so does an AES by tables, which
//! is what the paper has. The tables also show the paper's numbers, from its machines.
//!
//! 128 MB are 128·10⁶ bytes, since the paper's arrays are decimal too: five of the seven lengths
//! divide it.

mod lane;
mod published;
mod section;
mod streams;
mod tables;

use std::{collections::BTreeMap, time::Instant};

use clap::Args;
use luxor_engine::{Backend, Executor};
use serde::{Deserialize, Serialize};

use self::lane::{Division, Form, Lane};
use crate::{
    bench::{Bench, Context},
    cpu,
    plaintext::Pattern,
    rivals::Rival,
    size,
    stats::{self, Summary},
};

/// The options of the bench, and the rivals.
pub(crate) struct Plan<'a> {
    /// Bytes of the message; `None` for the paper's size, or a part of it for slow engines and
    /// quick runs.
    pub(crate) bytes: Option<usize>,
    /// Only these lengths of arrays; empty for all.
    pub(crate) arrays: Vec<usize>,
    pub(crate) quick: bool,
    /// Measure only this kernel.
    pub(crate) engine: Option<String>,
    pub(crate) rivals: &'a [Box<dyn Rival>],
}

#[derive(Debug, Args)]
#[group(skip)]
pub(crate) struct Options {
    /// Only input arrays of this many bytes, in damjanovic-simic-2015 [default: the paper's, and
    /// 16, 64, 256 and 1024]
    #[arg(long = "array", value_name = "BYTES", value_parser = size::parse)]
    arrays: Vec<usize>,
}

impl Bench for Plan<'static> {
    const HELP: &'static str = "Two chains of tweakable AES-128-OFB against one of AES-256-OFB \
                                (Damjanovic and Simic, 2015)";
    const SIZE: Option<&'static str> = Some(
        "size of the message [default: 128000000, AES by tables: 16000000, portable: 4000000; quick: \
         a 64th, AES by tables and portable: a 32nd]",
    );
    type Options = Options;
    type Report = Report;

    fn new(context: &Context, options: Options) -> Result<Self, String> {
        let settings = &context.settings;
        Ok(Self {
            bytes: settings.size,
            arrays: options.arrays,
            quick: settings.quick,
            engine: settings.kernel(),
            rivals: context.rivals,
        })
    }

    fn check(&self) -> Result<(), String> {
        cpu::kernels(self.engine.as_deref())?;
        match self.arrays().next() {
            Some(_) => Ok(()),
            None => Err(format!(
                "there is no such --array; the lengths are {ARRAYS:?} and {SMALL:?}"
            )),
        }
    }

    fn measure(&self) -> Result<Report, String> {
        let rounds = if self.quick { 3 } else { 11 };
        let kernels = cpu::kernels(self.engine.as_deref())?;
        let mut engines = Vec::new();
        for backend in &kernels {
            engines.push(engine(&**backend, self, rounds)?);
        }
        // The engine's best kernel gives the right answers.
        let best = kernels.first().ok_or("there is no engine")?;
        engines.push(by_tables(&**best, self, rounds)?);
        Ok(Report {
            file_bytes: FILE,
            rounds,
            engines,
        })
    }

    fn section(report: &Report) -> crate::section::Section {
        report.section()
    }
}

/// The result of the bench.
#[derive(Debug, Deserialize, Serialize)]
#[serde(bound(deserialize = "'de: 'static"))]
pub(crate) struct Report {
    /// All milliseconds are scaled to this many bytes, however many were processed.
    file_bytes: usize,
    rounds: usize,
    engines: Vec<Engine>,
}

/// An engine, with the rivals measured in the same rounds.
#[derive(Debug, Deserialize, Serialize)]
struct Engine {
    engine: &'static str,
    /// Bytes that were processed.
    bytes: usize,
    arrays: Vec<Array>,
    /// Bytes of each stream in each call.
    turn_bytes: usize,
    streams: Vec<streams::StreamsRate>,
}

/// The results for one length of the input array.
#[derive(Debug, Deserialize, Serialize)]
struct Array {
    array_bytes: usize,
    rows: Vec<FormTimes>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
struct FormTimes {
    /// The engine or a rival.
    contestant: String,
    /// The name in the paper's tables.
    form: Form,
    way: Division,
    milliseconds: Summary,
    /// The speed divided by that of the same engine's serial AES-256-OFB, in the same round.
    of_ofb: Option<Summary>,
    /// The same for the rivals' AES-256-OFB.
    of_rival: BTreeMap<String, Summary>,
}

const FILE: usize = 128_000_000;

/// The paper's arrays.
const ARRAYS: [usize; 7] = [512_000, 64_000, 20_000, 16_000, 14_000, 12_000, 8000];

/// Short arrays, to see whether two chains lose when there is little data at a time.
const SMALL: [usize; 4] = [1024, 256, 64, 16];

fn engine(backend: &dyn Backend, plan: &Plan<'_>, rounds: usize) -> Result<Engine, String> {
    let name = backend.info().name;
    let part = match (name, plan.quick) {
        ("portable", false) => 32,
        ("portable", true) => 32 * 32,
        (_, false) => 1,
        (_, true) => 64,
    };
    let bytes = plan.bytes.unwrap_or(FILE / part);
    let executor = Executor::new(lane::THREADS);
    let lanes = lane::all(backend, &executor, plan.rivals)?;
    Ok(Engine {
        engine: name,
        bytes,
        arrays: arrays(backend, &lanes, plan, bytes, rounds)?,
        turn_bytes: streams::TURN,
        streams: streams::measure(backend, bytes, rounds)?,
    })
}

/// As [`engine`], with AES by tables. `backend` computes the right answers.
fn by_tables(backend: &dyn Backend, plan: &Plan<'_>, rounds: usize) -> Result<Engine, String> {
    let part = if plan.quick { 8 * 32 } else { 8 };
    let bytes = plan.bytes.unwrap_or(FILE / part);
    Ok(Engine {
        engine: tables::NAME,
        bytes,
        arrays: arrays(backend, &tables::all(), plan, bytes, rounds)?,
        turn_bytes: streams::TURN,
        streams: Vec::new(),
    })
}

/// Checks the contestants' answers and times them.
fn arrays(
    backend: &dyn Backend,
    lanes: &[Lane<'_>],
    plan: &Plan<'_>,
    bytes: usize,
    rounds: usize,
) -> Result<Vec<Array>, String> {
    let mut input = cpu::memory(bytes)?;
    Pattern::new().fill(&mut input);
    let mut output = cpu::memory(bytes)?;
    lane::check(backend, lanes, &input, &mut output)?;
    let mut arrays = Vec::new();
    for array_bytes in plan.arrays() {
        let lanes: Vec<_> = lanes
            .iter()
            .filter(|lane| lane.takes(array_bytes))
            .collect();
        let mut samples = vec![Vec::new(); lanes.len()];
        for at in stats::turns(rounds, lanes.len()) {
            let pass = &lanes[at].pass;
            // Warm up: the caches and the clock are still those of the previous contestant.
            let first = bytes / 16;
            pass(array_bytes, &input[..first], &mut output[..first])?;
            let begun = Instant::now();
            pass(array_bytes, &input, &mut output)?;
            samples[at].push(Some(begun.elapsed().as_secs_f64()));
        }
        let scale = 1e3 * FILE as f64 / bytes as f64;
        arrays.push(Array {
            array_bytes,
            rows: rows(&lanes, &samples, scale).ok_or("no round was measured")?,
        });
    }
    Ok(arrays)
}

impl Plan<'_> {
    fn arrays(&self) -> impl Iterator<Item = usize> {
        let wanted = |array: &usize| self.arrays.is_empty() || self.arrays.contains(array);
        ARRAYS.into_iter().chain(SMALL).filter(wanted)
    }
}

/// `None` if nothing was measured.
fn rows(lanes: &[&Lane<'_>], samples: &[Vec<Option<f64>>], scale: f64) -> Option<Vec<FormTimes>> {
    let ofb = |rival| {
        let is = move |(lane, _): &(&&Lane<'_>, _)| lane.form == Form::Ofb && lane.rival == rival;
        lanes.iter().zip(samples).filter(is)
    };
    let row = |lane: &Lane<'_>, own: &Vec<Option<f64>>| {
        let of = |(other, samples): (&&Lane<'_>, &Vec<Option<f64>>)| {
            Some((other.contestant.clone(), stats::ratios(samples, own)?))
        };
        Some(FormTimes {
            contestant: lane.contestant.clone(),
            form: lane.form,
            way: lane.way,
            milliseconds: Summary::from_samples(own.iter().flatten().copied().collect())?
                .scaled(scale),
            of_ofb: ofb(false).find_map(of).map(|(_, times)| times),
            of_rival: ofb(true).filter_map(of).collect(),
        })
    };
    let pairs = lanes.iter().zip(samples);
    pairs.map(|(lane, own)| row(lane, own)).collect()
}

#[cfg(test)]
mod tests {
    use luxor_engine::Registry;

    use super::*;
    use crate::rivals;

    #[test]
    fn a_wrong_answer_is_noticed() {
        let portable = Registry::cpu().get("portable").unwrap();
        let executor = Executor::new(lane::THREADS);
        let rivals = rivals::all();
        let mut lanes = lane::all(&*portable, &executor, &rivals).unwrap();
        lanes.extend(tables::all());
        let (input, mut output) = ([7; 20_001], [0; 20_001]);
        assert_eq!(lane::check(&*portable, &lanes, &input, &mut output), Ok(()));
        for lane in &mut lanes {
            lane.pass = Box::new(|_, input: &[u8], output: &mut [u8]| {
                output.copy_from_slice(input);
                Ok(())
            });
            let lanes = std::slice::from_ref(lane);
            let said = lane::check(&*portable, lanes, &input, &mut output).unwrap_err();
            assert!(said.contains(&lane.contestant), "{said}");
            assert!(said.contains(lane.form.name()), "{said}");
        }
    }
}
