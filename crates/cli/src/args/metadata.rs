// SPDX-License-Identifier: MIT OR Apache-2.0
//! The commands that look at metadata: `dump`, `check`.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::UnlockArgs;

/// Show a volume's metadata
///
/// Needs no key and shows none, unless --volume-key asks for it.
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

    /// The JSON metadata, as `cryptsetup luksDump --dump-json-metadata` prints it
    ///
    /// LUKS1 has none; what its header says is printed in a similar form, with a
    /// number `schema` that says which.
    #[arg(long)]
    pub json: bool,

    /// Show the volume key instead, which opens the data for ever, without a passphrase
    #[arg(long, conflicts_with = "json")]
    pub volume_key: bool,

    /// Write the volume key to FILE, every byte as it is, and do not show it
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "volume_key")]
    pub volume_key_file: Option<PathBuf>,

    /// Give the volume key without a question
    #[arg(long, alias = "force", requires = "volume_key")]
    pub batch_mode: bool,

    /// How to open the volume.
    #[command(flatten)]
    pub unlock: UnlockArgs,
}

/// Check a volume's metadata, and a key if one is given
///
/// Looks at the header (LUKS2: both copies and their checksums) and every rule that the
/// metadata must keep. With --key-file or --passphrase it also opens a keyslot and
/// compares the key with its digest. Exit code 1 tells that something is damaged, even
/// when the volume can still be opened from its other copy. Data that cannot be read for
/// another reason are told, and no damage. Nothing is changed.
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
    #[arg(long, conflicts_with = "key_file")]
    pub passphrase: bool,

    /// How to open the volume.
    #[command(flatten)]
    pub unlock: UnlockArgs,
}
