// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a volume's metadata must be before anything is done with them, for those who
//! open volumes that others could have changed. Who can write to a volume can put
//! another header there, and with it a weaker cipher, a keyslot that is cheap to
//! guess, or a key of their own (CVE-2025-59054 and its kin).

use luxor_volume::{Argon2Kind, Encryption, HashAlgorithm, Kdf, PbkdfKind, brief};

use crate::{header_digest::HeaderDigest, luks2::keyslot::Keyslot, volume::VolumeHeader};

// The least costs of a keyslot that [`HeaderPolicy::pbkdfs`] accepts: those that the OWASP
// Password Storage Cheat Sheet gives for a password that a person remembers. Below them the
// name of a good function says nothing: argon2id may run one pass over 8 KiB.

/// Argon2's memory in KiB: the least of OWASP's five choices (7 MiB with 5 passes).
pub const MIN_REQUIRED_ARGON2_MEMORY_KIB: u32 = 7168;

/// Argon2's memory in KiB times its passes: the least of OWASP's five choices, which it
/// counts as equal (46 MiB × 1, 19 MiB × 2, 12 MiB × 3, 9 MiB × 4, 7 MiB × 5).
pub const MIN_REQUIRED_ARGON2_WORK_KIB: u64 = 7168 * 5;

/// The passes of Argon2i, which is the weaker with fewer (RFC 9106, section 7.3: the
/// attacks on one pass and on two).
const MIN_REQUIRED_ARGON2I_PASSES: u32 = 3;

/// The iterations of PBKDF2 with HMAC. OWASP has SHA-1, SHA-256 and SHA-512. Each other
/// hash is held to the one of the same length, which is the cheaper of the two to compute.
const fn min_required_iterations(hash: HashAlgorithm) -> u32 {
    match hash.output_len() {
        ..=20 => 1_300_000,
        21..=32 => 600_000,
        _ => 210_000,
    }
}

/// What a volume's metadata must be; by default anything that can be read.
///
/// A [`VolumeHeader`] is read once: the one that [`HeaderPolicy::check`] has accepted
/// is the one that its other methods use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeaderPolicy {
    /// The data and all keyslots must be encrypted with one of these; with anything
    /// when there are none.
    pub encryptions: Vec<Encryption>,
    /// All keyslots must derive their keys by one of these, at no less than the costs that
    /// OWASP recommends; by anything when there are none.
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
        // Another program may open what this version does not.
        let foreign = header.foreign_keyslots().into_iter().flatten();
        for (&keyslot, foreign) in foreign.filter(|(_, foreign)| foreign.kind != "reencrypt") {
            if !(self.pbkdfs.is_empty() && self.encryptions.is_empty()) {
                return Err(PolicyError::ForeignKeyslot {
                    keyslot,
                    what: foreign.what.clone(),
                });
            }
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
        if self.pbkdfs.is_empty() {
            return Ok(());
        }
        if !self.pbkdfs.contains(&kind) {
            return Err(PolicyError::Pbkdf {
                keyslot: number,
                found: kind,
                required: self.pbkdfs.clone(),
            });
        }
        match too_cheap(&keyslot.kdf) {
            None => Ok(()),
            Some((found, required)) => Err(PolicyError::Cheap {
                keyslot: number,
                found,
                required,
            }),
        }
    }

    fn permits_encryption(&self, name: &str) -> bool {
        self.encryptions.is_empty() || self.encryptions.iter().any(|one| one.name() == name)
    }
}

/// What a key derivation costs and what it must cost at least, in words, when it costs
/// less, or when nobody can tell.
fn too_cheap(kdf: &Kdf) -> Option<(String, String)> {
    match kdf {
        Kdf::Pbkdf2 {
            hash, iterations, ..
        } => {
            let found = format!("{iterations} iterations of {}", brief(hash));
            let Some(hash) = HashAlgorithm::by_name(hash) else {
                let required = format!("one of the hashes {}", HashAlgorithm::NAMES);
                return Some((found, required));
            };
            let least = min_required_iterations(hash);
            (*iterations < least).then(|| (found, format!("{least} iterations at least")))
        }
        &Kdf::Argon2 {
            kind,
            time,
            memory_kib,
            ..
        } => {
            let passes = match kind {
                Argon2Kind::I => MIN_REQUIRED_ARGON2I_PASSES,
                Argon2Kind::Id => 1,
            };
            let work = u64::from(time) * u64::from(memory_kib);
            let enough = memory_kib >= MIN_REQUIRED_ARGON2_MEMORY_KIB
                && work >= MIN_REQUIRED_ARGON2_WORK_KIB
                && time >= passes;
            (!enough).then(|| {
                let found = format!("passes: {time}, memory: {memory_kib} KiB");
                let required = format!(
                    "at least {MIN_REQUIRED_ARGON2_MEMORY_KIB} KiB of memory, \
                     {MIN_REQUIRED_ARGON2_WORK_KIB} KiB times passes, and passes: {passes}"
                );
                (found, required)
            })
        }
    }
}

/// What metadata are and must not be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// Another header.
    #[error(
        "the header's digest is {found}, not {expected}: the header was changed or damaged since \
         that digest was made"
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
        "keyslot {keyslot} uses {found}, and {} is required",
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
    /// A keyslot's key is derived by the right function at too low a cost.
    #[error(
        "keyslot {keyslot} costs too little to attack ({found}); the required key derivation \
         needs {required}"
    )]
    Cheap {
        /// The keyslot.
        keyslot: u32,
        /// What it costs, in words.
        found: String,
        /// What it must cost, in words.
        required: String,
    },
    /// A keyslot of a type, or with a key derivation, that cannot be judged.
    #[error("keyslot {keyslot} cannot be checked against the requirement: {what}")]
    ForeignKeyslot {
        /// The keyslot.
        keyslot: u32,
        /// What is not known, in words.
        what: String,
    },
}

fn names(encryptions: &[Encryption]) -> String {
    alternatives(encryptions.iter().map(|one| one.name()))
}

fn alternatives<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.collect::<Vec<_>>().join(" or ")
}
