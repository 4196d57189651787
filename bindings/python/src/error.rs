// SPDX-License-Identifier: MIT OR Apache-2.0
//! The library's errors as exceptions, which `python/luxor/_exceptions.py` defines, and exceptions
//! of Python's objects on their way through the library.

use std::{error, fmt, io, iter};

use luxor::{ErrorClass, VolumeError};
use luxor_engine::{CryptError, CryptErrorKind, KeyError, RunError};
use pyo3::{
    exceptions::{PyException, PyValueError},
    import_exception,
    prelude::*,
};

import_exception!(luxor._exceptions, BusyError);
import_exception!(luxor._exceptions, CancelledError);
import_exception!(luxor._exceptions, DamagedError);
import_exception!(luxor._exceptions, Error);
import_exception!(luxor._exceptions, KeyLostInFork);
import_exception!(luxor._exceptions, MissingError);
import_exception!(luxor._exceptions, NotAVolume);
import_exception!(luxor._exceptions, OutOfMemory);
import_exception!(luxor._exceptions, VolumeWarning);
import_exception!(luxor._exceptions, WrongPassphrase);

/// Returns the exception for an error of the library. The hint, if there is one, is its second
/// argument.
pub(crate) fn exception(error: &luxor::Error) -> PyErr {
    let args = (
        error.message().to_owned(),
        error.hint_text().map(str::to_owned),
    );
    let source = error::Error::source(error);
    let is = |wanted: fn(&CryptErrorKind) -> bool| {
        let error = source.and_then(|source| source.downcast_ref::<CryptError>());
        error.is_some_and(|error| wanted(&error.kind))
    };
    if source.is_some_and(|source| source.is::<KeyError>() || source.is::<RunError>())
        || is(|kind| matches!(kind, CryptErrorKind::UnitLen { .. }))
    {
        return PyValueError::new_err(args.0);
    }
    if is(|kind| matches!(kind, CryptErrorKind::KeyLostInFork)) {
        return KeyLostInFork::new_err(args);
    }
    match (error.class(), source.and_then(|e| e.downcast_ref())) {
        (_, Some(VolumeError::Unreadable { source, .. })) if source.is_not_luks() => {
            NotAVolume::new_err(args)
        }
        (_, Some(VolumeError::NotAVolume { .. })) => NotAVolume::new_err(args),
        (_, Some(VolumeError::Unreadable { source, .. })) if source.is_damage() => {
            DamagedError::new_err(args)
        }
        (ErrorClass::NoKey, _) => WrongPassphrase::new_err(args),
        (ErrorClass::OutOfMemory, _) => OutOfMemory::new_err(args),
        (ErrorClass::Missing, _) => MissingError::new_err(args),
        (ErrorClass::Busy, _) => BusyError::new_err(args),
        (ErrorClass::Cancelled, _) => CancelledError::new_err(args),
        _ => Error::new_err(args),
    }
}

/// Returns the exception for a key that was loaded in the process of which this one is a fork.
pub(crate) fn key_lost_in_fork() -> PyErr {
    KeyLostInFork::new_err(CryptErrorKind::KeyLostInFork.to_string())
}

/// Returns the result of an operation. An error of the library is raised as caused by what an
/// object of Python raised.
pub(crate) fn outcome<T>(py: Python<'_>, result: luxor::Result<T>) -> PyResult<T> {
    result.map_err(|error| caused_by(py, exception(&error), raised(&error)))
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
        _ => io::Error::new(error.kind(), error.to_string()).into(),
    };
    caused_by(py, exception, raised(error))
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
