// SPDX-License-Identifier: MIT OR Apache-2.0
//! The suite's few cases for the kernels for `AArch64`, forced. `cargo xtask emulate aarch64` uses
//! them: an emulator needs many minutes for all cases.

mod aesce {
    use luxor_conformance::axes::Cases;

    luxor_conformance::conformance_tests!("aesce", luxor_engine::Registry::cpu(), Cases::Few);
}

mod aeseor3 {
    use luxor_conformance::axes::Cases;

    luxor_conformance::conformance_tests!("aeseor3", luxor_engine::Registry::cpu(), Cases::Few);
}
