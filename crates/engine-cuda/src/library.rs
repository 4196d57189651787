// SPDX-License-Identifier: MIT OR Apache-2.0
//! The driver itself: `libcuda`, opened at run time.
//!
//! Results are plain numbers here. Bindings that use an enum have undefined behaviour for results
//! newer than the enum, and a failing GPU is when a driver returns new ones. Such bindings also
//! panic if the library or a function is missing.
//!
//! The 41 functions are behind a trait. Tests implement it with the emulator of `ptx`, and with
//! calls that fail.

#![allow(unsafe_code, reason = "calls NVIDIA's library")]

use std::{
    error::Error as _,
    ffi::{CStr, c_char, c_int, c_uint, c_void},
    ptr::{self, NonNull},
    sync::{Arc, OnceLock},
    thread,
    time::{Duration, Instant},
};

use crate::driver::{
    Address, Argument, Attribute, Context, Driver, Failure, Function, Module, Pointer, Start,
    Stream,
};

/// The library's names, the preferred one first.
#[cfg(windows)]
const NAMES: &[&str] = &["nvcuda.dll"];
#[cfg(not(windows))]
const NAMES: &[&str] = &["libcuda.so.1", "libcuda.so"];

/// The folders to look in. The second is that of the Windows Subsystem for Linux.
#[cfg(windows)]
const PLACES: &[&str] = &[""];
#[cfg(not(windows))]
const PLACES: &[&str] = &["", "/usr/lib/wsl/lib/"];

const SUCCESS: u32 = 0;
/// The results that callers handle by number.
pub(crate) const OUT_OF_MEMORY: u32 = 2;
pub(crate) const NO_DEVICE: u32 = 100;
/// `cuEventQuery`: the event is not complete.
const NOT_READY: u32 = 600;

/// How long a wait asks again and again, and lets other threads run in between, before it sleeps.
/// Waking a sleeping thread takes the driver longer than most batches.
const POLLING: Duration = Duration::from_millis(5);

/// Bytes of the buffer for the compiler's log.
const LOG_LEN: usize = 8192;

// Constants of `cuda.h`.
const MULTIPROCESSOR_COUNT: c_int = 16;
const COMPUTE_CAPABILITY_MAJOR: c_int = 75;
const COMPUTE_CAPABILITY_MINOR: c_int = 76;
const MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: c_int = 97;
const MAX_DYNAMIC_SHARED_SIZE_BYTES: c_int = 8;
const PREFERRED_SHARED_MEMORY_CARVEOUT: c_int = 9;
const CARVEOUT_MAX_SHARED: c_int = 100;
const JIT_ERROR_LOG_BUFFER: c_uint = 5;
const JIT_ERROR_LOG_BUFFER_SIZE_BYTES: c_uint = 6;
const MEMHOSTALLOC_PORTABLE: c_uint = 1;
const STREAM_NON_BLOCKING: c_uint = 1;
const EVENT_BLOCKING_SYNC: c_uint = 1;
const EVENT_DISABLE_TIMING: c_uint = 2;
const POINTER_DEVICE_POINTER: c_int = 3;
const POINTER_DEVICE_ORDINAL: c_int = 9;
const POINTER_RANGE_START_ADDR: c_int = 11;
const POINTER_RANGE_SIZE: c_int = 12;
const CAPTURE_STATUS_NONE: c_int = 0;

/// A handle: a pointer to an object of the driver.
type Handle = *mut c_void;

/// Declares the driver's functions by their names in the library, with their argument types. All
/// return a `CUresult`.
macro_rules! calls {
    ($($name:ident($($argument:ty),*);)*) => {
        #[allow(non_snake_case)]
        struct Calls {
            $($name: unsafe extern "system" fn($($argument),*) -> u32,)*
        }

        impl Calls {
            /// Looks up all functions.
            ///
            /// # Safety
            /// `library` is NVIDIA's driver.
            unsafe fn look_up(library: &libloading::Library) -> Result<Self, Absent> {
                Ok(Self {
                    $($name: {
                        let name = stringify!($name);
                        // SAFETY: `cuda.h` declares the function of this name with these arguments.
                        // The library is never closed.
                        *unsafe { library.get(name.as_bytes()) }
                            .map_err(|_| Absent::Function { name })?
                    },)*
                })
            }
        }
    };
}

