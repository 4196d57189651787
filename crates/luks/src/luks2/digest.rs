// SPDX-License-Identifier: MIT OR Apache-2.0
//! Digests, which identify the right volume key (LUKS2 specification, section 3.4).

use base64::{Engine, prelude::BASE64_STANDARD};
use luxor_engine::SecretBytes;
use luxor_volume::{DigestWork, HashAlgorithm, PbkdfOptions, SALT_BYTES, brief, rng};
use serde_json::{Value, json};
use subtle::ConstantTimeEq;

use super::{field::Object, kdf::SALT_LEN, metadata_error::MetadataError};

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
}

impl Digest {
    pub(crate) fn parse(object: &Object<'_>) -> Result<Self, MetadataError> {
        let kind = object.required("type")?.name()?;
        if kind != "pbkdf2" {
            return Err(MetadataError::Unsupported {
                place: object.place.to_string(),
                what: format!("it is of type {}", brief(kind)),
            });
        }
        Ok(Self {
            keyslots: object.required("keyslots")?.references()?,
            segments: object.required("segments")?.references()?,
            hash: object.required("hash")?.text()?.into(),
            iterations: object.required("iterations")?.number(1..=u32::MAX)?,
            salt: object.required("salt")?.base64(SALT_LEN)?,
            value: object.required("digest")?.base64(20..=64)?,
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

    /// The work that it takes to compare a key with this digest.
    pub(crate) fn work(&self) -> DigestWork<'_> {
        DigestWork {
            hash: &self.hash,
            iterations: self.iterations,
            len: self.value.len(),
        }
    }

    /// Returns whether `key` is the key of this digest, in constant time. `None` if this version
    /// does not support the hash.
    pub(crate) fn verify(&self, key: &[u8]) -> Option<bool> {
        let hash = HashAlgorithm::by_name(&self.hash)?;
        let mut value = SecretBytes::zeroed(self.value.len());
        hash.pbkdf2(key, &self.salt, self.iterations, value.expose_mut());
        Some(value.expose().ct_eq(&self.value).into())
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
