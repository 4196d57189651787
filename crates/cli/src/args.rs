// SPDX-License-Identifier: MIT OR Apache-2.0
//! What can be said on the command line: the one definition behind parsing,
//! help, shell completions and man pages.

use std::{
    ffi::{OsStr, OsString},
    path::PathBuf,
};

use clap::{
    Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum, ValueHint,
    builder::{PossibleValue, Resettable, StringValueParser, TypedValueParser},
};

use crate::engine;

const AFTER_HELP: &str = "\
Examples:
  luxor encrypt photos.tar photos.luks        asks for a new passphrase
  luxor decrypt photos.luks photos.tar        asks for it, gives the same bytes back
  sudo cryptsetup open photos.luks photos     the result is an ordinary LUKS2 volume

`luxor help COMMAND` or `luxor COMMAND --help` tells more about one command.";

const EXIT_CODES: &str = "\
Exit codes:
    0  done
    1  bad usage, not a volume, damaged metadata, unreadable key file, I/O error, disk full
    2  no usable key: the passphrase or key file opens no keyslot
    3  out of memory, or Argon2 needs more memory than there is
    4  the volume or the input does not exist
    5  the output exists (see --force), is locked or is mounted
  130  interrupted by SIGINT, SIGTERM, SIGHUP or SIGQUIT; no half-written file is left

XTS-AES keeps data secret. It does not notice changes: who can write to a volume can
garble it, in units of 16 bytes, without Luxor or the kernel finding out.";

/// Encrypts files, images and disks into LUKS volumes, and back.
///
/// What Luxor writes, `cryptsetup open` opens, and the other way round. It needs no
/// root and no kernel module.
#[derive(Debug, Parser)]
#[command(
    name = "luxor",
    version,
    max_term_width = 96,
    arg_required_else_help = true,
    after_help = AFTER_HELP,
    after_long_help = const_str(&[AFTER_HELP, "\n\n", EXIT_CODES]),
)]
pub struct Cli {
    /// Options that every command takes.
    #[command(flatten)]
    pub global: GlobalArgs,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// Options that every command takes.
#[derive(Args, Debug)]
pub struct GlobalArgs {
    /// Read the secret from FILE, every byte as it is; `-` is standard input
    ///
    /// Without it the passphrase is asked for on the terminal, or, when standard input
    /// is no terminal, is its first line. A newline at the end of a key file counts.
    #[arg(long, global = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    #[arg(help_heading = "Key")]
    pub key_file: Option<PathBuf>,

    /// Skip so many bytes at the beginning of the key file
    #[arg(
        long,
        global = true,
        value_name = "BYTES",
        help_heading = "Key",
        default_value_t = 0
    )]
    #[arg(hide_default_value = true)]
    pub keyfile_offset: u64,

    /// Read so many bytes of the key file, at most 8388608 (default: to its end)
    #[arg(long, global = true, value_name = "BYTES", help_heading = "Key")]
    pub keyfile_size: Option<u64>,

    /// The volume's header is in FILE, apart from the data
    #[arg(long, global = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    #[arg(help_heading = "General")]
    pub header: Option<PathBuf>,

    /// Use this implementation of AES: auto, portable, aesni, vaes256, vaes512
    ///
    /// `auto` takes the fastest one. Asking for one that is absent is an error. See
    /// `luxor engines`.
    #[arg(long, global = true, value_name = "NAME", help_heading = "General")]
    #[arg(default_value = "auto", hide_default_value = true)]
    #[arg(value_parser = AnyName::of_engine(), hide_possible_values = true)]
    pub engine: String,

    /// Use so many threads for AES (default: one per processor)
    #[arg(long, global = true, value_name = "N", help_heading = "General")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,

    /// Print progress as lines of JSON, two a second, with cryptsetup's fields
    ///
    /// The lines go to standard output, or to standard error when OUTPUT is `-`. All
    /// numbers are strings, as cryptsetup has them; a total that is not known is "0".
    #[arg(long, global = true, help_heading = "General")]
    pub progress_json: bool,

    /// No progress bar, no notes, no warnings
    #[arg(
        short,
        long,
        global = true,
        conflicts_with = "verbose",
        help_heading = "General"
    )]
    pub quiet: bool,

    /// Say what happens: engine, keyslot, memory that could not be locked
    #[arg(short, long, global = true, help_heading = "General")]
    pub verbose: bool,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    Encrypt(EncryptArgs),
    Decrypt(DecryptArgs),
    Dump(DumpArgs),
    Check(CheckArgs),
    Raw(RawArgs),
    Engines(EnginesArgs),
    Bench(BenchArgs),
    Completions(CompletionsArgs),
    Man(ManArgs),
}