calls! {
    cuCtxGetCurrent(*mut Handle);
    cuCtxSetCurrent(Handle);
    cuDeviceGet(*mut c_int, c_int);
    cuDeviceGetAttribute(*mut c_int, c_int, c_int);
    cuDeviceGetCount(*mut c_int);
    cuDeviceGetName(*mut c_char, c_int, c_int);
    cuDevicePrimaryCtxRelease_v2(c_int);
    cuDevicePrimaryCtxRetain(*mut Handle, c_int);
    cuDriverGetVersion(*mut c_int);
    cuEventCreate(*mut Handle, c_uint);
    cuEventDestroy_v2(Handle);
    cuEventQuery(Handle);
    cuEventRecord(Handle, Handle);
    cuEventSynchronize(Handle);
    cuFuncSetAttribute(Handle, c_int, c_int);
    cuGetErrorName(u32, *mut *const c_char);
    cuGetErrorString(u32, *mut *const c_char);
    cuInit(c_uint);
    cuLaunchKernel(
        Handle, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, Handle,
        *mut *mut c_void, *mut *mut c_void
    );
    cuMemAlloc_v2(*mut u64, usize);
    cuMemAllocAsync(*mut u64, usize, Handle);
    cuMemFree_v2(u64);
    cuMemFreeAsync(u64, Handle);
    cuMemFreeHost(*mut c_void);
    cuMemHostAlloc(*mut *mut c_void, usize, c_uint);
    cuMemcpyDtoHAsync_v2(*mut c_void, u64, usize, Handle);
    cuMemcpyDtoDAsync_v2(u64, u64, usize, Handle);
    cuMemcpyHtoDAsync_v2(u64, *const c_void, usize, Handle);
    cuMemsetD8Async(u64, u8, usize, Handle);
    cuModuleGetFunction(*mut Handle, Handle, *const c_char);
    cuModuleGetGlobal_v2(*mut u64, *mut usize, Handle, *const c_char);
    cuModuleLoadDataEx(*mut Handle, *const c_void, c_uint, *mut c_uint, *mut *mut c_void);
    cuModuleUnload(Handle);
    cuOccupancyMaxActiveBlocksPerMultiprocessor(*mut c_int, Handle, c_int, usize);
    cuPointerGetAttributes(c_uint, *mut c_int, *mut *mut c_void, u64);
    cuStreamCreate(*mut Handle, c_uint);
    cuStreamDestroy_v2(Handle);
    cuStreamGetCtx(Handle, *mut Handle);
    cuStreamIsCapturing(Handle, *mut c_int);
    cuStreamSynchronize(Handle);
    cuStreamWaitEvent(Handle, Handle, c_uint);
}

/// The reason why there is no driver.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Absent {
    /// The library is missing or cannot be loaded.
    #[error("NVIDIA's driver is not available ({message})")]
    Library {
        /// The message of the system's loader.
        message: String,
    },
    /// The library is too old to have a function that Luxor calls.
    #[error("NVIDIA's driver is too old: its library has no {name}")]
    Function {
        /// The missing function.
        name: &'static str,
    },
}

/// NVIDIA's driver.
pub struct Library {
    calls: Calls,
}

impl Library {
    /// Opens this machine's driver. The library is searched for only once and never closed, because
    /// it runs threads of its own.
    ///
    /// # Errors
    /// [`Absent`] if the library is missing or lacks a function.
    pub fn open() -> Result<Arc<Self>, Absent> {
        static LIBRARY: OnceLock<Result<Arc<Library>, Absent>> = OnceLock::new();
        LIBRARY
            .get_or_init(|| {
                let names = PLACES
                    .iter()
                    .flat_map(|place| NAMES.iter().map(move |name| format!("{place}{name}")));
                Self::open_first(names).map(Arc::new)
            })
            .clone()
    }

    fn open_first(names: impl Iterator<Item = String>) -> Result<Self, Absent> {
        let mut first = None;
        for name in names {
            // SAFETY: the driver's library may be loaded at any time by any thread. As with any
            // library, the system is trusted to have the right one under this name.
            match unsafe { libloading::Library::new(&name) } {
                Ok(library) => {
                    // SAFETY: as above.
                    let calls = unsafe { Calls::look_up(&library) }?;
                    std::mem::forget(library);
                    return Ok(Self { calls });
                }
                Err(error) => first = first.or(Some(in_words(&error))),
            }
        }
        let message = first.unwrap_or_default();
        Err(Absent::Library { message })
    }

