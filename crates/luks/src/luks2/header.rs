// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads both copies of the metadata and chooses the one to use. Reading never writes: a damaged
//! copy is reported, not repaired.

use std::{collections::BTreeMap, io, sync::Arc};

use luxor_sector::{SectorSize, Storage};
use luxor_volume::{Extent, HashAlgorithm, Remedy};

use super::{
    binary_header::{self, BinaryHeader, BinaryHeaderError, CopyKind},
    config::Config,
    copy::{CopyError, CopyStatus, HeaderCopy, VITAL_MEMBERS, find_secondary, read_head},
    digest::Digest,
    foreign::Foreign,
    json, json_c,
    keyslot::Keyslot,
    metadata::Metadata,
    metadata_error::MetadataError,
    reencrypt_keyslot::ReencryptKeyslot,
    segment::{Segment, SegmentEntry, SegmentError},
    token::{FileLengthError, Token, check_file_length},
};
use crate::{
    header_digest::HeaderDigest,
    luks1_error::{FieldDamage, KeyslotDamage},
};

/// The metadata of a LUKS2 volume, read once and validated, from the copy in use.
#[derive(Clone, Debug)]
pub struct Luks2Header {
    binary: BinaryHeader,
    metadata: Metadata,
    text: String,
    digest: HeaderDigest,
    copies: [CopyStatus; 2],
    warnings: Vec<Warning>,
    /// The bytes of both copies, if they are known to be durable because this wrote them.
    written: Option<Arc<[Vec<u8>; 2]>>,
}

