// SPDX-License-Identifier: MIT OR Apache-2.0
//! The study of the co-processor: the paper's Tables 1 and 2 and Figures 4 and 5, with Luxor's core
//! as the co-processor, and with a given cost of setting up requests.

use std::{
    fs,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use luxor_engine::{Backend, Buffer, Direction, InOut};
use md5::{Digest, Md5, digest};
use serde::{Deserialize, Serialize};

use super::{
    Plan,
    access::AccessCosts,
    breakdown::{BUFFER, BYTES},
    cycles::{self, Cycles, Kind, Measured, Waiting},
    published,
};
use crate::{
    cipher::{crypt, direction_name},
    coprocessor::{
        CONFIGURATIONS, Configuration, Coprocessor, Device, Linear, Pace, RequestTimes, SOFTWARE,
        Times, UNIT, Work,
    },
    disk::{self, Transform},
    fio::{self, Access, Load},
    plaintext::{self, Pattern},
    program::Folder,
    server::Server,
    stats::{self, Summary},
};

/// The result of the study.
#[derive(Debug, Deserialize, Serialize)]
#[serde(bound(deserialize = "'de: 'static"))]
pub(super) struct Study {
    pub(super) cost: Cost,
    /// The number of pairs of configurations, of which each reads what the other wrote.
    pub(super) compatible_pairs: usize,
    pub(super) rounds: usize,
    #[serde(default)]
    pub(super) served_rounds: Option<usize>,
    /// Bytes that were measured for `digest`, and for the rows of `breakdown` that use the
    /// co-processor. The results are scaled to `bytes`, the paper's size.
    pub(super) measured_bytes: usize,
    pub(super) bytes: usize,
    pub(super) breakdown: Vec<Breakdown>,
    /// The rows of `breakdown` that use the co-processor, with the set-up that was counted in the
    /// core's own driver.
    #[serde(default)]
    pub(super) breakdown_by_driver: Vec<Breakdown>,
    pub(super) digest: Vec<DigestTimes>,
    pub(super) served: Vec<Served>,
}

/// The cost of a request.
#[derive(Debug, Deserialize, Serialize)]
#[serde(bound(deserialize = "'de: 'static"))]
pub(super) struct Cost {
    /// Nanoseconds to set up a request for data in each direction, and for the data unit numbers.
    pub(super) setup_encrypt: f64,
    pub(super) setup_decrypt: f64,
    #[serde(default)]
    pub(super) setup_numbers_encrypt: f64,
    #[serde(default)]
    pub(super) setup_numbers_decrypt: f64,
    /// Whether all are from the paper's Tables 1 and 2.
    pub(super) setup_is_the_papers: bool,
    #[serde(default)]
    pub(super) access: Option<AccessCosts>,
    pub(super) clock_mhz: f64,
    /// The clock for decryption; `None` in results of version 0.2.0, which used that for encryption.
    #[serde(default)]
    pub(super) clock_decrypt_mhz: Option<f64>,
    /// Whether the clocks are those of the committed synthesis.
    pub(super) clock_is_recorded: bool,
    pub(super) cycles: Cycles,
    /// What the core and its driver do for a request. Empty in results of version 0.2.0, which has
    /// no request for the data unit numbers either.
    #[serde(default)]
    pub(super) requests: Vec<Measured>,
}

/// Where the time for setting up a request comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Setup {
    /// The paper's tables, or the user.
    Given,
    /// What the core's driver does, at the stated costs.
    Driver,
}

/// A column of Table 1 or 2, in seconds, scaled to all bytes.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct Breakdown {
    pub(super) direction: &'static str,
    #[serde(flatten)]
    pub(super) configuration: Configuration,
    pub(super) total: Summary,
    /// `None` if the CPU does everything at once.
    pub(super) parts: Option<Parts>,
    /// The share of requests for which the engine, acting as the core, was slower than the core.
    /// Their time is not the core's.
    pub(super) late: f64,
}

#[derive(Debug, Deserialize, Serialize)]
pub(super) struct Parts {
    pub(super) tweaks: Summary,
    /// The part of `tweaks` in which the co-processor encrypts the data unit numbers.
    #[serde(default)]
    pub(super) numbers: Option<Summary>,
    pub(super) first_xor: Summary,
    pub(super) second_xor: Summary,
    pub(super) device: Summary,
    pub(super) other: Summary,
}

