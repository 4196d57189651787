// SPDX-License-Identifier: MIT OR Apache-2.0
//! The state that a GPU's queues and keys share: its memory and its kernels.

#![allow(
    unsafe_code,
    reason = "frees objects of the driver, and launches kernels"
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

/// The shared state of a GPU.
pub(crate) struct Shared {
    pub(crate) gpu: Arc<Gpu>,
    pub(crate) service: Arc<Service>,
    pub(crate) multiprocessors: u32,
    pub(crate) description: String,
    /// The kernels of each key size, compiled when the first key of that size is loaded: unless the
    /// driver has them in its cache, compiling takes a second.
    pub(crate) programs: [OnceLock<Result<Program, Unusable>>; AesSize::ALL.len()],
}

/// The kernels of one key size, and the slots from which they read keys.
pub(crate) struct Program {
    pub(crate) slots: Slots,
    kernels: HashMap<&'static str, Kernel>,
    _module: Loaded,
}

#[derive(Clone, Copy)]
struct Kernel {
    function: Function,
    /// The most blocks of a launch: as many as the device runs at a time.
    most_blocks: u32,
}

/// A key on a GPU. Dropping it wipes it there and on the host.
pub struct CudaKey {
    pub(crate) device: Arc<Shared>,
    pub(crate) id: KeyId,
    pub(crate) words: KeyWords,
}

impl Shared {
    /// Returns the kernels for keys of `size`, compiled on first use.
    pub(crate) fn program(&self, size: AesSize) -> Result<&Program, Unusable> {
        let index = match size {
            AesSize::Aes128 => 0,
            AesSize::Aes192 => 1,
            AesSize::Aes256 => 2,
        };
        self.programs[index]
            .get_or_init(|| Program::load(self, kernels::for_size(size)))
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

/// A loaded module. Unloaded when dropped.
pub(crate) struct Loaded {
    pub(crate) gpu: Arc<Gpu>,
    pub(crate) module: Module,
}

impl Loaded {
    /// Compiles the PTX and loads it.
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
            // SAFETY: only queues and keys use the module; they hold its device through an `Arc`,
            // so they have been dropped.
            unsafe { self.gpu.driver.unload_module(self.module) };
        }
    }
}

impl Shared {
    /// Enqueues `launch` on the stream. The caller has checked its bounds.
    ///
    /// # Safety
    /// `launch` stays within the memories at these addresses, and `slot` holds its key.
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
        let start = Start {
            function: kernel.function,
            grid: launch.groups(kernel.most_blocks),
            threads: kernels::THREADS,
            shared: kernels::SHARED,
            stream,
            arguments: &arguments,
        };
        // SAFETY: the arguments match the kernel's parameters (`kernels/`; in tests the emulator
        // checks them against the PTX). The caller promises the rest.
        unsafe { self.gpu.driver.launch(&start) }.map_err(|failure| device_error(&failure))
    }
}

/// The addresses of a launch's memories.
pub(crate) struct Places {
    pub(crate) input: Address,
    pub(crate) output: Address,
    pub(crate) tweaks: Address,
    pub(crate) pieces: Address,
}

impl Places {
    /// Returns a kernel's arguments in order.
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
