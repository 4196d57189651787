// SPDX-License-Identifier: MIT OR Apache-2.0
//! The whole suite for `vaes512`, forced.

luxor_conformance::conformance_tests!("vaes512");
