// SPDX-License-Identifier: MIT OR Apache-2.0
//! Volume keys.

use luxor_engine::{KeyError, KeySpec, SecretBytes};

use crate::cipher::Encryption;

/// The key that encrypts a segment, as a keyslot holds it. Wiped when dropped.
#[derive(Clone, Debug)]
pub struct VolumeKey {
    bytes: SecretBytes,
    permits_equal_halves: bool,
}

impl VolumeKey {
    /// The key `bytes`, which must suit `encryption`. Equal halves make a weak XTS key,
    /// and need `allow_weak_key`.
    ///
    /// # Errors
    /// [`KeyError`]: the length does not suit, or the halves are equal.
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

    /// A random key of `len` bytes. One with equal halves is drawn again.
    ///
    /// # Errors
    /// [`DrawError`]: the encryption has no keys of that length, or the system gives no random
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

    /// The bytes. Whoever copies them takes over the duty to wipe the copy.
    #[must_use]
    pub fn expose(&self) -> &[u8] {
        self.bytes.expose()
    }

    /// The key as the engine takes it, for what is encrypted so.
    ///
    /// # Errors
    /// [`KeyError`] when the key's length does not suit.
    pub fn key_spec(&self, encryption: Encryption) -> Result<KeySpec, KeyError> {
        if self.permits_equal_halves {
            encryption.key_spec_permitting_equal_halves(self.expose())
        } else {
            encryption.key_spec(self.expose())
        }
    }
}

/// Why there is no random key.
#[derive(Debug, thiserror::Error)]
pub enum DrawError {
    /// The system gives no random bytes.
    #[error(transparent)]
    Random(#[from] getrandom::Error),
    /// The encryption has no keys of that length.
    #[error(transparent)]
    Key(#[from] KeyError),
}
