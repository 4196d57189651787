// SPDX-License-Identifier: MIT OR Apache-2.0
//! The library's errors as exceptions, which `python/luxor/_exceptions.py` defines, and exceptions
//! of Python's objects on their way through the library.

use std::{error, fmt, io, iter, path::Path};

use luxor::{
    ErrorClass, OpenError, PlainError,
    engine::{CryptError, CryptErrorKind, KeyError, RunError},
    files::io_words,
    raw_os_error,
    volume::HeaderErrorKind,
};
use nix::libc;
use pyo3::{
    PyErrArguments,
    exceptions::{PyException, PyOSError, PyValueError},
    import_exception,
    prelude::*,
    types::{PyType, PyTypeMethods},
};

use crate::advice;

import_exception!(luxor._exceptions, BusyError);
import_exception!(luxor._exceptions, CancelledError);
import_exception!(luxor._exceptions, DamagedError);
import_exception!(luxor._exceptions, Error);
import_exception!(luxor._exceptions, ExistsError);
import_exception!(luxor._exceptions, FileError);
import_exception!(luxor._exceptions, FolderError);
import_exception!(luxor._exceptions, KeyLostInFork);
import_exception!(luxor._exceptions, MissingError);
import_exception!(luxor._exceptions, NameTooLong);
import_exception!(luxor._exceptions, NotAVolume);
import_exception!(luxor._exceptions, OutOfMemory);
import_exception!(luxor._exceptions, PermissionDenied);
import_exception!(luxor._exceptions, VolumeWarning);
import_exception!(luxor._exceptions, WrongPassphrase);

/// Returns the exception for an error of the library. The hint, if there is one, is its second
/// argument.
pub(crate) fn exception(error: &luxor::Error) -> PyErr {
    exception_of(error, error.raw_os_error())
}

/// As [`exception`], with the number of the system's error.
fn exception_of(error: &luxor::Error, number: Option<i32>) -> PyErr {
    let hint = error.hint_text().map(str::to_owned);
    let args = (
        error.message().to_owned(),
        hint.or_else(|| advice::of(error)),
    );
    let source = error::Error::source(error);
    let is = |wanted: fn(&CryptErrorKind) -> bool| {
        let error = error.find::<CryptError>();
        error.is_some_and(|error| wanted(&error.kind))
    };
    let is_wrong_key = matches!(
        error.find(),
        Some(PlainError::KeyLen { .. } | PlainError::Key { .. })
    );
    if source.is_some_and(|source| source.is::<KeyError>() || source.is::<RunError>())
        || is_wrong_key
        || is(|kind| matches!(kind, CryptErrorKind::UnitLen { .. }))
    {
        return PyValueError::new_err(args.0);
    }
    if is(|kind| matches!(kind, CryptErrorKind::KeyLostInFork)) {
        return KeyLostInFork::new_err(args);
    }
    match (error.class(), error.find()) {
        (_, Some(OpenError::Unreadable { source, .. }))
            if source.kind == HeaderErrorKind::OtherFormat =>
        {
            NotAVolume::new_err(args)
        }
        (_, Some(OpenError::NotAVolume { .. } | OpenError::EncryptionPrepared { .. })) => {
            NotAVolume::new_err(args)
        }
        (_, Some(OpenError::EncryptionInterrupted { .. })) => DamagedError::new_err(args),
        (_, Some(OpenError::Unreadable { source, .. }))
            if source.kind == HeaderErrorKind::Damaged =>
        {
            DamagedError::new_err(args)
        }
        (ErrorClass::NoKey, _) => WrongPassphrase::new_err(args),
        (ErrorClass::OutOfMemory, _) => OutOfMemory::new_err(args),
        (ErrorClass::Cancelled, _) => CancelledError::new_err(args),
        (class, _) => {
            let (message, hint) = args;
            let args = (message, hint, number, error.path().map(Path::to_owned));
            match (class, number) {
                (ErrorClass::Missing, _) | (_, Some(libc::ENOENT)) => MissingError::new_err(args),
                (_, Some(libc::EEXIST)) => ExistsError::new_err(args),
                (ErrorClass::Busy, _) => BusyError::new_err((args.0, args.1)),
                (_, Some(libc::EACCES | libc::EPERM)) => PermissionDenied::new_err(args),
                (_, Some(libc::EISDIR)) => FolderError::new_err(args),
                (_, Some(libc::ENAMETOOLONG)) => NameTooLong::new_err(args),
                (_, Some(_)) => FileError::new_err(args),
                (_, None) => Error::new_err((args.0, args.1)),
            }
        }
    }
}

/// Returns the exception for a key that was loaded in the process of which this one is a fork.
pub(crate) fn key_lost_in_fork() -> PyErr {
    KeyLostInFork::new_err(CryptErrorKind::KeyLostInFork.to_string())
}

