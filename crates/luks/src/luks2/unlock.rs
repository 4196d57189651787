// SPDX-License-Identifier: MIT OR Apache-2.0
//! From a secret to the volume key: a keyslot's area is decrypted with a key
//! derived from the secret, its stripes are merged, and a digest tells whether
//! the result is the volume key.

use std::{cmp::Reverse, collections::BTreeMap, fmt, io};

use luxor_engine::{Backend, Direction, KeyError, SecretBytes};
use luxor_sector::Storage;

use super::{
    digest::Digest,
    header::Luks2Header,
    keyslot::{Keyslot, Priority},
    metadata::{Foreign, Metadata},
    reencrypt::{Reencryption, ReencryptionError},
    segment::SegmentError,
};
use crate::{
    brief::{brief, brief_list},
    keys::{
        af::af_merge,
        area::{AreaError, crypt_area},
        budget::{Budget, CostLimits},
        cipher::Encryption,
        hash::HashAlgorithm,
        pbkdf::{CostError, DeriveError, check_iterations},
        volume_key::VolumeKey,
    },
};

/// How a volume is to be unlocked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnlockOptions {
    /// Only these keyslots, whatever their priority; when none is named, all but those
    /// of priority "ignore".
    pub keyslots: Vec<u32>,
    /// The most KiB of memory that a keyslot may ask for;
    /// [`DEFAULT_MEMORY_LIMIT_KIB`](crate::DEFAULT_MEMORY_LIMIT_KIB) when not given.
    pub memory_limit_kib: Option<u64>,
    /// The most iterations that a keyslot or digest may ask for; when not given as many
    /// as cost what [`DEFAULT_ITERATIONS_LIMIT`](crate::DEFAULT_ITERATIONS_LIMIT)
    /// iterations of SHA-256 for 64 bytes do, and for Argon2
    /// as many passes as make
    /// [`DEFAULT_ARGON2_WORK_KIB`](crate::DEFAULT_ARGON2_WORK_KIB) with its memory, at
    /// least 4.
    /// Never less than the default for a digest.
    ///
    /// All keyslots that are tried and all digests that are computed may together cost
    /// one and a half times what a keyslot at the limits does.
    pub iterations_limit: Option<u64>,
    /// Whether a volume key with equal halves is accepted.
    pub allow_weak_key: bool,
}

impl UnlockOptions {
    fn limits(&self) -> CostLimits {
        CostLimits {
            memory_kib: self.memory_limit_kib,
            iterations: self.iterations_limit,
        }
    }
}

/// An unlocked volume.
#[derive(Debug)]
#[non_exhaustive]
pub struct Unlocked {
    /// The keyslot that the secret opened.
    pub keyslot: u32,
    /// The digest that confirmed the key.
    pub digest: u32,
    /// The key that encrypts the data; in the midst of a re-encryption the first part of
    /// them that is encrypted.
    pub volume_key: VolumeKey,
    /// The other key that there is in the midst of a re-encryption.
    pub others: Vec<OpenedKey>,
}

/// A key of a volume that has several.
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

impl Unlocked {
    /// The key that a digest is of: [`ExtentCipher::digest`](crate::ExtentCipher::digest).
    #[must_use]
    pub fn key(&self, digest: u32) -> Option<&VolumeKey> {
        let others = self.others.iter().map(|key| (key.digest, &key.volume_key));
        [(self.digest, &self.volume_key)]
            .into_iter()
            .chain(others)
            .find(|(number, _)| *number == digest)
            .map(|(_, key)| key)
    }

