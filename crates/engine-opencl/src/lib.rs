// SPDX-License-Identifier: MIT OR Apache-2.0
//! XTS-AES on OpenCL devices, with the kernels of `kernels/`, which the device's own compiler
//! builds at run time.
//!
//! | to do this | use |
//! |---|---|
//! | encrypt on this machine's GPUs | [`backend`] |
//! | list the devices | [`devices`] |
//! | encrypt data already in device memory | [`GpuKey::crypt_resident`](luxor_engine_gpu::GpuKey::crypt_resident), with [`OpenCl`] |
//!
//! The backend supports XTS and CTR. The library is loaded on first use. If it, a platform or a
//! device is missing, [`Unusable`] says which.
//!
//! ```no_run
//! use luxor_engine::{Backend, KeySpec, XtsKey};
//!
//! # let random_bytes: [u8; 64] = core::array::from_fn(|i| i as u8);
//! let backend = luxor_engine_opencl::backend()?;
//! println!("{}", backend.info().device);
//! let key = backend.load(&KeySpec::Xts(XtsKey::new(&random_bytes)?))?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The kernels look up tables by secret bytes. On a GPU with tables in local memory every lookup
//! takes the same time. On a CPU, where OpenCL is slow anyway, cache timing reveals information
//! about the key to other programs.

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

/// Creates a backend for the best [`devices`].
///
/// If the tables are not in local memory with a copy for each lane, other programs may learn about
/// keys. Such a backend should be used only when it is asked for by name, so its
/// [`BackendInfo::min_batch`](luxor_engine::BackendInfo::min_batch) is the maximum.
///
/// # Errors
/// [`Unusable`] if no device can be used.
pub fn backend() -> Result<GpuBackend<OpenCl>, Unusable> {
    let devices = devices()?;
    let mut tuning = Tuning::default();
    if devices.iter().any(|device| device.layout().replicas < 32) {
        tuning.min_batch = usize::MAX;
    }
    Ok(GpuBackend::new(devices, tuning))
}
