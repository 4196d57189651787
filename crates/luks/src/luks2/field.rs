// SPDX-License-Identifier: MIT OR Apache-2.0
//! A JSON value together with its location, which every error names.

use std::{collections::BTreeMap, fmt, ops::RangeInclusive};

use base64::{Engine, prelude::BASE64_STANDARD};

use luxor_volume::brief;

use super::{json::Node, metadata_error::MetadataError};

/// A location in the metadata, such as `keyslot 3: area.offset`. Parsing makes one for each value, so
/// it becomes a text only in errors.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FieldPath<'a> {
    /// The kind of an object, and its number.
    object: Option<(&'static str, u32)>,
    /// The names from there on. No value that is parsed lies deeper.
    names: [Option<Name<'a>>; 6],
}

#[derive(Clone, Copy, Debug)]
enum Name<'a> {
    Member(&'a str),
    Item(usize),
}

impl<'a> FieldPath<'a> {
    pub(crate) fn of_object(kind: &'static str, number: u32) -> Self {
        Self {
            object: Some((kind, number)),
            ..Self::default()
        }
    }

    fn then(mut self, name: Name<'a>) -> Self {
        if let Some(next) = self.names.iter_mut().find(|name| name.is_none()) {
            *next = Some(name);
        }
        self
    }
}

impl fmt::Display for FieldPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut between = "";
        if let Some((kind, number)) = self.object {
            write!(f, "{kind} {number}")?;
            between = ": ";
        }
        for name in self.names.iter().flatten() {
            f.write_str(between)?;
            match name {
                Name::Member(name) => f.write_str(name)?,
                Name::Item(index) => index.fmt(f)?,
            }
            between = ".";
        }
        Ok(())
    }
}

/// A value and its location.
#[derive(Clone, Debug)]
pub(crate) struct Field<'a> {
    node: &'a Node,
    pub(crate) place: FieldPath<'a>,
}

impl<'a> Field<'a> {
    pub(crate) fn new(node: &'a Node, place: FieldPath<'a>) -> Self {
        Self { node, place }
    }

