// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files that have a name before they are complete. They must not remain when a signal ends the
//! program.
//!
//! The library installs no signal handlers. A program that ends on a signal calls [`remove_all`]
//! first.

use std::{
    fs,
    path::PathBuf,
    sync::{Mutex, MutexGuard, PoisonError},
};

static TEMPORARIES: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn temporaries() -> MutexGuard<'static, Vec<PathBuf>> {
    TEMPORARIES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Registers a file that [`remove_all`] removes, as long as this value exists. Dropping it removes
/// no file.
#[derive(Debug)]
pub struct Temporary {
    path: PathBuf,
}

impl Temporary {
    /// Registers `path`, before the file is created. No other program may use `path`.
    #[must_use]
    pub fn new(path: PathBuf) -> Self {
        temporaries().push(path.clone());
        Self { path }
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        temporaries().retain(|path| *path != self.path);
    }
}

/// Does `work` while [`remove_all`] waits, so that no signal ends the program halfway.
pub fn uninterrupted<T>(work: impl FnOnce() -> T) -> T {
    let _held = temporaries();
    work()
}

/// Blocks every [`Temporary::new`] and [`uninterrupted`]. A program that is about to end holds it
/// until then.
#[derive(Debug)]
pub struct NoMoreTemporaries(
    #[expect(dead_code, reason = "it is held, never read")] MutexGuard<'static, Vec<PathBuf>>,
);

/// Removes the file of every [`Temporary`].
#[must_use]
pub fn remove_all() -> NoMoreTemporaries {
    let temporaries = temporaries();
    for path in temporaries.iter() {
        let _ = fs::remove_file(path);
    }
    NoMoreTemporaries(temporaries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_temporary_is_forgotten_when_dropped() {
        let path = PathBuf::from("/nowhere/temporary");
        let temporary = Temporary::new(path.clone());
        assert!(temporaries().contains(&path));
        drop(temporary);
        assert!(!temporaries().contains(&path));
    }
}
