// SPDX-License-Identifier: MIT OR Apache-2.0
//! Opens what is read: a file, a block device, a pipe, standard input, or what the caller supplies
//! in place of a file. Also opens what has metadata to be changed in place by
//! [`MetadataChange`](crate::MetadataChange).

mod announced;
#[cfg(test)]
mod tests;

use std::{
    fmt,
    fs::{self, File, OpenOptions},
    io::{self, Read, Seek},
    ops::Range,
    os::{
        fd::{AsRawFd, RawFd},
        unix::fs::{FileExt, FileTypeExt, OpenOptionsExt},
    },
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::Duration,
};

use luxor_sector::{
    Storage,
    copy::{Region, Source},
};
use nix::libc;

use self::announced::AnnouncedLength;
use crate::{
    block_device::FileIdentity,
    display::{io_words, name_or},
    error_class::FileErrorClass,
    locks::{Access, DataLock},
    opening::open,
    standard_streams,
    volume_part::{VolumePart, VolumePartError, VolumePlace, window},
};

/// The purpose for which an input is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// To read all of its bytes, which no other program may change meanwhile: the data of a file or
    /// block device are locked ([`Access::Read`]).
    Data,
    /// To read a volume's metadata, which is allowed while the volume is in use.
    Metadata,
    /// To change a volume's metadata in place. This too is allowed while the volume is in use,
    /// because the data are not changed. Standard input and pipes are refused.
    Change,
}

/// An open input.
///
/// As a [`Read`] it returns its bytes in order. Seekable inputs are also a [`Storage`], which is
/// read-only even with [`Role::Change`]. Either way, large holes are returned as zeros without
/// being read. The length of a regular file is fixed when it is opened. If the file becomes shorter,
/// reading fails, at the latest when the last byte is read. If it becomes longer, the new bytes are not
/// read, and [`Input::has_grown`] says so. A file whose metadata state a false length, as in `/proc` and
/// `/sys`, is a stream.
pub struct Input {
    path: PathBuf,
    kind: Kind,
    /// The part of the file.
    part: VolumePart,
    lock: Option<Arc<DataLock>>,
}

enum Kind {
    /// A regular file or a block device.
    File { file: File, place: AnnouncedLength },
    /// What the caller supplies in place of a file, and its length when it was opened.
    Storage {
        storage: Arc<dyn Storage>,
        len: u64,
        position: u64,
    },
    /// A pipe, a terminal, a socket, a file with a false length or a stream of the caller. It is read
    /// in order, and its length is unknown.
    Stream {
        stream: Box<dyn Read + Send + Sync>,
        /// The number of bytes that were read.
        position: u64,
    },
}

impl fmt::Debug for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Input")
            .field("path", &self.path)
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}

