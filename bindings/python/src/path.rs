// SPDX-License-Identifier: MIT OR Apache-2.0
//! Paths as arguments.

use std::{
    fs,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use luxor::ErrorClass;
use pyo3::{
    exceptions::{PyUnicodeEncodeError, PyValueError},
    prelude::*,
    types::PyBytes,
};

use crate::error::NameTooLong;

/// A path: `str`, `bytes` or `os.PathLike`. Also `-` is a path: it does not stand for standard input
/// or output, as it does for the command.
#[derive(Clone)]
pub(crate) struct PathArg {
    path: PathBuf,
    /// Whether it was given as `bytes`, which can also be the contents of a file.
    is_bytes: bool,
}

/// The most bytes of a path, and of each name in it (`limits.h`; a path ends with a zero byte).
const LONGEST_PATH: usize = 4095;
const LONGEST_NAME: usize = 255;

const CONTENTS: &str = "pass contents as io.BytesIO(data)";

impl FromPyObject<'_, '_> for PathArg {
    type Error = PyErr;

    fn extract(path: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        let is_bytes = path.is_instance_of::<PyBytes>();
        let os = path.py().import("os")?;
        let path = os.call_method1("fsdecode", (path,))?;
        // The error of Python contains the text.
        let path: PathBuf = path.extract().map_err(|error: PyErr| {
            if error.is_instance_of::<PyUnicodeEncodeError>(path.py()) {
                PyValueError::new_err("a path cannot contain a part of a surrogate pair")
            } else {
                error
            }
        })?;
        let bytes = path.as_os_str().as_bytes();
        let mut names = bytes.split(|&byte| byte == b'/');
        // Whatever it is, it may be secret.
        let message = |wrong: &str| format!("a path cannot {wrong}: {CONTENTS}");
        if bytes.contains(&0) {
            return Err(PyValueError::new_err(message("contain zero bytes")));
        }
        if bytes.len() > LONGEST_PATH {
            let wrong = format!("have more than {LONGEST_PATH} bytes");
            return Err(NameTooLong::new_err(message(&wrong)));
        }
        if names.any(|name| name.len() > LONGEST_NAME) {
            let wrong = format!("have names of more than {LONGEST_NAME} bytes");
            return Err(NameTooLong::new_err(message(&wrong)));
        }
        let path = if path == Path::new("-") {
            Path::new(".").join(path)
        } else {
            path
        };
        Ok(Self { path, is_bytes })
    }
}

impl PathArg {
    /// The path, for an output.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The path of a file that is read. If it does not exist, and may be contents, no message repeats
    /// it.
    pub(crate) fn existing(&self) -> luxor::Result<&Path> {
        match fs::symlink_metadata(&self.path) {
            Err(_) if self.is_bytes => {
                let message = "there is no file with the name that was passed as bytes";
                Err(luxor::Error::new(ErrorClass::Missing, message).hint(CONTENTS))
            }
            _ => Ok(&self.path),
        }
    }
}
