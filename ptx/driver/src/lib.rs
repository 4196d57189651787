// SPDX-License-Identifier: MIT OR Apache-2.0
//! A driver for `luxor-engine-cuda` without a GPU, for tests.
//!
//! [`Double`] implements [`Driver`](luxor_engine_cuda::Driver) for tests in Rust. As a shared
//! library, this crate has the functions of NVIDIA's driver that Luxor calls. A test copies it into
//! a folder under the name `libcuda.so.1`, and puts the folder into `LD_LIBRARY_PATH`.

#![deny(unsafe_code)]

mod double;
mod library;

pub use double::{
    Double, GPU, ILLEGAL_ADDRESS, INVALID_PTX, LAUNCH_OUT_OF_RESOURCES, NO_DEVICE, OUT_OF_MEMORY,
    Properties, State,
};
