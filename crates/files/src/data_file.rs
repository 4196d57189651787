// SPDX-License-Identifier: MIT OR Apache-2.0
//! A file or block device that is the storage of a disk, and is in use as long as it is open.

use std::{
    fmt,
    fs::{self, File, OpenOptions},
    io::{self, Seek},
    ops::Range,
    os::{
        fd::{AsRawFd, RawFd},
        unix::fs::{FileTypeExt, OpenOptionsExt},
    },
    path::{Path, PathBuf},
    sync::Arc,
};

use luxor_sector::{DirectError, DirectFile, ReadAt, Storage, WriteAt};
use nix::{
    fcntl::{FcntlArg, OFlag, fcntl},
    libc,
    sys::statfs::{FsType, TMPFS_MAGIC, fstatfs},
};

use crate::{
    block_device::FileIdentity,
    display::{io_words, path_name},
    error_class::FileErrorClass,
    input::{Input, InputError, Role},
    locks::{Access, DataLock},
    opening::{open, open_to_read},
    volume_part::{VolumePart, VolumePartError, VolumePlace, window},
};

/// The type of the file system `ramfs` (Linux, `include/uapi/linux/magic.h`).
const RAMFS_MAGIC: FsType = FsType(0x8584_58f6);

/// The storage with a volume's data, open for reading or for reading and writing.
///
/// Its data are locked until the last handle is closed, those from [`DataFile::input`] and
/// [`DataFile::into_storage`] included. A reader permits other readers; a writer permits no other
/// program. A block device that is open for writing is also open exclusively (`O_EXCL`), so that it
/// cannot be mounted.
pub struct DataFile {
    path: PathBuf,
    part: VolumePart,
    /// The bytes of this part, if it is not all of the file.
    range: Option<Range<u64>>,
    kind: Kind,
}

enum Kind {
    /// A regular file or a block device, and the locks on its data.
    File { file: File, lock: Arc<DataLock> },
    /// What the caller supplies in place of a file.
    Storage(Arc<dyn Storage>),
}

impl fmt::Debug for DataFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DataFile")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

