// SPDX-License-Identifier: MIT OR Apache-2.0
//! Asks for confirmation before an action that cannot be undone.

use std::{
    fs::File,
    io::{self, Read, Write},
};

use crate::{
    error::{Error, Result},
    process::{OpenLine, terminal},
    subject,
};

/// Shows `warning` on the terminal and asks whether to continue. Only `YES` in capital letters
/// confirms. `option` is the option that skips the question.
///
/// # Errors
/// Fails for any other answer. Without a terminal it fails with `warning` as its message.
pub(crate) fn confirm(warning: &str, option: &str) -> Result<()> {
    let Ok(tty) = terminal() else {
        return Err(Error::failure(warning).hint(format!(
            "There is no terminal to ask for confirmation. {option} skips the question."
        )));
    };
    let question = format!("{}\nType YES to go on: ", subject::complete(warning));
    let answer = ask(&tty, &question)
        .map_err(|error| Error::io("cannot ask for confirmation on the terminal", &error))?;
    match answer.as_slice() {
        b"YES" => Ok(()),
        answer if answer.eq_ignore_ascii_case(b"yes") || answer.eq_ignore_ascii_case(b"y") => {
            Err(Error::failure("nothing was done").hint("The answer must be YES, in capitals."))
        }
        _ => Err(Error::failure("nothing was done")),
    }
}

fn ask(mut tty: &File, question: &str) -> io::Result<Vec<u8>> {
    let _line = OpenLine::begin();
    tty.write_all(question.as_bytes())?;
    let mut answer = Vec::new();
    let mut byte = [0];
    // A terminal returns one line at a time, and the bytes after it may be a passphrase.
    while tty.read(&mut byte)? == 1 && byte != *b"\n" {
        answer.extend(byte);
    }
    Ok(answer)
}
