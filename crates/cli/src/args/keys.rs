// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options of `key`, and those for opening a keyslot and for a new one.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use clap::{Args, Subcommand, ValueEnum, ValueHint, builder::TypedValueParser};
use luxor::{
    InPlace,
    luks::{PbkdfKind, PbkdfOptions},
};

use super::TypeArgs;
use crate::error::{Error, Result};

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

/// `key`'s commands.
#[derive(Debug, Subcommand)]
pub(crate) enum KeyCommand {
    List(KeyListArgs),
    Add(KeyAddArgs),
    Change(KeyChangeArgs),
    Remove(KeyRemoveArgs),
    Convert(KeyConvertArgs),
    Test(KeyTestArgs),
}

/// List the keyslots: their key derivation and its cost, their priority, and their tokens
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  luxor key list backup.luks")]
pub(crate) struct KeyListArgs {
    /// The volume (or its detached header)
    #[arg(value_hint = ValueHint::FilePath)]
    pub volume: PathBuf,
}

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

/// Replace a passphrase or key file by another one
///
/// The keyslot keeps its number. At every moment the old or the new key opens the volume,
/// even after a power cut, except with --in-place; at the end the old keyslot is overwritten.
/// Earlier copies of the header still open with the old key.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  luxor key change backup.luks
  luxor key change --key-file old.bin --new-key-file new.bin backup.luks")]
pub(crate) struct KeyChangeArgs {
    /// The volume (or its detached header)
    #[arg(value_hint = ValueHint::FilePath)]
    pub volume: PathBuf,

    /// The new key.
    #[command(flatten)]
    pub new: NewSecretArgs,

    /// What opening it costs.
    #[command(flatten)]
    pub pbkdf: PbkdfArgs,

    /// Where it is written.
    #[command(flatten)]
    pub place: InPlaceArgs,

    /// How to open the volume.
    #[command(flatten)]
    pub unlock: UnlockArgs,
}

/// Remove a passphrase or key file, and overwrite its keyslot
///
/// Removes the keyslot that the secret opens. With --key-slot it removes that keyslot, and
/// the secret must open a different one. Earlier copies of the header still open with the
/// removed key.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  luxor key remove backup.luks
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

    /// Allow removing the last keyslot: nothing opens the volume afterwards
    #[arg(long)]
    pub last: bool,

    /// What opening a keyslot may cost.
    #[command(flatten)]
    pub limits: LimitArgs,
}

/// Change the key derivation of a keyslot; the passphrase or key file stays the same
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  luxor key convert --pbkdf argon2id backup.luks
  luxor key convert --pbkdf pbkdf2 --iter-time 5000 --key-slot 0 backup.luks")]
pub(crate) struct KeyConvertArgs {
    /// The volume (or its detached header)
    #[arg(value_hint = ValueHint::FilePath)]
    pub volume: PathBuf,

    /// What opening it costs.
    #[command(flatten)]
    pub pbkdf: PbkdfArgs,

    /// Where it is written.
    #[command(flatten)]
    pub place: InPlaceArgs,

    /// How to open the volume.
    #[command(flatten)]
    pub unlock: UnlockArgs,
}

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

/// The options for one secret.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SecretArgs<'a> {
    /// The key file, if one was named; `-` is standard input.
    pub key_file: Option<&'a Path>,
    /// The number of bytes of the key file to skip.
    pub offset: u64,
    /// The number of bytes of the key file to read; `None` means to the end.
    pub size: Option<u64>,
    /// The file descriptor with the passphrase, if one was named; 0 is standard input.
    pub descriptor: Option<i32>,
    /// The names of these options.
    pub names: SecretArgNames,
}

/// The names of the options of [`SecretArgs`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct SecretArgNames {
    pub key_file: &'static str,
    pub offset: &'static str,
    pub size: &'static str,
    pub descriptor: &'static str,
}

/// The number of a file descriptor.
pub(crate) fn descriptor() -> impl TypedValueParser<Value = i32> {
    clap::value_parser!(i32).range(0..)
}

/// Where a new secret comes from.
#[derive(Args, Clone, Debug)]
pub(crate) struct NewSecretArgs {
    /// Read the new secret from FILE, every byte as it is; `-` is standard input
    ///
    /// Without this option and --new-passphrase-fd, luxor asks for the new passphrase twice on the
    /// terminal.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Key")]
    pub new_key_file: Option<PathBuf>,

    /// Skip this many bytes at the beginning of the new key file
    #[arg(long, value_name = "BYTES", help_heading = "Key", default_value_t = 0)]
    #[arg(hide_default_value = true)]
    pub new_keyfile_offset: u64,

    /// Read this many bytes of the new key file, at most 8388608 (default: to its end)
    #[arg(long, value_name = "BYTES", help_heading = "Key")]
    pub new_keyfile_size: Option<u64>,

    /// Read the new passphrase from file descriptor N: one line, without its newline
    ///
    /// With the same N as --passphrase-fd it is the line after the other passphrase.
    #[arg(
        long,
        value_name = "N",
        help_heading = "Key",
        conflicts_with = "new_key_file"
    )]
    #[arg(value_parser = descriptor())]
    pub new_passphrase_fd: Option<i32>,
}

