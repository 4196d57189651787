// SPDX-License-Identifier: MIT OR Apache-2.0
//! The part that Luxor's GPU backends share: XTS and CTR. The kernels are in `kernels/`; [`Device`]
//! stands for the library that runs them, OpenCL or CUDA. Programs that only want to encrypt use
//! `luxor_engine_cuda` or `luxor_engine_opencl`.
//!
//! The kernels look up tables by secret bytes, so timing can reveal a key unless each lane of a
//! warp has a copy of the table in its own bank (`SIDE-CHANNELS.md`).
//!
//! | to do this | use |
//! |---|---|
//! | encrypt on devices | [`GpuBackend`] |
//! | encrypt data already in device memory | [`GpuKey::crypt_resident`] |
//! | the same in a caller's memory, on a caller's stream | [`GpuKey::crypt_on_stream`] |
//! | the same with data from a storage, and to one | [`GpuBackend::read_into`], [`GpuBackend::write_from`] |
//! | run kernels other than Luxor's | [`ForeignDevice`] |
//! | run the kernels through another library | implement [`Device`] and [`Queue`] |
//! | expand a key into the kernels' format | [`KeyWords`] |

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
mod stream;
#[cfg(test)]
mod tests;
mod transfer;
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
pub use stream::{CallersStream, DeviceRange, StreamDevice, StreamWork};
pub use transfer::Portion;
pub use tuning::Tuning;

#[cfg(test)]
#[path = "../tests/double/mod.rs"]
mod double;
#[cfg(test)]
extern crate self as luxor_engine_gpu;
