// SPDX-License-Identifier: MIT OR Apache-2.0
//! From a secret to the volume key: a keyslot's area is decrypted with a key
//! derived from the secret, its stripes are merged, and a digest tells whether
//! the result is the volume key.

use std::{cmp::Reverse, collections::BTreeMap, fmt, io};

use luxor_engine::{Backend, Direction, KeyError, SecretBytes};
use luxor_sector::Storage;

use crate::{
    af::af_merge,
    area::{AreaError, crypt_area},
    cipher::Encryption,
    digest::Digest,
    hash::HashAlgorithm,
    header::Header,
    json::brief,
    keyslot::{Keyslot, Priority},
    metadata::brief_list,
    pbkdf::{CostError, DEFAULT_ITERATIONS_LIMIT, DeriveError, check_iterations},
    volume_key::VolumeKey,
};

/// How a volume is to be unlocked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnlockOptions {
    /// Only this keyslot; otherwise all but those of priority "ignore".
    pub keyslot: Option<u32>,
    /// The most KiB of memory that a keyslot may ask for;
    /// [`DEFAULT_MEMORY_LIMIT_KIB`](crate::DEFAULT_MEMORY_LIMIT_KIB) when not given.
    pub memory_limit_kib: Option<u64>,
    /// The most iterations that a keyslot or digest may ask for; when not given
    /// [`DEFAULT_ITERATIONS_LIMIT`](crate::DEFAULT_ITERATIONS_LIMIT), and for Argon2
    /// as many passes as make
    /// [`DEFAULT_ARGON2_WORK_KIB`](crate::DEFAULT_ARGON2_WORK_KIB) with its memory, at
    /// least 4.
    /// Never less than the default for a digest.
    pub iterations_limit: Option<u64>,
    /// Whether a volume key with equal halves is accepted.
    pub allow_weak_key: bool,
}

/// An unlocked volume.
#[derive(Debug)]
#[non_exhaustive]
pub struct Unlocked {
    /// The keyslot that the secret opened.
    pub keyslot: u32,
    /// The digest that confirmed the key.
    pub digest: u32,
    /// The key that encrypts the data.
    pub volume_key: VolumeKey,
}

impl Header {
    /// Finds a keyslot that `secret` opens, and the volume key in it. Keyslots are
    /// tried in the order of priority, then of number. One that asks for too much
    /// does not keep the others from being tried.
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
        let metadata = self.metadata();
        if !metadata.config.requirements.is_empty() {
            let names = metadata.config.requirements.clone();
            return Err(UnlockError::Requirements { names });
        }
        unlock(
            &metadata.keyslots,
            metadata.segment_digest(),
            self.segment().encryption,
            storage,
            secret,
            backend,
            options,
        )
    }
}

/// Tries the keyslots that hold the key that `digest`, here with its number, is of.
pub(crate) fn unlock(
    keyslots: &BTreeMap<u32, Keyslot>,
    (digest_number, digest): (u32, &Digest),
    encryption: Encryption,
    storage: &dyn Storage,
    secret: &[u8],
    backend: &dyn Backend,
    options: &UnlockOptions,
) -> Result<Unlocked, UnlockError> {
    if HashAlgorithm::by_name(&digest.hash).is_none() {
        let (digest, hash) = (digest_number, digest.hash.clone());
        return Err(UnlockError::DigestHash { digest, hash });
    }
    // What is allowed for a keyslot's Argon2 is far less than a digest needs.
    let limit = options
        .iterations_limit
        .map(|limit| limit.max(DEFAULT_ITERATIONS_LIMIT));
    check_iterations(digest.iterations, limit).map_err(|error| UnlockError::DigestLimit {
        digest: digest_number,
        error,
    })?;

    let mut tried = Vec::new();
    let mut skipped: Vec<Skipped> = Vec::new();
    for (number, keyslot) in candidates(keyslots, digest, options.keyslot)? {
        match attempt(keyslot, digest, storage, secret, backend, options) {
            Ok(Some(key)) => {
                let volume_key =
                    VolumeKey::new(key, encryption, options.allow_weak_key).map_err(|error| {
                        UnlockError::VolumeKey {
                            keyslot: number,
                            error,
                        }
                    })?;
                return Ok(Unlocked {
                    keyslot: number,
                    digest: digest_number,
                    volume_key,
                });
            }
            Ok(None) => tried.push(number),
            Err(error) => skipped.push(Skipped {
                keyslot: number,
                error,
            }),
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

/// The keyslots to try, in order.
fn candidates<'a>(
    keyslots: &'a BTreeMap<u32, Keyslot>,
    digest: &Digest,
    wanted: Option<u32>,
) -> Result<Vec<(u32, &'a Keyslot)>, UnlockError> {
    if let Some(number) = wanted {
        let Some(keyslot) = keyslots.get(&number) else {
            let existing = keyslots.keys().copied().collect();
            return Err(UnlockError::NoSuchKeyslot {
                keyslot: number,
                existing,
            });
        };
        if !digest.keyslots.contains(&number) {
            return Err(UnlockError::Unbound { keyslot: number });
        }
        return Ok(vec![(number, keyslot)]);
    }
    let mut candidates: Vec<_> = keyslots
        .iter()
        .map(|(&number, keyslot)| (number, keyslot))
        .filter(|(number, _)| digest.keyslots.contains(number))
        .filter(|(_, keyslot)| keyslot.priority != Priority::Ignore)
        .collect();
    candidates.sort_by_key(|(number, keyslot)| (Reverse(keyslot.priority), *number));
    Ok(candidates)
}

/// The volume key, or `None` when the secret does not open the keyslot.
fn attempt(
    keyslot: &Keyslot,
    digest: &Digest,
    storage: &dyn Storage,
    secret: &[u8],
    backend: &dyn Backend,
    options: &UnlockOptions,
) -> Result<Option<SecretBytes>, KeyslotError> {
    let (encryption, hash) = supported(keyslot)?;
    keyslot
        .kdf
        .check_limits(options.memory_limit_kib, options.iterations_limit)?;

    // Read before the key is derived: that it cannot be read is worth knowing early.
    // The lengths are bounded by those of the keys that are supported.
    let len = |bytes: u64| usize::try_from(bytes).expect("a split key has at most 256 KB");
    let mut area = SecretBytes::zeroed(len(keyslot.split_len()));
    storage
        .read_exact_at(area.expose_mut(), keyslot.area.offset)
        .map_err(|source| KeyslotError::Io {
            offset: keyslot.area.offset,
            source,
        })?;

    let mut area_key = SecretBytes::zeroed(len(keyslot.area.key_len.into()));
    keyslot.kdf.derive(secret, area_key.expose_mut())?;
    // What a secret derives is no choice of anybody's: equal halves do not matter.
    let area_key = encryption.key_spec_permitting_equal_halves(area_key.expose())?;
    crypt_area(
        backend,
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
        "the volume requires {}, which this version does not have; if that is an unfinished \
         re-encryption, let cryptsetup finish it",
        brief_list(names)
    )]
    Requirements {
        /// The names of the requirements.
        names: Vec<String>,
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
        matches!(self, Self::WrongSecret { .. })
    }

    /// Whether more memory would help: the program's exit code 3.
    #[must_use]
    pub fn is_out_of_memory(&self) -> bool {
        matches!(
            self,
            Self::Keyslot { error: KeyslotError::Derive(error), .. } if error.is_out_of_memory()
        )
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
