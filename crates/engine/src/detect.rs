// SPDX-License-Identifier: MIT OR Apache-2.0
//! The only module that looks at CPU features to choose a kernel.
//!
//! A token proves that the CPU has the instructions of one kernel. Only this module makes tokens,
//! and a kernel can be made only with its token, so safe code never reaches an instruction that the
//! CPU lacks.

/// Defines the tokens of the kernels in the catalogue that are for the program's architecture.
macro_rules! tokens {
    (
        ()
        $($architecture:ident $name:ident {
            $token:ident, $blocks:literal, $words:tt, [$($feature:tt)+]
        })+
    ) => {
        $(tokens!(@$architecture $token, $words, [$($feature)+]);)+
    };
    (@x86_64 $($kernel:tt)+) => {
        #[cfg(target_arch = "x86_64")]
        tokens!(@token is_x86_feature_detected, $($kernel)+);
    };
    // The kernels read and write vectors as little-endian, and so they are not for the big-endian
    // variant of the architecture; nor for the targets that have no vector registers at all.
    (@aarch64 $($kernel:tt)+) => {
        #[cfg(all(
            target_arch = "aarch64",
            target_endian = "little",
            target_feature = "neon"
        ))]
        tokens!(@token is_aarch64_feature_detected, $($kernel)+);
    };
    (@token $is_detected:ident, $token:ident, $words:tt, [$($feature:tt)+]) => {
        #[doc = concat!($words, ".")]
        #[derive(Clone, Copy, Debug)]
        pub(crate) struct $token(());

        impl $token {
            /// Returns the token, or names the first missing feature. Checks at run time with
            /// `std`, and otherwise at compile time.
            pub(crate) fn detect() -> Result<Self, crate::registry::Unavailable> {
                $(
                    #[cfg(feature = "std")]
                    let has = std::arch::$is_detected!($feature);
                    #[cfg(not(feature = "std"))]
                    let has = tokens!(@is_enabled $feature);
                    if !has {
                        return Err(crate::registry::Unavailable::Cpu { missing: $feature });
                    }
                )+
                Ok(Self(()))
            }
        }
    };
    // The compiler's `aes` includes it.
    (@is_enabled "pmull") => {
        cfg!(target_feature = "aes")
    };
    (@is_enabled $feature:tt) => {
        cfg!(target_feature = $feature)
    };
}

crate::cpu_kernels!(tokens());
