// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs the conformance suite on OpenCL; a missing device is an error. Large runs are split by the
//! crate `luxor-engine-gpu`, whose own suite has all cases about them.

use std::sync::Arc;

use luxor_conformance::axes::Cases;
use luxor_engine::{Registry, Unavailable};

fn registry() -> Registry {
    let mut registry = Registry::empty();
    registry.register("opencl", || match luxor_engine_opencl::backend() {
        Ok(backend) => Ok(Arc::new(backend)),
        Err(error) => Err(Unavailable::Device(error.to_string())),
    });
    registry
}

luxor_conformance::conformance_tests!("opencl", registry(), Cases::plain_unless_long());
