// SPDX-License-Identifier: MIT OR Apache-2.0
//! `luxor.KeyCache`.

use std::sync::{Arc, Mutex, PoisonError};

use luxor::{files::OfProcess, volume};
use pyo3::prelude::*;

/// The keys that were derived from secrets, for calls that open or make many volumes with one of
/// them: as the argument `key_cache` it lets volumes with the same salt and costs share a derivation.
/// The keys are wiped with the object, and in forked processes.
#[pyclass(frozen, module = "luxor")]
pub(crate) struct KeyCache(Mutex<OfProcess<Arc<volume::KeyCache>>>);

#[pymethods]
impl KeyCache {
    #[new]
    fn new() -> Self {
        Self(Mutex::new(OfProcess::new(Arc::default())))
    }
}

impl KeyCache {
    /// Returns the keys of this process. A fork begins with none: those of its parent are wiped, and
    /// a thread that exists in the parent only may have locked them, as for a derivation.
    pub(crate) fn shared(&self) -> Arc<volume::KeyCache> {
        let mut cache = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if cache.here().is_none() {
            *cache = OfProcess::new(Arc::default());
        }
        Arc::clone(&cache)
    }
}
