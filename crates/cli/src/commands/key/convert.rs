// SPDX-License-Identifier: MIT OR Apache-2.0
//! `luxor key convert`.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::{existing, options};
use crate::{
    args::{InPlaceArgs, PbkdfArgs, UnlockArgs},
    commands::{Subcommand, Taken},
    context::Context,
    error::Result,
    volume::{Asking, open_to_change},
};

/// Change the key derivation of a keyslot; the passphrase or key file stays the same
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  luxor key convert --pbkdf argon2id backup.luks
  luxor key convert --pbkdf pbkdf2 --iter-time 5000 --key-slot 0 backup.luks")]
pub(crate) struct KeyConvertArgs {
    /// The volume (or its detached header)
    #[arg(value_hint = ValueHint::FilePath)]
    pub volume: PathBuf,

    /// What opening it costs.
    #[command(flatten)]
    pub pbkdf: PbkdfArgs,

    /// Where it is written.
    #[command(flatten)]
    pub place: InPlaceArgs,

    /// How to open the volume.
    #[command(flatten)]
    pub unlock: UnlockArgs,
}

impl Subcommand for KeyConvertArgs {
    const NAME: &str = "convert";
    const TAKES: Taken = Taken::KEYS;

    fn run(&self, context: &Context) -> Result<()> {
        let mut volume = open_to_change(&self.volume, context)?;
        let mut options = options(&volume, &self.unlock, &self.pbkdf)?;
        options.in_place = self.place.choice();
        let existing = existing(&self.volume, context)?;
        let secrets = Asking::new(&existing, &self.unlock, volume.path(), Some(&volume.header));
        let number = volume.change_key(&secrets, Ok, &options, &context.library)?;
        context.console.tell(format!("keyslot {number} changed"));
        Ok(())
    }
}
