// SPDX-License-Identifier: MIT OR Apache-2.0
//! The JSON area: parsed once into typed values, with every rule of the LUKS2
//! specification, chapter 3, checked on the way.

use std::collections::BTreeMap;

use crate::{
    binary_header,
    config::Config,
    digest::Digest,
    field::{Field, Object, Place},
    json::{Node, brief},
    keyslot::Keyslot,
    segment::Segment,
    token::{LUXOR_FILE, Token},
};

/// The most keyslots, segments and tokens that there can be.
const MAX_OBJECTS: usize = 32;
/// The most digests that there can be.
const MAX_DIGESTS: usize = 8;

/// A volume's metadata.
#[derive(Clone, Debug)]
pub(crate) struct Metadata {
    pub keyslots: BTreeMap<u32, Keyslot>,
    pub tokens: BTreeMap<u32, Token>,
    /// The data segment and its number.
    pub segment: (u32, Segment),
    pub digests: BTreeMap<u32, Digest>,
    pub config: Config,
}

/// The text in a JSON area: up to the first zero byte, with nothing but zeros
/// from there on.
pub(crate) fn area_text(area: &[u8]) -> Result<&str, MetadataError> {
    match area.first() {
        Some(b'{') => {}
        first => {
            return Err(MetadataError::Opening {
                found: first.copied().unwrap_or_default(),
            });
        }
    }
    let end = area
        .iter()
        .position(|&b| b == 0)
        .ok_or(MetadataError::Unterminated)?;
    if let Some(at) = area[end..].iter().position(|&b| b != 0) {
        return Err(MetadataError::Trailing { position: end + at });
    }
    if area[end - 1] != b'}' {
        return Err(MetadataError::Trailing { position: end - 1 });
    }
    std::str::from_utf8(&area[..end]).map_err(|error| MetadataError::Utf8 {
        position: error.valid_up_to(),
    })
}

/// Whether an encryption's name means that there is none.
pub(crate) fn is_cipher_null(encryption: &str) -> bool {
    encryption.starts_with("cipher_null") || encryption.split('-').any(|word| word == "null")
}

impl Metadata {
    /// Parses the JSON text of a header of `header_size` bytes.
    pub(crate) fn parse(text: &str, header_size: u64) -> Result<Self, MetadataError> {
        let root = Node::parse(text).map_err(|error| MetadataError::Syntax {
            message: error.to_string(),
        })?;
        let root = Field::new(&root, Place::default()).object()?;
        let config = Config::parse(&root.required("config")?.object()?, header_size)?;
        match Self::parse_objects(&root, config.clone(), header_size) {
            // What a requirement stands for may well be what is not understood here.
            Err(error) if !config.requirements.is_empty() => Err(MetadataError::Requirements {
                names: config.requirements,
                error: error.to_string(),
            }),
            result => result,
        }
    }

    fn parse_objects(
        root: &Object<'_>,
        config: Config,
        header_size: u64,
    ) -> Result<Self, MetadataError> {
        let objects =
            |name: &str, head: &str, max: usize| root.required(name)?.object()?.numbered(head, max);
        let keyslots = parse_each(objects("keyslots", "keyslot", MAX_OBJECTS)?, Keyslot::parse)?;
        let tokens = parse_each(objects("tokens", "token", MAX_OBJECTS)?, Token::parse)?;
        let digests = parse_each(objects("digests", "digest", MAX_DIGESTS)?, Digest::parse)?;
        let segments = objects("segments", "segment", MAX_OBJECTS)?;
        if segments.len() != 1 {
            return Err(MetadataError::Segments {
                found: segments.len(),
            });
        }
        let segment = parse_each(segments, Segment::parse)?
            .pop_first()
            .expect("there is exactly one");

        let metadata = Self {
            keyslots,
            tokens,
            segment,
            digests,
            config,
        };
        metadata.check_areas(header_size)?;
        metadata.check_references()?;
        Ok(metadata)
    }

    fn check_areas(&self, header_size: u64) -> Result<(), MetadataError> {
        let begin = 2 * header_size;
        let end = begin + self.config.keyslots_size;
        let segment = &self.segment.1;
        if segment.offset != 0 && segment.offset < end {
            return Err(MetadataError::SegmentOverKeyslots {
                segment: self.segment.0,
                offset: segment.offset,
                end,
            });
        }
        let mut areas = Vec::new();
        for (&keyslot, Keyslot { area, .. }) in &self.keyslots {
            let area_end =
                area.offset
                    .checked_add(area.size)
                    .ok_or_else(|| MetadataError::Wraps {
                        place: format!("keyslot {keyslot}: area"),
                    })?;
            if area.offset < begin {
                return Err(MetadataError::AreaOverHeaders {
                    keyslot,
                    offset: area.offset,
                    begin,
                });
            }
            if area_end > end {
                return Err(MetadataError::AreaPastEnd {
                    keyslot,
                    area_end,
                    end,
                });
            }
            areas.push((area.offset, area_end, keyslot));
        }
        areas.sort_unstable();
        for pair in areas.windows(2) {
            let [(_, first_end, first), (second_begin, _, second)] = [pair[0], pair[1]];
            if second_begin < first_end {
                return Err(MetadataError::Overlap {
                    first,
                    second,
                    byte: second_begin,
                });
            }
        }
        Ok(())
    }

