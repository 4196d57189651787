// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads a file or device with a length that was announced. Holes are not read. It is an error if the
//! file becomes shorter; if it becomes longer, as a log does, the new bytes are not read.

use std::{fs::File, io};

use luxor_sector::Storage;
use nix::{
    errno::Errno,
    unistd::{Whence, lseek},
};

/// The announced length of a file or device, and the position in it.
#[derive(Debug)]
pub(super) struct AnnouncedLength {
    /// The offset of the input's first byte. It is 0 unless the input is standard input, and
    /// another program has read a part of that file.
    pub(super) base: u64,
    /// The number of bytes of the input: from `base` to the end of the file, or of its part.
    pub(super) len: u64,
    /// The length of the whole file when the input was opened.
    pub(super) file_len: u64,
    /// The next byte to read, counted from `base`.
    pub(super) position: u64,
    pub(super) regular: bool,
}

impl AnnouncedLength {
    /// Reads at the position, and advances it.
    pub(super) fn read(&mut self, file: &File, buf: &mut [u8]) -> io::Result<usize> {
        let left = self.len - self.position;
        let wanted = usize::try_from(left).map_or(buf.len(), |left| left.min(buf.len()));
        self.read_exact_at(file, &mut buf[..wanted], self.position)?;
        self.position += wanted as u64;
        Ok(wanted)
    }

    /// Fills `buf` with the bytes at `offset`, counted from `base`.
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
                // The length of a device does not change, so its own error is returned.
                io::ErrorKind::UnexpectedEof if self.regular => self
                    .check_len(file)
                    .err()
                    .unwrap_or_else(|| self.shorter(at)),
                _ => error,
            }
        })?;
        if end == self.len {
            self.check_len(file)?;
        }
        Ok(())
    }

    /// Returns how many of the `len` bytes from byte `at` of the file lie in a hole.
    ///
    /// Looks only for a hole at `at`. Holes after data are read, because on some file systems
    /// finding the end of the data looks at every page.
    fn hole_at(&self, file: &File, at: u64, len: usize) -> io::Result<usize> {
        let Some(offset) = i64::try_from(at).ok().filter(|_| self.regular) else {
            return Ok(0);
        };
        match lseek(file, offset, Whence::SeekData) {
            Ok(data) => {
                let hole = u64::try_from(data).map_or(0, |data| data.saturating_sub(at));
                Ok(usize::try_from(hole).map_or(len, |hole| hole.min(len)))
            }
            // There are no data up to the end, wherever that is now.
            Err(Errno::ENXIO) => self.check_len(file).map(|()| len),
            // Some file systems do not support this.
            Err(_) => Ok(0),
        }
    }

    fn check_len(&self, file: &File) -> io::Result<()> {
        if !self.regular {
            return Ok(());
        }
        let now = file.metadata()?.len();
        if now < self.base + self.len {
            return Err(self.shorter(now));
        }
        Ok(())
    }

    /// Whether the file is longer now.
    pub(super) fn has_grown(&self, file: &File) -> bool {
        let now = file.metadata().map_or(0, |metadata| metadata.len());
        self.regular && now > self.file_len
    }

    fn shorter(&self, now: u64) -> io::Error {
        let before = self.file_len;
        io::Error::other(format!(
            "it became shorter while it was read: it had {before} bytes, now {now}"
        ))
    }
}
