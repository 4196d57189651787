// SPDX-License-Identifier: MIT OR Apache-2.0
//! The whole suite for each CPU kernel of the catalogue, forced.

macro_rules! suites {
    (
        ()
        $($architecture:ident $name:ident {
            $token:ident, $blocks:literal, $words:tt, [$($feature:tt)+]
        })+
    ) => {
        $(mod $name {
            use luxor_conformance::axes::Cases;
            use luxor_engine::Registry;

            luxor_conformance::conformance_tests!(
                stringify!($name),
                Registry::cpu(),
                Cases::all_unless_few()
            );
        })+
    };
}
luxor_engine::cpu_kernels!(suites());
