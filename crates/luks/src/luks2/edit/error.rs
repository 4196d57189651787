// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why metadata were not changed.

use std::io;

use luxor_volume::brief_list;

use crate::{
    luks1_error::Luks1Error,
    luks2::{
        binary_header::CopyKind, copy::CopyError, header::ReadError, metadata_error::MetadataError,
    },
};

/// Why metadata were not changed, or not wholly. At each instant one valid copy stands:
/// after an error in writing, the volume is what it was before or what it was to become.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChangeError {
    /// The metadata cannot be read again.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// Those of a LUKS1 volume cannot be read again, or what would be written breaks a
    /// rule.
    #[error("the LUKS1 header is not accepted: {0}")]
    Luks1(#[from] Luks1Error),
    /// They are not those that the change was made for.
    #[error(
        "another program changed the volume's header in the meantime; nothing was written. Run \
         the command again"
    )]
    ChangedMeanwhile,
    /// Another program wrote at the same time.
    #[error(
        "another program wrote to the volume's header at the same time, without a lock. No old \
         keyslot was overwritten. When that program has ended, check the volume (`luxor dump`, \
         `luxor key test`) and make the change again"
    )]
    WrittenOver,
    /// The metadata ask for something that this version cannot do.
    #[error(
        "the volume requires {}, so this version does not change it; if that is an unfinished \
         re-encryption, let cryptsetup finish it",
        brief_list(names)
    )]
    Requirements {
        /// The names of the requirements.
        names: Vec<String>,
    },
    /// What would be written breaks a rule.
    #[error("the changed metadata would be invalid: {0}")]
    Invalid(#[from] MetadataError),
    /// The JSON area is full.
    #[error(
        "the metadata would need {needed} bytes, and there is room for {room}: remove tokens or \
         keyslots that are not needed"
    )]
    NoRoom {
        /// What they would need, in bytes.
        needed: u64,
        /// The JSON area's length in bytes.
        room: u64,
    },
    /// Nobody changed a volume so often.
    #[error("the header's seqid has its greatest value and cannot grow")]
    SeqidExhausted,
    /// There are numbers for so many only.
    #[error("there is no {what} {number}: the numbers go from 0 to {max}")]
    Number {
        /// `keyslot` or `token`.
        what: &'static str,
        /// The number asked for.
        number: u32,
        /// The greatest.
        max: u32,
    },
    /// It is there already.
    #[error("{what} {number} exists; choose another number, or remove it first")]
    Taken {
        /// `keyslot` or `token`.
        what: &'static str,
        /// Its number.
        number: u32,
    },
    /// It is not there.
    #[error("there is no {what} {number}")]
    Missing {
        /// `keyslot` or `token`.
        what: &'static str,
        /// The number asked for.
        number: u32,
    },
    /// All are used.
    #[error("all {max} {what}s are in use: remove one first")]
    AllTaken {
        /// `keyslot` or `token`.
        what: &'static str,
        /// How many there can be.
        max: u32,
    },
    /// The keyslots area is full.
    #[error(
        "the keyslots area has no room for {needed} more bytes: remove a keyslot that you do not \
         need"
    )]
    NoArea {
        /// The new area's length in bytes.
        needed: u64,
    },
    /// The keyslot was made for another key.
    #[error("the new keyslot holds a key that is not this volume's; nothing was written")]
    OtherKey,
    /// The keyslot that is to be replaced holds another key.
    #[error("keyslot {keyslot} holds a key that does not decrypt the data; nothing was written")]
    Unbound {
        /// The keyslot.
        keyslot: u32,
    },
    /// The token is no JSON.
    #[error("the token is not valid JSON: {message}")]
    TokenSyntax {
        /// What is wrong, and where.
        message: String,
    },
    /// A header copy that begins like something else is left alone.
    #[error(
        "the signature of {found} is in the place of the primary header; nothing was written. To \
         keep the LUKS volume, overwrite that with `luxor header repair --force`"
    )]
    ForeignSignature {
        /// Whose signature, in words.
        found: &'static str,
    },
    /// A copy of the header cannot be read: it may be the newer one.
    #[error(
        "the {} copy of the header cannot be read: {error}; nothing was written. If that \
         persists, `luxor header repair --force` rewrites it from the other copy, which may be \
         older",
        kind.name()
    )]
    ReadCopy {
        /// Which one.
        kind: CopyKind,
        /// Why.
        error: CopyError,
    },
    /// What is there was not made durable.
    #[error("earlier writes to the volume cannot be made durable: {source}; nothing was written")]
    Sync {
        /// The system's reason.
        source: io::Error,
    },
    /// A copy of the header was not written.
    #[error("the {} copy of the header cannot be written: {source}", kind.name())]
    WriteCopy {
        /// Which one.
        kind: CopyKind,
        /// The system's reason.
        source: io::Error,
    },
    /// The header was not written as it should have been, and yet what is read now is the
    /// new one, or nothing.
    #[error(
        "{error}. The change may have taken effect, or may be lost when the computer restarts. \
         When writing works again, check the volume (`luxor dump`, `luxor key test`) and make the \
         change again. Until then, rely neither on the new secret nor on the old one being invalid"
    )]
    Unsettled {
        /// What failed.
        error: Box<ChangeError>,
    },
    /// The change is made, in one copy of the header at least.
    #[error(
        "the change was made, but then this failed: {error}. `luxor header repair` makes both \
         copies of the header equal again"
    )]
    Unfinished {
        /// What failed.
        error: Box<ChangeError>,
    },
    /// A keyslot was replaced, and the old one is not destroyed.
    #[error(
        "keyslot {keyslot} was changed, but then this failed: {error}. The old keyslot may still \
         be at byte {offset}: change the key once more when writing works again, and do not rely \
         on the old secret being invalid"
    )]
    OldKeyLeft {
        /// The keyslot.
        keyslot: u32,
        /// Where the old area begins, in bytes.
        offset: u64,
        /// What failed.
        error: Box<ChangeError>,
    },
    /// In a LUKS1 volume the new key is in another keyslot too.
    #[error(
        "the new key is in keyslot {other}, but then this failed: {error}. Keyslot {keyslot}, at \
         byte {offset}, may hold the old key, the new one or neither: when writing works again, \
         remove the keyslot that you do not need"
    )]
    NewKeyElsewhere {
        /// The keyslot that was to be replaced.
        keyslot: u32,
        /// Where its area begins, in bytes.
        offset: u64,
        /// The one that has the new key.
        other: u32,
        /// What failed.
        error: Box<ChangeError>,
    },
    /// LUKS1's header was not written.
    #[error("the header cannot be written: {source}")]
    WriteHeader {
        /// The system's reason.
        source: io::Error,
    },
    /// LUKS1 has no such thing.
    #[error("LUKS1 has no {what}; LUKS2 has")]
    NotInLuks1 {
        /// What it has not: `tokens`.
        what: &'static str,
    },
    /// An area was not written.
    #[error("the keyslots area cannot be written at byte {offset}: {source}")]
    WriteArea {
        /// Where the area begins, in bytes.
        offset: u64,
        /// The system's reason.
        source: io::Error,
    },
    /// An area cannot be read again.
    #[error("the keyslots area cannot be read at byte {offset}: {source}")]
    ReadArea {
        /// Where the area begins, in bytes.
        offset: u64,
        /// The system's reason.
        source: io::Error,
    },
    /// Something that is to be written over cannot be read.
    #[error("the volume's beginning cannot be read: {source}")]
    ReadBeginning {
        /// The system's reason.
        source: io::Error,
    },
    /// The system gives no random bytes.
    #[error("the system provides no random bytes: {0}")]
    Random(#[from] getrandom::Error),
}
