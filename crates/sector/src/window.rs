// SPDX-License-Identifier: MIT OR Apache-2.0
//! A part of a storage as a storage of its own.

use std::io;

use crate::storage::{ReadAt, Storage, WriteAt, checked_end, ends_before};

/// A range of another storage. Byte 0 of the window is the first byte of the range. No call reads or
/// writes a byte outside it: like a device, a window cannot grow.
#[derive(Clone, Copy, Debug)]
pub struct Window<S> {
    storage: S,
    offset: u64,
    len: u64,
}

impl<S: Storage> Window<S> {
    /// Makes a window of `len` bytes, from byte `offset` of `storage` on.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] if `offset` is not a multiple of [`Storage::alignment`] or the
    /// end lies beyond the end of any file. The length of `storage` is not checked.
    pub fn new(storage: S, offset: u64, len: u64) -> io::Result<Self> {
        let refused = |message: String| io::Error::new(io::ErrorKind::InvalidInput, message);
        let end = offset.checked_add(len);
        if end.is_none_or(|end| i64::try_from(end).is_err()) {
            return Err(refused(format!(
                "{len} bytes at byte {offset} lie beyond the end of any file"
            )));
        }
        let alignment = storage.alignment();
        if !offset.is_multiple_of(alignment as u64) {
            return Err(refused(format!(
                "it begins at byte {offset}, which is not a multiple of {alignment}"
            )));
        }
        Ok(Self {
            storage,
            offset,
            len,
        })
    }

    /// Returns the offset in the whole storage of `len` bytes at `offset` of the window, or `None` if
    /// they do not lie within it.
    fn within(&self, offset: u64, len: u64) -> Option<u64> {
        let end = offset.checked_add(len)?;
        (end <= self.len).then(|| self.offset + offset)
    }

    fn to_read(&self, len: usize, offset: u64) -> io::Result<u64> {
        checked_end(len, offset)?;
        let at = self.within(offset, len as u64);
        at.ok_or_else(|| ends_before(len, offset))
    }

    fn to_write(&self, len: usize, offset: u64) -> io::Result<u64> {
        checked_end(len, offset)?;
        // Nothing is written, wherever that would be.
        let at = match len {
            0 => Some(self.offset),
            len => self.within(offset, len as u64),
        };
        at.ok_or_else(|| {
            let message = format!(
                "{len} bytes at byte {offset} do not fit into the {} bytes of this part",
                self.len
            );
            io::Error::new(io::ErrorKind::StorageFull, message)
        })
    }
}

