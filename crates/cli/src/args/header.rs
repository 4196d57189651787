// SPDX-License-Identifier: MIT OR Apache-2.0
//! The header as a whole: `luxor header`, and what a header must be.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};
use luxor::VolumePolicy;
use luxor_luks::{Encryption, HeaderDigest, HeaderPolicy};

use super::{AnyLuks, VolumeType, keys::PbkdfName};

/// What the header of a volume that is read must be.
#[derive(Args, Clone, Debug)]
pub(crate) struct PolicyArgs {
    /// Refuse volumes of another version: luks1, luks2
    #[arg(long, global = true, value_name = "TYPE", help_heading = "Policy")]
    #[arg(value_enum, hide_possible_values = true)]
    pub require_type: Option<AnyLuks>,

    /// Refuse volumes with other encryptions, of data and keyslots: aes-xts-plain64
    ///
    /// Several names stand with commas between, or the option several times.
    #[arg(long, global = true, value_name = "NAMES", help_heading = "Policy")]
    #[arg(value_delimiter = ',', value_parser = encryption)]
    pub require_cipher: Vec<Encryption>,

    /// Refuse volumes with keyslots of other kinds: argon2id, argon2i, pbkdf2
    ///
    /// Also refuses keyslots that cost less than OWASP recommends: Argon2 with less than
    /// 7 MiB of memory or 35 MiB of memory times passes, PBKDF2 with fewer than 600000
    /// iterations of SHA-256, 210000 of SHA-512 or Whirlpool, 1300000 of SHA-1 or
    /// RIPEMD-160; and keyslots of kinds that this version does not have.
    #[arg(long, global = true, value_name = "KINDS", help_heading = "Policy")]
    #[arg(value_delimiter = ',', value_enum, hide_possible_values = true)]
    pub require_pbkdf: Vec<PbkdfName>,

    /// Refuse volumes with another header than this: what `luxor header digest` printed
    ///
    /// Who can write to a volume can put another header there, with a weaker cipher or
    /// a key of their own. This finds it out, before a secret is asked for. Each change
    /// of a key, a token or a label gives another digest.
    #[arg(long, global = true, value_name = "SHA256", help_heading = "Policy")]
    pub header_digest: Option<HeaderDigest>,
}

impl PolicyArgs {
    /// As the library takes it.
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
            "this version has {}",
            Encryption::ALL.map(Encryption::name).join(", ")
        )
    })
}

/// Back up, restore, repair or identify a volume's header
///
/// The header has the keyslots: without it nobody can read the data. Who has a backup
/// of it and a passphrase of then can, also when that passphrase was changed since.
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
/// The file has the bytes that `cryptsetup luksHeaderBackup` stores; each program
/// restores what the other one has stored. It appears whole or not at all, and can be
/// read by its owner only.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  luxor header backup photos.luks photos.header
  luxor header backup --header photos.header photos.data photos.header-backup")]
pub(crate) struct HeaderBackupArgs {
    /// The volume
    #[arg(value_hint = ValueHint::FilePath)]
    pub volume: PathBuf,

    /// The file to make; `-` is standard output
    #[arg(value_hint = ValueHint::FilePath)]
    pub file: PathBuf,

    /// Replace FILE when it exists
    #[arg(long)]
    pub force: bool,
}

/// Put a header back that was stored in a file
///
/// It replaces the header and all keyslots that there are: passphrases that were added
/// since do not open the volume any more, and those that were removed do. --force is needed
/// for a backup that is damaged, by which the data begin elsewhere, or that has another UUID
/// or volume key than the volume, and where there is no LUKS header. A volume that is too
/// short for the backup is refused, and never grows; an empty file becomes a detached header.
/// After a crash it can be done again.
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

    /// The backup, by Luxor or cryptsetup. --header-digest and its kin are about it
    #[arg(value_hint = ValueHint::FilePath)]
    pub file: PathBuf,

    /// Ask nothing; a backup that does not fit is still refused
    #[arg(long)]
    pub batch_mode: bool,

    /// Restore a backup that does not fit, also where there is no LUKS header
    #[arg(long)]
    pub force: bool,
}

/// Restore a damaged header, from its other copy or as far as it can be known
///
/// LUKS2: the copy that is damaged, or older than the other as a crash leaves it, is made
/// anew from the other one. LUKS1 has one copy, of which the places of keyslots, the
/// signature and more can be known for certain; it is restored whole or not at all.
/// Nothing is changed when all is in order. When something else, such as a file system,
/// begins where the damaged header should be, or when a copy cannot be read, it takes
/// --force.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  luxor header repair photos.luks
  luxor check photos.luks            says whether there is something to repair")]
pub(crate) struct HeaderRepairArgs {
    /// The volume, or its detached header
    #[arg(value_hint = ValueHint::FilePath)]
    pub volume: PathBuf,

    /// Overwrite what begins in its place, and a copy that cannot be read; empty keyslots
    /// of LUKS1 of which nobody can know what they were
    #[arg(long)]
    pub force: bool,
}

/// Print the SHA-256 of a volume's header, for --header-digest
///
/// It is of the bytes that are parsed: of LUKS2 the header's copy that counts, of LUKS1
/// the first 592 bytes.
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

/// Make a LUKS1 volume a LUKS2 volume, or the other way round
///
/// The header is written anew in place; keyslots, UUID and data stay, and no key is
/// needed. A crash in between leaves a volume of one version or the other that opens
/// with every key.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  luxor convert --type luks2 old.luks
  luxor convert --type luks1 --batch-mode photos.luks")]
pub(crate) struct ConvertArgs {
    /// The volume, or its detached header
    #[arg(value_hint = ValueHint::FilePath)]
    pub volume: PathBuf,

    /// The format that it shall have: luks2 or luks1
    #[arg(long = "type", value_name = "TYPE", value_enum)]
    #[arg(hide_possible_values = true)]
    pub volume_type: VolumeType,

    /// Ask nothing
    #[arg(long)]
    pub batch_mode: bool,

    /// Also when LUKS1 has no place for something: tokens, labels, flags, priorities
    #[arg(long)]
    pub force: bool,
}

/// Destroy all keyslots: the data can never be read again
///
/// They are overwritten with random bytes. Nobody has a way back then, whatever the
/// passphrase, except with a backup of the header.
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  luxor erase photos.luks")]
pub(crate) struct EraseArgs {
    /// The volume, or its detached header
    #[arg(value_hint = ValueHint::FilePath)]
    pub volume: PathBuf,

    /// Ask nothing
    #[arg(long, alias = "force")]
    pub batch_mode: bool,
}
