// SPDX-License-Identifier: MIT OR Apache-2.0
//! `reencrypt`: `luxor reencrypt` of a volume where it is, in turn with `cryptsetup reencrypt` of the
//! same volume, and with a copy in place, which also reads and writes each byte once. Then
//! `luxor serve --reencrypt` of a volume that clients [use](online).
//!
//! Each run begins with the volume that the run before has left, on a disk without its bytes in the page
//! cache. Before anything is timed, and again
//! after all rounds, the volume is decrypted and every byte is compared.

mod copy;
mod online;
mod section;
mod volume;

use std::{
    env,
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
    time::Duration,
};

use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};

use self::volume::Volume;
pub(crate) use copy::{COPY, copy};

use crate::{
    bench::{Bench, Context},
    fio,
    program::{self, Folder, Program},
    stats::{self, Summary},
};

/// The options of the bench.
pub(crate) struct Plan {
    luxor: PathBuf,
    folder: PathBuf,
    ways: Vec<Usage>,
    /// Whether the ways were requested, so that a missing program is an error.
    all_are_needed: bool,
    /// The length of the plaintext.
    bytes: usize,
    /// Its length where clients use it. The re-encryption must last longer than they work.
    online_bytes: usize,
    quick: bool,
    rounds: usize,
    /// For how long clients work in each round.
    turn: Duration,
    /// How many threads copy.
    threads: usize,
    /// `--engine` and `--threads`, as given.
    options: Vec<String>,
}

/// Whether anything else uses the volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Usage {
    /// luxor reencrypt and cryptsetup reencrypt
    Offline,
    /// Clients of luxor serve --reencrypt
    Online,
}

#[derive(Debug, Args)]
#[group(skip)]
pub(crate) struct Options {
    /// Only volumes that nothing else uses, or only those that clients use [default: both]
    #[arg(
        long = "reencrypt",
        value_enum,
        value_name = "WAY",
        help_heading = "Only for reencrypt"
    )]
    ways: Vec<Usage>,
}

impl Bench for Plan {
    const HELP: &'static str = "luxor and cryptsetup re-encrypting the same volume, compared with a copy in place, and clients \
         of luxor serve --reencrypt";
    const ABOUT: &'static str = "\
Measure `luxor reencrypt` and `luxor serve --reencrypt`

Offline: `luxor reencrypt` gives a LUKS2 volume a new key, with --resilience checksum, journal and none, \
in turn with `cryptsetup reencrypt` of the same volume and with a copy in place. This needs cryptsetup, \
and root for it; otherwise only Luxor and the copy are measured.

Online: a client writes to `luxor serve --reencrypt` and reads that back, in turn with the same server of \
the same volume without a re-encryption. The results are its throughput, the 99th percentile of its \
latency, and the speed of the re-encryption, with checksum and journal, at the default rate. The client \
is fio, with its engine nbd. It verifies all data.

Temporary files, twice the --size, are in --dir.";
    const SIZE: Option<&'static str> = Some(
        "length of the data, rounded up to 4K [default: 1G, quick: 64M, where clients use it: 256M]",
    );
    type Options = Options;
    type Report = Report;

    fn new(context: &Context, options: Options) -> Result<Self, String> {
        let settings = &context.settings;
        let chosen = options.ways;
        let bytes = |quick: usize| settings.bytes(1 << 30, quick).next_multiple_of(SECTOR);
        Ok(Self {
            luxor: settings.luxor()?,
            folder: settings.dir.clone(),
            all_are_needed: !chosen.is_empty(),
            ways: match chosen.as_slice() {
                [] => Usage::value_variants().to_vec(),
                _ => chosen,
            },
            bytes: bytes(64 << 20),
            online_bytes: bytes(256 << 20).next_multiple_of(ONLINE_STEP),
            quick: settings.quick,
            turn: settings.turn_or_quick(500),
            rounds: if settings.quick { 3 } else { 7 },
            threads: settings.all_threads().get(),
            options: settings.options_of_luxor(),
        })
    }

    fn check(&self) -> Result<(), String> {
        if self.all_are_needed && self.wants(Usage::Online) {
            fio::version()?;
        }
        self.check_room().map(drop)
    }

    fn measure(&self) -> Result<Report, String> {
        let mut report = Report {
            data_bytes: self.bytes,
            in_memory: self.check_room()?,
            rounds: self.rounds,
            threads: self.threads,
            cryptsetup: None,
            rows: Vec::new(),
            absent: Vec::new(),
            online: None,
        };
        if self.wants(Usage::Offline) {
            self.measure_offline(&mut report)?;
        }
        if self.wants(Usage::Online) {
            report.online = Some(online::Report::measure(self)?);
        }
        Ok(report)
    }

    fn section(report: &Report) -> crate::section::Section {
        report.section()
    }
}

