// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs the whole conformance suite on the device double. Batches are small, so calls have many.

mod double;

use std::sync::Arc;

use double::Double;
use luxor_engine::Registry;
use luxor_engine_gpu::{GpuBackend, Tuning};

fn registry() -> Registry {
    let mut registry = Registry::empty();
    registry.register("opencl", || {
        let mut tuning = Tuning::default();
        tuning.batch = 64 << 10;
        tuning.least_batch = 4 << 10;
        tuning.direct = 512;
        let devices = vec![Double::new(), Double::new()];
        Ok(Arc::new(GpuBackend::new(devices, tuning)))
    });
    registry
}

luxor_conformance::conformance_tests!("opencl", registry());
