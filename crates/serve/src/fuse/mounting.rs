// SPDX-License-Identifier: MIT OR Apache-2.0
//! Mounts and unmounts. `fuser` can do both, but at the end of a session it unmounts whatever is on
//! the folder at that time, and it takes a failure of `fusermount3 -u` for success.

use std::{
    env,
    ffi::{OsStr, OsString},
    fs::{self, File},
    io::{self, IoSliceMut, Read},
    mem::MaybeUninit,
    os::{
        fd::{AsFd, AsRawFd, OwnedFd},
        unix::{
            ffi::{OsStrExt, OsStringExt},
            fs::MetadataExt,
            net::UnixStream,
        },
    },
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Arc,
};

use nix::{
    errno::Errno,
    libc::STATX_MNT_ID_UNIQUE,
    mount::{MntFlags, MsFlags, umount2},
    poll::{PollFd, PollFlags, PollTimeout, poll},
    unistd::{getgid, getuid},
};
use rustix::{
    cmsg_space,
    fs::{AtFlags, Mode, OFlags, StatxFlags, open, openat, statx},
    net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg},
};

use super::{MountError, MountOptions};

/// Mounts on `handle`, which has the path `folder`, directly as root or through `fusermount3`.
/// Returns the connection to the kernel and the unmounter.
pub fn mount(
    handle: &File,
    folder: &Path,
    options: &MountOptions,
    read_only: bool,
) -> Result<(OwnedFd, Unmounter), MountError> {
    let failed = |error: io::Error| MountError::refused(folder, &error);
    let fuse = File::options().read(true).write(true).open("/dev/fuse");
    let fuse = fuse.map_err(failed)?;
    let mode = handle.metadata().map_err(failed)?.mode();
    let source = without_separators(&options.source);
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
    // Mount by descriptor: another user may have replaced a part of the path by a link.
    let target = &*name_in_proc(handle);
    let fuse = match nix::mount::mount(Some(&*source), target, Some("fuse"), flags, Some(&*ours)) {
        Err(Errno::EPERM) => {
            let words = format!("fsname={source},nodev,nosuid,noexec,{words}");
            mount_by_fusermount3(handle, folder, &words)?
        }
        mounted => mounted
            .map(|()| fuse.into())
            .map_err(|error| failed(error.into()))?,
    };
    match Unmounter::new(&fuse, handle) {
        Ok(unmounter) => Ok((fuse, unmounter)),
        Err(error) => {
            undo(handle);
            Err(failed(error))
        }
    }
}

/// Removes the mount that was made on `handle` a moment ago, by its path, because there may be no free
/// descriptor left.
fn undo(handle: &File) {
    let _ = path_of(handle).and_then(|folder| detach(&folder, &folder));
}

fn mount_by_fusermount3(
    handle: &File,
    folder: &Path,
    options: &str,
) -> Result<OwnedFd, MountError> {
    let failed = |error: io::Error| MountError::refused(folder, &error);
    let (ours, theirs) = UnixStream::pair().map_err(failed)?;
    let mut program = fusermount3();
    program.args(["-o", options, "--"]).arg(folder);
    // `fusermount3` sends the connection over the socket whose number is in this variable: its
    // standard input.
    program
        .env("_FUSE_COMMFD", "0")
        .stdin(OwnedFd::from(theirs));
    let ended = run(program).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => MountError::NoFusermount,
        _ => failed(error),
    })?;
    if ended.succeeded == Some(false) {
        return Err(failed(ended.error()));
    }
    // Without an exit status, a descriptor is the sign of success.
    receive_descriptor(&ours).map_err(|error| {
        undo(handle);
        failed(match ended.words.as_str() {
            "" => error,
            _ => ended.error(),
        })
    })
}

/// Receives the descriptor that `fusermount3` has sent.
fn receive_descriptor(socket: &UnixStream) -> io::Result<OwnedFd> {
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let mut bytes = [IoSliceMut::new(&mut byte)];
    recvmsg(socket, &mut bytes, &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let sent = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut files) => files.next(),
        _ => None,
    });
    sent.ok_or_else(|| io::Error::other("fusermount3 has sent no file descriptor"))
}

