// SPDX-License-Identifier: MIT OR Apache-2.0
//! The engine's backend on devices that run the kernels.

use std::{
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use luxor_engine::{
    Backend, BackendError, BackendInfo, Buffer, CryptError, CryptErrorKind, DataUnitLen,
    DataUnitNumber, Direction, KeySpec, LoadedKey, Mode, Run, check_runs,
};

use crate::{
    call::Call,
    device::{Device, DeviceError, Resident},
    keys::{KeyWords, Tables},
    pool::Pool,
    resident,
};

const MODES: &[Mode] = &[Mode::Xts, Mode::Ctr];

/// How much is under way at a time, and in which portions.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Tuning {
    /// Bytes of data of a queue, 8 MiB by default: a batch has no more, but where one data
    /// unit has. On the device is half as much again, and on the host, pinned, as much.
    pub batch: usize,
    /// A call is cut into batches for all queues as long as they have so many bytes: 1 MiB.
    pub least_batch: usize,
    /// Queues of a device: 4. So many batches are copied and encrypted at a time.
    pub queues: usize,
    /// Runs of so many bytes in pinned memory are not staged: 64 KiB. What is shorter is
    /// sooner copied than a copy of its own is begun.
    pub direct: usize,
    /// Calls with fewer bytes are faster on the CPU ([`BackendInfo::min_batch`]): 0.
    pub min_batch: usize,
}

impl Default for Tuning {
    fn default() -> Self {
        Self {
            batch: 8 << 20,
            least_batch: 1 << 20,
            queues: 4,
            direct: 64 << 10,
            min_batch: 0,
        }
    }
}

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
        let backend = self.info.name;
        let mode = key.mode();
        let words: fn(&KeySpec, Tables) -> Option<KeyWords> = |key, tables| match key {
            KeySpec::Xts(key) => Some(KeyWords::xts(key, tables)),
            KeySpec::Ctr(key) => Some(KeyWords::ctr(key, tables)),
            _ => None,
        };
        // Counted first: it is dropped whatever happens.
        self.keys.fetch_add(1, Ordering::Relaxed);
        let mut loaded = GpuKey {
            pool: Arc::clone(&self.pool),
            count: Arc::clone(&self.keys),
            backend,
            mode,
            keys: Vec::new(),
        };
        let mut lost = None;
        for (index, device) in self.devices().iter().enumerate() {
            let words = words(key, device.tables());
            let words = words.ok_or(BackendError::Unsupported { backend, mode })?;
            match device.load_key(&words) {
                Ok(key) => loaded.keys.push(Some(key)),
                Err(error) => {
                    if !error.is_lost() {
                        return Err(device_failed(backend, &error));
                    }
                    self.pool.lose(index, &error);
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
}

fn device_failed(backend: &'static str, error: &DeviceError) -> BackendError {
    BackendError::Device {
        backend,
        message: error.to_string(),
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

/// A key on the devices. It is wiped there when it is dropped, and with the last key of a
/// backend the data that calls have left in queues that nobody uses.
pub struct GpuKey<D: Device> {
    pool: Arc<Pool<D>>,
    count: Arc<AtomicUsize>,
    backend: &'static str,
    mode: Mode,
    /// For each device; `None` where it was lost before.
    keys: Vec<Option<D::Key>>,
}

impl<D: Device> GpuKey<D> {
    /// Encrypts or decrypts data that are on the device with the index `device`, and
    /// returns when all are done. Nothing is copied but the runs' numbers.
    ///
    /// Units begin a multiple of 16 bytes apart: with lengths that are none, what fills the
    /// last block is left alone. Each run is launched by itself. Runs must not overlap one
    /// another; that is not checked.
    ///
    /// # Errors
    /// [`ResidentError`]. When the device failed, what is in the output is not known.
    ///
    /// # Panics
    /// If there is no such device.
    pub fn crypt_resident(
        &self,
        device: usize,
        direction: Direction,
        runs: &[ResidentRun],
        data: Resident<'_, D::Memory>,
    ) -> Result<(), ResidentError> {
        assert!(device < self.pool.devices().len(), "no device {device}");
        let tweaks = self.mode == Mode::Xts;
        for run in runs {
            let unit_len = run.unit_len.get();
            if !self.mode.accepts_unit_len(unit_len) {
                let mode = self.mode;
                return Err(ResidentError::UnitLen { mode, unit_len });
            }
        }
        resident::crypt(self, device, tweaks, direction, runs, data)
    }

    pub(crate) fn pool(&self) -> &Pool<D> {
        &self.pool
    }

    /// The key on a device that is not lost.
    pub(crate) fn on(&self, device: usize) -> &D::Key {
        let key = self.keys[device].as_ref();
        key.expect("a device without it was lost, and no queue of such is lent")
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

impl<D: Device> LoadedKey for GpuKey<D> {
    fn crypt(&self, direction: Direction, runs: &mut [Run<'_>]) -> Result<(), CryptError> {
        check_runs(self.mode, runs)?;
        let call = Call::new(self, direction, self.mode == Mode::Xts, runs);
        call.run().map_err(|(done, error)| {
            let (backend, message) = (self.backend, error.to_string());
            CryptError::new(done, CryptErrorKind::Device { backend, message })
        })
    }

    fn whole_from(&self) -> usize {
        0
    }
}

/// Consecutive data units in a device's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResidentRun {
    /// The first unit's number.
    pub first: DataUnitNumber,
    /// The step from number to number.
    pub stride: u64,
    /// Bytes of each unit.
    pub unit_len: DataUnitLen,
    /// How many units.
    pub units: usize,
    /// Where the first one is read: bytes, a multiple of 16.
    pub input_at: usize,
    /// Where it is written: bytes, a multiple of 16; the same or apart.
    pub output_at: usize,
}

/// Why data on a device were not encrypted or decrypted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ResidentError {
    /// The mode has no data units of this length. Nothing was done.
    #[error("{mode} cannot process data units of {unit_len} bytes")]
    UnitLen {
        /// The key's mode.
        mode: Mode,
        /// The length of the run's units in bytes.
        unit_len: usize,
    },
    /// A run is not within the memory, or begins at no block. Nothing was done.
    #[error("{units} data units at byte {at} are not within {len} bytes, by whole blocks")]
    Bounds {
        /// How many units.
        units: usize,
        /// Where they begin.
        at: usize,
        /// Bytes of the memory.
        len: usize,
    },
    /// A run's input and output are not the same bytes, and not apart. Nothing was done.
    #[error("bytes {input:?} cannot be read, and {output:?} written, in one memory")]
    Overlap {
        /// The bytes that are read.
        input: Range<usize>,
        /// The bytes that are written.
        output: Range<usize>,
    },
    /// The device refused or failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
}
