// SPDX-License-Identifier: MIT OR Apache-2.0
//! Prepares paths and the system's errors for display on a terminal.

use std::{
    borrow::Cow,
    ffi::OsStr,
    fmt::{self, Write},
    io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
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
        _ => quoted(path),
    }
}

/// Returns a text in quotes, escaped and [`bounded`].
#[must_use]
pub fn quoted(text: impl AsRef<OsStr>) -> String {
    // `Debug` leaves backticks as they are.
    let text = format!("{:?}", text.as_ref()).replace('`', r"\u{60}");
    bounded(&text).into_owned()
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

/// Returns a path as one word of a command line, as [`shell_quoted`] does. No program takes it for an
/// option. A dash alone stays: it is the name of a stream there.
#[must_use]
pub fn shell_word(path: &Path) -> String {
    let bytes = path.as_os_str().as_bytes();
    if bytes.starts_with(b"-") && bytes != b"-" {
        shell_quoted(Path::new(".").join(path).as_os_str())
    } else {
        shell_quoted(path.as_os_str())
    }
}

/// Returns a word of a command line, which every POSIX shell passes on as it is. It has no control
/// characters, and is never cut off, because another word would mean something else. `printf` makes
/// words with control characters, or with bytes that are not UTF-8. A descriptor of this process, such
/// as a shell's `<(…)`, is gone when the command runs: the word for it is FILE. Words in capitals stand
/// for what the user must choose, so a name in capitals is quoted.
#[must_use]
pub fn shell_quoted(word: &OsStr) -> String {
    let bytes = word.as_bytes();
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/._-+,:@%".contains(byte);
    let is_capital = |byte: &u8| byte.is_ascii_uppercase() || *byte == b'-';
    if let Some(before) = word.to_str().and_then(before_descriptor) {
        return format!("{before}FILE");
    }
    match word.to_str() {
        Some(text) if bytes.iter().all(is_plain) && !bytes.iter().all(is_capital) => {
            text.to_owned()
        }
        Some("-") => "-".to_owned(),
        Some(text) if text.chars().all(is_shown) => {
            format!("'{}'", text.replace('\'', r"'\''"))
        }
        _ => {
            // The shell removes newlines at the end of a command's output. This is another way to
            // write one: the last character of the shell's own separators.
            let end = bytes.iter().rev().take_while(|byte| **byte == b'\n');
            let end = end.count();
            let mut quoted = "\"$(printf '".to_owned();
            for (index, byte) in bytes[..bytes.len() - end].iter().enumerate() {
                match byte {
                    b'-' if index > 0 => quoted.push('-'),
                    b' ' | b'/' | b'.' | b'_' => quoted.push(char::from(*byte)),
                    byte if byte.is_ascii_alphanumeric() => quoted.push(char::from(*byte)),
                    // Three octal digits end by themselves.
                    _ => write!(quoted, "\\{byte:03o}").expect("a string can grow"),
                }
            }
            quoted + "')" + &"${IFS#??}".repeat(end) + "\""
        }
    }
}

/// Returns what comes before the path of a descriptor above the standard streams in `--OPTION=PATH` or
/// `PATH`.
fn before_descriptor(word: &str) -> Option<&str> {
    let option = word
        .split_once('=')
        .filter(|(option, _)| option.starts_with("--"));
    let (before, path) = match option {
        Some((option, path)) => (&word[..=option.len()], path),
        None => ("", word),
    };
    // Without repeated slashes and dots.
    let path: PathBuf = Path::new(path).components().collect();
    let folders = ["/dev/fd", "/proc/self/fd", "/proc/thread-self/fd"];
    let number = folders
        .iter()
        .find_map(|folder| path.strip_prefix(folder).ok())?;
    number
        .to_str()?
        .parse()
        .is_ok_and(|number: u32| number > 2)
        .then_some(before)
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
            } else if c == '`' {
                write!(f, "{}", c.escape_unicode())?;
            } else {
                write!(f, "{}", c.escape_default())?;
            }
        }
        Ok(())
    }
}

