// SPDX-License-Identifier: MIT OR Apache-2.0
//! The mounts of `luxor mount` that are there, of this process and of others, whether they live or not.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use luxor_serve::fuse::Unmounter;

use crate::private_folder::{NAME, PrivateFolder};

/// The file that is mounted as files, if `files` is a mount of `luxor mount --files`.
pub(crate) fn file_beneath(files: &Unmounter) -> Option<PathBuf> {
    let source = files.source();
    let file = match source.strip_prefix("/dev") {
        Ok(device) if device.to_str().is_some_and(|name| name.starts_with("loop")) => {
            let backing = Path::new("/sys/block")
                .join(device)
                .join("loop/backing_file");
            PathBuf::from(fs::read_to_string(backing).ok()?.trim_end_matches('\n'))
        }
        _ => source,
    };
    let is_ours = file.file_name()? == NAME && PrivateFolder::of_disk(file.parent()?).is_some();
    is_ours.then_some(file)
}

/// The mount of the plaintext beneath files.
pub(crate) fn beneath(files: &Unmounter) -> Option<Unmounter> {
    let file = file_beneath(files)?;
    let beneath = Unmounter::find(file.parent()?).ok()??;
    (beneath.kind() == "fuse.luxor").then_some(beneath)
}

/// Whether `luxor mount` has mounted something on `folder`, even if its process has ended.
pub(crate) fn is_mounted(folder: &Path) -> bool {
    let mount = Unmounter::find(folder).ok().flatten();
    mount.is_some_and(|mount| mount.kind() == "fuse.luxor" || file_beneath(&mount).is_some())
}

/// Removes the plaintext that killed processes have left in private folders, if no files are mounted above
/// it. Returns whether there was any.
pub(crate) fn remove_leftovers() -> bool {
    let mut has_removed = false;
    for private in PrivateFolder::all() {
        let disk = private.disk();
        let is_dead = |error: io::Error| error.kind() == io::ErrorKind::NotConnected;
        let Some(plaintext) = Unmounter::find(&disk).ok().flatten() else {
            continue;
        };
        let is_left = plaintext.kind() == "fuse.luxor" && fs::metadata(&disk).is_err_and(is_dead);
        if is_left && !is_used(&disk.join(NAME)) && plaintext.unmount().is_ok() {
            private.remove();
            has_removed = true;
        }
    }
    has_removed
}

/// Whether the files in this plaintext are mounted.
fn is_used(plaintext: &Path) -> bool {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let name = plaintext.to_string_lossy();
    let is_backing = |entry: fs::DirEntry| {
        let file = fs::read_to_string(entry.path().join("loop/backing_file"));
        file.is_ok_and(|file| file.trim_end_matches('\n') == name)
    };
    let mut devices = fs::read_dir("/sys/block").into_iter().flatten().flatten();
    mounts.contains(&*name) || devices.any(is_backing)
}

/// Removes the private folder in which the plaintext was mounted on `disk`.
pub(crate) fn remove_private_folder(disk: &Path) {
    if let Some(folder) = PrivateFolder::of_disk(disk) {
        folder.remove();
    }
}
