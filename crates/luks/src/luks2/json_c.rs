// SPDX-License-Identifier: MIT OR Apache-2.0
//! JSON as json-c writes it, and so cryptsetup, turned into JSON text and back.
//!
//! json-c keeps what JSON does not have: numbers such as `1e400`, `1.` and `NaN`, whose spelling it
//! prints again, and bytes in strings that are not UTF-8. They occur in tokens of other programs, which
//! every change must keep. Within this crate a header's text is JSON:
//!
//! - A byte that is not UTF-8 is a character from U+10FF80 to U+10FFFF, 0x10FF00 more than the byte.
//! - A number that is not JSON is a string: [`MARK`], which is U+10FF00, and the number.
//! - Characters of this block that the text really has count as bytes that are not UTF-8. So no two
//!   texts become the same one.

use std::borrow::Cow;

/// The first character of a string that stands for a number.
pub(crate) const MARK: char = '\u{10ff00}';

/// Whether a character stands for something that is not JSON.
pub(crate) fn is_stand_in(c: char) -> bool {
    c >= MARK
}

/// Turns the bytes of a header, or of a token, into JSON text. Nothing checks that it is valid.
pub(crate) fn decode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for part in bytes.utf8_chunks() {
        for c in part.valid().chars() {
            if is_stand_in(c) {
                push_bytes(&mut text, c.encode_utf8(&mut [0; 4]).as_bytes());
            } else {
                text.push(c);
            }
        }
        push_bytes(&mut text, part.invalid());
    }
    mark_numbers(text)
}

/// The reverse of [`decode`].
pub(crate) fn encode(text: &str) -> Cow<'_, [u8]> {
    if !text.contains(is_stand_in) {
        return Cow::Borrowed(text.as_bytes());
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        if let Some(number) = rest.strip_prefix('"').and_then(|s| s.strip_prefix(MARK))
            && let Some((number, after)) = number.split_once('"')
        {
            bytes.extend_from_slice(number.as_bytes());
            rest = after;
            continue;
        }
        if is_stand_in(first) {
            bytes.push((u32::from(first) & 0xff) as u8);
        } else {
            bytes.extend_from_slice(first.encode_utf8(&mut [0; 4]).as_bytes());
        }
        rest = &rest[first.len_utf8()..];
    }
    Cow::Owned(bytes)
}

fn push_bytes(text: &mut String, bytes: &[u8]) {
    let stand_in = |byte: &u8| char::from_u32(u32::from(MARK) + u32::from(*byte));
    text.extend(bytes.iter().filter_map(stand_in));
}

/// Returns the text with a string in place of each number that is not JSON.
fn mark_numbers(text: String) -> String {
    let mut marked = String::new();
    let mut copied = 0;
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let len = match bytes[at] {
            b'"' => string_len(&text[at..]),
            b if is_of_literal(b) => bytes[at..]
                .iter()
                .take_while(|&&b| is_of_literal(b))
                .count(),
            _ => 1,
        };
        let end = at + len;
        if is_of_literal(bytes[at]) && is_only_of_json_c(&text[at..end]) {
            marked.push_str(&text[copied..at]);
            marked.extend(['"', MARK]);
            marked.push_str(&text[at..end]);
            marked.push('"');
            copied = end;
        }
        at = end;
    }
    if copied == 0 {
        return text;
    }
    marked.push_str(&text[copied..]);
    marked
}

fn is_of_literal(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"+-.".contains(&byte)
}

/// Whether json-c reads the literal as a number, and prints it again, that is not a number of JSON, or
/// too great for 64 bits.
fn is_only_of_json_c(literal: &str) -> bool {
    if serde_json::from_str::<f64>(literal).is_ok() {
        return false;
    }
    let number = literal.strip_prefix('-').unwrap_or(literal);
    if number == "Infinity" || literal == "NaN" {
        return true;
    }
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let (whole, rest) = number.split_at(digits(number));
    let rest = rest
        .strip_prefix('.')
        .map_or(rest, |rest| &rest[digits(rest)..]);
    let rest = match rest.strip_prefix(['e', 'E']) {
        Some(rest) => rest.strip_prefix(['+', '-']).unwrap_or(rest),
        None if rest.is_empty() => rest,
        None => return false,
    };
    !whole.is_empty() && digits(rest) == rest.len()
}

/// The length of the string literal at the beginning of `text`, including the quotes.
pub(crate) fn string_len(text: &str) -> usize {
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
