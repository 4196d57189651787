// SPDX-License-Identifier: MIT OR Apache-2.0
//! A disk as one file of a FUSE file system.
//!
//! The file has the disk's exact length and keeps it: nothing is created, renamed,
//! truncated or removed, as nothing is on a block device.
//!
//! **No page cache.** The file is opened with `FOPEN_DIRECT_IO`, so each read and write
//! comes here as it was made, up to [`MAX_REQUEST`]. With the kernel's cache, reads in a
//! row came in pieces of its readahead, 128 KiB, and each byte was copied once more: a
//! first read of 1 GiB ran at a seventh of the speed, writes at a quarter. There is no
//! second copy of the plaintext in memory either. What is read again and again has its
//! ciphertext in the cache of the volume's own file, and whoever puts a file system on
//! a loop device has that one's cache. `FUSE_DIRECT_IO_ALLOW_MMAP` lets the file be mapped
//! all the same.
//!
//! **No writeback cache.** It would leave the file's length to the kernel, which would then
//! take bytes beyond the end and lose them later. So a write that has returned is in the
//! storage or has failed, and `fsync` has only [`Disk::flush`] to wait for.
//!
//! **No holes are punched.** `FALLOC_FL_PUNCH_HOLE` promises zeros, and discarded sectors do
//! not read as such. A loop device uses the same call for discards and for zeros, so an
//! answer that is right for the one destroys what relies on the other: `EOPNOTSUPP`, upon
//! which the kernel writes zeros itself and stops discarding. `FALLOC_FL_ZERO_RANGE` means
//! zeros and nothing else: [`Disk::write_zeroes`].
//!
//! What is not here is answered with `ENOSYS` by the library, and the kernel then does it
//! by itself or says that it cannot be done: locks, `SEEK_HOLE` (at the end), extended
//! attributes, `O_CREAT` (by `mknod`).

use std::{
    cell::RefCell,
    ffi::{OsStr, OsString},
    fs::{self, File},
    io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::{Duration, Instant, SystemTime},
};

use fuser::{
    Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    InitFlags, KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyData,
    ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, Request, Session,
    SessionACL, TimeOrNow, WriteFlags,
};
use luxor_engine::Buffer;
use luxor_sector::Disk;
use nix::{
    fcntl::{FallocateFlags, OFlag},
    libc::ECONNABORTED,
    unistd::{getegid, geteuid},
};

use crate::stats::{Done, Operation, Stats};

mod mounting;

pub use mounting::Unmounter;

/// The longest read and write that the kernel sends: what it takes by default.
pub const MAX_REQUEST: u32 = 1 << 20;

/// The least and most requests that are worked on at a time. Storage that has to be waited
/// for wants more than there are cores.
const THREADS: std::ops::RangeInclusive<usize> = 8..=32;

/// A name that a file can have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileName(OsString);

impl FileName {
    /// # Errors
    /// [`MountError::Name`] when a folder can have no file of that name.
    pub fn new(name: impl Into<OsString>) -> Result<Self, MountError> {
        let name = name.into();
        let bytes = name.as_bytes();
        match bytes {
            b"" | b"." | b".." => Err(MountError::Name { name }),
            _ if bytes.len() > 255 || bytes.iter().any(|b| matches!(b, 0 | b'/')) => {
                Err(MountError::Name { name })
            }
            _ => Ok(Self(name)),
        }
    }

    /// The name.
    #[must_use]
    pub fn as_os_str(&self) -> &OsStr {
        &self.0
    }
}

/// An empty folder that can be mounted on.
#[derive(Debug)]
pub struct MountPoint {
    /// As it was named, for messages.
    folder: PathBuf,
    /// By the time when it is mounted on, the name may be that of another folder.
    place: File,
}

impl MountPoint {
    /// Looks at `folder` and at the system, before a secret is asked for.
    ///
    /// # Errors
    /// [`MountError`]: the folder is not there or not empty, or there is no FUSE.
    pub fn new(folder: &Path) -> Result<Self, MountError> {
        let place =
            mounting::open_place(folder).map_err(|error| MountError::of_folder(folder, error))?;
        let folder = folder.to_owned();
        let point = Self { folder, place };
        point.empty_path()?;
        match File::options().read(true).write(true).open("/dev/fuse") {
            Ok(_) => Ok(point),
            Err(source) => Err(match source.kind() {
                io::ErrorKind::PermissionDenied => MountError::FuseNotAllowed,
                _ => MountError::NoFuse { source },
            }),
        }
    }

