// SPDX-License-Identifier: MIT OR Apache-2.0
//! The whole suite over `portable`, forced.

luxor_conformance::conformance_tests!("portable");
