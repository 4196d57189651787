// SPDX-License-Identifier: MIT OR Apache-2.0
//! Failures as the user sees them: one clear line, perhaps a hint, an exit code.

use std::{fmt, io, path::Path};

/// The exit codes of a failure. 0 is success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Bad usage, not a volume, damaged metadata, unreadable key file, I/O
    /// error, disk full.
    Failure = 1,
    /// No usable key.
    NoKey = 2,
    /// Out of memory, Argon2's need included.
    OutOfMemory = 3,
    /// The volume or the input does not exist.
    Missing = 4,
    /// The output exists, or is locked or mounted.
    Busy = 5,
    /// A signal ended the program.
    Interrupted = 130,
}

impl Exit {
    /// The number that the shell sees.
    #[must_use]
    pub const fn code(self) -> u8 {
        self as u8
    }
}

/// Why a command failed.
#[derive(Debug)]
pub struct Error {
    exit: Exit,
    message: String,
    hint: Option<String>,
}

impl Error {
    /// A failure with the exit code `exit`.
    #[must_use]
    pub fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self {
            exit,
            message: message.into(),
            hint: None,
        }
    }

    /// A failure with exit code 1.
    #[must_use]
    pub fn failure(message: impl Into<String>) -> Self {
        Self::new(Exit::Failure, message)
    }

    /// A "no" with exit code 1, for scripts: nothing is said.
    #[must_use]
    pub fn silent() -> Self {
        Self::failure("")
    }

    /// A failed input or output operation: `what` is like "cannot read photos.tar".
    #[must_use]
    pub fn io(what: impl fmt::Display, error: &io::Error) -> Self {
        let exit = match error.kind() {
            io::ErrorKind::OutOfMemory => Exit::OutOfMemory,
            _ => Exit::Failure,
        };
        Self::new(exit, format!("{what}: {}", io_words(error)))
    }

    /// As it is, with a second line that says what can be done.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// What happened, without the program's name and the hint.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The code that the program ends with.
    #[must_use]
    pub fn exit(&self) -> Exit {
        self.exit
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "luxor: {}", self.message)?;
        match &self.hint {
            Some(hint) => write!(f, "\n  {hint}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Error {}

/// The result of a command.
pub type Result<T, E = Error> = std::result::Result<T, E>;

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
pub fn name(path: &Path) -> String {
    match path.to_str() {
        Some(text) if !text.is_empty() && text.chars().all(is_shown) => text.to_owned(),
        _ => format!("{path:?}"),
    }
}

/// Whether a terminal shows it as it is: no control character, and none that is
/// invisible or turns the direction of writing round.
#[must_use]
pub fn is_shown(c: char) -> bool {
    // A letter before it, since what combines with one is escaped only where none is.
    matches!(c, '"' | '\'' | '\\') || format!("x{c}").escape_debug().count() == 2
}

#[cfg(test)]
mod tests {
    use std::{ffi::OsStr, os::unix::ffi::OsStrExt};

    use super::*;

    #[test]
    fn names_are_shown_without_control_characters() {
        assert_eq!(name(Path::new("my photos.tar")), "my photos.tar");
        assert_eq!(name(Path::new("a\u{1b}[2Jb")), r#""a\u{1b}[2Jb""#);
        assert_eq!(name(Path::new(OsStr::from_bytes(b"a\xffb"))), r#""a\xFFb""#);
        assert_eq!(name(Path::new("")), r#""""#);
        assert_eq!(
            name(Path::new("e\u{301}'s \\ \"ü\"")),
            "e\u{301}'s \\ \"ü\""
        );
        for c in [
            '\u{9b}', '\u{202e}', '\u{2066}', '\u{200f}', '\u{2028}', '\u{feff}',
        ] {
            assert!(!is_shown(c), "{c:?}");
        }
    }

    #[test]
    fn a_hint_is_a_second_line() {
        let error = Error::io("cannot read x", &io::Error::from_raw_os_error(2)).hint("Look.");
        assert_eq!(
            error.to_string(),
            "luxor: cannot read x: No such file or directory\n  Look."
        );
        assert_eq!(error.exit().code(), 1);
    }
}
