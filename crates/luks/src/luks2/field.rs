// SPDX-License-Identifier: MIT OR Apache-2.0
//! A JSON value together with its location, which every error names.

use std::{collections::BTreeMap, fmt, ops::RangeInclusive};

use base64::{Engine, prelude::BASE64_STANDARD};

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
    fn of_object(kind: &'static str, number: u32) -> Self {
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

    pub(crate) fn text(self) -> Result<&'a str, MetadataError> {
        match self.node {
            Node::Text(text) => Ok(text),
            _ => Err(self.wrong("a text")),
        }
    }

    /// Returns a non-empty text. A text that begins with a zero character counts as empty, because
    /// it is empty in C.
    pub(crate) fn name(self) -> Result<&'a str, MetadataError> {
        match self.node {
            Node::Text(text) if !text.is_empty() && !text.starts_with('\0') => Ok(text),
            _ => Err(self.wrong("a name")),
        }
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
                let text = text.trim_start_matches([' ', '\t', '\n', '\u{b}', '\u{c}', '\r']);
                let digits = text.trim_start_matches(['+', '-']);
                let sign = text.len() - digits.len();
                let end = digits.bytes().take_while(u8::is_ascii_digit).count();
                text[..sign + end].parse().unwrap_or_default()
            }
            Node::Null | Node::Array(_) | Node::Object(_) => 0,
        }
    }

    /// Returns the value in `choices` that the text stands for.
    pub(crate) fn one_of<T, const N: usize>(
        self,
        choices: [(&str, T); N],
    ) -> Result<T, MetadataError> {
        let names = choices.each_ref().map(|(name, _)| *name);
        let text = match self.node {
            Node::Text(text) => text.as_str(),
            _ => "",
        };
        choices
            .into_iter()
            .find(|(name, _)| *name == text)
            .map(|(_, value)| value)
            .ok_or_else(|| self.wrong(names.join(" or ")))
    }

    /// Returns a 64-bit number, which LUKS2 writes as a decimal string.
    pub(crate) fn decimal(self) -> Result<u64, MetadataError> {
        match self.node {
            Node::Text(text) => parse_decimal(text),
            _ => None,
        }
        .ok_or_else(|| self.wrong("a text of decimal digits, below 2^64"))
    }

    /// Decodes base64 (RFC 4648, section 4, with padding); the result must have a length in
    /// `range`.
    pub(crate) fn base64(self, range: RangeInclusive<usize>) -> Result<Vec<u8>, MetadataError> {
        // The length is checked before anything is allocated. Base64 is a third longer than its
        // bytes.
        let expected = || format!("{} to {} bytes in base64", range.start(), range.end());
        match self.node {
            Node::Text(text) if text.len() <= range.end().div_ceil(3) * 4 => BASE64_STANDARD
                .decode(text)
                .ok()
                .filter(|bytes| range.contains(&bytes.len())),
            _ => None,
        }
        .ok_or_else(|| self.wrong(expected()))
    }

    pub(crate) fn texts(self) -> Result<Vec<&'a str>, MetadataError> {
        self.items()?.into_iter().map(Field::text).collect()
    }

    /// Returns an array of object numbers, which LUKS2 writes as strings. No number may occur
    /// twice.
    pub(crate) fn references(self) -> Result<Vec<u32>, MetadataError> {
        let mut numbers = Vec::new();
        for item in self.items()? {
            let number = item.object_number()?;
            if numbers.contains(&number) {
                return Err(MetadataError::DoubleReference {
                    place: item.place.to_string(),
                    number,
                });
            }
            numbers.push(number);
        }
        Ok(numbers)
    }

    /// Like [`Field::references`], but a number may be repeated, as cryptsetup accepts in tokens.
    pub(crate) fn repeated_references(self) -> Result<Vec<u32>, MetadataError> {
        let mut numbers = Vec::new();
        for item in self.items()? {
            let number = item.object_number()?;
            if !numbers.contains(&number) {
                numbers.push(number);
            }
        }
        Ok(numbers)
    }

    fn object_number(&self) -> Result<u32, MetadataError> {
        match self.node {
            Node::Text(text) => parse_object_number(text),
            _ => None,
        }
        .ok_or_else(|| self.wrong("an object's number as a text"))
    }

    fn items(&self) -> Result<Vec<Field<'a>>, MetadataError> {
        match self.node {
            Node::Array(items) if items.len() > MAX_ITEMS => Err(MetadataError::TooMany {
                what: self.place.to_string(),
                found: items.len(),
                max: MAX_ITEMS,
            }),
            Node::Array(items) => Ok(items
                .iter()
                .enumerate()
                .map(|(i, node)| Field {
                    node,
                    place: self.place.then(Name::Item(i)),
                })
                .collect()),
            _ => Err(self.wrong("an array")),
        }
    }

    fn wrong(&self, expected: impl Into<String>) -> MetadataError {
        MetadataError::Type {
            place: self.place.to_string(),
            expected: expected.into(),
            found: self.node.brief(),
        }
    }
}

/// More items than any array of references, flags or requirements has.
const MAX_ITEMS: usize = 64;

/// An object and its location.
#[derive(Clone, Debug)]
pub(crate) struct Object<'a> {
    entries: &'a [(String, Node)],
    pub(crate) place: FieldPath<'a>,
}

impl<'a> Object<'a> {
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
        for (key, node) in self.entries {
            let number = parse_object_number(key).ok_or_else(|| MetadataError::Key {
                place: self.place.to_string(),
                found: Node::Text(key.clone()).brief(),
            })?;
            let place = FieldPath::of_object(kind, number);
            members.insert(number, Field::new(node, place).object()?);
        }
        Ok(members)
    }
}

fn parse_decimal(text: &str) -> Option<u64> {
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
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
