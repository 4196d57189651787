// SPDX-License-Identifier: MIT OR Apache-2.0
//! Models the main loops of the kernels on CPUs that this machine need not have.
//!
//! `llvm-mca` simulates how the ports of a CPU execute the shortest pass of each loop, again and
//! again: the pass inside a data unit and without prefetches. The table has the cycles per block of
//! each loop on each CPU, and in parentheses the share of them that the AES instructions alone would
//! take. docs/kernels.md says what the model leaves out, and where it is known to be wrong.

use std::{collections::BTreeMap, fs, path::Path, thread};

use super::{
    Slack,
    disassembly::{Function, Instruction},
    main_loops::{self, Kind, MainLoop, What, entry},
    table, verdict,
};
use crate::{
    catalogue::CPU_KERNELS,
    cpu,
    process::{self, command},
    tools::LLVM_MCA,
};

/// The numbers of passes in two runs. The difference of their cycles excludes the first passes, for
/// which all ports are free.
const PASSES: [u32; 2] = [4, 16];

/// An architecture with the CPUs that are modelled.
pub struct Architecture {
    /// The name that LLVM knows.
    name: &'static str,
    /// What makes `llvm-mca` understand the output of `objdump`.
    syntax: &'static str,
    cpus: &'static [Cpu],
    limits: &'static str,
}

/// A CPU as it is modelled: a column.
struct Cpu {
    /// The name that LLVM knows.
    name: &'static str,
    /// LLVM's names, which are Rust's too, for the features of the kernels in which the CPUs differ.
    features: &'static str,
    /// Whether a round of AES in two instructions counts as one, the first.
    fuses: bool,
}

impl Cpu {
    const fn new(name: &'static str, features: &'static str) -> Self {
        Self {
            name,
            features,
            fuses: false,
        }
    }

    const fn fusing(self) -> Self {
        Self {
            fuses: true,
            ..self
        }
    }

    /// Whether it has the features of a kernel, those aside that all the CPUs have.
    fn can_run(&self, kernel: &str) -> bool {
        let listed = CPU_KERNELS.iter().find(|listed| listed.name == kernel);
        let all = || X86_64.cpus.iter().chain(AARCH64.cpus);
        listed.is_some_and(|kernel| {
            let needs = kernel.features.iter();
            let mut needs = needs.filter(|feature| all().any(|cpu| cpu.has(feature)));
            needs.all(|feature| self.has(feature))
        })
    }

    fn has(&self, feature: &str) -> bool {
        let mut features = self.features.split(',');
        features.any(|known| known.strip_prefix('+') == Some(feature))
    }

    /// Returns its name in the table.
    fn column(&self) -> String {
        let fuses = if self.fuses { "+fuse" } else { "" };
        format!("{}{fuses}", self.name)
    }
}

