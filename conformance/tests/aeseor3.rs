// SPDX-License-Identifier: MIT OR Apache-2.0
//! The whole suite for `aeseor3`, forced.

luxor_conformance::conformance_tests!("aeseor3");
