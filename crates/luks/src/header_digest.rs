// SPDX-License-Identifier: MIT OR Apache-2.0
//! A digest of a volume's metadata.

use std::{fmt, str::FromStr};

use luxor_volume::HashAlgorithm;

/// The SHA-256 (FIPS 180-4) of exactly the bytes that a volume's metadata were parsed from:
///
/// - LUKS2: the copy in use, from its magic on: binary header and JSON area;
/// - LUKS1: the 592 bytes of the header.
///
/// Two headers with equal digests have equal metadata. The keyslot areas are not included: the
/// digest of the volume key shows whether they are intact. The digest changes with every change of
/// the metadata, and also when damage makes the other LUKS2 copy the one in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HeaderDigest([u8; 32]);

impl HeaderDigest {
    pub(crate) fn compute(bytes: &[u8]) -> Self {
        let mut out = [0; 64];
        HashAlgorithm::Sha256.digest_into(&[bytes], &mut out);
        Self(std::array::from_fn(|i| out[i]))
    }
}

/// Prints 64 lowercase hexadecimal digits.
impl fmt::Display for HeaderDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Parses 64 hexadecimal digits of either case.
impl FromStr for HeaderDigest {
    type Err = HeaderDigestError;

    fn from_str(text: &str) -> Result<Self, HeaderDigestError> {
        let digits = text.as_bytes();
        // `u8::from_str_radix` would accept a sign.
        if digits.len() != 64 || !digits.iter().all(u8::is_ascii_hexdigit) {
            return Err(HeaderDigestError { len: text.len() });
        }
        Ok(Self(std::array::from_fn(|i| {
            u8::from_str_radix(&text[2 * i..2 * i + 2], 16).expect("two digits")
        })))
    }
}

/// The text is not a header digest.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a header digest has 64 hexadecimal digits")]
#[non_exhaustive]
pub struct HeaderDigestError {
    /// The text's length in bytes.
    pub len: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_digest_is_sha_256_in_hexadecimal() {
        // The example of FIPS 180-4.
        let text = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let digest = HeaderDigest::compute(b"abc");
        assert_eq!(digest.to_string(), text);
        assert_eq!(text.parse(), Ok(digest));
        assert_eq!(text.to_uppercase().parse(), Ok(digest));
        for bad in [
            "",
            &text[1..],
            &format!("{text}0"),
            &format!("+{}", &text[1..]),
            &format!("{}é", &text[2..]),
        ] {
            assert!(bad.parse::<HeaderDigest>().is_err(), "{bad:?}");
        }
    }
}