/// A row of Figure 4: MD5 of a decrypted file, in seconds, scaled to all bytes.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct DigestTimes {
    #[serde(flatten)]
    pub(super) configuration: Configuration,
    pub(super) total: Summary,
    pub(super) md5: Summary,
    pub(super) driver: Summary,
    pub(super) rest: Summary,
}

/// A row of Figure 5.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct Served {
    pub(super) disk_bytes: usize,
    pub(super) load: Load,
    #[serde(flatten)]
    pub(super) configuration: Configuration,
    pub(super) mib_per_s: Summary,
}

/// The rows of the totals.
pub(super) const TOTALS: [(Work, Setup); 5] = [
    (Work::Software, Setup::Given),
    (Work::Mixed, Setup::Given),
    (Work::Mixed, Setup::Driver),
    (Work::Offloaded, Setup::Given),
    (Work::Offloaded, Setup::Driver),
];

/// Bytes per read or write for a digest: the length that Linux reads ahead.
const READ: usize = 128 << 10;

/// Bytes in a quick run for work that otherwise takes seconds, as on the paper's board. Whole
/// buffers.
const QUICK_BYTES: usize = 24 * BUFFER;

/// The size of the largest disk.
pub(super) const ROOM: usize = DISKS[1];

/// The disks of Figure 5, in the paper's order.
pub(super) const DISKS: [usize; 2] = [256 << 20, 512 << 20];

/// Runs the study, including Figure 5 if `serve` is set.
pub(super) fn measure(
    plan: &Plan,
    backend: &Arc<dyn Backend>,
    folder: &Folder,
    serve: bool,
) -> Result<Study, String> {
    let cost = Cost::from_plan(plan, cycles::measure()?)?;
    let compatible_pairs = compare_all(&**backend)?;
    let rounds = if plan.quick { 3 } else { 5 };
    let measured = if plan.quick { QUICK_BYTES } else { BYTES };
    let [breakdown, breakdown_by_driver] = breakdown(&**backend, &cost, measured, rounds)?;
    Ok(Study {
        breakdown,
        breakdown_by_driver,
        digest: digests(backend, &cost, folder, measured, rounds)?,
        served: if serve {
            served(plan, &cost, folder)?
        } else {
            Vec::new()
        },
        cost,
        compatible_pairs,
        rounds,
        served_rounds: Some(served_rounds(plan)),
        measured_bytes: measured,
        bytes: BYTES,
    })
}

impl Cost {
    fn from_plan(plan: &Plan, requests: Vec<Measured>) -> Result<Self, String> {
        let given = plan.setup.map(|setup| setup.as_secs_f64() * 1e9);
        let setup = |table, row| given.unwrap_or_else(|| published::setup_nanoseconds(table, row));
        let clock = |direction| {
            let mhz = plan.clock_mhz.or_else(|| recorded_mhz(direction));
            mhz.ok_or("the record of the core's synthesis has no clock")
        };
        Ok(Self {
            setup_encrypt: setup(&published::TABLE_1, published::CIPHER),
            setup_decrypt: setup(&published::TABLE_2, published::CIPHER),
            setup_numbers_encrypt: setup(&published::TABLE_1, published::TWEAKS),
            setup_numbers_decrypt: setup(&published::TABLE_2, published::TWEAKS),
            setup_is_the_papers: given.is_none(),
            access: Some(AccessCosts::measure(&plan.access)?),
            clock_mhz: clock(Direction::Encrypt)?,
            clock_decrypt_mhz: Some(clock(Direction::Decrypt)?),
            clock_is_recorded: plan.clock_mhz.is_none(),
            cycles: Cycles::from_requests(&requests).ok_or("the simulation lacks a request")?,
            requests,
        })
    }

    /// Returns the nanoseconds for setting up a request, by its number of 512-byte data units. The
    /// driver waits for interrupts, as in the paper's section 3.1.
    pub(super) fn setup(&self, setup: Setup, kind: Kind, direction: Direction) -> Linear {
        match setup {
            Setup::Driver => self
                .by_driver(kind, direction, Waiting::Interrupts)
                .unwrap_or_default(),
            Setup::Given => Linear {
                first: match (kind, direction) {
                    (Kind::Numbers, Direction::Encrypt) => self.setup_numbers_encrypt,
                    (Kind::Numbers, Direction::Decrypt) => self.setup_numbers_decrypt,
                    (_, Direction::Encrypt) => self.setup_encrypt,
                    (_, Direction::Decrypt) => self.setup_decrypt,
                },
                next: 0.0,
            },
        }
    }

