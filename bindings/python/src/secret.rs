// SPDX-License-Identifier: MIT OR Apache-2.0
//! `luxor.Secret`: a passphrase or key among the arguments and options of a program.
//!
//! Options travel: fsspec, Dask and Ray keep them with their objects, print them, hash them for the
//! names of tasks, and send them to other processes. A `Secret` among them stays in its process.

use std::sync::Arc;

use hmac::{Hmac, KeyInit, Mac};
use luxor::{
    SecretBytes,
    volume::{Argon2Kind, Kdf},
};
use pyo3::{
    exceptions::{PyTypeError, PyValueError},
    prelude::*,
    sync::PyOnceLock,
    types::{PyBytes, PyString},
};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use crate::{
    buffer::Bytes,
    error::{OutOfMemory, ends_program},
    interrupt::wait_for,
    key_cache::KeyCache,
};

/// The costs of deriving the key of a manifest. Others can write the manifest, so it does not contain
/// the costs, and they are the same for all. They are below those of a keyslot of `luxor encrypt`, which
/// take two seconds and up to 1 GiB, so that every process of a cluster has the memory.
const MANIFEST_MEMORY_KIB: u32 = 64 << 10;
const MANIFEST_PASSES: u32 = 8;
const MANIFEST_LANES: u32 = 4;

/// A passphrase or key that is neither printed nor sent to another process.
///
/// It is taken wherever a passphrase, a volume key or a key is. `repr` shows a number that equal
/// secrets share within one process. Pickling raises `TypeError`: give other processes a key provider.
#[pyclass(frozen, module = "luxor")]
pub(crate) struct Secret(
    // Not `SecretBytes`: a fork opens volumes with the secrets among its options, as PyTorch's
    // loaders do, while keys are wiped there.
    Zeroizing<Vec<u8>>,
);

#[pymethods]
impl Secret {
    #[new]
    fn new(secret: &Bound<'_, PyAny>) -> PyResult<Self> {
        Ok(Self(Zeroizing::new(
            passphrase_bytes(secret)?.expose().to_vec(),
        )))
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("<luxor.Secret {}>", self.token(py)?))
    }

    #[expect(clippy::unused_self, reason = "Python calls it on the object")]
    fn __reduce_ex__(&self, _protocol: i32) -> PyResult<()> {
        Err(PyTypeError::new_err(
            "a passphrase or key is not sent to another process or stored: use key_file, or a key \
             provider as key (see luxor.keys)",
        ))
    }

    fn __copy__(this: Py<Self>) -> Py<Self> {
        this
    }

    fn __deepcopy__(this: Py<Self>, _memo: &Bound<'_, PyAny>) -> Py<Self> {
        this
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> PyResult<bool> {
        let py = other.py();
        match other.cast::<Self>() {
            Ok(other) => Ok(self.tag(py)? == other.get().tag(py)?),
            Err(_) => Ok(false),
        }
    }

    fn __hash__(&self, py: Python<'_>) -> PyResult<u64> {
        let [a, b, c, d, e, f, g, h, ..] = self.tag(py)?;
        Ok(u64::from_ne_bytes([a, b, c, d, e, f, g, h]))
    }

    /// Dask names tasks after their arguments.
    fn __dask_tokenize__(&self, py: Python<'_>) -> PyResult<String> {
        self.token(py)
    }

    /// Derives the key that authenticates the manifest of the volume or file `target`.
    fn manifest_key(&self, py: Python<'_>, target: &[u8], key_cache: &KeyCache) -> PyResult<Self> {
        let salt = Sha256::new_with_prefix("luxor manifest 2\0").chain_update(target);
        let kdf = Kdf::Argon2 {
            kind: Argon2Kind::Id,
            time: MANIFEST_PASSES,
            memory_kib: MANIFEST_MEMORY_KIB,
            parallel: MANIFEST_LANES,
            salt: salt.finalize().to_vec(),
        };
        let (secret, cache) = (SecretBytes::copy_of(&self.0), key_cache.shared());
        let derive = move || {
            let mut key = SecretBytes::zeroed(32);
            let derived = cache.derive(&kdf, secret.expose(), key.expose_mut());
            derived.map(|()| key)
        };
        let key = wait_for(py, &Arc::default(), &mut |_| Ok(()), derive)?;
        let key = key.map_err(|error| OutOfMemory::new_err(error.to_string()))?;
        Ok(Self(Zeroizing::new(key.expose().to_vec())))
    }

    /// Returns the HMAC-SHA-256 of `data` under this key.
    fn hmac<'py>(&self, data: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
        let py = data.py();
        let tag = hmac(&self.0, Bytes::readable(data)?.as_slice());
        Ok(PyBytes::new(py, &tag))
    }
}

