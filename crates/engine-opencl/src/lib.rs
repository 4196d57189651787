// SPDX-License-Identifier: MIT OR Apache-2.0
//! XTS-AES on the devices of OpenCL, with the kernels of `kernels/`, which the device's own
//! compiler builds at run time.
//!
//! | to do this | use |
//! |---|---|
//! | encrypt on this machine's GPUs | [`backend`] |
//! | ask what there is | [`devices`] |
//! | work on data that are on a device already | `luxor_engine_gpu`'s methods, with [`OpenCl`] |
//!
//! The library is looked for when somebody asks, and where it, a platform or a device is
//! absent, [`Unusable`] says which.
//!
//! The kernels look up tables by secret bytes. On a GPU with tables in local memory that
//! costs the same whatever the bytes; on a CPU, for which OpenCL is no way to be fast anyway,
//! caches tell other programs about the key.

#![deny(unsafe_code)]

mod cl;
mod device;
mod discovery;
mod error;
mod foreign;
mod layout;
mod memory;
mod program;
mod queue;
mod shared;

use luxor_engine_gpu::{GpuBackend, Tuning};

pub use device::{NAME, OpenCl, devices};
pub use discovery::lacks_linker;
pub use error::{Failure, Unusable};
pub use foreign::OpenClProgram;
pub use layout::{Facts, Layout};
pub use memory::OpenClMemory;
pub use queue::OpenClQueue;
pub use shared::OpenClKey;

/// A backend on the best [`devices`]. Where tables are not in local memory with a copy for
/// each lane, other programs may learn about keys, and nothing should go there unasked:
/// [`BackendInfo::min_batch`](luxor_engine::BackendInfo::min_batch) says so.
///
/// # Errors
/// [`Unusable`], if there is none.
pub fn backend() -> Result<GpuBackend<OpenCl>, Unusable> {
    let devices = devices()?;
    let mut tuning = Tuning::default();
    if devices.iter().any(|device| device.layout().replicas < 32) {
        tuning.min_batch = usize::MAX;
    }
    Ok(GpuBackend::new(devices, tuning))
}
