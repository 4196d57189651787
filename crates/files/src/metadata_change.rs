// SPDX-License-Identifier: MIT OR Apache-2.0
//! A volume whose metadata are changed in place.

use std::{
    io,
    path::{Path, PathBuf},
};

use luxor_sector::Storage;

use crate::{
    block_device::{self, FileIdentity},
    display::name_or,
    error_class::FileErrorClass,
    input::Input,
    locks::{Lock, LockError, MetadataLock},
};

/// A volume, or a detached header, whose metadata no other program reads or changes until
/// this is dropped.
///
/// The data may be in use: they stay where they are.
#[derive(Debug)]
pub struct MetadataChange<'a> {
    input: &'a Input,
    _lock: MetadataLock,
}

impl<'a> MetadataChange<'a> {
    /// Waits for the locks on `input`, which was opened with
    /// [`Role::Change`](crate::Role::Change). Of the locks for which `is_needed` is false,
    /// those that cannot be had are done without. It is asked under the lock of the node.
    ///
    /// # Errors
    /// [`NotLocked`], when another program holds a lock for 30 seconds, when a needed one
    /// cannot be taken, or when a loop device lies over `input`.
    pub fn begin(input: &'a Input, is_needed: impl Fn(Lock) -> bool) -> Result<Self, NotLocked> {
        let not_locked = |source| NotLocked::new(input.path(), source);
        let lock = MetadataLock::to_change(input.file(), is_needed).map_err(not_locked)?;
        let metadata = input.file().metadata();
        let metadata = metadata.map_err(|error| not_locked(LockError::Io(error)))?;
        match FileIdentity::of(&metadata).and_then(block_device::loop_over) {
            Some(device) => Err(not_locked(LockError::UnderLoop { device })),
            None => Ok(Self { input, _lock: lock }),
        }
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

    /// Who uses it, in words: for changes after which a device begins otherwise than the
    /// system knows.
    ///
    /// # Errors
    /// When its metadata cannot be read.
    pub fn user(&self) -> io::Result<Option<String>> {
        Ok(block_device::user_of(&self.input.file().metadata()?))
    }
}

/// Waits for the lock under which the metadata of `input` are read whole. Standard input's
/// open file is its caller's too and gets none.
///
/// # Errors
/// [`NotLocked`], when another program holds it for 30 seconds.
pub fn lock_to_read(input: &Input) -> Result<MetadataLock, NotLocked> {
    let is_shared = input.path() == Path::new("-");
    MetadataLock::to_read(input.file(), is_shared)
        .map_err(|source| NotLocked::new(input.path(), source))
}

/// Why metadata are not locked.
#[derive(Debug, thiserror::Error)]
#[error("cannot lock {}: {source}", name_or(path, "standard input"))]
pub struct NotLocked {
    /// As it was named.
    pub path: PathBuf,
    /// What is in the way.
    pub source: LockError,
}

impl NotLocked {
    /// The kind of failure.
    #[must_use]
    pub fn class(&self) -> FileErrorClass {
        match &self.source {
            LockError::Held(_) | LockError::Missing { .. } | LockError::UnderLoop { .. } => {
                FileErrorClass::Busy
            }
            LockError::Io(source) => source.into(),
        }
    }

    pub(crate) fn new(path: &Path, source: LockError) -> Self {
        let path = path.to_owned();
        Self { path, source }
    }
}