    pub(crate) fn object(self) -> Result<Object<'a>, MetadataError> {
        match self.node {
            Node::Object(entries) => Ok(Object {
                entries,
                place: self.place,
            }),
            _ => Err(self.wrong("an object")),
        }
    }

    /// The text as a string of C, which a zero character ends; `None` if the value is no text.
    fn c_text(&self) -> Option<&'a str> {
        match self.node {
            Node::Text(text) => Some(c_text(text)),
            _ => None,
        }
    }

    pub(crate) fn text(self) -> Result<&'a str, MetadataError> {
        self.c_text().ok_or_else(|| self.wrong("a text"))
    }

    /// Returns a non-empty text.
    pub(crate) fn name(self) -> Result<&'a str, MetadataError> {
        let text = self.c_text().filter(|text| !text.is_empty());
        text.ok_or_else(|| self.wrong("a name"))
    }

    /// Returns a JSON number in `range`.
    pub(crate) fn number(self, range: RangeInclusive<u32>) -> Result<u32, MetadataError> {
        match self.node {
            Node::Unsigned(value) => u32::try_from(*value)
                .ok()
                .filter(|value| range.contains(value)),
            _ => None,
        }
        .ok_or_else(|| {
            self.wrong(format!(
                "a whole number from {} to {}",
                range.start(),
                range.end()
            ))
        })
    }

    /// Returns any value as the integer that cryptsetup reads, whose library turns other values into
    /// one: a text by the digits at its beginning, and what is no number into 0.
    pub(crate) fn c_integer(self) -> i64 {
        match self.node {
            Node::Unsigned(value) => i64::try_from(*value).unwrap_or(i64::MAX),
            #[expect(clippy::cast_possible_truncation, reason = "as in C")]
            Node::Number(value) => *value as i64,
            Node::Bool(value) => i64::from(*value),
            Node::Text(text) => {
                let text = text.trim_start_matches(C_SPACE);
                let digits = text.trim_start_matches(['+', '-']);
                let sign = text.len() - digits.len();
                let end = digits.bytes().take_while(u8::is_ascii_digit).count();
                text[..sign + end].parse().unwrap_or_default()
            }
            Node::Null | Node::Array(_) | Node::Object(_) => 0,
        }
    }

    /// As [`Field::number`], but of any value that cryptsetup reads as such an `int`: some numbers it takes
    /// without a look at their type.
    pub(crate) fn c_number(self, range: RangeInclusive<u32>) -> Result<u32, MetadataError> {
        let found = self.clone().c_integer().min(i32::MAX.into());
        match u32::try_from(found) {
            Ok(found) if range.contains(&found) => Ok(found),
            _ => self.number(range),
        }
    }

    /// Returns the value in `choices` that the text stands for.
    pub(crate) fn one_of<T, const N: usize>(
        self,
        choices: [(&str, T); N],
    ) -> Result<T, MetadataError> {
        let names = choices.each_ref().map(|(name, _)| *name);
        let text = self.c_text().unwrap_or_default();
        choices
            .into_iter()
            .find(|(name, _)| *name == text)
            .map(|(_, value)| value)
            .ok_or_else(|| self.wrong(names.join(" or ")))
    }

    /// Returns a 64-bit number, which LUKS2 writes as a decimal string.
    pub(crate) fn decimal(self) -> Result<u64, MetadataError> {
        let number = self.c_text().and_then(parse_decimal);
        number.ok_or_else(|| self.wrong("a text of decimal digits, below 2^64"))
    }

    /// As [`Field::decimal`], with the spaces and the sign before the digits that `strtoull` reads.
    pub(crate) fn c_decimal(self) -> Result<u64, MetadataError> {
        let text = self.c_text().unwrap_or_default();
        let text = text.trim_start_matches(C_SPACE);
        match text.strip_prefix(['+', '-']) {
            Some(digits) if text.starts_with('-') => parse_decimal(digits).map(u64::wrapping_neg),
            Some(digits) => parse_decimal(digits),
            None => parse_decimal(text),
        }
        .ok_or_else(|| self.wrong("a text of decimal digits, below 2^64"))
    }

    /// Decodes base64 (RFC 4648, section 4, with padding); the result must have a length in
    /// `range`. As in cryptsetup, white space does not count, nor zero characters.
    pub(crate) fn base64(self, range: RangeInclusive<usize>) -> Result<Vec<u8>, MetadataError> {
        let expected = || format!("{} to {} bytes in base64", range.start(), range.end());
        let Node::Text(text) = self.node else {
            return Err(self.wrong(expected()));
        };
        let text = text.replace([' ', '\t', '\n', '\r', '\0'], "");
        // The length is checked before anything is decoded. Base64 is a third longer than its bytes.
        let bytes = Some(text).filter(|text| text.len() <= range.end().div_ceil(3) * 4);
        let bytes = bytes.and_then(|text| BASE64_STANDARD.decode(text).ok());
        let bytes = bytes.filter(|bytes| range.contains(&bytes.len()));
        bytes.ok_or_else(|| self.wrong(expected()))
    }

    pub(crate) fn texts(self) -> Result<Vec<&'a str>, MetadataError> {
        self.items()?.map(Field::text).collect()
    }

    /// Returns an array of object numbers, which LUKS2 writes as strings. As in cryptsetup, a number may be
    /// repeated, which means nothing.
    pub(crate) fn references(self) -> Result<Vec<u32>, MetadataError> {
        let mut numbers = Vec::new();
        for item in self.items()? {
            let number = item.c_text().and_then(parse_object_number);
            let number = number.ok_or_else(|| item.wrong("an object's number as a text"))?;
            if !numbers.contains(&number) {
                numbers.push(number);
            }
        }
        Ok(numbers)
    }

    fn items(&self) -> Result<impl Iterator<Item = Field<'a>>, MetadataError> {
        let Node::Array(items) = self.node else {
            return Err(self.wrong("an array"));
        };
        let place = self.place;
        Ok(items.iter().enumerate().map(move |(i, node)| Field {
            node,
            place: place.then(Name::Item(i)),
        }))
    }

    fn wrong(&self, expected: impl Into<String>) -> MetadataError {
        MetadataError::Type {
            place: self.place.to_string(),
            expected: expected.into(),
            found: self.node.brief(),
        }
    }
}

