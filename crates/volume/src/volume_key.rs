// SPDX-License-Identifier: MIT OR Apache-2.0
//! Volume keys.

use luxor_engine::{KeyError, KeySpec};
use luxor_secret::SecretBytes;

use crate::cipher::Encryption;

/// The key of a segment, as stored in a keyslot: for XTS the data key, then the tweak key. It is
/// wiped on drop.
#[derive(Clone, Debug)]
pub struct VolumeKey {
    bytes: SecretBytes,
    permits_equal_halves: bool,
}

impl VolumeKey {
    /// Makes a key of `bytes`, which must be suitable for `encryption`. Equal halves are a weak XTS
    /// key, and need `allow_weak_key`.
    ///
    /// # Errors
    /// [`KeyError`]: the length is not one of [`Encryption::key_lens`], or the halves of an XTS key
    /// are equal.
    pub fn new(
        bytes: SecretBytes,
        encryption: Encryption,
        allow_weak_key: bool,
    ) -> Result<Self, KeyError> {
        let key = Self {
            bytes,
            permits_equal_halves: allow_weak_key,
        };
        key.key_spec(encryption)?;
        Ok(key)
    }

    /// Makes a key for data whose encryption this version does not support. Any length is accepted.
    /// Such a key can be stored in a keyslot, but [`VolumeKey::key_spec`] need not accept it.
    #[must_use]
    pub fn of_unknown_encryption(bytes: SecretBytes) -> Self {
        Self {
            bytes,
            permits_equal_halves: false,
        }
    }

    /// Draws a random key of `len` bytes. A key with equal halves is drawn again.
    ///
    /// # Errors
    /// [`DrawError`]: the encryption has no keys of that length, or the system returned no random
    /// bytes.
    pub fn random(len: usize, encryption: Encryption) -> Result<Self, DrawError> {
        let mut bytes = SecretBytes::zeroed(len);
        loop {
            getrandom::fill(bytes.expose_mut())?;
            match encryption.key_spec(bytes.expose()) {
                Ok(_) => break,
                Err(KeyError::EqualHalves) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Self {
            bytes,
            permits_equal_halves: false,
        })
    }

    /// Returns the bytes. A caller that copies them must wipe the copy.
    #[must_use]
    pub fn expose(&self) -> &[u8] {
        self.bytes.expose()
    }

    /// Returns the key in the engine's form, for data with this encryption.
    ///
    /// # Errors
    /// [`KeyError`]: the length of the key is not one of [`Encryption::key_lens`], or its halves
    /// are equal, which XTS needs permission for ([`VolumeKey::new`]).
    pub fn key_spec(&self, encryption: Encryption) -> Result<KeySpec, KeyError> {
        if self.permits_equal_halves {
            encryption.key_spec_permitting_equal_halves(self.expose())
        } else {
            encryption.key_spec(self.expose())
        }
    }
}

/// Why no random key could be drawn.
#[derive(Debug, thiserror::Error)]
pub enum DrawError {
    /// The system returned no random bytes.
    #[error(transparent)]
    Random(#[from] getrandom::Error),
    /// The encryption has no keys of that length.
    #[error(transparent)]
    Key(#[from] KeyError),
}
