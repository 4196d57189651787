// SPDX-License-Identifier: MIT OR Apache-2.0
//! The errors of converting a volume to the other version.

use std::io;

use luxor_volume::{HashAlgorithm, PbkdfKind, brief};

use crate::{
    luks1_error::KeyslotDamage,
    luks2::{binary_header::CopyKind, edit::ChangeError, segment::SegmentError},
    version::LuksVersion,
};

/// The UUID field has 40 bytes, the last of which must be zero.
pub(super) const MAX_UUID_LEN: usize = 39;

/// Why a volume was not converted between LUKS1 and LUKS2. Nothing was changed unless a write
/// failed. After a failed write the volume is still of the old version, or already of the new one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConvertError {
    /// The metadata could not be read again, or a write failed.
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
    /// The keyslots could not be moved to where the other version, or cryptsetup, expects them.
    #[error("the keyslots cannot be moved: {error}")]
    Moving {
        /// What failed.
        #[source]
        error: Box<ConvertError>,
    },
    /// There is no room for the areas that must be moved.
    #[error(
        "there is too little room between the headers and the data to move the keyslots safely{}",
        if *is_removable { ": remove a keyslot that you do not need" } else { "" }
    )]
    NoRoom {
        /// Whether there is room without one of the keyslots.
        is_removable: bool,
    },
    /// The data would begin far beyond the end of the storage, so their offset must be wrong.
    #[error("the data begin at byte {data}, beyond the end at byte {len}")]
    NoData {
        /// Where the data begin, in bytes.
        data: u64,
        /// The length of the storage in bytes.
        len: u64,
    },
    /// This version does not support the encryption of the data, or the length of their key.
    #[error(transparent)]
    Data(#[from] SegmentError),
    /// The cipher is not supported by this version for LUKS2.
    #[error(
        "the data are encrypted with {}, and only volumes with aes-xts can be converted",
        brief(found)
    )]
    Cipher {
        /// The name of the cipher.
        found: String,
    },
    /// The UUID is not UTF-8.
    #[error("its UUID is not UTF-8: set another UUID first")]
    Uuid,
    /// The name of the hash is empty or not UTF-8.
    #[error("the name of its hash is damaged")]
    HashName,
    /// Only one copy of the LUKS2 header is intact and current.
    #[error(
        "one of the two copies of the LUKS2 header is damaged or older than the other: repair it \
         first"
    )]
    Damaged,
    /// A keyslot of LUKS1 is damaged. LUKS2 cannot store it, and it may hold a key.
    #[error(
        "keyslot {keyslot} is damaged: {damage}. Repair the header, or remove this keyslot, first"
    )]
    DamagedKeyslot {
        /// The keyslot.
        keyslot: u32,
        /// What is wrong with it.
        damage: KeyslotDamage,
    },
    /// The volume has a property that LUKS1 cannot represent.
    #[error("LUKS1 has only {has}, but this volume has {found}")]
    NotInLuks1 {
        /// What LUKS1 has, in words.
        has: &'static str,
        /// What the volume has, in words.
        found: String,
    },
    /// A keyslot has a key derivation that LUKS1 does not support.
    #[error("keyslot {keyslot} uses {kind}, but LUKS1 supports only pbkdf2")]
    Pbkdf {
        /// The keyslot.
        keyslot: u32,
        /// The kind of its key derivation.
        kind: PbkdfKind,
    },
    /// A keyslot has a number that LUKS1 does not have.
    #[error(
        "keyslot {keyslot}: LUKS1 numbers its keyslots from 0 to 7. Remove this one and add the \
         key again"
    )]
    Number {
        /// The keyslot.
        keyslot: u32,
    },
    /// The keyslots and the digest use more than one hash.
    #[error(
        "keyslot {keyslot} uses the hash {found}, and the digest of the volume key uses {digest}: \
         LUKS1 uses one hash for both"
    )]
    Hashes {
        /// The keyslot.
        keyslot: u32,
        /// A hash of the keyslot.
        found: String,
        /// The digest's hash.
        digest: HashAlgorithm,
    },
    /// A keyslot holds a key that does not decrypt the data.
    #[error(
        "keyslot {keyslot} holds a key that does not decrypt the data; LUKS1 has no such keyslots"
    )]
    Unbound {
        /// The keyslot.
        keyslot: u32,
    },
    /// A write failed during the conversion. The volume is still of the old version, or already of the new
    /// one.
    #[error("{error}. {}", state(*from, *now, *is_damaged, error))]
    Unfinished {
        /// The version before.
        from: LuksVersion,
        /// The version that the volume has now. `None` if its header cannot be read.
        now: Option<LuksVersion>,
        /// Whether one copy of the LUKS2 header is damaged, or older than the other.
        is_damaged: bool,
        /// What failed.
        #[source]
        error: Box<ConvertError>,
    },
    /// The conversion would lose data that LUKS1 cannot store, and `force` was not given.
    #[error("LUKS1 cannot store {}, which would be lost", what.join(", "))]
    Loses {
        /// What would be lost, in words.
        what: Vec<String>,
    },
}

impl ConvertError {
    /// Returns the error of a move of keyslots, during which every header opens with every key.
    pub(super) fn moving(self) -> Self {
        let error = match self {
            Self::Change(ChangeError::Unsettled { error }) => Self::Change(*error),
            error => error,
        };
        Self::Moving {
            error: Box::new(error),
        }
    }

    /// Whether the storage failed, so that something may have been written.
    pub(crate) fn may_have_written(&self) -> bool {
        use ChangeError::{Luks1, Read, ReadArea, ReadBeginning};
        match self {
            Self::ReadArea { .. }
            | Self::Moving { .. }
            | Self::Change(Read(_) | Luks1(_) | ReadArea { .. } | ReadBeginning { .. }) => true,
            Self::Change(error) => error.may_have_written(),
            _ => false,
        }
    }
}

/// Says which version the volume has after `error`.
fn state(
    from: LuksVersion,
    now: Option<LuksVersion>,
    is_damaged: bool,
    error: &ConvertError,
) -> String {
    let Some(now) = now else {
        return "The header cannot be read now".into();
    };
    let is_new = now != from;
    let when = if is_new { "already" } else { "still" };
    let mut text = format!("The volume is {when} {now}, and every keyslot opens it");
    // The write that decides, or its sync, failed.
    let may_go_back = matches!(
        error,
        ConvertError::Change(
            ChangeError::WriteHeader { .. }
                | ChangeError::WriteCopy {
                    kind: CopyKind::Primary,
                    ..
                }
        )
    );
    if is_new && may_go_back {
        text += &format!(". When the computer restarts, it may be {from} again");
    }
    text += match (is_damaged, is_new, now) {
        (false, true, LuksVersion::Luks1) => {
            ". The next change of its header overwrites what is left of the LUKS2 header"
        }
        _ => "",
    };
    text
}
