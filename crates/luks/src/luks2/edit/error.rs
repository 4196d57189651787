// SPDX-License-Identifier: MIT OR Apache-2.0
//! The errors of changing metadata.

use std::io;

use luxor_volume::{brief, brief_list};

use crate::{
    luks1_error::Luks1Error,
    luks2::{
        binary_header::CopyKind, copy::CopyError, header::ReadError, metadata_error::MetadataError,
        reencrypt::ReencryptionError, segment::SegmentError,
    },
};

/// Why metadata were not changed, or not completely. At each instant one valid copy exists: after a
/// failed write the volume is in the state before or after the change.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChangeError {
    /// The metadata cannot be read again.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The header of a LUKS1 volume cannot be read again, or the new header would break a rule.
    #[error("the LUKS1 header is not accepted: {0}")]
    Luks1(#[from] Luks1Error),
    /// The metadata are not those that the change was made for.
    #[error(
        "another program changed the volume's header in the meantime; nothing was written. Run \
         the command again"
    )]
    ChangedMeanwhile,
    /// Another program wrote to the metadata at the same time.
    #[error(
        "another program wrote to the volume's header at the same time, without a lock. No old \
         keyslot was overwritten"
    )]
    WrittenOver,
    /// The volume has requirements that this version does not support for changes.
    #[error(
        "the volume requires {}, so this version does not change it",
        brief_list(names)
    )]
    Requirements {
        /// The names of the requirements.
        names: Vec<String>,
    },
    /// A re-encryption is under way.
    #[error(
        "a re-encryption is under way, and until it ends the volume's header cannot be changed"
    )]
    Reencrypting,
    /// A re-encryption was interrupted, and cannot be finished.
    #[error("the volume's header cannot be changed: {0}")]
    CannotFinish(SegmentError),
    /// The state of a re-encryption is not one that this version continues.
    #[error("the volume is being re-encrypted: {0}")]
    Reencryption(#[from] ReencryptionError),
    /// The new metadata would break a rule.
    #[error("the changed metadata would be invalid: {0}")]
    Invalid(#[from] MetadataError),
    /// The bytes of the new metadata would not be read as these metadata.
    #[error(
        "the changed metadata could not be read again from the header, so the header was not changed"
    )]
    NotReadBack,
    /// The JSON area is too short for the new metadata.
    #[error(
        "the metadata would need {needed} bytes, and there is room for {room}: remove tokens or \
         keyslots that are not needed"
    )]
    NoRoom {
        /// The length in bytes that they would need.
        needed: u64,
        /// The length of the JSON area in bytes.
        room: u64,
    },
    /// The seqid is the greatest 64-bit number.
    #[error("the header's seqid has its greatest value and cannot grow")]
    SeqidExhausted,
    /// The number is greater than any that a keyslot or token can have.
    #[error("there is no {what} {number}: the numbers go from 0 to {max}")]
    Number {
        /// `keyslot` or `token`.
        what: &'static str,
        /// The requested number.
        number: u32,
        /// The greatest number.
        max: u32,
    },
    /// The number is taken.
    #[error("{what} {number} exists; choose another number, or remove it first")]
    Taken {
        /// `keyslot` or `token`.
        what: &'static str,
        /// The number.
        number: u32,
    },
    /// There is no keyslot or token with that number.
    #[error("there is no {what} {number}")]
    Missing {
        /// `keyslot` or `token`.
        what: &'static str,
        /// The requested number.
        number: u32,
    },
    /// All numbers are taken.
    #[error("all {max} {what}s are in use: remove one first")]
    AllTaken {
        /// `keyslot` or `token`.
        what: &'static str,
        /// The greatest count.
        max: u32,
    },
    /// The keyslots area has no room for the new keyslot.
    #[error(
        "the keyslots area has no room for {needed} more bytes{}",
        if *is_removable { ". Removing a keyslot that you do not need makes room" } else { "" }
    )]
    NoArea {
        /// The length of the new area in bytes.
        needed: u64,
        /// Whether there is more than one keyslot, so that one may be removed.
        is_removable: bool,
    },
    /// There is no room for the new keyslot beside the one that it is to replace.
    #[error("keyslot {keyslot} cannot be replaced while it exists: {error}")]
    NoRoomBeside {
        /// The keyslot.
        keyslot: u32,
        /// Whether no other keyslot holds its key.
        is_only: bool,
        /// What has no room.
        error: Box<ChangeError>,
    },
    /// A keyslot was being replaced in its own place, and a step failed.
    #[error(
        "keyslot {keyslot} was being replaced in its own place when this failed: {error}. No \
         passphrase may open it any more: if so, restore a backup of the header, or remove the keyslot"
    )]
    KeyslotLost {
        /// The keyslot.
        keyslot: u32,
        /// What failed.
        error: Box<ChangeError>,
    },
    /// The new keyslot holds a key that is not this volume's.
    #[error("the new keyslot holds a key that is not this volume's; nothing was written")]
    OtherKey,
    /// The keyslot that is to be replaced holds another key.
    #[error("keyslot {keyslot} holds a key that does not decrypt the data; nothing was written")]
    Unbound {
        /// The keyslot.
        keyslot: u32,
    },
    /// The token is not JSON.
    #[error("the token is not valid JSON: {message}")]
    TokenSyntax {
        /// The error and its position.
        message: String,
    },
    /// The token's type is one of cryptsetup's own, and cryptsetup would refuse the token.
    #[error("the token is of the type {}: {what}", brief(kind))]
    TokenOfCryptsetup {
        /// The type.
        kind: String,
        /// What is wrong with it, in words.
        what: &'static str,
    },
    /// The place of the primary header has the signature of another format, which may be wanted.
    #[error("the signature of {found} is in the place of the primary header; nothing was written")]
    ForeignSignature {
        /// The name of the format, in words.
        found: &'static str,
    },
    /// A copy of the header cannot be read. It may be the newer one.
    #[error(
        "the {} copy of the header cannot be read: {error}; nothing was written",
        kind.name()
    )]
    ReadCopy {
        /// Which one.
        kind: CopyKind,
        /// Why.
        #[source]
        error: CopyError,
    },
    /// The copies have equal seqids and differ in what a key or the data need.
    #[error(
        "both copies of the header are valid and equally old, and differ in their {}; nothing was \
         written",
        differences.join(", ")
    )]
    CopiesDiffer {
        /// The parts in which they differ.
        differences: Vec<&'static str>,
    },
    /// The older copy has objects intact that are unusable in the newer one.
    #[error(
        "{} can only be used in the older copy of the header, which a change would overwrite; nothing was \
         written",
        spoilt.join(", ")
    )]
    OlderIsIntact {
        /// The keyslots and digests.
        spoilt: Vec<String>,
    },
    /// Earlier writes cannot be made durable.
    #[error(
        "earlier writes to the volume cannot be made durable: {source}; this change of the header was not written"
    )]
    Sync {
        /// The system's reason.
        source: io::Error,
    },
    /// A copy of the header cannot be written.
    #[error("the {} copy of the header cannot be written: {source}", kind.name())]
    WriteCopy {
        /// Which one.
        kind: CopyKind,
        /// The system's reason.
        source: io::Error,
    },
    /// A write failed before anything that matters had changed.
    #[error("{error}. The volume opens as before: make the change again when writing works")]
    Unchanged {
        /// What failed.
        #[source]
        error: Box<ChangeError>,
    },
    /// Keyslots were being destroyed when a step failed, and the header still has them.
    #[error(
        "{error}. {}",
        keyslot.map_or(
            "Secrets of the volume may open no more, although the header still lists its keyslots: repeat \
             the command when writing works".to_owned(),
            |number| format!(
                "The secret of keyslot {number} may open no more, although the header still lists it: remove \
                 it by its number when writing works"
            )
        )
    )]
    Destroying {
        /// The keyslot. `None`: all of them.
        keyslot: Option<u32>,
        /// What failed.
        #[source]
        error: Box<ChangeError>,
    },
    /// Writing the header failed, but reading it returns the new header, or fails too.
    #[error(
        "{error}. The change may have taken effect, or may be lost when the computer restarts: rely \
         neither on the new secret nor on the old one being invalid"
    )]
    Unsettled {
        /// What failed.
        error: Box<ChangeError>,
    },
    /// The change is made in at least one copy of the header, and then a step failed.
    #[error("the change was made, but then this failed: {error}")]
    Unfinished {
        /// What failed.
        error: Box<ChangeError>,
    },
    /// A keyslot was replaced, but the old one could not be destroyed.
    #[error(
        "keyslot {keyslot} was changed, but then this failed: {error}. The old keyslot may still \
         be at byte {offset}: change the key once more when writing works again, and do not rely \
         on the old secret being invalid"
    )]
    OldKeyLeft {
        /// The keyslot.
        keyslot: u32,
        /// The offset of the old area in bytes.
        offset: u64,
        /// What failed.
        error: Box<ChangeError>,
    },
    /// A re-encryption is complete, but an old keyslot could not be destroyed.
    #[error(
        "the re-encryption is complete, but then this failed: {error}. The old contents \
         of keyslot {keyslot} may still be at byte {offset}"
    )]
    OldKeyslotLeft {
        /// The keyslot.
        keyslot: u32,
        /// The offset of its area in bytes.
        offset: u64,
        /// What failed.
        error: Box<ChangeError>,
    },
    /// In a LUKS1 volume the new key is in another keyslot, and replacing the old one failed.
    #[error(
        "the new key is in keyslot {other}, but then this failed: {error}. Keyslot {keyslot}, at \
         byte {offset}, may hold the old key, the new one or neither: when writing works again, \
         remove the keyslot that you do not need"
    )]
    NewKeyElsewhere {
        /// The keyslot that was to be replaced.
        keyslot: u32,
        /// The offset of its area in bytes.
        offset: u64,
        /// The keyslot that has the new key.
        other: u32,
        /// What failed.
        error: Box<ChangeError>,
    },
    /// The header of a LUKS1 volume cannot be written.
    #[error("the header cannot be written: {source}")]
    WriteHeader {
        /// The system's reason.
        source: io::Error,
    },
    /// LUKS1 does not have the feature.
    #[error("LUKS1 has no {what}; LUKS2 has")]
    NotInLuks1 {
        /// The name of the feature, such as `tokens`.
        what: &'static str,
    },
    /// A keyslot's area cannot be written.
    #[error("the keyslots area cannot be written at byte {offset}: {source}")]
    WriteArea {
        /// The offset of the area in bytes.
        offset: u64,
        /// The system's reason.
        source: io::Error,
    },
    /// A keyslot's area cannot be read again.
    #[error("the keyslots area cannot be read at byte {offset}: {source}")]
    ReadArea {
        /// The offset of the area in bytes.
        offset: u64,
        /// The system's reason.
        source: io::Error,
    },
    /// Bytes that are to be overwritten cannot be read first.
    #[error("the volume's beginning cannot be read: {source}")]
    ReadBeginning {
        /// The system's reason.
        source: io::Error,
    },
    /// The system returned no random bytes.
    #[error("the system provides no random bytes: {0}")]
    Random(#[from] getrandom::Error),
}

