// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random bytes: salts, UUIDs, and what unused places hold, so that they look like used ones.

use std::{io, ops::Range};

use uuid::Uuid;

/// `len` random bytes.
///
/// # Errors
/// When the system gives none.
pub fn random(len: usize) -> Result<Vec<u8>, getrandom::Error> {
    let mut bytes = vec![0; len];
    getrandom::fill(&mut bytes)?;
    Ok(bytes)
}

/// A UUID of version 4 (RFC 9562).
///
/// # Errors
/// When the system gives no random bytes.
pub fn uuid() -> Result<Uuid, getrandom::Error> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)?;
    Ok(uuid::Builder::from_random_bytes(bytes).into_uuid())
}

/// Gives random bytes for all of `range` to `write`, piece after piece with the place
/// of each.
///
/// # Errors
/// Those of `write`, and when the system gives no random bytes.
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