impl<S: Storage> Storage for Window<S> {
    fn alignment(&self) -> usize {
        self.storage.alignment()
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.len)
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let at = self.to_read(buf.len(), offset)?;
        self.storage.read_exact_at(buf, at)
    }

    fn write_all_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        let at = self.to_write(buf.len(), offset)?;
        self.storage.write_all_at(buf, at)
    }

    fn sync(&self) -> io::Result<()> {
        self.storage.sync()
    }

    fn read_batch(&self, reads: &mut [ReadAt<'_>]) {
        let mut inner = Vec::with_capacity(reads.len());
        let mut results = Vec::with_capacity(reads.len());
        for read in reads {
            match self.to_read(read.buf.len(), read.offset) {
                Ok(offset) => {
                    inner.push(ReadAt {
                        buf: &mut *read.buf,
                        offset,
                        result: Ok(()),
                    });
                    results.push(&mut read.result);
                }
                Err(error) => read.result = Err(error),
            }
        }
        self.storage.read_batch(&mut inner);
        for (read, result) in inner.into_iter().zip(results) {
            *result = read.result;
        }
    }

    fn write_batch(&self, writes: &mut [WriteAt<'_>]) {
        let mut inner = Vec::with_capacity(writes.len());
        let mut results = Vec::with_capacity(writes.len());
        for write in writes {
            match self.to_write(write.buf.len(), write.offset) {
                Ok(offset) => {
                    inner.push(WriteAt {
                        buf: write.buf,
                        offset,
                        result: Ok(()),
                    });
                    results.push(&mut write.result);
                }
                Err(error) => write.result = Err(error),
            }
        }
        self.storage.write_batch(&mut inner);
        for (write, result) in inner.into_iter().zip(results) {
            *result = write.result;
        }
    }

    fn discard(&self, offset: u64, len: u64) -> io::Result<()> {
        match self.within(offset, len) {
            Some(at) => self.storage.discard(at, len),
            None => Err(io::ErrorKind::InvalidInput.into()),
        }
    }

    fn allocate(&self, offset: u64, len: u64) -> io::Result<()> {
        match self.within(offset, len) {
            Some(at) => self.storage.allocate(at, len),
            None => Err(io::ErrorKind::InvalidInput.into()),
        }
    }

    fn will_need(&self, offset: u64, len: u64) -> io::Result<()> {
        match self.within(offset, len) {
            Some(at) => self.storage.will_need(at, len),
            None => Err(io::ErrorKind::InvalidInput.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use luxor_conformance::Random;

    use super::*;
    use crate::MemoryStorage;

    const LEN: u64 = 512;
    const OFFSET: u64 = 1024;

    fn around() -> MemoryStorage {
        MemoryStorage::new(vec![0x55; 4096])
    }

    fn bytes(window: Window<MemoryStorage>) -> Vec<u8> {
        window.storage.into_bytes()
    }

    #[test]
    fn nothing_outside_a_window_is_read_or_written() {
        let mut random = Random::for_test("window::outside");
        let window = Window::new(around(), OFFSET, LEN).unwrap();
        let mut expected = vec![0x55; 4096];
        let offsets = [
            0,
            1,
            511,
            512,
            513,
            4096,
            u64::MAX - OFFSET,
            u64::MAX - 1,
            u64::MAX,
        ];
        for round in 0..2000_u32 {
            let offset = if round % 3 == 0 {
                offsets[random.below(offsets.len())]
            } else {
                random.below(600) as u64
            };
            let len = random.below(300);
            let data = random.bytes(len);
            let fits = offset.checked_add(len as u64).is_some_and(|end| end <= LEN);
            let is_written = if round % 2 == 0 {
                window.write_all_at(&data, offset).is_ok()
            } else {
                let mut write = [WriteAt {
                    buf: &data,
                    offset,
                    result: Err(io::Error::other("not made")),
                }];
                window.write_batch(&mut write);
                write[0].result.is_ok()
            };
            let is_nothing = len == 0 && i64::try_from(offset).is_ok();
            assert_eq!(is_written, fits || is_nothing, "{offset} {len}");
            if fits {
                let at = usize::try_from(OFFSET + offset).unwrap();
                expected[at..at + len].copy_from_slice(&data);
            }
            let mut found = vec![0; len];
            assert_eq!(window.read_exact_at(&mut found, offset).is_ok(), fits);
            let mut batch = vec![0; len];
            let mut read = [ReadAt {
                buf: &mut batch,
                offset,
                result: Err(io::Error::other("not made")),
            }];
            window.read_batch(&mut read);
            assert_eq!(read[0].result.is_ok(), fits);
            if fits {
                assert!(found == data && batch == data);
            }
            if !fits {
                assert!(window.discard(offset, len as u64).is_err());
                assert!(window.allocate(offset, len as u64).is_err());
            }
        }
        assert_eq!(Storage::len(&window).unwrap(), LEN);
        assert!(bytes(window) == expected);
    }

    #[test]
    fn a_window_begins_where_the_storage_permits_and_files_can_be() {
        assert!(Window::new(around(), 1, u64::MAX).is_err());
        assert!(Window::new(around(), 0, i64::MAX as u64 + 1).is_err());
        assert!(Window::new(around(), 7, 9).is_ok());
        let file = tempfile::tempfile().unwrap();
        file.set_len(1 << 20).unwrap();
        if let Ok(direct) = crate::DirectFile::new(file) {
            let alignment = direct.alignment() as u64;
            let aligned = Window::new(direct, alignment, 512);
            assert_eq!(aligned.unwrap().alignment() as u64, alignment);
        }
    }
}