    /// Returns the nanoseconds of what the driver does for a request.
    pub(super) fn by_driver(
        &self,
        kind: Kind,
        direction: Direction,
        waiting: Waiting,
    ) -> Option<Linear> {
        let access = self.access?;
        let counts = cycles::counts(&self.requests, kind, direction, waiting)?;
        Some(cycles::through(counts.map(|one| access.nanoseconds(&one))))
    }

    /// Returns the nanoseconds for a request, by its number of 512-byte data units.
    pub(super) fn time(&self, setup: Setup, kind: Kind, direction: Direction) -> Linear {
        let setup = self.setup(setup, kind, direction);
        let cycles = self.cycles.line(kind, direction);
        let period = 1e3 / self.mhz(direction);
        Linear {
            first: setup.first + cycles.first * period,
            next: setup.next + cycles.next * period,
        }
    }

    pub(super) fn mhz(&self, direction: Direction) -> f64 {
        match direction {
            Direction::Encrypt => self.clock_mhz,
            Direction::Decrypt => self.clock_decrypt_mhz.unwrap_or(self.clock_mhz),
        }
    }

    fn pace(&self, setup: Setup, work: Work) -> Pace {
        let times = |direction| {
            let time = |kind| self.time(setup, kind, direction);
            match work {
                Work::Software => RequestTimes::default(),
                Work::Mixed => RequestTimes {
                    numbers: time(Kind::Numbers),
                    data: time(Kind::Ecb),
                },
                Work::Offloaded => RequestTimes {
                    numbers: Linear::default(),
                    data: time(Kind::Xts),
                },
            }
        };
        Pace {
            encrypt: times(Direction::Encrypt),
            decrypt: times(Direction::Decrypt),
        }
    }

    fn device(&self, configuration: Configuration) -> Device {
        Device {
            configuration,
            pace: self.pace(Setup::Given, configuration.work),
        }
    }
}

/// Returns the clock of the core on the part for which it was routed: the build that only encrypts, with
/// AES-128, and the whole core, which decrypts too.
fn recorded_mhz(direction: Direction) -> Option<f64> {
    let point = match direction {
        Direction::Encrypt => "ecp5-aes128-enc",
        Direction::Decrypt => "ecp5-whole-dedicated",
    };
    let record = include_str!("../../../../rtl/syn/record.json");
    let record: serde_json::Value = serde_json::from_str(record).ok()?;
    record["points"][point]["mhz"].as_f64()
}

/// Checks that each configuration reads what each configuration wrote, and that they all write the
/// engine's bytes. Returns the number of pairs.
fn compare_all(backend: &dyn Backend) -> Result<usize, String> {
    const LEN: usize = 64 << 10;
    let mut plain = Buffer::zeroed(LEN);
    Pattern::new().fill(&mut plain);
    let all = CONFIGURATIONS.map(|configuration| {
        Coprocessor::new(backend, disk::short_key(), configuration, Pace::default())
    });
    let all: Vec<_> = all.into_iter().collect::<Result<_, _>>()?;
    let mut pairs = 0;
    for (writer, writes) in all.iter().zip(CONFIGURATIONS) {
        let mut cipher = Buffer::zeroed(LEN);
        cipher.copy_from_slice(&plain);
        crypt(
            writer,
            Direction::Encrypt,
            0_u64,
            UNIT,
            InOut::InPlace(&mut cipher),
        )?;
        for (reader, reads) in all.iter().zip(CONFIGURATIONS) {
            let mut found = Buffer::zeroed(LEN);
            let io = InOut::Separate {
                input: &cipher,
                output: &mut found,
            };
            crypt(reader, Direction::Decrypt, 0_u64, UNIT, io)?;
            if found[..] != plain[..] {
                return Err(format!(
                    "{} does not read what {} wrote",
                    reads.text(),
                    writes.text()
                ));
            }
            pairs += 1;
        }
    }
    Ok(pairs)
}

