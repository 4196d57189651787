// SPDX-License-Identifier: MIT OR Apache-2.0
//! Commands in messages, between backticks: `` `luxor reencrypt VOLUME` ``. The program puts the names
//! of the command line in the place of VOLUME, so that a shell can run the command as it is printed.

use std::{
    borrow::Cow,
    ffi::OsString,
    fs,
    os::unix::fs::{FileTypeExt, MetadataExt},
    path::{Path, PathBuf},
    sync::OnceLock,
};

use clap::{Arg, ArgMatches, parser::ValueSource};
use luxor::{
    PlainVolume,
    files::{Input, Role, path_name, shell_word},
    luks::VolumeHeader,
    volume::Format,
};

/// Stands for the volume, with the options that name it.
const VOLUME: &str = "VOLUME";

/// The options that name a part of a file.
const PART: [&str; 2] = ["volume_offset", "volume_partition"];
/// The format, and what the header of a volume without one would say. Other commands have other options of
/// some of these names.
const FORMAT: [&str; 8] = [
    "kind",
    "cipher",
    "key_size",
    "offset",
    "skip",
    "size",
    "sector_size",
    "iv_large_sectors",
];
/// The one of [`FORMAT`] that no other command has.
const OF_FORMAT: &str = "iv_large_sectors";
/// The key of a volume without a header. There is no prompt for it.
const KEY: [&str; 2] = ["key_file", "keyfile_offset"];

/// Stands for the data of a detached header, where the command line names only that.
const DATA: &str = "DATA";

/// What the command line is about.
static SUBJECT: OnceLock<Subject> = OnceLock::new();

struct Subject {
    volume: PathBuf,
    header: Option<PathBuf>,
    /// The options that name the volume, in the order in which commands show them.
    naming: Vec<Naming>,
    /// All commands.
    definition: clap::Command,
    /// Whether the command can be repeated with `--read-only`.
    can_only_read: bool,
    /// Whether `--key-slot` chooses the keyslot that the secret opens.
    can_choose_keyslot: bool,
    /// Whether the command has `--partition` for the plaintext.
    has_partitions_within: bool,
}

/// An option that names the volume, such as `--volume-offset`.
#[derive(Clone)]
struct Naming {
    /// Its name in the parser.
    id: &'static str,
    /// Its words on the command line.
    words: String,
}

impl Subject {
    /// Whether the metadata come from what has no bytes that a command could change: a pipe, a character
    /// device, or a file of the kernel that only looks like one.
    fn is_stream(&self) -> bool {
        let path = self.header.as_ref().unwrap_or(&self.volume);
        if path.as_os_str() == "-" {
            return true;
        }
        fs::metadata(path).is_ok_and(|found| {
            let kind = found.file_type();
            if kind.is_file() {
                let opened = Input::open(path, Role::Metadata);
                return opened.is_ok_and(|input| input.as_storage().is_none());
            }
            !kind.is_block_device()
        })
    }

    /// The options for the part of a file that is the volume.
    fn part(&self) -> Option<&str> {
        let mut naming = self.naming.iter();
        let part = naming.find(|option| PART.contains(&option.id))?;
        Some(&part.words)
    }

    /// Whether a command reads or changes the data, and the command line names only a detached header.
    fn lacks_data(&self, command: &str) -> bool {
        let mut words = command.split(' ');
        let needs_data =
            words.next() == Some("luxor") && matches!(words.next(), Some("reencrypt" | "decrypt"));
        let header = || {
            let input = Input::open(&self.volume, Role::Metadata).ok()?;
            VolumeHeader::read(input.as_storage()?).ok()
        };
        let is_detached = |header: VolumeHeader| header.data_offset() < header.metadata_len();
        needs_data && self.naming.is_empty() && header().is_some_and(is_detached)
    }

    /// Returns the words for VOLUME in a command. The name itself stays with a pipe, as it stands for what was
    /// put into that, and in commands of cryptsetup, which knows no parts of a file.
    fn words(&self, command: &str) -> String {
        let is_part = command.starts_with("cryptsetup ") && self.part().is_some();
        let volume = if is_part || self.is_stream() {
            VOLUME.into()
        } else {
            shell_word(&self.volume)
        };
        if self.lacks_data(command) {
            return format!("--header {volume} {DATA}");
        }
        let free = free_options(command, &self.definition);
        // A header that is still to be made cannot be used yet.
        let is_missing = self.header.as_ref().is_some_and(|header| !header.exists());
        let options = self
            .naming
            .iter()
            .filter(|option| free.contains(&option.id) && !(option.id == "header" && is_missing));
        let words = options.map(|option| option.words.as_str());
        words.chain([&*volume]).collect::<Vec<_>>().join(" ")
    }
}