impl Input {
    /// Opens a file or device, or a part of it. The path `-` is standard input.
    ///
    /// With [`Role::Data`] it is locked against programs that write to it, until it is dropped.
    ///
    /// # Errors
    /// [`InputError`]: the path does not exist, cannot be opened, is locked, has no such part or is
    /// not suitable for `role`.
    pub fn open<'a>(place: impl Into<VolumePlace<'a>>, role: Role) -> Result<Self, InputError> {
        let VolumePlace { path, part } = place.into();
        let path_of = || path.to_owned();
        let failed = |source| InputError::Open {
            path: path_of(),
            source,
        };
        if role == Role::Change && path == Path::new("-") {
            return Err(InputError::Unchangeable { path: path_of() });
        }
        let file = if path == Path::new("-") {
            standard_streams::stdin().map_err(failed)?
        } else {
            let mut options = OpenOptions::new();
            options
                .read(true)
                .write(role == Role::Change)
                .custom_flags(libc::O_NOCTTY);
            open(path, &options).map_err(|source| match source.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
                    InputError::Missing { path: path_of() }
                }
                io::ErrorKind::IsADirectory => InputError::Folder { path: path_of() },
                _ if is_socket(path) => InputError::Socket { path: path_of() },
                _ => failed(source),
            })?
        };
        Self::of_place(file, VolumePlace { path, part }, None, role)
    }

    /// Makes an input of `file`, which begins at the file's present position. `path` is its name
    /// for messages. For [`Role::Change`], `file` must be open for reading and writing.
    ///
    /// # Errors
    /// [`InputError`], as for [`Input::open`].
    pub fn of_file(file: File, path: &Path, role: Role) -> Result<Self, InputError> {
        Self::of_place(file, path.into(), None, role)
    }

    /// As [`Input::of_file`], with a part of `file`. Its bytes are looked for unless the caller knows
    /// them.
    pub(crate) fn of_place(
        file: File,
        VolumePlace { path, part }: VolumePlace<'_>,
        known: Option<Range<u64>>,
        role: Role,
    ) -> Result<Self, InputError> {
        let path_of = || path.to_owned();
        let failed = |source| InputError::Open {
            path: path_of(),
            source,
        };
        let metadata = file.metadata().map_err(failed)?;
        if metadata.is_dir() {
            return Err(InputError::Folder { path: path_of() });
        }
        let regular = metadata.is_file();
        let mut seekable = regular || metadata.file_type().is_block_device();
        let (mut base, mut end) = (0, 0);
        if seekable {
            base = (&file).stream_position().map_err(failed)?;
            end = Storage::len(&file).map_err(failed)?;
            seekable = !(regular && has_false_length(&file, end).map_err(failed)?);
        }
        if role == Role::Change && !seekable {
            return Err(InputError::Unchangeable { path: path_of() });
        }
        let no_part = |source| InputError::Part {
            path: path_of(),
            source,
        };
        base = base.min(end);
        let mut range = base..end;
        if let Some(known) = known {
            range = known;
        } else if part != VolumePart::Whole {
            if !seekable {
                return Err(no_part(VolumePartError::Stream));
            }
            // Its bytes are counted from the position on.
            let rest = window(file.try_clone().map_err(failed)?, &range).map_err(failed)?;
            let found = part.range_of_file(&file, &rest, role == Role::Change);
            if let Some(found) = found.map_err(no_part)? {
                range = base + found.start..base + found.end;
            }
        }
        let lock = if seekable && role == Role::Data {
            let lock = DataLock::acquire(&file, Access::Read).map_err(failed)?;
            let lock = lock.ok_or_else(|| InputError::Locked { path: path_of() })?;
            Some(Arc::new(lock))
        } else {
            None
        };
        let kind = if seekable {
            let place = AnnouncedLength {
                base: range.start,
                len: range.end - range.start,
                file_len: end,
                position: 0,
                regular,
            };
            Kind::File { file, place }
        } else {
            let stream = Box::new(file);
            Kind::Stream {
                stream,
                position: 0,
            }
        };
        Ok(Self {
            path: path_of(),
            kind,
            part,
            lock,
        })
    }

    /// Makes an input of a storage that is no file, such as an object in a network store. `name` is
    /// its name for messages. Nothing is locked: the caller ensures that nothing else changes it
    /// meanwhile.
    ///
    /// # Errors
    /// [`InputError::Open`] if its length cannot be determined.
    pub fn of_storage(storage: Arc<dyn Storage>, name: &Path) -> Result<Self, InputError> {
        let len = storage.len().map_err(|source| InputError::Open {
            path: name.to_owned(),
            source,
        })?;
        Ok(Self {
            path: name.to_owned(),
            kind: Kind::Storage {
                storage,
                len,
                position: 0,
            },
            part: VolumePart::Whole,
            lock: None,
        })
    }

    /// Makes an input of a stream from which nothing has been read. `name` is its name for
    /// messages.
    #[must_use]
    pub fn of_stream(stream: impl Read + Send + Sync + 'static, name: &Path) -> Self {
        Self {
            path: name.to_owned(),
            kind: Kind::Stream {
                stream: Box::new(stream),
                position: 0,
            },
            part: VolumePart::Whole,
            lock: None,
        }
    }

    /// The number of bytes from its beginning to its end when it was opened. `None` for streams:
    /// pipes, sockets, terminals and [`Input::of_stream`].
    #[must_use]
    #[expect(
        clippy::len_without_is_empty,
        reason = "emptiness has no meaning of its own here"
    )]
    pub fn len(&self) -> Option<u64> {
        match &self.kind {
            Kind::File { place, .. } => Some(place.len),
            Kind::Storage { len, .. } => Some(*len),
            Kind::Stream { .. } => None,
        }
    }

    /// The path as the user gave it.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its name for messages.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{}{}", shown(&self.path), self.part)
    }

    /// The open file, for [`MetadataLock`](crate::locks::MetadataLock). `None` for streams and for
    /// [`Input::of_storage`].
    #[must_use]
    pub fn file(&self) -> Option<&File> {
        match &self.kind {
            Kind::File { file, .. } => Some(file),
            Kind::Storage { .. } | Kind::Stream { .. } => None,
        }
    }

    /// Keeps `lock` until the input is dropped.
    pub(crate) fn keep(self, lock: Arc<DataLock>) -> Self {
        let lock = Some(lock);
        Self { lock, ..self }
    }

    /// The descriptors that the input holds, for [`OfProcess::holding`](crate::OfProcess::holding).
    #[must_use]
    pub fn descriptors(&self) -> Vec<RawFd> {
        let file = self.file().map(AsRawFd::as_raw_fd);
        let lock = self.lock.as_ref().map(|lock| lock.descriptor());
        file.into_iter().chain(lock).collect()
    }

    /// The input as read-only storage. `None` for streams.
    #[must_use]
    pub fn as_storage(&self) -> Option<&dyn Storage> {
        match self.kind {
            Kind::File { .. } | Kind::Storage { .. } => Some(self),
            Kind::Stream { .. } => None,
        }
    }

    /// What the input reads from, with which it can also be written if it was opened for that.
    /// `None` for streams.
    pub(crate) fn writable(&self) -> Option<&dyn Storage> {
        match &self.kind {
            Kind::File { file, .. } => Some(file),
            Kind::Storage { storage, .. } => Some(&**storage),
            Kind::Stream { .. } => None,
        }
    }

    /// The bytes of the file that the input is limited to. `None` for a whole file, and for all that
    /// is no file.
    pub(crate) fn range(&self) -> Option<Range<u64>> {
        match &self.kind {
            Kind::File { place, .. } if self.part != VolumePart::Whole => {
                Some(place.base..place.base + place.len)
            }
            _ => None,
        }
    }

    /// The first byte of the part of the file that the input is limited to. `None` for a whole file, and
    /// for all that is no file.
    #[must_use]
    pub fn part_begin(&self) -> Option<u64> {
        Some(self.range()?.start)
    }

    /// Whether the file has become longer since it was opened.
    #[must_use]
    pub fn has_grown(&self) -> bool {
        match &self.kind {
            Kind::File { file, place } => place.has_grown(file),
            Kind::Storage { .. } | Kind::Stream { .. } => false,
        }
    }

    /// The bytes that have not been read yet, as the source of a copy.
    pub fn source(&mut self) -> Source<'_> {
        let (offset, len) = match &self.kind {
            Kind::File { place, .. } => (place.position, place.len),
            Kind::Storage { position, len, .. } => (*position, *len),
            Kind::Stream { .. } => return Source::Stream(self),
        };
        Source::At(Region {
            storage: self,
            offset,
            len: len - offset,
        })
    }

    /// The identity of the file or device. `None` for all other inputs.
    #[must_use]
    pub fn identity(&self) -> Option<FileIdentity> {
        FileIdentity::from_metadata(&self.file()?.metadata().ok()?)
    }

    /// Continues reading at byte `offset`. A stream is read up to there, and cannot go back.
    ///
    /// # Errors
    /// [`io::ErrorKind::UnexpectedEof`] if the input ends before `offset`,
    /// [`io::ErrorKind::InvalidInput`] if a stream would have to go back, or an error of the
    /// system.
    pub fn skip_to(&mut self, offset: u64) -> io::Result<()> {
        let ends = |end| {
            let message = format!("it ends after {end} bytes, before byte {offset}");
            Err(io::Error::new(io::ErrorKind::UnexpectedEof, message))
        };
        match &mut self.kind {
            Kind::File {
                place: AnnouncedLength { len, position, .. },
                ..
            }
            | Kind::Storage { len, position, .. } => {
                if offset > *len {
                    return ends(*len);
                }
                *position = offset;
                Ok(())
            }
            Kind::Stream { position, .. } => {
                let here = *position;
                let Some(forward) = offset.checked_sub(here) else {
                    let message = format!("a stream cannot go back to byte {offset}");
                    return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
                };
                let skipped = io::copy(&mut self.by_ref().take(forward), &mut io::sink())?;
                if skipped == forward {
                    Ok(())
                } else {
                    ends(here + skipped)
                }
            }
        }
    }
}

