// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory for bulk data that is used again and again.

use std::{
    io,
    sync::{Mutex, MutexGuard, PoisonError},
};

use luxor_engine::Buffer;
use memmap2::MmapMut;

/// The length of the buffers that are kept: what the most clients send at most.
const LEN: usize = 1 << 20;

/// How many are kept, for as many requests at a time.
const KEPT: usize = 16;

/// Buffers that are kept: a fresh one costs a page fault for every 4 KiB. The one that
/// was used last is the next that is taken: it is in a cache.
#[derive(Debug, Default)]
pub struct Buffers {
    free: Mutex<Vec<Buffer>>,
}

impl Buffers {
    /// A buffer of at least `len` bytes, whose content is unspecified.
    ///
    /// # Errors
    /// When the system has no more memory.
    pub fn take(&self, len: usize) -> io::Result<Buffer> {
        if len <= LEN
            && let Some(buffer) = self.lock().pop()
        {
            return Ok(buffer);
        }
        if len > LEN {
            // Not by the allocator: it would keep what is given back, for each thread.
            return Ok(Buffer::from_owner(MmapMut::map_anon(len)?));
        }
        Buffer::try_zeroed(LEN).map_err(|_| io::ErrorKind::OutOfMemory.into())
    }

    /// For the next one. What is not kept is wiped.
    pub fn give_back(&self, buffer: Buffer) {
        let mut free = self.lock();
        if buffer.len() == LEN && free.len() < KEPT {
            free.push(buffer);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Buffer>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
