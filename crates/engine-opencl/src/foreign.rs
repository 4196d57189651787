// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs kernels other than Luxor's own.

#![allow(unsafe_code, reason = "the caller is responsible for foreign kernels")]

use std::collections::HashMap;

use luxor_engine_gpu::{
    DeviceError, DeviceMemory, ForeignArgument, ForeignDevice, ForeignLaunch, ForeignSource,
    KeyWords,
};

use crate::{
    cl::{Argument, Kernel, Program},
    device::OpenCl,
    memory::OpenClMemory,
    queue::OpenClQueue,
    shared::key_memory,
};

/// A foreign program on a device.
pub struct OpenClProgram {
    program: Program,
    kernels: HashMap<String, Kernel>,
    key: Option<OpenClMemory>,
    threads: usize,
}

impl ForeignDevice for OpenCl {
    type Program = OpenClProgram;

    fn is_cpu(&self) -> bool {
        self.inner().found.facts.is_cpu
    }

    fn program(&self, source: &ForeignSource) -> Result<OpenClProgram, DeviceError> {
        let device = self.inner();
        let facts = device.found.facts;
        let lacks = |message| DeviceError::Library { message };
        if facts.local_memory < source.local.into() {
            let (found, wanted) = (facts.local_memory, source.local);
            let message =
                format!("the device has {found} bytes of local memory, but needs {wanted}");
            return Err(lacks(message));
        }
        let mut threads = [source.threads as usize, 256, 128, 64, 32].into_iter();
        let threads = threads.find(|&threads| threads <= facts.work_group);
        let threads =
            threads.ok_or_else(|| lacks("the device's work-groups are too small".to_owned()))?;
        let options = format!(
            "-cl-std=CL1.2 -DREPLICAS={} -DTABLES=1 -DTHREADS={threads}",
            source.replicas
        );
        Ok(OpenClProgram {
            program: Program::build(&device.service.context, source.opencl, &options)?,
            kernels: HashMap::new(),
            key: None,
            threads,
        })
    }

    fn group(program: &OpenClProgram) -> u32 {
        u32::try_from(program.threads).unwrap_or(u32::MAX)
    }

    fn set_key(&self, program: &mut OpenClProgram, words: &KeyWords) -> Result<(), DeviceError> {
        program.key = Some(key_memory(&self.inner().service, words)?);
        Ok(())
    }

    unsafe fn upload(
        queue: &mut OpenClQueue,
        from: *const u8,
        len: usize,
        to: &OpenClMemory,
        at: usize,
    ) -> Result<(), DeviceError> {
        let begun = to.check(at, len).and_then(|()| {
            // SAFETY: `check` bounds the device range; the caller promises that `from` is valid.
            Ok(unsafe { queue.queue.write(&to.buffer, at, from, len) }?)
        });
        queue.note(begun)
    }

    unsafe fn download(
        queue: &mut OpenClQueue,
        from: &OpenClMemory,
        at: usize,
        to: *mut u8,
        len: usize,
    ) -> Result<(), DeviceError> {
        let begun = from.check(at, len).and_then(|()| {
            // SAFETY: as in `upload`, for `to`.
            let event = unsafe { queue.queue.read(&from.buffer, at, to, len) }?;
            queue.queue.flush()?;
            Ok(event)
        });
        queue.note(begun)
    }

    unsafe fn launch(
        queue: &mut OpenClQueue,
        program: &mut OpenClProgram,
        launch: &ForeignLaunch<'_, OpenClMemory>,
    ) -> Result<(), DeviceError> {
        let OpenClProgram {
            program,
            kernels,
            key,
            threads,
        } = program;
        if !kernels.contains_key(launch.kernel) {
            kernels.insert(launch.kernel.to_owned(), program.kernel(launch.kernel)?);
        }
        let kernel = kernels
            .get_mut(launch.kernel)
            .expect("it was inserted above");
        let mut arguments = Vec::new();
        for argument in launch.arguments {
            arguments.push(match argument {
                ForeignArgument::Key => {
                    let message = "the program has no key".to_owned();
                    let key = key.as_ref().ok_or(DeviceError::Launch { message })?;
                    Argument::Buffer(&key.buffer)
                }
                ForeignArgument::Memory(memory) => Argument::Buffer(&memory.buffer),
                ForeignArgument::Number(number) => Argument::U32(*number),
            });
        }
        if launch.local > 0 {
            arguments.push(Argument::Local(launch.local as usize));
        }
        let groups = (launch.threads as usize).div_ceil(*threads);
        // SAFETY: the caller promises that the arguments fit; the library checks their number and
        // lengths.
        let begun = unsafe { queue.queue.launch(kernel, &arguments, groups, *threads) };
        // Flush now, so that the kernel starts while other queues are busy.
        let begun = begun.and_then(|event| queue.queue.flush().map(|()| event));
        queue.note(begun.map_err(DeviceError::from))
    }
}
