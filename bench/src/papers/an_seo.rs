// SPDX-License-Identifier: MIT OR Apache-2.0
//! `an-seo-2022`: XTS on a GPU with powers of α from the host.
//!
//! S. An and S. C. Seo, "Designing a New XTS-AES Parallel Optimization Implementation Technique for
//! Fast File Encryption", IEEE Access 10, 2022, encrypt 128 MB as one data unit: on a CPU, block by
//! block; on a GPU with all tweaks from the CPU; and with every 8th or 128th tweak from the CPU
//! (Tables 3 and 4). Then they compare data units of 512 to 8192 bytes with OpenSSL (Table 5). Here
//! the same systems run on this machine's devices, in turn with the engine.
//!
//! 128 MB are 2²⁷ bytes, since the paper's 1 GB has 2²⁶ blocks of 16 bytes. IEEE 1619 and SP
//! 800-38E limit a data unit to 2²⁰ blocks. The engine encrypts a longer one only for this bench
//! ([`DataUnitLen::beyond_the_standard`]).

mod device;
mod host;
mod own;
mod published;
mod section;

use std::{cell::RefCell, collections::BTreeMap, num::NonZeroUsize, time::Instant};

use luxor_engine::{
    Backend, DataUnitLen, DataUnitNumber, Direction, Executor, InOut, KeySpec, LoadedKey, Mode,
    Run, XtsKey,
};
use luxor_engine_gpu::keys::AesSize;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use self::{
    device::OnDevice,
    own::{OfGpuBench, Own},
};
pub(crate) use self::{
    device::{OnDevice as PapersDevice, STREAMS},
    host::{BLOCK, Step, Xts},
};
use crate::{
    bench::{Bench, Context, NoOptions},
    cpu,
    devices::{self, About, Device, PaperKernels},
    plaintext::Pattern,
    rivals::Rival,
    stats::{self, Summary},
};

/// The options of the bench, and the rivals.
pub(crate) struct Plan<'a> {
    /// Bytes of the data; `None` for the paper's size, or a sixteenth of it with `quick`.
    pub(crate) bytes: Option<usize>,
    pub(crate) quick: bool,
    /// The CPU's kernel; `None` for the best one.
    pub(crate) engine: Option<String>,
    pub(crate) threads: NonZeroUsize,
    pub(crate) rivals: &'a [Box<dyn Rival>],
}

impl Bench for Plan<'static> {
    const HELP: &'static str = "XTS on a GPU with powers of alpha from the CPU (An and Seo, 2022)";
    const SIZE: Option<&'static str> =
        Some("size of the data [default: 128M, quick: 8M; a CPU as an OpenCL device: a sixteenth]");
    type Options = NoOptions;
    type Report = Report;

    fn new(context: &Context, _: NoOptions) -> Result<Self, String> {
        let settings = &context.settings;
        Ok(Self {
            bytes: settings.size,
            quick: settings.quick,
            engine: settings.kernel(),
            threads: settings.all_threads(),
            rivals: context.rivals,
        })
    }

    fn check(&self) -> Result<(), String> {
        cpu::kernels(self.engine.as_deref()).map(drop)
    }

    fn measure(&self) -> Result<Report, String> {
        let rounds = if self.quick { 3 } else { 11 };
        let bytes = self.bytes.unwrap_or(FILE / if self.quick { 16 } else { 1 });
        let bytes = bytes.next_multiple_of(STEP);
        let engine = cpu::kernels(self.engine.as_deref())?;
        let engine = engine.first().ok_or("there is no engine")?;
        let mut input = cpu::memory(bytes)?;
        Pattern::new().fill(&mut input);
        let mut output = cpu::memory(bytes)?;
        let mut tweaks = cpu::memory(bytes)?;

        let (mut found, absent) = devices::all();
        let abouts: Vec<About> = found.iter().map(|device| device.about.clone()).collect();
        let (mut devices, mut own) = (Vec::new(), Vec::new());
        for Device { luxor, papers, .. } in &mut found {
            devices.push(RefCell::new(on_device(&mut **papers, &input)?));
            let part = part(luxor.about().is_cpu);
            own.push(RefCell::new(Own::new(
                &mut **luxor,
                &input[..bytes / part],
            )?));
        }

        let mut bench = Session {
            plan: self,
            engine: &**engine,
            devices: &devices,
            own: &own,
            input: &input,
            output: RefCell::new(&mut output),
            tweaks: RefCell::new(&mut tweaks),
            rounds,
        };
        let tables_3_and_4 = bench.systems()?;
        let streams = bench.streams()?;
        let mut table_5 = Vec::new();
        for block_bytes in published::BLOCKS {
            for size in [AesSize::Aes128, AesSize::Aes256] {
                table_5.push(bench.rates(block_bytes, size)?);
            }
        }
        Ok(Report {
            file_bytes: FILE,
            rounds,
            devices: abouts,
            absent,
            tables_3_and_4,
            streams,
            table_5,
        })
    }

    fn complete(report: &mut Report, all: &'static Map<String, Value>) -> Result<(), String> {
        let Some(gpu) = all.get("gpu") else {
            return Ok(());
        };
        let gpu = OfGpuBench::deserialize(gpu).map_err(|e| e.to_string())?;
        report.compute_own_kernels(&gpu);
        Ok(())
    }

    fn section(report: &Report) -> crate::section::Section {
        report.section()
    }

    fn lacks_gpu(report: &Report) -> bool {
        devices::lack_gpu(&report.devices)
    }
}