impl Luks2Header {
    /// Reads the metadata at the beginning of `storage`, from the valid copy with the higher seqid.
    ///
    /// Reads at most 8 MiB, and at most 32 KiB of a volume with the usual sizes, so `storage` may
    /// hold just the beginning of a volume.
    ///
    /// # Errors
    /// [`ReadError`]: `storage` holds no LUKS2 volume, no valid copy, or metadata that this version
    /// does not support.
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
        let primary = head
            .and_then(|head| HeaderCopy::read(storage, &head, (CopyKind::Primary, 0), len, None));
        // A valid primary copy determines the offset of the secondary.
        let places = match &primary {
            Ok(copy) => vec![copy.binary.size],
            Err(_) => binary_header::SIZES.to_vec(),
        };
        let (secondary, unread) = find_secondary(storage, &places, len, primary.as_ref().ok());
        // Without a primary copy the secondary one may be where the storage could not be read, and the
        // one that was found be of an older volume.
        let primary = match (primary, unread) {
            (Err(_), Some(unread)) => Err(unread),
            (primary, _) => primary,
        };
        if let Some(error) = unsupported(&primary, &secondary) {
            return Err(ReadError::Unsupported { error });
        }
        match (primary, secondary) {
            (Err(primary), Err(secondary)) => Err(neither(primary, secondary)),
            (primary, secondary) => Ok(Self::choose(primary, secondary)),
        }
    }

    /// Makes the header from the copy to use. At least one copy must be valid.
    fn choose(
        primary: Result<HeaderCopy, CopyError>,
        secondary: Result<HeaderCopy, CopyError>,
    ) -> Self {
        let warnings = warnings(&primary, &secondary);
        // `None` is less than any seqid. If both are equal, the primary copy is used.
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
            written: None,
        }
    }

    /// Makes the header from both copies after they were written and made durable: their bytes, and what
    /// these say.
    pub(super) fn of_written([primary, secondary]: [(Vec<u8>, HeaderCopy); 2]) -> Self {
        Self {
            written: Some(Arc::new([primary.0, secondary.0])),
            ..Self::choose(Ok(primary.1), Ok(secondary.1))
        }
    }

    /// Whether this wrote both copies, and `storage` has the same bytes still. Then there is nothing to
    /// parse, and nothing to make durable.
    pub(super) fn is_as_written(&self, storage: &dyn Storage) -> bool {
        let Some(written) = &self.written else {
            return false;
        };
        let mut now = vec![0; written[0].len()];
        let places = [CopyKind::Primary, CopyKind::Secondary].map(|kind| self.binary.place(kind));
        let mut copies = written.iter().zip(places);
        copies.all(|(bytes, at)| storage.read_exact_at(&mut now, at).is_ok() && now == *bytes)
    }

    /// Defects of the copies that do not prevent opening the volume.
    #[must_use]
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// Returns the parts in which the copies differ, although they have equal seqids, if the loss of the
    /// secondary one could be that of a key or of data.
    pub(crate) fn vital_differences(&self) -> Option<&[&'static str]> {
        self.warnings.iter().find_map(|warning| match warning {
            Warning::Contents { differences, .. } if are_vital(differences) => {
                Some(differences.as_slice())
            }
            _ => None,
        })
    }

    /// Returns the keyslots and digests that only the older copy has intact.
    pub(crate) fn spoilt(&self) -> Option<&[String]> {
        self.warnings.iter().find_map(|warning| match warning {
            Warning::Spoilt { spoilt, .. } => Some(spoilt.as_slice()),
            _ => None,
        })
    }

    /// Returns whether a copy could not be read, so that it is not known to be damaged.
    #[must_use]
    pub fn has_unread_copy(&self) -> bool {
        let mut copies = self.copies.iter();
        copies.any(|copy| matches!(copy.found, Err(CopyError::Io { .. })))
    }

    /// The only segment of a volume with uniformly encrypted data. `None` if the data are in
    /// several parts, as during a re-encryption, or not encrypted; use [`Luks2Header::extents`]
    /// then.
    #[must_use]
    pub fn segment(&self) -> Option<&Segment> {
        self.metadata.segments.single().map(|(_, segment)| segment)
    }

    /// All segments by number.
    #[must_use]
    pub fn segments(&self) -> &BTreeMap<u32, SegmentEntry> {
        self.metadata.segments.all()
    }

    /// The offset of the first byte of the data, now or after a re-encryption that is under way. It
    /// is 0 if the header is detached.
    #[must_use]
    pub fn data_offset(&self) -> u64 {
        self.metadata.segments.data_offset()
    }

    /// The plaintext, part by part, in a storage of `storage_len` bytes that holds the data. If the
    /// length of a file is recorded, what follows its last sector is left out.
    ///
    /// # Errors
    /// [`SegmentError`]: the storage is too short or ends within a sector, or this version cannot
    /// read a part of the data.
    pub fn extents(&self, storage_len: u64) -> Result<Vec<Extent>, SegmentError> {
        self.metadata.check_file_end()?;
        self.metadata.check_readable()?;
        let digest = |segment| self.metadata.digest_of_segment(segment);
        let payload = self.file_payload_len();
        self.metadata.segments.extents(storage_len, payload, digest)
    }

    /// As [`Luks2Header::extents`], as if the storage were not cut off: its end may be missing.
    ///
    /// # Errors
    /// [`SegmentError`]: this version cannot read a part of the data.
    pub fn whole_extents(&self, storage_len: u64) -> Result<Vec<Extent>, SegmentError> {
        let segments = &self.metadata.segments;
        self.extents(segments.whole_storage_len(storage_len, self.file_payload_len()))
    }

    /// The length of the data of a file in the volume: [`Luks2Header::file_length`], padded to whole
    /// sectors.
    pub(crate) fn file_payload_len(&self) -> Option<u64> {
        self.file_sector_size().payload_len(self.file_length()?)
    }

    /// The exact length in bytes of the file in the volume, if a `luxor-file` token records it. It
    /// is not yet checked against the payload: [`Luks2Header::plaintext_len`] does that.
    #[must_use]
    pub fn file_length(&self) -> Option<u64> {
        self.metadata.file_length()
    }

    /// Whether the length of a file in the volume is in a trailer ([`TrailerKey`](crate::TrailerKey)).
    #[must_use]
    pub fn has_trailer(&self) -> bool {
        self.metadata.has_trailer()
    }

    /// The length of the plaintext in bytes, if the storage that holds the data has `storage_len`
    /// bytes. It is the length of the file in the volume if that is recorded, otherwise that of the
    /// payload.
    ///
    /// # Errors
    /// [`PlaintextError`]: the storage is too short or ends within a sector.
    pub fn plaintext_len(&self, storage_len: u64) -> Result<u64, PlaintextError> {
        let extents = self.extents(storage_len)?;
        // The sum cannot overflow: the extents do not overlap, and end below 2⁶⁴.
        let payload = extents.iter().map(|extent| extent.len).sum();
        let Some(length) = self.file_length() else {
            return Ok(payload);
        };
        check_file_length(length, payload, self.file_sector_size())?;
        Ok(length)
    }

    /// The sector size to which the length of a file in the volume is padded: the largest sector
    /// size of any segment, including those of a re-encryption.
    #[must_use]
    pub fn file_sector_size(&self) -> SectorSize {
        let sizes = self.segments().values().filter_map(SegmentEntry::crypt);
        sizes
            .map(|segment| segment.geometry.sector_size)
            .max()
            .unwrap_or(SectorSize::B512)
    }

    /// The number of bytes from the beginning of the storage to the end of the keyslots area.
    /// [`Luks2Header::unlock`] reads nothing beyond.
    #[must_use]
    pub fn metadata_len(&self) -> u64 {
        2 * self.binary.size + self.metadata.config.keyslots_size
    }

    /// The digest of these metadata.
    #[must_use]
    pub fn digest(&self) -> HeaderDigest {
        self.digest
    }

    /// Returns the JSON metadata as `cryptsetup luksDump --dump-json-metadata` prints them, without a
    /// line break at the end. A byte that is not UTF-8, as in tokens of other programs, becomes U+FFFD:
    /// [`Luks2Header::write_metadata_json`] keeps it.
    #[must_use]
    pub fn metadata_json(&self) -> String {
        String::from_utf8_lossy(&json_c::encode_shown(&json::pretty(&self.text))).into_owned()
    }

    /// Writes the JSON metadata, byte for byte as `cryptsetup luksDump --dump-json-metadata` prints
    /// them, without a line break at the end, and without ever holding all of them in memory. They may be
    /// some hundred times as long as the header.
    ///
    /// # Errors
    /// An I/O error of `out`.
    pub fn write_metadata_json(&self, out: &mut dyn io::Write) -> io::Result<()> {
        json::write_pretty(&self.text, &mut |piece| {
            out.write_all(&json_c::encode_shown(piece))
        })
    }

    /// Returns the contents of the metadata as typed values.
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

    /// The binary header of the copy in use.
    pub(crate) fn binary(&self) -> &BinaryHeader {
        &self.binary
    }

    /// The JSON text as stored, but decoded ([`json_c`]).
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn copies(&self) -> &[CopyStatus; 2] {
        &self.copies
    }
}

