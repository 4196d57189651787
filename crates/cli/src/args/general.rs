// SPDX-License-Identifier: MIT OR Apache-2.0
//! The general options, which also stand before the command.

use std::path::PathBuf;

use clap::{ArgAction, Args, ValueEnum, ValueHint};
use luxor::engines;

use super::{
    policy::PolicyArgs,
    secret::{SecretArgNames, SecretArgs},
    values::{AnyName, descriptor, size},
};

/// Options of several commands. A command names those that it takes, in groups.
#[derive(Args, Debug)]
pub(crate) struct GlobalArgs {
    /// Read the secret from FILE, every byte as it is; `-` is standard input
    ///
    /// Without this option and --passphrase-fd, luxor asks for the passphrase on the terminal. A
    /// newline at the end of a key file is part of the key.
    #[arg(long, global = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    #[arg(help_heading = "Key")]
    pub key_file: Option<PathBuf>,

    /// Skip this many bytes at the beginning of the key file
    #[arg(
        long,
        global = true,
        value_name = "BYTES",
        help_heading = "Key",
        default_value_t = 0
    )]
    #[arg(hide_default_value = true)]
    pub keyfile_offset: u64,

    /// Read this many bytes of the key file, at most 8388608 (default: to its end)
    #[arg(long, global = true, value_name = "BYTES", help_heading = "Key")]
    pub keyfile_size: Option<u64>,

    /// Read the passphrase from file descriptor N: one line, without its newline; 0 is standard input
    #[arg(long, global = true, value_name = "N", help_heading = "Key")]
    #[arg(conflicts_with = "key_file", value_parser = descriptor())]
    pub passphrase_fd: Option<i32>,

    /// Use the volume key in FILE, every byte as it is, as `dump --volume-key-file` writes it
    ///
    /// It opens a volume in place of a secret. encrypt and format make a volume with this key, and
    /// still need a secret for its keyslot.
    #[arg(long, global = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    #[arg(help_heading = "Key")]
    pub volume_key_file: Option<PathBuf>,

    /// The volume's header is in FILE, apart from the data (a detached header)
    #[arg(long, global = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    #[arg(help_heading = "General")]
    pub header: Option<PathBuf>,

    /// The volume begins at this byte of its file or disk, a multiple of 512 (K, M, G, T: powers of 1024)
    ///
    /// For a volume inside a larger file or disk. It ends where the file ends, and the file keeps its
    /// length. With --header this is where the data are.
    #[arg(long, global = true, value_name = "SIZE", help_heading = "General")]
    #[arg(conflicts_with = "volume_partition", value_parser = size)]
    pub volume_offset: Option<u64>,

    /// The volume is in partition N of its file or disk (GPT or MBR; logical partitions begin with 5)
    ///
    /// Nothing outside the partition is changed. Name the partition of a disk whose partitions have
    /// devices by its own device (/dev/sda2).
    #[arg(long, global = true, value_name = "N", help_heading = "General")]
    pub volume_partition: Option<u32>,

    /// What the volume's header must be.
    #[command(flatten)]
    pub policy: PolicyArgs,

    /// Use this implementation of AES (default: auto; `luxor engines` lists the others)
    ///
    /// `auto` uses the fastest one of the CPU, and a device for long calls if
    /// `luxor engines --calibrate` has measured that the device is faster. Naming an
    /// implementation that this machine does not have is an error.
    #[arg(long, global = true, value_name = "NAME", help_heading = "General")]
    #[arg(default_value = "auto", hide_default_value = true)]
    #[arg(value_parser = engine_name())]
    pub engine: String,

    /// Use this many threads for AES, from 1 to 1024 (default: one per processor)
    #[arg(long, global = true, value_name = "N", help_heading = "General")]
    #[arg(value_parser = threads)]
    pub threads: Option<u16>,

    /// Change or overwrite a volume even where it cannot be locked
    ///
    /// For users without access to /run/cryptsetup. Two changes at the same time can then lose
    /// keys: make sure that no other program changes the volume.
    #[arg(long, global = true, help_heading = "General")]
    pub disable_locks: bool,

    /// Whether the program gives up what it no longer needs before it serves clients or reads a file
    ///
    /// It gives up the right to open other files, to start programs, to connect to other programs, and the
    /// capabilities of root, as far as the kernel has Landlock and seccomp. -v says how far.
    #[arg(long, global = true, value_name = "WHEN", help_heading = "General")]
    #[arg(value_enum, default_value_t = ConfineWhen::Auto, hide_default_value = true)]
    pub confine: ConfineWhen,

    /// Print progress as JSON, two lines a second, with cryptsetup's fields
    ///
    /// The lines go to standard output, or to standard error when OUTPUT is `-`. All
    /// numbers are strings, as in cryptsetup; an unknown total is "0".
    #[arg(long, global = true, help_heading = "General")]
    pub progress_json: bool,

    /// Print no progress bar, notes or warnings
    #[arg(
        short,
        long,
        global = true,
        conflicts_with = "verbose",
        help_heading = "General"
    )]
    pub quiet: bool,

    /// Print details: the engine, the keyslot, memory that could not be locked
    #[arg(short, long, global = true, help_heading = "General", action = ArgAction::Count)]
    pub verbose: u8,
}

