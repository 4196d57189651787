// SPDX-License-Identifier: MIT OR Apache-2.0
//! Many reads or writes at once by `io_uring`, in one call that borrows its buffers. Needs Linux
//! 5.10 or later.
//!
//! | to do this | use |
//! |---|---|
//! | find out whether the system supports and permits it | [`Rings::new`] |
//! | be able to go on in a process that may make no more rings | [`Rings::fill`] |
//! | make many reads, or many writes, at a time | [`Rings::read`], [`Rings::write`] |
//!
//! The kernel may use a submitted buffer until it reports completion, whatever happens to the
//! borrow. A call here therefore returns only when *everything* that it began is finished, in every
//! case, panics included. If the kernel does not let it wait, it aborts the process. That is the
//! whole argument why buffers can be borrowed, and the reason why nothing here is asynchronous.
//! Each call has a ring to itself, so it waits only for its own transfers.
//!
//! A ring is restricted to reads and writes (`IORING_REGISTER_RESTRICTIONS`). A filter of system calls does
//! not see what a ring is asked to do: by a ring without restrictions, a confined process could open files
//! and connect to other programs.
//!
//! The crate `io-uring` alone offers no safe completion-based I/O, and the async runtimes based on
//! it own the buffers and need a reactor. Only direct I/O uses this crate: with the page cache it
//! makes nothing faster, and writes slower (see the head of `crates/sector/src/storage.rs`).
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

use io_uring::{IoUring, Probe, opcode, register::Restriction, squeue::Entry, types::Fd};

/// The most transfers that one call has in flight at a time. Longer batches are made in rounds.
pub const DEPTH: usize = 128;

/// The most bytes that one transfer moves. The kernel moves at most 2 GiB.
const LONGEST: usize = 1 << 30;

/// The most idle rings that are kept. A call that finds none makes a new one.
const KEPT: usize = 16;

/// A pool of rings, each used by one call at a time. Several threads may call at once.
pub struct Rings {
    idle: Mutex<Vec<IoUring>>,
}

/// One read of a batch.
#[derive(Debug)]
pub struct Read<'a> {
    /// The buffer to fill.
    pub buf: &'a mut [u8],
    /// The offset in the file.
    pub offset: u64,
    /// The outcome, set by [`Rings::read`], as `read_at` of [`std::os::unix::fs::FileExt`] returns
    /// it: the number of bytes, which may be less than requested and is 0 at the end of the file.
    /// [`io::ErrorKind::Interrupted`] means that nothing was done, and the caller may try again in
    /// another way, such as with `read_at`.
    pub result: io::Result<usize>,
}

/// One write of a batch.
#[derive(Debug)]
pub struct Write<'a> {
    /// The bytes to write.
    pub buf: &'a [u8],
    /// The offset in the file.
    pub offset: u64,
    /// The outcome, set by [`Rings::write`]: the number of bytes written, which may be less than
    /// requested. [`io::ErrorKind::Interrupted`] as in [`Read::result`].
    pub result: io::Result<usize>,
}

impl<'a> Read<'a> {
    /// Describes a read that is not made yet.
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
    /// Describes a write that is not made yet.
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
    /// Makes the first ring, and checks that the system supports and permits everything needed.
    ///
    /// # Errors
    /// [`io::ErrorKind::Unsupported`] if `io_uring` is missing or too old. Otherwise the system's
    /// error, if it is forbidden or there is no room for a ring.
    pub fn new() -> io::Result<Self> {
        let mut ring = new_ring()?;
        // A filter of system calls may forbid only io_uring_enter: try it.
        let mut result = [not_made()];
        // SAFETY: the entry names no memory and no descriptor, and `ring` is new, so empty.
        unsafe { flight::fly(&mut ring, [opcode::Nop::new().build()], &mut result) }?;
        Ok(Self {
            idle: Mutex::new(vec![ring]),
        })
    }

    /// Makes all rings that are kept, as far as the system has room: for a process that will be confined, and
    /// may then make no more.
    pub fn fill(&self) {
        let mut idle = self.lock();
        while idle.len() < KEPT {
            let Ok(ring) = new_ring() else { return };
            idle.push(ring);
        }
    }