impl NewSecretArgs {
    /// Returns the options for [`SecretSource::pair`](crate::secrets::SecretSource::pair).
    #[must_use]
    pub(crate) fn secret(&self) -> SecretArgs<'_> {
        SecretArgs {
            key_file: self.new_key_file.as_deref(),
            offset: self.new_keyfile_offset,
            size: self.new_keyfile_size,
            descriptor: self.new_passphrase_fd,
            names: SecretArgNames {
                key_file: "--new-key-file",
                offset: "--new-keyfile-offset",
                size: "--new-keyfile-size",
                descriptor: "--new-passphrase-fd",
            },
        }
    }
}

/// What may be said about opening a volume.
#[derive(Args, Clone, Debug)]
pub(crate) struct UnlockArgs {
    /// Try only this keyslot
    #[arg(long, value_name = "N")]
    pub key_slot: Option<u32>,

    /// What that may cost, and what is accepted.
    #[command(flatten)]
    pub limits: LimitArgs,
}

/// What opening a keyslot may cost, and what is accepted.
#[derive(Args, Clone, Debug)]
pub(crate) struct LimitArgs {
    /// Ask for the passphrase up to N times, on a terminal
    #[arg(long, value_name = "N", default_value_t = 3, help_heading = "Key")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub tries: u32,

    /// Open a volume with equal data and tweak keys, which weaken XTS
    #[arg(long)]
    pub allow_weak_key: bool,

    /// Allow a keyslot this much memory (KiB), instead of the built-in limit
    #[arg(long, value_name = "KiB")]
    pub pbkdf_memory_limit: Option<u64>,

    /// Allow a keyslot or digest this many iterations, instead of the built-in limit
    #[arg(long, value_name = "N")]
    pub pbkdf_iterations_limit: Option<u64>,
}

/// Whether a keyslot may be replaced in its own place.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct InPlaceArgs {
    /// Overwrite the old keyslot with the new one if the header has no room for both
    ///
    /// A crash or power cut while it is written leaves a keyslot that nothing opens. Make a backup
    /// first: `luxor header backup`.
    #[arg(long)]
    pub in_place: bool,

    /// With --in-place: also if it is the last keyslot
    #[arg(long, requires = "in_place")]
    pub last: bool,
}

impl InPlaceArgs {
    /// Returns the choice for the library.
    pub(crate) fn choice(self) -> InPlace {
        match (self.in_place, self.last) {
            (false, _) => InPlace::Never,
            (true, false) => InPlace::UnlessOnly,
            (true, true) => InPlace::Always,
        }
    }
}

/// What opening a new keyslot is to cost.
#[derive(Args, Clone, Debug)]
pub(crate) struct PbkdfArgs {
    /// The key derivation function (default: argon2id; pbkdf2 in LUKS1)
    #[arg(long = "pbkdf", value_enum, value_name = "KIND")]
    pub kind: Option<PbkdfName>,

    /// Argon2: the most memory, in KiB (default: 1048576, at most half of the machine's)
    #[arg(long = "pbkdf-memory", value_name = "KiB")]
    pub memory_kib: Option<u32>,

    /// Argon2: lanes computed in parallel (default: 4, at most one per processor)
    #[arg(long = "pbkdf-parallel", value_name = "N")]
    pub parallel: Option<u32>,

    /// Use exactly this many iterations; measure nothing
    #[arg(
        long = "pbkdf-force-iterations",
        value_name = "N",
        conflicts_with = "iter_time"
    )]
    pub force_iterations: Option<u32>,

    /// How long opening the volume should take on this machine, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 2000)]
    pub iter_time: u64,
}

impl PbkdfArgs {
    /// Returns the checked options. `default` is the kind that the version of the volume uses.
    ///
    /// # Errors
    /// Fails for values out of bounds, and for options that the kind does not support.
    pub(crate) fn options(&self, default: PbkdfKind) -> Result<PbkdfOptions> {
        let options = PbkdfOptions {
            kind: self.kind.map_or(default, PbkdfName::kind),
            memory_kib: self.memory_kib,
            parallel: self.parallel,
            force_iterations: self.force_iterations,
            iter_time: Duration::from_millis(self.iter_time),
            ..PbkdfOptions::default()
        };
        options
            .check()
            .map_err(|error| Error::failure(error.to_string()))?;
        Ok(options)
    }
}

/// `--pbkdf`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PbkdfName {
    /// Memory-hard: resists GPUs, and partly side channels
    Argon2id,
    /// Memory-hard, without memory accesses that depend on the passphrase
    Argon2i,
    /// PBKDF2: needs almost no memory, so guessing a passphrase costs less
    Pbkdf2,
}

impl PbkdfName {
    /// Returns the library's name for it.
    #[must_use]
    pub(crate) fn kind(self) -> PbkdfKind {
        match self {
            Self::Argon2id => PbkdfKind::Argon2id,
            Self::Argon2i => PbkdfKind::Argon2i,
            Self::Pbkdf2 => PbkdfKind::Pbkdf2,
        }
    }
}
