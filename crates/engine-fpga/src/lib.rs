// SPDX-License-Identifier: MIT OR Apache-2.0
//! XTS, ECB and CTR with AES on Luxor's hardware core (`rtl/`): its driver, and, with the cargo feature
//! `model`, the core itself as a simulation built by Verilator. The simulation is for tests: it
//! runs a thousand times slower than the hardware and is not safe for secrets.
//!
//! | to do this | use |
//! |---|---|
//! | encrypt on the simulated core | `model::backend` |
//! | encrypt on a board with the bus master | [`uio::backend`] |
//! | encrypt on another core | [`FpgaBackend`], with a [`Transport`] of your own |
//! | submit single descriptors to the core | [`Driver`], [`beats`] |
//! | read registers | [`registers`] |
//!
//! To support a board with the same register map, implement [`Transport`]: reads and writes of
//! registers, one data stream in each direction, and the interrupt. Everything above it stays the
//! same.

#![deny(unsafe_code)]

mod backend;
pub mod beats;
pub mod driver;
mod error;
mod mapped;
#[cfg(feature = "model")]
pub mod model;
pub mod registers;
mod transport;
pub mod uio;

pub use backend::{FpgaBackend, NAME};
pub use driver::{Counters, Driver, DriverError, Waiting};
pub use transport::{Transport, TransportError};
