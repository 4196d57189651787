// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the program says: results on standard output, the rest on standard
//! error. Nothing here panics when the other side has been closed.

use std::io::{self, Write};

use luxor_files::standard_streams;

use crate::{
    args::GlobalArgs,
    error::{Error, Result},
};

/// How talkative the program is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Console {
    quiet: bool,
    verbose: bool,
}

impl Console {
    /// As `-q` and `-v` say.
    #[must_use]
    pub(crate) fn new(global: &GlobalArgs) -> Self {
        Self {
            quiet: global.quiet,
            verbose: global.verbose,
        }
    }

    /// Whether `-q` was given.
    #[must_use]
    pub(crate) fn is_quiet(self) -> bool {
        self.quiet
    }

    /// A line for those who asked for it with `-v`.
    pub(crate) fn note(self, text: impl AsRef<str>) {
        if self.verbose {
            say(&format!("luxor: note: {}", text.as_ref()));
        }
    }

    /// What happens, for everybody who did not ask for silence with `-q`.
    pub(crate) fn tell(self, text: impl AsRef<str>) {
        if !self.quiet {
            say(&format!("luxor: {}", text.as_ref()));
        }
    }

    /// A warning for everybody who did not ask for silence with `-q`.
    pub(crate) fn warn(self, text: impl AsRef<str>) {
        if !self.quiet {
            say(&format!("luxor: warning: {}", text.as_ref()));
        }
    }
}

/// A line on standard error.
pub(crate) fn say(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}

/// Writes a command's result to standard output. That the reader went away
/// (`luxor dump volume | head -1`) is no failure.
///
/// # Errors
/// Any other failure to write, such as a full disk.
pub(crate) fn print(text: &str) -> Result<()> {
    print_with(|stdout| stdout.write_all(text.as_bytes()))
}

/// The same of a result that `write` makes bit by bit.
///
/// # Errors
/// As [`print()`].
pub(crate) fn print_with(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
    check()?;
    // Another lock of this thread is let in.
    let mut stdout = io::stdout().lock();
    written(write(&mut stdout).and_then(|()| stdout.flush()))
}

/// As [`print()`], and no buffer keeps a copy.
///
/// # Errors
/// Those of [`print()`].
pub(crate) fn print_secret(text: &[u8]) -> Result<()> {
    written(standard_streams::stdout().and_then(|mut stdout| stdout.write_all(text)))
}

/// Whether standard output can be written at all.
///
/// # Errors
/// When it is closed, or open for reading only.
pub(crate) fn check() -> Result<()> {
    written(standard_streams::check_stdout())
}

fn written(result: io::Result<()>) -> Result<()> {
    match result {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Error::io("cannot write standard output", &error))
        }
        _ => Ok(()),
    }
}
