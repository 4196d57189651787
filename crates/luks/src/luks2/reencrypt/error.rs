// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why the state of a re-encryption is not relied on.

use crate::luks2::segment::SegmentSize;

const FORGED: &str = "a program other than cryptsetup changed the metadata";

/// The length of all the data, in words.
fn all(size: SegmentSize) -> String {
    match size {
        SegmentSize::Dynamic => "all that there are".into(),
        SegmentSize::Fixed(size) => size.to_string(),
    }
}

/// Why a volume in the midst of re-encryption is not opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReencryptionError {
    /// Made by a cryptsetup before 2.4.3.
    #[error(
        "its state has no digest (requirement online-reencrypt), so an attacker could have \
         changed it. If you trust it, `cryptsetup repair` adds a digest"
    )]
    NoDigest,
    /// Lawful, but not in this version.
    #[error("segment {segment}: {what}, which this version does not open")]
    Foreign {
        /// The segment.
        segment: u32,
        /// What it is, in words.
        what: String,
    },
    /// The keyslot with the state is of a kind that is not in this version.
    #[error("its state is in keyslot {keyslot}: {what}, which this version does not open")]
    ForeignKeyslot {
        /// The keyslot.
        keyslot: u32,
        /// What it is, in words.
        what: String,
    },
    /// A part of the data is as nothing says that it could be.
    #[error(
        "segment {segment} is encrypted neither as the data were before nor as they will be after: \
         {FORGED}"
    )]
    Neither {
        /// The segment.
        segment: u32,
    },
    /// A part of the data is not where its place in the plaintext has it.
    #[error(
        "segment {segment} has the data from byte {position} on and must begin at byte {expected} \
         of the storage, but begins at byte {found}: {FORGED}"
    )]
    Offset {
        /// The segment.
        segment: u32,
        /// Where it begins in the plaintext, in bytes.
        position: u64,
        /// Where it begins in the storage, in bytes.
        found: u64,
        /// Where it must begin, in bytes.
        expected: u64,
    },
    /// A part of the data counts its IVs from somewhere else.
    #[error(
        "segment {segment} has the data from byte {position} on, so its iv_tweak must be \
         {expected}, but is {found}: {FORGED}"
    )]
    IvTweak {
        /// The segment.
        segment: u32,
        /// Where it begins in the plaintext, in bytes.
        position: u64,
        /// Its first IV's number.
        found: u64,
        /// What that must be.
        expected: u64,
    },
    /// A part of the data goes further than what was moved there.
    #[error(
        "segment {segment} has the data from byte {position} on and extends beyond the part that \
         was moved there: {FORGED}"
    )]
    TooLong {
        /// The segment.
        segment: u32,
        /// Where it begins in the plaintext, in bytes.
        position: u64,
    },
    /// A part of the data stands where the re-encryption has not come to, or was before.
    #[error("segment {segment} is on the wrong side of the re-encryption's position: {FORGED}")]
    Order {
        /// The segment.
        segment: u32,
    },
    /// The data have become shorter, or longer.
    #[error(
        "the segments have {found} bytes of data in all, and must have {}: {FORGED}",
        all(*expected)
    )]
    Len {
        /// Their length in bytes.
        found: u64,
        /// The length that they must have.
        expected: SegmentSize,
    },
    /// Not the state that cryptsetup left.
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
    /// Whether cryptsetup could have left the metadata so: then nothing is damaged, and
    /// only this version does not open them.
    #[must_use]
    pub fn is_unsupported(&self) -> bool {
        matches!(
            self,
            Self::NoDigest | Self::ForeignKeyslot { .. } | Self::Foreign { .. }
        )
    }
}
