// SPDX-License-Identifier: MIT OR Apache-2.0
//! The config object: sizes, flags, requirements (LUKS2 specification, section 3.6).

use super::{binary_header, field::Object, metadata::MetadataError};

/// The config object.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Config {
    /// The length of the JSON area in bytes.
    pub json_size: u64,
    /// The length of the keyslots area, which begins after both headers, in bytes.
    pub keyslots_size: u64,
    /// Flags for activation, such as `allow-discards`; unknown ones are ignored.
    pub flags: Vec<String>,
    /// What a program must be able to do before it opens the volume.
    pub requirements: Vec<String>,
}

/// cryptsetup's limit on the keyslots area, in bytes.
const MAX_KEYSLOTS_SIZE: u64 = 128 << 20;

/// The requirements of an online re-encryption, by its version.
const REENCRYPT: [(&str, u8); 3] = [
    ("online-reencrypt", 1),
    ("online-reencrypt-v2", 2),
    ("online-reencrypt-v3", 3),
];

impl Config {
    /// The requirements that this version does not know: it then only shows the
    /// metadata.
    pub fn unknown_requirements(&self) -> impl Iterator<Item = &str> {
        self.requirements
            .iter()
            .map(String::as_str)
            .filter(|name| REENCRYPT.iter().all(|(known, _)| known != name))
    }

    /// The version of the online re-encryption that is under way, 1 to 3; `None` when
    /// there is none. The least when several are given, as it promises least.
    #[must_use]
    pub fn reencrypt_version(&self) -> Option<u8> {
        REENCRYPT
            .iter()
            .find(|(name, _)| self.requirements.iter().any(|found| found == name))
            .map(|&(_, version)| version)
    }

    /// `header_size` is the binary header's `hdr_size`.
    pub(crate) fn parse(object: &Object<'_>, header_size: u64) -> Result<Self, MetadataError> {
        let requirements = match object.optional("requirements") {
            None => Vec::new(),
            Some(field) => match field.object()?.optional("mandatory") {
                None => Vec::new(),
                Some(mandatory) => owned(&mandatory.texts()?),
            },
        };
        let flags = match object.optional("flags") {
            None => Vec::new(),
            Some(flags) => owned(&flags.texts()?),
        };
        let json_size = object.required("json_size")?.decimal()?;
        let expected = header_size - binary_header::LEN as u64;
        if json_size != expected {
            return Err(MetadataError::JsonSize {
                found: json_size,
                expected,
            });
        }
        let keyslots_size = object.required("keyslots_size")?.decimal()?;
        if !keyslots_size.is_multiple_of(4096) || keyslots_size > MAX_KEYSLOTS_SIZE {
            return Err(MetadataError::KeyslotsSize {
                found: keyslots_size,
                max: MAX_KEYSLOTS_SIZE,
            });
        }
        Ok(Self {
            json_size,
            keyslots_size,
            flags,
            requirements,
        })
    }
}

fn owned(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|&text| text.into()).collect()
}
