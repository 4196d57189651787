// SPDX-License-Identifier: MIT OR Apache-2.0
//! XTS-AES on NVIDIA GPUs, with the kernels of `kernels/` as PTX, which the driver compiles for the
//! GPU at hand.
//!
//! | to do this | use |
//! |---|---|
//! | encrypt on this machine's GPUs | [`backend`] |
//! | list the devices | [`devices`] |
//! | encrypt data already in GPU memory | [`GpuKey::crypt_resident`](luxor_engine_gpu::GpuKey::crypt_resident), with [`Cuda`] |
//! | the same in memory that others allocated, on their stream | [`GpuKey::crypt_on_stream`](luxor_engine_gpu::GpuKey::crypt_on_stream) |
//! | run on another driver, in tests | [`Cuda::all`], with a [`Driver`] of your own |
//!
//! The backend supports XTS and CTR. The driver is loaded on first use. If the driver or a GPU is
//! missing or too old, [`Unusable`] says which. Nothing of the CUDA toolkit is needed.
//!
//! ```no_run
//! use luxor_engine::{Backend, KeySpec, XtsKey};
//!
//! # let random_bytes: [u8; 64] = core::array::from_fn(|i| i as u8);
//! let backend = luxor_engine_cuda::backend()?;
//! println!("{}", backend.info().device);
//! let key = backend.load(&KeySpec::Xts(XtsKey::new(&random_bytes)?))?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The kernels look up tables by secret bytes. Each lane of a warp has a copy of the tables in its
//! own bank of shared memory, so every lookup takes the same time. Only the GPU's driver keeps
//! other users of the GPU from reading keys and data there.
//!
//! Every call of this crate, even a drop, makes the device's primary context current in the calling
//! thread and does not restore the previous one. A thread that uses CUDA itself must set its own
//! context again afterwards, or use [`keeping_context`].

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
mod stream;

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

/// Does `work`, and then makes the context current again that was current in this thread before.
pub fn keeping_context<T>(driver: &dyn Driver, work: impl FnOnce() -> T) -> T {
    // Before the driver is initialized, it has no context and returns an error.
    let context = driver.current_context().unwrap_or(driver::Context(0));
    let result = work();
    // This fails only in a lost context, in which the thread can do nothing else either.
    let _ = driver.make_current(context);
    result
}

/// Returns every GPU of this machine that can run the kernels; at least one.
///
/// # Errors
/// [`Unusable`]: the reason why there is no GPU, or why the first one cannot be used.
pub fn devices() -> Result<Vec<Cuda>, Unusable> {
    let driver: Arc<dyn Driver> = Library::open()?;
    Cuda::all(&driver)
}

/// Creates a backend on all [`devices`].
///
/// # Errors
/// As [`devices`].
pub fn backend() -> Result<GpuBackend<Cuda>, Unusable> {
    Ok(GpuBackend::new(devices()?, Tuning::default()))
}
