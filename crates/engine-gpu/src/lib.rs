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
pub mod device;
mod foreign;
mod host;
pub mod keys;
pub mod launch;
mod plan;
mod pool;
mod ranges;
mod resident;
#[cfg(test)]
mod tests;

pub use backend::{GpuBackend, GpuKey, ResidentError, ResidentRun, Tuning};
pub use device::{BLOCK, Device, DeviceError, DeviceMemory, Piece, Queue, QueueSizes, Resident};
pub use foreign::{ForeignArgument, ForeignDevice, ForeignLaunch, ForeignSource};
pub use host::HostMemory;
pub use keys::{AesSize, KeyWords, Tables};
pub use launch::{Argument, Bounds, Launch};
pub use ranges::Ranges;

#[cfg(test)]
#[path = "../tests/double/mod.rs"]
mod double;
#[cfg(test)]
extern crate self as luxor_engine_gpu;
