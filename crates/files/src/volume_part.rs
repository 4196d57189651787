// SPDX-License-Identifier: MIT OR Apache-2.0
//! The part of a file or device that holds a volume: all of it, its end from some byte on, or a
//! partition.
//!
//! ```text
//! locks of metadata   of the whole file or device, as cryptsetup takes them
//! locks of data       of the whole file or device, as qemu takes them
//! reads and writes    in the part only: it has a fixed length, like a device
//! ```

use std::{fmt, fs::File, io, ops::Range, path::Path, sync::Arc};

use luxor_sector::{PartitionConflict, PartitionTable, PartitionTableError, Storage, Window};
use rustix::fs::ioctl_blksszget;

use crate::{block_device::FileIdentity, error_class::FileErrorClass, io_words};

/// The part of a file, device or storage that holds a volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VolumePart {
    /// All of it. A regular file can grow and shrink with the volume.
    #[default]
    Whole,
    /// From this byte, a multiple of 512, to the end. The file keeps its length.
    From(u64),
    /// The partition with this number, as Linux counts: logical ones begin with 5.
    Partition(u32),
}

/// Where a volume is: in a part of the file or device at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VolumePlace<'a> {
    /// The path of the file or device.
    pub path: &'a Path,
    /// The part of it.
    pub part: VolumePart,
}

impl<'a, P: AsRef<Path> + ?Sized> From<&'a P> for VolumePlace<'a> {
    fn from(path: &'a P) -> Self {
        let (path, part) = (path.as_ref(), VolumePart::Whole);
        Self { path, part }
    }
}

