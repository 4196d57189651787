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
//! A GPU with room for them gets kernels with tables, one copy for each lane, where every look-up
//! takes the same time. All other devices get bitsliced kernels, which have no tables. [`Kernels`]
//! chooses one kind everywhere. On a CPU, cache timing then reveals information about the key to
//! other programs if there are tables.

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

use luxor_engine_gpu::{ForeignDevice, GpuBackend, Tuning};

pub use device::{OpenCl, devices, devices_with};
pub use discovery::lacks_linker;
pub use error::{Failure, Unusable};
pub use foreign::OpenClProgram;
pub use layout::{Aes, Facts, Kernels, Layout};
pub use memory::OpenClMemory;
pub use queue::OpenClQueue;
pub use shared::OpenClKey;

/// Creates a backend for the best [`devices`].
///
/// A backend on a CPU, which has faster engines, and one whose times may reveal keys to other programs
/// should be used only when asked for by name, so its
/// [`BackendInfo::min_batch`](luxor_engine::BackendInfo::min_batch) is the maximum.
///
/// # Errors
/// [`Unusable`] if no device can be used.
pub fn backend() -> Result<GpuBackend<OpenCl>, Unusable> {
    backend_with(Kernels::Auto)
}

/// As [`backend`], with these kernels. Its name is [`Kernels::name`].
///
/// # Errors
/// As [`backend`].
pub fn backend_with(kernels: Kernels) -> Result<GpuBackend<OpenCl>, Unusable> {
    let devices = devices_with(kernels)?;
    let mut tuning = Tuning::default();
    let is_for_all = |device: &OpenCl| device.is_constant_time() && !device.is_cpu();
    if !devices.iter().all(is_for_all) {
        tuning.min_batch = usize::MAX;
    }
    Ok(GpuBackend::new(devices, tuning))
}
