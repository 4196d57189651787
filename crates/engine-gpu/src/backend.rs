// SPDX-License-Identifier: MIT OR Apache-2.0
//! The engine's backend for devices that run the kernels.

use std::sync::{Arc, atomic::AtomicUsize};

use luxor_engine::{Backend, BackendError, BackendInfo, Buffer, KeySpec, LoadedKey, Mode};

use crate::{device::Device, loaded_key::GpuKey, pool::Pool, tuning::Tuning};

const MODES: &[Mode] = &[Mode::Xts, Mode::Ctr];

/// XTS and CTR on one or more devices of one kind. Calls from many threads share the devices'
/// queues.
///
/// A call commits its results in batches, in order. Each batch is written to the runs whole, after
/// all its steps have succeeded. Results of in-place runs come back through staging memory, so a
/// device that is lost midway leaves the uncommitted input unchanged. A separate output may have
/// been written beyond the units that are done.
pub struct GpuBackend<D: Device> {
    pool: Arc<Pool<D>>,
    keys: Arc<AtomicUsize>,
    info: BackendInfo,
}

impl<D: Device> GpuBackend<D> {
    /// Creates the backend for `devices`, which must all be of one kind. It has the name of the
    /// first.
    ///
    /// # Panics
    /// If `devices` is empty.
    #[must_use]
    pub fn new(devices: Vec<D>, tuning: Tuning) -> Self {
        let name = devices.first().expect("at least one device").name();
        let described: Vec<_> = devices.iter().map(Device::description).collect();
        let described = match described.as_slice() {
            [one] => one.clone(),
            many => format!("{} devices: {}", many.len(), many.join("; ")),
        };
        let mut info = BackendInfo::new(name, described, MODES);
        info.min_batch = tuning.min_batch;
        Self {
            pool: Arc::new(Pool::new(devices, tuning)),
            keys: Arc::default(),
            info,
        }
    }

    /// Returns the devices in the order that [`GpuBackend::new`] was given.
    #[must_use]
    pub fn devices(&self) -> &[D] {
        self.pool.devices()
    }

    pub(crate) fn pool(&self) -> &Pool<D> {
        &self.pool
    }

    /// Loads a key as [`Backend::load_key`] does, and returns the type that can also encrypt data
    /// in device memory.
    ///
    /// # Errors
    /// As [`Backend::load_key`]: [`BackendError::Unsupported`] for all modes but XTS and CTR. A
    /// lost device is skipped as long as another device remains.
    pub fn load(&self, key: &KeySpec) -> Result<GpuKey<D>, BackendError> {
        GpuKey::load(&self.pool, &self.keys, self.info.name, key)
    }
}

impl<D: Device> Backend for GpuBackend<D> {
    fn info(&self) -> BackendInfo {
        self.info.clone()
    }

    fn load_key(&self, key: &KeySpec) -> Result<Box<dyn LoadedKey>, BackendError> {
        Ok(Box::new(self.load(key)?))
    }

    fn alloc(&self, len: usize) -> Buffer {
        let mut devices = self.devices().iter();
        let pinned = devices.find_map(|device| device.alloc(len));
        pinned.unwrap_or_else(|| Buffer::zeroed(len))
    }
}

impl<D: Device> std::fmt::Debug for GpuBackend<D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "GpuBackend({:?})", self.info)
    }
}
