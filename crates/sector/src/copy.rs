// SPDX-License-Identifier: MIT OR Apache-2.0
//! Copies a source to a sink with several workers, which change the bytes on the way.
//!
//! Every worker takes the next piece of the source and changes it, all on its own core, in a buffer
//! that fits in that core's cache. All workers read a source with offsets at once, but a pipe one
//! at a time. A worker that has finished a piece while no other worker writes becomes the writer:
//! it writes that piece, then what the others have finished meanwhile. The others continue to read
//! and work in other buffers. So one worker always writes, in order, and none waits for its turn.
//!
//! There are two more workers than may change pieces at a time, so that reading, changing and
//! writing overlap while a core waits for a disk or a pipe.
//!
//! Measured on 2026-11-21 (2 cores, Intel Xeon with AMX, 2 MiB of L2 each, Linux 6.18, tmpfs):
//! encrypting 1 GiB from one file into another whose pages already exist. The variants ran in
//! alternation; medians of 11, in seconds.
//!
//! | | |
//! |---|---|
//! | `copy_file_range`, as `cp` does | 0.270 |
//! | `pwrite` alone, by one thread or two: the file's lock allows no more | 0.199 |
//! | workers that each write directly, pieces of 256 KiB, 512 KiB, 1 MiB | 0.206, 0.204, 0.207 |
//! | workers that wait for their turn to write, 512 KiB, 1 MiB | 0.259, 0.231 |
//! | three stages: a thread that reads, a pool for AES, a thread that writes; 6 × 4 MiB | 0.272 |
//! | input and output mapped into memory, two threads | 0.277 |
//!
//! The design used here is not in that table, because it was found later. `io_uring` would take the
//! same lock, and does not help with a disk. On a disk of that machine (virtio, ext4), 2 GiB in
//! pieces of 512 KiB, in GB/s by `fio --bs=512k --end_fsync=1` (3.33):
//!
//! | | read, `--direct=1` | write | read, `--direct=0` | write |
//! |---|---|---|---|---|
//! | `--ioengine=psync --numjobs=2` | 2.4 | 1.9 | 1.9 | 0.8 |
//! | `--ioengine=io_uring --iodepth=4` | 2.5 | 1.9 | 0.8 | 0.4 |
//!
//! Next to programs that used both cores (load 8, so the numbers are noisy), medians of 25 for 512
//! MiB: 0.47 for workers that each write directly, as each sleeps for the lock and then for a core;
//! 0.40 for the design used here (0.41 with 12 buffers, 0.44 with 2 or 3 workers); 0.39 for the
//! three stages; 0.25 for `cp`. Under such load this design is no faster than the three stages, but
//! needs half their memory. Mapped files would cost more than time: if a file is cut off meanwhile,
//! SIGBUS ends the process.

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

use luxor_engine::{Backend, Buffer};
use luxor_secret::with_key_stack;

use crate::{permits::Permits, storage::Storage};

/// The most bytes that the buffers of all workers have together, unless a single buffer is larger.
const MAX_MEMORY: usize = 32 << 20;

/// A range of bytes of a storage. A source that ends beyond the storage fails when it is read.
#[derive(Clone, Copy)]
pub struct Region<'a> {
    /// The storage that contains the region.
    pub storage: &'a dyn Storage,
    /// The first byte of the region in the storage.
    pub offset: u64,
    /// The length of the region in bytes.
    pub len: u64,
}

/// The source of a copy.
pub enum Source<'a> {
    /// Bytes at offsets, read in any order.
    At(Region<'a>),
    /// A stream, read to its end.
    ///
    /// [`io::ErrorKind::Interrupted`] is not an error. A source that may wait for long should
    /// return it now and then, so that the copy can end when another worker fails or
    /// [`Copier::cancel`] is set.
    Stream(&'a mut (dyn Read + Send)),
}

/// The settings of a copy.
#[derive(Clone, Copy)]
pub struct Copier<'a> {
    /// The number of bytes in every piece except the last.
    pub piece_len: NonZeroUsize,
    /// How many threads may change pieces at a time. Two more run to read and write meanwhile. One
    /// of them all is the calling thread. Fewer are started if the source is short or the buffers
    /// would exceed 32 MiB together.
    pub threads: NonZeroUsize,
    /// The backend that allocates the buffers
    /// ([`Backend::alloc`]), or `None` for ordinary memory.
    pub backend: Option<&'a dyn Backend>,
    /// When the caller sets this flag, the copy soon ends with [`CopyError::Cancelled`].
    pub cancel: &'a AtomicBool,
}

/// Consecutive bytes on their way from source to sink.
///
/// `Debug` shows lengths only, since the bytes may be plaintext.
pub struct Piece<'a> {
    /// The offset of the first byte from the start of the source.
    pub offset: u64,
    /// The number of bytes from the source. The buffer's bytes after these are unspecified.
    pub len: usize,
    /// A buffer of [`Copier::piece_len`] bytes that begins with the piece.
    pub buffer: &'a mut [u8],
    /// Whether this is the last piece. If a stream ends with a full piece, that is not yet known:
    /// this is `false`, and an empty piece follows.
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
    /// Borrows the same source for a shorter lifetime.
    pub fn reborrow(&mut self) -> Source<'_> {
        match self {
            Self::At(region) => Source::At(*region),
            Self::Stream(stream) => Source::Stream(*stream),
        }
    }

    /// The number of bytes, if it is known.
    #[must_use]
    pub fn known_len(&self) -> Option<u64> {
        match self {
            Self::At(region) => Some(region.len),
            Self::Stream(_) => None,
        }
    }
}

