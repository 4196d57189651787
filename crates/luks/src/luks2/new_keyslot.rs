// SPDX-License-Identifier: MIT OR Apache-2.0
//! A keyslot in the making: what takes time, apart from what changes a volume.

use luxor_engine::{Backend, Direction, KeyError, SecretBytes};
use luxor_volume::{DeriveError, Encryption, HashAlgorithm, Kdf, PbkdfOptionsError, VolumeKey};
use serde_json::{Value, json};

use super::kdf;
use crate::{
    af::{STRIPES, af_split},
    area::{AreaError, crypt_area},
};

/// A volume key under a secret, split and encrypted; nothing is written yet.
#[derive(Debug)]
pub struct NewKeyslot {
    pub(crate) kdf: Kdf,
    /// The length of the volume key in bytes.
    pub(crate) key_len: u32,
    /// The length of the area's key in bytes.
    pub(crate) area_key_len: u32,
    pub(crate) af_hash: HashAlgorithm,
    pub(crate) encryption: Encryption,
    /// The area's content, in whole 512-byte units.
    pub(crate) encrypted: Vec<u8>,
    /// The number and value of the digest that confirmed the volume key; none in a
    /// volume that is yet to be made.
    pub(crate) digest: Option<(u32, Vec<u8>)>,
}

impl NewKeyslot {
    /// Derives the area's key of `area_key_len` bytes from `secret`, splits
    /// `volume_key` and encrypts the stripes. Takes as long as `kdf` costs.
    pub(crate) fn make(
        volume_key: &VolumeKey,
        secret: &[u8],
        kdf: Kdf,
        af_hash: HashAlgorithm,
        (encryption, area_key_len): (Encryption, u32),
        backend: &dyn Backend,
    ) -> Result<Self, NewKeyslotError> {
        let key = volume_key.expose();
        let mut area_key = SecretBytes::zeroed(area_key_len as usize);
        kdf.derive(secret, area_key.expose_mut())?;
        // What a secret derives is no choice of anybody's: equal halves do not matter.
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
            key_len: u32::try_from(key.len()).expect("at most 512 bytes"),
            area_key_len,
            af_hash,
            encryption,
            encrypted: stripes.expose().to_vec(),
            digest: None,
        })
    }

    /// The length of its area in bytes: whole pages, as cryptsetup allots them.
    pub(crate) fn area_size(&self) -> u64 {
        (self.encrypted.len() as u64).next_multiple_of(4096)
    }

    /// LUKS2's object for it, with its area at byte `offset`. Keys in cryptsetup's
    /// order; 64-bit numbers are texts.
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

/// Why no keyslot was made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NewKeyslotError {
    /// Options for the key derivation that cannot be.
    #[error(transparent)]
    Options(#[from] PbkdfOptionsError),
    /// The key is another volume's.
    #[error("the unlocked volume is a different one")]
    OtherVolume,
    /// The key derivation failed: most likely for want of memory.
    #[error("{0}{advice}", advice = advice(.0))]
    Derive(#[from] DeriveError),
    /// The system gives no random bytes.
    #[error("the system provides no random bytes: {0}")]
    Random(#[from] getrandom::Error),
    /// A key that the engine's types refuse.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The engine failed.
    #[error("the keyslot cannot be encrypted: {0}")]
    Area(#[from] AreaError),
}

fn advice(error: &DeriveError) -> &'static str {
    if error.is_out_of_memory() {
        ", or ask for less with --pbkdf-memory"
    } else {
        ""
    }
}

impl NewKeyslotError {
    /// Whether more memory would help: the program's exit code 3.
    #[must_use]
    pub fn is_out_of_memory(&self) -> bool {
        matches!(self, Self::Derive(error) if error.is_out_of_memory())
    }
}
