// SPDX-License-Identifier: MIT OR Apache-2.0
//! What this crate asks of NVIDIA's driver, as a trait: the driver itself
//! ([`Library`](crate::Library)), or in tests something that records calls and fails.
//!
//! One function here is one of the driver's (two or three where they belong together), so
//! that what decides anything stands above the trait, where it is tested.

#![allow(unsafe_code, reason = "memory of devices, by address")]

use std::{ffi::CStr, ptr::NonNull};

/// A device's context, for calls on behalf of that device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Context(pub usize);

/// A program on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Module(pub usize);

/// A kernel of a [`Module`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Function(pub usize);

/// A stream, and the event by which the end of its work is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    /// The stream: what is put on it is done in order.
    pub stream: usize,
    /// The event.
    pub event: usize,
}

/// An address in a device's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Address(pub u64);

impl Address {
    /// The address so many bytes further on.
    #[must_use]
    pub fn after(self, bytes: usize) -> Self {
        Self(self.0 + bytes as u64)
    }
}

/// What is asked of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Attribute {
    /// The number of multiprocessors.
    Multiprocessors,
    /// 9 of 9.0.
    ComputeCapabilityMajor,
    /// 0 of 9.0.
    ComputeCapabilityMinor,
    /// The bytes of shared memory that a block can have if it asks for them.
    SharedMemoryPerBlock,
}

/// An argument of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Argument {
    /// 4 bytes.
    U32(u32),
    /// 8 bytes.
    Address(Address),
}

/// A kernel's start.
#[derive(Clone, Copy, Debug)]
pub struct Start<'a> {
    /// Which kernel.
    pub function: Function,
    /// Blocks.
    pub grid: u32,
    /// Threads of a block.
    pub threads: u32,
    /// Bytes of dynamic shared memory of a block.
    pub shared: u32,
    /// After what is on it already.
    pub stream: Stream,
    /// As many as the kernel has, in its order.
    pub arguments: &'a [Argument],
}

/// What the driver said of a call that failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{call}: {name} ({code}), {text}")]
pub struct Failure {
    /// The driver's function.
    pub call: &'static str,
    /// Its result, a `CUresult`.
    pub code: u32,
    /// The result's name: `CUDA_ERROR_OUT_OF_MEMORY`.
    pub name: String,
    /// What it means, in the driver's words; with the compiler's log for a module.
    pub text: String,
}

