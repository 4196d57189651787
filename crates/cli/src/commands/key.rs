// SPDX-License-Identifier: MIT OR Apache-2.0
//! `luxor key`: lists, adds, changes, removes, converts and tests keyslots.

mod add;
mod change;
mod convert;
mod list;
mod remove;
mod test;

use std::path::Path;

use clap::Args;
use luxor::{InPlace, KeyOptions, LuksVolume};

use crate::{
    args::{NewSecretArgs, PbkdfArgs, UnlockArgs},
    commands::{Subcommand, Taken, inputs},
    context::Context,
    error::Result,
    secrets::SecretSource,
    volume::unlock_options,
};

/// List, add, change, remove, convert and test the keys of a volume
///
/// A volume's data are encrypted with one volume key, and each keyslot holds that key under
/// a passphrase or key file of its own: LUKS1 has 8 keyslots, LUKS2 has 32. Changing
/// keyslots does not touch the data, which may be in use meanwhile.
#[derive(Args, Debug)]
pub(crate) struct KeyArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: KeyCommand,
}

commands! {
    /// `key`'s commands.
    KeyCommand {
        List(list::KeyListArgs),
        Add(add::KeyAddArgs),
        Change(change::KeyChangeArgs),
        Remove(remove::KeyRemoveArgs),
        Convert(convert::KeyConvertArgs),
        Test(test::KeyTestArgs),
    }
}

impl Subcommand for KeyArgs {
    const NAME: &str = "key";
    const TAKES: Taken = Taken::Each(KeyCommand::TAKES);

    fn run(&self, context: &Context) -> Result<()> {
        self.command.run(context)
    }

    fn output_is_stdout(&self) -> bool {
        self.command.output_is_stdout()
    }
}

/// Returns how to open the volume, and what a new keyslot costs. The default of `--pbkdf` depends
/// on the version of the volume.
fn options(volume: &LuksVolume, unlock: &UnlockArgs, pbkdf: &PbkdfArgs) -> Result<KeyOptions> {
    Ok(KeyOptions {
        unlock: unlock_options(unlock),
        pbkdf: Some(pbkdf.options(volume.header.version().default_pbkdf())?),
        in_place: InPlace::Never,
    })
}

fn existing(volume: &Path, context: &Context) -> Result<SecretSource> {
    SecretSource::new(context, &inputs("VOLUME", volume, context))
}

/// Returns the source of the secret that opens the volume, and the source of the new one.
fn both(
    volume: &Path,
    new: &NewSecretArgs,
    context: &Context,
) -> Result<(SecretSource, SecretSource)> {
    let inputs = inputs("VOLUME", volume, context);
    let (existing, new) = SecretSource::pair(context, new.secret(), &inputs)?;
    Ok((existing, new.read_ahead(volume)?))
}
