// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes a regular file, which appears whole or not at all, or a block device, a pipe or standard
//! output.
//!
//! A symbolic link is followed: the output is the file that it names, in the folder of that file.
//! The link itself is not changed.

mod device;
mod entry;
mod sparse;
mod whole_file;

use std::{
    fmt, fs,
    io::{self, Write},
    os::{
        fd::RawFd,
        unix::fs::{FileTypeExt, MetadataExt},
    },
    path::{Path, PathBuf},
    sync::{Arc, atomic::AtomicBool},
    thread,
    time::Duration,
};

use luxor_sector::Storage;
use nix::fcntl::OFlag;

pub(crate) use self::entry::DirectoryEntry;
use crate::{
    block_device::FileIdentity,
    contents::recognised,
    display::{io_words, name_or},
    error_class::FileErrorClass,
    input::Input,
    is_same_file,
    locks::{Access, DataLock, LockError, MetadataLock},
    metadata_change::NotLocked,
    output::{
        device::Device,
        entry::{EntryError, Found},
        sparse::SparseWriter,
        whole_file::{WholeFile, publish_all, remove_left_overs},
    },
    standard_streams,
};

/// Options of an output. The default refuses existing files and block devices.
#[derive(Clone, Copy, Debug)]
pub struct OutputOptions<'a> {
    /// Whether an existing file is replaced or a block device overwritten.
    pub force: bool,
    /// Whether another output is written together with this one. Then neither may replace a file,
    /// because two files cannot be replaced at once.
    pub is_one_of_two: bool,
    /// The permissions of a new file, whatever those of a file that it replaces. The default is
    /// 0600.
    pub mode: u32,
    /// The input of the same command. The output must not be the same file or device.
    pub known_input: Option<&'a Input>,
    /// Other files that the command reads, each with its description. The output must be none of
    /// them.
    pub needed: Needed<'a>,
    /// Whether runs of at least 64 KiB of zeros become holes in a regular file.
    pub sparse: bool,
    /// Whether the output will begin with LUKS2 metadata. On a block device the caller then needs
    /// cryptsetup's lock, as it does if the device already has LUKS2 metadata.
    pub becomes_luks2: bool,
    /// Whether a block device is overwritten even if its old or new metadata cannot be locked.
    pub disable_locks: bool,
    /// Ends the wait for such a lock when it is set.
    pub cancel: Option<&'a Arc<AtomicBool>>,
}

impl Default for OutputOptions<'_> {
    fn default() -> Self {
        Self {
            force: false,
            is_one_of_two: false,
            mode: 0o600,
            known_input: None,
            needed: &[],
            sparse: false,
            becomes_luks2: false,
            disable_locks: false,
            cancel: None,
        }
    }
}

/// An open output.
///
/// The order of calls is [`Output::create`], [`Output::begin`], writes, [`Output::finish`].
///
/// As a [`Write`] it takes bytes in order, from the offset given to [`Output::begin`]. Seekable
/// outputs are also a [`Storage`], for a header that is written last. A regular file is not visible
/// before [`Output::finish`], and if it is dropped before, nothing remains.
pub struct Output {
    path: PathBuf,
    kind: Kind,
}

impl fmt::Debug for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Output")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

enum Kind {
    File {
        file: WholeFile,
        writer: SparseWriter,
    },
    Device {
        device: Device,
        position: u64,
    },
    /// What the caller supplies in place of a file.
    Storage {
        storage: Arc<dyn Storage>,
        position: u64,
    },
    Stream(Box<dyn Write + Send + Sync>),
}

