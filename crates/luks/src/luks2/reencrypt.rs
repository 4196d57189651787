// SPDX-License-Identifier: MIT OR Apache-2.0
//! The state of an online re-encryption: a keyslot of type `reencrypt`, segments that
//! say which part is how, and a digest over all of that under the volume keys, so that
//! nobody else can change it (CVE-2021-4122).
//!
//! The digest is that of the keyslot, over these bytes (integers big-endian, lengths
//! not written):
//!
//! ```text
//! "v2" or "v3"           the requirement's version
//! the keys               of backup-previous, then of backup-final if it is another one
//! the keyslot            mode, direction, the area's type, offset, size,
//!                        and, where the type has them, hash, sector_size (32 bits), shift_size
//! the backup segments    previous, final, and moved if there is one, each:
//!                        type, offset, size (or "dynamic"),
//!                        and, if it is encrypted, iv_tweak, encryption, sector_size (32 bits)
//! ```
//!
//! Read from what cryptsetup does: the specification leaves it open.

mod parts;

use luxor_engine::SecretBytes;

use super::{
    field::Object,
    metadata::{Metadata, MetadataError},
    segment::{SegmentEntry, SegmentKind, SegmentRole, SegmentSize},
};
use crate::{brief::brief, keys::cipher::Encryption};

/// What a re-encryption does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReencryptMode {
    /// Encrypts what was not.
    Encrypt,
    /// Encrypts otherwise: with another key, cipher or sector size.
    Reencrypt,
    /// Decrypts for good.
    Decrypt,
}

/// From where it goes to where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReencryptDirection {
    /// From the first byte to the last.
    Forward,
    /// From the last byte to the first.
    Backward,
}

/// How it survives a crash.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Resilience {
    /// Not at all.
    None,
    /// By a copy of what it works on.
    Journal,
    /// By checksums of what it works on.
    Checksum {
        /// The checksums' hash, by its name in the metadata.
        hash: String,
        /// The bytes that each of them is of.
        sector_size: u32,
    },
    /// By a gap between what is read and what is written.
    DataShift {
        /// The gap, in bytes.
        shift: u64,
    },
    /// By both.
    DataShiftJournal {
        /// The gap, in bytes.
        shift: u64,
    },
    /// By both.
    DataShiftChecksum {
        /// The checksums' hash, by its name in the metadata.
        hash: String,
        /// The bytes that each of them is of.
        sector_size: u32,
        /// The gap, in bytes.
        shift: u64,
    },
}

/// A keyslot of type `reencrypt`: no key, but the state of a re-encryption.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReencryptKeyslot {
    /// What is done.
    pub mode: ReencryptMode,
    /// From where to where.
    pub direction: ReencryptDirection,
    /// How it survives a crash.
    pub resilience: Resilience,
    /// The first byte of its area, counted from the storage's beginning.
    pub offset: u64,
    /// The area's length in bytes.
    pub size: u64,
}

impl ReencryptMode {
    const ALL: [Self; 3] = [Self::Encrypt, Self::Reencrypt, Self::Decrypt];

    /// The name in the metadata.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Encrypt => "encrypt",
            Self::Reencrypt => "reencrypt",
            Self::Decrypt => "decrypt",
        }
    }
}

impl ReencryptDirection {
    const ALL: [Self; 2] = [Self::Forward, Self::Backward];

    /// The name in the metadata.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Forward => "forward",
            Self::Backward => "backward",
        }
    }
}