    fn check(&self, call: &'static str, code: u32) -> Result<(), Failure> {
        if code == SUCCESS {
            return Ok(());
        }
        let words = |of: unsafe extern "system" fn(u32, *mut *const c_char) -> u32| {
            let mut words: *const c_char = ptr::null();
            // SAFETY: any code may be passed. The result is null or a string that the library
            // keeps.
            let text = unsafe {
                match of(code, &raw mut words) {
                    SUCCESS if !words.is_null() => CStr::from_ptr(words),
                    _ => return None,
                }
            };
            Some(text.to_string_lossy().into_owned())
        };
        Err(Failure {
            call,
            code,
            name: words(self.calls.cuGetErrorName).unwrap_or_else(|| "unknown result".into()),
            text: words(self.calls.cuGetErrorString).unwrap_or_else(|| "unknown".into()),
        })
    }

    /// Returns the driver's handle of a device, which may differ from our number.
    fn device(&self, device: u32) -> Result<c_int, Failure> {
        let mut handle = 0;
        // SAFETY: the driver writes the result to a variable that outlives the call. The same holds
        // for all results below.
        let code = unsafe { (self.calls.cuDeviceGet)(&raw mut handle, int(device)) };
        self.check("cuDeviceGet", code).map(|()| handle)
    }
}

impl Driver for Library {
    fn version(&self) -> Result<u32, Failure> {
        let mut version = 0;
        // SAFETY: as in `device`.
        let code = unsafe { (self.calls.cuDriverGetVersion)(&raw mut version) };
        self.check("cuDriverGetVersion", code)?;
        Ok(unsigned(version))
    }

    fn init(&self) -> Result<(), Failure> {
        // SAFETY: `cuInit` may be called at any time.
        self.check("cuInit", unsafe { (self.calls.cuInit)(0) })
    }

    fn device_count(&self) -> Result<u32, Failure> {
        let mut count = 0;
        // SAFETY: as in `device`.
        let code = unsafe { (self.calls.cuDeviceGetCount)(&raw mut count) };
        self.check("cuDeviceGetCount", code)?;
        Ok(unsigned(count))
    }

    fn device_name(&self, device: u32) -> Result<String, Failure> {
        let device = self.device(device)?;
        let mut name = [0_u8; 256];
        // SAFETY: the driver writes at most 256 bytes, the length of `name`, including a
        // terminating zero.
        let code = unsafe { (self.calls.cuDeviceGetName)(name.as_mut_ptr().cast(), 256, device) };
        self.check("cuDeviceGetName", code)?;
        let name = CStr::from_bytes_until_nul(&name).unwrap_or_default();
        Ok(name.to_string_lossy().into_owned())
    }

    fn attribute(&self, device: u32, attribute: Attribute) -> Result<u32, Failure> {
        let device = self.device(device)?;
        let attribute = match attribute {
            Attribute::Multiprocessors => MULTIPROCESSOR_COUNT,
            Attribute::ComputeCapabilityMajor => COMPUTE_CAPABILITY_MAJOR,
            Attribute::ComputeCapabilityMinor => COMPUTE_CAPABILITY_MINOR,
            Attribute::SharedMemoryPerBlock => MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
        };
        let mut value = 0;
        // SAFETY: as in `device`.
        let code = unsafe { (self.calls.cuDeviceGetAttribute)(&raw mut value, attribute, device) };
        self.check("cuDeviceGetAttribute", code)?;
        Ok(unsigned(value))
    }

    fn retain_context(&self, device: u32) -> Result<Context, Failure> {
        let device = self.device(device)?;
        let mut context = ptr::null_mut();
        // SAFETY: as in `device`.
        let code = unsafe { (self.calls.cuDevicePrimaryCtxRetain)(&raw mut context, device) };
        self.check("cuDevicePrimaryCtxRetain", code)?;
        Ok(Context(number(context)))
    }

