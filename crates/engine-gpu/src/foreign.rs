// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs kernels other than Luxor's on a backend's devices and queues, such as those of a paper, for
//! comparison. Nothing here knows what such a kernel reads and writes.

use std::ffi::CStr;

use crate::{device::Device, error::DeviceError, keys::KeyWords};

/// The source of a program, in the language of each library.
#[derive(Clone, Copy, Debug)]
pub struct ForeignSource {
    /// OpenCL C. The build defines `THREADS` as the threads of a work-group, `REPLICAS` as
    /// `replicas` and `TABLES` as 1.
    pub opencl: &'static str,
    /// PTX for groups of `threads` threads, with the key in the constant `luxor_keys`.
    pub ptx: &'static CStr,
    /// Threads of a group; fewer on an OpenCL device that cannot run groups of this size.
    pub threads: u32,
    /// Copies of each table in a group's local memory.
    pub replicas: u32,
    /// The most bytes of local memory that a group uses.
    pub local: u32,
}

/// An argument of a kernel.
#[derive(Debug)]
pub enum ForeignArgument<'a, M> {
    /// The program's key.
    Key,
    /// Device memory, from its first byte.
    Memory(&'a M),
    /// A 32-bit number.
    Number(u32),
}

/// One launch of a kernel.
#[derive(Debug)]
pub struct ForeignLaunch<'a, M> {
    /// The kernel's name.
    pub kernel: &'a str,
    /// All arguments except the local memory, which is the last argument in OpenCL.
    pub arguments: &'a [ForeignArgument<'a, M>],
    /// Threads with work to do. Rounded up to whole groups.
    pub threads: u32,
    /// Bytes of local memory of a group.
    pub local: u32,
}

/// A device that runs foreign kernels on its queues, in order with the commands of
/// [`crate::Queue`].
pub trait ForeignDevice: Device {
    /// A program on the device, with room for one key.
    type Program;

    /// Returns whether the device is a CPU.
    fn is_cpu(&self) -> bool {
        false
    }

    /// Compiles a program.
    ///
    /// # Errors
    /// [`DeviceError::Library`] if the program cannot be built, or needs more than the device has.
    fn program(&self, source: &ForeignSource) -> Result<Self::Program, DeviceError>;

    /// Returns the number of threads in a group of the program's kernels.
    fn group(program: &Self::Program) -> u32;

    /// Sets the program's key, replacing the previous one.
    ///
    /// # Errors
    /// [`DeviceError`] of the failed call.
    fn set_key(&self, program: &mut Self::Program, words: &KeyWords) -> Result<(), DeviceError>;

    /// Copies `len` bytes from `from` into `to`, starting at byte `at`.
    ///
    /// # Errors
    /// [`DeviceError`] of the failed call.
    ///
    /// # Safety
    /// `from` is valid for reads of `len` bytes, nothing writes to these bytes, and `to` stays
    /// alive, until the next [`crate::Queue::wait`] returns or the queue has been dropped.
    #[expect(unsafe_code, reason = "the copy continues after the call returns")]
    unsafe fn upload(
        queue: &mut Self::Queue,
        from: *const u8,
        len: usize,
        to: &Self::Memory,
        at: usize,
    ) -> Result<(), DeviceError>;

    /// Copies `len` bytes of `from`, starting at byte `at`, to `to`.
    ///
    /// # Errors
    /// [`DeviceError`] of the failed call.
    ///
    /// # Safety
    /// `to` is valid for writes of `len` bytes, nothing else reads or writes these bytes, and
    /// `from` stays alive, until the next [`crate::Queue::wait`] returns or the queue has been
    /// dropped.
    #[expect(unsafe_code, reason = "the copy continues after the call returns")]
    unsafe fn download(
        queue: &mut Self::Queue,
        from: &Self::Memory,
        at: usize,
        to: *mut u8,
        len: usize,
    ) -> Result<(), DeviceError>;

    /// Runs a kernel.
    ///
    /// # Errors
    /// [`DeviceError`] of the failed call.
    ///
    /// # Safety
    /// The arguments match the kernel's parameters, and the kernel stays within its memories. These
    /// memories and the program stay alive until the next [`crate::Queue::wait`] returns or the
    /// queue has been dropped.
    #[expect(unsafe_code, reason = "nothing here can check the kernel")]
    unsafe fn launch(
        queue: &mut Self::Queue,
        program: &mut Self::Program,
        launch: &ForeignLaunch<'_, Self::Memory>,
    ) -> Result<(), DeviceError>;
}
