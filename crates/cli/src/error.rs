// SPDX-License-Identifier: MIT OR Apache-2.0
//! Errors as the user sees them: one line, an optional second one with [`advice`], and an exit code.

use nix::libc;

use crate::advice;

pub(crate) use luxor::{Error, ErrorClass, Result};

/// The exit code after a signal.
pub(crate) const INTERRUPTED: u8 = 130;

/// Returns the exit code for an error. 0 is success.
#[must_use]
pub(crate) fn exit_code(error: &Error) -> u8 {
    match error.class() {
        ErrorClass::NoKey => 2,
        ErrorClass::OutOfMemory => 3,
        ErrorClass::Missing => 4,
        ErrorClass::Busy => 5,
        ErrorClass::Cancelled => INTERRUPTED,
        _ => 1,
    }
}

/// Whether the reader of the output has closed it.
#[must_use]
pub(crate) fn is_broken_pipe(error: &Error) -> bool {
    error.raw_os_error() == Some(libc::EPIPE)
}

/// An error with exit code 1 and no message, for scripts.
#[must_use]
pub(crate) fn silent() -> Error {
    Error::failure("")
}

/// Returns what the user can do about the error.
pub(crate) fn hint(error: &Error) -> Option<String> {
    let hint = error.hint_text().map(str::to_owned);
    hint.or_else(|| advice::of(error))
}

/// Returns the lines that the user sees after the name of the program, or `None` for [`silent`].
#[must_use]
pub(crate) fn lines(error: &Error) -> Option<String> {
    if error.message().is_empty() {
        return None;
    }
    let message = advice::message(error).unwrap_or_else(|| error.message().to_owned());
    let hint = hint(error);
    let hint = hint.map_or_else(String::new, |hint| format!("\n  {hint}"));
    Some(format!("{message}{hint}"))
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn a_hint_is_a_second_line() {
        let error = Error::io("cannot read x", &io::Error::from_raw_os_error(2)).hint("Look.");
        assert_eq!(
            lines(&error).unwrap(),
            "cannot read x: No such file or directory\n  Look."
        );
        assert_eq!(exit_code(&error), 1);
    }
}