/// Measures Tables 1 and 2, with both kinds of set-up.
fn breakdown(
    backend: &dyn Backend,
    cost: &Cost,
    measured: usize,
    rounds: usize,
) -> Result<[Vec<Breakdown>; 2], String> {
    // The buffer is used again and again, so it stays in a cache.
    let mut buffer = Buffer::zeroed(BUFFER);
    Pattern::new().fill(&mut buffer);
    let given = CONFIGURATIONS.map(|configuration| (Setup::Given, configuration));
    let by_driver = CONFIGURATIONS.map(|configuration| (Setup::Driver, configuration));
    let lanes = given.into_iter().chain(by_driver);
    let lanes: Vec<_> = lanes
        .filter(|(setup, configuration)| {
            *setup == Setup::Given || configuration.work != Work::Software
        })
        .collect();
    let mut rows = [Vec::new(), Vec::new()];
    for direction in Direction::ALL {
        let load = |&(setup, configuration): &(Setup, Configuration)| {
            let pace = cost.pace(setup, configuration.work);
            Coprocessor::new(backend, disk::short_key(), configuration, pace)
        };
        let keys: Vec<_> = lanes.iter().map(load).collect::<Result<_, _>>()?;
        // Software takes only milliseconds for all bytes.
        let bytes = |at: usize| match lanes[at].1.work {
            Work::Software => BYTES,
            Work::Mixed | Work::Offloaded => measured,
        };
        let mut samples = vec![Vec::new(); lanes.len()];
        for at in stats::turns(rounds, keys.len()) {
            let begun = Instant::now();
            for from in (0..bytes(at)).step_by(buffer.len()) {
                let sector = (from / UNIT) as u64;
                crypt(
                    &keys[at],
                    direction,
                    sector,
                    UNIT,
                    InOut::InPlace(&mut buffer),
                )?;
            }
            samples[at].push((begun.elapsed(), keys[at].take_times()));
        }
        for (at, samples) in samples.iter().enumerate() {
            let (setup, configuration) = lanes[at];
            let row = Breakdown::from_samples(direction, configuration, samples, bytes(at))?;
            rows[setup as usize].push(row);
        }
    }
    Ok(rows)
}

impl Breakdown {
    fn from_samples(
        direction: Direction,
        configuration: Configuration,
        samples: &[(Duration, Times)],
        measured: usize,
    ) -> Result<Self, String> {
        let scale = BYTES as f64 / measured as f64;
        let summary = |of: &dyn Fn(Duration, &Times) -> f64| {
            let samples = samples
                .iter()
                .map(|(total, times)| of(*total, times) * scale);
            Summary::from_samples(samples.collect()).ok_or("no round was measured")
        };
        let part = |of: fn(&Times) -> Duration| summary(&|_, times| of(times).as_secs_f64());
        let parts = match configuration.work {
            Work::Software => None,
            Work::Mixed | Work::Offloaded => Some(Parts {
                tweaks: part(|times| times.tweaks)?,
                numbers: Some(part(|times| times.numbers)?),
                first_xor: part(|times| times.first_xor)?,
                second_xor: part(|times| times.second_xor)?,
                device: part(|times| times.device)?,
                other: summary(&|total, times| (total.saturating_sub(times.all())).as_secs_f64())?,
            }),
        };
        let sum = |of: fn(&Times) -> u64| samples.iter().map(|(_, times)| of(times)).sum::<u64>();
        Ok(Self {
            direction: direction_name(direction),
            configuration,
            total: summary(&|total, _| total.as_secs_f64())?,
            parts,
            late: sum(|times| times.late) as f64 / sum(|times| times.requests) as f64,
        })
    }
}

