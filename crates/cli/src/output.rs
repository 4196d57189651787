// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is written: a regular file, whole or not at all; a block device; a pipe
//! or standard output.
//!
//! A symbolic link is followed: the file it names is the output, in that file's
//! folder, and the link stays as it is.

mod device;
mod sparse;
mod whole_file;

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::{
        ffi::OsStrExt,
        fs::{FileTypeExt, OpenOptionsExt},
    },
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use luxor_sector::Storage;
use nix::libc;

use crate::{
    block_device::{self, Identity},
    console::Console,
    contents,
    error::{Error, Exit, io_words, name},
    input::Input,
    locks::{Access, lock_data},
    output::{device::Device, sparse::SparseWriter, whole_file::WholeFile},
    standard_streams,
};

/// How an output is made.
#[derive(Clone, Copy, Debug)]
pub struct OutputOptions<'a> {
    /// Whether an existing file is replaced and a block device overwritten.
    pub force: bool,
    /// The permissions of a new file, whatever those of one that it replaces:
    /// 0600, and 0400 for backups of headers.
    pub mode: u32,
    /// What is read meanwhile: the output must be something else.
    pub known_input: Option<&'a Input>,
    /// Whether runs of zeros of 64 KiB and more become holes in a regular file.
    pub sparse: bool,
}

impl Default for OutputOptions<'_> {
    fn default() -> Self {
        Self {
            force: false,
            mode: 0o600,
            known_input: None,
            sparse: false,
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
        if path == Path::new("-") {
            let file = standard_streams::stdout().map_err(failed)?;
            let metadata = file.metadata().map_err(failed)?;
            check_not_input(path, Identity::of(&metadata), options)?;
            return Ok(Self {
                path: path_of(),
                kind: Kind::Stream(file),
            });
        }

        standard_streams::check_path(path).map_err(failed)?;
        let found = match fs::metadata(path) {
            Ok(metadata) => Some(metadata),
            Err(e) if e.kind() == io::ErrorKind::NotFound => None,
            Err(e) if e.kind() == io::ErrorKind::NotADirectory => {
                return Err(OutputError::MissingFolder { path: path_of() });
            }
            Err(e) => return Err(failed(e)),
        };
        let kind = match found {
            Some(metadata) if metadata.is_dir() => {
                return Err(OutputError::Folder { path: path_of() });
            }
            Some(metadata) if metadata.file_type().is_block_device() => {
                check_not_input(path, Identity::of(&metadata), options)?;
                Kind::Device {
                    device: Device::open(path, options.force)?,
                    position: 0,
                }
            }
            Some(metadata) if !metadata.is_file() => {
                let file = OpenOptions::new()
                    .write(true)
                    .custom_flags(libc::O_NOCTTY)
                    .open(path);
                Kind::Stream(file.map_err(failed)?)
            }
            found => {
                let old = match found {
                    Some(metadata) => {
                        let identity = Identity::of(&metadata);
                        check_not_input(path, identity, options)?;
                        check_replaceable(path, identity, options)?
                    }
                    None => {
                        // A link to nothing has a name that is taken, too.
                        if !options.force && fs::symlink_metadata(path).is_ok() {
                            return Err(OutputError::Exists { path: path_of() });
                        }
                        None
                    }
                };
                if path.as_os_str().as_bytes().ends_with(b"/") {
                    return Err(OutputError::Folder { path: path_of() });
                }
                let target = followed(path).map_err(failed)?;
                let file = WholeFile::create(path, &target, options, old)?;
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

    /// Says what is recognised on a block device that will be overwritten: before a secret
    /// is asked for, and before anything is written.
    pub fn warn_of_contents(&self, console: Console) {
        let Kind::Device { device, .. } = &self.kind else {
            return;
        };
        for what in contents::recognised(device.file()) {
            console.warn(format!("{} has {what}, which is overwritten", self.name()));
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
    /// for programs to recognise is overwritten with zeros.
    ///
    /// # Errors
    /// [`OutputError::TooSmall`], before anything is written.
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
                device.wipe(offset).map_err(|source| OutputError::Finish {
                    path: self.path.clone(),
                    source,
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
        let Self { path, kind } = self;
        let finished = match kind {
            Kind::File {
                mut file,
                mut writer,
            } => writer.finish(file.file()).and_then(|()| file.publish()),
            Kind::Device { device, .. } => device.file().sync_all(),
            Kind::Stream(mut file) => file.flush(),
        };
        finished.map_err(|source| match source.kind() {
            io::ErrorKind::AlreadyExists => OutputError::Exists { path },
            _ => OutputError::Finish { path, source },
        })
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

/// Refuses the file or device that is read at the same time.
fn check_not_input(
    path: &Path,
    identity: Option<Identity>,
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
    identity: Option<Identity>,
    options: &OutputOptions<'_>,
) -> Result<Option<File>, OutputError> {
    if !options.force {
        return Err(OutputError::Exists {
            path: path.to_owned(),
        });
    }
    if let Some(device) = identity.and_then(block_device::loop_over) {
        let user = format!("in use by {device}");
        return Err(OutputError::InUse {
            path: path.to_owned(),
            user,
        });
    }
    // Who cannot read it cannot lock it, and may replace it all the same.
    let Ok(old) = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path)
    else {
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

/// The file that `path` names in the end, which need not exist.
///
/// # Errors
/// Those of the system, and too many links.
pub fn followed(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    // As many as the system itself follows (path_resolution(7)).
    for _ in 0..40 {
        match fs::read_link(&path) {
            Ok(target) => {
                path.pop();
                path.push(target);
            }
            Err(e)
                if matches!(
                    e.kind(),
                    io::ErrorKind::InvalidInput | io::ErrorKind::NotFound
                ) =>
            {
                return Ok(path);
            }
            Err(e) => return Err(e),
        }
    }
    Err(nix::Error::ELOOP.into())
}

fn shown(path: &Path) -> String {
    if path == Path::new("-") {
        "standard output".into()
    } else {
        name(path)
    }
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
    #[error("{} exists already (--force replaces it)", shown(path))]
    Exists {
        /// As it was named.
        path: PathBuf,
    },
    /// It is a block device, and force was not asked for.
    #[error(
        "{} is a block device{}: --force overwrites what is on it",
        shown(path),
        on_it(found)
    )]
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
    #[error("{} is the input too: the output has to be another file", shown(path))]
    IsInput {
        /// As it was named.
        path: PathBuf,
    },
    /// A device has fewer bytes.
    #[error("{} has {capacity} bytes, and {needed} are needed", shown(path))]
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

impl From<OutputError> for Error {
    fn from(error: OutputError) -> Self {
        let exit = match error {
            OutputError::Exists { .. }
            | OutputError::IsDevice { .. }
            | OutputError::InUse { .. }
            | OutputError::Locked { .. } => Exit::Busy,
            OutputError::MissingFolder { .. } => Exit::Missing,
            OutputError::Folder { .. }
            | OutputError::IsInput { .. }
            | OutputError::TooSmall { .. }
            | OutputError::Create { .. }
            | OutputError::Finish { .. } => Exit::Failure,
        };
        Self::new(exit, error.to_string())
    }
}

#[cfg(test)]
mod tests;