/// The program that mounts for users. It is looked for where distributions install it too, because
/// `PATH` may be the short one of a service.
fn fusermount3() -> Command {
    const NAME: &str = "fusermount3";
    let path = env::var_os("PATH").unwrap_or_default();
    let usual = ["/usr/bin", "/bin"].map(PathBuf::from);
    let given = env::var_os("FUSERMOUNT_PATH").filter(|path| !path.is_empty());
    let program = given.or_else(|| {
        let folders = env::split_paths(&path).chain(usual);
        let mut programs = folders.map(|folder| folder.join(NAME));
        let found = programs.find(|program| program.is_file());
        found.map(PathBuf::into_os_string)
    });
    Command::new(program.unwrap_or_else(|| NAME.into()))
}

/// How a program has ended.
struct Ended {
    /// `None` if the parent process ignored SIGCHLD when it started this one: then the kernel discards
    /// the exit status of a child.
    succeeded: Option<bool>,
    /// What it wrote to standard error.
    words: String,
}

impl Ended {
    fn error(&self) -> io::Error {
        io::Error::other(match self.words.as_str() {
            "" => "fusermount3 has failed without a message",
            words => words,
        })
    }
}

/// Runs a program to its end. An error of the kind `NotFound` means only that it is not installed.
fn run(mut program: Command) -> io::Result<Ended> {
    let mut child = program
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    // With it closes this process's copy of a socket that the program has.
    drop(program);
    let mut words = Vec::new();
    let read = child
        .stderr
        .take()
        .map(|mut stderr| stderr.read_to_end(&mut words));
    let succeeded = match child.wait() {
        Ok(status) => Some(status.success()),
        Err(error) if error.raw_os_error() == Some(Errno::ECHILD as i32) => None,
        Err(error) => return Err(error),
    };
    read.transpose()?;
    Ok(Ended {
        succeeded,
        words: String::from_utf8_lossy(&words).trim().to_owned(),
    })
}

/// Unmounts a [`Mounted`](super::Mounted), or another mount that was found, from any thread.
#[derive(Clone, Debug)]
pub struct Unmounter {
    /// A duplicate of the session's descriptor, if the mount is one of this process.
    fuse: Option<Arc<OwnedFd>>,
    mount: MountIdentity,
    origin: MountOrigin,
}

impl Unmounter {
    /// Identifies the mount that was just made on the folder `beneath`.
    fn new(fuse: &OwnedFd, beneath: &File) -> io::Result<Self> {
        let found = Self::find_over(beneath)?;
        let found = found.ok_or_else(|| io::Error::other("it was unmounted at once"))?;
        Ok(Self {
            fuse: Some(Arc::new(fuse.try_clone()?)),
            ..found
        })
    }

    /// Returns the mount on `folder`, whatever made it, or `None` if nothing is mounted there. Does not
    /// ask the file system, which may have lost its server.
    ///
    /// # Errors
    /// Those of the system.
    pub fn find(folder: &Path) -> io::Result<Option<Self>> {
        Self::with_root(&open_folder(folder)?)
    }

    /// As [`Unmounter::find`], for a folder that was opened before something was mounted on it. Another
    /// user may have replaced a part of its path by a link since then.
    ///
    /// # Errors
    /// Those of the system.
    pub fn find_over(beneath: &File) -> io::Result<Option<Self>> {
        let path = path_of(beneath)?;
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        // A folder on which something is mounted keeps its name.
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let parent = openat(beneath, c"..", flags, Mode::empty())?;
        let root = openat(parent, name, flags, Mode::empty())?;
        Self::with_root(&root.into())
    }

    /// Returns the mount of which `handle` is the root.
    fn with_root(handle: &File) -> io::Result<Option<Self>> {
        let (path, mount) = (path_of(handle)?, MountIdentity::read(handle)?);
        let mounts = fs::read(MOUNTS)?;
        let mut lines = mount.lines_of(&mounts);
        // Otherwise the folder is one within a mount.
        let line = lines.find(|line| unescaped(field(line, 4)) == path);
        Ok(line.map(|line| Self {
            fuse: None,
            origin: MountOrigin::parse(line),
            mount: mount.clone(),
        }))
    }

