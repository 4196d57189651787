// SPDX-License-Identifier: MIT OR Apache-2.0
//! Does the zones of a re-encryption that has begun, one after the other, and ends it.

use std::{
    collections::BTreeMap, convert::Infallible, mem, num::NonZeroUsize, ops::Range, sync::Arc,
    thread, time::Duration,
};

use luxor_files::DataFile;
use luxor_luks::{
    ChangeError, DataEnd, Luks2Header, PartState, ReencryptDirection, ReencryptMode,
    ReencryptionProgress, ReencryptionState, Resilience, StoredData,
};
use luxor_sector::{Part, SectorSize, Storage};
use luxor_volume::VolumeKey;

use super::{
    ReencryptError, ZoneProtection, tail,
    zone::{Guard, Loaded, ZoneBytes, Zones, longest_sector},
};
use crate::{Context, Engine, Error, LuksVolume, Result, error::Cause, luks_volume::is_locked};

/// The longest zone by default, in bytes. A longer one is not faster, and what is left of a zone is
/// done before an interruption takes effect.
const ZONE: u64 = 128 << 20;

/// The longest zone that is in memory as a whole, as is the next one.
const ZONE_IN_MEMORY: u64 = 32 << 20;

/// The least number of threads that write past the page cache. They mostly wait for the disk.
const TRANSFERS: NonZeroUsize = NonZeroUsize::new(8).expect("not zero");

/// The longest last zone of a re-encryption to the beginning of the data, in bytes.
const LAST: u64 = 64 << 10;

/// The unit of the length of areas in the metadata.
const AREA_UNIT: u64 = 4096;

/// Shorter zones are slow, because each is made durable several times.
const SHORT: u64 = ZONE / 32;

/// A re-encryption that has begun.
pub(super) struct Reencryption {
    pub volume: LuksVolume,
    pub name: String,
    pub data: Arc<dyn Storage>,
    /// The number of bytes that the storage has for data.
    pub data_len: u64,
    /// The keys of the data, by the numbers of their digests.
    pub keys: BTreeMap<u32, VolumeKey>,
    /// How many bytes of them are changed. `None`: all, or as many as it has begun with.
    pub device_size: Option<u64>,
    /// What protects the next zones. `None`: as it has begun.
    pub protection: Option<ZoneProtection>,
    /// The byte at which the caller cuts off the file of the data after the end.
    pub cut_at: Option<u64>,
    /// Whether the storage is a file that the caller cuts off at the end.
    pub may_cut: bool,
    pub engine: Engine,
    pub context: Context,
}

/// A re-encryption that is done zone by zone.
pub(super) struct ZoneByZone {
    pub(super) reencryption: Reencryption,
    zones: Zones,
    progress: ReencryptionProgress,
    is_in_zone: bool,
    /// The longest zone in bytes.
    longest: u64,
    bytes: ZoneBytes,
    /// Those of the next zone.
    ahead: ZoneBytes,
}

impl ZoneByZone {
    /// Does what is left, and ends it. Returns the volume as it is then, and the byte at which the caller
    /// cuts off the file of the data.
    pub(super) fn run(mut self) -> Result<(LuksVolume, Option<u64>)> {
        let context = self.reencryption.context.clone();
        let (name, len) = (self.reencryption.name.clone(), self.progress.len());
        let report = context.events.bytes("Re-encrypting", name, Some(len));
        report.continue_from(self.progress.done());
        while let Some(zone) = self.next(u64::MAX) {
            context.check_cancelled()?;
            self.zone(&zone).map_err(ReencryptError::interrupted)?;
            report.at(self.progress.done());
        }
        Ok((self.reencryption.volume, self.reencryption.cut_at))
    }

    /// Returns the next zone, of at most `longest` bytes, which are whole sectors of any length.
    ///
    /// Towards the beginning of the data, `cryptsetup repair` 2.6 finds the end of a re-encryption from the
    /// lengths of the zone and of the area. It takes the end for reached in a zone that is longer than the data
    /// before it, and for not reached in a last zone that is shorter than the area permits. Then `cryptsetup
    /// reencrypt` begins again, and destroys the data. So no zone is longer than the data before it, and the
    /// last one has a length that an area can have, although some of it may have changed before.
    pub(super) fn next(&self, longest: u64) -> Option<Range<u64>> {
        self.after(&self.progress, longest)
    }

