// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a GPU's queues and keys share: its memory, and the kernels on it.

#![allow(
    unsafe_code,
    reason = "what was made by the driver is given back to it"
)]

use std::{
    collections::HashMap,
    ffi::{CStr, CString},
    sync::{Arc, OnceLock},
};

use luxor_engine_gpu::{AesSize, DeviceError, KeyWords, Launch};

use crate::{
    driver::{Address, Argument, Failure, Function, Module, Start, Stream},
    error::{Unusable, device_error},
    kernels,
    memory::{Gpu, Service},
    slots::{KeyId, SLOT, SLOTS, Slots},
};

/// What is shared.
pub(crate) struct Shared {
    pub(crate) gpu: Arc<Gpu>,
    pub(crate) service: Arc<Service>,
    pub(crate) multiprocessors: u32,
    pub(crate) description: String,
    /// The kernels of each key size, compiled when the first key of that size is loaded: the
    /// driver takes a second, if it has not done so before.
    pub(crate) programs: [OnceLock<Result<Program, Unusable>>; AesSize::ALL.len()],
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
    pub(crate) device: Arc<Shared>,
    pub(crate) id: KeyId,
    pub(crate) words: KeyWords,
}

impl Shared {
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
    fn load(device: &Shared, source: &kernels::Kernels) -> Result<Self, Unusable> {
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

impl Shared {
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

impl Drop for CudaKey {
    fn drop(&mut self) {
        if let Ok(program) = self.device.program(self.words.size()) {
            program.slots.remove(self.id);
        }
    }
}
