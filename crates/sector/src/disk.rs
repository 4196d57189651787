// SPDX-License-Identifier: MIT OR Apache-2.0
//! A volume's plaintext as a disk, with reads and writes at any byte.

mod durability;
mod hold;
#[cfg(all(test, model))]
mod models;
mod plaintext;
mod ranges;
mod sync;
#[cfg(all(test, not(model)))]
mod tests;
mod transfer;

use std::{
    fmt, io,
    num::NonZeroUsize,
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use luxor_engine::{Buffer, Direction, Executor, LoadedKey, Run};
use luxor_secret::with_key_stack;

use self::{
    durability::Durability,
    plaintext::Plaintext,
    ranges::{Claimed, Ranges},
    sync::{PoisonError, RwLock, RwLockReadGuard},
    transfer::exclude_each_other,
};
pub use self::{
    hold::Held,
    transfer::{Transfer, TransferData},
};
use crate::{
    buffers::Buffers,
    disk_error::DiskError,
    layout::{Layout, Part, PartRange},
    storage::{ReadAt, Storage, WriteAt},
};

/// Longer requests are processed in pieces of this many bytes, each of which is encrypted while it
/// is in a core's own cache. A multiple of every sector size.
const PIECE: usize = 1 << 20;

/// Zeros are encrypted in pieces of this many bytes. Their buffer is memory that the client did not
/// send and a server does not account for, so it is small.
const ZEROS: usize = 64 << 10;

/// The permissions and settings of a [`Disk`].
#[derive(Clone, Copy, Debug, Default)]
pub struct DiskOptions {
    /// Refuse all writes.
    pub read_only: bool,
    /// Pass discards on to the storage. They reveal to anyone who can see the storage which sectors
    /// are unused.
    pub allow_discards: bool,
    /// How many threads may encrypt one request, the calling thread included. `None` means only the
    /// calling thread.
    pub threads: Option<NonZeroUsize>,
    /// For measurements: the most bytes that one call of the engine gets, as if requests ended
    /// there. At least one sector.
    pub request_limit: Option<NonZeroUsize>,
}

/// A volume's plaintext as a disk, with reads and writes of any length at any byte, from any number
/// of threads.
///
/// Overlapping requests are served one after the other, in the order in which they came. If a write
/// covers part of a sector, reading, changing and writing that sector is one such step. So no
/// request sees a half-written sector.
///
/// After an error, the bytes outside of the request are unchanged. Those that the request covers
/// may be partly written.
///
/// Writes are durable after [`Disk::flush`]. Dropping a disk does not flush it.
///
/// ```
/// use std::sync::Arc;
///
/// use luxor_engine::{KeySpec, Mode, Registry, XtsKey};
/// use luxor_sector::{Disk, DiskOptions, Geometry, IvMode, MemoryStorage, Part, SectorSize};
///
/// # let random_bytes: [u8; 64] = core::array::from_fn(|i| i as u8);
/// let key = KeySpec::Xts(XtsKey::new(&random_bytes)?);
/// let key = Registry::cpu().best(Mode::Xts)?.load_key(&key)?;
/// let geometry = Geometry {
///     sector_size: SectorSize::B4096,
///     iv_mode: IvMode::Plain64,
///     iv_offset: 0,
///     iv_large_sectors: false,
/// };
/// let part = Part {
///     offset: 0,
///     len: 1 << 20,
///     crypt: Some((Arc::from(key), geometry)),
/// };
/// let storage = Arc::new(MemoryStorage::new(vec![0; 1 << 20]));
/// let disk = Disk::new(storage, vec![part], DiskOptions::default())?;
///
/// // Any byte and any length: the disk reads and changes the two sectors that contain them.
/// disk.write(b"across two sectors", 4090)?;
/// let mut found = [0; 18];
/// disk.read(&mut found, 4090)?;
/// assert_eq!(found, *b"across two sectors");
/// disk.flush()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Disk {
    storage: Arc<dyn Storage>,
    current: RwLock<Current>,
    options: DiskOptions,
    executor: Executor,
    ranges: Ranges,
    durability: Durability,
    counters: Counters,
    staging: Buffers,
}