    /// As [`ZoneByZone::next`], after this progress.
    fn after(&self, progress: &ReencryptionProgress, longest: u64) -> Option<Range<u64>> {
        let longest = longest.min(self.longest);
        let zone = progress.next(self.zones.state.direction, longest)?;
        let is_shifted = self.zones.state.resilience.shift().is_some();
        let Some(last) = self.last_backward() else {
            return Some(zone);
        };
        Some(if zone.end > last {
            let half = (zone.end / 2).next_multiple_of(self.last_unit());
            let least = if is_shifted { last } else { last.max(half) };
            zone.start.max(least)..zone.end
        } else if is_shifted {
            0..zone.end
        } else {
            0..self
                .last_area(zone.end)
                .map_or(zone.end, |area| area.min(progress.len()))
        })
    }

    /// Returns the longest last zone where that is the beginning of the data.
    fn last_backward(&self) -> Option<u64> {
        let state = &self.zones.state;
        let unit = self.last_unit();
        let longest = self.longest.min(LAST).min(state.area.1);
        match (state.direction, &state.resilience) {
            (ReencryptDirection::Forward, _) | (_, Resilience::None) => None,
            (_, resilience) if state.moved.is_none() => {
                let journal = (longest / unit * unit).max(unit);
                Some(resilience.shift().unwrap_or(journal))
            }
            // That is the part that was moved.
            _ => None,
        }
    }

    /// The length of a last zone at the beginning of the data is a multiple of this.
    fn last_unit(&self) -> u64 {
        AREA_UNIT.max(longest_sector(&self.zones.state))
    }

    /// Returns the length of an area for a journal of `len` bytes, unless that is more than there is.
    fn last_area(&self, len: u64) -> Option<u64> {
        let area = len.next_multiple_of(AREA_UNIT);
        (area <= self.zones.state.area.1).then_some(area)
    }

    /// Before a last zone at the beginning of the data, makes the area as long as the zone, for a journal.
    fn protect_last(&mut self, zone: &Range<u64>) -> Result<()> {
        let state = &self.zones.state;
        let is_last = zone.start == 0 && self.progress.done() > 0;
        let is_shifted = state.resilience.shift().is_some();
        let Some(area) = self.last_area(zone.end) else {
            return Ok(());
        };
        if self.last_backward().is_none() || is_shifted || !is_last {
            return Ok(());
        }
        let keys = self.reencryption.keys.clone();
        self.reencryption.change(|header, storage| {
            header.set_resilience(storage, &Resilience::Journal, Some(area), &keys)
        })?;
        let state = &mut self.zones.state;
        state.resilience = Resilience::Journal;
        state.area.1 = area;
        Ok(())
    }

    /// Does a zone, and records that; with the last one, also the end. Other programs may read the
    /// metadata meanwhile. The next zone is read at the same time.
    fn zone(&mut self, zone: &Range<u64>) -> Result<()> {
        self.protect_last(zone)?;
        let changed_from = self.progress.changed_from(zone);
        let (working, done) = self.with(zone);
        let next = self.after(&done, u64::MAX);
        mem::swap(&mut self.bytes, &mut self.ahead);
        let Self {
            reencryption,
            zones,
            bytes,
            ahead,
            ..
        } = self;
        let zones = &*zones;
        thread::scope(|scope| {
            if let Some(next) = next {
                let reader = thread::Builder::new().name("luxor-ahead".into());
                // If the system refuses a thread, the zone is read when it is its turn.
                let _ = reader.spawn_scoped(scope, move || zones.read_ahead(zone, &next, ahead));
            }
            let mut work = zones.prepare(zone, changed_from, bytes)?;
            // Nothing repairs such a zone: a signal waits until it is done.
            let is_at_risk = matches!(work.guard, Guard::None);
            let events = Arc::clone(&reencryption.context.events);
            let _held = is_at_risk.then(|| events.hold());
            // From here on a crash leaves the zone as recorded: `recover` finishes it from the checksums or
            // the journal, which are durable before the metadata name the zone.
            let begun = reencryption
                .change(|header, storage| work.begin(header, storage, &working, &mut false))?;
            begun.map_err(|error| zones.rewriting(error))?;
            // The zone is durable before it is recorded as done, or a crash could leave old data under the
            // new key.
            work.run()?;
            reencryption.record(zones, &done, is_at_risk)
        })?;
        self.progress = done;
        Ok(())
    }

