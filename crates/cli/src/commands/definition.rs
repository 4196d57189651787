// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines the command line. Parsing, help, shell completions and man pages all use this
//! definition.

use std::{
    ffi::{OsStr, OsString},
    mem,
};

use clap::{
    Arg, CommandFactory, FromArgMatches, Parser,
    builder::Resettable,
    error::{ContextKind, ContextValue, ErrorKind},
    parser::ValueSource,
};

use super::{Command, Taken};
use crate::{
    args::{General, GlobalArgs},
    cryptsetup,
};

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
pub(super) const EXIT_CODES: &str = "    0  done
    1  bad usage, not a volume, damaged metadata, unreadable key file, I/O error, disk full
    2  no usable key: the passphrase or key file opens no keyslot
    3  out of memory; Argon2 may need more than the machine has
    4  the volume or the input does not exist
    5  the output exists (see --force), or something is locked, mounted or in use
  130  interrupted by SIGINT, SIGTERM, SIGHUP or SIGQUIT; no half-written file remains
       (`serve` and `mount` stop cleanly at the first three, with 0)
SIGPIPE ends `luxor` without a message when the reader of a pipe in place of OUTPUT has gone.";

/// What encryption with XTS does not do.
pub(super) const LIMITS: &str = "\
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

/// The general options that the commands take.
const TAKEN: Taken = Taken::Each(Command::TAKES);

/// Returns the help of `-h`, which fits a terminal of 24 lines: a line for each of the usual commands, and
/// the names of the others. Options stand in the help of each command.
fn short_help(definition: &clap::Command) -> String {
    const WIDTH: usize = 78;
    let styles = definition.get_styles();
    let (header, literal) = (styles.get_header(), styles.get_literal());
    let about = definition.get_about().map(ToString::to_string);
    let mut help = format!(
        "{}\n\n{header}Usage:{header:#} {literal}luxor{literal:#} <COMMAND> [OPTIONS]\n\n\
         {header}Commands:{header:#}\n",
        about.unwrap_or_default()
    );
    let commands: Vec<_> = definition.get_subcommands().collect();
    let usual = commands
        .iter()
        .position(|command| command.get_name() == Command::LAST_USUAL)
        .map_or(0, |last| last + 1);
    let (usual, others) = commands.split_at(usual);
    for command in usual {
        let about = command.get_about().map(ToString::to_string);
        let mut about = about.unwrap_or_default();
        if about.len() > WIDTH - "  reencrypt  ".len() {
            // What it does comes before what that is for.
            about.truncate(about.find(',').unwrap_or(about.len()));
        }
        let name = command.get_name();
        help += &format!("  {literal}{name:<10}{literal:#} {about}\n");
    }
    help += &format!("\n{header}Others:{header:#}");
    let mut column = "Others:".len();
    for (index, command) in others.iter().enumerate() {
        let name = command.get_name();
        let comma = if index + 1 < others.len() { "," } else { "" };
        column += name.len() + 2;
        if column > WIDTH {
            help += "\n ";
            column = name.len() + 3;
        }
        help += &format!(" {literal}{name}{literal:#}{comma}");
    }
    help += "\n\n`luxor COMMAND -h` lists the options of a command, and --help describes them.\n\
             `luxor --help` has examples, the options of several commands, and exit codes.\n";
    help
}

/// Adds the command or the option that an unknown one probably means.
fn with_suggestion(
    error: clap::Error,
    definition: &clap::Command,
    words: &[OsString],
) -> clap::Error {
    match error.kind() {
        ErrorKind::InvalidSubcommand => with_command(error, definition, words),
        _ => with_option(error, definition, words),
    }
}

/// Words of other programs for commands and options.
const SYNONYMS: [(&str, &str); 12] = [
    ("del", "remove"),
    ("delete", "remove"),
    ("rm", "remove"),
    ("info", "dump"),
    ("list", "dump"),
    ("show", "dump"),
    ("--daemon", "--background"),
    ("--daemonize", "--background"),
    ("--detach", "--background"),
    ("--fork", "--background"),
    ("--ro", "--read-only"),
    ("--rw", "--read-write"),
];

fn synonym(word: &str) -> Option<&'static str> {
    let mut synonyms = SYNONYMS.iter();
    Some(synonyms.find(|(other, _)| *other == word)?.1)
}

/// Returns the innermost command that the words name.
fn innermost<'a>(
    definition: &'a clap::Command,
    words: impl IntoIterator<Item = &'a OsString>,
) -> &'a clap::Command {
    let mut command = definition;
    for word in words {
        command = command.find_subcommand(word).unwrap_or(command);
    }
    command
}

