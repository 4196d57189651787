// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where the bytes of a plaintext are stored, and under which key: the part of a [`Disk`] that needs
//! no storage.
//!
//! [`Disk`]: crate::Disk

#[cfg(test)]
mod tests;

use std::{fmt, io, ops::Range, sync::Arc};

use luxor_engine::{Direction, Executor, InOut, LoadedKey, RunError};
use luxor_secret::with_key_stack;

use crate::{
    disk_error::DiskError,
    geometry::{Geometry, NumberedUnits},
    storage::ends_before,
};

/// A range of the plaintext, and where its bytes are stored.
#[derive(Clone)]
pub struct Part {
    /// Its first byte in the storage.
    pub offset: u64,
    /// The number of bytes of plaintext. Only the last part's may be no multiple of its sector
    /// size. The rest of that sector is in the storage but not visible.
    pub len: u64,
    /// The key and how the sectors are numbered; the part's first byte is byte 0. `None` if the
    /// plaintext is stored unencrypted.
    pub crypt: Option<(Arc<dyn LoadedKey>, Geometry)>,
}

impl Part {
    fn sector(&self) -> usize {
        let crypt = self.crypt.as_ref();
        crypt.map_or(1, |(_, geometry)| geometry.sector_size.bytes())
    }
}

/// The parts of a plaintext, one after the other. It says where bytes are stored, and encrypts and
/// decrypts those that the caller reads and writes itself. [`Disk`](crate::Disk) reads and writes
/// them too.
pub struct Layout {
    parts: Vec<Placed>,
    len: u64,
    storage_len: u64,
}

pub(crate) struct Placed {
    number: usize,
    /// Its first byte in the plaintext.
    pub(crate) begin: u64,
    pub(crate) part: Part,
    /// The unit in which its bytes are read and written: the larger of its own sector size and the
    /// storage's alignment. Both are powers of two.
    pub(crate) sector: usize,
}

/// A range of the plaintext within a single part.
pub(crate) struct PartRange<'a> {
    pub(crate) placed: &'a Placed,
    /// Its first byte, relative to the start of the part.
    pub(crate) offset: u64,
    pub(crate) len: usize,
}

/// Whole sectors of the plaintext that lie together in the storage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredRange {
    /// The number of the part that they belong to.
    pub part: usize,
    /// Their bytes in the plaintext. The last sector of the plaintext counts as whole.
    pub plaintext: Range<u64>,
    /// Their first byte in the storage.
    pub offset: u64,
}

impl Layout {
    /// Places the parts one after the other. The units in which they are read and written are
    /// multiples of `alignment` bytes, a power of two.
    ///
    /// # Errors
    /// [`DiskError`] if the parts break one of the rules that its variants name.
    pub fn new(parts: Vec<Part>, alignment: usize) -> Result<Self, DiskError> {
        let (mut begin, mut storage_len) = (0_u64, 0);
        let mut placed = Vec::with_capacity(parts.len());
        let last = parts.len().saturating_sub(1);
        for (number, part) in parts.into_iter().enumerate() {
            let (offset, len) = (part.offset, part.len);
            let sector = part.sector();
            let stored = len.checked_next_multiple_of(sector as u64);
            // The rest of the last sector counts as plaintext in `stored` and `whole_sectors`.
            let ends = stored.filter(|&len| begin.checked_add(len).is_some());
            let end = ends.and_then(|len| offset.checked_add(len));
            let end = end.ok_or(DiskError::Overflow { offset, len })?;
            if number != last && stored != Some(len) {
                return Err(DiskError::PartSector { number, len });
            }
            // An empty run checks the geometry: it fails exactly if whole sectors would fail.
            if let Some((_, geometry)) = &part.crypt {
                let runs = geometry.runs(0, [].as_mut_slice());
                runs.map_err(|source| DiskError::Geometry { number, source })?;
            }
            // Transfers of whole aligned units must not touch bytes next to a part.
            if !(offset | end).is_multiple_of(alignment as u64) {
                return Err(DiskError::Alignment {
                    begin: offset,
                    end,
                    alignment,
                });
            }
            let next = Placed {
                number,
                begin,
                part,
                sector: sector.max(alignment),
            };
            begin += len;
            storage_len = end.max(storage_len);
            placed.push(next);
        }
        Ok(Self {
            parts: placed,
            len: begin,
            storage_len,
        })
    }

