// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads PEM files (RFC 7468) without leaving their contents in ordinary memory.
//!
//! `rustls` has a parser too, but it leaves the base64 text of a private key in memory that is
//! freed and not overwritten. Here the text is in locked pages, and is decoded without tables or
//! branches that depend on it.

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
};

use luxor_secret::{SecretBytes, base64_value};
use thiserror::Error;
use zeroize::Zeroizing;

/// The initial size of the buffer for a file's text.
const ROOM: usize = 16 << 10;

/// The longest file accepted. A bundle of all web authorities has 256 KiB.
const MAX_LEN: usize = 16 << 20;

/// Why there is no object. The message contains none of the text, which may be a key.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum PemError {
    #[error("missing section end marker")]
    MissingEnd,
    #[error("base64 decode error")]
    Base64,
    #[error("no items found")]
    NoItems,
}

/// Reads all of a file or a pipe.
///
/// # Errors
/// Those of the system, and [`io::ErrorKind::FileTooLarge`].
pub fn read(path: &Path) -> io::Result<SecretBytes> {
    let mut file = File::open(path)?;
    let mut text = SecretBytes::zeroed(ROOM);
    let mut len = 0;
    loop {
        if len == text.len() {
            if len == MAX_LEN {
                return Err(io::ErrorKind::FileTooLarge.into());
            }
            let mut longer = SecretBytes::zeroed(2 * len);
            longer.expose_mut()[..len].copy_from_slice(text.expose());
            text = longer;
        }
        match file.read(&mut text.expose_mut()[len..]) {
            Ok(0) => break,
            Ok(more) => len += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    text.truncate(len);
    Ok(text)
}

/// Returns the sections of `text` with one of `labels`, in order: the index of the label, and the
/// decoded bytes.
///
/// # Errors
/// An item is an error if its section cannot be decoded or has no end.
pub fn sections(
    text: &[u8],
    labels: &[&str],
) -> impl Iterator<Item = Result<(usize, Zeroizing<Vec<u8>>), PemError>> {
    let mut lines = text.split(|byte| matches!(byte, b'\n' | b'\r'));
    std::iter::from_fn(move || {
        let found = lines.find_map(|line| {
            let label = label(line, "-----BEGIN ")?;
            labels.iter().position(|known| known.as_bytes() == label)
        })?;
        let is_end = |line: &[u8]| label(line, "-----END ") == Some(labels[found].as_bytes());
        let body = lines.clone().take_while(|line| !is_end(line));
        let mut body = Base64::new(body.map(<[u8]>::len).sum());
        loop {
            match lines.next() {
                None => return Some(Err(PemError::MissingEnd)),
                Some(line) if is_end(line) => break,
                Some(line) => body.add(line),
            }
        }
        Some(body.decoded().map(|der| (found, der)))
    })
}

/// Returns the text between `begin` and five dashes.
fn label<'a>(line: &'a [u8], begin: &str) -> Option<&'a [u8]> {
    let rest = line.trim_ascii_end().strip_prefix(begin.as_bytes())?;
    rest.strip_suffix(b"-----")
}

/// A base64 decoder that takes a line at a time.
struct Base64 {
    /// Allocated once for the whole text: growing it would leave a copy that is not wiped.
    bytes: Zeroizing<Vec<u8>>,
    /// Up to four characters, six bits each.
    quantum: Zeroizing<u32>,
    /// The number of characters without padding.
    characters: usize,
    padding: usize,
    /// Negative if a character was not base64.
    fault: i32,
}

impl Base64 {
    fn new(most: usize) -> Self {
        Self {
            bytes: Zeroizing::new(Vec::with_capacity(most / 4 * 3 + 3)),
            quantum: Zeroizing::new(0),
            characters: 0,
            padding: 0,
            fault: 0,
        }
    }

