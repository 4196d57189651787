// SPDX-License-Identifier: MIT OR Apache-2.0
//! Questions before what cannot be undone.

use std::{
    fs::File,
    io::{self, Read, Write},
};

use crate::{
    error::{Error, Result},
    process::{OpenLine, terminal},
};

/// Shows `warning` on the terminal and asks whether to go on. Only `YES`, in capital
/// letters, is a yes. `option` is what makes the question unnecessary.
///
/// # Errors
/// Another answer, and no terminal: then `warning` is the message.
pub(crate) fn confirm(warning: &str, option: &str) -> Result<()> {
    let Ok(tty) = terminal() else {
        return Err(Error::failure(warning).hint(format!(
            "There is no terminal to ask for confirmation. {option} skips the question."
        )));
    };
    let answer = ask(&tty, &format!("{warning}\nType YES to go on: "))
        .map_err(|error| Error::io("cannot ask for confirmation on the terminal", &error))?;
    match answer.as_slice() {
        b"YES" => Ok(()),
        _ => Err(Error::failure("nothing was done")),
    }
}

fn ask(mut tty: &File, question: &str) -> io::Result<Vec<u8>> {
    let _line = OpenLine::begin();
    tty.write_all(question.as_bytes())?;
    let mut answer = Vec::new();
    let mut byte = [0];
    // A terminal gives a line at a time, and what is behind it may be a passphrase.
    while tty.read(&mut byte)? == 1 && byte != *b"\n" {
        answer.extend(byte);
    }
    Ok(answer)
}
