// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options for exporting a volume as a disk.

use std::{num::NonZeroU64, path::PathBuf};

use clap::{Args, ValueEnum, ValueHint};
use luxor_luks::Encryption;

use super::{UnlockArgs, header::encryption, volume::size};

/// The volume that is given out as a disk.
#[derive(Args, Clone, Debug)]
pub(crate) struct ExportArgs {
    /// The volume: a file or a block device
    #[arg(value_hint = ValueHint::FilePath)]
    pub volume: PathBuf,

    /// Format of the volume: luks, luks1, luks2 or plain (no header)
    #[arg(long = "type", value_name = "TYPE", value_enum, default_value_t)]
    #[arg(hide_possible_values = true)]
    pub kind: ExportType,

    /// Refuse writes; other programs may read the volume at the same time
    #[arg(long)]
    pub read_only: bool,

    /// Pass discards on to the file or device, as the volume's own flag allow-discards does
    ///
    /// Anyone who can see the encrypted file can then see which parts are unused.
    #[arg(long)]
    pub allow_discards: bool,

    /// Use direct I/O, which bypasses the system's page cache
    ///
    /// For physical disks and clients with a cache of their own, such as virtual machines:
    /// memory holds nothing twice, and the disk works on many requests at a time. Slower for
    /// data that the page cache would hold.
    #[arg(long)]
    pub direct: bool,

    /// Change the volume key meanwhile, as `luxor reencrypt` does, or continue that
    ///
    /// Luxor asks for the passphrase of each keyslot, and keeps all of them. If the program ends before
    /// the re-encryption, the next one with this option continues it, and so does `luxor reencrypt`.
    /// For LUKS2.
    #[arg(
        long,
        value_name = "WHEN",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "always",
        conflicts_with_all = ["read_only", "key_slot"]
    )]
    pub reencrypt: Option<ReencryptWhen>,

    /// Change at most this many bytes in a second (default: a quarter of the time while in use)
    #[arg(long, value_name = "SIZE", value_parser = rate, requires = "reencrypt")]
    pub reencrypt_rate: Option<NonZeroU64>,

    /// Change at most this many bytes at once, and let requests for them wait (default: 1M while in use, 4M otherwise)
    #[arg(long, value_name = "SIZE", value_parser = size, requires = "reencrypt")]
    pub hotzone_size: Option<u64>,

    /// How to open the volume.
    #[command(flatten)]
    pub unlock: UnlockArgs,

    /// What the header of a plain volume would say. Last, since its heading goes on.
    #[command(flatten)]
    pub plain: PlainArgs,
}

fn rate(text: &str) -> Result<NonZeroU64, String> {
    NonZeroU64::new(size(text)?).ok_or_else(|| "at least 1 byte".to_owned())
}

/// `--reencrypt` of a volume that is given out as a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReencryptWhen {
    /// Begin unless it has begun, also at the next start
    Always,
    /// Continue what has begun, and otherwise only give out the volume
    Begun,
}

/// `--type` of a volume that is given out as a disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportType {
    /// A LUKS volume of any version
    #[default]
    Luks,
    /// LUKS1
    Luks1,
    /// LUKS2
    Luks2,
    /// Encrypted data with no header
    Plain,
}

/// What nothing but the command line says of a plain volume.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Plain volumes (--type plain)")]
pub(crate) struct PlainArgs {
    /// The cipher of the data (default: aes-xts-plain64)
    ///
    /// One of aes-xts-plain64, aes-xts-plain, aes-cbc-essiv:sha256, aes-cbc-plain64,
    /// aes-cbc-plain, or another name that means the same to dm-crypt, such as
    /// capi:xts(aes)-plain64.
    #[arg(long, value_name = "NAME", value_parser = encryption)]
    pub cipher: Option<Encryption>,

    /// The length of the key in bits (default: 256, as in cryptsetup)
    ///
    /// The first bits of the key file are the key, the rest is ignored. 256 bits are AES-128
    /// in XTS, which needs two keys, and AES-256 in CBC.
    #[arg(long, value_name = "BITS")]
    pub key_size: Option<u32>,

    /// Where the data begin in VOLUME, in units of 512 bytes (default: 0)
    #[arg(long, value_name = "UNITS")]
    pub offset: Option<u64>,

    /// The IV of the first sector, in units of 512 bytes (default: 0)
    #[arg(long, value_name = "UNITS")]
    pub skip: Option<u64>,

    /// The length of the data, in units of 512 bytes (default: to the end of VOLUME)
    #[arg(long, value_name = "UNITS")]
    pub size: Option<u64>,

    /// The sector size in bytes: 512, 1024, 2048 or 4096 (default: 512)
    #[arg(long, value_name = "BYTES")]
    pub sector_size: Option<u32>,

    /// Count IVs in sectors of --sector-size, not in units of 512 bytes
    #[arg(long)]
    pub iv_large_sectors: bool,
}

impl PlainArgs {
    /// Returns the name of an option that was given, or `None`.
    #[must_use]
    pub(crate) fn given(&self) -> Option<&'static str> {
        [
            ("--cipher", self.cipher.is_some()),
            ("--key-size", self.key_size.is_some()),
            ("--offset", self.offset.is_some()),
            ("--skip", self.skip.is_some()),
            ("--size", self.size.is_some()),
            ("--sector-size", self.sector_size.is_some()),
            ("--iv-large-sectors", self.iv_large_sectors),
        ]
        .into_iter()
        .find_map(|(name, given)| given.then_some(name))
    }
}