/// Replaces clap's suggestions, of which some have little in common with the word, by the command with
/// the fewest other letters, if they are at most two, and at most a third of it.
fn with_command(
    mut error: clap::Error,
    definition: &clap::Command,
    words: &[OsString],
) -> clap::Error {
    let Some(ContextValue::String(unknown)) = error.get(ContextKind::InvalidSubcommand) else {
        return error;
    };
    let words = words
        .iter()
        .take_while(|word| word.as_os_str() != OsStr::new(unknown));
    let command = innermost(definition, words);
    let names = command.get_subcommands().map(clap::Command::get_name);
    let of_cryptsetup: &[&str] = match command.get_name() {
        "luxor" => cryptsetup::ACTIONS,
        _ => &[],
    };
    let distances = names.chain(of_cryptsetup.iter().copied()).map(|name| {
        let distance = strsim::osa_distance(&unknown.to_lowercase(), &name.to_lowercase());
        (distance, name)
    });
    let nearest = distances.min_by_key(|(distance, _)| *distance);
    let nearest = nearest.filter(|(distance, name)| *distance <= (name.len() / 3).min(2));
    let nearest = nearest.map(|(_, name)| name);
    let synonym = synonym(unknown).filter(|name| command.find_subcommand(name).is_some());
    let nearest = synonym.or(nearest).map(ToOwned::to_owned);
    error.remove(ContextKind::SuggestedSubcommand);
    // Without one, this leaves an empty line.
    error.remove(ContextKind::Suggested);
    if let Some(name) = nearest {
        let names = ContextValue::Strings(vec![name]);
        error.insert(ContextKind::SuggestedSubcommand, names);
    }
    error
}

/// Adds the option that an unknown one probably means, if the command takes it. Clap compares whole words;
/// this also finds `--key-file` for `--kye`, the beginning of an option with a letter missing, wrong or in the
/// wrong place.
fn with_option(
    mut error: clap::Error,
    definition: &clap::Command,
    words: &[OsString],
) -> clap::Error {
    let Some(ContextValue::String(unknown)) = error.get(ContextKind::InvalidArg) else {
        return error;
    };
    let unknown = unknown.clone();
    if error.kind() != ErrorKind::UnknownArgument {
        return error;
    }
    // It says that `--` precedes values that begin with `-`. Of `-file` it shows `-- -f`, and most
    // options that do not exist are no values.
    error.remove(ContextKind::Suggested);
    let command = innermost(definition, words);
    let options = command.get_arguments().filter(|arg| !arg.is_hide_set());
    let mut options: Vec<_> = options.collect();
    // Those of several commands, such as --key-file, are the usual ones.
    options.sort_by_key(|arg| !arg.is_global_set());
    let options: Vec<_> = options.into_iter().filter_map(Arg::get_long).collect();
    let is_taken = |option: &str| {
        options
            .iter()
            .any(|own| option.strip_prefix("--") == Some(own))
    };
    let suggested = match error.get(ContextKind::SuggestedArg) {
        Some(ContextValue::String(option)) => Some(option.clone()),
        _ => None,
    };
    let is_meant = |option: &&&str| {
        let word = unknown.strip_prefix("--").filter(|word| word.len() >= 3);
        let beginning = word.and_then(|word| Some((word, option.get(..word.len())?)));
        beginning.is_some_and(|(word, beginning)| strsim::osa_distance(beginning, word) <= 1)
    };
    let meant = synonym(&unknown).map(ToOwned::to_owned);
    let meant = meant.or_else(|| Some(format!("--{}", options.iter().find(is_meant)?)));
    let option = meant.into_iter().chain(suggested.clone());
    let option = option.into_iter().find(|option| is_taken(option));
    if option != suggested {
        error.remove(ContextKind::SuggestedArg);
        // It contained the other option.
        let usage = command.clone().render_usage();
        error.insert(ContextKind::Usage, ContextValue::StyledStr(usage));
    }
    if let Some(option) = option {
        error.insert(ContextKind::SuggestedArg, ContextValue::String(option));
    }
    error
}

fn general_options(command: &clap::Command) -> impl Iterator<Item = &Arg> {
    command.get_arguments().filter(|arg| arg.is_global_set())
}

/// Returns the definition, in which the help of each command hides the general options that it does
/// not take. The parser accepts them everywhere, so that they can precede the command.
pub(super) fn definition() -> clap::Command {
    let mut definition = Cli::command();
    let general: Vec<_> = general_options(&definition).cloned().collect();
    hide(&mut definition, TAKEN, &general);
    definition
}

/// Adds the general options to each command within `command`, hidden if the command does not take
/// them.
fn hide(command: &mut clap::Command, taken: Taken, general: &[Arg]) {
    for command in command.get_subcommands_mut() {
        let taken = taken.subcommand(command.get_name());
        // Clap does not add a global option to a command that already has it.
        // `dump` has its own option of this name.
        let own = general.iter().filter(|arg| {
            let id = arg.get_id();
            command.get_arguments().all(|own| own.get_id() != id)
        });
        let own: Vec<_> = own.collect();
        let own = own.into_iter().map(|arg| {
            let id = arg.get_id().as_str();
            let arg = arg.clone().hide(!taken.contains(General::of_option(id)));
            match arg.get_id().as_str() {
                // The default source of the secret is explained only for commands that need a
                // secret.
                "key_file" if !taken.contains(General::Prompt) => arg.long_help(Resettable::Reset),
                _ => arg,
            }
        });
        *command = mem::take(command).args(own);
        hide(command, taken, general);
    }
}

