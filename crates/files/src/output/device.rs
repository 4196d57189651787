// SPDX-License-Identifier: MIT OR Apache-2.0
//! A block device as an output.

use std::{
    fs::File,
    io,
    path::Path,
    sync::{Arc, atomic::AtomicBool},
};

use luxor_sector::Storage;
use nix::fcntl::OFlag;

use super::{
    OutputError, OutputOptions,
    entry::{DirectoryEntry, Found},
};
use crate::{
    block_device::FileIdentity,
    contents::{may_be_luks2, recognised},
    locks::{Access, DataLock, Lock, LockError, MetadataLock},
    metadata_change::NotLocked,
};

/// The length at the beginning that may contain signatures of file systems, volume managers and
/// partition tables. LUKS2's secondary header begins at 4 MiB or before and has at most 4 MiB.
const HEAD: u64 = 8 << 20;

/// The length at the end that may contain signatures: GPT's second copy, RAID's and ZFS's labels.
const TAIL: u64 = 1 << 20;

/// A block device that is open exclusively.
#[derive(Debug)]
pub struct Device {
    file: File,
    _lock: DataLock,
    capacity: u64,
    wiped: bool,
    disable_locks: bool,
    becomes_luks2: bool,
    cancel: Arc<AtomicBool>,
}

impl Device {
    /// Opens `path` exclusively, so that it cannot be mounted meanwhile. Locks its metadata once,
    /// so that a lock that cannot be had is reported before any work.
    pub fn open(
        path: &Path,
        entry: &DirectoryEntry,
        found: &Found,
        options: &OutputOptions<'_>,
    ) -> Result<Self, OutputError> {
        let path_of = || path.to_owned();
        let failed = |source| OutputError::Create {
            path: path_of(),
            source,
        };
        let in_use = |user| OutputError::InUse {
            path: path_of(),
            user,
        };

        // Look for the user first, because the system would only report that the device is busy.
        if let Some(user) = found.identity().and_then(FileIdentity::user) {
            return Err(in_use(user));
        }
        if !options.force {
            // If the device cannot be read, refuse without naming its contents.
            let file = entry.open(found, OFlag::O_RDONLY);
            let found = file.map_or_else(|_| Vec::new(), |file| recognised(&file));
            return Err(OutputError::IsDevice {
                path: path_of(),
                found,
            });
        }
        let file =
            entry
                .open(found, OFlag::O_RDWR | OFlag::O_EXCL)
                .map_err(|source| match source.kind() {
                    io::ErrorKind::ResourceBusy => in_use("in use".into()),
                    _ => failed(source),
                })?;
        let lock = DataLock::acquire(&file, Access::Write).map_err(failed)?;
        let lock = lock.ok_or_else(|| OutputError::Locked { path: path_of() })?;
        let capacity = Storage::len(&file).map_err(failed)?;
        let device = Self {
            file,
            _lock: lock,
            capacity,
            wiped: false,
            disable_locks: options.disable_locks,
            becomes_luks2: options.becomes_luks2,
            cancel: options.cancel.cloned().unwrap_or_default(),
        };
        let lock = device.lock_metadata();
        lock.map_err(|source| NotLocked::new(path, source))?;
        Ok(device)
    }

    /// Waits for the locks under which metadata on the device are written or destroyed.
    /// cryptsetup's lock is needed if there are, or will be, LUKS2 metadata.
    pub fn lock_metadata(&self) -> Result<MetadataLock, LockError> {
        let is_needed = |lock| {
            !self.disable_locks
                && match lock {
                    Lock::Node => true,
                    Lock::Named => self.becomes_luks2 || may_be_luks2(&self.file),
                }
        };
        MetadataLock::to_change(&self.file, is_needed, &self.cancel)
    }

    pub fn file(&self) -> &File {
        &self.file
    }

    /// The length in bytes.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Overwrites with zeros the signatures of an earlier use at both ends, and everything before
    /// byte `data`. After a crash from here on the device has no recognisable contents, rather than
    /// an old header over new data. The metadata are locked meanwhile.
    pub fn wipe(&mut self, data: u64) -> Result<(), LockError> {
        let _lock = self.lock_metadata()?;
        self.overwrite_ends(data).map_err(LockError::Io)
    }

    fn overwrite_ends(&mut self, data: u64) -> io::Result<()> {
        let zeros = vec![0; 1 << 20];
        let head = data.max(HEAD).min(self.capacity);
        let tail = self.capacity.saturating_sub(TAIL).max(head);
        for (mut at, end) in [(0, head), (tail, self.capacity)] {
            while at < end {
                let len = usize::try_from(end - at).map_or(zeros.len(), |len| len.min(zeros.len()));
                Storage::write_all_at(&self.file, &zeros[..len], at)?;
                at += len as u64;
            }
        }
        self.wiped = true;
        self.file.sync_data()
    }

    pub fn check_wiped(&mut self) -> io::Result<()> {
        if self.wiped {
            Ok(())
        } else {
            self.wipe(0).map_err(io::Error::other)
        }
    }
}
