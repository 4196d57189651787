// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options of `dump` and `check`.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::{TypeArgs, UnlockArgs};

/// Show a volume's metadata
///
/// Needs no key, and shows no key unless --volume-key is given.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  luxor dump backup.luks
  luxor dump --json backup.luks | jq .keyslots
  luxor dump --volume-key --volume-key-file backup.key backup.luks")]
pub(crate) struct DumpArgs {
    /// The volume (or its detached header)
    #[arg(value_hint = ValueHint::FilePath)]
    pub volume: PathBuf,

    /// Print the JSON metadata, as `cryptsetup luksDump --dump-json-metadata` does
    ///
    /// LUKS1 has no JSON metadata: its header is printed in a similar form, with the version
    /// of that form as the number `schema`.
    #[arg(long)]
    pub json: bool,

    /// Show the volume key instead, which opens the data for ever without a passphrase
    #[arg(long, conflicts_with = "json")]
    pub volume_key: bool,

    /// Write the volume key to FILE, as plain bytes, instead of showing it
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "volume_key")]
    pub volume_key_file: Option<PathBuf>,

    /// Do not ask for confirmation before the volume key is shown
    #[arg(long, alias = "force", requires = "volume_key")]
    pub batch_mode: bool,

    /// How to open the volume.
    #[command(flatten)]
    pub unlock: UnlockArgs,

    /// The format. Last, since its heading goes on.
    #[command(flatten)]
    pub format: TypeArgs,
}

/// Check a volume's metadata, and a key if one is given
///
/// Checks the header (of LUKS2 both copies and their checksums) against all rules for the
/// metadata, and the length of the data. With --key-file, --passphrase, --passphrase-fd or
/// --volume-key-file it also compares the key with its digest. The exit code is 1 if something is
/// damaged, even if the volume still opens from its other copy. Data that this version cannot read are
/// reported and do not count as damage. Nothing is changed.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  luxor check backup.luks
  luxor check --passphrase backup.luks
  luxor check --key-file key.bin --key-slot 0 backup.luks")]
pub(crate) struct CheckArgs {
    /// The volume (or its detached header)
    #[arg(value_hint = ValueHint::FilePath)]
    pub volume: PathBuf,

    /// Ask for a passphrase, and check that it opens a keyslot
    #[arg(long, conflicts_with_all = ["key_file", "passphrase_fd"])]
    pub passphrase: bool,

    /// Print the findings as JSON
    #[arg(long)]
    pub json: bool,

    /// How to open the volume.
    #[command(flatten)]
    pub unlock: UnlockArgs,

    /// The format. Last, since its heading goes on.
    #[command(flatten)]
    pub format: TypeArgs,
}
