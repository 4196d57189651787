// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines the command line. Parsing, help, shell completions and man pages all use this
//! definition.

mod export;
mod format;
mod header;
mod keys;
mod metadata;
mod mount;
mod raw;
mod reencrypt;
mod serve;
mod stats;
mod tokens;
mod tools;
mod volume;

use std::{
    ffi::{OsStr, OsString},
    mem,
    path::{Path, PathBuf},
};

use clap::{
    Arg, ArgAction, Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueHint,
    builder::{PossibleValue, Resettable, StringValueParser, TypedValueParser},
    error::{ContextKind, ContextValue, ErrorKind},
    parser::ValueSource,
};

pub(crate) use self::{
    export::{ExportArgs, ReencryptWhen},
    format::TypeArgs,
    header::{
        ConvertArgs, EraseArgs, HeaderAction, HeaderArgs, HeaderBackupArgs, HeaderDigestArgs,
        HeaderRepairArgs, HeaderRestoreArgs, PolicyArgs,
    },
    keys::{
        KeyAddArgs, KeyArgs, KeyChangeArgs, KeyCommand, KeyConvertArgs, KeyListArgs, KeyRemoveArgs,
        KeyTestArgs, LimitArgs, NewSecretArgs, PbkdfArgs, SecretArgNames, SecretArgs, UnlockArgs,
        descriptor,
    },
    metadata::{CheckArgs, DumpArgs},
    mount::MountArgs,
    raw::{RawArgs, RawDirection, RawMode, RawTweaks},
    reencrypt::{ReencryptArgs, ResilienceName},
    serve::ServeArgs,
    stats::StatsArgs,
    tokens::{
        AnyLuks, ConfigArgs, IsLuksArgs, PriorityName, TokenAddArgs, TokenArgs, TokenCommand,
        TokenListArgs, TokenRemoveArgs, UuidArgs,
    },
    tools::{BenchArgs, CompletionsArgs, EnginesArgs, ManArgs, ReportArgs},
    volume::{DecryptArgs, EncryptArgs, FormatArgs, NewVolumeArgs, ResizeArgs, Sparse, VolumeType},
};
use luxor::engines;

const AFTER_HELP: &str = "\
Examples:
  luxor encrypt photos.tar photos.luks        asks for a new passphrase
  luxor decrypt photos.luks photos.tar        asks for it, gives the same bytes back
  luxor serve --socket disk.sock disk.luks    a volume as a disk, for qemu and others
  sudo cryptsetup open photos.luks photos     the result is an ordinary LUKS2 volume

`luxor help COMMAND` and `luxor COMMAND --help` describe one command in full.
A command refuses options that its help does not list.
cryptsetup's command lines work too: `luxor luksAddKey photos.luks`.";

/// The exit codes of all commands.
pub(crate) const EXIT_CODES: &str = "    0  done
    1  bad usage, not a volume, damaged metadata, unreadable key file, I/O error, disk full
    2  no usable key: the passphrase or key file opens no keyslot
    3  out of memory; Argon2 may need more than the machine has
    4  the volume or the input does not exist
    5  the output exists (see --force), or something is locked, mounted or in use
  130  interrupted by SIGINT, SIGTERM, SIGHUP or SIGQUIT; no half-written file remains
       (`serve` and `mount` stop cleanly at the first three, with 0)
SIGPIPE ends `luxor` without a message when the reader of a pipe in place of OUTPUT has gone.";

/// What encryption with XTS does not do.
pub(crate) const LIMITS: &str = "\
XTS-AES keeps data secret. It does not detect changes: anyone who can write to a volume can
garble it, in units of 16 bytes, and neither Luxor nor the kernel notices.";

/// Encrypts files, images and disks into LUKS volumes, and back.
///
/// `cryptsetup open` opens what Luxor writes, and Luxor opens what cryptsetup writes. Luxor
/// needs neither root nor a kernel module.
#[derive(Debug, Parser)]
#[command(
    name = "luxor",
    version,
    max_term_width = 96,
    arg_required_else_help = true,
    after_help = AFTER_HELP,
    after_long_help = const_str(&[AFTER_HELP, "\n\nExit codes:\n", EXIT_CODES, "\n\n", LIMITS]),
)]
pub(crate) struct Cli {
    /// Options of several commands.
    #[command(flatten)]
    pub global: GlobalArgs,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// Options of several commands: [`General::taken_by`] says which command takes which.
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
    #[arg(conflicts_with = "volume_partition", value_parser = volume::size)]
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
    #[arg(value_parser = AnyName::of_engine())]
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

/// Parses the number of threads.
fn threads(text: &str) -> Result<u16, &'static str> {
    let number = text.parse().ok().filter(|n| (1..=1024).contains(n));
    number.ok_or("it must be a number from 1 to 1024")
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Encrypt(EncryptArgs),
    Decrypt(DecryptArgs),
    Format(FormatArgs),
    Resize(ResizeArgs),
    Reencrypt(ReencryptArgs),
    Dump(DumpArgs),
    Check(CheckArgs),
    Header(HeaderArgs),
    Convert(ConvertArgs),
    Erase(EraseArgs),
    Key(KeyArgs),
    Token(TokenArgs),
    Config(ConfigArgs),
    Uuid(UuidArgs),
    IsLuks(IsLuksArgs),
    Mount(MountArgs),
    Serve(ServeArgs),
    Raw(RawArgs),
    Engines(EnginesArgs),
    Bench(BenchArgs),
    Report(ReportArgs),
    Completions(CompletionsArgs),
    Man(ManArgs),
}

