// SPDX-License-Identifier: MIT OR Apache-2.0
//! Confines a process, once it has opened its files and sockets, to what it still [`Needs`]. A defect that
//! lets a client run code in the process then leads no further.
//!
//! Four measures, none of which can be undone:
//!
//! | measure | what the process can no longer do |
//! |---|---|
//! | `no_new_privs` | gain rights by starting a program that has more |
//! | capabilities | what root may do beyond its own files |
//! | Landlock | open, make or remove files other than those that it names, and connect to anything |
//! | seccomp | make any system call that is not listed in `calls.rs` |
//!
//! A kernel may lack some of them, or refuse them in a container. [`confine`] then takes the others, and
//! its [`Report`] says what is missing.
//!
//! Landlock and capabilities belong to a thread, and reach the threads that it starts later. Before Linux 7.0
//! they do not reach the other threads of the process. The caller therefore passes a function that has each
//! thread which exists already do its part, and the report says how many threads are left. The filter of
//! seccomp reaches all of them.

#![forbid(unsafe_code)]
#![cfg_attr(not(feature = "testing"), warn(clippy::disallowed_methods))]

mod calls;
mod capabilities;
mod files;
mod report;
mod threads;
#[cfg(feature = "testing")]
mod trials;

use std::path::{Path, PathBuf};

pub use self::{
    report::{Measure, Outcome, Report},
    threads::Job,
};

/// What a process still needs.
#[derive(Clone, Debug, Default)]
pub struct Needs {
    paths: Vec<(PathBuf, Access)>,
    /// Why the process needs files and programs that cannot be named, such as those of a device's driver.
    /// Landlock is then left out, and seccomp only refuses the calls that no driver makes.
    pub drivers: Option<String>,
    /// Whether the process reads keys from the kernel's keyring.
    pub keyring: bool,
}

/// What is done with a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// The file is read, or the folder with all beneath.
    Read,
    /// Files in the folder are made, read, written, replaced and removed.
    Change,
    /// It is a terminal: read, written, and controlled.
    Terminal,
    /// Files in the folder are removed.
    Remove,
}

impl Needs {
    /// Adds a path. One that does not exist when the process is confined stays out of its reach.
    pub fn add(&mut self, path: impl AsRef<Path>, access: Access) -> &mut Self {
        self.paths.push((path.as_ref().to_owned(), access));
        self
    }

    /// Adds the folder of a file that is made or replaced.
    pub fn change_file(&mut self, file: impl AsRef<Path>) -> &mut Self {
        self.add(folder_of(file.as_ref()), Access::Change)
    }

    /// Adds the folder of a file that is removed at the end.
    pub fn remove_file(&mut self, file: impl AsRef<Path>) -> &mut Self {
        self.add(folder_of(file.as_ref()), Access::Remove)
    }
}

/// Returns the folder that contains `file`.
fn folder_of(file: &Path) -> &Path {
    let folder = file.parent();
    let folder = folder.filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}

/// Confines this process to `needs`, as far as the kernel allows. `on_other_threads` is called once, and has
/// each thread that it knows, other than this one, run the job.
#[must_use]
pub fn confine(needs: &Needs, on_other_threads: impl FnOnce(&Job)) -> Report {
    // What the other measures would prevent comes first.
    let keep = capabilities::needed(needs);
    let ruleset = files::ruleset(needs);
    let calls = calls::filters(needs);
    let threads = threads::confine(ruleset, &keep, on_other_threads);
    // It covers all threads, also with no_new_privs.
    let report = threads.report(needs, &keep, calls::install(&calls));
    #[cfg(feature = "testing")]
    trials::make();
    report
}
