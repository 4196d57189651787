// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the functions have in common: settings and secrets.

use std::{ffi::CString, num::NonZeroUsize, sync::Arc};

use luxor::{Context, Events, KeyFile};
use luxor_engine::SecretBytes;
use pyo3::{
    exceptions::{PyTypeError, PyValueError},
    prelude::*,
    types::PyString,
};

use crate::{
    args::PathArg,
    buffer::Bytes,
    error::{VolumeWarning, exception},
    interrupt::wait_for,
};

/// Makes the settings for one operation. Warnings of the library become warnings of Python.
pub(crate) fn context(engine: Option<&str>, threads: Option<usize>) -> PyResult<Context> {
    let threads = match threads.map(NonZeroUsize::new) {
        None => None,
        Some(Some(threads)) => Some(threads),
        Some(None) => return Err(PyValueError::new_err("threads must be at least 1")),
    };
    Ok(Context {
        engine: engine.unwrap_or(Context::AUTO).to_owned(),
        threads,
        events: Arc::new(Warnings),
        ..Context::default()
    })
}

/// Passes warnings on to Python's module `warnings`.
struct Warnings;

impl Events for Warnings {
    fn warning(&self, text: &str) {
        let text = CString::new(text.replace('\0', "\\0")).expect("zero bytes were replaced");
        let warn = |py: Python<'_>| {
            let category = py.get_type::<VolumeWarning>();
            if let Err(error) = PyErr::warn(py, &category, &text, 1) {
                error.write_unraisable(py, None);
            }
        };
        // Nothing is shown any more while the interpreter shuts down.
        let _ = Python::try_attach(warn);
    }

    fn note(&self, _: &str) {}
}

/// Returns a secret from `passphrase`, which is text (encoded as UTF-8) or bytes, or from the file
/// `key_file`. Exactly one of them must be given. `names` are the names of these arguments.
///
/// The file is read without the GIL, because it may be a pipe to which another thread of Python
/// writes.
pub(crate) fn secret(
    py: Python<'_>,
    passphrase: Option<&Py<PyAny>>,
    key_file: Option<&PathArg>,
    names: [&str; 2],
) -> PyResult<SecretBytes> {
    match (passphrase.map(|passphrase| passphrase.bind(py)), key_file) {
        (Some(passphrase), None) => match passphrase.cast::<PyString>() {
            Ok(text) => Ok(SecretBytes::copy_of(text.to_str()?.as_bytes())),
            Err(_) => Ok(SecretBytes::copy_of(
                Bytes::readable(passphrase)?.as_slice(),
            )),
        },
        (None, Some(path)) => {
            let file = KeyFile::whole(&path.0);
            let read = wait_for(py, &Arc::default(), &mut |_| Ok(()), move || file.read())?;
            read.map_err(|error| exception(&error.into()))
        }
        _ => {
            let [passphrase, key_file] = names;
            let message = format!("exactly one of {passphrase} and {key_file} must be given");
            Err(PyTypeError::new_err(message))
        }
    }
}

/// As [`secret`], for a new keyslot. An empty secret is refused.
pub(crate) fn new_secret(
    py: Python<'_>,
    passphrase: Option<&Py<PyAny>>,
    key_file: Option<&PathArg>,
    names: [&str; 2],
) -> PyResult<SecretBytes> {
    let secret = secret(py, passphrase, key_file, names)?;
    if secret.is_empty() {
        let [name, key_file] = names;
        let name = if passphrase.is_some() { name } else { key_file };
        let message = format!("{name} is empty, which protects nothing");
        return Err(PyValueError::new_err(message));
    }
    Ok(secret)
}