impl DataFile {
    /// Opens a regular file or a block device, or a part of it, and locks all of its data. `-` is
    /// refused.
    ///
    /// # Errors
    /// [`DataFileError`]: the path is not usable storage, has no such part or is in use, or the system
    /// failed.
    pub fn open<'a>(
        place: impl Into<VolumePlace<'a>>,
        access: Access,
    ) -> Result<Self, DataFileError> {
        let VolumePlace { path, part } = place.into();
        let path_of = || path.to_owned();
        let failed = |source| DataFileError::Open {
            path: path_of(),
            access,
            source,
        };
        let in_use = |user| DataFileError::InUse {
            path: path_of(),
            user,
        };
        if path == Path::new("-") {
            return Err(DataFileError::StandardInput);
        }
        // Check before opening: opening a pipe would wait for its other end.
        let metadata = fs::metadata(path).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
                DataFileError::Missing { path: path_of() }
            }
            _ => failed(source),
        })?;
        if metadata.is_dir() {
            return Err(DataFileError::Folder { path: path_of() });
        }
        let identity = FileIdentity::from_metadata(&metadata)
            .ok_or_else(|| DataFileError::NoStorage { path: path_of() })?;
        let no_part = |source| DataFileError::Part {
            path: path_of(),
            source,
        };
        if part != VolumePart::Whole && access == Access::Write {
            // Before the users of other partitions: the device of this one may have none.
            let file = open_to_read(path).map_err(failed)?;
            let range = part.range_of_file(&file, &file, true);
            range.map_err(no_part)?;
        }
        if access == Access::Write
            && let Some(user) = identity.user()
        {
            return Err(in_use(user));
        }
        let excluding = if access == Access::Write && metadata.file_type().is_block_device() {
            libc::O_EXCL
        } else {
            0
        };
        let mut options = OpenOptions::new();
        options
            .read(true)
            .write(access == Access::Write)
            .custom_flags(excluding | libc::O_NOCTTY);
        let file = open(path, &options).map_err(|source| match source.kind() {
            io::ErrorKind::ResourceBusy => in_use("in use".into()),
            _ => failed(source),
        })?;
        // In the meantime the name may have been given to another file.
        if FileIdentity::from_metadata(&file.metadata().map_err(failed)?) != Some(identity) {
            return Err(failed(io::Error::other("it changed while it was opened")));
        }
        let lock = DataLock::acquire(&file, access).map_err(failed)?;
        let lock = lock.ok_or_else(|| DataFileError::Locked {
            path: path_of(),
            access,
        })?;
        let lock = Arc::new(lock);
        let range = part.range_of_file(&file, &file, access == Access::Write);
        let range = range.map_err(no_part)?;
        Ok(Self {
            path: path_of(),
            part,
            range,
            kind: Kind::File { file, lock },
        })
    }

    /// Uses a storage that is no file, such as an object in a network store. `name` is its name for
    /// messages. Nothing is locked: the caller ensures that nothing else changes it meanwhile.
    #[must_use]
    pub fn of_storage(storage: Arc<dyn Storage>, name: &Path) -> Self {
        Self {
            path: name.to_owned(),
            part: VolumePart::Whole,
            range: None,
            kind: Kind::Storage(storage),
        }
    }

    /// The open file or device. `None` for [`DataFile::of_storage`].
    #[must_use]
    pub fn file(&self) -> Option<&File> {
        match &self.kind {
            Kind::File { file, .. } => Some(file),
            Kind::Storage(_) => None,
        }
    }

    /// The path as the user gave it.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The length in bytes.
    ///
    /// # Errors
    /// [`DataFileError::Read`].
    #[expect(
        clippy::len_without_is_empty,
        reason = "emptiness has no meaning of its own here"
    )]
    pub fn len(&self) -> Result<u64, DataFileError> {
        let len = match &self.kind {
            _ if let Some(range) = &self.range => return Ok(range.end - range.start),
            Kind::File { file, .. } => Storage::len(file),
            Kind::Storage(storage) => storage.len(),
        };
        len.map_err(|error| self.unreadable(error))
    }

    /// Whether its length can be set: it is a regular file, and not only a part of it.
    #[must_use]
    pub fn can_set_len(&self) -> bool {
        self.range.is_none() && self.is_regular()
    }

    /// Whether it is a regular file, or a part of one.
    #[must_use]
    pub fn is_regular(&self) -> bool {
        match &self.kind {
            Kind::File { file, .. } => file.metadata().is_ok_and(|metadata| metadata.is_file()),
            Kind::Storage(_) => false,
        }
    }

    /// Makes a regular file longer, by a hole, or shorter. The length is durable on return.
    ///
    /// # Errors
    /// The system's error. [`io::ErrorKind::Unsupported`] if its length cannot be set
    /// ([`DataFile::can_set_len`]).
    pub fn set_len(&self, len: u64) -> io::Result<()> {
        match &self.kind {
            Kind::File { file, .. } if self.can_set_len() => {
                file.set_len(len)?;
                file.sync_all()
            }
            _ => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Returns an input that reads it from the beginning, such as the metadata of the volume.
    ///
    /// # Errors
    /// [`DataFileError::Read`] and [`DataFileError::Input`].
    pub fn input(&self) -> Result<Input, DataFileError> {
        let (file, lock) = match &self.kind {
            Kind::Storage(storage) => return Ok(Input::of_storage(storage.clone(), &self.path)?),
            Kind::File { file, lock } => (file, lock),
        };
        let file = file.try_clone().and_then(|mut file| {
            // All handles share one position, which asking for the length has moved.
            file.rewind()?;
            Ok(file)
        });
        let file = file.map_err(|error| self.unreadable(error))?;
        let place = VolumePlace {
            path: &self.path,
            part: self.part,
        };
        let input = Input::of_place(file, place, self.range.clone(), Role::Metadata)?;
        Ok(input.keep(Arc::clone(lock)))
    }

    /// Returns the storage, which can be read, and written if it was opened for writing. The lock holds
    /// as long as this or the storage exists.
    ///
    /// # Errors
    /// [`DataFileError::Read`]: the system has no handle left.
    pub fn storage(&self) -> Result<Arc<dyn Storage>, DataFileError> {
        let storage = match &self.kind {
            Kind::File { file, lock } => file
                .try_clone()
                .and_then(|file| limited(file, self.range.as_ref(), lock)),
            Kind::Storage(storage) => Ok(Arc::clone(storage)),
        };
        storage.map_err(|error| self.unreadable(error))
    }

    /// Returns the storage, which can be read, and written if it was opened for writing. With `direct`
    /// it bypasses the system's page cache.
    ///
    /// # Errors
    /// [`DirectError`], which says why direct I/O is not possible.
    pub fn into_storage(self, direct: bool) -> Result<Arc<dyn Storage>, DirectError> {
        let system = |source| DirectError::System { source };
        let range = self.range.as_ref();
        match self.kind {
            Kind::File { file, lock } if direct => {
                limited(DirectFile::new(file)?, range, &lock).map_err(system)
            }
            Kind::File { file, lock } => limited(file, range, &lock).map_err(system),
            Kind::Storage(_) if direct => Err(DirectError::NotAFile),
            Kind::Storage(storage) => Ok(storage),
        }
    }

    /// The descriptors that this, or the storage that it becomes, holds, for
    /// [`OfProcess::holding`](crate::OfProcess::holding).
    #[must_use]
    pub fn descriptors(&self) -> Vec<RawFd> {
        match &self.kind {
            Kind::File { file, lock } => vec![file.as_raw_fd(), lock.descriptor()],
            Kind::Storage(_) => Vec::new(),
        }
    }

    /// Opens the same file again for direct I/O, with the same access.
    ///
    /// # Errors
    /// [`DirectError`], which says why direct I/O is not possible.
    pub fn direct_again(&self) -> Result<Arc<dyn Storage>, DirectError> {
        let system = |source| DirectError::System { source };
        match &self.kind {
            Kind::File { file, lock } => {
                let file = DirectFile::new(open_again(file).map_err(system)?)?;
                limited(file, self.range.as_ref(), lock).map_err(system)
            }
            Kind::Storage(_) => Err(DirectError::NotAFile),
        }
    }

    /// Returns the storage for one user that changes much of it, of which all writes are past the page
    /// cache, if the system can do that. Reads are not: the cache may have the bytes. A file system in
    /// memory is nothing but a page cache.
    #[must_use]
    pub fn written_past_cache(&self) -> Option<Arc<dyn Storage>> {
        let Kind::File { file, lock } = &self.kind else {
            return None;
        };
        let system = fstatfs(file).ok()?.filesystem_type();
        if system == TMPFS_MAGIC || system == RAMFS_MAGIC {
            return None;
        }
        let direct = DirectFile::new(open_again(file).ok()?).ok()?;
        let cached = file.try_clone().ok()?;
        let storage = WrittenPastCache { cached, direct };
        limited(storage, self.range.as_ref(), lock).ok()
    }

    fn unreadable(&self, source: io::Error) -> DataFileError {
        let path = self.path.clone();
        DataFileError::Read { path, source }
    }
}

/// Opens the same file again, even if its name now belongs to another one, with the same access.
fn open_again(file: &File) -> io::Result<File> {
    let flags = OFlag::from_bits_retain(fcntl(file, FcntlArg::F_GETFL)?);
    let can_write = flags & OFlag::O_ACCMODE == OFlag::O_RDWR;
    open(
        format!("/proc/self/fd/{}", file.as_raw_fd()),
        OpenOptions::new().read(true).write(can_write),
    )
}

/// Returns a file as storage, limited to this range of its bytes, whose data are locked as long as it
/// exists.
fn limited<S: Storage + 'static>(
    storage: S,
    range: Option<&Range<u64>>,
    lock: &Arc<DataLock>,
) -> io::Result<Arc<dyn Storage>> {
    let _lock = Arc::clone(lock);
    Ok(match range {
        None => Arc::new(Locked { storage, _lock }),
        Some(range) => {
            let storage = window(storage, range)?;
            Arc::new(Locked { storage, _lock })
        }
    })
}

