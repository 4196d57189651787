// SPDX-License-Identifier: MIT OR Apache-2.0
//! A GPU with the kernels on it.

#![allow(
    unsafe_code,
    reason = "what was made by the driver is given back to it"
)]

use std::{
    collections::HashMap,
    ffi::{CStr, CString},
    sync::{Arc, OnceLock},
};

use luxor_engine::Buffer;
use luxor_engine_gpu::{
    AesSize, Device, DeviceError, KeyWords, Launch, QueueSizes, Ranges, Tables,
};

use crate::{
    driver::{Address, Argument, Attribute, Driver, Failure, Function, Module, Start, Stream},
    error::{Unusable, device_error},
    kernels,
    library::NO_DEVICE,
    memory::{CudaMemory, Gpu, Service},
    queue::CudaQueue,
    slots::{KeyId, SLOT, SLOTS, Slots},
};

/// The backend's name.
pub const NAME: &str = "cuda";

/// A GPU of NVIDIA's, ready to run the kernels.
pub struct Cuda(Arc<Inner>);

/// What queues and keys keep.
pub(crate) struct Inner {
    pub(crate) gpu: Arc<Gpu>,
    pub(crate) service: Arc<Service>,
    multiprocessors: u32,
    description: String,
    /// The kernels of each key size, compiled when the first key of that size is loaded: the
    /// driver takes a second, if it has not done so before.
    programs: [OnceLock<Result<Program, Unusable>>; AesSize::ALL.len()],
}

/// The kernels of one key size, and the keys' places that they read.
pub(crate) struct Program {
    pub(crate) slots: Slots,
    kernels: HashMap<&'static str, Kernel>,
    _module: Loaded,
}

#[derive(Clone, Copy)]
struct Kernel {
    function: Function,
    /// As many as the device runs at a time.
    most_blocks: u32,
}

/// A key on a GPU. Wiped there and here when dropped.
pub struct CudaKey {
    pub(crate) device: Arc<Inner>,
    pub(crate) id: KeyId,
    pub(crate) words: KeyWords,
}

impl Cuda {
    pub(crate) fn inner(&self) -> &Inner {
        &self.0
    }

    /// Every device of a driver that can run the kernels; at least one.
    ///
    /// # Errors
    /// [`Unusable`]: why there is none, or why the first one is none.
    pub fn all(driver: &Arc<dyn Driver>) -> Result<Vec<Self>, Unusable> {
        let found = driver.version()?;
        let needed = kernels::DRIVER;
        if found < needed {
            return Err(Unusable::DriverTooOld { found, needed });
        }
        let none = |failure: Failure| match failure.code {
            NO_DEVICE => Unusable::NoDevice,
            _ => failure.into(),
        };
        driver.init().map_err(none)?;
        let count = driver.device_count().map_err(none)?;
        let ranges = Arc::new(Ranges::default());
        let mut usable = Vec::new();
        let mut first = None;
        for device in 0..count {
            match Self::open(driver, device, &ranges) {
                Ok(device) => usable.push(device),
                Err(why) => first = first.or(Some(why)),
            }
        }
        match first {
            _ if !usable.is_empty() => Ok(usable),
            Some(why) => Err(why),
            None => Err(Unusable::NoDevice),
        }
    }

