// SPDX-License-Identifier: MIT OR Apache-2.0
//! The modes of operation, each written once, for registers of any width.

pub(crate) mod blocks;
pub(crate) mod cbc;
pub(crate) mod ctr;
pub(crate) mod ecb;
pub(crate) mod ofb;
#[cfg(target_arch = "x86_64")]
pub(crate) mod windows;
pub(crate) mod xts;
