// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bytes at offsets.
//!
//! Batches of reads of a file: what the page cache has is copied first (`RWF_NOWAIT`), and
//! all the rest is asked for before any of it is waited for. Writes go one by one. So it is
//! because of what was measured on 2026-11-22 (2 cores, Intel Xeon, Linux 6.18) by
//! `examples/storage.rs`: requests of 4 KiB to an encrypted [`crate::Disk`], at random
//! places, 32 in a batch, in turns, medians of 5, thousands a second. Cold is what the page
//! cache does not have.
//!
//! | | ext4, warm | cold | writes | tmpfs, reads | writes |
//! |---|---|---|---|---|---|
//! | as it is here | 793 | 71 | 464 | 687 | 563 |
//! | one by one | 780 | 10 | 438 | 686 | 568 |
//! | `io_uring` | 802 | 57 | 193 | 238 | 207 |
//!
//! The two that are the same here, writes and all of tmpfs, tell how exact this is. The
//! ext4 has 1 GiB of requests on a virtio disk, the tmpfs 256 MiB. `io_uring` hands what it
//! may not wait for to threads of its own, and all these writes: they have one lock.

use std::{
    fs::File,
    io::{self, IoSliceMut, Seek, SeekFrom},
    os::unix::fs::FileExt,
};

use nix::{
    errno::Errno,
    fcntl::{FallocateFlags, PosixFadviseAdvice, fallocate, posix_fadvise},
};
use rustix::{
    fs::ioctl_blksszget,
    io::{ReadWriteFlags, preadv2},
};

/// Bytes at offsets: a file, a block device, memory.
///
/// Every call blocks until all its bytes are transferred, or fails; short
/// transfers are completed inside. Calls from many threads at once are allowed.
/// Overlapping ones are in no order.
pub trait Storage: Send + Sync {
    /// What the offset and the length of every transfer must be a multiple of: a power
    /// of two, and at most 4096. By default it is 1.
    fn alignment(&self) -> usize {
        1
    }

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

    /// Makes each of `reads`, in any order, as many at a time as the system takes.
    fn read_batch(&self, reads: &mut [ReadAt<'_>]) {
        for read in reads {
            read.result = self.read_exact_at(read.buf, read.offset);
        }
    }

    /// Makes each of `writes`, in any order, as many at a time as the system takes.
    /// They do not overlap.
    fn write_batch(&self, writes: &mut [WriteAt<'_>]) {
        for write in writes {
            write.result = self.write_all_at(write.buf, write.offset);
        }
    }

    /// Gives the room of `len` bytes from `offset` on back, where that can be done: of a
    /// device, its whole blocks in them. What is read there afterwards is unspecified. The
    /// length stays.
    ///
    /// # Errors
    /// [`io::ErrorKind::Unsupported`] where there is no such thing, which is the
    /// default. Else those of the system.
    fn discard(&self, offset: u64, len: u64) -> io::Result<()> {
        let _ = (offset, len);
        Err(io::ErrorKind::Unsupported.into())
    }

    /// A hint that `len` bytes from `offset` on will be read.
    ///
    /// # Errors
    /// Those of the system.
    fn will_need(&self, offset: u64, len: u64) -> io::Result<()> {
        let _ = (offset, len);
        Ok(())
    }
}

/// One of many reads: [`Storage::read_exact_at`].
#[derive(Debug)]
pub struct ReadAt<'a> {
    /// Where its bytes go.
    pub buf: &'a mut [u8],
    /// Where they come from.
    pub offset: u64,
    /// How it went.
    pub result: io::Result<()>,
}

/// One of many writes: [`Storage::write_all_at`].
#[derive(Debug)]
pub struct WriteAt<'a> {
    /// The bytes.
    pub buf: &'a [u8],
    /// Where they go.
    pub offset: u64,
    /// How it went.
    pub result: io::Result<()>,
}

