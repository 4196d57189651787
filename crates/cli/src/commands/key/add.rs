// SPDX-License-Identifier: MIT OR Apache-2.0
//! `luxor key add`.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use luxor::luks::{Encryption, VolumeKey};

use super::{both, options};
use crate::{
    args::{NewSecretArgs, PbkdfArgs, UnlockArgs},
    commands::{Subcommand, Taken},
    context::Context,
    error::{Error, Result},
    keyring::TokenPassphrases,
    new_volume::volume_key,
    volume::{Asking, open_to_change},
};

/// Add a passphrase or key file, in a free keyslot
///
/// Asks for a passphrase that opens the volume, then for the new one.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  luxor key add backup.luks
  luxor key add --key-file key.bin --new-key-file second.bin backup.luks
  luxor key add --new-key-slot 5 --pbkdf-memory 262144 backup.luks")]
pub(crate) struct KeyAddArgs {
    /// The volume (or its detached header)
    #[arg(value_hint = ValueHint::FilePath)]
    pub volume: PathBuf,

    /// Put the new key into this keyslot (default: the first free one)
    #[arg(long, value_name = "N")]
    pub new_key_slot: Option<u32>,

    /// Open the volume by a token: its passphrase is in the kernel's keyring
    #[arg(long, conflicts_with_all = ["key_file", "passphrase_fd", "volume_key_file", "key_slot"])]
    pub token_only: bool,

    /// With --token-only: use only this token
    #[arg(long, value_name = "N", requires = "token_only")]
    #[arg(conflicts_with_all = ["key_file", "passphrase_fd", "volume_key_file"])]
    pub token_id: Option<u32>,

    /// Add a keyslot whose key encrypts no data: a random one, or that of --volume-key-file
    ///
    /// No other secret is needed. For programs that keep a key of their own in the volume.
    #[arg(long, conflicts_with_all = ["key_file", "passphrase_fd", "token_only", "key_slot"])]
    pub unbound: bool,

    /// With --unbound: the length of the random key in bits, 256 or 512 (default: 512)
    #[arg(long, value_name = "BITS", requires = "unbound")]
    #[arg(conflicts_with_all = ["key_file", "passphrase_fd", "token_only", "volume_key_file"])]
    pub key_size: Option<u32>,

    /// The new key.
    #[command(flatten)]
    pub new: NewSecretArgs,

    /// What opening it costs.
    #[command(flatten)]
    pub pbkdf: PbkdfArgs,

    /// How to open the volume.
    #[command(flatten)]
    pub unlock: UnlockArgs,
}

impl Subcommand for KeyAddArgs {
    const NAME: &str = "add";
    const TAKES: Taken = Taken::KEYS;

    fn run(&self, context: &Context) -> Result<()> {
        let mut volume = open_to_change(&self.volume, context)?;
        let mut options = options(&volume, &self.unlock, &self.pbkdf)?;
        let wanted = self.new_key_slot;
        if let Some(number) = wanted {
            volume.check_new_keyslot(number)?;
        }
        let (existing, new) = both(&self.volume, &self.new, context)?;
        let new = || new.new_one(&self.volume);
        let number = if self.unbound {
            let key = unbound_key(self, context)?;
            volume.add_unbound_key(wanted, &key, new, &options, &context.library)?
        } else if self.token_only {
            let secrets = TokenPassphrases::read(&volume, self.token_id)?;
            options.unlock.keyslots.clone_from(&secrets.keyslots);
            volume.add_key(wanted, &secrets, new, &options, &context.library)?
        } else {
            let secrets = Asking::new(&existing, &self.unlock, volume.path(), Some(&volume.header));
            volume.add_key(wanted, &secrets, new, &options, &context.library)?
        };
        context.console.tell(format!("keyslot {number} added"));
        Ok(())
    }
}

/// Returns the key for `--unbound`.
fn unbound_key(args: &KeyAddArgs, context: &Context) -> Result<VolumeKey> {
    if let Some(path) = &context.options.volume_key_file {
        return volume_key(path);
    }
    match args.key_size.unwrap_or(512) {
        bits @ (256 | 512) => VolumeKey::random(bits as usize / 8, Encryption::AesXtsPlain64)
            .map_err(|error| Error::failure(error.to_string())),
        bits => Err(Error::failure(format!(
            "--key-size is {bits} bits: it must be 256 or 512"
        ))),
    }
}
