// SPDX-License-Identifier: MIT OR Apache-2.0
//! JSON as json-c writes it, and so cryptsetup, turned into JSON text and back.
//!
//! json-c keeps what JSON does not have: numbers such as `1e400`, `1.` and `NaN`, whose spelling it
//! prints again, and bytes in strings that are not UTF-8. They occur in tokens of other programs, which
//! every change must keep. Within this crate a header's text is JSON:
//!
//! - A byte that is not UTF-8 is a character from U+10FF80 to U+10FFFF, 0x10FF00 more than the byte. No
//!   ASCII character has such a stand-in, so that none can end a string.
//! - A number that is not JSON is a string: [`MARK`], which is U+10FF00, and the number.
//! - A character from U+10FF00 on that a string really has, as it is or as an escape, is the four
//!   stand-ins of its bytes in UTF-8. So such a character always stands for something else, in keys
//!   and values, and [`encode`] needs no exception. json-c writes these characters unescaped, too.

use std::borrow::Cow;

/// The first character of a string that stands for a number.
pub(crate) const MARK: char = '\u{10ff00}';

/// Whether a character stands for a byte that is not UTF-8.
pub(crate) fn is_stand_in(c: char) -> bool {
    c >= '\u{10ff80}'
}

/// Turns the bytes of a header, or of a token, into JSON text. Nothing checks that it is valid.
pub(crate) fn decode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for part in bytes.utf8_chunks() {
        for c in part.valid().chars() {
            push_char(&mut text, c);
        }
        push_bytes(&mut text, part.invalid());
    }
    decode_literals(text)
}

/// The reverse of [`decode`].
pub(crate) fn encode(text: &str) -> Cow<'_, [u8]> {
    if !text.contains(|c| c >= MARK) {
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

fn push_char(text: &mut String, c: char) {
    if c >= MARK {
        push_bytes(text, c.encode_utf8(&mut [0; 4]).as_bytes());
    } else {
        text.push(c);
    }
}

/// Appends the stand-ins of bytes from 0x80 on.
fn push_bytes(text: &mut String, bytes: &[u8]) {
    let stand_in = |byte: &u8| char::from_u32(u32::from(MARK) + u32::from(*byte));
    text.extend(bytes.iter().filter_map(stand_in));
}

/// Returns the text with a string in place of each number that is not JSON, and with stand-ins in place
/// of each escape of a character from [`MARK`] on.
fn decode_literals(text: String) -> String {
    let mut decoded = String::new();
    let mut copied = 0;
    let mut in_string = false;
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let mut end = at + 1;
        match bytes[at] {
            b'"' => in_string = !in_string,
            b'\\' if in_string => {
                end = at + 2;
                if let Some(c) = escaped_pair(&text[at..]).filter(|&c| c >= MARK) {
                    end = at + ESCAPED_PAIR;
                    decoded.push_str(&text[copied..at]);
                    push_char(&mut decoded, c);
                    copied = end;
                }
            }
            b if !in_string && is_of_literal(b) => {
                let more = bytes[end..].iter().take_while(|&&b| is_of_literal(b));
                end += more.count();
                if is_only_of_json_c(&text[at..end]) {
                    decoded.push_str(&text[copied..at]);
                    decoded.extend(['"', MARK]);
                    decoded.push_str(&text[at..end]);
                    decoded.push('"');
                    copied = end;
                }
            }
            _ => {}
        }
        at = end;
    }
    if copied == 0 {
        return text;
    }
    decoded.push_str(&text[copied..]);
    decoded
}

/// The length of two escapes such as `\udbff\udf00`, which are one character.
const ESCAPED_PAIR: usize = 12;

/// Returns the character whose two surrogates are escaped at the beginning of `text`.
fn escaped_pair(text: &str) -> Option<char> {
    let unit = |at: usize| {
        let digits = text.get(at..at + ESCAPED_PAIR / 2)?.strip_prefix("\\u")?;
        let is_hex = digits.bytes().all(|b| b.is_ascii_hexdigit());
        u16::from_str_radix(digits, 16).ok().filter(|_| is_hex)
    };
    let units = [unit(0)?, unit(ESCAPED_PAIR / 2)?];
    let mut chars = char::decode_utf16(units);
    chars.next()?.ok().filter(|_| chars.next().is_none())
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
    let (fraction, rest) = match rest.strip_prefix('.') {
        Some(rest) => rest.split_at(digits(rest)),
        None => ("", rest),
    };
    // `-.5` is a number, and `.5` is none.
    let has_digits = !whole.is_empty() || (literal.starts_with('-') && !fraction.is_empty());
    let rest = match rest.strip_prefix(['e', 'E']) {
        Some(rest) => rest.strip_prefix(['+', '-']).unwrap_or(rest),
        None if rest.is_empty() => rest,
        None => return false,
    };
    has_digits && digits(rest) == rest.len()
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
