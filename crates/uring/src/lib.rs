// SPDX-License-Identifier: MIT OR Apache-2.0
//! Many reads or writes at once, by `io_uring`, in one call that borrows its buffers.
//!
//! | to do this | use |
//! |---|---|
//! | find out whether the system has it and allows it | [`Rings::new`] |
//! | have many reads, or many writes, under way at a time | [`Rings::read`], [`Rings::write`] |
//!
//! What the kernel was given is the kernel's until it says that it is done, whatever
//! becomes of the borrow. So a call here returns when *everything* is done that it began,
//! in every case, panics included; where the kernel does not let it wait, it ends the
//! process. That is the whole proof that buffers can be borrowed, and why nothing here is
//! asynchronous. Each call has a ring to itself, so that what it waits for is its own.
//!
//! The crate `io-uring` alone offers no safe completion-based I/O, and the async runtimes over it
//! want to own the buffers and need a reactor. Only direct I/O uses this crate: with the page cache
//! nothing is faster by it, and writes are slower (the head of `crates/sector/src/storage.rs`).
//!
//! ```
//! use luxor_uring::{Read, Rings};
//!
//! let file = tempfile::tempfile()?;
//! std::os::unix::fs::FileExt::write_all_at(&file, &[7; 8192], 0)?;
//! let (mut a, mut b) = ([0; 512], [0; 512]);
//! if let Ok(rings) = Rings::new() {
//!     let mut batch = [Read::new(&mut a, 4096), Read::new(&mut b, 8000)];
//!     rings.read(&file, &mut batch);
//!     let [a, b] = batch.map(|read| read.result.unwrap());
//!     assert_eq!((a, b), (512, 192));
//! }
//! # Ok::<(), std::io::Error>(())
//! ```

#![deny(unsafe_op_in_unsafe_fn)]

mod flight;

use std::{
    fmt, io,
    os::fd::{AsFd, AsRawFd},
    sync::{Mutex, MutexGuard, PoisonError},
};

use io_uring::{IoUring, Probe, opcode, squeue::Entry, types::Fd};

/// So many transfers are under way at a time, at most, in one call.
pub const DEPTH: usize = 128;

/// The most bytes that one transfer moves: the kernel moves no more than 2 GiB.
const LONGEST: usize = 1 << 30;

/// So many rings are kept; a call that finds none has one made.
const KEPT: usize = 16;

/// Rings that are used again and again, one at a time by a call.
pub struct Rings {
    idle: Mutex<Vec<IoUring>>,
}

/// One of many reads.
#[derive(Debug)]
pub struct Read<'a> {
    /// Where the bytes go.
    pub buf: &'a mut [u8],
    /// Where they come from.
    pub offset: u64,
    /// How it went, as `read_at` of [`std::os::unix::fs::FileExt`] tells it: a number of
    /// bytes that may be smaller than wanted, and is 0 at the end;
    /// [`io::ErrorKind::Interrupted`] when nothing was done, and it may be tried again in
    /// another way.
    pub result: io::Result<usize>,
}

/// One of many writes.
#[derive(Debug)]
pub struct Write<'a> {
    /// The bytes.
    pub buf: &'a [u8],
    /// Where they go.
    pub offset: u64,
    /// As [`Read::result`].
    pub result: io::Result<usize>,
}

impl<'a> Read<'a> {
    /// One that is not made yet.
    pub fn new(buf: &'a mut [u8], offset: u64) -> Self {
        let result = not_made();
        Self {
            buf,
            offset,
            result,
        }
    }
}

impl<'a> Write<'a> {
    /// One that is not made yet.
    #[must_use]
    pub fn new(buf: &'a [u8], offset: u64) -> Self {
        let result = not_made();
        Self {
            buf,
            offset,
            result,
        }
    }
}

