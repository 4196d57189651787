// SPDX-License-Identifier: MIT OR Apache-2.0
//! Failures as the user sees them: one clear line, perhaps a hint, an exit code.

use std::{fmt, io};

use luxor_files::{
    DataFileError, FileErrorClass, InputError, NotLocked, OutputError, io_words,
    locks::{Access, LockError},
    path_name,
};

/// The exit codes of a failure. 0 is success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Bad usage, not a volume, damaged metadata, unreadable key file, I/O
    /// error, disk full.
    Failure = 1,
    /// No usable key.
    NoKey = 2,
    /// Out of memory, Argon2's need included.
    OutOfMemory = 3,
    /// The volume or the input does not exist.
    Missing = 4,
    /// The output exists, or is locked or mounted.
    Busy = 5,
    /// A signal ended the program.
    Interrupted = 130,
}

impl Exit {
    /// The number that the shell sees.
    #[must_use]
    pub const fn code(self) -> u8 {
        self as u8
    }
}

/// Why a command failed.
#[derive(Debug)]
pub struct Error {
    exit: Exit,
    message: String,
    hint: Option<String>,
}

impl Error {
    /// A failure with the exit code `exit`.
    #[must_use]
    pub fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self {
            exit,
            message: message.into(),
            hint: None,
        }
    }

    /// A failure with exit code 1.
    #[must_use]
    pub fn failure(message: impl Into<String>) -> Self {
        Self::new(Exit::Failure, message)
    }

    /// A "no" with exit code 1, for scripts: nothing is said.
    #[must_use]
    pub fn silent() -> Self {
        Self::failure("")
    }

    /// A failed input or output operation: `what` is like "cannot read photos.tar".
    #[must_use]
    pub fn io(what: impl fmt::Display, error: &io::Error) -> Self {
        let exit = FileErrorClass::from(error).into();
        Self::new(exit, format!("{what}: {}", io_words(error)))
    }

    /// As it is, with a second line that says what can be done.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// What happened, without the program's name and the hint.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The code that the program ends with.
    #[must_use]
    pub fn exit(&self) -> Exit {
        self.exit
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "luxor: {}", self.message)?;
        match &self.hint {
            Some(hint) => write!(f, "\n  {hint}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Error {}

/// The result of a command.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl From<FileErrorClass> for Exit {
    fn from(class: FileErrorClass) -> Self {
        match class {
            FileErrorClass::Missing => Self::Missing,
            FileErrorClass::Busy => Self::Busy,
            FileErrorClass::OutOfMemory => Self::OutOfMemory,
            _ => Self::Failure,
        }
    }
}

impl From<InputError> for Error {
    fn from(error: InputError) -> Self {
        Self::new(error.class().into(), error.to_string())
    }
}

impl From<OutputError> for Error {
    fn from(error: OutputError) -> Self {
        let message = match &error {
            OutputError::Exists { .. } => format!("{error} (--force replaces it)"),
            OutputError::OneOfTwo { path } => format!(
                "{} exists already, and OUTPUT and --header are not replaced together: remove it, \
                 or name another file",
                path_name(path)
            ),
            OutputError::Foreign { .. } => format!("{error}; --force writes to it"),
            OutputError::IsDevice { .. } => format!("{error}: --force overwrites what is on it"),
            _ => error.to_string(),
        };
        Self::new(error.class().into(), message)
    }
}

impl From<DataFileError> for Error {
    fn from(error: DataFileError) -> Self {
        let failure = Self::new(error.class().into(), error.to_string());
        match error {
            DataFileError::InUse { .. }
            | DataFileError::Locked {
                access: Access::Write,
                ..
            } => failure.hint("With --read-only it can be used beside other readers."),
            DataFileError::Open {
                access: Access::Write,
                source,
                ..
            } if matches!(
                source.kind(),
                io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem
            ) =>
            {
                failure.hint("--read-only needs no permission to write.")
            }
            _ => failure,
        }
    }
}

impl From<NotLocked> for Error {
    fn from(error: NotLocked) -> Self {
        let failure = Self::new(error.class().into(), error.to_string());
        match error.source {
            LockError::Held(_) => {
                failure.hint("Run the command again when that program has ended; lslocks shows it.")
            }
            LockError::Missing { .. } => failure.hint(
                "Without the lock, two changes at the same time can lose keys. Run the \
                 command as root, or with --disable-locks when no other program changes \
                 the volume.",
            ),
            _ => failure,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_is_a_second_line() {
        let error = Error::io("cannot read x", &io::Error::from_raw_os_error(2)).hint("Look.");
        assert_eq!(
            error.to_string(),
            "luxor: cannot read x: No such file or directory\n  Look."
        );
        assert_eq!(error.exit().code(), 1);
    }
}