    /// The folder's path, if it is there and empty.
    fn empty_path(&self) -> Result<PathBuf, MountError> {
        let folder = &self.folder;
        let path =
            mounting::path_of(&self.place).map_err(|source| MountError::NoProc { source })?;
        // Not by `place`: what is mounted there already shows its file, so this is no second mount
        // either.
        let mut names =
            fs::read_dir(&path).map_err(|error| MountError::of_folder(folder, error))?;
        match names.next() {
            None => Ok(path),
            Some(_) => Err(MountError::NotEmpty {
                folder: folder.clone(),
            }),
        }
    }
}

/// How a disk is mounted.
#[derive(Clone, Debug)]
pub struct MountOptions {
    /// The file's name.
    pub name: FileName,
    /// What is mounted, for `findmnt` and its like.
    pub source: OsString,
    /// Let other users in, as far as the file's mode does: so root only.
    pub allow_other: bool,
}

/// A mounted disk. Dropping it does not unmount: see [`Unmounter`].
#[derive(Debug)]
pub struct Mounted {
    session: Session<OneFile>,
    disk: Arc<Disk>,
    stats: Arc<Stats>,
    unmounter: Unmounter,
}

impl Mounted {
    /// Mounts `disk` on `point`, as root or by way of `fusermount3`. The file is there when
    /// this returns, and answers once [`Mounted::serve`] is called.
    ///
    /// # Errors
    /// [`MountError`] when the system does not let it be mounted.
    pub fn new(
        disk: Arc<Disk>,
        point: MountPoint,
        options: &MountOptions,
    ) -> Result<Self, MountError> {
        let mut config = Config::default();
        config.acl = if options.allow_other {
            SessionACL::All
        } else {
            SessionACL::Owner
        };
        let cores = thread::available_parallelism().map_or(1, Into::into);
        config.n_threads = Some((2 * cores).clamp(*THREADS.start(), *THREADS.end()));
        let file = OneFile::new(disk.clone(), options.name.clone());
        let stats = file.stats.clone();
        // Once more: since the first look, a secret has been waited for.
        let path = point.empty_path()?;
        let MountPoint { folder, place } = point;
        let (fuse, unmounter) = mounting::mount(&place, &path, options, disk.is_read_only())?;
        let session = Session::from_fd(file, fuse, config.acl, config).map_err(|error| {
            let _ = unmounter.unmount();
            MountError::refused(&folder, &error)
        })?;
        Ok(Self {
            session,
            disk,
            stats,
            unmounter,
        })
    }

    /// What unmounts it.
    #[must_use]
    pub fn unmounter(&self) -> Unmounter {
        self.unmounter.clone()
    }

    /// What it has done so far. Here a request's time ends before its reply.
    #[must_use]
    pub fn stats(&self) -> &Arc<Stats> {
        &self.stats
    }

    /// Answers until somebody unmounts it; then all that was written is durable.
    ///
    /// # Errors
    /// Those of the connection to the kernel, and of [`Disk::flush`].
    pub fn serve(self) -> io::Result<()> {
        let ended = self.session.run();
        self.disk.flush()?;
        match ended {
            // A request that the kernel had begun to hand out when the file system was unmounted
            // ends the read of it so, where a later read ends with ENODEV, which `run` expects.
            Err(error) if error.raw_os_error() == Some(ECONNABORTED) => Ok(()),
            ended => ended,
        }
    }
}