    /// As [`ZoneByZone::zone`], for data in use. No other program has the lock on the metadata meanwhile, so
    /// that users of the data do not wait for it. Calls `hold` under the lock, before anything is read.
    pub(super) fn zone_in_use(
        &mut self,
        zone: &Range<u64>,
        hold: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let (working, done) = self.with(zone);
        let context = self.reencryption.context.clone();
        // The lock on the metadata comes before the hold on the zone: no client waits for another program.
        let mut metadata = self.reencryption.volume.lock_to_change(&context)?;
        hold()?;
        let changed_from = self.progress.changed_from(zone);
        let mut work = (self.zones).prepare(zone, changed_from, &mut self.bytes)?;
        let is_begun = &mut self.is_in_zone;
        let begun = metadata
            .change_luks2(|header, storage| work.begin(header, storage, &working, is_begun))?;
        begun.map_err(|error| self.zones.rewriting(error))?;
        work.run()?;
        let recorded =
            metadata.change_luks2(|header, storage| record(header, storage, &done, None));
        // What can fail after the end does not concern the zone.
        if recorded.is_ok() || !self.reencryption.volume.header.is_reencrypting() {
            self.is_in_zone = false;
            self.progress = done;
        }
        recorded
    }

    /// Returns the progress within a zone and after it.
    fn with(&self, zone: &Range<u64>) -> (ReencryptionProgress, ReencryptionProgress) {
        let working = self.progress.with(zone.clone(), PartState::Zone);
        let done = working.with(zone.clone(), PartState::New);
        (working, done)
    }

    /// Whether all is done, which the metadata then say too.
    pub(super) fn is_done(&self) -> bool {
        self.progress.left() == 0
    }

    /// Whether [`ZoneByZone::zone_in_use`] has failed in the middle of a zone.
    pub(super) fn is_in_zone(&self) -> bool {
        self.is_in_zone
    }

    /// Returns how many bytes of the plaintext are done.
    pub(super) fn done(&self) -> u64 {
        self.progress.done()
    }

    /// Whether each zone survives a crash.
    pub(super) fn is_protected(&self) -> bool {
        !matches!(self.zones.guard(&(0..self.longest)), Ok(Guard::None))
    }

    /// Returns the parts of a disk with the first `len` bytes of the plaintext. The data must stay where they
    /// are.
    pub(super) fn parts(&self, len: u64) -> Vec<Part> {
        self.zones.parts(&self.progress, len)
    }

    pub(super) fn engine(&self) -> &Engine {
        &self.reencryption.engine
    }

    /// Writes past the page cache from now on, if the system can do that with these data. A disk is then
    /// the bound, not the lock of an inode, which writers of cached data take in turn.
    pub(super) fn bypass_page_cache(&mut self, data: &DataFile) {
        let Some(direct) = data.written_past_cache() else {
            return;
        };
        // All is done if there is none.
        let Some(next) = self.next(u64::MAX) else {
            return;
        };
        let unit = direct.alignment() as u64;
        let state = &self.zones.state;
        let (moved, places) = (state.moved.map(|(moved, _)| moved), [state.old, state.new]);
        let offsets = places.into_iter().chain(moved).map(|stored| stored.offset);
        let ends = self.progress.parts().iter().map(|(part, _)| part.end);
        let mut places = offsets.chain(ends).chain([state.area.0]);
        // Some file systems accept direct I/O, and fail at the first transfer. This one changes nothing. It is
        // within the next zone: byte 0 of the data before may be the header, which other programs change too.
        let is_refused = || {
            let begin = next.start.next_multiple_of(unit);
            let offset = self.zones.rewrite(&next).old.offset + begin;
            let mut first = vec![0; direct.alignment()];
            begin + unit > next.end
                || direct.read_exact_at(&mut first, offset).is_err()
                || direct.write_all_at(&first, offset).is_err()
        };
        if !places.all(|place| place.is_multiple_of(unit)) || is_refused() {
            return;
        }
        // The metadata are still cached. Each of the two is durable before the other is written, and the
        // system drops what the cache has of bytes that are written past it.
        if !self.reencryption.volume.has_detached_header() {
            self.zones.area = Some(Arc::clone(&direct));
        }
        self.zones.transfers = self.zones.threads.max(TRANSFERS);
        self.use_storage(direct);
    }