/// Encrypt a file into a LUKS2 volume
///
/// The volume holds exactly the bytes of INPUT; `luxor decrypt` gives them back.
/// `cryptsetup open` sees them padded with zeros to a whole sector. OUTPUT is 16 MiB
/// longer than INPUT: the header. It appears whole or not at all.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  luxor encrypt backup.tar backup.luks
  tar c photos | luxor encrypt --key-file key.bin - photos.luks
  luxor encrypt --label Photos --iter-time 5000 photos.img photos.luks
  luxor encrypt --header backup.header backup.tar backup.data")]
pub struct EncryptArgs {
    /// The file, image or device to encrypt; `-` is standard input
    #[arg(value_hint = ValueHint::FilePath)]
    pub input: PathBuf,

    /// The volume to make; `-` is standard output (then INPUT's length must be known)
    #[arg(value_hint = ValueHint::FilePath)]
    pub output: PathBuf,

    /// The volume's format: luks2
    #[arg(long = "type", value_name = "TYPE", value_enum, default_value_t)]
    #[arg(hide_possible_values = true)]
    pub volume_type: VolumeType,

    /// The unit of encryption in bytes: 512, 1024, 2048 or 4096
    #[arg(long, value_name = "BYTES", default_value_t = 4096)]
    pub sector_size: u32,

    /// The XTS key in bits: 512 is AES-256, 256 is AES-128
    #[arg(long, value_name = "BITS", default_value_t = 512)]
    pub key_size: u32,

    /// How the passphrase becomes a key
    #[arg(long, value_enum, value_name = "KIND", default_value_t)]
    pub pbkdf: PbkdfName,

    /// Argon2: memory at most, in KiB (default: 1048576, at most half of the machine's)
    #[arg(long, value_name = "KiB")]
    pub pbkdf_memory: Option<u32>,

    /// Argon2: lanes that are computed in parallel (default: 4, at most one per processor)
    #[arg(long, value_name = "N")]
    pub pbkdf_parallel: Option<u32>,

    /// Take exactly so many iterations, measure nothing
    #[arg(long, value_name = "N", conflicts_with = "iter_time")]
    pub pbkdf_force_iterations: Option<u32>,

    /// How long opening the volume shall take on this machine, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 2000)]
    pub iter_time: u64,

    /// A name for the volume, at most 47 bytes
    #[arg(long, value_name = "LABEL")]
    pub label: Option<String>,

    /// The volume's UUID (default: a random one)
    #[arg(long, value_name = "UUID")]
    pub uuid: Option<String>,

    /// Replace OUTPUT when it exists; required to write to a block device
    #[arg(long)]
    pub force: bool,
}

/// Decrypt a LUKS volume into a file
///
/// Gives exactly the bytes that `luxor encrypt` was given. A volume made by other
/// programs gives its whole payload. OUTPUT is readable by its owner only, and appears
/// whole or not at all.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  luxor decrypt backup.luks backup.tar
  luxor decrypt --key-file key.bin photos.luks - | tar x
  ssh host cat photos.luks | luxor decrypt - photos.tar")]
pub struct DecryptArgs {
    /// The volume: a file or a device; `-` is standard input
    #[arg(value_hint = ValueHint::FilePath)]
    pub input: PathBuf,

    /// The file to make; `-` is standard output
    #[arg(value_hint = ValueHint::FilePath)]
    pub output: PathBuf,

    /// Whether long runs of zeros become holes, which take no space on the disk
    #[arg(long, value_enum, value_name = "WHEN", default_value_t)]
    pub sparse: Sparse,

    /// Replace OUTPUT when it exists; required to write to a block device
    #[arg(long)]
    pub force: bool,

    /// How to open the volume.
    #[command(flatten)]
    pub unlock: UnlockArgs,
}

/// What may be said about opening a volume.
#[derive(Args, Clone, Debug)]
pub struct UnlockArgs {
    /// Try this keyslot only
    #[arg(long, value_name = "N")]
    pub key_slot: Option<u32>,

