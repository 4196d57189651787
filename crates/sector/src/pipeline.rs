// SPDX-License-Identifier: MIT OR Apache-2.0
//! The streaming copy behind `encrypt` and `decrypt`: a thread that reads, the
//! caller's thread that has the [`Executor`] encrypt or decrypt, a thread that
//! writes, and a few buffers that go round between them.

use std::{
    io::{self, Read, Write},
    sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, RecvError, SyncSender, TryRecvError, sync_channel},
    },
    thread,
};

use luxor_engine::{Buffer, CryptError, Direction, Executor, LoadedKey};

use crate::geometry::{Geometry, GeometryError, SectorSize};

/// A multiple of every sector size; large enough that starting the executor's
/// threads and the system calls cost nothing beside the work.
const BUFFER_LEN: usize = 4 << 20;

/// One is read into, one is worked on, one is written, and the others let
/// neighbours differ in speed for a while. 24 MiB together.
const BUFFERS: usize = 6;

/// What to do with a stream.
#[derive(Clone, Copy)]
pub struct Job<'a> {
    /// How the stream's bytes are numbered; its first is byte 0 of the segment.
    pub geometry: Geometry,
    /// The key.
    pub key: &'a dyn LoadedKey,
    /// The threads that do the work.
    pub executor: &'a Executor,
    /// Which way.
    pub direction: Direction,
    /// The number of plaintext bytes where it is known beforehand.
    ///
    /// When encrypting, a source with fewer or more is an error. When
    /// decrypting, exactly so many bytes are written, and a source that is not
    /// just the sectors for them (at least one) is an error.
    pub plaintext_len: Option<u64>,
    /// Set from outside, this ends the work soon with
    /// [`PipelineError::Cancelled`].
    pub cancel: &'a AtomicBool,
}

/// How many bytes went through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    /// Bytes from the source.
    pub read: u64,
    /// Bytes to the sink: more than were read when the last sector was padded,
    /// fewer when padding was removed.
    pub written: u64,
}

/// Encrypts or decrypts all of `source` into `sink`.
///
/// When encrypting, the last sector is padded with zeros, and an empty source
/// becomes one sector of zeros. When decrypting, the source has whole sectors.
/// `progress` gets the number of bytes written after each buffer.
///
/// At most 24 MiB of buffers are in use, and wiped at the end. Both threads
/// have ended when this returns.
///
/// The flag in `job` is looked at between reads and between writes, also when
/// these return [`io::ErrorKind::Interrupted`], which is no error. A source or
/// sink that may wait for long should therefore return that now and then.
///
/// # Errors
/// The first [`PipelineError`]; the sink then has a part of the output.
pub fn run(
    job: &Job<'_>,
    source: &mut (dyn Read + Send),
    sink: &mut (dyn Write + Send),
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Copied, PipelineError> {
    let state = State {
        cancel: job.cancel,
        failure: OnceLock::new(),
    };
    let (read_sender, read_receiver) = sync_channel(BUFFERS);
    let (done_sender, done_receiver) = sync_channel(BUFFERS);
    let (empty_sender, empty_receiver) = sync_channel(BUFFERS);
    let (mut read, mut written) = (0, 0);

    thread::scope(|scope| {
        let spawned = thread::Builder::new()
            .name("luxor-read".into())
            .spawn_scoped(scope, || {
                let pool = Pool {
                    returned: empty_receiver,
                    allocated: 0,
                };
                read = state.keep(read_all(job, &state, source, pool, read_sender));
            });
        if let Err(source) = spawned {
            state.fail(PipelineError::Thread { source });
        }
        let spawned = thread::Builder::new()
            .name("luxor-write".into())
            .spawn_scoped(scope, || {
                written = state.keep(write_all(
                    job,
                    &state,
                    sink,
                    progress,
                    done_receiver,
                    empty_sender,
                ));
            });
        if let Err(source) = spawned {
            state.fail(PipelineError::Thread { source });
        }
        state.keep(crypt_all(job, &state, read_receiver, done_sender));
    });

    match state.failure.into_inner() {
        Some(failure) => Err(failure),
        None => Ok(Copied { read, written }),
    }
}

/// What the three stages share.
struct State<'a> {
    cancel: &'a AtomicBool,
    /// The first failure; the stages end when there is one.
    failure: OnceLock<PipelineError>,
}

/// Why a stage ended early.
enum Stop {
    /// It failed.
    Failed(PipelineError),
    /// Another one did.
    Elsewhere,
}

