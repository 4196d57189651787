// SPDX-License-Identifier: MIT OR Apache-2.0
//! The calls that this crate makes to NVIDIA's driver, as a trait. [`Library`](crate::Library)
//! implements it with the driver itself, tests with a double that records calls and fails.
//!
//! Each method is one function of the driver, or two or three that belong together. All decisions
//! are made above the trait, where tests cover them.

#![allow(unsafe_code, reason = "device memory is given by address")]

use std::{ffi::CStr, ptr::NonNull};

/// The context of a device, in which calls for this device are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Context(pub usize);

/// A program loaded on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Module(pub usize);

/// A kernel of a [`Module`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Function(pub usize);

/// A stream, and the event used to wait for the end of its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    /// The stream. Its commands run in order.
    pub stream: usize,
    /// The event.
    pub event: usize,
}

/// An address in a device's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Address(pub u64);

impl Address {
    /// Returns the address `bytes` bytes further on.
    #[must_use]
    pub fn after(self, bytes: usize) -> Self {
        Self(self.0 + bytes as u64)
    }
}

/// What the driver knows of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pointer {
    /// Whether kernels of the current context can use the address.
    pub is_usable: bool,
    /// The number of the device whose memory it is, if it is a device's.
    pub device: Option<u32>,
    /// The first byte of the allocation.
    pub start: Address,
    /// Bytes of the allocation; 0 if the driver does not know it.
    pub len: usize,
}

/// A property of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Attribute {
    /// The number of multiprocessors.
    Multiprocessors,
    /// The major version, 9 in 9.0.
    ComputeCapabilityMajor,
    /// The minor version, 0 in 9.0.
    ComputeCapabilityMinor,
    /// The most bytes of shared memory that a block can have if it requests them.
    SharedMemoryPerBlock,
}

/// An argument of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Argument {
    /// A 32-bit number.
    U32(u32),
    /// A 64-bit device address.
    Address(Address),
}

/// A launch of a kernel.
#[derive(Clone, Copy, Debug)]
pub struct Start<'a> {
    /// The kernel.
    pub function: Function,
    /// Number of blocks.
    pub grid: u32,
    /// Threads of each block.
    pub threads: u32,
    /// Bytes of dynamic shared memory of each block.
    pub shared: u32,
    /// The stream. The kernel runs after the commands already on it.
    pub stream: Stream,
    /// The kernel's arguments, all of them, in order.
    pub arguments: &'a [Argument],
}

/// A failed call of the driver.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{call}: {name} ({code}), {text}")]
pub struct Failure {
    /// The name of the driver's function.
    pub call: &'static str,
    /// Its result, a `CUresult`.
    pub code: u32,
    /// The name of the result, such as `CUDA_ERROR_OUT_OF_MEMORY`.
    pub name: String,
    /// The driver's description of the result; for a module, with the compiler's log.
    pub text: String,
}