    fn open(driver: &Arc<dyn Driver>, device: u32, ranges: &Arc<Ranges>) -> Result<Self, Unusable> {
        let name = driver.device_name(device)?;
        let attribute = |attribute| driver.attribute(device, attribute);
        let capability = (
            attribute(Attribute::ComputeCapabilityMajor)?,
            attribute(Attribute::ComputeCapabilityMinor)?,
        );
        let shared = attribute(Attribute::SharedMemoryPerBlock)?;
        let multiprocessors = attribute(Attribute::Multiprocessors)?;
        let lacks = |found, needed| {
            Err(Unusable::Device {
                device: name.clone(),
                found,
                needed,
            })
        };
        let of = |(major, minor)| format!("compute capability {major}.{minor}");
        if capability < kernels::COMPUTE_CAPABILITY {
            return lacks(of(capability), of(kernels::COMPUTE_CAPABILITY));
        }
        if shared < kernels::SHARED {
            let of = |bytes| format!("{bytes} bytes of shared memory a block");
            return lacks(of(shared), of(kernels::SHARED));
        }

        let gpu = Arc::new(Gpu::open(driver, device, ranges)?);
        let cuda = driver.version()?;
        let (major, minor) = capability;
        let description = format!(
            "{name}, compute capability {major}.{minor}, {multiprocessors} multiprocessors, \
             driver for CUDA {}.{}",
            cuda / 1000,
            cuda % 1000 / 10
        );
        let inner = Inner {
            service: Arc::new(Service::new(&gpu)?),
            gpu,
            multiprocessors,
            description,
            programs: Default::default(),
        };
        // Those that are wanted first, by default. What is wrong with one is so with all.
        inner.program(AesSize::Aes256)?;
        Ok(Self(Arc::new(inner)))
    }
}

impl Inner {
    /// The kernels for keys of `size`.
    pub(crate) fn program(&self, size: AesSize) -> Result<&Program, Unusable> {
        let index = match size {
            AesSize::Aes128 => 0,
            AesSize::Aes192 => 1,
            AesSize::Aes256 => 2,
        };
        self.programs[index]
            .get_or_init(|| Program::load(self, kernels::of(size)))
            .as_ref()
            .map_err(Clone::clone)
    }
}

impl Program {
    fn load(device: &Inner, source: &kernels::Kernels) -> Result<Self, Unusable> {
        let gpu = &device.gpu;
        let module = Loaded::new(gpu, source.ptx)?;
        let mut kernels = HashMap::new();
        for name in source.names {
            kernels.insert(name, module.kernel(name, device.multiprocessors)?);
        }
        let (address, len) = gpu.driver.global(module.module, kernels::KEYS)?;
        if len != SLOTS * SLOT {
            return Err(Unusable::Kernels {
                found: format!("{len} bytes for keys"),
                expected: format!("{SLOTS} times {SLOT}"),
            });
        }
        Ok(Self {
            slots: Slots::new(gpu, &device.service, address)?,
            kernels,
            _module: module,
        })
    }
}

/// A module. It is unloaded when nothing has it any more.
pub(crate) struct Loaded {
    pub(crate) gpu: Arc<Gpu>,
    pub(crate) module: Module,
}

impl Loaded {
    /// Compiles the program.
    pub(crate) fn new(gpu: &Arc<Gpu>, ptx: &CStr) -> Result<Self, Failure> {
        gpu.enter()?;
        Ok(Self {
            module: gpu.driver.load_module(ptx)?,
            gpu: Arc::clone(gpu),
        })
    }

    fn kernel(&self, name: &str, multiprocessors: u32) -> Result<Kernel, Unusable> {
        let driver = &self.gpu.driver;
        let name = CString::new(name).unwrap_or_default();
        let function = driver.function(self.module, &name)?;
        driver.allow_shared(function, kernels::SHARED)?;
        let resident = driver.resident_blocks(function, kernels::THREADS, kernels::SHARED)?;
        Ok(Kernel {
            function,
            most_blocks: multiprocessors.saturating_mul(resident).max(1),
        })
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        if self.gpu.enter().is_ok() {
            // SAFETY: queues and keys, which use it, have its device behind an `Arc`, and
            // they are gone.
            unsafe { self.gpu.driver.unload_module(self.module) };
        }
    }
}

