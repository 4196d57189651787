// SPDX-License-Identifier: MIT OR Apache-2.0
//! Changes the encryption of data where they are: the part of a re-encryption that moves bytes.
//!
//! A zone is a range of the plaintext that is changed at once. Every worker takes the next piece of it,
//! reads, decrypts, encrypts and writes it, all in a buffer that fits in its core's cache. A zone that
//! must survive a crash is first read as a whole, and stays in memory, so that it is read only once:
//!
//! ```text
//! checksums      of each block as it is stored; afterwards a block that still has its checksum is
//!                known to be the old one
//! a journal      the zone itself, as it is stored
//! ```

use std::{
    io,
    num::NonZeroUsize,
    ops::Range,
    sync::{Mutex, PoisonError},
    thread,
};

use luxor_engine::{Buffer, CryptError, Direction, LoadedKey};
use luxor_secret::with_key_stack;

use crate::{
    geometry::{Geometry, GeometryError},
    permits::Permits,
    storage::{ReadAt, Storage},
};

/// The number of bytes that a worker changes at a time. Zones are divided at multiples of it, which
/// are multiples of every sector and block.
const PIECE_LEN: usize = 256 << 10;

/// The encryption of data, and their place.
#[derive(Clone, Copy)]
pub struct Side<'a> {
    /// The byte of the storage that has byte 0 of the plaintext.
    pub offset: u64,
    /// `None` for data that are not encrypted.
    pub cipher: Option<(Geometry, &'a dyn LoadedKey)>,
}

/// Blocks of data and their checksums, which recognise a block that was not changed yet.
#[derive(Clone, Copy)]
pub struct Blocks<'a> {
    /// The length of a block in bytes: a power of two, at most 256 KiB.
    pub len: usize,
    /// The length of a checksum in bytes.
    pub checksum_len: usize,
    /// Writes the checksum of its first argument to the second one.
    pub checksum: &'a (dyn Fn(&[u8], &mut [u8]) + Sync),
}

impl Blocks<'_> {
    /// The longest block in bytes.
    pub const MAX_LEN: usize = PIECE_LEN;

    /// Returns how many blocks come before byte `at` of a zone.
    fn index(&self, at: u64) -> usize {
        let index = at / self.len as u64;
        usize::try_from(index).expect("the checksums before it are in memory")
    }
}

/// What to do with a piece that begins at a position of the plaintext.
type Work<'a> = dyn Fn(u64, &mut [u8]) -> Result<(), RewriteError> + Sync + 'a;

/// A change of the encryption of data. Positions are those in the plaintext, in bytes, and multiples
/// of the sectors of both sides.
#[derive(Clone, Copy)]
pub struct Rewrite<'a> {
    /// The data.
    pub storage: &'a dyn Storage,
    /// The data as they are.
    pub old: Side<'a>,
    /// The data as they will be.
    pub new: Side<'a>,
    /// How many threads decrypt and encrypt, or compute checksums, at a time.
    pub threads: NonZeroUsize,
    /// How many threads there are where they read or write too. One of them is the calling thread.
    pub transfers: NonZeroUsize,
}