impl Command {
    /// Whether the command writes data or a key to standard output.
    #[must_use]
    pub(crate) fn output_is_stdout(&self) -> bool {
        let names = ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"];
        let is_stdout = |output: &Path| names.map(Path::new).contains(&output);
        match self {
            Self::Encrypt(args) => is_stdout(&args.output),
            Self::Decrypt(args) => is_stdout(&args.output),
            Self::Raw(args) => is_stdout(&args.output),
            Self::Dump(args) => args.volume_key,
            _ => false,
        }
    }
}

/// The general options, in groups: a command takes all options of a group, or none of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum General {
    Key,
    Passphrase,
    VolumeKey,
    Header,
    Part,
    Policy,
    Engine,
    Threads,
    Locks,
    Progress,
    Talk,
}

impl General {
    fn of_option(id: &str) -> Self {
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
            "progress_json" => Self::Progress,
            "quiet" | "verbose" => Self::Talk,
            _ => panic!("the general option {id} is in no group"),
        }
    }

    /// Returns the groups of options that the command takes.
    fn taken_by(command: &str) -> &'static [Self] {
        use General::{
            Engine, Header, Key, Locks, Part, Passphrase, Policy, Progress, Talk, Threads,
            VolumeKey,
        };
        match command {
            "encrypt" => &[
                Key, Passphrase, VolumeKey, Header, Engine, Threads, Locks, Progress, Talk,
            ],
            "decrypt" => &[
                Key, Passphrase, VolumeKey, Header, Part, Policy, Engine, Threads, Locks, Progress,
                Talk,
            ],
            "format" => &[
                Key, Passphrase, VolumeKey, Header, Engine, Locks, Progress, Talk,
            ],
            "reencrypt" => &[
                Key, Passphrase, Header, Part, Policy, Engine, Threads, Locks, Progress, Talk,
            ],
            "dump" => &[Key, Passphrase, Header, Part, Policy, Engine, Talk],
            "check" => &[
                Key, Passphrase, VolumeKey, Header, Part, Policy, Engine, Talk,
            ],
            "key" => &[
                Key, Passphrase, VolumeKey, Header, Part, Policy, Engine, Locks, Talk,
            ],
            "header" | "convert" | "erase" | "resize" | "token" | "config" => {
                &[Header, Part, Policy, Locks, Talk]
            }
            "uuid" | "is-luks" => &[Header, Part, Policy, Talk],
            "mount" | "serve" => &[
                Key, Passphrase, VolumeKey, Header, Part, Policy, Engine, Threads, Talk,
            ],
            "raw" => &[Key, Engine, Threads, Locks, Progress, Talk],
            "engines" => &[Threads, Talk],
            "bench" | "report" => &[Engine, Threads],
            "completions" | "man" => &[Talk],
            _ => panic!("the general options of {command} are not known"),
        }
    }
}

/// Adds the option that an unknown one probably means. Clap compares whole words; this also finds
/// `--key-file` for `--kye`, the beginning of an option with a letter missing, wrong or in the wrong
/// place.
fn with_suggestion(mut error: clap::Error, definition: &clap::Command) -> clap::Error {
    let Some(ContextValue::String(unknown)) = error.get(ContextKind::InvalidArg) else {
        return error;
    };
    let word = unknown.trim_start_matches('-').to_owned();
    let is_long = unknown.starts_with("--");
    let is_unknown = error.kind() == ErrorKind::UnknownArgument;
    if is_unknown {
        // It says that `--` precedes values that begin with `-`. Of `-file` it shows `-- -f`, and most
        // options that do not exist are no values.
        error.remove(ContextKind::Suggested);
    }
    if !is_unknown || !is_long || word.len() < 3 {
        return error;
    }
    let is_meant = |option: &&str| {
        let beginning = option.get(..word.len());
        beginning.is_some_and(|beginning| strsim::osa_distance(beginning, &word) <= 1)
    };
    if let Some(option) = general_options(definition)
        .filter_map(Arg::get_long)
        .find(is_meant)
    {
        let option = ContextValue::String(format!("--{option}"));
        error.insert(ContextKind::SuggestedArg, option);
    }
    error
}

fn general_options(command: &clap::Command) -> impl Iterator<Item = &Arg> {
    command.get_arguments().filter(|arg| arg.is_global_set())
}

