// SPDX-License-Identifier: MIT OR Apache-2.0
//! From a secret to the volume key, also in the midst of a re-encryption, when the data have
//! two keys and the digest of its state has to agree.

mod attempt;
mod error;

use luxor_engine::Backend;
use luxor_sector::Storage;
use luxor_volume::Budget;

pub(crate) use self::attempt::unlock;
use self::attempt::{NeededKey, UnlockAttempt, check_digest};
pub use self::{
    attempt::{OpenedKey, UnlockOptions, Unlocked},
    error::{KeyslotError, Skipped, UnlockError},
};
use super::{
    digest::Digest,
    header::Luks2Header,
    metadata::Metadata,
    reencrypt::{Reencryption, ReencryptionError},
};

impl Luks2Header {
    /// Finds a keyslot that `secret` opens, and the volume key in it. Keyslots are
    /// tried in the order of priority, then of number. One that asks for too much
    /// does not keep the others from being tried.
    ///
    /// In the midst of a re-encryption the data may have two keys: `secret` must open a
    /// keyslot of each, and the state of the re-encryption agree with its digest.
    ///
    /// `storage` is the one that the header was read from.
    ///
    /// # Errors
    /// [`UnlockError`]: no keyslot opens with `secret`, none can be tried, or the data
    /// cannot be read whatever the secret.
    pub fn unlock(
        &self,
        storage: &dyn Storage,
        secret: &[u8],
        backend: &dyn Backend,
        options: &UnlockOptions,
    ) -> Result<Unlocked, UnlockError> {
        let reencryption = self.openable()?;
        self.open_keys(reencryption.as_ref(), storage, secret, backend, options)
    }

    /// Finds a keyslot that `secret` opens, as [`Luks2Header::unlock`] does, also when the data
    /// cannot be read because a re-encryption was interrupted while it worked on a part of
    /// them.
    ///
    /// # Errors
    /// [`UnlockError`]: no keyslot opens with `secret`, or none can be tried.
    pub fn test(
        &self,
        storage: &dyn Storage,
        secret: &[u8],
        backend: &dyn Backend,
        options: &UnlockOptions,
    ) -> Result<Unlocked, UnlockError> {
        let reencryption = self.state()?;
        self.open_keys(reencryption.as_ref(), storage, secret, backend, options)
    }

    fn open_keys(
        &self,
        reencryption: Option<&Reencryption<'_>>,
        storage: &dyn Storage,
        secret: &[u8],
        backend: &dyn Backend,
        options: &UnlockOptions,
    ) -> Result<Unlocked, UnlockError> {
        let metadata = self.metadata();
        let needed = needed_keys(metadata, reencryption)?;
        let mut attempt = UnlockAttempt {
            keyslots: &metadata.keyslots,
            foreign: &metadata.foreign_keyslots,
            storage,
            secret,
            backend,
            options,
            budget: Budget::new(options.limits()),
        };
        if let Some(reencryption) = reencryption {
            // Paid for before the keyslots, which would be opened in vain otherwise.
            let number = reencryption.digest;
            let digest = known_digest(metadata, number)?;
            check_digest(number, digest, options)?;
            attempt.budget.take_digest(digest.work()).map_err(|error| {
                UnlockError::DigestLimit {
                    digest: number,
                    error,
                }
            })?;
        }
        let keys = attempt.open_all(&needed)?;
        if let Some(reencryption) = reencryption {
            verify(reencryption, metadata, &keys)?;
        }
        Unlocked::of(keys)
    }

    /// Whether the volume can be opened by somebody who has the secret: nothing is
    /// required that this version does not know, no part of the data is of an unknown
    /// kind or half re-encrypted, and what is not encrypted is so for a reason.
    ///
    /// # Errors
    /// [`UnlockError`]; no secret helps against it.
    pub fn check_openable(&self) -> Result<(), UnlockError> {
        self.openable().map(drop)
    }

    fn openable(&self) -> Result<Option<Reencryption<'_>>, UnlockError> {
        let reencryption = self.state()?;
        self.metadata().segments.check_readable()?;
        Ok(reencryption)
    }

    /// The re-encryption that there may be. A part of the data may be half re-encrypted.
    fn state(&self) -> Result<Option<Reencryption<'_>>, UnlockError> {
        let metadata = self.metadata();
        let unknown: Vec<_> = metadata.config.unknown_requirements().collect();
        if !unknown.is_empty() {
            let names = unknown.into_iter().map(str::to_owned).collect();
            return Err(UnlockError::Requirements { names });
        }
        metadata.segments.check_known()?;
        let reencryption = Reencryption::of(metadata)?;
        let mut data = metadata.segments.data();
        if reencryption.is_none()
            && let Some((segment, _)) = data.find(|(_, entry)| entry.crypt().is_none())
        {
            // Who could write it could have had us take their bytes for the owner's.
            return Err(UnlockError::Linear { segment });
        }
        Ok(reencryption)
    }
}

/// The keys of the data and of the re-encryption, the data's first one first.
fn needed_keys<'a>(
    metadata: &'a Metadata,
    reencryption: Option<&Reencryption<'_>>,
) -> Result<Vec<NeededKey<'a>>, UnlockError> {
    let data = metadata.segments.data().filter_map(|(number, entry)| {
        let segment = entry.crypt()?;
        Some((metadata.digest_of_segment(number), segment.encryption))
    });
    let state = reencryption.map_or(Vec::new(), Reencryption::keys);
    let mut needed: Vec<NeededKey<'_>> = Vec::new();
    for (number, encryption) in data.chain(state) {
        if needed.iter().all(|key| key.number != number) {
            needed.push(NeededKey {
                number,
                digest: known_digest(metadata, number)?,
                encryption,
            });
        }
    }
    Ok(needed)
}

fn known_digest(metadata: &Metadata, number: u32) -> Result<&Digest, UnlockError> {
    let foreign = || UnlockError::ForeignDigest {
        digest: number,
        what: metadata.foreign_digests[&number].what.clone(),
    };
    metadata.digests.get(&number).ok_or_else(foreign)
}

/// Compares the state of a re-encryption with its digest, which has been paid for.
fn verify(
    reencryption: &Reencryption<'_>,
    metadata: &Metadata,
    keys: &[OpenedKey],
) -> Result<(), UnlockError> {
    let number = reencryption.digest;
    let digest = known_digest(metadata, number)?;
    let covered: Vec<&[u8]> = reencryption
        .keys()
        .into_iter()
        .filter_map(|(number, _)| keys.iter().find(|key| key.digest == number))
        .map(|key| key.volume_key.expose())
        .collect();
    match digest.verify(reencryption.bytes(&covered).expose()) {
        Some(true) => Ok(()),
        _ => Err(ReencryptionError::Digest { digest: number }.into()),
    }
}
