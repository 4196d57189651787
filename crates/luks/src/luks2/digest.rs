// SPDX-License-Identifier: MIT OR Apache-2.0
//! Digests, which identify the right volume key (LUKS2 specification, section 3.4).
//!
//! A digest alone does not identify a key. HMAC (RFC 2104, section 2) fills a key up with zeros to
//! the hash's block, and hashes a longer one first, so PBKDF2-HMAC gives one result for a key, for
//! the same key with zeros behind it, and for the hash of a longer key. [`Digest::confirm`]
//! therefore compares the length too, with that which the metadata state.

use std::collections::BTreeMap;

use base64::{Engine, prelude::BASE64_STANDARD};
use luxor_secret::SecretBytes;
use luxor_volume::{DigestWork, HashAlgorithm, PbkdfOptions, SALT_BYTES, brief, rng};
use serde_json::{Value, json};
use subtle::ConstantTimeEq;

use super::{
    field::{Field, Object},
    kdf::SALT_LEN,
    metadata_error::MetadataError,
};

/// A digest of type `pbkdf2`: PBKDF2 of the volume key.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Digest {
    /// The numbers of the keyslots that hold the key.
    pub keyslots: Vec<u32>,
    /// The numbers of the segments that the key encrypts.
    pub segments: Vec<u32>,
    /// The name of the hash in the metadata.
    pub hash: String,
    /// The iterations of PBKDF2, at least 1.
    pub iterations: u32,
    /// The salt of PBKDF2.
    pub salt: Vec<u8>,
    /// The expected result, 20 to 64 bytes. (A volume that was converted from LUKS1 has 20.)
    pub value: Vec<u8>,
    /// The length of the key.
    pub(crate) key_len: KeyLen,
}

/// The length in bytes of a digest's key, as the metadata state it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyLen {
    /// The LUKS1 header or all keyslots of a LUKS2 digest state this length.
    Stated(u32),
    /// The LUKS2 digest has no keyslot.
    Unstated,
    /// Two keyslots of the LUKS2 digest state different lengths. Each is given by its number and the
    /// length that it states.
    Contradictory {
        first: (u32, u32),
        second: (u32, u32),
    },
}

impl KeyLen {
    /// The length that the keyslots with these numbers state. `stated` has the length that each
    /// keyslot states.
    pub(crate) fn of_keyslots(numbers: &[u32], stated: &BTreeMap<u32, u32>) -> Self {
        let mut lens = numbers
            .iter()
            .filter_map(|&number| Some((number, *stated.get(&number)?)));
        let Some(first) = lens.next() else {
            return Self::Unstated;
        };
        match lens.find(|(_, len)| *len != first.1) {
            Some(second) => Self::Contradictory { first, second },
            None => Self::Stated(first.1),
        }
    }
}

/// Why a key is not the one of a digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyMismatch {
    /// This version does not support the digest's hash.
    Hash,
    /// It is another key.
    Value,
    /// The metadata state this length.
    Len { stated: u32 },
    /// The metadata state no single length, and the key ends with zeros, so that a shorter key has the
    /// same digest.
    Ambiguous,
}

/// The length in bytes of the value of a LUKS1 digest.
const LUKS1_VALUE_LEN: usize = 20;
/// The lengths of two keys of one cipher differ by at least this number of bytes (AES-128 and
/// AES-192). The last bytes of a random key are not all zeros, except with a probability of 2⁻⁶⁴.
const LEN_STEP: usize = 8;

impl Digest {
    /// `key_lens` has the length of the key that each keyslot states.
    pub(crate) fn parse(
        object: &Object<'_>,
        key_lens: &BTreeMap<u32, u32>,
    ) -> Result<Self, MetadataError> {
        let kind = object.required("type")?.name()?;
        if kind != "pbkdf2" {
            return Err(MetadataError::Unsupported {
                place: object.place.to_string(),
                what: format!("it is of type {}", brief(kind)),
            });
        }
        let keyslots = object.required("keyslots")?.references()?;
        let hash = object.required("hash")?.text()?;
        Ok(Self {
            key_len: KeyLen::of_keyslots(&keyslots, key_lens),
            keyslots,
            segments: object.required("segments")?.references()?,
            hash: hash.into(),
            iterations: object.required("iterations")?.c_number(1..=u32::MAX)?,
            salt: object.required("salt")?.base64(SALT_LEN)?,
            value: parse_value(object.required("digest")?, hash)?,
        })
    }

