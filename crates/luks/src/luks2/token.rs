// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tokens: notes in the metadata (LUKS2 specification, section 3.5). Luxor's own token records the
//! exact length of a file; all others are kept and ignored.

use std::{collections::BTreeMap, fmt};

use luxor_sector::SectorSize;
use serde_json::json;

use luxor_volume::brief;

use super::{field::Object, foreign::Foreign, json_c, metadata_error::MetadataError};

/// The type of the token that records a file's length.
pub(crate) const LUXOR_FILE: &str = "luxor-file";

/// The type of the token that cryptsetup makes and uses for the kernel's keyring.
pub(crate) const KEYRING: &str = "luks2-keyring";

/// The padding of a file that ends with a trailer.
pub(crate) const TRAILER: &str = "trailer-v1";

/// A token. [`Luks2Header::token_json`](crate::Luks2Header::token_json) returns its other fields.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Token {
    /// Its type.
    pub kind: String,
    /// The numbers of the keyslots that it refers to.
    pub keyslots: Vec<u32>,
    /// Where the file in the volume ends, if the type is `luxor-file`.
    pub file_end: Option<FileEnd>,
}

/// Where the file in a volume ends, according to a token of the type `luxor-file`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileEnd {
    /// The file has exactly this many bytes.
    Length(u64),
    /// A trailer ends the file ([`TrailerKey`](crate::TrailerKey)).
    Trailer,
    /// The token says it in a way that this version does not support. The data cannot be read then.
    Unsupported(Foreign),
}

impl fmt::Display for FileEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length(length) => write!(f, "{length} bytes"),
            Self::Trailer => f.write_str("a trailer at its end"),
            Self::Unsupported(foreign) => {
                write!(
                    f,
                    "an end that this version does not support ({})",
                    foreign.what
                )
            }
        }
    }
}

impl Token {
    pub(crate) fn parse(object: &Object<'_>) -> Result<Self, MetadataError> {
        let kind = object.required("type")?.name()?;
        let keyslots = object.required("keyslots")?.references()?;
        let end = || match FileEnd::parse(object) {
            Ok(end) => Ok(end),
            Err(error) => Foreign::of_any(kind, &object.place, error).map(FileEnd::Unsupported),
        };
        Ok(Self {
            kind: kind.into(),
            keyslots,
            file_end: (kind == LUXOR_FILE).then(end).transpose()?,
        })
    }
}

impl FileEnd {
    fn parse(object: &Object<'_>) -> Result<Self, MetadataError> {
        let unsupported =
            |place: String, what: String| Err(MetadataError::Unsupported { place, what });
        let Some(padding) = object.optional("padding") else {
            let length = object.required("length")?;
            let place = length.place.to_string();
            let length = length.decimal()?;
            if i64::try_from(length).is_err() {
                return unsupported(place, "it is 8 EiB or more".into());
            }
            return Ok(Self::Length(length));
        };
        let place = padding.place.to_string();
        let found = padding.name()?;
        if found != TRAILER {
            return unsupported(place, format!("it is {}, not {TRAILER}", brief(found)));
        }
        if object.optional("length").is_some() {
            let what = "it has both a length and a padding";
            return unsupported(object.place.to_string(), what.into());
        }
        Ok(Self::Trailer)
    }
}

/// Marks the tokens that say where the file in the volume ends as unsupported if there are several.
pub(crate) fn mark_several_ends(tokens: &mut BTreeMap<u32, Token>) {
    let of_file = tokens.iter().filter(|(_, token)| token.file_end.is_some());
    let numbers: Vec<u32> = of_file.map(|(&number, _)| number).collect();
    let [first, second, ..] = numbers[..] else {
        return;
    };
    for (&number, token) in tokens.iter_mut() {
        let other = if number == first { second } else { first };
        if token.file_end.is_some() {
            let what = format!("token {other} is of this type too, and only one may be");
            token.file_end = Some(FileEnd::Unsupported(Foreign::unknown(&token.kind, what)));
        }
    }
}

