// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files and block devices with direct I/O, which bypasses the page cache.
//!
//! Measured as described in `storage.rs`, on the virtio disk, in thousands per second:
//!
//! | | reads | writes |
//! |---|---|---|
//! | `io_uring` | 17 | 24 |
//! | eight threads, started for each batch | 21 | 17 |
//! | one at a time | 4 | 7 |
//!
//! The disk is the limit, and its speed varies: an hour earlier, without encryption, `io_uring`
//! reached 23 to 40 and 30 to 47, threads 20 and 19.

use std::{
    fs::File,
    io,
    os::unix::fs::FileExt,
    sync::{Mutex, PoisonError},
    thread,
};

use luxor_engine::{Buffer, PAGE};
use luxor_uring::{DEPTH, Read, Rings, Write};
use nix::{
    errno::Errno,
    fcntl::{FcntlArg, OFlag, fcntl},
};
use rustix::fs::{AtFlags, StatxFlags, statx};

use crate::{
    buffers::Buffers,
    storage::{ReadAt, Storage, WriteAt, checked_end, ends_before},
};

/// The most bytes of a batch that are transferred at a time. A single transfer may be larger.
const ROUND: usize = 8 << 20;

/// The number of concurrent transfers without `io_uring`.
const THREADS: usize = 8;

/// A file or block device that is read and written past the page cache (`O_DIRECT`).
///
/// The transfers of a batch run concurrently, by `io_uring`, or by threads if the system lacks or
/// forbids it.
///
/// The caller's memory may have any alignment. If the system requires another one, the bytes are
/// copied through an aligned buffer.
#[derive(Debug)]
pub struct DirectFile {
    file: File,
    /// Offsets, lengths and addresses must be multiples of this.
    alignment: usize,
    rings: Option<Rings>,
    bounce: Buffers,
}

impl DirectFile {
    /// Switches `file` to direct I/O, and with it all handles that were cloned from it.
    ///
    /// # Errors
    /// [`DirectError`] if the system does not support it for this file.
    pub fn new(file: File) -> Result<Self, DirectError> {
        let system = |source: io::Error| DirectError::System { source };
        let found = statx(&file, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN);
        let alignment = match found {
            Ok(found) if found.stx_mask & StatxFlags::DIOALIGN.bits() != 0 => {
                let wanted = found.stx_dio_offset_align.max(found.stx_dio_mem_align);
                match usize::try_from(wanted) {
                    _ if found.stx_dio_offset_align == 0 => return Err(DirectError::Unsupported),
                    Ok(wanted) if wanted <= PAGE && wanted.is_power_of_two() => wanted,
                    _ => return Err(DirectError::Alignment { wanted }),
                }
            }
            // Linux before 6.1, or a file system that reports no alignment. None of these needs
            // more than a page.
            _ => PAGE,
        };
        let flags = fcntl(&file, FcntlArg::F_GETFL).map_err(|errno| system(errno.into()))?;
        let flags = OFlag::from_bits_retain(flags) | OFlag::O_DIRECT;
        match fcntl(&file, FcntlArg::F_SETFL(flags)) {
            Ok(_) => {}
            Err(Errno::EINVAL) => return Err(DirectError::Unsupported),
            Err(errno) => return Err(system(errno.into())),
        }
        Ok(Self {
            file,
            alignment,
            rings: Rings::new().ok().inspect(Rings::fill),
            bounce: Buffers::default(),
        })
    }

    /// Uses threads, as on a system without `io_uring`.
    #[must_use]
    pub fn without_io_uring(self) -> Self {
        Self {
            rings: None,
            ..self
        }
    }

    /// Whether the memory is aligned as the system requires.
    fn takes(&self, buf: &[u8]) -> bool {
        buf.as_ptr().addr().is_multiple_of(self.alignment)
    }

    /// Returns aligned memory for all of `lens` together, or `None` if none is needed.
    fn bounce(&self, lens: impl Iterator<Item = usize>) -> io::Result<Option<Buffer>> {
        match lens.map(|len| self.padded(len)).sum() {
            0 => Ok(None),
            len => self.bounce.take(len).map(Some),
        }
    }