/// Measures Figure 4: reads an encrypted file through each configuration, and computes its MD5.
fn digests(
    backend: &Arc<dyn Backend>,
    cost: &Cost,
    folder: &Folder,
    measured: usize,
    rounds: usize,
) -> Result<Vec<DigestTimes>, String> {
    let file = folder.path().join("digest");
    let engine = backend.info().name;
    let expected = fill(&file, measured, engine, cost)?;
    let mut samples = [const { Vec::new() }; CONFIGURATIONS.len()];
    for at in stats::turns(rounds, CONFIGURATIONS.len()) {
        let transform = Transform::of_device(cost.device(CONFIGURATIONS[at]));
        let disk = transform.disk(&file, engine)?;
        let (mut md5, mut in_md5) = (Md5::new(), Duration::ZERO);
        let mut piece = vec![0; READ];
        let begun = Instant::now();
        for from in (0..measured).step_by(READ) {
            let piece = &mut piece[..READ.min(measured - from)];
            disk.read(piece, from as u64).map_err(|e| e.to_string())?;
            let begun = Instant::now();
            md5.update(&*piece);
            in_md5 += begun.elapsed();
        }
        let total = begun.elapsed();
        if md5.finalize() != expected {
            let configuration = CONFIGURATIONS[at].text();
            return Err(format!("{configuration}: the file has a different MD5"));
        }
        let driver = Duration::from_nanos(disk.engine_time().nanoseconds);
        samples[at].push([total, in_md5, driver]);
    }
    fs::remove_file(&file).map_err(|e| format!("{}: {e}", file.display()))?;
    let scale = BYTES as f64 / measured as f64;
    let row = |(configuration, samples): (Configuration, Vec<[Duration; 3]>)| {
        let summary = |of: &dyn Fn(&[Duration; 3]) -> Duration| {
            let samples = samples.iter().map(|times| of(times).as_secs_f64() * scale);
            Summary::from_samples(samples.collect()).ok_or("no round was measured")
        };
        Ok(DigestTimes {
            configuration,
            total: summary(&|times| times[0])?,
            md5: summary(&|times| times[1])?,
            driver: summary(&|times| times[2])?,
            rest: summary(&|&[total, md5, driver]| total.saturating_sub(md5 + driver))?,
        })
    };
    CONFIGURATIONS.into_iter().zip(samples).map(row).collect()
}

/// Creates a file of known bytes, encrypted by the engine. Returns the MD5 of the plaintext.
fn fill(file: &Path, len: usize, engine: &str, cost: &Cost) -> Result<digest::Output<Md5>, String> {
    let failed = |e: &dyn std::fmt::Display| format!("{}: {e}", file.display());
    let made = fs::File::create_new(file).map_err(|e| failed(&e))?;
    made.set_len(len as u64).map_err(|e| failed(&e))?;
    let disk = Transform::of_device(cost.device(SOFTWARE)).disk(file, engine)?;
    let mut md5 = Md5::new();
    let (mut pattern, mut piece) = (Pattern::new(), vec![0; plaintext::PIECE]);
    for at in (0..len).step_by(plaintext::PIECE) {
        let piece = &mut piece[..plaintext::PIECE.min(len - at)];
        pattern.fill(piece);
        md5.update(&*piece);
        disk.write(piece, at as u64).map_err(|e| failed(&e))?;
    }
    Ok(md5.finalize())
}

fn served_rounds(plan: &Plan) -> usize {
    if plan.quick { 1 } else { 3 }
}

/// Measures Figure 5: sequential access to disks of the paper's two sizes, for the length of a
/// turn.
fn served(plan: &Plan, cost: &Cost, folder: &Folder) -> Result<Vec<Served>, String> {
    /// The disk for comparing the servers' bytes is small, since the slowest server is slow.
    const COMPARED: usize = 4 << 20;
    compare_served(plan, cost, folder, COMPARED)?;
    let sizes = if plan.quick { &DISKS[..1] } else { &DISKS[..] };
    let mut rows = Vec::new();
    for &disk_bytes in sizes {
        let file = folder.path().join("served");
        fill(&file, disk_bytes, &plan.engine, cost)?;
        let servers = CONFIGURATIONS
            .iter()
            .map(|&configuration| serve(plan, cost, folder, &file, configuration))
            .collect::<Result<Vec<_>, _>>()?;
        for access in [Access::Write, Access::Read] {
            let load = Load {
                access,
                request_bytes: 64 << 10,
                depth: 16,
                connections: 1,
            };
            let mut samples = [const { Vec::new() }; CONFIGURATIONS.len()];
            for at in stats::turns(served_rounds(plan), servers.len()) {
                let found = fio::throughput(servers[at].uri(), &load, disk_bytes, plan.turn)?;
                samples[at].push(found.bytes_per_second / f64::from(1 << 20));
            }
            for (configuration, samples) in CONFIGURATIONS.into_iter().zip(samples) {
                rows.push(Served {
                    disk_bytes,
                    load,
                    configuration,
                    mib_per_s: Summary::from_samples(samples).ok_or("no round was measured")?,
                });
            }
        }
        drop(servers);
        fs::remove_file(&file).map_err(|e| format!("{}: {e}", file.display()))?;
    }
    Ok(rows)
}

