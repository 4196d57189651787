// SPDX-License-Identifier: MIT OR Apache-2.0
//! The file or block device whose data are in use for as long as it is open.

use std::{
    fs::{self, File, Metadata, OpenOptions},
    io::{self, Seek},
    os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use luxor_sector::Storage;
use nix::libc;

use crate::{
    block_device::{self, Identity},
    error::{Error, Exit, Result, name},
    input::{Input, Role},
    locks::{Access, lock_data},
};

/// The storage with a volume's data, open for reading or for writing too.
///
/// Its data are locked until the last handle is closed: who reads allows other readers,
/// who writes allows nobody. A device that is written is nobody else's meanwhile.
#[derive(Debug)]
pub struct DataFile {
    path: PathBuf,
    file: File,
}

impl DataFile {
    /// Opens `path` and locks its data.
    ///
    /// # Errors
    /// When it is no file or block device, when somebody else uses it, and when the
    /// system refuses.
    pub fn open(path: &Path, access: Access) -> Result<Self> {
        let shown = name(path);
        let failed = |error: io::Error| {
            let refused = matches!(
                error.kind(),
                io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem
            );
            let failure = Error::io(format!("cannot open {shown}"), &error);
            match access {
                Access::Write if refused => {
                    failure.hint("--read-only needs no permission to write.")
                }
                _ => failure,
            }
        };
        let in_use =
            |user: &str| Err(Error::new(Exit::Busy, format!("{shown} is {user}")).hint(READ_ONLY));

        if path == Path::new("-") {
            return Err(Error::failure(
                "standard input cannot be given out as a disk: name a file or a block device",
            ));
        }
        // Before it is opened: a pipe would wait for its other end.
        let metadata = fs::metadata(path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
                Error::new(Exit::Missing, format!("{shown} does not exist"))
            }
            _ => failed(error),
        })?;
        let identity = identity(&metadata, &shown)?;
        let is_device = metadata.file_type().is_block_device();
        if access == Access::Write
            && let Some(user) = user(&metadata)
        {
            return in_use(&user);
        }
        let excluding = match access {
            Access::Write if is_device => libc::O_EXCL,
            _ => 0,
        };
        let file = OpenOptions::new()
            .read(true)
            .write(access == Access::Write)
            .custom_flags(excluding | libc::O_NOCTTY)
            .open(path);
        let file = match file {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => return in_use("in use"),
            file => file.map_err(failed)?,
        };
        // The name may have been given to something else in between.
        if Identity::of(&file.metadata().map_err(failed)?) != Some(identity) {
            return Err(failed(io::Error::other("it changed while it was opened")));
        }
        if !lock_data(&file, access).map_err(failed)? {
            return Err(match access {
                Access::Read => Error::new(
                    Exit::Busy,
                    format!("{shown} is locked: another program is writing to it"),
                ),
                Access::Write => Error::new(
                    Exit::Busy,
                    format!("{shown} is locked: another program is using it"),
                )
                .hint(READ_ONLY),
            });
        }
        Ok(Self {
            path: path.to_owned(),
            file,
        })
    }

    /// Its length in bytes.
    ///
    /// # Errors
    /// Those of the system.
    pub fn len(&self) -> Result<u64> {
        Storage::len(&self.file).map_err(|error| self.unreadable(&error))
    }

    /// What reads it as any input, from its beginning.
    ///
    /// # Errors
    /// Those of the system.
    pub fn input(&self) -> Result<Input> {
        let file = self.file.try_clone().and_then(|mut file| {
            // All handles have one position, which asking for the length has moved.
            file.rewind()?;
            Ok(file)
        });
        let file = file.map_err(|error| self.unreadable(&error))?;
        Ok(Input::of_file(file, &self.path, Role::Metadata)?)
    }

    /// The bytes, to be read and, when it was opened so, written.
    #[must_use]
    pub fn into_storage(self) -> File {
        self.file
    }

    fn unreadable(&self, error: &io::Error) -> Error {
        Error::io(format!("cannot read {}", name(&self.path)), error)
    }
}

const READ_ONLY: &str = "With --read-only it can be used beside other readers.";

fn identity(metadata: &Metadata, shown: &str) -> Result<Identity> {
    if metadata.is_dir() {
        return Err(Error::failure(format!("{shown} is a folder, not a file")));
    }
    Identity::of(metadata).ok_or_else(|| {
        Error::failure(format!(
            "{shown} cannot be given out as a disk: it is no file and no block device"
        ))
    })
}

/// Who else would not see what is written.
fn user(metadata: &Metadata) -> Option<String> {
    match metadata.file_type().is_block_device() {
        true => block_device::user(metadata.rdev()),
        false => Identity::of(metadata)
            .and_then(block_device::loop_over)
            .map(|device| format!("in use by {device}")),
    }
}