    /// Returns whether both are digests of the same key, judged by equal parameters and value.
    /// Keyslots and segments may differ.
    pub(crate) fn is_of_same_key(&self, other: &Self) -> bool {
        self.hash == other.hash
            && self.iterations == other.iterations
            && self.salt == other.salt
            && self.value == other.value
    }

    /// Returns whether this version can compare a key with it.
    pub(crate) fn is_supported(&self) -> bool {
        HashAlgorithm::by_name(&self.hash).is_some()
    }

    /// The work that it takes to compare a key with this digest.
    pub(crate) fn work(&self) -> DigestWork<'_> {
        DigestWork {
            hash: &self.hash,
            iterations: self.iterations,
            len: self.value.len(),
        }
    }

    /// The length of its key in bytes, if the metadata state one.
    pub(crate) fn stated_len(&self) -> Option<u32> {
        match self.key_len {
            KeyLen::Stated(len) => Some(len),
            KeyLen::Unstated | KeyLen::Contradictory { .. } => None,
        }
    }

    /// Checks that `key` is the key of this digest: that it has the length that the metadata state,
    /// and that its PBKDF2 is the digest's value, in constant time.
    pub(crate) fn confirm(&self, key: &[u8]) -> Result<(), KeyMismatch> {
        match self.key_len {
            KeyLen::Stated(stated) if key.len() as u64 != u64::from(stated) => {
                return Err(KeyMismatch::Len { stated });
            }
            KeyLen::Stated(_) => {}
            // Of the lengths that one cipher has, only that of the key itself is left: the longer keys
            // with this digest end with zeros.
            KeyLen::Unstated | KeyLen::Contradictory { .. } => {
                let end = &key[key.len().saturating_sub(LEN_STEP)..];
                if end.ct_eq(&[0; LEN_STEP][..end.len()]).into() {
                    return Err(KeyMismatch::Ambiguous);
                }
            }
        }
        match self.is_value_of(key) {
            Some(true) => Ok(()),
            Some(false) => Err(KeyMismatch::Value),
            None => Err(KeyMismatch::Hash),
        }
    }

    /// Returns whether this is the digest over the state of a re-encryption, in constant time. `None`
    /// if this version does not support the hash.
    pub(crate) fn covers(&self, state: &SecretBytes) -> Option<bool> {
        self.is_value_of(state.expose())
    }

    /// Returns whether the digest's value is PBKDF2 of `secret`, whatever its length.
    fn is_value_of(&self, secret: &[u8]) -> Option<bool> {
        let hash = HashAlgorithm::by_name(&self.hash)?;
        let mut value = SecretBytes::zeroed(self.value.len());
        hash.pbkdf2(secret, &self.salt, self.iterations, value.expose_mut());
        Some(value.expose().ct_eq(&self.value).into())
    }
}

/// Parses the value of a digest. It has the length of the hash, or 20 bytes if the volume was converted
/// from LUKS1.
fn parse_value(field: Field<'_>, hash: &str) -> Result<Vec<u8>, MetadataError> {
    let place = field.place.to_string();
    let value = field.base64(20..=64)?;
    let found = value.len();
    match HashAlgorithm::by_name(hash) {
        Some(hash) if ![LUKS1_VALUE_LEN, hash.output_len()].contains(&found) => {
            let len = hash.output_len();
            Err(MetadataError::DigestLen {
                place,
                found,
                hash,
                len,
            })
        }
        _ => Ok(value),
    }
}

/// The digest of a key, or of the state of a re-encryption, for which there is none yet.
#[derive(Clone, Debug)]
pub(crate) struct NewDigest {
    hash: HashAlgorithm,
    iterations: u32,
    salt: Vec<u8>,
    value: Vec<u8>,
}

impl NewDigest {
    /// Draws a salt and makes the digest of `secret`.
    pub(crate) fn make(
        secret: &[u8],
        hash: HashAlgorithm,
        pbkdf: &PbkdfOptions,
    ) -> Result<Self, getrandom::Error> {
        Self::with_iterations(secret, hash, pbkdf.digest_iterations(hash))
    }

