// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads secrets from files and streams directly into locked memory.

use std::{
    io::{self, Read},
    path::{Path, PathBuf},
};

use luxor_files::{io_words, open_to_read, path_name, standard_streams::stdin};
use luxor_secret::SecretBytes;

use crate::error::Cause;

/// A key file: all of it is the secret, or a part of it. `-` is standard input.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyFile {
    /// The path of the file.
    pub path: PathBuf,
    /// The number of bytes before the secret.
    pub offset: u64,
    /// The number of bytes of the secret; `None` means all up to the end of the file.
    pub size: Option<usize>,
}

impl KeyFile {
    /// The most bytes of a secret, as in cryptsetup: 8 MiB.
    pub const MAX: usize = 8 << 20;

    /// Uses all of the file at `path`.
    #[must_use]
    pub fn whole(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            ..Self::default()
        }
    }

    /// Its name for messages.
    #[must_use]
    pub fn name(&self) -> String {
        if self.is_stdin() {
            "standard input".into()
        } else {
            path_name(&self.path)
        }
    }

    /// Whether the secret is read from standard input.
    #[must_use]
    pub fn is_stdin(&self) -> bool {
        self.path == Path::new("-")
    }

    /// Reads the secret.
    ///
    /// # Errors
    /// [`KeyFileError`]: the file cannot be read, is too short, or has more than [`KeyFile::MAX`]
    /// bytes after the offset and no size is set.
    pub fn read(&self) -> Result<SecretBytes, KeyFileError> {
        let name = || self.name();
        let failed = |source| KeyFileError::Io {
            name: name(),
            source,
        };
        let file = if self.is_stdin() {
            stdin()
        } else {
            open_to_read(&self.path)
        };
        let mut file = file.map_err(failed)?;
        if file.metadata().map_err(failed)?.is_dir() {
            return Err(KeyFileError::Folder { name: name() });
        }
        let offset = self.offset;
        let found = skip(&mut file, offset).map_err(failed)?;
        if found < offset {
            return Err(KeyFileError::Offset {
                name: name(),
                offset,
                found,
            });
        }
        let Some(size) = self.size else {
            let secret = read_secret(&mut file, None, Self::MAX).map_err(failed)?;
            return secret.ok_or_else(|| KeyFileError::TooLong { name: name() });
        };
        let mut secret = SecretBytes::zeroed(size);
        let found = fill(&mut file, secret.expose_mut()).map_err(failed)?;
        if found < size {
            return Err(KeyFileError::Size {
                name: name(),
                size,
                found,
            });
        }
        Ok(secret)
    }
}

/// Why a key file cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyFileError {
    /// It is a folder.
    #[error("the key file {name} is a folder")]
    Folder {
        /// The name of the file, for messages.
        name: String,
    },
    /// It ends before the secret.
    #[error("the key file {name} has {found} bytes, but the key begins at byte {offset}")]
    Offset {
        /// The name of the file, for messages.
        name: String,
        /// [`KeyFile::offset`].
        offset: u64,
        /// The number of bytes in the file.
        found: u64,
    },
    /// It ends within the secret.
    #[error("the key file {name} has only {found} of the {size} bytes of the key")]
    Size {
        /// The name of the file, for messages.
        name: String,
        /// [`KeyFile::size`].
        size: usize,
        /// The number of bytes from the offset to the end of the file.
        found: usize,
    },
    /// It has too many bytes.
    #[error("the key file {name} is longer than {} bytes (8 MiB)", KeyFile::MAX)]
    TooLong {
        /// The name of the file, for messages.
        name: String,
    },
    /// The system failed to read it.
    #[error("cannot read the key file {name}: {}", io_words(source))]
    Io {
        /// The name of the file, for messages.
        name: String,
        /// The system's error.
        source: io::Error,
    },
}

impl Cause for KeyFileError {}

/// Reads up to `end`, which is not part of the result, or to the end of the input. Returns `None`
/// if there are more than `max` bytes. Reads nothing past `end` and leaves no copy in memory.
///
/// # Errors
/// An error of `input`.
pub fn read_secret(
    input: &mut impl Read,
    end: Option<u8>,
    max: usize,
) -> io::Result<Option<SecretBytes>> {
    let mut secret = SecretBytes::zeroed(4096.min(max + 1));
    let mut len = 0;
    loop {
        if len == secret.len() {
            if len > max {
                return Ok(None);
            }
            let mut longer = SecretBytes::zeroed((2 * len).min(max + 1));
            longer.expose_mut()[..len].copy_from_slice(secret.expose());
            secret = longer;
        }
        // Read byte by byte if the bytes after `end` belong to another reader.
        let room = &mut secret.expose_mut()[len..];
        let room = if end.is_some() { &mut room[..1] } else { room };
        let count = match input.read(room) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            other => other?,
        };
        if count == 0 || end.is_some_and(|end| secret.expose()[len] == end) {
            break;
        }
        len += count;
    }
    if len > max {
        return Ok(None);
    }
    secret.truncate(len);
    Ok(Some(secret))
}

/// Reads until `buf` is full or the input ends. Returns the number of bytes read.
fn fill(input: &mut impl Read, buf: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buf.len() {
        match input.read(&mut buf[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Skips up to `count` bytes and returns how many there were. It reads instead of seeking, because
/// the input may be a pipe, and key files are small.
fn skip(input: &mut impl Read, count: u64) -> io::Result<u64> {
    let mut buf = SecretBytes::zeroed(4096);
    let mut skipped = 0;
    while skipped < count {
        let want = usize::try_from(count - skipped)
            .unwrap_or(usize::MAX)
            .min(buf.len());
        match fill(input, &mut buf.expose_mut()[..want])? {
            0 => break,
            got => skipped += got as u64,
        }
    }
    Ok(skipped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_at_the_newline_and_no_byte_more_is_read() {
        let mut input: &[u8] = b"correct horse\r\nrest";
        let line = read_secret(&mut input, Some(b'\n'), 512).unwrap().unwrap();
        assert_eq!(line.expose(), b"correct horse\r");
        assert_eq!(input, b"rest");
    }

    #[test]
    fn a_secret_may_have_exactly_the_limit() {
        for max in [10, 4095, 4096, 4097, 8192, 10_000] {
            let bytes = vec![7; max + 1];
            let read = |len: usize, end| read_secret(&mut &bytes[..len], end, max).unwrap();
            for end in [None, Some(b'\n')] {
                assert_eq!(read(max, end).unwrap().expose(), &bytes[..max], "{max}");
                assert!(read(max + 1, end).is_none(), "{max}");
            }
            assert!(read(0, None).unwrap().is_empty());
        }
        let mut full = vec![7; 10];
        full.push(b'\n');
        assert_eq!(
            read_secret(&mut full.as_slice(), Some(b'\n'), 10)
                .unwrap()
                .unwrap()
                .len(),
            10
        );
    }

    #[test]
    fn skip_returns_the_number_of_skipped_bytes() {
        let mut input: &[u8] = &[1; 10_000];
        assert_eq!(skip(&mut input, 9_999).unwrap(), 9_999);
        assert_eq!(input.len(), 1);
        assert_eq!(skip(&mut input, 5).unwrap(), 1);
    }
}
