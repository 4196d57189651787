// SPDX-License-Identifier: MIT OR Apache-2.0
//! `luxor key remove`.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use luxor::{Secrets, luks::UnlockError};

use super::existing;
use crate::{
    args::LimitArgs,
    commands::{Subcommand, Taken},
    context::Context,
    error::{ErrorClass, Result},
    secrets::Wanted,
    volume::{Asking, limited, open_to_change},
};

/// Remove a passphrase or key file, and overwrite its keyslot
///
/// Removes the keyslot that the secret opens. With --key-slot it removes that keyslot, and
/// the secret must open a different one. If the secret is typed, luxor names the keyslot and asks
/// for confirmation. Earlier copies of the header still open with the removed key.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  luxor key remove backup.luks                    asks for the passphrase to remove
  luxor key remove --key-slot 3 backup.luks       asks for the passphrase of another one
  luxor key remove --key-slot 3 --force backup.luks")]
pub(crate) struct KeyRemoveArgs {
    /// The volume (or its detached header)
    #[arg(value_hint = ValueHint::FilePath)]
    pub volume: PathBuf,

    /// Remove this keyslot
    #[arg(long, value_name = "N")]
    pub key_slot: Option<u32>,

    /// With --key-slot: do not ask for a passphrase
    #[arg(long, requires = "key_slot")]
    pub force: bool,

    /// With --key-slot: do not ask for a passphrase, but use one that is given
    ///
    /// As cryptsetup does in batch mode.
    #[arg(long, requires = "key_slot", conflicts_with = "force", hide = true)]
    pub if_given: bool,

    /// Do not ask for confirmation
    #[arg(long)]
    pub batch_mode: bool,

    /// Allow removing the last keyslot: nothing opens the volume afterwards
    #[arg(long)]
    pub last: bool,

    /// What opening a keyslot may cost.
    #[command(flatten)]
    pub limits: LimitArgs,
}

impl Subcommand for KeyRemoveArgs {
    const NAME: &str = "remove";
    const TAKES: Taken = Taken::KEYS;

    fn run(&self, context: &Context) -> Result<()> {
        let mut volume = open_to_change(&self.volume, context)?;
        if let Some(number) = self.key_slot {
            volume.check_removal(number, self.last)?;
        }
        let existing = match (self.force, self.if_given) {
            (true, _) => None,
            (false, true) => existing(&self.volume, context)?.if_given()?,
            (false, false) => Some(existing(&self.volume, context)?),
        };
        // The secret must open another keyslot than the one that is removed by its number.
        let mut keyslots = volume.header.keyslot_numbers();
        keyslots.retain(|number| Some(*number) != self.key_slot);
        let wanted = match (self.key_slot, &*keyslots) {
            (None, _) => Wanted::Removed,
            // It may be removed with its own secret.
            (Some(number), []) => Wanted::Keyslot(number),
            (Some(_), _) => Wanted::Other,
        };
        let (path, header) = (volume.path().to_owned(), volume.header.clone());
        let secrets = existing.as_ref().map(|secrets| {
            Asking::for_keyslots(secrets, &self.limits, &keyslots, &path, Some(&header))
                .for_removal(wanted, !self.batch_mode)
        });
        let secrets = secrets.as_ref().map(|secrets| secrets as &dyn Secrets);
        let options = limited(Vec::new(), &self.limits);
        let library = &context.library;
        let number = match (self.key_slot, secrets) {
            (Some(number), _) => {
                let removed = volume.remove_keyslot(number, secrets, self.last, &options, library);
                removed.map_err(|error| {
                // The message is about another keyslot, which the secret must open.
                let is_of_other = error.class() == ErrorClass::Failure
                    && error.find::<UnlockError>().is_some();
                if is_of_other {
                    return error.hint(
                        "To remove it without a secret, add --force. If you cannot open another keyslot, the \
                         data are then lost.",
                    );
                }
                error
            })?;
                number
            }
            (None, Some(secrets)) => volume.remove_key(secrets, self.last, &options, library)?,
            (None, None) => {
                unreachable!("the parser requires --key-slot with --force and --if-given")
            }
        };
        context.console.tell(format!("keyslot {number} removed"));
        Ok(())
    }
}