impl Rings {
    /// Whatever the system wants for it is there afterwards.
    ///
    /// # Errors
    /// Where `io_uring` is not there or too old ([`io::ErrorKind::Unsupported`]), or is
    /// forbidden, or has no room; the errors are the system's.
    pub fn new() -> io::Result<Self> {
        let mut ring = new_ring()?;
        let mut probe = Probe::new();
        ring.submitter().register_probe(&mut probe)?;
        if ![opcode::Read::CODE, opcode::Write::CODE]
            .into_iter()
            .all(|code| probe.is_supported(code))
        {
            return Err(io::ErrorKind::Unsupported.into());
        }
        // A filter of system calls may allow all but this.
        let mut result = [not_made()];
        // SAFETY: there is no memory in it.
        unsafe { flight::fly(&mut ring, [opcode::Nop::new().build()], &mut result) }?;
        Ok(Self {
            idle: Mutex::new(vec![ring]),
        })
    }

    /// Makes each of `batch`, in any order.
    pub fn read(&self, file: impl AsFd, batch: &mut [Read<'_>]) {
        let fd = Fd(file.as_fd().as_raw_fd());
        for round in batch.chunks_mut(DEPTH) {
            let entries = round.iter_mut().map(|Read { buf, offset, .. }| {
                opcode::Read::new(fd, buf.as_mut_ptr(), length(buf.len()))
                    .offset(position(*offset))
                    .build()
            });
            let entries: Vec<_> = entries.collect();
            let mut results: Vec<_> = round.iter().map(|_| not_made()).collect();
            // SAFETY: the memory is that of buffers that are borrowed, exclusively, for
            // longer than this call.
            unsafe { self.fly(entries, &mut results) };
            for (read, result) in round.iter_mut().zip(results) {
                read.result = result;
            }
        }
    }

    /// Makes each of `batch`, in any order: they should not overlap.
    pub fn write(&self, file: impl AsFd, batch: &mut [Write<'_>]) {
        let fd = Fd(file.as_fd().as_raw_fd());
        for round in batch.chunks_mut(DEPTH) {
            let entries = round.iter().map(|Write { buf, offset, .. }| {
                opcode::Write::new(fd, buf.as_ptr(), length(buf.len()))
                    .offset(position(*offset))
                    .build()
            });
            let entries: Vec<_> = entries.collect();
            let mut results: Vec<_> = round.iter().map(|_| not_made()).collect();
            // SAFETY: the memory is that of buffers that are borrowed for longer than
            // this call, and the kernel only reads it.
            unsafe { self.fly(entries, &mut results) };
            for (write, result) in round.iter_mut().zip(results) {
                write.result = result;
            }
        }
    }

    /// Those of which `results` says nothing afterwards were not begun.
    ///
    /// # Safety
    /// That of [`flight::fly`].
    unsafe fn fly(&self, entries: Vec<Entry>, results: &mut [io::Result<usize>]) {
        let Some(mut ring) = self.lock().pop().or_else(|| new_ring().ok()) else {
            return;
        };
        // SAFETY: that of this function.
        let all = unsafe { flight::fly(&mut ring, entries, results) };
        // What the kernel did not take is still in the ring, and goes with it.
        if all.is_ok() {
            let mut idle = self.lock();
            if idle.len() < KEPT {
                idle.push(ring);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<IoUring>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn new_ring() -> io::Result<IoUring> {
    let depth = u32::try_from(DEPTH).expect("a small number");
    // Without this a completion interrupts whatever the thread is doing; here it waits.
    let quiet = IoUring::builder().setup_coop_taskrun().build(depth);
    match quiet {
        // Before Linux 5.19.
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => IoUring::new(depth),
        ring => ring,
    }
}

fn not_made() -> io::Result<usize> {
    Err(io::ErrorKind::Interrupted.into())
}

fn length(len: usize) -> u32 {
    u32::try_from(len.min(LONGEST)).expect("it is made to fit")
}

/// To the kernel, the largest number means the file's own position. The one before it is
/// as far behind every end, and refused.
fn position(offset: u64) -> u64 {
    offset.min(u64::MAX - 1)
}

impl fmt::Debug for Rings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Rings({} idle)", self.lock().len())
    }
}
