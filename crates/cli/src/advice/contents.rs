// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the user can do with a file that is not a volume, as a command to copy where there is one.

use std::{
    env,
    ffi::{OsStr, OsString},
    path::Path,
};

use luxor::{
    Contents, ContentsClass,
    files::{Input, shell_quoted, shell_word},
};

use crate::subject;

pub(super) const INCOMPLETE: &str = "A copy of it may have failed.";
const UNPACK: &str = "Unpack it first.";
/// For a file in which nothing known is in the place of a header.
const LOST: &str =
    "If it was a volume, restore its header from a backup: `luxor header restore VOLUME BACKUP`.";
/// The same, if something else is there.
const OVERWRITTEN: &str = "If it was a volume and was overwritten, restore its header from a backup: `luxor \
                           header restore --force VOLUME BACKUP`.";

/// The most commands that are shown.
const MAX_COMMANDS: usize = 4;
/// The longest command that is shown.
const MAX_LEN: usize = 1000;

/// Returns advice for the file called `name`.
pub(super) fn for_contents(name: &str, contents: &Contents) -> Option<String> {
    if !subject::is_volume(name) {
        return for_other_file(name, contents);
    }
    if let (Contents::VolumeAt { offset, .. }, Some(part)) = (contents, subject::part()) {
        return Some(format!(
            "If you mean that volume, give --volume-offset {offset} in place of {part}."
        ));
    }
    let other_header = "If its LUKS header is in another file, name that as well: --header FILE.";
    Some(match contents {
        Contents::Empty => INCOMPLETE.to_owned(),
        Contents::Zeros { .. } if !subject::may_have_lost_header(true) => other_header.to_owned(),
        Contents::Unknown if !subject::may_have_lost_header(false) => other_header.to_owned(),
        Contents::Zeros { .. } | Contents::Unknown => format!("{other_header} {LOST}"),
        Contents::Random => {
            let plain = "For a plain dm-crypt volume use `luxor serve --type plain --key-file KEY --socket SOCKET \
                         VOLUME` or `luxor mount --type plain --key-file KEY VOLUME DIR`.";
            let lost = subject::may_have_lost_header(false).then(|| format!(" {LOST}"));
            format!("{other_header}{} {plain}", lost.unwrap_or_default())
        }
        Contents::Disk { partitions, .. } => {
            let numbers = contents.partitions_with_volume().map(|found| found.number);
            let options: Vec<_> = numbers
                .map(|number| format!("--volume-partition {number}"))
                .take(MAX_COMMANDS)
                .collect();
            if options.is_empty() && partitions.iter().any(|found| !found.is_there) {
                return Some(
                    "Name the whole disk or its image, not a pipe or a part of it.".to_owned(),
                );
            }
            if options.is_empty() {
                return Some(or_overwritten(
                    "No partition of it begins with a LUKS header.",
                ));
            }
            lines_with(&options)
        }
        Contents::DamagedTable => {
            "If you know where the volume begins in it, add --volume-offset SIZE. Programs such as \
             gdisk repair the table."
                .to_owned()
        }
        Contents::VolumeAt { offset, .. } => lines_with(&[format!("--volume-offset {offset}")]),
        Contents::Known { class, name: what } => match class {
            ContentsClass::DiskImage if what.contains("LUKS") => {
                "The header is inside the format of the image: only qemu opens it.".to_owned()
            }
            ContentsClass::DiskImage if subject::part().is_some() || subject::is_stream() => {
                "Copy it to a file of its own: qemu-img converts that.".to_owned()
            }
            ContentsClass::DiskImage => convert(name),
            ContentsClass::Archive => UNPACK.to_owned(),
            ContentsClass::Encrypted => {
                "Only the program that encrypted it opens it: Luxor opens LUKS volumes, and plain \
                 dm-crypt volumes."
                    .to_owned()
            }
            ContentsClass::FileSystem => or_overwritten(
                "There is nothing to unlock. `luxor encrypt` makes an encrypted copy of it.",
            ),
            ContentsClass::Member => {
                "It is a part of another device: assemble that one first, and name it.".to_owned()
            }
            _ => return None,
        },
        _ => return None,
    })
}

/// Adds to `advice` what helps if the contents have overwritten a volume.
fn or_overwritten(advice: &str) -> String {
    if subject::may_have_lost_header(true) {
        format!("{advice} {OVERWRITTEN}")
    } else {
        advice.to_owned()
    }
}

/// Returns advice for a file that is to have a header, and is not the volume of the command: a backup, or a
/// detached header. No option names a part of it.
fn for_other_file(name: &str, contents: &Contents) -> Option<String> {
    let file = shell_word(Path::new(name));
    let copies = |options: String| {
        format!(
            "To copy the header of the volume in it: `luxor header backup {options} {file} NEW-FILE`. Then \
             name NEW-FILE instead."
        )
    };
    let lines: Vec<_> = match contents {
        Contents::VolumeAt { offset, .. } => vec![copies(format!("--volume-offset {offset}"))],
        Contents::Disk { .. } => {
            let found = contents.partitions_with_volume();
            let numbers = found.map(|found| found.number);
            let options = numbers.map(|number| format!("--volume-partition {number}"));
            options.map(copies).take(MAX_COMMANDS).collect()
        }
        Contents::Empty => vec![INCOMPLETE.to_owned()],
        Contents::Known { class, .. } => match class {
            ContentsClass::Archive => vec![UNPACK.to_owned()],
            ContentsClass::DiskImage => vec![convert(name)],
            _ => return None,
        },
        _ => return None,
    };
    (!lines.is_empty()).then(|| lines.join("\n  "))
}

