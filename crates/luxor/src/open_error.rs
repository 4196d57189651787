// SPDX-License-Identifier: MIT OR Apache-2.0
//! The errors of opening and reading volumes.

use luxor_luks::{FileLengthError, LuksVersion, PolicyError};
use luxor_sector::pipeline::PipelineError;
use luxor_volume::{ExtentError, HeaderError, RepairOutlook};

use crate::{Contents, ErrorClass, error::Cause};

/// Why a volume is not opened, or its data are not read. It is the
/// [source](std::error::Error::source) of the [`Error`](crate::Error) that a call returns.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
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
    /// An encryption in place was interrupted before it changed the data: its header is after them. The same
    /// call begins again.
    #[error(
        "{name}: its data are not encrypted: an encryption was interrupted before it changed them"
    )]
    EncryptionPrepared {
        /// The name of the file or device, for messages.
        name: String,
        /// The number of bytes by which the data were to be reduced.
        reduce_by: u64,
    },
    /// An encryption in place was interrupted while it wrote the header. The same call continues it.
    #[error("{name}: its encryption was interrupted while the header was written")]
    EncryptionInterrupted {
        /// The name of the file or device, for messages.
        name: String,
        /// The number of bytes by which the data were to be reduced. `None`: the metadata are there, and only
        /// keyslots may be missing, so a re-encryption continues it.
        reduce_by: Option<u64>,
    },
    /// The file of a detached header or of a volume ends within the keyslots.
    #[error(
        "{name} is cut off: its metadata and keyslots have {len} bytes, and only {there} are there"
    )]
    KeyslotsCutOff {
        /// The name of the file, for messages.
        name: String,
        /// The length of the metadata and keyslots in bytes.
        len: u64,
        /// The length of the file in bytes.
        there: u64,
    },
    /// The volume has another format than LUKS, and the caller needs LUKS.
    #[error("this is not a LUKS volume")]
    NotLuks,
    /// The volume does not meet a policy, because it has no header.
    #[error("{name} is refused: it has no header that could meet requirements")]
    NoHeaderForPolicy {
        /// The name of the volume, for messages.
        name: String,
    },
    /// The policy asks for the other version of LUKS.
    #[error("{name} is refused: it is a {version} volume")]
    VersionRefused {
        /// The name of the volume, for messages.
        name: String,
        /// Its version.
        version: LuksVersion,
    },
    /// The header does not meet the policy.
    #[error("{name} is refused: {source}")]
    Refused {
        /// The name of the volume, for messages.
        name: String,
        /// What it does not meet.
        source: PolicyError,
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
    /// The file ends before its data.
    #[error("{name} ends before the data: it was cut off")]
    NoData {
        /// The name of the file, for messages.
        name: String,
    },
    /// The end of the data is missing, and their beginning is there.
    #[error("{name}: {source}")]
    CutOff {
        /// The name of the file, for messages.
        name: String,
        /// What is missing.
        source: ExtentError,
    },
    /// The end of the file in the volume is missing.
    #[error("{name}: {source}")]
    FileCutOff {
        /// The name of the file with the data, for messages.
        name: String,
        /// What is missing.
        source: FileLengthError,
    },
    /// The data end within a sector, or before their recorded end.
    #[error("{name}: {source}")]
    EndsEarly {
        /// The name of the file, for messages.
        name: String,
        /// Where they end.
        source: PipelineError,
    },
    /// The trailer that ends the file was not found after the data.
    #[error(
        "{name} has no trailer of its key and UUID after the data: it was cut off, its UUID was changed, or \
         another program re-encrypted it"
    )]
    NoTrailer {
        /// The name of the file, for messages.
        name: String,
        /// Whether the data come from a stream.
        is_stream: bool,
    },
    /// A re-encryption has moved or changed the trailer that ends the file.
    #[error("the trailer that ends the file is being re-encrypted")]
    TrailerInReencryption,
    /// Other data follow the trailer that ends the file.
    #[error("the trailer that ends the file is not the last sector")]
    TrailerNotLast,
    /// The sector that may be a trailer cannot be read or decrypted.
    #[error("cannot read the last sector of the data: {source}")]
    LastSector {
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A stream cannot be read at several places.
    #[error("the data are in several parts, which cannot be read from a pipe")]
    SeveralPartsInStream,
    /// The data end nowhere.
    #[error("{name} has no known length")]
    NoLength {
        /// The name of the file, for messages.
        name: String,
    },
    /// The input is a stream.
    #[error("{name} is neither a file nor a block device")]
    NotSeekable {
        /// The name of the input, for messages.
        name: String,
    },
    /// The file that is to be the disk is not the one with the data.
    #[error("{name} has the data of the volume, not {other}")]
    OtherData {
        /// The name of the file with the data, for messages.
        name: String,
        /// The name of the other one.
        other: String,
    },
    /// The file with the data of a detached header is another volume.
    #[error("{name} is a LUKS volume of its own, and does not have the data of {header}")]
    OtherVolume {
        /// The name of the file that was to have the data, for messages.
        name: String,
        /// The name of the header.
        header: String,
    },
    /// Another program has written to the volume while it was read.
    #[error(
        "{what} changed while the data were being read, so the data may have been moved or re-encrypted"
    )]
    Changed {
        /// What changed, in words.
        what: &'static str,
    },
    /// Another program re-encrypts the volume, or reads it while that must not be.
    #[error("another program {what} it")]
    InReencryption {
        /// What the program does, in words.
        what: &'static str,
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
    /// A re-encryption of the volume is not finished, and the caller wants to write to it.
    #[error("{name}: a re-encryption is under way, and until it ends nothing can be written")]
    Reencrypting {
        /// The name of the file or device with the data, for messages.
        name: String,
    },
    /// A keyslot was to be opened with a volume key.
    #[error("a volume key belongs to no keyslot")]
    VolumeKeyForKeyslot,
    /// Unlocking gave no key for a part of the data.
    #[error("a part of the volume has no key")]
    NoKey,
    /// The engines have no cipher for a part of the data.
    #[error("the cipher of a part of the volume is not the engine's")]
    NoEngine,
}

impl Cause for OpenError {
    fn class(&self) -> ErrorClass {
        match self {
            Self::InReencryption { .. } => ErrorClass::Busy,
            _ => ErrorClass::Failure,
        }
    }
}
