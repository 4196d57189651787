// SPDX-License-Identifier: MIT OR Apache-2.0
//! The engine's backend on devices that run the kernels.

use std::sync::{Arc, atomic::AtomicUsize};

use luxor_engine::{Backend, BackendError, BackendInfo, Buffer, KeySpec, LoadedKey, Mode};

use crate::{device::Device, loaded_key::GpuKey, pool::Pool, tuning::Tuning};

const MODES: &[Mode] = &[Mode::Xts, Mode::Ctr];

/// XTS and CTR on one or more devices of a kind. Calls from many threads share the devices'
/// queues.
///
/// What a call makes is committed in batches, in order, each whole and only after all that
/// it takes has succeeded. In place, results come back into staging memory, so that a
/// device that is lost midway leaves the input as it was. An output of its own may have
/// been written to beyond what is done.
pub struct GpuBackend<D: Device> {
    pool: Arc<Pool<D>>,
    keys: Arc<AtomicUsize>,
    info: BackendInfo,
}

impl<D: Device> GpuBackend<D> {
    /// The backend on `devices`, which are of one kind.
    ///
    /// # Panics
    /// If there are none.
    #[must_use]
    pub fn new(devices: Vec<D>, tuning: Tuning) -> Self {
        let name = devices.first().expect("a device at least").name();
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

    /// The devices, in the order in which they were given.
    #[must_use]
    pub fn devices(&self) -> &[D] {
        self.pool.devices()
    }

    /// As [`Backend::load_key`], for who wants to use data that are on a device.
    ///
    /// # Errors
    /// As [`Backend::load_key`]. A device that is lost is left out, as long as there is
    /// another one.
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
