// SPDX-License-Identifier: MIT OR Apache-2.0
//! The sources of secrets: a key file, a line of a file descriptor, or the terminal.
//!
//! The prompt is implemented here because the crates for it return a `String` on the heap. Here the
//! bytes go directly into locked memory.

use std::{
    env,
    fs::{self, File},
    io::{self, Read, Write},
    os::unix::fs::{FileTypeExt, MetadataExt},
    path::Path,
};

use luxor::{
    KeyFile, KeyFileError, SecretBytes,
    files::{
        path_name, shell_word,
        standard_streams::{self, STDIN},
    },
    read_secret,
    volume::{Format, SecretKind},
};
use subtle::ConstantTimeEq;

use crate::{
    args::{SecretArgNames, SecretArgs},
    console::{Console, complain},
    context::Context,
    error::{Error, Result},
    process::{self, EchoOff, OpenLine, terminal},
};

/// The most bytes of a typed passphrase, as in cryptsetup.
const TYPED_MAX: usize = 512;

/// How often the user may try to type a new passphrase the same twice.
const ATTEMPTS: u32 = 3;

/// The secret of a volume that a prompt asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// That of any keyslot.
    Any,
    /// That of this keyslot.
    Keyslot(u32),
    /// That of the keyslot to remove.
    Removed,
    /// That of a keyslot that stays when another one is removed.
    Other,
}

impl Wanted {
    /// The question for it, without the name of the volume.
    fn question(self) -> String {
        match self {
            Self::Any => "Passphrase for".to_owned(),
            Self::Keyslot(number) => format!("Passphrase for keyslot {number} of"),
            Self::Removed => "Passphrase to remove from".to_owned(),
            Self::Other => "Passphrase for another keyslot of".to_owned(),
        }
    }
}

/// The source of a command's secret. Nothing is read from it before a secret is asked for.
#[derive(Debug)]
pub(crate) struct SecretSource {
    from: SecretFrom,
}

#[derive(Debug)]
enum SecretFrom {
    KeyFile(NamedKeyFile),
    /// The terminal.
    Prompt(SecretArgNames, Console),
    Line(Descriptor),
    /// A volume key in place of a secret.
    VolumeKey(KeyFile),
    /// A secret that has already been read.
    Known(SecretBytes),
}

/// A key file, and the names of the options for its offset and size.
#[derive(Debug)]
struct NamedKeyFile {
    file: KeyFile,
    names: SecretArgNames,
}

/// An inherited file descriptor, whose next line is a passphrase.
#[derive(Debug)]
struct Descriptor {
    number: i32,
    file: File,
}

impl SecretSource {
    /// Selects the source from the options. `inputs` are the files that the command reads, with
    /// their names on the command line. Also prepares the process for holding a secret.
    ///
    /// # Errors
    /// Fails when standard input would be used twice, when a key file option asks for more than
    /// [`KeyFile::MAX`] bytes, and when a file descriptor is not open.
    pub(crate) fn new(context: &Context, inputs: &[(&str, &Path)]) -> Result<Self> {
        match Self::of_volume_key(context, inputs)? {
            Some(volume_key) => Ok(volume_key),
            None => Self::secret_only(context, inputs),
        }
    }

    /// As [`SecretSource::new`], for a format whose volumes this opens.
    ///
    /// # Errors
    /// Those of [`SecretSource::new`].
    pub(crate) fn for_format(
        context: &Context,
        format: &dyn Format,
        inputs: &[(&str, &Path)],
    ) -> Result<Self> {
        match format.secret_kind() {
            SecretKind::Passphrase => Self::new(context, inputs),
            SecretKind::Key { len } => Self::of_key(context, format, len, inputs),
        }
    }

    /// As [`SecretSource::new`], where `--volume-key-file` means something else.
    ///
    /// # Errors
    /// Those of [`SecretSource::new`].
    pub(crate) fn secret_only(context: &Context, inputs: &[(&str, &Path)]) -> Result<Self> {
        Self::from_options(context.options.secret(), inputs, context.console)
    }

