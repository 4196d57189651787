// SPDX-License-Identifier: MIT OR Apache-2.0
//! The locks that other programs respect: qemu's on data ([`lock_data`]), cryptsetup's on metadata
//! ([`MetadataLock`]) and on a re-encryption ([`ReencryptionLock`]).

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io,
    os::{
        fd::{AsRawFd, RawFd},
        unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt},
    },
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use nix::{
    errno::Errno,
    fcntl::{FcntlArg, Flock, FlockArg, fcntl},
    libc,
    sys::stat::{major, minor},
};

use crate::{OfProcess, block_device::FileIdentity, io_words, opening::open};

/// What is done with a file's data while it is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// The data are read, and no other program may change them meanwhile.
    Read,
    /// The data are written, and no other program may use them meanwhile.
    Write,
}

/// qemu's permissions, by bit number (`BLK_PERM_*` in `include/block/block-common.h`).
const CONSISTENT_READ: i64 = 0;
const WRITE: i64 = 1;
const WRITE_UNCHANGED: i64 = 2;
const RESIZE: i64 = 3;

/// A shared lock on this byte plus *n*: "I use permission *n*"
/// (`RAW_LOCK_PERM_BASE` in `block/file-posix.c`).
const USED: i64 = 100;
/// A shared lock on this byte plus *n*: "no other program may use permission *n*"
/// (`RAW_LOCK_SHARED_BASE`).
const REFUSED: i64 = 200;

impl Access {
    fn uses(self) -> &'static [i64] {
        match self {
            Self::Read => &[CONSISTENT_READ],
            Self::Write => &[CONSISTENT_READ, WRITE, RESIZE],
        }
    }

    fn refuses(self) -> &'static [i64] {
        match self {
            Self::Read => &[WRITE, RESIZE],
            Self::Write => &[CONSISTENT_READ, WRITE, WRITE_UNCHANGED, RESIZE],
        }
    }
}

/// Locks the data of `file`, which must be open for reading, until all handles of it are closed or
/// [`unlock_data`] is called. Returns `false`, and locks nothing, if another program holds a
/// conflicting lock. Does not wait.
///
/// The locks are open file description locks at the bytes that qemu uses. All of them are shared.
/// Each program first locks its own bytes, and then tests whether another program has locked a byte
/// that conflicts. On a file system without such locks nothing is locked, and `true` is returned.
///
/// # Errors
/// An error of the system.
pub fn lock_data(file: &File, access: Access) -> io::Result<bool> {
    let ours = access.uses().iter().map(|n| USED + n);
    let ours = ours.chain(access.refuses().iter().map(|n| REFUSED + n));
    // The bytes that others lock if they conflict with this access.
    let theirs = access.refuses().iter().map(|n| USED + n);
    let theirs = theirs.chain(access.uses().iter().map(|n| REFUSED + n));

    // Lock first, then test: of two programs that do this at the same time, at least one sees the
    // other.
    let result = (|| {
        for byte in ours {
            match fcntl(file, FcntlArg::F_OFD_SETLK(&range(libc::F_RDLCK, byte, 1))) {
                Ok(_) => {}
                Err(Errno::EAGAIN | Errno::EACCES) => return Ok(false),
                Err(e) => return Err(e),
            }
        }
        for byte in theirs {
            let mut question = range(libc::F_WRLCK, byte, 1);
            fcntl(file, FcntlArg::F_OFD_GETLK(&mut question))?;
            if i32::from(question.l_type) != libc::F_UNLCK {
                return Ok(false);
            }
        }
        Ok(true)
    })();
    match result {
        Ok(true) => Ok(true),
        Ok(false) => {
            unlock_data(file);
            Ok(false)
        }
        Err(Errno::EINVAL | Errno::ENOLCK | Errno::ENOSYS | Errno::EOPNOTSUPP) => Ok(true),
        Err(e) => Err(e.into()),
    }
}

/// The locks of [`lock_data`], held until dropped.
///
/// Closing the file alone would not release them while another process has the same open file: the one
/// that passed it on as standard input, or a forked child, in which dropping this releases nothing.
#[derive(Debug)]
pub struct DataLock(OfProcess<Locked>);

#[derive(Debug)]
struct Locked(File);

