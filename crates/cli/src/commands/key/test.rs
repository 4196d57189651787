// SPDX-License-Identifier: MIT OR Apache-2.0
//! `luxor key test`.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use crate::{
    args::{TypeArgs, UnlockArgs},
    commands::{Subcommand, Taken, inputs},
    console,
    context::Context,
    error::{Error, Result},
    secrets::SecretSource,
    volume::{open_metadata_of, test_keys},
};

/// Test which keyslot a passphrase or key file opens
///
/// The exit code is 2 if it opens none. Nothing is changed.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  luxor key test backup.luks
  luxor key test --key-file key.bin --key-slot 1 backup.luks")]
pub(crate) struct KeyTestArgs {
    /// The volume (or its detached header)
    #[arg(value_hint = ValueHint::FilePath)]
    pub volume: PathBuf,

    /// How to open the volume.
    #[command(flatten)]
    pub unlock: UnlockArgs,

    /// The format. Last, since its heading goes on.
    #[command(flatten)]
    pub format: TypeArgs,
}

impl Subcommand for KeyTestArgs {
    const NAME: &str = "test";
    const TAKES: Taken = Taken::KEYS;

    fn run(&self, context: &Context) -> Result<()> {
        let volume = open_metadata_of(&self.volume, &self.format, &self.unlock, None, context)?;
        let format = self.format.format()?;
        let inputs = inputs("VOLUME", &self.volume, context);
        let secrets = SecretSource::for_format(context, &*format, &inputs)?;
        if secrets.is_volume_key() {
            let message = format!("{}: a volume key belongs to no keyslot", volume.name());
            return Err(Error::failure(message));
        }
        let unlocked = test_keys(&volume, &secrets, &self.unlock, context)?;
        if context.console.is_quiet() {
            return Ok(());
        }
        console::print(&match unlocked.keyslots.first() {
            Some(opened) => format!("keyslot {} opens\n", opened.keyslot),
            None => "the key can be used; nothing shows whether it is the right one\n".to_owned(),
        })
    }
}
