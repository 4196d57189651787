// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why a disk cannot be mounted.

use std::{
    ffi::OsString,
    io,
    path::{Path, PathBuf},
};

use luxor_files::{Escaped, bounded, path_name};

/// Why a disk cannot be mounted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MountError {
    /// The folder does not exist.
    #[error("{} does not exist", path_name(folder))]
    NoFolder {
        /// The folder to mount on.
        folder: PathBuf,
    },
    /// The path is not a folder.
    #[error("{} is not a folder", path_name(folder))]
    NotAFolder {
        /// The folder to mount on.
        folder: PathBuf,
    },
    /// The folder contains files, which the mount would hide, or something is mounted there.
    #[error("the folder {} is not empty", path_name(folder))]
    NotEmpty {
        /// The folder to mount on.
        folder: PathBuf,
    },
    /// The process that served a mount here was killed. `fusermount3 -u` removes the mount.
    #[error(
        "{} still has the mount of a process that has ended",
        path_name(folder)
    )]
    LeftBehind {
        /// The folder to mount on.
        folder: PathBuf,
    },
    /// The folder cannot be read.
    #[error("cannot list {}: {source}", path_name(folder))]
    Folder {
        /// The folder to mount on.
        folder: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// `/proc`, which identifies the mount, cannot be read.
    #[error("cannot list /proc: {source}")]
    NoProc {
        /// The system's error.
        source: io::Error,
    },
    /// The kernel has no FUSE, or the container has no access to it.
    #[error("cannot open /dev/fuse: {source}")]
    NoFuse {
        /// The system's error.
        source: io::Error,
    },
    /// The mode of `/dev/fuse`, or the rules of a container, deny access.
    #[error("this user may not open /dev/fuse")]
    FuseNotAllowed,
    /// Users other than root mount through `fusermount3`, from the package `fuse3`.
    #[error("fusermount3 is not installed")]
    NoFusermount,
    /// The system refused the mount.
    #[error("cannot mount on {}: {words}", path_name(folder))]
    Refused {
        /// The folder to mount on.
        folder: PathBuf,
        /// The message of the kernel or of `fusermount3`.
        words: String,
    },
    /// The name is not a valid file name.
    #[error("{} is not a valid file name", path_name(Path::new(name)))]
    Name {
        /// The name.
        name: OsString,
    },
}

impl MountError {
    /// Classifies the error of opening or reading `folder`.
    pub(super) fn of_folder(folder: &Path, source: io::Error) -> Self {
        let folder = folder.to_owned();
        match source.kind() {
            io::ErrorKind::NotFound => Self::NoFolder { folder },
            io::ErrorKind::NotADirectory => Self::NotAFolder { folder },
            io::ErrorKind::NotConnected => Self::LeftBehind { folder },
            _ => Self::Folder { folder, source },
        }
    }

    pub(super) fn refused(folder: &Path, error: &io::Error) -> Self {
        Self::Refused {
            folder: folder.to_owned(),
            words: bounded(&Escaped(error.to_string().trim()).to_string()).into_owned(),
        }
    }
}
