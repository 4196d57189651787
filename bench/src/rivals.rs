// SPDX-License-Identifier: MIT OR Apache-2.0
//! Other implementations of the same modes, used in the fastest way they offer.

mod ctr_crate;
#[cfg(feature = "rivals")]
mod evp;

use luxor_engine::{Direction, Mode};
use serde::{Deserialize, Serialize};

use crate::cipher::{Cipher, Stream};

/// Another implementation.
pub(crate) trait Rival {
    /// Describes the rival.
    fn about(&self) -> &About;

    /// Returns its cipher for a key, or `None` if it does not have this mode.
    fn cipher(
        &self,
        mode: Mode,
        direction: Direction,
        key: &[u8],
    ) -> Option<Result<Box<dyn Cipher>, String>>;

    /// Returns a message in AES-256-OFB with the big-endian IV `iv`, or `None` if the rival does
    /// not have this mode.
    ///
    /// # Panics
    /// If the key does not have 32 bytes.
    fn ofb(&self, key: &[u8], iv: u64) -> Option<Result<Box<dyn Stream>, String>> {
        let _ = (key, iv);
        None
    }
}

/// The description of a rival.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct About {
    pub(crate) name: String,
    /// The version that the library reports.
    pub(crate) version: String,
    /// The code path on this machine, and how it is known.
    pub(crate) path: String,
    /// Whether that code uses AES instructions.
    #[serde(skip)]
    pub(crate) hardware: bool,
}

/// Returns all rivals that this program was built with.
pub(crate) fn all() -> Vec<Box<dyn Rival>> {
    vec![
        #[cfg(feature = "rivals")]
        Box::new(evp::OpenSsl::new()),
        #[cfg(feature = "rivals")]
        Box::new(evp::AwsLc::new()),
        Box::new(ctr_crate::CtrCrate::new()),
    ]
}

/// Returns the page's words if no rival took part. The page may be made from another program's
/// JSON.
pub(crate) fn absent(any: bool) -> Option<String> {
    let why = "other libraries: the program was built without one that has this mode; `cargo xtask \
               bench` builds it with OpenSSL and AWS-LC";
    (!any).then(|| why.to_owned())
}

/// The words about rivals that are not included.
pub(crate) const MISSING: Option<&str> = if cfg!(feature = "rivals") {
    None
} else {
    Some(
        "this program was built without OpenSSL and AWS-LC; `cargo xtask bench` builds it with them",
    )
};

/// Returns whether OpenSSL runs XTS with VAES on zmm registers, judging by its report on the CPU:
/// `OPENSSL_ia32cap=0x…:0x…:…`, masked words of 64 bits. The condition is that of OpenSSL's
/// `aesni_xts_avx512_eligible`: in the second word, bits 16, 17, 30 and 31 (AVX512F, DQ, BW, VL),
/// and bits 32 + 6, 9 and 10 (VBMI2, VAES, VPCLMULQDQ).
#[cfg(any(feature = "rivals", test))]
fn wide_xts(cpu_info: &str) -> bool {
    const NEEDED: u64 = 0xc003_0000 | 0x640 << 32;
    let words = cpu_info
        .split_once("OPENSSL_ia32cap=")
        .map(|(_, words)| words);
    words
        .and_then(|words| words.split(':').nth(1))
        .and_then(|word| u64::from_str_radix(word.trim().strip_prefix("0x")?, 16).ok())
        .is_some_and(|word| word & NEEDED == NEEDED)
}

/// Returns whether AWS-LC does the same, and why. It does not report what it found, but its
/// `avx512_xts_available` checks for the same features.
#[cfg(feature = "rivals")]
fn wide_cpu() -> (bool, String) {
    #[cfg(target_arch = "x86_64")]
    {
        let mut missing = Vec::new();
        macro_rules! ask {
            ($($feature:tt)*) => {
                $(if !std::arch::is_x86_feature_detected!($feature) {
                    missing.push($feature);
                })*
            };
        }
        ask!("avx512f" "avx512dq" "avx512bw" "avx512vl" "avx512vbmi2" "vaes" "vpclmulqdq");
        if missing.is_empty() {
            (
                true,
                "the CPU has AVX512F, DQ, BW, VL, VBMI2, VAES and VPCLMULQDQ".into(),
            )
        } else {
            (false, format!("the CPU has no {}", missing.join(", ")))
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    (false, "the CPU is not an x86-64 one".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_path_follows_from_the_cpu_word() {
        let info =
            |word: &str| format!("CPUINFO: OPENSSL_ia32cap=0xfffa32034f8bffff:{word}:0x0:0x0");
        assert!(wide_xts(&info("0x00405f46f1bf07ab")));
        // First without VAES (bit 41), then without AVX512VL (bit 31).
        assert!(!wide_xts(&info("0x00405d46f1bf07ab")));
        assert!(!wide_xts(&info("0x00405f4671bf07ab")));
        assert!(!wide_xts("CPUINFO: N/A"));
    }
}
