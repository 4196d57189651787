// SPDX-License-Identifier: MIT OR Apache-2.0
//! `luxor key change`.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::{both, options};
use crate::{
    args::{InPlaceArgs, NewSecretArgs, PbkdfArgs, UnlockArgs},
    commands::{Subcommand, Taken},
    context::Context,
    error::Result,
    volume::{Asking, open_to_change},
};

/// Replace a passphrase or key file by another one
///
/// The keyslot keeps its number. At every moment the old or the new key opens the volume,
/// even after a power cut, except with --in-place; at the end the old keyslot is overwritten.
/// Earlier copies of the header still open with the old key.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  luxor key change backup.luks
  luxor key change --key-file old.bin --new-key-file new.bin backup.luks")]
pub(crate) struct KeyChangeArgs {
    /// The volume (or its detached header)
    #[arg(value_hint = ValueHint::FilePath)]
    pub volume: PathBuf,

    /// The new key.
    #[command(flatten)]
    pub new: NewSecretArgs,

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

impl Subcommand for KeyChangeArgs {
    const NAME: &str = "change";
    const TAKES: Taken = Taken::KEYS;

    fn run(&self, context: &Context) -> Result<()> {
        let mut volume = open_to_change(&self.volume, context)?;
        let mut options = options(&volume, &self.unlock, &self.pbkdf)?;
        options.in_place = self.place.choice();
        let (existing, new) = both(&self.volume, &self.new, context)?;
        let secrets = Asking::new(&existing, &self.unlock, volume.path(), Some(&volume.header));
        let new = |old| {
            drop(old);
            new.new_one(&self.volume)
        };
        let number = volume.change_key(&secrets, new, &options, &context.library)?;
        context.console.tell(format!("keyslot {number} changed"));
        Ok(())
    }
}
