// SPDX-License-Identifier: MIT OR Apache-2.0
//! The sources of secrets: a key file, the terminal, or standard input.
//!
//! The prompt is implemented here because the crates for it return a `String` on the heap. Here the
//! bytes go directly into locked memory.

use std::{
    fs::File,
    io::{self, IsTerminal, Read, Write},
    path::{Path, PathBuf},
};

use luxor_engine::SecretBytes;
use luxor_files::{path_name, standard_streams::stdin};

use crate::{
    args::KeyFileOptions,
    console::{Console, say},
    context::Context,
    error::{Error, Result},
    process::{self, EchoOff, OpenLine, terminal},
};

/// The most bytes of a key file, as in cryptsetup: 8 MiB.
pub(crate) const KEY_FILE_MAX: usize = 8 << 20;

/// The most bytes of a typed passphrase, as in cryptsetup.
const TYPED_MAX: usize = 512;

/// How often the user may try to type a new passphrase the same twice.
const ATTEMPTS: u32 = 3;

/// The source of a command's secret. Nothing is read from it before a secret is asked for.
#[derive(Debug)]
pub(crate) struct SecretSource {
    from: SecretFrom,
}

#[derive(Debug)]
enum SecretFrom {
    KeyFile(KeyFile),
    /// A terminal.
    Prompt(File),
    /// The next line of standard input.
    StdinLine,
    /// A secret that has already been read.
    Known(SecretBytes),
}

/// A part of a file or of standard input.
#[derive(Debug)]
struct KeyFile {
    path: PathBuf,
    offset: u64,
    size: Option<usize>,
    /// The names of the options for `offset` and `size`.
    names: [&'static str; 2],
}

impl SecretSource {
    /// Selects the source from the options. `inputs` are the files that the command reads, with
    /// their names on the command line. Also prepares the process for holding a secret.
    ///
    /// # Errors
    /// Fails when standard input would be used twice, when a key file option asks for more than
    /// [`KEY_FILE_MAX`] bytes, and when a terminal is needed and there is none.
    pub(crate) fn new(context: &Context, inputs: &[(&str, &Path)]) -> Result<Self> {
        Self::of(context.options.key_file_options(), inputs, context.console)
    }

    /// A source for a key of `len` bytes in a key file: the key itself, not a passphrase.
    ///
    /// # Errors
    /// Those of [`SecretSource::new`]. Also fails without `--key-file`, and with `--keyfile-size`.
    pub(crate) fn of_key(context: &Context, len: usize, inputs: &[(&str, &Path)]) -> Result<Self> {
        if context.options.key_file.is_none() {
            return Err(Error::failure(
                "--type plain needs --key-file: the key itself, not a passphrase",
            ));
        }
        if context.options.keyfile_size.is_some() {
            return Err(Error::failure(
                "--keyfile-size cannot be used with --type plain: --key-size sets how much is read",
            ));
        }
        let options = KeyFileOptions {
            size: Some(len as u64),
            names: ["--key-file", "--keyfile-offset", "--key-size"],
            ..context.options.key_file_options()
        };
        Self::of(options, inputs, context.console)
    }

    /// The sources of the secret that opens a volume and of its new secret. Both may be lines of
    /// standard input, in this order.
    ///
    /// # Errors
    /// Those of [`SecretSource::new`].
    pub(crate) fn pair(
        context: &Context,
        new: KeyFileOptions<'_>,
        inputs: &[(&str, &Path)],
    ) -> Result<(Self, Self)> {
        let existing = context.options.key_file_options();
        // A key file on standard input uses all of it, so the other secret is then asked for on the
        // terminal.
        let beside = |other: KeyFileOptions<'_>, what| {
            let other = other
                .path
                .is_some_and(is_stdin)
                .then_some((what, Path::new("-")));
            inputs.iter().copied().chain(other).collect::<Vec<_>>()
        };
        Ok((
            Self::of(existing, &beside(new, "the new key file"), context.console)?,
            Self::of(new, &beside(existing, "the key file"), context.console)?,
        ))
    }