    unsafe fn release_context(&self, device: u32) {
        if let Ok(device) = self.device(device) {
            // SAFETY: the caller promises that nothing in the context is used any more.
            unsafe { (self.calls.cuDevicePrimaryCtxRelease_v2)(device) };
        }
    }

    fn current_context(&self) -> Result<Context, Failure> {
        let mut context = ptr::null_mut();
        // SAFETY: as in `device`.
        let code = unsafe { (self.calls.cuCtxGetCurrent)(&raw mut context) };
        self.check("cuCtxGetCurrent", code)?;
        Ok(Context(number(context)))
    }

    fn make_current(&self, context: Context) -> Result<(), Failure> {
        // SAFETY: either the context is retained, or the driver refuses it.
        let code = unsafe { (self.calls.cuCtxSetCurrent)(handle(context.0)) };
        self.check("cuCtxSetCurrent", code)
    }

    fn load_module(&self, ptx: &CStr) -> Result<Module, Failure> {
        let mut log = [0_u8; LOG_LEN];
        let mut options = [JIT_ERROR_LOG_BUFFER, JIT_ERROR_LOG_BUFFER_SIZE_BYTES];
        let mut values = [
            log.as_mut_ptr().cast::<c_void>(),
            // This option takes a number in place of a pointer; the driver reads its low 4 bytes.
            ptr::without_provenance_mut(LOG_LEN - 1),
        ];
        let mut module = ptr::null_mut();
        // SAFETY: `ptx` ends with a zero byte. The two options and two values outlive the call, and
        // so does the log, which is one byte longer than the length passed.
        let code = unsafe {
            (self.calls.cuModuleLoadDataEx)(
                &raw mut module,
                ptx.as_ptr().cast(),
                2,
                options.as_mut_ptr(),
                values.as_mut_ptr(),
            )
        };
        self.check("cuModuleLoadDataEx", code)
            .map_err(|mut failure| {
                let log = CStr::from_bytes_until_nul(&log).unwrap_or_default();
                let log = log.to_string_lossy();
                if !log.trim().is_empty() {
                    failure.text = format!("{}; {}", failure.text, log.trim());
                }
                failure
            })?;
        Ok(Module(number(module)))
    }

    unsafe fn unload_module(&self, module: Module) {
        // SAFETY: the caller promises that nothing of the module is used any more.
        unsafe { (self.calls.cuModuleUnload)(handle(module.0)) };
    }

    fn function(&self, module: Module, name: &CStr) -> Result<Function, Failure> {
        let mut function = ptr::null_mut();
        // SAFETY: as in `device`; `name` ends with a zero byte.
        let code = unsafe {
            (self.calls.cuModuleGetFunction)(&raw mut function, handle(module.0), name.as_ptr())
        };
        self.check("cuModuleGetFunction", code)
            .map_err(|failure| about(failure, name))?;
        Ok(Function(number(function)))
    }

    fn global(&self, module: Module, name: &CStr) -> Result<(Address, usize), Failure> {
        let (mut address, mut len) = (0, 0);
        // SAFETY: as in `function`.
        let code = unsafe {
            (self.calls.cuModuleGetGlobal_v2)(
                &raw mut address,
                &raw mut len,
                handle(module.0),
                name.as_ptr(),
            )
        };
        self.check("cuModuleGetGlobal_v2", code)
            .map_err(|failure| about(failure, name))?;
        Ok((Address(address), len))
    }

    fn allow_shared(&self, function: Function, bytes: u32) -> Result<(), Failure> {
        for (attribute, value) in [
            (MAX_DYNAMIC_SHARED_SIZE_BYTES, int(bytes)),
            (PREFERRED_SHARED_MEMORY_CARVEOUT, CARVEOUT_MAX_SHARED),
        ] {
            // SAFETY: the function belongs to a loaded module.
            let code =
                unsafe { (self.calls.cuFuncSetAttribute)(handle(function.0), attribute, value) };
            self.check("cuFuncSetAttribute", code)?;
        }
        Ok(())
    }

    fn resident_blocks(
        &self,
        function: Function,
        threads: u32,
        shared: u32,
    ) -> Result<u32, Failure> {
        let mut blocks = 0;
        // SAFETY: as in `device` and `allow_shared`.
        let code = unsafe {
            (self.calls.cuOccupancyMaxActiveBlocksPerMultiprocessor)(
                &raw mut blocks,
                handle(function.0),
                int(threads),
                shared as usize,
            )
        };
        self.check("cuOccupancyMaxActiveBlocksPerMultiprocessor", code)?;
        Ok(unsigned(blocks))
    }