/// Returns advice for a disk image in the format of a virtual machine.
fn convert(name: &str) -> String {
    let raw = format!("{name}.raw");
    let (command, raw_word) = (to_raw(name), shell_word(Path::new(&raw)));
    let volume = shell_word(Path::new(&format!("{name}.luks")));
    format!(
        "It contains the disk of a virtual machine. Convert it first: `{command}` If that disk is not \
         encrypted yet, this encrypts it: `luxor encrypt {raw_word} {volume}`"
    )
}

/// Returns the command that copies the disk out of an image.
fn to_raw(name: &str) -> String {
    let image = shell_word(Path::new(name));
    let raw = shell_word(Path::new(&format!("{name}.raw")));
    format!("qemu-img convert -O raw {image} {raw}")
}

/// Returns a warning for a file that is about to be encrypted, if a program that opens the volume would not
/// find a disk in it.
pub(crate) fn before_encryption(input: &Input) -> Option<String> {
    let contents = Contents::recognise(input.as_storage()?).ok()?;
    let Contents::Known {
        name: what,
        class: ContentsClass::DiskImage,
    } = contents
    else {
        return None;
    };
    let (name, command) = (input.name(), to_raw(&input.name()));
    Some(format!(
        "{name} is {what}. The volume will contain that format, and not the disk in it. To encrypt the disk, \
         convert it first: `{command}`"
    ))
}

/// Returns this command with each of the options, a line each.
fn lines_with(options: &[String]) -> String {
    let line: Vec<_> = env::args_os().collect();
    let lines = options
        .iter()
        .map(|option| match command_with(&line, option) {
            Some(command) => format!("To open it: `{command}`"),
            None => format!("If you mean the volume in it, add {option}."),
        });
    lines.collect::<Vec<_>>().join("\n  ")
}

/// The commands that only read a volume. Others are never shown as a whole: a user who copies the line
/// would change, or destroy, a volume that the first command did not name.
const READING: [&[&str]; 13] = [
    &["decrypt"],
    &["dump"],
    &["check"],
    &["serve"],
    &["mount"],
    &["uuid"],
    &["luksDump"],
    &["luksUUID"],
    &["key", "list"],
    &["key", "test"],
    &["token", "list"],
    &["header", "backup"],
    &["header", "digest"],
];

/// Returns the command line with another option. `None` if it cannot be shown, if it does more than
/// read, or if the option would not be for the file that is meant.
fn command_with(line: &[OsString], option: &str) -> Option<String> {
    let (_, args) = line.split_first()?;
    let args: Option<Vec<&str>> = args.iter().map(|arg| arg.to_str()).collect();
    let args = without_partition(args?);
    let is_other = |arg: &&str| {
        let name = arg.split('=').next().unwrap_or_default();
        [
            "--header",
            "--volume-offset",
            "--volume-partition",
            "restore",
        ]
        .contains(&name)
    };
    let words: Vec<&str> = args
        .iter()
        .copied()
        .filter(|arg| !arg.starts_with('-'))
        .collect();
    let is_reading = READING.iter().any(|command| words.starts_with(command));
    if !is_reading
        || args.iter().any(is_other)
        || args.iter().any(|arg| arg.contains(char::is_control))
    {
        return None;
    }
    // After the name of the command, if that comes first.
    let before = usize::from(args.first().is_some_and(|arg| !arg.starts_with('-')));
    let (command, rest) = args.split_at(before);
    let words = command.iter().map(|arg| shell_quoted(OsStr::new(arg)));
    let words = ["luxor".to_owned()].into_iter().chain(words);
    let words = words.chain([option.to_owned()]);
    let words: Vec<_> = words
        .chain(rest.iter().map(|arg| shell_quoted(OsStr::new(arg))))
        .collect();
    let shown = words.join(" ");
    (shown.len() <= MAX_LEN).then_some(shown)
}

/// Leaves `--partition N` out. The number was for the table that is around the volume, and not in it.
fn without_partition(args: Vec<&str>) -> Vec<&str> {
    let mut args = args.into_iter();
    let mut left = Vec::new();
    while let Some(arg) = args.next() {
        match arg {
            "--partition" => drop(args.next()),
            _ if arg.starts_with("--partition=") => {}
            _ => left.push(arg),
        }
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(line: &str) -> Option<String> {
        let line: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        command_with(&line, "--volume-partition 2")
    }

    #[test]
    fn an_option_comes_after_the_command() {
        for (line, expected) in [
            (
                "/usr/bin/luxor decrypt disk.img out",
                Some("luxor decrypt --volume-partition 2 disk.img out"),
            ),
            (
                "luxor -q key list a'b",
                Some(r"luxor --volume-partition 2 -q key list 'a'\''b'"),
            ),
            ("luxor erase --batch-mode disk.img", None),
            ("luxor key remove disk.img", None),
            ("luxor dump --header h disk.img", None),
            ("luxor dump --volume-offset=0 disk.img", None),
            ("luxor header restore v disk.img", None),
            ("luxor dump disk\n.img", None),
        ] {
            assert_eq!(with(line).as_deref(), expected, "{line}");
        }
        assert_eq!(with(&format!("luxor dump {}", "x".repeat(2000))), None);
    }
}
