// SPDX-License-Identifier: MIT OR Apache-2.0
//! A volume whose metadata are changed in place.

use std::{
    fs::{File, OpenOptions},
    io,
    os::{
        fd::AsRawFd,
        unix::fs::{FileTypeExt, OpenOptionsExt},
    },
    path::{Path, PathBuf},
};

use luxor_sector::Storage;
use nix::libc;

use crate::{
    block_device::FileIdentity,
    display::name_or,
    error_class::FileErrorClass,
    input::Input,
    locks::{Access, Lock, LockError, MetadataLock, lock_data},
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
    /// cannot be taken, or when a loop device shows bytes of `input` too
    /// ([`FileIdentity::loop_device`]).
    pub fn begin(input: &'a Input, is_needed: impl Fn(Lock) -> bool) -> Result<Self, NotLocked> {
        let not_locked = |source| NotLocked::new(input.path(), source);
        let lock = MetadataLock::to_change(input.file(), is_needed).map_err(not_locked)?;
        let metadata = input.file().metadata();
        let metadata = metadata.map_err(|error| not_locked(LockError::Io(error)))?;
        let identity = FileIdentity::of(&metadata);
        if let Some(device) = identity.and_then(FileIdentity::loop_device) {
            return Err(not_locked(if metadata.is_file() {
                LockError::UnderLoop { device }
            } else {
                LockError::BesideLoop { device }
            }));
        }
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

    /// Keeps others from mounting a block device, and from using the data of it or of a file, until
    /// what is returned is dropped: for changes after which it begins otherwise than the system and
    /// its users know.
    ///
    /// # Errors
    /// [`Unusable::InUse`] when something uses the file or device already.
    pub fn exclusive(&self) -> Result<File, Unusable> {
        let file = self.input.file();
        let metadata = file.metadata().map_err(Unusable::Io)?;
        if let Some(user) = FileIdentity::of(&metadata).and_then(FileIdentity::user) {
            return Err(Unusable::InUse(user));
        }
        let excluding = if metadata.file_type().is_block_device() {
            libc::O_EXCL
        } else {
            0
        };
        // The same file or device, whatever has its name by now.
        let opened = OpenOptions::new()
            .read(true)
            .custom_flags(excluding)
            .open(format!("/proc/self/fd/{}", file.as_raw_fd()));
        let file = opened.map_err(|error| match error.kind() {
            io::ErrorKind::ResourceBusy => Unusable::InUse("in use".to_owned()),
            _ => Unusable::Io(error),
        })?;
        if lock_data(&file, Access::Write).map_err(Unusable::Io)? {
            Ok(file)
        } else {
            let user = "locked: another program is using it";
            Err(Unusable::InUse(user.to_owned()))
        }
    }
}

/// Why nothing else may be made of a file or device now.
#[derive(Debug)]
pub enum Unusable {
    /// By whom it is used, in words: `mounted at /srv`.
    InUse(String),
    /// What the system said.
    Io(io::Error),
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
            LockError::Held(_)
            | LockError::Missing { .. }
            | LockError::UnderLoop { .. }
            | LockError::BesideLoop { .. } => FileErrorClass::Busy,
            LockError::Io(source) => source.into(),
        }
    }

    pub(crate) fn new(path: &Path, source: LockError) -> Self {
        let path = path.to_owned();
        Self { path, source }
    }
}
