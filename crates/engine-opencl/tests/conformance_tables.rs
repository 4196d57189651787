// SPDX-License-Identifier: MIT OR Apache-2.0
//! As `conformance.rs`, with tables on every device. A CPU otherwise gets the kernels without them.

use std::sync::Arc;

use luxor_conformance::axes::Cases;
use luxor_engine::{Registry, Unavailable};
use luxor_engine_opencl::Kernels;

fn registry() -> Registry {
    let mut registry = Registry::empty();
    registry.register(
        "opencl-tables",
        || match luxor_engine_opencl::backend_with(Kernels::Tables) {
            Ok(backend) => Ok(Arc::new(backend)),
            Err(error) => Err(Unavailable::Device(error.to_string())),
        },
    );
    registry
}

luxor_conformance::conformance_tests!("opencl-tables", registry(), Cases::plain_unless_long());
