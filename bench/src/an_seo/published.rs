// SPDX-License-Identifier: MIT OR Apache-2.0
//! The paper's numbers, as printed.

/// Tables 3 and 4, milliseconds for 128 MB: powers of α, encryption, total.
pub(super) const SYSTEMS: [(&str, [&str; 3]); 4] = [
    ("naive CPU", ["32.72", "349.04", "381.76"]),
    ("naive GPU", ["32.72", "0.3", "35.72"]),
    ("GPU alpha^8", ["4.08", "1.2", "5.28"]),
    ("GPU alpha^128", ["0.25", "1.34", "1.59"]),
];

/// Remarks on the numbers.
pub(super) const REMARK: &str = "\
The paper's machine: AMD Ryzen 9 5900X at 4.7 GHz, NVIDIA GeForce RTX 3090, means of 1000 runs.
As printed, 32.72 + 0.3 is not 35.72, and the paper's text gives 34.91 instead.
The paper says that the copies to and from the GPU are included,
but 128 MB in 0.3 to 1.34 ms is 100 to 450 GB/s, and PCIe 4.0 x16 has 32 GB/s each way. So both
are measured here: `encryption` with all copies, `kernels` without any.
";

/// The contestants of Table 5.
pub(super) const CONTESTANTS: [&str; 2] = ["OpenSSL 3.0.1", "GPU alpha^128"];

/// The lengths of data units in Table 5.
pub(super) const BLOCKS: [usize; 5] = [512, 1024, 2048, 4096, 8192];

/// Table 5, GB/s: OpenSSL and the GPU with AES-128, then both with AES-256.
const RATES: [[&str; 4]; 5] = [
    ["7.94", "74.97", "6.13", "67.07"],
    ["9.77", "95.17", "7.34", "91.26"],
    ["10.63", "118.92", "8.08", "106.15"],
    ["11.88", "130.14", "8.85", "121.94"],
    ["12.01", "146.91", "8.97", "131.32"],
];

/// Returns the row of Table 5 for data units of `block_bytes` bytes.
pub(super) fn rates(block_bytes: usize) -> Option<[&'static str; 4]> {
    let block = BLOCKS.iter().position(|&bytes| bytes == block_bytes)?;
    Some(RATES[block])
}
