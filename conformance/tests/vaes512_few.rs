// SPDX-License-Identifier: MIT OR Apache-2.0
//! The suite's few cases for `vaes512`, forced. `cargo xtask emulate` uses them, since an emulator
//! would need hours for all cases.

use luxor_conformance::axes::Cases;

luxor_conformance::conformance_tests!("vaes512", luxor_engine::Registry::cpu(), Cases::Few);
