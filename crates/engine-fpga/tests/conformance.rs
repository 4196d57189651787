// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs the conformance suite on the Verilated core, which simulates every cycle: a few cases, in the
//! long form all.

use std::sync::Arc;

use luxor_conformance::axes::Cases;
use luxor_engine::{Registry, Unavailable};
use luxor_engine_fpga::model;

fn registry() -> Registry {
    let mut registry = Registry::empty();
    registry.register("fpga", || match model::backend() {
        Ok(backend) => Ok(Arc::new(backend)),
        Err(error) => Err(Unavailable::Device(error.to_string())),
    });
    registry
}

luxor_conformance::conformance_tests!("fpga", registry(), Cases::few_unless_long());
