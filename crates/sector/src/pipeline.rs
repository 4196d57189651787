// SPDX-License-Identifier: MIT OR Apache-2.0
//! The copy behind `encrypt` and `decrypt`: whole sectors through a
//! [`Copier`], padding at the end, and the rules about lengths.

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

/// A multiple of every sector size. Small enough for a core's own cache, large
/// enough that calls and batches of units cost nothing beside the work.
pub const PIECE_LEN: usize = 512 << 10;

/// Bytes of a piece for a device: its queues share them, in batches of 1 MiB and more.
const DEVICE_PIECE_LEN: usize = 4 << 20;

/// Four of these are as many bytes as all buffers may have.
const MAX_PIECE_LEN: usize = 8 << 20;

/// The bytes of a piece where a source of `len` bytes is given to `key` piece by piece; and
/// `backend` if the pieces are so long because a device wants them so, whose memory they
/// are best in then. `None`, as of a pipe, may be a few bytes: for so few `key` would not
/// use a device.
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

/// What to do with a stream.
#[derive(Clone, Copy)]
pub struct Job<'a> {
    /// How the stream's bytes are numbered; its first is byte 0 of the segment.
    pub geometry: Geometry,
    /// The key.
    pub key: &'a dyn LoadedKey,
    /// Where `key` is from, if that may use a device: buffers for one are its own.
    pub backend: Option<&'a dyn Backend>,
    /// How many threads encrypt or decrypt at a time. Two more may read or write
    /// meanwhile.
    pub threads: NonZeroUsize,
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

/// Encrypts or decrypts all of `source` into `sink`.
///
/// When encrypting, the last sector is padded with zeros, and an empty source
/// becomes one sector of zeros. When decrypting, the source has whole sectors.
/// `progress` gets the number of bytes that are written, which grows from call
/// to call.
///
/// At most 32 MiB of buffers are in use, and wiped at the end. All threads have
/// ended when this returns.
///
/// # Errors
/// The [`PipelineError`] that comes first in the source; the sink then has a part
/// of the output.
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
    // What is known to be wrong is told before anything is written.
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

/// Copies all of `source` into `sink` as it is: a part of a volume that is not
/// encrypted. Otherwise as [`run`].
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
    /// Pads a piece and encrypts it, or decrypts it. Returns how many of its
    /// bytes are written.
    fn crypt(&self, piece: &mut Piece<'_>) -> Result<usize, PipelineError> {
        let (offset, len) = (piece.offset, piece.len);
        let total = offset + len as u64;
        self.check_len(total, piece.at_end)?;
        let sector = self.geometry.sector_size.bytes();
        let mut padded = len.next_multiple_of(sector);
        if self.direction == Direction::Encrypt && total == 0 {
            padded = sector;
        }
        let bytes = &mut piece.buffer[..padded];
        // An earlier use left other bytes there.
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

    /// Whether a source may have `total` bytes, or so many and more if not
    /// `at_end`.
    fn check_len(&self, total: u64, at_end: bool) -> Result<(), PipelineError> {
        if let Some(expected) = self.source_len()
            && (total > expected || (at_end && total < expected))
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
            && !total.is_multiple_of(sector_size.bytes() as u64)
        {
            return Err(PipelineError::PartSector {
                len: total,
                sector_size,
            });
        }
        Ok(())
    }

    /// The number of bytes that the source must have.
    fn source_len(&self) -> Option<u64> {
        let len = self.plaintext_len?;
        match self.direction {
            Direction::Encrypt => Some(len),
            // More than 2⁶⁴ cannot be read: any source is too short then.
            Direction::Decrypt => {
                let payload = self.geometry.sector_size.payload_len(len);
                Some(payload.unwrap_or(u64::MAX))
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
        /// Where, counted from its first byte; exact to 512 bytes.
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
    #[error("out of memory: {} KiB are needed", PIECE_LEN >> 10)]
    Memory,
    /// The flag [`Job::cancel`] was set.
    #[error("interrupted")]
    Cancelled,
}

#[cfg(test)]
mod tests;
