// SPDX-License-Identifier: MIT OR Apache-2.0
//! Committed results, shown where they cannot be measured: those of a GPU, and clock cycles.

use std::sync::OnceLock;

use serde::Deserialize;
use serde_json::{Map, Value};

/// The name of the record of a GPU.
pub(crate) const H200: &str = "record of an NVIDIA H200 of 2026-11-27";

/// Returns the members of the record of a GPU.
pub(crate) fn h200() -> &'static Map<String, Value> {
    static RECORD: OnceLock<Map<String, Value>> = OnceLock::new();
    RECORD.get_or_init(|| {
        let text = include_str!("../record/intel-xeon-6.207.2-16-cores/2026-11-27.json");
        serde_json::from_str(text).expect("the committed record is JSON, as a test checks")
    })
}

/// Returns the members of `cycles.json` of this name, which tests with the cargo feature `fpga` compare
/// with the simulation. Cycles are the same on every machine.
#[cfg_attr(
    all(feature = "fpga", not(test)),
    expect(dead_code, reason = "the cores are simulated")
)]
pub(crate) fn cycles<T: Deserialize<'static>>(name: &str) -> Result<Vec<T>, String> {
    static CYCLES: OnceLock<Value> = OnceLock::new();
    let all = CYCLES.get_or_init(|| {
        serde_json::from_str(include_str!("papers/cycles.json"))
            .expect("the committed cycles are JSON, as a test checks")
    });
    Vec::deserialize(&all[name]).map_err(|e| format!("the committed cycles: {e}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_record_has_the_named_day_and_a_gpu() {
        let record = h200();
        let day = &record["date"].as_str().unwrap()[..10];
        assert!(H200.ends_with(day), "{day}");
        for device in record["gpu"]["devices"].as_array().unwrap() {
            let about = &device["about"];
            assert_eq!(about["is_cpu"], false);
            assert!(
                about["device"].as_str().unwrap().starts_with("NVIDIA H200"),
                "{about}"
            );
        }
    }
}
