// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests the NBD server as a whole, with a client that sends raw bytes.

mod certificates;
mod durability;
mod server;
mod support;
mod tls;
