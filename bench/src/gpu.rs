// SPDX-License-Identifier: MIT OR Apache-2.0
//! `gpu`: Luxor's kernels on each device of the engine's backends, compared with the device's
//! limit.
//!
//! XTS reads and writes each byte once, as a copy does. So encryption of data on the device is
//! compared with a copy there, and encryption of data on the host, in pinned memory, with
//! simultaneous copies to and from the device. The third contestant is the α¹²⁸ system of
//! [`an_seo`](crate::papers::an_seo) on the same device. Rates count the bytes encrypted or copied per
//! second.

mod section;

use std::{num::NonZeroUsize, time::Instant};

use luxor_engine::{DataUnitLen, Direction, Executor, InOut, KeySpec, LoadedKey, Run, XtsKey};
use luxor_engine_gpu::AesSize;
use serde::{Deserialize, Serialize};

use crate::{
    bench::{Bench, Context, NoOptions},
    cipher::direction_name,
    cpu,
    devices::{self, About, LuxorKernels, PaperKernels, Work},
    papers::an_seo::{BLOCK, PapersDevice, STREAMS, Step, Xts},
    plaintext::Pattern,
    stats::{self, Summary},
};

/// The options of the bench.
pub(crate) struct Plan {
    /// Bytes of the data on the device; `None` for the default of its kind.
    pub(crate) bytes: Option<usize>,
    pub(crate) quick: bool,
    /// The CPU's kernel that computes the expected results; `None` for the best one.
    pub(crate) engine: Option<String>,
    pub(crate) threads: NonZeroUsize,
}

