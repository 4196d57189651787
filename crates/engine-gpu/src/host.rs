// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory of the host that a device's library gives.

#![allow(unsafe_code, reason = "memory that a library gives")]

use std::{
    ops::{Deref, DerefMut},
    ptr::NonNull,
    slice,
    sync::Arc,
};

use zeroize::Zeroize;

use crate::ranges::Ranges;

/// Memory of the host from a library, which gets at it fast: pinned, where there is a bus to
/// cross. Wiped when dropped, and then given back by `O`'s own drop.
#[derive(Debug)]
pub struct HostMemory<O> {
    bytes: Bytes,
    _owner: O,
}

/// Declared, and so dropped, before the owner.
#[derive(Debug)]
struct Bytes {
    start: NonNull<u8>,
    len: usize,
    listed: Option<Arc<Ranges>>,
}

// SAFETY: it is memory like any other, by way of `&self` and `&mut self` alone.
unsafe impl Send for Bytes {}
// SAFETY: as above.
unsafe impl Sync for Bytes {}

impl<O> HostMemory<O> {
    /// The `len` bytes from `start` on, which become zero.
    ///
    /// # Safety
    /// They are there, and nobody else's, until `owner` is dropped.
    pub unsafe fn new(start: NonNull<u8>, len: usize, owner: O) -> Self {
        // SAFETY: by the caller's word.
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

    /// The same memory, which `ranges` has until it goes.
    #[must_use]
    pub fn listed(mut self, ranges: &Arc<Ranges>) -> Self {
        ranges.add(&self);
        self.bytes.listed = Some(Arc::clone(ranges));
        self
    }

    /// The same bytes as values of another type.
    ///
    /// # Panics
    /// If the memory does not begin where a `T` may.
    ///
    /// # Safety
    /// Any bytes are a `T`.
    pub unsafe fn slice_of<T>(&mut self) -> &mut [T] {
        let Bytes { start, len, .. } = self.bytes;
        let start = start.cast::<T>();
        assert!(start.is_aligned(), "memory of a library begins at a page");
        // SAFETY: aligned, within the memory, borrowed as `self` is, and any bytes will do.
        unsafe { slice::from_raw_parts_mut(start.as_ptr(), len / size_of::<T>()) }
    }
}

impl<O> Deref for HostMemory<O> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `new`; written when it was made, and borrowed as `self` is.
        unsafe { slice::from_raw_parts(self.bytes.start.as_ptr(), self.bytes.len) }
    }
}

impl<O> DerefMut for HostMemory<O> {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`.
        unsafe { slice::from_raw_parts_mut(self.bytes.start.as_ptr(), self.bytes.len) }
    }
}

impl Drop for Bytes {
    fn drop(&mut self) {
        // SAFETY: the owner is not dropped yet, and nobody has the memory any more.
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

    /// Sees, when it gives the memory back, whether that is wiped and on no list.
    struct Owner {
        memory: &'static [std::cell::Cell<u8>; 64],
        ranges: Arc<Ranges>,
        clean: std::rc::Rc<std::cell::Cell<Option<bool>>>,
    }

    impl Drop for Owner {
        fn drop(&mut self) {
            let wiped = self.memory.iter().all(|byte| byte.get() == 0);
            let start = self.memory.as_ptr().cast::<u8>();
            // SAFETY: the memory is there for good, and nobody writes to it now.
            let listed = self
                .ranges
                .contain(unsafe { slice::from_raw_parts(start, 1) });
            self.clean.set(Some(wiped && !listed));
        }
    }

    #[test]
    fn it_is_wiped_and_on_no_list_before_it_is_given_back() {
        let memory: &'static _ = Box::leak(Box::new([const { std::cell::Cell::new(7) }; 64]));
        let ranges = Arc::new(Ranges::default());
        let clean = std::rc::Rc::default();
        let owner = Owner {
            memory,
            ranges: Arc::clone(&ranges),
            clean: std::rc::Rc::clone(&clean),
        };
        let start = NonNull::from(memory).cast::<u8>();
        // SAFETY: so many bytes, for good; the owner looks at them at its end only.
        let mut host = unsafe { HostMemory::new(start, 64, owner) }.listed(&ranges);
        assert_eq!(*host, [0; 64]);
        assert!(ranges.contain(&host[8..]));
        host.fill(9);
        // SAFETY: any bytes are bytes.
        assert_eq!(unsafe { host.slice_of::<[u8; 3]>() }.len(), 21);
        assert_eq!(clean.get(), None);
        drop(host);
        assert_eq!(clean.get(), Some(true));
    }
}