/// Returns the part of a text that is a string of C.
pub(crate) fn c_text(text: &str) -> &str {
    text.split('\0').next().unwrap_or_default()
}

/// The white space of C.
const C_SPACE: [char; 6] = [' ', '\t', '\n', '\u{b}', '\u{c}', '\r'];

/// An object and its location.
#[derive(Clone, Debug)]
pub(crate) struct Object<'a> {
    entries: &'a [(String, Node)],
    pub(crate) place: FieldPath<'a>,
}

impl<'a> Object<'a> {
    /// The number of its members.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn required(&self, name: &str) -> Result<Field<'a>, MetadataError> {
        self.optional(name).ok_or_else(|| MetadataError::Missing {
            place: self.place.then(Name::Member(name)).to_string(),
        })
    }

    pub(crate) fn optional(&self, name: &str) -> Option<Field<'a>> {
        let (key, node) = self.entries.iter().find(|(key, _)| key == name)?;
        Some(Field {
            node,
            place: self.place.then(Name::Member(key)),
        })
    }

    /// Returns the members of an object that has object numbers as keys and at most `max` members.
    /// `kind` is the name of one of them in error messages.
    pub(crate) fn numbered(
        &self,
        kind: &'static str,
        max: usize,
    ) -> Result<BTreeMap<u32, Object<'a>>, MetadataError> {
        if self.entries.len() > max {
            return Err(MetadataError::TooMany {
                what: self.place.to_string(),
                found: self.entries.len(),
                max,
            });
        }
        let mut members = BTreeMap::new();
        for (key, object) in self.members(kind) {
            let Some(number) = object_number(&self.place, key)? else {
                return Err(MetadataError::Unsupported {
                    place: self.place.to_string(),
                    what: format!("the key {} is not the usual form of a number", brief(key)),
                });
            };
            members.insert(number, object?);
        }
        Ok(members)
    }

    /// Returns all members with their keys, each of which should be an object. `kind` is the name of one of
    /// them in error messages.
    pub(crate) fn members(
        &self,
        kind: &'static str,
    ) -> impl Iterator<Item = (&'a str, Result<Object<'a>, MetadataError>)> {
        let place = self.place;
        self.entries.iter().map(move |(key, node)| {
            let place = match parse_object_number(key) {
                Some(number) => FieldPath::of_object(kind, number),
                None => place.then(Name::Member(key)),
            };
            (key.as_str(), Field::new(node, place).object())
        })
    }
}

fn parse_decimal(text: &str) -> Option<u64> {
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

/// Returns the number that the key of an object at `place` stands for. Returns none for other digits,
/// such as `01` or none at all: cryptsetup accepts such a key, but finds no object by it.
pub(crate) fn object_number(
    place: &FieldPath<'_>,
    key: &str,
) -> Result<Option<u32>, MetadataError> {
    if !key.bytes().all(|b| b.is_ascii_digit()) {
        return Err(MetadataError::Key {
            place: place.to_string(),
            found: brief(key),
        });
    }
    Ok(parse_object_number(key))
}

/// Accepts one spelling for each object number, so that two different keys cannot mean the same
/// number.
fn parse_object_number(text: &str) -> Option<u32> {
    let number = u32::try_from(parse_decimal(text)?).ok()?;
    (number.to_string() == text).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_digits_and_nothing_else() {
        assert_eq!(parse_decimal("0"), Some(0));
        assert_eq!(parse_decimal("18446744073709551615"), Some(u64::MAX));
        for text in [
            "",
            "-1",
            "+1",
            " 1",
            "1 ",
            "0x10",
            "1.0",
            "1e3",
            "18446744073709551616",
            "１",
        ] {
            assert_eq!(parse_decimal(text), None, "{text}");
        }
    }

    #[test]
    fn object_numbers_have_one_spelling() {
        assert_eq!(parse_object_number("31"), Some(31));
        for text in ["031", "00", "4294967296", "-1", "x"] {
            assert_eq!(parse_object_number(text), None, "{text}");
        }
    }
}