impl Bench for Plan {
    const HELP: &'static str = "The opencl (both kinds of kernels) and cuda backends on each device, against copies and An \
         and Seo's system";
    const SIZE: Option<&'static str> = Some(
        "size of the data on a device [default: 4G, quick: 1G, less without room; a CPU as a device: \
         1M, quick: 256K]",
    );
    type Options = NoOptions;
    type Report = Report;

    fn new(context: &Context, _: NoOptions) -> Result<Self, String> {
        let settings = &context.settings;
        Ok(Self {
            bytes: settings.size,
            quick: settings.quick,
            engine: settings.kernel(),
            threads: settings.all_threads(),
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

    fn lacks_gpu(report: &Report) -> bool {
        report.devices.iter().all(|device| device.about.is_cpu)
    }
}

/// The result of the bench.
#[derive(Debug, Deserialize, Serialize)]
#[serde(bound(deserialize = "'de: 'static"))]
pub(crate) struct Report {
    rounds: usize,
    devices: Vec<OnDevice>,
    /// The reasons why there are no other devices.
    absent: Vec<String>,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(bound(deserialize = "'de: 'static"))]
struct OnDevice {
    about: About,
    resident_bytes: usize,
    /// Rates for data on the device.
    resident: Vec<DeviceRate>,
    host_bytes: usize,
    /// Rates from pinned memory to pinned memory.
    host: Vec<DeviceRate>,
    /// Comparisons with the paper's α¹²⁸, on `host_bytes` bytes.
    papers: Vec<Beside>,
    /// The reason why there is no comparison with the paper.
    no_papers: Option<String>,
}

#[derive(Debug, Deserialize, Serialize)]
struct DeviceRate {
    key_bits: usize,
    direction: &'static str,
    unit_bytes: usize,
    /// 10⁹ bytes per second.
    gb_per_s: Summary,
    /// The copy's rate in the same rounds.
    copy_gb_per_s: Summary,
    of_copy: Summary,
    /// The target for `of_copy`, on the device for which it was set.
    of_copy_mark: Option<f64>,
    /// For units of 512 bytes: the ratio to the rate of 4096-byte units, in the same rounds.
    of_4096: Option<Summary>,
}

#[derive(Debug, Deserialize, Serialize)]
struct Beside {
    key_bits: usize,
    unit_bytes: usize,
    /// With data and powers of α on the device.
    kernels: Rates,
    /// From the host's memory and back; for the paper including its powers of α.
    total: Rates,
}

#[derive(Debug, Deserialize, Serialize)]
struct Rates {
    gb_per_s: Summary,
    papers_gb_per_s: Summary,
    times: Summary,
}

const UNITS: [usize; 2] = [4096, 512];

/// The targets of issue 8 for an H200.
const RESIDENT_MARKS: [f64; 2] = [0.32, 0.23];
const HOST_MARK: f64 = 0.9;
const SHORT_UNITS_MARK: f64 = 0.9;
const PAPER_MARK: f64 = 3.0;

/// Bytes of the data on a GPU: enough to make the cost of a launch and a wait negligible.
const ON_GPU: usize = 4 << 30;
const ON_GPU_QUICK: usize = 1 << 30;
/// A CPU's OpenCL is only for testing kernels.
const ON_CPU: usize = 1 << 20;
const ON_CPU_QUICK: usize = 256 << 10;
/// The most bytes from memory to memory, and for the paper's system.
const ON_HOST: usize = 1 << 30;

/// The input repeats this many bytes.
const PATTERN: usize = 64 << 20;

/// Units that are checked after each timed run. Before the first one, all units are checked.
const SAMPLES: usize = 16;

/// Checks that the requested engine exists.
pub(crate) fn check(plan: &Plan) -> Result<(), String> {
    cpu::kernels(plan.engine.as_deref()).map(drop)
}

/// Runs the bench.
pub(crate) fn measure(plan: &Plan) -> Result<Report, String> {
    let rounds = if plan.quick { 3 } else { 11 };
    let (mut found, absent) = devices::all();
    found.extend(devices::with_other_kernels());
    let mut devices = Vec::new();
    for mut device in found {
        let bytes = plan
            .bytes
            .unwrap_or(match (device.about.is_cpu, plan.quick) {
                (false, false) => ON_GPU,
                (false, true) => ON_GPU_QUICK,
                (true, false) => ON_CPU,
                (true, true) => ON_CPU_QUICK,
            });
        let measured = Session::new(&mut *device.luxor, plan, bytes, rounds)
            .and_then(|mut session| session.measure(&mut *device.papers));
        devices.push(measured.map_err(|e| format!("{}: {e}", device.about.name))?);
    }
    Ok(Report {
        rounds,
        devices,
        absent,
    })
}

/// A device with its data.
struct Session<'a> {
    own: &'a mut dyn LuxorKernels,
    plan: &'a Plan,
    rounds: usize,
    pattern: Vec<u8>,
    /// Bytes on the device, and on the host.
    bytes: usize,
    host_bytes: usize,
}

/// A key size and a direction.
#[derive(Clone, Copy, Debug)]
struct Task {
    size: AesSize,
    direction: Direction,
}

impl<'a> Session<'a> {
    /// Allocates the data. Uses less than `bytes` if there is too little room, unless the user gave
    /// the size.
    fn new(
        own: &'a mut dyn LuxorKernels,
        plan: &'a Plan,
        bytes: usize,
        rounds: usize,
    ) -> Result<Self, String> {
        let mut bytes = bytes.next_multiple_of(UNITS[0]);
        while let Err(why) = own.resident(bytes) {
            if plan.bytes.is_some() || bytes <= ON_CPU {
                return Err(why);
            }
            bytes = (bytes / 2).next_multiple_of(UNITS[0]);
        }
        let host_bytes = bytes.min(ON_HOST);
        own.host(host_bytes)?;
        let mut pattern = vec![0; bytes.min(PATTERN)];
        Pattern::new().fill(&mut pattern);
        for at in (0..bytes).step_by(pattern.len()) {
            own.write(at, &pattern[..pattern.len().min(bytes - at)])?;
        }
        let (input, _) = own.host_bytes()?;
        for part in input.chunks_mut(pattern.len()) {
            part.copy_from_slice(&pattern[..part.len()]);
        }
        Ok(Self {
            own,
            plan,
            rounds,
            pattern,
            bytes,
            host_bytes,
        })
    }

    fn measure(&mut self, papers: &mut dyn PaperKernels) -> Result<OnDevice, String> {
        let (mut resident, mut host) = (Vec::new(), Vec::new());
        for (size, mark) in [AesSize::Aes128, AesSize::Aes256]
            .into_iter()
            .zip(RESIDENT_MARKS)
        {
            for direction in [Direction::Encrypt, Direction::Decrypt] {
                let task = Task { size, direction };
                let cpu = self.load(size)?;
                resident.extend(self.resident(task, &cpu, mark)?);
                host.extend(self.host(task, &cpu)?);
            }
        }
        let input = self.own.host_bytes()?.0.to_vec();
        let (papers, no_papers) = match PapersDevice::new(papers, &input) {
            Ok(mut device) => (self.papers(&mut device, &input)?, None),
            Err(why) => (Vec::new(), Some(why)),
        };
        Ok(OnDevice {
            about: self.own.about().clone(),
            resident_bytes: self.bytes,
            resident,
            host_bytes: self.host_bytes,
            host,
            papers,
            no_papers,
        })
    }

    /// Loads the key on the device, and returns it on the CPU.
    fn load(&mut self, size: AesSize) -> Result<Cpu, String> {
        let spec = XtsKey::new(&key(size)).map_err(|e| e.to_string())?;
        let spec = KeySpec::Xts(spec);
        self.own.key(&spec)?;
        let engines = cpu::kernels(self.plan.engine.as_deref())?;
        let engine = engines.first().ok_or("there is no engine")?;
        Ok(Cpu {
            key: engine.load_key(&spec).map_err(|e| e.to_string())?,
            executor: Executor::new(self.plan.threads),
        })
    }

    fn resident(&mut self, task: Task, cpu: &Cpu, mark: f64) -> Result<Vec<DeviceRate>, String> {
        let bytes = self.bytes;
        let work = |unit| Work {
            first: 0,
            unit,
            len: bytes,
        };
        for unit in UNITS {
            self.own.copy_resident(bytes)?;
            self.own.crypt_resident(task.direction, work(unit))?;
            self.see_all(task, cpu, unit)?;
        }
        let samples = timed(1 + UNITS.len(), self.rounds, |lane| {
            let begun = Instant::now();
            let Some(at) = lane.checked_sub(1) else {
                self.own.copy_resident(bytes)?;
                return Ok(begun.elapsed().as_secs_f64());
            };
            self.own.crypt_resident(task.direction, work(UNITS[at]))?;
            let seconds = begun.elapsed().as_secs_f64();
            self.see_some(task, cpu, UNITS[at])?;
            Ok(seconds)
        })?;
        let marks = [Some(mark), None];
        rows(task, bytes, &samples, marks)
    }

    fn host(&mut self, task: Task, cpu: &Cpu) -> Result<Vec<DeviceRate>, String> {
        let bytes = self.host_bytes;
        let work = |unit| Work {
            first: 0,
            unit,
            len: bytes,
        };
        let mut expected = vec![vec![0; bytes]; UNITS.len()];
        for (unit, expected) in UNITS.into_iter().zip(&mut expected) {
            let (input, _) = self.own.host_bytes()?;
            cpu.crypt(task.direction, unit, 0, input, expected)?;
        }
        let samples = timed(1 + UNITS.len(), self.rounds, |lane| {
            let begun = Instant::now();
            let Some(at) = lane.checked_sub(1) else {
                self.own.copy_host(bytes)?;
                return Ok(begun.elapsed().as_secs_f64());
            };
            self.own.crypt_host(task.direction, work(UNITS[at]))?;
            let seconds = begun.elapsed().as_secs_f64();
            same(self.own.host_bytes()?.1, &expected[at])?;
            Ok(seconds)
        })?;
        rows(task, bytes, &samples, [Some(HOST_MARK); 2])
    }

    fn papers(
        &mut self,
        device: &mut PapersDevice<'_>,
        input: &[u8],
    ) -> Result<Vec<Beside>, String> {
        let (direction, bytes) = (Direction::Encrypt, self.host_bytes);
        let mut found = Vec::new();
        for size in [AesSize::Aes128, AesSize::Aes256] {
            let cpu = self.load(size)?;
            device.key(size, &key(size))?;
            for unit in UNITS {
                let mut expected = vec![0; bytes];
                cpu.crypt(direction, unit, 0, input, &mut expected)?;
                let xts = Xts::new(size, &key(size), unit / BLOCK);
                let work = Work {
                    first: 0,
                    unit,
                    len: bytes,
                };
                let samples = timed(2, self.rounds, |lane| {
                    if lane == 0 {
                        let times = device.run(&xts, Step::By128, STREAMS, &expected)?;
                        let kernels = times.kernels.ok_or("the kernels have no time")?;
                        return Ok([kernels, times.total]);
                    }
                    let begun = Instant::now();
                    self.own.crypt_resident(direction, work)?;
                    let kernels = begun.elapsed().as_secs_f64();
                    let begun = Instant::now();
                    self.own.crypt_host(direction, work)?;
                    let total = begun.elapsed().as_secs_f64();
                    same(self.own.host_bytes()?.1, &expected)?;
                    Ok([kernels, total])
                })?;
                let rates = |which: usize| {
                    let of = |lane: usize| seconds(&samples[lane], |sample| sample[which]);
                    Some(Rates {
                        gb_per_s: rate(bytes, &of(1))?,
                        papers_gb_per_s: rate(bytes, &of(0))?,
                        times: stats::ratios(&of(0), &of(1))?,
                    })
                };
                found.push(Beside {
                    key_bits: size.bits(),
                    unit_bytes: unit,
                    kernels: rates(0).ok_or(NO_ROUNDS)?,
                    total: rates(1).ok_or(NO_ROUNDS)?,
                });
            }
        }
        Ok(found)
    }

    /// Compares the whole output on the device with the CPU's.
    fn see_all(&self, task: Task, cpu: &Cpu, unit: usize) -> Result<(), String> {
        for at in (0..self.bytes).step_by(self.pattern.len()) {
            self.see(task, cpu, unit, at, self.pattern.len())?;
        }
        Ok(())
    }

    /// Compares some units, including the first and the last.
    fn see_some(&self, task: Task, cpu: &Cpu, unit: usize) -> Result<(), String> {
        let units = self.bytes / unit;
        for sample in 0..SAMPLES {
            let at = (units - 1) * sample / (SAMPLES - 1);
            self.see(task, cpu, unit, at * unit, unit)?;
        }
        Ok(())
    }

    /// Compares at most `len` bytes from `at` on.
    fn see(&self, task: Task, cpu: &Cpu, unit: usize, at: usize, len: usize) -> Result<(), String> {
        let len = len.min(self.bytes - at);
        let input = &self.pattern[at % self.pattern.len()..][..len];
        let (mut found, mut expected) = (vec![0; len], vec![0; len]);
        self.own.read(at, &mut found)?;
        cpu.crypt(task.direction, unit, at / unit, input, &mut expected)?;
        same(&found, &expected)
    }
}

/// The CPU's key, which computes the expected results.
struct Cpu {
    key: Box<dyn LoadedKey>,
    executor: Executor,
}

impl Cpu {
    /// Processes units of `unit` bytes, numbered from `first`.
    fn crypt(
        &self,
        direction: Direction,
        unit: usize,
        first: usize,
        input: &[u8],
        output: &mut [u8],
    ) -> Result<(), String> {
        let unit = DataUnitLen::new(unit).map_err(|e| e.to_string())?;
        let bytes = InOut::Separate { input, output };
        let run = Run::new((first as u64).into(), 1, unit, bytes).map_err(|e| e.to_string())?;
        self.executor
            .crypt(&*self.key, direction, &mut [run])
            .map_err(|e| e.to_string())
    }
}

fn same(found: &[u8], expected: &[u8]) -> Result<(), String> {
    if found == expected {
        return Ok(());
    }
    Err("the bytes differ from the CPU's".into())
}

/// Returns the data key, then the tweak key. Nothing depends on its value.
fn key(size: AesSize) -> Vec<u8> {
    (1..).take(2 * size.bytes()).collect()
}

const NO_ROUNDS: &str = "no round was measured";

/// Runs every contestant once to warm up, then takes turns. Returns the samples of each.
fn timed<T: Clone>(
    lanes: usize,
    rounds: usize,
    mut run: impl FnMut(usize) -> Result<T, String>,
) -> Result<Vec<Vec<T>>, String> {
    for lane in 0..lanes {
        run(lane)?;
    }
    let mut samples = vec![Vec::new(); lanes];
    for lane in stats::turns(rounds, lanes) {
        samples[lane].push(run(lane)?);
    }
    Ok(samples)
}

fn seconds<T>(samples: &[T], of: impl Fn(&T) -> f64) -> Vec<Option<f64>> {
    samples.iter().map(|sample| Some(of(sample))).collect()
}

fn rate(bytes: usize, seconds: &[Option<f64>]) -> Option<Summary> {
    let rates = seconds.iter().flatten().map(|s| bytes as f64 / s / 1e9);
    Summary::from_samples(rates.collect())
}

/// `samples` has those of the copy first, then those of each unit length.
fn rows(
    task: Task,
    bytes: usize,
    samples: &[Vec<f64>],
    marks: [Option<f64>; UNITS.len()],
) -> Result<Vec<DeviceRate>, String> {
    let all: Vec<_> = samples.iter().map(|lane| seconds(lane, |&s| s)).collect();
    let [copy, long, _] = all.as_slice() else {
        return Err(NO_ROUNDS.into());
    };
    let row = |at: usize| {
        let own = &all[at + 1];
        Some(DeviceRate {
            key_bits: task.size.bits(),
            direction: direction_name(task.direction),
            unit_bytes: UNITS[at],
            gb_per_s: rate(bytes, own)?,
            copy_gb_per_s: rate(bytes, copy)?,
            of_copy: stats::ratios(copy, own)?,
            of_copy_mark: marks[at],
            of_4096: if at == 0 {
                None
            } else {
                stats::ratios(long, own)
            },
        })
    };
    let rows = (0..UNITS.len()).map(row).collect::<Option<_>>();
    rows.ok_or_else(|| NO_ROUNDS.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> Plan {
        Plan {
            bytes: Some(8192),
            quick: true,
            engine: Some("portable".into()),
            threads: NonZeroUsize::MIN,
        }
    }

    /// The committed PTX in the emulator: all calls of a GPU, and their results.
    #[test]
    fn everything_runs_on_the_emulated_gpu() {
        let (plan, mut own) = (plan(), devices::emulated().luxor);
        let mut gpu = devices::emulated().papers;
        let mut session = Session::new(&mut *own, &plan, 8000, 1).unwrap();
        let found = session.measure(&mut *gpu).unwrap();
        assert_eq!((found.resident_bytes, found.host_bytes), (8192, 8192));
        for rows in [&found.resident, &found.host] {
            let named: Vec<_> = rows
                .iter()
                .map(|row| (row.key_bits, row.direction, row.unit_bytes))
                .collect();
            assert_eq!(named.len(), 8);
            assert_eq!(
                named[..3],
                [
                    (128, "encrypt", 4096),
                    (128, "encrypt", 512),
                    (128, "decrypt", 4096)
                ]
            );
            assert_eq!(named[7], (256, "decrypt", 512));
            assert!(
                rows.iter()
                    .all(|row| (row.unit_bytes == 512) == row.of_4096.is_some())
            );
        }
        let marks: Vec<_> = found.resident.iter().map(|row| row.of_copy_mark).collect();
        assert_eq!(marks[..2], [Some(0.32), None]);
        assert_eq!(marks[4..6], [Some(0.23), None]);
        assert_eq!(found.papers.len(), 4);
        assert_eq!(found.no_papers, None);
        sections_are_whole(found);
    }

    /// Checks the section with rows of the paper and without.
    fn sections_are_whole(found: OnDevice) {
        let mut report = Report {
            rounds: 1,
            devices: vec![found],
            absent: vec!["opencl: there is none".to_owned()],
        };
        let section = report.section();
        section.assert_whole();
        let [_, _, papers] = section.tables.as_slice() else {
            panic!("{} tables", section.tables.len())
        };
        assert_eq!(papers.rows.len(), 4);
        assert_eq!((section.plots.len(), section.absent.len()), (2, 1));
        assert!(section.conclusion.unwrap().contains("An and Seo's"));
        report.devices[0].papers.clear();
        report.devices[0].no_papers = Some("it has no such device".to_owned());
        let section = report.section();
        section.assert_whole();
        assert_eq!((section.tables.len(), section.plots.len()), (2, 1));
        assert!(section.absent[1].ends_with("it has no such device"));
        assert!(!section.conclusion.unwrap().contains("An and Seo's"));
    }

    #[test]
    fn a_wrong_answer_ends_it() {
        let (plan, mut own) = (plan(), devices::emulated().luxor);
        let mut session = Session::new(&mut *own, &plan, 8192, 1).unwrap();
        let (size, direction) = (AesSize::Aes128, Direction::Encrypt);
        let task = Task { size, direction };
        let cpu = session.load(AesSize::Aes256).unwrap();
        assert!(session.resident(task, &cpu, 1.0).is_ok());
        // Now the device has a different key from the CPU's.
        session.load(AesSize::Aes128).unwrap();
        let wrong = "the bytes differ from the CPU's";
        assert_eq!(session.resident(task, &cpu, 1.0).unwrap_err(), wrong);
        assert_eq!(session.host(task, &cpu).unwrap_err(), wrong);
        session.own.copy_resident(8192).unwrap();
        assert_eq!(session.see_all(task, &cpu, 512).unwrap_err(), wrong);
        assert_eq!(session.see_some(task, &cpu, 512).unwrap_err(), wrong);
        let mut idle = devices::double::Idle::new();
        let papers = session.measure(&mut idle).unwrap_err();
        assert_eq!(papers, "the bytes differ from the naive CPU's");
    }

    #[test]
    fn ratios_are_to_the_copy_and_to_long_units() {
        let (size, direction) = (AesSize::Aes256, Direction::Decrypt);
        let task = Task { size, direction };
        let samples = [vec![1.0, 2.0], vec![2.0, 4.0], vec![4.0, 8.0]];
        let rows = rows(task, 2_000_000_000, &samples, [Some(0.23), None]).unwrap();
        assert_eq!(rows[0].of_copy.median, 0.5);
        assert_eq!(rows[1].of_copy.median, 0.25);
        assert_eq!(rows[1].of_4096.unwrap().median, 0.5);
        assert_eq!(rows[0].gb_per_s.median, 0.75);
        assert_eq!(rows[0].copy_gb_per_s.median, 1.5);
    }
}
