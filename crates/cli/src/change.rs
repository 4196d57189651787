// SPDX-License-Identifier: MIT OR Apache-2.0
//! A volume whose metadata are changed in place.

use std::{
    os::unix::fs::{FileTypeExt, MetadataExt},
    path::Path,
};

use luxor_sector::Storage;

use crate::{
    block_device,
    error::{Error, Exit, Result},
    input::Input,
    locks::{Access, MetadataLock},
};

/// A volume, or a detached header, whose metadata nobody else reads or changes, until
/// this is dropped.
///
/// The data may be in use: they stay where they are.
#[derive(Debug)]
pub struct Change<'a> {
    input: &'a Input,
    _lock: MetadataLock,
}

impl<'a> Change<'a> {
    /// Waits for the lock on `input`, which was opened with
    /// [`Role::Change`](crate::input::Role::Change).
    ///
    /// # Errors
    /// When it cannot be locked.
    pub fn begin(input: &'a Input) -> Result<Self> {
        let lock = MetadataLock::acquire(input.file(), Access::Write)
            .map_err(|error| Error::io(format!("cannot lock {}", input.name()), &error))?;
        Ok(Self { input, _lock: lock })
    }

    /// As it was named.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.input.path()
    }

    /// Its bytes.
    #[must_use]
    pub fn storage(&self) -> &dyn Storage {
        self.input.file()
    }

    /// Refuses a device that is mounted or that something else lies upon: for changes
    /// after which it begins otherwise than its user knows.
    ///
    /// # Errors
    /// When it is in use.
    pub fn check_unused(&self) -> Result<()> {
        let failed = |error| Error::io(format!("cannot read {}", self.input.name()), &error);
        let metadata = self.input.file().metadata().map_err(failed)?;
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
                format!("{} is {user}", self.input.name()),
            )),
        }
    }
}