    /// Makes each read of `batch`, in any order, and sets the `result` of each. Returns when all
    /// are finished.
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
            // SAFETY: `entries` name buffers that `batch` borrows exclusively, and the descriptor
            // of `file`. Both outlive this call.
            unsafe { self.fly(entries, &mut results) };
            for (read, result) in round.iter_mut().zip(results) {
                read.result = result;
            }
        }
    }

    /// Makes each write of `batch`, in any order, and sets the `result` of each. Returns when all
    /// are finished. Overlapping writes leave either content.
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
            // SAFETY: `entries` name buffers that `batch` borrows, and the descriptor of `file`.
            // Both outlive this call, and the kernel only reads the buffers.
            unsafe { self.fly(entries, &mut results) };
            for (write, result) in round.iter_mut().zip(results) {
                write.result = result;
            }
        }
    }

    /// Makes the transfers `entries`. If an entry of `results` is unchanged afterwards, that
    /// transfer was not begun.
    ///
    /// # Safety
    /// As for [`flight::fly`].
    unsafe fn fly(&self, entries: Vec<Entry>, results: &mut [io::Result<usize>]) {
        let Some(mut ring) = self.lock().pop().or_else(|| new_ring().ok()) else {
            return;
        };
        // SAFETY: the caller guarantees the entries; rings in `idle` and new rings are empty.
        let all = unsafe { flight::fly(&mut ring, entries, results) };
        // Entries that the kernel did not accept are still in the ring, which is then dropped.
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

/// What a ring may be asked to do. The last is for [`Rings::new`].
const OPERATIONS: [u8; 3] = [opcode::Read::CODE, opcode::Write::CODE, opcode::Nop::CODE];

fn new_ring() -> io::Result<IoUring> {
    let depth = u32::try_from(DEPTH).expect("128 fits");
    let mut builder = IoUring::builder();
    builder.setup_r_disabled();
    // Without this flag every completion interrupts the thread, which only waits here.
    let quiet = builder.clone().setup_coop_taskrun().build(depth);
    let ring = match quiet {
        // Linux before 5.19 does not support the flag.
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => builder.build(depth),
        ring => ring,
    }
    .map_err(|error| match error.kind() {
        // Linux before 5.10 does not support disabled rings either.
        io::ErrorKind::InvalidInput => io::ErrorKind::Unsupported.into(),
        _ => error,
    })?;
    let submitter = ring.submitter();
    let mut probe = Probe::new();
    submitter.register_probe(&mut probe)?;
    if !OPERATIONS.into_iter().all(|code| probe.is_supported(code)) {
        return Err(io::ErrorKind::Unsupported.into());
    }
    submitter.register_restrictions(&mut OPERATIONS.map(Restriction::sqe_op))?;
    submitter.register_enable_rings()?;
    Ok(ring)
}

fn not_made() -> io::Result<usize> {
    Err(io::ErrorKind::Interrupted.into())
}

fn length(len: usize) -> u32 {
    u32::try_from(len.min(LONGEST)).expect("LONGEST fits")
}

/// The kernel takes `u64::MAX` as the file's own position. The number below it is beyond every end
/// too, and refused.
fn position(offset: u64) -> u64 {
    offset.min(u64::MAX - 1)
}

impl fmt::Debug for Rings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Rings({} idle)", self.lock().len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_only_reads_and_writes() {
        let mut ring = new_ring().expect("this test needs io_uring: see kernel.io_uring_disabled");
        let path = c"/etc/passwd";
        let open = opcode::OpenAt::new(Fd(-1), path.as_ptr()).build();
        let mut results = [not_made()];
        // SAFETY: the entry names only `path`, which outlives the call, and the ring is new, so empty.
        unsafe { flight::fly(&mut ring, [open], &mut results) }.unwrap();
        let [opened] = results;
        assert_eq!(opened.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        // Nor can the restrictions be taken back.
        let again = ring
            .submitter()
            .register_restrictions(&mut [Restriction::sqe_op(0)]);
        assert!(again.is_err());
    }

    #[test]
    fn a_filled_pool_has_all_rings_that_are_kept() {
        let rings = Rings::new().expect("this test needs io_uring: see kernel.io_uring_disabled");
        rings.fill();
        assert_eq!(rings.lock().len(), KEPT);
    }
}
