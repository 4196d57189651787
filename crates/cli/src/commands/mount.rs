// SPDX-License-Identifier: MIT OR Apache-2.0
//! `luxor mount`.

use std::{
    ffi::OsStr,
    fs::{self, Metadata},
    io::{self, IsTerminal},
    mem,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};

use clap::{
    Args, ValueHint,
    builder::{OsStringValueParser, TypedValueParser},
};
use luxor::{
    VolumeDisk,
    files::{path_name, shell_word},
};
use luxor_serve::{
    Export, ServeError,
    fuse::{FileName, MountOptions, MountPoint, Mounted},
};

use crate::{
    args::{BackgroundArgs, ExportArgs, StatsArgs},
    background,
    commands::{Subcommand, Taken},
    context::Context,
    error::{Error, Result},
    frontend::{self, FrontendSetup, RunOptions, Started},
    mount_error,
    mounted_files::{self, Files, FilesOptions},
    process::{keep_descriptors, unblocked},
    unmounting::UnmountProcess,
};

/// Show the files in a volume, or its plaintext as one file
///
/// With --files, DIR contains the files of the file system in the volume: by a driver of FUSE, or
/// for root by the kernel. Otherwise DIR contains one file, the plaintext, with the name of VOLUME
/// without `.luks`, for losetup, mount and any program that reads files. Both exist until
/// `luxor umount DIR`, or until the program receives SIGINT or SIGTERM. This needs no root where
/// /dev/fuse is accessible, and no dm-crypt.
#[derive(Args, Debug)]
// `mount` refuses this option: a file's holes read as zeros, but discarded sectors do not.
#[command(mut_arg("allow_discards", |arg| arg.hide(true)))]
pub(crate) struct MountArgs {
    /// The volume.
    #[command(flatten)]
    pub export: ExportArgs,

    /// The folder to mount on, which must be empty
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath, help_heading = None)]
    pub folder: PathBuf,

    /// Show the files of the file system in the volume
    ///
    /// Some drivers are weaker than the kernel. Their files are read-only without --read-write.
    #[arg(long, help_heading = "Mounting", conflicts_with_all = ["name", "allow_other"])]
    pub files: bool,

    /// Show the files in partition N of the plaintext (GPT or MBR; logical partitions begin with 5)
    #[arg(long, value_name = "N", help_heading = "Mounting", requires = "files")]
    pub partition: Option<u32>,

    /// Permit writes by a driver that is weaker than the kernel
    #[arg(
        long,
        help_heading = "Mounting",
        requires = "files",
        conflicts_with = "read_only"
    )]
    pub read_write: bool,

    /// The file's name (default: that of VOLUME, without .luks)
    #[arg(long, help_heading = "Mounting")]
    #[arg(value_parser = OsStringValueParser::new().try_map(FileName::new))]
    pub name: Option<FileName>,

    /// Let root use the file too, for losetup; its mode 0600 keeps all other users out
    ///
    /// If a user other than root mounts, /etc/fuse.conf must contain `user_allow_other`.
    #[arg(long, help_heading = "Mounting")]
    pub allow_other: bool,

    /// Whether to go on in the background.
    #[command(flatten)]
    pub background: BackgroundArgs,

    /// The statistics to show.
    #[command(flatten)]
    pub stats: StatsArgs,
}

impl Subcommand for MountArgs {
    const NAME: &str = "mount";
    const TAKES: Taken = Taken::SERVING;

