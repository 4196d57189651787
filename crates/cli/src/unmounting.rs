// SPDX-License-Identifier: MIT OR Apache-2.0
//! The process that unmounts for `luxor mount`.
//!
//! Once it serves the plaintext, `luxor mount` is confined, and can neither unmount nor start `fusermount3`. So it
//! starts this program again before that. The other process has no keys. It unmounts one mount, the one on the
//! folder that it was started with, when it is asked to, and ends with the server.
//!
//! Standard input is the connection to the server: a request is a line, and so is its answer. Standard output is
//! the folder, opened by the server, because another user could replace a part of its path by a link.

use std::{
    env,
    ffi::OsString,
    fs::File,
    io::{self, BufRead, BufReader, Write},
    os::{
        fd::{AsFd, OwnedFd},
        unix::{net::UnixStream, process::CommandExt},
    },
    path::Path,
    process::{self, ExitCode, Stdio},
    sync::{Mutex, PoisonError},
};

use luxor::files::Escaped;
use luxor_serve::fuse::Unmounter;
use nix::{
    sys::signal::{SigSet, SigmaskHow},
    unistd::setsid,
};

use crate::{
    error::{Error, Result},
    private_folder::PrivateFolder,
    process::{NAME, is_started_by_parent, this_program, unblocked},
};

/// The environment variable of this process: the process ID of the server, and the private folder if it is in
/// one, whose path has no space. The command line is that of `luxor umount`, which users see in lists of processes.
const TASK: &str = "LUXOR_UNMOUNTS";

/// The server's end of the connection.
pub(crate) struct UnmountProcess(Mutex<BufReader<UnixStream>>);

/// Something is mounted on the folder now: this is the mount that is meant.
const MOUNTED: &str = "mounted";
/// Unmount it, while the connection to the kernel exists.
const UNMOUNT: &str = "unmount";
/// The same, after the connection to the kernel has ended.
const UNMOUNT_ENDED: &str = "unmount ended";
/// Remove the private folder.
const REMOVE: &str = "remove";
/// The answer of success. Others are errors in words.
const DONE: &str = "done";

impl UnmountProcess {
    /// Starts it for what will be mounted on `folder`, which may be in a private folder. Users see `path`.
    ///
    /// # Errors
    /// Those of the system.
    pub(crate) fn start(
        folder: &File,
        path: &Path,
        private: Option<&PrivateFolder>,
    ) -> Result<Self> {
        let started = Self::start_for(folder, path, private);
        started.map_err(|error| Error::io("cannot start the process that unmounts", &error))
    }

    fn start_for(folder: &File, path: &Path, private: Option<&PrivateFolder>) -> io::Result<Self> {
        let (ours, theirs) = UnixStream::pair()?;
        let mut task = OsString::from(process::id().to_string());
        if let Some(private) = private {
            task.push(" ");
            task.push(private.root());
        }
        let mut program = this_program();
        program
            .arg0(NAME)
            .arg("umount")
            .arg(path)
            .env(TASK, task)
            .stdin(OwnedFd::from(theirs))
            .stdout(folder.try_clone()?)
            .stderr(Stdio::null());
        unblocked(|| program.spawn())?;
        Ok(Self(Mutex::new(BufReader::new(ours))))
    }

    /// Takes note of the mount that was just made.
    ///
    /// # Errors
    /// Those of the system.
    pub(crate) fn has_mounted(&self) -> Result<()> {
        let found = self.ask(MOUNTED);
        found.map_err(|error| Error::io("cannot find what was mounted", &error))
    }

    /// Unmounts it, as `unmounter` would.
    ///
    /// # Errors
    /// Those of [`Unmounter::unmount`]. Also fails when the process has ended.
    pub(crate) fn unmount(&self, unmounter: &Unmounter) -> io::Result<()> {
        if !unmounter.has_ended()? {
            return self.ask(UNMOUNT);
        }
        match self.ask(UNMOUNT_ENDED) {
            // It was killed. Another program has unmounted, and ended the connection by that.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            done => done,
        }
    }

    /// Removes the private folder, in which nothing is mounted any more.
    ///
    /// # Errors
    /// Fails when the process has ended.
    pub(crate) fn remove_private(&self) -> io::Result<()> {
        self.ask(REMOVE)
    }

    fn ask(&self, request: &str) -> io::Result<()> {
        let mut connection = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        const ENDED: &str = "the process that unmounts has ended";
        let sent = connection
            .get_mut()
            .write_all(format!("{request}\n").as_bytes());
        let mut answer = String::new();
        let received = sent.and_then(|()| connection.read_line(&mut answer));
        match (received, answer.strip_suffix('\n')) {
            (Ok(_), Some(DONE)) => Ok(()),
            (Ok(_), Some(words)) => Err(io::Error::other(words.to_owned())),
            _ => Err(io::Error::new(io::ErrorKind::BrokenPipe, ENDED)),
        }
    }
}

/// Does the work of this process, if it was started for it.
pub(crate) fn run_if_started() -> Option<ExitCode> {
    if !is_started_by_parent(TASK) {
        return None;
    }
    // An error here is one of the connection: the server has gone.
    Some(work().map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS))
}

fn work() -> io::Result<()> {
    // Signals, such as Ctrl-C, are for the server.
    let before = SigSet::all().thread_swap_mask(SigmaskHow::SIG_SETMASK)?;
    let _ = setsid();
    let mut connection = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let folder = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    let private = env::var(TASK).ok();
    let private = private.as_deref().and_then(|task| task.split_once(' '));
    let private = private.map(|(_, root)| PrivateFolder::at(root.into()));
    let mut mount = None;
    for request in BufReader::new(connection.try_clone()?).lines() {
        let blocked = before.thread_swap_mask(SigmaskHow::SIG_SETMASK)?;
        let done = answer(&request?, &folder, &mut mount, private.as_ref());
        blocked.thread_set_mask()?;
        let answer = match done {
            Ok(()) => DONE.to_owned(),
            Err(error) => Escaped(&error.to_string()).to_string(),
        };
        connection.write_all(format!("{answer}\n").as_bytes())?;
    }
    Ok(())
}

fn answer(
    request: &str,
    folder: &File,
    mount: &mut Option<Unmounter>,
    private: Option<&PrivateFolder>,
) -> io::Result<()> {
    if let (REMOVE, Some(private)) = (request, private) {
        private.remove();
        return Ok(());
    }
    match (request, mount.as_ref()) {
        (MOUNTED, None) => {
            *mount = Unmounter::find_over(folder)?;
            let is_there = mount.as_ref().map(drop);
            is_there.ok_or_else(|| io::Error::other("it was unmounted at once"))
        }
        (UNMOUNT, Some(mount)) => mount.unmount(),
        (UNMOUNT_ENDED, Some(mount)) => mount.unmount_ended(),
        _ => Err(io::ErrorKind::InvalidInput.into()),
    }
}