    /// Open a volume whose data key and tweak key are equal, which weakens XTS
    #[arg(long)]
    pub allow_weak_key: bool,

    /// Let a keyslot use up to so much memory (KiB), instead of the built-in limit
    #[arg(long, value_name = "KiB")]
    pub pbkdf_memory_limit: Option<u64>,

    /// Let a keyslot use up to so many iterations, instead of the built-in limit
    #[arg(long, value_name = "N")]
    pub pbkdf_iterations_limit: Option<u64>,
}

/// Show a volume's metadata
///
/// Needs no key and shows none.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  luxor dump backup.luks
  luxor dump --json backup.luks | jq .keyslots")]
pub struct DumpArgs {
    /// The volume (or its detached header)
    #[arg(value_hint = ValueHint::FilePath)]
    pub volume: PathBuf,

    /// The JSON metadata, as `cryptsetup luksDump --dump-json-metadata` prints it
    ///
    /// LUKS1 has none; what its header says is printed in a similar form, with a
    /// number `schema` that says which.
    #[arg(long)]
    pub json: bool,
}

/// Check a volume's metadata, and a key if one is given
///
/// Looks at the header (LUKS2: both copies and their checksums) and every rule that the
/// metadata must keep. With --key-file or --passphrase it also opens a keyslot and
/// compares the key with its digest. Exit code 1 tells that something is damaged, even
/// when the volume can still be opened from its other copy. Nothing is changed.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  luxor check backup.luks
  luxor check --passphrase backup.luks
  luxor check --key-file key.bin --key-slot 0 backup.luks")]
pub struct CheckArgs {
    /// The volume (or its detached header)
    #[arg(value_hint = ValueHint::FilePath)]
    pub volume: PathBuf,

    /// Ask for a passphrase, and check that it opens a keyslot
    #[arg(long, conflicts_with = "key_file")]
    pub passphrase: bool,

    /// How to open the volume.
    #[command(flatten)]
    pub unlock: UnlockArgs,
}

/// Encrypt or decrypt bytes with a bare AES mode: no header, no passphrase
///
/// For test vectors, other formats and measurements. To protect a file use `luxor
/// encrypt`.
///
/// The key file holds the key itself: 16 or 32 bytes, for xts the data key and then the
/// tweak key (32 or 64 bytes).
///
/// A length that the mode cannot process is refused before any output. From a pipe it
/// is known at the end only: a file then does not appear, another pipe has had all
/// but the last 4 MiB at most.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  luxor raw encrypt --mode xts --key-file k64 --data-unit 4096 --stride 8 disk.img disk.xts
  luxor raw decrypt --mode ctr --key-file k32 --iv 000102030405060708090a0b0c0d0e0f in out")]
pub struct RawArgs {
    /// Which way
    #[arg(value_enum)]
    pub direction: RawDirection,

    /// The file to read; `-` is standard input
    #[arg(value_hint = ValueHint::FilePath)]
    pub input: PathBuf,

    /// The file to make; `-` is standard output
    #[arg(value_hint = ValueHint::FilePath)]
    pub output: PathBuf,

    /// The mode of operation
    #[arg(long, value_enum)]
    pub mode: RawMode,

    /// xts: the length of a data unit (default: all of INPUT, up to 16777216)
    #[arg(long, value_name = "BYTES", value_parser = number)]
    pub data_unit: Option<u128>,

    /// xts: the number of the first data unit, decimal or 0x…, below 2^128 (default: 0)
    #[arg(long, value_name = "N", value_parser = number)]
    pub number: Option<u128>,

    /// xts: how much the number grows per data unit, decimal or 0x…, below 2^64 (default: 1)
    #[arg(long, value_name = "N", value_parser = number)]
    pub stride: Option<u128>,

    /// ctr, ofb: the first counter block or the IV, 32 hexadecimal digits
    #[arg(long, value_name = "HEX32", value_parser = iv)]
    pub iv: Option<u128>,

    /// Replace OUTPUT when it exists; required to write to a block device
    #[arg(long)]
    pub force: bool,
}

