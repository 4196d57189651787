// SPDX-License-Identifier: MIT OR Apache-2.0
//! What Luxor's backends for GPUs share. The kernels are those of `kernels/`; a library
//! that runs them, OpenCL's or CUDA's, is behind [`Device`].
//!
//! | to do this | use |
//! |---|---|
//! | encrypt on devices | [`GpuBackend`] |
//! | encrypt what is on a device already | [`GpuKey::crypt_resident`] |
//! | run kernels that are not Luxor's | [`ForeignDevice`] |
//! | run the kernels by another library | implement [`Device`] and [`Queue`] |
//! | put a key into the kernels' form | [`KeyWords`] |

#![deny(unsafe_code)]

mod backend;
mod call;
mod device;
mod error;
mod foreign;
mod host;
pub mod keys;
mod launch;
mod layout;
mod loaded_key;
mod plan;
mod pool;
mod ranges;
mod resident;
mod span;
#[cfg(test)]
mod tests;
mod tuning;

pub use backend::GpuBackend;
pub use device::{Device, DeviceMemory, Queue, QueueSizes, Resident};
pub use error::DeviceError;
pub use foreign::{ForeignArgument, ForeignDevice, ForeignLaunch, ForeignSource};
pub use host::HostMemory;
pub use keys::{AesSize, KeyWords, Tables};
pub use launch::{Argument, Bounds, Launch};
pub use layout::{BLOCK, Piece, STRETCH};
pub use loaded_key::GpuKey;
pub use ranges::Ranges;
pub use resident::{ResidentError, ResidentRun};
pub use tuning::Tuning;

#[cfg(test)]
#[path = "../tests/double/mod.rs"]
mod double;
#[cfg(test)]
extern crate self as luxor_engine_gpu;
