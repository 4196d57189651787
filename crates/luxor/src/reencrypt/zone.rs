// SPDX-License-Identifier: MIT OR Apache-2.0
//! One zone of a re-encryption: what makes it survive a crash, and its change.

use std::{io, mem, num::NonZeroUsize, ops::Range, sync::Arc};

use luxor_engine::{Buffer, LoadedKey};
use luxor_luks::{
    ChangeError, Luks2Header, PartState, ReencryptionProgress, ReencryptionState, Resilience,
    StoredData,
};
use luxor_sector::{
    Part, Storage,
    rewrite::{Blocks, Rewrite, RewriteError, Side},
};
use luxor_volume::HashAlgorithm;

use super::{ReencryptError, each_piece};
use crate::{Error, Result, error::Cause};

/// What does not change while the zones are done.
pub(super) struct Zones {
    /// The volume's name for messages.
    pub(super) name: String,
    pub(super) state: ReencryptionState,
    pub(super) data: Arc<dyn Storage>,
    /// Where journals are written, in place of the storage with the metadata, which is the same file.
    pub(super) area: Option<Arc<dyn Storage>>,
    pub(super) threads: NonZeroUsize,
    pub(super) transfers: NonZeroUsize,
    pub(super) old: Loaded,
    pub(super) new: Loaded,
    /// The part that was moved, and its length in bytes.
    pub(super) moved: Option<(Loaded, u64)>,
}

impl Zones {
    /// Returns the parts of a disk with the first `len` bytes of the plaintext, which has come so far.
    pub(super) fn parts(&self, progress: &ReencryptionProgress, len: u64) -> Vec<Part> {
        let part = |(range, state): &(Range<u64>, PartState)| {
            let loaded = match state {
                PartState::New => &self.new,
                _ => &self.old,
            };
            let crypt = loaded.stored.cipher.zip(loaded.key.clone());
            Part {
                offset: loaded.stored.offset + range.start,
                len: range.end.min(len) - range.start,
                crypt: crypt.map(|(cipher, key)| {
                    let mut geometry = cipher.geometry;
                    geometry.iv_offset = geometry.iv_offset.wrapping_add(range.start / 512);
                    (key, geometry)
                }),
            }
        };
        let parts = progress.parts().iter();
        let shown = parts.take_while(|(range, _)| range.start < len);
        shown.map(part).collect()
    }

    /// Where a zone is read.
    fn source(&self, zone: &Range<u64>) -> &Loaded {
        match &self.moved {
            Some((moved, len)) if zone.start < *len => moved,
            _ => &self.old,
        }
    }