impl Read for Input {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match &mut self.kind {
            Kind::File { file, place } => place.read(file, buf),
            Kind::Storage {
                storage,
                len,
                position,
            } => {
                let left = *len - *position;
                let wanted = usize::try_from(left).map_or(buf.len(), |left| left.min(buf.len()));
                storage.read_exact_at(&mut buf[..wanted], *position)?;
                *position += wanted as u64;
                Ok(wanted)
            }
            Kind::Stream { stream, position } => match stream.read(buf) {
                Ok(read) => {
                    *position += read as u64;
                    Ok(read)
                }
                // Another process has made the pipe non-blocking. Wait a little, so that the
                // retries do not use a whole CPU.
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    thread::sleep(Duration::from_millis(2));
                    Err(io::ErrorKind::Interrupted.into())
                }
                Err(e) => Err(e),
            },
        }
    }
}

impl Storage for Input {
    fn len(&self) -> io::Result<u64> {
        self.len().ok_or_else(|| io::ErrorKind::NotSeekable.into())
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        match &self.kind {
            Kind::File { file, place } => place.read_exact_at(file, buf, offset),
            Kind::Storage { storage, .. } => storage.read_exact_at(buf, offset),
            Kind::Stream { .. } => Err(io::ErrorKind::NotSeekable.into()),
        }
    }

