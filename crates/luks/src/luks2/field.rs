// SPDX-License-Identifier: MIT OR Apache-2.0
//! A JSON value together with its place, so that every error names it.

use std::{collections::BTreeMap, fmt, ops::RangeInclusive};

use base64::{Engine, prelude::BASE64_STANDARD};

use super::{json::Node, metadata_error::MetadataError};

/// Where in the metadata: `keyslot 3: area.offset`.
#[derive(Clone, Debug, Default)]
pub(crate) struct FieldPath {
    head: String,
    path: String,
}

impl FieldPath {
    pub(crate) fn new(head: impl Into<String>) -> Self {
        Self {
            head: head.into(),
            path: String::new(),
        }
    }

    fn member(&self, name: &str) -> Self {
        let dot = if self.path.is_empty() { "" } else { "." };
        Self {
            head: self.head.clone(),
            path: format!("{}{dot}{name}", self.path),
        }
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let colon = if self.head.is_empty() || self.path.is_empty() {
            ""
        } else {
            ": "
        };
        write!(f, "{}{colon}{}", self.head, self.path)
    }
}

/// A value and its place.
#[derive(Clone, Debug)]
pub(crate) struct Field<'a> {
    node: &'a Node,
    pub(crate) place: FieldPath,
}

impl<'a> Field<'a> {
    pub(crate) fn new(node: &'a Node, place: FieldPath) -> Self {
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

    /// A text that names something: not empty, not even in C, where a zero character ends
    /// it.
    pub(crate) fn name(self) -> Result<&'a str, MetadataError> {
        match self.node {
            Node::Text(text) if !text.is_empty() && !text.starts_with('\0') => Ok(text),
            _ => Err(self.wrong("a name")),
        }
    }

    /// A JSON number in `range`.
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

    /// What one of these texts stands for.
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

    /// A 64-bit number, which LUKS2 writes as a decimal string.
    pub(crate) fn decimal(self) -> Result<u64, MetadataError> {
        match self.node {
            Node::Text(text) => parse_decimal(text),
            _ => None,
        }
        .ok_or_else(|| self.wrong("a text of decimal digits, below 2^64"))
    }

    /// Base64 (RFC 4648, section 4, with padding) of `range` bytes.
    pub(crate) fn base64(self, range: RangeInclusive<usize>) -> Result<Vec<u8>, MetadataError> {
        // Checked before anything is allocated: base64 is a third longer.
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

    /// An array of object numbers, which LUKS2 writes as strings. None is there
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

    /// The same where one may be there twice, as in the tokens that cryptsetup takes.
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
                    place: self.place.member(&i.to_string()),
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

/// More than any array of references, flags or requirements has.
const MAX_ITEMS: usize = 64;

/// An object and its place.
#[derive(Clone, Debug)]
pub(crate) struct Object<'a> {
    entries: &'a [(String, Node)],
    pub(crate) place: FieldPath,
}

impl<'a> Object<'a> {
    pub(crate) fn required(&self, name: &str) -> Result<Field<'a>, MetadataError> {
        self.optional(name).ok_or_else(|| MetadataError::Missing {
            place: self.place.member(name).to_string(),
        })
    }

    pub(crate) fn optional(&self, name: &str) -> Option<Field<'a>> {
        let (_, node) = self.entries.iter().find(|(key, _)| key == name)?;
        Some(Field {
            node,
            place: self.place.member(name),
        })
    }

    /// The members of an object whose keys are object numbers, at most `max`;
    /// `head` names one of them.
    pub(crate) fn numbered(
        &self,
        head: &str,
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
            let place = FieldPath::new(format!("{head} {number}"));
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

/// Object numbers have one spelling each, so that two keys cannot mean the same.
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
