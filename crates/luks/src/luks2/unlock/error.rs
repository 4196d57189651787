// SPDX-License-Identifier: MIT OR Apache-2.0
//! The errors of unlocking a volume.

use std::{fmt, io};

use luxor_engine::KeyError;
use luxor_volume::{CostError, DeriveError, Encryption, HashAlgorithm, brief, brief_list};

use crate::{
    area::AreaError,
    luks1_error::{KeyslotDamage, any_of},
    luks2::{reencrypt::ReencryptionError, segment::SegmentError},
};

/// A keyslot that could not be tried, and the reason.
#[derive(Debug)]
#[non_exhaustive]
pub struct Skipped {
    /// The keyslot.
    pub keyslot: u32,
    /// The reason.
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
    /// The keyslot costs more than is allowed.
    #[error(transparent)]
    Limit(#[from] CostError),
    /// The key of the area cannot be derived, most likely because memory is short.
    #[error(transparent)]
    Derive(#[from] DeriveError),
    /// The area cannot be read.
    #[error("its area at byte {offset} cannot be read: {source}")]
    Io {
        /// The offset of the area in bytes.
        offset: u64,
        /// The system's reason.
        source: io::Error,
    },
    /// It is tried only if the caller names it.
    #[error("its priority is ignore")]
    Ignored,
    /// The keyslot is damaged.
    #[error(transparent)]
    Damaged(#[from] KeyslotDamage),
    /// The keyslot is valid, but this version does not support it.
    #[error("{what}, which this version does not open")]
    Unsupported {
        /// What is not supported, in words.
        what: String,
    },
    /// The engine does not accept the area's key.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The area cannot be decrypted.
    #[error("its area cannot be decrypted: {0}")]
    Area(#[from] AreaError),
}

impl KeyslotError {
    /// Ranks the error by the effort that it takes the owner to resolve it, the least first.
    pub(super) fn rank(&self) -> u8 {
        match self {
            Self::Derive(error) if error.is_out_of_memory() => 0,
            // The keyslots that used up the budget have errors of their own, which say more.
            Self::Limit(CostError::Total { .. }) => 4,
            Self::Limit(_) => 1,
            Self::Io { .. } => 2,
            Self::Derive(_)
            | Self::Damaged(_)
            | Self::Unsupported { .. }
            | Self::Key(_)
            | Self::Area(_) => 3,
            Self::Ignored => 5,
        }
    }
}

/// What to do with AES-192, which LUKS allows. No command gives every such volume another key:
/// `cryptsetup reencrypt` of LUKS1 needs a header with more room, and an interruption leaves no header.
pub(crate) const HINT_AES_192: &str = "cryptsetup opens it";

/// Why a volume was not unlocked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UnlockError {
    /// The secret opens none of the keyslots that could be tried.
    #[error(
        "no keyslot accepts this passphrase or key file (tried {}){}",
        keyslots(tried),
        skipped.iter().map(|skipped| format!("; not tried: {skipped}")).collect::<String>()
    )]
    WrongSecret {
        /// The keyslots that were tried.
        tried: Vec<u32>,
        /// The keyslots that could not be tried.
        skipped: Vec<Skipped>,
    },
    /// None of the keyslots can be tried. This one's error is the easiest to resolve.
    #[error("keyslot {keyslot}: {error}")]
    Keyslot {
        /// The keyslot.
        keyslot: u32,
        /// Why it cannot be tried.
        #[source]
        error: KeyslotError,
    },
    /// The requested keyslot does not exist.
    #[error("there is no keyslot {keyslot}; the volume has {}", keyslots(existing))]
    NoSuchKeyslot {
        /// The requested keyslot.
        keyslot: u32,
        /// The keyslots that exist.
        existing: Vec<u32>,
    },
    /// The requested keyslot holds a key that is not the data's.
    #[error("keyslot {keyslot} holds a key that does not decrypt the data")]
    Unbound {
        /// The requested keyslot.
        keyslot: u32,
    },
    /// The volume key that was given is not that of the volume.
    #[error("this is not the volume key of the volume")]
    WrongVolumeKey,
    /// The volume key that was given has another length than that of the volume.
    #[error(
        "this is not the volume key of the volume: it has {found} bytes, not {}",
        any_of(expected)
    )]
    VolumeKeyLen {
        /// The length in bytes of the key that was given.
        found: usize,
        /// The lengths in bytes that the volume's key can have.
        expected: Vec<u32>,
    },
    /// The volume key that was given may be a shorter key with zeros behind it.
    #[error(
        "the keyslots state no single length of the volume key, and this one of {found} bytes ends with \
         zeros: a shorter key has the same digest"
    )]
    AmbiguousVolumeKey {
        /// The length in bytes of the key that was given.
        found: usize,
    },
    /// Two keyslots state different lengths for one key.
    #[error(
        "the keyslots of digest {digest} disagree about the length of their key: keyslot {} states \
         {} bytes, and keyslot {} states {}",
        first.0, first.1, second.0, second.1
    )]
    KeyLens {
        /// The digest.
        digest: u32,
        /// A keyslot, and the length in bytes that it states.
        first: (u32, u32),
        /// Another keyslot, and the length in bytes that it states.
        second: (u32, u32),
    },
    /// The volume key is for AES-192, which this version does not support.
    #[error(
        "the volume key has {stated} bytes: that is AES-192, which this version does not open. \
         {HINT_AES_192}"
    )]
    Aes192 {
        /// The length in bytes that the keyslots state.
        stated: u32,
    },
    /// The keyslots state a length that the encryption of the data does not have.
    #[error(
        "the keyslots of digest {digest} state a key of {stated} bytes, but the data are encrypted \
         with {}, which has keys of {} bytes",
        encryption.name(),
        any_of(&encryption.aes_key_lens())
    )]
    KeyLenOfCipher {
        /// The digest.
        digest: u32,
        /// The length in bytes that the keyslots state.
        stated: u32,
        /// The encryption of the data.
        encryption: Encryption,
    },
    /// A volume key was given, and the volume has several.
    #[error(
        "the volume has several keys while a re-encryption is under way, so a single volume key \
         cannot open it"
    )]
    SeveralKeys,
    /// There is no keyslot to try.
    #[error("there is no keyslot to try: {}", none_but(ignored))]
    NoKeyslots {
        /// The keyslots with the priority "ignore".
        ignored: Vec<u32>,
    },
    /// The volume has requirements that this version does not support.
    #[error(
        "the volume requires {}, which this version does not support: it neither opens nor \
         changes the volume",
        brief_list(names)
    )]
    Requirements {
        /// The names of the requirements.
        names: Vec<String>,
    },
    /// A part of the data cannot be read.
    #[error(transparent)]
    Segment(#[from] SegmentError),
    /// A part of the data is not encrypted, and no re-encryption explains it.
    #[error(
        "segment {segment} is not encrypted, although no re-encryption is under way, so an \
         attacker could have written it. (If the volume was decrypted permanently, its data are \
         there in plaintext)"
    )]
    Linear {
        /// The segment.
        segment: u32,
    },
    /// The state of a re-encryption cannot be trusted.
    #[error("a re-encryption of the volume is under way, and {0}")]
    Reencryption(#[from] ReencryptionError),
    /// Nothing in the volume is encrypted.
    #[error("nothing in the volume is encrypted")]
    NotEncrypted,
    /// The data have two keys, and the secret opens only one of them.
    #[error(
        "a re-encryption of the volume is under way, and it has two keys: keyslot {keyslot} holds \
         one of them; for the other (digest {digest}): {error}"
    )]
    OtherKey {
        /// The keyslot that the secret opens.
        keyslot: u32,
        /// The digest of the other key.
        digest: u32,
        /// Why the other key could not be opened.
        error: Box<UnlockError>,
    },
    /// The digest's type is not supported by this version.
    #[error("digest {digest}: {what}, which this version does not support")]
    ForeignDigest {
        /// The digest.
        digest: u32,
        /// What is not supported, in words.
        what: String,
    },
    /// The digest's hash is not supported by this version.
    #[error(
        "digest {digest}: its hash is {}; this version supports {}",
        brief(hash),
        HashAlgorithm::NAMES
    )]
    DigestHash {
        /// The digest.
        digest: u32,
        /// The name of the hash.
        hash: String,
    },
    /// The digest costs more than is allowed.
    #[error("digest {digest}: {error}")]
    DigestLimit {
        /// The digest.
        digest: u32,
        /// The cost and the limit.
        error: CostError,
    },
    /// The volume key is weak, or its length is wrong.
    #[error("keyslot {keyslot}: the volume key is refused: {error}")]
    VolumeKey {
        /// The keyslot.
        keyslot: u32,
        /// The reason.
        error: KeyError,
    },
}

