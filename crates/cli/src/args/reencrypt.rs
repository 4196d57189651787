// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options of `reencrypt`.

use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};
use luxor_luks::HashAlgorithm;

use super::{
    keys::{LimitArgs, PbkdfArgs},
    volume::{hash_name, size},
};

/// Change the volume key of a volume in place
///
/// All data are decrypted with the old key and encrypted with a new one, where they are, and the
/// passphrases and key files stay the same. An interruption at any moment loses nothing: Ctrl-C, a
/// crash, a power cut. The same command continues; `cryptsetup reencrypt` can continue it too.
///
/// Nothing else may use the volume meanwhile. Luxor asks for the passphrase of each keyslot.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  luxor reencrypt disk.luks
  luxor reencrypt --key-file key.bin --key-slot 0 disk.luks     keeps only keyslot 0
  luxor reencrypt --sector-size 4096 --resilience journal disk.luks")]
pub(crate) struct ReencryptArgs {
    /// The volume: a file or a block device
    #[arg(value_hint = ValueHint::FilePath)]
    pub volume: PathBuf,

    /// Keep only this keyslot (may be repeated); the others are removed at the end
    #[arg(long, value_name = "N")]
    pub key_slot: Vec<u32>,

    /// The new volume key in bits: 512 is AES-256, 256 is AES-128 (default: as now)
    #[arg(long, value_name = "BITS")]
    pub key_size: Option<u32>,

    /// The new sector size in bytes: 512, 1024, 2048 or 4096 (default: as now)
    #[arg(long, value_name = "BYTES")]
    pub sector_size: Option<u32>,

    /// What is stored before data change, so that a crash loses nothing
    #[arg(long, value_enum, default_value_t)]
    pub resilience: ResilienceName,

    /// The hash of --resilience checksum
    #[arg(long, value_name = "HASH", value_parser = hash_name(), default_value = "sha256")]
    #[arg(hide_possible_values = true)]
    pub resilience_hash: HashAlgorithm,

    /// Change at most this many bytes at once, with K, M, G or T for powers of 1024 (default: 128M)
    ///
    /// The area for the state in the metadata may permit less.
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub hotzone_size: Option<u64>,

    /// Begin, and change no data yet
    #[arg(long, conflicts_with = "resume_only")]
    pub init_only: bool,

    /// Continue only: fail if no re-encryption has begun
    #[arg(long)]
    pub resume_only: bool,

    /// For command lines of cryptsetup: Luxor finds out by itself that a volume is in use
    #[arg(long, hide = true)]
    pub force_offline_reencrypt: bool,

    /// What opening a new keyslot costs.
    #[command(flatten)]
    pub pbkdf: PbkdfArgs,

    /// What opening an old keyslot may cost.
    #[command(flatten)]
    pub limits: LimitArgs,
}

/// `--resilience`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ResilienceName {
    /// Checksums of all sectors: fast, for disks that write a sector whole or not at all
    #[default]
    Checksum,
    /// A copy of the data: for any disk, slower
    Journal,
    /// Nothing: fastest, and a crash or power cut loses data; Ctrl-C does not
    None,
}