/// Regular files and block devices.
///
/// [`Storage::len`] of a block device moves the file's position: that is how the system tells. The
/// other methods neither use the position nor move it.
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

    /// What the page cache has is copied. All the rest is asked for before the first of
    /// it is waited for, so that the disk works on it together.
    fn read_batch(&self, reads: &mut [ReadAt<'_>]) {
        let mut missing = Vec::new();
        let mut cached = reads.len() > 1;
        for read in reads {
            match cached.then(|| read_cached(self, read.buf, read.offset)) {
                Some(Ok(true)) => read.result = Ok(()),
                Some(Ok(false)) => {
                    // A hint: the read is made in any case.
                    let _ = self.will_need(read.offset, read.buf.len() as u64);
                    missing.push(read);
                }
                // There is none, as in memory, or the read fails and says why.
                Some(Err(_)) | None => {
                    cached = false;
                    read.result = read_exact_at(self, read.buf, read.offset);
                }
            }
        }
        for read in missing {
            read.result = read_exact_at(self, read.buf, read.offset);
        }
    }

    fn discard(&self, offset: u64, len: u64) -> io::Result<()> {
        let end = offset.checked_add(len);
        let Some(end) = end.filter(|&end| i64::try_from(end).is_ok()) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        // A device takes whole blocks of its own only. Files do not tell of any.
        let block = ioctl_blksszget(self).map_or(1, u64::from);
        let (begin, end) = (offset.next_multiple_of(block), end - end % block);
        if begin >= end {
            return Ok(());
        }
        let (begin, len) = (begin.cast_signed(), (end - begin).cast_signed());
        let mode = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
        loop {
            match fallocate(self, mode, begin, len) {
                Err(Errno::EINTR) => {}
                Err(Errno::EOPNOTSUPP | Errno::ENOSYS | Errno::ENODEV) => {
                    return Err(io::ErrorKind::Unsupported.into());
                }
                result => return Ok(result?),
            }
        }
    }

    fn will_need(&self, offset: u64, len: u64) -> io::Result<()> {
        let (Ok(offset), Ok(len)) = (i64::try_from(offset), i64::try_from(len)) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        Ok(posix_fadvise(
            self,
            offset,
            len,
            PosixFadviseAdvice::POSIX_FADV_WILLNEED,
        )?)
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

/// Whether the page cache has all of it, and `buf` too now.
fn read_cached(file: &File, buf: &mut [u8], offset: u64) -> io::Result<bool> {
    checked_end(buf.len(), offset)?;
    let len = buf.len();
    let bufs = &mut [IoSliceMut::new(buf)];
    match preadv2(file, bufs, offset, ReadWriteFlags::NOWAIT) {
        Ok(copied) => Ok(copied == len),
        Err(rustix::io::Errno::AGAIN) => Ok(false),
        Err(error) => Err(error.into()),
    }
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
pub(crate) mod tests {
    use std::{num::NonZeroUsize, sync::Arc, thread};

    use luxor_conformance::Random;

    use super::*;
    use crate::{
        MemoryStorage,
        faulty::{Faults, FaultyStorage},
    };

    /// What files do, [`MemoryStorage`] does, [`crate::DirectFile`] with each byte `each` times,
    /// and [`FaultyStorage`] whether or not its transfers are short.
    pub(crate) fn behaves_as_a_file(storage: &dyn Storage, each: usize) {
        let at = |offset: u64| offset * each as u64;
        let times = |bytes: &[u8]| {
            bytes
                .iter()
                .flat_map(|&b| vec![b; each])
                .collect::<Vec<_>>()
        };
        assert!(storage.is_empty().unwrap());
        storage
            .write_all_at(&times(b"behind a gap"), at(5000))
            .unwrap();
        assert_eq!(storage.len().unwrap(), at(5012));
        let mut buf = vec![1; 20 * each];
        storage
            .read_exact_at(&mut buf[..16 * each], at(4996))
            .unwrap();
        assert!(buf[..16 * each] == times(b"\0\0\0\0behind a gap"));
        storage.write_all_at(&times(b"BEHIND"), at(5000)).unwrap();
        storage
            .read_exact_at(&mut buf[..12 * each], at(5000))
            .unwrap();
        assert!(buf[..12 * each] == times(b"BEHIND a gap"));
        storage.sync().unwrap();

        for (len, offset) in [(13, 5000), (1, 5012), (1, 1 << 40), (20, 4993)] {
            let error = storage
                .read_exact_at(&mut buf[..len * each], at(offset))
                .unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
            let named = at(offset).to_string();
            assert!(error.to_string().contains(&named), "{error}");
        }
        storage.read_exact_at(&mut [], at(5012)).unwrap();
        storage.write_all_at(&[], at(9999)).unwrap();
        assert_eq!(storage.len().unwrap(), at(5012));

        for offset in [i64::MAX as u64, u64::MAX - 1, u64::MAX] {
            let error = storage.read_exact_at(&mut buf, offset).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
            let error = storage.write_all_at(&buf, offset).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        }
        in_batches(storage, each);
    }

    /// The same in batches, each transfer with an outcome of its own.
    fn in_batches(storage: &dyn Storage, each: usize) {
        let at = |offset: u64| offset * each as u64;
        let text: Vec<_> = (0..200_u8).map(|k| vec![k; each]).collect();
        let mut writes: Vec<_> = (0..)
            .zip(&text)
            .map(|(k, buf)| WriteAt {
                buf,
                offset: at(7 * k),
                result: Err(io::Error::other("not made")),
            })
            .collect();
        let beyond = i64::MAX as u64;
        writes.push(WriteAt {
            buf: &text[0],
            offset: beyond,
            result: Ok(()),
        });
        storage.write_batch(&mut writes);
        let refused = writes.pop().unwrap().result.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::InvalidInput);
        for write in writes {
            write.result.unwrap();
        }

        let end = storage.len().unwrap();
        let mut found = vec![vec![0xee; 3 * each]; 200];
        let mut reads: Vec<_> = (0..)
            .zip(&mut found)
            .map(|(k, buf)| ReadAt {
                buf: &mut buf[each..][..each],
                offset: match k {
                    100 => end,
                    101 => u64::MAX,
                    102 => beyond,
                    k => at(7 * k),
                },
                result: Err(io::Error::other("not made")),
            })
            .collect();
        storage.read_batch(&mut reads);
        let kinds = reads
            .into_iter()
            .map(|read| read.result.map_err(|e| e.kind()));
        for (k, (result, found)) in kinds
            .collect::<Vec<_>>()
            .into_iter()
            .zip(&found)
            .enumerate()
        {
            match k {
                100 => assert_eq!(result, Err(io::ErrorKind::UnexpectedEof)),
                101 | 102 => assert_eq!(result, Err(io::ErrorKind::InvalidInput)),
                k => {
                    result.unwrap();
                    assert!(found[each..2 * each] == text[k]);
                }
            }
            assert!(found[..each].iter().all(|&b| b == 0xee));
            assert!(found[2 * each..].iter().all(|&b| b == 0xee));
        }
    }

    #[test]
    fn files_and_memory_are_storage() {
        behaves_as_a_file(&tempfile::tempfile().unwrap(), 1);
        behaves_as_a_file(&tempfile::tempfile().unwrap(), 3000);
        behaves_as_a_file(&MemoryStorage::default(), 1);
        behaves_as_a_file(&FaultyStorage::new(Vec::new()), 1);
        for longest in [1, 2, 5, 7, 12] {
            let faults = Faults {
                longest_transfer: NonZeroUsize::new(longest),
                ..Faults::default()
            };
            behaves_as_a_file(&FaultyStorage::with_faults(Vec::new(), faults), 1);
        }
    }

    /// What the page cache has, what it has in part, and what it has not.
    #[test]
    fn batches_come_from_the_page_cache_and_from_the_disk() {
        const LEN: usize = 9000;
        let file = tempfile::tempfile().unwrap();
        let bytes = Random::for_test("storage::batches").bytes(4 << 20);
        Storage::write_all_at(&file, &bytes, 0).unwrap();
        file.sync_all().unwrap();
        // Nothing is read ahead, so of some there is one page.
        posix_fadvise(&file, 0, 0, PosixFadviseAdvice::POSIX_FADV_RANDOM).unwrap();
        let offset = |k: usize| 70_001 * k;
        for warm in [
            0..0,
            0..bytes.len() / 2,
            offset(2)..offset(2) + 1,
            offset(5) + LEN - 1..offset(5) + LEN,
            0..bytes.len(),
        ] {
            // Where files are in memory all is warm.
            posix_fadvise(&file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED).unwrap();
            Storage::read_exact_at(&file, &mut vec![0; warm.len()], warm.start as u64).unwrap();
            let mut found = vec![vec![0; LEN]; 62];
            let offset = |k| match k {
                // Across the end and behind it.
                60 => bytes.len() - LEN / 2,
                61 => bytes.len(),
                k => offset(k),
            };
            let mut reads: Vec<_> = (0..)
                .zip(&mut found)
                .map(|(k, buf)| ReadAt {
                    buf,
                    offset: offset(k) as u64,
                    result: Err(io::Error::other("not made")),
                })
                .collect();
            file.read_batch(&mut reads);
            let results: Vec<_> = reads.into_iter().map(|read| read.result).collect();
            for ((k, found), result) in found.iter().enumerate().zip(results) {
                match bytes.get(offset(k)..offset(k) + LEN) {
                    Some(expected) => {
                        result.unwrap();
                        assert!(found == expected, "{k}");
                    }
                    None => {
                        assert!(k >= 60);
                        let error = result.unwrap_err();
                        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
                    }
                }
            }
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