    /// As [`NewDigest::make`], with this number of iterations.
    pub(crate) fn with_iterations(
        secret: &[u8],
        hash: HashAlgorithm,
        iterations: u32,
    ) -> Result<Self, getrandom::Error> {
        let mut digest = Self {
            hash,
            iterations,
            salt: rng::random(SALT_BYTES)?,
            value: vec![0; hash.output_len()],
        };
        hash.pbkdf2(secret, &digest.salt, digest.iterations, &mut digest.value);
        Ok(digest)
    }

    /// Returns the digest object, with keys in cryptsetup's order.
    pub(crate) fn json(&self, keyslots: &[&str], segments: &[&str]) -> Value {
        json!({
            "type": "pbkdf2",
            "keyslots": keyslots,
            "segments": segments,
            "hash": self.hash.name(),
            "iterations": self.iterations,
            "salt": BASE64_STANDARD.encode(&self.salt),
            "digest": BASE64_STANDARD.encode(&self.value),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A digest of `key` with 1000 iterations, made by another program: Python's
    /// `hashlib.pbkdf2_hmac`, with 32 bytes of 7 as the salt.
    fn digest(hash: &str, value: &str, key_len: KeyLen) -> Digest {
        let byte = |i| u8::from_str_radix(&value[i..i + 2], 16).unwrap();
        Digest {
            keyslots: vec![0],
            segments: vec![0],
            hash: hash.into(),
            iterations: 1000,
            salt: vec![7; 32],
            value: (0..value.len()).step_by(2).map(byte).collect(),
            key_len,
        }
    }

    const KEY_LEN: u8 = 96;

    /// A key of 96 bytes, as authenticated data have it, is longer than the block of SHA-256.
    #[test]
    fn the_hash_of_a_long_key_is_another_key() {
        let key: Vec<u8> = (1..=KEY_LEN).collect();
        let mut hash = [0; 64];
        HashAlgorithm::Sha256.digest_into(&[&key], &mut hash);
        let value = "32f63621f8dba10babd3a9483d723774f41bd71e1e6155c44b316331129e2561";
        let stated = digest("sha256", value, KeyLen::Stated(96));
        assert_eq!(stated.confirm(&key), Ok(()));
        for wrong in [&hash[..32], &hash] {
            // The digest's value alone confirms it.
            assert_eq!(stated.is_value_of(wrong), Some(true));
            assert_eq!(stated.confirm(wrong), Err(KeyMismatch::Len { stated: 96 }));
        }
        let unstated = digest("sha256", value, KeyLen::Unstated);
        assert_eq!(unstated.confirm(&key), Ok(()));
        assert_eq!(unstated.confirm(&hash), Err(KeyMismatch::Ambiguous));
        let (first, second) = ((0, 96), (1, 32));
        let both = digest("sha256", value, KeyLen::Contradictory { first, second });
        assert_eq!(both.confirm(&key), Ok(()));
        assert_eq!(both.confirm(&hash), Err(KeyMismatch::Ambiguous));
        let unknown = digest("rot13", value, KeyLen::Stated(96));
        assert_eq!(unknown.confirm(&key), Err(KeyMismatch::Hash));
        let other = key.iter().rev().copied().collect::<Vec<_>>();
        assert_eq!(stated.confirm(&other), Err(KeyMismatch::Value));
    }

    #[test]
    fn keyslots_state_one_length_or_none() {
        let stated = BTreeMap::from([(0, 32), (1, 32), (2, 64), (5, 32)]);
        let of = |numbers: &[u32]| KeyLen::of_keyslots(numbers, &stated);
        assert_eq!(of(&[]), KeyLen::Unstated);
        assert_eq!(of(&[7]), KeyLen::Unstated);
        assert_eq!(of(&[2]), KeyLen::Stated(64));
        assert_eq!(of(&[0, 1, 5, 7]), KeyLen::Stated(32));
        let (first, second) = ((5, 32), (2, 64));
        assert_eq!(of(&[7, 5, 0, 2]), KeyLen::Contradictory { first, second });
    }
}
