// SPDX-License-Identifier: MIT OR Apache-2.0
//! One of the two copies of the metadata, read and held to its rules by itself.

use std::{io, sync::Arc};

use luxor_sector::Storage;
use luxor_volume::HashAlgorithm;

use super::{
    binary_header::{self, BinaryHeader, BinaryHeaderError, CopyKind},
    metadata::{self, Metadata},
    metadata_error::MetadataError,
};
use crate::header_digest::HeaderDigest;

/// A copy's state.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CopyStatus {
    /// Which one.
    pub kind: CopyKind,
    /// Whether the metadata are from this copy.
    pub used: bool,
    /// What it is, or what is wrong with it.
    pub found: Result<CopyFacts, CopyError>,
}

/// What a valid copy is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CopyFacts {
    /// Where it stands, in bytes.
    pub offset: u64,
    /// How often it was changed.
    pub seqid: u64,
    /// The hash of its checksum.
    pub checksum: HashAlgorithm,
}

/// One copy, valid by itself.
#[derive(Clone, Debug)]
pub(super) struct HeaderCopy {
    pub(super) binary: BinaryHeader,
    pub(super) metadata: Metadata,
    pub(super) text: String,
    pub(super) digest: HeaderDigest,
}

impl HeaderCopy {
    pub(super) fn facts(&self) -> CopyFacts {
        CopyFacts {
            offset: self.binary.offset,
            seqid: self.binary.seqid,
            checksum: self.binary.checksum,
        }
    }

    /// Whether only salts and places differ.
    pub(super) fn says_the_same(&self, other: &Self) -> bool {
        let binary = BinaryHeader {
            salt: self.binary.salt,
            offset: self.binary.offset,
            ..other.binary.clone()
        };
        self.binary == binary && self.text == other.text
    }

    pub(super) fn read(
        storage: &dyn Storage,
        head: &[u8; binary_header::LEN],
        kind: CopyKind,
        offset: u64,
        len: u64,
    ) -> Result<Self, CopyError> {
        let binary = BinaryHeader::parse(head, kind, offset)?;
        let end = offset + binary.size;
        if end > len {
            return Err(BinaryHeaderError::Truncated { end, len }.into());
        }
        let size = usize::try_from(binary.size).expect("at most 4 MiB");
        let mut area = vec![0; size];
        storage.read_exact_at(&mut area, offset)?;
        // The head was read before, and storage can change: only these bytes count.
        let (head, json) = area
            .split_first_chunk()
            .expect("each of the nine sizes is longer");
        if BinaryHeader::parse(head, kind, offset)? != binary {
            return Err(io::Error::other("it changed while it was read").into());
        }
        binary.verify(&area)?;
        let text = metadata::area_text(json)?.to_owned();
        let metadata = Metadata::parse(&text, binary.size).map_err(|error| {
            if error.is_unsupported() {
                let seqid = binary.seqid;
                CopyError::Unsupported { seqid, error }
            } else {
                error.into()
            }
        })?;
        Ok(Self {
            binary,
            metadata,
            text,
            digest: HeaderDigest::of(&area),
        })
    }
}

/// The binary header's bytes at byte `offset`, with zeros where a storage of `len` bytes ends.
pub(super) fn read_head(
    storage: &dyn Storage,
    offset: u64,
    len: u64,
) -> Result<Box<[u8; binary_header::LEN]>, CopyError> {
    let end = offset + binary_header::LEN as u64;
    let mut head = Box::new([0; binary_header::LEN]);
    // Whether there is a magic is worth knowing of a file that ends early, too.
    let there = usize::try_from(len.saturating_sub(offset)).unwrap_or(usize::MAX);
    let there = there.min(binary_header::LEN);
    storage.read_exact_at(&mut head[..there], offset)?;
    if there < binary_header::LEN && head.starts_with(b"LUKS\xba\xbe\x00\x02") {
        return Err(BinaryHeaderError::Truncated { end, len }.into());
    }
    Ok(head)
}

/// The first whole secondary copy among `places`, or what is wrong with the one that is
/// most like a header. No other one counts: all places before the right one are the
/// primary copy's, and those behind it may have kept an older volume's, of whatever seqid.
pub(super) fn find_secondary(
    storage: &dyn Storage,
    places: &[u64],
    len: u64,
) -> Result<HeaderCopy, CopyError> {
    let mut best: Option<Result<HeaderCopy, CopyError>> = None;
    for &offset in places {
        let found = if offset >= len {
            Err(BinaryHeaderError::Truncated {
                end: offset + offset,
                len,
            }
            .into())
        } else {
            read_head(storage, offset, len)
                .and_then(|head| HeaderCopy::read(storage, &head, CopyKind::Secondary, offset, len))
        };
        // Its checksum is right then.
        let is_whole = !matches!(found, Err(CopyError::Io { .. } | CopyError::Binary(_)));
        if is_whole {
            return found;
        }
        let has_magic = |found: &Result<HeaderCopy, CopyError>| matches!(found, Err(error) if error.has_magic());
        if best.is_none() || (has_magic(&found) && !best.as_ref().is_some_and(has_magic)) {
            best = Some(found);
        }
    }
    best.unwrap_or_else(|| unreachable!("there is at least one place"))
}

/// What is wrong with a copy.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CopyError {
    /// It cannot be read.
    #[error("it cannot be read: {source}")]
    Io {
        /// The system's reason.
        source: Arc<io::Error>,
    },
    /// Its binary header breaks a rule.
    #[error(transparent)]
    Binary(#[from] BinaryHeaderError),
    /// Its JSON area breaks a rule.
    #[error(transparent)]
    Metadata(#[from] MetadataError),
    /// It is whole, and not for this version.
    #[error("{error}")]
    Unsupported {
        /// How often it was changed.
        seqid: u64,
        /// What is not known or refused.
        error: MetadataError,
    },
}

impl From<io::Error> for CopyError {
    fn from(source: io::Error) -> Self {
        Self::Io {
            source: Arc::new(source),
        }
    }
}

impl CopyError {
    /// Whether there is at least a header's magic.
    pub(super) fn has_magic(&self) -> bool {
        !matches!(
            self,
            Self::Io { .. }
                | Self::Binary(
                    BinaryHeaderError::Magic { .. } | BinaryHeaderError::Truncated { .. }
                )
        )
    }
}
