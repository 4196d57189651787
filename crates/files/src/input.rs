// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is read: a file, a block device, a pipe, standard input. And what has metadata
//! that are changed in place, by [`MetadataChange`](crate::MetadataChange).

mod announced;
#[cfg(test)]
mod tests;

use std::{
    fs::{File, OpenOptions},
    io::{self, Read, Seek},
    os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt},
    path::{Path, PathBuf},
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
    locks::{Access, lock_data, unlock_data},
    standard_streams,
};

/// What an input is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// All its bytes: nobody may change them meanwhile.
    Data,
    /// A volume's metadata, which may be looked at while the volume is in use.
    Metadata,
    /// A volume's metadata, to be changed in place. That, too, may be done while the
    /// volume is in use: its data stay as they are.
    Change,
}

/// An input that is open.
///
/// As a [`Read`] it gives its bytes in order. Seekable ones are also a
/// [`Storage`]. Either way, large holes are zeros without being read, and that a
/// regular file became shorter or longer meanwhile is an error, at the latest
/// when its last byte is read: its length was announced.
#[derive(Debug)]
pub struct Input {
    path: PathBuf,
    file: File,
    kind: Kind,
    locked: bool,
}

#[derive(Debug)]
enum Kind {
    Seekable(AnnouncedLength),
    /// A pipe, a terminal, a socket: read in order, to an end that nobody knows.
    Stream {
        /// Bytes read.
        position: u64,
    },
}

