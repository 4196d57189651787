// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options that several benches share.

use std::{env, num::NonZeroUsize, path::PathBuf, thread, time::Duration};

use clap::{Args, ValueHint};
use luxor_engine::CPU_KERNELS;

use crate::{
    fio::{Access, Load},
    size,
};

/// The help of `--engine`, with the kernels for this architecture.
fn engine_help() -> String {
    let kernels = CPU_KERNELS.iter().rev();
    let kernels = kernels.filter(|kernel| kernel.architecture == env::consts::ARCH);
    let names: Vec<_> = ["portable"]
        .into_iter()
        .chain(kernels.map(|k| k.name))
        .collect();
    let names = names.join(", ");
    let names = names
        .rsplit_once(", ")
        .map_or(names.clone(), |(others, last)| {
            format!("{others} or {last}")
        });
    format!("Only this kernel: {names} (auto: all that are available)")
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Settings {
    // The help text is assembled from the benches' own texts.
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub(crate) size: Option<usize>,

    /// Repeat less and use less data: for a quick look, not for results
    #[arg(long)]
    pub(crate) quick: bool,

    #[arg(
        long,
        value_name = "NAME",
        help = engine_help(),
        default_value = "auto",
        hide_default_value = true
    )]
    pub(crate) engine: String,

    /// The number of threads that "all threads" means (default: one per processor)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,

    /// The luxor program to measure (default: luxor beside this program, else on PATH)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = PROGRAMS)]
    luxor: Option<PathBuf>,

    /// Folder for temporary files, best in memory; file and reencrypt need room for two files,
    /// block for four
    #[arg(long, value_name = "DIR", default_value = "/dev/shm", help_heading = PROGRAMS)]
    #[arg(value_hint = ValueHint::DirPath)]
    pub(crate) dir: PathBuf,

    /// Length of a server's turn in milliseconds, also in reencrypt [default: 2000; quick: 200,
    /// reencrypt: 500]
    #[arg(long = "turn", value_name = "MS", help_heading = SERVERS)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    turn: Option<u32>,

    /// Only reads or only writes [default: both]
    #[arg(long = "access", value_enum, value_name = "WAY", help_heading = SERVERS)]
    accesses: Vec<Access>,

    /// Only requests of this many bytes [default: 4K, 64K, 1M]
    #[arg(long = "request", value_name = "BYTES", value_parser = size::parse)]
    #[arg(help_heading = SERVERS)]
    requests: Vec<usize>,

    /// Only this many connections at a time [default: 1 and 4; demir-2020: 1]
    #[arg(long = "connections", value_name = "N", help_heading = SERVERS)]
    connections: Vec<usize>,
}

const PROGRAMS: &str =
    "Only for benches that run other programs: file, unlock, reencrypt, block, demir-2020";
pub(crate) const SERVERS: &str =
    "Only for block and demir-2020; filters may be given several times";

impl Settings {
    /// Returns the requested size, or else `quick` or `usual` bytes.
    pub(crate) fn bytes(&self, usual: usize, quick: usize) -> usize {
        self.size.unwrap_or(if self.quick { quick } else { usual })
    }

    pub(crate) fn all_threads(&self) -> NonZeroUsize {
        self.threads
            .and_then(|threads| NonZeroUsize::new(threads.into()))
            .or_else(|| thread::available_parallelism().ok())
            .unwrap_or(NonZeroUsize::MIN)
    }

    /// Returns the requested kernel, or `None` for all that are available.
    pub(crate) fn kernel(&self) -> Option<String> {
        (self.engine != "auto").then(|| self.engine.clone())
    }

    /// Returns `--engine` and `--threads` for `luxor`, as given.
    pub(crate) fn options_of_luxor(&self) -> Vec<String> {
        let mut options = vec![format!("--engine={}", self.engine)];
        options.extend(self.threads.map(|n| format!("--threads={n}")));
        options
    }

    pub(crate) fn turn(&self) -> Duration {
        self.turn_or_quick(200)
    }

    /// As [`Self::turn`], with another length for `--quick`.
    pub(crate) fn turn_or_quick(&self, quick: u32) -> Duration {
        let standard = if self.quick { quick } else { 2000 };
        Duration::from_millis(self.turn.unwrap_or(standard).into())
    }

    /// Returns the requested loads. `connections` applies if `--connections` is not given.
    pub(crate) fn loads(&self, connections: &[usize]) -> Result<Vec<Load>, String> {
        let connections = match self.connections.as_slice() {
            [] => connections,
            said => said,
        };
        let look = |load: &Load| {
            let chosen = !self.requests.is_empty() || !self.connections.is_empty();
            !self.quick || chosen || (load.request_bytes, load.connections) == (64 << 10, 1)
        };
        let wanted = |load: &Load| {
            (self.accesses.is_empty() || self.accesses.contains(&load.access))
                && (self.requests.is_empty() || self.requests.contains(&load.request_bytes))
                && connections.contains(&load.connections)
        };
        let mut loads = Load::all();
        loads.retain(|load| wanted(load) && look(load));
        if loads.is_empty() {
            return Err(
                "no such load: --request must be 4K, 64K or 1M, and --connections 1 or 4"
                    .to_owned(),
            );
        }
        Ok(loads)
    }

    pub(crate) fn luxor(&self) -> Result<PathBuf, String> {
        let own = env::current_exe().map_err(|e| e.to_string())?;
        let beside = own.with_file_name("luxor");
        Ok(match &self.luxor {
            Some(luxor) => luxor.clone(),
            None if beside.is_file() => beside,
            None => "luxor".into(),
        })
    }
}
