// SPDX-License-Identifier: MIT OR Apache-2.0
//! The numbers that the paper prints.

/// A row of the paper's Tables 1 and 2: seconds without and with extended requests, and their
/// shares of the total in per cent, as printed.
pub(super) type PrintedTimes = (&'static str, [f64; 2], [f64; 2]);

/// For a SAMA5D3, "mixed implementation using the ECB-AES co-processor", AES-128.
pub(super) const TABLE_1: [PrintedTimes; 6] = [
    ("Total time", [9.09, 5.23], [100.0, 100.0]),
    ("Tweak computation time", [2.62, 1.70], [28.90, 32.61]),
    ("First XOR time", [0.31, 0.31], [3.41, 6.08]),
    ("Second XOR time", [0.63, 0.41], [6.99, 7.86]),
    ("DMA + encryption time", [5.31, 2.75], [58.46, 52.72]),
    ("Other time", [0.20, 0.03], [2.24, 0.73]),
];
pub(super) const TABLE_2: [PrintedTimes; 6] = [
    ("Total time", [9.30, 5.13], [100.0, 100.0]),
    ("Tweak computation time", [3.05, 1.46], [32.78, 28.61]),
    ("First XOR time", [0.29, 0.27], [3.21, 5.32]),
    ("Second XOR time", [0.55, 0.40], [5.98, 7.92]),
    ("DMA + decryption time", [5.22, 2.81], [56.12, 54.83]),
    ("Other time", [0.17, 0.17], [1.90, 3.32]),
];

/// Bytes of the file in both tables.
const BYTES: f64 = 50e6;

/// Rows of both tables: the tweaks with the encryption of their numbers, and the data's cipher.
pub(super) const TWEAKS: usize = 1;
pub(super) const CIPHER: usize = 4;

/// Derives the cost of setting up a request in nanoseconds from a row: the difference between the
/// two columns, divided by the difference between their numbers of requests (of 512 and 4096
/// bytes). The rest is proportional to the bytes, for the cipher at 21 MB/s.
pub(super) fn setup_nanoseconds(table: &[PrintedTimes; 6], row: usize) -> f64 {
    let (_, [short, extended], _) = table[row];
    (short - extended) / (BYTES / 512.0 - BYTES / 4096.0) * 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The parts add up to the total, within rounding, and the setup costs of the cipher are
    /// similar in both directions.
    #[test]
    fn the_tables_add_up() {
        for table in [TABLE_1, TABLE_2] {
            for column in 0..2 {
                let parts: f64 = table[1..].iter().map(|row| row.1[column]).sum();
                let total = table[0].1[column];
                assert!((parts - total).abs() < 0.04, "{parts}");
                for (what, seconds, printed) in table {
                    let part = seconds[column] / total * 100.0;
                    assert!((part - printed[column]).abs() < 0.3, "{what}: {part}");
                }
            }
        }
        for (table, row, expected) in [
            (&TABLE_1, CIPHER, 29_959.0),
            (&TABLE_2, CIPHER, 28_204.0),
            (&TABLE_1, TWEAKS, 10_767.0),
            (&TABLE_2, TWEAKS, 18_608.0),
        ] {
            let found = setup_nanoseconds(table, row);
            assert!((found - expected).abs() < 1.0, "{found}");
        }
    }
}
