// SPDX-License-Identifier: MIT OR Apache-2.0
//! The numbers that the paper prints, and those of other cores.

/// A row of Table I: work, family, MHz, slices, Gbps, and the last column.
pub(super) type PrintedCore = (&'static str, &'static str, [f64; 4]);

/// The last column, "throughput / area", is in Mbps per slice.
pub(super) const TABLE_1: [PrintedCore; 4] = [
    ("Hatzidimitriou 2011", "Virtex-4", [157.0, 951.0, 1.8, 1.89]),
    ("Hatzidimitriou 2011", "Virtex-5", [209.0, 808.0, 2.5, 3.09]),
    ("Elmoghany 2011", "Virtex-4", [190.8, 6128.0, 24.42, 3.98]),
    ("Elmoghany 2011", "Virtex-5", [297.5, 4047.0, 38.077, 9.41]),
];

/// Table II: Altera's Cyclone II. Logic elements, MHz, Gbps.
pub(super) const TABLE_2: [f64; 3] = [12_099.0, 153.84, 19.56];

/// The pipeline's latency in cycles, and the cycles of a 512-byte data unit by the paper's section
/// IV.E: the tweak through the pipeline, the data, and draining the pipeline.
pub(super) const LATENCY: f64 = 22.0;
pub(super) const UNIT: f64 = LATENCY + 32.0 + LATENCY;

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
        for (_, _, [mhz, slices, gbps, ratio]) in TABLE_1 {
            assert!(
                (gbps * 1e3 / slices - ratio).abs() < 0.02,
                "{gbps} {slices}"
            );
            let whole = mhz * 0.128;
            assert!(gbps < 3.0 || (gbps - whole).abs() < 0.01, "{gbps} {whole}");
        }
        let [_, mhz, gbps] = TABLE_2;
        assert!((mhz * 0.128 - gbps - 0.13).abs() < 0.01);
    }
}
