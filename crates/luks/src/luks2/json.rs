// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parses JSON text into a tree, and prints it for people. The text is of the form that [`json_c`] makes, so
//! no key occurs twice, and none has a zero character.
//!
//! The tree type is this crate's own. It is smaller than `serde_json::Value`, because a header may
//! hold 4 MiB of hostile JSON.

use std::{fmt, io};

use luxor_volume::brief;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use super::json_c;

/// A JSON value. Objects keep the order of their keys.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Node {
    Null,
    Bool(bool),
    /// A number without fraction, exponent or sign.
    Unsigned(u64),
    /// Any other number.
    Number(f64),
    Text(String),
    Array(Vec<Node>),
    Object(Vec<(String, Node)>),
}

impl Node {
    /// Returns a member of an object.
    pub(crate) fn member(&self, name: &str) -> Option<&Self> {
        let Self::Object(members) = self else {
            return None;
        };
        let (_, node) = members.iter().find(|(key, _)| key == name)?;
        Some(node)
    }

    /// Parses a whole text.
    pub(crate) fn parse(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }

    /// Returns the value in a few words, for error messages.
    pub(crate) fn brief(&self) -> String {
        match self {
            Self::Null => "null".into(),
            Self::Bool(value) => value.to_string(),
            Self::Unsigned(value) => value.to_string(),
            // With a fraction, since whole numbers are another kind.
            Self::Number(value) => format!("{value:?}"),
            Self::Text(text) => brief(text),
            Self::Array(items) => format!("an array of {}", items.len()),
            Self::Object(entries) => format!("an object of {}", entries.len()),
        }
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Node, E> {
        Ok(Node::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Node, E> {
        Ok(Node::Bool(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Node, E> {
        Ok(Node::Unsigned(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Node, E> {
        // A negative number; `visit_u64` gets the others. It is used in messages only.
        #[expect(clippy::cast_precision_loss, reason = "it is only printed")]
        Ok(Node::Number(value as f64))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Node, E> {
        Ok(Node::Number(value))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Node, E> {
        if let Some(number) = value.strip_prefix(json_c::MARK) {
            let number = json_c::shown_number(number).parse();
            return Ok(Node::Number(number.unwrap_or(f64::NAN)));
        }
        Ok(Node::Text(value.replace(json_c::is_stand_in, "\u{fffd}")))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Node, A::Error> {
        let mut array = Vec::new();
        while let Some(item) = items.next_element()? {
            array.push(item);
        }
        Ok(Node::Array(array))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut items: A) -> Result<Node, A::Error> {
        let mut object = Vec::new();
        while let Some(member) = items.next_entry()? {
            object.push(member);
        }
        Ok(Node::Object(object))
    }
}

/// Formats JSON text with line breaks and two spaces per level, byte for byte as
/// `cryptsetup luksDump --dump-json-metadata` prints it.
///
/// cryptsetup prints what json-c has read: keys in order, no space after a colon, a line break even
/// in empty arrays and objects, and integers clamped to 64 bits.
pub(crate) fn pretty(text: &str) -> String {
    let mut all = String::new();
    write_pretty(text, &mut |piece| {
        all.push_str(piece);
        Ok(())
    })
    .expect("appending to a `String` does not fail");
    all
}

/// Formats like [`pretty`], but passes the text to `sink` in pieces. Indentation makes a hostile
/// text some hundred times as long, so it is never held in memory as a whole: a piece is at most a
/// page plus the longest token.
pub(crate) fn write_pretty(
    text: &str,
    sink: &mut dyn FnMut(&str) -> io::Result<()>,
) -> io::Result<()> {
    let mut out = String::new();
    let mut depth = 0;
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let token_len = match first {
            '"' => string_len(rest),
            '{' | '[' | '}' | ']' | ',' | ':' => 1,
            _ => rest.find([',', '}', ']']).unwrap_or(rest.len()),
        };
        let (token, after) = rest.split_at(token_len);
        rest = after;
        match first {
            '{' | '[' => {
                depth += 1;
                out.push(first);
                // A closing bracket begins a line of its own.
                if !rest.starts_with(['}', ']']) {
                    push_line(&mut out, depth);
                }
            }
            '}' | ']' => {
                depth = usize::saturating_sub(depth, 1);
                push_line(&mut out, depth);
                out.push(first);
            }
            ',' => {
                out.push(first);
                push_line(&mut out, depth);
            }
            '"' | ':' => out.push_str(token),
            _ => push_scalar(&mut out, token),
        }
        if out.len() >= PIECE {
            sink(&out)?;
            out.clear();
        }
    }
    sink(&out)
}

/// The number of bytes that are collected before they are passed on.
const PIECE: usize = 4096;

fn push_line(out: &mut String, depth: usize) {
    out.push('\n');
    out.extend(std::iter::repeat_n("  ", depth));
}

/// The length of the string literal at the beginning of `text`, including the quotes.
fn string_len(text: &str) -> usize {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

fn push_scalar(out: &mut String, literal: &str) {
    let digits = literal.strip_prefix('-').unwrap_or(literal);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return out.push_str(literal);
    }
    // Parsing fails for more than 38 digits, which may not fit 128 bits; such a number is clamped
    // too.
    let limit = if digits.len() < literal.len() {
        i64::MIN.into()
    } else {
        u64::MAX.into()
    };
    let value: i128 = literal.parse().unwrap_or(limit);
    out.push_str(&value.clamp(i64::MIN.into(), u64::MAX.into()).to_string());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(text: &str) -> String {
        json_c::decode(text.as_bytes()).unwrap()
    }

    #[test]
    fn pretty_text_is_the_same_json() {
        let text = r#" { "a" : [ ] , "b":{},"c":[1, -2.50,{"d\/\u0041":null}],"é":true } "#;
        let expected = "{\n  \"a\":[\n  ],\n  \"b\":{\n  },\n  \"c\":[\n    1,\n    -2.50,\n    \
                        {\n      \"d/A\":null\n    }\n  ],\n  \"é\":true\n}";
        assert_eq!(pretty(&decode(text)), expected);
        assert_eq!(decode(expected), decode(text));
    }

    /// One number per line, each indented by 120 levels: 4 MiB of it would become 500 MiB.
    #[test]
    fn a_text_that_grows_a_hundredfold_is_never_whole_in_memory() {
        let text = format!(
            "{}{}0{}",
            "[".repeat(120),
            "0,".repeat(50_000),
            "]".repeat(120)
        );
        let (mut len, mut longest) = (0, 0);
        write_pretty(&text, &mut |piece| {
            len += piece.len();
            longest = longest.max(piece.len());
            Ok(())
        })
        .unwrap();
        assert!(len > 100 * text.len(), "{len}");
        assert!(longest < 2 * PIECE, "{longest}");
        assert_eq!(len, pretty(&text).len());

        let full = write_pretty(&text, &mut |_| Err(io::ErrorKind::StorageFull.into()));
        assert_eq!(full.unwrap_err().kind(), io::ErrorKind::StorageFull);
    }

    #[test]
    fn whole_numbers_are_cut_to_64_bits() {
        let text = format!("[{},-{},-0]", "9".repeat(60), "9".repeat(20));
        let expected = format!("[\n  {},\n  {},\n  0\n]", u64::MAX, i64::MIN);
        assert_eq!(pretty(&decode(&text)), expected);
    }
}