impl ChangeError {
    /// Returns whether something may have been written.
    #[must_use]
    pub fn may_have_written(&self) -> bool {
        matches!(
            self,
            Self::Unsettled { .. }
                | Self::Unfinished { .. }
                | Self::Destroying { .. }
                | Self::KeyslotLost { .. }
                | Self::OldKeyLeft { .. }
                | Self::OldKeyslotLeft { .. }
                | Self::WriteArea { .. }
                | Self::WriteCopy { .. }
                | Self::WriteHeader { .. }
                | Self::WrittenOver
        )
    }

    /// Returns [`ChangeError::Unchanged`] for a write that failed before the header changed, and other errors
    /// as they are.
    #[must_use]
    pub fn with_state(self) -> Self {
        match self {
            Self::WriteArea { .. } | Self::WriteCopy { .. } | Self::WriteHeader { .. } => {
                Self::Unchanged {
                    error: Box::new(self),
                }
            }
            error => error,
        }
    }

    /// What failed, without what it means for the volume.
    #[must_use]
    pub fn cause(&self) -> &Self {
        match self {
            Self::Unchanged { error }
            | Self::Destroying { error, .. }
            | Self::Unsettled { error }
            | Self::Unfinished { error } => error.cause(),
            error => error,
        }
    }

    /// Returns [`ChangeError::Destroying`] for a write that failed before the header changed, and other
    /// errors as they are.
    pub(crate) fn while_destroying(self, keyslot: Option<u32>) -> Self {
        match self.with_state() {
            Self::Unchanged { error } => Self::Destroying { keyslot, error },
            error => error,
        }
    }
}
