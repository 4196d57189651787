// SPDX-License-Identifier: MIT OR Apache-2.0
//! Storage in memory.

use std::{
    fmt, io,
    sync::{PoisonError, RwLock},
};

use crate::storage::{Storage, checked_end, ends_before};

/// Bytes in memory that behave like a file: a header that came through a pipe, or a volume in a
/// test.
///
/// It grows when written beyond its end, with zeros in between, up to [`MemoryStorage::MAX_LEN`].
/// A write beyond that fails with [`io::ErrorKind::StorageFull`]. The memory is not wiped.
#[derive(Default)]
pub struct MemoryStorage {
    bytes: RwLock<Vec<u8>>,
}

impl MemoryStorage {
    /// 1 GiB, so that an offset from a damaged header cannot exhaust memory.
    pub const MAX_LEN: u64 = 1 << 30;

    /// Makes storage that contains `bytes`.
    #[must_use]
    pub fn new(bytes: Vec<u8>) -> Self {
        Self {
            bytes: RwLock::new(bytes),
        }
    }

    /// Returns the bytes.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a copy of the bytes.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        self.bytes
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl Storage for MemoryStorage {
    fn len(&self) -> io::Result<u64> {
        Ok(self
            .bytes
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .len() as u64)
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        checked_end(buf.len(), offset)?;
        let bytes = self.bytes.read().unwrap_or_else(PoisonError::into_inner);
        let found = usize::try_from(offset)
            .ok()
            .and_then(|start| bytes.get(start..)?.get(..buf.len()))
            .ok_or_else(|| ends_before(buf.len(), offset))?;
        buf.copy_from_slice(found);
        Ok(())
    }

    fn write_all_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        let end = checked_end(buf.len(), offset)?;
        // An empty write does not grow a file.
        if buf.is_empty() {
            return Ok(());
        }
        let (Ok(start), Ok(end), true) = (
            usize::try_from(offset),
            usize::try_from(end),
            end <= Self::MAX_LEN,
        ) else {
            return Err(io::ErrorKind::StorageFull.into());
        };
        let mut bytes = self.bytes.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(missing) = end.checked_sub(bytes.len()) {
            bytes
                .try_reserve(missing)
                .map_err(|_| io::ErrorKind::OutOfMemory)?;
            bytes.resize(end, 0);
        }
        bytes[start..end].copy_from_slice(buf);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

impl fmt::Debug for MemoryStorage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let len = self
            .bytes
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .len();
        write!(f, "MemoryStorage({len} bytes)")
    }
}
