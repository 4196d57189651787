// SPDX-License-Identifier: MIT OR Apache-2.0
//! `reencrypt`: `luxor reencrypt` of a volume where it is, in turn with `cryptsetup reencrypt` of the
//! same volume, and with a copy in place, which also reads and writes each byte once.
//!
//! Each run begins with the volume that the run before has left. Before anything is timed, and again
//! after all rounds, the volume is decrypted and every byte is compared.

mod copy;
mod section;

use std::{
    env,
    ffi::{OsStr, OsString},
    fs::{self, File},
    io,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde::{Deserialize, Serialize};

pub(crate) use copy::{COPY, copy};

use crate::{
    bench::{Bench, Context, NoOptions},
    plaintext,
    program::{self, Folder, Program},
    stats::{self, Summary},
};

/// The options of the bench.
pub(crate) struct Plan {
    luxor: PathBuf,
    folder: PathBuf,
    /// The length of the plaintext.
    bytes: usize,
    rounds: usize,
    /// How many threads copy.
    threads: usize,
    /// `--engine` and `--threads`, as given.
    options: Vec<String>,
}

impl Bench for Plan {
    const NAME: &'static str = "reencrypt";
    const HELP: &'static str =
        "luxor and cryptsetup re-encrypting the same volume, compared with a copy in place";
    const SIZE: Option<&'static str> =
        Some("length of the data, rounded up to 4K [default: 1G, quick: 64M]");
    type Options = NoOptions;
    type Report = Report;

    fn new(context: &Context, _: NoOptions) -> Result<Self, String> {
        let settings = &context.settings;
        Ok(Self {
            luxor: settings.luxor()?,
            folder: settings.dir.clone(),
            bytes: settings.bytes(1 << 30, 64 << 20).next_multiple_of(SECTOR),
            rounds: if settings.quick { 3 } else { 7 },
            threads: settings.all_threads().get(),
            options: settings.options_of_luxor(),
        })
    }

    fn check(&self) -> Result<(), String> {
        self.check_room().map(drop)
    }

    fn measure(&self) -> Result<Report, String> {
        let in_memory = self.check_room()?;
        let folder = Folder::new(&self.folder)?;
        let mut session = Session::new(self, folder.path())?;
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
        session.compare()?;
        Ok(Report {
            data_bytes: self.bytes,
            in_memory,
            rounds: self.rounds,
            threads: self.threads,
            rows: session.rows(),
            absent: cryptsetup.as_ref().err().cloned().into_iter().collect(),
            cryptsetup: cryptsetup.ok(),
        })
    }

    fn section(report: &Report) -> crate::section::Section {
        report.section()
    }
}

impl Plan {
    /// Checks that there is room, and returns whether the folder is in memory.
    fn check_room(&self) -> Result<bool, String> {
        let needed = (self.bytes as u64)
            .saturating_mul(2)
            .saturating_add(64 << 20);
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

/// The cheapest key derivation: opening the keyslot must not count.
const CHEAP: [&str; 3] = ["--pbkdf=pbkdf2", "--pbkdf-force-iterations", "1000"];

/// The volume, and the programs that process it.
struct Session<'a> {
    plan: &'a Plan,
    plain: PathBuf,
    volume: PathBuf,
    key: PathBuf,
    turns: Vec<Turn>,
}

struct Turn {
    contestant: Contestant,
    resilience: Option<Resilience>,
    program: Program,
}

impl<'a> Session<'a> {
    fn new(plan: &'a Plan, folder: &Path) -> Result<Self, String> {
        let [plain, volume, key] = ["plain", "volume", "key"].map(|name| folder.join(name));
        fs::write(&key, [0x4b; 32]).map_err(|e| format!("{}: {e}", key.display()))?;
        let mut session = Self {
            plan,
            plain,
            volume,
            key,
            turns: Vec::new(),
        };
        session.make_volume()?;
        session.turns.push(session.copy()?);
        for resilience in Resilience::ALL {
            session.turns.extend([
                session.reencrypt(Contestant::Luxor, resilience),
                session.reencrypt(Contestant::Cryptsetup, resilience),
            ]);
        }
        Ok(session)
    }

    fn make_volume(&self) -> Result<(), String> {
        plaintext::make(&self.plain, self.plan.bytes)?;
        let mut encrypt = self.luxor("encrypt");
        encrypt.extend(CHEAP.map(OsString::from));
        let sector = format!("--sector-size={SECTOR}");
        encrypt.extend([sector.into(), "--force".into()]);
        encrypt.extend([&self.plain, &self.volume].map(OsString::from));
        Program::new(encrypt).run(false)?;
        let removed = fs::remove_file(&self.plain);
        removed.map_err(|e| format!("cannot remove {}: {e}", self.plain.display()))
    }

    fn luxor(&self, command: &str) -> Vec<OsString> {
        let mut words = vec![OsString::from(&self.plan.luxor), command.into()];
        words.extend(self.plan.options.iter().map(OsString::from));
        words.extend(["-q".into(), "--key-file".into(), OsString::from(&self.key)]);
        words
    }

    fn copy(&self) -> Result<Turn, String> {
        let own = env::current_exe().map_err(|e| e.to_string())?;
        let (threads, bytes) = (self.plan.threads.to_string(), self.plan.bytes.to_string());
        let words: [&dyn AsRef<OsStr>; 5] = [&own, &COPY, &threads, &bytes, &self.volume];
        Ok(Turn {
            contestant: Contestant::Copy,
            resilience: None,
            program: Program::new(words.map(OsString::from).to_vec()),
        })
    }

    fn reencrypt(&self, contestant: Contestant, resilience: Resilience) -> Turn {
        let mut words = if contestant == Contestant::Luxor {
            self.luxor("reencrypt")
        } else {
            let words = ["cryptsetup", "reencrypt", "--force-offline-reencrypt", "-q"];
            let mut words = words.map(OsString::from).to_vec();
            words.extend(["--key-file".into(), OsString::from(&self.key)]);
            words
        };
        words.extend(CHEAP.map(OsString::from));
        words.extend(["--resilience", resilience.name()].map(OsString::from));
        words.push(OsString::from(&self.volume));
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
        self.make_volume()
    }

    /// Runs a contestant. Every one but the copy must leave the last sector with another key.
    fn run(&mut self, turn: usize, timed: bool) -> Result<(), String> {
        let before = self.last_sector()?;
        let turn = &mut self.turns[turn];
        turn.program.run(timed)?;
        let is_copy = turn.contestant == Contestant::Copy;
        let name = turn.name();
        if (self.last_sector()? == before) == is_copy {
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
        self.compare().map_err(|e| format!("after {name}: {e}"))
    }

    fn last_sector(&self) -> Result<Vec<u8>, String> {
        let read = || {
            let file = File::open(&self.volume)?;
            let mut sector = vec![0; SECTOR];
            let end = file.metadata()?.len();
            file.read_exact_at(&mut sector, end.saturating_sub(SECTOR as u64))?;
            Ok(sector)
        };
        read().map_err(|e: io::Error| format!("cannot read {}: {e}", self.volume.display()))
    }

    /// Compares every byte of the plaintext.
    fn compare(&self) -> Result<(), String> {
        let words = self.luxor("decrypt");
        let mut luxor = Command::new(&words[0])
            .args(&words[1..])
            .args([self.volume.as_os_str(), OsStr::new("-")])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|e| format!("{}: {e}", self.plan.luxor.display()))?;
        let from = luxor.stdout.take().expect("it is a pipe");
        let compared = plaintext::compare(from, self.plan.bytes);
        let status = luxor.wait().map_err(|e| e.to_string())?;
        if !status.success() {
            return Err(format!("luxor decrypt: {status}"));
        }
        compared.map_err(|e| format!("the plaintext has changed: {e}"))
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
            let taken = Summary::of(lane.seconds.iter().flatten().copied().collect())?;
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
