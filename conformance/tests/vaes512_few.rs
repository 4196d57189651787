// SPDX-License-Identifier: MIT OR Apache-2.0
//! The suite's few cases over `vaes512`, forced: for `cargo xtask emulate`, since an emulator
//! would need hours for all of them.

luxor_conformance::conformance_tests!("vaes512", luxor_engine::Registry::cpu(), Few);