/// `--confine`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ConfineWhen {
    /// As far as the system permits (the default)
    Auto,
    /// Wholly, or fail
    Require,
    /// Never
    No,
}

impl GlobalArgs {
    /// Where the secret that opens a volume comes from.
    #[must_use]
    pub(crate) fn secret(&self) -> SecretArgs<'_> {
        SecretArgs {
            key_file: self.key_file.as_deref(),
            offset: self.keyfile_offset,
            size: self.keyfile_size,
            descriptor: self.passphrase_fd,
            names: SecretArgNames {
                key_file: "--key-file",
                offset: "--keyfile-offset",
                size: "--keyfile-size",
                descriptor: "--passphrase-fd",
            },
        }
    }
}

/// `--engine`.
fn engine_name() -> AnyName {
    AnyName(|| {
        ["auto"]
            .into_iter()
            .chain(engines::registry().names())
            .collect()
    })
}

/// Parses the number of threads.
fn threads(text: &str) -> Result<u16, &'static str> {
    let number = text.parse().ok().filter(|n| (1..=1024).contains(n));
    number.ok_or("it must be a number from 1 to 1024")
}

/// The general options, in groups: a command takes all options of a group, or none of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum General {
    /// `--key-file`, `--keyfile-offset`, `--keyfile-size`
    Key,
    /// Not an option: the help of `--key-file` says that luxor otherwise asks for the passphrase.
    Prompt,
    /// `--passphrase-fd`
    Passphrase,
    /// `--volume-key-file`
    VolumeKey,
    /// `--header`
    Header,
    /// `--volume-offset`, `--volume-partition`
    Part,
    /// `--require-type`, `--require-cipher`, `--require-pbkdf`, `--header-digest`
    Policy,
    /// `--engine`
    Engine,
    /// `--threads`
    Threads,
    /// `--disable-locks`
    Locks,
    /// `--confine`
    Confine,
    /// `--progress-json`
    Progress,
    /// `--quiet`, `--verbose`
    Talk,
}

impl General {
    /// Returns the group of the general option with this id.
    pub(crate) fn of_option(id: &str) -> Self {
        match id {
            "key_file" | "keyfile_offset" | "keyfile_size" => Self::Key,
            "passphrase_fd" => Self::Passphrase,
            "volume_key_file" => Self::VolumeKey,
            "header" => Self::Header,
            "volume_offset" | "volume_partition" => Self::Part,
            "require_type" | "require_cipher" | "require_pbkdf" | "header_digest" => Self::Policy,
            "engine" => Self::Engine,
            "threads" => Self::Threads,
            "disable_locks" => Self::Locks,
            "confine" => Self::Confine,
            "progress_json" => Self::Progress,
            "quiet" | "verbose" => Self::Talk,
            _ => panic!("the general option {id} is in no group"),
        }
    }
}

/// Returns whether the general option called `name` takes a value, or `None` if there is no such
/// option.
#[must_use]
pub(crate) fn general_option(name: &[u8]) -> Option<bool> {
    let options = GlobalArgs::augment_args(clap::Command::new("luxor"));
    options
        .get_arguments()
        .find(|arg| arg.get_long().is_some_and(|long| long.as_bytes() == name))
        .map(|arg| arg.get_action().takes_values())
}
