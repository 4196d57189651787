// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks that the parts of the data are where the state of a re-encryption requires them.
//!
//! The digest of the state does not cover the segments of the data, which change all the time. But
//! each of them must be a stretch of a backup segment: its offset and first IV must be those that
//! the backup segment has at the same position in the plaintext. And they must come in the order
//! that the direction sets:
//!
//! ```text
//! forward    moved  final     previous
//! backward   moved  previous  final
//! ```
//!
//! `moved` exists only with a data shift: it is the first part of the plaintext, which the rest
//! would have overwritten. A hot zone lies where `final` has it, at any position. Only the segments
//! themselves show how far the re-encryption has come.

use std::{fmt, ops::Range};

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
    /// The digest of its key, if it is encrypted.
    digest: Option<u32>,
    /// The position in the plaintext at which it begins, in bytes.
    position: u64,
}

/// How a part of the data is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartState {
    /// As before, but at another place, because the rest would have overwritten it.
    Moved,
    /// As before the re-encryption.
    Old,
    /// The re-encryption works on it: some of it is old and some is new.
    Zone,
    /// As after the re-encryption.
    New,
}

/// Where the data of a re-encryption must end, in bytes of the plaintext.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataEnd {
    /// At this byte.
    At(u64),
    /// After this byte, where the last part of the data begins.
    After(u64),
}

/// How far a re-encryption has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReencryptionProgress {
    /// The parts of the plaintext, in bytes and in order. Neighbours have different states.
    parts: Vec<(Range<u64>, PartState)>,
    /// Whether the metadata leave open where the data end: they have all of the storage.
    is_open: bool,
}

impl fmt::Display for ReencryptionProgress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (done, len) = (self.done(), self.len());
        #[expect(clippy::cast_precision_loss, reason = "it is shown with one digit")]
        let share = 100.0 * done as f64 / len.max(1) as f64;
        write!(f, "{done} of {len} bytes ({share:.1} %)")
    }
}

impl ReencryptionProgress {
    /// Returns the progress of data of `len` bytes that are in one state.
    pub(super) fn all(len: u64, state: PartState, is_open: bool) -> Self {
        let mut all = Self {
            parts: Vec::new(),
            is_open,
        };
        all.push(0..len, state);
        all
    }

    fn push(&mut self, range: Range<u64>, state: PartState) {
        match self.parts.last_mut() {
            _ if range.is_empty() => {}
            Some((last, same)) if *same == state => last.end = range.end,
            _ => self.parts.push((range, state)),
        }
    }

    /// Returns whether the metadata leave open where the data end: they have all of the storage.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.is_open
    }

    /// Returns the progress of the first `len` bytes alone. The metadata then say where they end.
    #[must_use]
    pub fn first(&self, len: u64) -> Self {
        let mut first = Self {
            parts: Vec::new(),
            is_open: false,
        };
        for (part, state) in &self.parts {
            first.push(part.start..part.end.min(len), *state);
        }
        first
    }

    /// Returns the parts of the plaintext, in bytes and in order.
    #[must_use]
    pub fn parts(&self) -> &[(Range<u64>, PartState)] {
        &self.parts
    }

    /// Returns the length of the data in bytes.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.parts.last().map_or(0, |(range, _)| range.end)
    }

    /// Returns whether there are no data.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Returns the number of bytes that are done.
    #[must_use]
    pub fn done(&self) -> u64 {
        let done = self
            .parts
            .iter()
            .filter(|(_, state)| *state == PartState::New);
        done.map(|(range, _)| range.end - range.start).sum()
    }

    /// Returns the number of bytes that are not done.
    #[must_use]
    pub fn left(&self) -> u64 {
        self.len() - self.done()
    }

    /// Returns whether the first byte is new, or may be.
    #[must_use]
    pub fn has_begun_at_0(&self) -> bool {
        let first = self.parts.first().map(|(_, state)| *state);
        matches!(first, Some(PartState::New | PartState::Zone))
    }

    /// Returns the zone on which the re-encryption works, or worked when it was interrupted.
    #[must_use]
    pub fn zone(&self) -> Option<Range<u64>> {
        let mut parts = self.parts.iter();
        let (zone, _) = parts.find(|(_, state)| *state == PartState::Zone)?;
        Some(zone.clone())
    }

    /// Returns the first byte of `range` that is new, or its end if there is none.
    #[must_use]
    pub fn changed_from(&self, range: &Range<u64>) -> u64 {
        let parts = self.parts.iter();
        let new = parts.filter(|(part, state)| *state == PartState::New && part.end > range.start);
        let begins = new.map(|(part, _)| part.start.clamp(range.start, range.end));
        begins.min().unwrap_or(range.end)
    }

    /// Returns the next zone, of at most `longest` bytes; `None` when all is done. Data that were moved
    /// come last, and all at once.
    #[must_use]
    pub fn next(&self, direction: ReencryptDirection, longest: u64) -> Option<Range<u64>> {
        let mut old = self
            .parts
            .iter()
            .filter(|(_, state)| *state == PartState::Old);
        let old = match direction {
            ReencryptDirection::Forward => old.next(),
            ReencryptDirection::Backward => old.next_back(),
        };
        let Some((Range { start, end }, _)) = old else {
            let mut moved = self.parts.iter();
            let (moved, _) = moved.find(|(_, state)| *state == PartState::Moved)?;
            return Some(moved.clone());
        };
        Some(match direction {
            ReencryptDirection::Forward => {
                *start..end.min(&start.saturating_add(longest)).to_owned()
            }
            ReencryptDirection::Backward => {
                start.max(&end.saturating_sub(longest)).to_owned()..*end
            }
        })
    }

    /// Returns the progress after the state of `range` has become `state`.
    #[must_use]
    pub fn with(&self, range: Range<u64>, state: PartState) -> Self {
        let mut next = Self {
            parts: Vec::new(),
            ..*self
        };
        for (part, old) in &self.parts {
            next.push(part.start..part.end.min(range.start), *old);
            if (part.start..part.end).contains(&range.start) {
                next.push(range.clone(), state);
            }
            next.push(part.start.max(range.end)..part.end, *old);
        }
        next
    }
}

