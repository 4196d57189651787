// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the paper prints.

/// A row of the paper's Tables 1 and 2: seconds without and with extended requests.
pub(super) type Row = (&'static str, [f64; 2]);

/// SAMA5D3, "mixed implementation using the ECB-AES co-processor", AES-128.
pub(super) const TABLE_1: [Row; 6] = [
    ("Total time", [9.09, 5.23]),
    ("Tweak computation time", [2.62, 1.70]),
    ("First XOR time", [0.31, 0.31]),
    ("Second XOR time", [0.63, 0.41]),
    ("DMA + encryption time", [5.31, 2.75]),
    ("Other time", [0.20, 0.03]),
];
pub(super) const TABLE_2: [Row; 6] = [
    ("Total time", [9.30, 5.13]),
    ("Tweak computation time", [3.05, 1.46]),
    ("First XOR time", [0.29, 0.27]),
    ("Second XOR time", [0.55, 0.40]),
    ("DMA + decryption time", [5.22, 2.81]),
    ("Other time", [0.17, 0.17]),
];

/// Of the file of both.
const BYTES: f64 = 50e6;

/// What setting up a request takes, in nanoseconds: what both columns' co-processor times
/// differ by, over as many requests as they differ by (512 and 4096 bytes). What is left is
/// in proportion to the bytes, 21 MB/s.
pub(super) fn setup_nanoseconds(table: &[Row; 6]) -> f64 {
    let (_, [short, extended]) = table[4];
    (short - extended) / (BYTES / 512.0 - BYTES / 4096.0) * 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The parts are the whole, to their last digit; and setting up takes as long in both
    /// directions, about.
    #[test]
    fn the_tables_add_up() {
        for table in [TABLE_1, TABLE_2] {
            for column in 0..2 {
                let parts: f64 = table[1..].iter().map(|(_, seconds)| seconds[column]).sum();
                assert!((parts - table[0].1[column]).abs() < 0.04, "{parts}");
            }
        }
        assert!((setup_nanoseconds(&TABLE_1) - 29_959.0).abs() < 1.0);
        assert!((setup_nanoseconds(&TABLE_2) - 28_204.0).abs() < 1.0);
    }
}