impl Resilience {
    /// The area's type in the metadata.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Journal => "journal",
            Self::Checksum { .. } => "checksum",
            Self::DataShift { .. } => "datashift",
            Self::DataShiftJournal { .. } => "datashift-journal",
            Self::DataShiftChecksum { .. } => "datashift-checksum",
        }
    }

    /// The hash of its checksums by its name in the metadata, and how many bytes each is
    /// of.
    #[must_use]
    pub fn checksum(&self) -> Option<(&str, u32)> {
        match self {
            Self::Checksum { hash, sector_size }
            | Self::DataShiftChecksum {
                hash, sector_size, ..
            } => Some((hash, *sector_size)),
            _ => None,
        }
    }

    /// Its gap, in bytes.
    #[must_use]
    pub fn shift(&self) -> Option<u64> {
        match *self {
            Self::DataShift { shift }
            | Self::DataShiftJournal { shift }
            | Self::DataShiftChecksum { shift, .. } => Some(shift),
            _ => None,
        }
    }

    fn parse(area: &Object<'_>) -> Result<Self, MetadataError> {
        let hash = || Ok(area.required("hash")?.text()?.to_owned());
        let sector_size = || {
            let field = area.required("sector_size")?;
            let place = field.place.to_string();
            let found = field.number(1..=u32::MAX)?;
            if found < 512 || !found.is_power_of_two() {
                return Err(MetadataError::ChecksumUnit { place, found });
            }
            Ok(found)
        };
        let shift = || {
            let field = area.required("shift_size")?;
            let place = field.place.to_string();
            let found = field.decimal()?;
            if found == 0 || !found.is_multiple_of(512) {
                return Err(MetadataError::Unaligned {
                    place,
                    found,
                    unit: 512,
                });
            }
            Ok(found)
        };
        let kind = area.required("type")?;
        let place = kind.place.to_string();
        Ok(match kind.text()? {
            "none" => Self::None,
            "journal" => Self::Journal,
            "checksum" => Self::Checksum {
                hash: hash()?,
                sector_size: sector_size()?,
            },
            "datashift" => Self::DataShift { shift: shift()? },
            "datashift-journal" => Self::DataShiftJournal { shift: shift()? },
            "datashift-checksum" => Self::DataShiftChecksum {
                hash: hash()?,
                sector_size: sector_size()?,
                shift: shift()?,
            },
            other => {
                return Err(MetadataError::Unsupported {
                    place,
                    what: format!("it is {}", brief(other)),
                });
            }
        })
    }
}

impl ReencryptKeyslot {
    pub(crate) fn parse(object: &Object<'_>) -> Result<Self, MetadataError> {
        // It holds no key, and says so by the least length that a keyslot can have.
        object.required("key_size")?.number(1..=1)?;
        let mode = object.required("mode")?;
        let mode = mode.one_of(ReencryptMode::ALL.map(|mode| (mode.name(), mode)))?;
        let direction = object.required("direction")?;
        let direction = direction
            .one_of(ReencryptDirection::ALL.map(|direction| (direction.name(), direction)))?;
        let area = object.required("area")?.object()?;
        Ok(Self {
            mode,
            direction,
            resilience: Resilience::parse(&area)?,
            offset: area.required("offset")?.decimal()?,
            size: area.required("size")?.decimal()?,
        })
    }

    fn push_bytes(&self, out: &mut Vec<u8>) {
        out.extend(self.mode.name().as_bytes());
        out.extend(self.direction.name().as_bytes());
        out.extend(self.resilience.name().as_bytes());
        out.extend(self.offset.to_be_bytes());
        out.extend(self.size.to_be_bytes());
        if let Some((hash, sector_size)) = self.resilience.checksum() {
            out.extend(hash.as_bytes());
            out.extend(sector_size.to_be_bytes());
        }
        if let Some(shift) = self.resilience.shift() {
            out.extend(shift.to_be_bytes());
        }
    }
}

/// A re-encryption's state, whole, and which keys it is about.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reencryption<'a> {
    keyslot: &'a ReencryptKeyslot,
    /// The keyslot's digest, which is over all of this.
    pub digest: u32,
    version: u8,
    previous: Backup<'a>,
    last: Backup<'a>,
    moved: Option<Backup<'a>>,
}

/// A backup segment, and its key's digest if it is encrypted.
#[derive(Clone, Copy, Debug)]
struct Backup<'a> {
    entry: &'a SegmentEntry,
    digest: Option<u32>,
}

impl<'a> Reencryption<'a> {
    /// `None` when the metadata ask for nothing of the kind.
    ///
    /// The parts of the data have been checked: each is where the state puts it.
    pub(crate) fn of(metadata: &'a Metadata) -> Result<Option<Self>, ReencryptionError> {
        let Some(version) = metadata.config.reencrypt_version() else {
            return Ok(None);
        };
        if version < 2 {
            return Err(ReencryptionError::NoDigest);
        }
        let Some((number, keyslot)) = &metadata.reencrypt else {
            let mut foreign = metadata.foreign_keyslots.iter();
            return Err(match foreign.find(|(_, found)| found.kind == "reencrypt") {
                Some((&keyslot, found)) => ReencryptionError::ForeignKeyslot {
                    keyslot,
                    what: found.what.clone(),
                },
                None => ReencryptionError::NoKeyslot,
            });
        };
        let find = |role: SegmentRole| {
            let Some((number, entry)) = metadata.segments.of_role(role) else {
                return Ok(None);
            };
            if let SegmentKind::Foreign { what, .. } = &entry.kind {
                return Err(ReencryptionError::Foreign {
                    segment: number,
                    what: what.what.clone(),
                });
            }
            let digest = entry.crypt().map(|_| metadata.digest_of_segment(number));
            Ok(Some(Backup { entry, digest }))
        };
        let find_required = |role: SegmentRole| {
            let flag = role.flag().unwrap_or_default();
            find(role)?.ok_or(ReencryptionError::NoBackup { flag })
        };
        let state = Self {
            keyslot,
            digest: metadata.digest_of_keyslot(*number),
            version,
            previous: find_required(SegmentRole::BackupPrevious)?,
            last: find_required(SegmentRole::BackupFinal)?,
            moved: find(SegmentRole::BackupMoved)?,
        };
        state.check_parts(metadata)?;
        Ok(Some(state))
    }

