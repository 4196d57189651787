// SPDX-License-Identifier: MIT OR Apache-2.0
//! The errors of making volumes.

use luxor_luks::NotInLuks1;
use luxor_sector::SectorSize;

use crate::{ErrorClass, error::Cause};

/// Why a new volume is not made. It is the [source](std::error::Error::source) of the
/// [`Error`](crate::Error) that a call returns.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CreateError {
    /// The volume's format cannot represent the length of its data.
    #[error("{message}")]
    DoesNotFit {
        /// What does not fit, in words.
        message: String,
        /// The limit of the format.
        source: NotInLuks1,
    },
    /// An empty volume was to be as long as an existing file, which does not exist.
    #[error("{name} does not exist")]
    UnknownSize {
        /// The name of the file, for messages.
        name: String,
    },
    /// An empty volume cannot hold a part of a sector.
    #[error(
        "the volume would hold {len} bytes: that must be a multiple of the sector size ({sector_size}), and \
         not 0"
    )]
    PartSector {
        /// The length of the plaintext in bytes.
        len: u64,
        /// The sector size.
        sector_size: SectorSize,
        /// A length that is possible.
        possible: Option<PossibleLen>,
    },
    /// The volume would be longer than a file can be.
    #[error("{len} bytes are too many for a volume")]
    TooLong {
        /// The length of the plaintext in bytes.
        len: u64,
    },
    /// The header and the data would be one file.
    #[error("{name}: the volume and its header must be different files")]
    SameFile {
        /// The name of the file, for messages.
        name: String,
    },
    /// An empty volume cannot be a stream.
    #[error("{name} must be a file or a block device")]
    NotSeekable {
        /// The name of the output, for messages.
        name: String,
    },
    /// A volume whose length is not known needs an output that can grow.
    #[error("{name} is no file: its length and place cannot change")]
    CannotGrow {
        /// The name of the output, for messages.
        name: String,
    },
    /// A volume that grows has its header in front of its data.
    #[error("the header of this volume cannot be detached")]
    Detached,
    /// A write to the volume failed before.
    #[error("{name}: a write to the new volume failed, so it is discarded")]
    Incomplete {
        /// The name of the output, for messages.
        name: String,
    },
}

/// A length that a volume can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PossibleLen {
    /// That of the plaintext, in bytes.
    Plaintext(u64),
    /// That of the existing file, in bytes.
    File(u64),
}

impl Cause for CreateError {
    fn class(&self) -> ErrorClass {
        match self {
            Self::UnknownSize { .. } => ErrorClass::Missing,
            _ => ErrorClass::Failure,
        }
    }
}
