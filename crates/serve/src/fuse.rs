// SPDX-License-Identifier: MIT OR Apache-2.0
//! Serves a disk as the one file of a FUSE file system.
//!
//! The file has the disk's exact length and keeps it. As on a block device, files cannot be
//! created, renamed, truncated or removed.
//!
//! **No page cache.** The file is opened with `FOPEN_DIRECT_IO`, so each read and write arrives
//! here as the program made it, up to [`MAX_REQUEST`]. With the kernel's cache, sequential reads
//! arrived in pieces of the readahead size, 128 KiB, and every byte was copied once more: a first
//! read of 1 GiB ran at a seventh of the speed, and writes at a quarter. Without it there is also
//! no second copy of the plaintext in memory. For data that are read repeatedly, the page cache of
//! the volume's own file keeps the ciphertext, and a file system on a loop device has that device's
//! cache. `FUSE_DIRECT_IO_ALLOW_MMAP` still allows the file to be mapped.
//!
//! **No writeback cache.** With it the kernel would manage the file's length, accept bytes beyond
//! the end, and lose them later. Without it, a write that has returned is in the storage or has
//! failed, and `fsync` only needs [`Disk::flush`].
//!
//! **No holes are punched.** `FALLOC_FL_PUNCH_HOLE` promises zeros, but discarded sectors do not
//! read as zeros. A loop device uses the same call for discards and for zeros, so treating it as a
//! discard would destroy data that rely on zeros. The answer is `EOPNOTSUPP`: the kernel then
//! writes zeros itself and stops discarding. `FALLOC_FL_ZERO_RANGE` always means zeros:
//! [`Disk::write_zeroes`].
//!
//! The library answers every other operation with `ENOSYS`. The kernel then does the work itself or
//! reports that it is not supported: locks, `SEEK_HOLE` (at the end), extended attributes,
//! `O_CREAT` (by `mknod`).

