// SPDX-License-Identifier: MIT OR Apache-2.0
//! The one list of the CPU kernels. Everything that must know all of them is made from it: the
//! detection of their instructions, the registry, the tests of the conformance suite, the limits
//! of `bench` and the guard of the machine code. It uses nothing of the engine, so that `xtask`,
//! which does not depend on the engine, can include this file.

/// Calls the macro `$with` with its arguments and the kernels, for each architecture the fastest
/// first: the architecture, the name, the token that proves the instructions (`detect.rs`), the
/// blocks in a register, what is special in it, and the features that the token stands for, by
/// Rust's names and in the order in which they are looked for. `portable`, which needs nothing, is
/// not in the list.
#[doc(hidden)]
#[macro_export]
macro_rules! cpu_kernels {
    ($with:ident($($argument:tt)*)) => {
        $with! {
            ($($argument)*)

            x86_64 vaes512 {
                Vaes512, 4, "VAES and VPCLMULQDQ in zmm registers",
                ["aes" "pclmulqdq" "sse4.1" "avx2" "vaes" "vpclmulqdq" "avx512f" "avx512bw" "avx512vl"]
            }
            x86_64 vaes256 {
                Vaes256, 2, "VAES and VPCLMULQDQ in ymm registers",
                ["aes" "pclmulqdq" "sse4.1" "avx2" "vaes" "vpclmulqdq"]
            }
            x86_64 aesni {
                AesNi, 1, "AES-NI and PCLMULQDQ in xmm registers, no AVX needed",
                ["aes" "pclmulqdq" "sse4.1"]
            }

            aarch64 aeseor3 {
                AesEor3, 1, "ARMv8 AES, and EOR3 of the SHA-3 instructions",
                ["aes" "pmull" "sha3"]
            }
            aarch64 aesce {
                AesCe, 1, "ARMv8 AES",
                ["aes" "pmull"]
            }
        }
    };
}

/// A CPU kernel.
#[derive(Clone, Copy, Debug)]
pub struct CpuKernel {
    /// The name with which a user forces it.
    pub name: &'static str,
    /// The architecture, by Rust's name (`target_arch`).
    pub architecture: &'static str,
    /// The blocks in a register.
    pub blocks: u32,
    /// The CPU features that it needs, by Rust's names.
    pub features: &'static [&'static str],
}

macro_rules! listed {
    (
        ()
        $($architecture:ident $name:ident {
            $token:ident, $blocks:literal, $words:tt, [$($feature:tt)+]
        })+
    ) => {
        /// The CPU kernels that need special instructions, for each architecture the fastest first:
        ///
        /// | name | architecture | instructions | needs |
        /// |---|---|---|---|
        $(#[doc = concat!(
            "| `", stringify!($name), "` | `", stringify!($architecture), "` | ", $words, " | ",
            $($feature, " ",)+ "|"
        )])+
        pub const CPU_KERNELS: &[CpuKernel] = &[$(CpuKernel {
            name: stringify!($name),
            architecture: stringify!($architecture),
            blocks: $blocks,
            features: &[$($feature),+],
        }),+];
    };
}
cpu_kernels!(listed());
