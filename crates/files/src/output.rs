// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is written: a regular file, whole or not at all; a block device; a pipe
//! or standard output.
//!
//! A symbolic link is followed: the file it names is the output, in that file's
//! folder, and the link stays as it is.

mod device;
mod entry;
mod sparse;
mod whole_file;

use std::{
    fs::{self, File},
    io::{self, Write},
    os::unix::fs::{FileTypeExt, MetadataExt},
    path::{Path, PathBuf},
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
    locks::{Access, LockError, MetadataLock, lock_data},
    metadata_change::NotLocked,
    output::{
        device::Device,
        entry::{EntryError, Found},
        sparse::SparseWriter,
        whole_file::{WholeFile, publish_all, remove_left_overs},
    },
    standard_streams,
};

/// How an output is made.
#[derive(Clone, Copy, Debug)]
pub struct OutputOptions<'a> {
    /// Whether an existing file is replaced and a block device overwritten.
    pub force: bool,
    /// Whether another output is made with this one: then neither replaces a file, since
    /// two files cannot be replaced at once.
    pub is_one_of_two: bool,
    /// The permissions of a new file, whatever those of one that it replaces:
    /// 0600, and 0400 for backups of headers.
    pub mode: u32,
    /// What is read meanwhile: the output must be something else.
    pub known_input: Option<&'a Input>,
    /// Other files that the command reads, if it reads them, each with what it is in words: the
    /// output must be none of them.
    pub needed: Needed<'a>,
    /// Whether runs of zeros of 64 KiB and more become holes in a regular file.
    pub sparse: bool,
    /// Whether LUKS2 metadata are written, in place of which a block device may have others.
    pub becomes_luks2: bool,
    /// Whether a block device is overwritten also where its LUKS2 metadata, old or new,
    /// cannot be locked.
    pub disable_locks: bool,
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
        }
    }
}

/// An output that is open.
///
/// As a [`Write`] it takes bytes in order from where [`Output::begin`] said.
/// Seekable ones are also a [`Storage`], for a header that is written last.
/// Nothing of a regular file can be seen before [`Output::finish`]; dropped
/// without it, nothing is left.
#[derive(Debug)]
pub struct Output {
    path: PathBuf,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    File {
        file: WholeFile,
        writer: SparseWriter,
    },
    Device {
        device: Device,
        position: u64,
    },
    Stream(File),
}