    /// The volume key that opens a volume, if the options name one.
    fn of_volume_key(context: &Context, inputs: &[(&str, &Path)]) -> Result<Option<Self>> {
        let Some(path) = &context.options.volume_key_file else {
            return Ok(None);
        };
        let secret = context.options.secret();
        if secret.key_file.is_some() || secret.descriptor.is_some() {
            let message = "--volume-key-file takes the place of --key-file and --passphrase-fd";
            return Err(Error::failure(message));
        }
        if let Some((data, _)) = inputs.iter().find(|(_, other)| is_same_stream(path, other)) {
            let stream = shown(path);
            let message = format!("{stream} cannot be both the volume key and {data}");
            return Err(Error::failure(message));
        }
        process::harden(context.console);
        let from = SecretFrom::VolumeKey(KeyFile::whole(path));
        Ok(Some(Self { from }))
    }

    /// A source for a key of `len` bytes in a key file: the key itself, not a passphrase.
    ///
    /// # Errors
    /// Those of [`SecretSource::new`]. Also fails without `--key-file`, and with `--keyfile-size`.
    fn of_key(
        context: &Context,
        format: &dyn Format,
        len: usize,
        inputs: &[(&str, &Path)],
    ) -> Result<Self> {
        let kind = format.name();
        if context.options.key_file.is_none() {
            return Err(Error::failure(format!(
                "--type {kind} needs --key-file: the key itself, not a passphrase"
            )));
        }
        if context.options.volume_key_file.is_some() {
            return Err(Error::failure(format!(
                "--volume-key-file cannot be used with --type {kind}: --key-file is the key itself"
            )));
        }
        if context.options.keyfile_size.is_some() {
            return Err(Error::failure(format!(
                "--keyfile-size cannot be used with --type {kind}: --key-size sets how much is read"
            )));
        }
        let secret = context.options.secret();
        let options = SecretArgs {
            size: Some(len as u64),
            names: SecretArgNames {
                size: "--key-size",
                ..secret.names
            },
            ..secret
        };
        Self::from_options(options, inputs, context.console)
    }

    /// The sources of the secret that opens a volume and of its new secret. Both may be lines of
    /// one file descriptor, in this order.
    ///
    /// # Errors
    /// Those of [`SecretSource::new`].
    pub(crate) fn pair(
        context: &Context,
        new: SecretArgs<'_>,
        inputs: &[(&str, &Path)],
    ) -> Result<(Self, Self)> {
        let existing = context.options.secret();
        // Each is read to its end.
        let with = |other, what| {
            let other: Option<&Path> = other;
            let other = other.map(|path| (what, path));
            inputs.iter().copied().chain(other).collect::<Vec<_>>()
        };
        let beside_existing = with(new.key_file, "the new key file");
        let beside_new = with(existing.key_file, "the key file");
        let of_existing = match Self::of_volume_key(context, inputs)? {
            Some(volume_key) => volume_key,
            None => Self::from_options(existing, &beside_existing, context.console)?,
        };
        let of_new = Self::from_options(new, &beside_new, context.console)?;
        Ok((of_existing, of_new))
    }

