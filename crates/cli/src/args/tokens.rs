// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options of `token`, `config`, `uuid` and `is-luks`.

use std::path::PathBuf;

use clap::{ArgGroup, Args, Subcommand, ValueEnum, ValueHint};
use luxor::luks::LuksVersion;

/// List, add and remove the tokens of a LUKS2 volume
///
/// A token is a JSON object in the metadata that tells a program how to obtain a passphrase.
/// Luxor preserves tokens. It uses only its own, of the type luxor-file, which holds the
/// length of a file.
#[derive(Args, Debug)]
pub(crate) struct TokenArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: TokenCommand,
}

/// `token`'s commands.
#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    List(TokenListArgs),
    Add(TokenAddArgs),
    Remove(TokenRemoveArgs),
}

/// List the tokens
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  luxor token list backup.luks
  luxor token list --json --token-id 0 backup.luks > token.json")]
pub(crate) struct TokenListArgs {
    /// The volume (or its detached header)
    #[arg(value_hint = ValueHint::FilePath)]
    pub volume: PathBuf,

    /// List only this token
    #[arg(long, value_name = "N")]
    pub token_id: Option<u32>,

    /// Print JSON: one token with --token-id, otherwise an object with all tokens by number
    #[arg(long)]
    pub json: bool,

    /// Write the JSON to FILE, which must not exist
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "json")]
    pub json_file: Option<PathBuf>,
}

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

/// Remove a token
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  luxor token remove --token-id 1 backup.luks")]
pub(crate) struct TokenRemoveArgs {
    /// The volume (or its detached header)
    #[arg(value_hint = ValueHint::FilePath)]
    pub volume: PathBuf,

    /// The token's number
    #[arg(long, value_name = "N")]
    pub token_id: u32,

    /// Remove the token even if it says where the file in the volume ends
    #[arg(long)]
    pub force: bool,
}

/// Set a volume's label, subsystem, UUID and flags, and a keyslot's priority
///
/// LUKS1 has only a UUID.
#[derive(Args, Debug)]
#[command(group = ArgGroup::new("setting").required(true).multiple(true))]
#[command(override_usage = "luxor config [OPTIONS] <SETTINGS> <VOLUME>")]
#[command(after_help = "\
Examples:
  luxor config --label Photos backup.luks
  luxor config --key-slot 1 --priority prefer backup.luks
  luxor config --flags allow-discards,no-read-workqueue backup.luks
  luxor config --flags none backup.luks")]
pub(crate) struct ConfigArgs {
    /// The volume (or its detached header)
    #[arg(value_hint = ValueHint::FilePath)]
    pub volume: PathBuf,

    /// A name for the volume, at most 47 bytes; an empty one removes it
    #[arg(long, value_name = "LABEL", group = "setting")]
    pub label: Option<String>,

    /// A second name, at most 47 bytes; an empty one removes it
    #[arg(long, value_name = "TEXT", group = "setting")]
    pub subsystem: Option<String>,

    /// The volume's UUID
    #[arg(long, value_name = "UUID", group = "setting")]
    pub uuid: Option<String>,

    /// Set the UUID even if a trailer ends the file in the volume, as after `luxor encrypt - -`
    ///
    /// The trailer is valid only with the UUID with which the volume was made. Use this option to set
    /// that one back.
    #[arg(long, requires = "uuid")]
    pub force: bool,

    /// When to try the keyslot of --key-slot
    #[arg(
        long,
        value_enum,
        value_name = "WHEN",
        group = "setting",
        requires = "key_slot"
    )]
    pub priority: Option<PriorityName>,

    /// The keyslot of --priority
    #[arg(long, value_name = "N", requires = "priority")]
    pub key_slot: Option<u32>,

    /// All flags for activation, separated by commas: allow-discards, same-cpu-crypt,
    /// submit-from-crypt-cpus, no-journal, no-read-workqueue, no-write-workqueue; or none
    #[arg(long, value_name = "LIST", group = "setting")]
    pub flags: Option<String>,
}

/// `config --priority`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PriorityName {
    /// Only when its number is given
    Ignore,
    /// In the order of the numbers
    Normal,
    /// Before all others
    Prefer,
}

/// Print a volume's UUID
#[derive(Args, Debug)]
#[command(hide = true)]
pub(crate) struct UuidArgs {
    /// The volume (or its detached header)
    #[arg(value_hint = ValueHint::FilePath)]
    pub volume: PathBuf,
}

/// Exit with 0 if a file is a LUKS volume, else with 1
#[derive(Args, Debug)]
#[command(hide = true)]
pub(crate) struct IsLuksArgs {
    /// The file or device
    #[arg(value_hint = ValueHint::FilePath)]
    pub volume: PathBuf,

    /// Accept only a volume of this type
    #[arg(long = "type", value_name = "TYPE", value_enum, default_value_t)]
    pub volume_type: AnyLuks,
}

/// `--require-type`, and `is-luks --type`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum AnyLuks {
    /// Both
    #[default]
    Luks,
    /// LUKS1
    Luks1,
    /// LUKS2
    Luks2,
}

impl AnyLuks {
    /// Returns the version that a volume must have, or `None` if any will do.
    #[must_use]
    pub(crate) fn version(self) -> Option<LuksVersion> {
        match self {
            Self::Luks => None,
            Self::Luks1 => Some(LuksVersion::Luks1),
            Self::Luks2 => Some(LuksVersion::Luks2),
        }
    }
}
