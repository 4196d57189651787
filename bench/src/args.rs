// SPDX-License-Identifier: MIT OR Apache-2.0
//! What can be said on the command line.

use std::{ffi::OsString, path::PathBuf};

use clap::{
    ArgMatches, CommandFactory, FromArgMatches, Parser, ValueHint,
    builder::{PossibleValue, PossibleValuesParser},
};

use crate::{bench::Entry, settings::Settings};

const AFTER_HELP: &str = "\
Examples:
  cargo xtask bench                       everything, with the rivals: builds them, minutes
  luxor-bench cpu --quick                 a look at the kernels, in seconds
  luxor-bench cpu --engine vaes512 --unit 512 --call 64K --key-size 256 --direction encrypt
  luxor-bench --quick --json result.json  all of it, quickly, for a program

What the numbers mean is said in BENCHMARKING.md.";

/// Measures: GB/s, and the ratio to what this machine could do at best
///
/// Everybody who takes part is timed in alternation in the same process, and ratios are
/// formed within a round: on a machine that others use too, believe the ratios. Answers
/// are compared before anything is timed.
#[derive(Debug, Parser)]
#[command(name = "luxor-bench", version, max_term_width = 96, after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// What to measure (default: all there is)
    #[arg(value_name = "NAME")]
    names: Vec<String>,

    #[command(flatten)]
    pub(crate) settings: Settings,

    /// Also write everything that was measured to FILE, as JSON
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) json: Option<PathBuf>,

    /// Also write a page about all of it to FILE, as HTML, and the JSON beside it
    ///
    /// A bench that cannot run here is not an error then: the page says why. `luxor report` is
    /// this.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "json")]
    pub(crate) report: Option<PathBuf>,

    /// Also write the plots of that page into the folder DIR, as SVG
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) plots: Option<PathBuf>,

    /// Measure nothing: show an earlier run again, from its JSON, here or as a page or plots
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    #[arg(conflicts_with_all = ["names", "json", "record", "compare", "size", "quick"])]
    pub(crate) from: Option<PathBuf>,

    /// Also keep the result as DIR/MACHINE/DATE.json, and the tables beside it as .txt
    ///
    /// For the repository's own records, in bench/record. The program must be built by
    /// `cargo xtask bench` from a commit without changes.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) record: Option<PathBuf>,

    /// Also hold the result against an earlier one's JSON, by ratios to the machine's limits
    ///
    /// Prints what is better or worse by more than both spreads, and is never an error: on
    /// a machine that others use too it is for people to judge.
    #[arg(long, value_name = "RECORD", value_hint = ValueHint::FilePath)]
    pub(crate) compare: Option<PathBuf>,
}

/// The command line, parsed; the options that benches alone have are among the matches.
pub(crate) fn parse(
    words: impl IntoIterator<Item = OsString>,
    benches: &[Entry],
) -> Result<(Args, ArgMatches), clap::Error> {
    let names = benches
        .iter()
        .map(|bench| PossibleValue::new(bench.name).help(bench.help));
    let names = PossibleValuesParser::new(names);
    let sizes = benches
        .iter()
        .filter_map(|bench| Some(format!("{}: {}", bench.name, bench.size?)));
    let sizes = sizes.collect::<Vec<_>>().join("; ");
    let mut command = Args::command()
        .mut_arg("names", |arg| arg.value_parser(names))
        .mut_arg("size", |arg| {
            let long = format!("{sizes}\n\nWith K, M or G for powers of 1024.");
            arg.help(sizes).long_help(long)
        });
    for bench in benches {
        command = (bench.options)(command);
    }
    let matches = command.try_get_matches_from(words)?;
    Ok((Args::from_arg_matches(&matches)?, matches))
}

impl Args {
    /// Whether the bench is to be measured.
    pub(crate) fn wants(&self, bench: &Entry) -> bool {
        self.names.is_empty() || self.names.iter().any(|name| name == bench.name)
    }

    /// Where the JSON goes, if anywhere.
    pub(crate) fn json_path(&self) -> Option<PathBuf> {
        let measured = self.report.as_ref().filter(|_| self.from.is_none());
        let beside = || measured.map(|page| page.with_extension("json"));
        self.json.clone().or_else(beside)
    }

    /// All files that are written.
    pub(crate) fn outputs(&self) -> Vec<PathBuf> {
        self.json_path()
            .into_iter()
            .chain(self.report.clone())
            .collect()
    }
}
