// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory that a device reads and writes too.

#![allow(unsafe_code, reason = "volatile accesses to mapped memory")]

use std::{fs::File, io};

use memmap2::{MmapOptions, MmapRaw};

/// Bytes that are copied at a time.
const WORD: usize = size_of::<u64>();

/// A window into a device: its registers, or memory that it shares with this program. All accesses
/// are volatile and aligned, because the window may be uncached, where other accesses are slow or
/// forbidden, and because the device sees them.
pub(crate) struct Window {
    map: MmapRaw,
    /// The place of the window in the mapping, and its length. `begin + len <= map.len()`, and
    /// `begin` is a multiple of [`WORD`].
    begin: usize,
    len: usize,
}

impl Window {
    /// Maps `len` bytes of `file` from `page`, a multiple of the page size. The window begins
    /// `begin` bytes after that.
    pub(crate) fn new(file: &File, page: u64, begin: usize, len: usize) -> io::Result<Self> {
        let invalid = || io::Error::new(io::ErrorKind::InvalidData, "the window is not aligned");
        let end = begin.checked_add(len).ok_or_else(invalid)?;
        if !begin.is_multiple_of(WORD) {
            return Err(invalid());
        }
        let map = MmapOptions::new().offset(page).len(end).map_raw(file)?;
        Ok(Self { map, begin, len })
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Returns a pointer to `T` at `at`.
    fn at<T>(&self, at: usize) -> *mut T {
        assert!(
            at.is_multiple_of(size_of::<T>()) && size_of::<T>() <= self.len.saturating_sub(at),
            "{at} of {} bytes",
            self.len
        );
        // `begin + len <= map.len()`, so this stays in the mapping.
        self.map.as_mut_ptr().wrapping_add(self.begin + at).cast()
    }

    pub(crate) fn read(&self, at: usize) -> u32 {
        // SAFETY: `Window::at` returns a pointer into the mapping, which lives as long as `self`.
        // It is aligned, because the mapping begins at a page, `begin` is a multiple of `WORD` and
        // `at` one of its size. Every value of an integer is valid, and a volatile read is atomic in
        // hardware, whatever the device writes.
        u32::from_le(unsafe { self.at::<u32>(at).read_volatile() })
    }

    pub(crate) fn write(&mut self, at: usize, value: u32) {
        // SAFETY: as in `read`. The mapping is writable, and no reference to it exists.
        unsafe { self.at::<u32>(at).write_volatile(value.to_le()) }
    }

    /// Copies `bytes` to the window. Both ends must be multiples of 8.
    pub(crate) fn copy_in(&mut self, at: usize, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<WORD>();
        assert!(rest.is_empty(), "whole words");
        for (word, at) in words.iter().zip((at..).step_by(WORD)) {
            // SAFETY: as in `write`.
            unsafe { self.at::<u64>(at).write_volatile(u64::from_ne_bytes(*word)) }
        }
    }

    /// Copies bytes out of the window. Both ends must be multiples of 8.
    pub(crate) fn copy_out(&self, at: usize, bytes: &mut [u8]) {
        let (words, rest) = bytes.as_chunks_mut::<WORD>();
        assert!(rest.is_empty(), "whole words");
        for (word, at) in words.iter_mut().zip((at..).step_by(WORD)) {
            // SAFETY: as in `read`.
            *word = unsafe { self.at::<u64>(at).read_volatile() }.to_ne_bytes();
        }
    }

    /// Overwrites bytes of the window with zeros. Both ends must be multiples of 8.
    pub(crate) fn wipe(&mut self, at: usize, len: usize) {
        for at in (at..at + len).step_by(WORD) {
            // SAFETY: as in `write`.
            unsafe { self.at::<u64>(at).write_volatile(0) }
        }
    }
}

/// Returns the bytes of a page.
#[must_use]
pub fn page_size() -> u64 {
    // SAFETY: the function takes any number, and only reads.
    let found = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u64::try_from(found).unwrap_or(4096)
}

/// Makes all earlier accesses to windows visible to devices before all later ones.
pub(crate) fn barrier() {
    // Orders what this core does for all observers of memory on x86-64, and prevents the compiler
    // from reordering.
    std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
    #[cfg(target_arch = "aarch64")]
    // SAFETY: the instruction waits, and does nothing else. The fence above is for other cores
    // only; this one includes devices.
    unsafe {
        std::arch::asm!("dsb sy", options(nostack, preserves_flags));
    }
}
