// SPDX-License-Identifier: MIT OR Apache-2.0
//! JSON as json-c reads and writes it, and so cryptsetup, turned into JSON text and back.
//!
//! Within this crate a header's text is JSON of one form, [`decode`]'s: what json-c 0.16 would write for
//! it on one line (`json_object_to_json_string_ext` with `JSON_C_TO_STRING_PLAIN` and
//! `JSON_C_TO_STRING_NOSLASHESCAPE`, as cryptsetup calls it). So a change keeps the meaning that cryptsetup
//! finds in the parts that it does not edit. [`Reader`] follows `json_tokener.c` of json-c 0.16 without
//! `JSON_TOKENER_STRICT`, which reads more than RFC 8259:
//!
//! - `/* comments */` and `// comments` wherever white space may be. After an asterisk that no slash follows,
//!   json-c skips one character, so `**/` ends no comment.
//! - A comma before a closing bracket, strings in single quotes, and any byte in a string, even a line
//!   break or one that is not UTF-8.
//! - Of members with the same key, the first gives the place and the last the value. A zero character ends a
//!   key.
//! - An escaped surrogate without its partner is U+FFFD.
//! - `null`, `true`, `false`, `NaN`, `Infinity` and `-Infinity` in any case.
//! - Numbers such as `1.`, `-.5` and `1e400`, which it prints as they are spelled, and such as `007` and
//!   `1.5e+`, whose useless characters it drops.
//! - 32 levels, which count the outermost object and the innermost value.
//!
//! The text of this crate differs from json-c's in these:
//!
//! - Whole numbers keep all digits, which json-c clamps to 64 bits.
//! - `64e` keeps its letter: json-c writes `64`, but does not take it for a whole number before.
//! - A byte that is not UTF-8 is a character from U+10FF80 to U+10FFFF, 0x10FF00 more than the byte. No
//!   ASCII character has such a stand-in, so that none can end a string.
//! - A number that is not JSON is a string: [`MARK`], which is U+10FF00, and the number.
//! - A character from U+10FF00 on that a string really has, as it is or as an escape, is the four
//!   stand-ins of its bytes in UTF-8. So such a character always stands for something else, in keys
//!   and values, and [`encode`] needs no exception. json-c writes these characters unescaped, too.

use std::{borrow::Cow, collections::HashMap, ops::Range};

/// The greatest nesting depth that json-c reads. The outermost object and the innermost value
/// count.
const MAX_LEVELS: u32 = 32;

/// The first character of a string that stands for a number.
pub(crate) const MARK: char = '\u{10ff00}';

/// Whether a character stands for a byte that is not UTF-8.
pub(crate) fn is_stand_in(c: char) -> bool {
    c >= '\u{10ff80}'
}

/// Why json-c cannot read a text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum JsonError {
    #[error("it is nested deeper than {MAX_LEVELS} levels")]
    TooDeep,
    #[error("{what} at line {line} column {column}")]
    Syntax {
        what: &'static str,
        line: usize,
        column: usize,
    },
}

/// Turns the bytes of a header into JSON text. The bytes end with the first zero byte.
pub(crate) fn decode(bytes: &[u8]) -> Result<String, JsonError> {
    let mut reader = Reader::new(bytes);
    reader.value(1)?;
    reader.skip_space()?;
    match reader.peek() {
        None => Ok(reader.out),
        Some(_) => Err(reader.error("something follows the value")),
    }
}

/// As [`decode`], but ignores what follows the value, as `cryptsetup token import` does.
pub(crate) fn decode_first(bytes: &[u8]) -> Result<String, JsonError> {
    let mut reader = Reader::new(bytes);
    reader.value(1)?;
    reader.skip_space()?;
    Ok(reader.out)
}

/// The reverse of [`decode`].
pub(crate) fn encode(text: &str) -> Cow<'_, [u8]> {
    encode_with(text, |number| number.into())
}

/// As [`encode`], but spells numbers such as `64e` as json-c prints them.
pub(crate) fn encode_shown(text: &str) -> Cow<'_, [u8]> {
    encode_with(text, |number| shown_number(number).into())
}

/// Returns a number of json-c, which follows [`MARK`], as json-c prints it.
pub(crate) fn shown_number(number: &str) -> &str {
    number.strip_suffix('e').unwrap_or(number)
}

