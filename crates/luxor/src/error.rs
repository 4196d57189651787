// SPDX-License-Identifier: MIT OR Apache-2.0
//! Failures: one clear line, a class, and perhaps a hint and the error behind it.

use std::{error, fmt, io};

use luxor_engine::{BackendError, CryptError, SelectError};
use luxor_files::{DataFileError, FileErrorClass, InputError, NotLocked, OutputError, io_words};
use luxor_luks::{NewKeyslotError, NewVolumeError};

use crate::VolumeError;

/// What kind of failure an [`Error`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorClass {
    /// Options that do not fit together, not a volume, damaged metadata, an I/O error.
    Failure,
    /// No usable key.
    NoKey,
    /// Out of memory, or Argon2 needs more than there is.
    OutOfMemory,
    /// The volume or the input does not exist.
    Missing,
    /// The output exists, or something is locked, mounted or in use.
    Busy,
}

impl ErrorClass {
    /// Of a failure for which more memory would help, or not.
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
            _ => Self::Failure,
        }
    }
}

/// Why an operation failed. [`error::Error::source`] is the typed error behind it, where there
/// is one.
#[derive(Debug)]
pub struct Error {
    class: ErrorClass,
    message: String,
    hint: Option<String>,
    source: Option<Box<dyn error::Error + Send + Sync>>,
}

impl Error {
    /// A failure of this class.
    #[must_use]
    pub fn new(class: ErrorClass, message: impl Into<String>) -> Self {
        Self {
            class,
            message: message.into(),
            hint: None,
            source: None,
        }
    }

    /// A failure of the class [`ErrorClass::Failure`].
    #[must_use]
    pub fn failure(message: impl Into<String>) -> Self {
        Self::new(ErrorClass::Failure, message)
    }

    /// A failed input or output operation: `what` is like "cannot read photos.tar".
    #[must_use]
    pub fn io(what: impl fmt::Display, error: &io::Error) -> Self {
        let class = FileErrorClass::from(error).into();
        Self::new(class, format!("{what}: {}", io_words(error)))
    }

    /// A failure that says what `source` says.
    fn of(class: ErrorClass, source: impl error::Error + Send + Sync + 'static) -> Self {
        Self::new(class, source.to_string()).caused_by(source)
    }

    /// As it is, with the typed error behind it.
    pub(crate) fn caused_by(self, source: impl error::Error + Send + Sync + 'static) -> Self {
        Self {
            source: Some(Box::new(source)),
            ..self
        }
    }

    /// As it is, with a second line that says what can be done.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// What happened, without the hint.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// What can be done, if there is something to say.
    #[must_use]
    pub fn hint_text(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// The kind of failure.
    #[must_use]
    pub fn class(&self) -> ErrorClass {
        self.class
    }
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

/// The result of an operation.
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
