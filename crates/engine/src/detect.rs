// SPDX-License-Identifier: MIT OR Apache-2.0
//! The only module that looks at CPU features to choose a kernel.
//!
//! A token proves that the CPU has the instructions of one kernel. Only this module makes tokens,
//! and a kernel can be made only with its token, so safe code never reaches an instruction that the
//! CPU lacks.

#[cfg(all(
    target_arch = "aarch64",
    target_endian = "little",
    target_feature = "neon"
))]
pub(crate) use aarch64::{AesCe, AesEor3};
#[cfg(target_arch = "x86_64")]
pub(crate) use x86::{AesNi, Vaes256, Vaes512};

/// Defines a token that proves that the CPU has all of the features.
#[cfg(any(
    all(
        target_arch = "aarch64",
        target_endian = "little",
        target_feature = "neon"
    ),
    target_arch = "x86_64"
))]
macro_rules! token {
    ($(#[$doc:meta])* $name:ident: $($feature:tt),+) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub(crate) struct $name(());

        impl $name {
            /// Returns the token, or names the first missing feature.
            pub(crate) fn detect() -> Result<Self, crate::registry::Unavailable> {
                $(if !has!($feature) {
                    return Err(crate::registry::Unavailable::Cpu { missing: $feature });
                })+
                Ok(Self(()))
            }
        }
    };
}

// The kernels read and write vectors as little-endian, and so they are not for the big-endian variant
// of the architecture; nor for the targets that have no vector registers at all.
#[cfg(all(
    target_arch = "aarch64",
    target_endian = "little",
    target_feature = "neon"
))]
mod aarch64 {
    /// Checks a feature at run time with `std`, and otherwise at compile time.
    #[cfg(feature = "std")]
    macro_rules! has {
        ($feature:tt) => {
            std::arch::is_aarch64_feature_detected!($feature)
        };
    }
    #[cfg(not(feature = "std"))]
    macro_rules! has {
        // The compiler's `aes` includes it.
        ("pmull") => {
            cfg!(target_feature = "aes")
        };
        ($feature:tt) => {
            cfg!(target_feature = $feature)
        };
    }

    token! {
        /// AES and carry-less multiplication.
        AesCe: "aes", "pmull"
    }
    token! {
        /// The same, and EOR3.
        AesEor3: "aes", "pmull", "sha3"
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    /// Checks a feature at run time with `std`, and otherwise at compile time.
    #[cfg(feature = "std")]
    macro_rules! has {
        ($feature:tt) => {
            std::arch::is_x86_feature_detected!($feature)
        };
    }
    #[cfg(not(feature = "std"))]
    macro_rules! has {
        ($feature:tt) => {
            cfg!(target_feature = $feature)
        };
    }

    token! {
        /// AES and carry-less multiplication in 128-bit registers.
        AesNi: "aes", "pclmulqdq", "sse4.1"
    }
    token! {
        /// The same in 256-bit registers.
        Vaes256: "aes", "pclmulqdq", "sse4.1", "avx2", "vaes", "vpclmulqdq"
    }
    token! {
        /// The same in 512-bit registers.
        Vaes512: "aes", "pclmulqdq", "sse4.1", "avx2", "vaes", "vpclmulqdq", "avx512f", "avx512bw", "avx512vl"
    }
}
