// SPDX-License-Identifier: MIT OR Apache-2.0
//! The program as its users see it.

mod raw;
#[expect(dead_code, reason = "the tests that use it follow")]
mod support;
mod usage;
