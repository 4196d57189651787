// SPDX-License-Identifier: MIT OR Apache-2.0
//! The NBD server as a whole, by a client that sends what it likes.

mod certificates;
mod durability;
mod server;
mod support;
mod tls;
