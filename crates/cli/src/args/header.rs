// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options of `luxor header`, and the requirements on headers.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};
use luxor::{
    VolumePolicy,
    luks::{Encryption, HeaderDigest, HeaderPolicy},
};

use super::{AnyLuks, VolumeType, keys::PbkdfName};

/// What the header of a volume that is read must be.
#[derive(Args, Clone, Debug)]
pub(crate) struct PolicyArgs {
    /// Refuse volumes of another format: luks1, luks2
    #[arg(long, global = true, value_name = "TYPE", help_heading = "Policy")]
    #[arg(value_enum, hide_possible_values = true)]
    pub require_type: Option<AnyLuks>,

    /// Refuse volumes whose data or keyslots use another cipher: aes-xts-plain64
    ///
    /// For several ciphers, separate the names by commas or repeat the option.
    #[arg(long, global = true, value_name = "NAMES", help_heading = "Policy")]
    #[arg(value_delimiter = ',', value_parser = encryption)]
    pub require_cipher: Vec<Encryption>,

    /// Refuse volumes whose keyslots use another key derivation: argon2id, argon2i, pbkdf2
    ///
    /// Also refuses keyslots that cost less than OWASP recommends: Argon2 with less than
    /// 7 MiB of memory or 35 MiB of memory times passes, PBKDF2 with fewer than 600000
    /// iterations of SHA-256, 210000 of SHA-512 or Whirlpool, 1300000 of SHA-1 or
    /// RIPEMD-160; and keyslots of types that this version does not support.
    #[arg(long, global = true, value_name = "KINDS", help_heading = "Policy")]
    #[arg(value_delimiter = ',', value_enum, hide_possible_values = true)]
    pub require_pbkdf: Vec<PbkdfName>,

    /// Refuse volumes with any other header digest: see `luxor header digest`
    ///
    /// Anyone who can write to a volume can replace its header, for example by one with a
    /// weaker cipher or a known key. This option detects that before it asks for a secret.
    /// Every change of a key, a token or a label changes the digest.
    #[arg(long, global = true, value_name = "SHA256", help_heading = "Policy")]
    pub header_digest: Option<HeaderDigest>,
}

impl PolicyArgs {
    /// Returns the policy for the library.
    #[must_use]
    pub(crate) fn policy(&self) -> VolumePolicy {
        VolumePolicy {
            version: self.require_type.and_then(AnyLuks::version),
            header: HeaderPolicy {
                encryptions: self.require_cipher.clone(),
                pbkdfs: self.require_pbkdf.iter().map(|kind| kind.kind()).collect(),
                digest: self.header_digest,
            },
        }
    }
}

pub(super) fn encryption(name: &str) -> Result<Encryption, String> {
    Encryption::by_name(name).ok_or_else(|| {
        format!(
            "this version supports {}",
            Encryption::ALL.map(Encryption::name).join(", ")
        )
    })
}

/// Back up, restore, repair or identify a volume's header
///
/// The header contains the keyslots: without it the data cannot be read. A backup of the
/// header opens the data with the passphrases of that time, even if they were changed or
/// removed since.
#[derive(Args, Debug)]
pub(crate) struct HeaderArgs {
    /// What to do with it.
    #[command(subcommand)]
    pub action: HeaderAction,
}

/// What to do with a header.
#[derive(Debug, Subcommand)]
pub(crate) enum HeaderAction {
    Backup(HeaderBackupArgs),
    Restore(HeaderRestoreArgs),
    Repair(HeaderRepairArgs),
    Digest(HeaderDigestArgs),
}

/// Store a volume's header and keyslots in a file
///
/// The file has the format of `cryptsetup luksHeaderBackup`, so each program restores the
/// other's backups. It appears whole or not at all, and only its owner can read it.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  luxor header backup photos.luks photos.header
  luxor header backup --header photos.header photos.data photos.header-backup")]
pub(crate) struct HeaderBackupArgs {
    /// The volume
    #[arg(value_hint = ValueHint::FilePath)]
    pub volume: PathBuf,

    /// The file to create; `-` is standard output
    #[arg(value_hint = ValueHint::FilePath)]
    pub file: PathBuf,

