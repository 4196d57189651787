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
    /// there is none.
    #[must_use]
    pub fn reencrypt_version(&self) -> Option<u8> {
        reencryptions(&self.requirements)
            .next()
            .map(|(_, version)| version)
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
        let versions: Vec<_> = reencryptions(&requirements).collect();
        if let [(first, _), (second, _), ..] = versions[..] {
            return Err(MetadataError::TwoReencryptions { first, second });
        }
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

/// Those of an online re-encryption.
fn reencryptions(requirements: &[String]) -> impl Iterator<Item = (&'static str, u8)> {
    requirements
        .iter()
        .filter_map(|name| REENCRYPT.into_iter().find(|(known, _)| known == name))
}

fn owned(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|&text| text.into()).collect()
}

/// A flag for activation that is kept in the volume (LUKS2 specification, section 3.6).
/// They are for dm-crypt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ActivationFlag {
    /// Discards reach the storage.
    AllowDiscards,
    /// Encryption on the CPU that asked for the I/O.
    SameCpuCrypt,
    /// Writes are submitted by the thread that encrypts.
    SubmitFromCryptCpus,
    /// No journal for integrity tags.
    NoJournal,
    /// Reads without a work queue.
    NoReadWorkqueue,
    /// Writes without a work queue.
    NoWriteWorkqueue,
}

impl ActivationFlag {
    /// All, in cryptsetup's order.
    pub const ALL: [Self; 6] = [
        Self::AllowDiscards,
        Self::SameCpuCrypt,
        Self::SubmitFromCryptCpus,
        Self::NoJournal,
        Self::NoReadWorkqueue,
        Self::NoWriteWorkqueue,
    ];

    /// The name in the metadata: `allow-discards`.
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

/// No flag for activation that this version knows.
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
