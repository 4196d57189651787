// SPDX-License-Identifier: MIT OR Apache-2.0
//! Host memory that a device's library allocates.

#![allow(unsafe_code, reason = "the library allocates the memory")]

use std::{
    ops::{Deref, DerefMut},
    ptr::NonNull,
    slice,
    sync::Arc,
};

use zeroize::Zeroize;

use crate::ranges::Ranges;

/// Host memory from a library, to which the device has fast access: pinned memory where data cross
/// a bus. When dropped, it is wiped first, then the drop of `O` frees it.
#[derive(Debug)]
pub struct HostMemory<O> {
    bytes: Bytes,
    _owner: O,
}

/// The wiped part of [`HostMemory`]. It is declared before the owner, so it is dropped first.
#[derive(Debug)]
struct Bytes {
    start: NonNull<u8>,
    len: usize,
    listed: Option<Arc<Ranges>>,
}

// SAFETY: the memory is ordinary memory, reached only through `&self` and `&mut self`.
unsafe impl Send for Bytes {}
// SAFETY: as for `Send`.
unsafe impl Sync for Bytes {}

impl<O> HostMemory<O> {
    /// Takes over the `len` bytes at `start` and sets them to zero.
    ///
    /// # Safety
    /// The `len` bytes at `start` are valid for reads and writes, and nothing else uses them, until
    /// `owner` is dropped.
    pub unsafe fn new(start: NonNull<u8>, len: usize, owner: O) -> Self {
        // SAFETY: the caller promises that `start` is valid for `len` bytes.
        unsafe { start.as_ptr().write_bytes(0, len) };
        let bytes = Bytes {
            start,
            len,
            listed: None,
        };
        Self {
            bytes,
            _owner: owner,
        }
    }

    /// Adds the memory to `ranges` until it is dropped.
    #[must_use]
    pub fn listed(mut self, ranges: &Arc<Ranges>) -> Self {
        ranges.add(&self);
        self.bytes.listed = Some(Arc::clone(ranges));
        self
    }

    /// Returns the same bytes as values of type `T`.
    ///
    /// # Panics
    /// If the memory is not aligned for `T`.
    ///
    /// # Safety
    /// Every bit pattern is a valid `T`.
    pub unsafe fn slice_of<T>(&mut self) -> &mut [T] {
        let Bytes { start, len, .. } = self.bytes;
        let start = start.cast::<T>();
        assert!(start.is_aligned(), "a library's memory is page-aligned");
        // SAFETY: `start` is aligned for `T`; `len / size_of::<T>()` values fit in `len` bytes; the
        // slice borrows `self`; the caller promises that any bytes are a valid `T`.
        unsafe { slice::from_raw_parts_mut(start.as_ptr(), len / size_of::<T>()) }
    }
}

impl<O> Deref for HostMemory<O> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `new` requires `len` valid bytes at `start` and initializes them; the slice
        // borrows `self`.
        unsafe { slice::from_raw_parts(self.bytes.start.as_ptr(), self.bytes.len) }
    }
}

impl<O> DerefMut for HostMemory<O> {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, with a unique borrow.
        unsafe { slice::from_raw_parts_mut(self.bytes.start.as_ptr(), self.bytes.len) }
    }
}

impl Drop for Bytes {
    fn drop(&mut self) {
        // SAFETY: `Bytes` is dropped before `_owner`, so the `len` bytes at `start` are still
        // valid, and no borrow of them is left.
        let bytes = unsafe { slice::from_raw_parts_mut(self.start.as_ptr(), self.len) };
        bytes.zeroize();
        if let Some(ranges) = &self.listed {
            ranges.remove(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Records, when it frees the memory, whether the memory is wiped and no longer listed.
    struct Owner {
        memory: NonNull<[u8; 64]>,
        ranges: Arc<Ranges>,
        clean: std::rc::Rc<std::cell::Cell<Option<bool>>>,
    }

    impl Drop for Owner {
        fn drop(&mut self) {
            // SAFETY: the test made it from a `Box`, and `HostMemory` no longer uses it.
            let memory = unsafe { Box::from_raw(self.memory.as_ptr()) };
            let listed = self.ranges.contain(&memory[..1]);
            self.clean.set(Some(*memory == [0; 64] && !listed));
        }
    }

    #[test]
    fn memory_is_wiped_and_unlisted_before_it_is_released() {
        let memory = NonNull::from(Box::leak(Box::new([7; 64])));
        let ranges = Arc::new(Ranges::default());
        let clean = std::rc::Rc::default();
        let owner = Owner {
            memory,
            ranges: Arc::clone(&ranges),
            clean: std::rc::Rc::clone(&clean),
        };
        // SAFETY: `memory` has 64 bytes until `owner` is dropped, which alone reads them then.
        let mut host = unsafe { HostMemory::new(memory.cast(), 64, owner) }.listed(&ranges);
        assert_eq!(*host, [0; 64]);
        assert!(ranges.contain(&host[8..]));
        host.fill(9);
        // SAFETY: any three bytes are a valid `[u8; 3]`.
        assert_eq!(unsafe { host.slice_of::<[u8; 3]>() }.len(), 21);
        assert_eq!(clean.get(), None);
        drop(host);
        assert_eq!(clean.get(), Some(true));
    }
}
