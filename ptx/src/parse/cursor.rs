// SPDX-License-Identifier: MIT OR Apache-2.0
//! A position in the text, and errors with its line.

use crate::{
    error::{ParseError, ParseFault},
    integer::truncate,
    lex::{self, Token, TokenKind},
};

pub struct Cursor<'a> {
    tokens: Vec<Token<'a>>,
    at: usize,
}

impl<'a> Cursor<'a> {
    pub fn new(text: &'a str) -> Result<Self, ParseError> {
        let tokens = lex::tokens(text)?;
        Ok(Self { tokens, at: 0 })
    }

    pub fn is_at_end(&self) -> bool {
        self.at == self.tokens.len()
    }

    /// Returns the line of the token that was read last.
    pub fn line(&self) -> u32 {
        let last = self.at.saturating_sub(1);
        self.tokens.get(last).map_or(1, |token| token.line)
    }

    fn peek(&self, ahead: usize) -> Option<TokenKind<'a>> {
        self.tokens.get(self.at + ahead).map(|token| token.kind)
    }

    pub fn peek_word(&self, ahead: usize) -> Option<&'a str> {
        match self.peek(ahead) {
            Some(TokenKind::Word(word)) => Some(word),
            _ => None,
        }
    }

    pub fn peek_sign(&self, ahead: usize, sign: char) -> bool {
        self.peek(ahead) == Some(TokenKind::Sign(sign))
    }

    pub fn word(&mut self) -> Result<&'a str, ParseError> {
        match self.peek_word(0) {
            Some(word) => {
                self.at += 1;
                Ok(word)
            }
            None => Err(self.unexpected("a word")),
        }
    }

    pub fn word_if(&mut self, word: &str) -> bool {
        let is = self.peek_word(0) == Some(word);
        self.at += usize::from(is);
        is
    }

    pub fn expect_word(&mut self, word: &str) -> Result<(), ParseError> {
        if self.word_if(word) {
            Ok(())
        } else {
            Err(self.unexpected(word))
        }
    }

    pub fn sign_if(&mut self, sign: char) -> bool {
        let is = self.peek_sign(0, sign);
        self.at += usize::from(is);
        is
    }

    pub fn sign(&mut self, sign: char) -> Result<(), ParseError> {
        if self.sign_if(sign) {
            Ok(())
        } else {
            Err(self.unexpected(&format!("`{sign}`")))
        }
    }

    /// Returns the number of commas before `sign` or the end of the statement.
    pub fn commas_before(&self, sign: char) -> usize {
        let rest = self.tokens[self.at..].iter().map(|token| token.kind);
        rest.take_while(|kind| !matches!(kind, TokenKind::Sign(s) if *s == sign || *s == ';'))
            .filter(|kind| *kind == TokenKind::Sign(','))
            .count()
    }

    pub fn is_at_number(&self) -> bool {
        matches!(self.peek(0), Some(TokenKind::Number(_))) || self.peek_sign(0, '-')
    }

    /// Reads text that begins with a digit, as written.
    pub fn number_text(&mut self) -> Result<&'a str, ParseError> {
        match self.peek(0) {
            Some(TokenKind::Number(text)) => {
                self.at += 1;
                Ok(text)
            }
            _ => Err(self.unexpected("a number")),
        }
    }

    /// Reads an integer constant without a sign (4.5.1).
    pub fn unsigned(&mut self) -> Result<u64, ParseError> {
        let text = self.number_text()?;
        let digits = text.strip_suffix('U').unwrap_or(text);
        let (digits, radix) = match digits.get(..2) {
            Some("0x" | "0X") => (&digits[2..], 16),
            Some("0b" | "0B") => (&digits[2..], 2),
            Some(_) if digits.starts_with('0') => (&digits[1..], 8),
            _ => (digits, 10),
        };
        u64::from_str_radix(digits, radix).map_err(|_| self.bad_number(text, "not an integer"))
    }

    /// Reads an integer constant with an optional sign. Returns its value in `bits` bits.
    pub fn literal(&mut self, bits: u32) -> Result<u64, ParseError> {
        let negative = self.sign_if('-');
        let number = self.unsigned()?;
        let (value, fits) = if negative {
            (number.wrapping_neg(), number <= 1 << (bits - 1))
        } else {
            // Constants have 64 bits, so a negative number may be written in those.
            let is_negative = number >= u64::MAX << (bits - 1);
            (number, is_negative || truncate(number, bits) == number)
        };
        if fits {
            Ok(truncate(value, bits))
        } else {
            Err(self.bad_number(&number.to_string(), "too many bits for the type"))
        }
    }

    /// Reads the hints of `.pragma`, such as `"nounroll"` (11.4.5).
    pub fn pragma(&mut self) -> Result<(), ParseError> {
        loop {
            match self.peek(0) {
                Some(TokenKind::Text("nounroll")) => self.at += 1,
                _ => return Err(self.unexpected("\"nounroll\"")),
            }
            if self.sign_if(';') {
                return Ok(());
            }
            self.sign(',')?;
        }
    }

    /// Skips to the first token after the line of the last one.
    pub fn skip_line(&mut self) {
        let line = self.line();
        while self.tokens.get(self.at).is_some_and(|t| t.line == line) {
            self.at += 1;
        }
    }

    pub fn error(&self, what: ParseFault) -> ParseError {
        self.at(self.line(), what)
    }

    #[expect(clippy::unused_self, reason = "a method reads better")]
    pub fn at(&self, line: u32, what: ParseFault) -> ParseError {
        ParseError { line, what }
    }

    /// Returns an error about the token that was read last.
    pub fn syntax(&self, expected: &str, found: &str) -> ParseError {
        self.error(ParseFault::Syntax {
            expected: expected.to_owned(),
            found: found.to_owned(),
        })
    }

    /// Returns an error about the next token.
    pub fn unexpected(&self, expected: &str) -> ParseError {
        let found = self.tokens.get(self.at);
        let line = found.map_or(self.line(), |token| token.line);
        let found = found.map(|token| token.kind.to_string());
        let what = ParseFault::Syntax {
            expected: expected.to_owned(),
            found: found.unwrap_or("the end of the text".to_owned()),
        };
        self.at(line, what)
    }

    pub fn unknown_directive(&self, directive: &str) -> ParseError {
        // If the directive has only been peeked at, the line is that of the next token.
        let next = self.tokens.get(self.at);
        let line = if self.peek_word(0) == Some(directive) {
            next.map_or(self.line(), |token| token.line)
        } else {
            self.line()
        };
        let directive = directive.to_owned();
        self.at(line, ParseFault::UnknownDirective { directive })
    }

    pub fn bad_number(&self, number: &str, why: &'static str) -> ParseError {
        self.error(ParseFault::Number {
            number: number.to_owned(),
            why,
        })
    }
}
