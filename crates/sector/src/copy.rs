// SPDX-License-Identifier: MIT OR Apache-2.0
//! A copy on the way of which something is done to the bytes, by workers.
//!
//! Every worker takes the next piece of the source and works on it, all on its
//! own core, in a buffer that fits into that core's cache. What has offsets is
//! read by all at once, a pipe by one at a time. Whoever has a piece ready and
//! finds nobody writing writes it, and goes on with what the others have made
//! ready meanwhile; these read and work on, in other buffers. So there is always
//! one that writes, in order, and none that waits for another's turn.
//!
//! Two workers more than do the work in the middle let reading, working and
//! writing overlap where a core has to wait for a disk or a pipe.
//!
//! Measured on 2026-11-21 (2 cores, Intel Xeon with AMX, 2 MiB of L2 each,
//! Linux 6.18, tmpfs): encrypting 1 GiB from one file into another that has its
//! pages already, in alternation, medians of 11, in seconds.
//!
//! | | |
//! |---|---|
//! | `copy_file_range`, what `cp` does | 0.270 |
//! | `pwrite` alone, by one thread or by two: the file's lock allows no more | 0.199 |
//! | workers that write where they are, pieces of 256 KiB, 512 KiB, 1 MiB | 0.206, 0.204, 0.207 |
//! | workers that wait for their turn to write, 512 KiB, 1 MiB | 0.259, 0.231 |
//! | a thread that reads, a pool for AES, a thread that writes; 6 × 4 MiB | 0.272 |
//! | input and output mapped into memory, two threads | 0.277 |
//!
//! What is done here is not in that table: it was thought of later. `io_uring` would
//! take the same lock, and does not help a disk. On one of that machine (virtio, ext4),
//! 2 GiB in pieces of 512 KiB, GB/s by `fio --bs=512k --end_fsync=1` (3.33):
//!
//! | | read, `--direct=1` | write | read, `--direct=0` | write |
//! |---|---|---|---|---|
//! | `--ioengine=psync --numjobs=2` | 2.4 | 1.9 | 1.9 | 0.8 |
//! | `--ioengine=io_uring --iodepth=4` | 2.5 | 1.9 | 0.8 | 0.4 |
//!
//! Beside programs that used both cores (load 8, so noisy), medians of 25 for
//! 512 MiB: 0.47 for workers that write where they are, as each sleeps for the lock
//! and then for a core; 0.40 for what is done here (0.41 with 12 buffers, 0.44 with
//! 2 or 3 workers); 0.39 for the three stages; 0.25 for `cp`. So there it is no
//! faster than the three stages; it needs half their memory. Mapped files would
//! have cost more than time: one that is cut off meanwhile would end the process
//! with SIGBUS.

use std::{
    collections::BTreeMap,
    fmt,
    io::{self, Read, Write},
    num::NonZeroUsize,
    sync::{
        Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
};

use luxor_engine::{Backend, Buffer, with_key_stack};

use crate::storage::Storage;

/// The buffers of all workers together have no more bytes, unless a single one
/// has.
const MAX_MEMORY: usize = 32 << 20;

/// A part of a storage.
#[derive(Clone, Copy)]
pub struct Region<'a> {
    /// What they are part of.
    pub storage: &'a dyn Storage,
    /// Where in it they begin.
    pub offset: u64,
    /// How many there are.
    pub len: u64,
}

/// Where the bytes come from.
pub enum Source<'a> {
    /// Bytes at offsets, read in any order.
    At(Region<'a>),
    /// A stream, read to its end.
    ///
    /// [`io::ErrorKind::Interrupted`] is no error. A source that may wait for
    /// long should return that now and then, for the end to be noticed that
    /// another worker or [`Copier::cancel`] wants.
    Stream(&'a mut (dyn Read + Send)),
}

/// How something is copied.
#[derive(Clone, Copy)]
pub struct Copier<'a> {
    /// Bytes in a piece, but for the last one.
    pub piece_len: NonZeroUsize,
    /// How many threads may do the work in the middle at a time. Two more are
    /// started, to read and write meanwhile, or fewer where the source is short or
    /// their buffers would have more than 32 MiB.
    pub threads: NonZeroUsize,
    /// Whose memory the buffers are; `None` for what is ordinary.
    pub backend: Option<&'a dyn Backend>,
    /// Set from outside, this ends the copy soon with [`CopyError::Cancelled`].
    pub cancel: &'a AtomicBool,
}