    fn of(options: KeyFileOptions<'_>, inputs: &[(&str, &Path)], console: Console) -> Result<Self> {
        process::harden(console);
        let mut on_stdin = inputs.iter().filter(|(_, path)| is_stdin(path));
        let data_on_stdin = on_stdin.next().map(|(what, _)| *what);
        if let (Some(first), Some((second, _))) = (data_on_stdin, on_stdin.next()) {
            return Err(Error::failure(format!(
                "standard input cannot be both {first} and {second}"
            )));
        }
        let [file_name, offset_name, size_name] = options.names;
        let from = if let Some(path) = options.path {
            if let (Some(data), true) = (data_on_stdin, is_stdin(path)) {
                return Err(Error::failure(format!(
                    "standard input cannot be both the key file and {data}"
                ))
                .hint(format!("Put the key into a file: {file_name} FILE.")));
            }
            let size = match options.size.map(usize::try_from) {
                None => None,
                Some(Ok(size)) if size <= KEY_FILE_MAX => Some(size),
                Some(_) => {
                    return Err(Error::failure(format!(
                        "{size_name} is above the limit of {KEY_FILE_MAX} bytes (8 MiB)"
                    )));
                }
            };
            SecretFrom::KeyFile(KeyFile {
                path: path.to_owned(),
                offset: options.offset,
                size,
                names: [offset_name, size_name],
            })
        } else if options.offset != 0 || options.size.is_some() {
            return Err(Error::failure(format!(
                "{offset_name} and {size_name} need {file_name}"
            )));
        } else if let Some(data) = data_on_stdin {
            SecretFrom::Prompt(terminal().map_err(|error| {
                Error::io(
                    format!(
                        "{data} is standard input, and there is no terminal for the passphrase"
                    ),
                    &error,
                )
                .hint(format!("Give the secret with {file_name} FILE."))
            })?)
        } else if io::stdin().is_terminal() {
            // A terminal that is not the controlling one can still be read.
            let tty = terminal().or_else(|_| stdin());
            SecretFrom::Prompt(tty.map_err(|error| Error::io("cannot open the terminal", &error))?)
        } else {
            SecretFrom::StdinLine
        };
        Ok(Self { from })
    }

    /// Reads a key file now, as a new secret for `volume`. An unreadable file is then reported
    /// before the user types a passphrase and waits.
    ///
    /// # Errors
    /// Those of [`SecretSource::new_one`].
    pub(crate) fn read_ahead(self, volume: &Path) -> Result<Self> {
        if !matches!(self.from, SecretFrom::KeyFile(_)) {
            return Ok(self);
        }
        let from = SecretFrom::Known(self.new_one(volume)?);
        Ok(Self { from })
    }

    /// Returns how often to call [`SecretSource::existing`]: `tries` times at a prompt, otherwise
    /// once.
    #[must_use]
    pub(crate) fn attempts(&self, tries: u32) -> u32 {
        if matches!(self.from, SecretFrom::Prompt(_)) {
            tries
        } else {
            1
        }
    }

    /// Reads the secret of an existing volume.
    ///
    /// # Errors
    /// Fails when it cannot be read.
    pub(crate) fn existing(&self, volume: &Path) -> Result<SecretBytes> {
        let secret = match &self.from {
            SecretFrom::Prompt(tty) => prompt(tty, &format!("Passphrase for {}: ", shown(volume)))?,
            SecretFrom::KeyFile(file) => file.read()?,
            SecretFrom::StdinLine => stdin_line()?.ok_or_else(no_line)?,
            SecretFrom::Known(secret) => secret.clone(),
        };
        Ok(secret)
    }