    /// The length of the plaintext in bytes. It need not be a whole number of sectors.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there are no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The byte of the storage at which the last of the parts ends.
    #[must_use]
    pub fn storage_len(&self) -> u64 {
        self.storage_len
    }

    /// The largest unit in which bytes are read and written.
    #[must_use]
    pub fn sector_size(&self) -> usize {
        let sectors = self.parts.iter().map(|placed| placed.sector);
        sectors.max().unwrap_or(1)
    }

    /// Returns where the sectors are stored that contain `range`, in the order of the plaintext.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] if the range ends beyond the plaintext.
    pub fn stored(&self, range: Range<u64>) -> io::Result<Vec<StoredRange>> {
        let range = self.check(range.start, range.end.saturating_sub(range.start))?;
        let stored = self.within(range).map(|(placed, part)| {
            let sector = placed.sector as u64;
            let begin = part.start / sector * sector;
            let end = part.end.next_multiple_of(sector);
            StoredRange {
                part: placed.number,
                plaintext: placed.begin + begin..placed.begin + end,
                offset: placed.part.offset + begin,
            }
        });
        Ok(stored.collect())
    }

    /// Numbers the data units of `stored`, which are those of [`Layout::stored`] or a part of them.
    /// `None` if they are not encrypted.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] if `stored` are not whole sectors of its part.
    ///
    /// # Panics
    /// If there is no such part.
    pub fn numbered(
        &self,
        stored: &StoredRange,
    ) -> io::Result<Option<(Geometry, Vec<NumberedUnits>)>> {
        let placed = &self.parts[stored.part];
        let Some((_, geometry)) = &placed.part.crypt else {
            return Ok(None);
        };
        let Range { start, end } = stored.plaintext;
        let invalid = |message| io::Error::new(io::ErrorKind::InvalidInput, message);
        let offset = start.checked_sub(placed.begin);
        let len = end.checked_sub(start).map(usize::try_from);
        let (Some(offset), Some(Ok(len))) = (offset, len) else {
            return Err(invalid(format!("bytes {start}..{end} are not of the part")));
        };
        let numbered = geometry.numbered(offset, len);
        let numbered = numbered.map_err(|error| invalid(error.to_string()))?;
        Ok(Some((*geometry, numbered)))
    }

    /// Encrypts or decrypts whole sectors of the plaintext, of which `data` has the bytes from
    /// `offset` on. The last sector counts as whole.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] if `data` are not whole sectors within the plaintext or
    /// differ in length, and the errors of the engine. What was read from `data` is then
    /// unspecified.
    pub fn crypt(
        &self,
        executor: &Executor,
        direction: Direction,
        data: InOut<'_>,
        offset: u64,
    ) -> io::Result<()> {
        let invalid = |message: String| io::Error::new(io::ErrorKind::InvalidInput, message);
        // Checked before the data are split, which would panic.
        if let InOut::Separate { input, output } = &data
            && input.len() != output.len()
        {
            let (input, output) = (input.len(), output.len());
            return Err(invalid(RunError::OutputLen { input, output }.to_string()));
        }
        let (len, mut rest) = (data.len() as u64, data);
        let end = offset.saturating_add(len).min(self.len);
        for (placed, part) in self.within(offset..end.max(offset)) {
            let sector = placed.sector as u64;
            let stored = part.end.next_multiple_of(sector) - part.start;
            let mid = usize::try_from(stored).map_or(rest.len(), |stored| stored.min(rest.len()));
            let (mut now, later) = rest.split_at(mid);
            rest = later;
            let Some((key, geometry)) = &placed.part.crypt else {
                if let InOut::Separate { input, output } = &mut now {
                    output.copy_from_slice(input);
                }
                continue;
            };
            let runs = geometry.runs(part.start, now);
            let mut runs = runs.map_err(|error| invalid(error.to_string()))?;
            let done = with_key_stack(|| executor.crypt(&**key, direction, &mut runs));
            done.map_err(io::Error::other)?;
        }
        if !rest.is_empty() {
            return Err(self.beyond(offset, len));
        }
        Ok(())
    }

