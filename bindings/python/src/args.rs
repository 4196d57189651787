// SPDX-License-Identifier: MIT OR Apache-2.0
//! The arguments of functions. Each function receives all its arguments in one dict, and extracts
//! from it single arguments, or the groups that it shares with others.

use std::time::Duration;

use luxor::{
    Context, SecretBytes, Secrets, VolumeKeySecret,
    engine::DataUnitNumber,
    files::{VolumePart, bounded},
    volume::{PbkdfKind, PbkdfOptions, UnlockOptions},
};
use pyo3::{
    exceptions::{PyOverflowError, PyTypeError, PyValueError},
    prelude::*,
    types::PyDict,
};

use crate::{
    context::{context, new_secret, secret},
    key_cache::KeyCache,
    path::PathArg,
    secret::key_bytes,
};

/// Returns the argument `name`. A missing one is None. An exception names the argument.
pub(crate) fn argument<'py, T: FromPyObjectOwned<'py>>(
    args: &Bound<'py, PyDict>,
    name: &str,
) -> PyResult<T> {
    let py = args.py();
    let value = args.get_item(name)?;
    let value = value.unwrap_or_else(|| py.None().into_bound(py));
    let extracted = value.extract().map_err(Into::into);
    extracted.map_err(|error: PyErr| {
        if error.is_instance_of::<PyOverflowError>(py) {
            PyValueError::new_err(format!("{name} is out of range"))
        } else if error.is_instance_of::<PyTypeError>(py) {
            PyTypeError::new_err(format!("{name}: {}", error.value(py)))
        } else {
            error
        }
    })
}

