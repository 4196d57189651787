// SPDX-License-Identifier: MIT OR Apache-2.0
//! Errors as the user sees them: one line, an optional hint, and an exit code. The library's errors
//! do not mention the command line, so this adds the names of options.

use std::{error::Error as _, io, path::Path};

use luxor::{
    PlainError, VolumeError,
    engine::SelectError,
    files::{
        DataFile, DataFileError, InputError, NotLocked, OutputError, VolumePartError,
        locks::{Access, LockError},
        path_name,
    },
    luks::{ChangeError, ConvertError, HeaderRepairError, UnlockError},
};

use crate::{advice, subject};

pub(crate) use luxor::{Error, ErrorClass, Result};

/// The exit code after a signal.
pub(crate) const INTERRUPTED: u8 = 130;

/// Returns the exit code for an error. 0 is success.
#[must_use]
pub(crate) fn exit_code(error: &Error) -> u8 {
    match error.class() {
        ErrorClass::NoKey => 2,
        ErrorClass::OutOfMemory => 3,
        ErrorClass::Missing => 4,
        ErrorClass::Busy => 5,
        ErrorClass::Cancelled => INTERRUPTED,
        _ => 1,
    }
}

/// Whether the reader of the output has closed it.
#[must_use]
pub(crate) fn is_broken_pipe(error: &Error) -> bool {
    let mut cause = error.source();
    while let Some(error) = cause {
        let system: Option<&io::Error> = error.downcast_ref();
        if system.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe) {
            return true;
        }
        cause = error.source();
    }
    false
}

/// An error with exit code 1 and no message, for scripts.
#[must_use]
pub(crate) fn silent() -> Error {
    Error::failure("")
}

/// Returns the lines that the user sees after the name of the program, or `None` for [`silent`].
#[must_use]
pub(crate) fn lines(error: &Error) -> Option<String> {
    if error.message().is_empty() {
        return None;
    }
    let message = message(error).unwrap_or_else(|| error.message().to_owned());
    let hint = error.hint_text().map(str::to_owned);
    let hint = hint.or_else(|| self::hint(error));
    let hint = hint.map_or_else(String::new, |hint| format!("\n  {hint}"));
    Some(format!("{message}{hint}"))
}

/// Returns the message of an error that an option can avoid, with the name of that option.
fn message(error: &Error) -> Option<String> {
    let error: &OutputError = error.source()?.downcast_ref()?;
    Some(match error {
        OutputError::Exists { .. } => format!("{error} (--force replaces it)"),
        OutputError::OneOfTwo { path } => format!(
            "{} exists already, and Luxor does not replace a volume and its --header together: \
             remove it, or name another file",
            path_name(path)
        ),
        OutputError::Foreign { .. } => format!("{error}; --force writes to it"),
        OutputError::IsDevice { .. } => format!("{error}: --force overwrites what is on it"),
        _ => return None,
    })
}