    /// Returns a source with the secret, if it can be read without a prompt. Returns `None` when
    /// standard input is a terminal or at its end.
    ///
    /// # Errors
    /// Fails when the secret cannot be read.
    pub(crate) fn if_given(self) -> Result<Option<Self>> {
        let secret = match &self.from {
            SecretFrom::Prompt(_) => None,
            SecretFrom::StdinLine => stdin_line()?,
            SecretFrom::KeyFile(file) if is_stdin(&file.path) => {
                Some(file.read()?).filter(|secret| !secret.is_empty())
            }
            SecretFrom::KeyFile(_) | SecretFrom::Known(_) => return Ok(Some(self)),
        };
        let from = secret.map(SecretFrom::Known);
        Ok(from.map(|from| Self { from }))
    }

    /// Reads the secret of a new volume or keyslot. At a prompt the user types it twice.
    ///
    /// # Errors
    /// Fails when it cannot be read, is empty, or was not typed the same twice.
    pub(crate) fn new_one(&self, volume: &Path) -> Result<SecretBytes> {
        let secret = match &self.from {
            SecretFrom::Prompt(tty) => new_typed(tty, volume)?,
            SecretFrom::KeyFile(file) => {
                let secret = file.read()?;
                if secret.is_empty() {
                    return Err(Error::failure(format!(
                        "the key file {} is empty, which protects nothing",
                        shown(&file.path)
                    )));
                }
                secret
            }
            SecretFrom::StdinLine => {
                let secret = stdin_line()?.ok_or_else(no_line)?;
                if secret.is_empty() {
                    return Err(Error::failure(EMPTY));
                }
                secret
            }
            SecretFrom::Known(secret) => secret.clone(),
        };
        Ok(secret)
    }
}

const EMPTY: &str = "the passphrase is empty, which protects nothing";

impl KeyFile {
    /// Reads its bytes, at most [`KEY_FILE_MAX`].
    ///
    /// # Errors
    /// Fails when the file cannot be read, is too long or is too short.
    fn read(&self) -> Result<SecretBytes> {
        let path = &self.path;
        let [offset_name, size_name] = self.names;
        let cannot = |error: io::Error| {
            Error::io(format!("cannot read the key file {}", shown(path)), &error)
        };
        let mut file = if is_stdin(path) {
            stdin()
        } else {
            File::open(path)
        }
        .map_err(cannot)?;
        if file.metadata().map_err(cannot)?.is_dir() {
            return Err(Error::failure(format!(
                "the key file {} is a folder",
                shown(path)
            )));
        }
        let offset = self.offset;
        let skipped = skip(&mut file, offset).map_err(cannot)?;
        if skipped < offset {
            return Err(Error::failure(format!(
                "the key file {} has {skipped} bytes, but {offset_name} is {offset}",
                shown(path)
            )));
        }
        match self.size {
            Some(size) => {
                let mut secret = SecretBytes::zeroed(size);
                let filled = fill(&mut file, secret.expose_mut()).map_err(cannot)?;
                if filled < size {
                    return Err(Error::failure(format!(
                        "the key file {} has only {filled} of the {size} bytes of {size_name}",
                        shown(path)
                    )));
                }
                Ok(secret)
            }
            None => read_until(&mut file, None, KEY_FILE_MAX)
                .map_err(cannot)?
                .ok_or_else(|| {
                    Error::failure(format!(
                        "the key file {} is longer than {KEY_FILE_MAX} bytes (8 MiB)",
                        shown(path)
                    ))
                    .hint(format!("To use a part of it, add {size_name} BYTES."))
                }),
        }
    }
}

/// Reads one line of standard input, and no byte after its newline. Returns it without the newline,
/// or `None` at the end.
fn stdin_line() -> Result<Option<SecretBytes>> {
    let read = stdin().and_then(|mut file| {
        let mut first = SecretBytes::zeroed(1);
        match fill(&mut file, first.expose_mut())? {
            0 => Ok(None),
            _ if first.expose() == b"\n" => Ok(Some(Some(SecretBytes::zeroed(0)))),
            _ => read_until(&mut (first.expose().chain(file)), Some(b'\n'), KEY_FILE_MAX).map(Some),
        }
    });
    match read {
        Err(error) => Err(Error::io(
            "cannot read the passphrase from standard input",
            &error,
        )),
        Ok(Some(None)) => Err(Error::failure(format!(
            "a line of standard input is longer than {KEY_FILE_MAX} bytes (8 MiB)"
        ))),
        Ok(Some(Some(secret))) => Ok(Some(secret)),
        Ok(None) => Ok(None),
    }
}

