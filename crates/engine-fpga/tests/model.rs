// SPDX-License-Identifier: MIT OR Apache-2.0
//! The driver on the Verilated core.

mod traffic;

use luxor_conformance::Random;
use luxor_engine_fpga::{Driver, Waiting, model::Model};

#[test]
fn a_hundred_thousand_random_descriptors() {
    let mut random = Random::for_test("random_descriptors");
    // Half of them run on a core that never stalls, and half of them wait for interrupts.
    for (seed, waiting) in [
        (None, Waiting::Polling),
        (None, Waiting::Interrupts),
        (Some(random.u64()), Waiting::Polling),
        (Some(random.u64()), Waiting::Interrupts),
    ] {
        let model = match seed {
            None => Model::new(),
            Some(seed) => Model::with_random_stalls(seed),
        };
        let mut driver = Driver::new(model).unwrap();
        driver.set_waiting(waiting).unwrap();
        let good = traffic::random_descriptors(&mut driver, &mut random, 25_000);
        println!("{good} were good: {:?}", driver.counters());
    }
}
