// SPDX-License-Identifier: MIT OR Apache-2.0
//! OpenCL objects, each released when it is dropped. This module uses `cl3` and not `opencl3`,
//! whose objects panic on drop if the library refuses to release them, as it may when a device is
//! lost.
//!
//! All OpenCL functions may be called from any thread at any time, except those that set the
//! arguments of a kernel object (OpenCL 1.2, A.2). So every queue has its own kernel objects.

#![allow(unsafe_code, reason = "calls the system's OpenCL library")]

use std::{
    ffi::{CString, c_void},
    ptr::{self, NonNull},
    sync::Arc,
};

use cl3::{
    command_queue, context, device, event, info_type::InfoType, kernel, memory, platform, program,
    types::cl_device_id,
};

use crate::error::{Failure, Unusable};

const FALSE: u32 = 0;
const TRUE: u32 = 1;

/// A platform: one implementation of OpenCL.
#[derive(Clone, Copy)]
pub(crate) struct Platform(platform::cl_platform_id);

/// A device.
#[derive(Clone, Copy)]
pub(crate) struct DeviceId(cl_device_id);

// SAFETY: a device ID belongs to the library, which is never unloaded, and root devices are not
// reference-counted. So the ID is valid in every thread.
unsafe impl Send for DeviceId {}
// SAFETY: as for `Send`.
unsafe impl Sync for DeviceId {}

/// Returns all platforms.
///
/// # Errors
/// [`Unusable::Library`] if the library is missing, [`Unusable::Failed`] if it refuses the call.
pub(crate) fn platforms() -> Result<Vec<Platform>, Unusable> {
    if let Err(error) = cl3::load_library() {
        let message = error.to_string();
        return Err(Unusable::Library { message });
    }
    match platform::get_platform_ids() {
        Ok(ids) => Ok(ids.into_iter().map(Platform).collect()),
        // The loader returns this code if there are no platforms.
        Err(cl3::error_codes::CL_PLATFORM_NOT_FOUND_KHR) => Ok(Vec::new()),
        Err(code) => Err(Failure::new("clGetPlatformIDs", code).into()),
    }
}

impl Platform {
    pub(crate) fn name(self) -> String {
        platform::get_platform_info(self.0, platform::CL_PLATFORM_NAME)
            .map_or_else(|_| "unknown".into(), text)
    }

    /// Returns the devices of a type, such as `CL_DEVICE_TYPE_GPU`.
    pub(crate) fn devices(self, kind: u64) -> Result<Vec<DeviceId>, Failure> {
        let devices = device::get_device_ids(self.0, kind);
        let devices = devices.map_err(Failure::in_call("clGetDeviceIDs"))?;
        Ok(devices.into_iter().map(DeviceId).collect())
    }
}

impl DeviceId {
    fn info(self, parameter: u32) -> Result<InfoType, Failure> {
        device::get_device_info(self.0, parameter).map_err(Failure::in_call("clGetDeviceInfo"))
    }

    pub(crate) fn text(self, parameter: u32) -> Result<String, Failure> {
        self.info(parameter).map(text)
    }

    /// Returns a numeric property of any width.
    pub(crate) fn number(self, parameter: u32) -> Result<u64, Failure> {
        Ok(match self.info(parameter)? {
            InfoType::Uint(number) => number.into(),
            InfoType::Ulong(number) => number,
            InfoType::Size(number) => number as u64,
            _ => 0,
        })
    }
}

fn text(info: InfoType) -> String {
    match info {
        InfoType::VecUchar(bytes) => {
            let text = String::from_utf8_lossy(&bytes);
            text.trim_end_matches('\0').trim().to_owned()
        }
        _ => String::new(),
    }
}

/// The OpenCL context that all objects of one device share.
pub(crate) struct Context {
    context: *mut c_void,
    device: DeviceId,
}

// SAFETY: OpenCL objects are not bound to a thread.
unsafe impl Send for Context {}
// SAFETY: as for `Send`.
unsafe impl Sync for Context {}

impl Context {
    pub(crate) fn new(device: DeviceId) -> Result<Arc<Self>, Failure> {
        let context = context::create_context(&[device.0], ptr::null(), None, ptr::null_mut())
            .map_err(Failure::in_call("clCreateContext"))?;
        Ok(Arc::new(Self { context, device }))
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: `self` owns the reference that it releases, here and in every `drop` below.
        let _ = unsafe { context::release_context(self.context) };
    }
}

