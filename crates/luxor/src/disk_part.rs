// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the plaintext of a volume contains, and where: all of it is hostile input.

use std::{io, ops::Range};

use luxor_files::{VolumePart, VolumePartError};
use luxor_sector::{Disk, Storage, Window};

use crate::Contents;

/// All of a disk, or a partition of it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DiskPart {
    /// Its bytes, which are within the disk.
    pub range: Range<u64>,
    /// What it contains.
    pub contents: Contents,
}

impl DiskPart {
    /// Looks at all of the plaintext of a volume, or at the partition with this number. If it is to be
    /// changed, the partition must not cover anything else.
    ///
    /// # Errors
    /// [`VolumePartError`]: there is no such partition, or the volume cannot be read.
    pub fn find(
        disk: &Disk,
        partition: Option<u32>,
        is_changed: bool,
    ) -> Result<Self, VolumePartError> {
        let part = partition.map_or(VolumePart::Whole, VolumePart::Partition);
        let range = part.range_of_storage(&Plaintext(disk), is_changed)?;
        let window = Window::new(Plaintext(disk), range.start, range.end - range.start);
        let window = window.map_err(VolumePartError::Io)?;
        let contents = Contents::recognise_plaintext(&window, partition.is_some());
        let contents = contents.map_err(VolumePartError::Io)?;
        Ok(Self { range, contents })
    }
}

/// The plaintext, for what looks into storages.
struct Plaintext<'a>(&'a Disk);

impl Storage for Plaintext<'_> {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.len())
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.0.read(buf, offset)
    }

    fn write_all_at(&self, _: &[u8], _: u64) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}
