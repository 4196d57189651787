// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random bytes: for salts and UUIDs, and to fill unused places, so that they look like used ones.

use std::{io, ops::Range};

use uuid::Uuid;

/// Returns `len` random bytes.
///
/// # Errors
/// The error of the system's random number generator.
pub fn random(len: usize) -> Result<Vec<u8>, getrandom::Error> {
    let mut bytes = vec![0; len];
    getrandom::fill(&mut bytes)?;
    Ok(bytes)
}

/// Returns a random UUID of version 4 (RFC 9562).
///
/// # Errors
/// The error of the system's random number generator.
pub fn uuid() -> Result<Uuid, getrandom::Error> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)?;
    Ok(uuid::Builder::from_random_bytes(bytes).into_uuid())
}

/// Passes random bytes for all of `range` to `write`, in pieces of up to 256 KiB, with the offset
/// of each.
///
/// # Errors
/// An error of `write`, or of the system's random number generator.
pub fn write(
    range: Range<u64>,
    mut write: impl FnMut(&[u8], u64) -> io::Result<()>,
) -> io::Result<()> {
    const PIECE: usize = 256 << 10;
    let mut piece = vec![0; PIECE];
    let mut offset = range.start;
    while offset < range.end {
        let len = usize::try_from(range.end - offset).map_or(PIECE, |left| left.min(PIECE));
        getrandom::fill(&mut piece[..len]).map_err(io::Error::other)?;
        write(&piece[..len], offset)?;
        offset += len as u64;
    }
    Ok(())
}