/// A keyslot whose secret another program gets through a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TokenKeyslot<'a> {
    /// The number of the keyslot.
    pub keyslot: u32,
    /// The number of the token.
    pub token: u32,
    /// The type of the token, such as `clevis` or `systemd-tpm2`.
    pub kind: &'a str,
}

/// Returns the keyslots of `numbers`, each with its first token. Returns none if a keyslot has no
/// token: its secret is then a passphrase or a key file.
pub(crate) fn token_keyslots(
    tokens: &BTreeMap<u32, Token>,
    numbers: impl Iterator<Item = u32>,
) -> Vec<TokenKeyslot<'_>> {
    let of_keyslot = |keyslot| {
        let mut tokens = tokens.iter();
        let (token, found) = tokens.find(|(_, token)| token.keyslots.contains(&keyslot))?;
        Some(TokenKeyslot {
            keyslot,
            token: *token,
            kind: &found.kind,
        })
    };
    let all: Option<Vec<_>> = numbers.map(of_keyslot).collect();
    all.unwrap_or_default()
}

/// Returns a token of the type that cryptsetup makes and uses for the kernel's keyring (LUKS2
/// specification, section 3.5.1): the passphrase of `keyslots` is the key named `description`. The
/// result is JSON for [`Luks2Header::add_token`](crate::Luks2Header::add_token).
#[must_use]
pub fn keyring_token(description: &str, keyslots: &[u32]) -> String {
    let keyslots: Vec<_> = keyslots.iter().map(u32::to_string).collect();
    json!({
        "type": KEYRING,
        "keyslots": keyslots,
        "key_description": description,
    })
    .to_string()
}

/// Returns metadata or a token, as JSON of json-c, with each number spelled as other parsers read it, too: `1.`
/// becomes `1.0`. `NaN` and the infinities stay, and so do bytes that are not UTF-8. Returns `None` if
/// json-c cannot read it either.
#[must_use]
pub fn usual_numbers(json: &[u8]) -> Option<Vec<u8>> {
    let text = json_c::decode_first(json).ok()?;
    Some(json_c::encode_usual(&text).into_owned())
}

/// Returns a token as JSON that every program reads, for a look at its members. Tokens may have what
/// JSON does not have, and json-c, and so cryptsetup, reads: bytes that are not UTF-8, which become
/// private characters, and numbers such as `NaN`, which become strings that begin with one. Returns `None` if
/// json-c cannot read it either.
#[must_use]
pub fn readable_token(json: &[u8]) -> Option<String> {
    json_c::decode_first(json).ok()
}

/// Checks that a payload of `payload` bytes contains a file of `length` bytes, padded with zeros to a
/// whole sector. For an empty file that is one sector.
///
/// # Errors
/// [`FileLengthError`] if the payload is too short.
pub fn check_file_length(
    length: u64,
    payload: u64,
    sector_size: SectorSize,
) -> Result<(), FileLengthError> {
    if sector_size
        .payload_len(length)
        .is_some_and(|needed| needed <= payload)
    {
        return Ok(());
    }
    Err(FileLengthError { length, payload })
}

/// The payload is shorter than the `luxor-file` token says.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the file in the volume has {length} bytes, and only {payload} bytes of its sectors are there: \
     the volume was cut off"
)]
#[non_exhaustive]
pub struct FileLengthError {
    /// The length of the file in bytes, according to the token.
    pub length: u64,
    /// The length of the payload in bytes.
    pub payload: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_needs_all_of_its_sectors() {
        for sector_size in [SectorSize::B512, SectorSize::B1024, SectorSize::B4096] {
            let sector = sector_size.bytes() as u64;
            for (length, payload) in [
                (0, sector),
                (1, sector),
                (sector - 1, sector),
                (sector, sector),
                (sector + 1, 2 * sector),
            ] {
                for enough in [payload, payload + 1, payload + sector, u64::MAX] {
                    assert_eq!(check_file_length(length, enough, sector_size), Ok(()));
                }
                for wrong in [0, payload - sector, payload - 1] {
                    assert!(check_file_length(length, wrong, sector_size).is_err());
                }
            }
            assert!(check_file_length(u64::MAX, u64::MAX, sector_size).is_err());
        }
    }
}