/// The result of the bench.
#[derive(Debug, Deserialize, Serialize)]
#[serde(bound(deserialize = "'de: 'static"))]
pub(crate) struct Report {
    /// All milliseconds are scaled to this many bytes, however many were processed.
    file_bytes: usize,
    rounds: usize,
    devices: Vec<About>,
    /// The reasons why there are no other devices.
    absent: Vec<String>,
    tables_3_and_4: Vec<SystemTimes>,
    /// The α¹²⁸ system with different numbers of streams; empty without a device.
    streams: Vec<Streams>,
    table_5: Vec<Rates>,
}

#[derive(Debug, Deserialize, Serialize)]
struct SystemTimes {
    /// The device's interface, `CPU`, the engine or a rival.
    contestant: String,
    whose: Whose,
    /// The name in the paper's tables; other contestants have names of their own.
    system: &'static str,
    /// Bytes that were processed.
    bytes: usize,
    alpha_ms: Option<Summary>,
    /// With all copies, if there are any.
    encryption_ms: Option<Summary>,
    /// The device's part without copies.
    kernels_ms: Option<Summary>,
    total_ms: Summary,
    /// Whether the times are computed from other rates of the same record.
    #[serde(skip)]
    is_computed: bool,
}

#[derive(Debug, Deserialize, Serialize)]
struct Streams {
    contestant: String,
    streams: usize,
    bytes: usize,
    encryption_ms: Summary,
}

/// The rates for one length of data units and one key size.
#[derive(Debug, Deserialize, Serialize)]
#[serde(bound(deserialize = "'de: 'static"))]
struct Rates {
    block_bytes: usize,
    key_bits: usize,
    rows: Vec<Rate>,
}

#[derive(Debug, Deserialize, Serialize)]
struct Rate {
    contestant: String,
    whose: Whose,
    system: &'static str,
    threads: usize,
    bytes: usize,
    /// 10⁹ bytes per second, including powers of α and copies.
    gb_per_s: Summary,
    /// The rate of the device's kernels alone.
    kernels_gb_per_s: Option<Summary>,
    /// Whether that rate is from the bench `gpu` in the same record.
    #[serde(skip)]
    is_from_gpu: bool,
    /// The ratios to the rivals in the same round.
    of_rival: BTreeMap<String, Summary>,
}

/// The seconds of one run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    alpha: Option<f64>,
    encryption: Option<f64>,
    pub(crate) kernels: Option<f64>,
    pub(crate) total: f64,
}

/// The origin of a contestant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
enum Whose {
    /// The engine and its backends.
    Luxor,
    /// A system of the paper.
    Paper,
    /// A library.
    Rival,
}

/// A contestant.
struct Lane<'a> {
    contestant: String,
    whose: Whose,
    system: &'static str,
    threads: usize,
    bytes: usize,
    /// Processes the data, and compares the result with the expected one, untimed.
    run: Box<dyn FnMut() -> Result<Times, String> + 'a>,
    samples: Vec<Times>,
}

const FILE: usize = 128 << 20;

/// The data have a multiple of this many bytes, so that a sixteenth of them still has whole data
/// units.
const STEP: usize = 16 * 8192;

