// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs the conformance suite on this machine's GPUs, if it has any.

use std::sync::Arc;

use luxor_conformance::axes::Cases;
use luxor_engine::{Registry, Unavailable};

fn registry() -> Registry {
    let mut registry = Registry::empty();
    registry.register("cuda", || match luxor_engine_cuda::backend() {
        Ok(backend) => Ok(Arc::new(backend)),
        Err(error) => Err(Unavailable::Device(error.to_string())),
    });
    registry
}

luxor_conformance::conformance_tests!("cuda", registry(), Cases::All);
