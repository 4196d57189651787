// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files whose length is not known when the header is written: a trailer follows their data.

use std::io::{self, Read, Write};

use luxor_engine::Direction;
use luxor_secret::SecretBytes;
use luxor_sector::Storage;
use luxor_volume::{Plaintext, TrailerKey};

use crate::{Engine, OpenError, Result};

/// Returns what recognises the trailer of the volume with this plaintext.
pub(crate) fn trailer_key(plaintext: &Plaintext, uuid: &str) -> Option<TrailerKey> {
    let cipher = plaintext.extents.last()?.cipher?;
    let key = plaintext.keys.get(&cipher.key)?.volume_key()?;
    Some(TrailerKey::new(key, uuid, cipher.geometry.sector_size))
}

/// Returns the length of the file if its trailer is the last sector of the data in `storage`.
///
/// # Errors
/// Fails when the sector cannot be read or decrypted.
pub(crate) fn length_at_end(
    storage: &dyn Storage,
    plaintext: &Plaintext,
    engine: &Engine,
    uuid: &str,
) -> Result<Option<u64>> {
    let (Some(trailer), Some(extent)) = (trailer_key(plaintext, uuid), plaintext.extents.last())
    else {
        return Ok(None);
    };
    let Some(cipher) = extent.cipher else {
        return Ok(None);
    };
    let failed =
        |source: Box<dyn std::error::Error + Send + Sync>| OpenError::LastSector { source };
    let mut sector = SecretBytes::zeroed(trailer.sector_size().bytes());
    let offset = extent.len - sector.len() as u64;
    storage
        .read_exact_at(sector.expose_mut(), extent.offset + offset)
        .map_err(|error| failed(error.into()))?;
    let key = engine.load_part_key(plaintext, cipher)?;
    let runs = cipher.geometry.runs(offset, sector.expose_mut());
    let mut runs = runs.map_err(|error| failed(error.into()))?;
    let decrypted = key.crypt(Direction::Decrypt, &mut runs);
    decrypted.map_err(|error| failed(error.into()))?;
    let before: u64 = plaintext.extents.iter().map(|extent| extent.len).sum();
    Ok(trailer.length(sector.expose(), before - sector.len() as u64))
}

/// A file, padded with zeros to a whole sector, and then its trailer.
pub(crate) struct WithTrailer<'a> {
    file: &'a mut (dyn Read + Send),
    key: &'a TrailerKey,
    /// The number of bytes of the file that have been read.
    length: u64,
    /// What follows the file, once its end has been seen, and is not read yet.
    end: Option<io::Cursor<Vec<u8>>>,
}

impl<'a> WithTrailer<'a> {
    pub(crate) fn new(file: &'a mut (dyn Read + Send), key: &'a TrailerKey) -> Self {
        Self {
            file,
            key,
            length: 0,
            end: None,
        }
    }
}

impl Read for WithTrailer<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if let Some(end) = &mut self.end {
            return end.read(buf);
        }
        let count = self.file.read(buf)?;
        self.length += count as u64;
        if count > 0 || buf.is_empty() {
            return Ok(count);
        }
        let padded = self.key.sector_size().payload_len(self.length);
        let zeros = padded.expect("no stream has 2^64 bytes") - self.length;
        let mut end = vec![0; usize::try_from(zeros).expect("less than two sectors")];
        end.extend(self.key.trailer(self.length));
        self.end.insert(io::Cursor::new(end)).read(buf)
    }
}

/// Takes the decrypted sectors of a file with a trailer, and passes the file on.
///
/// The trailer ends the file: the write that contains it fails, and [`UntilTrailer::length`] returns
/// the length of the file.
pub(crate) struct UntilTrailer<'a, W> {
    out: &'a mut W,
    key: &'a TrailerKey,
    /// The last sector that came, which is not passed on yet: it may end with padding.
    held: SecretBytes,
    /// The number of its bytes that are in use: none before the first sector.
    held_len: usize,
    /// The number of bytes that came.
    offset: u64,
    length: Option<u64>,
}

impl<'a, W: Write> UntilTrailer<'a, W> {
    pub(crate) fn new(out: &'a mut W, key: &'a TrailerKey) -> Self {
        Self {
            out,
            key,
            held: SecretBytes::zeroed(key.sector_size().bytes()),
            held_len: 0,
            offset: 0,
            length: None,
        }
    }

    /// The length of the file, if the trailer has come.
    pub(crate) fn length(&self) -> Option<u64> {
        self.length
    }

    /// Passes on the last sector of a file whose trailer is missing. Returns how many bytes have been
    /// passed on.
    pub(crate) fn give_up(self) -> io::Result<u64> {
        self.out.write_all(&self.held.expose()[..self.held_len])?;
        Ok(self.offset)
    }
}

impl<W: Write> Write for UntilTrailer<'_, W> {
    /// Takes all of `sectors`, which are whole.
    fn write(&mut self, sectors: &[u8]) -> io::Result<usize> {
        let sector = self.key.sector_size().bytes();
        debug_assert!(sectors.len().is_multiple_of(sector));
        let mut places = sectors.chunks(sector).zip((self.offset..).step_by(sector));
        let found =
            places.find_map(|(sector, offset)| Some((self.key.length(sector, offset)?, offset)));
        if let Some((length, offset)) = found {
            let before = usize::try_from(offset - self.offset).expect("it is in a buffer");
            // The padding is shorter than a sector, except that of an empty file.
            let padding = usize::try_from(offset - length).expect("at most a sector");
            let held = &self.held.expose()[..self.held_len];
            match before {
                0 => self.out.write_all(&held[..held.len() - padding])?,
                _ => {
                    self.out.write_all(held)?;
                    self.out.write_all(&sectors[..before - padding])?;
                }
            }
            self.length = Some(length);
            return Err(io::Error::other("the file has ended"));
        }
        let kept = sectors.len().saturating_sub(sector);
        if !sectors.is_empty() {
            self.out.write_all(&self.held.expose()[..self.held_len])?;
            self.out.write_all(&sectors[..kept])?;
            self.held.expose_mut().copy_from_slice(&sectors[kept..]);
            self.held_len = sector;
            self.offset += sectors.len() as u64;
        }
        Ok(sectors.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
