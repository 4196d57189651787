// SPDX-License-Identifier: MIT OR Apache-2.0
//! Changes a volume's metadata in place.

use std::{
    fs::File,
    fs::OpenOptions,
    io,
    os::{
        fd::AsRawFd,
        unix::fs::{FileTypeExt, OpenOptionsExt},
    },
    path::{Path, PathBuf},
    sync::atomic::AtomicBool,
};

use luxor_sector::{Storage, Window};
use nix::libc;

use crate::{
    block_device::FileIdentity,
    display::name_or,
    error_class::FileErrorClass,
    input::Input,
    locks::{Access, DataLock, Lock, LockError, MetadataLock},
    opening::open,
    volume_part::window,
};

/// A volume or a detached header, locked for a change: no other program that takes the locks reads
/// or changes the metadata until this is dropped.
///
/// The data may be in use, because they are not moved.
#[derive(Debug)]
pub struct MetadataChange<'a> {
    input: &'a Input,
    /// The part of the file that holds the volume, if it is not all of it.
    part: Option<Window<File>>,
    /// `None` for a storage that is no file.
    _lock: Option<MetadataLock>,
}

impl<'a> MetadataChange<'a> {
    /// Waits for the locks on `input`, which must have been opened with
    /// [`Role::Change`](crate::Role::Change). A lock that cannot be had is left out if `is_needed`
    /// returns false for it. `is_needed` is called while the lock of the node is held. The wait ends
    /// when `cancel` is set.
    ///
    /// # Errors
    /// [`NotLocked`]: another program has held a lock for 30 seconds, `cancel` is set, a needed lock
    /// cannot be had, or a loop device shows bytes of `input` too ([`FileIdentity::loop_device`]).
    ///
    /// # Panics
    /// Panics if `input` is a stream.
    pub fn begin(
        input: &'a Input,
        is_needed: impl Fn(Lock) -> bool,
        cancel: &AtomicBool,
    ) -> Result<Self, NotLocked> {
        assert!(
            input.as_storage().is_some(),
            "the input was not opened with Role::Change"
        );
        let Some(file) = input.file() else {
            return Ok(Self {
                input,
                part: None,
                _lock: None,
            });
        };
        let not_locked = |source| NotLocked::new(input.path(), source);
        let part = |range| window(file.try_clone()?, &range);
        let part = input.range().map(part).transpose();
        let part = part.map_err(|error| not_locked(LockError::Io(error)))?;
        let lock = Some(MetadataLock::to_change(file, is_needed, cancel).map_err(not_locked)?);
        let metadata = file.metadata();
        let metadata = metadata.map_err(|error| not_locked(LockError::Io(error)))?;
        let identity = FileIdentity::from_metadata(&metadata);
        if let Some(device) = identity.and_then(FileIdentity::loop_device) {
            return Err(not_locked(if metadata.is_file() {
                LockError::UnderLoop { device }
            } else {
                LockError::BesideLoop { device }
            }));
        }
        Ok(Self {
            input,
            part,
            _lock: lock,
        })
    }

    /// The path as the user gave it.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.input.path()
    }

    /// The storage with the metadata, open for reading and writing.
    ///
    /// # Panics
    /// Never: [`MetadataChange::begin`] refuses streams.
    #[must_use]
    pub fn storage(&self) -> &dyn Storage {
        match &self.part {
            Some(part) => part,
            None => self.input.writable().expect("the input is not a stream"),
        }
    }

    /// Prevents other programs from mounting a block device and from using the data of a device or
    /// file, until the returned lock is dropped. Needed for changes after which the file or device
    /// no longer begins as the system and other programs know it. Returns `None` for a storage that
    /// is no file, which no other program knows.
    ///
    /// # Errors
    /// [`Unusable::InUse`] if something already uses the file or device.
    pub fn exclusive(&self) -> Result<Option<DataLock>, Unusable> {
        let Some(file) = self.input.file() else {
            return Ok(None);
        };
        let metadata = file.metadata().map_err(Unusable::Io)?;
        if let Some(user) = FileIdentity::from_metadata(&metadata).and_then(FileIdentity::user) {
            return Err(Unusable::InUse(user));
        }
        let excluding = if metadata.file_type().is_block_device() {
            libc::O_EXCL
        } else {
            0
        };
        // Reopens the same file or device, even if its name now belongs to another one.
        let opened = open(
            format!("/proc/self/fd/{}", file.as_raw_fd()),
            OpenOptions::new().read(true).custom_flags(excluding),
        );
        let file = opened.map_err(|error| match error.kind() {
            io::ErrorKind::ResourceBusy => Unusable::InUse("in use".to_owned()),
            _ => Unusable::Io(error),
        })?;
        let lock = DataLock::acquire(&file, Access::Write).map_err(Unusable::Io)?;
        let in_use = || Unusable::InUse("locked: it is in use elsewhere".to_owned());
        lock.ok_or_else(in_use).map(Some)
    }
}

/// Why a file or device cannot be used exclusively now ([`MetadataChange::exclusive`]).
#[derive(Debug)]
pub enum Unusable {
    /// The use, in words, such as `mounted at /srv`.
    InUse(String),
    /// The system's error.
    Io(io::Error),
}

/// Waits for the lock under which metadata of `input` are read consistently. Standard input gets no
/// lock of the node: its open file is shared with the caller's process. Returns `None` for an input
/// that is no file.
///
/// # Errors
/// [`NotLocked`]: another program has held a lock for 30 seconds, or `cancel` is set.
pub fn lock_to_read(input: &Input, cancel: &AtomicBool) -> Result<Option<MetadataLock>, NotLocked> {
    let is_shared = input.path() == Path::new("-");
    let lock = |file| MetadataLock::to_read(file, is_shared, cancel);
    let locked = input.file().map(lock).transpose();
    locked.map_err(|source| NotLocked::new(input.path(), source))
}

/// Why metadata could not be locked.
#[derive(Debug, thiserror::Error)]
#[error("cannot lock {}: {source}", name_or(path, "standard input"))]
pub struct NotLocked {
    /// The path as the user gave it.
    pub path: PathBuf,
    /// The reason.
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
            LockError::Cancelled => FileErrorClass::Cancelled,
            LockError::Io(source) => source.into(),
        }
    }

    pub(crate) fn new(path: &Path, source: LockError) -> Self {
        let path = path.to_owned();
        Self { path, source }
    }
}