    /// The type of the file system, as the kernel lists it: `fuse.luxor`, `ext4`.
    #[must_use]
    pub fn kind(&self) -> &OsStr {
        OsStr::from_bytes(&self.origin.kind)
    }

    /// What is mounted, as the kernel lists it.
    #[must_use]
    pub fn source(&self) -> PathBuf {
        unescaped(&self.origin.source)
    }

    /// Returns the current path of the folder on which the mount is, if it is still mounted. Its
    /// numbers may belong to a mount of another user by now, on a folder that this process cannot
    /// open.
    ///
    /// # Errors
    /// Those of the system.
    pub fn folder(&self) -> io::Result<Option<PathBuf>> {
        let mounts = fs::read(MOUNTS)?;
        let mut lines = self.mount.lines_of(&mounts);
        let line = lines.find(|line| MountOrigin::parse(line) == self.origin);
        Ok(line.map(|line| unescaped(field(line, 4))))
    }

    /// Detaches the file system from its folder. Programs that have the file open keep it.
    /// Its [`run`](crate::Frontend::run) returns when the last of them has closed it. Does
    /// nothing if the file system is already unmounted, even if something else is mounted on the
    /// folder by then.
    ///
    /// # Errors
    /// Those of the system and of `fusermount3`. The caller may try again.
    pub fn unmount(&self) -> io::Result<()> {
        self.unmount_if(self.has_ended()?)
    }

    /// As [`Unmounter::unmount`], if the kernel has ended the connection to the process that serves the mount,
    /// which [`Unmounter::has_ended`] has found out there.
    ///
    /// # Errors
    /// Those of [`Unmounter::unmount`].
    pub fn unmount_ended(&self) -> io::Result<()> {
        self.unmount_if(true)
    }

    fn unmount_if(&self, has_ended: bool) -> io::Result<()> {
        match self.detach(has_ended) {
            // Another program has unmounted it in the meantime.
            Err(_) if self.folder()?.is_none() => Ok(()),
            result => result,
        }
    }

    /// As [`Unmounter::unmount`], unless a program uses the file system. What was written is then in
    /// what was mounted.
    ///
    /// # Errors
    /// An error of the kind [`io::ErrorKind::ResourceBusy`] if it is in use. Otherwise those of
    /// [`Unmounter::unmount`].
    pub fn unmount_if_unused(&self) -> io::Result<()> {
        let Some(folder) = self.folder()? else {
            return Ok(());
        };
        // The handle would be a use of it.
        if MountIdentity::read(&open_folder(&folder)?)? != self.mount {
            return Err(io::Error::other(MOUNTED_OVER));
        }
        match umount2(&folder, MntFlags::UMOUNT_NOFOLLOW) {
            Err(Errno::EPERM) => unmount_by_fusermount3(&["-u", "--"], &folder),
            result => Ok(result?),
        }
    }

    fn detach(&self, has_ended: bool) -> io::Result<()> {
        let Some(folder) = self.folder()? else {
            return Ok(());
        };
        let handle = open_folder(&folder)?;
        let found = MountIdentity::read(&handle)?;
        if (found.device, found.id) != (self.mount.device, self.mount.id) {
            return Err(io::Error::other(MOUNTED_OVER));
        }
        // The device and mount numbers may belong to another mount by now. Before Linux 6.8 there
        // is no unique number, but if this session's connection has ended, a file system that still
        // answers is a different one. While the connection exists, no other file system can have
        // its device number, because `handle` is open.
        if found != self.mount || (has_ended && !is_dead(&handle)) {
            return Ok(());
        }
        detach(Path::new(&name_in_proc(&handle)), &folder)
    }