/// List the implementations of AES: present or why not, and whether they work
///
/// Runs each one's self-test, and names the one that `--engine auto` takes.
#[derive(Args, Debug)]
pub struct EnginesArgs {
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

/// Measure speed, beside the machine's own limit and other libraries
///
/// Runs the program luxor-bench, which is built apart: `cargo xtask bench` in Luxor's
/// source. Everything is timed in alternation, and answers are compared first.
///
/// NAME is cpu (the kernels, in the cache and over memory) or file (`encrypt`,
/// `decrypt` and `dump` beside `cp`, in a memory file system). Without one, all.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  luxor bench --quick
  luxor bench cpu --engine vaes512 --json result.json
  luxor bench file --size 1G
  luxor bench cpu -- --unit 512 --call 64K        see luxor-bench --help")]
pub struct BenchArgs {
    /// What to measure: cpu, file (default: all)
    #[arg(value_name = "NAME", value_parser = AnyName::of_bench(), hide_possible_values = true)]
    pub names: Vec<String>,

    /// cpu: the bytes that fit no cache (256M); file: the bytes of the file (4G)
    #[arg(long, value_name = "SIZE")]
    pub size: Option<String>,

    /// Fewer repetitions, less over memory: a look, not a result
    #[arg(long)]
    pub quick: bool,

    /// Also write everything that was measured to FILE, as JSON
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub json: Option<PathBuf>,

    /// Options of luxor-bench
    #[arg(last = true, value_name = "OPTIONS")]
    pub others: Vec<OsString>,
}

/// Print a completion script for a shell
#[derive(Args, Debug)]
#[command(
    hide = true,
    after_help = "\
Example:
  luxor completions bash > ~/.local/share/bash-completion/completions/luxor"
)]
pub struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    pub shell: clap_complete::Shell,
}

/// Write the man pages into a folder
#[derive(Args, Debug)]
#[command(hide = true)]
pub struct ManArgs {
    /// The folder, which must exist
    #[arg(value_hint = ValueHint::DirPath)]
    pub dir: PathBuf,
}

/// `--type`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum VolumeType {
    /// LUKS2
    #[default]
    Luks2,
}

/// `--pbkdf`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum PbkdfName {
    /// Memory-hard, against GPUs and against side channels
    #[default]
    Argon2id,
    /// Memory-hard, the variant without data-dependent memory accesses
    Argon2i,
    /// PBKDF2 with SHA-256: needs no memory, and is easier to guess
    Pbkdf2,
}

/// `--sparse`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Sparse {
    /// Zeros of 64 KiB and more become holes in a regular file
    #[default]
    Auto,
    /// Every zero is written
    Never,
}

/// The way of `raw`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RawDirection {
    /// Plaintext to ciphertext
    Encrypt,
    /// Ciphertext to plaintext
    Decrypt,
}

/// `raw --mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RawMode {
    /// IEEE 1619, with ciphertext stealing
    Xts,
    /// SP 800-38A, a 128-bit big-endian counter
    Ctr,
    /// SP 800-38A, output feedback
    Ofb,
    /// SP 800-38A, whole blocks, each by itself
    Ecb,
}

/// The definition, with the options that mean nothing to a command hidden from
/// its help. They are accepted everywhere, so that they can stand before the
/// command.
pub fn definition() -> clap::Command {
    let mut command = Cli::command();
    let global: Vec<_> = command
        .get_arguments()
        .filter(|arg| arg.is_global_set())
        .cloned()
        .collect();
    for (name, hidden) in [
        (
            "dump",
            &[
                "key_file",
                "keyfile_offset",
                "keyfile_size",
                "engine",
                "threads",
                "progress_json",
            ][..],
        ),
        ("check", &["threads", "progress_json"]),
        ("raw", &["header"]),
        ("engines", ALL_BUT_QUIET),
        (
            "bench",
            &[
                "key_file",
                "keyfile_offset",
                "keyfile_size",
                "header",
                "progress_json",
                "quiet",
                "verbose",
            ],
        ),
        ("completions", ALL_BUT_QUIET),
        ("man", ALL_BUT_QUIET),
    ] {
        // Clap gives a command no global option that it already has.
        let own = global.iter().map(|arg| {
            let arg = arg.clone().hide(hidden.contains(&arg.get_id().as_str()));
            match arg.get_id().as_str() {
                // What happens without it is said for the commands that need a secret.
                "key_file" => arg.long_help(Resettable::Reset),
                _ => arg,
            }
        });
        command = command.mut_subcommand(name, |subcommand| subcommand.args(own));
    }
    command
}

const ALL_BUT_QUIET: &[&str] = &[
    "key_file",
    "keyfile_offset",
    "keyfile_size",
    "header",
    "engine",
    "threads",
    "progress_json",
];

