// SPDX-License-Identifier: MIT OR Apache-2.0
//! The hash functions of LUKS2 metadata that this version knows.

use std::fmt;

use sha2::{Digest, Sha256, Sha512};

/// A hash function of FIPS 180-4.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HashAlgorithm {
    /// SHA-256.
    Sha256,
    /// SHA-512.
    Sha512,
}

impl HashAlgorithm {
    /// Both, for tests and tables.
    pub const ALL: [Self; 2] = [Self::Sha256, Self::Sha512];

    /// The hash of that name in LUKS2 metadata; `None` when this version does
    /// not have it.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|hash| hash.name() == name)
    }

    /// The name in LUKS2 metadata: `sha256`, `sha512`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sha256 => "sha256",
            Self::Sha512 => "sha512",
        }
    }

    /// The length of a hash value in bytes: 32 or 64.
    #[must_use]
    pub const fn output_len(self) -> usize {
        match self {
            Self::Sha256 => 32,
            Self::Sha512 => 64,
        }
    }

    /// Writes the hash of the concatenated `parts` to the first
    /// [`HashAlgorithm::output_len`] bytes of `out`.
    pub(crate) fn digest_into(self, parts: &[&[u8]], out: &mut [u8; 64]) {
        fn run<D: Digest>(parts: &[&[u8]], out: &mut [u8; 64]) {
            let mut hash = D::new();
            for part in parts {
                hash.update(part);
            }
            // In place: what is hashed may be a key, and a copy would have to be wiped.
            let out = &mut out[..<D as Digest>::output_size()];
            hash.finalize_into(out.try_into().expect("of that size"));
        }
        match self {
            Self::Sha256 => run::<Sha256>(parts, out),
            Self::Sha512 => run::<Sha512>(parts, out),
        }
    }

    /// PBKDF2 with HMAC (RFC 8018, 5.2); fills all of `out`.
    pub(crate) fn pbkdf2(self, secret: &[u8], salt: &[u8], iterations: u32, out: &mut [u8]) {
        match self {
            Self::Sha256 => pbkdf2::pbkdf2_hmac::<Sha256>(secret, salt, iterations, out),
            Self::Sha512 => pbkdf2::pbkdf2_hmac::<Sha512>(secret, salt, iterations, out),
        }
    }
}

impl fmt::Display for HashAlgorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
