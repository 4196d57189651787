// SPDX-License-Identifier: MIT OR Apache-2.0
//! Errors about volumes.

use luxor_luks::NotInLuks1;
use luxor_volume::{HeaderError, RepairOutlook};

use crate::Contents;

/// Why a volume, or a planned change to it, is refused. It is the
/// [source](std::error::Error::source) of the [`Error`](crate::Error) that a call returns.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VolumeError {
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
    /// The file is a detached header. [`VolumeMetadata::with_data`](crate::VolumeMetadata::with_data) adds the file
    /// with the data.
    #[error("{name} is a detached header: the data are in another file")]
    DetachedHeader {
        /// The name of the header, for messages.
        name: String,
    },
    /// The file ends where the data of the volume begin.
    #[error("{name} has a header and no data: it is a backup of a header, or was cut off")]
    HeaderOnly {
        /// The name of the file, for messages.
        name: String,
    },
    /// The volume's format cannot represent the length of its data.
    #[error("{message}")]
    DoesNotFit {
        /// What does not fit, in words.
        message: String,
        /// The limit of the format.
        source: NotInLuks1,
    },
    /// The data cannot be opened as a disk.
    #[error("{name}: {reason}")]
    Disk {
        /// The name of the file or device, for messages.
        name: String,
        /// The reason, in words.
        reason: String,
        /// Whether the disk was to bypass the page cache.
        direct: bool,
    },
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
    /// The keyslot is empty.
    #[error("{name}: there is no keyslot {number}")]
    NoKeyslot {
        /// The name of the volume, for messages.
        name: String,
        /// The number of the keyslot.
        number: u32,
    },
    /// A re-encryption of the volume is not finished, and the caller wants to write to it.
    #[error("{name}: a re-encryption is under way, and until it ends nothing can be written")]
    Reencrypting {
        /// The name of the file or device with the data, for messages.
        name: String,
    },
    /// An empty volume was to be as long as an existing file, which does not exist.
    #[error("{name} does not exist")]
    UnknownSize {
        /// The name of the file, for messages.
        name: String,
    },
    /// An encryption in place was interrupted while it wrote the header. The same call continues it, with the
    /// same number of bytes for the header, or a re-encryption if both copies of the metadata are there.
    #[error("{name}: its encryption was interrupted while the header was written")]
    EncryptionInterrupted {
        /// The name of the file or device, for messages.
        name: String,
        /// The number of bytes by which the data were to be reduced.
        reduce_by: u64,
        /// Whether the metadata are there, and only keyslots are missing.
        has_metadata: bool,
    },
    /// The file does not begin with the metadata of a volume.
    #[error("{name}: this is not a LUKS volume: {contents}")]
    NotAVolume {
        /// The name of the file, for messages.
        name: String,
        /// What it is.
        contents: Contents,
    },
    /// The file has no valid metadata.
    #[error("{name}: {source}")]
    Unreadable {
        /// The name of the file, for messages.
        name: String,
        /// What is wrong with the metadata.
        source: HeaderError,
        /// What [`repair_header`](crate::repair_header) would achieve.
        repair: RepairOutlook,
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