    /// Returns the range of `len` bytes from `offset` on, if it is within the plaintext.
    pub(crate) fn check(&self, offset: u64, len: u64) -> io::Result<Range<u64>> {
        match offset.checked_add(len) {
            Some(end) if end <= self.len => Ok(offset..end),
            _ => Err(self.beyond(offset, len)),
        }
    }

    fn beyond(&self, offset: u64, len: u64) -> io::Error {
        let message = format!(
            "{len} bytes at byte {offset} of a disk of {} bytes",
            self.len
        );
        io::Error::new(io::ErrorKind::InvalidInput, message)
    }

    /// The parts that contain `range` of the plaintext, each with the range relative to its start.
    pub(crate) fn within(&self, range: Range<u64>) -> impl Iterator<Item = (&Placed, Range<u64>)> {
        let first = self
            .parts
            .partition_point(|placed| placed.begin + placed.part.len <= range.start);
        self.parts[first..]
            .iter()
            .take_while(move |placed| placed.begin < range.end)
            .map(move |placed| {
                let end = placed.begin + placed.part.len;
                let begin = range.start.max(placed.begin) - placed.begin;
                (placed, begin..range.end.min(end) - placed.begin)
            })
            .filter(|(_, part)| !part.is_empty())
    }

    /// Extends `range` of the plaintext to whole sectors.
    pub(crate) fn whole_sectors(&self, range: Range<u64>) -> Range<u64> {
        if range.is_empty() {
            return range;
        }
        let mut whole = range.clone();
        for (placed, part) in self.within(range) {
            let sector = placed.sector as u64;
            whole.start = whole.start.min(placed.begin + part.start / sector * sector);
            whole.end = whole
                .end
                .max(placed.begin + part.end.next_multiple_of(sector));
        }
        whole
    }

    /// Cuts `len` bytes from `offset` on into whole sectors, at most `most` bytes at a time, and
    /// parts of a single sector.
    pub(crate) fn pieces(
        &self,
        offset: u64,
        len: u64,
        most: usize,
    ) -> impl Iterator<Item = PartRange<'_>> {
        self.within(offset..offset + len)
            .flat_map(move |(placed, range)| {
                let sector = placed.sector;
                let mut at = range.start;
                std::iter::from_fn(move || {
                    let left = range.end - at;
                    if left == 0 {
                        return None;
                    }
                    let inside = usize::try_from(at % sector as u64).expect("less than a sector");
                    let left = usize::try_from(left).unwrap_or(usize::MAX);
                    let len = match left.min(most) {
                        left if inside > 0 => left.min(sector - inside),
                        left if left < sector => left,
                        left => left - left % sector,
                    };
                    let piece = PartRange {
                        placed,
                        offset: at,
                        len,
                    };
                    at += len as u64;
                    Some(piece)
                })
            })
    }
}

impl<'a> PartRange<'a> {
    /// The sector that contains this range.
    pub(crate) fn sector(&self) -> PartRange<'a> {
        let len = self.placed.sector;
        PartRange {
            placed: self.placed,
            offset: self.offset - self.offset % len as u64,
            len,
        }
    }

    pub(crate) fn begin_in_sector(&self) -> usize {
        let begin = self.offset % self.placed.sector as u64;
        usize::try_from(begin).expect("less than a sector")
    }

    pub(crate) fn is_whole_sectors(&self) -> bool {
        let sector = self.placed.sector;
        self.offset.is_multiple_of(sector as u64) && self.len.is_multiple_of(sector)
    }

    pub(crate) fn in_storage(&self) -> u64 {
        self.placed.part.offset + self.offset
    }

    /// Returns an error if the storage ends, at byte `end`, before this range does.
    pub(crate) fn check_before(&self, end: u64) -> io::Result<()> {
        let begin = self.in_storage();
        if begin + self.len as u64 <= end {
            Ok(())
        } else {
            Err(ends_before(self.len, begin))
        }
    }
}

impl fmt::Debug for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Layout")
            .field("len", &self.len)
            .field("parts", &self.parts.len())
            .finish_non_exhaustive()
    }
}
