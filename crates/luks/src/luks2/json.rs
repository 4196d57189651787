// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parses JSON text into a tree, and prints it for people.
//!
//! The tree type is this crate's own. It is smaller than `serde_json::Value`, because a header may
//! hold 4 MiB of hostile JSON. It also refuses what parsers disagree about: a key that occurs twice
//! in an object, a key with a zero character (which ends a string in C), and nesting that is too
//! deep for json-c, and so for cryptsetup.

use std::{collections::HashSet, fmt, io};

use luxor_volume::brief;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use super::json_c;

/// The greatest nesting depth that json-c reads. The outermost object and the innermost value
/// count.
const MAX_LEVELS: u32 = 32;

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
    /// Parses a whole text.
    pub(crate) fn parse(text: &str) -> Result<Self, serde_json::Error> {
        let mut deserializer = serde_json::Deserializer::from_str(text);
        let node = Level(1).deserialize(&mut deserializer)?;
        deserializer.end()?;
        Ok(node)
    }

    /// Returns the value in a few words, for error messages.
    pub(crate) fn brief(&self) -> String {
        match self {
            Self::Null => "null".into(),
            Self::Bool(value) => value.to_string(),
            Self::Unsigned(value) => value.to_string(),
            Self::Number(value) => value.to_string(),
            Self::Text(text) => brief(text),
            Self::Array(items) => format!("an array of {}", items.len()),
            Self::Object(entries) => format!("an object of {}", entries.len()),
        }
    }
}

/// The nesting depth of a value: 1 for the outermost.
#[derive(Clone, Copy)]
struct Level(u32);

impl<'de> DeserializeSeed<'de> for Level {
    type Value = Node;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        if self.0 > MAX_LEVELS {
            return Err(D::Error::custom(format_args!(
                "it is nested deeper than {MAX_LEVELS} levels"
            )));
        }
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Level {
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
        // A number that JSON does not have is only printed.
        if let Some(number) = value.strip_prefix(json_c::MARK) {
            return Ok(Node::Number(number.parse().unwrap_or(f64::NAN)));
        }
        Ok(Node::Text(value.replace(json_c::is_stand_in, "\u{fffd}")))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Node, A::Error> {
        let mut array = Vec::new();
        while let Some(item) = items.next_element_seed(Self(self.0 + 1))? {
            array.push(item);
        }
        Ok(Node::Array(array))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut items: A) -> Result<Node, A::Error> {
        let mut keys = HashSet::new();
        let mut object = Vec::new();
        while let Some(key) = items.next_key::<String>()? {
            let refused = |what: &str| {
                let key = brief(&key);
                A::Error::custom(format_args!("the key {key} {what}"))
            };
            if key.contains('\0') {
                return Err(refused("has a zero character"));
            }
            if key.starts_with(json_c::MARK) {
                return Err(refused("is a number"));
            }
            if !keys.insert(key.clone()) {
                return Err(refused("occurs twice"));
            }
            object.push((key, items.next_value_seed(Self(self.0 + 1))?));
        }
        Ok(Node::Object(object))
    }
}

/// Formats valid JSON text with line breaks and two spaces per level, byte for byte as
/// `cryptsetup luksDump --dump-json-metadata` prints it.
///
/// cryptsetup prints what json-c has read: keys in order, no space after a colon, a line break even
/// in empty arrays and objects, slashes and non-ASCII characters unescaped, fractions as written,
/// and integers clamped to 64 bits.
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
    rewrite(text, push_line, push_scalar, sink)
}

/// Formats valid JSON text on one line without spaces, as cryptsetup writes it to disk, but with all
/// digits of its numbers.
pub(crate) fn plain(text: &str) -> String {
    let mut all = String::with_capacity(text.len());
    rewrite(text, |_, _| {}, String::push_str, &mut |piece| {
        all.push_str(piece);
        Ok(())
    })
    .expect("appending to a `String` does not fail");
    all
}

