// SPDX-License-Identifier: MIT OR Apache-2.0
//! `luxor token add`.

use std::{
    io::Read,
    path::{Path, PathBuf},
};

use clap::{ArgGroup, Args, ValueHint};
use luxor::{
    files::{Input, Role},
    luks::{keyring_token, token_with_keyslot},
};

use super::luks2;
use crate::{
    commands::{Subcommand, Taken},
    context::Context,
    error::{Error, Result},
    volume::open_to_change,
};

/// The most bytes of a token's file: no JSON area is longer.
const TOKEN_MAX: u64 = 4 << 20;

/// Add a token
#[derive(Args, Debug)]
#[command(group = ArgGroup::new("token").required(true))]
#[command(after_help = "\
Examples:
  luxor token add --json-file token.json backup.luks
  luxor token add --json-file - --token-id 1 --token-replace backup.luks < token.json
  luxor token add --key-description my-key --key-slot 0 backup.luks")]
pub(crate) struct TokenAddArgs {
    /// The volume (or its detached header)
    #[arg(value_hint = ValueHint::FilePath)]
    pub volume: PathBuf,

    /// Add the JSON object in FILE; `-` is standard input
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, group = "token")]
    pub json_file: Option<PathBuf>,

    /// Add a token of the type luks2-keyring: cryptsetup then finds the passphrase in the
    /// kernel's keyring under this description
    #[arg(long, value_name = "TEXT", group = "token")]
    pub key_description: Option<String>,

    /// Assign the token to this keyslot (default with --key-description: to all)
    #[arg(long, value_name = "N", conflicts_with = "unbound")]
    pub key_slot: Option<u32>,

    /// Assign the token to no keyslot
    #[arg(long, conflicts_with = "json_file")]
    pub unbound: bool,

    /// The token's number (default: the first free one)
    #[arg(long, value_name = "N")]
    pub token_id: Option<u32>,

    /// Replace the token with this number
    #[arg(long, requires = "token_id")]
    pub token_replace: bool,

    /// Replace a token even if the file in the volume then ends elsewhere
    #[arg(long)]
    pub force: bool,
}

impl Subcommand for TokenAddArgs {
    const NAME: &str = "add";
    const TAKES: Taken = Taken::METADATA;

    fn run(&self, context: &Context) -> Result<()> {
        let mut volume = open_to_change(&self.volume, context)?;
        let description = luks2(&volume)?.describe();
        let keyslots: Vec<u32> = description.keyslots.keys().copied().collect();
        if let Some(number) = self.key_slot
            && !keyslots.contains(&number)
        {
            let name = volume.name();
            return Err(Error::failure(format!(
                "{name}: there is no keyslot {number}"
            )));
        }
        let token = match &self.json_file {
            Some(path) => imported(path, self.key_slot)?,
            None => {
                let keyslots = match self.key_slot {
                    Some(number) => vec![number],
                    None if self.unbound => Vec::new(),
                    None => keyslots,
                };
                let description = self.key_description.as_deref();
                keyring_token(description.unwrap_or_default(), &keyslots).into_bytes()
            }
        };
        let number = volume.add_token(
            token,
            self.token_id,
            self.token_replace,
            self.force,
            &context.library,
        )?;
        context.console.note(format!("token {number} added"));
        Ok(())
    }
}

/// Returns the token in a file, assigned to `keyslot` too if that is given.
fn imported(path: &Path, keyslot: Option<u32>) -> Result<Vec<u8>> {
    let mut input = Input::open(path, Role::Metadata)?;
    let name = input.name();
    let mut text = Vec::new();
    input
        .by_ref()
        .take(TOKEN_MAX + 1)
        .read_to_end(&mut text)
        .map_err(|error| Error::io(format!("cannot read {name}"), &error))?;
    if text.len() as u64 > TOKEN_MAX {
        let message = format!("{name} is longer than {TOKEN_MAX} bytes, the limit for a token");
        return Err(Error::failure(message));
    }
    match keyslot {
        Some(keyslot) => token_with_keyslot(&text, keyslot)
            .map_err(|error| Error::failure(format!("{name}: {error}"))),
        None => Ok(text),
    }
}
