// SPDX-License-Identifier: MIT OR Apache-2.0
//! What kind of failure an error is, for programs that answer kinds and not single errors.

use std::io;

/// The kind of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileErrorClass {
    /// There is nothing of that name, or no such folder.
    Missing,
    /// It exists already, is locked, mounted or in use.
    Busy,
    /// The system has no memory left.
    OutOfMemory,
    /// Anything else.
    Failure,
}

impl From<&io::Error> for FileErrorClass {
    fn from(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::OutOfMemory => Self::OutOfMemory,
            _ => Self::Failure,
        }
    }
}
