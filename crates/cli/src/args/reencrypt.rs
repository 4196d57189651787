// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options of `reencrypt`.

use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};
use luxor::luks::HashAlgorithm;

use super::{
    keys::{LimitArgs, PbkdfArgs},
    volume::{hash_name, size},
};

/// Change the volume key of a volume in place
///
/// All data are decrypted with the old key and encrypted with a new one, where they are, and the
/// passphrases and key files stay the same. With --encrypt, plain data become a volume, and with
/// --decrypt a volume becomes plain data. An interruption at any moment loses nothing: Ctrl-C, a crash,
/// a power cut. The same command continues, without --encrypt; `cryptsetup reencrypt` can continue it too.
///
/// Nothing else may use the volume meanwhile. Luxor asks for the passphrase of each keyslot.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  luxor reencrypt disk.luks
  luxor reencrypt --key-file key.bin --key-slot 0 disk.luks     keeps only keyslot 0
  luxor reencrypt --sector-size 4096 --resilience journal disk.luks
  luxor reencrypt --encrypt --header disk.header disk.img       a plain image becomes a volume
  luxor reencrypt --encrypt --reduce-device-size 32M disk.img   the same, with the header in it
  luxor reencrypt --decrypt --header disk.header disk.luks      a volume becomes a plain image")]
pub(crate) struct ReencryptArgs {
    /// The volume: a file or a block device
    #[arg(value_hint = ValueHint::FilePath)]
    pub volume: PathBuf,

    /// VOLUME is a file or disk that is not encrypted: encrypt it in place
    ///
    /// The header goes to a new --header FILE, or into VOLUME with --reduce-device-size. Luxor asks for a
    /// new passphrase, or takes that of --key-file. After an interruption, the command without --encrypt
    /// continues.
    #[arg(long, conflicts_with_all = ["resume_only", "key_slot", "decrypt"])]
    pub encrypt: bool,

    /// The last SIZE bytes of VOLUME are free: put the header into VOLUME, which moves the data
    ///
    /// The header takes half of them. A file is made longer first: truncate --size +32M FILE. A file
    /// system is made smaller first.
    #[arg(long, value_name = "SIZE", value_parser = size, requires = "encrypt", conflicts_with = "decrypt")]
    pub reduce_device_size: Option<u64>,

    /// Overwrite what the last bytes of VOLUME hold (with --reduce-device-size)
    #[arg(long, requires = "reduce_device_size")]
    pub force: bool,

    /// Decrypt VOLUME in place, for good; the header is copied to a new --header FILE
    ///
    /// Until the end that file is needed to open the volume and to continue. A file is cut off where the
    /// data end.
    #[arg(long, conflicts_with_all = ["key_size", "sector_size", "key_slot"])]
    pub decrypt: bool,

    /// Keep only this keyslot (may be repeated); the others are removed at the end
    #[arg(long, value_name = "N")]
    pub key_slot: Vec<u32>,

    /// The new volume key in bits: 512 is AES-256, 256 is AES-128 (default: as now)
    #[arg(long, value_name = "BITS")]
    pub key_size: Option<u32>,

    /// The new sector size in bytes: 512, 1024, 2048 or 4096 (default: as now)
    #[arg(long, value_name = "BYTES")]
    pub sector_size: Option<u32>,

    /// What is stored before data change, so that a crash loses nothing (default: checksum)
    ///
    /// It can be another one after an interruption, unless the data move.
    #[arg(long, value_enum)]
    pub resilience: Option<ResilienceName>,

    /// The hash of --resilience checksum (default: sha256)
    #[arg(long, value_name = "HASH", value_parser = hash_name(), hide_possible_values = true)]
    pub resilience_hash: Option<HashAlgorithm>,

    /// Change at most this many bytes at once, with K, M, G or T for powers of 1024 (default: 128M)
    ///
    /// The area for the state in the metadata may permit less.
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub hotzone_size: Option<u64>,

    /// Change only the first SIZE bytes of the data: what comes after them is lost
    ///
    /// It stays where it is, and no key opens it afterwards: for a disk of which only the beginning is used.
    /// Luxor asks for confirmation. A command that continues after --init-only needs the option again.
    #[arg(long, value_name = "SIZE", value_parser = size, conflicts_with = "reduce_device_size")]
    pub device_size: Option<u64>,

    /// Do not ask for confirmation before data are lost
    #[arg(long)]
    pub batch_mode: bool,

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
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ResilienceName {
    /// Checksums of all sectors: fast, for disks that write a sector whole or not at all
    Checksum,
    /// A copy of the data: for any disk, slower
    Journal,
    /// Nothing: fastest, but a crash within a zone loses the whole volume
    None,
    /// The place from which data are read: always with --reduce-device-size
    Datashift,
    /// The same and checksums: the default of --decrypt where the data take the place of the header
    DatashiftChecksum,
    /// The same and a copy, which needs room for as much data as the header is long
    DatashiftJournal,
}