    /// Reads and writes the data through `storage` from now on, in zones that it can transfer.
    pub(super) fn use_storage(&mut self, storage: Arc<dyn Storage>) {
        let unit = storage.alignment() as u64;
        self.longest = (self.longest / unit * unit).max(unit);
        self.zones.data = storage;
    }
}

impl Reencryption {
    /// Finishes the zone within which it was interrupted, and ends it if that was the last one. Otherwise
    /// what protects the next ones may change then. A zone has at most `wanted` bytes.
    pub(super) fn resume(mut self, wanted: Option<u64>) -> Result<ZoneByZone> {
        let state = self.state()?;
        self.check(&state)?;
        // When all is done nothing more is read, and the old key may have no keyslots any more.
        let is_done = state.progress.left() == 0;
        let mut old = if is_done { state.new } else { state.old };
        if state.resilience.shift().is_none() {
            // The data before may have been forgotten ([`Luks2Header::forget_old_data`]).
            old.offset = state.new.offset;
        }
        let is_moved = !is_done && state.resilience.shift().is_some();
        let mut zones = Zones {
            old: self.load(old)?,
            new: self.load(state.new)?,
            moved: match state.moved.filter(|_| is_moved) {
                Some((moved, len)) => Some((self.load(moved)?, len)),
                None => None,
            },
            name: self.name.clone(),
            data: Arc::clone(&self.data),
            area: None,
            threads: self.engine.threads,
            transfers: self.engine.threads,
            state,
        };
        // Another program may have left data in the page cache. The checksums of a zone must be those of bytes
        // that a power cut cannot undo, also where the metadata, which are synced, are another file.
        zones.sync()?;
        let begun = zones.state.resilience.clone();
        let unit = u32::try_from(longest_sector(&zones.state)).map(SectorSize::try_from);
        if let (Some(protection), Ok(Ok(unit)), None, false) =
            (self.protection, unit, begun.shift(), is_done)
        {
            zones.state.resilience = protection.instead_of(&begun, unit);
        }
        if !is_done {
            zones.divide_blocks();
        }
        let wanted = wanted.unwrap_or(ZONE);
        let (room, unit) = zones.room().map_err(|error| self.failed(error))?;
        let mut longest = wanted.min(room);
        if zones.is_in_memory() {
            longest = longest.min(ZONE_IN_MEMORY);
        }
        longest = longest / unit * unit;
        if longest == 0 {
            return Err(self.failed(ReencryptError::ShortZone { unit }));
        }
        if room < wanted.min(SHORT) && zones.state.progress.left() > SHORT {
            self.warn_of_little_room(&zones.state.resilience, room);
        }
        // The interrupted zone is protected as it was begun, whatever protects the next ones.
        let next = mem::replace(&mut zones.state.resilience, begun);
        let mut progress = zones.state.progress.clone();
        let mut bytes = ZoneBytes::none();
        if let Some(zone) = progress.zone() {
            self.recover(&zones, &zone, &mut bytes)?;
            progress = progress.with(zone, PartState::New);
        }
        // Before the end is recorded: afterwards the old key, which finds the trailer, may be gone.
        self.take_over_trailer(&zones, &progress)?;
        // Without a zone an older version, or another program, has left it at the end.
        if progress != zones.state.progress || is_done {
            self.record(&zones, &progress, false)?;
        }
        if progress.left() > 0 && next != zones.state.resilience {
            let keys = self.keys.clone();
            self.change(|header, storage| header.set_resilience(storage, &next, None, &keys))?;
            zones.state.resilience = next;
        }
        Ok(ZoneByZone {
            reencryption: self,
            zones,
            progress,
            is_in_zone: false,
            longest,
            bytes,
            ahead: ZoneBytes::none(),
        })
    }