    fn check_references(&self) -> Result<(), MetadataError> {
        let check =
            |from: String, what: &'static str, numbers: &[u32], known: &dyn Fn(u32) -> bool| {
                match numbers.iter().find(|&&number| !known(number)) {
                    None => Ok(()),
                    Some(&number) => Err(MetadataError::Reference {
                        place: from,
                        what,
                        number,
                    }),
                }
            };
        let is_keyslot = |number| self.keyslots.contains_key(&number);
        let is_segment = |number| self.segment.0 == number;
        for (number, token) in &self.tokens {
            check(
                format!("token {number}"),
                "keyslot",
                &token.keyslots,
                &is_keyslot,
            )?;
        }
        for (number, digest) in &self.digests {
            check(
                format!("digest {number}"),
                "keyslot",
                &digest.keyslots,
                &is_keyslot,
            )?;
            check(
                format!("digest {number}"),
                "segment",
                &digest.segments,
                &is_segment,
            )?;
        }
        for &keyslot in self.keyslots.keys() {
            let found = self
                .digests
                .values()
                .filter(|d| d.keyslots.contains(&keyslot))
                .count();
            if found != 1 {
                return Err(MetadataError::KeyslotDigests { keyslot, found });
            }
        }
        let found = self
            .digests
            .values()
            .filter(|d| !d.segments.is_empty())
            .count();
        if found != 1 {
            return Err(MetadataError::SegmentDigests {
                segment: self.segment.0,
                found,
            });
        }
        let mut lengths = self
            .tokens
            .iter()
            .filter(|(_, token)| token.file_length.is_some());
        if let (Some((&first, _)), Some((&second, _))) = (lengths.next(), lengths.next()) {
            return Err(MetadataError::TwoFileTokens { first, second });
        }
        Ok(())
    }

    /// The digest of the segment's key, and its number.
    pub(crate) fn segment_digest(&self) -> (u32, &Digest) {
        self.digests
            .iter()
            .find(|(_, digest)| !digest.segments.is_empty())
            .map(|(&number, digest)| (number, digest))
            .expect("checked when the metadata were parsed")
    }

    /// The exact length of the file in the volume, in bytes, where a token keeps it.
    pub(crate) fn file_length(&self) -> Option<u64> {
        self.tokens.values().find_map(|token| token.file_length)
    }
}

fn parse_each<T>(
    objects: BTreeMap<u32, Object<'_>>,
    parse: impl Fn(&Object<'_>) -> Result<T, MetadataError>,
) -> Result<BTreeMap<u32, T>, MetadataError> {
    objects
        .into_iter()
        .map(|(number, object)| Ok((number, parse(&object)?)))
        .collect()
}

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
    #[error("byte {position} of the JSON area is no UTF-8")]
    Utf8 {
        /// Where, in bytes from the area's beginning.
        position: usize,
    },
    /// Not JSON.
    #[error("the JSON area is no valid JSON: {message}")]
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
    #[error("{place}: the key {found} is no object number")]
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
    /// Not one segment.
    #[error(
        "the volume has {found} segments; this version opens volumes with exactly one, of type \
         crypt"
    )]
    Segments {
        /// How many there are.
        found: usize,
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
    #[error("{place} refers to {number} for the second time")]
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
    /// The data segment belongs to exactly one digest.
    #[error("segment {segment} belongs to {found} digests, and must belong to exactly one")]
    SegmentDigests {
        /// The segment.
        segment: u32,
        /// The number of its digests.
        found: usize,
    },
    /// Two lengths for one file.
    #[error("tokens {first} and {second} are both of type {LUXOR_FILE}, and there may be one only")]
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
        "the volume requires {}, which this version does not have ({error}); if that is an \
         unfinished re-encryption, let cryptsetup finish it",
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
    /// Whether the metadata may be in order and only this version too old: then
    /// the other copy is no better.
    pub(crate) fn is_unsupported(&self) -> bool {
        matches!(
            self,
            Self::Unsupported { .. }
                | Self::Requirements { .. }
                | Self::CipherNull { .. }
                | Self::Segments { found: 2.. }
        )
    }
}

/// Names from the metadata in a message.
pub(crate) fn brief_list(names: &[String]) -> String {
    names
        .iter()
        .map(|name| brief(name))
        .collect::<Vec<_>>()
        .join(", ")
}

/// The JSON area's room for text in a header of `header_size` bytes.
pub(crate) fn json_size(header_size: u64) -> u64 {
    header_size - binary_header::LEN as u64
}