/// LLVM 19 has no model of Zen 5: it uses the one of Zen 4.
pub const X86_64: Architecture = Architecture {
    name: "x86_64",
    syntax: ".intel_syntax noprefix",
    cpus: &[
        Cpu::new("znver2", "+aes"),
        Cpu::new("znver3", "+aes,+vaes"),
        Cpu::new("znver4", "+aes,+vaes,+avx512bw"),
        Cpu::new("skylake", "+aes"),
        Cpu::new("icelake-server", "+aes,+vaes,+avx512bw"),
        Cpu::new("alderlake", "+aes,+vaes"),
        Cpu::new("sapphirerapids", "+aes,+vaes,+avx512bw"),
    ],
    limits: "
kernel   function     rounds  stored  multiply  znver2       znver3      znver4       skylake      icelake-server  alderlake   sapphirerapids
aesni    cbc_decrypt  10      8       0         6.12(0.82)   5.00(1.00)  5.00(1.00)   10.00(1.00)  10.00(1.00)     5.53(0.90)  5.53(0.90)
aesni    cbc_decrypt  12      8       0         7.12(0.84)   6.00(1.00)  6.00(1.00)   12.00(1.00)  12.00(1.00)     6.62(0.91)  6.62(0.91)
aesni    cbc_decrypt  14      8       0         8.12(0.86)   7.00(1.00)  7.00(1.00)   14.00(1.00)  14.00(1.00)     7.51(0.93)  7.51(0.93)
aesni    ctr          10      8       0         6.00(0.83)   5.00(1.00)  5.00(1.00)   10.00(1.00)  10.00(1.00)     5.50(0.91)  5.50(0.91)
aesni    ctr          12      8       0         6.88(0.87)   6.00(1.00)  6.00(1.00)   12.00(1.00)  12.00(1.00)     6.50(0.92)  6.50(0.92)
aesni    ctr          14      8       0         7.75(0.90)   7.00(1.00)  7.00(1.00)   14.00(1.00)  14.00(1.00)     7.51(0.93)  7.51(0.93)
aesni    decrypt      10      8       0         5.25(0.95)   5.00(1.00)  5.00(1.00)   10.00(1.00)  10.00(1.00)     5.06(0.99)  5.06(0.99)
aesni    decrypt      10      8       8         15.38(0.33)  7.12(0.70)  9.00(0.56)   10.00(1.00)  10.00(1.00)     6.04(0.83)  6.04(0.83)
aesni    decrypt      10      16      0         7.75(0.65)   5.25(0.95)  5.25(0.95)   10.00(1.00)  10.00(1.00)     5.74(0.87)  5.74(0.87)
aesni    decrypt      14      8       0         7.25(0.97)   7.00(1.00)  7.00(1.00)   14.00(1.00)  14.00(1.00)     7.25(0.97)  7.25(0.97)
aesni    decrypt      14      8       8         17.00(0.41)  9.00(0.78)  11.00(0.64)  14.00(1.00)  14.00(1.00)     7.62(0.92)  7.62(0.92)
aesni    decrypt      14      16      0         9.12(0.77)   7.25(0.97)  7.25(0.97)   14.00(1.00)  14.00(1.00)     7.88(0.89)  7.88(0.89)
aesni    ecb_decrypt  10      8       0         5.38(0.93)   5.00(1.00)  5.00(1.00)   10.00(1.00)  10.00(1.00)     5.54(0.90)  5.54(0.90)
aesni    ecb_decrypt  12      8       0         6.38(0.94)   6.00(1.00)  6.00(1.00)   12.00(1.00)  12.00(1.00)     6.62(0.91)  6.62(0.91)
aesni    ecb_decrypt  14      8       0         7.38(0.95)   7.00(1.00)  7.00(1.00)   14.00(1.00)  14.00(1.00)     7.75(0.90)  7.75(0.90)
aesni    ecb_encrypt  10      8       0         5.38(0.93)   5.00(1.00)  5.00(1.00)   10.00(1.00)  10.00(1.00)     5.54(0.90)  5.54(0.90)
aesni    ecb_encrypt  12      8       0         6.38(0.94)   6.00(1.00)  6.00(1.00)   12.00(1.00)  12.00(1.00)     6.62(0.91)  6.62(0.91)
aesni    ecb_encrypt  14      8       0         7.38(0.95)   7.00(1.00)  7.00(1.00)   14.00(1.00)  14.00(1.00)     7.75(0.90)  7.75(0.90)
aesni    encrypt      10      8       0         5.25(0.95)   5.00(1.00)  5.00(1.00)   10.00(1.00)  10.00(1.00)     5.06(0.99)  5.06(0.99)
aesni    encrypt      10      8       8         15.38(0.33)  7.12(0.70)  9.00(0.56)   10.00(1.00)  10.00(1.00)     6.04(0.83)  6.04(0.83)
aesni    encrypt      10      16      0         7.62(0.66)   5.12(0.98)  5.12(0.98)   10.00(1.00)  10.00(1.00)     5.91(0.85)  5.91(0.85)
aesni    encrypt      14      8       0         7.25(0.97)   7.00(1.00)  7.00(1.00)   14.00(1.00)  14.00(1.00)     7.25(0.97)  7.25(0.97)
aesni    encrypt      14      8       8         17.00(0.41)  9.12(0.77)  11.00(0.64)  14.00(1.00)  14.00(1.00)     7.76(0.90)  7.76(0.90)
aesni    encrypt      14      16      0         9.12(0.77)   7.00(1.00)  7.00(1.00)   14.00(1.00)  14.00(1.00)     8.00(0.88)  8.00(0.88)
vaes256  cbc_decrypt  10      16      0         -            2.53(0.99)  2.53(0.99)   -            5.00(1.00)      2.75(0.91)  2.75(0.91)
vaes256  cbc_decrypt  12      16      0         -            3.03(0.99)  3.03(0.99)   -            6.00(1.00)      3.27(0.92)  3.27(0.92)
vaes256  cbc_decrypt  14      16      0         -            3.53(0.99)  3.53(0.99)   -            7.00(1.00)      3.75(0.93)  3.75(0.93)
vaes256  ctr          10      16      0         -            2.50(1.00)  3.03(0.82)   -            5.00(1.00)      2.77(0.90)  2.77(0.90)
vaes256  ctr          12      16      0         -            3.00(1.00)  3.50(0.86)   -            6.00(1.00)      3.27(0.92)  3.27(0.92)
vaes256  ctr          14      16      0         -            3.50(1.00)  4.03(0.87)   -            7.00(1.00)      3.75(0.93)  3.75(0.93)
vaes256  decrypt      10      16      0         -            2.50(1.00)  2.50(1.00)   -            5.00(1.00)      2.53(0.99)  2.53(0.99)
vaes256  decrypt      10      16      8         -            3.62(0.69)  4.56(0.55)   -            5.00(1.00)      3.00(0.83)  3.00(0.83)
vaes256  decrypt      10      17      16        -            4.75(0.53)  5.31(0.47)   -            5.19(0.96)      3.38(0.74)  3.38(0.74)
vaes256  decrypt      10      32      0         -            3.33(0.75)  3.33(0.75)   -            5.00(1.00)      4.00(0.62)  4.00(0.62)
vaes256  decrypt      10      65      0         -            2.80(0.89)  2.81(0.89)   -            5.00(1.00)      3.02(0.83)  3.02(0.83)
vaes256  decrypt      14      16      0         -            3.50(1.00)  3.50(1.00)   -            7.00(1.00)      3.69(0.95)  3.69(0.95)
vaes256  decrypt      14      16      8         -            4.62(0.76)  5.53(0.63)   -            7.00(1.00)      3.84(0.91)  3.84(0.91)
vaes256  decrypt      14      17      16        -            5.62(0.62)  6.27(0.56)   -            7.06(0.99)      4.14(0.85)  4.14(0.85)
vaes256  decrypt      14      32      0         -            3.72(0.94)  3.72(0.94)   -            7.00(1.00)      4.15(0.84)  4.15(0.84)
vaes256  decrypt      14      65      0         -            3.50(1.00)  3.53(0.99)   -            7.00(1.00)      3.86(0.91)  3.86(0.91)
vaes256  ecb_decrypt  10      16      0         -            2.50(1.00)  2.50(1.00)   -            5.00(1.00)      2.75(0.91)  2.75(0.91)
vaes256  ecb_decrypt  12      16      0         -            3.00(1.00)  3.00(1.00)   -            6.00(1.00)      3.27(0.92)  3.27(0.92)
vaes256  ecb_decrypt  14      16      0         -            3.50(1.00)  3.50(1.00)   -            7.00(1.00)      3.88(0.90)  3.88(0.90)
vaes256  ecb_encrypt  10      16      0         -            2.50(1.00)  2.50(1.00)   -            5.00(1.00)      2.75(0.91)  2.75(0.91)
vaes256  ecb_encrypt  12      16      0         -            3.00(1.00)  3.00(1.00)   -            6.00(1.00)      3.27(0.92)  3.27(0.92)
vaes256  ecb_encrypt  14      16      0         -            3.50(1.00)  3.50(1.00)   -            7.00(1.00)      3.88(0.90)  3.88(0.90)
vaes256  encrypt      10      16      0         -            2.50(1.00)  2.50(1.00)   -            5.00(1.00)      2.53(0.99)  2.53(0.99)
vaes256  encrypt      10      16      8         -            3.62(0.69)  4.56(0.55)   -            5.00(1.00)      3.00(0.83)  3.00(0.83)
vaes256  encrypt      10      17      16        -            4.75(0.53)  5.31(0.47)   -            5.19(0.96)      3.38(0.74)  3.38(0.74)
vaes256  encrypt      10      32      0         -            3.31(0.76)  3.31(0.76)   -            5.00(1.00)      4.00(0.62)  4.00(0.62)
vaes256  encrypt      10      65      0         -            2.81(0.89)  2.81(0.89)   -            5.00(1.00)      3.02(0.83)  3.02(0.83)
vaes256  encrypt      14      16      0         -            3.50(1.00)  3.50(1.00)   -            7.00(1.00)      3.69(0.95)  3.69(0.95)
vaes256  encrypt      14      16      8         -            4.62(0.76)  5.53(0.63)   -            7.00(1.00)      3.84(0.91)  3.84(0.91)
vaes256  encrypt      14      17      16        -            5.62(0.62)  6.27(0.56)   -            7.06(0.99)      4.14(0.85)  4.14(0.85)
vaes256  encrypt      14      32      0         -            3.66(0.96)  3.66(0.96)   -            7.00(1.00)      4.12(0.85)  4.12(0.85)
vaes256  encrypt      14      65      0         -            3.50(1.00)  3.53(0.99)   -            7.00(1.00)      3.89(0.90)  3.89(0.90)
vaes512  cbc_decrypt  10      32      0         -            -           1.25(1.00)   -            2.50(1.00)      -           2.50(1.00)
vaes512  cbc_decrypt  12      32      0         -            -           1.50(1.00)   -            3.00(1.00)      -           3.00(1.00)
vaes512  cbc_decrypt  14      32      0         -            -           1.75(1.00)   -            3.50(1.00)      -           3.50(1.00)
vaes512  ctr          10      32      0         -            -           1.53(0.82)   -            2.50(1.00)      -           2.50(1.00)
vaes512  ctr          12      32      0         -            -           1.78(0.84)   -            3.00(1.00)      -           3.00(1.00)
vaes512  ctr          14      32      0         -            -           2.06(0.85)   -            3.50(1.00)      -           3.50(1.00)
vaes512  decrypt      10      32      0         -            -           1.25(1.00)   -            2.50(1.00)      -           2.50(1.00)
vaes512  decrypt      10      32      8         -            -           2.25(0.56)   -            2.50(1.00)      -           2.50(1.00)
vaes512  decrypt      10      33      12        -            -           2.47(0.51)   -            2.50(1.00)      -           2.50(1.00)
vaes512  decrypt      10      64      0         -            -           2.65(0.47)   -            3.22(0.78)      -           4.00(0.62)
vaes512  decrypt      14      32      0         -            -           1.75(1.00)   -            3.50(1.00)      -           3.50(1.00)
vaes512  decrypt      14      32      8         -            -           2.75(0.64)   -            3.50(1.00)      -           3.50(1.00)
vaes512  decrypt      14      33      12        -            -           2.94(0.60)   -            3.50(1.00)      -           3.50(1.00)
vaes512  decrypt      14      64      0         -            -           2.69(0.65)   -            3.50(1.00)      -           4.00(0.88)
vaes512  ecb_decrypt  10      32      0         -            -           1.25(1.00)   -            2.50(1.00)      -           2.50(1.00)
vaes512  ecb_decrypt  12      32      0         -            -           1.50(1.00)   -            3.00(1.00)      -           3.00(1.00)
vaes512  ecb_decrypt  14      32      0         -            -           1.75(1.00)   -            3.50(1.00)      -           3.50(1.00)
vaes512  ecb_encrypt  10      32      0         -            -           1.25(1.00)   -            2.50(1.00)      -           2.50(1.00)
vaes512  ecb_encrypt  12      32      0         -            -           1.50(1.00)   -            3.00(1.00)      -           3.00(1.00)
vaes512  ecb_encrypt  14      32      0         -            -           1.75(1.00)   -            3.50(1.00)      -           3.50(1.00)
vaes512  encrypt      10      32      0         -            -           1.25(1.00)   -            2.50(1.00)      -           2.50(1.00)
vaes512  encrypt      10      32      8         -            -           2.25(0.56)   -            2.50(1.00)      -           2.50(1.00)
vaes512  encrypt      10      33      12        -            -           2.47(0.51)   -            2.50(1.00)      -           2.50(1.00)
vaes512  encrypt      10      64      0         -            -           2.65(0.47)   -            3.22(0.78)      -           4.00(0.62)
vaes512  encrypt      14      32      0         -            -           1.75(1.00)   -            3.50(1.00)      -           3.50(1.00)
vaes512  encrypt      14      32      8         -            -           2.75(0.64)   -            3.50(1.00)      -           3.50(1.00)
vaes512  encrypt      14      33      12        -            -           2.94(0.60)   -            3.50(1.00)      -           3.50(1.00)
vaes512  encrypt      14      64      0         -            -           2.69(0.65)   -            3.50(1.00)      -           4.00(0.88)
",
};