impl Output {
    /// Opens `path`, or standard output for `-`. Changes nothing yet, and reports every problem
    /// that can be known already. Call this before any work, and before asking for a secret.
    ///
    /// # Errors
    /// [`OutputError`]: the output exists, is in use, is locked, is also an input, or cannot be
    /// opened.
    pub fn create(path: &Path, options: &OutputOptions<'_>) -> Result<Self, OutputError> {
        let path_of = || path.to_owned();
        let failed = |source| OutputError::Create {
            path: path_of(),
            source,
        };
        check_not_needed(path, options.needed)?;
        if path == Path::new("-") {
            let file = standard_streams::stdout().map_err(failed)?;
            let metadata = file.metadata().map_err(failed)?;
            check_not_input(path, FileIdentity::from_metadata(&metadata), options)?;
            return Ok(Self {
                path: path_of(),
                kind: Kind::Stream(Box::new(file)),
            });
        }

        let entry = DirectoryEntry::resolve(path).map_err(|error| match error {
            EntryError::MissingFolder => OutputError::MissingFolder { path: path_of() },
            EntryError::Folder => OutputError::Folder { path: path_of() },
            EntryError::ForeignLink => OutputError::ForeignLink { path: path_of() },
            EntryError::Nameless => OutputError::Nameless { path: path_of() },
            EntryError::Io(source) => failed(source),
        })?;
        let kind = match &entry.found {
            Some(found) if found.metadata.is_dir() => {
                return Err(OutputError::Folder { path: path_of() });
            }
            Some(found) if !found.metadata.is_file() => {
                if let (Some(kind), false) = (found.foreign_kind(), options.force) {
                    return Err(OutputError::Foreign {
                        path: path_of(),
                        kind,
                        uid: found.metadata.uid(),
                    });
                }
                if found.metadata.file_type().is_block_device() {
                    check_not_input(path, found.identity(), options)?;
                    Kind::Device {
                        device: Device::open(path, &entry, found, options)?,
                        position: 0,
                    }
                } else {
                    let file = entry.open(found, OFlag::O_WRONLY).map_err(failed)?;
                    Kind::Stream(Box::new(file))
                }
            }
            found => {
                if let Ok(kept) = kept(options.needed) {
                    remove_left_overs(&entry.folder, &entry.name, &kept);
                }
                let old = match found {
                    Some(found) => {
                        check_not_input(path, found.identity(), options)?;
                        check_replaceable(path, &entry, found, options)?
                    }
                    None => {
                        // The name of a dangling link is taken too.
                        if !options.force && entry.is_linked {
                            return Err(OutputError::Exists { path: path_of() });
                        }
                        None
                    }
                };
                let file = WholeFile::create(path, entry, options, old)?;
                Kind::File {
                    file,
                    writer: SparseWriter::new(options.sparse),
                }
            }
        };
        Ok(Self {
            path: path_of(),
            kind,
        })
    }

    /// Writes to a storage that is no file, such as an object in a network store. `name` is its name
    /// for messages. It must be empty, and grow as it is written.
    #[must_use]
    pub fn of_storage(storage: Arc<dyn Storage>, name: &Path) -> Self {
        let position = 0;
        Self {
            path: name.to_owned(),
            kind: Kind::Storage { storage, position },
        }
    }

    /// Writes to a stream, from its present position. `name` is its name for messages.
    #[must_use]
    pub fn of_stream(stream: impl Write + Send + Sync + 'static, name: &Path) -> Self {
        Self {
            path: name.to_owned(),
            kind: Kind::Stream(Box::new(stream)),
        }
    }

    /// Its name for messages.
    #[must_use]
    pub fn name(&self) -> String {
        shown(&self.path)
    }

    /// Returns whether bytes can be written out of order: false for streams.
    #[must_use]
    pub fn is_seekable(&self) -> bool {
        self.as_storage().is_some()
    }

    /// The signatures on a block device that will be overwritten, in words.
    #[must_use]
    pub fn contents(&self) -> Vec<String> {
        match &self.kind {
            Kind::Device { device, .. } => recognised(device.file()),
            _ => Vec::new(),
        }
    }

    /// The output as storage. `None` for streams: pipes, sockets, character devices and
    /// [`Output::of_stream`].
    #[must_use]
    pub fn as_storage(&self) -> Option<&dyn Storage> {
        match &self.kind {
            Kind::File { file, .. } => Some(file.file()),
            Kind::Device { device, .. } => Some(device.file()),
            Kind::Storage { storage, .. } => Some(&**storage),
            Kind::Stream(_) => None,
        }
    }

