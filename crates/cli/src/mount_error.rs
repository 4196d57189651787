// SPDX-License-Identifier: MIT OR Apache-2.0
//! Says why a folder cannot be mounted on.

use std::{fs, io, os::unix::fs::MetadataExt, path::Path};

use luxor::files::{path_name, shell_word};
use luxor_serve::fuse::MountError;
use nix::unistd::{AccessFlags, access, geteuid};

use crate::{
    error::{Error, ErrorClass, Result},
    mounts,
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
        MountError::NotEmpty { folder } if mounts::is_mounted(folder) => Error::new(
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
        MountError::Folder { folder, .. } if mounts::is_mounted(folder) => left_behind(folder),
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

/// Checks that this user may let root into a mount, as `fusermount3` does later. `what` needs it.
pub(crate) fn check_allow_other(what: &str) -> Result<()> {
    let settings = fs::read_to_string(FUSE_CONF).unwrap_or_default();
    let is_permitted = settings
        .lines()
        .any(|line| line.trim() == "user_allow_other");
    if is_permitted || needs_no_fusermount() {
        return Ok(());
    }
    let what = format!("{what}, and the mounts of users are closed to root");
    Err(Error::failure(what).hint(format!(
        "Root can permit it by the line `user_allow_other` in {FUSE_CONF}: `echo user_allow_other >>{FUSE_CONF}`"
    )))
}

/// Checks that `fusermount3` will mount on the folder for this user.
pub(crate) fn check_owner(folder: &Path) -> Result<()> {
    const STICKY: u32 = 0o1000;
    let user = geteuid();
    let is_of_other =
        |found: fs::Metadata| found.mode() & STICKY != 0 && found.uid() != user.as_raw();
    let is_refused =
        access(folder, AccessFlags::W_OK).is_err() || fs::metadata(folder).is_ok_and(is_of_other);
    if !is_refused || needs_no_fusermount() {
        return Ok(());
    }
    let what = format!("{} belongs to another user", path_name(folder));
    Err(Error::failure(what).hint("Users mount on folders of their own, in which they may write."))
}

/// The settings of `fusermount3`.
const FUSE_CONF: &str = "/etc/fuse.conf";

/// Whether the rules of `fusermount3` do not hold: for root, and for a service with this capability.
fn needs_no_fusermount() -> bool {
    const CAP_SYS_ADMIN: u32 = 21;
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mut lines = status.lines();
    let effective = lines.find_map(|line| line.strip_prefix("CapEff:"));
    let effective = effective.and_then(|digits| u64::from_str_radix(digits.trim(), 16).ok());
    geteuid().is_root() || effective.is_some_and(|set| set >> CAP_SYS_ADMIN & 1 == 1)
}
