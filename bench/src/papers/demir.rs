// SPDX-License-Identifier: MIT OR Apache-2.0
//! `demir-2020`: the effect of extended requests, on a co-processor and in software.
//!
//! L. Demir, M. Thiery, V. Roca, J.-M. Tenkes and J.-L. Roch, "Optimizing dm-crypt for XTS-AES:
//! Getting the Best of Atmel Cryptographic Co-processors", SECRYPT 2020, give a co-processor
//! requests of 4 KiB (eight data units) instead of 512 bytes, and show where the time goes. Here
//! the requests are calls of the engine, limited to 512 bytes, limited to 4 KiB, or as long as the
//! available data, on sectors of 512 and 4096 bytes.

mod access;
mod breakdown;
mod cycles;
mod published;
mod section;
mod study;

use std::{fs::File, num::NonZeroUsize, path::PathBuf, time::Duration};

use clap::Args;
use luxor_sector::SectorSize;
use serde::{Deserialize, Serialize};

use crate::{
    bench::{Bench, Context},
    disk::{self, Transform},
    fio::{self, Load},
    plaintext::{PIECE, Pattern},
    program::{self, Folder},
    server::Server,
    stats::{self, Summary},
};

/// The options of the bench.
pub(crate) struct Plan {
    pub(crate) folder: PathBuf,
    pub(crate) bytes: usize,
    pub(crate) quick: bool,
    pub(crate) turn: Duration,
    pub(crate) engine: String,
    pub(crate) loads: Vec<Load>,
    /// The cost of setting up a request to the co-processor; `None` for the paper's.
    pub(crate) setup: Option<Duration>,
    /// The costs of the accesses of the core's driver.
    access: access::Options,
    /// The co-processor's clock; `None` for those of the committed synthesis.
    pub(crate) clock_mhz: Option<f64>,
}

#[derive(Debug, Args)]
#[group(skip)]
pub(crate) struct Options {
    /// Cost of setting up a request to the co-processor of demir-2020, in microseconds [default:
    /// from the paper's tables, 30 and 28, and for data unit numbers 11 and 19]
    #[arg(long, value_name = "US", value_parser = microseconds)]
    setup: Option<f64>,

    #[command(flatten)]
    access: access::Options,

    /// Clock of the co-processor in MHz [default: those of its syntheses for an ECP5]
    #[arg(long, value_name = "MHZ", value_parser = megahertz)]
    clock: Option<f64>,
}

fn microseconds(text: &str) -> Result<f64, String> {
    let found = text.parse().ok();
    let found = found.filter(|us| (0.0..=1e6).contains(us));
    found.ok_or_else(|| "expected a number of microseconds, up to a second".to_owned())
}

fn megahertz(text: &str) -> Result<f64, String> {
    let found = text.parse().ok();
    let found = found.filter(|mhz| (1.0..=10_000.0).contains(mhz));
    found.ok_or_else(|| "expected a number of megahertz, from 1 to 10000".to_owned())
}

impl Bench for Plan {
    const HELP: &'static str =
        "XTS with extended requests, on a co-processor and in software (Demir et al., 2020)";
    const SIZE: Option<&'static str> = Some("size of the disk [default: 1G, quick: 64M]");
    type Options = Options;
    type Report = Report;

