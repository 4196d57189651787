// SPDX-License-Identifier: MIT OR Apache-2.0
//! `luxor completions` and `luxor man`: made from the definition of the
//! arguments.

use luxor_files::path_name;

use crate::{
    args::{self, CompletionsArgs, ManArgs},
    console,
    error::{Error, Result},
};

/// Prints a completion script.
///
/// # Errors
/// When standard output cannot be written.
pub(crate) fn completions(args: &CompletionsArgs) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut args::definition(), "luxor", &mut script);
    console::print(&String::from_utf8_lossy(&script))
}

/// Writes `luxor.1` and a page for each command into a folder.
///
/// # Errors
/// When a page cannot be written.
pub(crate) fn man(args: &ManArgs) -> Result<()> {
    // Pages in the command's definition order; the hidden commands have none.
    clap_mangen::generate_to(args::definition().disable_help_subcommand(true), &args.dir).map_err(
        |error| {
            Error::io(
                format!("cannot write man pages to {}", path_name(&args.dir)),
                &error,
            )
        },
    )
}
