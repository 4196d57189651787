// SPDX-License-Identifier: MIT OR Apache-2.0
//! A key loaded on all devices of a backend.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use luxor_engine::{BackendError, KeySpec, Mode};

use crate::{
    device::Device,
    error::DeviceError,
    keys::{KeyWords, Tables},
    pool::Pool,
};

/// A key loaded on the devices, from [`GpuBackend::load`](crate::GpuBackend::load). Dropping it
/// wipes it there. Dropping the last key of a backend also wipes the data that calls left in idle
/// queues.
pub struct GpuKey<D: Device> {
    pool: Arc<Pool<D>>,
    count: Arc<AtomicUsize>,
    pub(crate) backend: &'static str,
    pub(crate) mode: Mode,
    /// One entry for each device; `None` if the device was already lost.
    keys: Vec<Option<D::Key>>,
}

impl<D: Device> GpuKey<D> {
    /// Loads a key on all devices that are not lost, and counts it in `count`.
    ///
    /// # Errors
    /// As [`GpuBackend::load`](crate::GpuBackend::load).
    pub(crate) fn load(
        pool: &Arc<Pool<D>>,
        count: &Arc<AtomicUsize>,
        backend: &'static str,
        key: &KeySpec,
    ) -> Result<Self, BackendError> {
        let mode = key.mode();
        let words: fn(&KeySpec, Tables) -> Option<KeyWords> = |key, tables| match key {
            KeySpec::Xts(key) => Some(KeyWords::xts(key, tables)),
            KeySpec::Ctr(key) => Some(KeyWords::ctr(key, tables)),
            _ => None,
        };
        // Count first: `Drop` subtracts one even if loading fails below.
        count.fetch_add(1, Ordering::Relaxed);
        let mut loaded = Self {
            pool: Arc::clone(pool),
            count: Arc::clone(count),
            backend,
            mode,
            keys: Vec::new(),
        };
        let mut lost = None;
        for (index, device) in pool.devices().iter().enumerate() {
            let words = words(key, device.tables());
            let words = words.ok_or(BackendError::Unsupported { backend, mode })?;
            match device.load_key(&words) {
                Ok(key) => loaded.keys.push(Some(key)),
                Err(error) => {
                    if !error.is_lost() {
                        return Err(device_failed(backend, &error));
                    }
                    pool.lose(index, &error);
                    loaded.keys.push(None);
                    lost = Some(error);
                }
            }
        }
        match lost {
            Some(error) if loaded.keys.iter().all(Option::is_none) => {
                Err(device_failed(backend, &error))
            }
            _ => Ok(loaded),
        }
    }

    /// Returns whether data units have tweaks, that is, whether the mode is XTS.
    pub(crate) fn has_tweaks(&self) -> bool {
        self.mode == Mode::Xts
    }

    pub(crate) fn pool(&self) -> &Pool<D> {
        &self.pool
    }

    /// Returns the key on `device`, which must not be lost.
    pub(crate) fn on(&self, device: usize) -> &D::Key {
        let key = self.keys[device].as_ref();
        key.expect("only a lost device has no key, and its queues are never lent")
    }
}

fn device_failed(backend: &'static str, error: &DeviceError) -> BackendError {
    BackendError::Device {
        backend,
        message: error.to_string(),
    }
}

impl<D: Device> Drop for GpuKey<D> {
    fn drop(&mut self) {
        self.keys.clear();
        if self.count.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.pool.wipe_idle();
        }
    }
}
