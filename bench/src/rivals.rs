// SPDX-License-Identifier: MIT OR Apache-2.0
//! Other implementations of the same modes, at their best.

mod ctr_crate;
#[cfg(feature = "rivals")]
mod evp;

use luxor_engine::{Direction, Mode};
use serde::{Deserialize, Serialize};

use crate::cipher::{Cipher, Stream};

/// Another implementation.
pub(crate) trait Rival {
    /// What it is.
    fn about(&self) -> &About;

    /// Its cipher for a key; none if it has no such mode.
    fn cipher(
        &self,
        mode: Mode,
        direction: Direction,
        key: &[u8],
    ) -> Option<Result<Box<dyn Cipher>, String>>;

    /// A message in AES-256-OFB, whose IV is the big-endian `iv`; none if it has no such
    /// mode.
    ///
    /// # Panics
    /// If the key has not 32 bytes.
    fn ofb(&self, key: &[u8], iv: u64) -> Option<Result<Box<dyn Stream>, String>> {
        let _ = (key, iv);
        None
    }
}

/// What a rival is.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct About {
    pub(crate) name: String,
    /// As the library tells it.
    pub(crate) version: String,
    /// The code that runs on this machine, and how that is known.
    pub(crate) path: String,
    /// Whether that code uses AES instructions.
    #[serde(skip)]
    pub(crate) hardware: bool,
}

/// All that this program was built with.
pub(crate) fn all() -> Vec<Box<dyn Rival>> {
    vec![
        #[cfg(feature = "rivals")]
        Box::new(evp::OpenSsl::new()),
        #[cfg(feature = "rivals")]
        Box::new(evp::AwsLc::new()),
        Box::new(ctr_crate::CtrCrate::new()),
    ]
}

/// What a page says where no rival took part, which it may have from another program's JSON.
pub(crate) fn absent(any: bool) -> Option<String> {
    let why = "other libraries: none with this mode was in the program; `cargo xtask bench` builds \
               one with OpenSSL and AWS-LC";
    (!any).then(|| why.to_owned())
}

/// What to say about those that are missing.
pub(crate) const MISSING: Option<&str> = if cfg!(feature = "rivals") {
    None
} else {
    Some("OpenSSL and AWS-LC are not in this program: `cargo xtask bench` builds one with them")
};

/// Whether OpenSSL takes its XTS with VAES on zmm registers, from what it says of
/// the CPU: `OPENSSL_ia32cap=0x…:0x…:…`, 64 bits each, as it has masked them. The
/// condition is that of its `aesni_xts_avx512_eligible`: of the second number bits
/// 16, 17, 30 and 31 (AVX512F, DQ, BW, VL) and 32 + 6, 9 and 10 (VBMI2, VAES,
/// VPCLMULQDQ).
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

/// Whether AWS-LC does, which tells nobody what it found: its `avx512_xts_available`
/// asks for the same features.
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
        // Without VAES (bit 41), without AVX512VL (bit 31).
        assert!(!wide_xts(&info("0x00405d46f1bf07ab")));
        assert!(!wide_xts(&info("0x00405f4671bf07ab")));
        assert!(!wide_xts("CPUINFO: N/A"));
    }
}