/// A program built for the context's device.
pub(crate) struct Program {
    program: *mut c_void,
    context: Arc<Context>,
}

// SAFETY: as for `Context`.
unsafe impl Send for Program {}
// SAFETY: as for `Context`.
unsafe impl Sync for Program {}

impl Program {
    /// Compiles and links `source`.
    ///
    /// # Errors
    /// [`Failure`], with the compiler's log if there is one.
    pub(crate) fn build(
        context: &Arc<Context>,
        source: &str,
        options: &str,
    ) -> Result<Self, Failure> {
        // Pass a single string: `cl3` casts the slice of `&str` to an array of pointers, which
        // is wrong for more than one.
        let program = program::create_program_with_source(context.context, &[source])
            .map_err(Failure::in_call("clCreateProgramWithSource"))?;
        let program = Self {
            program,
            context: Arc::clone(context),
        };
        let options = CString::new(options).unwrap_or_default();
        let device = context.device.0;
        program::build_program(program.program, &[device], &options, None, ptr::null_mut())
            .map_err(|code| {
                let mut failure = Failure::new("clBuildProgram", code);
                let parameter = program::CL_PROGRAM_BUILD_LOG;
                let log = program::get_program_build_info(program.program, device, parameter);
                let log = log.map(text).unwrap_or_default();
                if !log.is_empty() {
                    failure.detail = format!("; the compiler's log:\n{log}");
                }
                failure
            })?;
        Ok(program)
    }

    pub(crate) fn kernel(&self, name: &str) -> Result<Kernel, Failure> {
        let c_name = CString::new(name).unwrap_or_default();
        let kernel = kernel::create_kernel(self.program, &c_name).map_err(|code| Failure {
            detail: format!(" of {name}"),
            ..Failure::new("clCreateKernel", code)
        })?;
        Ok(Kernel {
            kernel,
            device: self.context.device,
        })
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // SAFETY: as for `Context`.
        let _ = unsafe { program::release_program(self.program) };
    }
}

/// A kernel with its arguments.
pub(crate) struct Kernel {
    kernel: *mut c_void,
    device: DeviceId,
}

// SAFETY: as for `Context`. Not `Sync`, since only one thread at a time may set arguments.
unsafe impl Send for Kernel {}

/// An argument of a kernel.
#[derive(Clone, Copy)]
pub(crate) enum Argument<'a> {
    U32(u32),
    Buffer(&'a Buffer),
    /// This many bytes of local memory.
    Local(usize),
}

impl Kernel {
    /// Returns the largest work-group that can run the kernel.
    pub(crate) fn work_group(&self) -> Result<usize, Failure> {
        let parameter = kernel::CL_KERNEL_WORK_GROUP_SIZE;
        match kernel::get_kernel_work_group_info(self.kernel, self.device.0, parameter) {
            Ok(InfoType::Size(size)) => Ok(size),
            Ok(_) => Ok(0),
            Err(code) => Err(Failure::new("clGetKernelWorkGroupInfo", code)),
        }
    }

    fn set(&mut self, index: usize, argument: Argument<'_>) -> Result<(), Failure> {
        let index = u32::try_from(index).unwrap_or(u32::MAX);
        let (len, at): (usize, *const c_void) = match &argument {
            Argument::U32(number) => (size_of::<u32>(), ptr::from_ref(number).cast()),
            Argument::Buffer(buffer) => {
                let memory = &raw const buffer.memory;
                (size_of::<*mut c_void>(), memory.cast())
            }
            Argument::Local(len) => (*len, ptr::null()),
        };
        // SAFETY: the library copies the value during the call, and refuses a `len` that is not the
        // length of the kernel's parameter.
        unsafe { kernel::set_kernel_arg(self.kernel, index, len, at) }.map_err(|code| Failure {
            detail: format!(" of argument {index}"),
            ..Failure::new("clSetKernelArg", code)
        })
    }
}

impl Drop for Kernel {
    fn drop(&mut self) {
        // SAFETY: as for `Context`.
        let _ = unsafe { kernel::release_kernel(self.kernel) };
    }
}

/// Memory of a context.
pub(crate) struct Buffer {
    memory: *mut c_void,
    len: usize,
}

// SAFETY: as for `Context`.
unsafe impl Send for Buffer {}
// SAFETY: as for `Context`.
unsafe impl Sync for Buffer {}

/// The kind of memory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// On the device, read and written by kernels.
    Device,
    /// On the device, read by kernels.
    Constant,
    /// On the host, where the device has the fastest access: pinned memory if the device has it.
    Host,
}