/// The contents of a volume's metadata.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Description<'a> {
    /// The version of LUKS: 2.
    pub version: u32,
    /// The sequence number, which is increased by one with each change.
    pub seqid: u64,
    /// The length of each copy in bytes, including the JSON area.
    pub header_size: u64,
    /// The label; empty if there is none.
    pub label: &'a str,
    /// The second label; empty if there is none.
    pub subsystem: &'a str,
    /// The UUID as text.
    pub uuid: &'a str,
    /// The hash of the checksum.
    pub checksum: HashAlgorithm,
    /// The segments by number.
    pub segments: &'a BTreeMap<u32, SegmentEntry>,
    /// The keyslots that hold keys, by number.
    pub keyslots: &'a BTreeMap<u32, Keyslot>,
    /// The keyslot with the state of a re-encryption, and its number.
    pub reencrypt: Option<&'a (u32, ReencryptKeyslot)>,
    /// The keyslots that this version cannot open, by number.
    pub foreign_keyslots: &'a BTreeMap<u32, Foreign>,
    /// The digests by number.
    pub digests: &'a BTreeMap<u32, Digest>,
    /// The digests that this version does not support, by number.
    pub foreign_digests: &'a BTreeMap<u32, Foreign>,
    /// The tokens by number.
    pub tokens: &'a BTreeMap<u32, Token>,
    /// Sizes, flags and requirements.
    pub config: &'a Config,
    /// Both copies: first the primary, then the secondary.
    pub copies: &'a [CopyStatus; 2],
}

impl Description<'_> {
    /// Whether keyslot `number` holds a key that encrypts no segment.
    #[must_use]
    pub fn is_unbound(&self, number: u32) -> bool {
        let mut of_data = self
            .digests
            .values()
            .filter(|digest| !digest.segments.is_empty());
        !of_data.any(|digest| digest.keyslots.contains(&number))
    }
}

fn seqid(copy: &Result<HeaderCopy, CopyError>) -> Option<u64> {
    copy.as_ref().ok().map(|copy| copy.binary.seqid)
}

/// Returns the defects of the copies, at least one of which must be valid.
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
            let (newer, used, older) = if seqids.0 > seqids.1 {
                (CopyKind::Primary, primary, secondary)
            } else {
                (CopyKind::Secondary, secondary, primary)
            };
            let spoilt = used.spoilt(older);
            warnings.push(if spoilt.is_empty() {
                Warning::Seqids {
                    primary: seqids.0,
                    secondary: seqids.1,
                }
            } else {
                Warning::Spoilt { newer, spoilt }
            });
        } else {
            let differences = primary.differences(secondary);
            let seqid = seqids.0;
            if primary.is_before_unprotected_zone(secondary) {
                warnings.push(Warning::Announced { seqid });
            } else if !differences.is_empty() {
                warnings.push(Warning::Contents { seqid, differences });
            }
        }
    }
    warnings
}

/// Returns why this version does not accept the newest copy with the right checksum, if that is so. An
/// older copy is not used in its place, because it does not hold what the owner last wrote. If both
/// copies have the same seqid, one that breaks a rule gives way to the other.
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
        (Some((seqid, Some(error))), Some(secondary))
            if seqid == secondary.0 && !error.is_unsupported() =>
        {
            secondary
        }
        (Some(primary), _) => primary,
        (None, secondary) => secondary?,
    };
    newest.1.cloned()
}

