// SPDX-License-Identifier: MIT OR Apache-2.0
//! Passphrases in the kernel's keyring, which tokens of the type `luks2-keyring` name (LUKS2
//! specification, section 3.5.1).

use std::{cell::RefCell, collections::VecDeque, path::Path};

use linux_keyutils::{KeyError, KeyRing, KeyRingIdentifier};
use luxor::{
    LuksMetadata, Secrets,
    files::Escaped,
    luks::{Luks2Header, readable_token},
    secret::SecretBytes,
};
use serde_json::Value;

use crate::error::{Error, Result};

/// The most bytes of a key in the keyring: the kernel's limit for keys of the type `user`.
const MAX: usize = 32767;

/// The passphrases of a volume's tokens, one after the other.
pub(crate) struct TokenPassphrases {
    passphrases: RefCell<VecDeque<SecretBytes>>,
    /// The keyslots that they are for.
    pub keyslots: Vec<u32>,
}

impl TokenPassphrases {
    /// Reads the passphrases of all tokens, or only that of `token_id`. A token whose passphrase is
    /// not in the keyring counts only if no other is.
    ///
    /// # Errors
    /// Fails when there is no such token, and when the keyring has none of the keys.
    pub(crate) fn read(volume: &LuksMetadata, token_id: Option<u32>) -> Result<Self> {
        let name = volume.name();
        let header = volume.header.luks2().map(Luks2Header::describe);
        let tokens = header.iter().flat_map(|header| header.tokens);
        let tokens = tokens.filter(|(number, token)| {
            token.kind == "luks2-keyring"
                && !token.keyslots.is_empty()
                && token_id.is_none_or(|id| id == **number)
        });
        let (mut passphrases, mut keyslots) = (VecDeque::new(), Vec::new());
        let none = Error::failure(format!("{name}: no such token of the type luks2-keyring"));
        let mut missing = None;
        for (&number, token) in tokens {
            let json = volume.header.token_json(number).unwrap_or_default();
            let json: Value = readable_token(&json)
                .and_then(|json| serde_json::from_str(&json).ok())
                .unwrap_or_default();
            let description = json["key_description"].as_str().unwrap_or_default();
            // As in cryptsetup and the kernel, a NUL ends it.
            let description = description.split('\0').next().unwrap_or_default();
            match key(description) {
                Ok(secret) => {
                    passphrases.push_back(secret);
                    keyslots.extend(&token.keyslots);
                }
                Err(error) => {
                    missing.get_or_insert_with(|| no_key(&name, number, description, error));
                }
            }
        }
        if passphrases.is_empty() {
            return Err(missing.unwrap_or(none));
        }
        Ok(Self {
            passphrases: passphrases.into(),
            keyslots,
        })
    }
}

impl Secrets for TokenPassphrases {
    fn secret(&self, _: &Path) -> Result<SecretBytes> {
        let next = self.passphrases.borrow_mut().pop_front();
        Ok(next.expect("asked again only if there are more"))
    }

    fn ask_again(&self, _: &Error) -> bool {
        !self.passphrases.borrow().is_empty()
    }
}

fn no_key(volume: &str, token: u32, description: &str, error: KeyError) -> Error {
    let description = Escaped(description);
    let why = match error {
        KeyError::KeyDoesNotExist => "it has no such key".to_owned(),
        error => error.to_string(),
    };
    let message =
        format!("{volume}: token {token} names the key {description} in the keyring: {why}");
    Error::failure(message).hint("`keyctl padd user` puts a passphrase there.")
}

/// Reads a key of the type `user`.
fn key(description: &str) -> std::result::Result<SecretBytes, KeyError> {
    let session = KeyRing::from_special_id(KeyRingIdentifier::Session, false)?;
    let key = session.request_key(description, None::<&str>)?;
    let mut buffer = SecretBytes::zeroed(MAX);
    let len = key.read(&mut buffer.expose_mut())?;
    let mut secret = SecretBytes::zeroed(len.min(MAX));
    let len = secret.expose().len();
    secret.expose_mut().copy_from_slice(&buffer.expose()[..len]);
    Ok(secret)
}