    pub(super) fn rewrite(&self, zone: &Range<u64>) -> Rewrite<'_> {
        Rewrite {
            storage: &*self.data,
            old: self.source(zone).side(),
            new: self.new.side(),
            threads: self.threads,
            transfers: self.transfers,
        }
    }

    /// Reads a zone if what makes it survive a crash comes from its data, and ensures that it can be
    /// written. From `changed_from` on it has changed before. `bytes` may have the zone already.
    pub(super) fn prepare<'a>(
        &'a self,
        zone: &Range<u64>,
        changed_from: u64,
        bytes: &'a mut ZoneBytes,
    ) -> Result<ZoneWork<'a>> {
        let (rewrite, guard) = (self.rewrite(zone), self.guard(zone)?);
        // They are used once: afterwards they are no longer what is stored, or a client may change that.
        let is_read = mem::take(&mut bytes.zone) == *zone;
        if guard.is_from_data() && !is_read {
            let reserved = bytes.reserve(zone);
            reserved.map_err(|error| error.about(&self.name))?;
            let read = rewrite.read(zone, &mut bytes.bytes);
            read.map_err(|error| self.rewriting(error))?;
        }
        let found = match &guard {
            Guard::Checksums(blocks) => {
                blocks.with(|blocks| rewrite.checksums(zone, &mut bytes.bytes, blocks))
            }
            Guard::Journal => {
                let undone = rewrite.undo(zone, changed_from, &mut bytes.bytes);
                undone.map(|()| Vec::new())
            }
            Guard::Shift | Guard::None => Ok(Vec::new()),
        };
        let checksums = found.map_err(|error| self.rewriting(error))?;
        let (begin, len) = (self.new.stored.offset + zone.start, zone.end - zone.start);
        self.data.allocate(begin, len).map_err(|error| {
            let text = format!("{}: no space for the next {len} bytes", self.name);
            Error::io(text, &error)
        })?;
        Ok(ZoneWork {
            zones: self,
            zone: zone.clone(),
            rewrite,
            guard,
            checksums,
            bytes,
        })
    }

    /// Reads the zone `next` while `zone` is changed, if that changes nothing of it. After an error,
    /// [`Zones::prepare`] reads it again.
    pub(super) fn read_ahead(&self, zone: &Range<u64>, next: &Range<u64>, bytes: &mut ZoneBytes) {
        let stays = |zone| {
            let guard = self.guarded(zone);
            guard.is_ok_and(|guard| guard.is_from_data())
        };
        let is_apart = next.end <= zone.start || zone.end <= next.start;
        if is_apart
            && stays(zone)
            && stays(next)
            && bytes.reserve(next).is_ok()
            && self.rewrite(next).read(next, &mut bytes.bytes).is_ok()
        {
            bytes.zone = next.clone();
        }
    }

    /// Overwrites a range of the storage with random bytes.
    pub(super) fn overwrite(&self, range: Range<u64>) -> Result<()> {
        let mut place = range.start;
        let overwritten = each_piece(range, |at, len| {
            place = at;
            let mut bytes = vec![0; len];
            getrandom::fill(&mut bytes).map_err(io::Error::other)?;
            self.data.write_all_at(&bytes, at)
        });
        overwritten.map_err(|error| {
            let text = format!("{}: cannot overwrite byte {place}", self.name);
            Error::io(text, &error)
        })?;
        self.sync()
    }

    pub(super) fn sync(&self) -> Result<()> {
        self.data.sync().map_err(|error| {
            let text = format!("{}: cannot make the data durable", self.name);
            Error::io(text, &error)
        })
    }

    pub(super) fn rewriting(&self, error: RewriteError) -> Error {
        match error {
            // It would fail again.
            RewriteError::NoChecksum { .. } => error.about(&self.name),
            error => ReencryptError::interrupted(error.about(&self.name)),
        }
    }

    /// How a zone survives a crash.
    pub(super) fn guard(&self, zone: &Range<u64>) -> Result<Guard> {
        self.guarded(zone).map_err(|error| error.about(&self.name))
    }

    /// As [`Zones::guard`], with an error that does not name the volume.
    fn guarded(&self, zone: &Range<u64>) -> Result<Guard, ReencryptError> {
        let len = zone.end - zone.start;
        let (from, to) = (self.source(zone).stored.offset, self.new.stored.offset);
        let (_, size) = self.state.area;
        let (guard, needed) = match &self.state.resilience {
            _ if from.abs_diff(to) >= len => (Guard::Shift, 0),
            _ if from != to => {
                let from = zone.start;
                return Err(ReencryptError::OverItself { len, from });
            }
            Resilience::Journal | Resilience::DataShiftJournal { .. } => (Guard::Journal, len),
            resilience => match self.checksums(resilience)? {
                Some(blocks) => {
                    let needed = blocks.area_len(zone);
                    (Guard::Checksums(blocks), needed)
                }
                None => (Guard::None, 0),
            },
        };
        if needed > size {
            return Err(ReencryptError::Area {
                len,
                needed,
                room: size,
            });
        }
        Ok(guard)
    }

    fn checksums(&self, resilience: &Resilience) -> Result<Option<Checksums>, ReencryptError> {
        let Some((name, sector_size)) = resilience.checksum() else {
            return Ok(None);
        };
        let unknown = || ReencryptError::ChecksumHash { hash: name.into() };
        let hash = HashAlgorithm::by_name(name).ok_or_else(unknown)?;
        let block_len = sector_size as usize;
        if u64::from(sector_size) < longest_sector(&self.state) || block_len > Blocks::MAX_LEN {
            return Err(ReencryptError::ChecksumLen { len: sector_size });
        }
        Ok(Some(Checksums { hash, block_len }))
    }

    /// If some data end within a block of the checksums, makes the blocks of the next zones as short as a
    /// sector. `cryptsetup repair` leaves out the rest of a zone that is shorter than a block. `cryptsetup` makes
    /// blocks as long as those of the file system.
    pub(super) fn divide_blocks(&mut self) {
        let sector = longest_sector(&self.state);
        let parts = self.state.progress.parts().iter();
        let mut ends = parts.map(|(range, _)| range.end);
        if let Resilience::Checksum { sector_size, .. } = &mut self.state.resilience
            && ends.any(|end| !end.is_multiple_of(u64::from(*sector_size)))
        {
            *sector_size = u32::try_from(sector).expect("a sector is short");
        }
    }

    /// Whether the zones are in memory as a whole while they are changed.
    pub(super) fn is_in_memory(&self) -> bool {
        let resilience = &self.state.resilience;
        resilience.shift().is_none() && *resilience != Resilience::None
    }

    /// How long a zone can be, as the shift or the area permits, and the unit of its length: a sector of
    /// both sizes.
    pub(super) fn room(&self) -> Result<(u64, u64), ReencryptError> {
        let mut unit = longest_sector(&self.state);
        let (_, size) = self.state.area;
        let shift = self.old.stored.offset.abs_diff(self.new.stored.offset);
        let room = match &self.state.resilience {
            _ if shift > 0 => shift,
            Resilience::Journal => size,
            resilience => match self.checksums(resilience)? {
                Some(Checksums { hash, block_len }) => {
                    unit = unit.max(block_len as u64);
                    size / hash.output_len() as u64 * block_len as u64
                }
                None => u64::MAX,
            },
        };
        Ok((room, unit))
    }
}

