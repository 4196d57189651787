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

/// Whether the CPU is one of AMD's Zen 5 (family 26), whose caches want other prefetches.
#[cfg(target_arch = "x86_64")]
pub(crate) fn is_zen5() -> bool {
    use core::{
        arch::x86_64::__cpuid,
        sync::atomic::{AtomicU8, Ordering},
    };

    /// 0 before the first call: the instruction takes microseconds in a virtual machine.
    static FOUND: AtomicU8 = AtomicU8::new(0);

    match FOUND.load(Ordering::Relaxed) {
        // Miri has no such instruction.
        0 if !cfg!(miri) => {
            let (vendor, version) = (__cpuid(0), __cpuid(1).eax);
            let family = (version >> 8 & 0xf) + (version >> 20 & 0xff);
            // "AuthenticAMD"
            let is_amd = [vendor.ebx, vendor.edx, vendor.ecx]
                == [b"Auth", b"enti", b"cAMD"].map(|text| u32::from_le_bytes(*text));
            let found = is_amd && family == 26;
            FOUND.store(1 + u8::from(found), Ordering::Relaxed);
            found
        }
        found => found == 2,
    }
}
