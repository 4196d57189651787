// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tries a secret on the keyslots in turn, within a budget. A key derived from the secret decrypts
//! a keyslot's area, its stripes are merged, and a digest decides whether the result is the key.

use std::{cmp::Reverse, collections::BTreeMap};

use luxor_engine::{Backend, Direction, KeyError};
use luxor_secret::SecretBytes;
use luxor_sector::Storage;
use luxor_volume::{
    Budget, Encryption, HashAlgorithm, UnlockOptions, VolumeKey, brief, check_iterations,
};

use super::error::{KeyslotError, Skipped, UnlockError};
use crate::{
    af::af_merge,
    area::crypt_area,
    luks1_error::KeyslotDamage,
    luks2::{
        digest::{Digest, KeyLen, KeyMismatch},
        foreign::Foreign,
        keyslot::{Keyslot, Priority},
    },
};

/// The keys of an unlocked volume. They are wiped on drop.
#[derive(Debug)]
#[non_exhaustive]
pub struct Unlocked {
    /// The keyslot that the secret opened.
    pub keyslot: u32,
    /// The digest that confirmed the key.
    pub digest: u32,
    /// The key that encrypts the data. During a re-encryption it is the key of the first encrypted
    /// part of them.
    pub volume_key: VolumeKey,
    /// The other keys that the volume has during a re-encryption.
    pub others: Vec<OpenedKey>,
}

/// A key of a volume with several keys.
#[derive(Debug)]
#[non_exhaustive]
pub struct OpenedKey {
    /// The keyslot that the secret opened.
    pub keyslot: u32,
    /// The digest that confirmed the key.
    pub digest: u32,
    /// The key.
    pub volume_key: VolumeKey,
}

/// A volume key, and the digest that confirmed it.
#[derive(Clone, Copy, Debug)]
pub struct ConfirmedKey<'a> {
    /// The number of the digest.
    pub digest: u32,
    /// The key.
    pub volume_key: &'a VolumeKey,
}

impl<'a> From<&'a Unlocked> for ConfirmedKey<'a> {
    fn from(unlocked: &'a Unlocked) -> Self {
        Self {
            digest: unlocked.digest,
            volume_key: &unlocked.volume_key,
        }
    }
}

impl Unlocked {
    /// Returns the key of the digest with this number:
    /// [`ExtentCipher::key`](crate::ExtentCipher::key).
    #[must_use]
    pub fn key(&self, digest: u32) -> Option<&VolumeKey> {
        let others = self.others.iter().map(|key| (key.digest, &key.volume_key));
        [(self.digest, &self.volume_key)]
            .into_iter()
            .chain(others)
            .find(|(number, _)| *number == digest)
            .map(|(_, key)| key)
    }

    /// Returns all keys by the numbers of their digests.
    #[must_use]
    pub fn into_keys(self) -> BTreeMap<u32, VolumeKey> {
        let others = self
            .others
            .into_iter()
            .map(|key| (key.digest, key.volume_key));
        [(self.digest, self.volume_key)]
            .into_iter()
            .chain(others)
            .collect()
    }

    pub(super) fn from_keys(mut keys: Vec<OpenedKey>) -> Result<Self, UnlockError> {
        if keys.is_empty() {
            return Err(UnlockError::NotEncrypted);
        }
        let first = keys.remove(0);
        Ok(Self {
            keyslot: first.keyslot,
            digest: first.digest,
            volume_key: first.volume_key,
            others: keys,
        })
    }
}

/// A key that must be found, identified by its digest.
pub(crate) struct NeededKey<'a> {
    /// The number of the digest.
    pub number: u32,
    pub digest: &'a Digest,
    /// The encryption that the key is for. `None` if this version does not support it, or if the key
    /// is to be stored only, not used.
    pub encryption: Option<Encryption>,
}

impl NeededKey<'_> {
    /// Returns `bytes` as a key for the encryption.
    fn volume_key(&self, bytes: SecretBytes, allow_weak: bool) -> Result<VolumeKey, KeyError> {
        match self.encryption {
            Some(encryption) => VolumeKey::new(bytes, encryption, allow_weak),
            None => Ok(VolumeKey::of_unknown_encryption(bytes)),
        }
    }
}

