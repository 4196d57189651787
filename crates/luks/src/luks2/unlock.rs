// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds the volume key with a secret. During a re-encryption the data have two keys, and the
//! digest of the re-encryption's state must match.

mod attempt;
mod error;

use std::collections::BTreeMap;

use luxor_engine::{Backend, SecretBytes};
use luxor_sector::Storage;
use luxor_volume::{Budget, VolumeKey};

pub(crate) use self::attempt::{NeededKey, confirm_volume_key, unlock};
use self::attempt::{UnlockAttempt, check_digest};
pub use self::{
    attempt::{ConfirmedKey, OpenedKey, UnlockOptions, Unlocked},
    error::{KeyslotError, Skipped, UnlockError},
};
use super::{
    digest::Digest,
    header::Luks2Header,
    metadata::Metadata,
    reencrypt::{Reencryption, ReencryptionError},
};

impl Luks2Header {
    /// Finds a keyslot that `secret` opens, and returns its volume key. Keyslots are tried in the
    /// order of priority, then of number. A keyslot that exceeds a limit on costs is skipped, and
    /// the others are still tried.
    ///
    /// During a re-encryption the data may have two keys. `secret` must open a keyslot of each, and
    /// the state of the re-encryption must match its digest. When all data have the new key, that one
    /// is enough.
    ///
    /// `storage` must be the one that the header was read from.
    ///
    /// # Errors
    /// [`UnlockError`]: no keyslot opens with `secret`, none can be tried, or this version cannot
    /// read the data with any key.
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

    /// Compares `key` with the digest of the volume key. Returns it under the number of that digest,
    /// as [`Unlocked::into_keys`] does. No keyslot is opened.
    ///
    /// # Errors
    /// [`UnlockError::WrongVolumeKey`], [`UnlockError::VolumeKeyLen`] or
    /// [`UnlockError::AmbiguousVolumeKey`] if it is another key, [`UnlockError::SeveralKeys`] during
    /// a re-encryption, and other errors if this version cannot read the data with any key.
    pub fn confirm_volume_key(
        &self,
        key: &SecretBytes,
        options: &UnlockOptions,
    ) -> Result<BTreeMap<u32, VolumeKey>, UnlockError> {
        let reencryption = self.openable()?;
        let needed = needed_keys(self.metadata(), reencryption.as_ref())?;
        match needed.as_slice() {
            [] => Err(UnlockError::NotEncrypted),
            [needed] if reencryption.is_none() => confirm_volume_key(needed, key, options),
            _ => Err(UnlockError::SeveralKeys),
        }
    }

    /// Finds a keyslot that `secret` opens, like [`Luks2Header::unlock`], even if a part of the
    /// data cannot be read because a re-encryption was interrupted in it.
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
        let reencryption = reencryption.filter(|state| !state.needs_no_old_key(metadata));
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
            // Charge the digest to the budget before the keyslots, which otherwise might be opened
            // in vain.
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

    /// Checks that the volume can be opened, given a correct secret: it has no requirement that
    /// this version does not support, no part of the data is of an unknown kind or half
    /// re-encrypted, unencrypted parts are due to a re-encryption, and the keyslots state one length
    /// for each key.
    ///
    /// # Errors
    /// [`UnlockError`]: the volume cannot be opened with any secret.
    pub fn check_openable(&self) -> Result<(), UnlockError> {
        let reencryption = self.openable()?;
        let needed = needed_keys(self.metadata(), reencryption.as_ref())?;
        needed.iter().try_for_each(NeededKey::check_len)
    }

    fn openable(&self) -> Result<Option<Reencryption<'_>>, UnlockError> {
        let reencryption = self.state()?;
        self.metadata().segments.check_readable()?;
        Ok(reencryption)
    }

    /// Returns the re-encryption that is under way, if any. A part of the data may be half
    /// re-encrypted.
    pub(in crate::luks2) fn state(&self) -> Result<Option<Reencryption<'_>>, UnlockError> {
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
            // An attacker with write access could otherwise pass off bytes of their own as the
            // owner's data.
            return Err(UnlockError::Linear { segment });
        }
        Ok(reencryption)
    }
}

/// Returns the keys of the data and of the re-encryption. The key of the data's first part comes
/// first.
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

/// Checks the state of a re-encryption against its digest, which the budget has been charged for.
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
    match digest.covers(&reencryption.bytes(&covered)) {
        Some(true) => Ok(()),
        _ => Err(ReencryptionError::Digest { digest: number }.into()),
    }
}
