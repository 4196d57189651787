// SPDX-License-Identifier: MIT OR Apache-2.0
//! The copy behind `encrypt` and `decrypt`: it passes whole sectors through a [`Copier`], pads the
//! end, and checks lengths.

use std::{
    io::{self, Write},
    num::NonZeroUsize,
    sync::atomic::AtomicBool,
};

use luxor_engine::{Backend, CryptError, Direction, LoadedKey};

pub use crate::copy::{Copied, Region, Source};
use crate::{
    copy::{Copier, CopyError, Piece},
    geometry::{Geometry, GeometryError, SectorSize},
};

/// The length of a piece in bytes, a multiple of every sector size. It is small enough for a core's
/// own cache, and large enough that the cost of calls and batches does not matter.
pub const PIECE_LEN: usize = 512 << 10;

/// The least length of a piece for a device, which divides it among its queues in batches of 1 MiB
/// and more.
const DEVICE_PIECE_LEN: usize = 4 << 20;

/// The greatest length of a piece: four of these are as many bytes as all buffers may have
/// together.
const MAX_PIECE_LEN: usize = 8 << 20;

/// Returns the [length of the pieces](Copier::piece_len) in which to pass a source of `len` bytes
/// to `key`, and the [backend](Copier::backend) that allocates their buffers: `backend` if the
/// pieces are long because `key` uses a device, otherwise `None`.
///
/// A `len` of `None`, as for a pipe, may turn out to be a few bytes, for which `key` would not use
/// a device, so it counts as 0.
#[must_use]
pub fn pieces<'a>(
    key: &dyn LoadedKey,
    backend: Option<&'a dyn Backend>,
    len: Option<u64>,
) -> (usize, Option<&'a dyn Backend>) {
    let from = key.whole_from();
    if from > MAX_PIECE_LEN || len.unwrap_or(0) < from as u64 {
        return (PIECE_LEN, None);
    }
    (from.next_power_of_two().max(DEVICE_PIECE_LEN), backend)
}

/// A stream to encrypt or decrypt.
#[derive(Clone, Copy)]
pub struct Job<'a> {
    /// How the stream's bytes are numbered; its first byte is byte 0 of the segment.
    pub geometry: Geometry,
    /// The key, in the mode of the volume.
    pub key: &'a dyn LoadedKey,
    /// The backend that loaded `key`, if it may use a device: it allocates the buffers then. `None`
    /// is always correct.
    pub backend: Option<&'a dyn Backend>,
    /// How many threads encrypt or decrypt at a time. Up to two more read or write meanwhile.
    pub threads: NonZeroUsize,
    /// Whether to encrypt or decrypt.
    pub direction: Direction,
    /// The number of plaintext bytes, if it is known beforehand.
    ///
    /// When encrypting, a source with fewer or more bytes is an error. When decrypting, exactly
    /// this many bytes are written, and the source must be exactly the sectors that hold them, at
    /// least one.
    pub plaintext_len: Option<u64>,
    /// Whether the source of a decryption may end early. Then the whole sectors before its end are
    /// decrypted.
    pub may_be_cut_off: bool,
    /// When the caller sets this flag, the work soon ends with [`PipelineError::Cancelled`].
    pub cancel: &'a AtomicBool,
}

