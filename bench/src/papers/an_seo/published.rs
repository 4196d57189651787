// SPDX-License-Identifier: MIT OR Apache-2.0
//! The paper's numbers, as printed.

/// A system of Tables 3 and 4. Each operation has its milliseconds for 128 MB, and their ratio to the
/// total in per cent.
pub(super) struct System {
    pub(super) name: &'static str,
    pub(super) alpha: [&'static str; 2],
    pub(super) encryption: [&'static str; 2],
    pub(super) total: [&'static str; 2],
}

/// Tables 3 and 4.
pub(super) const SYSTEMS: [System; 4] = [
    System {
        name: "naive CPU",
        alpha: ["32.72", "8.57"],
        encryption: ["349.04", "91.43"],
        total: ["381.76", "100"],
    },
    System {
        name: "naive GPU",
        alpha: ["32.72", "93.24"],
        encryption: ["0.3", "6.76"],
        total: ["35.72", "100"],
    },
    System {
        name: "GPU alpha^8",
        alpha: ["4.08", "77.33"],
        encryption: ["1.2", "22.67"],
        total: ["5.28", "100"],
    },
    System {
        name: "GPU alpha^128",
        alpha: ["0.25", "15.69"],
        encryption: ["1.34", "84.31"],
        total: ["1.59", "100"],
    },
];

/// Remarks on the numbers.
pub(super) const REMARK: &str = "\
The paper's machine: AMD Ryzen 9 5900X at 4.7 GHz, NVIDIA GeForce RTX 3090, means of 1000 runs.
For the naive GPU, the printed 32.72 + 0.3 is not 35.72. Encryption would take 3.00 ms by this
total, 2.19 by the 34.91 of the paper's text, and 2.37 by the Ratio (%) column (32.72 / 0.9324 -
32.72).
The paper says that the copies to and from the GPU are included,
but 128 MB in 0.3 to 1.34 ms is 100 to 450 GB/s, and PCIe 4.0 x16 has 32 GB/s each way. So both
are measured here: `encryption` with all copies, `kernels` without any. The 75 to 147 GB/s of Table 5
exceed PCIe 4.0 too, and its 146.91 GB/s contradict the 1.59 ms of Tables 3 and 4, which are 84 GB/s.
";

/// The rows of Table 5, as they are named here.
pub(super) const CONTESTANTS: [&str; 3] = [
    "OpenSSL 3.0.1",
    "GPU alpha^128",
    "GPU alpha^128, times OpenSSL 3.0.1's",
];

/// The lengths of data units in Table 5.
pub(super) const BLOCKS: [usize; 5] = [512, 1024, 2048, 4096, 8192];

/// Table 5, with AES-128 and with AES-256: GB/s of OpenSSL and of the GPU, and the GPU's speed-up.
const RATES: [[[&str; 3]; 2]; 5] = [
    [["7.94", "74.97", "9.45"], ["6.13", "67.07", "10.95"]],
    [["9.77", "95.17", "9.74"], ["7.34", "91.26", "12.44"]],
    [["10.63", "118.92", "11.19"], ["8.08", "106.15", "13.14"]],
    [["11.88", "130.14", "10.95"], ["8.85", "121.94", "13.78"]],
    [["12.01", "146.91", "12.23"], ["8.97", "131.32", "14.64"]],
];

/// The speed-ups that the paper's text gives, each of the first system over the second.
pub(super) const FACTORS: [(&str, &str, &str); 3] = [
    ("naive GPU", "naive CPU", "10.69"),
    ("GPU alpha^128", "naive GPU", "21.96"),
    ("GPU alpha^128", "naive CPU", "240.1"),
];

/// Returns the row of Table 5 for data units of `block_bytes` bytes and keys of 128 or 256 bits.
pub(super) fn rates(block_bytes: usize, key_bits: usize) -> Option<[&'static str; 3]> {
    let block = BLOCKS.iter().position(|&bytes| bytes == block_bytes)?;
    Some(RATES[block][usize::from(key_bits == 256)])
}