/// Each CPU is modelled in two ways: as LLVM models it, with two instructions for a round of AES, and
/// with a round as one instruction, as these CPUs execute it.
pub const AARCH64: Architecture = Architecture {
    name: "aarch64",
    syntax: "",
    cpus: &[
        Cpu::new("neoverse-n1", "+aes"),
        Cpu::new("neoverse-v1", "+aes,+sha3"),
        Cpu::new("neoverse-v2", "+aes,+sha3"),
        Cpu::new("neoverse-n1", "+aes").fusing(),
        Cpu::new("neoverse-v1", "+aes,+sha3").fusing(),
        Cpu::new("neoverse-v2", "+aes,+sha3").fusing(),
    ],
    limits: "
kernel   function     rounds  stored  multiply  neoverse-n1  neoverse-v1  neoverse-v2  neoverse-n1+fuse  neoverse-v1+fuse  neoverse-v2+fuse
aesce    cbc_decrypt  10      8       0         19.25(0.99)  5.44(0.87)   5.56(0.85)   10.25(0.98)       3.19(0.78)        3.31(0.75)
aesce    cbc_decrypt  12      8       0         23.25(0.99)  6.44(0.89)   6.56(0.88)   12.25(0.98)       3.69(0.81)        3.81(0.79)
aesce    cbc_decrypt  14      8       0         27.25(0.99)  7.44(0.91)   7.56(0.89)   14.25(0.98)       4.19(0.84)        4.31(0.81)
aesce    ctr          10      8       0         19.38(0.98)  6.28(0.76)   6.41(0.74)   10.50(0.95)       4.03(0.62)        4.16(0.60)
aesce    ctr          12      8       0         23.12(0.99)  7.38(0.78)   7.50(0.77)   12.38(0.97)       4.62(0.65)        4.75(0.63)
aesce    ctr          14      8       0         27.25(0.99)  8.33(0.81)   8.48(0.80)   14.50(0.97)       5.09(0.69)        5.22(0.67)
aesce    decrypt      10      8       0         19.25(0.99)  5.38(0.88)   5.49(0.87)   10.25(0.98)       3.12(0.80)        3.25(0.77)
aesce    decrypt      10      8       8         21.00(0.90)  6.88(0.69)   7.00(0.68)   12.00(0.83)       4.62(0.54)        4.75(0.53)
aesce    decrypt      10      16      0         19.50(0.97)  5.75(0.83)   6.00(0.79)   10.50(0.95)       3.50(0.71)        3.75(0.67)
aesce    decrypt      10      24      8         19.50(0.97)  5.38(0.88)   5.50(0.86)   10.50(0.95)       3.12(0.80)        3.25(0.77)
aesce    decrypt      14      8       0         27.25(0.99)  7.50(0.90)   7.75(0.87)   14.25(0.98)       4.31(0.81)        4.44(0.79)
aesce    decrypt      14      8       8         29.00(0.93)  8.88(0.76)   9.00(0.75)   16.00(0.88)       5.62(0.62)        5.75(0.61)
aesce    decrypt      14      16      0         27.50(0.98)  7.75(0.87)   8.00(0.84)   14.50(0.97)       4.50(0.78)        4.75(0.74)
aesce    decrypt      14      24      8         27.50(0.98)  7.38(0.92)   7.50(0.90)   14.50(0.97)       4.12(0.85)        4.25(0.82)
aesce    ecb_decrypt  10      8       0         19.50(0.97)  5.16(0.92)   5.29(0.90)   10.50(0.95)       2.94(0.85)        3.06(0.82)
aesce    ecb_decrypt  12      8       0         23.50(0.98)  6.25(0.92)   6.29(0.91)   12.50(0.96)       3.44(0.87)        3.56(0.84)
aesce    ecb_decrypt  14      8       0         27.50(0.98)  7.25(0.93)   7.36(0.92)   14.50(0.97)       3.94(0.89)        4.06(0.86)
aesce    ecb_encrypt  10      8       0         19.50(0.97)  5.16(0.92)   5.29(0.90)   10.50(0.95)       2.94(0.85)        3.06(0.82)
aesce    ecb_encrypt  12      8       0         23.50(0.98)  6.25(0.92)   6.29(0.91)   12.50(0.96)       3.44(0.87)        3.56(0.84)
aesce    ecb_encrypt  14      8       0         27.50(0.98)  7.25(0.93)   7.36(0.92)   14.50(0.97)       3.94(0.89)        4.06(0.86)
aesce    encrypt      10      8       0         19.25(0.99)  5.38(0.88)   5.49(0.87)   10.25(0.98)       3.12(0.80)        3.25(0.77)
aesce    encrypt      10      8       8         21.00(0.90)  6.88(0.69)   7.00(0.68)   12.00(0.83)       4.62(0.54)        4.75(0.53)
aesce    encrypt      10      16      0         19.50(0.97)  5.75(0.83)   6.00(0.79)   10.50(0.95)       3.50(0.71)        3.75(0.67)
aesce    encrypt      10      24      8         19.50(0.97)  5.38(0.88)   5.50(0.86)   10.50(0.95)       3.12(0.80)        3.25(0.77)
aesce    encrypt      14      8       0         27.25(0.99)  7.50(0.90)   7.75(0.87)   14.25(0.98)       4.31(0.81)        4.44(0.79)
aesce    encrypt      14      8       8         29.00(0.93)  8.88(0.76)   9.00(0.75)   16.00(0.88)       5.62(0.62)        5.75(0.61)
aesce    encrypt      14      16      0         27.50(0.98)  7.75(0.87)   8.00(0.84)   14.50(0.97)       4.50(0.78)        4.75(0.74)
aesce    encrypt      14      24      8         27.50(0.98)  7.38(0.92)   7.50(0.90)   14.50(0.97)       4.12(0.85)        4.25(0.82)
aeseor3  cbc_decrypt  10      8       0         -            5.51(0.86)   5.67(0.84)   -                 3.22(0.78)        3.29(0.76)
aeseor3  cbc_decrypt  12      8       0         -            6.51(0.88)   6.73(0.85)   -                 3.75(0.80)        3.82(0.78)
aeseor3  cbc_decrypt  14      8       0         -            7.51(0.90)   7.76(0.87)   -                 4.24(0.83)        4.35(0.80)
aeseor3  ctr          10      8       0         -            6.06(0.78)   6.19(0.77)   -                 3.81(0.66)        3.94(0.63)
aeseor3  ctr          12      8       0         -            7.06(0.81)   7.22(0.80)   -                 4.31(0.70)        4.47(0.67)
aeseor3  ctr          14      8       0         -            8.06(0.84)   8.19(0.82)   -                 4.81(0.73)        4.94(0.71)
aeseor3  decrypt      10      8       0         -            5.41(0.88)   5.49(0.87)   -                 3.15(0.79)        3.25(0.77)
aeseor3  decrypt      10      8       8         -            6.69(0.71)   6.78(0.70)   -                 4.44(0.56)        4.53(0.55)
aeseor3  decrypt      10      16      0         -            5.50(0.86)   5.75(0.83)   -                 3.25(0.77)        3.50(0.71)
aeseor3  decrypt      10      24      8         -            5.17(0.92)   5.25(0.90)   -                 2.93(0.85)        3.00(0.83)
aeseor3  decrypt      14      8       0         -            7.50(0.90)   7.75(0.87)   -                 4.31(0.81)        4.44(0.79)
aeseor3  decrypt      14      8       8         -            8.69(0.78)   8.78(0.77)   -                 5.44(0.64)        5.53(0.63)
aeseor3  decrypt      14      16      0         -            7.50(0.90)   7.75(0.87)   -                 4.25(0.82)        4.50(0.78)
aeseor3  decrypt      14      24      8         -            7.16(0.94)   7.26(0.93)   -                 3.91(0.90)        4.00(0.88)
aeseor3  ecb_decrypt  10      8       0         -            5.16(0.92)   5.29(0.90)   -                 2.94(0.85)        3.06(0.82)
aeseor3  ecb_decrypt  12      8       0         -            6.25(0.92)   6.29(0.91)   -                 3.44(0.87)        3.56(0.84)
aeseor3  ecb_decrypt  14      8       0         -            7.25(0.93)   7.36(0.92)   -                 3.94(0.89)        4.06(0.86)
aeseor3  ecb_encrypt  10      8       0         -            5.16(0.92)   5.29(0.90)   -                 2.94(0.85)        3.06(0.82)
aeseor3  ecb_encrypt  12      8       0         -            6.25(0.92)   6.29(0.91)   -                 3.44(0.87)        3.56(0.84)
aeseor3  ecb_encrypt  14      8       0         -            7.25(0.93)   7.36(0.92)   -                 3.94(0.89)        4.06(0.86)
aeseor3  encrypt      10      8       0         -            5.38(0.88)   5.49(0.87)   -                 3.12(0.80)        3.25(0.77)
aeseor3  encrypt      10      8       8         -            6.69(0.71)   6.78(0.70)   -                 4.44(0.56)        4.53(0.55)
aeseor3  encrypt      10      16      0         -            5.53(0.86)   5.75(0.83)   -                 3.28(0.76)        3.50(0.71)
aeseor3  encrypt      10      24      8         -            5.14(0.92)   5.25(0.90)   -                 2.94(0.85)        3.00(0.83)
aeseor3  encrypt      14      8       0         -            7.50(0.90)   7.75(0.87)   -                 4.31(0.81)        4.44(0.79)
aeseor3  encrypt      14      8       8         -            8.69(0.78)   8.78(0.77)   -                 5.44(0.64)        5.53(0.63)
aeseor3  encrypt      14      16      0         -            7.53(0.90)   7.75(0.87)   -                 4.28(0.82)        4.50(0.78)
aeseor3  encrypt      14      24      8         -            7.12(0.95)   7.26(0.93)   -                 3.88(0.90)        4.00(0.88)
",
};

