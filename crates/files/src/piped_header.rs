// SPDX-License-Identifier: MIT OR Apache-2.0
//! The header of a volume that is read from a pipe. The part that was read is kept in memory, and
//! the data follow.

use std::{
    io::{self, Read},
    sync::{Mutex, MutexGuard, PoisonError},
};

use luxor_sector::Storage;

/// No header is longer: two copies of at most 4 MiB each and 128 MiB of keyslots.
const MAX_LEN: u64 = 136 << 20;

/// The beginning of a stream, as read-only storage that is read on demand and kept in memory: at
/// most 136 MiB, more than any LUKS header has.
pub struct PipedHeader {
    state: Mutex<State>,
}

struct State {
    stream: Box<dyn Read + Send>,
    bytes: Vec<u8>,
}

impl PipedHeader {
    /// Wraps a stream from which nothing has been read.
    #[must_use]
    pub fn new(stream: Box<dyn Read + Send>) -> Self {
        Self {
            state: Mutex::new(State {
                stream,
                bytes: Vec::new(),
            }),
        }
    }

    /// Returns the stream from byte `offset` on. `offset` may lie before or after the bytes that
    /// were read.
    ///
    /// # Errors
    /// An error of the stream. [`io::ErrorKind::UnexpectedEof`] if it ends before `offset`.
    pub fn into_stream_at(self, offset: u64) -> io::Result<impl Read + Send> {
        let State {
            mut stream,
            mut bytes,
        } = self
            .state
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        let kept = usize::try_from(offset).map_or(bytes.len(), |offset| offset.min(bytes.len()));
        bytes.drain(..kept);
        let gap = offset - kept as u64;
        let skipped = io::copy(&mut (&mut stream).take(gap), &mut io::sink())?;
        if skipped < gap {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(io::Cursor::new(bytes).chain(stream))
    }

    /// Returns the bytes that were read, at most `max` of them.
    #[must_use]
    pub fn beginning(&self, max: usize) -> Vec<u8> {
        let bytes = &self.lock().bytes;
        bytes[..bytes.len().min(max)].to_vec()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Reads until `bytes` holds the first `end` bytes, or all bytes of the stream.
    fn read_to(&mut self, end: u64) -> io::Result<()> {
        let missing = end.saturating_sub(self.bytes.len() as u64);
        // Grows with the bytes that really arrive, whatever `end` is.
        (&mut self.stream)
            .take(missing)
            .read_to_end(&mut self.bytes)?;
        Ok(())
    }
}

impl Storage for PipedHeader {
    /// Returns the length of a stream that ends within its first page. Any other length is unknown;
    /// then the greatest length of a file is returned.
    fn len(&self) -> io::Result<u64> {
        const PAGE: u64 = 4096;
        let state = &mut *self.lock();
        state.read_to(PAGE)?;
        let len = state.bytes.len() as u64;
        Ok(if len < PAGE { len } else { i64::MAX as u64 })
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let end = offset.saturating_add(buf.len() as u64);
        if end > MAX_LEN {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "the header of a volume from a pipe ends within 136 MiB",
            ));
        }
        let state = &mut *self.lock();
        state.read_to(end)?;
        let wanted = usize::try_from(offset)
            .ok()
            .and_then(|offset| state.bytes.get(offset..)?.get(..buf.len()))
            .ok_or(io::ErrorKind::UnexpectedEof)?;
        buf.copy_from_slice(wanted);
        Ok(())
    }

    fn write_all_at(&self, _: &[u8], _: u64) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rest(prefix: PipedHeader, offset: u64) -> io::Result<Vec<u8>> {
        let mut rest = Vec::new();
        prefix.into_stream_at(offset)?.read_to_end(&mut rest)?;
        Ok(rest)
    }

    #[test]
    fn bytes_read_for_the_header_are_not_lost() {
        let bytes: Vec<u8> = (0..=255).collect();
        for asked in [0, 1, 100, 256] {
            for offset in [0, 1, 99, 100, 101, 255, 256] {
                let prefix = PipedHeader::new(Box::new(io::Cursor::new(bytes.clone())));
                let mut buf = vec![0; asked];
                prefix.read_exact_at(&mut buf, 0).unwrap();
                assert_eq!(buf, bytes[..asked]);
                assert_eq!(
                    rest(prefix, offset).unwrap(),
                    bytes[usize::try_from(offset).unwrap()..]
                );
            }
        }
    }

    #[test]
    fn reads_may_go_back_but_not_past_the_end() {
        let prefix = PipedHeader::new(Box::new(io::Cursor::new(vec![7; 300])));
        let mut buf = [0; 100];
        for offset in [150, 0, 200, 17] {
            prefix.read_exact_at(&mut buf, offset).unwrap();
        }
        for (offset, kind) in [
            (201, io::ErrorKind::UnexpectedEof),
            (MAX_LEN, io::ErrorKind::Unsupported),
            (u64::MAX, io::ErrorKind::Unsupported),
        ] {
            assert_eq!(
                prefix.read_exact_at(&mut buf, offset).unwrap_err().kind(),
                kind
            );
        }
        assert_eq!(
            rest(prefix, 301).unwrap_err().kind(),
            io::ErrorKind::UnexpectedEof
        );
    }
}
