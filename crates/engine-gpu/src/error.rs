// SPDX-License-Identifier: MIT OR Apache-2.0
//! Errors of a device.

/// What goes wrong with a device.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// Memory of the device, or pinned memory, is too short.
    #[error("out of memory: {message}")]
    OutOfMemory {
        /// What the library said.
        message: String,
    },
    /// The library is not there, or lacks something, or the kernels cannot be built by it.
    #[error("{message}")]
    Library {
        /// What is missing.
        message: String,
    },
    /// A kernel or a copy was refused or failed.
    #[error("a launch failed: {message}")]
    Launch {
        /// What the library said.
        message: String,
    },
    /// The device does not answer any more: nothing will succeed again in this process.
    #[error("the device is lost: {message}")]
    Lost {
        /// What the library said.
        message: String,
    },
}

impl DeviceError {
    /// Whether nothing will succeed again.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        matches!(self, Self::Lost { .. })
    }
}