    fn padded(&self, len: usize) -> usize {
        len.next_multiple_of(self.alignment)
    }

    /// Checks the first result of a read, and reads what is missing.
    fn finish_read(&self, read: Read<'_>) -> io::Result<()> {
        let Read {
            buf,
            offset,
            mut result,
        } = read;
        checked_end(buf.len(), offset)?;
        let mut done = 0;
        loop {
            match result {
                Ok(0) if done < buf.len() => return Err(ends_before(buf.len(), offset)),
                Ok(moved) => done += moved,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
            if done == buf.len() {
                return Ok(());
            }
            // An unaligned short read ends at the end of the file, and direct I/O cannot continue
            // from there.
            if !done.is_multiple_of(self.alignment) {
                return Err(ends_before(buf.len(), offset));
            }
            result = self.file.read_at(&mut buf[done..], offset + done as u64);
        }
    }

    fn finish_write(&self, write: Write<'_>) -> io::Result<()> {
        let Write {
            buf,
            offset,
            mut result,
        } = write;
        checked_end(buf.len(), offset)?;
        let mut done = 0;
        loop {
            match result {
                Ok(0) if done < buf.len() => return Err(io::ErrorKind::WriteZero.into()),
                Ok(moved) => done += moved,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
            if done == buf.len() {
                return Ok(());
            }
            result = self.file.write_at(&buf[done..], offset + done as u64);
        }
    }

    fn read_round(&self, round: &mut [ReadAt<'_>]) -> io::Result<()> {
        let elsewhere = round.iter().filter(|read| !self.takes(read.buf));
        let mut bounce = self.bounce(elsewhere.map(|read| read.buf.len()))?;
        let mut room = bounce.as_deref_mut().unwrap_or_default();
        let mut reads: Vec<_> = round
            .iter_mut()
            .map(|read| {
                let buf = if self.takes(read.buf) {
                    &mut *read.buf
                } else {
                    self.room(&mut room, read.buf.len())
                };
                Read::new(buf, read.offset)
            })
            .collect();
        match &self.rings {
            _ if reads.len() == 1 => {}
            Some(rings) => rings.read(&self.file, &mut reads),
            None => on_threads(&mut reads, |read| {
                read.result = self.file.read_at(read.buf, read.offset);
            }),
        }
        let finished = reads.into_iter().map(|read| self.finish_read(read));
        let results: Vec<_> = finished.collect();
        let mut room = bounce.as_deref_mut().unwrap_or_default();
        for (read, result) in round.iter_mut().zip(results) {
            if !self.takes(read.buf) {
                let bytes = self.room(&mut room, read.buf.len());
                if result.is_ok() {
                    read.buf.copy_from_slice(bytes);
                }
            }
            read.result = result;
        }
        if let Some(buffer) = bounce {
            self.bounce.give_back(buffer);
        }
        Ok(())
    }

    fn write_round(&self, round: &mut [WriteAt<'_>]) -> io::Result<()> {
        let elsewhere = round.iter().filter(|write| !self.takes(write.buf));
        let mut bounce = self.bounce(elsewhere.map(|write| write.buf.len()))?;
        let mut room = bounce.as_deref_mut().unwrap_or_default();
        let mut writes: Vec<_> = round
            .iter()
            .map(|write| {
                if self.takes(write.buf) {
                    return Write::new(write.buf, write.offset);
                }
                let bytes = self.room(&mut room, write.buf.len());
                bytes.copy_from_slice(write.buf);
                Write::new(bytes, write.offset)
            })
            .collect();
        match &self.rings {
            _ if writes.len() == 1 => {}
            Some(rings) => rings.write(&self.file, &mut writes),
            None => on_threads(&mut writes, |write| {
                write.result = self.file.write_at(write.buf, write.offset);
            }),
        }
        let finished = writes.into_iter().map(|write| self.finish_write(write));
        let results: Vec<_> = finished.collect();
        for (write, result) in round.iter_mut().zip(results) {
            write.result = result;
        }
        if let Some(buffer) = bounce {
            self.bounce.give_back(buffer);
        }
        Ok(())
    }

    /// Takes the next `len` bytes of the bounce buffer. What follows stays aligned.
    fn room<'a>(&self, room: &mut &'a mut [u8], len: usize) -> &'a mut [u8] {
        let taken = room.split_off_mut(..self.padded(len));
        &mut taken.expect("`bounce` summed all lengths")[..len]
    }
}

impl Storage for DirectFile {
    fn alignment(&self) -> usize {
        self.alignment
    }

    fn len(&self) -> io::Result<u64> {
        Storage::len(&self.file)
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let result = Ok(());
        let mut one = [ReadAt {
            buf,
            offset,
            result,
        }];
        self.read_round(&mut one)?;
        let [read] = one;
        read.result
    }

    fn write_all_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        let result = Ok(());
        let mut one = [WriteAt {
            buf,
            offset,
            result,
        }];
        self.write_round(&mut one)?;
        let [write] = one;
        write.result
    }

    fn read_batch(&self, reads: &mut [ReadAt<'_>]) {
        let mut rest = reads;
        while !rest.is_empty() {
            let count = fitting(rest.iter().map(|read| read.buf.len()));
            let round = rest.split_off_mut(..count).expect("count <= rest.len()");
            if let Err(error) = self.read_round(round) {
                for read in round {
                    read.result = Err(error.kind().into());
                }
            }
        }
    }

    fn write_batch(&self, writes: &mut [WriteAt<'_>]) {
        let mut rest = writes;
        while !rest.is_empty() {
            let count = fitting(rest.iter().map(|write| write.buf.len()));
            let round = rest.split_off_mut(..count).expect("count <= rest.len()");
            if let Err(error) = self.write_round(round) {
                for write in round {
                    write.result = Err(error.kind().into());
                }
            }
        }
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }

    fn free(&self) -> Option<u64> {
        self.file.free()
    }

    fn discard(&self, offset: u64, len: u64) -> io::Result<()> {
        self.file.discard(offset, len)
    }

    fn allocate(&self, offset: u64, len: u64) -> io::Result<()> {
        self.file.allocate(offset, len)
    }
}

/// Returns how many of the first transfers make up a round, at least one.
fn fitting(lens: impl Iterator<Item = usize>) -> usize {
    let total = lens.take(DEPTH).scan(0_usize, |sum, len| {
        *sum = sum.saturating_add(len);
        Some(*sum)
    });
    total.take_while(|&sum| sum <= ROUND).count().max(1)
}

/// Calls `work` for all of `items`, on up to [`THREADS`] threads.
fn on_threads<T: Send>(items: &mut [T], work: impl Fn(&mut T) + Sync) {
    let others = items.len().min(THREADS) - 1;
    let queue = Mutex::new(items.iter_mut());
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
    let worker = || {
        while let Some(item) = next() {
            work(item);
        }
    };
    thread::scope(|scope| {
        for _ in 0..others {
            if thread::Builder::new().spawn_scoped(scope, worker).is_err() {
                break;
            }
        }
        worker();
    });
}

/// Why direct I/O is not possible for a file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DirectError {
    /// The file system or device does not support it.
    #[error("its file system does not support direct I/O")]
    Unsupported,
    /// It is an object of a program that supplies the data.
    #[error("only a file supports direct I/O")]
    NotAFile,
    /// It requires a larger alignment than Luxor supports.
    #[error("direct I/O needs multiples of {wanted} bytes there, which Luxor does not support")]
    Alignment {
        /// The required multiple for offsets, lengths or addresses.
        wanted: u32,
    },
    /// The system refused it.
    #[error("direct I/O cannot be enabled: {source}")]
    System {
        /// The system's error.
        source: io::Error,
    },
}

#[cfg(test)]
mod tests;
