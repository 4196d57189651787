// SPDX-License-Identifier: MIT OR Apache-2.0
//! A volume whose metadata are changed in place.

use std::{
    fs::File,
    os::unix::fs::{FileExt, FileTypeExt, MetadataExt},
    path::Path,
};

use luxor_sector::Storage;

use crate::{
    block_device,
    error::{Error, Exit, Result},
    input::Input,
    locks::{Lock, LockError, MetadataLock},
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
    /// Waits for the locks on `input`, which was opened with
    /// [`Role::Change`](crate::input::Role::Change). With `disable_locks` those that cannot
    /// be had are done without, and so is cryptsetup's for LUKS1, which it does not take.
    ///
    /// # Errors
    /// When it cannot be locked.
    pub fn begin(input: &'a Input, disable_locks: bool) -> Result<Self> {
        let is_needed = |lock| match lock {
            Lock::Node => !disable_locks,
            Lock::Named => !disable_locks && !is_luks1(input.file()),
        };
        let lock = MetadataLock::to_change(input.file(), is_needed)
            .map_err(|error| not_locked(input, &error))?;
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

/// Waits for the lock under which the metadata of `input` are read whole.
///
/// # Errors
/// When another program has held it for long.
pub fn lock_to_read(input: &Input) -> Result<MetadataLock> {
    MetadataLock::to_read(input.file()).map_err(|error| not_locked(input, &error))
}

fn not_locked(input: &Input, error: &LockError) -> Error {
    let failed = format!("cannot lock {}", input.name());
    match error {
        LockError::Held(time) => Error::new(
            Exit::Busy,
            format!(
                "{failed}: another program has had the lock for {} seconds",
                time.as_secs()
            ),
        )
        .hint("Run the command again when that program has ended; lslocks shows it."),
        LockError::Missing { what, source } => {
            Error::new(Exit::Busy, format!("{failed}: {what}: {source}")).hint(
                "Without the lock, two changes at the same time can lose keys. Run the \
                 command as root, or with --disable-locks when no other program changes \
                 the volume.",
            )
        }
        LockError::Io(source) => Error::io(failed, source),
    }
}

/// Whether the file begins as a LUKS1 header does. What cannot be read is none.
fn is_luks1(file: &File) -> bool {
    let mut magic = [0; 8];
    FileExt::read_exact_at(file, &mut magic, 0).is_ok() && magic == *b"LUKS\xba\xbe\x00\x01"
}
