// SPDX-License-Identifier: MIT OR Apache-2.0
//! The hash functions of LUKS metadata that this version supports. New volumes use SHA-256 unless
//! another one is requested.

use std::fmt;

use ripemd::Ripemd160;
use sha1::Sha1;
use sha2::{Digest, Sha256, Sha512};
use whirlpool::Whirlpool;

/// A hash function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum HashAlgorithm {
    /// SHA-1 (FIPS 180-4): the original hash of LUKS1. It is good enough for PBKDF2 and the
    /// anti-forensic splitter.
    Sha1,
    /// SHA-256 (FIPS 180-4).
    Sha256,
    /// SHA-512 (FIPS 180-4).
    Sha512,
    /// RIPEMD-160 (ISO/IEC 10118-3).
    Ripemd160,
    /// Whirlpool (ISO/IEC 10118-3). libgcrypt before 1.6.0 had a different Whirlpool; volumes that
    /// cryptsetup created with it do not open.
    Whirlpool,
}

impl HashAlgorithm {
    /// All hashes, for tests and tables.
    pub const ALL: [Self; 5] = [
        Self::Sha1,
        Self::Sha256,
        Self::Sha512,
        Self::Ripemd160,
        Self::Whirlpool,
    ];

    /// The names of all hashes, for messages.
    pub const NAMES: &str = "sha1, sha256, sha512, ripemd160 and whirlpool";

    /// Returns the hash with this name in LUKS metadata; `None` if this version does not support
    /// it. The names are those of OpenSSL 3, with which cryptsetup looks them up, in capital and small
    /// letters.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        let is_named = |hash: &Self| {
            let mut names = [hash.name()].into_iter().chain(hash.other_names());
            names.any(|known| known.eq_ignore_ascii_case(name))
        };
        Self::ALL.into_iter().find(is_named)
    }

    /// The other names that cryptsetup accepts in LUKS metadata.
    fn other_names(self) -> impl Iterator<Item = &'static str> {
        let names: &[_] = match self {
            Self::Sha1 => &["sha-1", "ssl3-sha1", "1.3.14.3.2.26"],
            Self::Sha256 => &["sha-256", "sha2-256", "2.16.840.1.101.3.4.2.1"],
            Self::Sha512 => &["sha-512", "sha2-512", "2.16.840.1.101.3.4.2.3"],
            Self::Ripemd160 => &["ripemd-160", "ripemd", "rmd160", "1.3.36.3.2.1"],
            Self::Whirlpool => &["1.0.10118.3.0.55"],
        };
        names.iter().copied()
    }

    /// The name in LUKS metadata, such as `sha256`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sha1 => "sha1",
            Self::Sha256 => "sha256",
            Self::Sha512 => "sha512",
            Self::Ripemd160 => "ripemd160",
            Self::Whirlpool => "whirlpool",
        }
    }

    /// The length of a hash value in bytes: 20 to 64.
    #[must_use]
    pub const fn output_len(self) -> usize {
        match self {
            Self::Sha1 | Self::Ripemd160 => 20,
            Self::Sha256 => 32,
            Self::Sha512 | Self::Whirlpool => 64,
        }
    }

    /// The cost of one PBKDF2 iteration for one block of output, in percent of SHA-256's.
    ///
    /// Measured on a CPU with SHA extensions, which SHA-1 and SHA-256 use, with the implementations
    /// that derive keys here. Without these extensions SHA-256 takes about four times as long, and
    /// the others cost less in comparison.
    ///
    /// ```text
    /// LUXOR_TEST_LONG=1 cargo test -p luxor-volume --lib -- --nocapture iteration_costs
    /// ```
    pub const fn iteration_cost(self) -> u64 {
        match self {
            Self::Sha1 => 95,
            Self::Sha256 => 100,
            Self::Sha512 => 380,
            Self::Ripemd160 => 300,
            Self::Whirlpool => 1220,
        }
    }

    /// Writes the hash of the concatenated `parts` to the first
    /// [`HashAlgorithm::output_len`] bytes of `out`.
    pub fn digest_into(self, parts: &[&[u8]], out: &mut [u8; 64]) {
        fn run<D: Digest>(parts: &[&[u8]], out: &mut [u8; 64]) {
            let mut hash = D::new();
            for part in parts {
                hash.update(part);
            }
            // Finalise in place: the input may be a key, and a copy of its hash would have to be
            // wiped.
            let out = &mut out[..<D as Digest>::output_size()];
            hash.finalize_into(out.try_into().expect("`out` has that size"));
        }
        match self {
            Self::Sha1 => run::<Sha1>(parts, out),
            Self::Sha256 => run::<Sha256>(parts, out),
            Self::Sha512 => run::<Sha512>(parts, out),
            Self::Ripemd160 => run::<Ripemd160>(parts, out),
            Self::Whirlpool => run::<Whirlpool>(parts, out),
        }
    }

    /// Computes PBKDF2 with HMAC (RFC 8018, 5.2), and fills all of `out`.
    pub fn pbkdf2(self, secret: &[u8], salt: &[u8], iterations: u32, out: &mut [u8]) {
        match self {
            Self::Sha1 => pbkdf2::pbkdf2_hmac::<Sha1>(secret, salt, iterations, out),
            Self::Sha256 => pbkdf2::pbkdf2_hmac::<Sha256>(secret, salt, iterations, out),
            Self::Sha512 => pbkdf2::pbkdf2_hmac::<Sha512>(secret, salt, iterations, out),
            Self::Ripemd160 => pbkdf2::pbkdf2_hmac::<Ripemd160>(secret, salt, iterations, out),
            Self::Whirlpool => pbkdf2::pbkdf2_hmac::<Whirlpool>(secret, salt, iterations, out),
        }
    }
}