/// The model is exact for the same instructions. A small change elsewhere in a function may make
/// the compiler order them differently.
const SLACK: Slack = Slack {
    few: 0.0,
    more: 3.0,
};

/// The number of columns that identify a row.
const KIND: usize = 5;

/// What a CPU takes for a block of a loop.
#[derive(Clone, Copy)]
struct Cycles {
    all: f64,
    /// What the AES instructions would take alone.
    aes: f64,
}

/// The row of the loops that do the same: the most that one of them takes on each CPU, in the order
/// of the columns. `None` stands for a CPU that lacks the instructions.
type Rows<'a> = BTreeMap<Kind<'a>, Vec<Option<Cycles>>>;

/// Models the kernels among a program's functions, and compares the results with the limits.
/// `folder` is for the input of `llvm-mca`.
pub fn check(
    functions: &[Function<'_>],
    architecture: &Architecture,
    folder: &Path,
) -> Result<String, String> {
    let mut loops = Vec::new();
    for function in functions {
        if let Some((kernel, name)) = entry(function.name)
            && main_loops::has_some(name)
        {
            loops.extend(main_loops::find(function, kernel, name)?);
        }
    }
    let rows = model(&loops, architecture, folder)?;
    let words: Vec<Vec<String>> = rows.iter().map(|(kind, row)| words(kind, row)).collect();
    table::print(table::head(architecture.limits), &words);
    let (wrong, lower) = compare(&rows, architecture);
    let cpus = architecture.cpus.len();
    let done = format!("{} loops on {cpus} CPUs", loops.len());
    verdict(&done, &wrong, lower, file!())
}

/// Models all CPUs side by side.
fn model<'a>(
    loops: &[MainLoop<'a, '_>],
    architecture: &Architecture,
    folder: &Path,
) -> Result<Rows<'a>, String> {
    let results: Vec<_> = thread::scope(|scope| {
        let on_cpu = |cpu: &'static Cpu| {
            let loops = loops.iter().filter(|l| cpu.can_run(l.kind.kernel));
            let loops: Vec<_> = loops.collect();
            scope.spawn(move || (cycles(cpu, &loops, architecture, folder), cpu::time()))
        };
        let running: Vec<_> = architecture.cpus.iter().map(on_cpu).collect();
        let results = running.into_iter().map(|model| {
            let (result, time) = model.join().expect("no model panics");
            cpu::add(time);
            result
        });
        results.collect()
    });
    let mut rows = Rows::new();
    for (column, result) in results.into_iter().enumerate() {
        for (kind, found) in result? {
            let row = rows.entry(kind);
            let row = row.or_insert_with(|| vec![None; architecture.cpus.len()]);
            let most = row[column].get_or_insert(found);
            if found.all > most.all {
                *most = found;
            }
        }
    }
    Ok(rows)
}

