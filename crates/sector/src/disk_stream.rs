// SPDX-License-Identifier: MIT OR Apache-2.0
//! A disk with the `Read`, `Write` and `Seek` traits of the standard library.

use std::{
    io::{self, Read, Seek, SeekFrom, Write},
    sync::Arc,
};

use crate::Disk;

/// A position in a [`Disk`], which reads, writes and seeks like a file. A disk can have many
/// streams. Nothing is buffered: use a [`BufReader`](io::BufReader) or [`BufWriter`](io::BufWriter)
/// for small pieces.
#[derive(Clone, Debug)]
pub struct DiskStream {
    disk: Arc<Disk>,
    at: u64,
}

impl DiskStream {
    /// Makes a stream at the first byte.
    #[must_use]
    pub fn new(disk: Arc<Disk>) -> Self {
        Self { disk, at: 0 }
    }

    /// The disk.
    #[must_use]
    pub fn disk(&self) -> &Arc<Disk> {
        &self.disk
    }

    /// Returns how many of `len` bytes remain before the end of the disk.
    fn left(&self, len: usize) -> usize {
        let left = self.disk.len().saturating_sub(self.at);
        usize::try_from(left).map_or(len, |left| left.min(len))
    }
}

/// Reads 0 bytes at the end of the disk.
impl Read for DiskStream {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let len = self.left(buf.len());
        if len > 0 {
            self.disk.read(&mut buf[..len], self.at)?;
            self.at += len as u64;
        }
        Ok(len)
    }
}

/// Writes 0 bytes at the end of the disk, since it does not grow. Flushing makes all that was
/// written durable.
impl Write for DiskStream {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let len = self.left(buf.len());
        if len > 0 {
            self.disk.write(&buf[..len], self.at)?;
            self.at += len as u64;
        }
        Ok(len)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.disk.flush()
    }
}

/// Positions beyond the end are allowed, as in a file.
impl Seek for DiskStream {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(by) => self.disk.len().checked_add_signed(by),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
        };
        let before = || io::Error::new(io::ErrorKind::InvalidInput, "no place in a disk");
        self.at = at.ok_or_else(before)?;
        Ok(self.at)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use luxor_conformance::Random;

    use super::*;
    use crate::{DiskOptions, MemoryStorage, Part};

    const LEN: usize = 5000;

    fn stream() -> DiskStream {
        let storage = Arc::new(MemoryStorage::new(vec![7; LEN]));
        let part = Part {
            offset: 0,
            len: LEN as u64,
            crypt: None,
        };
        let disk = Disk::new(storage, vec![part], DiskOptions::default()).unwrap();
        DiskStream::new(Arc::new(disk))
    }

    /// Compares with a cursor over bytes that cannot grow, also at and beyond the end.
    #[test]
    fn a_disk_stream_acts_like_a_cursor() {
        let mut random = Random::for_test("a_disk_stream_acts_like_a_cursor");
        let mut stream = stream();
        let mut bytes = vec![7; LEN];
        let mut cursor = Cursor::new(bytes.as_mut_slice());
        for _ in 0..2000 {
            let len = random.below(900);
            match random.below(3) {
                0 => {
                    let (mut ours, mut theirs) = (vec![0; len], vec![0; len]);
                    let read = stream.read(&mut ours).unwrap();
                    assert_eq!(read, cursor.read(&mut theirs).unwrap());
                    assert!(ours == theirs);
                }
                1 => {
                    let new = random.bytes(len);
                    let written = stream.write(&new).unwrap();
                    assert_eq!(written, cursor.write(&new).unwrap());
                }
                _ => {
                    let by = random.below(2 * LEN) as i64 - LEN as i64;
                    let to = match random.below(3) {
                        0 => SeekFrom::Start(by.unsigned_abs()),
                        1 => SeekFrom::End(by),
                        _ => SeekFrom::Current(by),
                    };
                    let at = cursor.seek(to).map_err(|error| error.kind());
                    assert_eq!(stream.seek(to).map_err(|error| error.kind()), at);
                }
            }
            assert_eq!(stream.stream_position().unwrap(), cursor.position());
        }
        let mut all = Vec::new();
        stream.rewind().unwrap();
        stream.read_to_end(&mut all).unwrap();
        assert!(all == bytes);
    }

    #[test]
    fn a_stream_does_not_grow() {
        let mut stream = stream();
        stream.seek(SeekFrom::End(-1)).unwrap();
        let error = stream.write_all(&[1, 2]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WriteZero);
        assert!(stream.seek(SeekFrom::Start(u64::MAX)).is_ok());
        assert_eq!(stream.read(&mut [0]).unwrap(), 0);
        assert!(stream.seek(SeekFrom::Current(1)).is_err());
        assert_eq!(stream.stream_position().unwrap(), u64::MAX);
        stream.flush().unwrap();
    }
}
