// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files and block devices past the system's page cache.
//!
//! Measured as at the head of `storage.rs`, on the virtio disk, thousands a second:
//!
//! | | reads | writes |
//! |---|---|---|
//! | `io_uring` | 17 | 24 |
//! | eight threads, made for each batch | 21 | 17 |
//! | one by one | 4 | 7 |
//!
//! The disk is the limit, and another time is another disk: an hour earlier, without
//! encryption, `io_uring` made 23 to 40 and 30 to 47, threads 20 and 19.

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

/// So many bytes of a batch are moved at a time; a single transfer may have more.
const ROUND: usize = 8 << 20;

/// Where there is no `io_uring`, so many transfers are under way at a time.
const THREADS: usize = 8;

/// A file or block device that is read and written past the page cache (`O_DIRECT`).
///
/// What a disk does with many transfers at a time it does here too: those of a batch are
/// all under way together, by `io_uring` or, where the system does not have or allow it,
/// by threads.
///
/// Memory may lie anywhere: where the system wants it otherwise, bytes go through other
/// memory.
#[derive(Debug)]
pub struct DirectFile {
    file: File,
    /// What offsets, lengths and addresses are multiples of.
    alignment: usize,
    rings: Option<Rings>,
    bounce: Buffers,
}

impl DirectFile {
    /// Switches `file` over, and so all handles that were cloned from it.
    ///
    /// # Errors
    /// [`DirectError`] where the system cannot do it.
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
            // Before Linux 6.1, and in file systems that do not care. No system of those
            // has larger blocks.
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
            rings: Rings::new().ok(),
            bounce: Buffers::default(),
        })
    }

    /// The same with threads, as where the system has no `io_uring`.
    #[must_use]
    pub fn without_io_uring(self) -> Self {
        Self {
            rings: None,
            ..self
        }
    }

    /// Whether the system takes memory there.
    fn takes(&self, buf: &[u8]) -> bool {
        buf.as_ptr().addr().is_multiple_of(self.alignment)
    }

    /// Memory for all of `lens`, each of which begins where the system takes it.
    fn bounce(&self, lens: impl Iterator<Item = usize>) -> io::Result<Option<Buffer>> {
        match lens.map(|len| self.padded(len)).sum() {
            0 => Ok(None),
            len => self.bounce.take(len).map(Some),
        }
    }

    fn padded(&self, len: usize) -> usize {
        len.next_multiple_of(self.alignment)
    }

    /// What one transfer has left to do.
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
            // Only at the end: a read that goes on from there would be refused.
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

    /// The next `len` bytes of memory for bouncing. What comes then is aligned too.
    fn room<'a>(&self, room: &mut &'a mut [u8], len: usize) -> &'a mut [u8] {
        let taken = room.split_off_mut(..self.padded(len));
        &mut taken.expect("there is room for all")[..len]
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
            let round = rest.split_off_mut(..count).expect("there are so many");
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
            let round = rest.split_off_mut(..count).expect("there are so many");
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

    fn discard(&self, offset: u64, len: u64) -> io::Result<()> {
        self.file.discard(offset, len)
    }
}

/// How many of the first transfers make a round, at least one.
fn fitting(lens: impl Iterator<Item = usize>) -> usize {
    let total = lens.take(DEPTH).scan(0_usize, |sum, len| {
        *sum = sum.saturating_add(len);
        Some(*sum)
    });
    total.take_while(|&sum| sum <= ROUND).count().max(1)
}

/// Does `work` on all of `items`, on as many threads as the system allows.
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

/// Why a file cannot be read and written past the page cache.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DirectError {
    /// Its file system or device cannot do it.
    #[error("its file system does not support direct I/O")]
    Unsupported,
    /// Its blocks are larger than anything known.
    #[error("direct I/O needs multiples of {wanted} bytes there, which Luxor does not support")]
    Alignment {
        /// What offsets, lengths or addresses should be multiples of.
        wanted: u32,
    },
    /// The system refuses.
    #[error("direct I/O cannot be enabled: {source}")]
    System {
        /// What it said.
        source: io::Error,
    },
}

#[cfg(test)]
mod tests;