impl Buffer {
    /// Allocates `len` bytes with undefined contents. Some devices allocate only at the first use.
    pub(crate) fn new(context: &Context, kind: Kind, len: usize) -> Result<Self, Failure> {
        let flags = match kind {
            Kind::Device => memory::CL_MEM_READ_WRITE,
            Kind::Constant => memory::CL_MEM_READ_ONLY,
            Kind::Host => memory::CL_MEM_READ_WRITE | memory::CL_MEM_ALLOC_HOST_PTR,
        };
        // OpenCL has no empty buffers, so allocate at least one byte.
        // SAFETY: these flags take no host pointer, so null is valid.
        let memory =
            unsafe { memory::create_buffer(context.context, flags, len.max(1), ptr::null_mut()) };
        let memory = memory.map_err(|code| Failure {
            detail: format!(" for {len} bytes"),
            ..Failure::new("clCreateBuffer", code)
        })?;
        Ok(Self { memory, len })
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: as for `Context`. Enqueued commands hold the buffer until they are done.
        let _ = unsafe { memory::release_mem_object(self.memory) };
    }
}

/// An in-order queue of the context's device.
pub(crate) struct CommandQueue(*mut c_void);

// SAFETY: as for `Context`.
unsafe impl Send for CommandQueue {}
// SAFETY: as for `Context`.
unsafe impl Sync for CommandQueue {}

impl CommandQueue {
    pub(crate) fn new(context: &Context) -> Result<Self, Failure> {
        // This is the function of OpenCL 1.2, which later versions still have.
        // SAFETY: the context and its device are valid, since `context` owns them.
        unsafe { command_queue::create_command_queue(context.context, context.device.0, 0) }
            .map(Self)
            .map_err(Failure::in_call("clCreateCommandQueue"))
    }

    /// Enqueues a copy of `len` bytes from the host into `to`, starting at byte `at`.
    ///
    /// # Safety
    /// `from` is valid for reads of `len` bytes, and nothing writes to these bytes, until
    /// [`CommandQueue::finish`] returns. The buffer has `len` bytes from `at` on.
    pub(crate) unsafe fn write(
        &self,
        to: &Buffer,
        at: usize,
        from: *const u8,
        len: usize,
    ) -> Result<Event, Failure> {
        let (from, none) = (from.cast(), ptr::null());
        // SAFETY: the caller promises that `from` is valid; the library refuses a range beyond the
        // buffer.
        unsafe {
            command_queue::enqueue_write_buffer(self.0, to.memory, FALSE, at, len, from, 0, none)
        }
        .map(Event)
        .map_err(Failure::in_call("clEnqueueWriteBuffer"))
    }

    /// Enqueues a copy of `len` bytes of `from`, starting at byte `at`, to the host.
    ///
    /// # Safety
    /// As for [`CommandQueue::write`], with `to` valid for writes; nothing else reads or writes it.
    pub(crate) unsafe fn read(
        &self,
        from: &Buffer,
        at: usize,
        to: *mut u8,
        len: usize,
    ) -> Result<Event, Failure> {
        let (to, none) = (to.cast(), ptr::null());
        // SAFETY: as in `write`.
        unsafe {
            command_queue::enqueue_read_buffer(self.0, from.memory, FALSE, at, len, to, 0, none)
        }
        .map(Event)
        .map_err(Failure::in_call("clEnqueueReadBuffer"))
    }

    /// Enqueues a copy of `len` bytes, more than 0, from one place in a buffer to one in another buffer.
    pub(crate) fn copy(
        &self,
        (from, from_at): (&Buffer, usize),
        (to, to_at): (&Buffer, usize),
        len: usize,
    ) -> Result<Event, Failure> {
        let none = ptr::null();
        // SAFETY: the library refuses ranges beyond the buffers, and buffers of another context.
        unsafe {
            let (from, to) = (from.memory, to.memory);
            command_queue::enqueue_copy_buffer(self.0, from, to, from_at, to_at, len, 0, none)
        }
        .map(Event)
        .map_err(Failure::in_call("clEnqueueCopyBuffer"))
    }