impl State<'_> {
    fn fail(&self, failure: PipelineError) {
        // Only the first is the cause; later ones follow from it.
        let _ = self.failure.set(failure);
    }

    fn keep<T: Default>(&self, result: Result<T, Stop>) -> T {
        match result {
            Ok(value) => value,
            Err(Stop::Elsewhere) => T::default(),
            Err(Stop::Failed(failure)) => {
                self.fail(failure);
                T::default()
            }
        }
    }

    /// Whether to go on; asked before everything that may take long.
    fn check(&self) -> Result<(), Stop> {
        if self.failure.get().is_some() {
            return Err(Stop::Elsewhere);
        }
        if self.cancel.load(Ordering::Relaxed) {
            return Err(PipelineError::Cancelled.into());
        }
        Ok(())
    }
}

impl From<PipelineError> for Stop {
    fn from(failure: PipelineError) -> Self {
        Self::Failed(failure)
    }
}

// A closed channel: the neighbour has ended, and left a failure or will.
impl From<RecvError> for Stop {
    fn from(_: RecvError) -> Self {
        Self::Elsewhere
    }
}

impl<T> From<std::sync::mpsc::SendError<T>> for Stop {
    fn from(_: std::sync::mpsc::SendError<T>) -> Self {
        Self::Elsewhere
    }
}

/// Whole sectors on their way.
struct Piece {
    buffer: Buffer,
    /// Bytes in use.
    len: usize,
    /// Where they begin in the segment.
    offset: u64,
}

/// Buffers, made when first needed: small files need one only.
struct Pool {
    returned: Receiver<Buffer>,
    allocated: usize,
}

impl Pool {
    fn take(&mut self) -> Result<Buffer, Stop> {
        match self.returned.try_recv() {
            Ok(buffer) => Ok(buffer),
            Err(TryRecvError::Empty) if self.allocated < BUFFERS => {
                match Buffer::try_zeroed(BUFFER_LEN) {
                    Ok(buffer) => {
                        self.allocated += 1;
                        Ok(buffer)
                    }
                    Err(_) if self.allocated == 0 => Err(PipelineError::Memory.into()),
                    // Fewer will do; they come back.
                    Err(_) => Ok(self.returned.recv()?),
                }
            }
            Err(_) => Ok(self.returned.recv()?),
        }
    }
}

/// Reads to the end, in whole sectors. Returns the number of bytes.
#[expect(
    clippy::needless_pass_by_value,
    reason = "the channels close when this ends"
)]
fn read_all(
    job: &Job<'_>,
    state: &State<'_>,
    source: &mut dyn Read,
    mut pool: Pool,
    pieces: SyncSender<Piece>,
) -> Result<u64, Stop> {
    let sector = job.geometry.sector_size.bytes();
    let expected = job.source_len();
    let mut total = 0;
    loop {
        let mut buffer = pool.take()?;
        let offset = total;
        let len = fill(state, source, &mut buffer, offset)?;
        total += len as u64;
        let at_end = len < buffer.len();
        if let Some(expected) = expected
            && (total > expected || (at_end && total < expected))
        {
            return Err(PipelineError::SourceLen {
                found: total,
                expected,
                at_end,
            }
            .into());
        }
        let mut padded = len.next_multiple_of(sector);
        match job.direction {
            Direction::Decrypt if padded != len => {
                let sector_size = job.geometry.sector_size;
                return Err(PipelineError::PartSector {
                    len: total,
                    sector_size,
                }
                .into());
            }
            Direction::Encrypt if total == 0 => padded = sector,
            Direction::Encrypt | Direction::Decrypt => {}
        }
        // An earlier use left other bytes there.
        buffer[len..padded].fill(0);
        if padded > 0 {
            pieces.send(Piece {
                buffer,
                len: padded,
                offset,
            })?;
        }
        if at_end {
            return Ok(total);
        }
    }
}

/// Reads until `buffer` is full or the source ends.
fn fill(
    state: &State<'_>,
    source: &mut dyn Read,
    buffer: &mut [u8],
    offset: u64,
) -> Result<usize, Stop> {
    let mut len = 0;
    while len < buffer.len() {
        state.check()?;
        match source.read(&mut buffer[len..]) {
            Ok(0) => break,
            Ok(read) => len += read,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(source) => {
                return Err(PipelineError::Read {
                    offset: offset + len as u64,
                    source,
                }
                .into());
            }
        }
    }
    Ok(len)
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "the channels close when this ends"
)]
fn crypt_all(
    job: &Job<'_>,
    state: &State<'_>,
    pieces: Receiver<Piece>,
    done: SyncSender<Piece>,
) -> Result<(), Stop> {
    for mut piece in &pieces {
        state.check()?;
        let Piece {
            buffer,
            len,
            offset,
        } = &mut piece;
        let mut runs = job
            .geometry
            .runs(*offset, &mut buffer[..*len])
            .map_err(|source| PipelineError::Geometry { source })?;
        job.executor
            .crypt(job.key, job.direction, &mut runs)
            .map_err(|source| {
                let units = source.done * job.geometry.sector_size.bytes();
                PipelineError::Crypt {
                    offset: *offset + units as u64,
                    source,
                }
            })?;
        drop(runs);
        done.send(piece)?;
    }
    Ok(())
}