/// A CPU's OpenCL is only for testing kernels, so it processes one part in this many.
const CPU_DEVICE_PART: usize = 16;

/// Luxor's kernels on a device: in Tables 3 and 4, there computed from another record, and in Table 5.
const OWN: &str = "Luxor's kernels, data units of 16 MiB";
const OWN_COMPUTED: &str = "Luxor's kernels, data units of 4 KiB";
const OWN_RATES: &str = "Luxor's kernels";

/// The length of the data units from whose rates the rows of Tables 3 and 4 are computed.
const COMPUTED_UNIT: usize = 4096;

/// The longest data unit that the standards allow.
const LONGEST: usize = 16 << 20;

/// Returns the divisor of the data for a device.
fn part(is_cpu: bool) -> usize {
    if is_cpu { CPU_DEVICE_PART } else { 1 }
}

fn on_device<'a>(gpu: &'a mut dyn PaperKernels, input: &[u8]) -> Result<OnDevice<'a>, String> {
    let part = part(gpu.about().is_cpu);
    let name = gpu.about().device.clone();
    OnDevice::new(gpu, &input[..input.len() / part]).map_err(|e| format!("{name}: {e}"))
}

/// The inputs of all parts of the bench.
struct Session<'a, 'p> {
    plan: &'a Plan<'p>,
    engine: &'a dyn Backend,
    devices: &'a [RefCell<OnDevice<'a>>],
    /// The same devices with Luxor's own kernels.
    own: &'a [RefCell<Own<'a>>],
    input: &'a [u8],
    output: RefCell<&'a mut [u8]>,
    tweaks: RefCell<&'a mut [u8]>,
    rounds: usize,
}

impl Session<'_, '_> {
    /// Measures Tables 3 and 4: all data as one unit.
    fn systems(&mut self) -> Result<Vec<SystemTimes>, String> {
        let (size, bytes) = (AesSize::Aes128, self.input.len());
        let xts = Xts::new(size, &key(size), bytes / BLOCK);
        let expected = self.expected(&xts)?;
        // The longest unit for rivals: OpenSSL refuses longer ones.
        let unit = bytes.min(LONGEST);
        let longest = Xts::new(size, &key(size), unit / BLOCK);
        let whole = bytes.is_multiple_of(unit);
        let expected_of_longest = whole.then(|| self.expected(&longest)).transpose()?;
        let mut lanes = vec![self.naive_cpu(&xts, &expected)];
        for device in self.devices {
            device.borrow_mut().key(size, &key(size))?;
            for (system, step) in [
                ("naive GPU", Step::One),
                ("GPU alpha^8", Step::Eight),
                ("GPU alpha^128", Step::By128),
            ] {
                lanes.push(lane_of(device, &xts, system, step, STREAMS, &expected));
            }
        }
        // A single unit is never split, so one thread.
        let (bytes, one) = (self.input.len(), NonZeroUsize::MIN);
        let system = "one data unit";
        lanes.push(self.engine(self.engine, size, bytes, bytes, one, system, &expected)?);
        if let Some(expected) = &expected_of_longest {
            lanes.extend(self.own_kernels(size, unit, OWN, expected)?);
        }
        for rival in self.plan.rivals {
            let system = "data units of 16 MiB";
            if let Some(expected) = &expected_of_longest {
                lanes.extend(self.rival(&**rival, size, unit, system, expected)?);
            }
        }
        time(&mut lanes, self.rounds)?;
        lanes.iter().map(row).collect()
    }

    fn streams(&mut self) -> Result<Vec<Streams>, String> {
        let (size, bytes) = (AesSize::Aes128, self.input.len());
        let xts = Xts::new(size, &key(size), bytes / BLOCK);
        let expected = self.expected(&xts)?;
        let mut rows = Vec::new();
        for device in self.devices {
            device.borrow_mut().key(size, &key(size))?;
            let counts = [1, 2, 4, 8, 16, STREAMS];
            let mut lanes: Vec<Lane<'_>> = counts
                .iter()
                .map(|&streams| {
                    lane_of(
                        device,
                        &xts,
                        "GPU alpha^128",
                        Step::By128,
                        streams,
                        &expected,
                    )
                })
                .collect();
            time(&mut lanes, self.rounds)?;
            for (lane, streams) in lanes.iter().zip(counts) {
                rows.push(Streams {
                    contestant: lane.contestant.clone(),
                    streams,
                    bytes: lane.bytes,
                    encryption_ms: lane
                        .milliseconds(|times| times.encryption)
                        .ok_or("no round was measured")?,
                });
            }
        }
        Ok(rows)
    }

