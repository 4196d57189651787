// SPDX-License-Identifier: MIT OR Apache-2.0
//! `luxor uuid`.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use luxor::files::Escaped;

use crate::{
    commands::{Subcommand, Taken},
    console,
    context::Context,
    error::Result,
    volume::open_metadata,
};

/// Print a volume's UUID
#[derive(Args, Debug)]
#[command(hide = true)]
pub(crate) struct UuidArgs {
    /// The volume (or its detached header)
    #[arg(value_hint = ValueHint::FilePath)]
    pub volume: PathBuf,
}

impl Subcommand for UuidArgs {
    const NAME: &str = "uuid";
    const TAKES: Taken = Taken::IDENTIFYING;

    /// Prints the UUID.
    ///
    /// # Errors
    /// Fails when there are no valid metadata.
    fn run(&self, context: &Context) -> Result<()> {
        let volume = open_metadata(&self.volume, context)?;
        let uuid = Escaped(volume.header.uuid());
        console::print(&format!("{uuid}\n"))
    }
}
