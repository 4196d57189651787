// SPDX-License-Identifier: MIT OR Apache-2.0
//! XTS-AES on NVIDIA GPUs, with the kernels of `kernels/` as PTX, which the driver compiles
//! for the GPU that there is.
//!
//! | to do this | use |
//! |---|---|
//! | encrypt on this machine's GPUs | [`backend`] |
//! | ask what there is | [`devices`] |
//! | work on data that are on a GPU already | `luxor_engine_gpu`'s methods, with [`Cuda`] |
//! | run on another driver, in tests | [`Cuda::all`], with a [`Driver`] of your own |
//!
//! The driver is looked for when somebody asks, and where it or a GPU is absent or too old,
//! [`Unusable`] says which. No part of CUDA's toolkit is needed.
//!
//! Whatever is done here, even a drop, makes the device's primary context the calling
//! thread's current one, and puts none back that was current before: a thread that uses CUDA
//! itself sets its own again afterwards.

#![deny(unsafe_code)]

mod device;
pub mod driver;
mod error;
mod foreign;
mod kernels;
mod library;
mod memory;
mod queue;
mod shared;
mod slots;

use std::sync::Arc;

use luxor_engine_gpu::{GpuBackend, Tuning};

pub use device::{Cuda, NAME};
pub use driver::{Driver, Failure};
pub use error::Unusable;
pub use foreign::CudaProgram;
pub use kernels::{COMPUTE_CAPABILITY, DRIVER, SHARED, THREADS};
pub use library::{Absent, Library};
pub use memory::CudaMemory;
pub use queue::CudaQueue;
pub use shared::CudaKey;

/// Every GPU of this machine that can run the kernels; at least one.
///
/// # Errors
/// [`Unusable`]: why there is none, or why the first one is none.
pub fn devices() -> Result<Vec<Cuda>, Unusable> {
    let driver: Arc<dyn Driver> = Library::open()?;
    Cuda::all(&driver)
}

/// A backend on all [`devices`].
///
/// # Errors
/// As [`devices`].
pub fn backend() -> Result<GpuBackend<Cuda>, Unusable> {
    Ok(GpuBackend::new(devices()?, Tuning::default()))
}
