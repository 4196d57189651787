// SPDX-License-Identifier: MIT OR Apache-2.0
//! `luxor serve` at work: other people's clients, clients that mean ill, disks that fail,
//! and ends that come at the worst moment.

mod clients;
mod ends;
mod faults;
mod holes;
mod hostile;
mod memory;
mod raw;
mod stamps;
mod support;
mod tls;