impl DataLock {
    /// Locks the data of `file` as [`lock_data`] does. Returns `None` where that returns `false`.
    ///
    /// # Errors
    /// An error of the system.
    pub fn acquire(file: &File, access: Access) -> io::Result<Option<Self>> {
        let file = file.try_clone()?;
        if !lock_data(&file, access)? {
            return Ok(None);
        }
        let descriptors = |locked: &Locked| vec![locked.0.as_raw_fd()];
        Ok(Some(Self(OfProcess::holding(Locked(file), descriptors))))
    }

    /// The descriptor by which the locks are released.
    pub(crate) fn descriptor(&self) -> RawFd {
        self.0.0.as_raw_fd()
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        unlock_data(&self.0);
    }
}

/// Releases the locks of [`lock_data`]. Needed if another process shares the open file, as for
/// standard input; otherwise closing the file releases them.
pub fn unlock_data(file: &File) {
    for base in [USED, REFUSED] {
        // Ignored: unlocking fails only where locking was not possible either.
        let _ = fcntl(
            file,
            FcntlArg::F_OFD_SETLK(&range(libc::F_UNLCK, base, RESIZE + 1)),
        );
    }
}

fn range(kind: i32, start: i64, len: i64) -> libc::flock {
    libc::flock {
        l_type: i16::try_from(kind).expect("a lock type is 0, 1 or 2"),
        l_whence: i16::try_from(libc::SEEK_SET).expect("SEEK_SET is 0"),
        l_start: start,
        l_len: len,
        // Must be 0 for open file description locks.
        l_pid: 0,
    }
}

/// The locks for reading or changing metadata, held until dropped.
///
/// Luxor's own processes exclude one another by a `flock` of the file or of the device's node. For
/// a file that is also cryptsetup's lock. For a block device cryptsetup locks
/// `/run/cryptsetup/L_<major>:<minor>` instead, in a folder that belongs to root.
#[derive(Debug)]
pub struct MetadataLock {
    _node: Option<Flock<File>>,
    _named: Option<OfProcess<NamedLock>>,
}

/// Why metadata could not be locked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LockError {
    /// The caller ended the wait.
    #[error("interrupted")]
    Cancelled,
    /// Another program has held the lock for the whole wait, which was this long.
    #[error("another program has held the lock for {} seconds", .0.as_secs())]
    Held(Duration),
    /// The lock that other programs respect cannot be had.
    #[error("{}{}", not_there(file.as_deref()), io_words(source))]
    Missing {
        /// The file that would be locked, if that is another one.
        file: Option<String>,
        /// The system's error.
        source: io::Error,
    },
    /// A loop device lies over the file. Its users take other locks, and read and write through
    /// another cache.
    #[error("it is in use by {device}, which has a lock and a cache of its own")]
    UnderLoop {
        /// Its path, such as `/dev/loop0`.
        device: String,
    },
    /// A loop device shows bytes of the device too, through another cache.
    #[error("{device} contains the same bytes, with a cache of its own")]
    BesideLoop {
        /// Its path, such as `/dev/loop0`.
        device: String,
    },
    /// Any other error of the system.
    #[error("{}", io_words(.0))]
    Io(#[source] io::Error),
}

/// What comes before the system's reason.
fn not_there(file: Option<&str>) -> String {
    file.map_or_else(
        || "its file system gives no locks: ".to_owned(),
        |file| format!("{file}: "),
    )
}

impl MetadataLock {
    /// Waits for a shared lock, for at most 30 seconds or until `cancel` is set. A lock that cannot
    /// be had is left out, because checksums of LUKS2 metadata reveal a change during the read.
    ///
    /// `is_shared` says that another process has the same open file, as for standard input. Then
    /// the lock of the node is left out too: it would convert a lock that the other process has on
    /// that open file, and release it in the end.
    ///
    /// # Errors
    /// All of [`LockError`] except [`LockError::Missing`].
    pub fn to_read(file: &File, is_shared: bool, cancel: &AtomicBool) -> Result<Self, LockError> {
        let how = FlockArg::LockSharedNonblock;
        let wait = Wait::unless(cancel);
        Ok(Self {
            _node: if is_shared {
                None
            } else {
                optional(lock_node(file, how, wait), || false)?
            },
            _named: match lock_name(file).map_err(LockError::Io)? {
                Some(name) => {
                    optional(lock_stand_in(Path::new(FOLDER), &name, how, wait), || false)?
                }
                None => None,
            },
        })
    }

