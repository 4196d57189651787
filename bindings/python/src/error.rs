// SPDX-License-Identifier: MIT OR Apache-2.0
//! The library's errors as exceptions, which `python/luxor/_exceptions.py` defines.

use std::error::Error as _;

use luxor::{ErrorClass, VolumeError};
use luxor_engine::{CryptError, CryptErrorKind, KeyError, RunError};
use pyo3::{exceptions::PyValueError, import_exception, prelude::*};

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
    let source = error.source();
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
        (_, Some(VolumeError::Unreadable { .. })) => DamagedError::new_err(args),
        (ErrorClass::NoKey, _) => WrongPassphrase::new_err(args),
        (ErrorClass::OutOfMemory, _) => OutOfMemory::new_err(args),
        (ErrorClass::Missing, _) => MissingError::new_err(args),
        (ErrorClass::Busy, _) => BusyError::new_err(args),
        (ErrorClass::Cancelled, _) => CancelledError::new_err(args),
        _ => Error::new_err(args),
    }
}
