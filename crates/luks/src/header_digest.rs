// SPDX-License-Identifier: MIT OR Apache-2.0
//! One number for all that a volume's metadata say.

use std::{fmt, str::FromStr};

use luxor_volume::HashAlgorithm;

/// The SHA-256 (FIPS 180-4) of the bytes that a volume's metadata were parsed from,
/// and of no others:
///
/// - LUKS2: the copy that counts, from its magic on, binary header and JSON area;
/// - LUKS1: the header's 592 bytes.
///
/// Two headers with one digest say the same. Keyslot areas are not in it: of them the
/// digest of the volume key tells whether they are right. Each change of the metadata
/// gives another one, and so does the damage that makes LUKS2's other copy count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HeaderDigest([u8; 32]);

impl HeaderDigest {
    pub(crate) fn of(bytes: &[u8]) -> Self {
        let mut out = [0; 64];
        HashAlgorithm::Sha256.digest_into(&[bytes], &mut out);
        Self(std::array::from_fn(|i| out[i]))
    }
}

/// 64 hexadecimal digits, lower case.
impl fmt::Display for HeaderDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// 64 hexadecimal digits.
impl FromStr for HeaderDigest {
    type Err = HeaderDigestError;

    fn from_str(text: &str) -> Result<Self, HeaderDigestError> {
        let digits = text.as_bytes();
        // `from_str_radix` would take a sign.
        if digits.len() != 64 || !digits.iter().all(u8::is_ascii_hexdigit) {
            return Err(HeaderDigestError { len: text.len() });
        }
        Ok(Self(std::array::from_fn(|i| {
            u8::from_str_radix(&text[2 * i..2 * i + 2], 16).expect("two digits")
        })))
    }
}

/// Why a text is no digest of metadata.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a header digest has 64 hexadecimal digits, as `luxor header digest` prints them")]
#[non_exhaustive]
pub struct HeaderDigestError {
    /// The text's length in bytes.
    pub len: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_sha_256_in_hexadecimal() {
        // FIPS 180-4's example.
        let text = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let digest = HeaderDigest::of(b"abc");
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