    fn alloc(&self, len: usize) -> Result<Address, Failure> {
        let mut address = 0;
        // SAFETY: as in `device`.
        let code = unsafe { (self.calls.cuMemAlloc_v2)(&raw mut address, len) };
        self.check("cuMemAlloc_v2", code)?;
        Ok(Address(address))
    }

    unsafe fn free(&self, memory: Address) {
        // SAFETY: the caller promises that `memory` is from `alloc` and unused.
        unsafe { (self.calls.cuMemFree_v2)(memory.0) };
    }

    fn alloc_host(&self, len: usize) -> Result<NonNull<u8>, Failure> {
        let mut memory = ptr::null_mut();
        // Not write-combined: the CPU would read such memory a hundred times slower.
        // SAFETY: as in `device`.
        let code =
            unsafe { (self.calls.cuMemHostAlloc)(&raw mut memory, len, MEMHOSTALLOC_PORTABLE) };
        self.check("cuMemHostAlloc", code)?;
        NonNull::new(memory.cast()).ok_or_else(|| Failure {
            call: "cuMemHostAlloc",
            code,
            name: "no memory".into(),
            text: format!("the driver returned null for {len} bytes"),
        })
    }

    unsafe fn free_host(&self, memory: NonNull<u8>) {
        // SAFETY: the caller promises that `memory` is from `alloc_host` and unused.
        unsafe { (self.calls.cuMemFreeHost)(memory.as_ptr().cast()) };
    }

    fn create_stream(&self) -> Result<Stream, Failure> {
        let mut stream = ptr::null_mut();
        // SAFETY: as in `device`.
        let code = unsafe { (self.calls.cuStreamCreate)(&raw mut stream, STREAM_NON_BLOCKING) };
        self.check("cuStreamCreate", code)?;
        match self.create_event() {
            Ok(event) => Ok(Stream {
                stream: number(stream),
                event,
            }),
            Err(failure) => {
                // SAFETY: the stream was created above and is used nowhere else.
                unsafe { (self.calls.cuStreamDestroy_v2)(stream) };
                Err(failure)
            }
        }
    }

    unsafe fn destroy_stream(&self, stream: Stream) {
        // SAFETY: the caller promises that `stream` is from `create_stream` and unused.
        unsafe {
            (self.calls.cuEventDestroy_v2)(handle(stream.event));
            (self.calls.cuStreamDestroy_v2)(handle(stream.stream));
        }
    }

    fn create_event(&self) -> Result<usize, Failure> {
        let mut event = ptr::null_mut();
        let flags = EVENT_BLOCKING_SYNC | EVENT_DISABLE_TIMING;
        // SAFETY: as in `device`.
        let code = unsafe { (self.calls.cuEventCreate)(&raw mut event, flags) };
        self.check("cuEventCreate", code)?;
        Ok(number(event))
    }

    unsafe fn destroy_event(&self, event: usize) {
        // SAFETY: the caller promises that `event` is from `create_event` and unused.
        unsafe { (self.calls.cuEventDestroy_v2)(handle(event)) };
    }

    unsafe fn context_of(&self, stream: usize) -> Result<Context, Failure> {
        let mut context = ptr::null_mut();
        // SAFETY: as in `device`. The caller promises that the stream is valid.
        let code = unsafe { (self.calls.cuStreamGetCtx)(handle(stream), &raw mut context) };
        self.check("cuStreamGetCtx", code)?;
        Ok(Context(number(context)))
    }

    unsafe fn is_capturing(&self, stream: usize) -> Result<bool, Failure> {
        let mut status = 0;
        // SAFETY: as in `context_of`.
        let code = unsafe { (self.calls.cuStreamIsCapturing)(handle(stream), &raw mut status) };
        self.check("cuStreamIsCapturing", code)?;
        Ok(status != CAPTURE_STATUS_NONE)
    }