impl Inner {
    /// Puts `launch` on the stream, after a check of its bounds.
    ///
    /// # Safety
    /// `launch` stays within the memory at these addresses, and `slot` has its key.
    pub(crate) unsafe fn launch(
        &self,
        stream: Stream,
        size: AesSize,
        slot: usize,
        places: &Places,
        launch: &Launch,
    ) -> Result<(), DeviceError> {
        let kernel = self.program(size)?.kernels[launch.kernel(size)];
        let slot = u32::try_from(slot).unwrap_or(u32::MAX);
        let arguments = places.arguments(slot, launch);
        let blocks = launch.threads().div_ceil(kernels::THREADS.into());
        let start = Start {
            function: kernel.function,
            grid: u32::try_from(blocks).map_or(kernel.most_blocks, |b| b.min(kernel.most_blocks)),
            threads: kernels::THREADS,
            shared: kernels::SHARED,
            stream,
            arguments: &arguments,
        };
        // SAFETY: the arguments are the kernel's (`kernels/`, and the tests' emulator has
        // them in the PTX); the rest is the caller's word.
        unsafe { self.gpu.driver.launch(&start) }.map_err(|failure| device_error(&failure))
    }
}

/// Where a launch's memories begin.
pub(crate) struct Places {
    pub(crate) input: Address,
    pub(crate) output: Address,
    pub(crate) tweaks: Address,
    pub(crate) pieces: Address,
}

impl Places {
    /// A kernel's arguments, in its order.
    fn arguments(&self, slot: u32, launch: &Launch) -> Vec<Argument> {
        use luxor_engine_gpu::Argument as Of;

        let argument = |of| match of {
            Of::Input(at) => Argument::Address(self.input.after(at)),
            Of::Output(at) => Argument::Address(self.output.after(at)),
            Of::Tweaks(at) => Argument::Address(self.tweaks.after(at)),
            Of::Pieces(at) => Argument::Address(self.pieces.after(at)),
            Of::Number(number) => Argument::U32(number),
        };
        let behind = launch.arguments().into_iter().map(argument);
        [Argument::U32(slot)].into_iter().chain(behind).collect()
    }
}

impl Device for Cuda {
    type Queue = CudaQueue;
    type Key = CudaKey;
    type Memory = CudaMemory;

    fn name(&self) -> &'static str {
        NAME
    }

    fn description(&self) -> String {
        self.0.description.clone()
    }

    fn tables(&self) -> Tables {
        kernels::TABLES
    }

    fn load_key(&self, words: &KeyWords) -> Result<CudaKey, DeviceError> {
        Ok(CudaKey {
            id: self.0.program(words.size())?.slots.add(words)?,
            device: Arc::clone(&self.0),
            words: words.clone(),
        })
    }

    fn queue(&self, sizes: QueueSizes) -> Result<CudaQueue, DeviceError> {
        CudaQueue::new(&self.0, sizes).map_err(|failure| device_error(&failure))
    }

    fn alloc(&self, len: usize) -> Option<Buffer> {
        let memory = self.0.gpu.pinned_for_callers(len).ok()?;
        let aligned = memory.as_ptr().addr().is_multiple_of(luxor_engine::PAGE);
        aligned.then(|| Buffer::from_owner(memory))
    }

    fn is_pinned(&self, bytes: &[u8]) -> bool {
        self.0.gpu.is_pinned(bytes)
    }

    fn memory(&self, len: usize) -> Result<CudaMemory, DeviceError> {
        CudaMemory::zeroed(&self.0.service, len).map_err(|failure| device_error(&failure))
    }

    fn write(&self, memory: &mut CudaMemory, at: usize, bytes: &[u8]) -> Result<(), DeviceError> {
        memory.write(at, bytes)
    }

    fn read(&self, memory: &CudaMemory, at: usize, bytes: &mut [u8]) -> Result<(), DeviceError> {
        memory.read(at, bytes)
    }

    fn copy(&self, from: &CudaMemory, to: &mut CudaMemory, len: usize) -> Result<(), DeviceError> {
        to.copy(from, len)
    }
}

impl Drop for CudaKey {
    fn drop(&mut self) {
        if let Ok(program) = self.device.program(self.words.size()) {
            program.slots.remove(self.id);
        }
    }
}