impl Input {
    /// Opens `path`, or standard input for `-`.
    ///
    /// With [`Role::Data`] it is locked against programs that write to it.
    ///
    /// # Errors
    /// [`InputError`].
    pub fn open(path: &Path, role: Role) -> Result<Self, InputError> {
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
            OpenOptions::new()
                .read(true)
                .write(role == Role::Change)
                .custom_flags(libc::O_NOCTTY)
                .open(path)
                .map_err(|source| match source.kind() {
                    io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
                        InputError::Missing { path: path_of() }
                    }
                    io::ErrorKind::IsADirectory => InputError::Folder { path: path_of() },
                    _ => failed(source),
                })?
        };
        Self::of_file(file, path, role)
    }

    /// What is left of `file` from its position on, as [`Input::open`] with its errors.
    ///
    /// # Errors
    /// [`InputError`].
    pub fn of_file(file: File, path: &Path, role: Role) -> Result<Self, InputError> {
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
        let seekable = regular || metadata.file_type().is_block_device();
        let kind = if seekable {
            let position = (&file).stream_position().map_err(failed)?;
            let end = Storage::len(&file).map_err(failed)?;
            // Files in /proc say that they are empty and are not.
            if regular && end == 0 && file.read_at(&mut [0], 0).map_err(failed)? > 0 {
                Kind::Stream { position: 0 }
            } else {
                let base = position.min(end);
                Kind::Seekable(AnnouncedLength {
                    base,
                    len: end - base,
                    position: 0,
                    regular,
                })
            }
        } else {
            Kind::Stream { position: 0 }
        };
        if role == Role::Change && matches!(kind, Kind::Stream { .. }) {
            return Err(InputError::Unchangeable { path: path_of() });
        }

        let locked = seekable && role == Role::Data;
        if locked && !lock_data(&file, Access::Read).map_err(failed)? {
            return Err(InputError::Locked { path: path_of() });
        }
        Ok(Self {
            path: path_of(),
            file,
            kind,
            locked,
        })
    }

    /// The number of bytes from its beginning to its end, as it was when the
    /// input was opened. None for pipes and the like.
    #[must_use]
    #[expect(
        clippy::len_without_is_empty,
        reason = "an empty one is like any other"
    )]
    pub fn len(&self) -> Option<u64> {
        match &self.kind {
            Kind::Seekable(place) => Some(place.len),
            Kind::Stream { .. } => None,
        }
    }

    /// As it was named on the command line.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its name for messages.
    #[must_use]
    pub fn name(&self) -> String {
        shown(&self.path)
    }

    /// The file itself, for [`MetadataLock`](crate::locks::MetadataLock) and for writing
    /// what [`Role::Change`] has opened.
    #[must_use]
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Its bytes at offsets, for reading only. None for pipes and the like.
    #[must_use]
    pub fn as_storage(&self) -> Option<&dyn Storage> {
        match self.kind {
            Kind::Seekable(_) => Some(self),
            Kind::Stream { .. } => None,
        }
    }

    /// What is left of it.
    pub fn source(&mut self) -> Source<'_> {
        match &self.kind {
            Kind::Seekable(place) => Source::At(Region {
                storage: self,
                offset: place.position,
                len: place.len - place.position,
            }),
            Kind::Stream { .. } => Source::Stream(self),
        }
    }

    /// Which file or device it is. None for pipes and the like.
    #[must_use]
    pub fn identity(&self) -> Option<FileIdentity> {
        match self.kind {
            Kind::Seekable(_) => FileIdentity::of(&self.file.metadata().ok()?),
            Kind::Stream { .. } => None,
        }
    }

    /// Goes on reading at byte `offset`: a jump, or in a stream, where it
    /// cannot go back, by reading up to there.
    ///
    /// # Errors
    /// [`io::ErrorKind::UnexpectedEof`] when it ends before, and
    /// [`io::ErrorKind::InvalidInput`] for the way back in a stream. Else those
    /// of the system.
    pub fn skip_to(&mut self, offset: u64) -> io::Result<()> {
        let ends = |end| {
            let message = format!("it ends after {end} bytes, before byte {offset}");
            Err(io::Error::new(io::ErrorKind::UnexpectedEof, message))
        };
        match &mut self.kind {
            Kind::Seekable(place) if offset > place.len => ends(place.len),
            Kind::Seekable(place) => {
                place.position = offset;
                Ok(())
            }
            Kind::Stream { position } => {
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
            Kind::Seekable(place) => place.read(&self.file, buf),
            Kind::Stream { position } => match (&self.file).read(buf) {
                Ok(read) => {
                    *position += read as u64;
                    Ok(read)
                }
                // Another process has made the pipe so: wait, without a loop
                // that takes a whole processor.
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
        let Kind::Seekable(place) = &self.kind else {
            return Err(io::ErrorKind::NotSeekable.into());
        };
        place.read_exact_at(&self.file, buf, offset)
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

impl Drop for Input {
    fn drop(&mut self) {
        if self.locked {
            unlock_data(&self.file);
        }
    }
}

fn shown(path: &Path) -> String {
    name_or(path, "standard input")
}

/// Why an input cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InputError {
    /// There is nothing of that name.
    #[error("{} does not exist", shown(path))]
    Missing {
        /// As it was named.
        path: PathBuf,
    },
    /// It is a folder.
    #[error("{} is a folder, not a file", shown(path))]
    Folder {
        /// As it was named.
        path: PathBuf,
    },
    /// It has no place that could be written again.
    #[error(
        "{} cannot be changed in place: it is neither a file nor a block device",
        shown(path)
    )]
    Unchangeable {
        /// As it was named.
        path: PathBuf,
    },
    /// Somebody writes to it.
    #[error("{} is locked: another program is writing to it", shown(path))]
    Locked {
        /// As it was named.
        path: PathBuf,
    },
    /// The system refused.
    #[error("cannot open {}: {}", shown(path), io_words(source))]
    Open {
        /// As it was named.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl InputError {
    /// The kind of failure.
    #[must_use]
    pub fn class(&self) -> FileErrorClass {
        match self {
            Self::Missing { .. } => FileErrorClass::Missing,
            Self::Locked { .. } => FileErrorClass::Busy,
            Self::Folder { .. } | Self::Unchangeable { .. } | Self::Open { .. } => {
                FileErrorClass::Failure
            }
        }
    }
}
