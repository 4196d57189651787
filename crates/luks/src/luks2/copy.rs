// SPDX-License-Identifier: MIT OR Apache-2.0
//! One of the two copies of the metadata: read and validated independently of the other.

use std::{io, sync::Arc};

use luxor_sector::Storage;
use luxor_volume::HashAlgorithm;

use super::{
    binary_header::{self, BinaryHeader, BinaryHeaderError, CopyKind},
    json::Node,
    metadata::{self, Metadata},
    metadata_error::MetadataError,
};
use crate::header_digest::HeaderDigest;

/// The members of the JSON text without which a key or the data could be lost.
pub(super) const VITAL_MEMBERS: [&str; 4] = ["keyslots", "digests", "segments", "tokens"];
/// All members of the JSON text.
const MEMBERS: [&str; 5] = ["keyslots", "digests", "segments", "tokens", "config"];

/// The state of one of the two copies.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CopyStatus {
    /// Which one.
    pub kind: CopyKind,
    /// Whether the metadata were read from this copy.
    pub used: bool,
    /// Facts about a valid copy, or what is wrong with it.
    pub found: Result<CopyFacts, CopyError>,
}

/// Facts about a valid copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CopyFacts {
    /// Its offset in bytes.
    pub offset: u64,
    /// Its sequence number, which grows with each change.
    pub seqid: u64,
    /// The hash algorithm of its checksum.
    pub checksum: HashAlgorithm,
}

/// A copy that is valid by itself.
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

    /// Whether `announced` has the same seqid and says nothing else than that a zone of a re-encryption will
    /// change, which nothing protects.
    pub(super) fn is_before_unprotected_zone(&self, announced: &Self) -> bool {
        let (before, after) = (&self.metadata, &announced.metadata);
        self.binary.seqid == announced.binary.seqid
            && self.binary.uuid == announced.binary.uuid
            && after.has_unprotected_zone()
            && before.check_readable().is_ok()
            && before.reencrypt == after.reencrypt
            && before.keyslots == after.keyslots
    }

    /// Returns the keyslots and digests that are unusable in this copy and intact in `other`.
    pub(super) fn spoilt(&self, other: &Self) -> Vec<String> {
        let (ours, theirs) = (&self.metadata, &other.metadata);
        let keyslots = ours.foreign_keyslots.keys();
        let keyslots = keyslots
            .filter(|number| theirs.keyslots.contains_key(number))
            .map(|number| format!("keyslot {number}"));
        let digests = ours.foreign_digests.keys();
        let digests = digests
            .filter(|number| theirs.digests.contains_key(number))
            .map(|number| format!("digest {number}"));
        keyslots.chain(digests).collect()
    }

    /// Returns the names of the parts in which the copies differ, besides salt and offset.
    pub(super) fn differences(&self, other: &Self) -> Vec<&'static str> {
        let (ours, theirs) = (&self.binary, &other.binary);
        let mut differences = Vec::new();
        if self.text != other.text {
            let [ours, theirs] =
                [self, other].map(|copy| Node::parse(&copy.text).unwrap_or(Node::Null));
            let differs = |name: &&str| ours.member(name) != theirs.member(name);
            differences.extend(MEMBERS.into_iter().filter(differs));
            if differences.is_empty() {
                differences.push("JSON text");
            }
        }
        let fields = [
            ("label", ours.label == theirs.label),
            ("subsystem", ours.subsystem == theirs.subsystem),
            ("UUID", ours.uuid == theirs.uuid),
            ("checksum algorithm", ours.checksum == theirs.checksum),
        ];
        let differing = fields.into_iter().filter(|(_, is_same)| !is_same);
        differences.extend(differing.map(|(name, _)| name));
        differences
    }

    /// Reads the copy whose binary header is `head`. `other` is the other copy, if it is valid: its text
    /// need not be parsed twice.
    pub(super) fn read(
        storage: &dyn Storage,
        head: &[u8; binary_header::LEN],
        (kind, offset): (CopyKind, u64),
        len: u64,
        other: Option<&Self>,
    ) -> Result<Self, CopyError> {
        let binary = parse_head(head, (kind, offset))?;
        let end = offset + binary.size;
        if end > len {
            return Err(BinaryHeaderError::Truncated { end, len }.into());
        }
        let size = usize::try_from(binary.size).expect("a header has at most 4 MiB");
        let mut area = vec![0; size];
        storage.read_exact_at(&mut area, offset)?;
        // `head` was read separately, and the storage may have changed since. Only the bytes of
        // `area` are used from here on.
        if area[..head.len()] != head[..] {
            return Err(io::Error::other("it changed while it was read").into());
        }
        Self::parse(&area, (kind, offset), other)
    }

    /// Parses a whole copy.
    pub(super) fn parse(
        area: &[u8],
        (kind, offset): (CopyKind, u64),
        other: Option<&Self>,
    ) -> Result<Self, CopyError> {
        let (head, json) = area
            .split_first_chunk()
            .expect("each of the nine sizes is more than 4096");
        let binary = parse_head(head, (kind, offset))?;
        binary.verify(area)?;
        // The checksum is right, so a program wrote this on purpose, perhaps one that permits more.
        let seqid = binary.seqid;
        let unsupported = |error| CopyError::Unsupported { seqid, error };
        binary_header::check_version(head)
            .map_err(|error| unsupported(MetadataError::Binary(error)))?;
        let text = metadata::area_text(json).map_err(unsupported)?;
        let same = other.filter(|other| other.text == text && other.binary.size == binary.size);
        let parsed = match same {
            Some(same) => Ok(same.metadata.clone()),
            None => Metadata::parse(&text, binary.size),
        };
        let metadata = parsed.map_err(unsupported)?;
        Ok(Self {
            binary,
            metadata,
            text,
            digest: HeaderDigest::compute(area),
        })
    }
}

