// SPDX-License-Identifier: MIT OR Apache-2.0
//! `luxor mount`.

use std::{
    ffi::OsStr,
    fs::{self, Metadata},
    io, mem,
    os::unix::ffi::OsStrExt,
    path::Path,
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::{Duration, SystemTime},
};

use luxor::files::{path_name, shell_word};
use luxor_serve::fuse::{FileName, MountError, MountOptions, MountPoint, Mounted, Unmounter};

use crate::{
    args::{General, MountArgs},
    commands::{Subcommand, Taken},
    context::Context,
    error::{Error, ErrorClass, Result},
    export::{self, Background},
    notify,
    process::{StopOnSignal, unblocked},
    stats::{Page, StatsReporter},
};

impl Subcommand for MountArgs {
    const NAME: &str = "mount";
    const TAKES: Taken = Taken::Options(&[
        General::Key,
        General::Passphrase,
        General::VolumeKey,
        General::Header,
        General::Part,
        General::Policy,
        General::Engine,
        General::Threads,
        General::Talk,
    ]);

    fn run(&self, context: &Context) -> Result<()> {
        run(self, context)
    }
}

/// Serves a volume's plaintext as a file until it is unmounted.
///
/// # Errors
/// Fails when the folder cannot be mounted on, when the volume or the secret cannot be used, and
/// when writes cannot be made durable.
fn run(args: &MountArgs, context: &Context) -> Result<()> {
    if args.export.allow_discards {
        return Err(
            Error::failure("a mounted file cannot pass discards on").hint(
                "Programs expect to read zeros from a hole, but discarded sectors do not read as \
             zeros. `luxor serve --allow-discards --socket SOCKET VOLUME` passes discards on.",
            ),
        );
    }
    let volume = &args.export.volume;
    let options = MountOptions {
        name: args.name.clone().unwrap_or_else(|| file_name(volume)),
        source: volume.as_os_str().to_owned(),
        modified: modified(volume),
        allow_other: args.allow_other,
    };
    let page = Page::of(&args.stats)?;
    let file = args.folder.join(options.name.as_os_str());
    // Problems with the folder are reported before the secret is asked for.
    let point = MountPoint::new(&args.folder).map_err(|error| refused(&error))?;
    let (export, work) = export::open(&args.export, context)?;

    let (stop, stopped) = mpsc::channel();
    let stop_on_signal = move || {
        let stop = stop.clone();
        StopOnSignal::new(move || {
            // After the end the receiver is gone.
            let _ = stop.send(());
            notify::stopping_without_waiting();
        })
    };
    // A signal may arrive before the disk is mounted.
    let _signals = stop_on_signal();
    let mounted = unblocked(|| Mounted::new(export.shared().clone(), point, &options))
        .map_err(|error| refused(&error))?;
    let unmounter = mounted.unmounter();
    let serve = || {
        let reporter = StatsReporter::begin(&args.stats, &page, mounted.stats(), export.shared())?;
        let unmounter = mounted.unmounter();
        let (end, ended) = mpsc::channel::<()>();
        let shown = path_name(&file);
        let console = context.console;
        let said = format!("{shown} is still in use: luxor exits when no program has it open");
        thread::Builder::new()
            .name("unmount".into())
            .spawn(move || {
                while stopped.recv().is_ok() {
                    if let Err(error) = unmount(&unmounter) {
                        // The next signal tries again. Dropping `_signals` ends this registration
                        // too.
                        mem::forget(stop_on_signal());
                        console.warn(error.message());
                    } else if ended.recv_timeout(SOON) == Err(RecvTimeoutError::Timeout) {
                        console.warn(&said);
                    }
                }
            })
            .map_err(|error| Error::io("cannot start a thread", &error))?;
        console.tell(format!(
            "the plaintext is {shown} until {} is unmounted",
            path_name(&args.folder)
        ));
        reporter.announce(console);
        notify::ready(console, &format!("{} is shown as {shown}", export.name()));
        let background = Background::begin(work)?;
        let served = mounted.serve();
        notify::stopping();
        let worked = background.end();
        drop((reporter, end));
        served.map_err(|error| {
            Error::io(
                format!("{}: recent writes may be lost", export.name()),
                &error,
            )
        })?;
        worked
    };
    let served = serve();
    // After an error, or if the connection was aborted, it may still be mounted.
    let unmounted = unmount(&unmounter).map_err(|error| {
        let folder = path_name(&args.folder);
        error.hint(format!(
            "{folder} stays mounted; to unmount it: fusermount3 -u {folder}"
        ))
    });
    if let (Err(_), Err(error)) = (&served, &unmounted) {
        context.console.warn(error.message());
    }
    served.and(unmounted)
}

/// Unmounting that takes no longer than this needs no message.
const SOON: Duration = Duration::from_secs(1);

/// Returns when the volume's file was last changed. The time of a device's node says nothing about its
/// data.
fn modified(volume: &Path) -> SystemTime {
    let metadata = fs::metadata(volume).ok().filter(Metadata::is_file);
    let modified = metadata.and_then(|metadata| metadata.modified().ok());
    modified.unwrap_or_else(SystemTime::now)
}

fn unmount(unmounter: &Unmounter) -> Result<()> {
    let unmounted = unblocked(|| unmounter.unmount());
    unmounted.map_err(|error| Error::io("cannot unmount", &error))
}

/// Returns the name of the volume's file without `.luks`.
fn file_name(volume: &Path) -> FileName {
    let name = volume.file_name().unwrap_or_default();
    let stem = name.as_bytes().strip_suffix(b".luks").unwrap_or_default();
    [OsStr::from_bytes(stem), name, OsStr::new("plaintext")]
        .into_iter()
        .find_map(|name| FileName::new(name).ok())
        .expect("plaintext is a valid file name")
}

fn refused(error: &MountError) -> Error {
    match error {
        MountError::NoFolder { folder } => Error::new(
            ErrorClass::Missing,
            format!("{} does not exist", path_name(folder)),
        ),
        MountError::NotAFolder { folder } => {
            Error::failure(format!("{} is not a folder", path_name(folder)))
        }
        MountError::NotEmpty { folder } => Error::new(
            ErrorClass::Busy,
            format!("{} is not empty", path_name(folder)),
        )
        .hint("The mount would hide its contents. Create a new folder."),
        MountError::LeftBehind { folder } => {
            let name = path_name(folder);
            let what = format!("{name} still has the mount of a process that was killed");
            let hint = format!("To unmount it: `fusermount3 -u {}`", shell_word(folder));
            Error::new(ErrorClass::Busy, what).hint(hint)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_named_after_the_volume() {
        for (volume, expected) in [
            ("photos.tar.luks", "photos.tar"),
            ("/dev/sdb1", "sdb1"),
            ("a/b/disk.img", "disk.img"),
            (".luks", ".luks"),
            ("...luks", "...luks"),
            ("x.luks.luks", "x.luks"),
            ("..", "plaintext"),
            ("/", "plaintext"),
        ] {
            assert_eq!(
                file_name(Path::new(volume)).as_os_str(),
                expected,
                "{volume}"
            );
        }
    }
}