/// Returns what the user can do on the command line.
fn hint(error: &Error) -> Option<String> {
    let source = error.source()?;
    if let Some(NotLocked { source, .. }) = source.downcast_ref() {
        return match source {
            LockError::UnderLoop { device } => Some(format!("Name {device} instead.")),
            LockError::BesideLoop { device } => Some(format!(
                "Detach one of the two first: `losetup --detach {device}`."
            )),
            LockError::Held(_) => Some(
                "Run the command again when that program has ended; lslocks lists it.".to_owned(),
            ),
            LockError::Missing { file: None, .. } => Some(
                "Without a lock, two changes at the same time can lose keys. Add --disable-locks if no \
                 other program changes the volume."
                    .to_owned(),
            ),
            LockError::Missing { .. } => Some(
                "Without the lock, two changes at the same time can lose keys. Run the command as \
                 root, or add --disable-locks if no other program changes the volume."
                    .to_owned(),
            ),
            _ => None,
        };
    }
    if let Some(error) = source.downcast_ref() {
        return match error {
            VolumeError::BackupDoesNotFit { .. } => {
                Some("--force restores it nevertheless; the data may then be lost.".to_owned())
            }
            VolumeError::DetachedHeader { .. } => {
                Some("Name that file as the volume, and this one as --header.".to_owned())
            }
            // `header restore` has one option for the part, and that is about the target.
            VolumeError::HeaderOnly { .. } if !subject::is_a_whole_file() => Some(
                "If it is a backup, copy it to a file of its own. Then name the volume, and that file as \
                 --header; or restore it from there."
                    .to_owned(),
            ),
            VolumeError::HeaderOnly { .. } => Some(
                "If it is a backup, name the volume, and this file as --header; or restore it: `luxor \
                 header restore TARGET VOLUME`."
                    .to_owned(),
            ),
            VolumeError::NotAVolume { name, contents } => advice::for_contents(name, contents),
            // No command changes what came through a pipe.
            VolumeError::Unreadable { .. } if subject::is_stream() => None,
            VolumeError::Unreadable { source, .. } if source.source.is::<PlainError>() => {
                plain_hint(source.source.downcast_ref()?)
            }
            VolumeError::Unreadable {
                name,
                source,
                repair,
            } => advice::for_damage(name, source, *repair),
            VolumeError::EndOfFile { .. } => {
                Some("To lose the end of the file nevertheless, add --force.".to_owned())
            }
            VolumeError::UuidOfTrailer { .. } => Some(
                "Decrypt the volume, and encrypt it again with --uuid UUID. If this is the UUID with which \
                 it was made, add --force."
                    .to_owned(),
            ),
            VolumeError::KeyslotInUse { .. } => Some(
                "Name another keyslot with --new-key-slot N, or use `luxor key change VOLUME`.".to_owned(),
            ),
            VolumeError::LastKeyslot { .. } => {
                Some("To remove it nevertheless, add --last.".to_owned())
            }
            VolumeError::DoesNotFit { .. } => {
                Some("Use --type luks2, which can store any length.".to_owned())
            }
            VolumeError::Reencrypting { .. } => Some(
                "Use --read-only, or finish it: `luxor reencrypt VOLUME`. If it gives the volume a new key, \
                 --reencrypt=begun continues it meanwhile."
                    .to_owned(),
            ),
            VolumeError::EncryptionInterrupted {
                has_metadata: true, ..
            } => Some("This continues it: `luxor reencrypt VOLUME`.".to_owned()),
            VolumeError::EncryptionInterrupted { reduce_by, .. } => Some(format!(
                "Only this continues it: `luxor reencrypt --encrypt --reduce-device-size {reduce_by} VOLUME`."
            )),
            VolumeError::UnknownSize { .. } => {
                Some("To create a new file, add --size SIZE.".to_owned())
            }
            VolumeError::Disk { direct: true, .. } => {
                Some("It may work without --direct.".to_owned())
            }
            _ => None,
        };
    }
    if let Some(error) = source.downcast_ref() {
        return match error {
            ChangeError::Reencrypting => {
                Some("Finish it first: `luxor reencrypt VOLUME`.".to_owned())
            }
            ChangeError::NoRoomBeside { .. } => Some(
                "To overwrite it with the new one, make a backup of the header, because a crash in between \
                 loses the keyslot: `luxor header backup VOLUME NEW-FILE`. Then add to `luxor key change` or \
                 `luxor key convert`: --in-place --last (--last only for the last keyslot)."
                    .to_owned(),
            ),
            _ => None,
        };
    }
    if let Some(error) = source.downcast_ref() {
        return plain_hint(error);
    }
    if let Some(error) = source.downcast_ref::<UnlockError>() {
        let number = *error.ignored().first()?;
        return Some(if subject::can_choose_keyslot() {
            format!("To try keyslot {number} too, add --key-slot {number}.")
        } else {
            format!(
                "`luxor config --priority normal --key-slot {number} VOLUME` lets keyslot {number} be tried."
            )
        });
    }
    if let Some(error) = source.downcast_ref() {
        return match error {
            ConvertError::Loses { .. } => Some("--force drops it.".to_owned()),
            ConvertError::Damaged => Some("Run `luxor header repair VOLUME`.".to_owned()),
            _ => None,
        };
    }
    if let Some(error) = source.downcast_ref::<HeaderRepairError>() {
        return error
            .wants_backup()
            .then(|| advice::BACKUP_HELPS.to_owned());
    }
    if source.is::<SelectError>() {
        return Some("`luxor engines` lists the engines.".to_owned());
    }
    if let Some(InputError::Part { source, .. }) = source.downcast_ref() {
        return part_hint(source);
    }
    match source.downcast_ref()? {
        DataFileError::Part { source, .. } => part_hint(source),
        DataFileError::InUse { path, .. }
        | DataFileError::Locked {
            path,
            access: Access::Write,
        } if can_be_read(path) => {
            Some("--read-only allows other readers at the same time.".to_owned())
        }
        DataFileError::Open {
            path,
            access: Access::Write,
            source,
        } if can_be_read(path)
            && matches!(
                source.kind(),
                io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem
            ) =>
        {
            Some("--read-only needs no permission to write.".to_owned())
        }
        _ => None,
    }
}

/// Returns what the user can do about the values of a plain volume.
fn plain_hint(error: &PlainError) -> Option<String> {
    match error {
        PlainError::PartSector { sector_size, .. } => Some(format!(
            "The unit is 512 bytes: give a multiple of {}.",
            sector_size.units()
        )),
        PlainError::Rest { .. } => {
            let size = error.whole_units()?;
            Some(format!("To leave the rest out, add --size {size}."))
        }
        _ => None,
    }
}

/// Returns what the user can do where a file or device has no such part.
fn part_hint(error: &VolumePartError) -> Option<String> {
    match error {
        VolumePartError::HasDevice { device } => Some(format!("Name {device} instead.")),
        VolumePartError::CutOff { .. } => Some(
            "--volume-offset SIZE opens the part that is there, if you name the byte at which the \
             partition begins."
                .to_owned(),
        ),
        _ => None,
    }
}

/// Whether `--read-only` would work now.
fn can_be_read(path: &Path) -> bool {
    subject::can_only_read() && DataFile::open(path, Access::Read).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_is_a_second_line() {
        let error = Error::io("cannot read x", &io::Error::from_raw_os_error(2)).hint("Look.");
        assert_eq!(
            lines(&error).unwrap(),
            "cannot read x: No such file or directory\n  Look."
        );
        assert_eq!(exit_code(&error), 1);
    }
}
