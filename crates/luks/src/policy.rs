// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a volume's metadata must be before anything is done with them, for those who
//! open volumes that others could have changed. Who can write to a volume can put
//! another header there, and with it a weaker cipher, a keyslot that is cheap to
//! guess, or a key of their own (CVE-2025-59054 and its kin).

use crate::{
    cipher::Encryption, header_digest::HeaderDigest, json::brief, keyslot::Keyslot,
    pbkdf::PbkdfKind, volume::VolumeHeader,
};

/// What a volume's metadata must be; by default anything that can be read.
///
/// A [`VolumeHeader`] is read once: the one that [`HeaderPolicy::check`] has accepted
/// is the one that its other methods use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeaderPolicy {
    /// The data and all keyslots must be encrypted with one of these; with anything
    /// when there are none.
    pub encryptions: Vec<Encryption>,
    /// All keyslots must derive their keys by one of these; by anything when there are
    /// none.
    pub pbkdfs: Vec<PbkdfKind>,
    /// The metadata must have this digest.
    pub digest: Option<HeaderDigest>,
}

impl HeaderPolicy {
    /// Whether it asks for nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Compares the metadata with what they must be.
    ///
    /// # Errors
    /// [`PolicyError`]: the first thing that they are and must not be.
    pub fn check(&self, header: &VolumeHeader) -> Result<(), PolicyError> {
        if let Some(expected) = self.digest
            && header.digest() != expected
        {
            return Err(PolicyError::Digest {
                found: header.digest(),
                expected,
            });
        }
        for encryption in header.encryptions() {
            let name = encryption.map(Encryption::name);
            // What is not encrypted, or in an unknown way, is nothing that was asked for.
            if !self.permits_encryption(name.unwrap_or_default()) {
                return Err(PolicyError::Encryption {
                    found: name.unwrap_or("nothing that is known").into(),
                    required: self.encryptions.clone(),
                });
            }
        }
        for (&number, keyslot) in header.keyslots() {
            self.check_keyslot(number, keyslot)?;
        }
        Ok(())
    }

    fn check_keyslot(&self, number: u32, keyslot: &Keyslot) -> Result<(), PolicyError> {
        let encryption = &keyslot.area.encryption;
        if !self.permits_encryption(encryption) {
            return Err(PolicyError::KeyslotEncryption {
                keyslot: number,
                found: encryption.clone(),
                required: self.encryptions.clone(),
            });
        }
        let kind = keyslot.kdf.kind();
        if !self.pbkdfs.is_empty() && !self.pbkdfs.contains(&kind) {
            return Err(PolicyError::Pbkdf {
                keyslot: number,
                found: kind,
                required: self.pbkdfs.clone(),
            });
        }
        Ok(())
    }

    fn permits_encryption(&self, name: &str) -> bool {
        self.encryptions.is_empty() || self.encryptions.iter().any(|one| one.name() == name)
    }
}

/// What metadata are and must not be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// Another header.
    #[error(
        "the header's digest is {found}, not {expected}: it was changed, or is damaged, since \
         that digest was taken"
    )]
    Digest {
        /// What it is.
        found: HeaderDigest,
        /// What it must be.
        expected: HeaderDigest,
    },
    /// The data are encrypted otherwise.
    #[error(
        "the data are encrypted with {found}, and {} is required",
        names(required)
    )]
    Encryption {
        /// The encryption's name.
        found: String,
        /// One of these it must be.
        required: Vec<Encryption>,
    },
    /// A keyslot is encrypted otherwise.
    #[error(
        "keyslot {keyslot} is encrypted with {}, and {} is required",
        brief(found),
        names(required)
    )]
    KeyslotEncryption {
        /// The keyslot.
        keyslot: u32,
        /// The encryption's name.
        found: String,
        /// One of these it must be.
        required: Vec<Encryption>,
    },
    /// A keyslot's key is derived otherwise.
    #[error(
        "keyslot {keyslot} derives its key by {found}, and {} is required",
        alternatives(required.iter().map(|kind| kind.name()))
    )]
    Pbkdf {
        /// The keyslot.
        keyslot: u32,
        /// How.
        found: PbkdfKind,
        /// One of these it must be.
        required: Vec<PbkdfKind>,
    },
}

fn names(encryptions: &[Encryption]) -> String {
    alternatives(encryptions.iter().map(|one| one.name()))
}

fn alternatives<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.collect::<Vec<_>>().join(" or ")
}