impl UnlockError {
    /// Returns whether another secret may help.
    #[must_use]
    pub fn is_wrong_secret(&self) -> bool {
        match self {
            Self::WrongSecret { .. }
            | Self::WrongVolumeKey
            | Self::VolumeKeyLen { .. }
            | Self::AmbiguousVolumeKey { .. } => true,
            Self::OtherKey { error, .. } => error.is_wrong_secret(),
            _ => false,
        }
    }

    /// Returns the keyslots that were not tried because of their priority, "ignore". One of them may
    /// open if the caller names it.
    #[must_use]
    pub fn ignored(&self) -> Vec<u32> {
        match self {
            Self::WrongSecret { skipped, .. } => {
                let is_ignored =
                    |skipped: &&Skipped| matches!(skipped.error, KeyslotError::Ignored);
                let ignored = skipped.iter().filter(is_ignored);
                ignored.map(|skipped| skipped.keyslot).collect()
            }
            Self::NoKeyslots { ignored } => ignored.clone(),
            Self::OtherKey { error, .. } => error.ignored(),
            _ => Vec::new(),
        }
    }

    /// Returns the cost of a keyslot or digest that is above a limit, if that is why it was not tried.
    #[must_use]
    pub fn limit(&self) -> Option<&CostError> {
        fn of_keyslot(error: &KeyslotError) -> Option<&CostError> {
            match error {
                KeyslotError::Limit(error) => Some(error),
                _ => None,
            }
        }
        match self {
            Self::WrongSecret { skipped, .. } => skipped
                .iter()
                .find_map(|skipped| of_keyslot(&skipped.error)),
            Self::Keyslot { error, .. } => of_keyslot(error),
            Self::OtherKey { error, .. } => error.limit(),
            Self::DigestLimit { error, .. } => Some(error),
            _ => None,
        }
    }

    /// Returns whether more memory would help.
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

/// Says why there is no keyslot to try.
fn none_but(ignored: &[u32]) -> String {
    match ignored {
        [] => "the volume has none for its data".into(),
        [_] => format!("the priority of {} is ignore", keyslots(ignored)),
        _ => format!("the priority of the {} is ignore", keyslots(ignored)),
    }
}

/// Lists keyslots by their numbers.
fn keyslots(numbers: &[u32]) -> String {
    let what = match numbers {
        [] => return "no keyslot".into(),
        [_] => "keyslot",
        _ => "keyslots",
    };
    let numbers: Vec<_> = numbers.iter().map(u32::to_string).collect();
    format!("{what} {}", numbers.join(", "))
}