/// As [`encode_shown`], but spells numbers such as `1.` and `-.5` as other parsers read them, too: `1.0`, `-0.5`.
/// `NaN` and the infinities have no other spelling.
pub(crate) fn encode_usual(text: &str) -> Cow<'_, [u8]> {
    encode_with(text, |number| {
        let number = shown_number(number);
        let digits = number.trim_start_matches('-');
        if digits.starts_with(|c: char| c.is_ascii_alphabetic()) {
            return number.into();
        }
        let sign = &number[..number.len() - digits.len()];
        let exponent = digits.find(['e', 'E']).unwrap_or(digits.len());
        let (digits, exponent) = digits.split_at(exponent);
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
        let whole = whole.trim_start_matches('0');
        let whole = if whole.is_empty() { "0" } else { whole };
        let fraction = if fraction.is_empty() { "0" } else { fraction };
        format!("{sign}{whole}.{fraction}{exponent}").into()
    })
}

fn encode_with<'a>(
    text: &'a str,
    spell: impl for<'n> Fn(&'n str) -> Cow<'n, str>,
) -> Cow<'a, [u8]> {
    if !text.contains(|c| c >= MARK) {
        return Cow::Borrowed(text.as_bytes());
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        if let Some(number) = rest.strip_prefix('"').and_then(|s| s.strip_prefix(MARK))
            && let Some((number, after)) = number.split_once('"')
        {
            bytes.extend_from_slice(spell(number).as_bytes());
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

/// Reads a text, and writes it in the form of this crate.
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    out: String,
}

impl<'a> Reader<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        let end = bytes.iter().position(|&byte| byte == 0);
        Self {
            bytes: &bytes[..end.unwrap_or(bytes.len())],
            at: 0,
            out: String::with_capacity(bytes.len()),
        }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn next(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += 1;
        Some(byte)
    }

    /// Returns an error at the present byte.
    fn error(&self, what: &'static str) -> JsonError {
        let before = &self.bytes[..self.at];
        let newline = before.iter().rposition(|&byte| byte == b'\n');
        JsonError::Syntax {
            what: match self.peek() {
                Some(_) => what,
                None => "the text ends too early",
            },
            line: before.iter().filter(|&&byte| byte == b'\n').count() + 1,
            column: self.at - newline.map_or(0, |newline| newline + 1) + 1,
        }
    }

    /// Skips white space and comments. A comment may lack its end where the text ends.
    fn skip_space(&mut self) -> Result<(), JsonError> {
        loop {
            match self.peek() {
                Some(b' ' | b'\t' | b'\n' | b'\r') => self.at += 1,
                Some(b'/') => {
                    self.at += 1;
                    match self.peek() {
                        Some(b'*') => self.skip_comment(),
                        Some(b'/') => {
                            let rest = &self.bytes[self.at..];
                            let line = rest.iter().position(|&byte| byte == b'\n');
                            self.at += line.unwrap_or(rest.len());
                        }
                        _ => return Err(self.error("a comment must begin with /* or //")),
                    }
                }
                _ => return Ok(()),
            }
        }
    }

    /// Skips the rest of a comment that has an end of its own, from its first asterisk on.
    fn skip_comment(&mut self) {
        self.at += 1;
        while let Some(byte) = self.next() {
            // json-c has read this character when it sees that it is no slash.
            if byte == b'*' && self.next() == Some(b'/') {
                break;
            }
        }
    }

    fn value(&mut self, level: u32) -> Result<(), JsonError> {
        if level > MAX_LEVELS {
            return Err(JsonError::TooDeep);
        }
        self.skip_space()?;
        match self.peek() {
            Some(b'{') => self.object(level),
            Some(b'[') => self.array(level),
            Some(b'"' | b'\'') => {
                let text = self.string()?;
                push_string(&mut self.out, &text);
                Ok(())
            }
            Some(b'-' | b'0'..=b'9') => self.number(level),
            Some(b'i' | b'I') => self.literal(&[("Infinity", true)]),
            Some(b'n' | b'N') => self.literal(&[("null", false), ("NaN", true)]),
            Some(b't' | b'T') => self.literal(&[("true", false)]),
            Some(b'f' | b'F') => self.literal(&[("false", false)]),
            _ => Err(self.error("expected a value")),
        }
    }

    /// Reads one of `literals`, in any case. The second member says whether it is a number.
    fn literal(&mut self, literals: &[(&'static str, bool)]) -> Result<(), JsonError> {
        let rest = &self.bytes[self.at..];
        let is_next = |name: &str| {
            let word = rest.get(..name.len());
            word.is_some_and(|word| word.eq_ignore_ascii_case(name.as_bytes()))
        };
        let Some(&(name, is_number)) = literals.iter().find(|(name, _)| is_next(name)) else {
            return Err(self.error("expected a value"));
        };
        self.at += name.len();
        if is_number {
            push_number(&mut self.out, name);
        } else {
            self.out.push_str(name);
        }
        Ok(())
    }

    fn number(&mut self, level: u32) -> Result<(), JsonError> {
        let begin = self.at;
        let (mut is_double, mut is_exponent, mut minus, mut plus) = (false, false, true, false);
        while let Some(byte) = self.peek() {
            let (was_minus, was_plus) = (minus, plus);
            (minus, plus) = (false, false);
            match byte {
                b'0'..=b'9' => {}
                b'-' if was_minus => {}
                b'+' if was_plus => {}
                b'.' if !is_double => (is_double, minus, plus) = (true, true, true),
                b'e' | b'E' if !is_exponent => {
                    (is_double, is_exponent, minus, plus) = (true, true, true, true);
                }
                _ => break,
            }
            self.at += 1;
        }
        let literal = str::from_utf8(&self.bytes[begin..self.at]).unwrap_or_default();
        if literal == "-" && matches!(self.peek(), Some(b'i' | b'I')) {
            return self.literal(&[("Infinity", true)]).inspect(|()| {
                // The sign comes after the mark.
                let name = self.out.len() - "Infinity\"".len();
                self.out.insert(name, '-');
            });
        }
        let ends = |byte: u8| b",]}/ \t\n\r".contains(&byte);
        if level > 1 && !self.peek().is_some_and(ends) {
            return Err(self.error("this is no part of a number"));
        }
        let literal = literal.trim_end_matches(['e', 'E', '-', '+']);
        let digits = literal.strip_prefix('-').unwrap_or(literal);
        if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
            let is_negative = digits.len() < literal.len();
            if is_double {
                push_number(&mut self.out, &format!("{literal}e"));
                return Ok(());
            }
            match digits.trim_start_matches('0') {
                "" => self.out.push('0'),
                digits => {
                    self.out.push_str(if is_negative { "-" } else { "" });
                    self.out.push_str(digits);
                }
            }
        } else if serde_json::from_str::<f64>(literal).is_ok() {
            self.out.push_str(literal);
        } else if is_c_double(literal) {
            push_number(&mut self.out, literal);
        } else {
            return Err(self.error("expected a number"));
        }
        Ok(())
    }

    fn array(&mut self, level: u32) -> Result<(), JsonError> {
        self.at += 1;
        self.out.push('[');
        let mut comma = "";
        loop {
            self.skip_space()?;
            if self.peek() == Some(b']') {
                break;
            }
            self.out.push_str(comma);
            comma = ",";
            self.value(level + 1)?;
            self.skip_space()?;
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => break,
                _ => return Err(self.error("expected a comma or ]")),
            }
        }
        self.at += 1;
        self.out.push(']');
        Ok(())
    }

    fn object(&mut self, level: u32) -> Result<(), JsonError> {
        self.at += 1;
        let begin = self.out.len();
        self.out.push('{');
        // The places in `out` of each member's key and value.
        let mut members: Vec<(Range<usize>, Range<usize>)> = Vec::new();
        let mut numbers = HashMap::new();
        let mut is_repeated = false;
        loop {
            self.skip_space()?;
            let mut key = match self.peek() {
                Some(b'}') => break,
                Some(b'"' | b'\'') => self.string()?,
                _ => return Err(self.error("expected a key in quotes, or }")),
            };
            if let Some(end) = key.iter().position(|&byte| byte == 0) {
                key.truncate(end);
            }
            self.skip_space()?;
            if self.peek() != Some(b':') {
                return Err(self.error("expected a colon"));
            }
            self.at += 1;
            if !members.is_empty() {
                self.out.push(',');
            }
            let at = self.out.len();
            push_string(&mut self.out, &key);
            let key_place = at..self.out.len();
            self.out.push(':');
            let at = self.out.len();
            self.value(level + 1)?;
            let value_place = at..self.out.len();
            let number = *numbers.entry(key).or_insert(members.len());
            match members.get_mut(number) {
                Some((_, value)) => {
                    *value = value_place;
                    is_repeated = true;
                }
                None => members.push((key_place, value_place)),
            }
            self.skip_space()?;
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => break,
                _ => return Err(self.error("expected a comma or }")),
            }
        }
        self.at += 1;
        if is_repeated {
            let text = |(key, value): &(Range<usize>, Range<usize>)| {
                format!("{}:{}", &self.out[key.clone()], &self.out[value.clone()])
            };
            let members: Vec<String> = members.iter().map(text).collect();
            self.out.truncate(begin + 1);
            self.out.push_str(&members.join(","));
        }
        self.out.push('}');
        Ok(())
    }

    /// Reads a string, and returns its bytes.
    fn string(&mut self) -> Result<Vec<u8>, JsonError> {
        let quote = self.next();
        let mut text = Vec::new();
        loop {
            let rest = &self.bytes[self.at..];
            let end = |&byte: &u8| Some(byte) == quote || byte == b'\\';
            let plain = rest.iter().position(end).unwrap_or(rest.len());
            text.extend_from_slice(&rest[..plain]);
            self.at += plain;
            match self.next() {
                Some(b'\\') => self.escape(&mut text)?,
                Some(_) => return Ok(text),
                None => return Err(self.error("expected a quotation mark")),
            }
        }
    }

    /// Reads the rest of an escape.
    fn escape(&mut self, text: &mut Vec<u8>) -> Result<(), JsonError> {
        let byte = match self.peek() {
            Some(byte @ (b'"' | b'\\' | b'/')) => byte,
            Some(b'b') => 8,
            Some(b'f') => 12,
            Some(b'n') => b'\n',
            Some(b'r') => b'\r',
            Some(b't') => b'\t',
            Some(b'u') => {
                self.at += 1;
                return self.escaped_character(text);
            }
            _ => return Err(self.error("an invalid escape")),
        };
        self.at += 1;
        text.push(byte);
        Ok(())
    }

    /// Reads the rest of an escape from its digits on, and its partner if it is a surrogate.
    fn escaped_character(&mut self, text: &mut Vec<u8>) -> Result<(), JsonError> {
        // json-c compares the lowest 16 bits, also of a pair's character. So U+1D800 to U+1DFFF, and those
        // with the same bits in higher planes, count as surrogates again.
        let is_surrogate = |code: u32, first: u32| code & 0xfc00 == first;
        let mut high: Option<u32> = None;
        loop {
            let mut code = 0_u32;
            for _ in 0..4 {
                let digit = self.peek().and_then(|byte| char::from(byte).to_digit(16));
                code = code << 4 | digit.ok_or_else(|| self.error("an invalid escape"))?;
                self.at += 1;
            }
            match high.take() {
                Some(high) if is_surrogate(code, 0xdc00) => {
                    code = 0x1_0000 + ((high & 0x3ff) << 10) + (code & 0x3ff);
                }
                Some(_) => push_char(text, char::REPLACEMENT_CHARACTER),
                None => {}
            }
            if code >= 0x800 && is_surrogate(code, 0xd800) {
                high = Some(code);
            } else {
                let is_low = is_surrogate(code, 0xdc00);
                let c = char::from_u32(code).filter(|_| !is_low);
                push_char(text, c.unwrap_or(char::REPLACEMENT_CHARACTER));
                return Ok(());
            }
            if self.peek() != Some(b'\\') {
                push_char(text, char::REPLACEMENT_CHARACTER);
                return Ok(());
            }
            self.at += 1;
            if self.peek() != Some(b'u') {
                push_char(text, char::REPLACEMENT_CHARACTER);
                return self.escape(text);
            }
            self.at += 1;
        }
    }
}

