// SPDX-License-Identifier: MIT OR Apache-2.0
//! The whole suite for `aesni`, forced.

luxor_conformance::conformance_tests!("aesni");
