// SPDX-License-Identifier: MIT OR Apache-2.0
//! Advice for a command that was given in cryptsetup's form. Advice names Luxor's options. If this form
//! does not have one of them, or means something else by it, the user needs Luxor's form of the command.

use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStrExt,
    path::Path,
};

use luxor::files::{shell_quoted, shell_word};

use super::{OPTIONS, RECOMMENDED, translate};
use crate::args;

/// A command line in cryptsetup's form, and its translation.
#[derive(Clone, Copy)]
pub(crate) struct Form<'a> {
    /// The line, which begins with the program's name.
    pub(crate) line: &'a [OsString],
    /// Luxor's form of it.
    pub(crate) translated: &'a [OsString],
    /// Whether standard input is a terminal.
    pub(crate) has_terminal: bool,
}

impl Form<'_> {
    /// Returns a sentence with Luxor's form of the command, if the user needs it to follow `advice`.
    pub(crate) fn own_for(&self, advice: &str) -> Option<String> {
        let mut options = options(advice).into_iter();
        let (option, word) = options.find(|(option, value)| !self.has(option, value))?;
        let command = self.own()?;
        // The word after an option is its value or the next word of the sentence.
        let is_value = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '-';
        let added = if !word.is_empty() && word.chars().all(is_value) {
            [option, word].join(" ")
        } else {
            option.to_owned()
        };
        Some(format!(
            "Luxor's form of this command has {option}: `{command} {added}`."
        ))
    }

    /// Whether `option` means the same in this form.
    fn has(&self, option: &str, value: &str) -> bool {
        let name = option.trim_start_matches('-');
        let known = OPTIONS.iter().map(|known| (known.long, known.has_value));
        let mut known = known.chain(RECOMMENDED.iter().copied());
        let known = known.find(|(known, _)| *known == name);
        let has_value = known.map(|(_, has_value)| has_value);
        let word = match has_value.or_else(|| args::general_option(name.as_bytes())) {
            Some(true) => format!("{option}={value}"),
            _ => option.to_owned(),
        };
        let mut line = self.line.to_vec();
        line.insert(line.len().min(1), word.into());
        match translate(&line, self.has_terminal) {
            // The name of the command is one of Luxor's too, and so is the whole line.
            Ok(None) => true,
            Ok(Some(words)) => words.iter().any(|word| is_option(word, option)),
            Err(_) => false,
        }
    }

    /// Returns Luxor's form, to which options can be added at the end.
    fn own(&self) -> Option<String> {
        let end = self.translated.iter().position(|word| word == "--")?;
        let options = self.translated[1..end].iter().map(|word| option_word(word));
        // No operand begins with `-` as this spells them, so they need no `--`.
        let operands = self.translated[end + 1..].iter();
        let operands = operands.map(|word| shell_word(Path::new(word)));
        let words = ["luxor".to_owned()]
            .into_iter()
            .chain(options)
            .chain(operands);
        Some(words.collect::<Vec<_>>().join(" "))
    }
}

/// Returns a word before the operands for a shell.
fn option_word(word: &OsStr) -> String {
    let bytes = word.as_bytes();
    let parts = bytes.iter().position(|&byte| byte == b'=');
    match parts.map(|at| bytes.split_at(at + 1)) {
        Some((name, value)) if name.starts_with(b"--") => {
            let value = shell_quoted(OsStr::from_bytes(value));
            format!("{}{value}", String::from_utf8_lossy(name))
        }
        _ => shell_quoted(word),
    }
}

/// Whether `word` is `option`, with or without a value.
fn is_option(word: &OsStr, option: &str) -> bool {
    let rest = word.as_bytes().strip_prefix(option.as_bytes());
    rest.is_some_and(|rest| rest.is_empty() || rest[0] == b'=')
}

/// The options that a text names outside of whole commands, which stand between backticks, each with the
/// word that follows.
fn options(text: &str) -> Vec<(&str, &str)> {
    let spans = text.split('`').step_by(2);
    let words = spans.flat_map(|span| span.split([' ', '\n', '=', '(', ')']));
    let words = words.map(|word| word.trim_end_matches(['.', ',', ';', ':']));
    let words: Vec<_> = words.chain([""]).collect();
    let pairs = words.windows(2).map(|pair| (pair[0], pair[1]));
    let is_option = |word: &str| {
        let name = word.strip_prefix("--");
        name.is_some_and(|name| name.starts_with(|c: char| c.is_ascii_lowercase()))
    };
    pairs.filter(|(word, _)| is_option(word)).collect()
}
