// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs programs and measures their time and memory.

use std::{
    env,
    ffi::OsString,
    fs,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
    thread,
    time::Instant,
};

use nix::sys::{
    resource::{UsageWho, getrusage},
    statfs::{TMPFS_MAGIC, statfs},
};
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    iterator::Signals,
};

use crate::machine;

/// The measurements of one program over all rounds.
#[derive(Default)]
pub(crate) struct Lane {
    pub(crate) seconds: Vec<Option<f64>>,
    /// The most memory that the process used at a time, in bytes.
    pub(crate) peak: u64,
}

impl Lane {
    /// Runs a program to its end, through [`child`].
    pub(crate) fn run(&mut self, words: &[OsString], timed: bool) -> Result<(), String> {
        let line = || {
            let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
            words.join(" ")
        };
        let own = env::current_exe().map_err(|e| e.to_string())?;
        let output = Command::new(own)
            .arg(CHILD)
            .args(words)
            .stdin(Stdio::null())
            .output()
            .map_err(|e| format!("{}: {e}", line()))?;
        let said = String::from_utf8_lossy(&output.stdout);
        let mut numbers = said.split_whitespace();
        match (
            numbers.next().map(str::parse),
            numbers.next().map(str::parse),
        ) {
            (Some(Ok(seconds)), Some(Ok(peak))) if output.status.success() => {
                if timed {
                    self.seconds.push(Some(seconds));
                    self.peak = self.peak.max(peak);
                }
                Ok(())
            }
            _ => Err(format!(
                "`{}` failed: {}",
                line(),
                String::from_utf8_lossy(&output.stderr).trim()
            )),
        }
    }
}

/// A command line with its measurements.
pub(crate) struct Program {
    pub(crate) words: Vec<OsString>,
    pub(crate) lane: Lane,
}

impl Program {
    pub(crate) fn new(words: Vec<OsString>) -> Self {
        let lane = Lane::default();
        Self { words, lane }
    }

    /// Runs the program to its end.
    pub(crate) fn run(&mut self, timed: bool) -> Result<(), String> {
        self.lane.run(&self.words, timed)
    }
}

/// The argument that makes this program run another one and report its costs.
pub(crate) const CHILD: &str = "--run-and-tell";

/// Runs a program, and prints the seconds that it took and its peak memory in bytes. This needs a
/// process of its own, because the peak includes the memory of the parent at the time of the fork,
/// and this process has hardly any.
pub(crate) fn child(words: &[OsString]) -> ExitCode {
    let [program, arguments @ ..] = words else {
        return ExitCode::FAILURE;
    };
    let start = Instant::now();
    let status = Command::new(program)
        .args(arguments)
        .stdout(Stdio::null())
        .status();
    let seconds = start.elapsed().as_secs_f64();
    match (status, getrusage(UsageWho::RUSAGE_CHILDREN)) {
        (Ok(status), Ok(usage)) if status.success() => {
            // `max_rss` is in KiB.
            println!("{seconds} {}", usage.max_rss().unsigned_abs() << 10);
            ExitCode::SUCCESS
        }
        (Err(error), _) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
        _ => ExitCode::FAILURE,
    }
}

/// Returns the first line that a program prints, which is its version.
pub(crate) fn first_line(program: &str, words: &[&str]) -> Result<String, String> {
    let output = Command::new(program)
        .args(words)
        .stdin(Stdio::null())
        .output()
        .map_err(|e| format!("{program} is not on PATH: {e}"))?;
    let said = String::from_utf8_lossy(&output.stdout);
    match said.lines().next() {
        Some(line) if output.status.success() => Ok(line.to_owned()),
        _ => Err(format!(
            "`{program} {}`: {}",
            words.join(" "),
            output.status
        )),
    }
}

/// Checks that `folder` has room, and returns whether it is in memory.
pub(crate) fn check_room(folder: &Path, needed: u64, what: &str) -> Result<bool, String> {
    let at = folder.display();
    let system = statfs(folder).map_err(|e| format!("{at}: {e}; see --dir"))?;
    let block = u64::try_from(system.block_size()).unwrap_or(0);
    let room = system.blocks_available().saturating_mul(block);
    let in_memory = system.filesystem_type() == TMPFS_MAGIC;
    if room < needed {
        return Err(format!(
            "{at} has room for {} MiB, but {} MiB are needed for {what}; see --size and --dir",
            room >> 20,
            needed >> 20
        ));
    }
    let memory = fs::read_to_string("/proc/meminfo")
        .ok()
        .and_then(|info| machine::memory(&info, "MemAvailable:"));
    if let Some(memory) = memory.filter(|&memory| in_memory && (memory as u64) < needed) {
        return Err(format!(
            "{} MiB of memory are free, but {} MiB are needed for \
             {what} in {at}, which is in memory; see --size and --dir",
            memory >> 20,
            needed >> 20
        ));
    }
    Ok(in_memory)
}

/// Returns the words in tables for the answer of [`check_room`].
pub(crate) fn place(in_memory: bool) -> &'static str {
    if in_memory {
        " in memory"
    } else {
        " NOT in memory (this measures the disk)"
    }
}

/// A private folder. It is removed when this value is dropped, and by signals.
pub(crate) struct Folder(PathBuf);

impl Folder {
    /// Creates a new folder in `inside`.
    pub(crate) fn new(inside: &Path) -> Result<Self, String> {
        let path = inside.join(format!("luxor-bench-{}", std::process::id()));
        fs::DirBuilder::new()
            .mode(0o700)
            .create(&path)
            .map_err(|e| format!("cannot create {}: {e}; see --dir", path.display()))?;
        let folder = Self(path.clone());
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])
            .map_err(|e| format!("cannot install the signal handlers: {e}"))?;
        thread::spawn(move || {
            if signals.forever().next().is_some() {
                // Files that a program still writes have no name any more.
                let _ = fs::remove_dir_all(&path);
                std::process::exit(130);
            }
        });
        Ok(folder)
    }

    /// Returns its path.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
