// SPDX-License-Identifier: MIT OR Apache-2.0
//! The backend on a driver that needs no GPU.

mod callers;
mod emulated;
mod faults;
mod slots;
mod suite;