/// Whether `strtod` reads all of a number of these characters.
fn is_c_double(literal: &str) -> bool {
    let number = literal.strip_prefix('-').unwrap_or(literal);
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let (whole, rest) = number.split_at(digits(number));
    let (fraction, rest) = match rest.strip_prefix('.') {
        Some(rest) => rest.split_at(digits(rest)),
        None => ("", rest),
    };
    let exponent = match rest.strip_prefix(['e', 'E']) {
        Some(rest) => rest.strip_prefix(['+', '-']).unwrap_or(rest),
        None => return rest.is_empty() && !(whole.is_empty() && fraction.is_empty()),
    };
    let is_exponent = !exponent.is_empty() && digits(exponent) == exponent.len();
    is_exponent && !(whole.is_empty() && fraction.is_empty())
}

fn push_char(text: &mut Vec<u8>, c: char) {
    text.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
}

/// Appends the string that stands for a number.
fn push_number(out: &mut String, literal: &str) {
    out.extend(['"', MARK]);
    out.push_str(literal);
    out.push('"');
}

/// Appends a string as json-c writes it, with stand-ins.
fn push_string(out: &mut String, bytes: &[u8]) {
    let stand_in = |byte: &u8| char::from_u32(u32::from(MARK) + u32::from(*byte));
    out.push('"');
    for part in bytes.utf8_chunks() {
        for c in part.valid().chars() {
            match c {
                '"' => out.push_str("\\\""),
                '\\' => out.push_str("\\\\"),
                '\u{8}' => out.push_str("\\b"),
                '\u{c}' => out.push_str("\\f"),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                c if c < ' ' => out.push_str(&format!("\\u{:04x}", u32::from(c))),
                c if c >= MARK => {
                    let mut buffer = [0; 4];
                    let bytes = c.encode_utf8(&mut buffer).as_bytes();
                    out.extend(bytes.iter().filter_map(stand_in));
                }
                c => out.push(c),
            }
        }
        out.extend(part.invalid().iter().filter_map(stand_in));
    }
    out.push('"');
}

#[cfg(test)]
mod tests;
