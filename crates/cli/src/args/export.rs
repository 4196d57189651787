// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options for exporting a volume as a disk.

use std::{num::NonZeroU64, path::PathBuf};

use clap::{Args, ValueEnum, ValueHint};

use super::{TypeArgs, UnlockArgs, values::size};

/// The volume that is given out as a disk.
#[derive(Args, Clone, Debug)]
pub(crate) struct ExportArgs {
    /// The volume: a file or a block device
    #[arg(value_hint = ValueHint::FilePath)]
    pub volume: PathBuf,

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

    /// The format. Last, since its heading goes on.
    #[command(flatten)]
    pub format: TypeArgs,
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
