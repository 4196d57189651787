// SPDX-License-Identifier: MIT OR Apache-2.0
//! The sector size of a new volume, as cryptsetup chooses it.

use std::{fs::File, os::unix::fs::FileTypeExt};

use luxor_sector::SectorSize;
use rustix::fs::{ioctl_blkpbszget, ioctl_blksszget};

/// Returns the sector size for a new volume whose data have `data_len` bytes, in `file`. `None` stands
/// for a file that does not exist yet.
///
/// It is 4096 bytes in a regular file. On a block device it is the physical block size, or the logical
/// one if the physical one is no sector size; most disks are fastest with these. If the data are not
/// whole sectors of that size, it is 512.
#[must_use]
pub fn suitable_sector_size(file: Option<&File>, data_len: u64) -> SectorSize {
    let wanted = file
        .filter(|file| is_device(file))
        .map_or(SectorSize::B4096, of_device);
    if data_len.is_multiple_of(wanted.bytes() as u64) {
        wanted
    } else {
        SectorSize::B512
    }
}

fn is_device(file: &File) -> bool {
    let metadata = file.metadata();
    metadata.is_ok_and(|metadata| metadata.file_type().is_block_device())
}

fn of_device(device: &File) -> SectorSize {
    let size = |bytes: u32| SectorSize::try_from(bytes.min(4096)).ok();
    let logical = ioctl_blksszget(device).ok();
    let physical = ioctl_blkpbszget(device).ok();
    // A physical block holds whole logical ones.
    let is_possible = |bytes: &u32| logical.is_none_or(|logical| bytes.is_multiple_of(logical));
    let physical = physical.filter(|bytes| *bytes <= 4096 && is_possible(bytes));
    let larger = physical.and_then(size).max(logical.and_then(size));
    larger.unwrap_or(SectorSize::B512)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_sectors_of_4096_bytes_if_they_fit() {
        let file = tempfile::tempfile().unwrap();
        for (len, expected) in [
            (0, SectorSize::B4096),
            (4096, SectorSize::B4096),
            (20 << 20, SectorSize::B4096),
            (4095, SectorSize::B512),
            (4096 + 512, SectorSize::B512),
            (4096 + 2048, SectorSize::B512),
            ((20 << 20) + 1, SectorSize::B512),
        ] {
            for file in [None, Some(&file)] {
                assert_eq!(suitable_sector_size(file, len), expected, "{len}");
            }
        }
    }
}
