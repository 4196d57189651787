// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why a volume cannot change its version.

use std::io;

use luxor_volume::{Encryption, HashAlgorithm, PbkdfKind};

use crate::luks2::edit::ChangeError;

/// A UUID's field has 40 bytes, and a zero byte ends it.
pub(super) const MAX_UUID_LEN: usize = 39;

/// Why LUKS1 has not become LUKS2, or the other way round. Unless writing failed nothing
/// was changed; and then the volume still is what it was, or already what it was to
/// become.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConvertError {
    /// Reading again, or writing.
    #[error(transparent)]
    Change(#[from] ChangeError),
    /// A keyslot's area cannot be read.
    #[error("the keyslot area at byte {offset} cannot be read: {source}")]
    ReadArea {
        /// Where it begins, in bytes.
        offset: u64,
        /// The system's reason.
        source: io::Error,
    },
    /// There is no place for the areas that are in the way.
    #[error(
        "there is too little room between the headers and the data to move the keyslots safely: \
         remove a keyslot that you do not need"
    )]
    NoRoom,
    /// A cipher that LUKS2 does not open with in this version.
    #[error(
        "the data are encrypted with {}, and only volumes with aes-xts can be converted",
        encryption.name()
    )]
    Cipher {
        /// The cipher.
        encryption: Encryption,
    },
    /// The UUID is no text.
    #[error("its UUID is not UTF-8: set another UUID first")]
    Uuid,
    /// One copy is all that there is.
    #[error(
        "one of the two copies of the LUKS2 header is damaged or older than the other: repair it \
         first"
    )]
    Damaged,
    /// Something that LUKS1 cannot say.
    #[error("LUKS1 has only {has}, and this volume has {found}")]
    NotInLuks1 {
        /// What LUKS1 has, in words.
        has: &'static str,
        /// What the volume has, in words.
        found: String,
    },
    /// A keyslot of a kind that LUKS1 does not have.
    #[error(
        "keyslot {keyslot} uses {kind}, and LUKS1 supports only pbkdf2: convert the keyslot first \
         (luxor key convert --pbkdf pbkdf2)"
    )]
    Pbkdf {
        /// The keyslot.
        keyslot: u32,
        /// Its kind.
        kind: PbkdfKind,
    },
    /// A keyslot with a number that LUKS1 does not have.
    #[error(
        "keyslot {keyslot}: LUKS1 numbers its keyslots from 0 to 7. Remove this one and add the \
         key again"
    )]
    Number {
        /// The keyslot.
        keyslot: u32,
    },
    /// More than one hash.
    #[error(
        "keyslot {keyslot} uses the hash {found}, and the digest of the volume key uses {digest}: \
         LUKS1 has one hash for all"
    )]
    Hashes {
        /// The keyslot.
        keyslot: u32,
        /// One of its hashes.
        found: String,
        /// The digest's.
        digest: HashAlgorithm,
    },
    /// A keyslot that does not open the data.
    #[error(
        "keyslot {keyslot} holds a key that does not decrypt the data; LUKS1 has no such keyslots"
    )]
    Unbound {
        /// The keyslot.
        keyslot: u32,
    },
    /// What would be gone.
    #[error("LUKS1 cannot store {}, which would be lost", what.join(", "))]
    Loses {
        /// What, in words.
        what: Vec<String>,
    },
}
