// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bytes at offsets.

use std::{
    fs::File,
    io::{self, Seek, SeekFrom},
    os::unix::fs::FileExt,
};

/// Bytes at offsets: a file, a block device, memory.
///
/// Every call blocks until all its bytes are transferred, or fails; short
/// transfers are completed inside. Calls from many threads at once are allowed.
/// Overlapping ones are in no order.
pub trait Storage: Send + Sync {
    /// The length in bytes, now.
    ///
    /// # Errors
    /// Those of the system.
    fn len(&self) -> io::Result<u64>;

    /// Whether there are no bytes.
    ///
    /// # Errors
    /// Those of [`Storage::len`].
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Fills `buf` with the bytes from `offset` on.
    ///
    /// # Errors
    /// [`io::ErrorKind::UnexpectedEof`] when the storage ends before; the
    /// content of `buf` is then unspecified. Else those of the system.
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()>;

    /// Writes all of `buf` from `offset` on. Files grow as needed; devices
    /// cannot.
    ///
    /// # Errors
    /// [`io::ErrorKind::StorageFull`] when there is no room. Else those of the
    /// system. A part may have been written.
    fn write_all_at(&self, buf: &[u8], offset: u64) -> io::Result<()>;

    /// Returns when everything that was written is durable.
    ///
    /// # Errors
    /// Those of the system. What was written since the last success may then
    /// be lost, and another call does not bring it back.
    fn sync(&self) -> io::Result<()>;
}

/// Regular files and block devices.
///
/// [`Storage::len`] of a block device moves the file's position (to the end):
/// that is how a device tells its length. The other methods neither use the
/// position nor move it.
impl Storage for File {
    fn len(&self) -> io::Result<u64> {
        let metadata = self.metadata()?;
        if metadata.is_file() {
            return Ok(metadata.len());
        }
        if metadata.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        let mut file = self;
        file.seek(SeekFrom::End(0))
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        read_exact_at(self, buf, offset)
    }

    fn write_all_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        write_all_at(self, buf, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }
}

/// [`Storage::read_exact_at`] by as many of the system's reads as it takes.
pub(crate) fn read_exact_at(file: &impl FileExt, buf: &mut [u8], offset: u64) -> io::Result<()> {
    checked_end(buf.len(), offset)?;
    FileExt::read_exact_at(file, buf, offset).map_err(|e| match e.kind() {
        io::ErrorKind::UnexpectedEof => ends_before(buf.len(), offset),
        _ => e,
    })
}

/// [`Storage::write_all_at`] by as many of the system's writes as it takes.
pub(crate) fn write_all_at(file: &impl FileExt, buf: &[u8], offset: u64) -> io::Result<()> {
    checked_end(buf.len(), offset)?;
    FileExt::write_all_at(file, buf, offset)
}

/// Where `len` bytes from `offset` on end. Files end at 2⁶³ − 1 at the latest;
/// the system calls would take a larger offset for a negative one.
pub(crate) fn checked_end(len: usize, offset: u64) -> io::Result<u64> {
    offset
        .checked_add(len as u64)
        .filter(|&end| i64::try_from(end).is_ok())
        .ok_or_else(|| {
            let message = format!("{len} bytes at byte {offset} lie beyond the end of any file");
            io::Error::new(io::ErrorKind::InvalidInput, message)
        })
}

pub(crate) fn ends_before(len: usize, offset: u64) -> io::Error {
    let message = format!("it ends within the {len} bytes from byte {offset} on");
    io::Error::new(io::ErrorKind::UnexpectedEof, message)
}

#[cfg(test)]
mod tests {
    use std::{num::NonZeroUsize, sync::Arc, thread};

    use super::*;
    use crate::{
        MemoryStorage,
        faulty::{Faults, FaultyStorage},
    };

    /// What files do, [`MemoryStorage`] does, and [`FaultyStorage`] whether or not
    /// its transfers are short.
    fn behaves_as_a_file(storage: &dyn Storage) {
        assert!(storage.is_empty().unwrap());
        storage.write_all_at(b"behind a gap", 5000).unwrap();
        assert_eq!(storage.len().unwrap(), 5012);
        let mut buf = [1; 20];
        storage.read_exact_at(&mut buf[..16], 4996).unwrap();
        assert_eq!(&buf[..16], b"\0\0\0\0behind a gap");
        storage.write_all_at(b"BEHIND", 5000).unwrap();
        storage.read_exact_at(&mut buf[..12], 5000).unwrap();
        assert_eq!(&buf[..12], b"BEHIND a gap");
        storage.sync().unwrap();

        for (len, offset) in [(13, 5000), (1, 5012), (1, 1 << 40), (20, 4993)] {
            let error = storage.read_exact_at(&mut buf[..len], offset).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
            assert!(error.to_string().contains(&offset.to_string()), "{error}");
        }
        storage.read_exact_at(&mut [], 5012).unwrap();
        storage.write_all_at(&[], 9999).unwrap();
        assert_eq!(storage.len().unwrap(), 5012);

        for offset in [i64::MAX as u64, u64::MAX - 1, u64::MAX] {
            let error = storage.read_exact_at(&mut buf, offset).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
            let error = storage.write_all_at(&buf, offset).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        }
    }

    #[test]
    fn files_and_memory_are_storage() {
        behaves_as_a_file(&tempfile::tempfile().unwrap());
        behaves_as_a_file(&MemoryStorage::default());
        behaves_as_a_file(&FaultyStorage::new(Vec::new()));
        for longest in [1, 2, 5, 7, 12] {
            let faults = Faults {
                longest_transfer: NonZeroUsize::new(longest),
                ..Faults::default()
            };
            behaves_as_a_file(&FaultyStorage::with_faults(Vec::new(), faults));
        }
    }

    #[test]
    fn memory_has_a_limit() {
        let memory = MemoryStorage::new(vec![7; 3]);
        let error = memory
            .write_all_at(&[1], MemoryStorage::MAX_LEN)
            .unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert_eq!(memory.into_bytes(), [7; 3]);
    }

    #[test]
    fn many_threads_write_at_once() {
        for storage in [
            Arc::new(tempfile::tempfile().unwrap()) as Arc<dyn Storage>,
            Arc::new(MemoryStorage::default()),
            Arc::new(FaultyStorage::new(Vec::new())),
        ] {
            thread::scope(|scope| {
                for k in 0..8_u8 {
                    let storage = &storage;
                    scope.spawn(move || {
                        for i in 0..64 {
                            storage
                                .write_all_at(&[k; 100], (i * 8 + u64::from(k)) * 100)
                                .unwrap();
                        }
                    });
                }
            });
            let mut bytes = vec![0; 8 * 64 * 100];
            storage.read_exact_at(&mut bytes, 0).unwrap();
            assert!(
                bytes
                    .iter()
                    .enumerate()
                    .all(|(i, &b)| usize::from(b) == i / 100 % 8)
            );
        }
    }

    #[test]
    fn folders_have_no_length() {
        let folder = tempfile::tempdir().unwrap();
        let error = Storage::len(&File::open(folder.path()).unwrap()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::IsADirectory);
    }
}