    /// Whether the kernel has ended the connection: either nothing uses the file system any more,
    /// or the connection was aborted and the file system is still mounted. Of a mount that is not one of this
    /// process it is not known, and this returns `false`.
    ///
    /// # Errors
    /// Those of the system.
    pub fn has_ended(&self) -> io::Result<bool> {
        let Some(fuse) = &self.fuse else {
            return Ok(false);
        };
        let mut fuse = [PollFd::new(fuse.as_fd(), PollFlags::empty())];
        poll(&mut fuse, PollTimeout::ZERO)?;
        let events = fuse[0].revents();
        Ok(events.is_some_and(|events| events.contains(PollFlags::POLLERR)))
    }
}

/// Unmounts the mount on `path`, directly or through `fusermount3`. `folder` is its name.
fn detach(path: &Path, folder: &Path) -> io::Result<()> {
    match umount2(path, MntFlags::MNT_DETACH) {
        Err(Errno::EPERM) => unmount_by_fusermount3(&["-u", "-z", "--"], folder),
        result => Ok(result?),
    }
}

const MOUNTED_OVER: &str = "something else is mounted over it";

fn unmount_by_fusermount3(options: &[&str], folder: &Path) -> io::Result<()> {
    let mut program = fusermount3();
    program.args(options).arg(folder);
    let ended = run(program)?;
    match ended.succeeded {
        Some(true) => Ok(()),
        None if ended.words.is_empty() => Ok(()),
        // It has one exit code for all errors.
        _ if ended.words.ends_with("busy") => Err(io::ErrorKind::ResourceBusy.into()),
        _ => Err(ended.error()),
    }
}

/// Identifies one mount of one file system. A bind mount of it is a different mount.
#[derive(Clone, Debug, PartialEq, Eq)]
struct MountIdentity {
    /// The device number of the file system. Another file system can get it only later.
    device: (u32, u32),
    /// The mount ID, or 0 before Linux 5.8. Another mount can get it only later.
    id: u64,
    /// Since Linux 6.8 a number that is never reused, before that `id` again.
    unique: u64,
}

impl MountIdentity {
    /// Identifies the mount that contains `handle`.
    fn read(handle: &File) -> io::Result<Self> {
        // With this flag, kernels since Linux 4.20 do not ask the file system, which cannot answer
        // before it is served.
        let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
        let listed = statx(handle, c"", flags, StatxFlags::MNT_ID)?;
        let unique = StatxFlags::from_bits_retain(STATX_MNT_ID_UNIQUE);
        Ok(Self {
            device: (listed.stx_dev_major, listed.stx_dev_minor),
            id: listed.stx_mnt_id,
            unique: statx(handle, c"", flags, unique)?.stx_mnt_id,
        })
    }

    /// Returns the lines of `mounts`, as in [`MOUNTS`], with this mount ID, of which there is one at most.
    /// For kernels without mount IDs it returns those with this device number: with an ID the number is
    /// no criterion, because the files of btrfs have others than its mount.
    fn lines_of<'a>(&self, mounts: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
        let (major, minor) = self.device;
        let (number, value) = match self.id {
            0 => (2, format!("{major}:{minor}")),
            id => (0, id.to_string()),
        };
        let lines = mounts.split(|&byte| byte == b'\n');
        lines.filter(move |line| field(line, number) == value.as_bytes())
    }
}

/// The list of mounts, as `proc_pid_mountinfo(5)` describes it.
const MOUNTS: &str = "/proc/self/mountinfo";

/// Returns field `number` of a line of [`MOUNTS`], or nothing if the line is shorter.
fn field(line: &[u8], number: usize) -> &[u8] {
    let mut fields = line.split(|&byte| byte == b' ');
    fields.nth(number).unwrap_or_default()
}

/// What a line of [`MOUNTS`] says about the origin of a mount and stays the same until it is
/// unmounted.
#[derive(Clone, Debug, PartialEq, Eq)]
struct MountOrigin {
    /// The device number of the file system.
    device: Vec<u8>,
    kind: Vec<u8>,
    source: Vec<u8>,
    /// The option `user_id` of the file system: the user who mounted it.
    user: Vec<u8>,
}

