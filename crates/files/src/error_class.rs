// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kind of a failure, for callers that do not distinguish single errors.

use std::io;

/// The kind of a failure. [`InputError`](crate::InputError), [`OutputError`](crate::OutputError),
/// [`DataFileError`](crate::DataFileError) and [`NotLocked`](crate::NotLocked) have a method
/// `class` that returns it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileErrorClass {
    /// The file or its folder does not exist.
    Missing,
    /// The file exists already, or is locked, mounted or in use.
    Busy,
    /// The system is out of memory.
    OutOfMemory,
    /// The caller ended the wait for a lock.
    Cancelled,
    /// Any other failure.
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