    /// Returns how far it has come, in the part of the data that is changed.
    pub(super) fn state(&self) -> Result<ReencryptionState> {
        let mut state = self.volume.reencryption(self.data_len)?;
        if let Some(part) = self.device_size.filter(|part| *part < self.data_len) {
            state.progress = state.progress.first(part);
        }
        Ok(state)
    }

    /// Checks that the data end where the metadata require it, that everything is in whole sectors, and
    /// that the storage has all places. Data that are too short are others, or only a part.
    fn check(&self, state: &ReencryptionState) -> Result<()> {
        let data_len = self.data_len;
        let is_there = match state.end {
            DataEnd::At(end) => data_len >= end,
            DataEnd::After(begin) => data_len > begin,
        };
        let len = state.progress.len();
        if is_there && state.progress.done() == len {
            // A file may be cut off already.
            return Ok(());
        }
        let places = [(state.old, len), (state.new, len)];
        let mut places = places.into_iter().chain(state.moved);
        let storage_len = self
            .data
            .len()
            .map_err(|error| Error::io(format!("{}: cannot find its length", self.name), &error))?;
        let mut has = |(stored, len): (StoredData, u64)| {
            stored
                .offset
                .checked_add(len)
                .is_some_and(|end| end <= storage_len)
        };
        if !is_there || !places.all(&mut has) {
            return Err(self.failed(ReencryptError::Missing { len: data_len }));
        }
        let unit = longest_sector(state);
        let ends = state.progress.parts().iter().map(|(range, _)| range.end);
        let mut ends = ends.filter(|end| !end.is_multiple_of(unit));
        if let Some(at) = ends.next() {
            return Err(self.failed(ReencryptError::NotAligned { at, unit }));
        }
        match self.volume.header.file_length() {
            Some(file) if file > len => Err(self.failed(ReencryptError::FileLonger { file, len })),
            _ => Ok(()),
        }
    }

    /// Warns that zones are short because only `room` bytes can be protected at a time.
    fn warn_of_little_room(&self, resilience: &Resilience, room: u64) {
        let (what, more) = match resilience {
            Resilience::Journal => ("a copy", "Resilience checksum needs less room"),
            _ if resilience.shift().is_none() => (
                "the checksums",
                "There is more if it begins with fewer keyslots or a longer header",
            ),
            _ => return,
        };
        self.context.events.warning(&format!(
            "{}: the metadata have room for {what} of only {room} bytes at a time, which is slow. {more}",
            self.name
        ));
    }

    /// Finishes a zone within which a re-encryption was interrupted.
    fn recover(&mut self, zones: &Zones, zone: &Range<u64>, bytes: &mut ZoneBytes) -> Result<()> {
        let rewrite = zones.rewrite(zone);
        let guard = zones.guard(zone)?;
        match guard {
            Guard::None => {
                return Err(self.failed(ReencryptError::InterruptedUnprotected {
                    len: zone.end - zone.start,
                    from: zone.start,
                    resilience: zones.state.resilience.name().to_owned(),
                }));
            }
            Guard::Journal => {
                let reserved = bytes.reserve(zone);
                reserved.map_err(|error| self.failed(error))?;
            }
            _ => {}
        }
        let (offset, _) = zones.state.area;
        // Under the lock, so that the area is that of this zone.
        let done = self.change(|header, storage| {
            header.check_unchanged(storage)?;
            let read = |bytes: &mut [u8]| {
                let read = storage.read_exact_at(bytes, offset);
                read.map_err(|source| ChangeError::ReadArea { offset, source })
            };
            Ok(match guard {
                Guard::Checksums(blocks) => {
                    let len = usize::try_from(blocks.area_len(zone)).expect("an area is short");
                    let mut checksums = vec![0; len];
                    read(&mut checksums)?;
                    blocks.with(|blocks| rewrite.run_where_old(zone, blocks, &checksums))
                }
                Guard::Journal => {
                    read(&mut bytes.bytes)?;
                    rewrite.run_from(zone, &mut bytes.bytes)
                }
                Guard::Shift | Guard::None => rewrite.run(zone),
            })
        })?;
        done.map_err(|error| zones.rewriting(error))?;
        zones.sync()
    }

