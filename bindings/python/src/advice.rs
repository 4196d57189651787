// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a caller can do about an error, in the words of this package. The library speaks of volumes, files
//! and values: this is the place that knows the arguments.

use luxor::{
    Contents, CreateError, EditError, Error, OpenError, PossibleLen,
    files::{InputError, NotLocked, OutputError, VolumePartError, locks::LockError},
    luks::{ChangeError, UnlockError},
};

/// Returns advice about `error`, or about one of its sources.
pub(crate) fn of(error: &Error) -> Option<String> {
    error
        .find()
        .and_then(open)
        .or_else(|| error.find().and_then(create))
        .or_else(|| error.find().and_then(edit))
        .or_else(|| other(error))
}

fn open(error: &OpenError) -> Option<String> {
    Some(match error {
        OpenError::DetachedHeader { .. } | OpenError::HeaderOnly { .. } => {
            "Name the file with the data, and this one as the argument header.".to_owned()
        }
        OpenError::NotAVolume { contents, .. } => match contents {
            Contents::Disk { .. } => {
                let number = contents.partitions_with_volume().next()?.number;
                format!("volume_partition={number} opens the volume in it.")
            }
            Contents::VolumeAt { offset, .. } => {
                format!("volume_offset={offset} opens the volume in it.")
            }
            Contents::Random => "luxor.PlainVolume opens a volume without a header.".to_owned(),
            _ => return None,
        },
        OpenError::SeveralPartsInStream => "Open a file or a block device.".to_owned(),
        OpenError::Changed { .. } => {
            "Try again when no other program changes the volume.".to_owned()
        }
        OpenError::Reencrypting { .. } => "Open it for reading.".to_owned(),
        _ => return None,
    })
}

fn create(error: &CreateError) -> Option<String> {
    Some(match error {
        CreateError::DoesNotFit { .. } => "type=\"luks2\" can store any length.".to_owned(),
        CreateError::UnknownSize { .. } => "A new file needs a size.".to_owned(),
        CreateError::PartSector {
            possible: Some(PossibleLen::Plaintext(len)),
            ..
        } => format!("size={len} is possible."),
        CreateError::PartSector {
            possible: Some(PossibleLen::File(len)),
            ..
        } => format!("With a file of {len} bytes it is possible."),
        _ => return None,
    })
}

fn edit(error: &EditError) -> Option<String> {
    Some(match error {
        EditError::LastKeyslot { .. } => "last=True removes it nevertheless.".to_owned(),
        EditError::EndOfFile { .. } | EditError::BackupDoesNotFit { .. } => {
            "force=True does it nevertheless.".to_owned()
        }
        EditError::BackupOfDetachedHeader { .. } => {
            "To open the data, pass the backup as header. force=True writes it nevertheless.".to_owned()
        }
        EditError::HeaderLost { .. } => "If it was this volume, pass force=True.".to_owned(),
        EditError::TargetChanged { .. } => "Try again.".to_owned(),
        EditError::HalfRestored { .. } => {
            "The header may be the old one still, or that of the backup already. Restore it again when \
             writing works."
                .to_owned()
        }
        _ => return None,
    })
}

fn other(error: &Error) -> Option<String> {
    if let Some(OutputError::Exists { .. } | OutputError::IsDevice { .. }) = error.find() {
        return Some("force=True overwrites it.".to_owned());
    }
    if let Some(InputError::Part {
        source: VolumePartError::HasDevice { device },
        ..
    }) = error.find()
    {
        return Some(format!("Open {device} instead."));
    }
    if let Some(NotLocked {
        source: LockError::Held(_),
        ..
    }) = error.find()
    {
        return Some("Try again when that program has ended.".to_owned());
    }
    if let Some(ChangeError::Reencrypting) = error.find() {
        return Some("`luxor reencrypt` finishes it.".to_owned());
    }
    let number = *error.find::<UnlockError>()?.ignored().first()?;
    Some(format!("key_slot={number} tries keyslot {number} too."))
}