    fn from_options(
        options: SecretArgs<'_>,
        inputs: &[(&str, &Path)],
        console: Console,
    ) -> Result<Self> {
        process::harden(console);
        check_streams(inputs)?;
        let names = options.names;
        let both = |stream: &Path, secret: &str, data: &str| {
            let message = format!("{} cannot be both {secret} and {data}", shown(stream));
            let key_file = names.key_file;
            let hint = format!("Put the secret into a file: {key_file} FILE.");
            Err(Error::failure(message).hint(hint))
        };
        let from = if let Some(path) = options.key_file {
            let same = inputs.iter().find(|(_, other)| is_same_stream(path, other));
            if let Some((data, _)) = same {
                return both(path, "the key file", data);
            }
            let size = match options.size.map(usize::try_from) {
                None => None,
                Some(Ok(size)) if size <= KeyFile::MAX => Some(size),
                Some(_) => {
                    return Err(Error::failure(format!(
                        "{} is above the limit of {} bytes (8 MiB)",
                        names.size,
                        KeyFile::MAX
                    )));
                }
            };
            SecretFrom::KeyFile(NamedKeyFile {
                file: KeyFile {
                    path: path.to_owned(),
                    offset: options.offset,
                    size,
                },
                names,
            })
        } else if options.offset != 0 || options.size.is_some() {
            return Err(Error::failure(format!(
                "{} and {} need {}",
                names.offset, names.size, names.key_file
            )));
        } else if let Some(number) = options.descriptor {
            let stdin = Path::new("-");
            let same = inputs
                .iter()
                .find(|(_, other)| is_same_stream(stdin, other));
            if let (Some((data, _)), STDIN) = (same, number) {
                return both(stdin, "the passphrase", data);
            }
            let file = standard_streams::inherited(number);
            let file = file.map_err(|error| Descriptor::error(number, &error))?;
            SecretFrom::Line(Descriptor { number, file })
        } else {
            // Never standard input: it may be the list that a loop of the shell reads.
            SecretFrom::Prompt(names, console)
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
        if matches!(self.from, SecretFrom::Prompt(..)) {
            tries
        } else {
            1
        }
    }

    /// Reads the secret of an existing volume, or of one of its keyslots.
    ///
    /// # Errors
    /// Fails when it cannot be read, and when it must be typed and there is no terminal.
    pub(crate) fn existing(&self, volume: &Path, wanted: Wanted) -> Result<SecretBytes> {
        let secret = match &self.from {
            SecretFrom::Prompt(names, _) => {
                let question = format!("{} {}: ", wanted.question(), shown(volume));
                prompt(&terminal_for(names)?, &question)?
            }
            SecretFrom::KeyFile(file) => file.read()?,
            SecretFrom::Line(descriptor) => descriptor.line()?,
            SecretFrom::VolumeKey(file) => file.read()?,
            SecretFrom::Known(secret) => secret.clone(),
        };
        Ok(secret)
    }

    /// Returns why `secret`, which opens no keyslot, may be other bytes than the user means, and what
    /// to try. It tells nothing of a file that is not one line of text, and never what the text is.
    #[must_use]
    pub(crate) fn doubt(&self, secret: &SecretBytes) -> Option<String> {
        if matches!(self.from, SecretFrom::VolumeKey(_) | SecretFrom::Known(_)) {
            return None;
        }
        let doubt = Doubt::examine(secret.expose())?;
        match &self.from {
            SecretFrom::KeyFile(named) => {
                let is_whole = (named.file.offset, named.file.size) == (0, None);
                named.doubt(&doubt, is_whole)
            }
            _ => doubt.of_typed(),
        }
    }

    /// Whether the secret must be typed.
    #[must_use]
    pub(crate) fn is_prompt(&self) -> bool {
        matches!(self.from, SecretFrom::Prompt(..))
    }

    /// Whether it is a volume key.
    #[must_use]
    pub(crate) fn is_volume_key(&self) -> bool {
        matches!(self.from, SecretFrom::VolumeKey(_))
    }

    /// Returns a source with the secret, if it can be read without a prompt. Returns `None` for a
    /// prompt, and when the source is at its end.
    ///
    /// # Errors
    /// Fails when the secret cannot be read.
    pub(crate) fn if_given(self) -> Result<Option<Self>> {
        let secret = match &self.from {
            SecretFrom::Prompt(..) => None,
            SecretFrom::Line(descriptor) => descriptor.next_line()?,
            SecretFrom::KeyFile(file) if file.file.is_stdin() => {
                Some(file.read()?).filter(|secret| !secret.is_empty())
            }
            SecretFrom::KeyFile(_) | SecretFrom::VolumeKey(_) | SecretFrom::Known(_) => {
                return Ok(Some(self));
            }
        };
        let from = secret.map(SecretFrom::Known);
        Ok(from.map(|from| Self { from }))
    }

    /// Reads the secret of a new volume or keyslot. At a prompt the user types it twice.
    ///
    /// # Errors
    /// Those of [`SecretSource::existing`]. Also fails when it is empty, or was not typed the same
    /// twice.
    pub(crate) fn new_one(&self, volume: &Path) -> Result<SecretBytes> {
        let secret = match &self.from {
            SecretFrom::Prompt(names, console) => {
                new_typed(&terminal_for(names)?, volume, *console)?
            }
            SecretFrom::KeyFile(file) => {
                let secret = file.read()?;
                if secret.is_empty() {
                    return Err(Error::failure(format!(
                        "the key file {} is empty, which protects nothing",
                        file.file.name()
                    )));
                }
                secret
            }
            SecretFrom::Line(descriptor) => {
                let secret = descriptor.line()?;
                if secret.is_empty() {
                    return Err(Error::failure(EMPTY));
                }
                secret
            }
            SecretFrom::VolumeKey(_) => unreachable!("a new keyslot has a secret"),
            SecretFrom::Known(secret) => secret.clone(),
        };
        Ok(secret)
    }
}

const EMPTY: &str = "the passphrase is empty, which protects nothing";

impl NamedKeyFile {
    /// Reads its bytes, at most [`KeyFile::MAX`].
    ///
    /// # Errors
    /// Fails when the file cannot be read, is too long or is too short.
    fn read(&self) -> Result<SecretBytes> {
        let (offset_name, size_name) = (self.names.offset, self.names.size);
        self.file.read().map_err(|error| match &error {
            KeyFileError::Offset {
                name,
                offset,
                found,
            } => Error::failure(format!(
                "the key file {name} has {found} bytes, but {offset_name} is {offset}"
            )),
            KeyFileError::Size { name, size, found } => Error::failure(format!(
                "the key file {name} has only {found} of the {size} bytes of {size_name}"
            )),
            KeyFileError::TooLong { .. } => {
                Error::from(error).hint(format!("To use a part of it, add {size_name} BYTES."))
            }
            _ => error.into(),
        })
    }