    fn run(&self, context: &Context) -> Result<()> {
        background::run(&self.background, || run(self, context))
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
    let options = RunOptions::new(&args.export, &args.stats, None)?;
    let (volume, folder) = (&args.export.volume, args.folder.as_path());
    // Problems with the folder are reported before the secret is asked for.
    let point = MountPoint::new(folder).map_err(|error| mount_error::refused(&error))?;
    mount_error::check_owner(folder)?;
    if args.allow_other {
        mount_error::check_allow_other("--allow-other lets root in")?;
    }
    let end = format!(
        "to end it: Ctrl-C, or `luxor umount {}`",
        shell_word(folder)
    );
    let end = Some(end).filter(|_| !args.background.background && io::stderr().is_terminal());
    let mut mount = MountOptions {
        name: args.name.clone().unwrap_or_else(|| file_name(volume)),
        source: volume.as_os_str().to_owned(),
        modified: modified(volume),
        allow_other: args.allow_other,
        part: None,
        read_only: false,
    };
    if args.files {
        let name = mem::replace(&mut mount.name, mounted_files::name_of_plaintext());
        let mut files = Files {
            name,
            end,
            folder,
            point: Some(point),
            options: FilesOptions {
                partition: args.partition,
                read_only: args.export.read_only,
                read_write: args.read_write,
            },
            mount,
            may_write: false,
            wait: Arc::default(),
        };
        return frontend::run(&mut files, &options, context);
    }
    keep_descriptors()?;
    let unmounts = UnmountProcess::start(point.handle(), folder, None)?;
    let mut fuse = Fuse {
        folder,
        point: Some(point),
        unmounts: Arc::new(unmounts),
        end,
        options: mount,
    };
    frontend::run(&mut fuse, &options, context)
}

/// The mount.
struct Fuse<'a> {
    folder: &'a Path,
    /// Until it is mounted on.
    point: Option<MountPoint>,
    unmounts: Arc<UnmountProcess>,
    /// Says how the user ends the mount, on a terminal.
    end: Option<String>,
    options: MountOptions,
}

impl FrontendSetup for Fuse<'_> {
    fn start(&mut self, volume: &VolumeDisk, export: Arc<Export>) -> Result<Started> {
        let point = self.point.take().expect("`start` is called once");
        let mounted = unblocked(|| Mounted::new(export, point, &self.options))
            .map_err(|error| mount_error::refused(&error))?;
        let unmounter = mounted.unmounter();
        let unmounts = Arc::clone(&self.unmounts);
        unmounts.has_mounted().inspect_err(|_| {
            let _ = unblocked(|| unmounter.unmount());
        })?;
        let folder = path_name(self.folder);
        let file = self.folder.join(self.options.name.as_os_str());
        let shown = path_name(&file);
        let hint = format!(
            "{folder} stays mounted; to unmount it: `luxor umount {}`",
            shell_word(self.folder)
        );
        let mut lines = vec![format!(
            "the plaintext is {shown} until {folder} is unmounted"
        )];
        if io::stderr().is_terminal()
            && let Some(found) = mounted_files::name_of_file_system(volume)
        {
            lines.push(format!(
                "it is a file system ({found}): with --files, `luxor mount` shows the files in it"
            ));
        }
        lines.extend(self.end.clone());
        Ok(Started {
            frontend: Box::new(mounted),
            stop: Arc::new(move || {
                let unmounted = unmounts.unmount(&unmounter);
                unmounted.map_err(|error| Error::io("cannot unmount", &error).hint(&hint))
            }),
            lines,
            status: format!("{} is shown as {shown}", volume.name()),
            still_in_use: Some(format!(
                "{shown} is still in use: luxor exits when no program has it open"
            )),
        })
    }

    fn error(&self, name: &str, error: &ServeError) -> Error {
        match error {
            ServeError::Flush { source } | ServeError::Kernel { source } => {
                Error::io(format!("{name}: recent writes may be lost"), source)
            }
            _ => Error::failure(format!("{name}: {error}")),
        }
    }
}

/// Returns when the volume's file was last changed. The time of a device's node says nothing about its
/// data.
fn modified(volume: &Path) -> SystemTime {
    let metadata = fs::metadata(volume).ok().filter(Metadata::is_file);
    let modified = metadata.and_then(|metadata| metadata.modified().ok());
    modified.unwrap_or_else(SystemTime::now)
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