impl Rewrite<'_> {
    /// Reads the old data of `zone`, as they are stored, into `bytes`, which have its length. All of it is
    /// requested at once.
    ///
    /// # Errors
    /// [`RewriteError::Read`] if something cannot be read.
    pub fn read(&self, zone: &Range<u64>, bytes: &mut [u8]) -> Result<(), RewriteError> {
        let offsets = (self.old.offset + zone.start..).step_by(PIECE_LEN);
        let pieces = bytes.chunks_mut(PIECE_LEN).zip(offsets);
        let mut reads: Vec<_> = pieces
            .map(|(buf, offset)| ReadAt {
                buf,
                offset,
                result: Ok(()),
            })
            .collect();
        self.storage.read_batch(&mut reads);
        for ReadAt { offset, result, .. } in reads {
            result.map_err(|source| RewriteError::Read { offset, source })?;
        }
        Ok(())
    }

    /// Makes `bytes`, the data of `zone` as they are stored, the old ones: those from position
    /// `changed_from` on were changed before. The storage stays as it is.
    ///
    /// # Errors
    /// [`RewriteError`] if the engine fails.
    pub fn undo(
        &self,
        zone: &Range<u64>,
        changed_from: u64,
        bytes: &mut [u8],
    ) -> Result<(), RewriteError> {
        let first = changed_from.clamp(zone.start, zone.end);
        let unchanged = usize::try_from(first - zone.start).unwrap_or(bytes.len());
        let bytes = bytes.get_mut(unchanged..);
        Self::each_piece(self.threads, &(first..zone.end), bytes, &|at, piece| {
            crypt(self.new, Direction::Decrypt, at, piece)?;
            crypt(self.old, Direction::Encrypt, at, piece)
        })
    }

    /// Returns the checksums of the blocks of `zone`, one after the other. Its old data, as they are
    /// stored, are `bytes`.
    ///
    /// # Errors
    /// [`RewriteError::Memory`] if memory is short.
    pub fn checksums(
        &self,
        zone: &Range<u64>,
        bytes: &mut [u8],
        blocks: Blocks<'_>,
    ) -> Result<Vec<u8>, RewriteError> {
        let all = Mutex::new(vec![
            0;
            bytes.len().div_ceil(blocks.len) * blocks.checksum_len
        ]);
        Self::each_piece(self.threads, zone, Some(bytes), &|at, piece| {
            let mut found = vec![0; piece.len().div_ceil(blocks.len) * blocks.checksum_len];
            let places = found.chunks_mut(blocks.checksum_len);
            for (block, checksum) in piece.chunks(blocks.len).zip(places) {
                (blocks.checksum)(block, checksum);
            }
            let first = blocks.index(at - zone.start) * blocks.checksum_len;
            let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
            all[first..first + found.len()].copy_from_slice(&found);
            Ok(())
        })?;
        Ok(all.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    /// Copies the old data of `zone`, as they are stored, which are `bytes`, to byte `offset` of `journal`.
    ///
    /// # Errors
    /// [`RewriteError::Write`] if something cannot be written.
    pub fn copy(
        &self,
        zone: &Range<u64>,
        bytes: &mut [u8],
        journal: &dyn Storage,
        offset: u64,
    ) -> Result<(), RewriteError> {
        Self::each_piece(self.transfers, zone, Some(bytes), &|at, piece| {
            write(journal, piece, offset + (at - zone.start))
        })
    }

    /// Changes all of `zone`.
    ///
    /// # Errors
    /// [`RewriteError`] if something cannot be read or written, the engine fails, or memory is short.
    /// A part of the zone has changed then.
    pub fn run(&self, zone: &Range<u64>) -> Result<(), RewriteError> {
        let permits = Permits::new(self.threads);
        Self::each_piece(self.transfers, zone, None, &|at, piece| {
            self.read_piece(at, piece)?;
            self.change_piece(&permits, at, piece)
        })
    }

    /// Changes all of `zone`, of which a part may have changed already. Its old data, as they are
    /// stored, are `bytes`.
    ///
    /// # Errors
    /// Those of [`Rewrite::run`].
    pub fn run_from(&self, zone: &Range<u64>, bytes: &mut [u8]) -> Result<(), RewriteError> {
        let permits = Permits::new(self.threads);
        Self::each_piece(self.transfers, zone, Some(bytes), &|at, piece| {
            self.change_piece(&permits, at, piece)
        })
    }

    /// Changes the blocks of `zone` that still have their old checksums, which are those that
    /// [`Rewrite::checksums`] returned for it. The others are written again, because after a failed
    /// sync the system may show blocks that the disk does not have.
    ///
    /// # Errors
    /// Those of [`Rewrite::run`], and [`RewriteError::NoChecksum`] if the zone ends within a block that
    /// is neither old nor new by its checksum.
    ///
    /// # Panics
    /// If there are fewer checksums than blocks.
    pub fn run_where_old(
        &self,
        zone: &Range<u64>,
        blocks: Blocks<'_>,
        checksums: &[u8],
    ) -> Result<(), RewriteError> {
        let permits = Permits::new(self.threads);
        Self::each_piece(self.threads, zone, None, &|at, piece| {
            self.read_piece(at, piece)?;
            let first = blocks.index(at - zone.start);
            let mut old = checksums.chunks(blocks.checksum_len).skip(first);
            let mut found = vec![0; blocks.checksum_len];
            let places = (at..).step_by(blocks.len);
            for (block, at) in piece.chunks_mut(blocks.len).zip(places) {
                let old = old.next().expect("each block has a checksum");
                (blocks.checksum)(block, &mut found);
                if found == old {
                    self.change_piece(&permits, at, block)?;
                    continue;
                }
                // cryptsetup stores no checksum of a block that is cut short by the end of the zone. What
                // stands in its place says nothing, so the block must prove that it is new.
                if block.len() < blocks.len {
                    let mut before = block.to_vec();
                    crypt(self.new, Direction::Decrypt, at, &mut before)?;
                    crypt(self.old, Direction::Encrypt, at, &mut before)?;
                    (blocks.checksum)(&before, &mut found);
                    if found != old {
                        let offset = self.new.offset + at;
                        let len = block.len();
                        return Err(RewriteError::NoChecksum { offset, len });
                    }
                }
                write(self.storage, block, self.new.offset + at)?;
            }
            Ok(())
        })
    }

    fn read_piece(&self, position: u64, bytes: &mut [u8]) -> Result<(), RewriteError> {
        let offset = self.old.offset + position;
        let read = self.storage.read_exact_at(bytes, offset);
        read.map_err(|source| RewriteError::Read { offset, source })
    }

    fn change_piece(
        &self,
        permits: &Permits,
        position: u64,
        bytes: &mut [u8],
    ) -> Result<(), RewriteError> {
        let permit = permits.take();
        crypt(self.old, Direction::Decrypt, position, bytes)?;
        crypt(self.new, Direction::Encrypt, position, bytes)?;
        drop(permit);
        write(self.storage, bytes, self.new.offset + position)
    }

    /// Calls `work` with the pieces of `zone` and their positions, from `threads` threads and in any
    /// order. The pieces are parts of `bytes`, which have the length of the zone, or else buffers
    /// whose contents do not count.
    fn each_piece(
        threads: NonZeroUsize,
        zone: &Range<u64>,
        bytes: Option<&mut [u8]>,
        work: &Work<'_>,
    ) -> Result<(), RewriteError> {
        if zone.is_empty() {
            return Ok(());
        }
        let is_in_memory = bytes.is_some();
        let bytes = bytes.unwrap_or_default();
        let positions = (zone.start..zone.end).step_by(PIECE_LEN);
        let count = positions.clone().count();
        let mut parts = bytes.chunks_mut(PIECE_LEN);
        let queue = Mutex::new(positions.map(|at| (at, parts.next())));
        let failure: Mutex<Option<(u64, RewriteError)>> = Mutex::new(None);
        let worker = || {
            let fail = |at: u64, error: RewriteError| {
                let mut failure = failure.lock().unwrap_or_else(PoisonError::into_inner);
                if failure.as_ref().is_none_or(|(first, _)| at < *first) {
                    *failure = Some((at, error));
                }
            };
            let len = if is_in_memory { 0 } else { PIECE_LEN };
            let Ok(mut buffer) = Buffer::try_zeroed(len) else {
                return fail(zone.start, RewriteError::Memory);
            };
            loop {
                let has_failed = failure
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .is_some();
                let next = queue.lock().unwrap_or_else(PoisonError::into_inner).next();
                let Some((at, part)) = next.filter(|_| !has_failed) else {
                    return;
                };
                let rest = usize::try_from(zone.end - at).unwrap_or(PIECE_LEN);
                let piece = part.unwrap_or_else(|| &mut buffer[..rest.min(PIECE_LEN)]);
                if let Err(error) = with_key_stack(|| work(at, piece)) {
                    return fail(at, error);
                }
            }
        };
        thread::scope(|scope| {
            for _ in 1..threads.get().min(count) {
                let thread = thread::Builder::new().name("luxor-rewrite".into());
                // If the system refuses more threads, continue with fewer.
                if thread.spawn_scoped(scope, worker).is_err() {
                    break;
                }
            }
            worker();
        });
        let failure = failure.into_inner().unwrap_or_else(PoisonError::into_inner);
        failure.map_or(Ok(()), |(_, error)| Err(error))
    }
}

fn crypt(
    side: Side<'_>,
    direction: Direction,
    position: u64,
    bytes: &mut [u8],
) -> Result<(), RewriteError> {
    let Some((geometry, key)) = side.cipher else {
        return Ok(());
    };
    let mut runs = geometry.runs(position, bytes)?;
    Ok(key.crypt(direction, &mut runs)?)
}

fn write(storage: &dyn Storage, bytes: &[u8], offset: u64) -> Result<(), RewriteError> {
    let written = storage.write_all_at(bytes, offset);
    written.map_err(|source| RewriteError::Write { offset, source })
}

/// Why a zone was not changed completely.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RewriteError {
    /// The storage failed.
    #[error("cannot read at byte {offset}: {source}")]
    Read {
        /// Where in the storage, in bytes.
        offset: u64,
        /// The system's error.
        source: io::Error,
    },
    /// The storage failed.
    #[error("cannot write at byte {offset}: {source}")]
    Write {
        /// Where in the storage, in bytes.
        offset: u64,
        /// The system's error.
        source: io::Error,
    },
    /// The zone ends with a part of a block, whose checksum is missing or belongs to other bytes.
    #[error(
        "the checksum does not show whether the {len} bytes from byte {offset} on were changed"
    )]
    NoChecksum {
        /// Where in the storage, in bytes.
        offset: u64,
        /// The length of the part in bytes.
        len: usize,
    },
    /// The engine failed.
    #[error("the engine failed: {0}")]
    Crypt(#[from] CryptError),
    /// The bytes cannot be divided into data units.
    #[error("the sectors cannot be numbered: {0}")]
    Geometry(#[from] GeometryError),
    /// There is not enough memory for a buffer.
    #[error("out of memory: {} KiB are needed", PIECE_LEN >> 10)]
    Memory,
}
