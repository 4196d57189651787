// SPDX-License-Identifier: MIT OR Apache-2.0
//! The error of every operation: a message of one line, a class, and the typed error that caused it.
//!
//! Each operation has an enum of its own, such as [`OpenError`](crate::OpenError) or
//! [`ResizeError`](crate::ResizeError). Their texts say what is wrong with a volume, a file or a value, and
//! never what to type: each frontend turns the variants into advice in its own words.

use std::{error, fmt, io, iter, path::Path, sync::Arc};

use luxor_engine::{BackendError, CryptError, KeyError, RunError, SelectError};
use luxor_files::{DataFileError, FileErrorClass, InputError, NotLocked, OutputError, io_words};
use luxor_luks::{
    BackupError, ChangeError, ConvertError, FileLengthError, HeaderRepairError, NewKeyslotError,
    NewVolumeError, ReadError, ReencryptionError, RestoreError, SegmentError, UnlockError,
};
use luxor_sector::{DiskError, RawError, pipeline::PipelineError, rewrite::RewriteError};
use luxor_volume::{DrawError, ExtentError};
use nix::libc;

/// The class of an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorClass {
    /// Options that contradict each other, a file that is not a volume, damaged metadata, an I/O
    /// error. [`Error::find`] tells these apart.
    Failure,
    /// A wrong secret, or no keyslot that can be tried.
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

/// Why an operation failed: a message, which `Display` prints, and a class.
///
/// [`error::Error::source`] is the typed error of the operation, such as
/// [`OpenError`](crate::OpenError), [`ReencryptError`](crate::ReencryptError) or
/// [`luxor_luks::UnlockError`], unless the system failed or the caller cancelled. Its text is already part
/// of the message. [`Error::find`] searches the sources for a type:
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let photos = folder.path().join("photos.tar");
/// # std::fs::write(&photos, b"some photos")?;
/// use luxor::{ErrorClass, OpenError};
///
/// let error = luxor::open(&photos).unwrap_err();
/// assert_eq!(error.class(), ErrorClass::Failure);
/// assert!(matches!(error.find(), Some(OpenError::NotAVolume { .. })));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// There is no conversion from [`io::Error`]: [`Error::io`] adds what the program was doing.
#[derive(Debug)]
pub struct Error {
    class: ErrorClass,
    message: String,
    hint: Option<String>,
    /// The number of an error of the system that is not the source.
    os_error: Option<i32>,
    source: Option<Box<dyn error::Error + Send + Sync>>,
}

/// A typed error that an [`Error`] can have as its source.
pub(crate) trait Cause: error::Error + Send + Sync + Sized + 'static {
    fn class(&self) -> ErrorClass {
        ErrorClass::Failure
    }

    /// Returns the error about the file or volume called `name`.
    fn about(self, name: &str) -> Error {
        let message = format!("{name}: {self}");
        self.with_message(message)
    }

    /// Returns the error with another message than that of `self`.
    fn with_message(self, message: String) -> Error {
        Error::new(self.class(), message).caused_by(self)
    }
}

impl<E: Cause> From<E> for Error {
    fn from(cause: E) -> Self {
        let message = cause.to_string();
        cause.with_message(message)
    }
}

impl Error {
    /// Makes an error of this class that has no source, for a frontend's own checks.
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

    /// Makes an error of the class [`ErrorClass::Failure`], as [`Error::new`] does.
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

    /// Adds the underlying typed error.
    pub(crate) fn caused_by(self, source: impl error::Error + Send + Sync + 'static) -> Self {
        Self {
            source: Some(Box::new(source)),
            ..self
        }
    }

    /// Returns the first error of type `T` among the sources.
    #[must_use]
    pub fn find<T: error::Error + 'static>(&self) -> Option<&T> {
        sources(self).find_map(|error| error.downcast_ref())
    }

    /// Adds a hint: a sentence that says what the user of a frontend can do. The library never adds one.
    /// [`Error::hint_text`] returns it; `Display` does not print it.
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

/// Implements [`Cause`] for errors of the crates below.
macro_rules! causes {
    ($($error:ty $(=> |$this:ident| $class:expr)?),+ $(,)?) => {
        $(impl Cause for $error {
            $(fn class(&self) -> ErrorClass {
                let $this = self;
                $class
            })?
        })+
    };
}

causes! {
    BackendError,
    BackupError,
    ChangeError => |error| of_change(error),
    ConvertError => |error| match error {
        Self::Change(error) => of_change(error),
        _ => ErrorClass::Failure,
    },
    CryptError,
    DataFileError => |error| DataFileError::class(error).into(),
    DiskError,
    DrawError,
    ExtentError,
    FileLengthError,
    HeaderRepairError,
    InputError => |error| InputError::class(error).into(),
    KeyError,
    NewKeyslotError => |error| ErrorClass::of_memory(error.is_out_of_memory()),
    NewVolumeError => |error| ErrorClass::of_memory(error.is_out_of_memory()),
    NotLocked => |error| NotLocked::class(error).into(),
    PipelineError => |error| match error {
        Self::Memory => ErrorClass::OutOfMemory,
        Self::Cancelled => ErrorClass::Cancelled,
        _ => ErrorClass::Failure,
    },
    RawError => |error| ErrorClass::of_memory(matches!(error, Self::Memory { .. })),
    ReadError,
    ReencryptionError,
    RestoreError,
    RewriteError,
    RunError,
    SegmentError,
    SelectError,
    UnlockError,
}

/// The metadata that another program has changed are in use.
fn of_change(error: &ChangeError) -> ErrorClass {
    match error {
        ChangeError::ChangedMeanwhile => ErrorClass::Busy,
        _ => ErrorClass::Failure,
    }
}

impl From<OutputError> for Error {
    fn from(error: OutputError) -> Self {
        match error {
            OutputError::NotLocked(error) => error.into(),
            error => {
                let message = error.to_string();
                Self::new(error.class().into(), message).caused_by(error)
            }
        }
    }
}