    fn pointer(&self, address: Address) -> Result<Pointer, Failure> {
        let (mut usable, mut device, mut start, mut len) = (0_u64, -1 as c_int, 0_u64, 0_usize);
        let mut attributes = [
            POINTER_DEVICE_POINTER,
            POINTER_DEVICE_ORDINAL,
            POINTER_RANGE_START_ADDR,
            POINTER_RANGE_SIZE,
        ];
        let mut values = [
            (&raw mut usable).cast::<c_void>(),
            (&raw mut device).cast(),
            (&raw mut start).cast(),
            (&raw mut len).cast(),
        ];
        // SAFETY: any address may be passed. `cuda.h` gives these attributes the types of the
        // variables, which outlive the call. Attributes that an address does not have become 0 or
        // negative.
        let code = unsafe {
            (self.calls.cuPointerGetAttributes)(
                4,
                attributes.as_mut_ptr(),
                values.as_mut_ptr(),
                address.0,
            )
        };
        self.check("cuPointerGetAttributes", code)?;
        Ok(Pointer {
            // Where kernels would need another address than the host, it is not usable here.
            is_usable: usable == address.0 && usable != 0,
            device: u32::try_from(device).ok(),
            start: Address(start),
            len,
        })
    }

    unsafe fn alloc_on(&self, len: usize, stream: Stream) -> Result<Address, Failure> {
        let mut address = 0;
        // SAFETY: as in `device`. The caller promises that the stream is valid.
        let code =
            unsafe { (self.calls.cuMemAllocAsync)(&raw mut address, len, handle(stream.stream)) };
        self.check("cuMemAllocAsync", code)?;
        Ok(Address(address))
    }

    unsafe fn free_on(&self, memory: Address, stream: Stream) -> Result<(), Failure> {
        // SAFETY: the caller promises that `memory` is from `alloc_on` and unused afterwards.
        let code = unsafe { (self.calls.cuMemFreeAsync)(memory.0, handle(stream.stream)) };
        self.check("cuMemFreeAsync", code)
    }

    unsafe fn upload(
        &self,
        to: Address,
        from: *const u8,
        len: usize,
        stream: Stream,
    ) -> Result<(), Failure> {
        // SAFETY: the caller promises that both ranges are valid until the copy is done.
        let code = unsafe {
            (self.calls.cuMemcpyHtoDAsync_v2)(to.0, from.cast(), len, handle(stream.stream))
        };
        self.check("cuMemcpyHtoDAsync_v2", code)
    }

    unsafe fn download(
        &self,
        to: *mut u8,
        from: Address,
        len: usize,
        stream: Stream,
    ) -> Result<(), Failure> {
        // SAFETY: as in `upload`.
        let code = unsafe {
            (self.calls.cuMemcpyDtoHAsync_v2)(to.cast(), from.0, len, handle(stream.stream))
        };
        self.check("cuMemcpyDtoHAsync_v2", code)
    }

    unsafe fn copy(
        &self,
        to: Address,
        from: Address,
        len: usize,
        stream: Stream,
    ) -> Result<(), Failure> {
        // SAFETY: the caller promises that both ranges are valid and do not overlap.
        let code =
            unsafe { (self.calls.cuMemcpyDtoDAsync_v2)(to.0, from.0, len, handle(stream.stream)) };
        self.check("cuMemcpyDtoDAsync_v2", code)
    }

    unsafe fn fill_with_zeros(
        &self,
        memory: Address,
        len: usize,
        stream: Stream,
    ) -> Result<(), Failure> {
        // SAFETY: the caller promises that `memory` is valid for `len` bytes.
        let code = unsafe { (self.calls.cuMemsetD8Async)(memory.0, 0, len, handle(stream.stream)) };
        self.check("cuMemsetD8Async", code)
    }

    unsafe fn launch(&self, start: &Start<'_>) -> Result<(), Failure> {
        let mut arguments: Vec<*mut c_void> = start
            .arguments
            .iter()
            .map(|argument| match argument {
                Argument::U32(number) => ptr::from_ref(number).cast_mut().cast(),
                Argument::Address(Address(address)) => ptr::from_ref(address).cast_mut().cast(),
            })
            .collect();
        // SAFETY: `arguments` points to values that the driver copies before the call returns. The
        // caller promises that they fit the kernel.
        let code = unsafe {
            (self.calls.cuLaunchKernel)(
                handle(start.function.0),
                start.grid,
                1,
                1,
                start.threads,
                1,
                1,
                start.shared,
                handle(start.stream.stream),
                arguments.as_mut_ptr(),
                ptr::null_mut(),
            )
        };
        self.check("cuLaunchKernel", code)
    }

