// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cpu`: Luxor's kernels and their rivals, in the cache and over memory.
//!
//! A case is timed in rounds. In each round every contestant is timed once: it first settles for a
//! few milliseconds and is then timed for one. The order changes from round to round. Ratios are
//! formed within a round, so that anything that slows the machine down for a while slows both
//! sides. The medians over the rounds are reported.
//!
//! Within a turn, passes through the buffer alternate with slices of the limit loop, because the
//! clock depends on the running code: some ten microseconds after other instructions, or the same
//! ones on other data, a CPU changes its clock, and the new clock depends on the milliseconds
//! before. A slice takes at most a quarter of the time of the passes before it, so the clock stays
//! that of the passes. With equal shares, the ratio of the same code came out 10 % lower on 256-bit
//! registers. The GB/s include the effect of the clock.

mod lane;
pub(crate) mod matrix;
mod section;

use std::{
    collections::BTreeMap,
    io::{IsTerminal, Write},
    num::NonZeroUsize,
    sync::Arc,
};

use clap::{Args, ValueEnum};
use luxor_engine::{
    AesKey, Backend, Buffer, Direction, Executor, KeySize, KeySpec, Mode, Registry, XtsKey,
};
use serde::{Deserialize, Serialize};

pub(crate) use self::lane::memory;
use self::{
    lane::{Bytes, Lane, LimitLane, Rounds},
    matrix::{Case, Filter, ResultPlace},
};
use crate::{
    bench::{Bench, Context},
    cipher::{Luxor, direction_name},
    limit::Limit,
    neighbour::Neighbour,
    rivals::Rival,
    size,
    stats::{self, Summary},
};

/// The cases to measure, and the contestants.
pub(crate) struct Plan<'a> {
    pub(crate) filter: Filter,
    /// Measure only this kernel.
    pub(crate) engine: Option<String>,
    /// The number of threads that "all threads" means.
    pub(crate) threads: NonZeroUsize,
    pub(crate) rivals: &'a [Box<dyn Rival>],
}

#[derive(Debug, Args)]
#[group(skip)]
pub(crate) struct Options {
    /// Only this mode [default: all]
    #[arg(long = "mode", value_enum, value_name = "MODE", help_heading = ONLY)]
    modes: Vec<ModeName>,

    /// Only AES with keys of this many bits (XTS has two such keys) [default: both]
    #[arg(long = "key-size", value_enum, value_name = "BITS", help_heading = ONLY)]
    key_sizes: Vec<KeyBits>,

    /// Only this direction [default: both]
    #[arg(long = "direction", value_enum, value_name = "WAY", help_heading = ONLY)]
    directions: Vec<DirectionName>,

    /// Only in place, or only into another buffer [default: both]
    #[arg(long = "place", value_enum, value_name = "PLACE", help_heading = ONLY)]
    places: Vec<ResultPlace>,

    /// Only XTS with data units of this many bytes [default: 16, 512, 4K, 64K, 1M]
    #[arg(long = "unit", value_name = "BYTES", value_parser = size::parse, help_heading = ONLY)]
    units: Vec<usize>,

    /// Only calls of this many bytes [default: 512, 4K, 64K, 1M, and the --size]
    ///
    /// Calls of up to 4 MiB go through a buffer of at least 64 KiB, again and again.
    #[arg(long = "call", value_name = "BYTES", value_parser = size::parse, help_heading = ONLY)]
    calls: Vec<usize>,
}

