// SPDX-License-Identifier: MIT OR Apache-2.0
//! A new keyslot. Making it is slow and changes no volume; adding it to a volume is fast.

use luxor_engine::{Backend, Direction, KeyError};
use luxor_secret::SecretBytes;
use luxor_volume::{
    DeriveError, Encryption, HashAlgorithm, Kdf, PbkdfOptions, PbkdfOptionsError, SALT_BYTES,
    VolumeKey, brief, rng,
};
use serde_json::{Value, json};

use super::{digest::NewDigest, kdf, segment::SegmentError};
use crate::{
    af::{STRIPES, af_split},
    area::{AreaError, crypt_area},
};

/// The length in bytes of the area of a keyslot for a volume key of `key_len` bytes: whole pages, as
/// cryptsetup allocates them.
pub(crate) fn area_size(key_len: usize) -> u64 {
    (key_len as u64 * u64::from(STRIPES)).next_multiple_of(4096)
}

/// The digest of the volume key in a new keyslot.
#[derive(Debug)]
pub(crate) enum KeyDigest {
    /// That of a volume that does not exist yet.
    OfNewVolume,
    /// The number and value of the digest that confirmed the key.
    Present(u32, Vec<u8>),
    /// A key that the volume does not have yet. It encrypts no data until a re-encryption.
    New(NewDigest),
}

/// A volume key that was split and encrypted under a secret. Nothing has been written yet.
#[derive(Debug)]
pub struct NewKeyslot {
    pub(crate) kdf: Kdf,
    /// The length of the volume key in bytes.
    pub(crate) key_len: u32,
    /// The length of the area's key in bytes.
    pub(crate) area_key_len: u32,
    pub(crate) af_hash: HashAlgorithm,
    pub(crate) encryption: Encryption,
    /// The contents of the area, in whole 512-byte units.
    pub(crate) encrypted: Vec<u8>,
    pub(crate) digest: KeyDigest,
}

impl NewKeyslot {
    /// Derives the area's key of `area_key_len` bytes from `secret`, splits `volume_key` and
    /// encrypts the stripes. The time that this takes is set by `pbkdf`.
    pub(crate) fn make(
        volume_key: &VolumeKey,
        secret: &[u8],
        pbkdf: &PbkdfOptions,
        af_hash: HashAlgorithm,
        (encryption, area_key_len): (Encryption, u32),
        backend: &dyn Backend,
    ) -> Result<Self, NewKeyslotError> {
        let key = volume_key.expose();
        let kdf = pbkdf.choose(af_hash, rng::random(SALT_BYTES)?, key.len())?;
        let mut area_key = SecretBytes::zeroed(area_key_len as usize);
        pbkdf.derive(&kdf, secret, area_key.expose_mut())?;
        // Equal halves are permitted: this key is derived from the secret, not chosen by a user.
        let area_key = encryption.key_spec_permitting_equal_halves(area_key.expose())?;
        let split_len = key.len() * STRIPES as usize;
        let mut stripes = SecretBytes::zeroed(split_len.next_multiple_of(512));
        af_split(key, &mut stripes.expose_mut()[..split_len], af_hash)?;
        crypt_area(
            backend,
            &area_key,
            encryption,
            Direction::Encrypt,
            stripes.expose_mut(),
        )?;
        Ok(Self {
            kdf,
            key_len: u32::try_from(key.len()).expect("a volume key has at most 512 bytes"),
            area_key_len,
            af_hash,
            encryption,
            encrypted: stripes.expose().to_vec(),
            digest: KeyDigest::OfNewVolume,
        })
    }

    /// The length of its area in bytes.
    pub(crate) fn area_size(&self) -> u64 {
        area_size(self.key_len as usize)
    }

    /// Returns the keyslot object for an area at byte `offset`. JSON keys are in cryptsetup's
    /// order; 64-bit numbers are strings.
    pub(crate) fn json(&self, offset: u64) -> Value {
        json!({
            "type": "luks2",
            "key_size": self.key_len,
            "af": {
                "type": "luks1",
                "stripes": STRIPES,
                "hash": self.af_hash.name(),
            },
            "area": {
                "type": "raw",
                "offset": offset.to_string(),
                "size": self.area_size().to_string(),
                "encryption": self.encryption.name(),
                "key_size": self.area_key_len,
            },
            "kdf": kdf::json(&self.kdf),
        })
    }
}

/// Why a keyslot could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NewKeyslotError {
    /// The options of the key derivation are not valid.
    #[error(transparent)]
    Options(#[from] PbkdfOptionsError),
    /// The keyslots of a LUKS1 volume have the encryption of its data, which this version does not
    /// support.
    #[error(transparent)]
    Segment(#[from] SegmentError),
    /// The keyslots of a LUKS1 volume use its hash, which this version does not support.
    #[error(
        "its hash is {}; this version supports {}",
        brief(found),
        HashAlgorithm::NAMES
    )]
    Hash {
        /// The name of the hash.
        found: String,
    },
    /// The key belongs to another volume.
    #[error("the unlocked volume is a different one")]
    OtherVolume,
    /// The key derivation failed, most likely because memory is short.
    #[error(transparent)]
    Derive(#[from] DeriveError),
    /// The system returned no random bytes.
    #[error("the system provides no random bytes: {0}")]
    Random(#[from] getrandom::Error),
    /// The engine does not accept the key.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The area could not be encrypted.
    #[error("the keyslot cannot be encrypted: {0}")]
    Area(#[from] AreaError),
}

impl NewKeyslotError {
    /// Returns whether more memory would help.
    #[must_use]
    pub fn is_out_of_memory(&self) -> bool {
        matches!(self, Self::Derive(error) if error.is_out_of_memory())
    }
}
