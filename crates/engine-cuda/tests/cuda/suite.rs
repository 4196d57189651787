// SPDX-License-Identifier: MIT OR Apache-2.0
//! The conformance suite on the committed PTX in the emulator.

use std::sync::Arc;

use luxor_conformance::axes::Cases;
use luxor_engine::Registry;
use luxor_engine_cuda::{Cuda, Driver};
use luxor_engine_gpu::{GpuBackend, Tuning};
use luxor_ptx_driver::{Double, GPU};

fn registry() -> Registry {
    let mut registry = Registry::empty();
    registry.register("cuda", || {
        let driver: Arc<dyn Driver> = Double::new(&[GPU]);
        let mut tuning = Tuning::default();
        tuning.batch = 64 << 10;
        tuning.least_batch = 16 << 10;
        let devices = Cuda::all(&driver).unwrap();
        Ok(Arc::new(GpuBackend::new(devices, tuning)))
    });
    registry
}

luxor_conformance::conformance_tests!("cuda", registry(), Cases::Few);