    /// Waits for an exclusive lock, for at most 30 seconds or until `cancel` is set. A lock that
    /// cannot be had is left out if `is_needed` returns false for it. `is_needed` is called while
    /// the lock of the node is held.
    ///
    /// # Errors
    /// All of [`LockError`].
    pub fn to_change(
        file: &File,
        is_needed: impl Fn(Lock) -> bool,
        cancel: &AtomicBool,
    ) -> Result<Self, LockError> {
        let how = FlockArg::LockExclusiveNonblock;
        let wait = Wait::unless(cancel);
        Ok(Self {
            _node: optional(lock_node(file, how, wait), || is_needed(Lock::Node))?,
            _named: match lock_name(file).map_err(LockError::Io)? {
                Some(name) => {
                    let lock = lock_stand_in(Path::new(FOLDER), &name, how, wait);
                    optional(lock, || is_needed(Lock::Named))?
                }
                None => None,
            },
        })
    }
}

/// Returns `None` for a lock that cannot be had, unless it is needed.
fn optional<T>(
    lock: Result<T, LockError>,
    is_needed: impl FnOnce() -> bool,
) -> Result<Option<T>, LockError> {
    match lock {
        Err(LockError::Missing { .. }) if !is_needed() => Ok(None),
        lock => lock.map(Some),
    }
}

/// One of the locks of a [`MetadataLock`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lock {
    /// The `flock` of the file or the device's node.
    Node,
    /// cryptsetup's file that stands for a device.
    Named,
}

/// How long to wait for a lock on metadata. No program holds one while it derives keys or waits for
/// input.
const PATIENCE: Duration = Duration::from_secs(30);

/// When to stop waiting for a lock.
#[derive(Clone, Copy)]
struct Wait<'a> {
    limit: Duration,
    /// Ends the wait when it is set.
    cancel: Option<&'a AtomicBool>,
}

impl<'a> Wait<'a> {
    fn unless(cancel: &'a AtomicBool) -> Self {
        Self {
            limit: PATIENCE,
            cancel: Some(cancel),
        }
    }
}

/// Returns the name of cryptsetup's lock file, if `file` is a block device.
fn lock_name(file: &File) -> io::Result<Option<String>> {
    let metadata = file.metadata()?;
    let device = metadata.rdev();
    let is_device = metadata.file_type().is_block_device();
    Ok(is_device.then(|| format!("L_{}:{}", major(device), minor(device))))
}

fn lock_node(file: &File, how: FlockArg, wait: Wait<'_>) -> Result<Flock<File>, LockError> {
    let kind = file.metadata().map_err(LockError::Io)?.file_type();
    if !kind.is_file() && !kind.is_block_device() {
        return Err(LockError::Missing {
            file: None,
            source: io::ErrorKind::Unsupported.into(),
        });
    }
    let missing = |source| LockError::Missing { file: None, source };
    patiently(|| flock(file.try_clone()?, how), wait, missing)
}

fn lock_stand_in(
    folder: &Path,
    name: &str,
    how: FlockArg,
    wait: Wait<'_>,
) -> Result<OfProcess<NamedLock>, LockError> {
    let missing = |source| LockError::Missing {
        file: Some(folder.join(name).display().to_string()),
        source,
    };
    let lock = || {
        let lock = lock_named(folder, name, how)?;
        let descriptors = |lock: &NamedLock| vec![lock.held.as_raw_fd()];
        Ok(OfProcess::holding(lock, descriptors))
    };
    patiently(lock, wait, missing)
}

/// Retries while another program has the lock, until the wait ends.
fn patiently<T>(
    lock: impl Fn() -> io::Result<T>,
    wait: Wait<'_>,
    missing: impl FnOnce(io::Error) -> LockError,
) -> Result<T, LockError> {
    let begun = Instant::now();
    loop {
        let is_set = |cancel: &AtomicBool| cancel.load(Ordering::Relaxed);
        if wait.cancel.is_some_and(is_set) {
            return Err(LockError::Cancelled);
        }
        match lock() {
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
            Err(e) if is_missing(&e) => return Err(missing(e)),
            result => return result.map_err(LockError::Io),
        }
        if begun.elapsed() >= wait.limit {
            return Err(LockError::Held(wait.limit));
        }
        thread::sleep(Duration::from_millis(10));
    }
}

/// The wait for the lock on a re-encryption. A reader that releases it holds it exclusively for a
/// moment.
const MOMENT: Wait<'static> = Wait {
    limit: Duration::from_millis(200),
    cancel: None,
};