/// Formats the text as json-c does, and passes it to `sink` in pieces. `push_line` begins a line at
/// the given depth, and `push_scalar` appends a number or a name.
fn rewrite(
    text: &str,
    push_line: impl Fn(&mut String, usize),
    push_scalar: impl Fn(&mut String, &str),
    sink: &mut dyn FnMut(&str) -> io::Result<()>,
) -> io::Result<()> {
    let mut out = String::new();
    let mut depth = 0;
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let token_len = match first {
            '"' => json_c::string_len(rest),
            '{' | '[' | '}' | ']' | ',' | ':' => 1,
            c if c.is_whitespace() => c.len_utf8(),
            _ => rest
                .find([',', '}', ']', ' ', '\t', '\n', '\r'])
                .unwrap_or(rest.len()),
        };
        let (token, after) = rest.split_at(token_len);
        rest = after;
        match first {
            '"' => push_string(&mut out, token),
            '{' | '[' => {
                depth += 1;
                out.push(first);
                // A closing bracket begins a line of its own.
                if !rest.trim_start().starts_with(['}', ']']) {
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
            c if c.is_whitespace() => {}
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

fn push_string(out: &mut String, literal: &str) {
    let Ok(text) = serde_json::from_str::<String>(literal) else {
        return out.push_str(literal);
    };
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{c}' => out.push_str("\\f"),
            c if c < ' ' => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
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
    use crate::luks2::edit::JsonMembers;

    #[test]
    fn a_key_that_is_there_twice_is_refused() {
        let error = Node::parse(r#"{"a":1,"b":{"c":1,"c":2}}"#)
            .unwrap_err()
            .to_string();
        assert!(error.contains("\"c\" occurs twice"), "{error}");
    }

    #[test]
    fn a_zero_character_in_a_key_is_refused() {
        let error = Node::parse(r#"{"a":1,"a\u0000":2}"#)
            .unwrap_err()
            .to_string();
        assert!(error.contains(r#""a\0" has a zero"#), "{error}");
        assert!(Node::parse(r#"{"a":"\u0000"}"#).is_ok());
    }

    /// json-c counts in this way: `cryptsetup` reads 32 levels.
    #[test]
    fn deep_nesting_is_an_error() {
        for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
            let parse = |levels, inner: &str| {
                let [open, close] = [open, close].map(|bracket| bracket.repeat(levels));
                Node::parse(&format!("{open}{inner}{close}"))
            };
            assert!(parse(31, "1").is_ok());
            assert!(parse(31, "[]").is_ok());
            for (levels, inner) in [(32, "1"), (32, "[]"), (33, "1")] {
                let error = parse(levels, inner).unwrap_err().to_string();
                assert!(error.contains("deeper than 32 levels"), "{error}");
            }
            assert!(Node::parse(&open.repeat(1 << 20)).is_err());
        }
    }

    #[test]
    fn a_long_key_does_not_make_a_long_error() {
        let key = "k".repeat(1 << 20);
        let error = Node::parse(&format!(r#"{{"{key}":1,"{key}":2}}"#)).unwrap_err();
        assert!(error.to_string().len() < 200);
    }

    #[test]
    fn pretty_text_is_the_same_json() {
        let text = r#" { "a" : [ ] , "b":{},"c":[1, -2.50,{"d\/\u0041":null}],"é":true } "#;
        let expected = "{\n  \"a\":[\n  ],\n  \"b\":{\n  },\n  \"c\":[\n    1,\n    -2.50,\n    \
                        {\n      \"d/A\":null\n    }\n  ],\n  \"é\":true\n}";
        assert_eq!(pretty(text), expected);
        assert_eq!(
            plain(text),
            r#"{"a":[],"b":{},"c":[1,-2.50,{"d/A":null}],"é":true}"#
        );
        assert_eq!(Node::parse(text).unwrap(), Node::parse(expected).unwrap());
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
        assert_eq!(pretty(&text), expected);
    }

    /// What cryptsetup 2.6.1 keeps when it changes such a header.
    #[test]
    fn what_json_c_writes_is_json_and_comes_back() {
        for odd in [
            "1e400",
            "-1e400",
            "1.",
            "-1.",
            "1.e5",
            "01.5",
            "NaN",
            "Infinity",
            "-Infinity",
            "1.5e",
            "-.5",
            "-.5e3",
            "-.0",
            "-.5E+",
        ] {
            let text = format!(r#"{{"a":[{odd},{odd}],"{odd}":"{odd}","b":{odd}}}"#);
            let decoded = json_c::decode(text.as_bytes());
            Node::parse(&decoded).unwrap_or_else(|error| panic!("{odd}: {error}"));
            assert_eq!(json_c::encode(&decoded), text.as_bytes());
            assert_eq!(decoded.matches(json_c::MARK).count(), 3, "{odd}");
        }
        // Escapes become what they stand for, as in json-c.
        let bytes = b"{\"\xff\":\"a\xfe\xf4\x8f\xbe\x80\xed\xa0\x80\\\"1.\",\"\\uDBFF\\udf00\":1}";
        let expected =
            b"{\"\xff\":\"a\xfe\xf4\x8f\xbe\x80\xed\xa0\x80\\\"1.\",\"\xf4\x8f\xbc\x80\":1}";
        let decoded = json_c::decode(bytes);
        Node::parse(&decoded).unwrap();
        assert_eq!(json_c::encode(&decoded), &expected[..]);
        assert_eq!(json_c::decode(expected), decoded);
    }

    #[test]
    fn json_stays_as_it_is_and_other_literals_are_refused() {
        let text = r#"{"é":[1,-2.5E+3,true,null,"1e400"],"c":{}}"#;
        assert_eq!(json_c::decode(text.as_bytes()), text);
        for wrong in [
            "+1", ".5", "-", "-.", "-.e5", "-e5", "0x10", "1-2", "1.5.5", "e5", "TRUE", "'a'",
            "-NaN",
        ] {
            let text = format!(r#"{{"a":{wrong}}}"#);
            assert!(
                Node::parse(&json_c::decode(text.as_bytes())).is_err(),
                "{wrong}"
            );
        }
    }

    /// A header is what one reading of it says, whatever characters its keys and values have.
    #[test]
    fn what_is_read_is_what_is_written() {
        let strings: [&[u8]; 16] = [
            b"a",
            b"\\\"",
            b"\\\\",
            b"\\u0022",
            b"\\/",
            b"\\u00e9",
            b"\xc3\xa9",
            b"\xc3",
            b"\xa9",
            b"\xf4\x8f",
            b"\xfe",
            b"\xf4\x8f\xbc\x80",
            b"\xf4\x8f\xbf\xbf",
            b"\\udbff\\udf00",
            b"\\uDBFF\\uDF22",
            b"\\uDbfF\\udFfe",
        ];
        let numbers = ["1", "-.5", "1e400", "Infinity", "1.50", "01.5"];
        let mut state = 1_u64;
        let mut random = |below: usize| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            usize::try_from(state >> 33).unwrap() % below
        };
        for _ in 0..20_000 {
            let mut bytes = b"{".to_vec();
            for member in 0..random(4) {
                let comma = if member == 0 { "\"" } else { ",\"" };
                bytes.extend(comma.as_bytes());
                for _ in 0..random(4) {
                    bytes.extend(strings[random(strings.len())]);
                }
                bytes.extend(format!("{member}\":").as_bytes());
                if random(2) == 0 {
                    bytes.extend(numbers[random(numbers.len())].as_bytes());
                    continue;
                }
                bytes.push(b'"');
                for _ in 0..random(4) {
                    bytes.extend(strings[random(strings.len())]);
                }
                bytes.push(b'"');
            }
            bytes.push(b'}');
            let shown = String::from_utf8_lossy(&bytes);
            let text = json_c::decode(&bytes);
            let node = Node::parse(&text).unwrap_or_else(|error| panic!("{error}: {shown}"));
            // Keys are written unescaped by an edit of their object, and values when they are shown.
            for text in [text.clone(), JsonMembers::parse(&text).text(), plain(&text)] {
                assert_eq!(Node::parse(&text).unwrap(), node, "{shown}");
                let written = json_c::encode(&text);
                assert_eq!(json_c::decode(&written), text, "{shown}");
            }
        }
    }
}
