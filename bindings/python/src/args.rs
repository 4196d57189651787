// SPDX-License-Identifier: MIT OR Apache-2.0
//! Arguments that several functions take. Each function receives all its arguments in one dict, and
//! extracts from it the groups that it needs.

use std::{path::PathBuf, time::Duration};

use luxor::{Context, Secrets, VolumeKeySecret};
use luxor_engine::SecretBytes;
use luxor_luks::{PbkdfKind, PbkdfOptions, UnlockOptions};
use pyo3::{
    exceptions::{PyTypeError, PyValueError},
    prelude::*,
};

use crate::{
    buffer::Bytes,
    context::{context, new_secret, secret},
    storage::FileArg,
};

/// What opens a volume. For a new volume only the secret is used.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct UnlockArgs {
    passphrase: Option<Py<PyAny>>,
    key_file: Option<PathBuf>,
    #[pyo3(default)]
    volume_key: Option<Py<PyAny>>,
    #[pyo3(default)]
    header: Option<Py<PyAny>>,
    #[pyo3(default)]
    key_slot: Option<u32>,
}

impl UnlockArgs {
    /// Returns the secret of a keyslot.
    pub(crate) fn secret(&self, py: Python<'_>) -> PyResult<SecretBytes> {
        let names = ["passphrase", "key_file"];
        secret(py, self.passphrase.as_ref(), self.key_file.as_ref(), names)
    }

    /// Returns the secret of the keyslot of a new volume.
    pub(crate) fn new_secret(&self, py: Python<'_>) -> PyResult<SecretBytes> {
        let names = ["passphrase", "key_file"];
        new_secret(py, self.passphrase.as_ref(), self.key_file.as_ref(), names)
    }

    /// Returns the secret of a keyslot, or a volume key.
    pub(crate) fn secrets(&self, py: Python<'_>) -> PyResult<Box<dyn Secrets + Send>> {
        let Some(key) = &self.volume_key else {
            return Ok(Box::new(self.secret(py)?));
        };
        if self.passphrase.is_some() || self.key_file.is_some() {
            let message = "volume_key cannot be used with passphrase or key_file";
            return Err(PyTypeError::new_err(message));
        }
        let key = SecretBytes::copy_of(Bytes::readable(key.bind(py))?.as_slice());
        Ok(Box::new(VolumeKeySecret(key)))
    }

    /// Returns the detached header, if there is one.
    pub(crate) fn header(&self, py: Python<'_>) -> PyResult<Option<FileArg>> {
        let header = self.header.as_ref();
        header
            .map(|header| FileArg::of(header.bind(py)))
            .transpose()
    }

    pub(crate) fn options(&self) -> UnlockOptions {
        UnlockOptions {
            keyslots: self.key_slot.into_iter().collect(),
            ..UnlockOptions::default()
        }
    }
}

/// The secret of a new keyslot of an existing volume.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct NewSecretArgs {
    new_passphrase: Option<Py<PyAny>>,
    new_key_file: Option<PathBuf>,
}

impl NewSecretArgs {
    pub(crate) fn secret(&self, py: Python<'_>) -> PyResult<SecretBytes> {
        let names = ["new_passphrase", "new_key_file"];
        let (passphrase, key_file) = (self.new_passphrase.as_ref(), self.new_key_file.as_ref());
        new_secret(py, passphrase, key_file, names)
    }
}

/// The costs of a new keyslot.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct PbkdfArgs {
    pbkdf: Option<String>,
    pbkdf_memory: Option<u32>,
    pbkdf_parallel: Option<u32>,
    pbkdf_force_iterations: Option<u32>,
    iter_time: f64,
}

impl PbkdfArgs {
    /// Returns the costs, for the kind `default` if the arguments name none.
    pub(crate) fn options(&self, default: PbkdfKind) -> PyResult<PbkdfOptions> {
        let kind = match &self.pbkdf {
            None => default,
            Some(name) => PbkdfKind::by_name(name).ok_or_else(|| {
                let names = PbkdfKind::ALL.map(PbkdfKind::name).join(", ");
                PyValueError::new_err(format!("pbkdf: {name:?} is none of {names}"))
            })?,
        };
        let options = PbkdfOptions {
            kind,
            memory_kib: self.pbkdf_memory,
            parallel: self.pbkdf_parallel,
            force_iterations: self.pbkdf_force_iterations,
            iter_time: Duration::try_from_secs_f64(self.iter_time)
                .map_err(|error| PyValueError::new_err(format!("iter_time: {error}")))?,
        };
        options
            .check()
            .map_err(|error| PyValueError::new_err(error.to_string()))?;
        Ok(options)
    }
}

/// The engine and its threads.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct EngineArgs {
    engine: Option<String>,
    threads: Option<usize>,
}

impl EngineArgs {
    pub(crate) fn context(&self) -> PyResult<Context> {
        context(self.engine.as_deref(), self.threads)
    }
}