/// What a request uses from the moment at which its ranges are claimed.
struct Current {
    layout: Arc<Layout>,
    /// Ranges in which all requests fail.
    lost: Vec<Range<u64>>,
}

#[derive(Debug, Default)]
struct Counters {
    bytes: AtomicU64,
    calls: AtomicU64,
    nanoseconds: AtomicU64,
}

/// What the engine has done for a [`Disk`] so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EngineTime {
    /// Bytes encrypted and decrypted.
    pub bytes: u64,
    /// Calls to the engine.
    pub calls: u64,
    /// The time they took, summed over all threads.
    pub nanoseconds: u64,
}

/// A transfer of whole sectors, and the range that it covers.
type Together<'a, 't> = (PartRange<'a>, &'a mut Transfer<'t>);

impl Disk {
    /// Makes a disk of the plaintext in `parts` of `storage`, one after the other. Its length is
    /// the sum of theirs, and never changes.
    ///
    /// # Errors
    /// [`DiskError`] if the storage is too short for the parts, or they break one of the rules that
    /// its variants name.
    pub fn new(
        storage: Arc<dyn Storage>,
        parts: Vec<Part>,
        options: DiskOptions,
    ) -> Result<Self, DiskError> {
        let found = storage
            .len()
            .map_err(|source| DiskError::Length { source })?;
        let layout = Layout::new(parts, storage.alignment())?;
        let needed = layout.storage_len();
        if needed > found {
            return Err(DiskError::Short { needed, found });
        }
        Ok(Self {
            storage,
            current: RwLock::new(Current {
                layout: Arc::new(layout),
                lost: Vec::new(),
            }),
            options,
            executor: Executor::new(options.threads.unwrap_or(NonZeroUsize::MIN)),
            ranges: Ranges::default(),
            durability: Durability::default(),
            counters: Counters::default(),
            staging: Buffers::default(),
        })
    }

    /// The length of the plaintext in bytes. It need not be a whole number of sectors.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.layout().len()
    }

    /// Whether there are no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.layout().is_empty()
    }

    /// Whether all writes are refused.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.options.read_only
    }

    /// Whether [`Disk::discard`] passes discards on.
    #[must_use]
    pub fn allows_discards(&self) -> bool {
        self.options.allow_discards && !self.options.read_only
    }

    /// The largest sector size of all parts, or the storage's alignment if that is larger. Requests
    /// of whole sectors of this size are fastest.
    #[must_use]
    pub fn sector_size(&self) -> usize {
        self.layout().sector_size()
    }

    /// What the engine has done so far.
    #[must_use]
    pub fn engine_time(&self) -> EngineTime {
        let counters = &self.counters;
        EngineTime {
            bytes: counters.bytes.load(Ordering::Relaxed),
            calls: counters.calls.load(Ordering::Relaxed),
            nanoseconds: counters.nanoseconds.load(Ordering::Relaxed),
        }
    }

    /// Fills `buf` with the plaintext from byte `offset` on.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] if the range ends beyond the disk,
    /// [`io::ErrorKind::UnexpectedEof`] if the storage has become shorter, and the other errors of
    /// the storage and the engine. The content of `buf` is then unspecified.
    pub fn read(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let layout = self.layout();
        let range = layout.check(offset, buf.len() as u64)?;
        let (_claimed, layout) = self.claim(layout, &[(range, false)])?;
        with_key_stack(|| self.read_claimed(&layout, buf, offset))
    }

    /// Writes `buf` from byte `offset` on. The bytes are durable after the next [`Disk::flush`].
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] if the range ends beyond the disk,
    /// [`io::ErrorKind::PermissionDenied`] on a read-only disk, [`io::ErrorKind::UnexpectedEof`] if
    /// the storage has become shorter, and the errors of the storage and the engine. Some of the
    /// bytes may have been written.
    pub fn write(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        with_key_stack(|| self.write_from(Plaintext::Bytes(buf), offset, buf.len() as u64))
    }

    /// Writes `len` zeros from byte `offset` on. They are encrypted, so the storage does not reveal
    /// them.
    ///
    /// # Errors
    /// As for [`Disk::write`].
    pub fn write_zeroes(&self, offset: u64, len: u64) -> io::Result<()> {
        with_key_stack(|| self.write_from(Plaintext::Zeros, offset, len))
    }

    /// Serves all requests of `batch`, in any order, and sets the `result` of each. Overlapping
    /// requests are served in their order if one of them writes.
    ///
    /// This is the fast way for many small requests: their sectors go through the engine in one
    /// call, and to the storage together.
    pub fn transfer(&self, batch: &mut [Transfer<'_>]) {
        let layout = self.layout();
        let mut claims = Vec::with_capacity(batch.len());
        for transfer in &mut *batch {
            let write = transfer.data.is_write();
            let range = layout.check(transfer.offset, transfer.data.len() as u64);
            transfer.result = match range {
                Ok(_) if write && self.options.read_only => Err(read_only()),
                Ok(range) => {
                    claims.push((layout.whole_sectors(range), write));
                    Ok(())
                }
                Err(error) => Err(error),
            };
        }
        if !exclude_each_other(&claims)
            && let Ok((_claimed, layout)) = self.claim(layout.clone(), &claims)
        {
            return with_key_stack(|| self.transfer_claimed(&layout, batch));
        }
        // One after the other, also where some fail.
        let accepted = batch.iter_mut().filter(|transfer| transfer.result.is_ok());
        for (transfer, claim) in accepted.zip(claims) {
            match self.claim(layout.clone(), &[claim]) {
                Ok((_claimed, layout)) => {
                    let alone = std::slice::from_mut(transfer);
                    with_key_stack(|| self.transfer_claimed(&layout, alone));
                }
                Err(error) => transfer.result = Err(error),
            }
        }
    }

    /// Returns when all writes that had returned before are durable.
    ///
    /// # Errors
    /// The errors of the storage. What was written since the last successful flush may then be
    /// lost, and no later sync can restore it, so all later calls fail too. After
    /// [`io::ErrorKind::Interrupted`] nothing is lost, and a later call may succeed.
    pub fn flush(&self) -> io::Result<()> {
        self.durability.flush(&*self.storage)
    }

    /// Whether any write is not yet durable.
    #[must_use]
    pub fn is_dirty(&self) -> bool {
        self.durability.is_dirty()
    }

    /// Discards the sectors that lie entirely within the `len` bytes from `offset` on: the storage
    /// may free their space. What is read there afterwards is unspecified.
    ///
    /// # Errors
    /// [`io::ErrorKind::Unsupported`] unless the options allow discards, otherwise as for
    /// [`Disk::write`]. Storage that does not support discards is not an error: nothing happens.
    pub fn discard(&self, offset: u64, len: u64) -> io::Result<()> {
        let layout = self.layout();
        let range = layout.check(offset, len)?;
        if self.options.read_only {
            return Err(read_only());
        }
        if !self.options.allow_discards {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let (_claimed, layout) = self.claim(layout, &[(range.clone(), true)])?;
        let mut result = Ok(());
        for (placed, part) in layout.within(range) {
            let sector = placed.sector as u64;
            let begin = part.start.next_multiple_of(sector);
            // The disk's last sector may be only partly visible, and counts as whole here.
            let end = match part.end {
                end if end == placed.part.len => end.next_multiple_of(sector),
                end => end - end % sector,
            };
            if begin < end && result.is_ok() {
                result = self
                    .storage
                    .discard(placed.part.offset + begin, end - begin);
            }
        }
        self.durability.note_write();
        match result {
            Err(error) if error.kind() == io::ErrorKind::Unsupported => Ok(()),
            result => result,
        }
    }

    /// Tells the storage that `len` bytes from `offset` on will be read soon.
    ///
    /// # Errors
    /// As for [`Disk::read`].
    pub fn will_need(&self, offset: u64, len: u64) -> io::Result<()> {
        let layout = self.layout();
        let range = layout.check(offset, len)?;
        for (placed, part) in layout.within(range) {
            let begin = placed.part.offset + part.start;
            self.storage.will_need(begin, part.end - part.start)?;
        }
        Ok(())
    }

    /// Fills `buf` with the stored bytes of `range` of the plaintext, which are whole sectors. The last
    /// sector counts as whole.
    ///
    /// # Errors
    /// As for [`Disk::read`], and [`io::ErrorKind::InvalidInput`] if `buf` has another length.
    pub fn read_stored(&self, buf: &mut [u8], range: &Range<u64>) -> io::Result<()> {
        let layout = self.layout();
        let visible = range.start..range.end.min(layout.len());
        let (_claimed, layout) = self.claim(layout, &[(visible.clone(), false)])?;
        let mut rest = buf;
        for stored in layout.stored(visible)? {
            let len = usize::try_from(stored.plaintext.end - stored.plaintext.start);
            let now = len.ok().and_then(|len| rest.split_off_mut(..len));
            let now = now.ok_or(io::ErrorKind::InvalidInput)?;
            self.storage.read_exact_at(now, stored.offset)?;
        }
        if !rest.is_empty() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        Ok(())
    }

    /// Returns how the plaintext is stored now.
    #[must_use]
    pub fn layout(&self) -> Arc<Layout> {
        Arc::clone(&self.current().layout)
    }

    fn current(&self) -> RwLockReadGuard<'_, Current> {
        self.current.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Claims the whole sectors of each of `ranges`, to write where the second value says so. Returns
    /// how they are stored until the claim is dropped. `layout` is how they were stored before.
    ///
    /// # Errors
    /// Some of them are in the range that is lost.
    fn claim(
        &self,
        mut layout: Arc<Layout>,
        ranges: &[(Range<u64>, bool)],
    ) -> io::Result<(Claimed<'_>, Arc<Layout>)> {
        loop {
            let whole = |layout: &Layout| {
                let whole = |(range, write): &(Range<u64>, bool)| {
                    (layout.whole_sectors(range.clone()), *write)
                };
                ranges.iter().map(whole).collect::<Vec<_>>()
            };
            let wanted = whole(&layout);
            let claimed = self.ranges.claim_all(wanted.iter().cloned());
            let now = self.current();
            let is_lost = |(range, _): &(Range<u64>, bool)| {
                let mut lost = now.lost.iter();
                lost.any(|lost| range.start < lost.end && lost.start < range.end)
            };
            if wanted.iter().any(is_lost) {
                return Err(io::Error::other(
                    "the encryption of these bytes was being changed, and that failed",
                ));
            }
            let is_same = Arc::ptr_eq(&layout, &now.layout);
            layout = Arc::clone(&now.layout);
            drop(now);
            // Where the sectors are longer now, it does not have all of them yet.
            if is_same || whole(&layout) == wanted {
                return Ok((claimed, layout));
            }
        }
    }

    /// Serves the requests of `batch` that are not refused. They must not exclude each other.
    fn transfer_claimed(&self, layout: &Layout, batch: &mut [Transfer<'_>]) {
        // Whole sectors of one part go through the engine together, everything else alone.
        let mut reads = Vec::new();
        let mut writes = Vec::new();
        for transfer in batch {
            let len = transfer.data.len();
            if transfer.result.is_err() || len == 0 {
                continue;
            }
            let mut parts = layout.within(transfer.offset..transfer.offset + len as u64);
            let (placed, part) = parts.next().expect("the range is checked and not empty");
            let piece = PartRange {
                placed,
                offset: part.start,
                len,
            };
            if parts.next().is_none() && piece.is_whole_sectors() && len <= PIECE {
                match transfer.data {
                    TransferData::Read(_) => reads.push((piece, transfer)),
                    TransferData::Write(_) => writes.push((piece, transfer)),
                }
            } else {
                transfer.result = match &mut transfer.data {
                    TransferData::Read(buf) => self.read_claimed(layout, buf, transfer.offset),
                    TransferData::Write(buf) => {
                        let source = Plaintext::Lent(buf);
                        self.write_claimed(layout, source, transfer.offset, len as u64)
                    }
                };
            }
        }
        if !writes.is_empty() {
            self.write_together(writes);
        }
        if !reads.is_empty() {
            self.read_together(reads);
        }
    }

    fn read_together(&self, mut batch: Vec<Together<'_, '_>>) {
        let (mut reads, results): (Vec<_>, Vec<_>) = batch
            .iter_mut()
            .map(|(piece, transfer)| {
                let read = ReadAt {
                    buf: transfer.data.bytes(),
                    offset: piece.in_storage(),
                    result: Ok(()),
                };
                (read, &mut transfer.result)
            })
            .unzip();
        self.storage.read_batch(&mut reads);
        for (read, result) in reads.into_iter().zip(results) {
            *result = read.result;
        }
        self.crypt_together(Direction::Decrypt, &mut batch);
    }

    fn write_together(&self, mut batch: Vec<Together<'_, '_>>) {
        let end = self.storage.len();
        for (piece, transfer) in &mut batch {
            transfer.result = match &end {
                Ok(end) => piece.check_before(*end),
                Err(error) => Err(match error.raw_os_error() {
                    Some(number) => io::Error::from_raw_os_error(number),
                    None => io::Error::new(error.kind(), error.to_string()),
                }),
            };
        }
        self.crypt_together(Direction::Encrypt, &mut batch);
        let (mut writes, results): (Vec<_>, Vec<_>) = batch
            .iter_mut()
            .filter(|(_, transfer)| transfer.result.is_ok())
            .map(|(piece, transfer)| {
                let write = WriteAt {
                    buf: transfer.data.bytes(),
                    offset: piece.in_storage(),
                    result: Ok(()),
                };
                (write, &mut transfer.result)
            })
            .unzip();
        self.storage.write_batch(&mut writes);
        self.durability.note_write();
        for (write, result) in writes.into_iter().zip(results) {
            *result = write.result;
        }
    }

    /// Encrypts or decrypts the transfers of `batch` that have not failed, in one call for each
    /// part.
    fn crypt_together(&self, direction: Direction, batch: &mut [Together<'_, '_>]) {
        batch.sort_unstable_by_key(|(piece, _)| piece.placed.begin);
        for same in batch.chunk_by_mut(|(a, _), (b, _)| a.placed.begin == b.placed.begin) {
            let Some((key, geometry)) = &same[0].0.placed.part.crypt else {
                continue;
            };
            let mut runs = Vec::with_capacity(same.len());
            for (piece, transfer) in &mut *same {
                if transfer.result.is_ok() {
                    let found = geometry.runs(piece.offset, transfer.data.bytes());
                    runs.extend(found.expect("only whole sectors are batched"));
                }
            }
            let result = self.crypt(&**key, direction, runs);
            if let Err(error) = result {
                for (_, transfer) in same {
                    if transfer.result.is_ok() {
                        transfer.result = Err(io::Error::other(error.to_string()));
                    }
                }
            }
        }
    }

    fn crypt(
        &self,
        key: &dyn LoadedKey,
        direction: Direction,
        mut runs: Vec<Run<'_>>,
    ) -> io::Result<()> {
        let begun = Instant::now();
        let bytes: usize = runs.iter().map(Run::len).sum();
        let (calls, result) = match self.options.request_limit {
            None => (1, self.executor.crypt(key, direction, &mut runs)),
            Some(limit) => crypt_in_requests(key, direction, runs, limit.get()),
        };
        let taken = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let counters = &self.counters;
        counters.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        counters.calls.fetch_add(calls, Ordering::Relaxed);
        counters.nanoseconds.fetch_add(taken, Ordering::Relaxed);
        result.map_err(io::Error::other)
    }

    fn read_claimed(&self, layout: &Layout, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let mut rest = buf;
        for piece in layout.pieces(offset, rest.len() as u64, PIECE) {
            let (buf, later) = rest.split_at_mut(piece.len);
            rest = later;
            if piece.is_whole_sectors() {
                self.storage.read_exact_at(buf, piece.in_storage())?;
                self.crypt_piece(Direction::Decrypt, &piece, buf)?;
            } else {
                let sector = self.read_sector(&piece)?;
                let begin = piece.begin_in_sector();
                buf.copy_from_slice(&sector[begin..begin + piece.len]);
            }
        }
        Ok(())
    }

    fn write_from(&self, source: Plaintext<'_>, offset: u64, len: u64) -> io::Result<()> {
        let layout = self.layout();
        let range = layout.check(offset, len)?;
        if self.options.read_only {
            return Err(read_only());
        }
        let (_claimed, layout) = self.claim(layout, &[(range, true)])?;
        self.write_claimed(&layout, source, offset, len)
    }

    fn write_claimed(
        &self,
        layout: &Layout,
        source: Plaintext<'_>,
        offset: u64,
        len: u64,
    ) -> io::Result<()> {
        let result = self.write_pieces(layout, source, offset, len);
        self.durability.note_write();
        result
    }

    fn write_pieces(
        &self,
        layout: &Layout,
        mut source: Plaintext<'_>,
        offset: u64,
        len: u64,
    ) -> io::Result<()> {
        let most = match source {
            Plaintext::Zeros => ZEROS,
            _ => PIECE,
        };
        let room = usize::try_from(len).map_or(most, |len| len.min(most));
        let mut staging = None;
        // No sector is written beyond the end. Otherwise a file that was cut off would grow again,
        // and show noise in place of what it had lost.
        let end = self.storage.len()?;
        for piece in layout.pieces(offset, len, most) {
            if !piece.is_whole_sectors() {
                let mut sector = self.read_sector(&piece)?;
                let begin = piece.begin_in_sector();
                source.fill(&mut sector[begin..begin + piece.len]);
                let whole = piece.sector();
                self.crypt_piece(Direction::Encrypt, &whole, &mut sector)?;
                self.storage.write_all_at(&sector, whole.in_storage())?;
                continue;
            }
            piece.check_before(end)?;
            let bytes = match &mut source {
                Plaintext::Lent(bytes) => bytes.split_off_mut(..piece.len).expect("enough left"),
                _ => {
                    if staging.is_none() {
                        staging = Some(self.staging.take(room)?);
                    }
                    let staging: &mut Buffer = staging.as_mut().expect("taken above");
                    source.fill(&mut staging[..piece.len]);
                    &mut staging[..piece.len]
                }
            };
            self.crypt_piece(Direction::Encrypt, &piece, bytes)?;
            self.storage.write_all_at(bytes, piece.in_storage())?;
        }
        if let Some(buffer) = staging {
            self.staging.give_back(buffer);
        }
        Ok(())
    }

    /// Reads and decrypts the sector that contains `piece`.
    fn read_sector(&self, piece: &PartRange<'_>) -> io::Result<Buffer> {
        let whole = piece.sector();
        let mut sector = Buffer::zeroed(whole.len);
        self.storage
            .read_exact_at(&mut sector, whole.in_storage())?;
        self.crypt_piece(Direction::Decrypt, &whole, &mut sector)?;
        Ok(sector)
    }

    fn crypt_piece(
        &self,
        direction: Direction,
        piece: &PartRange<'_>,
        bytes: &mut [u8],
    ) -> io::Result<()> {
        let Some((key, geometry)) = &piece.placed.part.crypt else {
            return Ok(());
        };
        let runs = geometry.runs(piece.offset, bytes);
        self.crypt(&**key, direction, runs.map_err(io::Error::other)?)
    }
}

/// Makes one call for every `limit` bytes, and at least one unit in each.
fn crypt_in_requests(
    key: &dyn LoadedKey,
    direction: Direction,
    runs: Vec<Run<'_>>,
    limit: usize,
) -> (u64, Result<(), luxor_engine::CryptError>) {
    let mut calls = 0;
    for mut run in runs {
        let units = (limit / run.unit_len().get()).max(1);
        while !run.is_empty() {
            let fitting = units.min(run.units());
            let (now, later) = run.split_at(fitting);
            calls += 1;
            if let Err(error) = key.crypt(direction, &mut [now]) {
                return (calls, Err(error));
            }
            run = later;
        }
    }
    (calls, Ok(()))
}

fn read_only() -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, "the disk is read-only")
}

impl fmt::Debug for Disk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Disk")
            .field("layout", &self.layout())
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
