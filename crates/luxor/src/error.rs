// SPDX-License-Identifier: MIT OR Apache-2.0
//! Errors: a message of one line, a class, and optionally a hint and the underlying error.

use std::{error, fmt, io, iter, path::Path, sync::Arc};

use luxor_engine::{BackendError, CryptError, KeyError, RunError, SelectError};
use luxor_files::{DataFileError, FileErrorClass, InputError, NotLocked, OutputError, io_words};
use luxor_luks::{NewKeyslotError, NewVolumeError};
use nix::libc;

use crate::VolumeError;

/// The class of an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorClass {
    /// Options that contradict each other, a file that is not a volume, damaged metadata, an I/O
    /// error.
    Failure,
    /// No usable key.
    NoKey,
    /// Out of memory, or Argon2 needs more memory than there is.
    OutOfMemory,
    /// The volume or the input does not exist.
    Missing,
    /// The output exists, or something is locked, mounted or in use.
    Busy,
    /// The caller set [`Context::cancel`](crate::Context::cancel).
    Cancelled,
}

impl ErrorClass {
    /// Returns `OutOfMemory` or `Failure`.
    pub(crate) fn of_memory(is_out_of_memory: bool) -> Self {
        if is_out_of_memory {
            Self::OutOfMemory
        } else {
            Self::Failure
        }
    }
}

impl From<FileErrorClass> for ErrorClass {
    fn from(class: FileErrorClass) -> Self {
        match class {
            FileErrorClass::Missing => Self::Missing,
            FileErrorClass::Busy => Self::Busy,
            FileErrorClass::OutOfMemory => Self::OutOfMemory,
            FileErrorClass::Cancelled => Self::Cancelled,
            _ => Self::Failure,
        }
    }
}

/// Why an operation failed: a message, which `Display` prints, a class, and sometimes a hint.
///
/// [`error::Error::source`] is the underlying typed error, such as [`VolumeError`] or
/// [`luxor_luks::UnlockError`], if there is one. Its text is already part of the message.
#[derive(Debug)]
pub struct Error {
    class: ErrorClass,
    message: String,
    hint: Option<String>,
    /// The number of an error of the system that is not the source.
    os_error: Option<i32>,
    source: Option<Box<dyn error::Error + Send + Sync>>,
}

impl Error {
    /// Makes an error of this class.
    #[must_use]
    pub fn new(class: ErrorClass, message: impl Into<String>) -> Self {
        Self {
            class,
            message: message.into(),
            hint: None,
            os_error: None,
            source: None,
        }
    }

    /// Makes an error of the class [`ErrorClass::Failure`].
    #[must_use]
    pub fn failure(message: impl Into<String>) -> Self {
        Self::new(ErrorClass::Failure, message)
    }

    /// Makes an error for a failed input or output operation. `what` is text such as "cannot read
    /// photos.tar"; the system's message follows. The class is [`ErrorClass::OutOfMemory`] if the
    /// system is out of memory, otherwise [`ErrorClass::Failure`]. `error` is not kept as the
    /// source, except its number ([`Error::raw_os_error`]).
    #[must_use]
    pub fn io(what: impl fmt::Display, error: &io::Error) -> Self {
        let class = FileErrorClass::from(error).into();
        Self {
            os_error: raw_os_error(error),
            ..Self::new(class, format!("{what}: {}", io_words(error)))
        }
    }

    /// Makes an error with the message of `source`.
    fn of(class: ErrorClass, source: impl error::Error + Send + Sync + 'static) -> Self {
        Self::new(class, source.to_string()).caused_by(source)
    }

    /// Adds the underlying typed error.
    pub(crate) fn caused_by(self, source: impl error::Error + Send + Sync + 'static) -> Self {
        self.caused_by_boxed(Box::new(source))
    }

    /// Adds the underlying typed error of a format.
    pub(crate) fn caused_by_boxed(self, source: Box<dyn error::Error + Send + Sync>) -> Self {
        Self {
            source: Some(source),
            ..self
        }
    }

    /// Adds a hint: a sentence that says what the user can do. [`Error::hint_text`] returns it;
    /// `Display` does not print it.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The message, without the hint.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The hint, if there is one.
    #[must_use]
    pub fn hint_text(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// The class of the error.
    #[must_use]
    pub fn class(&self) -> ErrorClass {
        self.class
    }

    /// The number of the system's error (`errno`), if the system failed: [`raw_os_error`]. A file
    /// that exists or is missing has the number of the system, too.
    #[must_use]
    pub fn raw_os_error(&self) -> Option<i32> {
        raw_os_error(self)
    }

    /// The file that could not be opened, as the caller named it, if that failed.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        sources(self).find_map(|error| {
            let input = || Some(error.downcast_ref::<InputError>()?.path());
            let output = || Some(error.downcast_ref::<OutputError>()?.path());
            let data = || error.downcast_ref::<DataFileError>()?.path();
            input().or_else(output).or_else(data)
        })
    }
}

