// SPDX-License-Identifier: MIT OR Apache-2.0
//! Commands in messages, between backticks: `` `luxor reencrypt VOLUME` ``. The program puts the names
//! of the command line in the place of VOLUME, so that a shell can run the command as it is printed.

use std::{borrow::Cow, fs, os::unix::fs::FileTypeExt, path::PathBuf, sync::OnceLock};

use clap::{ArgMatches, parser::ValueSource};
use luxor::files::{Input, Role, path_name, shell_word};

/// Stands for the volume, and for its header if that is detached.
const VOLUME: &str = "VOLUME";

/// What the command line is about.
static SUBJECT: OnceLock<Subject> = OnceLock::new();

struct Subject {
    volume: PathBuf,
    header: Option<PathBuf>,
    /// The options for the part of a file that is the volume.
    part: String,
    /// Whether the command can be repeated with `--read-only`.
    can_only_read: bool,
    /// Whether `--key-slot` chooses the keyslot that the secret opens.
    can_choose_keyslot: bool,
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

    /// Returns the words for VOLUME in a command of Luxor or cryptsetup.
    fn words(&self) -> String {
        let volume = shell_word(&self.volume);
        // A header that is still to be made cannot be used yet.
        match self.header.as_deref().filter(|header| header.exists()) {
            Some(header) => format!("{}--header {} {volume}", self.part, shell_word(header)),
            None => format!("{}{volume}", self.part),
        }
    }
}

/// Takes the volume from the command line.
pub(crate) fn is_about(matches: &ArgMatches) {
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
        let offset = leaf.try_get_one::<u64>("volume_offset").ok().flatten();
        let offset = offset.map(|offset| format!("--volume-offset {offset} "));
        let number = leaf.try_get_one::<u32>("volume_partition").ok().flatten();
        let number = number.map(|number| format!("--volume-partition {number} "));
        let part = offset.or(number).unwrap_or_default();
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
        let can_only_read = has("read_only") && !is_given("reencrypt");
        // In the other commands it is the keyslot that is removed or kept, or that gets a priority.
        let can_choose_keyslot = leaf.try_contains_id("key_slot").is_ok()
            && !["remove", "reencrypt", "config"].contains(&command);
        // There is one command line.
        let _ = SUBJECT.set(Subject {
            volume,
            header,
            part,
            can_only_read,
            can_choose_keyslot,
        });
    }
}

/// Whether the volume is one file, without a header in another one, and not a part of a file.
pub(crate) fn is_a_whole_file() -> bool {
    let is_whole = |subject: &Subject| subject.part.is_empty() && subject.header.is_none();
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
        rest.is_some_and(|rest| rest.is_empty() || !subject.part.is_empty())
    })
}

/// Whether `name`, from a message, is that of the detached header.
pub(crate) fn is_header(name: &str) -> bool {
    let header = SUBJECT.get().and_then(|subject| subject.header.as_ref());
    header.is_some_and(|header| path_name(header) == name)
}

/// The options for the part of a file that is the volume, if there are any.
pub(crate) fn part() -> Option<&'static str> {
    let part = SUBJECT.get()?.part.trim_end();
    (!part.is_empty()).then_some(part)
}

/// Whether the metadata come from standard input or another pipe, so that no command can change
/// them.
pub(crate) fn is_stream() -> bool {
    SUBJECT.get().is_some_and(Subject::is_stream)
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

/// Returns a message in which the commands name the volume.
pub(crate) fn complete(text: &str) -> Cow<'_, str> {
    match SUBJECT.get() {
        // With a pipe, VOLUME stands for whatever was put into it.
        Some(subject) if text.contains(VOLUME) && !subject.is_stream() => {
            completed(text, &subject.words(), &shell_word(&subject.volume)).into()
        }
        _ => text.into(),
    }
}

/// Puts `volume` into the commands, and `file` into those of `truncate`, which does not have the options of a
/// volume. Names in messages have no backticks ([`luxor::files::path_name`]).
fn completed(text: &str, volume: &str, file: &str) -> String {
    let spans = text.split('`').enumerate().map(|(index, span)| {
        let is_command = index % 2 == 1;
        let volume = if span.starts_with("truncate ") {
            file
        } else {
            volume
        };
        if is_command {
            Cow::Owned(with_volume(span, volume))
        } else {
            Cow::Borrowed(span)
        }
    });
    spans.collect::<Vec<_>>().join("`")
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
                "--header h 'my disk'",
                "'my disk'"
            ),
            "VOLUME: run `luxor dump --header h 'my disk'`, `truncate -s 1 'my disk'` or VOLUME."
        );
        for name in [
            "VOLUME",
            "a VOLUME b",
            "it's VOLUME s",
            "-VOLUME",
            "a` VOLUME `b",
        ] {
            let word = shell_word(name.as_ref());
            let found = completed(&format!("`luxor convert VOLUME {word} VOLUME`"), "v", "v");
            assert_eq!(found, format!("`luxor convert v {word} v`"));
        }
    }
}