    /// Measures a row of Table 5: data units of `unit` bytes.
    fn rates(&mut self, unit: usize, size: AesSize) -> Result<Rates, String> {
        let xts = Xts::new(size, &key(size), unit / BLOCK);
        let expected = self.expected(&xts)?;
        let mut lanes = Vec::new();
        for device in self.devices {
            device.borrow_mut().key(size, &key(size))?;
            let system = "GPU alpha^128";
            lanes.push(lane_of(
                device,
                &xts,
                system,
                Step::By128,
                STREAMS,
                &expected,
            ));
        }
        let (bytes, one) = (self.input.len(), NonZeroUsize::MIN);
        lanes.push(self.engine(self.engine, size, unit, bytes, one, "engine", &expected)?);
        let all = self.plan.threads;
        if all > one {
            lanes.push(self.engine(self.engine, size, unit, bytes, all, "engine", &expected)?);
        }
        lanes.extend(self.own_kernels(size, unit, OWN_RATES, &expected)?);
        for rival in self.plan.rivals {
            let lane = self.rival(&**rival, size, unit, "library", &expected);
            lanes.extend(lane?);
        }
        time(&mut lanes, self.rounds)?;
        let rows = lanes.iter().map(|lane| rate(lane, &lanes));
        Ok(Rates {
            block_bytes: unit,
            key_bits: size.bits(),
            rows: rows.collect::<Result<_, _>>()?,
        })
    }

    /// Returns the expected result of all contestants. The first units, or the first bytes of a
    /// single unit, are compared with the reference.
    fn expected(&self, xts: &Xts) -> Result<Vec<u8>, String> {
        let mut tweaks = self.tweaks.borrow_mut();
        xts.starts(Step::One, self.input.len() / BLOCK, &mut tweaks);
        let mut expected = vec![0; self.input.len()];
        xts.encrypt(&tweaks, self.input, &mut expected);
        let unit = xts.unit * BLOCK;
        let first = &self.input[..STEP.min(self.input.len())];
        let right = (0..).zip(first.chunks(unit));
        let right = right
            .flat_map(|(number, unit)| luxor_reference::xts_encrypt(&key(xts.size), number, unit));
        if !right.eq(expected[..first.len()].iter().copied()) {
            return Err("the naive CPU's bytes differ from the reference's".into());
        }
        Ok(expected)
    }