/// The driver's calls.
///
/// Methods from [`Driver::load_module`] on act in the context that the calling thread made current
/// with [`Driver::make_current`].
pub trait Driver: Send + Sync + 'static {
    /// Returns the newest CUDA version that the driver supports: 12040 is 12.4. Needs no
    /// [`Driver::init`].
    ///
    /// # Errors
    /// [`Failure`], the driver's error, as in all methods below.
    fn version(&self) -> Result<u32, Failure>;

    /// Initializes the driver. Must precede all methods except [`Driver::version`]; may be
    /// repeated.
    ///
    /// # Errors
    /// The driver's error.
    fn init(&self) -> Result<(), Failure>;

    /// Returns the number of devices. They are numbered from 0.
    ///
    /// # Errors
    /// The driver's error.
    fn device_count(&self) -> Result<u32, Failure>;

    /// Returns a device's name.
    ///
    /// # Errors
    /// The driver's error.
    fn device_name(&self, device: u32) -> Result<String, Failure>;

    /// Returns a property of a device.
    ///
    /// # Errors
    /// The driver's error.
    fn attribute(&self, device: u32, attribute: Attribute) -> Result<u32, Failure>;

    /// Retains a device's primary context.
    ///
    /// # Errors
    /// The driver's error.
    fn retain_context(&self, device: u32) -> Result<Context, Failure>;

    /// Releases the context that [`Driver::retain_context`] retained.
    ///
    /// # Safety
    /// Nothing that was created in the context is used afterwards.
    unsafe fn release_context(&self, device: u32);

    /// Returns the context that is current for the calling thread; `Context(0)` if there is none.
    ///
    /// # Errors
    /// The driver's error.
    fn current_context(&self) -> Result<Context, Failure>;

    /// Makes `context`, or none with `Context(0)`, current for the calling thread.
    ///
    /// # Errors
    /// The driver's error.
    fn make_current(&self, context: Context) -> Result<(), Failure>;

    /// Compiles PTX for the device and loads it.
    ///
    /// # Errors
    /// The driver's error, with its compiler's log.
    fn load_module(&self, ptx: &CStr) -> Result<Module, Failure>;

    /// Unloads a module.
    ///
    /// # Safety
    /// No kernel of the module is running, and nothing of the module is used afterwards.
    unsafe fn unload_module(&self, module: Module);

    /// Looks up a kernel by name.
    ///
    /// # Errors
    /// The driver's error.
    fn function(&self, module: Module, name: &CStr) -> Result<Function, Failure>;

    /// Looks up a module's variable by name. Returns its address and its length in bytes.
    ///
    /// # Errors
    /// The driver's error.
    fn global(&self, module: Module, name: &CStr) -> Result<(Address, usize), Failure>;

    /// Allows a kernel `bytes` bytes of dynamic shared memory per block, and asks the
    /// multiprocessor for as much shared memory as it can have.
    ///
    /// # Errors
    /// The driver's error.
    fn allow_shared(&self, function: Function, bytes: u32) -> Result<(), Failure>;

    /// Returns how many blocks with `threads` threads and `shared` bytes of shared memory a
    /// multiprocessor runs at a time.
    ///
    /// # Errors
    /// The driver's error.
    fn resident_blocks(
        &self,
        function: Function,
        threads: u32,
        shared: u32,
    ) -> Result<u32, Failure>;

    /// Allocates `len` bytes of device memory with undefined contents.
    ///
    /// # Errors
    /// The driver's error.
    fn alloc(&self, len: usize) -> Result<Address, Failure>;

    /// Frees device memory.
    ///
    /// # Safety
    /// `memory` is from [`Driver::alloc`] in this context, and nothing uses it afterwards.
    unsafe fn free(&self, memory: Address);

    /// Allocates `len` bytes of pinned host memory with undefined contents, usable in all contexts.
    /// The memory is cached, so the CPU may read it at full speed. It is page-aligned if the length
    /// of all pinned memory is a multiple of a page; otherwise the driver puts several short ones
    /// into a page, and longer ones after them.
    ///
    /// # Errors
    /// The driver's error.
    fn alloc_host(&self, len: usize) -> Result<NonNull<u8>, Failure>;

    /// Frees pinned host memory.
    ///
    /// # Safety
    /// `memory` is from [`Driver::alloc_host`], and nothing uses it afterwards.
    unsafe fn free_host(&self, memory: NonNull<u8>);

    /// Creates a stream that does not wait for any other stream.
    ///
    /// # Errors
    /// The driver's error.
    fn create_stream(&self) -> Result<Stream, Failure>;

    /// Destroys a stream. Commands already on it still run.
    ///
    /// # Safety
    /// `stream` is from [`Driver::create_stream`] in this context, and is not used afterwards.
    unsafe fn destroy_stream(&self, stream: Stream);

    /// Creates an event for [`Driver::record`].
    ///
    /// # Errors
    /// The driver's error.
    fn create_event(&self) -> Result<usize, Failure>;

    /// Destroys an event.
    ///
    /// # Safety
    /// `event` is from [`Driver::create_event`] in this context, and is not used afterwards.
    unsafe fn destroy_event(&self, event: usize);

    /// Returns the context of a caller's stream; for a default stream, the current context.
    ///
    /// # Errors
    /// The driver's error.
    ///
    /// # Safety
    /// `stream` is a valid handle of a stream.
    unsafe fn context_of(&self, stream: usize) -> Result<Context, Failure>;

    /// Returns whether commands on a caller's stream become part of a graph instead of running.
    ///
    /// # Errors
    /// The driver's error.
    ///
    /// # Safety
    /// `stream` is a valid handle of a stream.
    unsafe fn is_capturing(&self, stream: usize) -> Result<bool, Failure>;

    /// Returns what the driver knows of an address, which may be any.
    ///
    /// # Errors
    /// The driver's error.
    fn pointer(&self, address: Address) -> Result<Pointer, Failure>;

    /// Allocates `len` bytes of device memory for commands that are enqueued on the stream later.
    ///
    /// # Errors
    /// As [`Driver::upload`].
    ///
    /// # Safety
    /// `stream` is a valid stream of this context.
    unsafe fn alloc_on(&self, len: usize, stream: Stream) -> Result<Address, Failure>;

    /// Frees memory from [`Driver::alloc_on`] after the commands that the stream has now.
    ///
    /// # Errors
    /// As [`Driver::upload`].
    ///
    /// # Safety
    /// `stream` is as in [`Driver::alloc_on`], and nothing uses the memory afterwards.
    unsafe fn free_on(&self, memory: Address, stream: Stream) -> Result<(), Failure>;

    /// Enqueues a copy from the host to the device. If `from` is ordinary memory, not pinned, the
    /// driver has read it when the call returns.
    ///
    /// # Errors
    /// The driver's error, which may come from an earlier command of any stream.
    ///
    /// # Safety
    /// `from` and `to` are valid for `len` bytes, and nothing writes to pinned memory `from` until
    /// [`Driver::wait`] on the stream returns.
    unsafe fn upload(
        &self,
        to: Address,
        from: *const u8,
        len: usize,
        stream: Stream,
    ) -> Result<(), Failure>;

    /// Enqueues a copy from the device to the host.
    ///
    /// # Errors
    /// As [`Driver::upload`].
    ///
    /// # Safety
    /// `from` and `to` are valid for `len` bytes, and nothing else uses `to` until [`Driver::wait`]
    /// on the stream returns.
    unsafe fn download(
        &self,
        to: *mut u8,
        from: Address,
        len: usize,
        stream: Stream,
    ) -> Result<(), Failure>;

    /// Enqueues a copy within device memory.
    ///
    /// # Errors
    /// As [`Driver::upload`].
    ///
    /// # Safety
    /// `from` and `to` are valid for `len` bytes and do not overlap.
    unsafe fn copy(
        &self,
        to: Address,
        from: Address,
        len: usize,
        stream: Stream,
    ) -> Result<(), Failure>;

    /// Enqueues overwriting `len` bytes of device memory with zeros.
    ///
    /// # Errors
    /// As [`Driver::upload`].
    ///
    /// # Safety
    /// `memory` is valid for `len` bytes.
    unsafe fn fill_with_zeros(
        &self,
        memory: Address,
        len: usize,
        stream: Stream,
    ) -> Result<(), Failure>;

    /// Enqueues a kernel.
    ///
    /// # Errors
    /// As [`Driver::upload`].
    ///
    /// # Safety
    /// The arguments match the kernel's parameters, and with them the kernel stays within memory
    /// that it may use.
    unsafe fn launch(&self, start: &Start<'_>) -> Result<(), Failure>;

    /// Lets later commands on `stream` begin only after all commands that another stream has now.
    ///
    /// # Errors
    /// As [`Driver::upload`].
    ///
    /// # Safety
    /// Both are valid streams of this context, and the event of `stream` is from
    /// [`Driver::create_event`]. `other` is a handle, 0 or 1 for the default stream, or 2 for the
    /// default stream of the calling thread.
    unsafe fn follow(&self, stream: Stream, other: usize) -> Result<(), Failure>;

    /// Records the stream's event: it is complete when all commands that the stream has now are done.
    ///
    /// # Errors
    /// As [`Driver::upload`].
    ///
    /// # Safety
    /// `stream` is a valid stream of this context, with an event from [`Driver::create_event`].
    unsafe fn record(&self, stream: Stream) -> Result<(), Failure>;

    /// Returns whether an event is complete.
    ///
    /// # Errors
    /// As [`Driver::upload`].
    ///
    /// # Safety
    /// `event` is from [`Driver::create_event`] in this context.
    unsafe fn is_complete(&self, event: usize) -> Result<bool, Failure>;

    /// Waits until an event is complete.
    ///
    /// # Errors
    /// As [`Driver::wait`].
    ///
    /// # Safety
    /// As [`Driver::is_complete`].
    unsafe fn wait_for(&self, event: usize) -> Result<(), Failure>;

    /// Waits until all commands on the stream are done. The thread asks for a few milliseconds, and
    /// then sleeps.
    ///
    /// # Errors
    /// As [`Driver::upload`]. Callers assume that after an error, too, nothing of the stream is
    /// under way: a context in which something failed does no further work. The driver does not
    /// promise that copies have stopped by then, but it has no call that gives a stronger
    /// guarantee.
    ///
    /// # Safety
    /// `stream` is a valid stream of this context, with an event of its own.
    unsafe fn wait(&self, stream: Stream) -> Result<(), Failure>;
}
