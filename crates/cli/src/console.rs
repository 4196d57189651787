// SPDX-License-Identifier: MIT OR Apache-2.0
//! Output of the program: results on standard output, everything else on standard error. Nothing
//! here panics when the stream has been closed.

use std::io::{self, IsTerminal, Write};

use anstream::{AutoStream, ColorChoice, adapter::strip_str};
use clap::builder::styling::{AnsiColor, Style};
use luxor::files::standard_streams;

use crate::{
    args::GlobalArgs,
    error::{Error, Result},
    subject,
};

/// How much the program prints.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Console {
    quiet: bool,
    verbose: bool,
}

impl Console {
    /// Takes `-q` and `-v` from the options.
    #[must_use]
    pub(crate) fn new(global: &GlobalArgs) -> Self {
        Self {
            quiet: global.quiet,
            verbose: global.verbose > 0,
        }
    }

    /// Whether `-q` was given.
    #[must_use]
    pub(crate) fn is_quiet(self) -> bool {
        self.quiet
    }

    /// Prints a detail, only with `-v`.
    pub(crate) fn note(self, text: impl AsRef<str>) {
        if self.verbose {
            say(&format!("luxor: note: {}", text.as_ref()));
        }
    }

    /// Prints what happens, unless `-q` was given.
    pub(crate) fn tell(self, text: impl AsRef<str>) {
        if !self.quiet {
            say(&format!("luxor: {}", text.as_ref()));
        }
    }

    /// As [`Console::tell`], for a user who has typed the command. A program in a script that was silent would
    /// otherwise send mail from cron.
    pub(crate) fn tell_on_terminal(self, text: impl FnOnce() -> String) {
        if io::stderr().is_terminal() {
            self.tell(text());
        }
    }

    /// Prints a warning, unless `-q` was given.
    pub(crate) fn warn(self, text: impl AsRef<str>) {
        if !self.quiet {
            let yellow = coloured(AnsiColor::Yellow);
            say(&format!(
                "luxor: {yellow}warning:{yellow:#} {}",
                text.as_ref()
            ));
        }
    }
}

/// Prints lines on standard error. Colours reach only a terminal, and only without `NO_COLOR`.
pub(crate) fn say(lines: &str) {
    let mut stderr = io::stderr().lock();
    let mut text = format!("{}\n", subject::complete(lines));
    if AutoStream::choice(&stderr) == ColorChoice::Never {
        text = strip_str(&text).to_string();
    }
    // The whole text in one call, so that lines of several threads or processes do not mix. A stream
    // that removes the colours itself makes a call for each piece between them.
    let _ = stderr.write_all(text.as_bytes());
}

/// Prints what went wrong.
pub(crate) fn complain(text: &str) {
    let red = coloured(AnsiColor::Red);
    say(&format!("{red}luxor:{red:#} {text}"));
}

fn coloured(colour: AnsiColor) -> Style {
    Style::new().bold().fg_color(Some(colour.into()))
}

/// Writes a command's result to standard output. A closed pipe is not an error, as in
/// `luxor dump volume | head -1`.
///
/// # Errors
/// Fails for any other reason, such as a full disk.
pub(crate) fn print(text: &str) -> Result<()> {
    print_with(|stdout| stdout.write_all(text.as_bytes()))
}

/// As [`print()`], for a result that `write` produces piece by piece.
///
/// # Errors
/// Those of [`print()`].
pub(crate) fn print_with(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
    check()?;
    // The lock is reentrant, so `write` may also lock standard output.
    let mut stdout = io::stdout().lock();
    written(write(&mut stdout).and_then(|()| stdout.flush()))
}

/// As [`print()`], without leaving a copy in a buffer.
///
/// # Errors
/// Those of [`print()`].
pub(crate) fn print_secret(text: &[u8]) -> Result<()> {
    written(standard_streams::stdout().and_then(|mut stdout| stdout.write_all(text)))
}

/// Checks that standard output can be written.
///
/// # Errors
/// Fails when it is closed, or open for reading only.
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
