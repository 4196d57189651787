// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options of `encrypt`, `decrypt`, `format` and `resize`.

use std::path::PathBuf;

use clap::{
    Args, ValueEnum, ValueHint,
    builder::{PossibleValuesParser, TypedValueParser},
};
use luxor::luks::{HashAlgorithm, LuksVersion};

use super::{PbkdfArgs, TypeArgs, UnlockArgs};

/// Encrypt a file into a LUKS volume
///
/// The volume holds exactly the bytes of INPUT, and `luxor decrypt` restores them.
/// `cryptsetup open` shows them padded with zeros to a whole sector. OUTPUT is longer than
/// INPUT by the header, 16 MiB by default. It appears whole or not at all.
///
/// With `-` for both, the length of INPUT is stored after the data. luxor cannot see that a
/// program before it in a pipe has failed: use `set -o pipefail`.
///
/// A LUKS1 volume has a header of 2 MiB and sectors of 512 bytes. It cannot store a length, so
/// INPUT must consist of whole sectors.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  luxor encrypt backup.tar backup.luks
  tar c photos | luxor encrypt --key-file key.bin - photos.luks
  tar c photos | luxor encrypt --key-file key.bin - - | ssh host 'cat > photos.luks'
  luxor encrypt --label Photos --iter-time 5000 photos.img photos.luks
  luxor encrypt --header backup.header backup.tar backup.data
  luxor encrypt --luks2-keyslots-size 512K note.txt note.luks   a header of 544 KiB")]
pub(crate) struct EncryptArgs {
    /// The file, image or device to encrypt; `-` is standard input
    #[arg(value_hint = ValueHint::FilePath)]
    pub input: PathBuf,

    /// The volume to create; `-` is standard output
    #[arg(value_hint = ValueHint::FilePath)]
    pub output: PathBuf,

    /// What the volume is to be.
    #[command(flatten)]
    pub volume: NewVolumeArgs,

    /// Replace OUTPUT if it exists; required to write to a block device
    #[arg(long)]
    pub force: bool,
}

/// Create an empty LUKS volume
///
/// A new file appears whole or not at all; its data area takes no space on the disk until
/// something is written. A block device becomes a volume as a whole, unless --size limits it.
/// Its earlier contents are lost.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  luxor format --size 100G disk.luks
  luxor format --force --label Backups /dev/sdx1
  luxor format --size 100G --header disk.header disk.data
  luxor format --header disk.header /dev/sdx1           does not change the device")]
pub(crate) struct FormatArgs {
    /// The volume to create: a file or a block device
    #[arg(value_hint = ValueHint::FilePath)]
    pub volume: PathBuf,

    /// The size of the plaintext: a number of bytes, or with K, M, G or T for powers of 1024
    ///
    /// A new file is longer than that by the header (16 MiB by default, or 2 MiB for LUKS1), unless
    /// the header is detached. Without this option the volume fills the file or device, which must
    /// exist.
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub size: Option<u64>,

    /// What the volume is to be.
    #[command(flatten)]
    pub new: NewVolumeArgs,

    /// Replace VOLUME if it exists; required to write to a block device
    #[arg(long)]
    pub force: bool,

    /// If VOLUME exists, ask on the terminal whether to replace it
    ///
    /// As cryptsetup does.
    #[arg(long, conflicts_with = "force", hide = true)]
    pub ask: bool,
}

/// Change the size of a volume
///
/// A file becomes longer or shorter with its volume; a block device must have the room. No secret
/// is needed, and nothing may use the volume meanwhile.
///
/// New sectors are not written: they decrypt to noise, as those of a new volume. A file system in the
/// volume keeps its size: grow it afterwards (`resize2fs`), or shrink it first.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  luxor resize --size 200G disk.luks
  luxor resize --size 50G --shrink disk.luks
  luxor resize /dev/sdx1                      to the end of the device
  luxor resize --header disk.header --size 200G disk.data")]
pub(crate) struct ResizeArgs {
    /// The volume: a file or a block device
    #[arg(value_hint = ValueHint::FilePath)]
    pub volume: PathBuf,

