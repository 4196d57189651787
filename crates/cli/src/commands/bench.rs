// SPDX-License-Identifier: MIT OR Apache-2.0
//! `luxor bench` runs the program `luxor-bench`. It is a separate package, so that building
//! `luxor` does not build the libraries that it is compared with.

use std::{
    env, io,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::Command,
};

use clap::{Args, ValueHint};
use luxor::files::path_name;

use crate::{
    args::{AnyName, General},
    bench_names,
    commands::{Subcommand, Taken},
    context::Context,
    error::{Error, Result},
    process::unblocked,
};

const PROGRAM: &str = "luxor-bench";

/// Measure speed, beside the machine's own limit and other libraries
#[derive(Args, Debug)]
#[command(long_about = about(), after_help = "\
Examples:
  luxor bench --quick
  luxor bench cpu --engine vaes512 --json result.json
  luxor bench file --size 1G
  luxor bench cpu --unit 512 --call 64K        see luxor-bench --help")]
pub(crate) struct BenchArgs {
    #[arg(value_name = "NAME", value_parser = bench_name(), hide_possible_values = true)]
    #[arg(allow_hyphen_values = true, help = names())]
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

impl Subcommand for BenchArgs {
    const NAME: &str = "bench";
    const TAKES: Taken = Taken::Options(&[General::Engine, General::Threads, General::Talk]);

    /// Replaces this process by `luxor-bench`, which then sets the exit code and receives signals
    /// itself.
    ///
    /// # Errors
    /// Fails when the program cannot be found or started.
    fn run(&self, context: &Context) -> Result<()> {
        become_program(context, |command| {
            if let Some(size) = &self.size {
                command.args(["--size", size]);
            }
            if self.quick {
                command.arg("--quick");
            }
            if let Some(json) = &self.json {
                command.arg("--json").arg(json);
            }
            // `--` may come before its options.
            command.args(self.names.iter().filter(|word| *word != "--"));
        })
    }
}

/// What luxor-bench measures.
fn bench_name() -> AnyName {
    AnyName(|| benches().map(|(name, _)| name).collect())
}

/// All benches, each with its description, which is empty for a paper's experiment.
fn benches() -> impl Iterator<Item = (&'static str, &'static str)> {
    macro_rules! listed {
        ($($module:ident $name:literal $words:literal;)+) => {
            [$(($name, $words)),+]
        };
    }
    bench_names::benches!(listed).into_iter()
}

/// Returns the names of the papers' experiments.
fn papers() -> Vec<&'static str> {
    let papers = benches().filter(|(_, words)| words.is_empty());
    papers.map(|(name, _)| name).collect()
}

fn about() -> String {
    let described = benches().filter(|(_, words)| !words.is_empty());
    let described = described.map(|(name, words)| format!("{name} ({words}), "));
    let papers = papers();
    let (last, others) = papers.split_last().expect("there are papers");
    format!(
        "Measure speed, beside the machine's own limit and other libraries\n\n\
         Runs the program luxor-bench, which Luxor's packages contain and `cargo build --release` \
         builds. It first checks that all answers agree, then times the contestants alternately.\n\n\
         NAME is {}or a paper's experiment: {} or {last}. Without a NAME, it measures all of them. \
         `luxor bench NAME --help` says more about one of them.",
        described.collect::<String>(),
        others.join(", ")
    )
}

fn names() -> String {
    let described = benches().filter(|(_, words)| !words.is_empty());
    let names = described.map(|(name, _)| name).chain(papers());
    format!(
        "What to measure: {} (default: all); and options of luxor-bench",
        names.collect::<Vec<_>>().join(", ")
    )
}

/// Replaces this process by `luxor-bench`, which then sets the exit code and receives signals
/// itself.
///
/// # Errors
/// Fails when the program cannot be found or started.
pub(super) fn become_program(
    context: &Context,
    arguments: impl FnOnce(&mut Command),
) -> Result<()> {
    let own = env::current_exe().map_err(|e| Error::io("cannot find this program's file", &e))?;
    let program = find(&own).ok_or_else(|| {
        Error::failure(format!(
            "cannot find the program {PROGRAM}, neither beside {} nor on PATH",
            path_name(&own)
        ))
        .hint(
            "In Luxor's source, `cargo build --release --package luxor-bench` builds it, and \
             `cargo xtask bench` builds and runs it together with its rivals OpenSSL and AWS-LC.",
        )
    })?;
    let mut command = Command::new(&program);
    command.arg("--luxor").arg(&own);
    if context.options.engine != "auto" {
        command.args(["--engine", &context.options.engine]);
    }
    if let Some(threads) = context.options.threads {
        command.args(["--threads", &threads.to_string()]);
    }
    if context.options.verbose > 0 {
        command.arg("--verbose");
    }
    arguments(&mut command);
    // `exec` returns only if it fails.
    let error: io::Error = unblocked(|| command.exec());
    Err(Error::io(
        format!("cannot run {}", path_name(&program)),
        &error,
    ))
}

/// Finds the program beside this one, where `cargo` and packages install it, or on `PATH`.
fn find(own: &Path) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    own.parent()
        .map(Path::to_owned)
        .into_iter()
        .chain(env::split_paths(&path))
        // An empty entry of `PATH` would mean the current folder.
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(PROGRAM))
        .find(|file| file.is_file())
}
