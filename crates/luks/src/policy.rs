// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requirements that a volume's metadata must meet before the volume is used, for callers that open
//! volumes which others could have changed. An attacker with write access to a volume can replace
//! its header, and so introduce a weaker cipher, a keyslot that is cheap to guess, or a key of the
//! attacker's own (CVE-2025-59054 and similar).

use luxor_volume::{Argon2Kind, Encryption, HashAlgorithm, Kdf, PbkdfKind, brief};

use crate::{header_digest::HeaderDigest, luks2::keyslot::Keyslot, volume::VolumeHeader};

// The least costs of a keyslot that [`HeaderPolicy::pbkdfs`] accepts. They are those of the OWASP
// Password Storage Cheat Sheet for a memorised password. Below them the name of a good function
// means nothing: argon2id may run one pass over 8 KiB.

/// The least memory of Argon2 in KiB: the smallest of OWASP's five choices (7 MiB with 5 passes).
pub const MIN_REQUIRED_ARGON2_MEMORY_KIB: u32 = 7168;

/// The least product of Argon2's memory in KiB and its passes: the smallest of OWASP's five
/// choices, which OWASP counts as equal (46 MiB × 1, 19 MiB × 2, 12 MiB × 3, 9 MiB × 4, 7 MiB × 5).
pub const MIN_REQUIRED_ARGON2_WORK_KIB: u64 = 7168 * 5;

/// The fewest passes of Argon2i. With one or two passes there are attacks on it (RFC 9106, section
/// 7.3).
const MIN_REQUIRED_ARGON2I_PASSES: u32 = 3;

/// Returns the fewest iterations of PBKDF2-HMAC with `hash`. OWASP lists SHA-1, SHA-256 and
/// SHA-512. Any other hash must meet the number for the listed hash of the same output length,
/// which is the cheaper of the two to compute.
const fn min_required_iterations(hash: HashAlgorithm) -> u32 {
    match hash.output_len() {
        ..=20 => 1_300_000,
        21..=32 => 600_000,
        _ => 210_000,
    }
}

/// Requirements for a volume's metadata. The default accepts everything that can be read.
///
/// The check and the use see the same bytes: a [`VolumeHeader`] is read once, and the value that
/// [`HeaderPolicy::check`] accepted is the one that is used afterwards.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeaderPolicy {
    /// The data and all keyslots must be encrypted with one of these. Empty: any encryption is
    /// accepted.
    pub encryptions: Vec<Encryption>,
    /// All keyslots must derive their keys with one of these, at no less than the costs that the
    /// OWASP Password Storage Cheat Sheet recommends. Empty: any key derivation is accepted.
    ///
    /// The costs are: for Argon2 at least 7168 KiB of memory, 35840 KiB times passes, and 3 passes
    /// of Argon2i; for PBKDF2 at least 1,300,000 iterations of SHA-1 and RIPEMD-160, 600,000 of
    /// SHA-256, and 210,000 of SHA-512 and Whirlpool.
    pub pbkdfs: Vec<PbkdfKind>,
    /// The metadata must have this digest, as [`VolumeHeader::digest`] returns it. `None`: any
    /// digest is accepted.
    pub digest: Option<HeaderDigest>,
}

impl HeaderPolicy {
    /// Returns whether the policy requires nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Checks the metadata against the policy.
    ///
    /// # Errors
    /// [`PolicyError`] names the first requirement that the metadata do not meet.
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
            // Unencrypted data and unknown ciphers match no required encryption.
            if !self.permits_encryption(encryption) {
                let name = encryption.map(Encryption::name);
                return Err(PolicyError::Encryption {
                    found: name.unwrap_or("no known cipher").into(),
                    required: self.encryptions.clone(),
                });
            }
        }
        for (&number, keyslot) in header.keyslots() {
            self.check_keyslot(number, keyslot)?;
        }
        // A keyslot that this version cannot open may still open for another program. The keyslot
        // of a re-encryption holds no key.
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
        if !self.permits_encryption(Encryption::of_area_by_name(encryption)) {
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

    fn permits_encryption(&self, encryption: Option<Encryption>) -> bool {
        let permits = |encryption| self.encryptions.contains(&encryption);
        self.encryptions.is_empty() || encryption.is_some_and(permits)
    }
}

/// Returns, in words, what the key derivation costs and what it must cost, if it costs too little
/// or its cost is unknown.
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
            (*iterations < least).then(|| (found, format!("at least {least} iterations")))
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

/// A requirement that the metadata do not meet.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// The header is not the expected one.
    #[error(
        "the header's digest is {found}, not {expected}: the header was changed or damaged since \
         that digest was made"
    )]
    Digest {
        /// The digest of the header.
        found: HeaderDigest,
        /// The digest that the policy requires.
        expected: HeaderDigest,
    },
    /// The data are encrypted with another cipher.
    #[error(
        "the data are encrypted with {found}, and {} is required",
        names(required)
    )]
    Encryption {
        /// The encryption's name.
        found: String,
        /// The encryptions that the policy accepts.
        required: Vec<Encryption>,
    },
    /// A keyslot is encrypted with another cipher.
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
        /// The encryptions that the policy accepts.
        required: Vec<Encryption>,
    },
    /// A keyslot's key is derived by another function.
    #[error(
        "keyslot {keyslot} uses {found}, and {} is required",
        alternatives(required.iter().map(|kind| kind.name()))
    )]
    Pbkdf {
        /// The keyslot.
        keyslot: u32,
        /// The keyslot's key derivation.
        found: PbkdfKind,
        /// The key derivations that the policy accepts.
        required: Vec<PbkdfKind>,
    },
    /// A keyslot's key is derived by an accepted function, but at too low a cost.
    #[error(
        "guessing the passphrase of keyslot {keyslot} costs too little ({found}); the required key \
         derivation needs {required}"
    )]
    Cheap {
        /// The keyslot.
        keyslot: u32,
        /// What it costs, in words.
        found: String,
        /// What it must cost, in words.
        required: String,
    },
    /// The keyslot's type or key derivation is unknown to this version, so it cannot be checked.
    #[error("keyslot {keyslot} cannot be checked against the requirement: {what}")]
    ForeignKeyslot {
        /// The keyslot.
        keyslot: u32,
        /// What this version does not know, in words.
        what: String,
    },
}

fn names(encryptions: &[Encryption]) -> String {
    alternatives(encryptions.iter().map(|one| one.name()))
}

fn alternatives<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.collect::<Vec<_>>().join(" or ")
}