    /// Returns what the user can do about `doubt`. `is_whole` is whether all of the file is the key.
    fn doubt(&self, doubt: &Doubt, is_whole: bool) -> Option<String> {
        let SecretArgNames {
            key_file,
            descriptor,
            ..
        } = self.names;
        let path = shell_word(&self.file.path);
        let is_stdin = self.file.is_stdin();
        if let (Some(around), true) = (doubt.around(), is_whole) {
            let how = match (doubt.has_only_newline(), is_stdin) {
                (true, true) => format!("give {descriptor} 0 in place of {key_file} -"),
                (true, false) => {
                    let number = free_descriptor();
                    format!(
                        "give {descriptor} {number} {number}< {path} in place of {key_file} {path}"
                    )
                }
                (false, true) => "take it out".to_owned(),
                (false, false) if doubt.has_mark => {
                    format!(
                        "this makes a file without it: `(umask 077; tail -c +4 {path} | tr -d '\\r\\n' > \
                         NEW-FILE)`"
                    )
                }
                (false, false) => {
                    format!(
                        "this makes a file without it: `(umask 077; tr -d '\\r\\n' < {path} > NEW-FILE)`"
                    )
                }
            };
            return Some(format!(
                "The key file {around}, which is a part of the key. If it should not be, {how}."
            ));
        }
        let other = doubt.encoding()?;
        // The conversion of standard input, or of a part of a file, begins with the user's own command.
        if is_stdin || !is_whole {
            return Some(other);
        }
        let Some((from, to)) = doubt.conversion() else {
            return Some(other);
        };
        Some(format!(
            "{other} `(umask 077; iconv -f {from} -t {to} {path} > NEW-FILE)` converts it to {to}."
        ))
    }
}

/// Returns the number of a descriptor that the command line does not use. Shells redirect those below 10.
fn free_descriptor() -> u32 {
    let words: Vec<_> = env::args_os().skip(1).collect();
    let is_used = |number: &str| {
        let mut words = words.iter().map(|word| word.to_string_lossy());
        words.any(|word| word.rsplit('=').next() == Some(number))
    };
    let mut numbers = 3..=9;
    numbers
        .find(|number| !is_used(&number.to_string()))
        .unwrap_or(3)
}

/// What may be wrong with a line of text as a secret. Only its ends and its encoding are looked at, so
/// that messages tell nothing else of it.
struct Doubt {
    /// Whether it begins with the byte-order mark of UTF-8.
    has_mark: bool,
    /// The carriage returns and newlines at its end.
    end: Vec<u8>,
    is_ascii: bool,
    is_utf8: bool,
    /// Whether Latin-1 has all its characters.
    is_latin1: bool,
}

impl Doubt {
    /// Looks at a secret. Returns `None` unless it is one line of text, in UTF-8 or Latin-1.
    fn examine(secret: &[u8]) -> Option<Self> {
        let text = secret.strip_prefix(b"\xef\xbb\xbf");
        let (has_mark, text) = (text.is_some(), text.unwrap_or(secret));
        let is_end = |byte: &&u8| matches!(byte, b'\r' | b'\n');
        let end = text.iter().rev().take_while(is_end).count();
        let (line, end) = text.split_at(text.len() - end);
        let utf8 = str::from_utf8(line);
        let is_line = match utf8 {
            Ok(line) => !line.chars().any(char::is_control),
            // The control characters of Latin-1 are these and those of ASCII.
            Err(_) => !line
                .iter()
                .any(|byte| byte.is_ascii_control() || (0x80..0xa0).contains(byte)),
        };
        (is_line && !line.is_empty() && end.len() <= 4).then(|| Self {
            has_mark,
            end: end.to_owned(),
            is_ascii: line.is_ascii(),
            is_utf8: utf8.is_ok(),
            is_latin1: utf8.is_ok_and(|line| line.chars().all(|c| c <= '\u{ff}')),
        })
    }

