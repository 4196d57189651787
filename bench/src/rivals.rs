// SPDX-License-Identifier: MIT OR Apache-2.0
//! Other implementations of the same modes, used in the fastest way they offer.

mod ctr_crate;
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

/// Returns all rivals: those that this program was built with, or else the system's OpenSSL.
pub(crate) fn all() -> Vec<Box<dyn Rival>> {
    #[cfg(feature = "rivals")]
    let libraries = [evp::Evp::openssl(), evp::Evp::aws_lc()];
    #[cfg(not(feature = "rivals"))]
    let libraries = evp::Evp::of_the_system();
    let libraries = libraries.into_iter().map(|rival| Box::new(rival) as _);
    libraries
        .chain([Box::new(ctr_crate::CtrCrate::new()) as _])
        .collect()
}

/// Returns the page's words if no rival took part. The page may be made from another program's
/// JSON.
pub(crate) fn absent(any: bool) -> Option<String> {
    let why = "other libraries: none that has this mode was there; `cargo xtask bench` builds the \
               program with OpenSSL and AWS-LC";
    (!any).then(|| why.to_owned())
}

/// The words about rivals that are not included.
pub(crate) const MISSING: Option<&str> = if cfg!(feature = "rivals") {
    None
} else {
    Some(
        "this program takes OpenSSL from the system, if it is there; `cargo xtask bench` builds the \
         newest OpenSSL and AWS-LC",
    )
};

/// Returns whether OpenSSL runs XTS with VAES on zmm registers, and why. It does so since version 3.5,
/// judging by its report on the CPU: `OPENSSL_ia32cap=0x…:0x…:…`, masked words of 64 bits. The condition
/// is that of OpenSSL's `aesni_xts_avx512_eligible`: in the second word, bits 16, 17, 30 and 31
/// (AVX512F, DQ, BW, VL), and bits 32 + 6, 9 and 10 (VBMI2, VAES, VPCLMULQDQ).
fn wide_xts(version: &str, cpu_info: &str) -> (bool, String) {
    const NEEDED: u64 = 0xc003_0000 | 0x640 << 32;
    let number = version.split_whitespace().nth(1).unwrap_or_default();
    let mut numbers = number.split('.').map(|part| part.parse().unwrap_or(0));
    let number: [u32; 2] = [(); 2].map(|()| numbers.next().unwrap_or(0));
    if number < [3, 5] {
        return (false, "it is older than 3.5".to_owned());
    }
    let words = cpu_info
        .split_once("OPENSSL_ia32cap=")
        .map(|(_, words)| words);
    let is_wide = words
        .and_then(|words| words.split(':').nth(1))
        .and_then(|word| u64::from_str_radix(word.trim().strip_prefix("0x")?, 16).ok())
        .is_some_and(|word| word & NEEDED == NEEDED);
    (is_wide, cpu_info.to_owned())
}

/// Returns whether AWS-LC does the same, and why. It does not report what it found, but its
/// `avx512_xts_available` checks for the same features.
#[cfg(feature = "rivals")]
fn wide_cpu() -> (bool, String) {
    if let Some(mask) = std::env::var_os("OPENSSL_ia32cap") {
        return (false, format!("OPENSSL_ia32cap is {}", mask.display()));
    }
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
        let is_wide = |version: &str, word: &str| {
            let info = format!("CPUINFO: OPENSSL_ia32cap=0xfffa32034f8bffff:{word}:0x0:0x0");
            wide_xts(version, &info).0
        };
        let [old, new] = ["OpenSSL 3.0.22 25 Aug 2026", "OpenSSL 3.5.0 8 Apr 2025"];
        let word = "0x00405f46f1bf07ab";
        assert!(is_wide(new, word) && is_wide("OpenSSL 4.0.3", word));
        assert!(!is_wide(old, word));
        // First without VAES (bit 41), then without AVX512VL (bit 31).
        assert!(!is_wide(new, "0x00405d46f1bf07ab"));
        assert!(!is_wide(new, "0x00405f4671bf07ab"));
        assert!(!wide_xts(new, "CPUINFO: N/A").0);
    }
}
