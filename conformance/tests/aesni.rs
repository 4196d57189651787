// SPDX-License-Identifier: MIT OR Apache-2.0
//! The whole suite over `aesni`, forced.

luxor_conformance::conformance_tests!("aesni");