fn no_line() -> Error {
    Error::failure("standard input has no passphrase: it is empty or at its end").hint(
        "Give the passphrase as a line of standard input, with --key-file FILE, or on a \
             terminal.",
    )
}

/// Asks for a new passphrase until the user has typed it the same twice, at most [`ATTEMPTS`]
/// times.
fn new_typed(tty: &File, volume: &Path) -> Result<SecretBytes> {
    for attempt in 1.. {
        let first = prompt(tty, &format!("New passphrase for {}: ", shown(volume)))?;
        let problem = if first.is_empty() {
            EMPTY
        } else if prompt(tty, "Repeat it: ")?.expose() != first.expose() {
            "the two passphrases differ"
        } else {
            return Ok(first);
        };
        if attempt == ATTEMPTS {
            return Err(Error::failure(problem));
        }
        say(&format!("luxor: {problem}"));
    }
    unreachable!("the last attempt returns")
}

/// Asks on a terminal, with the echo off.
fn prompt(mut tty: &File, question: &str) -> Result<SecretBytes> {
    let cannot = |error: io::Error| Error::io("cannot ask for the passphrase", &error);
    let line = OpenLine::begin();
    let echo = EchoOff::on(tty).map_err(cannot)?;
    tty.write_all(question.as_bytes()).map_err(cannot)?;
    let mut first = SecretBytes::zeroed(1);
    if fill(&mut tty, first.expose_mut()).map_err(cannot)? == 0 {
        drop(echo);
        let _ = tty.write_all(b"\n");
        return Err(Error::failure("no passphrase was given"));
    }
    let answer = match first.expose() {
        b"\n" => Some(SecretBytes::zeroed(0)),
        byte => read_until(&mut byte.chain(tty), Some(b'\n'), TYPED_MAX).map_err(cannot)?,
    };
    if answer.is_none() {
        // Otherwise the shell would show the rest and run it.
        process::forget_typed(tty);
    }
    drop((echo, line));
    answer.ok_or_else(|| {
        Error::failure(format!("the passphrase is longer than {TYPED_MAX} bytes"))
            .hint("Put it into a file: --key-file FILE.")
    })
}

/// Reads up to `end`, which is not part of the result, or to the end of the input. Returns `None`
/// if there are more than `max` bytes. Reads nothing past `end` and leaves no copy in memory.
fn read_until(
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

fn is_stdin(path: &Path) -> bool {
    path == Path::new("-")
}

fn shown(path: &Path) -> String {
    if is_stdin(path) {
        "standard input".into()
    } else {
        path_name(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_at_the_newline_and_no_byte_more_is_read() {
        let mut input: &[u8] = b"correct horse\r\nrest";
        let line = read_until(&mut input, Some(b'\n'), 512).unwrap().unwrap();
        assert_eq!(line.expose(), b"correct horse\r");
        assert_eq!(input, b"rest");
    }

    #[test]
    fn a_secret_may_have_exactly_the_limit() {
        for max in [10, 4095, 4096, 4097, 8192, 10_000] {
            let bytes = vec![7; max + 1];
            let read = |len: usize, end| read_until(&mut &bytes[..len], end, max).unwrap();
            for end in [None, Some(b'\n')] {
                assert_eq!(read(max, end).unwrap().expose(), &bytes[..max], "{max}");
                assert!(read(max + 1, end).is_none(), "{max}");
            }
            assert!(read(0, None).unwrap().is_empty());
        }
        let mut full = vec![7; 10];
        full.push(b'\n');
        assert_eq!(
            read_until(&mut full.as_slice(), Some(b'\n'), 10)
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