    /// Records that a zone is done, in the same change as the end if it was the last one: from metadata
    /// that have no data left to change and no end, `cryptsetup` begins again.
    fn record(
        &mut self,
        zones: &Zones,
        progress: &ReencryptionProgress,
        is_at_risk: bool,
    ) -> Result<()> {
        let mut token = None;
        if progress.left() == 0 {
            self.forget_moved(zones, progress)?;
            let is_longer = |end: &u64| self.data.len().is_ok_and(|len| len > *end);
            token = self.cut_at.filter(is_longer).map(tail::token);
        }
        self.change_patiently(is_at_risk, |header, storage| {
            record(header, storage, progress, token.as_deref())
        })
    }

    /// Overwrites the place to which the beginning of plain data was moved. All data are done, but the
    /// metadata say that the last zone is not. A crash before the end must not read it from that place.
    fn forget_moved(&mut self, zones: &Zones, progress: &ReencryptionProgress) -> Result<()> {
        let state = &zones.state;
        let Some((moved, len)) = state.moved.filter(|_| state.mode == ReencryptMode::Encrypt)
        else {
            return Ok(());
        };
        if state.resilience.shift().is_some() {
            let (keys, unit) = (self.keys.clone(), longest_sector(state));
            let unit = u32::try_from(unit).expect("a sector is short");
            self.change_patiently(false, |header, storage| {
                header.forget_old_data(storage, progress, unit, &keys)
            })?;
        }
        zones.overwrite(moved.offset..moved.offset + len)
    }

    /// Changes the metadata as soon as no other program has the lock on them. An interruption ends the
    /// wait, except for a zone at risk.
    fn change_patiently(
        &mut self,
        is_at_risk: bool,
        change: impl Fn(&mut Luks2Header, &dyn Storage) -> std::result::Result<(), ChangeError>,
    ) -> Result<()> {
        let mut has_warned = false;
        loop {
            match self.change(&change) {
                Err(error) if is_locked(&error) => {
                    if !is_at_risk {
                        self.context.check_cancelled()?;
                    }
                    if !has_warned {
                        self.context.events.warning(&waits(&error));
                    }
                    has_warned = true;
                    thread::sleep(Duration::from_millis(20));
                }
                changed => return changed,
            }
        }
    }

    fn load(&self, stored: StoredData) -> Result<Loaded> {
        let key = match stored.cipher {
            Some(cipher) => {
                let key = self.keys.get(&cipher.key);
                let key = key.ok_or_else(|| self.failed(ReencryptError::KeyMissing))?;
                Some(self.engine.load_key_of(key, cipher)?)
            }
            None => None,
        };
        Ok(Loaded { stored, key })
    }

    /// Changes the metadata as [`LuksVolume::change`] does, also after an interruption: what has begun
    /// must be finished.
    pub(super) fn change<T>(
        &mut self,
        change: impl FnOnce(&mut Luks2Header, &dyn Storage) -> std::result::Result<T, ChangeError>,
    ) -> Result<T> {
        let context = Context {
            cancel: Arc::default(),
            ..self.context.clone()
        };
        self.volume.change_luks2(&context, change)
    }

    fn failed(&self, error: ReencryptError) -> Error {
        error.about(&self.name)
    }
}

/// Records `progress`, or the end when nothing is left, then with a token.
fn record(
    header: &mut Luks2Header,
    storage: &dyn Storage,
    progress: &ReencryptionProgress,
    token: Option<&str>,
) -> std::result::Result<(), ChangeError> {
    if progress.left() == 0 {
        return header.end_reencryption(storage, token);
    }
    let Ok(()) = header.set_reencryption(storage, progress, |_, _| Ok::<_, Infallible>(false))?;
    Ok(())
}

/// Returns the warning for a wait that is due to `error`.
pub(super) fn waits(error: &Error) -> String {
    format!("{}, and the re-encryption waits", error.message())
}
