// SPDX-License-Identifier: MIT OR Apache-2.0
//! `luxor man`: generated from the definition of the command line.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use clap::{Args, Command, ValueHint, builder::Resettable};
use clap_mangen::{
    Man,
    roff::{Roff, roman},
};
use luxor::files::path_name;

use super::definition::{EXIT_CODES, LIMITS, definition};
use crate::{
    args::General,
    commands::{Subcommand, Taken},
    context::Context,
    error::{Error, Result},
};

/// Write the man pages into a folder
#[derive(Args, Debug)]
pub(crate) struct ManArgs {
    /// The folder, which is made if it is missing
    #[arg(value_hint = ValueHint::DirPath)]
    pub dir: PathBuf,
}

impl Subcommand for ManArgs {
    const NAME: &str = "man";
    const TAKES: Taken = Taken::Options(&[General::Talk]);

    /// Writes `luxor.1` and a page for each command into a folder, which it makes if it is missing.
    ///
    /// # Errors
    /// Fails when the folder cannot be made, or a page cannot be written.
    fn run(&self, _context: &Context) -> Result<()> {
        let mut definition = definition().disable_help_subcommand(true);
        definition.build();
        fs::create_dir_all(&self.dir)
            .and_then(|()| write_pages(&definition, &self.dir))
            .map_err(|error| {
                let folder = path_name(&self.dir);
                Error::io(format!("cannot write man pages to {folder}"), &error)
            })
    }
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
    preformatted("EXIT STATUS", EXIT_CODES);
    if command.get_after_long_help().is_some() {
        preformatted("CAVEATS", LIMITS);
    }
    sections.to_writer(&mut page)?;
    #[expect(
        clippy::disallowed_methods,
        reason = "the program keeps standard streams open"
    )]
    fs::write(folder.join(man.get_filename()), page)
}
