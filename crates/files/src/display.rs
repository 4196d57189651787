// SPDX-License-Identifier: MIT OR Apache-2.0
//! Paths and the system's errors as a terminal can show them.

use std::{
    fmt::{self, Write},
    io,
    path::Path,
};

/// The system's words for an error, without Rust's "(os error 2)".
#[must_use]
pub fn io_words(error: &io::Error) -> String {
    let words = error.to_string();
    match words.find(" (os error ") {
        Some(end) => words[..end].to_owned(),
        None => words,
    }
}

/// A path as it can be shown: escaped when it is not plain text, so that no name
/// can play tricks on a terminal.
#[must_use]
pub fn path_name(path: &Path) -> String {
    match path.to_str() {
        Some(text) if !text.is_empty() && text.chars().all(is_shown) => text.to_owned(),
        _ => format!("{path:?}"),
    }
}

/// Text from a volume or a file as a terminal can show it, with control characters escaped.
/// `none` when it is empty.
#[derive(Clone, Copy, Debug)]
pub struct Escaped<'a>(pub &'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("none");
        }
        for c in self.0.chars() {
            if is_shown(c) {
                f.write_char(c)?;
            } else {
                write!(f, "{}", c.escape_default())?;
            }
        }
        Ok(())
    }
}

/// Whether a terminal shows it as it is: no control character, and none that is
/// invisible or turns the direction of writing round.
fn is_shown(c: char) -> bool {
    // A letter before it, since what combines with one is escaped only where none is.
    matches!(c, '"' | '\'' | '\\') || format!("x{c}").escape_debug().count() == 2
}

/// A path of the command line, where `-` stands for the stream `standard`.
pub(crate) fn name_or(path: &Path, standard: &str) -> String {
    if path == Path::new("-") {
        standard.to_owned()
    } else {
        path_name(path)
    }
}

#[cfg(test)]
mod tests {
    use std::{ffi::OsStr, os::unix::ffi::OsStrExt};

    use super::*;

    #[test]
    fn names_are_shown_without_control_characters() {
        assert_eq!(path_name(Path::new("my photos.tar")), "my photos.tar");
        assert_eq!(path_name(Path::new("a\u{1b}[2Jb")), r#""a\u{1b}[2Jb""#);
        assert_eq!(
            path_name(Path::new(OsStr::from_bytes(b"a\xffb"))),
            r#""a\xFFb""#
        );
        assert_eq!(path_name(Path::new("")), r#""""#);
        assert_eq!(
            path_name(Path::new("e\u{301}'s \\ \"ü\"")),
            "e\u{301}'s \\ \"ü\""
        );
        for c in [
            '\u{9b}', '\u{202e}', '\u{2066}', '\u{200f}', '\u{2028}', '\u{feff}',
        ] {
            assert!(!is_shown(c), "{c:?}");
        }
    }

    #[test]
    fn what_others_wrote_cannot_move_the_cursor() {
        assert_eq!(
            Escaped("\u{1b}[2J\u{9b}x\r\ny é").to_string(),
            r"\u{1b}[2J\u{9b}x\r\ny é"
        );
        assert_eq!(Escaped("").to_string(), "none");
    }
}
