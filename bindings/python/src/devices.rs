// SPDX-License-Identifier: MIT OR Apache-2.0
//! The GPUs of this machine, and where `luxor.gpu` puts data: on one, or in the memory of the computer.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use luxor::{
    DeviceDisk,
    engine::{BackendError, KeySpec},
    engine_cuda::{self, Cuda, CudaMemory, Library, keeping_context},
    engine_gpu::{Device, DeviceError, GpuBackend, GpuKey},
    files::OfProcess,
};
use pyo3::{exceptions::PyValueError, prelude::*};

use crate::{
    error::{Error, KeyLostInFork},
    interrupt::wait_for,
    tensor::Tensor,
};

/// The GPUs that this process uses, kept from call to call, because the driver takes long to load
/// programs. Locked only for a moment, by threads that are attached to the interpreter, so that a
/// forked child does not find it locked.
static DEVICES: Mutex<Option<Arc<Devices>>> = Mutex::new(None);

fn known() -> MutexGuard<'static, Option<Arc<Devices>>> {
    DEVICES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What calls the driver when it is dropped. A forked child does not drop it. The context that is
/// current in the thread stays.
pub(crate) struct OfDriver<T> {
    driver: Arc<Library>,
    /// `None` only while this is dropped.
    value: Option<OfProcess<T>>,
}

impl<T> OfDriver<T> {
    fn new(driver: &Arc<Library>, value: OfProcess<T>) -> Self {
        Self {
            driver: Arc::clone(driver),
            value: Some(value),
        }
    }

    /// Returns the value, unless this process is a fork of the one that made it.
    pub(crate) fn here(&self) -> PyResult<&T> {
        let value = self.value.as_ref().and_then(OfProcess::here);
        value.ok_or_else(|| {
            KeyLostInFork::new_err(
                "this process is a fork of the one that uses the GPU, which a fork cannot use",
            )
        })
    }

    /// Returns the value on a thread of an operation, which no forked process has.
    pub(crate) fn on_thread(&self) -> &T {
        self.value.as_ref().expect("only `drop` takes it")
    }

    /// In a forked child closes the descriptors that the value holds.
    pub(crate) fn give_up(&self) {
        if let Some(value) = &self.value {
            value.give_up();
        }
    }
}

impl<T> Drop for OfDriver<T> {
    fn drop(&mut self) {
        let value = self.value.take();
        if value.as_ref().is_some_and(|value| value.here().is_some()) {
            keeping_context(&*self.driver, || drop(value));
        }
    }
}

/// The GPUs of this machine that can run the kernels.
pub(crate) struct Devices {
    driver: Arc<Library>,
    backend: OfDriver<Arc<GpuBackend<Cuda>>>,
}

impl Devices {
    fn open() -> Result<Self, String> {
        let driver = Library::open().map_err(|error| error.to_string())?;
        let backend = engine_cuda::backend().map_err(|error| error.to_string())?;
        Ok(Self {
            backend: OfDriver::new(&driver, OfProcess::new(Arc::new(backend))),
            driver,
        })
    }

    /// Returns the GPUs, or the reason why there are none.
    pub(crate) fn get(py: Python<'_>) -> PyResult<Result<Arc<Self>, String>> {
        if let Some(devices) = &*known() {
            devices.backend.here()?;
            return Ok(Ok(Arc::clone(devices)));
        }
        // On a thread of its own, which has no context.
        let opened = wait_for(py, &Arc::default(), &mut |_| Ok(()), Self::open)?;
        Ok(opened.map(|devices| Arc::clone(known().get_or_insert(Arc::new(devices)))))
    }

    /// Does `work` with the driver. The current context stays.
    pub(crate) fn keeping_context<T>(&self, work: impl FnOnce() -> T) -> T {
        keeping_context(&*self.driver, work)
    }

    /// Loads a key.
    pub(crate) fn load(
        &self,
        key: &KeySpec,
    ) -> PyResult<Result<OfDriver<GpuKey<Cuda>>, BackendError>> {
        let backend = self.backend.here()?;
        let key = self.keeping_context(|| backend.load(key));
        if let Err(BackendError::Device { .. }) = key {
            Python::try_attach(|_| Self::forget());
        }
        Ok(key.map(|key| OfDriver::new(&self.driver, OfProcess::new(key))))
    }

    /// Lets the next call open the GPUs anew, after one has failed: a lost one stays lost in a backend.
    pub(crate) fn forget() {
        // Not dropped under the lock.
        let _devices = known().take();
    }
}

/// One of the GPUs.
#[derive(Clone)]
pub(crate) struct Gpu {
    devices: Arc<Devices>,
    index: usize,
}

