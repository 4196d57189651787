// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds the volume key with a secret. During a re-encryption the data have two keys, and the
//! digest of the re-encryption's state must match.

mod attempt;
mod error;

use std::collections::BTreeMap;

use luxor_engine::Backend;
use luxor_secret::SecretBytes;
use luxor_sector::Storage;
use luxor_volume::{Budget, Encryption, UnlockOptions, VolumeKey};

use self::attempt::{UnlockAttempt, check_digest, contradiction};
pub use self::{
    attempt::{ConfirmedKey, OpenedKey, Unlocked},
    error::{KeyslotError, Skipped, UnlockError},
};
pub(crate) use self::{
    attempt::{NeededKey, confirm_volume_key, unlock},
    error::HINT_AES_192,
};
use super::{
    digest::Digest,
    header::Luks2Header,
    metadata::Metadata,
    reencrypt::{Reencryption, ReencryptionError},
    segment::{SegmentEntry, SegmentKind},
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
        let state = (reencryption.as_ref(), KeyUse::Data);
        self.open_keys(state, storage, secret, backend, options)
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
        self.confirm(self.openable()?.as_ref(), KeyUse::Data, key, options)
    }

    /// Compares `key` with the digest of the volume key, like [`Luks2Header::confirm_volume_key`],
    /// even if this version cannot read the data.
    ///
    /// # Errors
    /// [`UnlockError::WrongVolumeKey`] if it is another key, and [`UnlockError::SeveralKeys`] during a
    /// re-encryption.
    pub fn test_volume_key(
        &self,
        key: &SecretBytes,
        options: &UnlockOptions,
    ) -> Result<BTreeMap<u32, VolumeKey>, UnlockError> {
        self.confirm(self.state()?.as_ref(), KeyUse::Storing, key, options)
    }

    fn confirm(
        &self,
        reencryption: Option<&Reencryption<'_>>,
        key_use: KeyUse,
        key: &SecretBytes,
        options: &UnlockOptions,
    ) -> Result<BTreeMap<u32, VolumeKey>, UnlockError> {
        let needed = needed_keys(self.metadata(), reencryption, key_use)?;
        match needed.as_slice() {
            [] => Err(UnlockError::NotEncrypted),
            [needed] if reencryption.is_none() => confirm_volume_key(needed, key, options),
            _ => Err(UnlockError::SeveralKeys),
        }
    }

    /// Finds a keyslot that `secret` opens, like [`Luks2Header::unlock`], even if the data cannot be
    /// read: because a re-encryption was interrupted in a part of them, or because this version does
    /// not support their encryption or a requirement of the volume.
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
        let state = (reencryption.as_ref(), KeyUse::Storing);
        self.open_keys(state, storage, secret, backend, options)
    }

    fn open_keys(
        &self,
        (reencryption, key_use): (Option<&Reencryption<'_>>, KeyUse),
        storage: &dyn Storage,
        secret: &[u8],
        backend: &dyn Backend,
        options: &UnlockOptions,
    ) -> Result<Unlocked, UnlockError> {
        let metadata = self.metadata();
        // Only the old key recognises the trailer of a file, as long as one of its keyslots is left.
        let more = reencryption.filter(|_| metadata.has_trailer());
        let reencryption = reencryption.filter(|state| !state.needs_no_old_key(metadata));
        let more = match (reencryption, more) {
            (None, Some(state)) => needed_keys(metadata, Some(state), key_use)?,
            _ => Vec::new(),
        };
        let needed = needed_keys(metadata, reencryption, key_use)?;
        let mut attempt = UnlockAttempt {
            keyslots: &metadata.keyslots,
            foreign: &metadata.foreign_keyslots,
            damaged: &BTreeMap::new(),
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
        let mut keys = attempt.open_all(&needed)?;
        for key in more.iter().skip(needed.len()) {
            keys.extend(attempt.open(key).ok());
        }
        if let Some(reencryption) = reencryption {
            verify(reencryption, metadata, &keys)?;
        }
        Unlocked::from_keys(keys)
    }

    /// Checks that the keyslots of each digest state one length for its key. Contradictions do not prevent
    /// opening the volume if the encryption of the data says which lengths a key can have.
    pub(crate) fn check_key_lens(&self) -> Result<(), UnlockError> {
        let digests = self.metadata().digests.iter();
        digests.into_iter().try_for_each(|(&number, digest)| {
            contradiction(number, digest.key_len).map_or(Ok(()), Err)
        })
    }

    /// Checks that the volume can be opened, given a correct secret: it has no requirement that
    /// this version does not support, no part of the data is of an unknown kind or half
    /// re-encrypted, unencrypted parts are due to a re-encryption, it is known where a file in the
    /// volume ends, and the keyslots state lengths that the keys can have.
    ///
    /// # Errors
    /// [`UnlockError`]: the volume cannot be opened with any secret.
    pub fn check_openable(&self) -> Result<(), UnlockError> {
        let reencryption = self.openable()?;
        let needed = needed_keys(self.metadata(), reencryption.as_ref(), KeyUse::Data)?;
        needed.iter().try_for_each(NeededKey::check_len)
    }

    fn openable(&self) -> Result<Option<Reencryption<'_>>, UnlockError> {
        let unknown = self.metadata().config.unknown_requirements();
        let names: Vec<_> = unknown.map(str::to_owned).collect();
        if !names.is_empty() {
            return Err(UnlockError::Requirements { names });
        }
        let reencryption = self.state()?;
        self.metadata().check_readable()?;
        self.metadata().check_file_end()?;
        Ok(reencryption)
    }

    /// Returns the re-encryption that is under way, if any. A part of the data may be half
    /// re-encrypted. Without a re-encryption, this version may not support a part of the data.
    pub(in crate::luks2) fn state(&self) -> Result<Option<Reencryption<'_>>, UnlockError> {
        let metadata = self.metadata();
        if metadata.config.reencrypt_version().is_some() {
            metadata.segments.check_known()?;
        }
        let reencryption = Reencryption::find_checked(metadata)?;
        let mut data = metadata.segments.data();
        let is_linear = |entry: &SegmentEntry| matches!(entry.kind, SegmentKind::Linear { .. });
        if reencryption.is_none()
            && let Some((segment, _)) = data.find(|(_, entry)| is_linear(entry))
        {
            // An attacker with write access could otherwise pass off bytes of their own as the
            // owner's data.
            return Err(UnlockError::Linear { segment });
        }
        Ok(reencryption)
    }
}

