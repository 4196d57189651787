// SPDX-License-Identifier: MIT OR Apache-2.0
//! `luxor completions`: generated from the definition of the command line.

use clap::Args;

use super::definition::definition;
use crate::{
    args::General,
    commands::{Subcommand, Taken},
    console,
    context::Context,
    cryptsetup,
    error::Result,
};

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

impl Subcommand for CompletionsArgs {
    const NAME: &str = "completions";
    const TAKES: Taken = Taken::Options(&[General::Talk]);

    /// Prints a completion script.
    ///
    /// # Errors
    /// Fails when standard output cannot be written.
    fn run(&self, _context: &Context) -> Result<()> {
        let mut script = Vec::new();
        let mut definition = definition().subcommands(cryptsetup::for_completions());
        clap_complete::generate(self.shell, &mut definition, "luxor", &mut script);
        console::print(&String::from_utf8_lossy(&script))
    }
}
