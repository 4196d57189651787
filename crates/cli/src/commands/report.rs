// SPDX-License-Identifier: MIT OR Apache-2.0
//! `luxor report`, which runs the program `luxor-bench` as `luxor bench` does.

use std::{ffi::OsString, path::PathBuf};

use clap::{Args, ValueHint};

use super::bench::become_program;
use crate::{
    args::General,
    commands::{Subcommand, Taken},
    context::Context,
    error::Result,
};

/// Measure everything, and write a report
///
/// Runs all of `luxor bench`, including the experiments of five papers. Writes one
/// self-contained HTML file with the papers' figures beside this machine's, and a JSON file
/// with the same figures beside it. The report names what could not run on this machine (for
/// example without fio, nbdkit or a GPU), with the reason.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  luxor report --quick report.html      a quick look, a minute unless the machine is busy
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

impl Subcommand for ReportArgs {
    const NAME: &str = "report";
    const TAKES: Taken = Taken::Options(&[General::Engine, General::Threads, General::Talk]);

    fn run(&self, context: &Context) -> Result<()> {
        become_program(context, |command| {
            command.arg("--report").arg(&self.output);
            if self.quick {
                command.arg("--quick");
            }
            command.args(self.others.iter().filter(|word| *word != "--"));
        })
    }
}