/// Runs `llvm-mca` for one CPU.
fn cycles<'a>(
    cpu: &Cpu,
    loops: &[&MainLoop<'a, '_>],
    architecture: &Architecture,
    folder: &Path,
) -> Result<Vec<(Kind<'a>, Cycles)>, String> {
    let run = |is_only_aes: bool, passes: u32| {
        let input = folder.join(format!("loops-{}.s", cpu.column()));
        fs::write(&input, assembly(loops, is_only_aes, architecture, cpu))
            .map_err(|e| format!("{}: {e}", input.display()))?;
        let mut llvm_mca = command(LLVM_MCA);
        llvm_mca
            .arg(format!("-mtriple={}", architecture.name))
            .arg(format!("-mcpu={}", cpu.name))
            .arg(format!("-mattr={}", cpu.features))
            .arg(format!("-iterations={passes}"))
            .args(["-instruction-info=0", "-resource-pressure=0"])
            .arg(&input);
        let summaries = summaries(&process::output(&mut llvm_mca)?);
        if summaries.len() != loops.len() {
            let line = process::line(&llvm_mca);
            return Err(format!("{line}: no results for {} loops", loops.len()));
        }
        Ok(summaries)
    };
    // The whole loops come last, so that their file remains.
    let aes = run(true, 1)?;
    let [few, many] = PASSES.map(|passes| run(false, passes));
    let (few, many) = (few?, many?);
    let cycles = loops.iter().zip(few.iter().zip(&many).zip(&aes));
    let cycles = cycles.map(|(one, ((few, many), aes))| {
        let blocks = f64::from(one.number_of(What::Blocks).most);
        let all = (many.cycles - few.cycles) / f64::from(PASSES[1] - PASSES[0]) / blocks;
        // AES instructions of different blocks do not wait for each other.
        let aes = aes.throughput / blocks;
        (one.kind, Cycles { all, aes })
    });
    Ok(cycles.collect())
}

