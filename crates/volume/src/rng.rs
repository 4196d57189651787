// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random bytes: for salts and UUIDs, and to fill unused places, so that they look like used ones.

use std::{error::Error, io, ops::Range};

use luxor_engine::{
    AesKey, DataUnitLen, DataUnitNumber, Direction, KeySpec, LoadedKey, Mode, Registry, Run,
};
use luxor_secret::{SecretBytes, with_key_stack};
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
/// of each. They are a keystream of AES-256 in CTR mode under a random key, because the system's
/// generator is many times slower, and a new volume needs 16 MiB.
///
/// # Errors
/// An error of `write`, or of the system's random number generator.
pub fn write(
    range: Range<u64>,
    mut write: impl FnMut(&[u8], u64) -> io::Result<()>,
) -> io::Result<()> {
    const PIECE: usize = 256 << 10;
    let unit = DataUnitLen::new(PIECE).map_err(io::Error::other)?;
    let key = with_key_stack(random_ctr_key).map_err(io::Error::other)?;
    let mut piece = vec![0; PIECE];
    let mut offset = range.start;
    while offset < range.end {
        piece.fill(0);
        // There are fewer blocks than bytes, so no counter is used twice.
        let counter = DataUnitNumber::from(offset);
        let run = Run::new(counter, 1, unit, &mut piece[..]).map_err(io::Error::other)?;
        with_key_stack(|| key.crypt(Direction::Encrypt, &mut [run])).map_err(io::Error::other)?;
        let len = usize::try_from(range.end - offset).map_or(PIECE, |left| left.min(PIECE));
        write(&piece[..len], offset)?;
        offset += len as u64;
    }
    Ok(())
}

fn random_ctr_key() -> Result<Box<dyn LoadedKey>, Box<dyn Error + Send + Sync>> {
    let mut key = SecretBytes::zeroed(32);
    getrandom::fill(key.expose_mut())?;
    let engine = Registry::cpu().best(Mode::Ctr)?;
    Ok(engine.load_key(&KeySpec::Ctr(AesKey::new(key.expose())?))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_bytes_do_not_repeat() {
        let mut blocks = std::collections::HashSet::new();
        let (begin, end) = (7, (512 << 10) + 23);
        for _ in 0..2 {
            let mut next = begin;
            write(begin..end, |bytes, offset| {
                assert_eq!(offset, next);
                next += bytes.len() as u64;
                for block in bytes.chunks(16).filter(|block| block.len() == 16) {
                    assert!(blocks.insert(block.to_vec()), "at byte {offset}");
                }
                Ok(())
            })
            .unwrap();
            assert_eq!(next, end);
        }
    }
}