/// The command line, parsed.
///
/// # Errors
/// Clap's, which are also help and version texts.
pub fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Cli, clap::Error> {
    let matches = definition().try_get_matches_from(args)?;
    Cli::from_arg_matches(&matches)
}

/// Any name: who gets it knows better what to say about one that it has not. These
/// names are for completions.
#[derive(Clone)]
struct AnyName(fn() -> Vec<&'static str>);

impl AnyName {
    fn of_engine() -> Self {
        Self(|| {
            ["auto"]
                .into_iter()
                .chain(engine::registry().names())
                .collect()
        })
    }

    fn of_bench() -> Self {
        Self(|| vec!["cpu", "file"])
    }
}

impl TypedValueParser for AnyName {
    type Value = String;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<String, clap::Error> {
        StringValueParser::new().parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new((self.0)().into_iter().map(PossibleValue::new)))
    }
}

/// A number below 2¹²⁸, decimal or with `0x` hexadecimal.
fn number(text: &str) -> Result<u128, String> {
    let parsed = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        // from_str_radix would take a sign.
        Some(hex) if hex.starts_with('+') => None,
        Some(hex) => u128::from_str_radix(hex, 16).ok(),
        None if text.starts_with('+') => None,
        None => text.parse().ok(),
    };
    parsed.ok_or_else(|| "neither a decimal nor a 0x… number below 2^128".into())
}

/// 16 bytes in hexadecimal, as a big-endian number.
fn iv(text: &str) -> Result<u128, String> {
    if text.len() == 32 && text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return u128::from_str_radix(text, 16).map_err(|e| e.to_string());
    }
    Err("an IV has exactly 32 hexadecimal digits".into())
}

/// Texts joined, for clap's attributes.
fn const_str(parts: &[&str]) -> String {
    parts.concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Cli, clap::Error> {
        parse(line.split(' ').map(OsString::from))
    }

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn general_options_stand_before_and_after_the_command() {
        for line in [
            "luxor --threads 3 -q engines",
            "luxor engines -q --threads 3",
        ] {
            let cli = parsed(line).unwrap();
            assert_eq!(cli.global.threads, Some(3), "{line}");
            assert!(cli.global.quiet);
        }
    }

    #[test]
    fn numbers_go_to_2_to_the_128_minus_1() {
        assert_eq!(
            number("340282366920938463463374607431768211455"),
            Ok(u128::MAX)
        );
        assert_eq!(number("0xffffffffffffffffffffffffffffffff"), Ok(u128::MAX));
        assert_eq!(number("0X10"), Ok(16));
        for bad in [
            "340282366920938463463374607431768211456",
            "0x100000000000000000000000000000000",
            "-1",
            "+1",
            "0x+1",
            "0x",
            "",
            "1e3",
            " 1",
        ] {
            assert!(number(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn an_iv_is_16_bytes_big_endian() {
        assert_eq!(iv("000000000000000000000000000000ff"), Ok(255));
        for bad in [
            "",
            "ff",
            "+0000000000000000000000000000000f",
            "0x0000000000000000000000000000ff",
        ] {
            assert!(iv(bad).is_err(), "{bad:?}");
        }
    }

    /// Every line of every help text fits a terminal of 100 columns.
    #[test]
    fn help_fits() {
        let mut commands = vec![definition()];
        commands[0].build();
        while let Some(mut command) = commands.pop() {
            for help in [command.render_help(), command.render_long_help()] {
                for line in help.to_string().lines() {
                    assert!(
                        line.chars().count() <= 100,
                        "{}: {line}",
                        command.get_name()
                    );
                }
            }
            commands.extend(command.get_subcommands().cloned());
        }
    }

    #[test]
    fn help_shows_only_what_matters_for_the_command() {
        let help = |name: &str| {
            let mut definition = definition();
            definition.build();
            definition
                .find_subcommand_mut(name)
                .unwrap()
                .render_long_help()
                .to_string()
        };
        assert!(help("encrypt").contains("--key-file"));
        assert!(!help("engines").contains("--key-file"));
        assert!(!help("dump").contains("--threads"));
        assert!(!help("raw").contains("--header"));
        let asked = "the passphrase is asked for";
        assert!(help("decrypt").contains(asked) && !help("check").contains(asked));
    }
}