    /// Makes a regular file that has been written shorter.
    ///
    /// # Errors
    /// The system's errors. [`io::ErrorKind::Unsupported`] if it is no regular file.
    pub fn shorten(&self, len: u64) -> io::Result<()> {
        match &self.kind {
            Kind::File { file, .. } => file.file().set_len(len),
            _ => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// The descriptors that a regular file holds, for
    /// [`OfProcess::holding`](crate::OfProcess::holding).
    #[must_use]
    pub fn descriptors(&self) -> Vec<RawFd> {
        match &self.kind {
            Kind::File { file, .. } => file.descriptors(),
            _ => Vec::new(),
        }
    }

    /// Waits for the locks on the metadata of a block device, under which its new header is
    /// written. Returns `None` for all other outputs, because no other program knows them yet.
    ///
    /// # Errors
    /// [`OutputError::NotLocked`]: another program holds a lock, or a needed lock cannot be had.
    pub fn lock_metadata(&self) -> Result<Option<MetadataLock>, OutputError> {
        match &self.kind {
            Kind::Device { device, .. } => {
                let lock = device.lock_metadata();
                Ok(Some(
                    lock.map_err(|source| NotLocked::new(&self.path, source))?,
                ))
            }
            _ => Ok(None),
        }
    }

    /// The block device. `None` for all other outputs.
    #[must_use]
    pub fn device(&self) -> Option<&fs::File> {
        match &self.kind {
            Kind::Device { device, .. } => Some(device.file()),
            _ => None,
        }
    }

    /// The length of a block device in bytes. `None` for outputs that can grow.
    #[must_use]
    pub fn capacity(&self) -> Option<u64> {
        match &self.kind {
            Kind::Device { device, .. } => Some(device.capacity()),
            _ => None,
        }
    }

    /// Checks that a block device has room for `needed` bytes. Everything else has.
    ///
    /// # Errors
    /// [`OutputError::TooSmall`].
    pub fn check_room(&self, needed: u64) -> Result<(), OutputError> {
        match self.capacity() {
            Some(capacity) if needed > capacity => Err(OutputError::TooSmall {
                path: self.path.clone(),
                needed,
                capacity,
            }),
            _ => Ok(()),
        }
    }

    /// Returns how many bytes are free for a new file in its file system, if those are fewer than
    /// `needed`. The file may fit all the same: with holes, or if the file system compresses it.
    #[must_use]
    pub fn shortage(&self, needed: u64) -> Option<u64> {
        self.as_storage()?.free().filter(|&free| free < needed)
    }

    /// Begins writing. The first byte that is written goes to byte `offset` of the output: the end
    /// of a header that is written last, or 0. For a stream it must be 0. The whole output will
    /// have `total` bytes, if that is known.
    ///
    /// This is the first call that changes something: on a block device it overwrites all
    /// signatures of an earlier use with zeros, under the locks on its metadata.
    ///
    /// # Errors
    /// [`OutputError::TooSmall`] and [`OutputError::NotLocked`], before anything is written.
    /// [`OutputError::Finish`] if the device cannot be overwritten.
    ///
    /// # Panics
    /// If the output is a stream and `offset` is not 0.
    pub fn begin(&mut self, offset: u64, total: Option<u64>) -> Result<(), OutputError> {
        self.check_room(total.unwrap_or(offset))?;
        match &mut self.kind {
            Kind::File { writer, .. } => writer.start_at(offset),
            Kind::Device { device, position } => {
                *position = offset;
                device.wipe(offset).map_err(|error| match error {
                    LockError::Io(source) => OutputError::Finish {
                        path: self.path.clone(),
                        source,
                    },
                    error => NotLocked::new(&self.path, error).into(),
                })?;
            }
            Kind::Storage { position, .. } => *position = offset,
            Kind::Stream(_) => assert_eq!(offset, 0, "the data of a stream begin at offset 0"),
        }
        Ok(())
    }

    /// Makes all written bytes durable, and makes a regular file visible.
    ///
    /// # Errors
    /// [`OutputError::Exists`] if another program has created a file of that name in the meantime;
    /// that file is not changed. [`OutputError::Finish`] if the system failed; a regular file does
    /// not appear then.
    pub fn finish(self) -> Result<(), OutputError> {
        Self::finish_all(vec![self])
    }

    /// Like [`Output::finish`], for several outputs with [`OutputOptions::is_one_of_two`]. The
    /// files appear in this order; if one of them cannot appear, none does.
    ///
    /// # Errors
    /// Those of [`Output::finish`], and [`OutputError::OneOfTwo`] if another program has created a
    /// file of one of the names in the meantime.
    pub fn finish_all(mut outputs: Vec<Self>) -> Result<(), OutputError> {
        let is_one = outputs.len() == 1;
        let failed = |path: &PathBuf, source: io::Error| {
            let path = path.clone();
            match source.kind() {
                io::ErrorKind::AlreadyExists if is_one => OutputError::Exists { path },
                io::ErrorKind::AlreadyExists => OutputError::OneOfTwo { path },
                _ => OutputError::Finish { path, source },
            }
        };
        let (mut files, mut paths) = (Vec::new(), Vec::new());
        for Self { path, kind } in &mut outputs {
            let finished = match kind {
                Kind::File { file, writer } => {
                    let finished = writer.finish(file.file());
                    files.push(file);
                    paths.push(&*path);
                    finished
                }
                Kind::Device { device, .. } => device.file().sync_all(),
                Kind::Storage { storage, .. } => storage.sync(),
                Kind::Stream(stream) => stream.flush(),
            };
            finished.map_err(|source| failed(path, source))?;
        }
        publish_all(&mut files).map_err(|(index, source)| failed(paths[index], source))
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.kind {
            Kind::File { file, writer } => writer.write(file.file(), bytes),
            Kind::Device { device, position } => {
                device.check_wiped()?;
                Storage::write_all_at(device.file(), bytes, *position)?;
                *position += bytes.len() as u64;
                Ok(bytes.len())
            }
            Kind::Storage { storage, position } => {
                storage.write_all_at(bytes, *position)?;
                *position += bytes.len() as u64;
                Ok(bytes.len())
            }
            Kind::Stream(stream) => match stream.write(bytes) {
                // Another process has made the pipe non-blocking. Wait a little, so that the
                // retries do not use a whole CPU.
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    thread::sleep(Duration::from_millis(2));
                    Err(io::ErrorKind::Interrupted.into())
                }
                result => result,
            },
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Files that a command reads, each with its description for messages, such as "the key file". The
/// path is `None` if the command does not use that file.
pub type Needed<'a> = &'a [(&'static str, Option<&'a Path>)];

/// Checks that `output` is none of the `needed` files.
///
/// # Errors
/// [`OutputError::IsNeeded`] if it is one of them.
pub fn check_not_needed(output: &Path, needed: Needed<'_>) -> Result<(), OutputError> {
    if output == Path::new("-") {
        return Ok(());
    }
    let is_output = |path: Option<&Path>| path.is_some_and(|path| is_same_file(output, path));
    match needed.iter().find(|(_, path)| is_output(*path)) {
        Some(&(what, _)) => Err(OutputError::IsNeeded {
            path: output.to_owned(),
            what,
        }),
        None => Ok(()),
    }
}

/// Returns the files that the command reads and that must not be removed as left-overs of another
/// run: those that this process has open, standard input included, and those that it will open.
///
/// # Errors
/// An I/O error if the open files cannot be listed.
fn kept(needed: Needed<'_>) -> io::Result<Vec<FileIdentity>> {
    let open = fs::read_dir("/proc/self/fd")?.flatten();
    let needed = needed
        .iter()
        .filter_map(|(_, path)| path.map(Path::to_owned));
    let all = open.map(|entry| entry.path()).chain(needed);
    Ok(all
        .filter_map(|path| FileIdentity::from_metadata(&fs::metadata(path).ok()?))
        .collect())
}

/// Checks that the output is not the file or device that is read at the same time.
fn check_not_input(
    path: &Path,
    identity: Option<FileIdentity>,
    options: &OutputOptions<'_>,
) -> Result<(), OutputError> {
    let input = options.known_input.and_then(Input::identity);
    match (identity, input) {
        (Some(output), Some(input)) if output.overlaps(input) => Err(OutputError::IsInput {
            path: path.to_owned(),
        }),
        _ => Ok(()),
    }
}

/// Checks whether the existing regular file `path` may be replaced. It is locked as long as the
/// returned file is open.
fn check_replaceable(
    path: &Path,
    entry: &DirectoryEntry,
    found: &Found,
    options: &OutputOptions<'_>,
) -> Result<Option<DataLock>, OutputError> {
    if options.is_one_of_two {
        return Err(OutputError::OneOfTwo {
            path: path.to_owned(),
        });
    }
    if !options.force {
        return Err(OutputError::Exists {
            path: path.to_owned(),
        });
    }
    if let Some(user) = found.identity().and_then(FileIdentity::user) {
        return Err(OutputError::InUse {
            path: path.to_owned(),
            user,
        });
    }
    // A file that the caller cannot read cannot be locked, but the caller may replace it.
    let Ok(old) = entry.open(found, OFlag::O_RDONLY | OFlag::O_NONBLOCK) else {
        return Ok(None);
    };
    match DataLock::acquire(&old, Access::Write) {
        Ok(Some(lock)) => Ok(Some(lock)),
        Ok(None) => Err(OutputError::Locked {
            path: path.to_owned(),
        }),
        Err(source) => Err(OutputError::Create {
            path: path.to_owned(),
            source,
        }),
    }
}

fn shown(path: &Path) -> String {
    name_or(path, "standard output")
}

fn on_it(found: &[String]) -> String {
    match found {
        [] => String::new(),
        found => format!(" with {}", found.join(" and ")),
    }
}

/// Why an output cannot be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OutputError {
    /// A file of that name exists.
    #[error("{} exists already", shown(path))]
    Exists {
        /// The path as the user gave it.
        path: PathBuf,
    },
    /// The file exists, and would have to be replaced at once with another one.
    #[error(
        "{} exists already, and two files cannot be replaced at once",
        shown(path)
    )]
    OneOfTwo {
        /// The path as the user gave it.
        path: PathBuf,
    },
    /// It belongs to another user, who could read the output.
    #[error(
        "{} is a {kind} of another user (uid {uid}), who could read the output",
        shown(path)
    )]
    Foreign {
        /// The path as the user gave it.
        path: PathBuf,
        /// `FIFO`, `socket` or `device`.
        kind: &'static str,
        /// The user id of that user.
        uid: u32,
    },
    /// It is a symbolic link of another user in a sticky folder.
    #[error(
        "{} is a symbolic link that another user made in a folder where all users can write: name \
         the file that it points to",
        shown(path)
    )]
    ForeignLink {
        /// The path as the user gave it.
        path: PathBuf,
    },
    /// It is an open file without a name, which cannot be replaced.
    #[error(
        "{} is an open file without a name, which cannot be replaced",
        shown(path)
    )]
    Nameless {
        /// The path as the user gave it.
        path: PathBuf,
    },
    /// It is a block device, and `force` was not given.
    #[error("{} is a block device{}", shown(path), on_it(found))]
    IsDevice {
        /// The path as the user gave it.
        path: PathBuf,
        /// The signatures on it, in words.
        found: Vec<String>,
    },
    /// It is mounted, or in use by another device.
    #[error("{} is {user}", shown(path))]
    InUse {
        /// The path as the user gave it.
        path: PathBuf,
        /// The use, in words, such as `mounted at /srv`.
        user: String,
    },
    /// Another program, or another opening in this one, has locked its data.
    #[error("{} is locked: it is in use elsewhere", shown(path))]
    Locked {
        /// The path as the user gave it.
        path: PathBuf,
    },
    /// Its metadata cannot be locked.
    #[error(transparent)]
    NotLocked(#[from] NotLocked),
    /// Its folder does not exist.
    #[error("the folder of {} does not exist", shown(path))]
    MissingFolder {
        /// The path as the user gave it.
        path: PathBuf,
    },
    /// The path is a folder.
    #[error("{} is a folder, not a file", shown(path))]
    Folder {
        /// The path as the user gave it.
        path: PathBuf,
    },
    /// It is also the input.
    #[error("{} is also the input: the output must be another file", shown(path))]
    IsInput {
        /// The path as the user gave it.
        path: PathBuf,
    },
    /// It is also another file that the command reads.
    #[error("{} is also {what}: the output must be another file", shown(path))]
    IsNeeded {
        /// The path as the user gave it.
        path: PathBuf,
        /// The description of that file, in words.
        what: &'static str,
    },
    /// The device is too small.
    #[error("{} has {capacity} bytes, but {needed} are needed", shown(path))]
    TooSmall {
        /// The path as the user gave it.
        path: PathBuf,
        /// The number of bytes to be written.
        needed: u64,
        /// The length of the device in bytes.
        capacity: u64,
    },
    /// The system refused to open it.
    #[error("cannot create {}: {}", shown(path), io_words(source))]
    Create {
        /// The path as the user gave it.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The system failed to make it durable or visible.
    #[error("cannot write {}: {}", shown(path), io_words(source))]
    Finish {
        /// The path as the user gave it.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

impl OutputError {
    /// The path as the user gave it.
    #[must_use]
    pub fn path(&self) -> &Path {
        match self {
            Self::NotLocked(error) => &error.path,
            Self::Exists { path }
            | Self::OneOfTwo { path }
            | Self::Foreign { path, .. }
            | Self::ForeignLink { path }
            | Self::Nameless { path }
            | Self::IsDevice { path, .. }
            | Self::InUse { path, .. }
            | Self::Locked { path }
            | Self::MissingFolder { path }
            | Self::Folder { path }
            | Self::IsInput { path }
            | Self::IsNeeded { path, .. }
            | Self::TooSmall { path, .. }
            | Self::Create { path, .. }
            | Self::Finish { path, .. } => path,
        }
    }

    /// The kind of failure.
    #[must_use]
    pub fn class(&self) -> FileErrorClass {
        match self {
            Self::Exists { .. }
            | Self::OneOfTwo { .. }
            | Self::IsDevice { .. }
            | Self::Foreign { .. }
            | Self::ForeignLink { .. }
            | Self::InUse { .. }
            | Self::Locked { .. } => FileErrorClass::Busy,
            Self::NotLocked(error) => error.class(),
            Self::MissingFolder { .. } => FileErrorClass::Missing,
            Self::Folder { .. }
            | Self::Nameless { .. }
            | Self::IsInput { .. }
            | Self::IsNeeded { .. }
            | Self::TooSmall { .. }
            | Self::Create { .. }
            | Self::Finish { .. } => FileErrorClass::Failure,
        }
    }
}

#[cfg(test)]
mod tests;
