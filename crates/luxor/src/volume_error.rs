// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is wrong with a volume.

use luxor_luks::{NotInLuks1, VolumeReadError};

/// What is wrong with a volume, or with what shall become of it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VolumeError {
    /// The backup of a header is not one of what it is to replace.
    #[error("the backup does not fit {name}: {}. {loss}", reasons.join("; "))]
    BackupDoesNotFit {
        /// Of the file or device, for messages.
        name: String,
        /// The differences, in words.
        reasons: Vec<String>,
        /// What would be destroyed, as a sentence without its full stop.
        loss: String,
    },
    /// The data are in another file.
    #[error("{name} is a detached header: the data are in another file")]
    DetachedHeader {
        /// Of the header, for messages.
        name: String,
    },
    /// It cannot keep the length of what it shall hold.
    #[error("{message}")]
    DoesNotFit {
        /// What does not fit, in words.
        message: String,
        /// The limit of its format.
        source: NotInLuks1,
    },
    /// The data are no disk.
    #[error("{name}: {reason}")]
    Disk {
        /// Of the file or device, for messages.
        name: String,
        /// Why, in words.
        reason: String,
        /// Whether it was asked for past the page cache.
        direct: bool,
    },
    /// The keyslot that a new key was to have is in use.
    #[error("{name}: keyslot {number} is in use")]
    KeyslotInUse {
        /// Of the volume, for messages.
        name: String,
        /// The number of the keyslot.
        number: u32,
    },
    /// No keyslot has such a number.
    #[error("{name}: there is no keyslot {number}: the last one is {last}")]
    KeyslotNumber {
        /// Of the volume, for messages.
        name: String,
        /// The number that was asked for.
        number: u32,
        /// The highest number.
        last: u32,
    },
    /// The keyslot that was to be removed is the last one.
    #[error("{name}: keyslot {number} is the last one: without it nothing opens the volume")]
    LastKeyslot {
        /// Of the volume, for messages.
        name: String,
        /// The number of the keyslot.
        number: u32,
    },
    /// The keyslot is empty.
    #[error("{name}: there is no keyslot {number}")]
    NoKeyslot {
        /// Of the volume, for messages.
        name: String,
        /// The number of the keyslot.
        number: u32,
    },
    /// A re-encryption was begun and has not ended, and the volume would be written.
    #[error("{name}: a re-encryption is under way, and until it ends nothing can be written")]
    Reencrypting {
        /// Of the file or device with the data, for messages.
        name: String,
    },
    /// The header has the length of the data, and is written before they have been read.
    #[error(
        "{input} has no known length, and the header, which is written first to {output}, must \
         contain it"
    )]
    UnknownLength {
        /// What is encrypted, for messages.
        input: String,
        /// The volume, for messages.
        output: String,
    },
    /// There is no file whose length an empty volume could have.
    #[error("{name} does not exist")]
    UnknownSize {
        /// Of the file, for messages.
        name: String,
    },
    /// It has no metadata, or none that are valid.
    #[error("{name}: {source}")]
    Unreadable {
        /// Of the file, for messages.
        name: String,
        /// What is wrong with them.
        source: VolumeReadError,
    },
}