    /// Returns what is around the line.
    fn around(&self) -> Option<String> {
        let end = match &*self.end {
            [] => None,
            b"\n" => Some("ends with a newline"),
            b"\r" => Some("ends with a carriage return"),
            b"\r\n" => Some("ends with a carriage return and a newline"),
            _ => Some("ends with several newlines"),
        };
        let mark = self
            .has_mark
            .then_some("begins with a byte-order mark of UTF-8");
        match (mark, end) {
            (Some(mark), Some(end)) => Some(format!("{mark} and {end}")),
            (mark, end) => Some(mark.or(end)?.to_owned()),
        }
    }

    fn has_only_newline(&self) -> bool {
        !self.has_mark && self.end == b"\n"
    }

    /// Returns what is to be known of the encoding of the line.
    fn encoding(&self) -> Option<String> {
        let text = match (self.is_ascii, self.is_utf8) {
            (true, _) => return None,
            (false, true) => {
                "It has characters outside ASCII, for which systems have several encodings (such as Unicode \
                 NFC and NFD, and Latin-1). Enter it as on the system on which it was set."
            }
            (false, false) => {
                "It is not in UTF-8, but perhaps in Latin-1. Enter it as on the system on which it was set."
            }
        };
        Some(text.to_owned())
    }

    /// Returns the names of its encoding and of the other one, unless that one lacks a character.
    fn conversion(&self) -> Option<(&'static str, &'static str)> {
        match (self.is_utf8, self.is_latin1) {
            (false, _) => Some(("ISO-8859-1", "UTF-8")),
            (true, true) => Some(("UTF-8", "ISO-8859-1")),
            (true, false) => None,
        }
    }

    /// Returns what the user can do about a typed secret, or a line of a descriptor.
    fn of_typed(&self) -> Option<String> {
        match self.around() {
            Some(around) => Some(format!(
                "The passphrase {around}, which is a part of it. If it should not be, take it out."
            )),
            None => self.encoding(),
        }
    }
}

impl Descriptor {
    /// Reads one line, and no byte after its newline. Returns it without the newline.
    ///
    /// # Errors
    /// Fails when there is no line, and when it cannot be read or is too long.
    fn line(&self) -> Result<SecretBytes> {
        self.next_line()?.ok_or_else(|| {
            let name = Self::name(self.number);
            Error::failure(format!(
                "{name} has no passphrase: it is empty or at its end"
            ))
        })
    }

    /// As [`Descriptor::line`], but returns `None` at the end.
    fn next_line(&self) -> Result<Option<SecretBytes>> {
        let mut file = &self.file;
        let read = first_byte(&mut file).and_then(|first| {
            let Some(first) = first else {
                return Ok(None);
            };
            let mut all = first.expose().chain(file);
            read_secret(&mut all, Some(b'\n'), KeyFile::MAX).map(Some)
        });
        match read {
            Err(error) => Err(Self::error(self.number, &error)),
            Ok(Some(None)) => Err(Error::failure(format!(
                "a line of {} is longer than {} bytes (8 MiB)",
                Self::name(self.number),
                KeyFile::MAX
            ))),
            Ok(Some(Some(secret))) => Ok(Some(secret)),
            Ok(None) => Ok(None),
        }
    }

    fn error(number: i32, error: &io::Error) -> Error {
        let name = Self::name(number);
        Error::io(format!("cannot read the passphrase from {name}"), error)
    }

