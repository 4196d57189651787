// SPDX-License-Identifier: MIT OR Apache-2.0
//! The file with the pre-shared keys of clients: lines `NAME:KEY`, the key in hexadecimal digits, as
//! `psktool` writes it.

use luxor_secret::{SecretBytes, decode_hex};
use luxor_tls_psk::{MAX_KEY, MAX_NAME, PskKeys};
use rustls::crypto::ring;
use thiserror::Error;

/// The least length of a key in bytes: guessing a shorter one might succeed (RFC 9257, 6).
const MIN_KEY: usize = 16;

/// The length of the key in place of an unknown client's.
const RANDOM_KEY: usize = 32;

/// The keys of clients by name.
pub struct PreSharedKeys(Vec<(Vec<u8>, SecretBytes)>);

/// What is wrong with a line. No message contains a part of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum LineError {
    #[error("it has no colon between a name and a key")]
    NoColon,
    #[error("the name is empty")]
    NoName,
    #[error("the name is longer than {MAX_NAME} bytes")]
    LongName,
    #[error("the name begins with #, which GnuTLS takes for a name in hexadecimal digits")]
    HexName,
    #[error("the name is there twice")]
    Twice,
    #[error("the key is not an even number of hexadecimal digits")]
    NotHex,
    #[error("the key is shorter than {MIN_KEY} bytes")]
    ShortKey,
    #[error("the key is longer than {MAX_KEY} bytes")]
    LongKey,
}

impl PreSharedKeys {
    /// Parses the file. Empty lines are allowed. Returns the number of a wrong line, from 1 on, and
    /// what is wrong with it.
    pub fn parse(text: &[u8]) -> Result<Self, (usize, LineError)> {
        let mut keys = Self(Vec::new());
        for (number, line) in (1..).zip(text.split(|byte| *byte == b'\n')) {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if !line.is_empty() {
                keys.add(line).map_err(|error| (number, error))?;
            }
        }
        Ok(keys)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn add(&mut self, line: &[u8]) -> Result<(), LineError> {
        // A key has no colon, but a name may.
        let colon = line.iter().rposition(|byte| *byte == b':');
        let (name, digits) = line.split_at(colon.ok_or(LineError::NoColon)?);
        let digits = &digits[1..];
        match name {
            [] => return Err(LineError::NoName),
            [b'#', ..] => return Err(LineError::HexName),
            _ if name.len() > MAX_NAME => return Err(LineError::LongName),
            _ if self.find(name).is_some() => return Err(LineError::Twice),
            _ => {}
        }
        let mut key = SecretBytes::zeroed(digits.len() / 2);
        if digits.len() % 2 != 0 || !decode_hex(digits, key.expose_mut()) {
            return Err(LineError::NotHex);
        }
        if key.len() < MIN_KEY {
            return Err(LineError::ShortKey);
        }
        if key.len() > MAX_KEY {
            return Err(LineError::LongKey);
        }
        self.0.push((name.to_owned(), key));
        Ok(())
    }

    fn find(&self, name: &[u8]) -> Option<&[u8]> {
        let mut keys = self.0.iter();
        let (_, key) = keys.find(|(known, _)| known == name)?;
        Some(key.expose())
    }
}

impl PskKeys for PreSharedKeys {
    fn key(&self, name: &[u8], key: &mut [u8]) -> usize {
        if let Some(found) = self.find(name)
            && let Some(room) = key.get_mut(..found.len())
        {
            room.copy_from_slice(found);
            return found.len();
        }
        let source = ring::default_provider().secure_random;
        let filled = key.get_mut(..RANDOM_KEY).map(|room| source.fill(room));
        // Without a key the client is refused too.
        if matches!(filled, Some(Ok(()))) {
            RANDOM_KEY
        } else {
            0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_names_and_keys() {
        let text = b"alice:000102030405060708090a0b0c0d0e0f\r\n\n\
                     a:b c:FFfeFDFCFBFAF9F8F7F6F5F4F3F2F1F0EF\nbob:99999999999999999999999999999999";
        let keys = PreSharedKeys::parse(text).expect("a good file");
        let find = |name: &str| {
            let mut key = [0xaa; 512];
            let len = keys.key(name.as_bytes(), &mut key);
            assert!(key[len..].iter().all(|byte| *byte == 0xaa));
            key[..len].to_vec()
        };
        assert_eq!(find("alice"), (0..16).collect::<Vec<u8>>());
        assert_eq!(find("a:b c"), (0xef..=0xff).rev().collect::<Vec<u8>>());
        assert_eq!(find("bob"), [0x99; 16]);
        // Each unknown name gets a new random key.
        let (one, two) = (find("eve"), find("eve"));
        assert_eq!((one.len(), two.len()), (32, 32));
        assert_ne!(one, two);
        assert_ne!(one, [0; 32]);
        assert!(PreSharedKeys::parse(b"\n").expect("a good file").is_empty());
    }

    #[test]
    fn wrong_lines_are_refused() {
        let good = "0".repeat(32);
        let long = "0".repeat(2 * MAX_KEY + 2);
        for (line, expected) in [
            (good.clone(), LineError::NoColon),
            (format!(":{good}"), LineError::NoName),
            (format!("{}:{good}", "x".repeat(257)), LineError::LongName),
            (format!("#616c:{good}"), LineError::HexName),
            (format!("first:{good}"), LineError::Twice),
            (format!("a:{good}0"), LineError::NotHex),
            (format!("a:{good} "), LineError::NotHex),
            (format!("a:{}0g", &good[2..]), LineError::NotHex),
            ("a:".to_owned(), LineError::ShortKey),
            (format!("a:{}", &good[2..]), LineError::ShortKey),
            (format!("a:{long}"), LineError::LongKey),
        ] {
            let text = format!("first:{good}\n{line}\n");
            let error = PreSharedKeys::parse(text.as_bytes()).err();
            assert_eq!(error, Some((2, expected)), "{line}");
        }
    }
}
