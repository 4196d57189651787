// SPDX-License-Identifier: MIT OR Apache-2.0
//! Says why a folder cannot be mounted on.

use std::{io, path::Path};

use luxor::files::{path_name, shell_word};
use luxor_serve::fuse::MountError;

use crate::{
    error::{Error, ErrorClass},
    mounted_files,
};

/// Returns the error for the user.
pub(crate) fn refused(error: &MountError) -> Error {
    match error {
        MountError::NoFolder { folder } => Error::new(
            ErrorClass::Missing,
            format!("{} does not exist", path_name(folder)),
        )
        .hint(format!("To make it: `mkdir -p {}`", shell_word(folder))),
        MountError::NotAFolder { folder } => {
            Error::failure(format!("{} is not a folder", path_name(folder)))
        }
        MountError::NotEmpty { folder } if mounted_files::is_mounted(folder) => Error::new(
            ErrorClass::Busy,
            format!("a volume is mounted on {} already", path_name(folder)),
        )
        .hint(to_unmount(folder)),
        MountError::NotEmpty { folder } => Error::new(
            ErrorClass::Busy,
            format!("{} is not empty", path_name(folder)),
        )
        .hint("The mount would hide its contents. Create a new folder."),
        MountError::LeftBehind { folder } => left_behind(folder),
        // A driver that has lost the plaintext fails in its own way.
        MountError::Folder { folder, .. } if mounted_files::is_mounted(folder) => {
            left_behind(folder)
        }
        MountError::Folder { folder, source } => {
            Error::io(format!("cannot list {}", path_name(folder)), source)
        }
        MountError::NoProc { source } => Error::io("cannot list /proc", source)
            .hint("`luxor mount` needs it to find its mount when it unmounts."),
        MountError::NoFuse { source } => Error::io("cannot open /dev/fuse", source).hint(
            "`modprobe fuse` loads the module. A container needs the device: --device /dev/fuse.",
        ),
        MountError::FuseNotAllowed => Error::io(
            "cannot open /dev/fuse",
            &io::ErrorKind::PermissionDenied.into(),
        )
        .hint("Its usual mode is 0666. A container needs the device: --device /dev/fuse."),
        MountError::NoFusermount => Error::failure("fusermount3 is not installed")
            .hint("Users other than root need it to mount. It is in the package fuse3."),
        MountError::Refused { folder, words } => {
            Error::failure(format!("cannot mount on {}: {words}", path_name(folder)))
        }
        _ => Error::failure(error.to_string()),
    }
}

fn left_behind(folder: &Path) -> Error {
    let name = path_name(folder);
    let what = format!("{name} still has the mount of a process that was killed");
    Error::new(ErrorClass::Busy, what).hint(to_unmount(folder))
}

fn to_unmount(folder: &Path) -> String {
    format!("To unmount it: `luxor umount {}`", shell_word(folder))
}
