// SPDX-License-Identifier: MIT OR Apache-2.0
//! Passphrases in the kernel's keyring, which tokens of the type `luks2-keyring` name (LUKS2
//! specification, section 3.5.1).

use linux_keyutils::{KeyError, KeyRing, KeyRingIdentifier};
use luxor::Volume;
use luxor_engine::SecretBytes;
use luxor_files::Escaped;
use luxor_luks::Luks2Header;
use serde_json::Value;

use crate::error::{Error, Result};

/// The most bytes of a key in the keyring: the kernel's limit for keys of the type `user`.
const MAX: usize = 32767;

/// Returns the passphrase of a token, and the keyslots for which the token has it. Of several tokens
/// the first one counts whose passphrase is in the keyring. With `token_id` only that token counts.
///
/// # Errors
/// Fails when there is no such token, and when the keyring does not have the key of one.
pub(crate) fn passphrase(
    volume: &Volume,
    token_id: Option<u32>,
) -> Result<(SecretBytes, Vec<u32>)> {
    let name = volume.name();
    let header = volume.header.luks2().map(Luks2Header::describe);
    let tokens = header.iter().flat_map(|header| header.tokens);
    let tokens = tokens.filter(|(number, token)| {
        token.kind == "luks2-keyring"
            && !token.keyslots.is_empty()
            && token_id.is_none_or(|id| id == **number)
    });
    let mut missing = None;
    for (&number, token) in tokens {
        let json = volume.header.token_json(number).unwrap_or_default();
        let json: Value = serde_json::from_str(&json).unwrap_or_default();
        let description = json["key_description"].as_str().unwrap_or_default();
        match key(description) {
            Ok(secret) => return Ok((secret, token.keyslots.clone())),
            Err(error) => {
                let description = Escaped(description);
                let why = match error {
                    KeyError::KeyDoesNotExist => "it has no such key".to_owned(),
                    error => error.to_string(),
                };
                let message = format!(
                    "{name}: token {number} names the key {description} in the keyring: {why}"
                );
                missing.get_or_insert(
                    Error::failure(message).hint("`keyctl padd user` puts a passphrase there."),
                );
            }
        }
    }
    let none = || Error::failure(format!("{name}: no such token of the type luks2-keyring"));
    Err(missing.unwrap_or_else(none))
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