    fn write_all_at(&self, _: &[u8], _: u64) -> io::Result<()> {
        Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "it is open for reading only",
        ))
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

/// Whether a regular file has another length than its metadata say: `len` bytes. Files of the kernel
/// have 0 bytes (`/proc`) or a whole page (`/sys`) by their metadata, whatever can be read from them.
fn has_false_length(file: &File, len: u64) -> io::Result<bool> {
    let reads_at = |offset| file.read_at(&mut [0], offset).map(|read| read > 0);
    // An unreadable end of a file on a disk says nothing about its length.
    let is_false = if len == 0 {
        reads_at(0)?
    } else {
        !reads_at(len - 1).unwrap_or(true) || reads_at(len).unwrap_or(false)
    };
    // Another program may have changed the length in between.
    Ok(is_false && Storage::len(file)? == len)
}

/// Whether the path is that of a socket, and not a link to a descriptor: a standard stream that was closed is
/// a socket too.
fn is_socket(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket())
}

fn shown(path: &Path) -> String {
    name_or(path, "standard input")
}

/// Why an input cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InputError {
    /// The path does not exist.
    #[error("{} does not exist", shown(path))]
    Missing {
        /// The path as the user gave it.
        path: PathBuf,
    },
    /// The path is a folder.
    #[error("{} is a folder, not a file", shown(path))]
    Folder {
        /// The path as the user gave it.
        path: PathBuf,
    },
    /// The path is a socket.
    #[error("{} is a socket, not a file", shown(path))]
    Socket {
        /// The path as the user gave it.
        path: PathBuf,
    },
    /// It was to be opened for changes, and is neither a file nor a block device.
    #[error(
        "{} cannot be changed in place: it is neither a file nor a block device",
        shown(path)
    )]
    Unchangeable {
        /// The path as the user gave it.
        path: PathBuf,
    },
    /// Another program, or another opening in this one, writes to it.
    #[error("{} is locked: it is open for writing elsewhere", shown(path))]
    Locked {
        /// The path as the user gave it.
        path: PathBuf,
    },
    /// It has no such part.
    #[error("{}: {source}", shown(path))]
    Part {
        /// The path as the user gave it.
        path: PathBuf,
        /// The reason.
        source: VolumePartError,
    },
    /// The system refused to open it.
    #[error("cannot open {}: {}", shown(path), io_words(source))]
    Open {
        /// The path as the user gave it.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

impl InputError {
    /// The path as the user gave it.
    #[must_use]
    pub fn path(&self) -> &Path {
        match self {
            Self::Missing { path }
            | Self::Folder { path }
            | Self::Socket { path }
            | Self::Unchangeable { path }
            | Self::Locked { path }
            | Self::Part { path, .. }
            | Self::Open { path, .. } => path,
        }
    }

    /// The kind of failure.
    #[must_use]
    pub fn class(&self) -> FileErrorClass {
        match self {
            Self::Missing { .. } => FileErrorClass::Missing,
            Self::Locked { .. } => FileErrorClass::Busy,
            Self::Part { source, .. } => source.class(),
            Self::Folder { .. }
            | Self::Socket { .. }
            | Self::Unchangeable { .. }
            | Self::Open { .. } => FileErrorClass::Failure,
        }
    }
}
