// SPDX-License-Identifier: MIT OR Apache-2.0
//! Errors as codes with a message, and the frame around the body of every function.

use std::{
    any::Any,
    error::Error as _,
    ffi::{CStr, CString, c_char},
    panic::{AssertUnwindSafe, catch_unwind},
    ptr,
};

use luxor::{
    Contents, ErrorClass, OpenError, PlainError,
    engine::{BackendError, CryptError, CryptErrorKind, KeyError, RunError},
    luks::UnlockError,
};

use crate::handle::{self, Handle};

/// What a function returns: `LUXOR_OK`, or the class of the error. Later versions may add classes.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(
    clippy::enum_variant_names,
    clippy::upper_case_acronyms,
    reason = "the names of C have a prefix"
)]
pub enum luxor_code {
    /// Success.
    LUXOR_OK = 0,
    /// The file is not a volume, its metadata are damaged, an engine is not available, input or
    /// output failed, or another failure that has no class of its own.
    LUXOR_FAILURE = 1,
    /// No keyslot accepts the secret, or the volume has another volume key.
    LUXOR_NO_KEY = 2,
    /// The system has too little memory, or less than the volume's Argon2 needs.
    LUXOR_OUT_OF_MEMORY = 3,
    /// The file does not exist.
    LUXOR_MISSING = 4,
    /// The file is locked, mounted or in use.
    LUXOR_BUSY = 5,
    /// The operation was cancelled. No function of this version returns this code.
    LUXOR_CANCELLED = 6,
    /// An argument is invalid: NULL, a wrong length, overlapping buffers, an XTS key of the wrong
    /// size or with equal halves, a range beyond the end of the volume. Or the volume is in the wrong
    /// state: not unlocked, unlocked already, or open for reading only. Nothing was done.
    LUXOR_INVALID_ARGUMENT = 7,
    /// This process is a fork of the process that made the handle, and the system wiped its keys.
    LUXOR_KEY_LOST_IN_FORK = 8,
    /// An error in Luxor. Please report it with its message.
    LUXOR_INTERNAL = 9,
}

use luxor_code::*;

/// Why a function failed. Free it with `luxor_error_free`.
pub struct luxor_error;

impl Handle for luxor_error {
    type Value = Error;
}

/// What is behind a [`luxor_error`].
pub(crate) struct Error {
    code: luxor_code,
    message: CString,
    hint: Option<CString>,
    units_done: usize,
}

impl Error {
    pub(crate) fn new(code: luxor_code, message: &str) -> Self {
        Self {
            code,
            message: handle::c_text(message),
            hint: None,
            units_done: 0,
        }
    }

    pub(crate) fn invalid(message: impl AsRef<str>) -> Self {
        Self::new(LUXOR_INVALID_ARGUMENT, message.as_ref())
    }

    /// The error for an argument that must not be NULL.
    pub(crate) fn is_null(name: &str) -> Self {
        Self::invalid(format!("{name} is NULL"))
    }

    fn of_panic(panic: &(dyn Any + Send)) -> Self {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        let text = text.unwrap_or("a panic without a message");
        Self::new(LUXOR_INTERNAL, &format!("internal error: {text}"))
    }
}

impl From<luxor::Error> for Error {
    fn from(error: luxor::Error) -> Self {
        let source = error.source();
        let crypt = error.find::<CryptError>();
        let is_lost = matches!(error.find(), Some(BackendError::KeyLostInFork))
            || crypt.is_some_and(|crypt| crypt.kind == CryptErrorKind::KeyLostInFork);
        let is_invalid = source
            .is_some_and(|source| source.is::<KeyError>() || source.is::<RunError>())
            || matches!(
                error.find(),
                Some(PlainError::KeyLen { .. } | PlainError::Key { .. })
            )
            || crypt.is_some_and(|crypt| matches!(crypt.kind, CryptErrorKind::UnitLen { .. }));
        let code = match error.class() {
            _ if is_lost => LUXOR_KEY_LOST_IN_FORK,
            _ if is_invalid => LUXOR_INVALID_ARGUMENT,
            ErrorClass::NoKey => LUXOR_NO_KEY,
            ErrorClass::OutOfMemory => LUXOR_OUT_OF_MEMORY,
            ErrorClass::Missing => LUXOR_MISSING,
            ErrorClass::Busy => LUXOR_BUSY,
            ErrorClass::Cancelled => LUXOR_CANCELLED,
            _ => LUXOR_FAILURE,
        };
        Self {
            hint: hint(&error).map(|hint| handle::c_text(&hint)),
            units_done: crypt.map_or(0, |crypt| crypt.done),
            ..Self::new(code, error.message())
        }
    }
}

