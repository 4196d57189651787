// SPDX-License-Identifier: MIT OR Apache-2.0
//! `luxor umount`.

use std::{
    fs::{File, read_dir},
    io,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use clap::{Args, ValueHint};
use luxor::files::{open_to_read, path_name, shell_word};
use luxor_serve::fuse::{Server, Unmounter};
use nix::unistd::geteuid;

use crate::{
    args::General,
    commands::{Subcommand, Taken},
    context::Context,
    error::{Error, ErrorClass, Result},
    mounts,
};

/// Unmount what `luxor mount` has mounted, and wait until the volume is free
///
/// Everything that programs have written is then in the volume. Works for mounts in the background
/// and in the foreground, and for those that a killed process has left. While a program uses DIR,
/// nothing changes, and the exit code is 5.
#[derive(Args, Debug)]
pub(crate) struct UmountArgs {
    /// The folder on which the volume is mounted
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub folder: PathBuf,
}

impl Subcommand for UmountArgs {
    const NAME: &str = "umount";
    const TAKES: Taken = Taken::Options(&[General::Talk]);

    fn run(&self, _: &Context) -> Result<()> {
        run(&self.folder)
    }
}

fn run(folder: &Path) -> Result<()> {
    let name = path_name(folder);
    let mount = Unmounter::find(folder).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => {
            Error::new(ErrorClass::Missing, format!("{name} does not exist"))
        }
        io::ErrorKind::PermissionDenied => {
            Error::io(format!("cannot look at {name}"), &error).hint(closed(folder))
        }
        _ => Error::io(format!("cannot look at {name}"), &error),
    })?;
    let Some(mount) = mount else {
        // Another program may have unmounted the files alone.
        return if mounts::remove_leftovers() {
            Ok(())
        } else {
            Err(Error::failure(format!("nothing is mounted on {name}")))
        };
    };
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::ResourceBusy => {
            let what = format!("{name} is in use");
            let hint = "Close the files in it, and leave the folder in every shell.";
            Error::new(ErrorClass::Busy, what).hint(hint)
        }
        _ => Error::io(format!("cannot unmount {name}"), &error),
    };
    if mount.kind() == "fuse.luxor" {
        let server = Server::of(folder);
        // The error of a write that the process could not complete.
        let synced = only_file(folder).map(|file| file.sync_all());
        mount.unmount_if_unused().map_err(failed)?;
        return ended(&name, synced, server);
    }
    let Some(beneath) = mounts::beneath(&mount) else {
        let kind = path_name(mount.kind().as_ref());
        let what = format!("{name} is a mount of another program ({kind})");
        return Err(Error::failure(what));
    };
    let server = beneath.folder().ok().flatten();
    let server = server.and_then(|folder| Server::of(&folder));
    let file = server
        .is_some()
        .then(|| open_to_read(mounts::file_beneath(&mount)?).ok());
    mount.unmount_if_unused().map_err(failed)?;
    if server.is_none() {
        // A killed process has left both.
        return remove(&beneath).map_err(|error| Error::io("cannot unmount the plaintext", &error));
    }
    wait_for(&beneath);
    let synced = file.flatten().map(|file| file.sync_all());
    ended(&name, synced, server)
}

/// Says what helps if this user cannot look at the mount.
fn closed(folder: &Path) -> String {
    let advice =
        "A mount is closed to other users, and to root: unmount it as the user who mounted it.";
    let folder = shell_word(folder);
    if geteuid().is_root() {
        format!("{advice} `umount {folder}` works too, and does not wait until the volume is free.")
    } else {
        advice.to_owned()
    }
}

/// Waits for the end of the process, and reports what it could not make durable.
fn ended(name: &str, synced: Option<io::Result<()>>, server: Option<Server>) -> Result<()> {
    if let Some(server) = server {
        let waited = server.wait();
        waited.map_err(|error| Error::io("cannot wait for the process of the mount", &error))?;
    }
    synced
        .unwrap_or(Ok(()))
        .map_err(|error| Error::io(format!("{name}: recent writes may be lost"), &error))
}

/// Opens the file that a folder shows.
fn only_file(folder: &Path) -> Option<File> {
    let entry = read_dir(folder).ok()?.next()?.ok()?;
    open_to_read(entry.path()).ok()
}

/// Waits until a mount is gone. The driver above it may still write.
fn wait_for(mount: &Unmounter) {
    const LONGEST: Duration = Duration::from_secs(600);
    let begun = Instant::now();
    while begun.elapsed() < LONGEST && matches!(mount.folder(), Ok(Some(_))) {
        thread::sleep(Duration::from_millis(20));
    }
}

/// Unmounts the plaintext beneath files, and removes its private folder.
fn remove(beneath: &Unmounter) -> io::Result<()> {
    if let Some(folder) = beneath.folder()? {
        beneath.unmount()?;
        mounts::remove_private_folder(&folder);
    }
    Ok(())
}