impl MountOrigin {
    fn parse(line: &[u8]) -> Self {
        // A hyphen ends the optional fields.
        let mut fields = line.split(|&byte| byte == b' ');
        let _ = fields.by_ref().skip(6).find(|field| *field == b"-");
        let mut next = || fields.next().unwrap_or_default().to_vec();
        let (kind, source, options) = (next(), next(), next());
        let mut options = options.split(|&byte| byte == b',');
        let user = options.find(|option| option.starts_with(b"user_id="));
        Self {
            device: field(line, 2).to_vec(),
            kind,
            source,
            user: user.unwrap_or_default().to_vec(),
        }
    }
}

/// Decodes a field of `mountinfo`, in which space, tab, newline and backslash are octal (`\040`).
fn unescaped(field: &[u8]) -> PathBuf {
    let mut parts = field.split(|&byte| byte == b'\\');
    let mut bytes = parts.next().unwrap_or_default().to_vec();
    for part in parts {
        let (code, rest) = part.split_at_checked(3).unwrap_or_default();
        let code = str::from_utf8(code).ok();
        bytes.extend(code.and_then(|code| u8::from_str_radix(code, 8).ok()));
        bytes.extend(rest);
    }
    OsString::from_vec(bytes).into()
}

/// Whether `handle` is in a FUSE file system with a connection that has ended. A live file system is
/// asked and has to answer.
fn is_dead(handle: &File) -> bool {
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_FORCE_SYNC;
    let found = statx(handle, c"", flags, StatxFlags::BASIC_STATS);
    found.is_err_and(|error| error == rustix::io::Errno::NOTCONN)
}

/// Opens a folder, or the root of the mount on it, without asking the file system.
pub fn open_folder(folder: &Path) -> io::Result<File> {
    // Not by `OpenOptions`, which ignores `O_PATH` if the C library is musl.
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    Ok(open(folder, flags, Mode::empty())?.into())
}

/// Returns the current path of a folder.
pub fn path_of(handle: &File) -> io::Result<PathBuf> {
    fs::read_link(name_in_proc(handle))
}

/// Returns a path for system calls that cannot take a descriptor.
fn name_in_proc(handle: &File) -> String {
    format!("/proc/self/fd/{}", handle.as_raw_fd())
}

/// Replaces characters that would end a mount option or break a list of mounts.
fn without_separators(source: &OsStr) -> String {
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
    fn paths_in_mountinfo_are_unescaped() {
        let path = unescaped(br"/a\040b\134040/c\011\012\134");
        assert_eq!(path, Path::new("/a b\\040/c\t\n\\"));
    }

    /// Numbers are given again as soon as a mount is gone.
    #[test]
    fn a_mount_of_another_user_with_the_same_numbers_is_another_one() {
        let mount = MountIdentity {
            device: (0, 51),
            id: 97,
            unique: 97,
        };
        let line = |id, user, options: &str| {
            format!(
                "{id} 25 0:51 / /tmp/a\\040b rw,nosuid {options}- fuse.luxor a.luks \
                 rw,user_id={user},group_id=0\n"
            )
        };
        let listed = line(96, 0, "") + &line(97, 1000, "shared:1 master:2 ");
        let lines: Vec<_> = mount.lines_of(listed.as_bytes()).collect();
        assert_eq!(lines.len(), 1);
        assert_eq!(field(lines[0], 4), br"/tmp/a\040b");
        let origin = MountOrigin::parse(lines[0]);
        assert_eq!(origin.user, b"user_id=1000");
        assert_eq!(origin.source, b"a.luks");
        assert_eq!(origin, MountOrigin::parse(line(97, 1000, "").as_bytes()));
        assert_ne!(origin, MountOrigin::parse(line(97, 0, "").as_bytes()));
        assert_ne!(origin, MountOrigin::parse(b"97 25"));
    }

    #[test]
    fn no_source_ends_an_option() {
        let source = OsStr::new("disk,allow_other\\,suid\n");
        assert_eq!(without_separators(source), "disk_allow_other__suid_");
    }
}
