// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options of the commands that process no volume: `engines`, `bench`, `report`,
//! `completions`, `man`.

use std::{ffi::OsString, path::PathBuf};

use clap::{Args, ValueHint};

use super::AnyName;

/// List the implementations of AES, and the reasons why some are absent
///
/// Runs the self-test of each, and names the one that `--engine auto` uses.
#[derive(Args, Debug)]
pub(crate) struct EnginesArgs {
    /// Compare devices with the CPU, so that `--engine auto` uses one where it is faster
    ///
    /// Encrypts memory with each for a second or two, copies to and from the device included,
    /// and stores the speeds in luxor/calibration.json in the user's cache folder. They are
    /// valid for this CPU, this number of threads and this version of Luxor. XTS calls then use
    /// a device from the length on at which it is at least 10 % faster.
    #[arg(long)]
    pub calibrate: bool,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Measure speed, beside the machine's own limit and other libraries
///
/// Runs the program luxor-bench, which Luxor's packages contain and `cargo build --release`
/// builds. It first checks that all answers agree, then times the contestants alternately.
///
/// NAME is cpu (the kernels, in the cache and over memory), file (`encrypt`, `decrypt`
/// and `dump` beside `cp`, in a memory file system), unlock (keyslots, beside
/// cryptsetup), reencrypt (beside cryptsetup and a copy, and `serve --reencrypt` beside `serve`),
/// block (`serve` beside nbdkit and qemu-nbd), gpu (cuda and opencl beside copies), or a paper's
/// experiment: demir-2020, elmoghany-2011, damjanovic-simic-2015, an-seo-2022 or sanida-2020.
/// Without a NAME, it measures all of them. `luxor bench NAME --help` says more about one of them.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  luxor bench --quick
  luxor bench cpu --engine vaes512 --json result.json
  luxor bench file --size 1G
  luxor bench cpu --unit 512 --call 64K        see luxor-bench --help")]
pub(crate) struct BenchArgs {
    /// What to measure: cpu, file, unlock, reencrypt, block, gpu, demir-2020, elmoghany-2011,
    /// damjanovic-simic-2015, an-seo-2022, sanida-2020 (default: all); and options of luxor-bench
    #[arg(value_name = "NAME", value_parser = AnyName::of_bench(), hide_possible_values = true)]
    #[arg(allow_hyphen_values = true)]
    pub names: Vec<String>,

    /// cpu: a buffer larger than all caches (256M); file: the length of the file (4G)
    #[arg(long, value_name = "SIZE")]
    pub size: Option<String>,

    /// Repeat less often and use less memory: for a quick look, not for results
    #[arg(long)]
    pub quick: bool,

    /// Also write all measurements to FILE, as JSON
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub json: Option<PathBuf>,
}

/// Measure everything, and write a report
///
/// Runs all of `luxor bench`, including the experiments of five papers. Writes one
/// self-contained HTML file with the papers' figures beside this machine's, and a JSON file
/// with the same figures beside it. The report names what could not run on this machine (for
/// example without fio, nbdkit or a GPU), with the reason.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  luxor report --quick report.html      a quick look, a minute
  luxor report report.html              everything, an hour
  luxor report report.html --dir /var/tmp        see luxor-bench --help")]
pub(crate) struct ReportArgs {
    /// The HTML file; the JSON file beside it ends in .json
    #[arg(value_hint = ValueHint::FilePath)]
    pub output: PathBuf,

    /// Repeat less often and use less memory: for a quick look, not for results
    #[arg(long)]
    pub quick: bool,

    /// Options of luxor-bench
    #[arg(value_name = "OPTIONS", allow_hyphen_values = true)]
    pub others: Vec<OsString>,
}

/// Print a completion script for a shell
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  luxor completions bash > ~/.local/share/bash-completion/completions/luxor")]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    pub shell: clap_complete::Shell,
}

/// Write the man pages into a folder
#[derive(Args, Debug)]
pub(crate) struct ManArgs {
    /// The folder, which is made if it is missing
    #[arg(value_hint = ValueHint::DirPath)]
    pub dir: PathBuf,
}
