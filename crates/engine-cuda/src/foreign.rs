// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs kernels other than Luxor's own.

#![allow(unsafe_code, reason = "the caller is responsible for foreign kernels")]

use std::{collections::HashMap, ffi::CString};

use luxor_engine_gpu::{
    DeviceError, DeviceMemory, ForeignArgument, ForeignDevice, ForeignLaunch, ForeignSource,
    KeyWords,
};

use crate::{
    device::Cuda,
    driver::{Address, Argument, Failure, Function, Start},
    error::device_error,
    kernels,
    memory::CudaMemory,
    queue::CudaQueue,
    shared::Loaded,
};

/// A foreign program on a GPU.
pub struct CudaProgram {
    module: Loaded,
    functions: HashMap<String, Function>,
    /// The address and the length in bytes of the variable for keys.
    keys: (Address, usize),
    threads: u32,
}

impl CudaProgram {
    fn function(&mut self, name: &str, shared: u32) -> Result<Function, Failure> {
        if let Some(&function) = self.functions.get(name) {
            return Ok(function);
        }
        let driver = &self.module.gpu.driver;
        let c_name = CString::new(name).unwrap_or_default();
        let function = driver.function(self.module.module, &c_name)?;
        if shared > 0 {
            driver.allow_shared(function, shared)?;
        }
        self.functions.insert(name.to_owned(), function);
        Ok(function)
    }
}

impl ForeignDevice for Cuda {
    type Program = CudaProgram;

    fn program(&self, source: &ForeignSource) -> Result<CudaProgram, DeviceError> {
        let load = || {
            let module = Loaded::new(&self.inner().gpu, source.ptx)?;
            let keys = module.gpu.driver.global(module.module, kernels::KEYS)?;
            Ok(CudaProgram {
                module,
                functions: HashMap::new(),
                keys,
                threads: source.threads,
            })
        };
        load().map_err(|failure| device_error(&failure))
    }

    fn group(program: &CudaProgram) -> u32 {
        program.threads
    }

    fn set_key(&self, program: &mut CudaProgram, words: &KeyWords) -> Result<(), DeviceError> {
        let (to, room) = program.keys;
        let words = words.expose();
        if size_of_val(words) > room {
            let message = format!("the program has only {room} bytes for its key");
            return Err(DeviceError::Library { message });
        }
        let service = &self.inner().service;
        let done = service.run(|driver, stream| {
            // SAFETY: `room` is at least the length of `words`, which are borrowed until `run` has
            // waited.
            unsafe { driver.upload(to, words.as_ptr().cast(), size_of_val(words), stream) }
        });
        done.map_err(|failure| device_error(&failure))
    }

    unsafe fn upload(
        queue: &mut CudaQueue,
        from: *const u8,
        len: usize,
        to: &CudaMemory,
        at: usize,
    ) -> Result<(), DeviceError> {
        to.check(at, len)?;
        let to = to.address().after(at);
        queue.begin(|driver, stream| {
            // SAFETY: `check` bounds the device range; the caller promises that `from` is valid.
            unsafe { driver.upload(to, from, len, stream) }
        })
    }

    unsafe fn download(
        queue: &mut CudaQueue,
        from: &CudaMemory,
        at: usize,
        to: *mut u8,
        len: usize,
    ) -> Result<(), DeviceError> {
        from.check(at, len)?;
        let from = from.address().after(at);
        queue.begin(|driver, stream| {
            // SAFETY: as in `upload`, for `to`.
            unsafe { driver.download(to, from, len, stream) }
        })
    }

    unsafe fn launch(
        queue: &mut CudaQueue,
        program: &mut CudaProgram,
        launch: &ForeignLaunch<'_, CudaMemory>,
    ) -> Result<(), DeviceError> {
        let function = program.function(launch.kernel, launch.local);
        let function = function.map_err(|failure| device_error(&failure))?;
        let arguments = launch.arguments.iter().map(|argument| match argument {
            // The index of the key's slot. A foreign program has only one.
            ForeignArgument::Key => Argument::U32(0),
            ForeignArgument::Memory(memory) => Argument::Address(memory.address()),
            ForeignArgument::Number(number) => Argument::U32(*number),
        });
        let arguments: Vec<_> = arguments.collect();
        queue.begin(|driver, stream| {
            let start = Start {
                function,
                grid: launch.threads.div_ceil(program.threads),
                threads: program.threads,
                shared: launch.local,
                stream,
                arguments: &arguments,
            };
            // SAFETY: the caller promises that the arguments fit the kernel.
            unsafe { driver.launch(&start) }
        })
    }
}
