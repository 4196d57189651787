// SPDX-License-Identifier: MIT OR Apache-2.0
//! `block`: a disk for other programs. Luxor's NBD server in turn with `nbdkit` and `qemu-nbd`,
//! under the same load.
//!
//! All servers serve files in memory at Unix sockets, and all run the whole time. Before anything
//! is timed, each server's disk is compared byte by byte, and takes writes that are read back. The
//! writes are repeated at the end.

mod contestant;
mod section;

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};

use self::contestant::{Contestant, Files};
use crate::{
    bench::{Bench, Context},
    fio::{self, Load},
    program::{self, Folder},
    server::Server,
    settings::SERVERS,
    stats::{self, Summary},
};

/// The options of the bench.
pub(crate) struct Plan {
    pub(crate) luxor: PathBuf,
    pub(crate) folder: PathBuf,
    pub(crate) bytes: usize,
    pub(crate) quick: bool,
    pub(crate) turn: Duration,
    pub(crate) engine: String,
    /// `--engine` and `--threads`, as given.
    pub(crate) options: Vec<String>,
    pub(crate) contestants: Vec<Contestant>,
    /// Whether the contestants were requested, so that a missing one is an error.
    pub(crate) all_are_needed: bool,
    pub(crate) loads: Vec<Load>,
}

#[derive(Debug, Args)]
#[group(skip)]
pub(crate) struct Options {
    /// Only this server in `block` [default: all]
    #[arg(long = "contestant", value_enum, value_name = "NAME", help_heading = SERVERS)]
    contestants: Vec<Contestant>,
}

impl Bench for Plan {
    const HELP: &'static str = "luxor serve compared with nbdkit and qemu-nbd, under load from fio";
    const SIZE: Option<&'static str> = Some("size of the disk [default: 1G, quick: 64M]");
    type Options = Options;
    type Report = Report;

    fn new(context: &Context, options: Options) -> Result<Self, String> {
        let settings = &context.settings;
        let chosen = options.contestants;
        let mut contestants = Contestant::value_variants().to_vec();
        contestants.retain(|contestant| chosen.is_empty() || chosen.contains(contestant));
        Ok(Self {
            luxor: settings.luxor()?,
            folder: settings.dir.clone(),
            bytes: settings.bytes(1 << 30, 64 << 20),
            quick: settings.quick,
            turn: settings.turn(),
            engine: settings.engine.clone(),
            options: settings.options_of_luxor(),
            contestants,
            all_are_needed: !chosen.is_empty(),
            loads: settings.loads(&[1, 4])?,
        })
    }

    fn check(&self) -> Result<(), String> {
        check(self).map(drop)
    }

    fn measure(&self) -> Result<Report, String> {
        measure(self)
    }

    fn section(report: &Report) -> crate::section::Section {
        report.section()
    }
}

/// The result of the bench.
#[derive(Debug, Deserialize, Serialize)]
#[serde(bound(deserialize = "'de: 'static"))]
pub(crate) struct Report {
    disk_bytes: usize,
    /// Whether the folder is on `tmpfs`. Everything else is slower.
    in_memory: bool,
    fio: String,
    rounds: usize,
    /// The length of each contestant's turn.
    turn_seconds: f64,
    contestants: Vec<About>,
    throughput: Vec<Case>,
    /// Latencies of reads of 4 KiB at random places, one at a time.
    latency: Vec<ServerLatency>,
    /// The contestants that are not available, and why.
    #[serde(default)]
    absent: Vec<String>,
}

#[derive(Debug, Deserialize, Serialize)]
struct About {
    contestant: Contestant,
    version: String,
    command: Vec<String>,
    /// The most memory that the process used at a time.
    peak_bytes: Option<u64>,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(bound(deserialize = "'de: 'static"))]
struct Case {
    load: Load,
    rows: Vec<ServerRate>,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(bound(deserialize = "'de: 'static"))]
