// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory for bulk data that is used again and again.

use std::{
    collections::VecDeque,
    io, mem,
    sync::{Mutex, MutexGuard, PoisonError},
};

use luxor_engine::{Buffer, PAGE};
use memmap2::MmapMut;

/// The lengths of the buffers that are kept are powers of two from this one on,
const LEAST: usize = 64 << 10;

/// and up to what the most clients send at most.
const MOST: usize = 1 << 20;

/// How many bytes are kept.
const KEPT: usize = 8 << 20;

/// Buffers that are kept: a fresh one costs a page fault for every 4 KiB. The one that
/// was used last is the next that is taken: it is in a cache.
#[derive(Debug, Default)]
pub struct Buffers {
    /// The one that was used last is at the end.
    free: Mutex<VecDeque<Buffer>>,
}

impl Buffers {
    /// How long a buffer is that is taken for `len` bytes: those who count memory count
    /// this.
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

    /// A buffer of [`rounded`](Self::rounded)`(len)` bytes, whose content is unspecified. A
    /// fresh one takes no memory before it is written to.
    ///
    /// # Errors
    /// When the system has no more memory.
    pub fn take(&self, len: usize) -> io::Result<Buffer> {
        let len = Self::rounded(len);
        let mut free = self.lock();
        let found = free.iter().rposition(|buffer| buffer.len() == len);
        if let Some(buffer) = found.and_then(|at| free.remove(at)) {
            return Ok(buffer);
        }
        drop(free);
        // Not by the allocator: it would keep what is given back, for each thread.
        Ok(Buffer::from_owner(MmapMut::map_anon(len)?))
    }

    /// For the next one. What is not kept is wiped.
    pub fn give_back(&self, buffer: Buffer) {
        if buffer.len() > MOST {
            return;
        }
        let mut free = self.lock();
        free.push_back(buffer);
        let kept: usize = free.iter().map(|buffer| buffer.len()).sum();
        // Those that were not used for long make room. They are wiped without the lock.
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

    /// Wipes and frees those that are kept.
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
    fn few_bytes_are_kept_and_those_that_were_used_last() {
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

    /// That a dropped buffer is wiped is tested where it is defined.
    #[test]
    fn nothing_is_kept_when_nobody_needs_it() {
        let buffers = Buffers::default();
        let mut buffer = buffers.take(1).unwrap();
        buffer[0] = 7;
        buffers.give_back(buffer);
        buffers.clear();
        assert!(buffers.lock().is_empty());
        assert_eq!(buffers.take(1).unwrap()[0], 0);
    }
}
