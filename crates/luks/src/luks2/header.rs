// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reading: which of the two copies counts, and what it says. Reading never
//! writes; a damaged copy is told of, not repaired.

use std::{collections::BTreeMap, io, sync::Arc};

use luxor_sector::{SectorSize, Storage};
use luxor_volume::{Extent, HashAlgorithm};

use super::{
    binary_header::{self, BinaryHeader, BinaryHeaderError, CopyKind},
    config::Config,
    copy::{CopyError, CopyStatus, HeaderCopy, find_secondary, read_head},
    digest::Digest,
    foreign::Foreign,
    json,
    keyslot::Keyslot,
    metadata::Metadata,
    metadata_error::MetadataError,
    reencrypt_keyslot::ReencryptKeyslot,
    segment::{Segment, SegmentEntry, SegmentError},
    token::{FileLengthError, Token, check_file_length},
};
use crate::header_digest::HeaderDigest;

/// A volume's metadata, read once and validated, from the copy that counts.
#[derive(Clone, Debug)]
pub struct Luks2Header {
    binary: BinaryHeader,
    metadata: Metadata,
    text: String,
    digest: HeaderDigest,
    copies: [CopyStatus; 2],
    warnings: Vec<Warning>,
}

impl Luks2Header {
    /// Reads the metadata at the beginning of `storage`: from the valid copy with
    /// the higher seqid.
    ///
    /// At most 8 MiB are read, and no more than 32 KiB of a volume with the usual
    /// sizes, so `storage` may be just a volume's beginning.
    ///
    /// # Errors
    /// [`ReadError`]: no LUKS2 volume, nothing valid, or nothing that this version
    /// opens.
    pub fn read(storage: &dyn Storage) -> Result<Self, ReadError> {
        let len = storage.len().map_err(|source| ReadError::Io {
            source: Arc::new(source),
        })?;
        let head = read_head(storage, 0, len);
        if let Ok(head) = &head
            && binary_header::is_luks1(&head[..])
        {
            return Err(ReadError::Luks1);
        }
        let primary =
            head.and_then(|head| HeaderCopy::read(storage, &head, CopyKind::Primary, 0, len));
        // The primary copy tells where the secondary stands, if it can be trusted.
        let places = match &primary {
            Ok(copy) => vec![copy.binary.size],
            Err(_) => binary_header::SIZES.to_vec(),
        };
        let secondary = find_secondary(storage, &places, len);
        if let Some(error) = unsupported(&primary, &secondary) {
            return Err(ReadError::Unsupported { error });
        }
        match (primary, secondary) {
            (Err(primary), Err(secondary)) => Err(neither(primary, secondary)),
            (primary, secondary) => Ok(Self::choose(primary, secondary)),
        }
    }

    /// The header by the copy that counts; at least one is valid.
    fn choose(
        primary: Result<HeaderCopy, CopyError>,
        secondary: Result<HeaderCopy, CopyError>,
    ) -> Self {
        let warnings = warnings(&primary, &secondary);
        // `None` is less than any seqid; the primary counts when both are equal.
        let used = if seqid(&secondary) > seqid(&primary) {
            CopyKind::Secondary
        } else {
            CopyKind::Primary
        };
        let copies = [
            (CopyKind::Primary, &primary),
            (CopyKind::Secondary, &secondary),
        ]
        .map(|(kind, copy)| CopyStatus {
            kind,
            used: kind == used,
            found: copy
                .as_ref()
                .map(HeaderCopy::facts)
                .map_err(CopyError::clone),
        });
        let chosen = match used {
            CopyKind::Primary => primary,
            CopyKind::Secondary => secondary,
        };
        let HeaderCopy {
            binary,
            metadata,
            text,
            digest,
        } = chosen.expect("at least one copy is valid");
        Self {
            binary,
            metadata,
            text,
            digest,
            copies,
            warnings,
        }
    }

    /// What is wrong with the copies, although the volume can be opened.
    #[must_use]
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// The one segment of a volume whose data are all encrypted alike; `None` when they
    /// are not, as in the midst of a re-encryption: [`Luks2Header::extents`].
    #[must_use]
    pub fn segment(&self) -> Option<&Segment> {
        self.metadata.segments.single().map(|(_, segment)| segment)
    }

    /// All segments by number.
    #[must_use]
    pub fn segments(&self) -> &BTreeMap<u32, SegmentEntry> {
        self.metadata.segments.all()
    }

    /// Where the first byte of the data is, or will be when a re-encryption is through:
    /// 0 when the header is detached.
    #[must_use]
    pub fn data_offset(&self) -> u64 {
        self.metadata.segments.data_offset()
    }

    /// The plaintext, part by part, in a storage of `storage_len` bytes that has the
    /// data.
    ///
    /// # Errors
    /// [`SegmentError`]: the storage has too few bytes or a part of a sector, or a part
    /// of the data cannot be read.
    pub fn extents(&self, storage_len: u64) -> Result<Vec<Extent>, SegmentError> {
        let digest = |segment| self.metadata.digest_of_segment(segment);
        self.metadata.segments.extents(storage_len, digest)
    }