impl NeededKey<'_> {
    /// Checks that the encryption has keys of the length that the metadata state.
    pub(super) fn check_len(&self) -> Result<(), UnlockError> {
        let digest = self.number;
        match (self.digest.key_len, self.encryption) {
            // Without the lengths that the encryption has, a long key cannot be told from its hash.
            (key_len, None) => contradiction(digest, key_len).map_or(Ok(()), Err),
            (KeyLen::Stated(stated), Some(encryption))
                if !encryption.aes_key_lens().contains(&stated) =>
            {
                Err(UnlockError::KeyLenOfCipher {
                    digest,
                    stated,
                    encryption,
                })
            }
            (KeyLen::Stated(stated), Some(encryption))
                if !encryption.key_lens().contains(&stated) =>
            {
                Err(UnlockError::Aes192 { stated })
            }
            _ => Ok(()),
        }
    }

    /// The lengths that the key can have. Empty if they are not known.
    fn lens(&self) -> Vec<u32> {
        match (self.digest.key_len, self.encryption) {
            (KeyLen::Stated(stated), _) => vec![stated],
            (_, Some(encryption)) => encryption.key_lens().into(),
            (_, None) => Vec::new(),
        }
    }
}

/// Returns an error if the keyslots of this digest contradict each other about the length of its key.
pub(super) fn contradiction(digest: u32, key_len: KeyLen) -> Option<UnlockError> {
    match key_len {
        KeyLen::Contradictory { first, second } => Some(UnlockError::KeyLens {
            digest,
            first,
            second,
        }),
        KeyLen::Stated(_) | KeyLen::Unstated => None,
    }
}

/// Checks that the digest's hash is supported and its cost allowed.
pub(super) fn check_digest(
    number: u32,
    digest: &Digest,
    options: &UnlockOptions,
) -> Result<(), UnlockError> {
    if !digest.is_supported() {
        let (digest, hash) = (number, digest.hash.clone());
        return Err(UnlockError::DigestHash { digest, hash });
    }
    let len = digest.value.len();
    let limit = Some(options.limits().pbkdf2_iterations(&digest.hash, len));
    check_iterations(&digest.hash, len, digest.iterations, limit).map_err(|error| {
        UnlockError::DigestLimit {
            digest: number,
            error,
        }
    })
}

/// Tries the keyslots of LUKS1 that hold the key `needed`. Those that are damaged are not tried.
pub(crate) fn unlock(
    (keyslots, damaged): (&BTreeMap<u32, Keyslot>, &BTreeMap<u32, KeyslotDamage>),
    needed: NeededKey<'_>,
    storage: &dyn Storage,
    secret: &[u8],
    backend: &dyn Backend,
    options: &UnlockOptions,
) -> Result<Unlocked, UnlockError> {
    let mut attempt = UnlockAttempt {
        keyslots,
        foreign: &BTreeMap::new(),
        damaged,
        storage,
        secret,
        backend,
        options,
        budget: Budget::new(options.limits()),
    };
    Unlocked::from_keys(attempt.open_all(&[needed])?)
}

/// Compares `key` with the digest of the only key that the volume needs. Returns it under the number
/// of that digest, as [`Unlocked::into_keys`] does.
///
/// # Errors
/// [`UnlockError::WrongVolumeKey`] or [`UnlockError::VolumeKeyLen`] if it is another key.
pub(crate) fn confirm_volume_key(
    needed: &NeededKey<'_>,
    key: &SecretBytes,
    options: &UnlockOptions,
) -> Result<BTreeMap<u32, VolumeKey>, UnlockError> {
    let (number, digest) = (needed.number, needed.digest);
    check_digest(number, digest, options)?;
    needed.check_len()?;
    let (found, expected) = (key.len(), needed.lens());
    // A key of another length is not worth deriving anything from.
    let is_len = |&len| found as u64 == u64::from(len);
    if !expected.is_empty() && !expected.iter().any(is_len) {
        return Err(UnlockError::VolumeKeyLen { found, expected });
    }
    let key = needed.volume_key(key.clone(), options.allow_weak_key);
    let key = key.map_err(|_| UnlockError::WrongVolumeKey)?;
    match digest.confirm(key.expose()) {
        Ok(()) => Ok(BTreeMap::from([(number, key)])),
        Err(KeyMismatch::Ambiguous) => Err(UnlockError::AmbiguousVolumeKey { found }),
        Err(_) => Err(UnlockError::WrongVolumeKey),
    }
}