/// A file that is read through the page cache and written past it. The system drops what the cache has of
/// bytes that are written.
struct WrittenPastCache {
    cached: File,
    direct: DirectFile,
}

impl Storage for WrittenPastCache {
    fn alignment(&self) -> usize {
        self.direct.alignment()
    }

    fn len(&self) -> io::Result<u64> {
        Storage::len(&self.cached)
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.cached.read_exact_at(buf, offset)
    }

    fn write_all_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.direct.write_all_at(buf, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.direct.sync()
    }

    fn read_batch(&self, reads: &mut [ReadAt<'_>]) {
        self.cached.read_batch(reads);
    }

    fn write_batch(&self, writes: &mut [WriteAt<'_>]) {
        self.direct.write_batch(writes);
    }

    fn discard(&self, offset: u64, len: u64) -> io::Result<()> {
        self.cached.discard(offset, len)
    }

    fn free(&self) -> Option<u64> {
        self.cached.free()
    }

    fn allocate(&self, offset: u64, len: u64) -> io::Result<()> {
        self.cached.allocate(offset, len)
    }

    fn will_need(&self, offset: u64, len: u64) -> io::Result<()> {
        self.cached.will_need(offset, len)
    }
}

/// A storage whose data are locked as long as it exists.
struct Locked<S> {
    storage: S,
    _lock: Arc<DataLock>,
}

impl<S: Storage> Storage for Locked<S> {
    fn alignment(&self) -> usize {
        self.storage.alignment()
    }

    fn len(&self) -> io::Result<u64> {
        self.storage.len()
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.storage.read_exact_at(buf, offset)
    }

    fn write_all_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.storage.write_all_at(buf, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.storage.sync()
    }

    fn read_batch(&self, reads: &mut [ReadAt<'_>]) {
        self.storage.read_batch(reads);
    }

    fn write_batch(&self, writes: &mut [WriteAt<'_>]) {
        self.storage.write_batch(writes);
    }

    fn discard(&self, offset: u64, len: u64) -> io::Result<()> {
        self.storage.discard(offset, len)
    }

    fn free(&self) -> Option<u64> {
        self.storage.free()
    }

    fn allocate(&self, offset: u64, len: u64) -> io::Result<()> {
        self.storage.allocate(offset, len)
    }

    fn will_need(&self, offset: u64, len: u64) -> io::Result<()> {
        self.storage.will_need(offset, len)
    }
}

/// Why a file or block device cannot be the storage of a disk.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataFileError {
    /// The path is `-`, standard input.
    #[error("standard input cannot be used as a disk: name a file or a block device")]
    StandardInput,
    /// The path does not exist.
    #[error("{} does not exist", path_name(path))]
    Missing {
        /// The path as the user gave it.
        path: PathBuf,
    },
    /// The path is a folder.
    #[error("{} is a folder, not a file", path_name(path))]
    Folder {
        /// The path as the user gave it.
        path: PathBuf,
    },
    /// The path is a pipe, a terminal or the like.
    #[error(
        "{} cannot be used as a disk: it is neither a file nor a block device",
        path_name(path)
    )]
    NoStorage {
        /// The path as the user gave it.
        path: PathBuf,
    },
    /// It was to be opened for writing, and is mounted or in use by another device.
    #[error("{} is {user}", path_name(path))]
    InUse {
        /// The path as the user gave it.
        path: PathBuf,
        /// The use, in words, such as `mounted at /srv`.
        user: String,
    },
    /// Another program, or another opening in this one, has locked its data.
    #[error("{} is locked: it is {} elsewhere", path_name(path), user_words(*access))]
    Locked {
        /// The path as the user gave it.
        path: PathBuf,
        /// The access that was requested.
        access: Access,
    },
    /// The system refused to open it.
    #[error("cannot open {}: {}", path_name(path), io_words(source))]
    Open {
        /// The path as the user gave it.
        path: PathBuf,
        /// The access that was requested.
        access: Access,
        /// The system's error.
        source: io::Error,
    },
    /// The system failed to read it.
    #[error("cannot read {}: {}", path_name(path), io_words(source))]
    Read {
        /// The path as the user gave it.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// It has no such part.
    #[error("{}: {source}", path_name(path))]
    Part {
        /// The path as the user gave it.
        path: PathBuf,
        /// The reason.
        source: VolumePartError,
    },
    /// It cannot be read as an input.
    #[error(transparent)]
    Input(#[from] InputError),
}

impl DataFileError {
    /// The path as the user gave it, if the error names one.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::StandardInput => None,
            Self::Missing { path }
            | Self::Folder { path }
            | Self::NoStorage { path }
            | Self::InUse { path, .. }
            | Self::Locked { path, .. }
            | Self::Open { path, .. }
            | Self::Read { path, .. }
            | Self::Part { path, .. } => Some(path),
            Self::Input(error) => Some(error.path()),
        }
    }

    /// The kind of failure.
    #[must_use]
    pub fn class(&self) -> FileErrorClass {
        match self {
            Self::Missing { .. } => FileErrorClass::Missing,
            Self::InUse { .. } | Self::Locked { .. } => FileErrorClass::Busy,
            Self::Open { source, .. } | Self::Read { source, .. } => source.into(),
            Self::Part { source, .. } => source.class(),
            Self::Input(error) => error.class(),
            Self::StandardInput | Self::Folder { .. } | Self::NoStorage { .. } => {
                FileErrorClass::Failure
            }
        }
    }
}

/// Returns how the data may be in use, given that `access` was refused.
fn user_words(access: Access) -> &'static str {
    match access {
        Access::Read => "open for writing",
        Access::Write => "in use",
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    const LEN: usize = 1 << 20;

    /// Opens a new file of [`LEN`] bytes in `folder` for writing.
    fn new_file(folder: &Path) -> (tempfile::NamedTempFile, DataFile) {
        let file = tempfile::NamedTempFile::new_in(folder).unwrap();
        FileExt::write_all_at(file.as_file(), &[1; LEN], 0).unwrap();
        let data = DataFile::open(file.path(), Access::Write).unwrap();
        (file, data)
    }

    #[test]
    fn writes_past_the_page_cache_are_read_by_all_and_read_what_others_write() {
        let (file, data) = new_file(&std::env::temp_dir());
        let Some(storage) = data.written_past_cache() else {
            // The file system for temporary files is in memory, or has no direct I/O.
            return;
        };
        let unit = storage.alignment();
        let mut found = vec![0; LEN];
        for round in 2..6_u8 {
            let (begin, end) = (usize::from(round) * unit, LEN - unit);
            FileExt::read_exact_at(file.as_file(), &mut found, 0).unwrap();
            storage
                .write_all_at(&vec![round; end - begin], begin as u64)
                .unwrap();
            FileExt::read_exact_at(file.as_file(), &mut found, 0).unwrap();
            assert!(found[begin..end].iter().all(|&byte| byte == round));
            FileExt::write_all_at(file.as_file(), &[round + 100; 700], 0).unwrap();
            storage.read_exact_at(&mut found, 0).unwrap();
            assert!(found[..700].iter().all(|&byte| byte == round + 100));
            assert!(found[end..].iter().all(|&byte| byte == 1));
        }
        storage.sync().unwrap();
        // A cached write would succeed.
        assert!(unit == 1 || storage.write_all_at(&[1], 1).is_err());
        // Its lock holds on.
        drop(data);
        assert!(DataFile::open(file.path(), Access::Write).is_err());
    }

    #[test]
    fn the_space_of_the_file_system_is_known_behind_each_lock() {
        let (file, data) = new_file(&std::env::temp_dir());
        let is_known = file.as_file().free().is_some();
        let storages = [
            Some(data.storage().unwrap()),
            data.written_past_cache(),
            data.direct_again().ok(),
        ];
        for storage in storages.into_iter().flatten() {
            assert_eq!(storage.free().is_some(), is_known);
        }
    }

    #[test]
    fn a_file_that_is_open_for_reading_is_not_opened_for_writing_again() {
        let (file, data) = new_file(&std::env::temp_dir());
        drop(data);
        let data = DataFile::open(file.path(), Access::Read).unwrap();
        if let Ok(direct) = data.direct_again() {
            let mut found = vec![0; LEN];
            direct.read_exact_at(&mut found, 0).unwrap();
            assert!(found == [1; LEN]);
            assert!(direct.write_all_at(&[2; LEN], 0).is_err());
        }
    }

    #[test]
    fn a_file_in_memory_has_no_cache_to_bypass() {
        let folder = Path::new("/dev/shm");
        let system = open_to_read(folder).ok();
        let system = system.and_then(|folder| fstatfs(&folder).ok());
        if system.is_some_and(|system| system.filesystem_type() == TMPFS_MAGIC) {
            let (_file, data) = new_file(folder);
            assert!(data.written_past_cache().is_none());
        }
    }
}