/// Defines the types of integer arguments, with the message for a number that is out of range.
macro_rules! integers {
    ($($(#[$doc:meta])* $Name:ident($integer:ty): $message:literal;)*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy)]
            pub(crate) struct $Name(pub(crate) $integer);

            impl FromPyObject<'_, '_> for $Name {
                type Error = PyErr;

                fn extract(number: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
                    number.extract().map(Self).map_err(|error: PyErr| {
                        // Without the stable ABI a negative `u128` is a `ValueError`.
                        let py = number.py();
                        if error.is_instance_of::<PyOverflowError>(py)
                            || error.is_instance_of::<PyValueError>(py)
                        {
                            PyValueError::new_err($message)
                        } else {
                            error
                        }
                    })
                }
            }
        )*
    };
}

integers! {
    /// The length of a data unit in bytes.
    UnitLen(usize): "unit must be 16 to 2**24";
    /// The number of a data unit.
    UnitNumber(u128): "number must be 0 to 2**128 - 1";
    /// The distance of the numbers of neighbouring data units.
    Stride(u64): "stride must be 0 to 2**64 - 1";
    /// The largest number of threads.
    Threads(usize): "threads must be at least 1";
    /// A place in a volume, in bytes.
    Offset(u64): "the offset must be 0 to 2**64 - 1";
    /// A number of bytes.
    Size(usize): "the size must be 0 to 2**64 - 1";
}

/// Defines a group of arguments, each a field with its name. The exceptions of `pyo3`'s derive would
/// name the structure of Rust.
macro_rules! arguments {
    ($(#[$doc:meta])* $public:vis struct $Group:ident {
        $($name:ident: $type:ty,)*
    }) => {
        $(#[$doc])*
        $public struct $Group {
            $($name: $type,)*
        }

        impl pyo3::FromPyObject<'_, '_> for $Group {
            type Error = pyo3::PyErr;

            fn extract(args: pyo3::Borrowed<'_, '_, pyo3::PyAny>) -> pyo3::PyResult<Self> {
                let args = args.cast::<pyo3::types::PyDict>()?;
                let name = |field: &'static str| field.trim_start_matches("r#");
                Ok(Self {
                    $($name: $crate::args::argument(&args, name(stringify!($name)))?,)*
                })
            }
        }
    };
}

pub(crate) use arguments;

arguments! {
    /// The part of a file that holds a volume.
    pub(crate) struct PartArgs {
        volume_offset: Option<u64>,
        volume_partition: Option<u32>,
    }
}

impl PartArgs {
    /// Returns the part.
    pub(crate) fn part(&self) -> PyResult<VolumePart> {
        match (self.volume_offset, self.volume_partition) {
            (None, None) => Ok(VolumePart::Whole),
            (Some(offset), None) => Ok(VolumePart::From(offset)),
            (None, Some(number)) => Ok(VolumePart::Partition(number)),
            (Some(_), Some(_)) => {
                let message = "volume_offset cannot be used with volume_partition";
                Err(PyTypeError::new_err(message))
            }
        }
    }
}

arguments! {
    /// What opens a volume. For a new volume only the secret is used.
    pub(crate) struct UnlockArgs {
        passphrase: Option<Py<PyAny>>,
        key_file: Option<PathArg>,
        volume_key: Option<Py<PyAny>>,
        key_slot: Option<u32>,
        key_cache: Option<Py<KeyCache>>,
    }
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
        Ok(Box::new(VolumeKeySecret(key_bytes(key.bind(py))?)))
    }

    pub(crate) fn options(&self) -> UnlockOptions {
        UnlockOptions {
            keyslots: self.key_slot.into_iter().collect(),
            cache: self.key_cache.as_ref().map(|cache| cache.get().shared()),
            ..UnlockOptions::default()
        }
    }
}

arguments! {
    /// The secret of a new keyslot of an existing volume.
    pub(crate) struct NewSecretArgs {
        new_passphrase: Option<Py<PyAny>>,
        new_key_file: Option<PathArg>,
    }
}

impl NewSecretArgs {
    pub(crate) fn secret(&self, py: Python<'_>) -> PyResult<SecretBytes> {
        let names = ["new_passphrase", "new_key_file"];
        let (passphrase, key_file) = (self.new_passphrase.as_ref(), self.new_key_file.as_ref());
        new_secret(py, passphrase, key_file, names)
    }
}

arguments! {
    /// The costs of a new keyslot.
    pub(crate) struct PbkdfArgs {
        pbkdf: Option<String>,
        pbkdf_memory: Option<u32>,
        pbkdf_parallel: Option<u32>,
        pbkdf_force_iterations: Option<u32>,
        iter_time: f64,
    }
}

impl PbkdfArgs {
    /// Returns the costs, for the kind `default` if the arguments name none.
    pub(crate) fn options(&self, default: PbkdfKind) -> PyResult<PbkdfOptions> {
        let kind = match &self.pbkdf {
            None => default,
            Some(name) => PbkdfKind::by_name(name).ok_or_else(|| {
                let names = PbkdfKind::ALL.map(PbkdfKind::name).join(", ");
                PyValueError::new_err(format!("pbkdf: {:?} is none of {names}", bounded(name)))
            })?,
        };
        let options = PbkdfOptions {
            kind,
            memory_kib: self.pbkdf_memory,
            parallel: self.pbkdf_parallel,
            force_iterations: self.pbkdf_force_iterations,
            iter_time: Duration::try_from_secs_f64(self.iter_time).map_err(|_| {
                let given = self.iter_time;
                PyValueError::new_err(format!(
                    "iter_time: {given:?} seconds is negative, too large or not a number"
                ))
            })?,
            ..PbkdfOptions::default()
        };
        options
            .check()
            .map_err(|error| PyValueError::new_err(error.to_string()))?;
        Ok(options)
    }
}

arguments! {
    /// The engine and its threads.
    pub(crate) struct EngineArgs {
        engine: Option<String>,
        threads: Option<usize>,
    }
}

impl EngineArgs {
    pub(crate) fn context(&self) -> PyResult<Context> {
        context(self.engine.as_deref(), self.threads)
    }
}

/// How the data are divided into numbered units.
#[derive(Clone, Copy)]
pub(crate) struct Units {
    pub(crate) len: usize,
    pub(crate) first: DataUnitNumber,
    pub(crate) stride: u64,
}

impl Units {
    pub(crate) fn new(len: UnitLen, first: UnitNumber, stride: Stride) -> Self {
        Self {
            len: len.0,
            first: DataUnitNumber::new(first.0),
            stride: stride.0,
        }
    }
}