/// Why a disk is not mounted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MountError {
    /// There is no such folder.
    #[error("{folder:?} does not exist")]
    NoFolder {
        /// What was to be mounted on.
        folder: PathBuf,
    },
    /// It is something else.
    #[error("{folder:?} is not a folder")]
    NotAFolder {
        /// What was to be mounted on.
        folder: PathBuf,
    },
    /// What is in the folder would be hidden, or something is mounted there.
    #[error("the folder {folder:?} is not empty")]
    NotEmpty {
        /// What was to be mounted on.
        folder: PathBuf,
    },
    /// Its process was killed: `fusermount3 -u` takes it away.
    #[error("{folder:?} still has the mount of a process that has ended")]
    LeftBehind {
        /// What was to be mounted on.
        folder: PathBuf,
    },
    /// The folder cannot be looked at.
    #[error("cannot list {folder:?}: {source}")]
    Folder {
        /// What was to be mounted on.
        folder: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The folder's mount is known by what is in `/proc`.
    #[error("cannot list /proc: {source}")]
    NoProc {
        /// Why.
        source: io::Error,
    },
    /// The kernel has no FUSE, or a container is not given it.
    #[error("cannot open /dev/fuse: {source}")]
    NoFuse {
        /// Why.
        source: io::Error,
    },
    /// The mode of `/dev/fuse`, or the rules of a container, keep this user out.
    #[error("this user may not open /dev/fuse")]
    FuseNotAllowed,
    /// Who is not root mounts by `fusermount3`, which is in the package `fuse3`.
    #[error("fusermount3 is not installed")]
    NoFusermount,
    /// The system's answer.
    #[error("cannot mount on {folder:?}: {words}")]
    Refused {
        /// What was to be mounted on.
        folder: PathBuf,
        /// Of the kernel or of `fusermount3`.
        words: String,
    },
    /// No file can have the name.
    #[error("{name:?} is not a valid file name")]
    Name {
        /// The name.
        name: OsString,
    },
}

impl MountError {
    /// What the system answers when `folder` is looked at.
    fn of_folder(folder: &Path, source: io::Error) -> Self {
        let folder = folder.to_owned();
        match source.kind() {
            io::ErrorKind::NotFound => Self::NoFolder { folder },
            io::ErrorKind::NotADirectory => Self::NotAFolder { folder },
            io::ErrorKind::NotConnected => Self::LeftBehind { folder },
            _ => Self::Folder { folder, source },
        }
    }

    fn refused(folder: &Path, error: &io::Error) -> Self {
        Self::Refused {
            folder: folder.to_owned(),
            words: error.to_string().trim().to_owned(),
        }
    }
}

/// Names and attributes change by requests to the kernel only, so it may keep them.
const TTL: Duration = Duration::from_secs(3600);
const BLOCK: u32 = 4096;
const FILE: INodeNo = INodeNo(2);

thread_local! {
    /// What was read, on its way to the kernel.
    static BUFFER: RefCell<Buffer> = RefCell::new(Buffer::zeroed(0));
}

struct OneFile {
    disk: Arc<Disk>,
    stats: Arc<Stats>,
    name: FileName,
    mounted: SystemTime,
    modified: Mutex<SystemTime>,
}

impl OneFile {
    fn new(disk: Arc<Disk>, name: FileName) -> Self {
        let now = SystemTime::now();
        Self {
            disk,
            stats: Arc::default(),
            name,
            mounted: now,
            modified: Mutex::new(now),
        }
    }

    /// Of the folder, or of the file in it.
    fn attributes(&self, ino: INodeNo) -> FileAttr {
        let is_file = ino == FILE;
        let modified = *self.lock_modified();
        let size = if is_file { self.disk.len() } else { 0 };
        FileAttr {
            ino,
            size,
            blocks: size.div_ceil(512),
            atime: self.mounted,
            mtime: if is_file { modified } else { self.mounted },
            ctime: if is_file { modified } else { self.mounted },
            crtime: self.mounted,
            kind: if is_file {
                FileType::RegularFile
            } else {
                FileType::Directory
            },
            perm: match (is_file, self.disk.is_read_only()) {
                (true, false) => 0o600,
                (true, true) => 0o400,
                (false, _) => 0o500,
            },
            nlink: if is_file { 1 } else { 2 },
            uid: geteuid().as_raw(),
            gid: getegid().as_raw(),
            rdev: 0,
            blksize: BLOCK,
            flags: 0,
        }
    }

    fn lock_modified(&self) -> std::sync::MutexGuard<'_, SystemTime> {
        self.modified.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// As many of `len` bytes from `offset` on as there are.
    fn until_end(&self, offset: u64, len: usize) -> usize {
        let left = self.disk.len().saturating_sub(offset);
        usize::try_from(left).map_or(len, |left| len.min(left))
    }

