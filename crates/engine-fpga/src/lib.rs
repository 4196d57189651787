// SPDX-License-Identifier: MIT OR Apache-2.0
//! XTS-AES on Luxor's hardware core (`rtl/`): its driver, and with the cargo feature
//! `model` the core itself, as Verilator makes a program of it.
//!
//! | to do this | use |
//! |---|---|
//! | encrypt on the simulated core | `model::backend` |
//! | encrypt on a core elsewhere | [`FpgaBackend`], with a [`Transport`] of your own |
//! | give the core descriptors one by one | [`Driver`] |
//! | read registers | [`registers`] |
//!
//! A board with the same register map needs a [`Transport`]: reads and writes of
//! registers, one stream of data in and one out. All above it is the same.

#![deny(unsafe_code)]

mod backend;
pub mod beats;
pub mod driver;
mod error;
#[cfg(feature = "model")]
pub mod model;
pub mod registers;
mod transport;

pub use backend::{FpgaBackend, NAME};
pub use driver::{Counters, Driver, DriverError};
pub use transport::{Transport, TransportError};
