// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line.

use std::{ffi::OsString, path::PathBuf};

use clap::{
    ArgMatches, CommandFactory, FromArgMatches, Parser, ValueHint,
    builder::{PossibleValue, PossibleValuesParser},
};

use crate::{bench::Entry, settings::Settings};

const AFTER_HELP: &str = "\
Examples:
  cargo xtask bench                       everything; builds the rivals first, for minutes
  luxor-bench cpu --quick                 a look at the kernels, in seconds
  luxor-bench cpu --engine vaes512 --unit 512 --call 64K --key-size 256 --direction encrypt
  luxor-bench --quick --json result.json  everything, quickly, and as JSON too

BENCHMARKING.md explains the numbers.";

/// Measure throughput in GB/s, and its ratio to the machine's limit
///
/// All contestants are timed in turn in the same process, and ratios are formed within a round. On
/// a shared machine, trust the ratios rather than the GB/s. All results are checked before anything
/// is timed.
#[derive(Debug, Parser)]
#[command(name = "luxor-bench", version, max_term_width = 96, after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// What to measure (default: everything)
    #[arg(value_name = "NAME")]
    names: Vec<String>,

    #[command(flatten)]
    pub(crate) settings: Settings,

    /// Print all tables and the method, not only the results and short tables
    #[arg(long, short)]
    pub(crate) verbose: bool,

    /// Also write all results to FILE, as JSON
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) json: Option<PathBuf>,

    /// Also write all results to FILE as an HTML page, and to a JSON file beside it
    ///
    /// A bench that cannot run here is then not an error: the page gives the reason. `luxor report`
    /// uses this option.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "json")]
    pub(crate) report: Option<PathBuf>,

    /// Also write the plots of the page into the folder DIR, as SVG
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) plots: Option<PathBuf>,

    /// Measure nothing: show the JSON of an earlier run, as text, as a page or as plots
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    #[arg(conflicts_with_all = ["names", "json", "record", "compare", "size", "quick"])]
    pub(crate) from: Option<PathBuf>,

    /// Also save the result as DIR/MACHINE/DATE.json, and the tables beside it as .txt
    ///
    /// For the repository's own records in bench/record. The program must be built by
    /// `cargo xtask bench` from a commit without changes.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) record: Option<PathBuf>,

    /// Also compare the result with an earlier one's JSON, by ratios to the machine's limits
    ///
    /// Prints ratios that are better or worse by more than both spreads. This is never an error: on
    /// a shared machine, people must judge the differences.
    #[arg(long, value_name = "RECORD", value_hint = ValueHint::FilePath)]
    pub(crate) compare: Option<PathBuf>,
}

/// Parses the command line. The matches hold the options of single benches.
pub(crate) fn parse(
    words: impl IntoIterator<Item = OsString>,
    benches: &[Entry],
) -> Result<(Args, ArgMatches), clap::Error> {
    let words: Vec<OsString> = words.into_iter().collect();
    let mut named = benches
        .iter()
        .filter(|bench| words.iter().any(|word| word == bench.name));
    // The help for one bench is about that one.
    let only = named.next().filter(|_| named.next().is_none());
    let shown = only.map_or(benches, std::slice::from_ref);
    let names = benches
        .iter()
        .map(|bench| PossibleValue::new(bench.name).help(bench.help));
    let names = PossibleValuesParser::new(names);
    let sizes = shown
        .iter()
        .filter_map(|bench| Some(format!("{}: {}", bench.name, bench.size?)));
    let sizes = sizes.collect::<Vec<_>>().join("; ");
    let mut command = Args::command()
        .mut_arg("names", |arg| {
            let hide = only.is_some();
            arg.value_parser(names).hide_possible_values(hide)
        })
        .mut_arg("size", |arg| {
            let long = format!("{sizes}\n\nK, M and G are powers of 1024.");
            arg.help(sizes).long_help(long)
        });
    if let Some(bench) = only {
        command = command.about(bench.help).long_about(bench.about);
    }
    for bench in benches {
        let before = command.get_arguments().count();
        command = (bench.options)(command);
        let is_shown = shown.iter().any(|shown| shown.name == bench.name);
        let mut at = 0;
        command = command.mut_args(|arg| {
            at += 1;
            let hide = at > before && !is_shown;
            if hide { arg.hide(true) } else { arg }
        });
    }
    let matches = command.try_get_matches_from(words)?;
    Ok((Args::from_arg_matches(&matches)?, matches))
}

impl Args {
    /// Returns whether the bench is to be measured.
    pub(crate) fn wants(&self, bench: &Entry) -> bool {
        self.has_all() || self.names.iter().any(|name| name == bench.name)
    }

    /// Returns whether all benches are to be measured.
    pub(crate) fn has_all(&self) -> bool {
        self.names.is_empty()
    }

    /// Returns the path for the JSON, if it is written.
    pub(crate) fn json_path(&self) -> Option<PathBuf> {
        let measured = self.report.as_ref().filter(|_| self.from.is_none());
        let beside = || measured.map(|page| page.with_extension("json"));
        self.json.clone().or_else(beside)
    }

    /// Returns all files that are written.
    pub(crate) fn outputs(&self) -> Vec<PathBuf> {
        self.json_path()
            .into_iter()
            .chain(self.report.clone())
            .collect()
    }
}
