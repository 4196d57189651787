// SPDX-License-Identifier: MIT OR Apache-2.0
//! The driver on the Verilated core.

mod traffic;

use luxor_conformance::Random;
use luxor_engine_fpga::{Driver, model::Model};

#[test]
fn a_hundred_thousand_random_descriptors() {
    let mut random = Random::for_test("random_descriptors");
    // Half of them run on a core that never stalls.
    for seed in [None, Some(random.u64()), Some(random.u64())] {
        let model = match seed {
            None => Model::new(),
            Some(seed) => Model::with_random_stalls(seed),
        };
        let count = if seed.is_none() { 50_000 } else { 25_000 };
        let mut driver = Driver::new(model).unwrap();
        let good = traffic::random_descriptors(&mut driver, &mut random, count);
        println!("{good} of {count} were good: {:?}", driver.counters());
    }
}
