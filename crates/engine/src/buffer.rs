// SPDX-License-Identifier: MIT OR Apache-2.0
//! Page-aligned memory for bulk data.

use alloc::{alloc::alloc_zeroed, boxed::Box, collections::TryReserveError, vec, vec::Vec};
use core::{alloc::Layout, fmt, ops};

use zeroize::Zeroize;

/// The alignment of every [`Buffer`], suitable for direct I/O and pinned transfers.
pub const PAGE: usize = 4096;

/// Page-aligned bytes, wiped when dropped because they may have held plaintext.
pub struct Buffer(Memory);

enum Memory {
    Heap {
        /// Longer than `len` by up to a page, so that it contains an aligned start.
        bytes: Vec<u8>,
        start: usize,
        len: usize,
    },
    Owned(Box<dyn ops::DerefMut<Target = [u8]> + Send + Sync>),
}

impl Buffer {
    /// Allocates `len` zero bytes.
    ///
    /// # Panics
    /// If there is too little memory. Like any allocation, it may also abort.
    #[must_use]
    pub fn zeroed(len: usize) -> Self {
        // The sum saturates, so a huge `len` fails in the allocation instead of wrapping to a short
        // one.
        Self::inside(vec![0; len.saturating_add(PAGE - 1)], len)
    }

    /// Allocates `len` zero bytes, or returns an error if there is too little memory.
    ///
    /// # Errors
    /// [`TryReserveError`] if the allocation fails.
    pub fn try_zeroed(len: usize) -> Result<Self, TryReserveError> {
        let with_page = len.saturating_add(PAGE - 1);
        // The system's own zeros, which cost nothing before their pages are used.
        if let Ok(layout) = Layout::array::<u8>(with_page) {
            // SAFETY: `with_page` is at least `PAGE - 1`, not 0.
            let begin = unsafe { alloc_zeroed(layout) };
            if !begin.is_null() {
                // SAFETY: the global allocator, which is that of `Vec`, has returned `with_page` zeros with
                // this layout.
                let memory = unsafe { Vec::from_raw_parts(begin, with_page, with_page) };
                return Ok(Self::inside(memory, len));
            }
        }
        // For its error.
        let mut memory = Vec::new();
        memory.try_reserve_exact(with_page)?;
        memory.resize(with_page, 0);
        Ok(Self::inside(memory, len))
    }

    /// Wraps memory that was allocated elsewhere, such as memory pinned for a device. On drop it is
    /// wiped first, then released by the owner's `Drop`.
    ///
    /// # Panics
    /// If the memory does not begin at a multiple of [`PAGE`].
    #[must_use]
    pub fn from_owner(owner: impl ops::DerefMut<Target = [u8]> + Send + Sync + 'static) -> Self {
        let address = owner.as_ptr().addr();
        assert!(
            address.is_multiple_of(PAGE),
            "memory at {address:#x}, and a buffer begins at a multiple of {PAGE}"
        );
        Self(Memory::Owned(Box::new(owner)))
    }

    fn inside(bytes: Vec<u8>, len: usize) -> Self {
        let address = bytes.as_ptr().addr();
        let start = address.next_multiple_of(PAGE) - address;
        Self(Memory::Heap { bytes, start, len })
    }
}

impl ops::Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Memory::Heap { bytes, start, len } => &bytes[*start..][..*len],
            Memory::Owned(owner) => owner,
        }
    }
}

impl ops::DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        match &mut self.0 {
            Memory::Heap { bytes, start, len } => &mut bytes[*start..][..*len],
            Memory::Owned(owner) => owner,
        }
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} bytes)", self.len())
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.zeroize();
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
            // `usize::MAX` plus a page would wrap to a short length.
            assert!(std::panic::catch_unwind(|| Buffer::zeroed(len)).is_err());
        }
    }

    /// Sends its contents to a channel when it is dropped.
    struct Pinned {
        buffer: Buffer,
        left: std::sync::mpsc::Sender<Vec<u8>>,
    }

    impl ops::Deref for Pinned {
        type Target = [u8];

        fn deref(&self) -> &[u8] {
            &self.buffer[..100]
        }
    }

    impl ops::DerefMut for Pinned {
        fn deref_mut(&mut self) -> &mut [u8] {
            &mut self.buffer[..100]
        }
    }

    impl Drop for Pinned {
        fn drop(&mut self) {
            self.left.send(self.buffer.to_vec()).unwrap();
        }
    }

    #[test]
    fn memory_is_wiped_before_it_returns_to_its_owner() {
        let (left, after) = std::sync::mpsc::channel();
        let mut pinned = Pinned {
            buffer: Buffer::zeroed(101),
            left,
        };
        pinned.buffer.fill(0x5a);
        let mut buffer = Buffer::from_owner(pinned);
        assert_eq!((buffer.len(), buffer[99]), (100, 0x5a));
        buffer[0] = 0xa5;
        drop(buffer);
        let mut expected = vec![0; 101];
        expected[100] = 0x5a;
        assert_eq!(after.recv().unwrap(), expected);
    }

    #[test]
    #[should_panic(expected = "begins at a multiple of 4096")]
    fn memory_of_an_owner_is_aligned() {
        struct Inside(Buffer);
        impl ops::Deref for Inside {
            type Target = [u8];
            fn deref(&self) -> &[u8] {
                &self.0[8..]
            }
        }
        impl ops::DerefMut for Inside {
            fn deref_mut(&mut self) -> &mut [u8] {
                &mut self.0[8..]
            }
        }
        let _ = Buffer::from_owner(Inside(Buffer::zeroed(16)));
    }
}
