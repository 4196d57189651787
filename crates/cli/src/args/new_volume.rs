// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a new volume is to be.

use clap::Args;
use luxor::luks::HashAlgorithm;

use super::{
    luks_version::VolumeType,
    pbkdf::PbkdfArgs,
    values::{hash_name, size},
};

/// What a new volume is to be.
#[derive(Args, Clone, Debug)]
pub(crate) struct NewVolumeArgs {
    /// The format: luks2, or luks1 for programs that support no other
    #[arg(long = "type", value_name = "TYPE", value_enum, default_value_t)]
    #[arg(hide_possible_values = true)]
    pub volume_type: VolumeType,

    /// The sector size in bytes: 512, 1024, 2048 or 4096 (default: as cryptsetup chooses; LUKS1: 512)
    ///
    /// The default is 4096 bytes in a file, and on a device the physical size of its blocks. It is
    /// 512 bytes where the data would not be whole sectors.
    #[arg(long, value_name = "BYTES")]
    pub sector_size: Option<u32>,

    /// The XTS key in bits: 512 is AES-256, 256 is AES-128
    #[arg(long, value_name = "BITS", default_value_t = 512)]
    pub key_size: u32,

    /// The hash for PBKDF2 and the digests: sha1, sha256, sha512, ripemd160, whirlpool
    #[arg(long, value_name = "HASH", value_parser = hash_name(), default_value = "sha256")]
    #[arg(hide_possible_values = true)]
    pub hash: HashAlgorithm,

    /// What opening it costs.
    #[command(flatten)]
    pub pbkdf: PbkdfArgs,

    /// A name for the volume, at most 47 bytes
    #[arg(long, value_name = "LABEL")]
    pub label: Option<String>,

    /// A second name for the volume, at most 47 bytes
    #[arg(long, value_name = "TEXT")]
    pub subsystem: Option<String>,

    /// Put the key into this keyslot
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub key_slot: u32,

    /// Where the data begin, in units of 512 bytes, a multiple of 8 (default: after the header)
    #[arg(long, value_name = "UNITS")]
    pub offset: Option<u64>,

    /// The volume's UUID (default: a random one)
    #[arg(long, value_name = "UUID")]
    pub uuid: Option<String>,

    /// The size of each of the two copies of the metadata: 16K to 4096K, a power of 2 (default: 16K)
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub luks2_metadata_size: Option<u64>,

    /// The size of the keyslots area, a multiple of 4096 bytes (default: up to byte 16M)
    ///
    /// The data begin right after it. With 512K the header takes 544 KiB, and there is room for two
    /// keyslots of AES-256: one for the key, and one to change it or to add another.
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub luks2_keyslots_size: Option<u64>,
}