/// cryptsetup's lock on the re-encryption of a volume, held until dropped. Readers share it. Who
/// re-encrypts holds it alone. cryptsetup does not wait for it.
#[derive(Debug)]
pub struct ReencryptionLock {
    held: Option<OfProcess<NamedLock>>,
}

impl ReencryptionLock {
    /// Locks the volume with this UUID, and waits for at most 200 ms. Has no effect for users other
    /// than root, because they cannot take the lock, and for a text that is no UUID.
    ///
    /// # Errors
    /// [`LockError::Held`] if another program holds it, or an error of the system.
    pub fn acquire(uuid: &str, access: Access) -> Result<Self, LockError> {
        Self::within(Path::new(FOLDER), uuid, access)
    }

    /// Whether the lock has an effect.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.held.is_some()
    }

    /// The descriptor of the locked file, for [`OfProcess::holding`].
    #[must_use]
    pub fn descriptor(&self) -> Option<RawFd> {
        self.held.as_ref().map(|lock| lock.held.as_raw_fd())
    }

    fn within(folder: &Path, uuid: &str, access: Access) -> Result<Self, LockError> {
        // The UUID becomes a part of a file name.
        if !uuid.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-') {
            return Ok(Self { held: None });
        }
        let name = format!("LN_LUKS2-reencryption-{uuid}");
        let how = match access {
            Access::Read => FlockArg::LockSharedNonblock,
            Access::Write => FlockArg::LockExclusiveNonblock,
        };
        let lock = lock_stand_in(folder, &name, how, MOMENT);
        Ok(Self {
            held: optional(lock, || false)?,
        })
    }
}

/// The folder with cryptsetup's lock files.
const FOLDER: &str = "/run/cryptsetup";

/// Makes the folder with cryptsetup's lock files, if it is missing and this user can, and returns its path: for a
/// process that will be confined, and may then use only folders that exist.
pub fn prepare_lock_folder() -> &'static Path {
    let folder = Path::new(FOLDER);
    // Taking a lock reports it.
    let _ = make_folder(folder);
    folder
}

fn make_folder(folder: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(folder) {
        // A confined process may not make it, and hears of that first.
        Err(_) if folder.is_dir() => Ok(()),
        made => made,
    }
}

/// Returns whether the error means that the lock cannot be had: the user is not root, the folder is
/// missing (as in a container), or the file system has no locks.
fn is_missing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::PermissionDenied
            | io::ErrorKind::NotFound
            | io::ErrorKind::ReadOnlyFilesystem
            | io::ErrorKind::NotADirectory
            | io::ErrorKind::StorageFull
            | io::ErrorKind::Unsupported
    ) || matches!(
        error.raw_os_error().map(Errno::from_raw),
        Some(Errno::ENOLCK | Errno::EINVAL)
    )
}

/// A locked file that stands for something else. The last lock on it removes it, as in cryptsetup.
#[derive(Debug)]
struct NamedLock {
    held: Flock<File>,
    path: PathBuf,
}

impl Drop for NamedLock {
    fn drop(&mut self) {
        let is_last = self.held.relock(FlockArg::LockExclusiveNonblock).is_ok();
        if is_last && matches!(is_named(&self.held, &self.path), Ok(true)) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Returns whether the open file is the one with this name.
fn is_named(file: &File, path: &Path) -> io::Result<bool> {
    let (named, file) = (fs::metadata(path)?, file.metadata()?);
    Ok(FileIdentity::from_metadata(&named) == FileIdentity::from_metadata(&file))
}

/// Locks the file `name` in `folder`, which stands for something else.
fn lock_named(folder: &Path, name: &str, how: FlockArg) -> io::Result<NamedLock> {
    make_folder(folder)?;
    let path = folder.join(name);
    loop {
        let mut options = OpenOptions::new();
        options
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW);
        let file = open(&path, &options)?;
        // The program that released the last lock may have removed the file before it was locked
        // here. Then no other program would see this lock.
        let held = flock(file, how)?;
        if matches!(is_named(&held, &path), Ok(true)) {
            return Ok(NamedLock { held, path });
        }
    }
}

fn flock(file: File, how: FlockArg) -> io::Result<Flock<File>> {
    let mut file = file;
    loop {
        match Flock::lock(file, how) {
            Ok(held) => return Ok(held),
            Err((again, Errno::EINTR)) => file = again,
            Err((_, e)) => return Err(e.into()),
        }
    }
}

#[cfg(test)]
mod tests;
