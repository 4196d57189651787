// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rules of the JSON area. There is one error for each.

use luxor_volume::{HashAlgorithm, brief_list};

use super::binary_header::BinaryHeaderError;

/// The rule that the JSON area breaks, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MetadataError {
    /// This version does not support the copy's version, or the hash of its checksum.
    #[error(transparent)]
    Binary(BinaryHeaderError),
    /// The first byte is not an opening brace.
    #[error("the JSON area must begin with '{{', and begins with the byte {found:#04x}")]
    Opening {
        /// The first byte.
        found: u8,
    },
    /// No zero byte ends the text.
    #[error("the JSON text is not ended by a zero byte within its area")]
    Unterminated,
    /// Other bytes than zeros follow the JSON text.
    #[error(
        "byte {position} of the JSON area: only zero bytes may follow the object's closing brace"
    )]
    Trailing {
        /// The offset in the JSON area.
        position: usize,
    },
    /// The text is not JSON.
    #[error("the JSON area is not valid JSON: {message}")]
    Syntax {
        /// The error and its position, in words.
        message: String,
    },
    /// A mandatory field is missing.
    #[error("{place} is missing")]
    Missing {
        /// The field.
        place: String,
    },
    /// A field has a value that is not allowed.
    #[error("{place} must be {expected}, and is {found}")]
    Type {
        /// The field.
        place: String,
        /// The allowed values, in words.
        expected: String,
        /// The value, in words.
        found: String,
    },
    /// A key is not an object number.
    #[error("{place}: the key {found} is not an object number")]
    Key {
        /// The object.
        place: String,
        /// The key.
        found: String,
    },
    /// There are more objects than allowed.
    #[error("{what}: there are {found}, and at most {max} are allowed")]
    TooMany {
        /// The kind of object.
        what: String,
        /// Their number.
        found: usize,
        /// The greatest allowed number.
        max: usize,
    },
    /// `json_size` is not the length of the JSON area.
    #[error("config: json_size is {found}, but the JSON area has {expected} bytes")]
    JsonSize {
        /// The value.
        found: u64,
        /// The length according to the binary header.
        expected: u64,
    },
    /// `keyslots_size` is not an allowed length of the keyslots area.
    #[error("config: keyslots_size is {found}; it must be a multiple of 4096 and at most {max}")]
    KeyslotsSize {
        /// The value.
        found: u64,
        /// The greatest allowed value in bytes.
        max: u64,
    },
    /// A position or length is not a multiple of its unit.
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
    /// The sector size is not allowed.
    #[error("{place} is {found}; it must be 512, 1024, 2048 or 4096")]
    SectorSize {
        /// The field.
        place: String,
        /// Its value in bytes.
        found: u32,
    },
    /// The unit of checksums is not allowed.
    #[error("{place} is {found}; it must be a power of two, and at least 512")]
    ChecksumUnit {
        /// The field.
        place: String,
        /// Its value in bytes.
        found: u32,
    },
    /// The area is too short for the stripes.
    #[error("{place}: the area has {size} bytes, and the split key needs {needed}")]
    AreaSize {
        /// The keyslot.
        place: String,
        /// The area's size in bytes.
        size: u64,
        /// The least length in bytes.
        needed: u64,
    },
    /// The value of a digest does not have the length of a result of its hash.
    #[error("{place} has {found} bytes, not {len} as {hash} gives or 20 as in LUKS1")]
    DigestLen {
        /// The field.
        place: String,
        /// The length of the value in bytes.
        found: usize,
        /// The hash of the digest.
        hash: HashAlgorithm,
        /// The length of the hash in bytes.
        len: usize,
    },
    /// An area has no bytes.
    #[error("keyslot {keyslot}: the area has no bytes")]
    EmptyArea {
        /// The keyslot.
        keyslot: u32,
    },
    /// An area begins before the end of the headers.
    #[error(
        "keyslot {keyslot}: the area begins at byte {offset}, before the end of the two headers \
         ({begin})"
    )]
    AreaOverHeaders {
        /// The keyslot.
        keyslot: u32,
        /// The offset of the area in bytes.
        offset: u64,
        /// The offset of the keyslots area in bytes.
        begin: u64,
    },
    /// An area ends after the keyslots area.
    #[error(
        "keyslot {keyslot}: the area ends at byte {area_end}, past the keyslots area's end ({end})"
    )]
    AreaPastEnd {
        /// The keyslot.
        keyslot: u32,
        /// The end of the area in bytes.
        area_end: u64,
        /// The end of the keyslots area in bytes.
        end: u64,
    },
    /// Two areas overlap.
    #[error("the areas of keyslots {first} and {second} overlap at byte {byte}")]
    Overlap {
        /// A keyslot.
        first: u32,
        /// The other one.
        second: u32,
        /// The first byte that both have.
        byte: u64,
    },
    /// The data begin before the end of the keyslots area.
    #[error(
        "segment {segment}: the data begin at byte {offset}, before the keyslots area's end \
         ({end})"
    )]
    SegmentOverKeyslots {
        /// The segment.
        segment: u32,
        /// The offset of its data in bytes.
        offset: u64,
        /// The end of the keyslots area in bytes.
        end: u64,
    },
    /// There is no segment of the data.
    #[error("segments: there are only backup segments, and none with the data")]
    NoSegment,
    /// The numbers of the segments have a gap.
    #[error("segments: {number} is missing; they must be numbered from 0 without gaps")]
    SegmentGap {
        /// The first number that is missing.
        number: u32,
    },
    /// A backup segment precedes a segment that is none. Backup segments must come last.
    #[error("segment {backup} is a backup segment and precedes segment {regular}, which is not")]
    BackupFirst {
        /// The backup segment.
        backup: u32,
        /// A segment after it.
        regular: u32,
    },
    /// A segment of dynamic size is not the last one.
    #[error("segment {segment}: its size is dynamic, which only the last segment's may be")]
    DynamicSegment {
        /// The segment.
        segment: u32,
    },
    /// Two segments overlap.
    #[error("segments {first} and {second} overlap at byte {byte}")]
    SegmentOverlap {
        /// A segment.
        first: u32,
        /// The other one.
        second: u32,
        /// The first byte that both have.
        byte: u64,
    },
    /// A segment has flags of two different roles.
    #[error("segment {segment} has both the flags {first} and {second}")]
    SegmentFlags {
        /// The segment.
        segment: u32,
        /// A flag.
        first: &'static str,
        /// The other one.
        second: &'static str,
    },
    /// Two segments have the same role, which only one may have.
    #[error("segments {first} and {second} both have the flag {flag}, which only one may have")]
    DoubleSegmentFlag {
        /// A segment.
        first: u32,
        /// The other one.
        second: u32,
        /// The flag.
        flag: &'static str,
    },
    /// Two keyslots hold the state of a re-encryption.
    #[error("keyslots {first} and {second} are both of type reencrypt, and only one may be")]
    TwoReencryptKeyslots {
        /// A keyslot.
        first: u32,
        /// The other one.
        second: u32,
    },
    /// A reference to an object that does not exist.
    #[error("{place} refers to {what} {number}, which does not exist")]
    Reference {
        /// The object that refers to it.
        place: String,
        /// The kind of the missing object.
        what: &'static str,
        /// The number of the missing object.
        number: u32,
    },
    /// A keyslot does not belong to exactly one digest.
    #[error("keyslot {keyslot} belongs to {found} digests, and must belong to exactly one")]
    KeyslotDigests {
        /// The keyslot.
        keyslot: u32,
        /// The number of its digests.
        found: usize,
    },
    /// An encrypted segment does not belong to exactly one digest (or to two, in a hot zone).
    #[error("segment {segment} belongs to {found} digests, and must belong to exactly one")]
    SegmentDigests {
        /// The segment.
        segment: u32,
        /// The number of its digests.
        found: usize,
    },
    /// A part of a re-encryption's state exists, but no re-encryption is required.
    #[error("{place} belongs to a re-encryption, and config.requirements names none")]
    NoReencryption {
        /// The keyslot or segment.
        place: String,
    },
    /// Two re-encryptions are required, or one is listed twice.
    #[error("config.requirements names two re-encryptions, {first} and {second}")]
    TwoReencryptions {
        /// A requirement.
        first: &'static str,
        /// The other one.
        second: &'static str,
    },
    /// A re-encryption is required, but its keyslot is missing.
    #[error("config.requirements names a re-encryption, and there is no keyslot of type reencrypt")]
    NoReencryptKeyslot,
    /// A re-encryption is required, but a backup segment is missing.
    #[error("config.requirements names a re-encryption, and no segment has the flag {flag}")]
    NoBackupSegment {
        /// The flag.
        flag: &'static str,
    },
    /// The cipher is `cipher_null`: the data or the keyslot are not encrypted.
    #[error("{place} is cipher_null, which encrypts nothing: such a volume is refused")]
    CipherNull {
        /// The field.
        place: String,
    },
    /// The object or field is valid, but this version does not support it.
    #[error("{place}: {what}, which this version does not open")]
    Unsupported {
        /// The object or field.
        place: String,
        /// What is not supported, in words.
        what: String,
    },
    /// The metadata could not be parsed, and the reason may be a requirement that this version does
    /// not support.
    #[error(
        "the volume requires {}, which this version does not support ({error})",
        brief_list(names)
    )]
    Requirements {
        /// The names of the requirements.
        names: Vec<String>,
        /// The error of parsing.
        error: String,
    },
}

impl MetadataError {
    /// Returns whether the metadata break no rule, and only this version is too old for them or refuses
    /// them. Then a copy of the same age is no better.
    pub(crate) fn is_unsupported(&self) -> bool {
        matches!(
            self,
            Self::Binary(_)
                | Self::Unsupported { .. }
                | Self::Requirements { .. }
                | Self::CipherNull { .. }
                | Self::TooMany { .. }
        )
    }
}
