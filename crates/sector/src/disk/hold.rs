// SPDX-License-Identifier: MIT OR Apache-2.0
//! Changes the encryption of a range of a disk that is in use.

use std::{io, ops::Range, sync::Arc};

use super::{Disk, ranges::Claimed, sync::PoisonError};
use crate::{
    disk_error::DiskError,
    layout::{Layout, Part},
    storage::{ReadAt, Storage},
};

/// A range of a disk that no request uses: those in flight have ended, and later ones wait until
/// [`Held::replace`] or [`Held::release`]. If this is dropped without either, the range is lost: all later
/// requests that touch it fail.
#[must_use]
pub struct Held<'a> {
    disk: &'a Disk,
    /// The range, unless it can be used again.
    range: Option<Range<u64>>,
    /// Released last.
    _claimed: Claimed<'a>,
}

impl Disk {
    /// Waits for the requests that use `range` of the plaintext, and keeps later ones waiting. Requests for
    /// other ranges go on. The range is whole sectors of every size that it has or will have.
    pub fn hold(&self, range: Range<u64>) -> Held<'_> {
        let claimed = self.ranges.claim(range.clone(), true);
        Held {
            disk: self,
            range: Some(range),
            _claimed: claimed,
        }
    }

    /// Returns the storage of the disk, for changes of a range that [`Disk::hold`] holds. A sync fails if
    /// any earlier flush or sync has failed, so that neither the disk nor the caller misses an error that the
    /// system reports only once.
    #[must_use]
    pub fn storage(self: Arc<Self>) -> Arc<dyn Storage> {
        Arc::new(Beneath(self))
    }
}

impl Held<'_> {
    /// Replaces the parts of the disk, which changes nothing outside of the range, and lets requests use the
    /// range again.
    ///
    /// # Errors
    /// As for [`Disk::new`]. The range is then lost.
    ///
    /// # Panics
    /// If the length differs.
    pub fn replace(self, parts: Vec<Part>) -> Result<(), DiskError> {
        let layout = Layout::new(parts, self.disk.storage.alignment())?;
        assert_eq!(layout.len(), self.disk.len(), "the length never changes");
        let current = self.disk.current.write();
        current.unwrap_or_else(PoisonError::into_inner).layout = Arc::new(layout);
        self.release();
        Ok(())
    }

    /// Lets requests use the range again, in which nothing was changed.
    pub fn release(mut self) {
        self.range = None;
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if let Some(range) = self.range.take() {
            let current = self.disk.current.write();
            current
                .unwrap_or_else(PoisonError::into_inner)
                .lost
                .push(range);
        }
    }
}

/// The storage of a disk, with the disk's record of what is durable.
struct Beneath(Arc<Disk>);

impl Storage for Beneath {
    fn alignment(&self) -> usize {
        self.0.storage.alignment()
    }

    fn len(&self) -> io::Result<u64> {
        self.0.storage.len()
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.0.storage.read_exact_at(buf, offset)
    }

    fn write_all_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        let written = self.0.storage.write_all_at(buf, offset);
        self.0.durability.note_write();
        written
    }

    fn sync(&self) -> io::Result<()> {
        self.0.flush()
    }

    fn read_batch(&self, reads: &mut [ReadAt<'_>]) {
        self.0.storage.read_batch(reads);
    }

    fn allocate(&self, offset: u64, len: u64) -> io::Result<()> {
        self.0.storage.allocate(offset, len)
    }
}