/// Why a file or device has no such part.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VolumePartError {
    /// A pipe or terminal was to be read from an offset on.
    #[error("it is a stream, which has no parts")]
    Stream,
    /// The offset is not a multiple of 512.
    #[error("a volume begins at a multiple of 512 bytes, not at byte {offset}")]
    Misaligned {
        /// The offset that the caller asked for.
        offset: u64,
    },
    /// The offset is beyond the end.
    #[error("it has {len} bytes, so no volume can begin at byte {offset}")]
    BeyondEnd {
        /// The offset that the caller asked for.
        offset: u64,
        /// The length of the file or device.
        len: u64,
    },
    /// There is no partition table.
    #[error("it has no partition table")]
    NoTable,
    /// The table has no partition with this number.
    #[error("there is no partition {number}{}", there_are(present))]
    NoPartition {
        /// The number that the caller asked for.
        number: u32,
        /// The numbers of the partitions.
        present: Vec<u32>,
    },
    /// The partition is an extended one.
    #[error(
        "partition {number} is an extended partition, which contains others{}",
        there_are(present)
    )]
    Extended {
        /// The number that the caller asked for.
        number: u32,
        /// The numbers of the partitions that are not extended.
        present: Vec<u32>,
    },
    /// The file or device is shorter than its partition table says.
    #[error("partition {number} ends at byte {end}, but only {len} bytes are there")]
    CutOff {
        /// The number of the partition.
        number: u32,
        /// The end of the partition.
        end: u64,
        /// The length of the file or device.
        len: u64,
    },
    /// The partition covers something else.
    #[error(
        "partition {number} overlaps {}, which a change of the volume would destroy: repair the \
         partition table first",
        conflict_words(*with)
    )]
    Conflict {
        /// The number of the partition.
        number: u32,
        /// What it covers.
        with: PartitionConflict,
    },
    /// The system has a device for the partition, with other locks and another cache.
    #[error("this part of it is in {device}, which has a lock and a cache of its own")]
    HasDevice {
        /// Its path, such as `/dev/sda2`.
        device: String,
    },
    /// The partition table cannot be read.
    #[error("{}", table_words(.0))]
    Table(#[source] PartitionTableError),
    /// The system's error.
    #[error("{}", io_words(.0))]
    Io(#[source] io::Error),
}

impl VolumePartError {
    /// The kind of failure.
    #[must_use]
    pub fn class(&self) -> FileErrorClass {
        match self {
            Self::HasDevice { .. } => FileErrorClass::Busy,
            Self::Io(error) | Self::Table(PartitionTableError::Io(error)) => error.into(),
            _ => FileErrorClass::Failure,
        }
    }
}

fn table_words(error: &PartitionTableError) -> String {
    match error {
        PartitionTableError::Io(error) => io_words(error),
        error => error.to_string(),
    }
}

fn conflict_words(with: PartitionConflict) -> String {
    match with {
        PartitionConflict::Table => "the partition table, or bytes outside its space".to_owned(),
        PartitionConflict::Partition(number) => format!("partition {number}"),
        PartitionConflict::MbrEntry(number) => format!("partition {number} of the hybrid MBR"),
    }
}

/// Lists the first numbers of partitions.
fn there_are(present: &[u32]) -> String {
    const SHOWN: usize = 16;
    let numbers: Vec<_> = present.iter().take(SHOWN).map(u32::to_string).collect();
    let more = present.len().saturating_sub(SHOWN);
    let more = if more > 0 {
        format!(" and {more} more")
    } else {
        String::new()
    };
    match numbers.as_slice() {
        [] => "; it has none".to_owned(),
        numbers => format!("; it has {}{more}", numbers.join(", ")),
    }
}

impl VolumePart {
    /// Returns the bytes of this part of `storage`, or `None` for all of it. The sectors of a disk
    /// have `sector_size` bytes, if that is known. If the part is to be changed, it must not cover
    /// anything else.
    ///
    /// # Errors
    /// [`VolumePartError`]: there is no such part.
    pub(crate) fn range(
        self,
        storage: &dyn Storage,
        sector_size: Option<u64>,
        is_changed: bool,
    ) -> Result<Option<Range<u64>>, VolumePartError> {
        let len = || storage.len().map_err(VolumePartError::Io);
        match self {
            Self::Whole => Ok(None),
            Self::From(offset) if !offset.is_multiple_of(512) => {
                Err(VolumePartError::Misaligned { offset })
            }
            Self::From(offset) => {
                let len = len()?;
                if offset > len {
                    return Err(VolumePartError::BeyondEnd { offset, len });
                }
                Ok(Some(offset..len))
            }
            Self::Partition(number) => {
                let table = PartitionTable::read(storage, sector_size);
                let table = table.map_err(VolumePartError::Table)?;
                let table = table.ok_or(VolumePartError::NoTable)?;
                let data = table.partitions.iter().filter(|found| !found.is_extended);
                let present = || data.map(|found| found.number).collect();
                let Some(found) = table.partition(number) else {
                    let present = present();
                    return Err(VolumePartError::NoPartition { number, present });
                };
                if found.is_extended {
                    let present = present();
                    return Err(VolumePartError::Extended { number, present });
                }
                let (end, len) = (found.offset.saturating_add(found.len), len()?);
                if end > len {
                    return Err(VolumePartError::CutOff { number, end, len });
                }
                if let (Some(with), true) = (table.conflict(found), is_changed) {
                    return Err(VolumePartError::Conflict { number, with });
                }
                Ok(Some(found.offset..end))
            }
        }
    }

    /// As [`VolumePart::range`], of a file or block device, whose bytes are `storage`. If it is to be changed, it must not be a
    /// part for which the system has a device: cryptsetup's lock is that device's, and the two have
    /// caches that do not know of each other.
    pub(crate) fn range_of_file(
        self,
        file: &File,
        storage: &dyn Storage,
        is_changed: bool,
    ) -> Result<Option<Range<u64>>, VolumePartError> {
        if self == Self::Whole {
            return Ok(None);
        }
        let sector_size = ioctl_blksszget(file).ok().map(u64::from);
        let range = self.range(storage, sector_size, is_changed)?;
        let identity = FileIdentity::from_metadata(&file.metadata().map_err(VolumePartError::Io)?);
        if is_changed
            && let (Some(range), Some(identity)) = (&range, identity)
            && let Some(device) = identity.partition_over(range)
        {
            return Err(VolumePartError::HasDevice { device });
        }
        Ok(range)
    }

    /// Returns the bytes of this part of a storage that is no file. If they are to be changed, they must
    /// not cover anything else.
    ///
    /// # Errors
    /// [`VolumePartError`]: there is no such part, or the length of the storage is unknown.
    pub fn range_of_storage(
        self,
        storage: &dyn Storage,
        is_changed: bool,
    ) -> Result<Range<u64>, VolumePartError> {
        match self.range(storage, None, is_changed)? {
            Some(range) => Ok(range),
            None => Ok(0..storage.len().map_err(VolumePartError::Io)?),
        }
    }

    /// Returns this part of a storage that is no file. If it is to be changed, it must not cover
    /// anything else.
    ///
    /// # Errors
    /// [`VolumePartError`]: there is no such part.
    pub fn of_storage(
        self,
        storage: Arc<dyn Storage>,
        is_changed: bool,
    ) -> Result<Arc<dyn Storage>, VolumePartError> {
        match self.range(&*storage, None, is_changed)? {
            None => Ok(storage),
            Some(range) => Ok(Arc::new(
                window(storage, &range).map_err(VolumePartError::Io)?,
            )),
        }
    }
}

/// Returns the bytes of a range as a storage.
pub(crate) fn window<S: Storage>(storage: S, range: &Range<u64>) -> io::Result<Window<S>> {
    Window::new(storage, range.start, range.end - range.start)
}

impl fmt::Display for VolumePart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole => Ok(()),
            Self::From(offset) => write!(f, " from byte {offset} on"),
            Self::Partition(number) => write!(f, ", partition {number}"),
        }
    }
}