impl Plan {
    fn wants(&self, way: Usage) -> bool {
        self.ways.contains(&way)
    }

    fn measure_offline(&self, report: &mut Report) -> Result<(), String> {
        let folder = Folder::new(&self.folder)?;
        let mut session = Session::new(self, folder.path(), report.in_memory)?;
        let cryptsetup = session.find_cryptsetup();
        if cryptsetup.is_err() {
            session.leave_cryptsetup_out()?;
        }
        for turn in 0..session.turns.len() {
            session.run_and_compare(turn)?;
        }
        for turn in stats::turns(self.rounds, session.turns.len()) {
            session.run(turn, true)?;
        }
        session.volume.compare()?;
        report.rows = session.rows();
        report.absent.extend(cryptsetup.as_ref().err().cloned());
        report.cryptsetup = cryptsetup.ok();
        Ok(())
    }

    /// Checks that there is room, and returns whether the folder is in memory.
    fn check_room(&self) -> Result<bool, String> {
        let sizes = [
            (Usage::Offline, self.bytes),
            (Usage::Online, self.online_bytes),
        ];
        let sizes = sizes.into_iter().filter(|(way, _)| self.wants(*way));
        let longest = sizes.map(|(_, bytes)| bytes).max().unwrap_or_default();
        let needed = (longest as u64).saturating_mul(2).saturating_add(64 << 20);
        program::check_room(&self.folder, needed, "the data and the volume")
    }
}

/// The result of the bench.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Report {
    data_bytes: usize,
    /// Whether the folder is on `tmpfs`. Everything else is slower.
    in_memory: bool,
    rounds: usize,
    /// How many threads copied in place.
    threads: usize,
    /// The version of cryptsetup; `None` if it was left out.
    cryptsetup: Option<String>,
    rows: Vec<Times>,
    /// Why cryptsetup was left out.
    absent: Vec<String>,
    /// `None` if only `rows` were measured.
    #[serde(default)]
    online: Option<online::Report>,
}

#[derive(Debug, Deserialize, Serialize)]
struct Times {
    contestant: Contestant,
    /// `None` for the copy.
    resilience: Option<Resilience>,
    seconds: Summary,
    /// 10⁹ bytes of data per second.
    gb_per_s: f64,
    /// How many times as fast as cryptsetup Luxor was in the same round.
    times: Option<Summary>,
    /// How many times as fast as the copy Luxor was in the same round.
    of_copy: Option<Summary>,
    /// The most memory that the process used at a time.
    peak_bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
enum Contestant {
    Copy,
    Cryptsetup,
    Luxor,
}

/// What protects the data during a re-encryption.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
enum Resilience {
    Checksum,
    Journal,
    None,
}

impl Resilience {
    const ALL: [Self; 3] = [Self::Checksum, Self::Journal, Self::None];

    /// Returns the value of `--resilience`.
    fn name(self) -> &'static str {
        match self {
            Self::Checksum => "checksum",
            Self::Journal => "journal",
            Self::None => "none",
        }
    }
}

const SECTOR: usize = 4096;

/// A disk has whole requests of the longest kind.
const ONLINE_STEP: usize = 1 << 20;

/// The cheapest key derivation: opening the keyslot must not count.
const CHEAP: [&str; 3] = ["--pbkdf=pbkdf2", "--pbkdf-force-iterations", "1000"];

/// The volume, and the programs that process it.
struct Session<'a> {
    plan: &'a Plan,
    in_memory: bool,
    volume: Volume<'a>,
    turns: Vec<Turn>,
}

struct Turn {
    contestant: Contestant,
    resilience: Option<Resilience>,
    program: Program,
}

impl<'a> Session<'a> {
    fn new(plan: &'a Plan, folder: &Path, in_memory: bool) -> Result<Self, String> {
        let mut session = Self {
            plan,
            in_memory,
            volume: Volume::new(plan, plan.bytes, folder)?,
            turns: Vec::new(),
        };
        session.volume.encrypt()?;
        session.turns.push(session.copy()?);
        for resilience in Resilience::ALL {
            session.turns.extend([
                session.reencrypt(Contestant::Luxor, resilience),
                session.reencrypt(Contestant::Cryptsetup, resilience),
            ]);
        }
        Ok(session)
    }

