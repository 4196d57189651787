// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tokens: notes in the metadata (LUKS2 specification, section 3.5). Luxor's own token records the
//! exact length of a file; all others are kept and ignored.

use luxor_sector::SectorSize;
use serde_json::json;

use super::{field::Object, metadata_error::MetadataError};

/// The type of the token that records a file's length.
pub(crate) const LUXOR_FILE: &str = "luxor-file";

/// A token. [`Luks2Header::token_json`](crate::Luks2Header::token_json) returns its other fields.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Token {
    /// Its type.
    pub kind: String,
    /// The numbers of the keyslots that it refers to.
    pub keyslots: Vec<u32>,
    /// The exact length in bytes of the file in the volume, if the type is `luxor-file`.
    pub file_length: Option<u64>,
}

impl Token {
    pub(crate) fn parse(object: &Object<'_>) -> Result<Self, MetadataError> {
        let kind = object.required("type")?.name()?;
        let keyslots = object.required("keyslots")?.repeated_references()?;
        let file_length = match kind {
            LUXOR_FILE => Some(object.required("length")?.decimal()?),
            _ => None,
        };
        Ok(Self {
            kind: kind.into(),
            keyslots,
            file_length,
        })
    }
}

/// Returns a token of the type that cryptsetup makes and uses for the kernel's keyring (LUKS2
/// specification, section 3.5.1): the passphrase of `keyslots` is the key named `description`. The
/// result is JSON for [`Luks2Header::add_token`](crate::Luks2Header::add_token).
#[must_use]
pub fn keyring_token(description: &str, keyslots: &[u32]) -> String {
    let keyslots: Vec<_> = keyslots.iter().map(u32::to_string).collect();
    json!({
        "type": "luks2-keyring",
        "keyslots": keyslots,
        "key_description": description,
    })
    .to_string()
}

/// Checks that a file of `length` bytes fits a payload of `payload` bytes exactly: the payload is
/// the file, padded with zeros to a whole sector. For an empty file it is one sector.
///
/// # Errors
/// [`FileLengthError`] if the payload has another length.
pub fn check_file_length(
    length: u64,
    payload: u64,
    sector_size: SectorSize,
) -> Result<(), FileLengthError> {
    if sector_size.payload_len(length) != Some(payload) {
        return Err(FileLengthError {
            length,
            payload,
            sector: sector_size.bytes() as u64,
        });
    }
    Ok(())
}

/// The length in the `luxor-file` token does not fit the payload.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the luxor-file token gives the file {length} bytes, which does not fit {payload} bytes of \
     data in sectors of {sector}: the volume was cut off, extended or changed"
)]
#[non_exhaustive]
pub struct FileLengthError {
    /// The length of the file in bytes, according to the token.
    pub length: u64,
    /// The length of the payload in bytes.
    pub payload: u64,
    /// The sector size in bytes.
    pub sector: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_fits_one_payload_only() {
        for sector_size in [SectorSize::B512, SectorSize::B1024, SectorSize::B4096] {
            let sector = sector_size.bytes() as u64;
            for (length, payload) in [
                (0, sector),
                (1, sector),
                (sector - 1, sector),
                (sector, sector),
                (sector + 1, 2 * sector),
            ] {
                assert_eq!(check_file_length(length, payload, sector_size), Ok(()));
                for wrong in [0, payload - sector, payload + sector, payload - 1] {
                    assert!(check_file_length(length, wrong, sector_size).is_err());
                }
            }
            assert!(check_file_length(u64::MAX, u64::MAX, sector_size).is_err());
        }
    }
}
