// SPDX-License-Identifier: MIT OR Apache-2.0
//! The private folder in which the plaintext is a file, for the driver that shows the files in it.

use std::{
    env, fs, io,
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::{Path, PathBuf},
};

use nix::unistd::{geteuid, mkdtemp};

/// The name of the folder with the plaintext.
const DISK: &str = "disk";
/// The name of the folder on which root's drivers mount first.
const FILES: &str = "files";
/// The name of the plaintext.
pub(crate) const NAME: &str = "plaintext";

/// Begins the names of private folders.
const PREFIX: &str = "luxor-";

/// A folder that only this user can enter. [`PrivateFolder::remove`] removes it.
pub(crate) struct PrivateFolder {
    root: PathBuf,
}

impl PrivateFolder {
    /// Makes the folder. Its path has only letters, digits and `/._-`, so that it can be a value among the
    /// options of a mount.
    pub(crate) fn create() -> io::Result<Self> {
        let new = Self {
            root: mkdtemp(&base().join(PREFIX.to_owned() + "XXXXXX"))?,
        };
        for within in [new.disk(), new.files()] {
            fs::create_dir(within).inspect_err(|_| new.remove())?;
        }
        Ok(new)
    }

    /// Those of this user, from other processes too.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        let entries = fs::read_dir(base()).into_iter().flatten().flatten();
        let is_private = |entry: &fs::DirEntry| {
            let is_named = entry.file_name().as_bytes().starts_with(PREFIX.as_bytes());
            let is_own = |found: fs::Metadata| found.is_dir() && found.uid() == geteuid().as_raw();
            is_named && entry.metadata().is_ok_and(is_own)
        };
        let folders = entries.filter(is_private).map(|entry| entry.path());
        folders.map(|root| Self { root })
    }

    /// The folder at this path, which another process has made.
    pub(crate) fn at(root: PathBuf) -> Self {
        Self { root }
    }

    /// The one whose [`PrivateFolder::disk`] this is.
    pub(crate) fn of_disk(disk: &Path) -> Option<Self> {
        let root = disk.parent()?.to_owned();
        (disk.file_name()? == DISK).then_some(Self { root })
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Where the plaintext is mounted.
    pub(crate) fn disk(&self) -> PathBuf {
        self.root.join(DISK)
    }

    /// Where a driver of root mounts the files first.
    pub(crate) fn files(&self) -> PathBuf {
        self.root.join(FILES)
    }

    /// Removes it, if nothing is mounted in it. It may be gone already.
    pub(crate) fn remove(&self) {
        for folder in [self.disk(), self.files(), self.root.clone()] {
            let _ = fs::remove_dir(folder);
        }
    }
}

/// Returns the folder for private folders.
fn base() -> PathBuf {
    let is_plain = |path: &PathBuf| {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
        path.is_absolute() && path.to_str().is_some_and(|path| path.chars().all(is_plain))
    };
    // Another user's, after `sudo`, is not for this one.
    let is_own =
        |path: &PathBuf| fs::metadata(path).is_ok_and(|found| found.uid() == geteuid().as_raw());
    let of_session = env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let of_session = of_session.filter(is_own);
    let mut folders = of_session.into_iter().chain([env::temp_dir()]);
    folders.find(is_plain).unwrap_or_else(|| "/tmp".into())
}