/// Checks that each server returns the bytes that the software has written.
fn compare_served(plan: &Plan, cost: &Cost, folder: &Folder, len: usize) -> Result<(), String> {
    let file = folder.path().join("compared");
    fill(&file, len, &plan.engine, cost)?;
    for configuration in CONFIGURATIONS {
        let server = serve(plan, cost, folder, &file, configuration)?;
        let same = server.compare(len);
        same.map_err(|e| format!("{}: {e}", configuration.text()))?;
    }
    fs::remove_file(&file).map_err(|e| format!("{}: {e}", file.display()))
}

fn serve(
    plan: &Plan,
    cost: &Cost,
    folder: &Folder,
    file: &Path,
    configuration: Configuration,
) -> Result<Server, String> {
    let Configuration {
        work,
        request_bytes,
    } = configuration;
    let name = format!("{work:?}-{request_bytes}");
    let [socket, log] =
        ["co-socket", "co-log"].map(|end| folder.path().join(format!("{name}.{end}")));
    match fs::remove_file(&socket) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            return Err(format!("{}: {e}", socket.display()));
        }
        _ => {}
    }
    let transform = Transform::of_device(cost.device(configuration));
    let words = transform.words(file, &socket, &plan.engine);
    Server::start(&words, &socket, &log)
}

impl Study {
    /// Returns the rows of Tables 1 and 2.
    pub(super) fn rows(&self, setup: Setup) -> &[Breakdown] {
        match setup {
            Setup::Given => &self.breakdown,
            Setup::Driver => &self.breakdown_by_driver,
        }
    }
}

impl Setup {
    pub(super) const ALL: [Self; 2] = [Self::Given, Self::Driver];

    /// Returns what follows the name of a configuration.
    pub(super) fn suffix(self) -> &'static str {
        match self {
            Self::Given => "",
            Self::Driver => ", the driver's set-up",
        }
    }
}

impl Times {
    fn all(&self) -> Duration {
        self.tweaks + self.first_xor + self.second_xor + self.device
    }
}

#[cfg(test)]
mod tests {
    use luxor_engine::{BackendError, BackendInfo, CryptError, KeySpec, LoadedKey, Registry, Run};

    use super::*;

    /// The portable engine with one wrong bit in the second unit of longer runs.
    struct Flawed(Arc<dyn Backend>);

    struct FlawedKey(Box<dyn LoadedKey>);

    impl Backend for Flawed {
        fn info(&self) -> BackendInfo {
            self.0.info()
        }

        fn load_key(&self, key: &KeySpec) -> Result<Box<dyn LoadedKey>, BackendError> {
            Ok(Box::new(FlawedKey(self.0.load_key(key)?)))
        }

        fn alloc(&self, len: usize) -> Buffer {
            self.0.alloc(len)
        }
    }

    impl LoadedKey for FlawedKey {
        fn crypt(&self, direction: Direction, runs: &mut [Run<'_>]) -> Result<(), CryptError> {
            self.0.crypt(direction, runs)?;
            let long = runs.iter_mut().filter(|run| run.units() > 1);
            for run in long.filter(|_| direction == Direction::Encrypt) {
                run.output()[UNIT] ^= 1;
            }
            Ok(())
        }
    }

    #[test]
    fn wrong_bytes_give_an_error_instead_of_figures() {
        let flawed = Flawed(Registry::cpu().get("portable").unwrap());
        let message = compare_all(&flawed).unwrap_err();
        assert!(message.contains("does not read what"), "{message}");
    }

    #[test]
    fn every_configuration_reads_the_output_of_every_other() {
        let portable = Registry::cpu().get("portable").unwrap();
        assert_eq!(compare_all(&*portable), Ok(36));
    }

    #[test]
    fn the_synthesis_has_a_clock() {
        let [encrypt, decrypt] = Direction::ALL.map(|direction| recorded_mhz(direction).unwrap());
        assert!(encrypt > decrypt && decrypt > 50.0, "{encrypt} {decrypt}");
    }
}