    /// The exact length in bytes of the file in the volume, where a `luxor-file`
    /// token keeps it. To be checked against the payload:
    /// [`Luks2Header::plaintext_len`].
    #[must_use]
    pub fn file_length(&self) -> Option<u64> {
        self.metadata.file_length()
    }

    /// The length of the plaintext in bytes, in a volume whose data are in a storage
    /// of `storage_len` bytes: that of the file in it, or else the payload's.
    ///
    /// # Errors
    /// [`PlaintextError`] when the storage has too few bytes or a part of a sector,
    /// or the file's length does not fit it.
    pub fn plaintext_len(&self, storage_len: u64) -> Result<u64, PlaintextError> {
        let extents = self.extents(storage_len)?;
        // They do not overlap, and lie below 2⁶⁴.
        let payload = extents.iter().map(|extent| extent.len).sum();
        let Some(length) = self.file_length() else {
            return Ok(payload);
        };
        check_file_length(length, payload, self.file_sector_size())?;
        Ok(length)
    }

    /// What a file's length was padded to: before or in a re-encryption the largest
    /// sector size there is.
    #[must_use]
    pub fn file_sector_size(&self) -> SectorSize {
        let sizes = self.segments().values().filter_map(SegmentEntry::crypt);
        sizes
            .map(|segment| segment.geometry.sector_size)
            .max()
            .unwrap_or(SectorSize::B512)
    }

    /// The bytes from the storage's beginning to the end of the keyslots area: what
    /// [`Luks2Header::unlock`] reads at most.
    #[must_use]
    pub fn metadata_len(&self) -> u64 {
        2 * self.binary.size + self.metadata.config.keyslots_size
    }

    /// What tells these metadata from all others.
    #[must_use]
    pub fn digest(&self) -> HeaderDigest {
        self.digest
    }

    /// The JSON metadata, byte for byte as `cryptsetup luksDump
    /// --dump-json-metadata` prints them (no line break at the end).
    #[must_use]
    pub fn metadata_json(&self) -> String {
        json::pretty(&self.text)
    }

    /// Writes what [`Luks2Header::metadata_json`] returns, which may be some hundred times as
    /// long as the header, without ever having all of it.
    ///
    /// # Errors
    /// What writing to `out` returns.
    pub fn write_metadata_json(&self, out: &mut dyn io::Write) -> io::Result<()> {
        json::write_pretty(&self.text, &mut |piece| out.write_all(piece.as_bytes()))
    }

    /// All that the metadata say, as typed values.
    #[must_use]
    pub fn describe(&self) -> Description<'_> {
        Description {
            version: 2,
            seqid: self.binary.seqid,
            header_size: self.binary.size,
            label: self.binary.label.as_str(),
            subsystem: self.binary.subsystem.as_str(),
            uuid: self.binary.uuid.as_str(),
            checksum: self.binary.checksum,
            segments: self.segments(),
            keyslots: &self.metadata.keyslots,
            reencrypt: self.metadata.reencrypt.as_ref(),
            foreign_keyslots: &self.metadata.foreign_keyslots,
            digests: &self.metadata.digests,
            foreign_digests: &self.metadata.foreign_digests,
            tokens: &self.metadata.tokens,
            config: &self.metadata.config,
            copies: &self.copies,
        }
    }

    pub(crate) fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// The binary header of the copy that counts.
    pub(crate) fn binary(&self) -> &BinaryHeader {
        &self.binary
    }

    /// The JSON text as it stands on disk.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn copies(&self) -> &[CopyStatus; 2] {
        &self.copies
    }
}

/// All that a volume's metadata say.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Description<'a> {
    /// 2.
    pub version: u32,
    /// How often the metadata were changed.
    pub seqid: u64,
    /// The length of each copy in bytes, JSON area included.
    pub header_size: u64,
    /// The label; empty when there is none.
    pub label: &'a str,
    /// The second label; empty when there is none.
    pub subsystem: &'a str,
    /// The UUID as text.
    pub uuid: &'a str,
    /// The hash of the checksum.
    pub checksum: HashAlgorithm,
    /// The segments by number.
    pub segments: &'a BTreeMap<u32, SegmentEntry>,
    /// The keyslots with keys, by number.
    pub keyslots: &'a BTreeMap<u32, Keyslot>,
    /// The keyslot that has the state of a re-encryption, and its number.
    pub reencrypt: Option<&'a (u32, ReencryptKeyslot)>,
    /// The keyslots that this version does not open, by number.
    pub foreign_keyslots: &'a BTreeMap<u32, Foreign>,
    /// The digests by number.
    pub digests: &'a BTreeMap<u32, Digest>,
    /// The digests that this version does not have, by number.
    pub foreign_digests: &'a BTreeMap<u32, Foreign>,
    /// The tokens by number.
    pub tokens: &'a BTreeMap<u32, Token>,
    /// Sizes, flags and requirements.
    pub config: &'a Config,
    /// Both copies: the primary, the secondary.
    pub copies: &'a [CopyStatus; 2],
}