/// Writes all pieces. Returns the number of bytes.
#[expect(
    clippy::needless_pass_by_value,
    reason = "the channels close when this ends"
)]
fn write_all(
    job: &Job<'_>,
    state: &State<'_>,
    sink: &mut dyn Write,
    progress: &dyn Fn(u64),
    done: Receiver<Piece>,
    empty: SyncSender<Buffer>,
) -> Result<u64, Stop> {
    let limit = match job.direction {
        Direction::Encrypt => u64::MAX,
        Direction::Decrypt => job.plaintext_len.unwrap_or(u64::MAX),
    };
    let mut total = 0;
    for piece in &done {
        let len = usize::try_from(limit - total).map_or(piece.len, |left| left.min(piece.len));
        let mut bytes = &piece.buffer[..len];
        while !bytes.is_empty() {
            state.check()?;
            let failed = |source| PipelineError::Write {
                offset: total,
                source,
            };
            match sink.write(bytes) {
                Ok(0) => return Err(failed(io::ErrorKind::WriteZero.into()).into()),
                Ok(written) => {
                    total += written as u64;
                    bytes = &bytes[written..];
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => return Err(failed(source).into()),
            }
        }
        progress(total);
        // The reader may have ended, and needs no more buffers then.
        let _ = empty.send(piece.buffer);
    }
    loop {
        state.check()?;
        match sink.flush() {
            Ok(()) => return Ok(total),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(source) => {
                return Err(PipelineError::Write {
                    offset: total,
                    source,
                }
                .into());
            }
        }
    }
}

impl Job<'_> {
    /// The number of bytes that the source must have.
    fn source_len(&self) -> Option<u64> {
        let len = self.plaintext_len?;
        match self.direction {
            Direction::Encrypt => Some(len),
            Direction::Decrypt => {
                let sector = self.geometry.sector_size.bytes() as u64;
                // More than 2⁶⁴ cannot be read: any source is too short then.
                Some(
                    len.max(1)
                        .checked_next_multiple_of(sector)
                        .unwrap_or(u64::MAX),
                )
            }
        }
    }
}

/// Why a stream was not encrypted or decrypted to its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PipelineError {
    /// The source failed.
    #[error("cannot read at byte {offset}")]
    Read {
        /// So many bytes had been read.
        offset: u64,
        /// What the system said.
        source: io::Error,
    },
    /// The sink failed.
    #[error("cannot write at byte {offset}")]
    Write {
        /// So many bytes had been written.
        offset: u64,
        /// What the system said.
        source: io::Error,
    },
    /// The engine failed.
    #[error("the sector at byte {offset} could not be processed")]
    Crypt {
        /// Where the first sector that was not done begins in the segment.
        offset: u64,
        /// What the engine said.
        source: CryptError,
    },
    /// The bytes are no data units.
    #[error("the volume's sectors cannot be numbered")]
    Geometry {
        /// Why.
        source: GeometryError,
    },
    /// Ciphertext ends within a sector.
    #[error(
        "the encrypted data end after {len} bytes, within a sector of {sector_size} bytes: a part \
         is missing"
    )]
    PartSector {
        /// Bytes in the source.
        len: u64,
        /// The segment's sector size.
        sector_size: SectorSize,
    },
    /// The source is shorter or longer than [`Job::plaintext_len`] says.
    #[error(
        "the input has {}{found} bytes where {expected} were expected",
        if *at_end { "" } else { "at least " }
    )]
    SourceLen {
        /// Bytes read.
        found: u64,
        /// Bytes that should be there.
        expected: u64,
        /// Whether these are all.
        at_end: bool,
    },
    /// There is no memory for a single buffer.
    #[error("out of memory: {} KiB are needed", BUFFER_LEN >> 10)]
    Memory,
    /// The flag [`Job::cancel`] was set.
    #[error("interrupted")]
    Cancelled,
    /// The system started no thread.
    #[error("cannot start a thread")]
    Thread {
        /// What the system said.
        source: io::Error,
    },
}

#[cfg(test)]
mod tests;