/// Takes the volume from the command line, which `definition` defines.
pub(crate) fn is_about(matches: &ArgMatches, definition: clap::Command) {
    let mut leaf = matches;
    let mut command = "";
    while let Some((name, inner)) = leaf.subcommand() {
        (command, leaf) = (name, inner);
    }
    let path = |id: &str| leaf.try_get_one::<PathBuf>(id).ok().flatten().cloned();
    let volume = match command {
        "decrypt" => path("input"),
        _ => path("volume"),
    };
    if let Some(volume) = volume {
        let header = path("header");
        let has = |id: &str| {
            leaf.try_get_one::<bool>(id)
                .is_ok_and(|value| value.is_some())
        };
        let is_given = |id: &str| {
            let source = leaf
                .try_contains_id(id)
                .ok()
                .and_then(|_| leaf.value_source(id));
            source == Some(ValueSource::CommandLine)
        };
        let format = if has(OF_FORMAT) { &FORMAT[..] } else { &[] };
        let kind = leaf.try_get_one::<&str>("kind").ok().flatten();
        let is_plain = !format.is_empty() && kind == Some(&PlainVolume::DEFAULT.name());
        let key = if is_plain { &KEY[..] } else { &[] };
        let ids = PART.iter().chain(format).chain(key).chain(&["header"]);
        let naming = ids.filter(|id| is_given(id)).filter_map(|&id| {
            let long = if id == "kind" {
                "type".into()
            } else {
                id.replace('_', "-")
            };
            let values: Vec<OsString> = match (id, leaf.try_get_one::<u64>(id)) {
                (OF_FORMAT, _) => Vec::new(),
                // Without a unit.
                ("volume_offset", Ok(Some(bytes))) => vec![bytes.to_string().into()],
                _ => leaf.get_raw(id)?.map(OsString::from).collect(),
            };
            let values = values.iter().map(|value| shell_word(Path::new(value)));
            let words = [format!("--{long}")].into_iter().chain(values);
            let words = words.collect::<Vec<_>>().join(" ");
            Some(Naming { id, words })
        });
        let naming = naming.collect();
        let can_only_read = has("read_only") && !is_given("reencrypt");
        // In the other commands it is the keyslot that is removed or kept, or that gets a priority.
        let can_choose_keyslot = leaf.try_contains_id("key_slot").is_ok()
            && !["remove", "reencrypt", "config"].contains(&command);
        // There is one command line.
        let _ = SUBJECT.set(Subject {
            volume,
            header,
            naming,
            definition,
            can_only_read,
            can_choose_keyslot,
            has_partitions_within: leaf.try_contains_id("partition").is_ok(),
        });
    }
}

/// Whether the volume is one file, without a header in another one, and not a part of a file.
pub(crate) fn is_a_whole_file() -> bool {
    let is_whole = |subject: &Subject| subject.part().is_none() && subject.header.is_none();
    SUBJECT.get().is_none_or(is_whole)
}

/// Whether `name`, from a message, is the volume's: a command may read a backup or a detached header too, to
/// which the options for a part of a file do not apply.
pub(crate) fn is_volume(name: &str) -> bool {
    SUBJECT.get().is_none_or(|subject| {
        let volume = match subject.volume.to_str() {
            Some("-") => "standard input".to_owned(),
            _ => path_name(&subject.volume),
        };
        let rest = name.strip_prefix(&*volume);
        rest.is_some_and(|rest| rest.is_empty() || subject.part().is_some())
    })
}

/// Whether `name`, from a message, is that of the detached header.
pub(crate) fn is_header(name: &str) -> bool {
    let header = SUBJECT.get().and_then(|subject| subject.header.as_ref());
    header.is_some_and(|header| path_name(header) == name)
}

/// The options for the part of a file that is the volume, if there are any.
pub(crate) fn part() -> Option<&'static str> {
    SUBJECT.get()?.part()
}

/// Whether the metadata come from standard input or another pipe, so that no command can change
/// them.
pub(crate) fn is_stream() -> bool {
    SUBJECT.get().is_some_and(Subject::is_stream)
}

/// Whether the metadata come from a file or device that may have had a header: it has room for one, and its
/// bytes are stored somewhere, which those of the kernel's files in `/sys` are not. Zeros may be a hole.
pub(crate) fn may_have_lost_header(is_zeros: bool) -> bool {
    const SHORTEST_HEADER: u64 = 32 << 10;
    SUBJECT.get().is_none_or(|subject| {
        let path = subject.header.as_ref().unwrap_or(&subject.volume);
        let is_other = |found: fs::Metadata| {
            let is_unstored = found.blocks() == 0 && !is_zeros;
            found.is_file() && (found.len() < SHORTEST_HEADER || is_unstored)
        };
        !subject.is_stream() && !fs::metadata(path).is_ok_and(is_other)
    })
}

