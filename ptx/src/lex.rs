// SPDX-License-Identifier: MIT OR Apache-2.0
//! Splits the text into words, numbers and signs (the manual, 4.1 to 4.5).

use std::fmt;

use crate::error::{ParseError, ParseFault};

/// A word, a number or a sign, with its line.
#[derive(Clone, Copy, Debug)]
pub struct Token<'a> {
    pub line: u32,
    pub kind: TokenKind<'a>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKind<'a> {
    /// A name, a directive or an instruction, dots included: `%r1`, `.reg`, `ld.param.u32`.
    Word(&'a str),
    /// Text that begins with a digit, as written.
    Number(&'a str),
    /// The text between quotation marks.
    Text(&'a str),
    Sign(char),
}

impl fmt::Display for TokenKind<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Word(word) | Self::Number(word) => f.write_str(word),
            Self::Text(text) => write!(f, "{text:?}"),
            Self::Sign(sign) => write!(f, "{sign}"),
        }
    }
}

/// Splits a text into tokens, without comments.
pub fn tokens(text: &str) -> Result<Vec<Token<'_>>, ParseError> {
    let mut tokens = Vec::with_capacity(text.len() / 4);
    let mut line = 1;
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let at = line;
        let (kind, len) = if first == '\n' {
            line += 1;
            (None, 1)
        } else if first.is_whitespace() {
            (None, first.len_utf8())
        } else if rest.starts_with("//") {
            (None, rest.find('\n').unwrap_or(rest.len()))
        } else if rest.starts_with("/*") {
            let len = rest.find("*/").ok_or_else(|| open(at, "*/"))? + 2;
            line += newlines(&rest[..len]);
            (None, len)
        } else if first == '"' {
            let len = rest[1..].find('"').ok_or_else(|| open(at, "\""))?;
            line += newlines(&rest[..len]);
            (Some(TokenKind::Text(&rest[1..=len])), len + 2)
        } else if first.is_ascii_digit() {
            let len = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
            (Some(TokenKind::Number(&rest[..len])), len)
        } else if is_word(first) {
            let len = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
            (Some(TokenKind::Word(&rest[..len])), len)
        } else {
            (Some(TokenKind::Sign(first)), first.len_utf8())
        };
        tokens.extend(kind.map(|kind| Token { line: at, kind }));
        rest = &rest[len..];
    }
    Ok(tokens)
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '%' | '.')
}

fn newlines(text: &str) -> u32 {
    text.chars().map(|c| u32::from(c == '\n')).sum()
}

fn open(line: u32, end: &str) -> ParseError {
    let what = ParseFault::Syntax {
        expected: end.to_owned(),
        found: "the end of the text".to_owned(),
    };
    ParseError { line, what }
}
