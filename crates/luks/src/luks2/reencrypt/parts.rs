// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether the parts of the data are where the state of a re-encryption has them.
//!
//! The digest of the state does not cover the data's segments, which change all the
//! time. But each of them is a stretch of a backup segment: it lies and counts its IVs as
//! that one does so far along the plaintext. And they come in the order of the direction:
//!
//! ```text
//! forward    moved  final     previous
//! backward   moved  previous  final
//! ```
//!
//! `moved` is there only when data are shifted: the plaintext's first bytes, which the
//! rest would have overwritten. A hot zone lies as in `final`, wherever that has come to.
//! How far it has come nothing tells but the segments themselves.

use super::{
    error::ReencryptionError,
    state::{BackupSegment, Reencryption},
};
use crate::luks2::{
    metadata::Metadata,
    reencrypt_keyslot::ReencryptDirection,
    segment::{SegmentEntry, SegmentKind, SegmentRole, SegmentSize},
};

/// A part of the data.
struct DataPart<'a> {
    segment: u32,
    entry: &'a SegmentEntry,
    /// Its key's digest, if it is encrypted.
    digest: Option<u32>,
    /// The byte of the plaintext that it begins with.
    position: u64,
}

/// What keeps a part from being a stretch of a backup segment; the last is the nearest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum StretchMisfit {
    Encryption,
    Offset { expected: u64 },
    IvTweak { expected: u64 },
    Len,
    Order,
}

impl Reencryption<'_> {
    /// Checks that each part of the data is a stretch of a backup segment, and that
    /// together they are as long as the data were, where that is known.
    pub(super) fn check_parts(&self, metadata: &Metadata) -> Result<(), ReencryptionError> {
        let order = match self.keyslot.direction {
            ReencryptDirection::Forward => [self.moved, Some(self.last), Some(self.previous)],
            ReencryptDirection::Backward => [self.moved, Some(self.previous), Some(self.last)],
        };
        let order: Vec<BackupSegment<'_>> = order.into_iter().flatten().collect();
        let (mut stage, mut position) = (0, 0);
        let mut roles = Vec::new();
        for (segment, entry) in metadata.segments.data() {
            if let SegmentKind::Foreign { what, .. } = &entry.kind {
                let what = what.what.clone();
                return Err(ReencryptionError::Foreign { segment, what });
            }
            let part = DataPart {
                segment,
                entry,
                digest: entry.crypt().map(|_| metadata.digest_of_segment(segment)),
                position,
            };
            if entry.role == SegmentRole::InReencryption {
                let misfit = self.misfit(&part, self.last);
                misfit.map_or(Ok(()), |misfit| Err(part.error(misfit)))?;
                roles.extend([SegmentRole::BackupPrevious, SegmentRole::BackupFinal]);
            } else {
                let misfits = order.iter().map(|&backup| self.misfit(&part, backup));
                let misfits: Vec<_> = misfits.collect();
                let Some(found) = (stage..order.len()).find(|&at| misfits[at].is_none()) else {
                    let nearest = misfits
                        .into_iter()
                        .map(|misfit| misfit.unwrap_or(StretchMisfit::Order));
                    return Err(part.error(nearest.max().unwrap_or(StretchMisfit::Order)));
                };
                stage = found;
                roles.push(order[found].entry.role);
            }
            match entry.size() {
                SegmentSize::Fixed(size) => position += size,
                // The last one; the storage tells how long it is.
                SegmentSize::Dynamic => return Ok(()),
            }
        }
        self.check_len(position, &roles)
    }

    /// What keeps `part` from being a stretch of `backup`.
    fn misfit(&self, part: &DataPart<'_>, backup: BackupSegment<'_>) -> Option<StretchMisfit> {
        let hot = part.entry.role == SegmentRole::InReencryption;
        let how = |entry: &SegmentEntry, digest: Option<u32>| {
            let segment = entry.crypt()?;
            Some((segment.encryption, segment.geometry.sector_size, digest))
        };
        // A hot zone may have both digests.
        let digest = if hot { backup.digest } else { part.digest };
        if how(part.entry, digest) != how(backup.entry, backup.digest) {
            return Some(StretchMisfit::Encryption);
        }

        let position = part.position;
        let lies = |backup: BackupSegment<'_>| StretchMisfit::Offset {
            expected: backup.entry.offset().saturating_add(position),
        };
        // What was moved is no more where it was before.
        if let Some(moved) = self.moved
            && backup.entry.role == SegmentRole::BackupPrevious
            && moved.entry.size().reaches(position)
        {
            return Some(lies(moved));
        }
        let expected = backup.entry.offset().checked_add(position);
        if Some(part.entry.offset()) != expected {
            return Some(lies(backup));
        }
        if let (Some(segment), Some(whole)) = (part.entry.crypt(), backup.entry.crypt()) {
            // Always in units of 512 bytes.
            let expected = whole.geometry.iv_offset.wrapping_add(position / 512);
            if segment.geometry.iv_offset != expected {
                return Some(StretchMisfit::IvTweak { expected });
            }
        }
        // What was moved ends where it did. Of all others cryptsetup forgets the size that
        // they had, and goes on to the storage's end.
        let is_moved = backup.entry.role == SegmentRole::BackupMoved;
        let ends_within = match (part.entry.size(), backup.entry.size()) {
            (_, SegmentSize::Dynamic) => true,
            (SegmentSize::Dynamic, SegmentSize::Fixed(_)) => false,
            (SegmentSize::Fixed(size), SegmentSize::Fixed(all)) => {
                position.checked_add(size).is_some_and(|end| end <= all)
            }
        };
        (is_moved && !ends_within).then_some(StretchMisfit::Len)
    }

    /// `found` is the length of the data, which all have fixed sizes, and `roles` those
    /// of the backup segments that they are stretches of.
    fn check_len(&self, found: u64, roles: &[SegmentRole]) -> Result<(), ReencryptionError> {
        let all_moved = roles.iter().all(|&role| role == SegmentRole::BackupMoved);
        let expected = match (self.previous.entry.size(), self.moved) {
            // So few data that all of them were moved.
            (SegmentSize::Dynamic, Some(moved)) if all_moved => moved.entry.size(),
            (size, _) => size,
        };
        // `cryptsetup reencrypt --device-size` gives data of any length a fixed one, but
        // not before it has begun.
        let has = |role| roles.contains(&role);
        let begun = has(SegmentRole::BackupPrevious) && has(SegmentRole::BackupFinal);
        match expected {
            SegmentSize::Fixed(expected) if found == expected => Ok(()),
            SegmentSize::Dynamic if begun => Ok(()),
            _ => Err(ReencryptionError::Len { found, expected }),
        }
    }
}

impl DataPart<'_> {
    fn error(&self, misfit: StretchMisfit) -> ReencryptionError {
        let Self {
            segment, position, ..
        } = *self;
        match misfit {
            StretchMisfit::Encryption => ReencryptionError::Neither { segment },
            StretchMisfit::Offset { expected } => ReencryptionError::Offset {
                segment,
                position,
                found: self.entry.offset(),
                expected,
            },
            StretchMisfit::IvTweak { expected } => ReencryptionError::IvTweak {
                segment,
                position,
                found: self.entry.crypt().map_or(0, |s| s.geometry.iv_offset),
                expected,
            },
            StretchMisfit::Len => ReencryptionError::TooLong { segment, position },
            StretchMisfit::Order => ReencryptionError::Order { segment },
        }
    }
}