    unsafe fn follow(&self, stream: Stream, other: usize) -> Result<(), Failure> {
        let event = handle(stream.event);
        // SAFETY: the caller promises that both streams are valid. The event may be recorded again
        // as soon as the call below has returned.
        let code = unsafe { (self.calls.cuEventRecord)(event, handle(other)) };
        self.check("cuEventRecord", code)?;
        // SAFETY: as above.
        let code = unsafe { (self.calls.cuStreamWaitEvent)(handle(stream.stream), event, 0) };
        self.check("cuStreamWaitEvent", code)
    }

    unsafe fn record(&self, stream: Stream) -> Result<(), Failure> {
        // SAFETY: the caller promises that the stream and its event are valid.
        let code =
            unsafe { (self.calls.cuEventRecord)(handle(stream.event), handle(stream.stream)) };
        self.check("cuEventRecord", code)
    }

    unsafe fn is_complete(&self, event: usize) -> Result<bool, Failure> {
        // SAFETY: the caller promises that the event is valid.
        match unsafe { (self.calls.cuEventQuery)(handle(event)) } {
            NOT_READY => Ok(false),
            code => self.check("cuEventQuery", code).map(|()| true),
        }
    }

    unsafe fn wait_for(&self, event: usize) -> Result<(), Failure> {
        let begun = Instant::now();
        while begun.elapsed() < POLLING {
            // SAFETY: the caller promises that the event is valid.
            if unsafe { self.is_complete(event) }? {
                return Ok(());
            }
            thread::yield_now();
        }
        // SAFETY: as above.
        let code = unsafe { (self.calls.cuEventSynchronize)(handle(event)) };
        self.check("cuEventSynchronize", code)
    }

    unsafe fn wait(&self, stream: Stream) -> Result<(), Failure> {
        // Wait for an event: waiting for the stream itself would keep a core busy to the end.
        // SAFETY: the caller promises that `stream` and its event are valid.
        let recorded = unsafe { self.record(stream) };
        // SAFETY: as above.
        let waited = recorded.and_then(|()| unsafe { self.wait_for(stream.event) });
        // Wait for the stream even if the event failed, so that nothing is under way. This is the
        // strongest call there is: in a lost context it fails at once, with no promise about the
        // copies.
        // SAFETY: as above.
        let code = unsafe { (self.calls.cuStreamSynchronize)(handle(stream.stream)) };
        waited.and(self.check("cuStreamSynchronize", code))
    }
}

/// Returns the message of the system's loader.
fn in_words(error: &libloading::Error) -> String {
    error
        .source()
        .map_or_else(|| error.to_string(), ToString::to_string)
}

fn about(mut failure: Failure, name: &CStr) -> Failure {
    failure.text = format!("{}: {}", name.to_string_lossy(), failure.text);
    failure
}

fn handle(number: usize) -> Handle {
    ptr::with_exposed_provenance_mut(number)
}

fn number(handle: Handle) -> usize {
    handle.expose_provenance()
}

/// Converts to the driver's signed type. None of our numbers is too large.
fn int(number: u32) -> c_int {
    c_int::try_from(number).unwrap_or(c_int::MAX)
}

/// Converts from the driver's signed type. None of its numbers is negative.
fn unsigned(number: c_int) -> u32 {
    u32::try_from(number).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_is_not_there_is_named() {
        let names = ["libcuda-none.so.1", "libcuda-none.so"].map(str::to_owned);
        let Err(absent) = Library::open_first(names.into_iter()) else {
            panic!("this library should not exist");
        };
        let text = absent.to_string();
        assert!(
            text.contains("libcuda-none.so.1")
                && text.starts_with("NVIDIA's driver is not available"),
            "{text}"
        );
    }

    #[test]
    fn a_library_without_the_functions_is_too_old() {
        let names = ["libc.so.6"].map(str::to_owned);
        let Err(absent) = Library::open_first(names.into_iter()) else {
            panic!("libc should not have CUDA's functions");
        };
        let name = "cuCtxGetCurrent";
        assert_eq!(absent, Absent::Function { name });
    }
}
