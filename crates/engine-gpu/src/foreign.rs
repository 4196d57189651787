// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kernels that are not Luxor's own on a backend's devices and queues: those of a paper, to
//! compare with. Nothing here knows what such a kernel reads and writes.

use std::ffi::CStr;

use crate::{device::Device, error::DeviceError, keys::KeyWords};

/// The text of a program, in the languages of all libraries.
#[derive(Clone, Copy, Debug)]
pub struct ForeignSource {
    /// OpenCL C. When it is built `THREADS` is defined as the threads of a group, `REPLICAS` as
    /// `replicas`, and `TABLES` as 1.
    pub opencl: &'static str,
    /// PTX for groups of `threads`, with the keys in the constant `luxor_keys`.
    pub ptx: &'static CStr,
    /// Threads of a group; fewer on an OpenCL device whose groups have not so many.
    pub threads: u32,
    /// Copies of a table in a group's local memory.
    pub replicas: u32,
    /// The most bytes of local memory that a group has.
    pub local: u32,
}

/// An argument of a kernel.
#[derive(Debug)]
pub enum ForeignArgument<'a, M> {
    /// The program's key.
    Key,
    /// Memory on the device, from its beginning on.
    Memory(&'a M),
    /// 32 bits.
    Number(u32),
}

/// One run of a kernel.
#[derive(Debug)]
pub struct ForeignLaunch<'a, M> {
    /// The kernel's name.
    pub kernel: &'a str,
    /// All that the kernel takes but its local memory, which is last in OpenCL.
    pub arguments: &'a [ForeignArgument<'a, M>],
    /// Threads that have something to do; whole groups run.
    pub threads: u32,
    /// Bytes of local memory of a group.
    pub local: u32,
}

/// A device that runs others' kernels on its queues, in the order of [`crate::Queue`].
pub trait ForeignDevice: Device {
    /// A program on the device, with a place for one key.
    type Program;

    /// Whether the device is a CPU.
    fn is_cpu(&self) -> bool {
        false
    }

    /// Compiles a program.
    ///
    /// # Errors
    /// [`DeviceError::Library`], where the device has too little for it, too.
    fn program(&self, source: &ForeignSource) -> Result<Self::Program, DeviceError>;

    /// Threads of a group of the program's kernels.
    fn group(program: &Self::Program) -> u32;

    /// Gives the program its key, in place of the one before.
    ///
    /// # Errors
    /// [`DeviceError`], as of all below.
    fn set_key(&self, program: &mut Self::Program, words: &KeyWords) -> Result<(), DeviceError>;

    /// Copies `len` bytes from `from` into `to`, from byte `at` on.
    ///
    /// # Errors
    /// [`DeviceError`].
    ///
    /// # Safety
    /// `from` is valid for reads of `len` bytes, nothing writes to them, and `to` is there, until
    /// the next [`crate::Queue::wait`] returns or the queue has been dropped.
    #[expect(unsafe_code, reason = "the copy goes on after the call")]
    unsafe fn upload(
        queue: &mut Self::Queue,
        from: *const u8,
        len: usize,
        to: &Self::Memory,
        at: usize,
    ) -> Result<(), DeviceError>;

    /// Copies `len` bytes of `from`, from byte `at` on, to `to`.
    ///
    /// # Errors
    /// [`DeviceError`].
    ///
    /// # Safety
    /// `to` is valid for writes of `len` bytes, nothing else reads or writes them, and `from` is
    /// there, until the next [`crate::Queue::wait`] returns or the queue has been dropped.
    #[expect(unsafe_code, reason = "the copy goes on after the call")]
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
    /// [`DeviceError`].
    ///
    /// # Safety
    /// The arguments are the kernel's, it stays within its memories, and they and the program
    /// are there until the next [`crate::Queue::wait`] returns or the queue has been dropped.
    #[expect(unsafe_code, reason = "the kernel is not known here")]
    unsafe fn launch(
        queue: &mut Self::Queue,
        program: &mut Self::Program,
        launch: &ForeignLaunch<'_, Self::Memory>,
    ) -> Result<(), DeviceError>;
}