/// The driver's calls.
///
/// But for the first six, they are for the context that the calling thread has made
/// current.
pub trait Driver: Send + Sync + 'static {
    /// The newest CUDA that the driver knows: 12040 is 12.4. Needs no [`Driver::init`].
    ///
    /// # Errors
    /// What the driver said, as in all functions here.
    fn version(&self) -> Result<u32, Failure>;

    /// Before anything but [`Driver::version`]; as often as one likes.
    ///
    /// # Errors
    /// What the driver said.
    fn init(&self) -> Result<(), Failure>;

    /// How many devices there are, numbered from 0.
    ///
    /// # Errors
    /// What the driver said.
    fn device_count(&self) -> Result<u32, Failure>;

    /// A device's name.
    ///
    /// # Errors
    /// What the driver said.
    fn device_name(&self, device: u32) -> Result<String, Failure>;

    /// What a device has.
    ///
    /// # Errors
    /// What the driver said.
    fn attribute(&self, device: u32, attribute: Attribute) -> Result<u32, Failure>;

    /// A device's primary context, retained.
    ///
    /// # Errors
    /// What the driver said.
    fn retain_context(&self, device: u32) -> Result<Context, Failure>;

    /// The opposite.
    ///
    /// # Safety
    /// Nothing of what was made in the context is used any more.
    unsafe fn release_context(&self, device: u32);

    /// Makes a context the calling thread's.
    ///
    /// # Errors
    /// What the driver said.
    fn make_current(&self, context: Context) -> Result<(), Failure>;

    /// Compiles PTX for the device and loads it.
    ///
    /// # Errors
    /// What the driver said, and its compiler's log.
    fn load_module(&self, ptx: &CStr) -> Result<Module, Failure>;

    /// The opposite.
    ///
    /// # Safety
    /// Nothing of the module runs or is used any more.
    unsafe fn unload_module(&self, module: Module);

    /// A kernel by its name.
    ///
    /// # Errors
    /// What the driver said.
    fn function(&self, module: Module, name: &CStr) -> Result<Function, Failure>;

    /// A module's variable by its name: where it is, and its bytes.
    ///
    /// # Errors
    /// What the driver said.
    fn global(&self, module: Module, name: &CStr) -> Result<(Address, usize), Failure>;

    /// Lets a kernel have so many bytes of dynamic shared memory a block, and its
    /// multiprocessor as much of it as it can have.
    ///
    /// # Errors
    /// What the driver said.
    fn allow_shared(&self, function: Function, bytes: u32) -> Result<(), Failure>;

    /// How many blocks of so many threads and bytes a multiprocessor runs at a time.
    ///
    /// # Errors
    /// What the driver said.
    fn resident_blocks(
        &self,
        function: Function,
        threads: u32,
        shared: u32,
    ) -> Result<u32, Failure>;

    /// Device memory of `len` bytes, with anything in it.
    ///
    /// # Errors
    /// What the driver said.
    fn alloc(&self, len: usize) -> Result<Address, Failure>;

    /// The opposite.
    ///
    /// # Safety
    /// It is from [`Driver::alloc`] of this context, and nothing uses it any more.
    unsafe fn free(&self, memory: Address);

    /// Pinned memory of the host of `len` bytes, with anything in it, for all contexts. At
    /// the beginning of a page, and cached: the CPU may read it.
    ///
    /// # Errors
    /// What the driver said.
    fn alloc_host(&self, len: usize) -> Result<NonNull<u8>, Failure>;

    /// The opposite.
    ///
    /// # Safety
    /// It is from [`Driver::alloc_host`], and nothing uses it any more.
    unsafe fn free_host(&self, memory: NonNull<u8>);

    /// A stream that waits for no other one.
    ///
    /// # Errors
    /// What the driver said.
    fn create_stream(&self) -> Result<Stream, Failure>;

    /// The opposite. What is on the stream is still done.
    ///
    /// # Safety
    /// It is from [`Driver::create_stream`] of this context, and is not used any more.
    unsafe fn destroy_stream(&self, stream: Stream);

    /// Puts a copy to the device on the stream.
    ///
    /// # Errors
    /// What the driver said, maybe of something that was on a stream before.
    ///
    /// # Safety
    /// Both places are of `len` bytes, and nobody writes to `from` until the stream was
    /// waited for.
    unsafe fn upload(
        &self,
        to: Address,
        from: *const u8,
        len: usize,
        stream: Stream,
    ) -> Result<(), Failure>;

    /// Puts a copy from the device on the stream.
    ///
    /// # Errors
    /// As [`Driver::upload`].
    ///
    /// # Safety
    /// Both places are of `len` bytes, and `to` is nobody else's until the stream was
    /// waited for.
    unsafe fn download(
        &self,
        to: *mut u8,
        from: Address,
        len: usize,
        stream: Stream,
    ) -> Result<(), Failure>;

    /// Puts a copy within the device's memory on the stream.
    ///
    /// # Errors
    /// As [`Driver::upload`].
    ///
    /// # Safety
    /// Both places are of `len` bytes and have none in common.
    unsafe fn copy(
        &self,
        to: Address,
        from: Address,
        len: usize,
        stream: Stream,
    ) -> Result<(), Failure>;

    /// Puts the filling of `len` bytes of device memory with zeros on the stream.
    ///
    /// # Errors
    /// As [`Driver::upload`].
    ///
    /// # Safety
    /// The device memory is of `len` bytes.
    unsafe fn fill_with_zeros(
        &self,
        memory: Address,
        len: usize,
        stream: Stream,
    ) -> Result<(), Failure>;

    /// Puts a kernel on the stream.
    ///
    /// # Errors
    /// As [`Driver::upload`].
    ///
    /// # Safety
    /// The arguments are those that the kernel has, and with them it stays within memory
    /// that it may use.
    unsafe fn launch(&self, start: &Start<'_>) -> Result<(), Failure>;

    /// Waits, asleep, until all that is on the stream is done.
    ///
    /// # Errors
    /// As [`Driver::upload`]. Nothing of the stream's is taken to be under way after an error
    /// either: a context in which something failed does nothing more. That its copies have
    /// stopped by then the driver does not promise, and it has no call that would be surer.
    ///
    /// # Safety
    /// It is from [`Driver::create_stream`] of this context.
    unsafe fn wait(&self, stream: Stream) -> Result<(), Failure>;
}
