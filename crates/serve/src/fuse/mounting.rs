// SPDX-License-Identifier: MIT OR Apache-2.0
//! Mounting and unmounting. `fuser` can do both, but when its session ends it unmounts
//! whatever is on the folder by then, and it takes a `fusermount3 -u` that fails for success.

use std::{
    env,
    ffi::OsStr,
    fs::{self, File},
    io::{self, IoSliceMut},
    mem::MaybeUninit,
    os::{
        fd::{AsFd, AsRawFd, OwnedFd},
        unix::{
            fs::{MetadataExt, OpenOptionsExt},
            net::UnixStream,
        },
    },
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
};

use nix::{
    errno::Errno,
    libc::O_PATH,
    mount::{MntFlags, MsFlags, umount2},
    poll::{PollFd, PollFlags, PollTimeout, poll},
    unistd::{getgid, getuid},
};
use rustix::{
    cmsg_space,
    fs::{AtFlags, StatxFlags, statx},
    net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg},
};

use super::{MountError, MountOptions};

/// Mounts on `place`, which has the path `folder`, as root or by way of `fusermount3`. Returns the
/// connection to the kernel, and what unmounts it.
pub fn mount(
    place: &File,
    folder: &Path,
    options: &MountOptions,
    read_only: bool,
) -> Result<(OwnedFd, Unmounter), MountError> {
    let failed = |error: io::Error| MountError::refused(folder, &error);
    let fuse = File::options().read(true).write(true).open("/dev/fuse");
    let fuse = fuse.map_err(failed)?;
    let mode = place.metadata().map_err(failed)?.mode();
    let source = plain(&options.source);
    let mut words = "subtype=luxor,default_permissions".to_owned();
    if options.allow_other {
        words += ",allow_other";
    }
    let ours = format!(
        "fd={},rootmode={mode:o},user_id={},group_id={},{words}",
        fuse.as_raw_fd(),
        getuid(),
        getgid()
    );
    let mut flags = MsFlags::MS_NODEV | MsFlags::MS_NOSUID | MsFlags::MS_NOEXEC;
    if read_only {
        flags |= MsFlags::MS_RDONLY;
        words += ",ro";
    }
    // By the descriptor: in the path, another user may have put a link in the meantime.
    let target = &*name_in_proc(place);
    let fuse = match nix::mount::mount(Some(&*source), target, Some("fuse"), flags, Some(&*ours)) {
        Err(Errno::EPERM) => {
            let words = format!("fsname={source},nodev,nosuid,noexec,{words}");
            mount_by_fusermount3(folder, &words)?
        }
        mounted => mounted
            .map(|()| fuse.into())
            .map_err(|error| failed(error.into()))?,
    };
    match Unmounter::new(&fuse, folder) {
        Ok(unmounter) => Ok((fuse, unmounter)),
        Err(error) => {
            // It has been mounted this moment, and opens no descriptor: there may be none left.
            let _ = path_of(place).and_then(|folder| detach(&folder, &folder));
            Err(failed(error))
        }
    }
}

fn mount_by_fusermount3(folder: &Path, options: &str) -> Result<OwnedFd, MountError> {
    let failed = |error: io::Error| MountError::refused(folder, &error);
    let (ours, theirs) = UnixStream::pair().map_err(failed)?;
    let mut program = fusermount3();
    program.args(["-o", options, "--"]).arg(folder);
    // It sends the connection over the socket of this number: its standard input.
    program
        .env("_FUSE_COMMFD", "0")
        .stdin(OwnedFd::from(theirs));
    run(program).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => MountError::NoFusermount,
        _ => failed(error),
    })?;
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let mut bytes = [IoSliceMut::new(&mut byte)];
    recvmsg(&ours, &mut bytes, &mut control, RecvFlags::CMSG_CLOEXEC)
        .map_err(|error| failed(error.into()))?;
    let sent = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut files) => files.next(),
        _ => None,
    });
    sent.ok_or_else(|| failed(io::Error::other("fusermount3 has sent no file")))
}

fn fusermount3() -> Command {
    Command::new(env::var_os("FUSERMOUNT_PATH").unwrap_or_else(|| "fusermount3".into()))
}