impl Secret {
    /// Returns what tells secrets apart in this process, and shows nothing about them elsewhere.
    fn tag(&self, py: Python<'_>) -> PyResult<[u8; 32]> {
        static KEY: PyOnceLock<[u8; 32]> = PyOnceLock::new();
        let random = || py.import("os")?.call_method1("urandom", (32,))?.extract();
        Ok(hmac(KEY.get_or_try_init(py, random)?, &self.0))
    }

    fn token(&self, py: Python<'_>) -> PyResult<String> {
        let tag = self.tag(py)?;
        Ok(tag[..16].iter().map(|byte| format!("{byte:02x}")).collect())
    }
}

/// The error of what is no secret. It stands in the place of that, as a [`Secret`] would.
#[pyclass(frozen, module = "luxor._luxor")]
struct NoSecret(PyErr);

/// Returns a secret as a [`Secret`]. Functions of Python replace their arguments by it at once: variables
/// are shown in tracebacks. Therefore this does not fail; what uses the result fails.
#[pyfunction]
#[pyo3(signature = (secret, *, is_key = false))]
pub(crate) fn hidden<'py>(secret: &Bound<'py, PyAny>, is_key: bool) -> PyResult<Bound<'py, PyAny>> {
    let py = secret.py();
    if secret.is_none() || secret.is_instance_of::<Secret>() {
        return Ok(secret.clone());
    }
    let bytes = if is_key { key_bytes } else { passphrase_bytes };
    match bytes(secret) {
        Ok(bytes) => {
            let secret = Secret(Zeroizing::new(bytes.expose().to_vec()));
            Ok(Bound::new(py, secret)?.into_any())
        }
        Err(error) => Ok(Bound::new(py, NoSecret(error))?.into_any()),
    }
}

fn hmac(key: &[u8], data: &[u8]) -> [u8; 32] {
    let mac = Hmac::<Sha256>::new_from_slice(key).expect("keys may have any length");
    mac.chain_update(data).finalize().into_bytes().into()
}

/// Returns the bytes of a key: a [`Secret`], or an object with the buffer protocol.
pub(crate) fn key_bytes(key: &Bound<'_, PyAny>) -> PyResult<SecretBytes> {
    if let Ok(secret) = key.cast::<Secret>() {
        return Ok(SecretBytes::copy_of(&secret.get().0));
    }
    if let Ok(error) = key.cast::<NoSecret>() {
        return Err(error.get().0.clone_ref(key.py()));
    }
    Ok(SecretBytes::copy_of(Bytes::readable(key)?.as_slice()))
}

/// Returns the bytes of a passphrase, which may also be text.
pub(crate) fn passphrase_bytes(passphrase: &Bound<'_, PyAny>) -> PyResult<SecretBytes> {
    match passphrase.cast::<PyString>() {
        // The error of Python contains the text.
        Ok(text) => match text.to_str() {
            Ok(text) => Ok(SecretBytes::copy_of(text.as_bytes())),
            Err(error) if ends_program(text.py(), &error) => Err(error),
            Err(_) => Err(PyValueError::new_err(
                "the passphrase contains a part of a surrogate pair, which UTF-8 cannot encode: pass \
                 bytes",
            )),
        },
        Err(_) => key_bytes(passphrase),
    }
}