/// Returns the source of a region for each loop, with all its instructions or only those of AES.
fn assembly(
    loops: &[&MainLoop<'_, '_>],
    is_only_aes: bool,
    architecture: &Architecture,
    cpu: &Cpu,
) -> String {
    let is_modelled = |i: &&&Instruction<'_>| {
        if i.mixes_columns() {
            !cpu.fuses
        } else {
            !is_only_aes || i.is_aes()
        }
    };
    let mut lines = vec![architecture.syntax.to_owned()];
    for one in loops {
        lines.push(format!("# LLVM-MCA-BEGIN {}", one.kind));
        let code = one.shortest.iter().filter(is_modelled);
        lines.extend(code.map(|i| line(i)));
        lines.push("# LLVM-MCA-END".to_owned());
    }
    lines.join("\n") + "\n"
}

/// Returns an instruction as source. A store around the caches becomes a common store, which uses
/// the same ports: some models give it the latency of memory, and then such stores fill the reorder
/// buffer, and the loop waits for nothing else.
fn line(instruction: &Instruction<'_>) -> String {
    let Instruction {
        mnemonic, operands, ..
    } = instruction;
    if instruction.is_jump() {
        return format!("{mnemonic} {}elsewhere", instruction.jump_operands().0);
    }
    let operands = operands.split("# ").next().unwrap_or_default();
    let mnemonic = match *mnemonic {
        "movntdq" | "movntps" => "movaps",
        "vmovntdq" | "vmovntps" => "vmovaps",
        other => other,
    };
    format!("{mnemonic} {operands}")
}