    /// Replace FILE if it exists
    #[arg(long)]
    pub force: bool,
}

/// Restore a header from a backup
///
/// Replaces the header and all keyslots of the volume: passphrases added since the backup no
/// longer open it, and passphrases removed since then open it again. --force is needed if the
/// backup is damaged, if it places the data elsewhere, if its UUID or volume key is not the
/// volume's, or if there is no LUKS header. Luxor refuses a volume that is too short for the
/// backup, and never makes it longer; an empty file becomes a detached header. After a crash,
/// run the command again.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  luxor header restore photos.luks photos.header
  luxor header restore --force photos.luks photos.header   the header is lost
  luxor header restore --header-digest \"$(cat photos.digest)\" photos.luks photos.header")]
pub(crate) struct HeaderRestoreArgs {
    /// The volume
    #[arg(value_hint = ValueHint::FilePath)]
    pub volume: PathBuf,

    /// The backup, made by Luxor or cryptsetup; --header-digest and --require-… apply to it
    #[arg(value_hint = ValueHint::FilePath)]
    pub file: PathBuf,

    /// Do not ask for confirmation; a backup that does not fit is still refused
    #[arg(long)]
    pub batch_mode: bool,

    /// Restore a backup that does not fit, even where there is no LUKS header
    #[arg(long)]
    pub force: bool,
}

/// Repair a damaged header
///
/// LUKS2 has two copies of its header: a copy that is damaged, or older than the other after a
/// crash, is rewritten from the other one. LUKS1 has one copy, of which the signature, the
/// places and states of the keyslots and more can be recomputed; without --force it is repaired
/// completely or not at all.
/// An intact header is not changed. --force is needed if something else, such as a file
/// system, begins in the place of the damaged header, or if a copy cannot be read.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  luxor header repair photos.luks
  luxor check photos.luks            shows whether a repair is needed")]
pub(crate) struct HeaderRepairArgs {
    /// The volume, or its detached header
    #[arg(value_hint = ValueHint::FilePath)]
    pub volume: PathBuf,

    /// Overwrite something else in the header's place, and copies that cannot be read; mark
    /// LUKS1 keyslots that cannot be restored as empty, if another one is used
    #[arg(long)]
    pub force: bool,
}

/// Print the SHA-256 of a volume's header, for --header-digest
///
/// It covers the bytes that are parsed: the current copy of a LUKS2 header, or the first 592
/// bytes of a LUKS1 header.
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  luxor header digest photos.luks > photos.digest
  luxor decrypt --header-digest \"$(cat photos.digest)\" photos.luks photos.tar")]
pub(crate) struct HeaderDigestArgs {
    /// The volume, a detached header or a backup
    #[arg(value_hint = ValueHint::FilePath)]
    pub volume: PathBuf,
}

/// Convert a LUKS1 volume to LUKS2, or the other way round
///
/// Rewrites the header in place. Keyslots, UUID and data stay the same, and no key is
/// needed. A crash leaves a volume of either version that opens with every key.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  luxor convert --type luks2 old.luks
  luxor convert --type luks1 --batch-mode photos.luks")]
pub(crate) struct ConvertArgs {
    /// The volume, or its detached header
    #[arg(value_hint = ValueHint::FilePath)]
    pub volume: PathBuf,

    /// The new format: luks2 or luks1
    #[arg(long = "type", value_name = "TYPE", value_enum)]
    #[arg(hide_possible_values = true)]
    pub volume_type: VolumeType,

    /// Do not ask for confirmation
    #[arg(long)]
    pub batch_mode: bool,

    /// Drop what LUKS1 cannot store: tokens, labels, flags, priorities
    #[arg(long)]
    pub force: bool,
}

/// Destroy all keyslots: the data can never be read again
///
/// Overwrites the keyslots with random bytes. No passphrase opens the volume afterwards; only
/// a backup of the header brings the keyslots back.
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  luxor erase photos.luks")]
pub(crate) struct EraseArgs {
    /// The volume, or its detached header
    #[arg(value_hint = ValueHint::FilePath)]
    pub volume: PathBuf,

    /// Do not ask for confirmation
    #[arg(long, alias = "force")]
    pub batch_mode: bool,
}