/// Consecutive bytes on their way.
///
/// `Debug` shows lengths and not the bytes, which may be plaintext.
pub struct Piece<'a> {
    /// Where they begin, counted from the source's first byte.
    pub offset: u64,
    /// Bytes from the source. Those behind are unspecified.
    pub len: usize,
    /// Of [`Copier::piece_len`] bytes, the piece's first.
    pub buffer: &'a mut [u8],
    /// Whether the source has no more. Not yet known, and `false`, when a
    /// stream ends with a full piece; an empty one follows then.
    pub at_end: bool,
}

impl fmt::Debug for Piece<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Piece")
            .field("offset", &self.offset)
            .field("len", &self.len)
            .field("buffer", &format_args!("{} bytes", self.buffer.len()))
            .field("at_end", &self.at_end)
            .finish()
    }
}

impl Source<'_> {
    /// The same bytes for a shorter time.
    pub fn reborrow(&mut self) -> Source<'_> {
        match self {
            Self::At(region) => Source::At(*region),
            Self::Stream(stream) => Source::Stream(*stream),
        }
    }

    /// How many bytes it has, where that is known.
    #[must_use]
    pub fn known_len(&self) -> Option<u64> {
        match self {
            Self::At(region) => Some(region.len),
            Self::Stream(_) => None,
        }
    }
}

/// How many bytes went through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    /// Bytes from the source.
    pub read: u64,
    /// Bytes to the sink: not as many as were read where the work made pieces
    /// longer or shorter.
    pub written: u64,
}

/// Why a copy did not reach its end.
#[derive(Debug)]
pub enum CopyError<E> {
    /// The source failed.
    Read {
        /// Where, counted from its first byte; exact to 512 bytes at offsets.
        offset: u64,
        /// What the system said.
        source: io::Error,
    },
    /// The sink failed.
    Write {
        /// So many bytes had been written.
        offset: u64,
        /// What the system said.
        source: io::Error,
    },
    /// The work on a piece failed.
    Work(E),
    /// There is no memory for a single piece.
    Memory,
    /// The flag [`Copier::cancel`] was set.
    Cancelled,
}