fn seqid(copy: &Result<HeaderCopy, CopyError>) -> Option<u64> {
    copy.as_ref().ok().map(|copy| copy.binary.seqid)
}

/// What is wrong with the copies, one of which is valid at least.
fn warnings(
    primary: &Result<HeaderCopy, CopyError>,
    secondary: &Result<HeaderCopy, CopyError>,
) -> Vec<Warning> {
    let mut warnings = Vec::new();
    for (kind, copy) in [
        (CopyKind::Primary, primary),
        (CopyKind::Secondary, secondary),
    ] {
        if let Err(error) = copy {
            warnings.push(Warning::Damaged {
                kind,
                error: error.clone(),
            });
        }
    }
    if let (Ok(primary), Ok(secondary)) = (primary, secondary) {
        let seqids = (primary.binary.seqid, secondary.binary.seqid);
        if seqids.0 != seqids.1 {
            warnings.push(Warning::Seqids {
                primary: seqids.0,
                secondary: seqids.1,
            });
        } else if !primary.says_the_same(secondary) {
            warnings.push(Warning::Contents { seqid: seqids.0 });
        }
    }
    warnings
}

/// Why the newest copy that is whole is not used: an older one is not what its owner
/// has left there.
fn unsupported(
    primary: &Result<HeaderCopy, CopyError>,
    secondary: &Result<HeaderCopy, CopyError>,
) -> Option<MetadataError> {
    let whole = |copy| match copy {
        &Ok(HeaderCopy { ref binary, .. }) => Some((binary.seqid, None)),
        Err(CopyError::Unsupported { seqid, error }) => Some((*seqid, Some(error))),
        Err(_) => None,
    };
    let newest = match (whole(primary), whole(secondary)) {
        (Some(primary), Some(secondary)) if secondary.0 > primary.0 => secondary,
        (Some(primary), _) => primary,
        (None, secondary) => secondary?,
    };
    newest.1.cloned()
}

fn neither(primary: CopyError, secondary: CopyError) -> ReadError {
    match primary {
        CopyError::Io { source } if !secondary.has_magic() => ReadError::Io { source },
        CopyError::Binary(BinaryHeaderError::Magic { .. }) if !secondary.has_magic() => {
            ReadError::NotLuks
        }
        primary => ReadError::Damaged {
            primary: Box::new(primary),
            secondary: Box::new(secondary),
        },
    }
}

/// Something wrong that does not hinder opening the volume.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Warning {
    /// A copy is damaged.
    #[error(
        "the {} copy of the LUKS2 header is damaged ({error}); the other copy is used. `luxor \
         header repair` rewrites it",
        kind.name()
    )]
    Damaged {
        /// Which one.
        kind: CopyKind,
        /// What is wrong with it.
        error: CopyError,
    },
    /// The copies are not of one time.
    #[error(
        "the copies of the LUKS2 header differ in age (seqid {primary} and {secondary}): a change \
         was interrupted. The newer one is used"
    )]
    Seqids {
        /// The primary copy's seqid.
        primary: u64,
        /// The secondary copy's seqid.
        secondary: u64,
    },
    /// The copies are of one time, and one of them was replaced.
    #[error(
        "both copies of the LUKS2 header are valid and have seqid {seqid}, but they differ, which \
         no interrupted change explains. The primary copy is used; `luxor header repair` rewrites \
         the secondary copy from it"
    )]
    Contents {
        /// Of both.
        seqid: u64,
    },
}

/// Why a volume's metadata cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The storage cannot be read.
    #[error("the header cannot be read: {source}")]
    Io {
        /// The system's reason.
        source: Arc<io::Error>,
    },
    /// Neither copy begins as a header does.
    #[error("this is not a LUKS volume: it has no LUKS header")]
    NotLuks,
    /// LUKS1: [`Luks1Header`](crate::Luks1Header) reads it.
    #[error("this is a LUKS1 volume, not a LUKS2 one")]
    Luks1,
    /// Nothing valid.
    #[error(
        "both copies of the LUKS2 header are damaged; the primary: {primary}; the secondary: \
         {secondary}"
    )]
    Damaged {
        /// What is wrong with the primary copy.
        primary: Box<CopyError>,
        /// What is wrong with the secondary copy.
        secondary: Box<CopyError>,
    },
    /// Lawful or not, nothing that this version opens.
    #[error("the volume cannot be opened: {error}")]
    Unsupported {
        /// What it is.
        error: MetadataError,
    },
}

/// Why a volume's data have no length.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlaintextError {
    /// The storage does not hold the segment.
    #[error(transparent)]
    Segment(#[from] SegmentError),
    /// The file's length does not fit it.
    #[error(transparent)]
    FileLength(#[from] FileLengthError),
}
