// SPDX-License-Identifier: MIT OR Apache-2.0
//! The errors of changing keyslots, tokens and headers.

use crate::{ErrorClass, error::Cause};

/// Why the metadata of a volume are not changed. It is the [source](std::error::Error::source) of the
/// [`Error`](crate::Error) that a call returns.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EditError {
    /// The keyslot for the new key is in use.
    #[error("{name}: keyslot {number} is in use")]
    KeyslotInUse {
        /// The name of the volume, for messages.
        name: String,
        /// The number of the keyslot.
        number: u32,
    },
    /// The version of LUKS has no keyslot with this number.
    #[error("{name}: there is no keyslot {number}: the last one is {last}")]
    KeyslotNumber {
        /// The name of the volume, for messages.
        name: String,
        /// The number that the caller asked for.
        number: u32,
        /// The highest number.
        last: u32,
    },
    /// The keyslot is empty.
    #[error("{name}: there is no keyslot {number}")]
    NoKeyslot {
        /// The name of the volume, for messages.
        name: String,
        /// The number of the keyslot.
        number: u32,
    },
    /// The keyslot to be removed is the last one, or the last one that this version can open.
    #[error("{name}: keyslot {number} is the last one{}", without(others))]
    LastKeyslot {
        /// The name of the volume, for messages.
        name: String,
        /// The number of the keyslot.
        number: u32,
        /// The other keyslots of the data, which this version does not support.
        others: Vec<u32>,
    },
    /// Only LUKS2 has keyslots whose key decrypts no data.
    #[error("LUKS1 has no unbound keyslots; LUKS2 has")]
    UnboundInLuks1,
    /// The data are not encrypted, so no keyslot can hold their key.
    #[error("the data have no key")]
    NoKeyOfData,
    /// The token that is to be removed or replaced says where the file in the volume ends.
    #[error(
        "{name}: token {number} records that {what}: without it the bytes after the file are read as a \
         part of it"
    )]
    EndOfFile {
        /// The name of the volume, for messages.
        name: String,
        /// The number of the token.
        number: u32,
        /// What it records, in words.
        what: String,
    },
    /// The volume is to get another UUID, and a trailer ends the file in it.
    #[error(
        "{name}: the file in it ends with a trailer that is valid only with its present UUID: with \
         another one the end of the file is not found"
    )]
    UuidOfTrailer {
        /// The name of the volume, for messages.
        name: String,
    },
    /// The metadata came through a stream.
    #[error("the metadata of a stream cannot be changed")]
    Stream,
    /// The file has another volume now.
    #[error("another program replaced it")]
    Replaced,
    /// The file or device is in use.
    #[error("{name} is {user}")]
    InUse {
        /// The name of the file or device, for messages.
        name: String,
        /// How it is used, in words.
        user: String,
    },
    /// The backup is of a header that does not suit the target.
    #[error("the backup does not fit {name}: {}. {loss}", reasons.join("; "))]
    BackupDoesNotFit {
        /// The name of the file or device, for messages.
        name: String,
        /// The differences, in words.
        reasons: Vec<String>,
        /// What would be destroyed, as a sentence without its full stop.
        loss: String,
    },
    /// The target has no LUKS header and no known format, so that it may have been the volume of the backup.
    #[error(
        "{name} has no LUKS header, and the backup is of {backup}. If {name} was this volume, the backup makes \
         it readable again; otherwise the first {len} bytes of {name} are lost"
    )]
    HeaderLost {
        /// The name of the file or device, for messages.
        name: String,
        /// The volume of the backup, in words.
        backup: String,
        /// How many bytes the backup replaces.
        len: u64,
    },
    /// The backup is of a detached header, and the target may have the data, which lie from its first byte on.
    #[error(
        "the backup is of a detached header, of {backup}: the data are in another file. If {name} is that \
         file, its first {len} bytes would be lost"
    )]
    BackupOfDetachedHeader {
        /// The name of the file or device, for messages.
        name: String,
        /// The name of the backup, for messages.
        file: String,
        /// The volume of the backup, in words.
        backup: String,
        /// How many bytes the backup replaces.
        len: u64,
    },
    /// The target has no room for the backup.
    #[error("the backup does not fit {name}, which has {len} bytes: it needs {needed}")]
    NoRoomForBackup {
        /// The name of the file or device, for messages.
        name: String,
        /// Its length in bytes.
        len: u64,
        /// The length of the backup in bytes.
        needed: u64,
    },
    /// The target of a backup is not the one that was shown to the user.
    #[error("{name} has changed since it was checked; nothing was written")]
    TargetChanged {
        /// The name of the file or device, for messages.
        name: String,
    },
    /// A write failed while a header was repaired.
    #[error("{name}: {source}")]
    HalfRepaired {
        /// The name of the file or device, for messages.
        name: String,
        /// What failed.
        source: luxor_luks::ChangeError,
    },
    /// A write failed while a header was restored.
    #[error("cannot write {name}: {}", luxor_files::io_words(source))]
    HalfRestored {
        /// The name of the file or device, for messages.
        name: String,
        /// What failed.
        source: std::io::Error,
    },
}

/// Returns what the loss of the last keyslot means, if this version does not support `others`.
fn without(others: &[u32]) -> String {
    if others.is_empty() {
        return ": without it nothing opens the volume".to_owned();
    }
    let others: Vec<_> = others.iter().map(u32::to_string).collect();
    format!(
        " that Luxor can open: without it Luxor does not open the volume, because it does not support \
         keyslot {}",
        others.join(", ")
    )
}

impl Cause for EditError {
    fn class(&self) -> ErrorClass {
        match self {
            Self::TargetChanged { .. } | Self::InUse { .. } => ErrorClass::Busy,
            _ => ErrorClass::Failure,
        }
    }
}
