// SPDX-License-Identifier: MIT OR Apache-2.0
//! The numbers that the paper prints, and those of other cores.

/// A row of Table I: work, family, MHz, slices, Gbps, and the last column.
pub(super) type PrintedCore = (&'static str, &'static str, [&'static str; 4]);

/// The last column, "throughput / area", is in Mbps per slice.
pub(super) const TABLE_1: [PrintedCore; 4] = [
    (
        "Hatzidimitriou 2011",
        "Virtex-4",
        ["157.0", "951", "1.8", "1.89"],
    ),
    (
        "Hatzidimitriou 2011",
        "Virtex-5",
        ["209", "808", "2.5", "3.09"],
    ),
    (
        "Elmoghany 2011",
        "Virtex-4",
        ["190.8", "6128", "24.42", "3.98"],
    ),
    (
        "Elmoghany 2011",
        "Virtex-5",
        ["297.5", "4047", "38.077", "9.41"],
    ),
];

/// Table II: Altera's Cyclone II. Logic elements, MHz, Gbps.
pub(super) const TABLE_2: [&str; 3] = ["12099", "153.84", "19.56"];

/// The pipeline's latency in cycles, by the paper's section IV.E.
const LATENCY: f64 = 22.0;

/// Returns the cycles from the first of a data unit to its last block: the tweak through the
/// pipeline, the data, and the last block through the pipeline. The paper describes one unit only.
/// This is also the time for each further unit if the pipeline runs empty between them.
/// `rtl/tb/elmoghany_xts_tb.sv` asserts it for the paper's core.
pub(super) fn cycles(blocks: f64) -> f64 {
    LATENCY + blocks + LATENCY
}

/// Returns the cycles of each further unit if its tweak follows the last block of the unit before it.
/// `rtl/tb/elmoghany_xts_tb.sv` asserts this too.
pub(super) fn cycles_at_once(blocks: f64) -> f64 {
    LATENCY + blocks
}

/// The row of Table I for the paper's core in a family: MHz, slices, Gbps, and Mbps per slice.
pub(super) fn printed(family: &str) -> Option<[&'static str; 4]> {
    let mut rows = TABLE_1.iter();
    let row = rows.find(|(work, of, _)| *work == "Elmoghany 2011" && *of == family);
    row.map(|(_, _, numbers)| *numbers)
}

/// A core with public source, and its authors' numbers.
pub(super) struct Public {
    pub(super) name: &'static str,
    pub(super) part: &'static str,
    pub(super) mhz: f64,
    pub(super) luts: u32,
    pub(super) block_rams: Option<u32>,
    pub(super) registers: u32,
    pub(super) cycles_per_block: f64,
}

/// The first is C++ for AMD's tools: XTS-AES-128 encryption with one key and one stream at a time.
/// See `security/docs/src/guide_L1/internals/xts.rst` in `github.com/Xilinx/Vitis_Libraries`, 3.16
/// ns. The part is not named, and has `UltraRAM`. The second is AES alone, both directions and key
/// sizes, with four S-boxes; see the README of github.com/secworks/aes.
pub(super) const PUBLIC: [Public; 2] = [
    Public {
        name: "AMD Vitis security library",
        part: "a part with UltraRAM",
        mhz: 316.0,
        luts: 15_963,
        block_rams: Some(2),
        registers: 8_329,
        cycles_per_block: 1.0,
    },
    Public {
        name: "secworks/aes, no XTS",
        part: "Kintex-7",
        mhz: 125.0,
        luts: 3_020,
        block_rams: None,
        registers: 2_992,
        cycles_per_block: 46.0,
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    /// The throughput is one block per cycle, except on Cyclone II, and in [5], which is not
    /// pipelined.
    #[test]
    fn the_tables_are_a_block_a_cycle() {
        let number = |text: &str| text.parse::<f64>().unwrap();
        for (_, _, figures) in TABLE_1 {
            let [mhz, slices, gbps, ratio] = figures.map(number);
            assert!(
                (gbps * 1e3 / slices - ratio).abs() < 0.02,
                "{gbps} {slices}"
            );
            let whole = mhz * 0.128;
            assert!(gbps < 3.0 || (gbps - whole).abs() < 0.01, "{gbps} {whole}");
        }
        let [_, mhz, gbps] = TABLE_2.map(number);
        assert!((mhz * 0.128 - gbps - 0.13).abs() < 0.01);
    }
}