/// An error has what the program writes to standard error. It is `NotFound` only where the program
/// is not there.
fn run(mut program: Command) -> io::Result<()> {
    let output = program.output()?;
    if output.status.success() {
        return Ok(());
    }
    let words = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(match words.trim() {
        "" => format!("fusermount3: {}", output.status),
        words => words.to_owned(),
    }))
}

/// Unmounts a [`Mounted`](super::Mounted), from any thread.
#[derive(Clone, Debug)]
pub struct Unmounter {
    /// Another descriptor of the session's connection.
    fuse: Arc<OwnedFd>,
    folder: PathBuf,
    device: Device,
}

/// The number of a file system's device. Another file system can have it only later.
type Device = (u32, u32);

impl Unmounter {
    /// For what has just been mounted on `folder`.
    fn new(fuse: &OwnedFd, folder: &Path) -> io::Result<Self> {
        Ok(Self {
            fuse: Arc::new(fuse.try_clone()?),
            device: device_of(&open_place(folder)?)?,
            folder: folder.to_owned(),
        })
    }

    /// Takes the folder off the file system. Programs that have the file open keep it, and only
    /// when the last one has closed it does [`Mounted::serve`](super::Mounted::serve) return.
    /// Does nothing when it is unmounted already, whatever is on the folder by then.
    ///
    /// # Errors
    /// Those of the system and of `fusermount3`. It can be tried again.
    pub fn unmount(&self) -> io::Result<()> {
        if self.has_ended()? {
            return Ok(());
        }
        let place = open_place(&self.folder)?;
        // Again: while `place` is open and this connection lives, the two have the same device
        // number only if they are the same.
        if self.has_ended()? {
            return Ok(());
        }
        if device_of(&place)? != self.device {
            return if self.is_listed()? {
                Err(io::Error::other("something else is mounted over it"))
            } else {
                Ok(())
            };
        }
        detach(Path::new(&name_in_proc(&place)), &self.folder)
    }

    /// Whether the kernel has ended the connection, as it does when nobody has anything of the
    /// file system any more.
    fn has_ended(&self) -> io::Result<bool> {
        let mut fuse = [PollFd::new(self.fuse.as_fd(), PollFlags::empty())];
        poll(&mut fuse, PollTimeout::ZERO)?;
        let events = fuse[0].revents();
        Ok(events.is_some_and(|events| events.contains(PollFlags::POLLERR)))
    }

    /// Whether it is mounted anywhere.
    fn is_listed(&self) -> io::Result<bool> {
        let (major, minor) = self.device;
        let device = format!("{major}:{minor}");
        let mounts = fs::read("/proc/self/mountinfo")?;
        let mounts = String::from_utf8_lossy(&mounts);
        Ok(mounts
            .lines()
            .any(|line| line.split(' ').nth(2) == Some(&*device)))
    }
}

/// Unmounts what is on `path`, or has `fusermount3` unmount what is on `folder`, which is the same.
fn detach(path: &Path, folder: &Path) -> io::Result<()> {
    match umount2(path, MntFlags::MNT_DETACH) {
        Err(Errno::EPERM) => {
            let mut program = fusermount3();
            program.args(["-u", "-z", "--"]).arg(folder);
            run(program)
        }
        result => Ok(result?),
    }
}

/// A folder, or what is mounted on it. It needs no answer of the file system.
pub fn open_place(folder: &Path) -> io::Result<File> {
    File::options().read(true).custom_flags(O_PATH).open(folder)
}

/// The path that a folder has by now.
pub fn path_of(place: &File) -> io::Result<PathBuf> {
    fs::read_link(name_in_proc(place))
}

/// What system calls that take a path are given instead of the path.
fn name_in_proc(place: &File) -> String {
    format!("/proc/self/fd/{}", place.as_raw_fd())
}

fn device_of(place: &File) -> io::Result<Device> {
    // Since Linux 4.20 the kernel does not ask the file system, which does not answer before it
    // is served.
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let found = statx(place, c"", flags, StatxFlags::empty())?;
    Ok((found.stx_dev_major, found.stx_dev_minor))
}

/// Without what would end an option or hide in a list.
fn plain(source: &OsStr) -> String {
    let shown = |c: char| match c {
        ',' | '\\' => '_',
        c if c.is_control() => '_',
        c => c,
    };
    source.to_string_lossy().chars().map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_source_ends_an_option() {
        let source = OsStr::new("disk,allow_other\\,suid\n");
        assert_eq!(plain(source), "disk_allow_other__suid_");
    }
}