    fn name(number: i32) -> String {
        match number {
            STDIN => "standard input".into(),
            number => format!("file descriptor {number}"),
        }
    }
}

/// Opens the controlling terminal. `names` are the options that work without one.
fn terminal_for(names: &SecretArgNames) -> Result<File> {
    terminal().map_err(|error| {
        let (key_file, descriptor) = (names.key_file, names.descriptor);
        Error::io("there is no terminal for the passphrase", &error).hint(format!(
            "Give the secret with {key_file} FILE or {descriptor} N (0 is standard input)."
        ))
    })
}

/// A new passphrase with fewer characters than this is weak. NIST SP 800-63B (5.1.1.2) sets this limit for
/// passphrases that users choose. It is also where trying all of them becomes expensive: with Argon2id as
/// Luxor sets it by default, a guess takes a computer 2 seconds. A thousand computers try all
/// passphrases of 7 lower-case letters in half a year, and those of 8 in 13 years.
const SHORT: usize = 8;

/// Returns a warning about a new passphrase that is weak.
fn weakness(secret: &SecretBytes) -> Option<String> {
    // Of UTF-8 all bytes but these begin a character.
    let is_begin = |byte: &&u8| !(0x80..0xc0).contains(*byte);
    let count = secret.expose().iter().filter(is_begin).count();
    let characters = if count == 1 {
        "character"
    } else {
        "characters"
    };
    (1..SHORT).contains(&count).then(|| {
        format!(
            "the passphrase has only {count} {characters}: an attacker who has the volume can find it by trying \
             all passphrases of that length. Use {SHORT} or more, best several random words"
        )
    })
}

/// Asks for a new passphrase until the user has typed it the same twice, at most [`ATTEMPTS`]
/// times. A warning about a short one comes before the repetition, which the user can then type otherwise.
fn new_typed(tty: &File, volume: &Path, console: Console) -> Result<SecretBytes> {
    for attempt in 1.. {
        let first = prompt(tty, &format!("New passphrase for {}: ", shown(volume)))?;
        if let Some(warning) = weakness(&first) {
            console.warn(warning);
        }
        let problem = if first.is_empty() {
            EMPTY
        } else if prompt(tty, "Repeat it: ")?
            .expose()
            .ct_eq(first.expose())
            .into()
        {
            return Ok(first);
        } else {
            "the two passphrases differ"
        };
        if attempt == ATTEMPTS {
            return Err(Error::failure(problem));
        }
        complain(problem);
    }
    unreachable!("the last attempt returns")
}

/// Asks on a terminal, with the echo off.
fn prompt(mut tty: &File, question: &str) -> Result<SecretBytes> {
    let cannot = |error: io::Error| Error::io("cannot ask for the passphrase", &error);
    let line = OpenLine::begin();
    let echo = EchoOff::on(tty, question).map_err(cannot)?;
    tty.write_all(question.as_bytes()).map_err(cannot)?;
    let Some(first) = first_byte(&mut tty).map_err(cannot)? else {
        drop(echo);
        let _ = tty.write_all(b"\n");
        return Err(Error::failure("no passphrase was given"));
    };
    let mut all = first.expose().chain(tty);
    let answer = read_secret(&mut all, Some(b'\n'), TYPED_MAX).map_err(cannot)?;
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

/// Reads one byte, or returns `None` at the end of the input.
fn first_byte(input: &mut impl Read) -> io::Result<Option<SecretBytes>> {
    let mut first = SecretBytes::zeroed(1);
    match input.read_exact(first.expose_mut()) {
        Ok(()) => Ok(Some(first)),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error),
    }
}

fn is_stdin(path: &Path) -> bool {
    path == Path::new("-")
}

/// Refuses two inputs that are one stream: the first one that is read takes the bytes of the other. Each
/// is given with its name on the command line.
///
/// # Errors
/// Fails when two of them are one stream.
pub(crate) fn check_streams(inputs: &[(&str, &Path)]) -> Result<()> {
    for (count, (first, path)) in inputs.iter().enumerate() {
        let mut others = inputs[count + 1..].iter();
        if let Some((second, _)) = others.find(|(_, other)| is_same_stream(path, other)) {
            let stream = shown(path);
            let message = format!("{stream} cannot be both {first} and {second}");
            return Err(Error::failure(message));
        }
    }
    Ok(())
}

/// Whether both paths name one pipe or socket, of which each byte is read once: also under another name,
/// such as `/dev/stdin` for `-`.
fn is_same_stream(a: &Path, b: &Path) -> bool {
    let identity = |path: &Path| {
        let metadata = if is_stdin(path) {
            standard_streams::stdin().and_then(|stdin| stdin.metadata())
        } else {
            fs::metadata(path)
        };
        let metadata = metadata.ok()?;
        let kind = metadata.file_type();
        (kind.is_fifo() || kind.is_socket()).then(|| (metadata.dev(), metadata.ino()))
    };
    let is_same = || identity(a).is_some_and(|stream| identity(b) == Some(stream));
    (is_stdin(a) && is_stdin(b)) || is_same()
}

fn shown(path: &Path) -> String {
    if is_stdin(path) {
        "standard input".into()
    } else {
        path_name(path)
    }
}