impl Output {
    /// Opens `path`, or standard output for `-`. Nothing is changed yet, and
    /// everything that can be wrong already is told here: to be called before
    /// any work, and before a secret is asked for.
    ///
    /// # Errors
    /// [`OutputError`].
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
            check_not_input(path, FileIdentity::of(&metadata), options)?;
            return Ok(Self {
                path: path_of(),
                kind: Kind::Stream(file),
            });
        }

        let entry = DirectoryEntry::of(path).map_err(|error| match error {
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
                    Kind::Stream(entry.open(found, OFlag::O_WRONLY).map_err(failed)?)
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
                        // A link to nothing has a name that is taken, too.
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

    /// Its name for messages.
    #[must_use]
    pub fn name(&self) -> String {
        shown(&self.path)
    }

    /// Whether something can be written out of order. Not in pipes and the like.
    #[must_use]
    pub fn is_seekable(&self) -> bool {
        self.as_storage().is_some()
    }

    /// What is recognised on a block device that will be overwritten, in words.
    #[must_use]
    pub fn contents(&self) -> Vec<String> {
        match &self.kind {
            Kind::Device { device, .. } => recognised(device.file()),
            Kind::File { .. } | Kind::Stream(_) => Vec::new(),
        }
    }

    /// Its bytes at offsets. None for pipes and the like.
    #[must_use]
    pub fn as_storage(&self) -> Option<&dyn Storage> {
        match &self.kind {
            Kind::File { file, .. } => Some(file.file()),
            Kind::Device { device, .. } => Some(device.file()),
            Kind::Stream(_) => None,
        }
    }

    /// Waits for the locks on the metadata of a block device, under which its new header is
    /// written. None for everything else, which no other program knows yet.
    ///
    /// # Errors
    /// [`OutputError::NotLocked`].
    pub fn lock_metadata(&self) -> Result<Option<MetadataLock>, OutputError> {
        match &self.kind {
            Kind::Device { device, .. } => {
                let lock = device.lock_metadata();
                Ok(Some(
                    lock.map_err(|source| NotLocked::new(&self.path, source))?,
                ))
            }
            Kind::File { .. } | Kind::Stream(_) => Ok(None),
        }
    }

    /// The size of a block device in bytes; None for everything that grows.
    #[must_use]
    pub fn capacity(&self) -> Option<u64> {
        match &self.kind {
            Kind::Device { device, .. } => Some(device.capacity()),
            Kind::File { .. } | Kind::Stream(_) => None,
        }
    }

    /// Says that the data begin at byte `offset` (behind a header that comes
    /// last; 0 in a stream, where the header comes first) and that the output
    /// has `total` bytes altogether, where that is known. The first that
    /// changes something: on a block device, all that an earlier use left there
    /// for programs to recognise is overwritten with zeros, under the locks on its metadata.
    ///
    /// # Errors
    /// [`OutputError::TooSmall`] and [`OutputError::NotLocked`], before anything is written.
    /// [`OutputError::Finish`].
    ///
    /// # Panics
    /// If `offset` is not 0 and the output is a stream.
    pub fn begin(&mut self, offset: u64, total: Option<u64>) -> Result<(), OutputError> {
        match &mut self.kind {
            Kind::File { writer, .. } => writer.start_at(offset),
            Kind::Device { device, position } => {
                *position = offset;
                let needed = total.unwrap_or(offset);
                if needed > device.capacity() {
                    let (path, capacity) = (self.path.clone(), device.capacity());
                    return Err(OutputError::TooSmall {
                        path,
                        needed,
                        capacity,
                    });
                }
                device.wipe(offset).map_err(|error| match error {
                    LockError::Io(source) => OutputError::Finish {
                        path: self.path.clone(),
                        source,
                    },
                    error => NotLocked::new(&self.path, error).into(),
                })?;
            }
            Kind::Stream(_) => assert_eq!(offset, 0, "a stream begins at its beginning"),
        }
        Ok(())
    }

    /// Makes what was written durable, and a regular file appear.
    ///
    /// # Errors
    /// [`OutputError::Exists`] when somebody else has made a file of that name
    /// meanwhile, which then stays as it is. [`OutputError::Finish`]; a regular
    /// file then does not appear.
    pub fn finish(self) -> Result<(), OutputError> {
        Self::finish_all(vec![self])
    }

    /// As [`Output::finish`] of several outputs of [`OutputOptions::is_one_of_two`]. Their files
    /// appear in this order, and none of them when one cannot.
    ///
    /// # Errors
    /// Those of [`Output::finish`], and [`OutputError::OneOfTwo`] when somebody else has made a
    /// file of one of the names meanwhile.
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
                Kind::Stream(file) => file.flush(),
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
            Kind::Stream(file) => match file.write(bytes) {
                // Another process has made the pipe so: wait, without a loop
                // that takes a whole processor.
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

/// Files that a command reads, each with what it is in words, such as "the key file".
pub type Needed<'a> = &'a [(&'static str, Option<&'a Path>)];

/// Refuses an `output` that is one of the `needed` files.
///
/// # Errors
/// [`OutputError::IsNeeded`].
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

/// The files that the command reads, which are not left over from another run: those that this
/// process has open, standard input included, and those that it opens later.
///
/// # Errors
/// When the open files are not known.
fn kept(needed: Needed<'_>) -> io::Result<Vec<FileIdentity>> {
    let open = fs::read_dir("/proc/self/fd")?.flatten();
    let needed = needed
        .iter()
        .filter_map(|(_, path)| path.map(Path::to_owned));
    let all = open.map(|entry| entry.path()).chain(needed);
    Ok(all
        .filter_map(|path| FileIdentity::of(&fs::metadata(path).ok()?))
        .collect())
}

/// Refuses the file or device that is read at the same time.
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

/// Whether the existing regular file `path` may be replaced. The file is locked
/// as long as what is returned is open.
fn check_replaceable(
    path: &Path,
    entry: &DirectoryEntry,
    found: &Found,
    options: &OutputOptions<'_>,
) -> Result<Option<File>, OutputError> {
    if !options.force {
        return Err(OutputError::Exists {
            path: path.to_owned(),
        });
    }
    if options.is_one_of_two {
        return Err(OutputError::OneOfTwo {
            path: path.to_owned(),
        });
    }
    if let Some(user) = found.identity().and_then(FileIdentity::user) {
        return Err(OutputError::InUse {
            path: path.to_owned(),
            user,
        });
    }
    // Who cannot read it cannot lock it, and may replace it all the same.
    let Ok(old) = entry.open(found, OFlag::O_RDONLY | OFlag::O_NONBLOCK) else {
        return Ok(None);
    };
    match lock_data(&old, Access::Write) {
        Ok(true) => Ok(Some(old)),
        Ok(false) => Err(OutputError::Locked {
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

/// Why an output cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OutputError {
    /// There is a file of that name.
    #[error("{} exists already", shown(path))]
    Exists {
        /// As it was named.
        path: PathBuf,
    },
    /// It would have to be replaced at once with another one.
    #[error(
        "{} exists already, and two files cannot be replaced at once",
        shown(path)
    )]
    OneOfTwo {
        /// As it was named.
        path: PathBuf,
    },
    /// It belongs to another user, who would get what is written.
    #[error(
        "{} is a {kind} of another user (uid {uid}), who could read the output",
        shown(path)
    )]
    Foreign {
        /// As it was named.
        path: PathBuf,
        /// `FIFO`, `socket` or `device`.
        kind: &'static str,
        /// The user's number.
        uid: u32,
    },
    /// A link of another user in a folder that all may write.
    #[error(
        "{} is a symbolic link that another user made in a folder where all users can write: name \
         the file that it points to",
        shown(path)
    )]
    ForeignLink {
        /// As it was named.
        path: PathBuf,
    },
    /// An open file without a name, which nothing can replace.
    #[error(
        "{} is an open file without a name, which cannot be replaced",
        shown(path)
    )]
    Nameless {
        /// As it was named.
        path: PathBuf,
    },
    /// It is a block device, and force was not asked for.
    #[error("{} is a block device{}", shown(path), on_it(found))]
    IsDevice {
        /// As it was named.
        path: PathBuf,
        /// What is recognised on it, in words.
        found: Vec<String>,
    },
    /// It is mounted, or something lies upon it.
    #[error("{} is {user}", shown(path))]
    InUse {
        /// As it was named.
        path: PathBuf,
        /// By whom, in words.
        user: String,
    },
    /// Another program uses its data.
    #[error("{} is locked: another program is using it", shown(path))]
    Locked {
        /// As it was named.
        path: PathBuf,
    },
    /// Its metadata cannot be locked.
    #[error(transparent)]
    NotLocked(#[from] NotLocked),
    /// There is no such folder.
    #[error("the folder of {} does not exist", shown(path))]
    MissingFolder {
        /// As it was named.
        path: PathBuf,
    },
    /// It is a folder.
    #[error("{} is a folder, not a file", shown(path))]
    Folder {
        /// As it was named.
        path: PathBuf,
    },
    /// It is what is read.
    #[error("{} is also the input: the output must be another file", shown(path))]
    IsInput {
        /// As it was named.
        path: PathBuf,
    },
    /// It is something else that the command reads.
    #[error("{} is also {what}: the output must be another file", shown(path))]
    IsNeeded {
        /// As it was named.
        path: PathBuf,
        /// What it is, in words.
        what: &'static str,
    },
    /// A device has fewer bytes.
    #[error("{} has {capacity} bytes, but {needed} are needed", shown(path))]
    TooSmall {
        /// As it was named.
        path: PathBuf,
        /// Bytes to be written.
        needed: u64,
        /// Bytes of the device.
        capacity: u64,
    },
    /// The system refused to open it.
    #[error("cannot create {}: {}", shown(path), io_words(source))]
    Create {
        /// As it was named.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The system failed to make it durable or visible.
    #[error("cannot write {}: {}", shown(path), io_words(source))]
    Finish {
        /// As it was named.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl OutputError {
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