/// Why a part is not a stretch of a backup segment. Ordered from the worst match to the closest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum StretchMisfit {
    Encryption,
    Offset { expected: u64 },
    IvTweak { expected: u64 },
    Len,
    Order,
}

impl Reencryption<'_> {
    /// Checks that each part of the data is a stretch of a backup segment, and that all parts
    /// together have the length of the original data, if that is known.
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
                // This is the last part, and its length depends on the storage.
                SegmentSize::Dynamic => return Ok(()),
            }
        }
        self.check_len(position, &roles)
    }

    /// Returns where the data end, and how far the re-encryption has come if they have `data_len`
    /// bytes. [`Reencryption::check_parts`] has accepted them.
    pub(super) fn progress(
        &self,
        metadata: &Metadata,
        data_len: u64,
    ) -> (DataEnd, ReencryptionProgress) {
        let mut parts = Vec::new();
        let mut position = 0;
        let mut end = DataEnd::At(0);
        for (segment, entry) in metadata.segments.data() {
            let part = DataPart {
                segment,
                entry,
                digest: entry.crypt().map(|_| metadata.digest_of_segment(segment)),
                position,
            };
            let is = |backup: BackupSegment<'_>| self.misfit(&part, backup).is_none();
            let state = match self.moved {
                _ if entry.role == SegmentRole::InReencryption => PartState::Zone,
                Some(moved) if is(moved) => PartState::Moved,
                _ if is(self.last) => PartState::New,
                _ => PartState::Old,
            };
            parts.push((position, state));
            match entry.size() {
                SegmentSize::Fixed(size) => {
                    position += size;
                    end = DataEnd::At(position);
                }
                SegmentSize::Dynamic => end = DataEnd::After(position),
            }
        }
        if let SegmentSize::Fixed(size) = self.previous.entry.size() {
            end = DataEnd::At(size);
        }
        // Data that move backward need room for that.
        let (from, to) = (self.previous.entry.offset(), self.last.entry.offset());
        let whole = data_len.saturating_sub(to.saturating_sub(from));
        let len = match end {
            DataEnd::At(end) => end,
            DataEnd::After(_) => whole,
        };
        // A zone and the moved part have fixed sizes, even where the data end.
        let last = parts.last().map(|(_, state)| *state);
        let is_fixed = matches!(last, Some(PartState::Zone | PartState::Moved)) && len == whole;
        let is_open = self.previous.entry.size() == SegmentSize::Dynamic
            && (is_fixed || matches!(end, DataEnd::After(_)));
        let mut progress = ReencryptionProgress {
            parts: Vec::new(),
            is_open,
        };
        let ends = parts.iter().skip(1).map(|(begin, _)| *begin).chain([len]);
        for ((begin, state), end) in parts.iter().zip(ends) {
            progress.push(*begin..end, *state);
        }
        (end, progress)
    }

    /// Returns why `part` is not a stretch of `backup`; `None` if it is.
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
        // Data that were moved are no longer at their previous offset.
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
            // IVs are counted in units of 512 bytes, whatever the sector size.
            let expected = whole.geometry.iv_offset.wrapping_add(position / 512);
            if segment.geometry.iv_offset != expected {
                return Some(StretchMisfit::IvTweak { expected });
            }
        }
        // Only the moved segment limits the length. cryptsetup does not keep the size of the
        // others, and extends them to the end of the storage.
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

    /// Checks the length of the data. `found` is their length, if all parts have fixed sizes;
    /// `roles` are those of the backup segments that the parts are stretches of.
    fn check_len(&self, found: u64, roles: &[SegmentRole]) -> Result<(), ReencryptionError> {
        let all_moved = roles.iter().all(|&role| role == SegmentRole::BackupMoved);
        let expected = match (self.previous.entry.size(), self.moved) {
            // The moved segment holds all the data.
            (SegmentSize::Dynamic, Some(moved)) if all_moved => moved.entry.size(),
            (size, _) => size,
        };
        // `cryptsetup reencrypt --device-size` gives data of dynamic size a fixed one, but only
        // once the re-encryption has begun.
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
