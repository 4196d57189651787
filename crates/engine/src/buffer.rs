// SPDX-License-Identifier: MIT OR Apache-2.0
//! Page-aligned memory for bulk data.

use alloc::{collections::TryReserveError, vec, vec::Vec};
use core::{fmt, ops};

use zeroize::Zeroize;

/// The alignment of every [`Buffer`]: what direct I/O and pinned transfers want.
pub const PAGE: usize = 4096;

/// Page-aligned bytes, wiped when dropped: they held plaintext.
pub struct Buffer {
    // Longer than `len`, so that an aligned start can be picked inside.
    memory: Vec<u8>,
    start: usize,
    len: usize,
}

impl Buffer {
    /// `len` zero bytes.
    ///
    /// # Panics
    /// Or an abort, as with any allocation, when there is too little memory.
    #[must_use]
    pub fn zeroed(len: usize) -> Self {
        // A length of which there is never enough memory is refused below, too,
        // and not made into a short one.
        Self::inside(vec![0; len.saturating_add(PAGE - 1)], len)
    }

    /// `len` zero bytes, if there is memory for them.
    ///
    /// # Errors
    /// When there is not.
    pub fn try_zeroed(len: usize) -> Result<Self, TryReserveError> {
        let mut memory = Vec::new();
        let with_page = len.saturating_add(PAGE - 1);
        memory.try_reserve_exact(with_page)?;
        memory.resize(with_page, 0);
        Ok(Self::inside(memory, len))
    }

    fn inside(memory: Vec<u8>, len: usize) -> Self {
        let address = memory.as_ptr().addr();
        Self {
            start: address.next_multiple_of(PAGE) - address,
            memory,
            len,
        }
    }
}

impl ops::Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.memory[self.start..][..self.len]
    }
}

impl ops::DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..][..self.len]
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} bytes)", self.len)
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.memory.as_mut_slice().zeroize();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_aligned_and_zero() {
        for len in [0, 1, PAGE - 1, PAGE, 3 * PAGE + 5] {
            for buffer in [Buffer::zeroed(len), Buffer::try_zeroed(len).unwrap()] {
                assert_eq!(buffer.len(), len);
                assert_eq!(buffer.as_ptr().addr() % PAGE, 0);
                assert!(buffer.iter().all(|&b| b == 0));
            }
        }
        for len in [usize::MAX, usize::MAX / 2] {
            assert!(Buffer::try_zeroed(len).is_err());
            // Modulo 2⁶⁴ the first is a short one with its page.
            assert!(std::panic::catch_unwind(|| Buffer::zeroed(len)).is_err());
        }
    }
}