/// What the keys are for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum KeyUse {
    /// To read or write the data.
    Data,
    /// To be tested, or stored in a keyslot. Whether this version supports the encryption of the data
    /// does not matter.
    Storing,
}

/// Returns the keys of the data and of the re-encryption. The key of the data's first part comes
/// first.
fn needed_keys<'a>(
    metadata: &'a Metadata,
    reencryption: Option<&Reencryption<'_>>,
    key_use: KeyUse,
) -> Result<Vec<NeededKey<'a>>, UnlockError> {
    // AES-192 matters only to the data.
    let storing = |number: u32, encryption: Encryption| {
        let digest = metadata.digests.get(&number);
        let stated = digest.and_then(Digest::stated_len);
        let is_supported = |len: &u32| encryption.key_lens().contains(len);
        let is_aes_192 = |len: &u32| !is_supported(len) && encryption.aes_key_lens().contains(len);
        (!stated.as_ref().is_some_and(is_aes_192)).then_some(encryption)
    };
    let data = metadata.segments.data().filter_map(|(number, entry)| {
        let digest = || metadata.digest_of_segment(number);
        match (&entry.kind, key_use) {
            (SegmentKind::Crypt(segment), KeyUse::Data) => {
                Some((digest(), Some(segment.encryption)))
            }
            (SegmentKind::Crypt(segment), KeyUse::Storing) => {
                Some((digest(), storing(digest(), segment.encryption)))
            }
            (SegmentKind::Foreign { .. }, KeyUse::Storing) => metadata
                .find_digest_of_segment(number)
                .map(|digest| (digest, None)),
            _ => None,
        }
    });
    let state = reencryption.map_or(Vec::new(), Reencryption::keys);
    let state = state
        .into_iter()
        .map(|(number, encryption)| (number, Some(encryption)));
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