impl Gpu {
    /// Returns the GPU with this number of the driver.
    fn by_number(devices: &Arc<Devices>, number: u32) -> PyResult<Option<Self>> {
        let mut known = devices.backend.here()?.devices().iter();
        let index = known.position(|device| device.number() == number);
        Ok(index.map(|index| Self {
            devices: Arc::clone(devices),
            index,
        }))
    }

    /// Returns the GPU with this memory.
    pub(crate) fn of(devices: &Arc<Devices>, memory: &Tensor) -> PyResult<Self> {
        let (gpu, none) = match memory.device {
            Some(number) => (
                Self::by_number(devices, number)?,
                format!("Luxor cannot use GPU {number}"),
            ),
            None => {
                let address = memory.address;
                let known = devices.backend.here()?.devices();
                let index = devices.keeping_context(|| Cuda::of_address(known, address));
                let index = index.map_err(|error| refused(error.to_string()))?;
                let devices = Arc::clone(devices);
                (
                    index.map(|index| Self { devices, index }),
                    format!("the array at {address:#x} is on no GPU that Luxor can use"),
                )
            }
        };
        gpu.ok_or_else(|| PyValueError::new_err(none))
    }

    /// The position among the devices of the backend.
    pub(crate) fn index(&self) -> usize {
        self.index
    }

    /// The GPU, on a thread of an operation.
    pub(crate) fn cuda(&self) -> &Cuda {
        &self.devices.backend.on_thread().devices()[self.index]
    }

    /// The driver's number.
    pub(crate) fn number(&self) -> u32 {
        self.cuda().number()
    }

    /// Makes memory one of this process.
    pub(crate) fn owned(&self, memory: CudaMemory) -> OfDriver<CudaMemory> {
        OfDriver::new(&self.devices.driver, OfProcess::new(memory))
    }

    /// Makes a disk, on a thread of an operation.
    pub(crate) fn disk(
        &self,
        make: impl FnOnce(&Arc<GpuBackend<Cuda>>) -> luxor::Result<DeviceDisk<Cuda>>,
    ) -> luxor::Result<OfDriver<DeviceDisk<Cuda>>> {
        let disk = make(self.devices.backend.on_thread()).inspect_err(|error| {
            if let Some(BackendError::Device { .. }) = error.find() {
                Python::try_attach(|_| Devices::forget());
            }
        })?;
        let disk = OfProcess::holding(disk, |disk| disk.disk().descriptors());
        Ok(OfDriver::new(&self.devices.driver, disk))
    }

    /// Copies bytes of `memory` from byte `at` on. The current context stays.
    pub(crate) fn read(
        &self,
        memory: &CudaMemory,
        at: usize,
        bytes: &mut [u8],
    ) -> Result<(), DeviceError> {
        let read = || self.cuda().read(memory, at, bytes);
        self.devices.keeping_context(read)
    }
}

/// Where data go.
#[derive(Clone)]
pub(crate) enum Place {
    Host,
    Gpu(Gpu),
}

impl Place {
    /// Returns the place with this name: `cpu`, `cuda` for the first GPU or `cuda:1` for the one with
    /// this number. `None` is the first GPU, or the memory of the computer if there is none.
    pub(crate) fn by_name(py: Python<'_>, name: Option<&str>) -> PyResult<Self> {
        let wanted = match name.map(|name| (name, name.strip_prefix("cuda"))) {
            None => None,
            Some(("cpu", _)) => return Ok(Self::Host),
            Some((_, Some(""))) => Some(None),
            Some((name, rest)) => {
                let number = rest.and_then(|rest| rest.strip_prefix(':'));
                let number = number.and_then(|number| number.parse::<u32>().ok());
                let refused = || {
                    PyValueError::new_err(format!(
                        "device: {:?} is none of cpu, cuda and cuda:N",
                        luxor::files::bounded(name)
                    ))
                };
                Some(Some(number.ok_or_else(refused)?))
            }
        };
        let devices = match Devices::get(py)? {
            Ok(devices) => devices,
            Err(_) if wanted.is_none() => return Ok(Self::Host),
            Err(reason) => return Err(unusable(reason)),
        };
        let gpu = match wanted.flatten() {
            None => Gpu { devices, index: 0 },
            Some(number) => {
                let gpu = Gpu::by_number(&devices, number)?;
                gpu.ok_or_else(|| refused(format!("there is no GPU {number} that Luxor can use")))?
            }
        };
        Ok(Self::Gpu(gpu))
    }
}

#[expect(clippy::needless_pass_by_value, reason = "passed to `map_err`")]
pub(crate) fn unusable(reason: String) -> PyErr {
    refused(format!("no GPU can be used: {reason}"))
}

pub(crate) fn refused(message: String) -> PyErr {
    Error::new_err((message, None::<String>))
}
