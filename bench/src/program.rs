// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs that are run, with the time and the memory that they took.

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

use nix::sys::resource::{UsageWho, getrusage};
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    iterator::Signals,
};

/// One program, over the rounds.
#[derive(Default)]
pub(crate) struct Lane {
    pub(crate) seconds: Vec<Option<f64>>,
    /// The most memory that the process had at a time, in bytes.
    pub(crate) peak: u64,
}

impl Lane {
    /// Runs a program to its end, by way of [`child`].
    ///
    /// # Errors
    /// When it cannot be run or fails.
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

/// The argument that makes this program run another one and tell of it.
pub(crate) const CHILD: &str = "--run-and-tell";

/// Runs a program, and prints the seconds it took and its peak memory in bytes. A
/// process of its own, since the peak counts what the parent had when it made the
/// child: this one has nothing.
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
            // The kernel counts in KiB.
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

/// A folder of our own, which goes away with this value or by a signal.
pub(crate) struct Folder(PathBuf);

impl Folder {
    /// A new one in `inside`.
    ///
    /// # Errors
    /// When it cannot be made.
    pub(crate) fn new(inside: &Path) -> Result<Self, String> {
        let path = inside.join(format!("luxor-bench-{}", std::process::id()));
        fs::DirBuilder::new()
            .mode(0o700)
            .create(&path)
            .map_err(|e| format!("cannot make {}: {e}; see --dir", path.display()))?;
        let folder = Self(path.clone());
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])
            .map_err(|e| format!("cannot install the signal handlers: {e}"))?;
        thread::spawn(move || {
            if signals.forever().next().is_some() {
                // What a program still writes has no name any more.
                let _ = fs::remove_dir_all(&path);
                std::process::exit(130);
            }
        });
        Ok(folder)
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