    /// The keys that the state's digest covers, by their digests and in its order, and
    /// what they encrypt.
    pub(crate) fn keys(&self) -> Vec<(u32, Encryption)> {
        let mut keys: Vec<_> = [self.previous, self.last]
            .iter()
            .filter_map(|backup| Some((backup.digest?, backup.entry.crypt()?.encryption)))
            .collect();
        keys.dedup_by_key(|(digest, _)| *digest);
        keys
    }

    /// What the digest is of. `keys` are those of [`Reencryption::keys`].
    pub(crate) fn bytes(&self, keys: &[&[u8]]) -> SecretBytes {
        let mut state = Vec::new();
        self.keyslot.push_bytes(&mut state);
        for backup in [self.previous, self.last].into_iter().chain(self.moved) {
            push_segment(&mut state, backup.entry);
        }
        let version = [b'v', b'0' + self.version];
        let parts = || {
            [&version[..]]
                .into_iter()
                .chain(keys.iter().copied())
                .chain([&state[..]])
        };
        let mut bytes = SecretBytes::zeroed(parts().map(<[u8]>::len).sum());
        let mut rest = bytes.expose_mut();
        for part in parts() {
            let (head, tail) = rest.split_at_mut(part.len());
            head.copy_from_slice(part);
            rest = tail;
        }
        bytes
    }
}

fn push_segment(out: &mut Vec<u8>, entry: &SegmentEntry) {
    let kind = match &entry.kind {
        SegmentKind::Crypt(_) => "crypt",
        SegmentKind::Linear { .. } => "linear",
        SegmentKind::Foreign { what, .. } => &what.kind,
    };
    out.extend(kind.as_bytes());
    out.extend(entry.offset().to_be_bytes());
    match entry.size() {
        SegmentSize::Dynamic => out.extend(b"dynamic"),
        SegmentSize::Fixed(size) => out.extend(size.to_be_bytes()),
    }
    if let SegmentKind::Crypt(segment) = &entry.kind {
        out.extend(segment.geometry.iv_offset.to_be_bytes());
        out.extend(segment.encryption.name().as_bytes());
        let sector = u32::try_from(segment.geometry.sector_size.bytes()).expect("at most 4096");
        out.extend(sector.to_be_bytes());
    }
}

const FORGED: &str = "somebody else than cryptsetup changed the metadata";

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
        "its state has no digest (requirement online-reencrypt), so that anybody could have changed \
         it. If you trust it, cryptsetup repair adds one"
    )]
    NoDigest,
    /// No state at all.
    #[error("there is no keyslot of type reencrypt that would tell its state")]
    NoKeyslot,
    /// A part of the state is not there.
    #[error("there is no segment with the flag {flag}")]
    NoBackup {
        /// The flag.
        flag: &'static str,
    },
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
        "segment {segment} has the data from byte {position} on, which lie at byte {expected} of \
         the storage, and begins at byte {found}: {FORGED}"
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
        "segment {segment} has the data from byte {position} on, so that its iv_tweak must be \
         {expected}, and is {found}: {FORGED}"
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
        "segment {segment} has the data from byte {position} on, and goes further than what was \
         moved there: {FORGED}"
    )]
    TooLong {
        /// The segment.
        segment: u32,
        /// Where it begins in the plaintext, in bytes.
        position: u64,
    },
    /// A part of the data stands where the re-encryption has not come to, or was before.
    #[error(
        "segment {segment} stands on the wrong side of what the re-encryption has come to: {FORGED}"
    )]
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
         backup that was made meanwhile"
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