    /// Does something with the disk, and counts it.
    fn count(
        &self,
        operation: Operation,
        bytes: usize,
        work: impl FnOnce(&Disk) -> io::Result<()>,
    ) -> Result<(), Errno> {
        let begun = Instant::now();
        let result = work(&self.disk);
        let done = Done {
            operation,
            bytes: bytes as u64,
            succeeded: result.is_ok(),
        };
        self.stats.record([done], begun.elapsed());
        result.map_err(|error| errno(&error))
    }

    /// The same where the file's content changes.
    fn modify(
        &self,
        operation: Operation,
        bytes: usize,
        change: impl FnOnce(&Disk) -> io::Result<()>,
    ) -> Result<(), Errno> {
        self.count(operation, bytes, change)?;
        *self.lock_modified() = SystemTime::now();
        Ok(())
    }
}

impl std::fmt::Debug for OneFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OneFile").finish_non_exhaustive()
    }
}

impl Filesystem for OneFile {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // Older kernels know less, and do without: no mapping, one request of an
        // asynchronous batch at a time.
        for wanted in [
            InitFlags::FUSE_ASYNC_DIO,
            InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP,
        ] {
            let _ = config.add_capabilities(wanted);
        }
        let taken = config.set_max_write(MAX_REQUEST);
        taken.expect("from 1 byte to 16 MiB");
        // Parts of larger reads and writes, more than there are threads.
        let taken = config.set_max_background(64);
        taken.expect("not 0");
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        if parent == INodeNo::ROOT && name == self.name.as_os_str() {
            reply.entry(&TTL, &self.attributes(FILE), Generation(0));
        } else {
            reply.error(Errno::ENOENT);
        }
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&TTL, &self.attributes(ino));
    }

    fn setattr(
        &self,
        _: &Request,
        ino: INodeNo,
        _mode: Option<u32>,
        _uid: Option<u32>,
        _gid: Option<u32>,
        size: Option<u64>,
        _atime: Option<TimeOrNow>,
        _mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        _fh: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<fuser::BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        // The length that it has may be set: `truncate` to it is no change.
        if ino == FILE && size == Some(self.disk.len()) {
            reply.attr(&TTL, &self.attributes(ino));
        } else {
            reply.error(Errno::EPERM);
        }
    }

    fn mknod(
        &self,
        _: &Request,
        _parent: INodeNo,
        _name: &OsStr,
        _mode: u32,
        _umask: u32,
        _rdev: u32,
        reply: ReplyEntry,
    ) {
        reply.error(Errno::EPERM);
    }

    fn mkdir(
        &self,
        _: &Request,
        _parent: INodeNo,
        _name: &OsStr,
        _mode: u32,
        _umask: u32,
        reply: ReplyEntry,
    ) {
        reply.error(Errno::EPERM);
    }

    fn unlink(&self, _: &Request, _parent: INodeNo, _name: &OsStr, reply: ReplyEmpty) {
        reply.error(Errno::EPERM);
    }

    fn rmdir(&self, _: &Request, _parent: INodeNo, _name: &OsStr, reply: ReplyEmpty) {
        reply.error(Errno::EPERM);
    }

    fn rename(
        &self,
        _: &Request,
        _parent: INodeNo,
        _name: &OsStr,
        _new_parent: INodeNo,
        _new_name: &OsStr,
        _flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        reply.error(Errno::EPERM);
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        // `Disk` puts overlapping writes in an order.
        let flags = FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES;
        reply.opened(FileHandle(0), flags);
    }

    fn read(
        &self,
        _: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let len = self.until_end(offset, size as usize);
        BUFFER.with_borrow_mut(|buffer| {
            if buffer.len() < len {
                match Buffer::try_zeroed(len.next_power_of_two()) {
                    Ok(larger) => *buffer = larger,
                    Err(_) => return reply.error(Errno::ENOMEM),
                }
            }
            let offset = offset.min(self.disk.len());
            let read = self.count(Operation::Read, len, |disk| {
                disk.read(&mut buffer[..len], offset)
            });
            match read {
                Ok(()) => reply.data(&buffer[..len]),
                Err(errno) => reply.error(errno),
            }
        });
    }

    fn write(
        &self,
        _: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        // What is beyond the end is answered as a full device does: first a part is taken,
        // then nothing.
        let len = self.until_end(offset, data.len());
        if len == 0 && !data.is_empty() {
            return reply.error(Errno::ENOSPC);
        }
        // Without its cache, the kernel sends no `fsync` for files opened so.
        let durable = OFlag::from_bits_retain(flags.0).contains(OFlag::O_DSYNC);
        let written = self.modify(Operation::Write, len, |disk| {
            disk.write(&data[..len], offset)?;
            if durable { disk.flush() } else { Ok(()) }
        });
        match written {
            Ok(()) => reply.written(u32::try_from(len).expect("a request's length")),
            Err(errno) => reply.error(errno),
        }
    }

    /// The file is closed: what was written is made durable, as it would be for a disk that
    /// is unplugged next.
    fn flush(
        &self,
        _: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        _lock_owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        answer(self.count(Operation::Flush, 0, Disk::flush), reply);
    }

    fn fsync(
        &self,
        _: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        _datasync: bool,
        reply: ReplyEmpty,
    ) {
        answer(self.count(Operation::Flush, 0, Disk::flush), reply);
    }

    fn fsyncdir(
        &self,
        _: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        _datasync: bool,
        reply: ReplyEmpty,
    ) {
        reply.ok();
    }

    fn readdir(
        &self,
        _: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let entries = [
            (INodeNo::ROOT, FileType::Directory, OsStr::new(".")),
            (INodeNo::ROOT, FileType::Directory, OsStr::new("..")),
            (FILE, FileType::RegularFile, self.name.as_os_str()),
        ];
        for (next, (ino, kind, name)) in (1..).zip(entries) {
            if next > offset && reply.add(ino, next, kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn statfs(&self, _: &Request, _ino: INodeNo, reply: ReplyStatfs) {
        let blocks = self.disk.len().div_ceil(BLOCK.into());
        reply.statfs(blocks, 0, 0, 1, 0, BLOCK, 255, BLOCK);
    }

    fn fallocate(
        &self,
        _: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        len: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let mode = FallocateFlags::from_bits_retain(mode);
        let keep_size = mode.contains(FallocateFlags::FALLOC_FL_KEEP_SIZE);
        if mode.difference(FallocateFlags::FALLOC_FL_KEEP_SIZE)
            != FallocateFlags::FALLOC_FL_ZERO_RANGE
        {
            return reply.error(Errno::EOPNOTSUPP);
        }
        let left = self.disk.len().saturating_sub(offset);
        if len > left && !keep_size {
            return reply.error(Errno::ENOSPC);
        }
        let (offset, len) = (offset.min(self.disk.len()), len.min(left));
        let bytes = usize::try_from(len).unwrap_or(usize::MAX);
        let zeroed = self.modify(Operation::WriteZeroes, bytes, |disk| {
            disk.write_zeroes(offset, len)
        });
        answer(zeroed, reply);
    }
}

fn answer(result: Result<(), Errno>, reply: ReplyEmpty) {
    match result {
        Ok(()) => reply.ok(),
        Err(errno) => reply.error(errno),
    }
}

/// What a program that reads and writes a file knows; all else is an I/O error.
fn errno(error: &io::Error) -> Errno {
    match error.kind() {
        io::ErrorKind::StorageFull => Errno::ENOSPC,
        io::ErrorKind::QuotaExceeded => Errno::EDQUOT,
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => Errno::EROFS,
        io::ErrorKind::OutOfMemory => Errno::ENOMEM,
        _ => Errno::EIO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_files() {
        for name in ["plaintext", "...", ".a", "a b", &"n".repeat(255)] {
            assert_eq!(FileName::new(name).unwrap().as_os_str(), name);
        }
        for name in ["", ".", "..", "a/b", "/", "a\0b", &"n".repeat(256)] {
            let error = FileName::new(name).unwrap_err();
            assert!(
                matches!(error, MountError::Name { .. }),
                "{name:?}: {error}"
            );
        }
    }
}
