// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs the whole conformance suite on OpenCL; a missing device is an error.

use std::sync::Arc;

use luxor_engine::{Registry, Unavailable};

fn registry() -> Registry {
    let mut registry = Registry::empty();
    registry.register("opencl", || match luxor_engine_opencl::backend() {
        Ok(backend) => Ok(Arc::new(backend)),
        Err(error) => Err(Unavailable::Device(error.to_string())),
    });
    registry
}

luxor_conformance::conformance_tests!("opencl", registry());
