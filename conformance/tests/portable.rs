// SPDX-License-Identifier: MIT OR Apache-2.0
//! The whole suite for `portable`, forced. The bitsliced code copies all data into its own form, in
//! pieces of the same length.

use luxor_conformance::axes::Cases;
use luxor_engine::Registry;

luxor_conformance::conformance_tests!("portable", Registry::cpu(), Cases::plain_unless_long());