    /// The new size of the plaintext: a number of bytes, or with K, M, G or T for powers of 1024
    ///
    /// Without this option the volume fills the file or device. A file in it whose length the
    /// metadata record keeps that length.
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub size: Option<u64>,

    /// Allow a smaller size: the data at the end are lost
    #[arg(long)]
    pub shrink: bool,
}

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

/// Decrypt a volume into a file
///
/// Restores exactly the bytes that `luxor encrypt` read. For a volume made by another program,
/// it writes all sectors. OUTPUT appears whole or not at all, and only its owner can read it.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  luxor decrypt backup.luks backup.tar
  luxor decrypt --key-file key.bin photos.luks - | tar x
  ssh host cat photos.luks | luxor decrypt - photos.tar")]
pub(crate) struct DecryptArgs {
    /// The volume: a file or a device; `-` is standard input
    #[arg(value_hint = ValueHint::FilePath)]
    pub input: PathBuf,

    /// The file to create; `-` is standard output
    #[arg(value_hint = ValueHint::FilePath)]
    pub output: PathBuf,

    /// Whether to store long runs of zeros as holes, which take no space on the disk
    #[arg(long, value_enum, value_name = "WHEN", default_value_t)]
    pub sparse: Sparse,

    /// Save what is left of a volume whose end is missing
    ///
    /// OUTPUT gets the whole sectors that are there. If something is missing, luxor says how much,
    /// and the exit code is 1.
    #[arg(long)]
    pub truncated: bool,

    /// Replace OUTPUT if it exists; required to write to a block device
    #[arg(long)]
    pub force: bool,

    /// How to open the volume.
    #[command(flatten)]
    pub unlock: UnlockArgs,

    /// The format. Last, since its heading goes on.
    #[command(flatten)]
    pub format: TypeArgs,
}

/// `--type`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum VolumeType {
    /// LUKS1
    Luks1,
    /// LUKS2
    #[default]
    Luks2,
}

impl VolumeType {
    /// Returns the library's name for it.
    #[must_use]
    pub(crate) fn version(self) -> LuksVersion {
        match self {
            Self::Luks1 => LuksVersion::Luks1,
            Self::Luks2 => LuksVersion::Luks2,
        }
    }
}

/// `--hash`.
pub(crate) fn hash_name() -> impl TypedValueParser<Value = HashAlgorithm> {
    PossibleValuesParser::new(HashAlgorithm::ALL.map(HashAlgorithm::name))
        .map(|name| HashAlgorithm::by_name(&name).expect("the parser accepts only these names"))
}

/// `--sparse`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Sparse {
    /// Store 64 KiB and more of zeros as holes in a regular file
    #[default]
    Auto,
    /// Write all zeros
    Never,
}

/// A number of bytes, with K, M, G or T (or KiB and so on) for powers of 1024.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" => Some(0),
        "k" | "kib" => Some(10),
        "m" | "mib" => Some(20),
        "g" | "gib" => Some(30),
        "t" | "tib" => Some(40),
        _ => None,
    };
    // `parse` would accept a sign.
    let number = Some(digits).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
    let number = number.and_then(|digits| digits.parse::<u64>().ok());
    let (Some(number), Some(shift)) = (number, shift) else {
        return Err("a size is a number of bytes, or a number followed by K, M, G or T".into());
    };
    number
        .checked_mul(1 << shift)
        .filter(|&bytes| i64::try_from(bytes).is_ok())
        .ok_or_else(|| "a size must be below 8 EiB".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units_of_1024() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("3k", 3 << 10),
            ("64KiB", 64 << 10),
            ("1M", 1 << 20),
            ("100g", 100 << 30),
            ("2TiB", 2 << 40),
            ("9223372036854775807", i64::MAX as u64),
        ] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for bad in [
            "",
            "K",
            "-1",
            "+1",
            "1.5G",
            "1 K",
            "1KB",
            "1P",
            "0x10",
            "8388608T",
            "9223372036854775808",
            "18446744073709551616",
        ] {
            assert!(size(bad).is_err(), "{bad:?}");
        }
    }
}