fn neither(primary: CopyError, secondary: CopyError) -> ReadError {
    match primary {
        // What cannot be read is not known to be damaged.
        CopyError::Io { source } => ReadError::Io { source },
        CopyError::Binary(BinaryHeaderError::Magic { .. }) if !secondary.has_magic() => {
            ReadError::NotLuks
        }
        primary => ReadError::Damaged {
            primary: Box::new(primary),
            secondary: Box::new(secondary),
        },
    }
}

/// A defect that does not prevent opening the volume.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Warning {
    /// A copy is damaged, or cannot be read.
    #[error("{}", damaged(*kind, error))]
    Damaged {
        /// Which one.
        kind: CopyKind,
        /// What is wrong with it.
        error: CopyError,
    },
    /// The copies have different seqids.
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
    /// The copies have different seqids, and the newer one has lost something that no interrupted change
    /// loses.
    #[error(
        "the copies of the LUKS2 header differ in age: {} can only be used in the older one. The {} copy, which \
         is newer, is used",
        spoilt.join(", "),
        newer.name()
    )]
    Spoilt {
        /// The newer copy.
        newer: CopyKind,
        /// The keyslots and digests that it has lost.
        spoilt: Vec<String>,
    },
    /// The secondary copy announces a zone of a re-encryption that nothing protects. Such a zone is not changed
    /// before the primary copy names it, with a higher seqid.
    #[error(
        "the secondary copy of the LUKS2 header, which has seqid {seqid} like the primary one, belongs to a \
         change that was interrupted before it took effect. The primary copy is used"
    )]
    Announced {
        /// The seqid of both copies.
        seqid: u64,
    },
    /// The copies have equal seqids and different contents, so one of them was replaced.
    #[error(
        "both copies of the LUKS2 header are valid and have seqid {seqid}, but they differ in their {}, \
         which no interrupted change explains. The primary copy is used",
        differences.join(", ")
    )]
    Contents {
        /// The seqid of both copies.
        seqid: u64,
        /// The parts in which they differ.
        differences: Vec<&'static str>,
    },
    /// A keyslot of a LUKS1 header may hold a key, and no secret opens it.
    #[error("keyslot {keyslot} is damaged, and no secret opens it ({damage})")]
    Keyslot {
        /// The keyslot.
        keyslot: u32,
        /// What is wrong with it.
        damage: KeyslotDamage,
    },
    /// A field of a LUKS1 header is damaged.
    #[error(transparent)]
    Field(FieldDamage),
}

impl Warning {
    /// What helps, if anything does.
    #[must_use]
    pub fn remedy(&self) -> Option<Remedy> {
        match self {
            Self::Damaged {
                error: CopyError::Io { .. },
                ..
            }
            | Self::Seqids { .. }
            | Self::Spoilt { .. }
            | Self::Announced { .. } => None,
            Self::Damaged { .. } => Some(Remedy::Repair),
            Self::Contents { differences, .. } if are_vital(differences) => {
                Some(Remedy::RepairByForce)
            }
            Self::Contents { .. } => Some(Remedy::Repair),
            Self::Keyslot { .. } | Self::Field(_) => Some(Remedy::Check),
        }
    }
}

fn are_vital(differences: &[&str]) -> bool {
    differences.iter().any(|name| VITAL_MEMBERS.contains(name))
}

fn damaged(kind: CopyKind, error: &CopyError) -> String {
    let kind = kind.name();
    let state = error.state();
    match error {
        CopyError::Io { source } => format!(
            "the {kind} copy of the LUKS2 header {state} ({source}); the other copy is used, \
             which may be older"
        ),
        _ => {
            format!("the {kind} copy of the LUKS2 header {state} ({error}); the other copy is used")
        }
    }
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
    /// Neither copy has the magic of a LUKS header.
    #[error("this is not a LUKS volume: it has no LUKS header")]
    NotLuks,
    /// The volume is LUKS1; [`Luks1Header`](crate::Luks1Header) reads it.
    #[error("this is a LUKS1 volume, not a LUKS2 one")]
    Luks1,
    /// There is no valid copy.
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
    /// The metadata are intact, but this version does not support or refuses them.
    #[error("the volume cannot be opened: {error}")]
    Unsupported {
        /// What is not supported or refused.
        error: MetadataError,
    },
}

/// Why the length of a volume's plaintext is unknown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlaintextError {
    /// The storage does not hold the segment.
    #[error(transparent)]
    Segment(#[from] SegmentError),
    /// The length of the file does not fit the payload.
    #[error(transparent)]
    FileLength(#[from] FileLengthError),
}