struct ServerRate {
    contestant: Contestant,
    mib_per_s: Summary,
    /// CPU seconds of the server's threads; the client's are not counted.
    server_cpu_seconds_per_gib: Summary,
    /// For Luxor's servers: the ratio to the others' rate in the same round.
    times: BTreeMap<&'static str, Summary>,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(bound(deserialize = "'de: 'static"))]
struct ServerLatency {
    contestant: Contestant,
    p50_microseconds: Summary,
    p99_microseconds: Summary,
    /// For Luxor's servers: the ratio to the others' latency in the same round.
    p50_times: BTreeMap<&'static str, Summary>,
    p99_times: BTreeMap<&'static str, Summary>,
}

/// A contestant, which has one turn per round.
struct Lane {
    contestant: Contestant,
    server: Server,
    samples: Samples,
}

#[derive(Default)]
struct Samples {
    bytes_per_second: Vec<Option<f64>>,
    cpu_seconds_per_byte: Vec<Option<f64>>,
    p50: Vec<Option<f64>>,
    p99: Vec<Option<f64>>,
}

/// The smallest disk on which the four connections of a load have parts of their own.
const LEAST: usize = 16 << 20;

/// The means available for the bench.
pub(crate) struct Here {
    /// Whether the folder is in memory.
    in_memory: bool,
    contestants: Vec<Contestant>,
    /// The contestants that are not available, and why.
    absent: Vec<String>,
}

/// Checks that the bench can run.
pub(crate) fn check(plan: &Plan) -> Result<Here, String> {
    if plan.bytes < LEAST {
        return Err("`block` needs a --size of at least 16M".to_owned());
    }
    fio::version()?;
    program::first_line("nbdcopy", &["--version"])?;
    let (contestants, absent) = plan.contestants();
    if let Some(reason) = absent.first().filter(|_| plan.all_are_needed) {
        return Err(reason.clone());
    }
    let files = Files::count(&contestants);
    let needed = (plan.bytes as u64)
        .saturating_mul(files)
        .saturating_add(128 << 20);
    let in_memory =
        program::check_room(&plan.folder, needed, &format!("{files} files of this size"))?;
    Ok(Here {
        in_memory,
        contestants,
        absent,
    })
}

/// Runs the bench.
pub(crate) fn measure(plan: &Plan) -> Result<Report, String> {
    let Here {
        in_memory,
        contestants,
        absent,
    } = check(plan)?;
    let folder = Folder::new(&plan.folder)?;
    let files = Files {
        folder: &folder,
        luxor: &plan.luxor,
        engine: &plan.engine,
        options: &plan.options,
    };
    files.make(&contestants, plan.bytes)?;
    let lanes = contestants
        .iter()
        .map(|&who| Lane::start(who, &files, plan));
    let mut lanes: Vec<Lane> = lanes.collect::<Result<_, _>>()?;
    // Some servers share a file, which no longer has the known bytes after this.
    if !plan.quick {
        verify(&lanes, plan.bytes)?;
    }
    let rounds = if plan.quick { 3 } else { 7 };
    let cases = plan.loads.iter();
    let throughput = cases.map(|&load| Case::measure(load, &mut lanes, plan, rounds));
    let throughput = throughput.collect::<Result<_, _>>()?;
    let latency_rounds = if plan.quick { 1 } else { rounds };
    rotate(&mut lanes, latency_rounds, |lane| {
        let found = fio::latency(lane.server.uri(), plan.bytes, plan.turn)?;
        lane.samples.p50.push(Some(found.p50));
        lane.samples.p99.push(Some(found.p99));
        Ok(())
    })?;
    verify(&lanes, plan.bytes)?;
    let latency = lanes
        .iter()
        .filter_map(|lane| ServerLatency::from_lane(lane, &lanes));
    let abouts = lanes.iter().map(|lane| About::from_lane(lane, &files));
    Ok(Report {
        disk_bytes: plan.bytes,
        in_memory,
        fio: fio::version()?,
        rounds,
        turn_seconds: plan.turn.as_secs_f64(),
        contestants: abouts.collect::<Result<_, _>>()?,
        throughput,
        latency: latency.collect(),
        absent,
    })
}

impl Lane {
    /// Starts the server and checks the bytes that it serves.
    fn start(contestant: Contestant, files: &Files<'_>, plan: &Plan) -> Result<Self, String> {
        let (socket, log) = (files.socket(contestant), files.log(contestant));
        let server = Server::start(&files.words(contestant), &socket, &log)?;
        let same = server.compare(plan.bytes);
        same.map_err(|e| format!("{}: {e}", contestant.text()))?;
        Ok(Self {
            contestant,
            server,
            samples: Samples::default(),
        })
    }
}

impl About {
    fn from_lane(lane: &Lane, files: &Files<'_>) -> Result<Self, String> {
        let words = files.words(lane.contestant);
        let words = words.iter().map(|word| word.to_string_lossy().into_owned());
        Ok(Self {
            contestant: lane.contestant,
            version: lane.contestant.version(files.luxor)?,
            command: words.collect(),
            peak_bytes: lane.server.peak_bytes(),
        })
    }
}

impl Case {
    fn measure(load: Load, lanes: &mut [Lane], plan: &Plan, rounds: usize) -> Result<Self, String> {
        rotate(lanes, rounds, |lane| {
            let before = lane.server.cpu_seconds();
            let found = fio::throughput(lane.server.uri(), &load, plan.bytes, plan.turn)?;
            let after = lane.server.cpu_seconds();
            let spent = after.zip(before).map(|(after, before)| after - before);
            let samples = &mut lane.samples;
            samples.bytes_per_second.push(Some(found.bytes_per_second));
            let per_byte = spent.map(|seconds| seconds / found.bytes);
            samples.cpu_seconds_per_byte.push(per_byte);
            Ok(())
        })?;
        let rows = lanes
            .iter()
            .filter_map(|lane| ServerRate::from_lane(lane, lanes));
        let rows = rows.collect();
        Ok(Self { load, rows })
    }
}

impl Plan {
    /// Returns the available contestants, and why others are not available.
    fn contestants(&self) -> (Vec<Contestant>, Vec<String>) {
        let mut missing = Vec::new();
        let mut is_here = |contestant: &Contestant| {
            let version = contestant.version(&self.luxor);
            missing.extend(
                version
                    .as_ref()
                    .err()
                    .map(|e| format!("{}: {e}", contestant.text())),
            );
            version.is_ok()
        };
        let here = self
            .contestants
            .iter()
            .copied()
            .filter(&mut is_here)
            .collect();
        (here, missing)
    }
}

/// Takes new samples of all contestants, in turns.
fn rotate(
    lanes: &mut [Lane],
    rounds: usize,
    mut turn: impl FnMut(&mut Lane) -> Result<(), String>,
) -> Result<(), String> {
    for lane in &mut *lanes {
        lane.samples = Samples::default();
    }
    for at in stats::turns(rounds, lanes.len()) {
        let lane = &mut lanes[at];
        turn(lane).map_err(|e| format!("{}: {e}", lane.contestant.text()))?;
    }
    Ok(())
}

fn verify(lanes: &[Lane], disk_bytes: usize) -> Result<(), String> {
    for lane in lanes {
        fio::verify(lane.server.uri(), disk_bytes)
            .map_err(|e| format!("{}: {e}", lane.contestant.text()))?;
    }
    Ok(())
}

impl ServerRate {
    /// `None` if nothing was measured.
    fn from_lane(lane: &Lane, lanes: &[Lane]) -> Option<Self> {
        let samples = &lane.samples;
        let mib = 1.0 / f64::from(1 << 20);
        let gib = f64::from(1 << 30);
        Some(Self {
            contestant: lane.contestant,
            mib_per_s: summary(&samples.bytes_per_second)?.scaled(mib),
            server_cpu_seconds_per_gib: summary(&samples.cpu_seconds_per_byte)?.scaled(gib),
            times: times(lane, lanes, |samples| &samples.bytes_per_second),
        })
    }
}

impl ServerLatency {
    fn from_lane(lane: &Lane, lanes: &[Lane]) -> Option<Self> {
        Some(Self {
            contestant: lane.contestant,
            p50_microseconds: summary(&lane.samples.p50)?.scaled(1e6),
            p99_microseconds: summary(&lane.samples.p99)?.scaled(1e6),
            p50_times: times(lane, lanes, |samples| &samples.p50),
            p99_times: times(lane, lanes, |samples| &samples.p99),
        })
    }
}

fn summary(samples: &[Option<f64>]) -> Option<Summary> {
    Summary::from_samples(samples.iter().flatten().copied().collect())
}

/// For one of Luxor's servers, returns the ratios to all others.
fn times(
    lane: &Lane,
    lanes: &[Lane],
    of: impl Fn(&Samples) -> &[Option<f64>],
) -> BTreeMap<&'static str, Summary> {
    let others = lanes
        .iter()
        .filter(|other| lane.contestant.is_luxor() && other.contestant != lane.contestant);
    others
        .filter_map(|other| {
            let ratios = stats::ratios(of(&lane.samples), of(&other.samples))?;
            Some((other.contestant.name(), ratios))
        })
        .collect()
}
