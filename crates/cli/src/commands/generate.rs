// SPDX-License-Identifier: MIT OR Apache-2.0
//! `luxor completions` and `luxor man`: generated from the definition of the command line.

use std::{fs, io, path::Path};

use clap::{Command, builder::Resettable};
use clap_mangen::{
    Man,
    roff::{Roff, roman},
};
use luxor::files::path_name;

use crate::{
    args::{self, CompletionsArgs, ManArgs},
    console, cryptsetup,
    error::{Error, Result},
};

/// Prints a completion script.
///
/// # Errors
/// Fails when standard output cannot be written.
pub(crate) fn completions(args: &CompletionsArgs) -> Result<()> {
    let mut script = Vec::new();
    let mut definition = args::definition().subcommands(cryptsetup::for_completions());
    clap_complete::generate(args.shell, &mut definition, "luxor", &mut script);
    console::print(&String::from_utf8_lossy(&script))
}

/// Writes `luxor.1` and a page for each command into a folder, which it makes if it is missing.
///
/// # Errors
/// Fails when the folder cannot be made, or a page cannot be written.
pub(crate) fn man(args: &ManArgs) -> Result<()> {
    let mut definition = args::definition().disable_help_subcommand(true);
    definition.build();
    fs::create_dir_all(&args.dir)
        .and_then(|()| write_pages(&definition, &args.dir))
        .map_err(|error| {
            let folder = path_name(&args.dir);
            Error::io(format!("cannot write man pages to {folder}"), &error)
        })
}

/// Writes the page of a command, and those of its commands. Hidden commands have no page.
fn write_pages(command: &Command, folder: &Path) -> io::Result<()> {
    for command in command
        .get_subcommands()
        .filter(|found| !found.is_hide_set())
    {
        write_pages(command, folder)?;
    }
    let examples = command.get_after_help().map(ToString::to_string);
    let mut plain = command.clone().after_help(Resettable::Reset);
    // Otherwise the synopsis lists all options, in no order and without their values.
    let usage = plain.render_usage().to_string();
    plain = plain.override_usage(usage.trim_start_matches("Usage: ").to_owned());
    let man = Man::new(plain.after_long_help(Resettable::Reset));
    let man = man.source(concat!("luxor ", env!("CARGO_PKG_VERSION")));
    let mut page = Vec::new();
    man.render(&mut page)?;
    let mut sections = Roff::new();
    let mut preformatted = |title: &str, text: &str| {
        sections.control("SH", [title]).control("nf", []);
        sections.text([roman(text)]).control("fi", []);
    };
    if let Some(examples) = &examples {
        let (_, examples) = examples.split_once('\n').unwrap_or(("", examples));
        preformatted("EXAMPLES", examples);
    }
    preformatted("EXIT STATUS", args::EXIT_CODES);
    if command.get_after_long_help().is_some() {
        preformatted("CAVEATS", args::LIMITS);
    }
    sections.to_writer(&mut page)?;
    #[expect(
        clippy::disallowed_methods,
        reason = "the program keeps standard streams open"
    )]
    fs::write(folder.join(man.get_filename()), page)
}