/// Returns the result of an operation. An error of the library is raised as caused by what an
/// object of Python raised.
pub(crate) fn outcome<T>(py: Python<'_>, result: luxor::Result<T>) -> PyResult<T> {
    result.map_err(|error| {
        let number = number_of(py, &error);
        caused_by(py, exception_of(&error, number), raised(&error))
    })
}

/// Returns the exception for an error of a disk: `OSError`, caused by what the object that holds
/// the volume raised.
pub(crate) fn disk_exception(py: Python<'_>, error: &io::Error) -> PyErr {
    let inner = error.get_ref().and_then(|error| error.downcast_ref());
    let exception = match inner {
        Some(CryptError {
            kind: CryptErrorKind::KeyLostInFork,
            ..
        }) => KeyLostInFork::new_err(error.to_string()),
        _ => match (number_of(py, error), raised(error)) {
            (Some(number), Some(raised)) => {
                let words = raised.value(py).getattr("strerror");
                let words = words.and_then(|words| words.extract::<String>());
                let words = words.unwrap_or_else(|_| error.to_string());
                like_raised(py, raised, (number, words))
            }
            (Some(number), None) => PyOSError::new_err((number, io_words(error))),
            (None, Some(raised)) => like_raised(py, raised, (error.to_string(),)),
            (None, None) => io::Error::new(error.kind(), error.to_string()).into(),
        },
    };
    caused_by(py, exception, raised(error))
}

/// Returns the exception for an error of a storage or a device, which an operation met. `what` is text such
/// as "cannot read photos".
pub(crate) fn transfer_exception(py: Python<'_>, what: &str, error: &io::Error) -> PyErr {
    let exception = exception_of(&luxor::Error::io(what, error), number_of(py, error));
    caused_by(py, exception, raised(error))
}

/// Returns an `OSError`, of Python's class for what was raised if that is one, such as `TimeoutError`.
fn like_raised<A>(py: Python<'_>, raised: &PyErr, args: A) -> PyErr
where
    A: PyErrArguments + Send + Sync + 'static,
{
    let is_builtin = |class: &Bound<'_, PyType>| {
        let is_error = class.is_subclass_of::<PyOSError>();
        is_error.unwrap_or(false) && class.module().is_ok_and(|module| module == "builtins")
    };
    let classes = raised.get_type(py).mro();
    let classes = classes
        .iter()
        .filter_map(|class| class.cast_into::<PyType>().ok());
    let class = classes.into_iter().find(is_builtin);
    PyErr::from_type(class.unwrap_or_else(|| py.get_type::<PyOSError>()), args)
}

/// Returns the `errno` of the `OSError` that caused `error`, or else the number of the system's error.
fn number_of(py: Python<'_>, error: &(dyn error::Error + 'static)) -> Option<i32> {
    let number = raised(error).and_then(|raised| {
        let raised = raised.value(py).cast::<PyOSError>().ok()?;
        raised.getattr("errno").ok()?.extract().ok()
    });
    number.or_else(|| raw_os_error(error))
}

/// What an object of Python raised, within the error of the storage or stream that the object is.
#[derive(Debug)]
pub(crate) struct Raised {
    exception: PyErr,
    text: String,
}

impl Raised {
    pub(crate) fn new(py: Python<'_>, exception: PyErr) -> Self {
        let text = exception.value(py).to_string();
        let name = exception.get_type(py).name().map(|name| name.to_string());
        let name = name.unwrap_or_default();
        let text = if text.is_empty() {
            name
        } else {
            format!("{name}: {text}")
        };
        Self { exception, text }
    }
}

impl fmt::Display for Raised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl error::Error for Raised {
    /// The exception. It is also the source of an `io::Error` around this, so [`raised`] finds it
    /// without knowing that error.
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        Some(&self.exception)
    }
}

/// Returns what an object of Python raised, if that caused `error`.
fn raised<'a>(error: &'a (dyn error::Error + 'static)) -> Option<&'a PyErr> {
    iter::successors(Some(error), |error| error.source()).find_map(|error| error.downcast_ref())
}

/// Returns `exception` as caused by `raised`. What ends the program, such as `KeyboardInterrupt`,
/// takes its place.
fn caused_by(py: Python<'_>, exception: PyErr, raised: Option<&PyErr>) -> PyErr {
    let Some(raised) = raised.map(|raised| raised.clone_ref(py)) else {
        return exception;
    };
    if ends_program(py, &raised) {
        return raised;
    }
    exception.set_cause(py, Some(raised));
    exception
}

/// Whether this is no `Exception`, but `KeyboardInterrupt`, `SystemExit` or the like.
pub(crate) fn ends_program(py: Python<'_>, exception: &PyErr) -> bool {
    !exception.is_instance_of::<PyException>(py)
}

/// Returns what a method of an object has returned, or `None` if it has failed. What ends the program
/// is no failure.
pub(crate) fn unless_it_fails<T>(py: Python<'_>, result: PyResult<T>) -> PyResult<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(exception) if ends_program(py, &exception) => Err(exception),
        Err(_) => Ok(None),
    }
}
