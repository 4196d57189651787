// SPDX-License-Identifier: MIT OR Apache-2.0
//! The config object: sizes, flags, requirements (LUKS2 specification, section 3.6).

use std::{fmt, str::FromStr};

use luxor_volume::brief;

use super::{binary_header, field::Object, metadata_error::MetadataError};

/// The config object.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Config {
    /// The length of the JSON area in bytes.
    pub json_size: u64,
    /// The length in bytes of the keyslots area, which begins after both headers.
    pub keyslots_size: u64,
    /// The names of the activation flags ([`ActivationFlag::name`]). Unknown ones are kept and have
    /// no effect.
    pub flags: Vec<String>,
    /// The features that a program must support before it opens the volume.
    pub requirements: Vec<String>,
}

/// cryptsetup's limit on the length of the keyslots area, in bytes.
pub(crate) const MAX_KEYSLOTS_SIZE: u64 = 128 << 20;

/// The requirements of an online re-encryption, each with its version.
const REENCRYPT: [(&str, u8); 3] = [
    ("online-reencrypt", 1),
    ("online-reencrypt-v2", 2),
    ("online-reencrypt-v3", 3),
];

impl Config {
    /// The requirements that this version does not support. If there are any, Luxor only shows the
    /// metadata.
    pub fn unknown_requirements(&self) -> impl Iterator<Item = &str> {
        self.requirements
            .iter()
            .map(String::as_str)
            .filter(|name| REENCRYPT.iter().all(|(known, _)| known != name))
    }

    /// The version (1 to 3) of the online re-encryption that is under way; `None` if there is none.
    #[must_use]
    pub fn reencrypt_version(&self) -> Option<u8> {
        reencryptions(&self.requirements)
            .next()
            .map(|(_, version)| version)
    }

    /// Parses the config object. `header_size` is `hdr_size` of the binary header.
    pub(crate) fn parse(object: &Object<'_>, header_size: u64) -> Result<Self, MetadataError> {
        let requirements = match object.optional("requirements") {
            None => Vec::new(),
            Some(field) => match field.object()?.optional("mandatory") {
                None => Vec::new(),
                Some(mandatory) => owned(&mandatory.texts()?),
            },
        };
        let versions: Vec<_> = reencryptions(&requirements).collect();
        if let [(first, _), (second, _), ..] = versions[..] {
            return Err(MetadataError::TwoReencryptions { first, second });
        }
        let flags = match object.optional("flags") {
            None => Vec::new(),
            Some(flags) => owned(&flags.texts()?),
        };
        let json_size = object.required("json_size")?.c_decimal()?;
        let expected = header_size - binary_header::LEN as u64;
        if json_size != expected {
            return Err(MetadataError::JsonSize {
                found: json_size,
                expected,
            });
        }
        let keyslots_size = object.required("keyslots_size")?.c_decimal()?;
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

/// Returns the requirements among `requirements` that stand for an online re-encryption.
fn reencryptions(requirements: &[String]) -> impl Iterator<Item = (&'static str, u8)> {
    requirements
        .iter()
        .filter_map(|name| REENCRYPT.into_iter().find(|(known, _)| known == name))
}

fn owned(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|&text| text.into()).collect()
}

/// An activation flag that is stored in the volume, for dm-crypt (LUKS2 specification, section
/// 3.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ActivationFlag {
    /// Discards are passed on to the storage.
    AllowDiscards,
    /// dm-crypt encrypts data on the CPU that issued the I/O.
    SameCpuCrypt,
    /// dm-crypt's encryption threads submit the writes themselves.
    SubmitFromCryptCpus,
    /// dm-integrity keeps no journal.
    NoJournal,
    /// dm-crypt uses no work queue for reads.
    NoReadWorkqueue,
    /// dm-crypt uses no work queue for writes.
    NoWriteWorkqueue,
}

impl ActivationFlag {
    /// All flags, in cryptsetup's order.
    pub const ALL: [Self; 6] = [
        Self::AllowDiscards,
        Self::SameCpuCrypt,
        Self::SubmitFromCryptCpus,
        Self::NoJournal,
        Self::NoReadWorkqueue,
        Self::NoWriteWorkqueue,
    ];

    /// The name in the metadata, such as `allow-discards`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::AllowDiscards => "allow-discards",
            Self::SameCpuCrypt => "same-cpu-crypt",
            Self::SubmitFromCryptCpus => "submit-from-crypt-cpus",
            Self::NoJournal => "no-journal",
            Self::NoReadWorkqueue => "no-read-workqueue",
            Self::NoWriteWorkqueue => "no-write-workqueue",
        }
    }
}

impl fmt::Display for ActivationFlag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for ActivationFlag {
    type Err = UnknownFlag;

    fn from_str(name: &str) -> Result<Self, UnknownFlag> {
        Self::ALL
            .into_iter()
            .find(|flag| flag.name() == name)
            .ok_or_else(|| UnknownFlag { name: name.into() })
    }
}

/// A name that is not an activation flag of this version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{} is not a flag; the flags are {}",
    brief(name),
    ActivationFlag::ALL.map(ActivationFlag::name).join(", ")
)]
#[non_exhaustive]
pub struct UnknownFlag {
    /// The name.
    pub name: String,
}