    fn naive_cpu<'b>(&'b self, xts: &'b Xts, expected: &'b [u8]) -> Lane<'b> {
        let run = || {
            let (mut tweaks, mut output) = (self.tweaks.borrow_mut(), self.output.borrow_mut());
            let begun = Instant::now();
            xts.starts(Step::One, self.input.len() / BLOCK, &mut tweaks);
            let alpha = begun.elapsed().as_secs_f64();
            let begun = Instant::now();
            xts.encrypt(&tweaks, self.input, &mut output);
            let encryption = begun.elapsed().as_secs_f64();
            same(&output, expected)?;
            Ok(Times {
                alpha: Some(alpha),
                encryption: Some(encryption),
                kernels: None,
                total: alpha + encryption,
            })
        };
        Lane::new("CPU", "naive CPU", self.input.len(), Box::new(run))
    }

    #[expect(clippy::too_many_arguments, reason = "a row depends on all of them")]
    fn engine<'b>(
        &'b self,
        engine: &dyn Backend,
        size: AesSize,
        unit: usize,
        bytes: usize,
        threads: NonZeroUsize,
        system: &'static str,
        expected: &'b [u8],
    ) -> Result<Lane<'b>, String> {
        let spec = KeySpec::Xts(XtsKey::new(&key(size)).map_err(|e| e.to_string())?);
        let key = engine.load_key(&spec).map_err(|e| e.to_string())?;
        let unit = DataUnitLen::beyond_the_standard(unit).map_err(|e| e.to_string())?;
        let executor = Executor::new(threads);
        // Pinned for a device, as the data of the paper's systems are.
        let (mut input, mut output) = (engine.alloc(bytes), engine.alloc(bytes));
        input.copy_from_slice(&self.input[..bytes]);
        let run = move || {
            let begun = Instant::now();
            crypt(&*key, &executor, unit, &input, &mut output)?;
            let total = begun.elapsed().as_secs_f64();
            same(&output, &expected[..bytes])?;
            Ok(Times::only(total))
        };
        let mut lane = Lane::new(engine.info().name, system, bytes, Box::new(run));
        lane.threads = threads.get();
        lane.whose = Whose::Luxor;
        Ok(lane)
    }

    /// Returns Luxor's kernels on each device, whose data are whole units.
    fn own_kernels<'b>(
        &'b self,
        size: AesSize,
        unit: usize,
        system: &'static str,
        expected: &'b [u8],
    ) -> Result<Vec<Lane<'b>>, String> {
        let mut lanes = Vec::new();
        for own in self.own {
            let bytes = own.borrow().bytes;
            let unit = unit.min(bytes);
            if !bytes.is_multiple_of(unit) {
                continue;
            }
            own.borrow_mut().key(&key(size))?;
            let run = move || own.borrow_mut().run(unit, &expected[..bytes]);
            let name = own.borrow().about().name.clone();
            let mut lane = Lane::new(&name, system, bytes, Box::new(run));
            lane.whose = Whose::Luxor;
            lanes.push(lane);
        }
        Ok(lanes)
    }

    /// `None` if the rival does not have this cipher.
    fn rival<'b>(
        &'b self,
        rival: &dyn Rival,
        size: AesSize,
        unit: usize,
        system: &'static str,
        expected: &'b [u8],
    ) -> Result<Option<Lane<'b>>, String> {
        let cipher = rival.cipher(Mode::Xts, Direction::Encrypt, &key(size));
        let Some(mut cipher) = cipher.transpose()? else {
            return Ok(None);
        };
        let run = move || {
            let mut output = self.output.borrow_mut();
            let (input, output) = (self.input, &mut **output);
            let begun = Instant::now();
            cipher.crypt(0, unit, InOut::Separate { input, output })?;
            let total = begun.elapsed().as_secs_f64();
            same(output, expected)?;
            Ok(Times::only(total))
        };
        let name = &rival.about().name;
        let mut lane = Lane::new(name, system, self.input.len(), Box::new(run));
        lane.whose = Whose::Rival;
        Ok(Some(lane))
    }
}

fn lane_of<'b>(
    device: &'b RefCell<OnDevice<'_>>,
    xts: &'b Xts,
    system: &'static str,
    step: Step,
    streams: usize,
    expected: &'b [u8],
) -> Lane<'b> {
    let (name, bytes) = {
        let device = device.borrow();
        (device.about().name.clone(), device.bytes)
    };
    let run = move || {
        let mut device = device.borrow_mut();
        device.run(xts, step, streams, &expected[..bytes])
    };
    Lane::new(&name, system, bytes, Box::new(run))
}

fn crypt(
    key: &dyn LoadedKey,
    executor: &Executor,
    unit: DataUnitLen,
    input: &[u8],
    output: &mut [u8],
) -> Result<(), String> {
    let buf = InOut::Separate { input, output };
    let run = Run::new(DataUnitNumber::new(0), 1, unit, buf).map_err(|e| e.to_string())?;
    let done = executor.crypt(key, Direction::Encrypt, &mut [run]);
    done.map_err(|e| e.to_string())
}

fn same(found: &[u8], expected: &[u8]) -> Result<(), String> {
    if found == expected {
        return Ok(());
    }
    Err("the bytes differ from the naive CPU's".into())
}

/// Returns the data key, then the tweak key. Nothing depends on its value.
fn key(size: AesSize) -> Vec<u8> {
    (1..).take(2 * size.bytes()).collect()
}