/// Encrypts or decrypts all of `source` into `sink`.
///
/// When encrypting, the last sector is padded with zeros, and an empty source becomes one sector of
/// zeros. When decrypting, the source must be whole sectors. `progress` receives the number of
/// bytes written so far, which grows from call to call.
///
/// At most 32 MiB of buffers are used, and they are wiped at the end. All threads have ended when
/// this returns. The sink is flushed.
///
/// # Errors
/// The [`PipelineError`] that comes first in the source. The sink then contains part of the output.
/// If the length of the source is known and wrong, nothing has been written.
pub fn run(
    job: &Job<'_>,
    source: Source<'_>,
    sink: &mut (dyn Write + Send),
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Copied, PipelineError> {
    let (piece_len, backend) = pieces(job.key, job.backend, source.known_len());
    let job = Job { backend, ..*job };
    run_in_pieces(&job, source, sink, progress, piece_len)
}

fn run_in_pieces(
    job: &Job<'_>,
    source: Source<'_>,
    sink: &mut (dyn Write + Send),
    progress: &(dyn Fn(u64) + Sync),
    piece_len: usize,
) -> Result<Copied, PipelineError> {
    // Report a wrong length before writing anything, if it is known.
    if let Source::At(region) = &source {
        job.check_len(region.len, true)?;
    }
    let copier = Copier {
        piece_len: NonZeroUsize::new(piece_len).expect("not zero"),
        threads: job.threads,
        backend: job.backend,
        cancel: job.cancel,
    };
    let copied = copier.run(source, sink, &|piece| job.crypt(piece), progress);
    Ok(copied?)
}

/// Copies all of `source` into `sink` unchanged, for a part of a volume that is not encrypted.
/// Otherwise as [`run`].
///
/// # Errors
/// The [`PipelineError`] that comes first in the source.
pub fn pass(
    threads: NonZeroUsize,
    source: Source<'_>,
    sink: &mut (dyn Write + Send),
    cancel: &AtomicBool,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Copied, PipelineError> {
    let copier = Copier {
        piece_len: const { NonZeroUsize::new(PIECE_LEN).expect("not zero") },
        threads,
        backend: None,
        cancel,
    };
    let copied = copier.run::<PipelineError>(source, sink, &|piece| Ok(piece.len), progress);
    Ok(copied?)
}

impl From<CopyError<Self>> for PipelineError {
    fn from(error: CopyError<Self>) -> Self {
        match error {
            CopyError::Read { offset, source } => Self::Read { offset, source },
            CopyError::Write { offset, source } => Self::Write { offset, source },
            CopyError::Work(error) => error,
            CopyError::Memory => Self::Memory,
            CopyError::Cancelled => Self::Cancelled,
        }
    }
}

impl Job<'_> {
    /// Pads and encrypts a piece, or decrypts it. Returns how many of its bytes to write.
    fn crypt(&self, piece: &mut Piece<'_>) -> Result<usize, PipelineError> {
        let (offset, mut len) = (piece.offset, piece.len);
        let sector = self.geometry.sector_size.bytes();
        if self.may_be_cut_off && piece.at_end {
            len -= len % sector;
        }
        let total = offset + len as u64;
        self.check_len(total, piece.at_end)?;
        let padded = match self.direction {
            Direction::Encrypt => self.geometry.sector_size.payload_len(total),
            Direction::Decrypt => total.checked_next_multiple_of(sector as u64),
        };
        let padded = padded.expect("no storage has 2^64 bytes") - offset;
        let padded = usize::try_from(padded).expect("a piece fits into memory");
        let bytes = &mut piece.buffer[..padded];
        // The buffer may contain bytes of an earlier piece.
        bytes[len..].fill(0);

        let mut runs = self
            .geometry
            .runs(offset, &mut *bytes)
            .map_err(|source| PipelineError::Geometry { source })?;
        self.key
            .crypt(self.direction, &mut runs)
            .map_err(|source| {
                let done = (source.done * sector) as u64;
                PipelineError::Crypt {
                    offset: offset + done,
                    source,
                }
            })?;

        let limit = match self.direction {
            Direction::Encrypt => None,
            Direction::Decrypt => self.plaintext_len,
        };
        let left = limit.map_or(u64::MAX, |limit| limit.saturating_sub(offset));
        Ok(usize::try_from(left).map_or(padded, |left| left.min(padded)))
    }

    /// Checks whether a source may have `total` bytes, or at least `total` if not `at_end`.
    fn check_len(&self, total: u64, at_end: bool) -> Result<(), PipelineError> {
        if let Some(expected) = self.source_len()
            && (total > expected || (at_end && total < expected && !self.may_be_cut_off))
        {
            return Err(PipelineError::SourceLen {
                found: total,
                expected,
                at_end,
            });
        }
        let sector_size = self.geometry.sector_size;
        if at_end
            && self.direction == Direction::Decrypt
            && !self.may_be_cut_off
            && !total.is_multiple_of(sector_size.bytes() as u64)
        {
            return Err(PipelineError::PartSector {
                len: total,
                sector_size,
            });
        }
        Ok(())
    }

    /// The number of bytes that the source must have, if that is known.
    fn source_len(&self) -> Option<u64> {
        let len = self.plaintext_len?;
        match self.direction {
            Direction::Encrypt => Some(len),
            // No source has 2⁶⁴ bytes, so every source is too short then.
            Direction::Decrypt => {
                let payload = self.geometry.sector_size.payload_len(len);
                Some(payload.unwrap_or(u64::MAX))
            }
        }
    }
}

/// Why a stream was not completely encrypted or decrypted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PipelineError {
    /// The source failed.
    #[error("cannot read at byte {offset}")]
    Read {
        /// The offset from the first byte of the source, exact to 512 bytes.
        offset: u64,
        /// The system's error.
        source: io::Error,
    },
    /// The sink failed.
    #[error("cannot write at byte {offset}")]
    Write {
        /// The number of bytes written before.
        offset: u64,
        /// The system's error.
        source: io::Error,
    },
    /// The engine failed.
    #[error("the sector at byte {offset} could not be processed")]
    Crypt {
        /// The start of the first unfinished sector, in the segment.
        offset: u64,
        /// The engine's error.
        source: CryptError,
    },
    /// The bytes cannot be divided into data units.
    #[error("the volume's sectors cannot be numbered")]
    Geometry {
        /// The cause.
        source: GeometryError,
    },
    /// The ciphertext ends within a sector.
    #[error(
        "the encrypted data end after {len} bytes, within a sector of {sector_size} bytes: a part \
         is missing"
    )]
    PartSector {
        /// The number of bytes in the source.
        len: u64,
        /// The segment's sector size.
        sector_size: SectorSize,
    },
    /// The source is shorter or longer than [`Job::plaintext_len`] requires.
    #[error(
        "the input has {}{found} bytes where {expected} were expected",
        if *at_end { "" } else { "at least " }
    )]
    SourceLen {
        /// The number of bytes read.
        found: u64,
        /// The required number of bytes.
        expected: u64,
        /// Whether the source ended there.
        at_end: bool,
    },
    /// There is not enough memory for a single buffer.
    #[error("out of memory: {} KiB are needed", PIECE_LEN >> 10)]
    Memory,
    /// [`Job::cancel`] was set.
    #[error("interrupted")]
    Cancelled,
}

#[cfg(test)]
mod tests;