    /// Adds a line. Blanks are ignored. The positions of padding and blanks are not secret.
    fn add(&mut self, line: &[u8]) {
        for &byte in line {
            match byte {
                b' ' | b'\t' => continue,
                b'=' => self.padding += 1,
                // Characters must not follow padding.
                _ if self.padding > 0 => self.fault = -1,
                _ => {
                    let value = base64_value(byte);
                    self.fault |= value;
                    *self.quantum = *self.quantum << 6 | (value & 0x3f).cast_unsigned();
                    self.characters += 1;
                    if self.characters.is_multiple_of(4) {
                        self.bytes
                            .extend_from_slice(&self.quantum.to_be_bytes()[1..]);
                        *self.quantum = 0;
                    }
                }
            }
        }
    }

    fn decoded(mut self) -> Result<Zeroizing<Vec<u8>>, PemError> {
        let rest = self.characters % 4;
        let is_whole = matches!((rest, self.padding), (0, 0) | (2, 2) | (3, 1));
        if self.fault < 0 || !is_whole {
            return Err(PemError::Base64);
        }
        if rest > 0 {
            let quantum = Zeroizing::new(*self.quantum << (6 * (4 - rest)));
            // Two characters yield one byte, three yield two. The remaining bits must be zero.
            let bytes = Zeroizing::new(quantum.to_be_bytes());
            let (bytes, beyond) = bytes[1..].split_at(rest - 1);
            if beyond.iter().fold(0, |all, byte| all | byte) != 0 {
                return Err(PemError::Base64);
            }
            self.bytes.extend_from_slice(bytes);
        }
        Ok(self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str, labels: &[&str]) -> Vec<Result<(usize, Vec<u8>), PemError>> {
        sections(text.as_bytes(), labels)
            .map(|found| found.map(|(label, der)| (label, der.to_vec())))
            .collect()
    }

    fn decode(body: &str) -> Result<Vec<u8>, PemError> {
        let text = format!("-----BEGIN A-----\n{body}\n-----END A-----\n");
        let [found] = all(&text, &["A"]).try_into().unwrap();
        found.map(|(_, der)| der)
    }

    /// The examples of RFC 4648, 10, and invalid base64.
    #[test]
    fn base64_of_every_length() {
        for (body, expected) in [
            ("", ""),
            ("Zg==", "f"),
            ("Zm8=", "fo"),
            ("Zm9v", "foo"),
            ("Zm9v\r\nYg==", "foob"),
            (" Zm9v \n\nY\nmE=", "fooba"),
            ("Zm9vYmFy", "foobar"),
        ] {
            assert_eq!(decode(body).as_deref(), Ok(expected.as_bytes()), "{body}");
        }
        for body in [
            "Z", "Zg", "Zg=", "Zm8", "Zh==", "Zm9=", "Zg==Zg==", "Zm9v=", "Zm!v", "====",
        ] {
            assert_eq!(decode(body), Err(PemError::Base64), "{body}");
        }
    }

    #[test]
    fn sections_are_found_among_others() {
        let text = "Bag Attributes\n-----BEGIN B-----\n!\n-----END B-----\n-----BEGIN A-----\r\n\
                    Zg==\r\n-----END A-----\r\n-----BEGIN C----- \nZm9v\n-----END C-----";
        let found = all(text, &["A", "C"]);
        assert_eq!(found, [Ok((0, b"f".to_vec())), Ok((1, b"foo".to_vec()))]);
        assert_eq!(all(text, &["D"]), []);
        let cut = "-----BEGIN A-----\nZg==\n-----END B-----\n";
        assert_eq!(all(cut, &["A"]), [Err(PemError::MissingEnd)]);
        // A key in one line is not accepted, and does not appear in the message.
        let line = "-----BEGIN A----- Zg== -----END A-----\n";
        assert_eq!(all(line, &["A"]), []);
    }

    #[test]
    fn long_texts_are_read_whole() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for len in [0, 1, ROOM - 1, ROOM, ROOM + 1, 5 * ROOM] {
            let text: Vec<u8> = (0..=255).cycle().take(len).collect();
            std::fs::write(file.path(), &text).unwrap();
            assert_eq!(read(file.path()).unwrap().expose(), text);
        }
        let error = read(Path::new("/dev/zero")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
    }
}