/// Returns the number of the system's error (`errno`) that caused `error`, if one did: of `error` itself
/// or of one of its [sources](error::Error::source).
#[must_use]
pub fn raw_os_error(error: &(dyn error::Error + 'static)) -> Option<i32> {
    sources(error).find_map(|error| {
        let shared = error.downcast_ref::<Arc<io::Error>>().map(|error| &**error);
        if let Some(error) = error.downcast_ref::<io::Error>().or(shared) {
            // Its source is that of the error in it.
            let inner = || raw_os_error(error.get_ref()?);
            let kind = || match error.kind() {
                io::ErrorKind::StorageFull => Some(libc::ENOSPC),
                io::ErrorKind::FileTooLarge => Some(libc::EFBIG),
                _ => None,
            };
            return error.raw_os_error().or_else(inner).or_else(kind);
        }
        if let Some(error) = error.downcast_ref::<Error>() {
            return error.os_error;
        }
        match error.downcast_ref() {
            Some(InputError::Missing { .. }) => return Some(libc::ENOENT),
            Some(InputError::Folder { .. }) => return Some(libc::EISDIR),
            _ => {}
        }
        match error.downcast_ref() {
            Some(OutputError::Exists { .. } | OutputError::OneOfTwo { .. }) => {
                return Some(libc::EEXIST);
            }
            Some(OutputError::MissingFolder { .. }) => return Some(libc::ENOENT),
            Some(OutputError::Folder { .. }) => return Some(libc::EISDIR),
            _ => {}
        }
        match error.downcast_ref() {
            Some(DataFileError::Missing { .. }) => Some(libc::ENOENT),
            Some(DataFileError::Folder { .. }) => Some(libc::EISDIR),
            _ => None,
        }
    })
}

/// Returns `error` and its sources.
fn sources<'a>(
    error: &'a (dyn error::Error + 'static),
) -> impl Iterator<Item = &'a (dyn error::Error + 'static)> {
    iter::successors(Some(error), |error| error.source())
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl error::Error for Error {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        Some(self.source.as_deref()? as _)
    }
}

/// The result of an operation: `std::result::Result` with [`Error`] as the default error type.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl From<InputError> for Error {
    fn from(error: InputError) -> Self {
        Self::of(error.class().into(), error)
    }
}

impl From<OutputError> for Error {
    fn from(error: OutputError) -> Self {
        match error {
            OutputError::NotLocked(error) => error.into(),
            error => Self::of(error.class().into(), error),
        }
    }
}

impl From<DataFileError> for Error {
    fn from(error: DataFileError) -> Self {
        Self::of(error.class().into(), error)
    }
}

impl From<NotLocked> for Error {
    fn from(error: NotLocked) -> Self {
        Self::of(error.class().into(), error)
    }
}

impl From<VolumeError> for Error {
    fn from(error: VolumeError) -> Self {
        let class = match error {
            VolumeError::UnknownSize { .. } => ErrorClass::Missing,
            _ => ErrorClass::Failure,
        };
        Self::of(class, error)
    }
}

impl From<NewVolumeError> for Error {
    fn from(error: NewVolumeError) -> Self {
        Self::of(ErrorClass::of_memory(error.is_out_of_memory()), error)
    }
}

impl From<NewKeyslotError> for Error {
    fn from(error: NewKeyslotError) -> Self {
        Self::of(ErrorClass::of_memory(error.is_out_of_memory()), error)
    }
}

impl From<SelectError> for Error {
    fn from(error: SelectError) -> Self {
        Self::of(ErrorClass::Failure, error)
    }
}

impl From<BackendError> for Error {
    fn from(error: BackendError) -> Self {
        Self::of(ErrorClass::Failure, error)
    }
}

impl From<CryptError> for Error {
    fn from(error: CryptError) -> Self {
        Self::of(ErrorClass::Failure, error)
    }
}

impl From<KeyError> for Error {
    fn from(error: KeyError) -> Self {
        Self::of(ErrorClass::Failure, error)
    }
}

impl From<RunError> for Error {
    fn from(error: RunError) -> Self {
        Self::of(ErrorClass::Failure, error)
    }
}
