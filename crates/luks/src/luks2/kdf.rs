// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kdf object of a keyslot: its key derivation in LUKS2's form (LUKS2 specification, section
//! 3.2).

use std::ops::RangeInclusive;

use base64::{Engine, prelude::BASE64_STANDARD};
use luxor_volume::{Argon2Kind, Kdf, MAX_LANES, brief};
use serde_json::{Value, json};

use super::{field::Object, metadata_error::MetadataError};

/// The lengths in bytes of a salt that is accepted. New salts always have 32 bytes.
pub(crate) const SALT_LEN: RangeInclusive<usize> = 8..=1024;

/// Parses a kdf object.
///
/// # Errors
/// [`MetadataError`] names the rule that the object breaks.
pub(crate) fn parse(object: &Object<'_>) -> Result<Kdf, MetadataError> {
    let kind_field = object.required("type")?;
    let place = kind_field.place.to_string();
    let salt = || object.required("salt")?.base64(SALT_LEN);
    let kind = match kind_field.name()? {
        "pbkdf2" => {
            return Ok(Kdf::Pbkdf2 {
                hash: object.required("hash")?.name()?.into(),
                iterations: object.required("iterations")?.number(1..=u32::MAX)?,
                salt: salt()?,
            });
        }
        "argon2i" => Argon2Kind::I,
        "argon2id" => Argon2Kind::Id,
        other => {
            return Err(MetadataError::Unsupported {
                place,
                what: format!("it is {}", brief(other)),
            });
        }
    };
    let parallel = object.required("cpus")?.number(1..=MAX_LANES)?;
    Ok(Kdf::Argon2 {
        kind,
        time: object.required("time")?.number(1..=u32::MAX)?,
        memory_kib: object.required("memory")?.number(parallel * 8..=u32::MAX)?,
        parallel,
        salt: salt()?,
    })
}

/// Returns the kdf object for `kdf`, with JSON keys in cryptsetup's order.
pub(crate) fn json(kdf: &Kdf) -> Value {
    match kdf {
        Kdf::Pbkdf2 {
            hash,
            iterations,
            salt,
        } => json!({
            "type": "pbkdf2",
            "hash": hash,
            "iterations": iterations,
            "salt": BASE64_STANDARD.encode(salt),
        }),
        Kdf::Argon2 {
            time,
            memory_kib,
            parallel,
            salt,
            ..
        } => json!({
            "type": kdf.kind().name(),
            "time": time,
            "memory": memory_kib,
            "cpus": parallel,
            "salt": BASE64_STANDARD.encode(salt),
        }),
    }
}
