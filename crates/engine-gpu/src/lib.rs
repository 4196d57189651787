// SPDX-License-Identifier: MIT OR Apache-2.0
//! What Luxor's backends for GPUs share. The kernels are those of `kernels/`; a library
//! that runs them, OpenCL's or CUDA's, is behind [`Device`].
//!
//! | to do this | use |
//! |---|---|
//! | run the kernels by another library | implement [`Device`] and [`Queue`] |
//! | put a key into the kernels' form | [`KeyWords`] |

#![deny(unsafe_code)]

pub mod device;
pub mod keys;

pub use device::{Device, DeviceError, DeviceMemory, Launch, Piece, Queue, QueueSizes, Resident};
pub use keys::{AesSize, KeyWords, Tables};