use std::{
    cell::RefCell,
    ffi::{OsStr, OsString},
    fs::{self, File},
    io,
    ops::Range,
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

use crate::{
    export::Export,
    frontend::{Frontend, ServeError, Stopper},
    stats::{Done, Operation},
};

mod mount_error;
mod mounting;
mod server;

pub use self::{mount_error::MountError, mounting::Unmounter, server::Server};

/// The longest read or write that the kernel sends. This is the kernel's default limit.
pub const MAX_REQUEST: u32 = 1 << 20;

/// The bounds on the number of requests processed at a time. Slow storage needs more threads than
/// there are cores.
const THREADS: std::ops::RangeInclusive<usize> = 8..=32;

/// A valid file name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileName(OsString);

impl FileName {
    /// Checks `name`.
    ///
    /// # Errors
    /// [`MountError::Name`] if a folder cannot contain a file with this name.
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

/// An empty folder to mount on.
#[derive(Debug)]
pub struct MountPoint {
    /// The folder as the caller named it, for messages.
    folder: PathBuf,
    /// The open folder. By the time of mounting, its name may refer to another folder.
    handle: File,
}

impl MountPoint {
    /// Checks `folder` and the system, before a secret is asked for.
    ///
    /// # Errors
    /// Returns [`MountError`] if the folder does not exist or is not empty, or FUSE is not
    /// available.
    pub fn new(folder: &Path) -> Result<Self, MountError> {
        let handle =
            mounting::open_folder(folder).map_err(|error| MountError::of_folder(folder, error))?;
        let folder = folder.to_owned();
        let point = Self { folder, handle };
        point.empty_path()?;
        match File::options().read(true).write(true).open("/dev/fuse") {
            Ok(_) => Ok(point),
            Err(source) => Err(match source.kind() {
                io::ErrorKind::PermissionDenied => MountError::FuseNotAllowed,
                _ => MountError::NoFuse { source },
            }),
        }
    }

    /// The open folder.
    #[must_use]
    pub fn handle(&self) -> &File {
        &self.handle
    }

    /// Returns the folder's path, if it still exists and is empty.
    ///
    /// # Errors
    /// As [`MountPoint::new`].
    pub fn empty_path(&self) -> Result<PathBuf, MountError> {
        let folder = &self.folder;
        let path =
            mounting::path_of(&self.handle).map_err(|source| MountError::NoProc { source })?;
        // Read by path, not through `handle`: if something is mounted on the folder, the path shows
        // its file. That also prevents mounting twice.
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

/// The options of a mount.
#[derive(Clone, Debug)]
pub struct MountOptions {
    /// The file's name.
    pub name: FileName,
    /// The name of the source, for `findmnt` and similar programs: usually the path of the volume.
    pub source: OsString,
    /// When the plaintext was last changed, as far as is known: the file's modification time until it is
    /// written to.
    pub modified: SystemTime,
    /// Whether other users may access the mount. The file's mode still applies, so this adds root
    /// only.
    pub allow_other: bool,
    /// The bytes of the disk that the file shows, which must lie within it. `None` shows all of them.
    pub part: Option<Range<u64>>,
    /// Whether writes are refused even if the disk permits them.
    pub read_only: bool,
}

/// A mounted disk. Dropping it does not unmount: see [`Unmounter`].
///
/// ```no_run
/// use std::{path::Path, sync::Arc};
///
/// use luxor_serve::{
///     Export, Frontend,
///     fuse::{FileName, MountOptions, MountPoint, Mounted},
/// };
///
/// # fn mount(disk: Arc<luxor_sector::Disk>) -> Result<(), Box<dyn std::error::Error>> {
/// let point = MountPoint::new(Path::new("/home/me/disk"))?;
/// let options = MountOptions {
///     name: FileName::new("plaintext")?,
///     source: "volume.luks".into(),
///     modified: std::fs::metadata("volume.luks")?.modified()?,
///     allow_other: false,
///     part: None,
///     read_only: false,
/// };
/// let mounted = Mounted::new(Export::new(disk), point, &options)?;
/// // Another thread can call `unmount` on this, or a user `fusermount3 -u`.
/// let unmounter = mounted.unmounter();
/// # drop(unmounter);
/// Box::new(mounted).run()?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Mounted {
    session: Session<DiskFilesystem>,
    export: Arc<Export>,
    unmounter: Unmounter,
}

impl Mounted {
    /// Mounts the disk of `export` on `point`, directly as root or through `fusermount3`. The file exists when
    /// this returns, but is served only when [`Frontend::run`] is called. It belongs to this
    /// process's user and has the mode 0600, or 0400 if the disk is read-only.
    ///
    /// # Errors
    /// Returns [`MountError`] if the system refuses the mount.
    pub fn new(
        export: Arc<Export>,
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
        let file = DiskFilesystem::new(export.clone(), options);
        // Checked again, because the caller may have waited for a secret since the first check.
        let path = point.empty_path()?;
        let MountPoint { folder, handle } = point;
        let (fuse, unmounter) = mounting::mount(&handle, &path, options, file.read_only)?;
        let session = Session::from_fd(file, fuse, config.acl, config).map_err(|error| {
            let _ = unmounter.unmount();
            MountError::refused(&folder, &error)
        })?;
        Ok(Self {
            session,
            export,
            unmounter,
        })
    }

    /// Returns a handle that unmounts the disk.
    #[must_use]
    pub fn unmounter(&self) -> Unmounter {
        self.unmounter.clone()
    }
}

/// Serves the requests that arrive on `fuse`, a socket in place of the kernel's device.
///
/// # Errors
/// Those of the socket.
#[cfg(fuzzing)]
pub fn serve_requests(
    export: Arc<Export>,
    options: &MountOptions,
    fuse: std::os::fd::OwnedFd,
) -> io::Result<()> {
    let file = DiskFilesystem::new(export, options);
    Session::from_fd(file, fuse, SessionACL::All, Config::default())?.run()
}

/// Stopping unmounts. The end is when no program has the file open. In the statistics the time of a
/// request ends before its reply is sent.
impl Frontend for Mounted {
    fn stopper(&self) -> Stopper {
        let unmounter = self.unmounter();
        Box::new(move || unmounter.unmount())
    }

    fn run(self: Box<Self>) -> Result<(), ServeError> {
        self.export.flush_after(match self.session.run() {
            // If the kernel was handing out a request at the moment of unmounting, the read ends
            // with ECONNABORTED. A later read ends with ENODEV, which `run` handles.
            Err(error) if error.raw_os_error() == Some(ECONNABORTED) => Ok(()),
            ended => ended.map_err(|source| ServeError::Kernel { source }),
        })
    }
}

/// Names and attributes change only through requests, so the kernel may cache them.
const TTL: Duration = Duration::from_secs(3600);
const BLOCK: u32 = 4096;
const FILE: INodeNo = INodeNo(2);
/// The link that [`server`] describes.
const SERVER: INodeNo = INodeNo(3);

thread_local! {
    /// The buffer for bytes that were read, before the kernel gets them.
    static BUFFER: RefCell<Buffer> = RefCell::new(Buffer::zeroed(0));
}

struct DiskFilesystem {
    export: Arc<Export>,
    name: FileName,
    /// The bytes of the disk that the file shows.
    part: Range<u64>,
    read_only: bool,
    mounted: SystemTime,
    modified: Mutex<SystemTime>,
}

impl DiskFilesystem {
    fn new(export: Arc<Export>, options: &MountOptions) -> Self {
        let disk = export.disk();
        let len = disk.len();
        let part = options.part.clone().unwrap_or(0..len);
        Self {
            read_only: options.read_only || disk.is_read_only(),
            part: part.start.min(len)..part.end.min(len),
            export,
            name: options.name.clone(),
            mounted: SystemTime::now(),
            modified: Mutex::new(options.modified),
        }
    }

    /// The attributes of the folder, or of the file in it.
    fn attributes(&self, ino: INodeNo) -> FileAttr {
        let is_file = ino == FILE;
        let modified = *self.lock_modified();
        let size = match ino {
            FILE => self.len(),
            SERVER => server::words().len() as u64,
            _ => 0,
        };
        FileAttr {
            ino,
            size,
            blocks: size.div_ceil(512),
            atime: self.mounted,
            mtime: if is_file { modified } else { self.mounted },
            ctime: if is_file { modified } else { self.mounted },
            crtime: self.mounted,
            kind: match ino {
                FILE => FileType::RegularFile,
                SERVER => FileType::Symlink,
                _ => FileType::Directory,
            },
            perm: match ino {
                FILE if !self.read_only => 0o600,
                FILE | SERVER => 0o400,
                _ => 0o500,
            },
            nlink: if ino == INodeNo::ROOT { 2 } else { 1 },
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

    /// The length of the file.
    fn len(&self) -> u64 {
        self.part.end.saturating_sub(self.part.start)
    }

    /// Returns the byte of the disk that byte `offset` of the file is. It is at most that of the end.
    fn on_disk(&self, offset: u64) -> u64 {
        self.part.start + offset.min(self.len())
    }

    /// Returns how many of `len` bytes at `offset` exist.
    fn until_end(&self, offset: u64, len: usize) -> usize {
        let left = self.len().saturating_sub(offset);
        usize::try_from(left).map_or(len, |left| len.min(left))
    }

    /// Runs `work` on the disk and records it in the statistics.
    fn count(
        &self,
        operation: Operation,
        bytes: usize,
        work: impl FnOnce(&Disk) -> io::Result<()>,
    ) -> Result<(), Errno> {
        let begun = Instant::now();
        let result = work(self.export.disk());
        let done = Done {
            operation,
            bytes: bytes as u64,
            succeeded: result.is_ok(),
        };
        self.export.stats().record([done], begun.elapsed());
        result.map_err(|error| errno(&error))
    }

    /// As `count`, and updates the modification time.
    fn modify(
        &self,
        operation: Operation,
        bytes: usize,
        change: impl FnOnce(&Disk) -> io::Result<()>,
    ) -> Result<(), Errno> {
        if self.read_only {
            return Err(Errno::EROFS);
        }
        self.count(operation, bytes, change)?;
        *self.lock_modified() = SystemTime::now();
        Ok(())
    }
}

impl std::fmt::Debug for DiskFilesystem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DiskFilesystem").finish_non_exhaustive()
    }
}

impl Filesystem for DiskFilesystem {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // Older kernels lack these flags and work without them: no mapping, and one request of an
        // asynchronous batch at a time.
        for wanted in [
            InitFlags::FUSE_ASYNC_DIO,
            InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP,
        ] {
            let _ = config.add_capabilities(wanted);
        }
        let taken = config.set_max_write(MAX_REQUEST);
        taken.expect("MAX_REQUEST is from 1 byte to 16 MiB");
        // The parts of larger reads and writes. There may be more of them than threads.
        let taken = config.set_max_background(64);
        taken.expect("64 is not 0");
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let found = match parent {
            INodeNo::ROOT if name == self.name.as_os_str() => FILE,
            INodeNo::ROOT if name == server::NAME => SERVER,
            _ => return reply.error(Errno::ENOENT),
        };
        reply.entry(&TTL, &self.attributes(found), Generation(0));
    }

    fn readlink(&self, _: &Request, ino: INodeNo, reply: ReplyData) {
        if ino == SERVER {
            reply.data(server::words().as_bytes());
        } else {
            reply.error(Errno::EINVAL);
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
        // Setting the length that the file already has is allowed, because it changes nothing.
        if ino == FILE && size == Some(self.len()) {
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
        // `Disk` orders overlapping writes.
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
            let at = self.on_disk(offset);
            let read = self.count(Operation::Read, len, |disk| {
                disk.read(&mut buffer[..len], at)
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
        // Beyond the end, behave like a full device: the write is shortened first, then refused.
        let len = self.until_end(offset, data.len());
        if len == 0 && !data.is_empty() {
            return reply.error(Errno::ENOSPC);
        }
        // Without its cache, the kernel sends no `fsync` for files that are opened with `O_DSYNC`.
        let durable = OFlag::from_bits_retain(flags.0).contains(OFlag::O_DSYNC);
        let written = self.modify(Operation::Write, len, |disk| {
            disk.write(&data[..len], self.on_disk(offset))?;
            if durable { disk.flush() } else { Ok(()) }
        });
        match written {
            Ok(()) => reply.written(u32::try_from(len).expect("`len` is at most `MAX_REQUEST`")),
            Err(errno) => reply.error(errno),
        }
    }

    /// Called when the file is closed. Makes earlier writes durable, as for a disk that may be
    /// unplugged next.
    fn flush(
        &self,
        _: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        _lock_owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        let flushed = self.count(Operation::Flush, 0, |_| self.export.flush());
        answer(flushed, reply);
    }

    fn fsync(
        &self,
        _: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        _datasync: bool,
        reply: ReplyEmpty,
    ) {
        let flushed = self.count(Operation::Flush, 0, |_| self.export.flush());
        answer(flushed, reply);
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
        let blocks = self.len().div_ceil(BLOCK.into());
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
        let left = self.len().saturating_sub(offset);
        if len > left && !keep_size {
            return reply.error(Errno::ENOSPC);
        }
        let (offset, len) = (self.on_disk(offset), len.min(left));
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

/// Maps errors to those that programs expect of a file. All others become `EIO`.
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
