// SPDX-License-Identifier: MIT OR Apache-2.0
//! `luxor erase`.

use crate::{
    commands::{Subcommand, Taken},
    confirm::confirm,
    context::Context,
    error::Result,
    volume::open_to_change,
};
use std::path::PathBuf;

use clap::{Args, ValueHint};

/// Destroy all keyslots: the data can never be read again
///
/// Overwrites the keyslots with random bytes. No passphrase opens the volume afterwards; only
/// a backup of the header brings the keyslots back.
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  luxor erase photos.luks")]
pub(crate) struct EraseArgs {
    /// The volume, or its detached header
    #[arg(value_hint = ValueHint::FilePath)]
    pub volume: PathBuf,

    /// Do not ask for confirmation
    #[arg(long, alias = "force")]
    pub batch_mode: bool,
}

impl Subcommand for EraseArgs {
    const NAME: &str = "erase";
    const TAKES: Taken = Taken::METADATA;

    /// Destroys all keyslots of a volume.
    ///
    /// # Errors
    /// Fails when the volume cannot be read or written, and when the user does not confirm.
    fn run(&self, context: &Context) -> Result<()> {
        let mut volume = open_to_change(&self.volume, context)?;
        if !self.batch_mode {
            let warning = format!(
                "All keyslots of {} will be destroyed (in use: {}). Without a backup of the header \
             its data can never be read again.",
                volume.name(),
                volume.header.keyslot_numbers().len()
            );
            confirm(&warning, "--batch-mode")?;
        }
        volume.change(&context.library, |header, storage| header.erase(storage))
    }
}