impl Copier<'_> {
    /// Copies all of `source` into `sink`. `work` changes each piece in its buffer, and returns
    /// how many of the buffer's bytes are written: all of them, but for the last
    /// piece, whose length it may change. A source of no bytes has one empty
    /// piece.
    ///
    /// `progress` gets the number of bytes that are written, which grows from
    /// call to call. [`io::ErrorKind::Interrupted`] from `sink` is no error, as
    /// from a stream; it is flushed at the end.
    ///
    /// All threads have ended when this returns, and the buffers are wiped.
    ///
    /// # Errors
    /// The [`CopyError`] of the first piece that has one; the sink then has what
    /// comes before that piece, and perhaps a part of it.
    pub fn run<E: Send>(
        &self,
        mut source: Source<'_>,
        sink: &mut (dyn Write + Send),
        work: &(dyn Fn(&mut Piece<'_>) -> Result<usize, E> + Sync),
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<Copied, CopyError<E>> {
        let piece_len = self.piece_len.get();
        let mut workers = self.threads.get().saturating_add(2);
        // One that is worked on and one that is ready or to be filled, for each.
        let buffers = workers.saturating_mul(2).min(MAX_MEMORY / piece_len).max(1);
        workers = workers.min(buffers);
        if let Source::At(region) = &source {
            let pieces = region.len.div_ceil(piece_len as u64);
            workers = usize::try_from(pieces).map_or(workers, |pieces| pieces.min(workers));
        }
        let shared = Shared {
            piece_len,
            backend: self.backend,
            cancel: self.cancel,
            source: match source.reborrow() {
                Source::At(region) => SharedSource::At {
                    region,
                    next: AtomicU64::new(0),
                },
                Source::Stream(stream) => SharedSource::Stream(Mutex::new(Stream {
                    inner: stream,
                    position: 0,
                    ended: false,
                })),
            },
            sink: Mutex::new(Stream {
                inner: sink,
                position: 0,
                ended: false,
            }),
            queue: Mutex::new(Queue {
                buffers,
                ..Queue::default()
            }),
            freed: Condvar::new(),
            permits: Permits::new(self.threads),
            failed_at: AtomicU64::new(u64::MAX),
            failure: Mutex::new(None),
        };
        let worker = || {
            let _guard = PanicGuard(&shared);
            shared.work(work, progress);
        };
        thread::scope(|scope| {
            for _ in 1..workers {
                let thread = thread::Builder::new().name("luxor-copy".into());
                // Where the system has no more threads, fewer will do.
                if thread.spawn_scoped(scope, worker).is_err() {
                    break;
                }
            }
            worker();
        });
        shared.finish()
    }
}

/// What the workers share.
struct Shared<'a, E> {
    piece_len: usize,
    backend: Option<&'a dyn Backend>,
    cancel: &'a AtomicBool,
    source: SharedSource<'a>,
    /// Locked by the one that writes.
    sink: Mutex<Stream<&'a mut (dyn Write + Send)>>,
    queue: Mutex<Queue>,
    /// Told when buffers came back, and when all is over.
    freed: Condvar,
    permits: Permits,
    /// The first piece that failed. Those before it go on, so that which failure
    /// is told does not depend on who is faster.
    failed_at: AtomicU64,
    failure: Mutex<Option<(u64, CopyError<E>)>>,
}

enum SharedSource<'a> {
    At { region: Region<'a>, next: AtomicU64 },
    Stream(Mutex<Stream<&'a mut (dyn Read + Send)>>),
}

struct Stream<T> {
    inner: T,
    /// Bytes so far.
    position: u64,
    ended: bool,
}

/// What lies between the work and the sink.
#[derive(Default)]
struct Queue {
    /// How many buffers there may be.
    buffers: usize,
    /// How many there are.
    allocated: usize,
    free: Vec<Buffer>,
    /// Workers that wait for one.
    waiting: usize,
    /// Pieces by their number.
    ready: BTreeMap<u64, Ready>,
    /// The piece that is written next.
    next: u64,
    /// Whether somebody writes.
    writing: bool,
    copied: Copied,
}

/// A piece that can be written.
struct Ready {
    buffer: Buffer,
    /// Bytes that were read.
    read: usize,
    /// Bytes to be written.
    len: usize,
}

/// Bytes that were read.
struct Taken {
    /// Which piece they are.
    index: u64,
    len: usize,
    at_end: bool,
}

/// Why a worker ends before the source does.
enum Stop<E> {
    Failed(CopyError<E>),
    /// An earlier piece has failed.
    Elsewhere,
}

impl<E> From<CopyError<E>> for Stop<E> {
    fn from(failure: CopyError<E>) -> Self {
        Self::Failed(failure)
    }
}

impl<E> Shared<'_, E> {
    /// One worker, until there are no more pieces.
    fn work(&self, work: &dyn Fn(&mut Piece<'_>) -> Result<usize, E>, progress: &dyn Fn(u64)) {
        loop {
            let mut buffer = match self.buffer() {
                Ok(buffer) => buffer,
                Err(stop) => return self.stop(0, stop),
            };
            let taken = match self.take(&mut buffer) {
                Ok(Some(taken)) => taken,
                Ok(None) => {
                    self.give_back(buffer);
                    return;
                }
                Err((index, stop)) => return self.stop(index, stop),
            };
            let ready = match with_key_stack(|| self.change(buffer, &taken, work)) {
                Ok(ready) => ready,
                Err(stop) => return self.stop(taken.index, stop),
            };
            if let Err((index, stop)) = self.pass_on(taken.index, ready, progress) {
                return self.stop(index, stop);
            }
        }
    }

    /// A buffer: one that came back, a new one, or in the end one to wait for.
    fn buffer(&self) -> Result<Buffer, Stop<E>> {
        let mut queue = lock(&self.queue);
        loop {
            // Every piece that this worker could still take is behind the failure.
            if self.failed_at.load(Ordering::Relaxed) < u64::MAX {
                return Err(Stop::Elsewhere);
            }
            if let Some(buffer) = queue.free.pop() {
                return Ok(buffer);
            }
            if queue.allocated < queue.buffers {
                let buffer = match self.backend {
                    Some(backend) => Ok(backend.alloc(self.piece_len)),
                    None => Buffer::try_zeroed(self.piece_len),
                };
                match buffer {
                    Ok(buffer) => {
                        queue.allocated += 1;
                        return Ok(buffer);
                    }
                    Err(_) if queue.allocated == 0 => return Err(CopyError::Memory.into()),
                    // Fewer will do; they come back.
                    Err(_) => queue.buffers = queue.allocated,
                }
            }
            queue.waiting += 1;
            queue = self
                .freed
                .wait(queue)
                .unwrap_or_else(PoisonError::into_inner);
            queue.waiting -= 1;
        }
    }

    fn give_back(&self, buffer: Buffer) {
        lock(&self.queue).free.push(buffer);
        self.freed.notify_all();
    }

    /// Reads the next piece; `None` when there are no more.
    fn take(&self, buffer: &mut [u8]) -> Result<Option<Taken>, (u64, Stop<E>)> {
        match &self.source {
            SharedSource::At { region, next } => {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let offset = index.saturating_mul(self.piece_len as u64);
                if offset >= region.len && index > 0 {
                    return Ok(None);
                }
                let left = region.len - offset;
                let len = usize::try_from(left).map_or(buffer.len(), |left| left.min(buffer.len()));
                self.check(index)
                    .and_then(|()| Ok(read_at(region, &mut buffer[..len], offset)?))
                    .map_err(|stop| (index, stop))?;
                Ok(Some(Taken {
                    index,
                    len,
                    at_end: left == len as u64,
                }))
            }
            SharedSource::Stream(stream) => {
                let mut stream = lock(stream);
                if stream.ended {
                    return Ok(None);
                }
                let index = stream.position / self.piece_len as u64;
                let mut len = 0;
                while len < buffer.len() {
                    self.check(index).map_err(|stop| (index, stop))?;
                    match stream.inner.read(&mut buffer[len..]) {
                        Ok(0) => {
                            stream.ended = true;
                            break;
                        }
                        Ok(read) => len += read,
                        Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                        Err(source) => {
                            stream.ended = true;
                            let offset = stream.position + len as u64;
                            let failure = CopyError::Read { offset, source };
                            return Err((index, failure.into()));
                        }
                    }
                }
                stream.position += len as u64;
                Ok(Some(Taken {
                    index,
                    len,
                    at_end: stream.ended,
                }))
            }
        }
    }

    /// Works on a piece.
    fn change(
        &self,
        mut buffer: Buffer,
        taken: &Taken,
        work: &dyn Fn(&mut Piece<'_>) -> Result<usize, E>,
    ) -> Result<Ready, Stop<E>> {
        let permit = self.permits.take();
        self.check(taken.index)?;
        let len = work(&mut Piece {
            offset: taken.index * self.piece_len as u64,
            len: taken.len,
            buffer: &mut buffer,
            at_end: taken.at_end,
        })
        .map_err(CopyError::Work)?;
        drop(permit);
        Ok(Ready {
            buffer,
            read: taken.len,
            len,
        })
    }

    /// Leaves a piece to the one that writes; if there is none, this is the one,
    /// until nothing is ready.
    fn pass_on(
        &self,
        index: u64,
        ready: Ready,
        progress: &dyn Fn(u64),
    ) -> Result<(), (u64, Stop<E>)> {
        let mut queue = lock(&self.queue);
        queue.ready.insert(index, ready);
        if queue.writing {
            return Ok(());
        }
        queue.writing = true;
        let mut index = queue.next;
        while let Some(ready) = queue.ready.remove(&index) {
            drop(queue);
            self.write(index, &ready.buffer[..ready.len])
                .map_err(|stop| (index, stop))?;
            queue = lock(&self.queue);
            queue.copied.read += ready.read as u64;
            queue.copied.written += ready.len as u64;
            if ready.len > 0 {
                let written = queue.copied.written;
                drop(queue);
                progress(written);
                queue = lock(&self.queue);
            }
            queue.free.push(ready.buffer);
            // Not one by one: to wake a thread costs as much as a few pieces.
            if queue.waiting > 0 && 2 * queue.free.len() >= queue.allocated {
                self.freed.notify_all();
            }
            queue.next += 1;
            index = queue.next;
        }
        queue.writing = false;
        if queue.waiting > 0 {
            self.freed.notify_all();
        }
        Ok(())
    }

    fn write(&self, index: u64, mut bytes: &[u8]) -> Result<(), Stop<E>> {
        let stream = &mut *lock(&self.sink);
        while !bytes.is_empty() {
            self.check(index)?;
            let offset = stream.position;
            let failed = |source| CopyError::Write { offset, source };
            match stream.inner.write(bytes) {
                Ok(0) => return Err(failed(io::ErrorKind::WriteZero.into()).into()),
                Ok(written) => {
                    stream.position += written as u64;
                    bytes = &bytes[written..];
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => return Err(failed(source).into()),
            }
        }
        Ok(())
    }

    /// Whether to go on with piece `index`; asked before everything that may take
    /// long.
    fn check(&self, index: u64) -> Result<(), Stop<E>> {
        if self.failed_at.load(Ordering::Relaxed) <= index {
            return Err(Stop::Elsewhere);
        }
        if self.cancel.load(Ordering::Relaxed) {
            return Err(CopyError::Cancelled.into());
        }
        Ok(())
    }

    /// Notes why piece `index` goes no further, and ends those behind it.
    fn stop(&self, index: u64, stop: Stop<E>) {
        let Stop::Failed(error) = stop else {
            return;
        };
        let index = match error {
            CopyError::Cancelled => 0,
            _ => index,
        };
        let mut failure = lock(&self.failure);
        if failure.as_ref().is_none_or(|(first, _)| index < *first) {
            *failure = Some((index, error));
        }
        drop(failure);
        self.end(index);
    }

    /// Ends the work on piece `index` and all behind it.
    fn end(&self, index: u64) {
        self.failed_at.fetch_min(index, Ordering::Relaxed);
        // Not between the check and the wait of somebody for whom no buffer comes back.
        let _queue = lock(&self.queue);
        self.freed.notify_all();
    }

    fn finish(self) -> Result<Copied, CopyError<E>> {
        if let Some((_, failure)) = lock(&self.failure).take() {
            return Err(failure);
        }
        let stream = &mut *lock(&self.sink);
        loop {
            if self.cancel.load(Ordering::Relaxed) {
                return Err(CopyError::Cancelled);
            }
            match stream.inner.flush() {
                Ok(()) => return Ok(lock(&self.queue).copied),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => {
                    let offset = stream.position;
                    return Err(CopyError::Write { offset, source });
                }
            }
        }
    }
}

/// As many permits as there are threads for the work in the middle: with more
/// workers than that, some read or write while others have the cores.
struct Permits {
    free: Mutex<usize>,
    freed: Condvar,
}

/// Given back when dropped.
struct Permit<'a>(&'a Permits);

impl Permits {
    fn new(threads: NonZeroUsize) -> Self {
        Self {
            free: Mutex::new(threads.get()),
            freed: Condvar::new(),
        }
    }

    /// Waits for a permit.
    fn take(&self) -> Permit<'_> {
        let free = lock(&self.free);
        let mut free = self
            .freed
            .wait_while(free, |free| *free == 0)
            .unwrap_or_else(PoisonError::into_inner);
        *free -= 1;
        Permit(self)
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        *lock(&self.0.free) += 1;
        self.0.freed.notify_one();
    }
}

/// Ends the other workers when one panics: they could wait for its buffer for ever.
struct PanicGuard<'a, 'b, E>(&'a Shared<'b, E>);

impl<E> Drop for PanicGuard<'_, '_, E> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.end(0);
        }
    }
}

/// Reads the bytes from `offset` of the region on.
fn read_at<E>(region: &Region<'_>, buffer: &mut [u8], offset: u64) -> Result<(), CopyError<E>> {
    if buffer.is_empty() {
        return Ok(());
    }
    let base = region.offset.saturating_add(offset);
    let Err(source) = region.storage.read_exact_at(buffer, base) else {
        return Ok(());
    };
    // A piece is large, and whoever has a disk with a bad sector wants to know where.
    let (mut offset, mut found) = (offset, source);
    for (i, part) in buffer.chunks_mut(512).enumerate() {
        let at = i as u64 * 512;
        if let Err(source) = region.storage.read_exact_at(part, base.saturating_add(at)) {
            (offset, found) = (offset + at, source);
            break;
        }
    }
    Err(CopyError::Read {
        offset,
        source: found,
    })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
