// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which process serves a mounted disk, for a program that unmounts it and waits until the process has
//! ended.
//!
//! The folder has a link with this name, which no list of the folder contains. Its target says which
//! process it is, in which namespace of process IDs. An extended attribute would not do: while the file
//! system has none, the kernel does not ask for one at each write.

use std::{
    fs::{self, read_link},
    io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::fs::MetadataExt,
    },
    path::Path,
    process,
};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// The name of the link.
pub const NAME: &str = ".luxor-server";

/// Returns the target of the link to this process.
pub fn words() -> String {
    format!("{} {}", process::id(), namespace().unwrap_or(0))
}

/// Returns the number of this process's namespace of process IDs.
fn namespace() -> io::Result<u64> {
    Ok(fs::metadata("/proc/self/ns/pid")?.ino())
}

/// The process that serves a mounted disk.
#[derive(Debug)]
pub struct Server(OwnedFd);

impl Server {
    /// Returns the process that serves the disk on `folder`, if this process can wait for it: in a
    /// container it may not.
    #[must_use]
    pub fn of(folder: &Path) -> Option<Self> {
        let link = folder.join(NAME);
        let named = read_link(&link).ok()?;
        let (id, of) = named.to_str()?.split_once(' ')?;
        if of.parse() != Ok(namespace().ok()?) {
            return None;
        }
        let process = pidfd_open(Pid::from_raw(id.parse().ok()?)?, PidfdFlags::empty()).ok()?;
        // A process that still answers had this number when it was opened.
        (read_link(&link).ok()? == named).then_some(Self(process))
    }

    /// Waits until the process has ended.
    ///
    /// # Errors
    /// Those of the system.
    pub fn wait(&self) -> io::Result<()> {
        let mut process = [PollFd::new(self.0.as_fd(), PollFlags::POLLIN)];
        while poll(&mut process, PollTimeout::NONE)? == 0 {}
        Ok(())
    }
}
