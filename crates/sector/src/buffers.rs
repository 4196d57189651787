// SPDX-License-Identifier: MIT OR Apache-2.0
//! A pool of buffers for bulk data.

use std::{
    collections::VecDeque,
    io, mem,
    sync::{Mutex, MutexGuard, PoisonError},
};

use luxor_engine::{Buffer, PAGE};
use memmap2::MmapMut;

/// The length of the shortest kept buffers. Lengths of kept buffers are powers of two.
const LEAST: usize = 64 << 10;

/// The length of the longest kept buffers: the largest request of most clients.
const MOST: usize = 1 << 20;

/// The most bytes that are kept.
const KEPT: usize = 8 << 20;

/// A pool of buffers for bulk data. A fresh buffer costs a page fault for every 4 KiB, so the pool
/// keeps used ones: buffers of up to 1 MiB, 8 MiB together. The buffer that was used last is taken
/// first, because it is still in a cache.
#[derive(Debug, Default)]
pub struct Buffers {
    /// The buffer that was used last is at the end.
    free: Mutex<VecDeque<Buffer>>,
}

impl Buffers {
    /// The length of the buffer that [`take`](Self::take) returns for `len` bytes: the next power
    /// of two from 64 KiB to 1 MiB, and whole pages above. Callers that account for memory must
    /// count this length.
    #[must_use]
    pub const fn rounded(len: usize) -> usize {
        if len <= LEAST {
            LEAST
        } else if len <= MOST {
            len.next_power_of_two()
        } else {
            len.next_multiple_of(PAGE)
        }
    }

    /// Returns a buffer of [`rounded`](Self::rounded)`(len)` bytes with unspecified content. A
    /// fresh buffer takes no memory before it is written to.
    ///
    /// # Errors
    /// The error of mmap, if the system has no more memory.
    pub fn take(&self, len: usize) -> io::Result<Buffer> {
        let len = Self::rounded(len);
        let mut free = self.lock();
        let found = free.iter().rposition(|buffer| buffer.len() == len);
        if let Some(buffer) = found.and_then(|at| free.remove(at)) {
            return Ok(buffer);
        }
        drop(free);
        // Not from the allocator, which would keep freed memory for each thread.
        Ok(Buffer::from_owner(MmapMut::map_anon(len)?))
    }

    /// Gives a buffer that came from [`take`](Self::take) back to the pool. A buffer that is not
    /// kept is wiped and freed. A kept buffer is not wiped before it is used again.
    pub fn give_back(&self, buffer: Buffer) {
        if buffer.len() > MOST {
            return;
        }
        let mut free = self.lock();
        free.push_back(buffer);
        let kept: usize = free.iter().map(|buffer| buffer.len()).sum();
        // Drop the buffers that were unused for longest. They are wiped after the lock is released.
        let mut excess = kept.saturating_sub(KEPT);
        let mut gone = Vec::new();
        while excess > 0
            && let Some(buffer) = free.pop_front()
        {
            excess = excess.saturating_sub(buffer.len());
            gone.push(buffer);
        }
        drop(free);
    }

    /// Wipes and frees all kept buffers.
    pub fn clear(&self) {
        let gone = mem::take(&mut *self.lock());
        drop(gone);
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Buffer>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_as_long_as_is_counted_for_it() {
        let buffers = Buffers::default();
        for _ in 0..2 {
            for len in [1, 4096, LEAST, LEAST + 1, 300_000, MOST, MOST + 1, 32 << 20] {
                let buffer = buffers.take(len).unwrap();
                assert_eq!(buffer.len(), Buffers::rounded(len));
                assert!(buffer.len() >= len && buffer.len() < (2 * len).max(LEAST + 1));
                buffers.give_back(buffer);
            }
        }
    }

    #[test]
    fn only_few_and_the_latest_buffers_are_kept() {
        let buffers = Buffers::default();
        let kept = || buffers.lock().iter().map(|b| b.len()).sum::<usize>();
        let many: Vec<Buffer> = (0..40).map(|_| buffers.take(MOST).unwrap()).collect();
        for buffer in many {
            buffers.give_back(buffer);
            assert!(kept() <= KEPT);
        }
        assert_eq!(kept(), KEPT);
        let mut small = buffers.take(1).unwrap();
        small[0] = 7;
        buffers.give_back(small);
        assert!(kept() <= KEPT);
        assert_eq!(buffers.take(1).unwrap()[0], 7);
    }

    /// The test that a dropped buffer is wiped is where `Buffer` is defined.
    #[test]
    fn clear_drops_every_kept_buffer() {
        let buffers = Buffers::default();
        let mut buffer = buffers.take(1).unwrap();
        buffer[0] = 7;
        buffers.give_back(buffer);
        buffers.clear();
        assert!(buffers.lock().is_empty());
        assert_eq!(buffers.take(1).unwrap()[0], 0);
    }
}