/// Parses the command line.
///
/// # Errors
/// Returns clap's errors, which include help and version texts, and an error for a general option
/// that the command does not take.
pub(crate) fn parse(
    args: impl IntoIterator<Item = impl Into<OsString>>,
) -> Result<Cli, clap::Error> {
    let mut definition = definition();
    let words: Vec<OsString> = args.into_iter().map(Into::into).collect();
    let is_long = |word: &OsString| word == "--help" || word == "help";
    if !words.iter().any(is_long) {
        let help = short_help(&definition);
        definition = definition.override_help(help);
    }
    let matches = definition.try_get_matches_from_mut(&words);
    let matches = matches.map_err(|error| with_suggestion(error, &definition, &words))?;
    let (mut leaf, mut taken, mut names) = (&matches, TAKEN, Vec::new());
    let mut command = &definition;
    while let Some((name, inner)) = leaf.subcommand() {
        (leaf, taken) = (inner, taken.subcommand(name));
        command = command.find_subcommand(name).unwrap_or(command);
        names.push(name);
    }
    let is_own = |option: &Arg| {
        let mut own = command.get_arguments();
        own.any(|arg| !arg.is_global_set() && arg.get_id() == option.get_id())
    };
    let unused = general_options(&definition).find(|arg| {
        let id = arg.get_id().as_str();
        matches.value_source(id) == Some(ValueSource::CommandLine)
            && !taken.contains(General::of_option(id))
            && !is_own(arg)
    });
    if let Some(option) = unused.and_then(Arg::get_long) {
        let name = names.join(" ");
        let message = format!("{name} has no option --{option}\n  See `luxor {name} --help`.\n");
        return Err(clap::Error::raw(ErrorKind::UnknownArgument, message));
    }
    let cli = Cli::from_arg_matches(&matches);
    crate::subject::is_about(&matches, definition);
    cli
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

    /// A shell shows its prompt below.
    #[test]
    fn short_help_fits_a_small_terminal() {
        let error = parsed("luxor -h").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DisplayHelp);
        let help = error.to_string();
        assert!(help.lines().count() < 24, "{help}");
        for line in help.lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
        let words: Vec<_> = help.split([' ', ',', '\n']).collect();
        for command in definition().get_subcommands() {
            let name = command.get_name();
            assert!(words.contains(&name), "{name}\n{help}");
        }
        assert!(!help.contains("--key-file"), "{help}");
        // Without a command too.
        let error = parsed("luxor").unwrap_err();
        assert_eq!(error.to_string(), help);
        for line in ["luxor --help", "luxor help"] {
            let help = parsed(line).unwrap_err().to_string();
            assert!(
                help.contains("--key-file") && help.contains("Exit codes"),
                "{help}"
            );
        }
    }

    #[test]
    fn a_mistyped_command_suggests_the_nearest_one() {
        for (line, nearest) in [
            ("luxor encrpt in out", Some("encrypt")),
            ("luxor decrpt in out", Some("decrypt")),
            ("luxor -q dmup volume", Some("dump")),
            ("luxor key rmeove volume", Some("remove")),
            ("luxor key rm volume", Some("remove")),
            ("luxor key delete volume", Some("remove")),
            ("luxor info volume", Some("dump")),
            ("luxor list volume", Some("dump")),
            ("luxor delete volume", None),
            ("luxor header bakcup volume file", Some("backup")),
            ("luxor luksformat volume", Some("luksFormat")),
            ("luxor photograph volume", None),
            ("luxor xx volume", None),
        ] {
            let error = parsed(line).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidSubcommand, "{line}");
            let found = error.get(ContextKind::SuggestedSubcommand);
            let expected = nearest.map(|name| ContextValue::Strings(vec![name.to_owned()]));
            assert_eq!(found, expected.as_ref(), "{line}");
            assert!(!error.to_string().contains("\n\n\n"), "{error}");
        }
    }

    #[test]
    fn only_an_option_that_the_command_takes_is_suggested() {
        for (line, meant) in [
            ("luxor mount --ro volume dir", Some("--read-only")),
            ("luxor mount --daemon volume dir", Some("--background")),
            ("luxor serve --detach volume", Some("--background")),
            ("luxor mount --progress volume dir", None),
            ("luxor mount --progress-jso volume dir", None),
            ("luxor dump --daemon volume", None),
            (
                "luxor decrypt --progress-jso in out",
                Some("--progress-json"),
            ),
            ("luxor decrypt --kye file in out", Some("--key-file")),
        ] {
            let error = parsed(line).unwrap_err();
            let found = error.get(ContextKind::SuggestedArg);
            let expected = meant.map(|option| ContextValue::String(option.to_owned()));
            assert_eq!(found, expected.as_ref(), "{line}");
            let text = error.to_string();
            let command = line.split(' ').nth(1).unwrap();
            assert!(text.contains(&format!("Usage: luxor {command} ")), "{text}");
            assert!(!text.contains("\n\n\n"), "{text}");
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