    fn of(mut keys: Vec<OpenedKey>) -> Result<Self, UnlockError> {
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
    /// [`UnlockError`].
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
    /// [`UnlockError`].
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
        let mut opening = Opening {
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
            opening.budget.take_digest(digest.work()).map_err(|error| {
                UnlockError::DigestLimit {
                    digest: number,
                    error,
                }
            })?;
        }
        let keys = opening.open_all(&needed)?;
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

/// A key that has to be found: the one that a digest is of.
struct NeededKey<'a> {
    /// The digest's number.
    number: u32,
    digest: &'a Digest,
    /// What it encrypts.
    encryption: Encryption,
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

/// Whether a digest's hash is known and its cost allowed.
fn check_digest(number: u32, digest: &Digest, options: &UnlockOptions) -> Result<(), UnlockError> {
    if HashAlgorithm::by_name(&digest.hash).is_none() {
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

/// Tries the keyslots that hold the key that `digest`, here with its number, is of.
pub(crate) fn unlock(
    keyslots: &BTreeMap<u32, Keyslot>,
    (number, digest): (u32, &Digest),
    encryption: Encryption,
    storage: &dyn Storage,
    secret: &[u8],
    backend: &dyn Backend,
    options: &UnlockOptions,
) -> Result<Unlocked, UnlockError> {
    let mut opening = Opening {
        keyslots,
        foreign: &BTreeMap::new(),
        storage,
        secret,
        backend,
        options,
        budget: Budget::new(options.limits()),
    };
    let key = NeededKey {
        number,
        digest,
        encryption,
    };
    Unlocked::of(opening.open_all(&[key])?)
}

/// The attempt to open a volume with one secret.
struct Opening<'a> {
    keyslots: &'a BTreeMap<u32, Keyslot>,
    foreign: &'a BTreeMap<u32, Foreign>,
    /// Has the areas.
    storage: &'a dyn Storage,
    secret: &'a [u8],
    backend: &'a dyn Backend,
    options: &'a UnlockOptions,
    budget: Budget,
}

impl<'a> Opening<'a> {
    fn open_all(&mut self, needed: &[NeededKey<'_>]) -> Result<Vec<OpenedKey>, UnlockError> {
        let wanted = &self.options.keyslots;
        let exists =
            |number| self.keyslots.contains_key(number) || self.foreign.contains_key(number);
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

    fn open(&mut self, needed: &NeededKey<'_>) -> Result<OpenedKey, UnlockError> {
        let NeededKey { number, digest, .. } = *needed;
        check_digest(number, digest, self.options)?;
        let mut tried = Vec::new();
        let mut skipped: Vec<Skipped> = Vec::new();
        for (keyslot, candidate) in self.candidates(digest) {
            let result = match candidate {
                Candidate::Known(candidate) => self.attempt(candidate, digest),
                Candidate::Foreign(foreign) => Err(KeyslotError::Unsupported {
                    what: foreign.what.clone(),
                }),
            };
            match result {
                Ok(Some(key)) => {
                    let allow_weak = self.options.allow_weak_key;
                    let volume_key = VolumeKey::new(key, needed.encryption, allow_weak)
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
            // The one that its owner can do most about.
            skipped.sort_by_key(|skipped| (skipped.error.rank(), skipped.keyslot));
            let Some(Skipped { keyslot, error }) = skipped.into_iter().next() else {
                return Err(UnlockError::NoKeyslots);
            };
            return Err(UnlockError::Keyslot { keyslot, error });
        }
        Err(UnlockError::WrongSecret { tried, skipped })
    }

    /// The keyslots to try for a digest's key, in order. Those that this version does
    /// not open come last.
    fn candidates(&self, digest: &Digest) -> Vec<(u32, Candidate<'a>)> {
        // Of a digest that none of the wanted ones has the key of, any will do.
        let wanted = self.options.keyslots.iter().copied();
        let only: Vec<u32> = wanted
            .filter(|number| digest.keyslots.contains(number))
            .collect();
        let mut known: Vec<_> = self
            .keyslots
            .iter()
            .map(|(&number, keyslot)| (number, keyslot))
            .filter(|(number, _)| digest.keyslots.contains(number))
            .filter(|(number, keyslot)| match only.is_empty() {
                true => keyslot.priority != Priority::Ignore,
                false => only.contains(number),
            })
            .collect();
        known.sort_by_key(|(number, keyslot)| (Reverse(keyslot.priority), *number));
        let foreign = self
            .foreign
            .iter()
            .filter(|(number, _)| digest.keyslots.contains(number))
            .filter(|(number, _)| only.is_empty() || only.contains(number))
            .map(|(&number, foreign)| (number, Candidate::Foreign(foreign)));
        known
            .into_iter()
            .map(|(number, keyslot)| (number, Candidate::Known(keyslot)))
            .chain(foreign)
            .collect()
    }

    /// The volume key, or `None` when the secret does not open the keyslot.
    fn attempt(
        &mut self,
        keyslot: &Keyslot,
        digest: &Digest,
    ) -> Result<Option<SecretBytes>, KeyslotError> {
        let (encryption, hash) = supported(keyslot)?;
        let area_key_len = keyslot.area.key_len as usize;
        self.budget
            .take(&keyslot.kdf, area_key_len, digest.work())?;

        // Read before the key is derived: that it cannot be read is worth knowing early.
        // The lengths are bounded by those of the keys that are supported.
        let len = |bytes: u64| usize::try_from(bytes).expect("a split key has at most 256 KB");
        let mut area = SecretBytes::zeroed(len(keyslot.split_len()));
        self.storage
            .read_exact_at(area.expose_mut(), keyslot.area.offset)
            .map_err(|source| KeyslotError::Io {
                offset: keyslot.area.offset,
                source,
            })?;

        let mut area_key = SecretBytes::zeroed(len(keyslot.area.key_len.into()));
        keyslot.kdf.derive(self.secret, area_key.expose_mut())?;
        // What a secret derives is no choice of anybody's: equal halves do not matter.
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
        Ok((digest.verify(key.expose()) == Some(true)).then_some(key))
    }
}

/// A keyslot to try, or why it cannot be.
enum Candidate<'a> {
    Known(&'a Keyslot),
    Foreign(&'a Foreign),
}

/// The area's encryption and the hash between the stripes, when this version can open
/// the keyslot at all.
fn supported(keyslot: &Keyslot) -> Result<(Encryption, HashAlgorithm), KeyslotError> {
    let unsupported = |what: String| Err(KeyslotError::Unsupported { what });
    let Some(encryption) = Encryption::by_name(&keyslot.area.encryption) else {
        return unsupported(format!(
            "its area is encrypted with {}",
            brief(&keyslot.area.encryption)
        ));
    };
    let [short, long] = encryption.key_lens();
    if ![short, long].contains(&keyslot.area.key_len) {
        return unsupported(format!(
            "its area's key has {} bytes, not {short} or {long}",
            keyslot.area.key_len
        ));
    }
    if !matches!(keyslot.key_len, 16 | 32 | 64) {
        return unsupported(format!(
            "its key has {} bytes, not 16, 32 or 64",
            keyslot.key_len
        ));
    }
    match HashAlgorithm::by_name(&keyslot.af_hash) {
        Some(hash) => Ok((encryption, hash)),
        None => unsupported(format!(
            "its stripes are hashed with {}",
            brief(&keyslot.af_hash)
        )),
    }
}

/// A keyslot that could not be tried, and why.
#[derive(Debug)]
#[non_exhaustive]
pub struct Skipped {
    /// The keyslot.
    pub keyslot: u32,
    /// Why.
    pub error: KeyslotError,
}

impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "keyslot {}: {}", self.keyslot, self.error)
    }
}

/// Why a keyslot cannot be tried.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyslotError {
    /// It costs more than is allowed.
    #[error(transparent)]
    Limit(#[from] CostError),
    /// Its key cannot be derived: most likely for want of memory.
    #[error(transparent)]
    Derive(#[from] DeriveError),
    /// Its area cannot be read.
    #[error("its area at byte {offset} cannot be read: {source}")]
    Io {
        /// Where the area begins, in bytes.
        offset: u64,
        /// The system's reason.
        source: io::Error,
    },
    /// Lawful, but not in this version.
    #[error("{what}, which this version does not open")]
    Unsupported {
        /// What it is, in words.
        what: String,
    },
    /// The engine does not take the area's key.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The engine failed.
    #[error("its area cannot be decrypted: {0}")]
    Area(#[from] AreaError),
}

impl KeyslotError {
    fn rank(&self) -> u8 {
        match self {
            Self::Derive(error) if error.is_out_of_memory() => 0,
            // What comes before it has a reason of its own.
            Self::Limit(CostError::Total { .. }) => 4,
            Self::Limit(_) => 1,
            Self::Io { .. } => 2,
            Self::Derive(_) | Self::Unsupported { .. } | Self::Key(_) | Self::Area(_) => 3,
        }
    }
}

/// Why a volume was not unlocked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UnlockError {
    /// The secret opens none of the keyslots that could be tried.
    #[error(
        "no keyslot opens with this passphrase or key file (tried: {}){}",
        list(tried),
        skipped.iter().map(|skipped| format!("; not tried: {skipped}")).collect::<String>()
    )]
    WrongSecret {
        /// The keyslots that were tried.
        tried: Vec<u32>,
        /// Those that could not be.
        skipped: Vec<Skipped>,
    },
    /// None of the keyslots can be tried; this one could be had with least effort.
    #[error("keyslot {keyslot}: {error}")]
    Keyslot {
        /// The keyslot.
        keyslot: u32,
        /// Why it cannot be tried.
        error: KeyslotError,
    },
    /// The keyslot asked for is not there.
    #[error("there is no keyslot {keyslot}; the volume has {}", list(existing))]
    NoSuchKeyslot {
        /// The keyslot asked for.
        keyslot: u32,
        /// Those that exist.
        existing: Vec<u32>,
    },
    /// The keyslot asked for holds another key.
    #[error("keyslot {keyslot} holds a key that is not the data's")]
    Unbound {
        /// The keyslot asked for.
        keyslot: u32,
    },
    /// There is nothing to try.
    #[error("the volume has no keyslot for its data that could be tried")]
    NoKeyslots,
    /// The volume asks for something unknown.
    #[error(
        "the volume requires {}, which this version does not have: it is neither opened nor changed",
        brief_list(names)
    )]
    Requirements {
        /// The names of the requirements.
        names: Vec<String>,
    },
    /// A part of the data cannot be read.
    #[error(transparent)]
    Segment(#[from] SegmentError),
    /// A part of the data is not encrypted, and nothing says why.
    #[error(
        "segment {segment} is not encrypted, although the volume is in no re-encryption: what is \
         there is anybody's. (When a volume has been decrypted for good, its data stand there as \
         they are)"
    )]
    Linear {
        /// The segment.
        segment: u32,
    },
    /// The state of a re-encryption cannot be relied on.
    #[error("the volume is in the midst of a re-encryption, and {0}")]
    Reencryption(#[from] ReencryptionError),
    /// Nothing in the volume is encrypted.
    #[error("nothing in the volume is encrypted")]
    NotEncrypted,
    /// The data have two keys, and the secret gives one of them.
    #[error(
        "the volume is in the midst of a re-encryption and has two keys; keyslot {keyslot} gives \
         one of them, and of the other (digest {digest}): {error}"
    )]
    OtherKey {
        /// The keyslot that the secret opens.
        keyslot: u32,
        /// The digest of the other key.
        digest: u32,
        /// Why there is no other key.
        error: Box<UnlockError>,
    },
    /// The digest is of a type that is not in this version.
    #[error("digest {digest}: {what}, which this version does not have")]
    ForeignDigest {
        /// The digest.
        digest: u32,
        /// What it is, in words.
        what: String,
    },
    /// The digest's hash is not in this version.
    #[error(
        "digest {digest}: its hash is {}; this version has {}",
        brief(hash),
        HashAlgorithm::NAMES
    )]
    DigestHash {
        /// The digest.
        digest: u32,
        /// The hash's name.
        hash: String,
    },
    /// The digest costs more than is allowed.
    #[error("digest {digest}: {error}")]
    DigestLimit {
        /// The digest.
        digest: u32,
        /// Its cost and the limit.
        error: CostError,
    },
    /// The volume key is weak.
    #[error(
        "keyslot {keyslot}: the volume key is refused: {error}. To read the data all the same, use \
         --allow-weak-key"
    )]
    VolumeKey {
        /// The keyslot.
        keyslot: u32,
        /// Why.
        error: KeyError,
    },
}

impl UnlockError {
    /// Whether another secret may help: the program's exit code 2.
    #[must_use]
    pub fn is_wrong_secret(&self) -> bool {
        match self {
            Self::WrongSecret { .. } => true,
            Self::OtherKey { error, .. } => error.is_wrong_secret(),
            _ => false,
        }
    }

    /// Whether more memory would help: the program's exit code 3.
    #[must_use]
    pub fn is_out_of_memory(&self) -> bool {
        match self {
            Self::Keyslot {
                error: KeyslotError::Derive(error),
                ..
            } => error.is_out_of_memory(),
            Self::OtherKey { error, .. } => error.is_out_of_memory(),
            _ => false,
        }
    }
}

fn list(numbers: &[u32]) -> String {
    if numbers.is_empty() {
        return "none".into();
    }
    numbers
        .iter()
        .map(u32::to_string)
        .collect::<Vec<_>>()
        .join(", ")
}