impl Report {
    /// Adds the times of Luxor's kernels to a record from before they were measured here: with all
    /// copies from its own rates, and alone from the rates of the bench `gpu`.
    fn compute_own_kernels(&mut self, gpu: &OfGpuBench) {
        if self.tables_3_and_4.iter().any(|row| row.system == OWN) {
            return;
        }
        for (device, alone) in gpu.encrypting() {
            let lengths = self.table_5.iter_mut();
            let mut rates = lengths.filter(|rates| {
                (rates.block_bytes, rates.key_bits) == (alone.unit_bytes, alone.key_bits)
            });
            let Some(row) = rates.next().and_then(|rates| {
                let mut rows = rates.rows.iter_mut();
                rows.find(|row| row.system == OWN_RATES && row.contestant == device)
            }) else {
                continue;
            };
            (row.kernels_gb_per_s, row.is_from_gpu) = (Some(alone.gb_per_s), true);
            if (alone.unit_bytes, alone.key_bits) != (COMPUTED_UNIT, 128) {
                continue;
            }
            let milliseconds = |rate: Summary| rate.inverse().scaled(self.file_bytes as f64 * 1e-6);
            let total_ms = milliseconds(row.gb_per_s);
            self.tables_3_and_4.push(SystemTimes {
                contestant: device.to_owned(),
                whose: Whose::Luxor,
                system: OWN_COMPUTED,
                bytes: row.bytes,
                alpha_ms: None,
                encryption_ms: Some(total_ms),
                kernels_ms: Some(milliseconds(alone.gb_per_s)),
                total_ms,
                is_computed: true,
            });
        }
    }
}

impl Times {
    fn only(total: f64) -> Self {
        Self {
            alpha: None,
            encryption: None,
            kernels: None,
            total,
        }
    }
}

impl<'a> Lane<'a> {
    fn new(
        contestant: &str,
        system: &'static str,
        bytes: usize,
        run: Box<dyn FnMut() -> Result<Times, String> + 'a>,
    ) -> Self {
        Self {
            contestant: contestant.to_owned(),
            whose: Whose::Paper,
            system,
            threads: 1,
            bytes,
            run,
            samples: Vec::new(),
        }
    }

    fn turn(&mut self) -> Result<Times, String> {
        (self.run)().map_err(|e| format!("{}, {}: {e}", self.contestant, self.system))
    }

    /// Scales to the size of the paper's data; `None` if there are no samples.
    fn milliseconds(&self, what: impl Fn(&Times) -> Option<f64>) -> Option<Summary> {
        let scale = 1e3 * FILE as f64 / self.bytes as f64;
        let samples = self.samples.iter().filter_map(what);
        Some(Summary::from_samples(samples.collect())?.scaled(scale))
    }

    fn rate(&self, what: impl Fn(&Times) -> Option<f64>) -> Option<Summary> {
        let samples = self.samples.iter().filter_map(what);
        Summary::from_samples(samples.map(|s| 1e-9 * self.bytes as f64 / s).collect())
    }

    fn seconds_per_byte(&self) -> Vec<Option<f64>> {
        let per_byte = |times: &Times| Some(times.total / self.bytes as f64);
        self.samples.iter().map(per_byte).collect()
    }
}

/// Runs every contestant once to warm up and to check its result, then takes turns.
fn time(lanes: &mut [Lane<'_>], rounds: usize) -> Result<(), String> {
    for lane in &mut *lanes {
        lane.turn()?;
    }
    for at in stats::turns(rounds, lanes.len()) {
        let times = lanes[at].turn()?;
        lanes[at].samples.push(times);
    }
    Ok(())
}

fn row(lane: &Lane<'_>) -> Result<SystemTimes, String> {
    Ok(SystemTimes {
        contestant: lane.contestant.clone(),
        whose: lane.whose,
        system: lane.system,
        bytes: lane.bytes,
        alpha_ms: lane.milliseconds(|times| times.alpha),
        encryption_ms: lane.milliseconds(|times| times.encryption),
        kernels_ms: lane.milliseconds(|times| times.kernels),
        total_ms: lane
            .milliseconds(|times| Some(times.total))
            .ok_or("no round was measured")?,
        is_computed: false,
    })
}

fn rate(lane: &Lane<'_>, lanes: &[Lane<'_>]) -> Result<Rate, String> {
    let own = lane.seconds_per_byte();
    let rivals = lanes.iter().filter(|other| other.whose == Whose::Rival);
    let times = |other: &Lane<'_>| {
        let ratio = stats::ratios(&other.seconds_per_byte(), &own)?;
        Some((other.contestant.clone(), ratio))
    };
    Ok(Rate {
        contestant: lane.contestant.clone(),
        whose: lane.whose,
        system: lane.system,
        threads: lane.threads,
        bytes: lane.bytes,
        gb_per_s: lane
            .rate(|times| Some(times.total))
            .ok_or("no round was measured")?,
        kernels_gb_per_s: lane.rate(|times| times.kernels),
        is_from_gpu: false,
        of_rival: rivals.filter_map(times).collect(),
    })
}

#[cfg(test)]
mod tests;