    /// Enqueues overwriting the first `len` bytes with zeros.
    pub(crate) fn fill_with_zeros(&self, buffer: &Buffer, len: usize) -> Result<Event, Failure> {
        let zero = 0_u8;
        let pattern = ptr::from_ref(&zero).cast();
        // SAFETY: the library copies the pattern during the call, and refuses a range beyond the
        // buffer.
        unsafe {
            command_queue::enqueue_fill_buffer(
                self.0,
                buffer.memory,
                pattern,
                1,
                0,
                len,
                0,
                ptr::null(),
            )
        }
        .map(Event)
        .map_err(Failure::in_call("clEnqueueFillBuffer"))
    }

    /// Enqueues a kernel with `groups` work-groups of `threads` work-items.
    ///
    /// # Safety
    /// The arguments match the kernel's parameters, and with them the kernel stays within its
    /// buffers.
    pub(crate) unsafe fn launch(
        &self,
        kernel: &mut Kernel,
        arguments: &[Argument<'_>],
        groups: usize,
        threads: usize,
    ) -> Result<Event, Failure> {
        for (index, argument) in arguments.iter().enumerate() {
            kernel.set(index, *argument)?;
        }
        let (global, local) = (groups * threads, threads);
        // SAFETY: the launch has one dimension, and `global` and `local` are one number each. The
        // caller promises the rest.
        unsafe {
            command_queue::enqueue_nd_range_kernel(
                self.0,
                kernel.kernel,
                1,
                ptr::null(),
                &raw const global,
                &raw const local,
                0,
                ptr::null(),
            )
        }
        .map(Event)
        .map_err(Failure::in_call("clEnqueueNDRangeKernel"))
    }

    /// Maps all of a buffer of [`Kind::Host`] into the host's address space, until
    /// [`CommandQueue::unmap`].
    pub(crate) fn map(&self, buffer: &Buffer) -> Result<NonNull<u8>, Failure> {
        let mut at = ptr::null_mut();
        let flags = memory::CL_MAP_READ | memory::CL_MAP_WRITE;
        // SAFETY: the call is blocking, so the memory is mapped when it returns. Kernels never use
        // such buffers.
        let mapped = unsafe {
            command_queue::enqueue_map_buffer(
                self.0,
                buffer.memory,
                TRUE,
                flags,
                0,
                buffer.len.max(1),
                &mut at,
                0,
                ptr::null(),
            )
        };
        drop(
            mapped
                .map(Event)
                .map_err(Failure::in_call("clEnqueueMapBuffer"))?,
        );
        NonNull::new(at.cast())
            .ok_or_else(|| Failure::new("clEnqueueMapBuffer", cl3::error_codes::CL_MAP_FAILURE))
    }

    /// Unmaps the buffer.
    ///
    /// # Safety
    /// `at` is the pointer that [`CommandQueue::map`] returned for this buffer, and is not used
    /// afterwards.
    pub(crate) unsafe fn unmap(&self, buffer: &Buffer, at: NonNull<u8>) {
        let at = at.as_ptr().cast();
        // SAFETY: the caller promises that `at` is the mapping of `buffer`.
        let event = unsafe {
            command_queue::enqueue_unmap_mem_object(self.0, buffer.memory, at, 0, ptr::null())
        };
        drop(event.map(Event));
        let _ = self.finish();
    }

    /// Sends the enqueued commands to the device.
    pub(crate) fn flush(&self) -> Result<(), Failure> {
        command_queue::flush(self.0).map_err(Failure::in_call("clFlush"))
    }

    /// Waits for all enqueued commands. Some libraries report failed commands here, others only in
    /// the command's event.
    pub(crate) fn finish(&self) -> Result<(), Failure> {
        command_queue::finish(self.0).map_err(Failure::in_call("clFinish"))
    }
}

impl Drop for CommandQueue {
    fn drop(&mut self) {
        // SAFETY: as for `Context`.
        let _ = unsafe { command_queue::release_command_queue(self.0) };
    }
}

/// The event of an enqueued command.
pub(crate) struct Event(*mut c_void);

// SAFETY: as for `Context`.
unsafe impl Send for Event {}

impl Event {
    /// Returns whether the command succeeded. To be called after [`CommandQueue::finish`].
    pub(crate) fn outcome(&self) -> Result<(), Failure> {
        let parameter = event::CL_EVENT_COMMAND_EXECUTION_STATUS;
        match event::get_event_info(self.0, parameter) {
            Ok(InfoType::Int(code)) if code < 0 => Err(Failure::new("a command", code)),
            Ok(_) => Ok(()),
            Err(code) => Err(Failure::new("clGetEventInfo", code)),
        }
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: as for `Context`.
        let _ = unsafe { event::release_event(self.0) };
    }
}
