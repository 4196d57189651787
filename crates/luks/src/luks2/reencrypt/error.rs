// SPDX-License-Identifier: MIT OR Apache-2.0
//! The errors of a re-encryption's state.

use crate::luks2::segment::SegmentSize;

const FORGED: &str = "a program other than cryptsetup changed the metadata";

/// Returns the length of all the data, in words.
fn all(size: SegmentSize) -> String {
    match size {
        SegmentSize::Dynamic => "all that there are".into(),
        SegmentSize::Fixed(size) => size.to_string(),
    }
}

/// Why a volume is not opened during a re-encryption.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReencryptionError {
    /// The state has no digest, because a cryptsetup before 2.4.3 made it.
    #[error(
        "its state has no digest (requirement online-reencrypt), so an attacker could have \
         changed it"
    )]
    NoDigest,
    /// A segment is valid, but this version does not support it.
    #[error("segment {segment}: {what}, which this version does not open")]
    Foreign {
        /// The segment.
        segment: u32,
        /// What is not supported, in words.
        what: String,
    },
    /// The keyslot with the state is valid, but this version does not support it.
    #[error("its state is in keyslot {keyslot}: {what}, which this version does not open")]
    ForeignKeyslot {
        /// The keyslot.
        keyslot: u32,
        /// What is not supported, in words.
        what: String,
    },
    /// A part of the data has neither the old nor the new encryption.
    #[error(
        "segment {segment} is encrypted neither as the data were before nor as they will be after: \
         {FORGED}"
    )]
    Neither {
        /// The segment.
        segment: u32,
    },
    /// A part of the data is not where its position in the plaintext requires it.
    #[error(
        "segment {segment} has the data from byte {position} on and must begin at byte {expected} \
         of the storage, but begins at byte {found}: {FORGED}"
    )]
    Offset {
        /// The segment.
        segment: u32,
        /// The position in the plaintext at which it begins, in bytes.
        position: u64,
        /// Its offset in the storage, in bytes.
        found: u64,
        /// The offset that is required, in bytes.
        expected: u64,
    },
    /// A part of the data does not have the first IV that its position requires.
    #[error(
        "segment {segment} has the data from byte {position} on, so its iv_tweak must be \
         {expected}, but is {found}: {FORGED}"
    )]
    IvTweak {
        /// The segment.
        segment: u32,
        /// The position in the plaintext at which it begins, in bytes.
        position: u64,
        /// The number of its first IV.
        found: u64,
        /// The number that is required.
        expected: u64,
    },
    /// A part of the data extends beyond the part that was moved.
    #[error(
        "segment {segment} has the data from byte {position} on and extends beyond the part that \
         was moved there: {FORGED}"
    )]
    TooLong {
        /// The segment.
        segment: u32,
        /// The position in the plaintext at which it begins, in bytes.
        position: u64,
    },
    /// A part of the data contradicts the direction: it has the new encryption ahead of the
    /// re-encryption's position, or the old one behind it.
    #[error("segment {segment} is on the wrong side of the re-encryption's position: {FORGED}")]
    Order {
        /// The segment.
        segment: u32,
    },
    /// The length of the data has changed.
    #[error(
        "the segments have {found} bytes of data in all, and must have {}: {FORGED}",
        all(*expected)
    )]
    Len {
        /// The present length in bytes.
        found: u64,
        /// The length that is required.
        expected: SegmentSize,
    },
    /// The state does not match its digest, so cryptsetup did not write it.
    #[error(
        "its state does not agree with its digest ({digest}): {FORGED}. Restore the header from a \
         backup made during the re-encryption"
    )]
    Digest {
        /// The digest.
        digest: u32,
    },
}

impl ReencryptionError {
    /// Returns whether cryptsetup could have written the metadata. Then nothing is damaged, and
    /// only this version does not support them.
    #[must_use]
    pub fn is_unsupported(&self) -> bool {
        matches!(
            self,
            Self::NoDigest | Self::ForeignKeyslot { .. } | Self::Foreign { .. }
        )
    }
}