/// Parses the binary header of a copy. One whose checksum only other programs can compute is not known
/// to be damaged.
fn parse_head(
    head: &[u8; binary_header::LEN],
    (kind, offset): (CopyKind, u64),
) -> Result<BinaryHeader, CopyError> {
    BinaryHeader::parse(head, kind, offset).map_err(|error| {
        if error.is_of_other_hash() {
            CopyError::Unsupported {
                seqid: binary_header::seqid(head),
                error: MetadataError::Binary(error),
            }
        } else {
            error.into()
        }
    })
}

/// Reads the binary header at byte `offset`. Bytes beyond the storage's end at `len` are zero.
pub(super) fn read_head(
    storage: &dyn Storage,
    offset: u64,
    len: u64,
) -> Result<Box<[u8; binary_header::LEN]>, CopyError> {
    let end = offset + binary_header::LEN as u64;
    let mut head = Box::new([0; binary_header::LEN]);
    // Read what exists even if the file ends early: a magic in it makes the error more exact.
    let there = usize::try_from(len.saturating_sub(offset)).unwrap_or(usize::MAX);
    let there = there.min(binary_header::LEN);
    storage.read_exact_at(&mut head[..there], offset)?;
    if there < binary_header::LEN && head.starts_with(b"LUKS\xba\xbe\x00\x02") {
        return Err(BinaryHeaderError::Truncated { end, len }.into());
    }
    Ok(head)
}

/// Returns the first whole secondary copy at one of the offsets `places`, or else the error of the
/// candidate that is most like a header. The copies after the first whole one are not considered:
/// offsets below the right one lie within the primary copy, and those above it may still hold a
/// secondary copy of an older volume, with any seqid. `primary` is the primary copy, if it is valid.
/// The second result is the error of the first place that could not be read, if there was one.
pub(super) fn find_secondary(
    storage: &dyn Storage,
    places: &[u64],
    len: u64,
    primary: Option<&HeaderCopy>,
) -> (Result<HeaderCopy, CopyError>, Option<CopyError>) {
    let mut unread = None;
    let mut best: Option<Result<HeaderCopy, CopyError>> = None;
    for &offset in places {
        let found = if offset >= len {
            Err(BinaryHeaderError::Truncated {
                end: offset + offset,
                len,
            }
            .into())
        } else {
            let place = (CopyKind::Secondary, offset);
            read_head(storage, offset, len)
                .and_then(|head| HeaderCopy::read(storage, &head, place, len, primary))
        };
        // With any other error the checksum was right, or this version cannot compute it.
        let is_whole = !matches!(found, Err(CopyError::Io { .. } | CopyError::Binary(_)));
        if is_whole {
            return (found, unread);
        }
        match &found {
            // No copy is after the end of a stream, whose length was not known.
            Err(CopyError::Io { source }) if source.kind() == io::ErrorKind::UnexpectedEof => {}
            Err(error @ CopyError::Io { .. }) => {
                unread.get_or_insert_with(|| error.clone());
            }
            _ => {}
        }
        let has_magic = |found: &Result<HeaderCopy, CopyError>| matches!(found, Err(error) if error.has_magic());
        if best.is_none() || (has_magic(&found) && !best.as_ref().is_some_and(has_magic)) {
            best = Some(found);
        }
    }
    let best = best.unwrap_or_else(|| unreachable!("the caller passes at least one place"));
    (best, unread)
}

/// Why a copy is not valid.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CopyError {
    /// The copy cannot be read.
    #[error("it cannot be read: {source}")]
    Io {
        /// The system's reason.
        source: Arc<io::Error>,
    },
    /// The binary header breaks a rule.
    #[error(transparent)]
    Binary(#[from] BinaryHeaderError),
    /// The checksum is right, but this version does not support or refuses the JSON area, or finds that
    /// it breaks a rule or is no JSON. Or this version does not support the version of the
    /// copy, or the hash of its checksum.
    #[error("{error}")]
    Unsupported {
        /// Its sequence number.
        seqid: u64,
        /// What is not supported or refused.
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
    /// The state of the copy, after the words "the copy".
    pub(crate) fn state(&self) -> &'static str {
        match self {
            Self::Io { .. } => "cannot be read",
            Self::Unsupported { .. } => "is not supported",
            Self::Binary(_) => "is damaged",
        }
    }

    /// Returns whether the copy could not be read.
    pub(crate) fn is_unread(&self) -> bool {
        matches!(self, Self::Io { .. })
    }

    /// Returns whether the storage ends within the copy.
    pub(crate) fn is_cut_off(&self) -> bool {
        matches!(self, Self::Binary(BinaryHeaderError::Truncated { .. }))
    }

    /// Returns whether at least the magic of a header was found.
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
