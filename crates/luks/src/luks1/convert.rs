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
        "there is no room between the headers and the data for all keyslots, none of which may be \
         lost in a crash; remove one that is not needed"
    )]
    NoRoom,
    /// A cipher that LUKS2 does not open with in this version.
    #[error(
        "the data are encrypted with {}, and only volumes with aes-xts are converted",
        encryption.name()
    )]
    Cipher {
        /// The cipher.
        encryption: Encryption,
    },
    /// The UUID is no text.
    #[error("its UUID is no UTF-8 text; give it another one first")]
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
        "keyslot {keyslot} is derived with {kind}, and LUKS1 has pbkdf2 only: convert the keyslot \
         first (luxor key convert --pbkdf pbkdf2)"
    )]
    Pbkdf {
        /// The keyslot.
        keyslot: u32,
        /// Its kind.
        kind: PbkdfKind,
    },
    /// A keyslot with a number that LUKS1 does not have.
    #[error("keyslot {keyslot}: LUKS1's numbers go from 0 to 7. Remove it, and add it again")]
    Number {
        /// The keyslot.
        keyslot: u32,
    },
    /// More than one hash.
    #[error(
        "keyslot {keyslot} is hashed with {found}, and the volume key's digest with {digest}: LUKS1 has \
         one hash for all"
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
    #[error("keyslot {keyslot} holds a key that is not the data's, which LUKS1 does not have")]
    Unbound {
        /// The keyslot.
        keyslot: u32,
    },
    /// What would be gone.
    #[error("LUKS1 has no place for {}, which would be lost", what.join(", "))]
    Loses {
        /// What, in words.
        what: Vec<String>,
    },
}
