// SPDX-License-Identifier: MIT OR Apache-2.0
//! The segments of a LUKS2 volume together: the rules between them, and the plaintext that they
//! make up.
//!
//! ```text
//! 0 … n−1   the data, in this order (their bytes may lie in any order)
//! n …       backup segments: the state before and after a re-encryption
//! ```

use std::collections::BTreeMap;

use luxor_volume::Extent;

use super::{
    metadata_error::MetadataError,
    segment::{Segment, SegmentEntry, SegmentError, SegmentKind, SegmentRole, SegmentSize},
};

/// All segments by number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Segments(BTreeMap<u32, SegmentEntry>);

impl Segments {
    /// Checks the rules between the segments.
    pub(crate) fn new(segments: BTreeMap<u32, SegmentEntry>) -> Result<Self, MetadataError> {
        let mut numbers = segments.keys().zip(0..);
        if let Some((_, number)) = numbers.find(|(found, expected)| *found != expected) {
            return Err(MetadataError::SegmentGap { number });
        }
        let segments = Self(segments);
        segments.check_roles()?;
        segments.check_order()?;
        Ok(segments)
    }

    fn check_roles(&self) -> Result<(), MetadataError> {
        let mut backup = None;
        let mut flagged: Vec<(SegmentRole, u32)> = Vec::new();
        for (&number, SegmentEntry { role, .. }) in &self.0 {
            match backup {
                _ if !role.is_data() => backup = backup.or(Some(number)),
                Some(backup) => {
                    return Err(MetadataError::BackupFirst {
                        backup,
                        regular: number,
                    });
                }
                None => {}
            }
            let Some(flag) = role.flag() else { continue };
            if let Some(&(_, first)) = flagged.iter().find(|(other, _)| other == role) {
                return Err(MetadataError::DoubleSegmentFlag {
                    first,
                    second: number,
                    flag,
                });
            }
            flagged.push((*role, number));
        }
        match self.data().next() {
            Some(_) => Ok(()),
            None => Err(MetadataError::NoSegment),
        }
    }

    /// Checks that only the last part of the data has no fixed end, and that no two parts overlap.
    fn check_order(&self) -> Result<(), MetadataError> {
        let mut parts = Vec::new();
        let mut endless = None;
        for (number, entry) in self.data() {
            if let Some(segment) = endless {
                return Err(MetadataError::DynamicSegment { segment });
            }
            let end = match entry.size() {
                SegmentSize::Fixed(size) => entry.offset().saturating_add(size),
                SegmentSize::Dynamic => {
                    endless = Some(number);
                    u64::MAX
                }
            };
            parts.push((entry.offset(), end, number));
        }
        parts.sort_unstable();
        for pair in parts.windows(2) {
            let [(_, first_end, first), (second_begin, _, second)] = [pair[0], pair[1]];
            if second_begin < first_end {
                return Err(MetadataError::SegmentOverlap {
                    first,
                    second,
                    byte: second_begin,
                });
            }
        }
        Ok(())
    }

    /// All segments by number.
    pub(crate) fn all(&self) -> &BTreeMap<u32, SegmentEntry> {
        &self.0
    }

    /// The parts of the data, in order.
    pub(crate) fn data(&self) -> impl Iterator<Item = (u32, &SegmentEntry)> {
        self.0
            .iter()
            .filter(|(_, entry)| entry.role.is_data())
            .map(|(&number, entry)| (number, entry))
    }

    /// Returns the segment with this role. At most one segment has a role with a flag.
    pub(crate) fn of_role(&self, role: SegmentRole) -> Option<(u32, &SegmentEntry)> {
        self.0
            .iter()
            .find(|(_, entry)| entry.role == role)
            .map(|(&number, entry)| (number, entry))
    }

    /// Returns the segment that holds all the data, if they are encrypted and there are no backup
    /// segments.
    pub(crate) fn single(&self) -> Option<(u32, &Segment)> {
        let (&number, entry) = self.0.first_key_value()?;
        let segment = entry.crypt()?;
        (self.0.len() == 1 && entry.role == SegmentRole::Regular).then_some((number, segment))
    }

    /// The offset of the first byte of the data, now or after a re-encryption that is under way. It
    /// is 0 if the header is detached.
    pub(crate) fn data_offset(&self) -> u64 {
        let backup = self.of_role(SegmentRole::BackupFinal);
        self.data()
            .chain(backup)
            .map(|(_, entry)| entry.offset())
            .min()
            .expect("`new` checks that there is a segment of the data")
    }

    /// Checks that this version supports each part of the data.
    pub(crate) fn check_known(&self) -> Result<(), SegmentError> {
        let mut foreign = self
            .data()
            .filter_map(|(segment, entry)| match &entry.kind {
                SegmentKind::Foreign { what, .. } => Some((segment, what.what.clone())),
                _ => None,
            });
        match foreign.next() {
            Some((segment, what)) => Err(SegmentError::Foreign { segment, what }),
            None => Ok(()),
        }
    }

    /// Returns the length of the storage if only its end was cut off, and `storage_len` bytes are
    /// left. The arguments are those of [`Segments::extents`].
    pub(crate) fn whole_storage_len(&self, storage_len: u64, payload: Option<u64>) -> u64 {
        let last = self.data().last().map(|(_, entry)| entry);
        match last.filter(|last| last.size() == SegmentSize::Dynamic) {
            // It ends with a whole sector, at least one. Segments with other sectors can share its end.
            Some(last) if payload.is_none() => {
                let units = self.0.values().map(SegmentEntry::unit);
                let unit = units.max().unwrap_or(last.unit());
                let there = storage_len.saturating_sub(last.offset()).max(1);
                let whole = there.checked_next_multiple_of(unit).unwrap_or(there);
                last.offset().saturating_add(whole)
            }
            _ => u64::MAX,
        }
    }

    /// The plaintext, part by part, in a storage of `storage_len` bytes. If `payload` is given, the
    /// storage may be longer, and the parts have at most this many bytes. `digest` returns the number
    /// of a segment's digest.
    pub(crate) fn extents(
        &self,
        storage_len: u64,
        payload: Option<u64>,
        digest: impl Fn(u32) -> u32,
    ) -> Result<Vec<Extent>, SegmentError> {
        // What follows the payload need not be whole sectors.
        let within = |entry: &SegmentEntry, left| match entry.size() {
            SegmentSize::Fixed(_) => storage_len,
            SegmentSize::Dynamic => storage_len.min(entry.offset().saturating_add(left)),
        };
        let mut left = payload.unwrap_or(u64::MAX);
        let mut extents: Vec<Extent> = Vec::new();
        for (segment, entry) in self.data() {
            if left == 0 {
                break;
            }
            let len = entry.payload_len(within(entry, left))?.min(left);
            left -= len;
            extents.push(Extent {
                offset: entry.offset(),
                len,
                cipher: entry.crypt().map(|crypt| crypt.cipher(digest(segment))),
            });
        }
        // When a decryption has moved all data to the beginning of the storage, the last part reaches
        // to its end, over what is left of the ciphertext. That is not part of the plaintext.
        if let Some((_, previous)) = self.of_role(SegmentRole::BackupPrevious)
            && previous.crypt().is_some()
            && let Some((last, others)) = extents.split_last_mut()
            && last.cipher.is_none()
        {
            let before: u64 = others.iter().map(|extent| extent.len).sum();
            let storage_len = within(previous, payload.unwrap_or(u64::MAX));
            let rest = previous.payload_len(storage_len)?.saturating_sub(before);
            last.len = last.len.min(rest);
        }
        Ok(extents)
    }
}
