// SPDX-License-Identifier: MIT OR Apache-2.0
//! Prepares paths and the system's errors for display on a terminal.

use std::{
    borrow::Cow,
    fmt::{self, Write},
    io,
    path::Path,
};

/// Returns the system's message for an error, without Rust's "(os error 2)".
#[must_use]
pub fn io_words(error: &io::Error) -> String {
    let words = error.to_string();
    match words.find(" (os error ") {
        Some(end) => words[..end].to_owned(),
        None => words,
    }
}

/// The most characters of a text in a message. The beginning and the end of a longer one are shown.
const LONGEST: usize = 500;

/// Returns a path for display. It is quoted and escaped if it is not plain text, so that a name
/// cannot send control sequences to a terminal, and [`bounded`].
#[must_use]
pub fn path_name(path: &Path) -> String {
    match path.to_str() {
        Some(text) if !text.is_empty() && text.chars().all(is_shown) => bounded(text).into_owned(),
        _ => bounded(&format!("{path:?}")).into_owned(),
    }
}

/// Returns a text without its middle if it is longer than a message should be: contents of a file that
/// were passed as its name, for example.
#[must_use]
pub fn bounded(text: &str) -> Cow<'_, str> {
    let half = LONGEST / 2;
    let mut places = text.char_indices();
    let (Some((head, _)), true) = (places.nth(half), places.nth(half - 1).is_some()) else {
        return text.into();
    };
    let tail = text.char_indices().nth_back(half - 1);
    let tail = tail.map_or("", |(tail, _)| &text[tail..]);
    format!("{}…{tail}", &text[..head]).into()
}

/// Displays text from a volume or a file with control characters escaped. An empty text is
/// displayed as `none`.
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

/// Returns whether a terminal can show `c` unchanged: `c` is no control character, is not
/// invisible, and does not change the direction of writing.
fn is_shown(c: char) -> bool {
    // `escape_debug` escapes a combining character only if no letter precedes it.
    matches!(c, '"' | '\'' | '\\') || format!("x{c}").escape_debug().count() == 2
}

/// Returns the name of a path from the command line, where `-` stands for the stream `standard`.
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
    fn long_names_are_shown_without_their_middle() {
        let name_of = |c: &str, count| path_name(Path::new(&format!("a{}z", c.repeat(count - 2))));
        for c in ["x", "é", "𝄞"] {
            assert_eq!(name_of(c, LONGEST).chars().count(), LONGEST);
            assert!(!name_of(c, LONGEST).contains('…'));
            for count in [LONGEST + 1, LONGEST + 2, 1 << 20] {
                let half = c.repeat(LONGEST / 2 - 1);
                assert_eq!(name_of(c, count), format!("a{half}…{half}z"), "{count}");
            }
        }
        let name = name_of("\u{1b}", 300);
        assert!(
            name.starts_with(r#""a\u{1b}"#) && name.ends_with(r#"\u{1b}z""#),
            "{name}"
        );
        assert_eq!(name.chars().count(), LONGEST + 1);
    }

    #[test]
    fn foreign_text_cannot_move_the_cursor() {
        assert_eq!(
            Escaped("\u{1b}[2J\u{9b}x\r\ny é").to_string(),
            r"\u{1b}[2J\u{9b}x\r\ny é"
        );
        assert_eq!(Escaped("").to_string(), "none");
    }
}