/// What `llvm-mca` says about a region.
struct Summary {
    cycles: f64,
    /// The cycles of a pass if no instruction waited for another.
    throughput: f64,
}

/// Reads the output of `llvm-mca`.
fn summaries(output: &str) -> Vec<Summary> {
    let values = |name: &str| -> Vec<f64> {
        let lines = output.lines().filter_map(|line| line.strip_prefix(name));
        lines
            .filter_map(|value| value.trim().parse().ok())
            .collect()
    };
    let pairs = values("Total Cycles:").into_iter();
    let pairs = pairs.zip(values("Block RThroughput:"));
    pairs
        .map(|(cycles, throughput)| Summary { cycles, throughput })
        .collect()
}

fn words(kind: &Kind<'_>, row: &[Option<Cycles>]) -> Vec<String> {
    let cell = |cycles: &Option<Cycles>| match cycles {
        Some(Cycles { all, aes }) => format!("{all:.2}({:.2})", aes / all),
        None => "-".to_owned(),
    };
    let kind = kind.words().into_iter();
    kind.chain(row.iter().map(cell)).collect()
}

/// Returns what is wrong, and how many rows of limits could be lower.
fn compare(rows: &Rows<'_>, architecture: &Architecture) -> (Vec<String>, usize) {
    let mut wrong = Vec::new();
    let mut lower = 0;
    let limits = table::rows_as_wide_as_head(architecture.limits);
    for (kind, row) in rows {
        let Some(limits) = limits.iter().find(|limit| limit[..KIND] == kind.words()) else {
            wrong.push(format!("{kind}: no limit is defined"));
            continue;
        };
        let mut is_far_below = false;
        for ((cpu, found), limit) in architecture.cpus.iter().zip(row).zip(&limits[KIND..]) {
            let Some(found) = found else { continue };
            let limit: f64 = table::number(limit.split('(').next().unwrap_or_default());
            if SLACK.is_too_much(found.all, limit) {
                wrong.push(format!(
                    "{kind}: {:.2} cycles per block on {}, but the limit is {limit} plus {} %",
                    found.all,
                    cpu.column(),
                    SLACK.more
                ));
            }
            is_far_below |= SLACK.is_far_below(found.all, limit);
        }
        lower += usize::from(is_far_below);
    }
    for limit in &limits {
        let kind = &limit[..KIND];
        if !rows.keys().any(|found| kind == found.words()) {
            wrong.push(format!("{}: not in the program", kind.join(" ")));
        }
    }
    (wrong, lower)
}

#[cfg(test)]
mod tests {
    use super::{super::disassembly, *};