/// An attempt to open a volume with one secret.
pub(super) struct UnlockAttempt<'a> {
    pub(super) keyslots: &'a BTreeMap<u32, Keyslot>,
    pub(super) foreign: &'a BTreeMap<u32, Foreign>,
    pub(super) damaged: &'a BTreeMap<u32, KeyslotDamage>,
    /// The storage that holds the areas.
    pub(super) storage: &'a dyn Storage,
    pub(super) secret: &'a [u8],
    pub(super) backend: &'a dyn Backend,
    pub(super) options: &'a UnlockOptions,
    pub(super) budget: Budget,
}

impl<'a> UnlockAttempt<'a> {
    /// Opens the needed keys and returns them in the same order.
    pub(super) fn open_all(
        &mut self,
        needed: &[NeededKey<'_>],
    ) -> Result<Vec<OpenedKey>, UnlockError> {
        let wanted = &self.options.keyslots;
        let exists = |number| {
            self.keyslots.contains_key(number)
                || self.foreign.contains_key(number)
                || self.damaged.contains_key(number)
        };
        if let Some(&keyslot) = wanted.iter().find(|number| !exists(*number)) {
            let existing = self.keyslots.keys().copied().collect();
            return Err(UnlockError::NoSuchKeyslot { keyslot, existing });
        }
        let holds = |number| {
            needed
                .iter()
                .any(|key| key.digest.keyslots.contains(number))
        };
        if let Some(&keyslot) = wanted.first()
            && !wanted.iter().any(holds)
        {
            return Err(UnlockError::Unbound { keyslot });
        }
        needed.iter().try_for_each(NeededKey::check_len)?;
        let mut keys: Vec<OpenedKey> = Vec::new();
        for key in needed {
            match (self.open(key), keys.first()) {
                (Ok(key), _) => keys.push(key),
                (Err(error), None) => return Err(error),
                (Err(error), Some(first)) => {
                    return Err(UnlockError::OtherKey {
                        keyslot: first.keyslot,
                        digest: key.number,
                        error: Box::new(error),
                    });
                }
            }
        }
        Ok(keys)
    }

    pub(super) fn open(&mut self, needed: &NeededKey<'_>) -> Result<OpenedKey, UnlockError> {
        let NeededKey { number, digest, .. } = *needed;
        check_digest(number, digest, self.options)?;
        let mut tried = Vec::new();
        let mut skipped: Vec<Skipped> = Vec::new();
        for (keyslot, candidate) in self.candidates(digest) {
            let result = match candidate {
                KeyslotCandidate::Known(candidate) => self.try_keyslot(candidate, digest),
                KeyslotCandidate::Ignored => Err(KeyslotError::Ignored),
                KeyslotCandidate::Foreign(foreign) => Err(KeyslotError::Unsupported {
                    what: foreign.what.clone(),
                }),
                KeyslotCandidate::Damaged(damage) => Err(damage.into()),
            };
            match result {
                Ok(Some(key)) => {
                    let volume_key = needed
                        .volume_key(key, self.options.allow_weak_key)
                        .map_err(|error| UnlockError::VolumeKey { keyslot, error })?;
                    return Ok(OpenedKey {
                        keyslot,
                        digest: number,
                        volume_key,
                    });
                }
                Ok(None) => tried.push(keyslot),
                Err(error) => skipped.push(Skipped { keyslot, error }),
            }
        }
        if tried.is_empty() {
            // Report the error that the owner can resolve most easily.
            skipped.sort_by_key(|skipped| (skipped.error.rank(), skipped.keyslot));
            let ignored = skipped.iter().map(|skipped| skipped.keyslot).collect();
            return Err(match skipped.into_iter().next() {
                None => UnlockError::NoKeyslots { ignored },
                Some(Skipped {
                    error: KeyslotError::Ignored,
                    ..
                }) => UnlockError::NoKeyslots { ignored },
                Some(Skipped { keyslot, error }) => UnlockError::Keyslot { keyslot, error },
            });
        }
        Err(UnlockError::WrongSecret { tried, skipped })
    }

    /// Returns the keyslots to try for the digest's key, in order. Those that are ignored or damaged, or
    /// that this version does not support, come last: they are skipped, and reported.
    fn candidates(&self, digest: &Digest) -> Vec<(u32, KeyslotCandidate<'a>)> {
        // If none of the requested keyslots holds this digest's key, try all keyslots that do.
        let wanted = self.options.keyslots.iter().copied();
        let only: Vec<u32> = wanted
            .filter(|number| digest.keyslots.contains(number))
            .collect();
        let mut known: Vec<_> = self
            .keyslots
            .iter()
            .map(|(&number, keyslot)| (number, keyslot))
            .filter(|(number, _)| digest.keyslots.contains(number))
            .filter(|(number, _)| only.is_empty() || only.contains(number))
            .collect();
        known.sort_by_key(|(number, keyslot)| (Reverse(keyslot.priority), *number));
        let foreign = self
            .foreign
            .iter()
            .filter(|(number, _)| digest.keyslots.contains(number))
            .filter(|(number, _)| only.is_empty() || only.contains(number))
            .map(|(&number, foreign)| (number, KeyslotCandidate::Foreign(foreign)));
        let damaged = self
            .damaged
            .iter()
            .filter(|(number, _)| only.is_empty() || only.contains(number))
            .map(|(&number, &damage)| (number, KeyslotCandidate::Damaged(damage)));
        known
            .into_iter()
            .map(|(number, keyslot)| {
                let is_ignored = only.is_empty() && keyslot.priority == Priority::Ignore;
                let known = KeyslotCandidate::Known(keyslot);
                (
                    number,
                    if is_ignored {
                        KeyslotCandidate::Ignored
                    } else {
                        known
                    },
                )
            })
            .chain(foreign)
            .chain(damaged)
            .collect()
    }

    /// Returns the volume key, or `None` if the secret does not open the keyslot.
    fn try_keyslot(
        &mut self,
        keyslot: &Keyslot,
        digest: &Digest,
    ) -> Result<Option<SecretBytes>, KeyslotError> {
        let (encryption, hash) = keyslot.supported()?;
        let area_key_len = keyslot.area.key_len as usize;
        self.budget
            .take(&keyslot.kdf, area_key_len, Some(digest.work()))?;

        // Read the area before the slow derivation, so that a read error is reported early. The
        // lengths are bounded, because parsing bounds the lengths of the keys.
        let len = |bytes: u64| usize::try_from(bytes).expect("at most 8192 × 4000 bytes");
        let mut area = SecretBytes::zeroed(len(keyslot.split_len()));
        self.storage
            .read_exact_at(area.expose_mut(), keyslot.area.offset)
            .map_err(|source| KeyslotError::Io {
                offset: keyslot.area.offset,
                source,
            })?;

        let mut area_key = SecretBytes::zeroed(len(keyslot.area.key_len.into()));
        match &self.options.cache {
            Some(cache) => cache.derive(&keyslot.kdf, self.secret, area_key.expose_mut())?,
            None => keyslot.kdf.derive(self.secret, area_key.expose_mut())?,
        }
        // Equal halves are permitted: this key is derived from the secret, not chosen by a user.
        let area_key = encryption.key_spec_permitting_equal_halves(area_key.expose())?;
        crypt_area(
            self.backend,
            &area_key,
            encryption,
            Direction::Decrypt,
            area.expose_mut(),
        )?;

        let key_len = len(keyslot.key_len.into());
        let split = key_len * len(keyslot.stripes.into());
        let key = af_merge(&area.expose()[..split], key_len, hash);
        Ok(digest.confirm(key.expose()).is_ok().then_some(key))
    }
}

/// A keyslot to try, or one that is skipped.
enum KeyslotCandidate<'a> {
    Known(&'a Keyslot),
    /// Its priority is "ignore".
    Ignored,
    Foreign(&'a Foreign),
    Damaged(KeyslotDamage),
}

impl Keyslot {
    /// Returns the area's encryption and the hash of the anti-forensic splitter, if this version
    /// supports the self.
    pub(in crate::luks2) fn supported(&self) -> Result<(Encryption, HashAlgorithm), KeyslotError> {
        let unsupported = |what: String| Err(KeyslotError::Unsupported { what });
        let Some(encryption) = Encryption::of_area_by_name(&self.area.encryption) else {
            return unsupported(format!(
                "its area is encrypted with {}",
                brief(&self.area.encryption)
            ));
        };
        let [short, long] = encryption.key_lens();
        if ![short, long].contains(&self.area.key_len) {
            return unsupported(format!(
                "its area's key has {} bytes, not {short} or {long}",
                self.area.key_len
            ));
        }
        match HashAlgorithm::by_name(&self.af_hash) {
            Some(hash) => Ok((encryption, hash)),
            None => unsupported(format!(
                "its stripes are hashed with {}",
                brief(&self.af_hash)
            )),
        }
    }
}