/// How many bytes were copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    /// Bytes read from the source.
    pub read: u64,
    /// Bytes written to the sink. This differs from `read` if the work changed the length of the
    /// last piece.
    pub written: u64,
}

/// Why a copy was not finished.
#[derive(Debug)]
pub enum CopyError<E> {
    /// The source failed.
    Read {
        /// The offset from the first byte of the source; exact to 512 bytes for [`Source::At`].
        offset: u64,
        /// The system's error.
        source: io::Error,
    },
    /// The sink failed.
    Write {
        /// The number of bytes written before.
        offset: u64,
        /// The system's error.
        source: io::Error,
    },
    /// The work on a piece failed.
    Work(E),
    /// There is not enough memory for a single buffer.
    Memory,
    /// [`Copier::cancel`] was set.
    Cancelled,
}

impl Copier<'_> {
    /// Copies all of `source` to `sink`. `work` changes each piece in its buffer, and returns how
    /// many bytes of the buffer to write: [`Piece::len`], except for the last piece, whose length
    /// `work` may change. Several threads call `work`, for pieces in any order. An empty source
    /// consists of one empty piece.
    ///
    /// `progress` receives the number of bytes written so far, which grows from call to call.
    /// [`io::ErrorKind::Interrupted`] from `sink` is not an error, as from a stream. The sink is
    /// flushed at the end.
    ///
    /// All threads have ended when this returns, and the buffers are wiped.
    ///
    /// # Errors
    /// The [`CopyError`] of the first piece that failed. The sink then contains the output before
    /// that piece, and possibly part of that piece.
    pub fn run<E: Send>(
        &self,
        mut source: Source<'_>,
        sink: &mut (dyn Write + Send),
        work: &(dyn Fn(&mut Piece<'_>) -> Result<usize, E> + Sync),
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<Copied, CopyError<E>> {
        let piece_len = self.piece_len.get();
        let mut workers = self.threads.get().saturating_add(2);
        // Two for each worker: one in work, and one that is ready or about to be filled.
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
                // If the system refuses more threads, continue with fewer.
                if thread.spawn_scoped(scope, worker).is_err() {
                    break;
                }
            }
            worker();
        });
        shared.finish()
    }
}

/// The state that all workers share.
struct Shared<'a, E> {
    piece_len: usize,
    backend: Option<&'a dyn Backend>,
    cancel: &'a AtomicBool,
    source: SharedSource<'a>,
    /// Locked by the writer.
    sink: Mutex<Stream<&'a mut (dyn Write + Send)>>,
    queue: Mutex<Queue>,
    /// Notified when buffers came back, and when the copy ends.
    freed: Condvar,
    permits: Permits,
    /// The index of the first piece that failed. Earlier pieces continue, so that the reported
    /// failure does not depend on which worker is faster.
    failed_at: AtomicU64,
    failure: Mutex<Option<(u64, CopyError<E>)>>,
}

enum SharedSource<'a> {
    At { region: Region<'a>, next: AtomicU64 },
    Stream(Mutex<Stream<&'a mut (dyn Read + Send)>>),
}

struct Stream<T> {
    inner: T,
    /// The number of bytes read or written so far.
    position: u64,
    ended: bool,
}

/// The state between the work and the sink.
#[derive(Default)]
struct Queue {
    /// The most buffers that may be allocated.
    buffers: usize,
    /// The number of buffers that are allocated.
    allocated: usize,
    free: Vec<Buffer>,
    /// The number of workers that wait for a buffer.
    waiting: usize,
    /// Finished pieces by index.
    ready: BTreeMap<u64, Ready>,
    /// The index of the piece to write next.
    next: u64,
    /// Whether a worker is writing.
    writing: bool,
    copied: Copied,
}

/// A finished piece.
struct Ready {
    buffer: Buffer,
    /// The number of bytes read from the source.
    read: usize,
    /// The number of bytes to write.
    len: usize,
}

/// A piece that was read.
struct Taken {
    /// The index of the piece.
    index: u64,
    len: usize,
    at_end: bool,
}

/// Why a worker ends early.
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
    /// The loop of one worker, until no pieces are left.
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

    /// Returns a free buffer, allocates a new one, or waits for one to come back.
    fn buffer(&self) -> Result<Buffer, Stop<E>> {
        let mut queue = lock(&self.queue);
        loop {
            // Every piece that this worker could still take comes after the failed one.
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
                    // Continue with the buffers there are.
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

    /// Reads the next piece. Returns `None` when no pieces are left.
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

    /// Does the work on a piece.
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

    /// Passes a finished piece to the writer. If there is none, this worker becomes the writer,
    /// until no piece is ready.
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
            // Wake waiting workers in groups: waking a thread costs as much as a few pieces.
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

    /// Whether to continue with piece `index`. Called before every step that may take long.
    fn check(&self, index: u64) -> Result<(), Stop<E>> {
        if self.failed_at.load(Ordering::Relaxed) <= index {
            return Err(Stop::Elsewhere);
        }
        if self.cancel.load(Ordering::Relaxed) {
            return Err(CopyError::Cancelled.into());
        }
        Ok(())
    }

    /// Records why piece `index` failed, and ends the work on later pieces.
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

    /// Ends the work on piece `index` and all later ones.
    fn end(&self, index: u64) {
        self.failed_at.fetch_min(index, Ordering::Relaxed);
        // Held so that the notification cannot fall between the check and the wait of a worker for
        // which no buffer will come back.
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

/// Ends the other workers if one panics: they could otherwise wait for its buffer forever.
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
    // A piece is large: find the bad sector, so that the error can name it.
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