/// Whether the command of the command line can be repeated with `--read-only`.
pub(crate) fn can_only_read() -> bool {
    SUBJECT.get().is_some_and(|subject| subject.can_only_read)
}

/// Whether `--key-slot` of this command chooses the keyslot that the secret opens.
pub(crate) fn can_choose_keyslot() -> bool {
    SUBJECT
        .get()
        .is_some_and(|subject| subject.can_choose_keyslot)
}

/// Whether `--partition` of this command chooses a partition of the plaintext.
pub(crate) fn has_partitions_within() -> bool {
    SUBJECT
        .get()
        .is_some_and(|subject| subject.has_partitions_within)
}

/// Returns a message in which the commands name the volume.
pub(crate) fn complete(text: &str) -> Cow<'_, str> {
    match SUBJECT.get() {
        Some(subject) if text.contains(VOLUME) => {
            let mut commands = text.split('`').skip(1).step_by(2);
            let lacks_data = commands.any(|command| subject.lacks_data(command));
            let text = completed(text, |command| subject.words(command));
            if lacks_data {
                format!("{text} {DATA} is the file or device with its data.").into()
            } else {
                text.into()
            }
        }
        _ => text.into(),
    }
}

/// Puts the words for the volume into the commands. Names in messages have no backticks
/// ([`luxor::files::path_name`]).
fn completed(text: &str, words: impl Fn(&str) -> String) -> String {
    let spans = text.split('`').enumerate().map(|(index, span)| {
        let is_command = index % 2 == 1;
        if is_command && span.contains(VOLUME) {
            Cow::Owned(with_volume(span, &words(span)))
        } else {
            Cow::Borrowed(span)
        }
    });
    spans.collect::<Vec<_>>().join("`")
}

/// Returns the parser's names of the options that can be added to `command`, in front of the volume: those
/// that it takes and does not have yet.
fn free_options<'a>(command: &str, definition: &'a clap::Command) -> Vec<&'a str> {
    let mut words = command.split(' ').peekable();
    match words.next() {
        Some("luxor") => {}
        Some("cryptsetup") => return vec!["header"],
        _ => return Vec::new(),
    }
    let mut definition = definition;
    let inner = |definition: &'a clap::Command, name: &str| definition.find_subcommand(name);
    while let Some(found) = words.peek().and_then(|name| inner(definition, name)) {
        definition = found;
        words.next();
    }
    let words: Vec<_> = words.collect();
    let is_given = |option: &&Arg| {
        let long = option.get_long();
        long.is_some_and(|long| {
            words
                .iter()
                .any(|word| word.strip_prefix("--") == Some(long))
        })
    };
    let taken = definition
        .get_arguments()
        .filter(|option| !option.is_hide_set());
    let (given, free): (Vec<_>, Vec<_>) = taken.partition(is_given);
    let ids = |options: Vec<&'a Arg>| -> Vec<&'a str> {
        options
            .into_iter()
            .map(|option| option.get_id().as_str())
            .collect()
    };
    let (given, mut free) = (ids(given), ids(free));
    if !free.contains(&OF_FORMAT) || given.contains(&"kind") {
        free.retain(|id| !FORMAT.contains(id));
    }
    free
}

/// Puts `volume` in the place of the word VOLUME, but not of a part of a quoted name.
fn with_volume(command: &str, volume: &str) -> String {
    let mut is_quoted = false;
    let words = command.split(' ').map(|word| {
        let is_volume = word == VOLUME && !is_quoted;
        let mut chars = word.chars();
        while let Some(c) = chars.next() {
            match c {
                '\'' => is_quoted = !is_quoted,
                '\\' if !is_quoted => drop(chars.next()),
                _ => {}
            }
        }
        if is_volume { volume } else { word }
    });
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_name_the_volume() {
        assert_eq!(
            completed(
                "VOLUME: run `luxor dump VOLUME`, `truncate -s 1 VOLUME` or VOLUME.",
                |command| format!("{} 'my disk'", command.len()),
            ),
            "VOLUME: run `luxor dump 17 'my disk'`, `truncate -s 1 20 'my disk'` or VOLUME."
        );
        for name in [
            "VOLUME",
            "a VOLUME b",
            "it's VOLUME s",
            "-VOLUME",
            "a` VOLUME `b",
        ] {
            let word = shell_word(name.as_ref());
            let found = completed(&format!("`luxor convert VOLUME {word} VOLUME`"), |_| {
                "v".into()
            });
            assert_eq!(found, format!("`luxor convert v {word} v`"));
        }
    }
}