/// Returns what the caller can do about an error, in the words of this interface. The library speaks of
/// volumes and files only.
fn hint(error: &luxor::Error) -> Option<String> {
    if let Some(hint) = error.hint_text() {
        return Some(hint.to_owned());
    }
    if let Some(error) = error.find::<OpenError>() {
        return Some(match error {
            OpenError::DetachedHeader { .. } | OpenError::HeaderOnly { .. } => {
                "Open the file with the data, and name this one with luxor_options_set_header."
                    .to_owned()
            }
            OpenError::NotAVolume { contents, .. } => match contents {
                Contents::Disk { .. } => {
                    let number = contents.partitions_with_volume().next()?.number;
                    format!(
                        "luxor_options_set_volume_partition with {number} opens the volume in it."
                    )
                }
                Contents::VolumeAt { offset, .. } => {
                    format!("luxor_options_set_volume_offset with {offset} opens the volume in it.")
                }
                _ => return None,
            },
            OpenError::Reencrypting { .. } => "Open it for reading.".to_owned(),
            _ => return None,
        });
    }
    let number = *error.find::<UnlockError>()?.ignored().first()?;
    Some(format!(
        "luxor_options_set_keyslot with {number} tries keyslot {number} too."
    ))
}

/// Runs the body of a function. A panic becomes `LUXOR_INTERNAL`, so that it never unwinds into C.
/// Sets `*error`, unless `error` is NULL, to NULL or to the error.
///
/// # Safety
/// `error` is NULL or a place for a pointer.
pub(crate) unsafe fn call(
    error: *mut *mut luxor_error,
    body: impl FnOnce() -> Result<(), Error>,
) -> luxor_code {
    let failure = match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => None,
        Ok(Err(failure)) => Some(failure),
        Err(panic) => Some(Error::of_panic(&*panic)),
    };
    let code = failure.as_ref().map_or(LUXOR_OK, |failure| failure.code);
    if !error.is_null() {
        let failure = failure.map_or(ptr::null_mut(), luxor_error::allocate);
        // SAFETY: `error` is not NULL, so by the caller's contract it is a place for a pointer.
        // `write` does not read what was there, which may be uninitialised.
        unsafe { error.write(failure) };
    }
    code
}

/// As [`call`], for a function that makes a handle. Sets `*place` to NULL or to the handle.
///
/// # Safety
/// Both pointers are NULL or places for a pointer.
pub(crate) unsafe fn make<H: Handle>(
    place: *mut *mut H,
    name: &str,
    error: *mut *mut luxor_error,
    body: impl FnOnce() -> Result<H::Value, Error>,
) -> luxor_code {
    let body = || {
        if place.is_null() {
            return Err(Error::is_null(name));
        }
        // SAFETY: as for `error` in `call`.
        unsafe { place.write(ptr::null_mut()) };
        let handle = H::allocate(body()?);
        // SAFETY: as above.
        unsafe { place.write(handle) };
        Ok(())
    };
    // SAFETY: `error` is passed on as it came.
    unsafe { call(error, body) }
}

/// The message of an error: one line in English, without a line end. It is valid until the error is
/// freed. The message of NULL is an empty text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn luxor_error_message(error: *const luxor_error) -> *const c_char {
    // SAFETY: `error` is NULL or a live error, by the caller's contract.
    let error = unsafe { handle::value(error) };
    error.map_or(c"".as_ptr(), |error| error.message.as_ptr())
}

/// A sentence that says what the user can do about the error, or NULL if there is none. It is valid
/// until the error is freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn luxor_error_hint(error: *const luxor_error) -> *const c_char {
    // SAFETY: `error` is NULL or a live error, by the caller's contract.
    let error = unsafe { handle::value(error) };
    let hint = error.and_then(|error| error.hint.as_deref());
    hint.map_or(ptr::null(), CStr::as_ptr)
}

/// The number of data units that `luxor_xts_encrypt` or `luxor_xts_decrypt` finished before it
/// failed. If input and output are the same buffer, the data units after them hold their original
/// input, unless the message says that their contents are undefined, which can happen when a device
/// fails. In a separate output buffer their contents are always undefined. 0 for the errors of other
/// functions.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn luxor_error_units_done(error: *const luxor_error) -> usize {
    // SAFETY: `error` is NULL or a live error, by the caller's contract.
    unsafe { handle::value(error) }.map_or(0, |error| error.units_done)
}

/// Frees an error. NULL is permitted.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn luxor_error_free(error: *mut luxor_error) {
    // SAFETY: `error` is NULL or came from `call`, and the caller no longer uses it.
    unsafe { handle::free(error) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error_and_does_not_unwind() {
        let mut error = ptr::null_mut();
        // SAFETY: `error` is a place for a pointer.
        let code = unsafe { call(&raw mut error, || panic!("it broke")) };
        assert_eq!(code, LUXOR_INTERNAL);
        // SAFETY: `call` made the error, which is freed once, here.
        unsafe {
            let message = CStr::from_ptr(luxor_error_message(error));
            assert_eq!(message, c"internal error: it broke");
            luxor_error_free(error);
        }
    }
}