    fn copy(&self) -> Result<Turn, String> {
        let own = env::current_exe().map_err(|e| e.to_string())?;
        let (threads, bytes) = (self.plan.threads.to_string(), self.plan.bytes.to_string());
        let on_disk = (!self.in_memory).to_string();
        let path = &self.volume.path;
        let words: [&dyn AsRef<OsStr>; 6] = [&own, &COPY, &threads, &bytes, &on_disk, path];
        Ok(Turn {
            contestant: Contestant::Copy,
            resilience: None,
            program: Program::new(words.map(OsString::from).to_vec()),
        })
    }

    fn reencrypt(&self, contestant: Contestant, resilience: Resilience) -> Turn {
        let mut words = if contestant == Contestant::Luxor {
            self.volume.luxor("reencrypt")
        } else {
            let words = ["cryptsetup", "reencrypt", "--force-offline-reencrypt", "-q"];
            let mut words = words.map(OsString::from).to_vec();
            words.extend(["--key-file".into(), OsString::from(&self.volume.key)]);
            words
        };
        words.extend(CHEAP.map(OsString::from));
        words.extend(["--resilience", resilience.name()].map(OsString::from));
        words.push(OsString::from(&self.volume.path));
        Turn {
            contestant,
            resilience: Some(resilience),
            program: Program::new(words),
        }
    }

    /// Returns the version of cryptsetup, or why it cannot be measured. Only root can take its lock.
    fn find_cryptsetup(&mut self) -> Result<String, String> {
        let version = program::first_line("cryptsetup", &["--version"])?;
        let mut turns = self.turns.iter();
        let first = turns.position(|turn| turn.contestant == Contestant::Cryptsetup);
        let first = first.expect("cryptsetup has turns");
        self.turns[first].program.run(false)?;
        // The list of what it was built with follows.
        let version = version.split(" flags").next().unwrap_or_default();
        Ok(version.to_owned())
    }

    /// Makes the volume again, because a re-encryption may have begun.
    fn leave_cryptsetup_out(&mut self) -> Result<(), String> {
        self.turns
            .retain(|turn| turn.contestant != Contestant::Cryptsetup);
        self.volume.encrypt()
    }

    /// Runs a contestant. Every one but the copy must leave the last sector with another key.
    fn run(&mut self, turn: usize, timed: bool) -> Result<(), String> {
        let before = self.volume.last_sector()?;
        if !self.in_memory {
            self.volume.leave_cache()?;
        }
        let turn = &mut self.turns[turn];
        turn.program.run(timed)?;
        let is_copy = turn.contestant == Contestant::Copy;
        let name = turn.name();
        if (self.volume.last_sector()? == before) == is_copy {
            Ok(())
        } else if is_copy {
            Err(format!("{name} has changed the data"))
        } else {
            Err(format!("{name} has not changed the volume key"))
        }
    }

    fn run_and_compare(&mut self, turn: usize) -> Result<(), String> {
        self.run(turn, false)?;
        let name = self.turns[turn].name();
        self.volume
            .compare()
            .map_err(|e| format!("after {name}: {e}"))
    }

    fn rows(&self) -> Vec<Times> {
        let seconds = |contestant, resilience| {
            let mut turns = self.turns.iter();
            let turn =
                turns.find(|turn| (turn.contestant, turn.resilience) == (contestant, resilience));
            turn.map(|turn| turn.program.lane.seconds.as_slice())
        };
        let row = |turn: &Turn| {
            let lane = &turn.program.lane;
            let taken = Summary::from_samples(lane.seconds.iter().flatten().copied().collect())?;
            let is_luxor = turn.contestant == Contestant::Luxor;
            let compared = |contestant, resilience| {
                let theirs = seconds(contestant, resilience).filter(|_| is_luxor)?;
                stats::ratios(theirs, &lane.seconds)
            };
            Some(Times {
                contestant: turn.contestant,
                resilience: turn.resilience,
                seconds: taken,
                gb_per_s: self.plan.bytes as f64 / taken.median / 1e9,
                times: compared(Contestant::Cryptsetup, turn.resilience),
                of_copy: compared(Contestant::Copy, None),
                peak_bytes: lane.peak,
            })
        };
        self.turns.iter().filter_map(row).collect()
    }
}

impl Turn {
    fn name(&self) -> String {
        name(self.contestant, self.resilience)
    }
}

/// Returns the name of a contestant in tables and messages.
fn name(contestant: Contestant, resilience: Option<Resilience>) -> String {
    let resilience = resilience.map_or("", Resilience::name);
    match contestant {
        Contestant::Copy => "copy in place".to_owned(),
        Contestant::Cryptsetup => format!("cryptsetup reencrypt, {resilience}"),
        Contestant::Luxor => format!("luxor reencrypt, {resilience}"),
    }
}