const ONLY: &str = "Only for cpu; each may be given several times";

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ModeName {
    Xts,
    Ctr,
    Ecb,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum KeyBits {
    #[value(name = "128")]
    Aes128,
    #[value(name = "256")]
    Aes256,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum DirectionName {
    Encrypt,
    Decrypt,
}

impl Bench for Plan<'static> {
    const HELP: &'static str = "XTS, CTR and ECB of each kernel, in the L2 cache and over memory";
    const SIZE: Option<&'static str> =
        Some("size of the buffer for memory, larger than any cache [default: 256M, quick: 64M]");
    type Options = Options;
    type Report = Report;

    fn new(context: &Context, options: Options) -> Result<Self, String> {
        let settings = &context.settings;
        let modes = options.modes.into_iter().map(|mode| match mode {
            ModeName::Xts => Mode::Xts,
            ModeName::Ctr => Mode::Ctr,
            ModeName::Ecb => Mode::Ecb,
        });
        let key_sizes = options.key_sizes.into_iter().map(|bits| match bits {
            KeyBits::Aes128 => KeySize::Aes128,
            KeyBits::Aes256 => KeySize::Aes256,
        });
        let directions = options.directions.into_iter().map(|way| match way {
            DirectionName::Encrypt => Direction::Encrypt,
            DirectionName::Decrypt => Direction::Decrypt,
        });
        Ok(Self {
            filter: Filter {
                modes: modes.collect(),
                key_sizes: key_sizes.collect(),
                directions: directions.collect(),
                places: options.places,
                units: options.units,
                calls: options.calls,
                large: settings.bytes(256 << 20, 64 << 20),
                quick: settings.quick,
            },
            engine: settings.kernel(),
            threads: settings.all_threads(),
            rivals: context.rivals,
        })
    }

    fn check(&self) -> Result<(), String> {
        Ok(())
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
    /// Bytes of the large buffer.
    large_bytes: usize,
    threads: usize,
    limits: Vec<LimitPace>,
    rows: Vec<KernelRate>,
}

/// The speed of a loop of nothing but AES instructions.
#[derive(Debug, Deserialize, Serialize)]
struct LimitPace {
    /// `xmm`, `ymm` or `zmm`: 128, 256 or 512 bits.
    registers: &'static str,
    instructions_per_cycle: f64,
    ghz: f64,
}

/// The speed of one contestant in one case.
#[derive(Debug, Deserialize, Serialize)]
struct KernelRate {
    contestant: String,
    rival: bool,
    mode: &'static str,
    /// Bits of one AES key: 128 or 256. XTS has two.
    key_bits: usize,
    direction: &'static str,
    place: ResultPlace,
    unit_bytes: usize,
    call_bytes: usize,
    /// Bytes of the buffer that the calls go through.
    buffer_bytes: usize,
    threads: usize,
    samples: usize,
    /// In 10⁹ bytes per second.
    gb_per_s: Summary,
    /// The ratio to the limit of the registers that the contestant uses, per thread.
    of_limit: Option<Summary>,
    /// The ratio to the same kernel on one thread.
    of_one_thread: Option<Summary>,
    /// The ratios to the rivals.
    of_rival: BTreeMap<String, Summary>,
}

/// Runs the bench.
pub(crate) fn measure(plan: &Plan<'_>) -> Result<Report, String> {
    let cases = matrix::cases(&plan.filter)?;
    let kernels = kernels(plan.engine.as_deref())?;
    let executors = Executors {
        one: Arc::new(Executor::new(NonZeroUsize::MIN)),
        all: Arc::new(Executor::new(plan.threads)),
    };
    let longest = cases.iter().map(|case| case.buffer).max().unwrap_or(0);
    let mut bytes = Bytes::new(longest)?;
    let mut expected = Expected::new(longest, &executors)?;
    let mut limits = Limits::new();
    let mut rows = Vec::new();
    let progress = Progress::new(cases.len());
    for (i, case) in cases.iter().enumerate() {
        progress.at(i);
        let mut lanes = lanes(case, plan, &kernels, &executors)?;
        let expected = expected.answer(case, &bytes)?;
        for lane in &mut lanes {
            lane.check(case, &mut bytes, expected)?;
        }
        time(case, plan, &mut lanes, &mut limits, &mut bytes)?;
        rows.extend(lanes.iter().map(|lane| row(case, lane, &lanes)));
    }
    Ok(Report {
        large_bytes: plan.filter.large,
        threads: plan.threads.get(),
        limits: limits.rows(),
        rows,
    })
}

/// Returns the requested kernel, or all that are available.
pub(crate) fn kernels(engine: Option<&str>) -> Result<Vec<Arc<dyn Backend>>, String> {
    let registry = Registry::cpu();
    match engine {
        Some(name) => Ok(vec![registry.get(name).map_err(|e| e.to_string())?]),
        None => Ok(registry
            .probe_all()
            .filter_map(|(_, backend)| backend.ok())
            .collect()),
    }
}

/// The executors for one thread and for all threads.
struct Executors {
    one: Arc<Executor>,
    all: Arc<Executor>,
}

/// Returns the contestants of a case.
fn lanes(
    case: &Case,
    plan: &Plan<'_>,
    kernels: &[Arc<dyn Backend>],
    executors: &Executors,
) -> Result<Vec<Lane>, String> {
    let spec = key_spec(case.mode, case.key_size);
    let mut lanes = Vec::new();
    for kernel in kernels {
        let info = kernel.info();
        if !info.modes.contains(&case.mode) {
            continue;
        }
        // Bitsliced code takes seconds for 256 MiB, and its speed does not depend on memory.
        if info.name == "portable" && case.in_memory() && plan.filter.quick && kernels.len() > 1 {
            continue;
        }
        let several = (case.for_threads() && plan.threads.get() > 1).then_some(&executors.all);
        for executor in [Some(&executors.one), several].into_iter().flatten() {
            let luxor = Luxor {
                key: kernel.load_key(&spec).map_err(|e| e.to_string())?,
                direction: case.direction,
                executor: Arc::clone(executor),
            };
            lanes.push(Lane::kernel(info.name, executor.threads(), Box::new(luxor)));
        }
    }
    if case.in_memory() && case.place == ResultPlace::Out {
        lanes.push(Lane::copy());
    }
    for rival in plan.rivals {
        let name = &rival.about().name;
        let key = key_bytes(case.mode, case.key_size);
        match rival.cipher(case.mode, case.direction, &key) {
            None => {}
            Some(Ok(cipher)) => lanes.push(Lane::rival(rival.about(), cipher)),
            Some(Err(message)) => return Err(format!("{name}: {message}")),
        }
    }
    Ok(lanes)
}

/// Times all contestants in turn.
fn time(
    case: &Case,
    plan: &Plan<'_>,
    lanes: &mut [Lane],
    limits: &mut Limits,
    bytes: &mut Bytes,
) -> Result<(), String> {
    let rounds = Rounds::new(case, plan.filter.quick);
    let aes_rounds = case.key_size.aes().rounds() as u64;
    for lane in &mut *lanes {
        lane.calibrate(case, bytes)?;
    }
    let all = limits.lanes.len() + lanes.len();
    for round in 0..rounds.count {
        for turn in 0..all {
            // Reverse every other round, so that no contestant always follows the same one.
            let turn = if round % 2 == 0 { turn } else { all - 1 - turn };
            match (turn + round) % all {
                i if i < lanes.len() => {
                    let limit = limits.for_contestant(&lanes[i]);
                    let neighbour = &limits.neighbour;
                    lanes[i].sample(round, case, bytes, &rounds, limit, neighbour)?;
                }
                i => limits.lanes[i - lanes.len()].sample(aes_rounds),
            }
        }
    }
    Ok(())
}

fn row(case: &Case, lane: &Lane, lanes: &[Lane]) -> KernelRate {
    let rates: Vec<f64> = lane
        .seconds_per_byte
        .iter()
        .flatten()
        .map(|s| 1e-9 / s)
        .collect();
    let own = &lane.seconds_per_byte;
    let times = |other: &Lane| stats::ratios(&other.seconds_per_byte, own);
    let one_thread = |other: &&Lane| other.name == lane.name && other.threads == 1;
    KernelRate {
        contestant: lane.name.clone(),
        rival: lane.rival,
        mode: case.mode.name(),
        key_bits: case.key_size.bytes() * 8,
        direction: direction_name(case.direction),
        place: case.place,
        unit_bytes: case.unit,
        call_bytes: case.call,
        buffer_bytes: case.buffer,
        threads: lane.threads,
        samples: rates.len(),
        gb_per_s: Summary::from_samples(rates)
            .expect("every contestant is timed in the first round"),
        of_limit: Summary::from_samples(lane.of_limit.iter().flatten().copied().collect())
            .map(|all| all.scaled(1.0 / lane.threads as f64)),
        of_one_thread: lanes
            .iter()
            .find(one_thread)
            .filter(|_| lane.threads > 1)
            .and_then(times),
        of_rival: lanes
            .iter()
            .filter(|other| other.rival && other.name != lane.name)
            .filter_map(|other| Some((other.name.clone(), times(other)?)))
            .collect(),
    }
}

/// The limit loops, over all cases, and who else uses the core.
struct Limits {
    lanes: Vec<LimitLane>,
    neighbour: Neighbour,
}

impl Limits {
    fn new() -> Self {
        Self {
            lanes: Limit::all().into_iter().map(LimitLane::new).collect(),
            neighbour: Neighbour::watch(),
        }
    }

    /// Returns the limit of the kernel's own registers. For a rival it is that of the machine's
    /// widest registers, since the rival is free to use them.
    fn for_contestant(&self, lane: &Lane) -> Option<&LimitLane> {
        if lane.rival {
            return self.lanes.first().filter(|_| lane.hardware);
        }
        let width = Limit::for_kernel(&lane.name)?.width;
        self.lanes.iter().find(|limit| limit.limit.width == width)
    }

    fn rows(&self) -> Vec<LimitPace> {
        let median =
            |samples: &Vec<f64>| Summary::from_samples(samples.clone()).map_or(0.0, |s| s.median);
        let row = |lane: &LimitLane| LimitPace {
            registers: lane.limit.width,
            instructions_per_cycle: median(&lane.per_cycle),
            ghz: median(&lane.ghz),
        };
        self.lanes.iter().map(row).collect()
    }
}

/// The expected results, computed by the portable kernel.
struct Expected {
    portable: Arc<dyn Backend>,
    executor: Arc<Executor>,
    answer: Buffer,
    /// The case of `answer`. The place of the result does not matter.
    case: Option<Case>,
}

impl Expected {
    fn new(longest: usize, executors: &Executors) -> Result<Self, String> {
        let portable = Registry::cpu().get("portable").map_err(|e| e.to_string())?;
        Ok(Self {
            portable,
            executor: Arc::clone(&executors.all),
            answer: memory(longest)?,
            case: None,
        })
    }

    fn answer(&mut self, case: &Case, bytes: &Bytes) -> Result<&[u8], String> {
        let case = Case {
            place: ResultPlace::Out,
            ..*case
        };
        if self.case != Some(case) {
            let spec = key_spec(case.mode, case.key_size);
            let key = self.portable.load_key(&spec).map_err(|e| e.to_string())?;
            let mut cipher = Luxor {
                key,
                direction: case.direction,
                executor: Arc::clone(&self.executor),
            };
            lane::walk(&mut cipher, &case, bytes.input(), &mut self.answer)?;
            self.case = Some(case);
        }
        Ok(&self.answer[..case.buffer])
    }
}

/// The key of all contestants. Nothing depends on its value.
fn key_bytes(mode: Mode, size: KeySize) -> Vec<u8> {
    let keys = if mode == Mode::Xts { 2 } else { 1 };
    (1_u8..).take(keys * size.bytes()).collect()
}

fn key_spec(mode: Mode, size: KeySize) -> KeySpec {
    let bytes = key_bytes(mode, size);
    if mode == Mode::Xts {
        return KeySpec::Xts(XtsKey::new(&bytes).expect("the two keys differ"));
    }
    let key = AesKey::new(&bytes).expect("`key_bytes` has a valid length");
    match mode {
        Mode::Ctr => KeySpec::Ctr(key),
        _ => KeySpec::Ecb(key),
    }
}

/// Shows the progress on a terminal.
struct Progress {
    cases: usize,
    shown: bool,
}

impl Progress {
    fn new(cases: usize) -> Self {
        Self {
            cases,
            shown: std::io::stderr().is_terminal(),
        }
    }

    fn at(&self, case: usize) {
        self.show(&format!("cpu: case {} of {}", case + 1, self.cases));
    }

    fn show(&self, text: &str) {
        if self.shown {
            let mut err = std::io::stderr();
            let _ = write!(err, "\r\x1b[K{text}").and_then(|()| err.flush());
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.show("");
    }
}
