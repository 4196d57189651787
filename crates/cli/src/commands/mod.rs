// SPDX-License-Identifier: MIT OR Apache-2.0
//! One module a command.

pub mod engines;
pub mod generate;
pub mod raw;
