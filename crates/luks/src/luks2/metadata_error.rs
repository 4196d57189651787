// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rules of the JSON area, each by the error that tells it is broken.

use luxor_volume::brief_list;

/// The rule that the JSON area breaks, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MetadataError {
    /// The first byte is no brace.
    #[error("the JSON area must begin with '{{', and begins with the byte {found:#04x}")]
    Opening {
        /// The byte.
        found: u8,
    },
    /// No zero byte.
    #[error("the JSON text is not ended by a zero byte within its area")]
    Unterminated,
    /// Something after the JSON text.
    #[error(
        "byte {position} of the JSON area: only zero bytes may follow the object's closing brace"
    )]
    Trailing {
        /// Where, in bytes from the area's beginning.
        position: usize,
    },
    /// Not UTF-8.
    #[error("byte {position} of the JSON area is not UTF-8")]
    Utf8 {
        /// Where, in bytes from the area's beginning.
        position: usize,
    },
    /// Not JSON.
    #[error("the JSON area is not valid JSON: {message}")]
    Syntax {
        /// What and where, in words.
        message: String,
    },
    /// A mandatory field is not there.
    #[error("{place} is missing")]
    Missing {
        /// The field.
        place: String,
    },
    /// A field has a value that it cannot have.
    #[error("{place} must be {expected}, and is {found}")]
    Type {
        /// The field.
        place: String,
        /// What it can be, in words.
        expected: String,
        /// What it is, in words.
        found: String,
    },
    /// A key is no number.
    #[error("{place}: the key {found} is not an object number")]
    Key {
        /// The object.
        place: String,
        /// The key.
        found: String,
    },
    /// More objects than there may be.
    #[error("{what}: there are {found}, and at most {max} are allowed")]
    TooMany {
        /// Of what.
        what: String,
        /// How many there are.
        found: usize,
        /// How many there may be.
        max: usize,
    },
    /// `json_size` is not the JSON area's.
    #[error("config: json_size is {found}, but the JSON area has {expected} bytes")]
    JsonSize {
        /// The value.
        found: u64,
        /// What the binary header says.
        expected: u64,
    },
    /// `keyslots_size` is no size of a keyslots area.
    #[error("config: keyslots_size is {found}; it must be a multiple of 4096 and at most {max}")]
    KeyslotsSize {
        /// The value.
        found: u64,
        /// The greatest in bytes.
        max: u64,
    },
    /// A position or length is not in whole units.
    #[error("{place} is {found}; it must be a multiple of {unit}, and a size more than 0")]
    Unaligned {
        /// The field.
        place: String,
        /// Its value in bytes.
        found: u64,
        /// The unit in bytes.
        unit: u64,
    },
    /// Offset plus size is 2⁶⁴ or more.
    #[error("{place}: offset and size together exceed 64 bits")]
    Wraps {
        /// The object.
        place: String,
    },
    /// No sector size.
    #[error("{place} is {found}; it must be 512, 1024, 2048 or 4096")]
    SectorSize {
        /// The field.
        place: String,
        /// Its value in bytes.
        found: u32,
    },
    /// No unit of checksums.
    #[error("{place} is {found}; it must be a power of two, and at least 512")]
    ChecksumUnit {
        /// The field.
        place: String,
        /// Its value in bytes.
        found: u32,
    },
    /// The area cannot hold the stripes.
    #[error("{place}: the area has {size} bytes, and the split key needs {needed}")]
    AreaSize {
        /// The keyslot.
        place: String,
        /// The area's size in bytes.
        size: u64,
        /// What it must have at least, in bytes.
        needed: u64,
    },
    /// An area without bytes.
    #[error("keyslot {keyslot}: the area has no bytes")]
    EmptyArea {
        /// The keyslot.
        keyslot: u32,
    },
    /// An area in the headers.
    #[error(
        "keyslot {keyslot}: the area begins at byte {offset}, before the end of the two headers \
         ({begin})"
    )]
    AreaOverHeaders {
        /// The keyslot.
        keyslot: u32,
        /// Where the area begins, in bytes.
        offset: u64,
        /// Where the keyslots area begins, in bytes.
        begin: u64,
    },
    /// An area past the keyslots area.
    #[error(
        "keyslot {keyslot}: the area ends at byte {area_end}, past the keyslots area's end ({end})"
    )]
    AreaPastEnd {
        /// The keyslot.
        keyslot: u32,
        /// Where the area ends, in bytes.
        area_end: u64,
        /// Where the keyslots area ends, in bytes.
        end: u64,
    },
    /// Two areas share bytes.
    #[error("the areas of keyslots {first} and {second} overlap at byte {byte}")]
    Overlap {
        /// A keyslot.
        first: u32,
        /// The other one.
        second: u32,
        /// A byte in both.
        byte: u64,
    },
    /// The data begins in the keyslots area.
    #[error(
        "segment {segment}: the data begins at byte {offset}, before the keyslots area's end \
         ({end})"
    )]
    SegmentOverKeyslots {
        /// The segment.
        segment: u32,
        /// Where its data begins, in bytes.
        offset: u64,
        /// Where the keyslots area ends, in bytes.
        end: u64,
    },
    /// Nothing to read.
    #[error("segments: there are only backup segments, and none with the data")]
    NoSegment,
    /// Numbers that are left out.
    #[error("segments: {number} is missing; they must be numbered from 0 without gaps")]
    SegmentGap {
        /// The first number that is not there.
        number: u32,
    },
    /// Backup segments have the last numbers.
    #[error("segment {backup} is a backup segment and precedes segment {regular}, which is not")]
    BackupFirst {
        /// The backup segment.
        backup: u32,
        /// A segment after it.
        regular: u32,
    },
    /// Something after what has no end.
    #[error("segment {segment}: its size is dynamic, which only the last segment's may be")]
    DynamicSegment {
        /// The segment.
        segment: u32,
    },
    /// Two segments share bytes.
    #[error("segments {first} and {second} overlap at byte {byte}")]
    SegmentOverlap {
        /// A segment.
        first: u32,
        /// The other one.
        second: u32,
        /// A byte in both.
        byte: u64,
    },
    /// A segment is marked for two purposes.
    #[error("segment {segment} has both the flags {first} and {second}")]
    SegmentFlags {
        /// The segment.
        segment: u32,
        /// A flag.
        first: &'static str,
        /// The other one.
        second: &'static str,
    },
    /// Two segments are marked for one purpose.
    #[error("segments {first} and {second} both have the flag {flag}, which only one may have")]
    DoubleSegmentFlag {
        /// A segment.
        first: u32,
        /// The other one.
        second: u32,
        /// The flag.
        flag: &'static str,
    },
    /// Two keyslots for the state of a re-encryption.
    #[error("keyslots {first} and {second} are both of type reencrypt, and only one may be")]
    TwoReencryptKeyslots {
        /// A keyslot.
        first: u32,
        /// The other one.
        second: u32,
    },
    /// A reference to something that is not there.
    #[error("{place} refers to {what} {number}, which does not exist")]
    Reference {
        /// What refers.
        place: String,
        /// To what.
        what: &'static str,
        /// Its number.
        number: u32,
    },
    /// The same reference twice.
    #[error("{place} refers to {number} twice")]
    DoubleReference {
        /// The reference.
        place: String,
        /// The number.
        number: u32,
    },
    /// A keyslot belongs to exactly one digest.
    #[error("keyslot {keyslot} belongs to {found} digests, and must belong to exactly one")]
    KeyslotDigests {
        /// The keyslot.
        keyslot: u32,
        /// The number of its digests.
        found: usize,
    },
    /// An encrypted segment belongs to one digest, or to two in a hot zone.
    #[error("segment {segment} belongs to {found} digests, and must belong to exactly one")]
    SegmentDigests {
        /// The segment.
        segment: u32,
        /// The number of its digests.
        found: usize,
    },
    /// Part of a re-encryption that is not required.
    #[error("{place} belongs to a re-encryption, and config.requirements names none")]
    NoReencryption {
        /// The keyslot or segment.
        place: String,
    },
    /// Two re-encryptions, or one that is there twice.
    #[error("config.requirements names two re-encryptions, {first} and {second}")]
    TwoReencryptions {
        /// A requirement.
        first: &'static str,
        /// The other one.
        second: &'static str,
    },
    /// A re-encryption without its state.
    #[error("config.requirements names a re-encryption, and there is no keyslot of type reencrypt")]
    NoReencryptKeyslot,
    /// A re-encryption without a part of its state.
    #[error("config.requirements names a re-encryption, and no segment has the flag {flag}")]
    NoBackupSegment {
        /// The flag.
        flag: &'static str,
    },
    /// Two lengths for one file.
    #[error("tokens {first} and {second} are both of type luxor-file, and only one may be")]
    TwoFileTokens {
        /// A token.
        first: u32,
        /// The other one.
        second: u32,
    },
    /// No encryption at all.
    #[error("{place} is cipher_null, which encrypts nothing: such a volume is refused")]
    CipherNull {
        /// The field.
        place: String,
    },
    /// Lawful, but not in this version.
    #[error("{place}: {what}, which this version does not open")]
    Unsupported {
        /// The object or field.
        place: String,
        /// What it is, in words.
        what: String,
    },
    /// The metadata asks for something unknown, and could not be read without it.
    #[error(
        "the volume requires {}, which this version does not support ({error})",
        brief_list(names)
    )]
    Requirements {
        /// The names of the requirements.
        names: Vec<String>,
        /// What was not understood.
        error: String,
    },
}

impl MetadataError {
    /// Whether the metadata may be in order and only this version too old: then an
    /// older copy is no better.
    pub(crate) fn is_unsupported(&self) -> bool {
        matches!(
            self,
            Self::Unsupported { .. } | Self::Requirements { .. } | Self::CipherNull { .. }
        )
    }
}
