// SPDX-License-Identifier: MIT OR Apache-2.0
//! A volume whose metadata are changed in place.

use std::{
    fs::{File, OpenOptions},
    io,
    os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use luxor_sector::Storage;
use nix::libc;

use crate::{
    block_device,
    error::{Error, Exit, Result, name},
    locks::{Access, MetadataLock},
};

/// A volume, or a detached header, whose metadata nobody else reads or changes, until
/// this is dropped.
///
/// The data may be in use: they stay where they are.
#[derive(Debug)]
pub struct Change {
    path: PathBuf,
    file: File,
    _lock: MetadataLock,
}

impl Change {
    /// Opens the file or device `path` for writing, and waits for the lock.
    ///
    /// # Errors
    /// When there is none, or it cannot be opened or is something else.
    pub fn begin(path: &Path) -> Result<Self> {
        let failed = |error| Error::io(format!("cannot open {} for writing", name(path)), &error);
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NOCTTY | libc::O_NONBLOCK)
            .open(path)
            .map_err(|error| match error.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
                    Error::new(Exit::Missing, format!("{} does not exist", name(path)))
                }
                _ => failed(error),
            })?;
        let metadata = file.metadata().map_err(failed)?;
        if !metadata.is_file() && !metadata.file_type().is_block_device() {
            return Err(Error::failure(format!(
                "{} is neither a file nor a block device",
                name(path)
            )));
        }
        let lock = MetadataLock::acquire(&file, Access::Write)
            .map_err(|error| Error::io(format!("cannot lock {}", name(path)), &error))?;
        Ok(Self {
            path: path.to_owned(),
            file,
            _lock: lock,
        })
    }

    /// Its bytes.
    #[must_use]
    pub fn storage(&self) -> &dyn Storage {
        &self.file
    }

    /// Refuses a device that is mounted or that something else lies upon: for changes
    /// after which it begins otherwise than its user knows.
    ///
    /// # Errors
    /// When it is in use.
    pub fn check_unused(&self) -> Result<()> {
        let failed = |error| Error::io(format!("cannot read {}", name(&self.path)), &error);
        let metadata = self.file.metadata().map_err(failed)?;
        let user = match metadata.file_type().is_block_device() {
            true => block_device::user(metadata.rdev()),
            false => block_device::Identity::of(&metadata)
                .and_then(block_device::loop_over)
                .map(|device| format!("in use by {device}")),
        };
        match user {
            None => Ok(()),
            Some(user) => Err(Error::new(
                Exit::Busy,
                format!("{} is {user}", name(&self.path)),
            )),
        }
    }

    /// Refuses a device that has fewer than `len` bytes; a file grows.
    ///
    /// # Errors
    /// When it has.
    pub fn check_room(&self, len: u64) -> Result<()> {
        let failed = |error| Error::io(format!("cannot read {}", name(&self.path)), &error);
        if self.file.metadata().map_err(failed)?.is_file() {
            return Ok(());
        }
        let there = self.storage().len().map_err(failed)?;
        match there < len {
            false => Ok(()),
            true => Err(Error::failure(format!(
                "{} has {there} bytes, and {len} are needed",
                name(&self.path)
            ))),
        }
    }
}