    /// Two CPUs, of which one can run both kernels.
    const ARCHITECTURE: Architecture = Architecture {
        name: "x86_64",
        syntax: ".intel_syntax noprefix",
        cpus: &[Cpu::new("old", "+aes"), Cpu::new("new", "+aes,+avx512bw")],
        limits: "
kernel   function  rounds  stored  multiply  old         new
aesni    encrypt   14      16      0         9.00(0.78)  8.00(0.88)
vaes512  encrypt   14      32      8         -           3.50(1.00)
",
    };

    const LOOPS: [Kind<'static>; 2] = [kind("aesni", 16, 0), kind("vaes512", 32, 8)];

    const fn kind(kernel: &'static str, stored: u32, multiply: u32) -> Kind<'static> {
        Kind {
            kernel,
            function: "encrypt",
            rounds: 14,
            stored,
            multiply,
        }
    }

    fn rows(aesni: [f64; 2], vaes512: f64) -> Rows<'static> {
        let cycles = |all| Some(Cycles { all, aes: 3.5 });
        let rows = [aesni.map(cycles).to_vec(), vec![None, cycles(vaes512)]];
        LOOPS.into_iter().zip(rows).collect()
    }

    #[test]
    fn slower_loops_fail_and_faster_ones_are_reported() {
        let result = |aesni, vaes512| compare(&rows(aesni, vaes512), &ARCHITECTURE);
        assert_eq!(result([9.2, 8.0], 3.5), (vec![], 0));
        assert_eq!(result([9.0, 8.0], 3.0), (vec![], 1));
        let slow = "aesni encrypt, 14 rounds, loops with 16 blocks stored and 0 multiplications: \
                    8.50 cycles per block on new, but the limit is 8 plus 3 %";
        assert_eq!(result([9.0, 8.5], 3.5), (vec![slow.to_owned()], 0));
    }

    #[test]
    fn loops_and_limits_belong_together() {
        let mut rows = rows([9.0, 8.0], 3.5);
        rows.remove(&LOOPS[0]);
        rows.insert(kind("aesni", 8, 8), vec![None; 2]);
        let loops = "aesni encrypt, 14 rounds, loops with 8 blocks stored and 8 multiplications";
        assert_eq!(
            compare(&rows, &ARCHITECTURE).0,
            [
                format!("{loops}: no limit is defined"),
                "aesni encrypt 14 16 0: not in the program".to_owned()
            ]
        );
    }

    #[test]
    fn a_cpu_runs_the_kernels_whose_instructions_it_has() {
        let run_by = |architecture: &Architecture, name: &str| -> Vec<&str> {
            let cpu = architecture.cpus.iter().find(|cpu| cpu.name == name);
            let mut kernels = vec!["aesni", "vaes256", "vaes512"];
            if architecture.name == "aarch64" {
                kernels = vec!["aesce", "aeseor3"];
            }
            kernels.retain(|kernel| cpu.unwrap().can_run(kernel));
            kernels
        };
        assert_eq!(run_by(&AARCH64, "neoverse-n1"), ["aesce"]);
        assert_eq!(run_by(&AARCH64, "neoverse-v1"), ["aesce", "aeseor3"]);
        assert_eq!(run_by(&X86_64, "skylake"), ["aesni"]);
        assert_eq!(run_by(&X86_64, "alderlake"), ["aesni", "vaes256"]);
    }

    #[test]
    fn a_row_is_printed_as_in_the_table() {
        let rows = rows([9.0, 8.0], 3.5);
        let printed = words(&LOOPS[1], &rows[&LOOPS[1]]);
        assert_eq!(printed, table::rows_as_wide_as_head(ARCHITECTURE.limits)[1]);
    }

    #[test]
    fn instructions_become_source() {
        let code = "\
0000000000001000 <f>:
    1000:\tvpxor  ymm1,ymm2,YMMWORD PTR [rip+0x1234]        # 6000 <anon.0>
    1008:\tvmovntdq YMMWORD PTR [rsi],ymm1
    100c:\tjne    1000 <f>
    1010:\teor\tx1, x2, x3, lsl #1
    1014:\ttbz\tw9, #3, 1000 <f>
    1018:\tb.ls\t1000 <f>  // b.plast
";
        let functions = disassembly::functions(code, "");
        let lines: Vec<_> = functions[0].code.iter().map(line).collect();
        let lines: Vec<_> = lines.iter().map(|line| line.trim_end()).collect();
        assert_eq!(
            lines,
            [
                "vpxor ymm1,ymm2,YMMWORD PTR [rip+0x1234]",
                "vmovaps YMMWORD PTR [rsi],ymm1",
                "jne elsewhere",
                "eor x1, x2, x3, lsl #1",
                "tbz w9, #3, elsewhere",
                "b.ls elsewhere"
            ]
        );
    }

    #[test]
    fn summaries_are_read() {
        let output = "\
[0] Code Region - a

Iterations:        16
Total Cycles:      940
Block RThroughput: 56.0

[1] Code Region - b

Total Cycles:      90
Block RThroughput: 5.5
";
        let found = summaries(output);
        let found: Vec<_> = found.iter().map(|s| (s.cycles, s.throughput)).collect();
        assert_eq!(found, [(940.0, 56.0), (90.0, 5.5)]);
    }
}