    fn new(context: &Context, options: Options) -> Result<Self, String> {
        let settings = &context.settings;
        Ok(Self {
            folder: settings.dir.clone(),
            bytes: settings.bytes(1 << 30, 64 << 20),
            quick: settings.quick,
            turn: settings.turn(),
            engine: settings.engine.clone(),
            loads: settings.loads(&[1])?,
            setup: options.setup.map(|us| Duration::from_secs_f64(us * 1e-6)),
            access: options.access,
            clock_mhz: options.clock,
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
pub(crate) struct Report {
    engine: &'static str,
    /// The time of two reads of the clock, which surround every call of the engine that a server
    /// counts.
    clock_nanoseconds: f64,
    /// Bytes of the rows of `breakdown`. Each row is for one thread.
    breakdown_bytes: usize,
    breakdown: Vec<breakdown::SoftwareTimes>,
    disk_bytes: usize,
    /// Whether the folder is on `tmpfs`. Everything else is slower.
    in_memory: bool,
    /// The version of fio; `None` if no servers were measured.
    fio: Option<String>,
    rounds: usize,
    /// The length of each server's turn.
    turn_seconds: f64,
    served: Vec<Case>,
    /// `None` in results of earlier builds without a simulation of the core.
    study: Option<study::Study>,
    /// The parts that could not be measured, and why.
    #[serde(default)]
    absent: Vec<String>,
}

/// The lengths of requests and of data units.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
struct Requests {
    sector_bytes: usize,
    /// The most bytes of one call of the engine; `None` for all available data.
    request_bytes: Option<usize>,
}

/// All combinations, in which a request has at least one sector. The others are compared with the
/// last one. Equal sector sizes are adjacent, so that the disk is filled once for each.
const REQUESTS: [Requests; 5] = [
    requests(512, Some(512)),
    requests(512, Some(4096)),
    requests(512, None),
    requests(4096, Some(4096)),
    requests(4096, None),
];

const fn requests(sector_bytes: usize, request_bytes: Option<usize>) -> Requests {
    Requests {
        sector_bytes,
        request_bytes,
    }
}

/// The rates of all servers under one load.
#[derive(Debug, Deserialize, Serialize)]
struct Case {
    load: Load,
    rows: Vec<ServedRate>,
}

#[derive(Debug, Deserialize, Serialize)]
struct ServedRate {
    #[serde(flatten)]
    requests: Requests,
    mib_per_s: Summary,
    /// The ratio to 4096-byte sectors without a limit, in the same round.
    times_best: Summary,
    /// From the disk's own counters.
    bytes_per_call: Summary,
    engine_gb_per_s: Summary,
    /// The engine's time divided by the CPU time of the server's threads; `None` if the turns were too
    /// short for the kernel to count any.
    engine_share: Option<Summary>,
}

struct Lane {
    requests: Requests,
    server: Server,
    samples: Samples,
}

#[derive(Default)]
struct Samples {
    bytes_per_second: Vec<Option<f64>>,
    bytes_per_call: Vec<Option<f64>>,
    engine_bytes_per_second: Vec<Option<f64>>,
    engine_share: Vec<Option<f64>>,
}

/// Checks that the bench can run, and returns whether the folder is in memory.
pub(crate) fn check(plan: &Plan) -> Result<bool, String> {
    disk::backend(&plan.engine)?;
    let needed = (plan.bytes.max(study::ROOM) as u64).saturating_add(128 << 20);
    program::check_room(&plan.folder, needed, "a file of this size")
}

/// Runs the bench.
pub(crate) fn measure(plan: &Plan) -> Result<Report, String> {
    let in_memory = check(plan)?;
    let backend = disk::backend(&plan.engine)?;
    let breakdown = breakdown::measure(&*backend, plan.quick)?;
    let folder = Folder::new(&plan.folder)?;
    let mut absent = Vec::new();
    let fio = match clients() {
        Ok(fio) => Some(fio),
        Err(reason) => {
            absent.push(format!("servers: {reason}"));
            None
        }
    };
    let rounds = if plan.quick { 1 } else { 7 };
    let served = match &fio {
        Some(_) => serve_all(plan, &folder, rounds)?,
        None => Vec::new(),
    };
    let study = Some(study::measure(plan, &backend, &folder, fio.is_some())?);
    Ok(Report {
        engine: backend.info().name,
        clock_nanoseconds: breakdown::clock(),
        breakdown_bytes: breakdown::bytes(plan.quick),
        breakdown,
        disk_bytes: plan.bytes,
        in_memory,
        fio,
        rounds,
        turn_seconds: plan.turn.as_secs_f64(),
        served,
        study,
        absent,
    })
}

/// Returns the version of `fio`, if all programs for measuring servers are available.
fn clients() -> Result<String, String> {
    program::first_line("nbdcopy", &["--version"])?;
    fio::version()
}

fn serve_all(plan: &Plan, folder: &Folder, rounds: usize) -> Result<Vec<Case>, String> {
    let mut lanes: Vec<Lane> = Vec::new();
    for requests in REQUESTS {
        let last = lanes.last().map(|lane| lane.requests.sector_bytes);
        let fill = last != Some(requests.sector_bytes);
        lanes.push(start(requests, fill, plan, folder)?);
    }
    let mut served = Vec::new();
    for &load in &plan.loads {
        for lane in &mut lanes {
            lane.samples = Samples::default();
        }
        for at in stats::turns(rounds, lanes.len()) {
            lanes[at].sample(&load, plan.bytes, plan.turn)?;
        }
        let best = lanes.last().map(|lane| &lane.samples);
        let rows = lanes
            .iter()
            .filter_map(|lane| ServedRate::from_lane(lane, best?));
        served.push(Case {
            load,
            rows: rows.collect(),
        });
    }
    Ok(served)
}

/// Starts the server for these requests, and checks its bytes. Disks with the same sector size have
/// the same bytes on disk, whatever the limit; `fill` writes them again for a new sector size.
fn start(requests: Requests, fill: bool, plan: &Plan, folder: &Folder) -> Result<Lane, String> {
    let sector = u32::try_from(requests.sector_bytes).unwrap_or(0);
    let transform = Transform {
        sector: Some(SectorSize::try_from(sector).map_err(|e| e.to_string())?),
        request_limit: requests.request_bytes.and_then(NonZeroUsize::new),
        device: None,
    };
    let name = match requests.request_bytes {
        None => sector.to_string(),
        Some(bytes) => format!("{sector}-{bytes}"),
    };
    let [socket, log] = ["socket", "log"].map(|end| folder.path().join(format!("{name}.{end}")));
    // All servers use the same file, since places in memory differ in speed.
    let file = folder.path().join("disk");
    if !file.exists() {
        let failed = |e| format!("{}: {e}", file.display());
        let made = File::create_new(&file).map_err(failed)?;
        made.set_len(plan.bytes as u64).map_err(failed)?;
    }
    if fill {
        let disk = transform.disk(&file, &plan.engine)?;
        let (mut pattern, mut piece) = (Pattern::new(), vec![0; PIECE]);
        for at in (0..plan.bytes).step_by(PIECE) {
            let piece = &mut piece[..PIECE.min(plan.bytes - at)];
            pattern.fill(piece);
            let written = disk.write(piece, at as u64);
            written.map_err(|e| format!("{}: {e}", file.display()))?;
        }
    }
    let words = transform.words(&file, &socket, &plan.engine);
    let server = Server::start(&words, &socket, &log)?;
    server
        .compare(plan.bytes)
        .map_err(|e| format!("{}: {e}", requests.text()))?;
    Ok(Lane {
        requests,
        server,
        samples: Samples::default(),
    })
}

impl Lane {
    fn sample(&mut self, load: &Load, disk_bytes: usize, turn: Duration) -> Result<(), String> {
        let before = self.counters()?;
        let found = fio::throughput(self.server.uri(), load, disk_bytes, turn)?;
        let after = self.counters()?;
        let [bytes, calls, engine, cpu] = std::array::from_fn(|n| after[n] - before[n]);
        let samples = &mut self.samples;
        samples.bytes_per_second.push(Some(found.bytes_per_second));
        samples.bytes_per_call.push(Some(bytes / calls));
        samples.engine_bytes_per_second.push(Some(bytes / engine));
        // The kernel counts CPU time in hundredths of a second, so a short turn may have none.
        let share = Some(engine / cpu).filter(|share| share.is_finite());
        samples.engine_share.push(share);
        Ok(())
    }

    /// Returns the engine's bytes, calls and seconds, and the CPU seconds of all threads.
    fn counters(&mut self) -> Result<[f64; 4], String> {
        let answer = self.server.ask()?;
        let engine = disk::engine_time(&answer);
        let (bytes, calls, seconds) = engine.ok_or("the server's counters are not numbers")?;
        let cpu = self.server.cpu_seconds().ok_or("the server has ended")?;
        Ok([bytes, calls, seconds, cpu])
    }
}

impl ServedRate {
    /// `None` if nothing was measured.
    fn from_lane(lane: &Lane, best: &Samples) -> Option<Self> {
        let summary = |samples: &[Option<f64>]| {
            Summary::from_samples(samples.iter().flatten().copied().collect())
        };
        let samples = &lane.samples;
        let mib = 1.0 / f64::from(1 << 20);
        Some(Self {
            requests: lane.requests,
            mib_per_s: summary(&samples.bytes_per_second)?.scaled(mib),
            times_best: stats::ratios(&samples.bytes_per_second, &best.bytes_per_second)?,
            bytes_per_call: summary(&samples.bytes_per_call)?,
            engine_gb_per_s: summary(&samples.engine_bytes_per_second)?.scaled(1e-9),
            engine_share: summary(&samples.engine_share),
        })
    }
}

impl Requests {
    fn text(&self) -> String {
        match self.request_bytes {
            Some(bytes) => format!("{}-byte sectors, requests of {bytes}", self.sector_bytes),
            None => format!("{}-byte sectors, not capped", self.sector_bytes),
        }
    }
}