/// Returns the definition, in which the help of each command hides the general options that it does
/// not take. The parser accepts them everywhere, so that they can precede the command.
pub(crate) fn definition() -> clap::Command {
    let mut definition = Cli::command();
    let general: Vec<_> = general_options(&definition).cloned().collect();
    for command in definition.get_subcommands_mut() {
        let name = command.get_name().to_owned();
        let taken = General::taken_by(&name);
        // Clap does not add a global option to a command that already has it.
        // `dump` has its own option of this name.
        let own = general.iter().filter(|arg| {
            let id = arg.get_id();
            command.get_arguments().all(|own| own.get_id() != id)
        });
        let own: Vec<_> = own.collect();
        let own = own.into_iter().map(|arg| {
            let id = arg.get_id().as_str();
            let arg = arg.clone().hide(!taken.contains(&General::of_option(id)));
            match arg.get_id().as_str() {
                // The default source of the secret is explained only for commands that need a
                // secret.
                "key_file" if !matches!(&*name, "encrypt" | "decrypt" | "format" | "key") => {
                    arg.long_help(Resettable::Reset)
                }
                _ => arg,
            }
        });
        *command = mem::take(command).args(own);
    }
    definition
}

/// Parses the command line.
///
/// # Errors
/// Returns clap's errors, which include help and version texts, and an error for a general option
/// that the command does not take.
pub(crate) fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Cli, clap::Error> {
    let mut definition = definition();
    let matches = definition.try_get_matches_from_mut(args);
    let matches = matches.map_err(|error| with_suggestion(error, &definition))?;
    if let Some((name, inner)) = matches.subcommand() {
        let taken = General::taken_by(name);
        let own: Vec<_> = definition
            .find_subcommand(name)
            .into_iter()
            .flat_map(clap::Command::get_arguments)
            .filter(|arg| !arg.is_global_set())
            .map(Arg::get_id)
            .collect();
        let unused = general_options(&definition).find(|arg| {
            let id = arg.get_id().as_str();
            matches.value_source(id) == Some(ValueSource::CommandLine)
                && !taken.contains(&General::of_option(id))
                && !own.contains(&arg.get_id())
        });
        if let Some(option) = unused.and_then(Arg::get_long) {
            let inner = inner
                .subcommand_name()
                .map(|inner| format!("{name} {inner}"));
            let name = inner.as_deref().unwrap_or(name);
            let message =
                format!("{name} has no option --{option}\n  See `luxor {name} --help`.\n");
            return Err(clap::Error::raw(ErrorKind::UnknownArgument, message));
        }
    }
    crate::subject::is_about(&matches);
    Cli::from_arg_matches(&matches)
}

/// Returns whether the general option called `name` takes a value, or `None` if there is no such
/// option.
#[must_use]
pub(crate) fn general_option(name: &[u8]) -> Option<bool> {
    let command = Cli::command();
    general_options(&command)
        .find(|arg| arg.get_long().is_some_and(|long| long.as_bytes() == name))
        .map(|arg| arg.get_action().takes_values())
}

/// Accepts any name, because the code that uses it has the better error message. The list of names
/// is for completions.
#[derive(Clone)]
struct AnyName(fn() -> Vec<&'static str>);

impl AnyName {
    fn of_engine() -> Self {
        Self(|| {
            ["auto"]
                .into_iter()
                .chain(engines::registry().names())
                .collect()
        })
    }

    fn of_bench() -> Self {
        Self(|| {
            vec![
                "cpu",
                "file",
                "unlock",
                "reencrypt",
                "block",
                "demir-2020",
                "elmoghany-2011",
                "damjanovic-simic-2015",
                "an-seo-2022",
                "sanida-2020",
                "gpu",
            ]
        })
    }
}

impl TypedValueParser for AnyName {
    type Value = String;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&Arg>,
        value: &OsStr,
    ) -> Result<String, clap::Error> {
        StringValueParser::new().parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new((self.0)().into_iter().map(PossibleValue::new)))
    }
}

/// Joins texts for clap's attributes.
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
    fn an_option_that_means_nothing_to_the_command_is_refused() {
        for (line, option) in [
            ("luxor --threads 3 dump volume", "--threads"),
            ("luxor dump --progress-json volume", "--progress-json"),
            (
                "luxor encrypt --require-cipher aes-xts-plain64 in out",
                "--require-cipher",
            ),
            (
                "luxor header --key-file key backup volume copy",
                "--key-file",
            ),
            ("luxor header backup --engine auto volume copy", "--engine"),
            ("luxor serve --disable-locks volume", "--disable-locks"),
            ("luxor completions --header header bash", "--header"),
            (
                "luxor encrypt --volume-partition 1 in out",
                "--volume-partition",
            ),
        ] {
            let error = parsed(line).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::UnknownArgument, "{line}");
            let text = error.to_string();
            assert!(text.contains(&format!("has no option {option}")), "{text}");
        }
    }

    /// Every line of every help text must fit a terminal of 100 columns.
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
        let takes_locks = |name: &str| help(name).contains("--disable-locks");
        assert!(
            ["format", "encrypt", "decrypt", "raw", "key"]
                .into_iter()
                .all(takes_locks)
        );
        assert!(!["dump", "serve", "engines"].into_iter().any(takes_locks));
        let asked = "luxor asks for the passphrase";
        assert!(help("decrypt").contains(asked) && !help("check").contains(asked));
    }
}
