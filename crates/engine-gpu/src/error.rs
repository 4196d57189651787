// SPDX-License-Identifier: MIT OR Apache-2.0
//! Errors of a device.

use std::io;

/// An error of a device or of its library.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// The device, or the host's pinned memory, has too little memory left.
    #[error("out of memory: {message}")]
    OutOfMemory {
        /// The library's message.
        message: String,
    },
    /// The library is missing or lacks a function, or cannot build the kernels.
    #[error("{message}")]
    Library {
        /// What is missing.
        message: String,
    },
    /// A kernel or a copy was refused or failed.
    #[error("a launch failed: {message}")]
    Launch {
        /// The library's message.
        message: String,
    },
    /// The device no longer answers. Nothing will succeed on it again in this process.
    #[error("the device is lost: {message}")]
    Lost {
        /// The library's message.
        message: String,
    },
}

impl DeviceError {
    /// Returns whether the device is lost, so that nothing will succeed on it again.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        matches!(self, Self::Lost { .. })
    }
}

/// For callers whose storage fails with [`io::Error`]. The device's error is the inner one.
impl From<DeviceError> for io::Error {
    fn from(error: DeviceError) -> Self {
        let kind = match error {
            DeviceError::OutOfMemory { .. } => io::ErrorKind::OutOfMemory,
            _ => io::ErrorKind::Other,
        };
        Self::new(kind, error)
    }
}