/// Returns whether a message can show `c` unchanged: `c` is no control character, is not
/// invisible, and does not change the direction of writing. Nor is it a backtick: messages put commands
/// between backticks, and a name with one would shift where commands begin and end.
fn is_shown(c: char) -> bool {
    // `escape_debug` escapes a combining character only if no letter precedes it.
    matches!(c, '"' | '\'' | '\\') || (c != '`' && format!("x{c}").escape_debug().count() == 2)
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
    use std::process::Command;

    use super::*;

    #[test]
    fn names_are_shown_without_control_characters() {
        assert_eq!(path_name(Path::new("my photos.tar")), "my photos.tar");
        assert_eq!(path_name(Path::new("a\u{1b}[2Jb")), r#""a\u{1b}[2Jb""#);
        assert_eq!(path_name(Path::new("a`b")), r#""a\u{60}b""#);
        assert_eq!(quoted("a`b"), r#""a\u{60}b""#);
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
    fn a_shell_reads_a_word_as_the_same_path() {
        let _alone = crate::testing::alone();
        for (path, word) in [
            ("photos.tar", "photos.tar"),
            ("-", "-"),
            ("--force", "./--force"),
            ("my photos", "'my photos'"),
            ("-it's", r"'./-it'\''s'"),
            ("\u{fc}ber", "'\u{fc}ber'"),
            ("a`id`b", r#""$(printf 'a\140id\140b')""#),
            (
                "a\u{1b}[2J\n1'\\\n\n",
                r#""$(printf 'a\033\1332J\0121\047\134')${IFS#??}${IFS#??}""#,
            ),
            ("", "''"),
            ("~x", "'~x'"),
            ("$(id)", "'$(id)'"),
            ("VOLUME", "'VOLUME'"),
            ("NEW-FILE", "'NEW-FILE'"),
            ("V2", "V2"),
            ("/dev/fd/63", "FILE"),
            ("//dev/./fd//63", "FILE"),
            ("/proc/thread-self/fd/63", "FILE"),
            ("a=/dev/fd/63", "'a=/dev/fd/63'"),
            ("--a=/dev/fd/63", "'./--a=/dev/fd/63'"),
            ("/proc/self/fd/3", "FILE"),
            ("/dev/fd/0", "/dev/fd/0"),
            ("/dev/fd/x", "/dev/fd/x"),
        ] {
            assert_eq!(shell_word(Path::new(path)), word);
        }
        let option = OsStr::new("--key-file=/dev/fd/63");
        assert_eq!(shell_quoted(option), "--key-file=FILE");
        for seed in 0..200_u64 {
            let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
            let mut next = || {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                u8::try_from(state >> 56).unwrap().max(1)
            };
            let mut name: Vec<u8> = (0..=seed % 9).map(|_| next()).collect();
            name.extend(vec![b'\n'; usize::try_from(seed % 3).unwrap()]);
            if seed % 5 == 0 {
                name.insert(0, b'-');
            }
            let path = Path::new(OsStr::from_bytes(&name));
            let word = shell_word(path);
            let line = format!("printf %s {word}");
            for shell in ["sh", "bash"] {
                let found = Command::new(shell).args(["-c", &line]).output();
                let found = found.unwrap().stdout;
                let found = found
                    .strip_prefix(b"./-")
                    .map(|rest| [b"-", rest].concat())
                    .unwrap_or(found);
                assert_eq!(found, name, "seed {seed}: {shell}: {line}");
            }
            assert!(
                !word.contains(['\n', '`', '\u{1b}']),
                "seed {seed}: {word:?}"
            );
        }
    }

    #[test]
    fn foreign_text_cannot_move_the_cursor() {
        assert_eq!(
            Escaped("\u{1b}[2J\u{9b}x\r\ny é").to_string(),
            r"\u{1b}[2J\u{9b}x\r\ny é"
        );
        assert_eq!(Escaped("a`b").to_string(), r"a\u{60}b");
        assert_eq!(Escaped("").to_string(), "none");
    }
}
