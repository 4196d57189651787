// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reading a file or device whose length was announced: holes without reading them, and
//! an error when it has another length by now.

use std::{fs::File, io};

use luxor_sector::Storage;
use nix::{
    errno::Errno,
    unistd::{Whence, lseek},
};

/// Where in a file or device.
#[derive(Debug)]
pub(super) struct AnnouncedLength {
    /// Where the input's first byte is. Not 0 only where standard input is a
    /// file of which something else has read a part.
    pub(super) base: u64,
    /// Bytes from `base` to the end, as it was when the input was opened.
    pub(super) len: u64,
    /// The next byte to be read, from `base` on.
    pub(super) position: u64,
    pub(super) regular: bool,
}

impl AnnouncedLength {
    /// Goes on reading.
    pub(super) fn read(&mut self, file: &File, buf: &mut [u8]) -> io::Result<usize> {
        let left = self.len - self.position;
        let wanted = usize::try_from(left).map_or(buf.len(), |left| left.min(buf.len()));
        if left == 0 {
            // An empty file, too, may have grown.
            self.check_len(file)?;
        }
        self.read_exact_at(file, &mut buf[..wanted], self.position)?;
        self.position += wanted as u64;
        Ok(wanted)
    }

    /// Fills `buf` with what begins at byte `offset`, counted from `base` on.
    pub(super) fn read_exact_at(&self, file: &File, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let end = offset.saturating_add(buf.len() as u64);
        if end > self.len {
            let message = format!("it ends after {} bytes, before byte {end}", self.len);
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, message));
        }
        if buf.is_empty() {
            return Ok(());
        }
        let at = self.base + offset;
        let hole = self.hole_at(file, at, buf.len())?;
        let (zeros, rest) = buf.split_at_mut(hole);
        zeros.fill(0);
        Storage::read_exact_at(file, rest, at + hole as u64).map_err(|error| {
            match error.kind() {
                // A device has no other length, but may have other words for it.
                io::ErrorKind::UnexpectedEof if self.regular => self
                    .check_len(file)
                    .err()
                    .unwrap_or_else(|| self.changed_len(at)),
                _ => error,
            }
        })?;
        if end == self.len {
            self.check_len(file)?;
        }
        Ok(())
    }

    /// How many of `len` bytes from byte `at` of the file on are in a hole.
    ///
    /// Holes further on are read: to find the end of the data takes some file
    /// systems a look at every page.
    fn hole_at(&self, file: &File, at: u64, len: usize) -> io::Result<usize> {
        let Some(offset) = i64::try_from(at).ok().filter(|_| self.regular) else {
            return Ok(0);
        };
        match lseek(file, offset, Whence::SeekData) {
            Ok(data) => {
                let hole = u64::try_from(data).map_or(0, |data| data.saturating_sub(at));
                Ok(usize::try_from(hole).map_or(len, |hole| hole.min(len)))
            }
            // No data up to the end, wherever that is now.
            Err(Errno::ENXIO) => self.check_len(file).map(|()| len),
            // Some file systems do not know holes.
            Err(_) => Ok(0),
        }
    }

    fn check_len(&self, file: &File) -> io::Result<()> {
        if !self.regular {
            return Ok(());
        }
        let now = file.metadata()?.len();
        if now == self.base + self.len {
            Ok(())
        } else {
            Err(self.changed_len(now))
        }
    }

    fn changed_len(&self, now: u64) -> io::Error {
        let before = self.base + self.len;
        let what = if now < before { "shorter" } else { "longer" };
        io::Error::other(format!(
            "it became {what} while it was read: it had {before} bytes, now {now}"
        ))
    }
}
