// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the functions have in common: settings and secrets.

use std::{
    ffi::CString,
    fs,
    num::NonZeroUsize,
    sync::{
        Arc,
        atomic::Ordering,
        mpsc::{self, Sender},
    },
};

use luxor::{Context, Events, KeyFile, Progress, SecretBytes, files::io_words};
use pyo3::{
    exceptions::{PyTypeError, PyValueError},
    prelude::*,
};

use crate::{
    error::{MissingError, VolumeWarning, exception, outcome},
    interrupt::wait_for,
    path::PathArg,
    secret::passphrase_bytes,
    storage::{Object, Stop},
};

/// Makes the settings for one operation, which [`operate`] runs.
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

/// Passes warnings on to Python's module `warnings`, for calls that do not [`operate`].
struct Warnings;

impl Events for Warnings {
    fn warning(&self, text: &str) {
        let shown = |py: Python<'_>| {
            if let Err(error) = warn(py, text, 1) {
                error.write_unraisable(py, None);
            }
        };
        // Nothing is shown any more while the interpreter shuts down.
        let _ = Python::try_attach(shown);
    }

    fn note(&self, _: &str) {}
}

/// Issues a warning that names the line of the caller `level` frames of Python up from here.
fn warn(py: Python<'_>, text: &str, level: i32) -> PyResult<()> {
    let text = CString::new(text.replace('\0', "\\0")).expect("zero bytes were replaced");
    PyErr::warn(py, &py.get_type::<VolumeWarning>(), &text, level)
}

/// A warning, and what is dropped when it has been issued.
type Pending = (String, Sender<()>);

/// Passes warnings on to the thread that called [`operate`]. When the operation has ended, they go
/// to `inner`, as everything else does.
struct WarningSender {
    warnings: Sender<Pending>,
    inner: Arc<dyn Events>,
}

impl Events for WarningSender {
    /// Returns when the warning has been issued, so that the operation does not go on before an
    /// exception has cancelled it.
    fn warning(&self, text: &str) {
        let (issued, is_issued) = mpsc::channel();
        if self.warnings.send((text.to_owned(), issued)).is_err() {
            self.inner.warning(text);
        }
        // An error, because nothing is ever sent.
        let _ = is_issued.recv();
    }

    fn note(&self, text: &str) {
        self.inner.note(text);
    }

    fn bytes(&self, what: &'static str, name: String, total: Option<u64>) -> Box<dyn Progress> {
        self.inner.bytes(what, name, total)
    }
}

/// Runs an operation of the library as [`wait_for`] does. The calling thread issues its warnings,
/// which name the line that called `python/luxor`. If a filter makes an exception of a warning, the
/// operation is cancelled. What ends the program is raised as one of `objects` has raised it.
pub(crate) fn operate<T: Send + 'static>(
    py: Python<'_>,
    mut context: Context,
    objects: &[Object],
    tick: &mut dyn FnMut(Python<'_>) -> PyResult<()>,
    work: impl FnOnce(&Context) -> luxor::Result<T> + Send + 'static,
) -> PyResult<T> {
    let stop = Stop::begin(objects);
    let (sender, warnings) = mpsc::channel::<Pending>();
    let cancel = Arc::clone(&context.cancel);
    context.events = Arc::new(WarningSender {
        warnings: sender,
        inner: context.events,
    });
    let issue = || {
        warnings.try_iter().try_for_each(|(text, _issued)| {
            if stop.exception(py).is_some() {
                // It says that a storage cannot be read.
                return Ok(());
            }
            // 1 would be the line in `python/luxor`.
            warn(py, &text, 2).inspect_err(|_| cancel.store(true, Ordering::Relaxed))
        })
    };
    let mut tick = |py: Python<'_>| issue().and_then(|()| tick(py));
    // An interrupted caller does not wait until the work has ended.
    let until_the_end = Arc::clone(&stop);
    let done = wait_for(py, &cancel, &mut tick, move || {
        let done = work(&context);
        drop(until_the_end);
        done
    })?;
    let issued = issue();
    stop.deliver(py, issued.and_then(|()| outcome(py, done)))
}

/// Returns a secret from `passphrase`, which is text (encoded as UTF-8), bytes or a `Secret`, or from
/// the file `key_file`. Exactly one of them must be given. `names` are the names of these arguments.
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
        (Some(passphrase), None) => passphrase_bytes(passphrase),
        (None, Some(path)) => {
            if let Err(error) = fs::symlink_metadata(path.path()) {
                // Its name may be the passphrase, given as the wrong argument.
                let [passphrase, key_file] = names;
                let message = format!(
                    "the file of {key_file} cannot be found: {}",
                    io_words(&error)
                );
                let hint = format!("A passphrase itself is the argument {passphrase}.");
                return Err(MissingError::new_err((message, hint, error.raw_os_error())));
            }
            let file = KeyFile::whole(path.path());
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
