// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of `luxor serve`: clients of other projects, hostile clients, failing disks, and ends at
//! the worst moment.

mod clients;
mod confinement;
mod ends;
mod faults;
mod holes;
mod hostile;
mod log;
mod memory;
mod raw;
mod reencrypt;
mod stamps;
mod support;
mod systemd;
mod tls;