impl fmt::Display for HashAlgorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The hashes of "abc" as `openssl dgst` prints them; they agree with the standards.
    const OF_ABC: [&str; 5] = [
        "a9993e364706816aba3e25717850c26c9cd0d89d",
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
        "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a\
         2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f",
        "8eb208f7e05d987a9b044a8e98c6b087f15a0bfc",
        "4e2448a4c6f486bb16b6562c73b4020bf3043e3a731bce721ae1b303d97e6d4c\
         7181eebdb6c57e277d0e34957114cbd6c797fc9d95d8b582d225292076d4eef5",
    ];

    #[test]
    fn each_name_is_its_hash() {
        for (hash, expected) in HashAlgorithm::ALL.into_iter().zip(OF_ABC) {
            assert_eq!(HashAlgorithm::by_name(hash.name()), Some(hash));
            assert!(HashAlgorithm::NAMES.contains(hash.name()));
            let mut out = [0; 64];
            hash.digest_into(&[b"a", b"", b"bc"], &mut out);
            let (out, rest) = out.split_at(hash.output_len());
            let hex: String = out.iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(hex, expected, "{hash}");
            assert!(rest.iter().all(|&byte| byte == 0), "{hash} is longer");
        }
        // cryptsetup 2.6.1 opens a keyslot under each of these.
        for (hash, names) in [
            (HashAlgorithm::Sha1, "SHA1 sha-1 SSL3-SHA1 1.3.14.3.2.26"),
            (
                HashAlgorithm::Sha256,
                "SHA256 Sha-256 SHA2-256 2.16.840.1.101.3.4.2.1",
            ),
            (
                HashAlgorithm::Sha512,
                "sha-512 sha2-512 2.16.840.1.101.3.4.2.3",
            ),
            (
                HashAlgorithm::Ripemd160,
                "RIPEMD-160 ripemd RMD160 1.3.36.3.2.1",
            ),
            (HashAlgorithm::Whirlpool, "Whirlpool 1.0.10118.3.0.55"),
        ] {
            for name in names.split(' ') {
                assert_eq!(HashAlgorithm::by_name(name), Some(hash), "{name}");
            }
        }
        for name in [
            "",
            "sha",
            "RSA-SHA256",
            "sha_256",
            "sha256 ",
            "sha384",
            "sha2",
        ] {
            assert_eq!(HashAlgorithm::by_name(name), None, "{name}");
        }
    }

    /// The measurement for [`HashAlgorithm::iteration_cost`]: the best of many short runs, in
    /// percent of SHA-256's. By default there is only one run, and its numbers mean nothing.
    #[test]
    fn iteration_costs() {
        const ITERATIONS: u32 = 4000;
        let runs = if std::env::var_os("LUXOR_TEST_LONG").is_some() {
            300
        } else {
            1
        };
        let mut best = [f64::INFINITY; HashAlgorithm::ALL.len()];
        for _ in 0..runs {
            for (best, hash) in best.iter_mut().zip(HashAlgorithm::ALL) {
                let begin = std::time::Instant::now();
                let mut out = [0; 64];
                let out = &mut out[..hash.output_len()];
                hash.pbkdf2(b"secret", &[0; 32], ITERATIONS, out);
                assert_ne!(out[0..8], [0; 8], "{hash} derives a key");
                *best = best.min(begin.elapsed().as_secs_f64());
            }
        }
        let sha256 = best[1];
        for (best, hash) in best.into_iter().zip(HashAlgorithm::ALL) {
            let nanoseconds = best * 1e9 / f64::from(ITERATIONS);
            let percent = best / sha256 * 100.0;
            println!("{hash}: {nanoseconds:.0} ns an iteration, {percent:.0}");
        }
    }
}
