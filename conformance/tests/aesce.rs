// SPDX-License-Identifier: MIT OR Apache-2.0
//! The whole suite for `aesce`, forced.

luxor_conformance::conformance_tests!("aesce");