/// The old data of a zone, as they are stored.
pub(super) struct ZoneBytes {
    /// The zone that [`Zones::read_ahead`] has read. It is empty if none was.
    zone: Range<u64>,
    pub(super) bytes: Buffer,
}

impl ZoneBytes {
    pub(super) fn none() -> Self {
        Self {
            zone: 0..0,
            bytes: Buffer::zeroed(0),
        }
    }

    /// Makes the buffer as long as `zone`. It has none then.
    pub(super) fn reserve(&mut self, zone: &Range<u64>) -> Result<(), ReencryptError> {
        self.zone = 0..0;
        let len = zone.end - zone.start;
        let needed = usize::try_from(len).unwrap_or(usize::MAX);
        if self.bytes.len() != needed {
            self.bytes = Buffer::zeroed(0);
            let buffer = Buffer::try_zeroed(needed);
            self.bytes = buffer.map_err(|_| ReencryptError::Memory { len })?;
        }
        Ok(())
    }
}

/// A zone of which nothing has changed yet.
pub(super) struct ZoneWork<'a> {
    zones: &'a Zones,
    zone: Range<u64>,
    rewrite: Rewrite<'a>,
    pub(super) guard: Guard,
    /// Those of its blocks, if they guard it.
    checksums: Vec<u8>,
    bytes: &'a mut ZoneBytes,
}

impl ZoneWork<'_> {
    /// Stores what makes the zone survive a crash, and records `progress`, in which it is being done. Sets
    /// `is_begun` when that may have happened.
    pub(super) fn begin(
        &mut self,
        header: &mut Luks2Header,
        storage: &dyn Storage,
        progress: &ReencryptionProgress,
        is_begun: &mut bool,
    ) -> std::result::Result<std::result::Result<(), RewriteError>, ChangeError> {
        header.set_reencryption(storage, progress, |area, offset| {
            match self.guard {
                Guard::Journal => {
                    let area = self.zones.area.as_deref().unwrap_or(area);
                    let bytes = &mut self.bytes.bytes;
                    self.rewrite.copy(&self.zone, bytes, area, offset)?;
                }
                Guard::Checksums(_) => {
                    let written = area.write_all_at(&self.checksums, offset);
                    written.map_err(|source| RewriteError::Write { offset, source })?;
                }
                Guard::Shift | Guard::None => {}
            }
            *is_begun = true;
            Ok(self.guard.is_from_data())
        })
    }

    /// Changes the zone. It is durable on return.
    pub(super) fn run(self) -> Result<()> {
        let changed = if self.guard.is_from_data() {
            self.rewrite.run_from(&self.zone, &mut self.bytes.bytes)
        } else {
            self.rewrite.run(&self.zone)
        };
        changed.map_err(|error| self.zones.rewriting(error))?;
        self.zones.sync()
    }
}

/// The data before or after it, with the key.
pub(super) struct Loaded {
    pub(super) stored: StoredData,
    pub(super) key: Option<Arc<dyn LoadedKey>>,
}

impl Loaded {
    fn side(&self) -> Side<'_> {
        let cipher = self.stored.cipher.map(|cipher| cipher.geometry);
        Side {
            offset: self.stored.offset,
            cipher: cipher.zip(self.key.as_deref()),
        }
    }
}

/// The checksums of a zone's blocks.
pub(super) struct Checksums {
    hash: HashAlgorithm,
    block_len: usize,
}

impl Checksums {
    pub(super) fn with<T>(&self, work: impl FnOnce(Blocks<'_>) -> T) -> T {
        work(Blocks {
            len: self.block_len,
            checksum_len: self.hash.output_len(),
            checksum: &|block, out| {
                let mut hash = [0; 64];
                self.hash.digest_into(&[block], &mut hash);
                out.copy_from_slice(&hash[..out.len()]);
            },
        })
    }

    pub(super) fn area_len(&self, zone: &Range<u64>) -> u64 {
        let blocks = (zone.end - zone.start).div_ceil(self.block_len as u64);
        blocks.saturating_mul(self.hash.output_len() as u64)
    }
}

/// How a zone survives a crash.
pub(super) enum Guard {
    /// What it was is still there: it is written at another place.
    Shift,
    Checksums(Checksums),
    Journal,
    None,
}

impl Guard {
    /// Whether it is made of the data of the zone, which are in memory then.
    pub(super) fn is_from_data(&self) -> bool {
        matches!(self, Self::Checksums(_) | Self::Journal)
    }
}

/// Returns the longer one of the sectors before and after it, in bytes.
pub(super) fn longest_sector(state: &ReencryptionState) -> u64 {
    let sector = |stored: StoredData| {
        let cipher = stored.cipher;
        cipher.map_or(512, |cipher| cipher.geometry.sector_size.bytes() as u64)
    };
    sector(state.old).max(sector(state.new))
}
