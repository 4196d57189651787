// SPDX-License-Identifier: MIT OR Apache-2.0
//! `luxor completions` and `luxor man`: generated from the definition of the command line.

use luxor_files::path_name;

use crate::{
    args::{self, CompletionsArgs, ManArgs},
    console,
    error::{Error, Result},
};

/// Prints a completion script.
///
/// # Errors
/// Fails when standard output cannot be written.
pub(crate) fn completions(args: &CompletionsArgs) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut args::definition(), "luxor", &mut script);
    console::print(&String::from_utf8_lossy(&script))
}

/// Writes `luxor.1` and a page for each command into a folder.
///
/// # Errors
/// Fails when a page cannot be written.
pub(crate) fn man(args: &ManArgs) -> Result<()> {
    // The pages follow the order of the definition. Hidden commands have no page.
    clap_mangen::generate_to(args::definition().disable_help_subcommand(true), &args.dir).map_err(
        |error| {
            Error::io(
                format!("cannot write man pages to {}", path_name(&args.dir)),
                &error,
            )
        },
    )
}
