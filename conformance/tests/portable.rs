// SPDX-License-Identifier: MIT OR Apache-2.0
//! The whole suite for `portable`, forced.

luxor_conformance::conformance_tests!("portable");
