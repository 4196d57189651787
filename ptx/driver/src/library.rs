// SPDX-License-Identifier: MIT OR Apache-2.0
//! The functions of NVIDIA's driver that Luxor calls, by the names and types of `cuda.h`, over one
//! [`Double`] of a machine with two GPUs. Functions whose names begin with `luxor_` are for tests.

#![allow(
    unsafe_code,
    unsafe_op_in_unsafe_fn,
    reason = "defines the functions of another library, with pointers"
)]

use std::{
    collections::HashMap,
    ffi::{CStr, c_char, c_int, c_uint, c_void},
    ptr::{self, NonNull},
    slice,
    sync::{
        Arc, LazyLock, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use luxor_engine_cuda::{
    Driver, Failure,
    driver::{Address, Argument, Attribute, Context, Function, Module, Start, Stream},
};

use crate::double::{Double, GPU, failure};

static DOUBLE: LazyLock<Arc<Double>> = LazyLock::new(|| Double::new(&[GPU, GPU]));

/// The stream on which each event was last recorded.
static RECORDED: LazyLock<Mutex<HashMap<usize, usize>>> = LazyLock::new(Mutex::default);

/// Counts queries of events. Every other one says that the event is not complete.
static QUERIES: AtomicUsize = AtomicUsize::new(0);

/// `CUDA_ERROR_NOT_READY`.
const NOT_READY: u32 = 600;

/// The driver's numbers of the attributes that Luxor asks for.
const ATTRIBUTES: [(c_int, Attribute); 4] = [
    (16, Attribute::Multiprocessors),
    (75, Attribute::ComputeCapabilityMajor),
    (76, Attribute::ComputeCapabilityMinor),
    (97, Attribute::SharedMemoryPerBlock),
];

/// Defines functions of the library. In each body, `double` is the double, and the value is a
/// `Result<(), Failure>`, which becomes the `CUresult`.
macro_rules! functions {
    ($double:ident: $($name:ident($($argument:ident: $type:ty),*) $body:expr;)*) => {$(
        #[unsafe(no_mangle)]
        #[allow(non_snake_case, clippy::too_many_arguments)]
        unsafe extern "system" fn $name($($argument: $type),*) -> u32 {
            unsafe fn body($double: &Double, $($argument: $type),*) -> Result<(), Failure> {
                let _ = $double;
                $body
            }
            // SAFETY: the caller passes what `cuda.h` asks for: pointers to results and strings
            // are valid, and so are handles and ranges of memory.
            let result = unsafe { body(&DOUBLE, $($argument),*) };
            result.map_or_else(|failure| failure.code, |()| 0)
        }
    )*};
}

functions! { double:
    cuDriverGetVersion(version: *mut c_int) double.version().map(|v| *version = int(v));
    cuInit(_flags: c_uint) double.init();
    cuDeviceGetCount(count: *mut c_int) double.device_count().map(|n| *count = int(n));
    cuDeviceGet(device: *mut c_int, number: c_int) {
        *device = number;
        Ok(())
    };
    cuDeviceGetName(name: *mut c_char, len: c_int, device: c_int) {
        let text = double.device_name(unsigned(device))?;
        let len = text.len().min(unsigned(len) as usize - 1);
        name.cast::<u8>().copy_from_nonoverlapping(text.as_ptr(), len);
        *name.add(len) = 0;
        Ok(())
    };
    cuDeviceGetAttribute(value: *mut c_int, attribute: c_int, device: c_int) {
        let (_, attribute) = ATTRIBUTES.iter().find(|(number, _)| *number == attribute).unwrap();
        *value = int(double.attribute(unsigned(device), *attribute)?);
        Ok(())
    };
    cuDevicePrimaryCtxRetain(context: *mut usize, device: c_int)
        double.retain_context(unsigned(device)).map(|c| *context = c.0);
    cuDevicePrimaryCtxRelease_v2(device: c_int) {
        double.release_context(unsigned(device));
        Ok(())
    };
    cuCtxGetCurrent(context: *mut usize) double.current_context().map(|c| *context = c.0);
    cuCtxSetCurrent(context: usize) double.make_current(Context(context));
    cuModuleLoadDataEx(
        module: *mut usize, ptx: *const c_char, _count: c_uint, _options: *mut c_uint,
        _values: *mut *mut c_void
    ) double.load_module(CStr::from_ptr(ptx)).map(|m| *module = m.0);
    cuModuleUnload(module: usize) {
        double.unload_module(Module(module));
        Ok(())
    };
    cuModuleGetFunction(function: *mut usize, module: usize, name: *const c_char)
        double.function(Module(module), CStr::from_ptr(name)).map(|f| *function = f.0);
    cuModuleGetGlobal_v2(address: *mut u64, len: *mut usize, module: usize, name: *const c_char) {
        let (start, bytes) = double.global(Module(module), CStr::from_ptr(name))?;
        (*address, *len) = (start.0, bytes);
        Ok(())
    };
    cuFuncSetAttribute(function: usize, attribute: c_int, value: c_int) {
        // The other one is a hint.
        const MAX_DYNAMIC_SHARED_SIZE_BYTES: c_int = 8;
        if attribute == MAX_DYNAMIC_SHARED_SIZE_BYTES {
            double.allow_shared(Function(function), unsigned(value))?;
        }
        Ok(())
    };
    cuOccupancyMaxActiveBlocksPerMultiprocessor(
        blocks: *mut c_int, function: usize, threads: c_int, shared: usize
    ) {
        let shared = u32::try_from(shared).unwrap();
        let most = double.resident_blocks(Function(function), unsigned(threads), shared)?;
        *blocks = int(most);
        Ok(())
    };
    cuMemAlloc_v2(address: *mut u64, len: usize) double.alloc(len).map(|a| *address = a.0);
    cuMemAllocAsync(address: *mut u64, len: usize, on: usize)
        double.alloc_on(len, stream(on)).map(|a| *address = a.0);
    cuMemFreeAsync(address: u64, on: usize) double.free_on(Address(address), stream(on));
    cuPointerGetAttributes(
        count: c_uint, attributes: *mut c_int, values: *mut *mut c_void, address: u64
    ) {
        let pointer = double.pointer(Address(address))?;
        let attributes = slice::from_raw_parts(attributes, count as usize);
        for (&attribute, &value) in attributes.iter().zip(slice::from_raw_parts(values, count as usize)) {
            match attribute {
                3 => *value.cast::<u64>() = if pointer.is_usable { address } else { 0 },
                9 => *value.cast::<c_int>() = pointer.device.map_or(-2, int),
                11 => *value.cast::<u64>() = pointer.start.0,
                12 => *value.cast::<usize>() = pointer.len,
                _ => panic!("attribute {attribute} of an address"),
            }
        }
        Ok(())
    };
    cuMemFree_v2(address: u64) {
        double.free(Address(address));
        Ok(())
    };
    cuMemHostAlloc(memory: *mut *mut u8, len: usize, _flags: c_uint)
        double.alloc_host(len).map(|m| *memory = m.as_ptr());
    cuMemFreeHost(memory: *mut u8) {
        double.free_host(NonNull::new(memory).unwrap());
        Ok(())
    };
    cuMemcpyHtoDAsync_v2(to: u64, from: *const u8, len: usize, on: usize)
        double.upload(Address(to), from, len, stream(on));
    cuMemcpyDtoHAsync_v2(to: *mut u8, from: u64, len: usize, on: usize)
        double.download(to, Address(from), len, stream(on));
    cuMemcpyDtoDAsync_v2(to: u64, from: u64, len: usize, on: usize)
        double.copy(Address(to), Address(from), len, stream(on));
    cuMemsetD8Async(to: u64, byte: u8, len: usize, on: usize) {
        assert_eq!(byte, 0);
        double.fill_with_zeros(Address(to), len, stream(on))
    };
    cuStreamCreate(created: *mut usize, _flags: c_uint)
        double.create_stream().map(|s| *created = s.stream);
    cuStreamDestroy_v2(on: usize) {
        double.destroy_stream(stream(on));
        Ok(())
    };
    cuStreamSynchronize(on: usize) double.wait(stream(on));
    cuStreamGetCtx(on: usize, context: *mut usize) double.context_of(on).map(|c| *context = c.0);
    cuStreamIsCapturing(on: usize, status: *mut c_int)
        double.is_capturing(on).map(|active| *status = c_int::from(active));
    cuStreamWaitEvent(on: usize, event: usize, _flags: c_uint) {
        let recorded = lock(&RECORDED).get(&event).copied();
        double.follow(stream(on), recorded.unwrap())
    };
    cuEventCreate(event: *mut usize, _flags: c_uint) double.create_event().map(|e| *event = e);
    cuEventDestroy_v2(event: usize) {
        double.destroy_event(event);
        Ok(())
    };
    cuEventQuery(event: usize) {
        let queries = QUERIES.fetch_add(1, Ordering::Relaxed);
        if double.is_complete(event)? && !queries.is_multiple_of(2) {
            Ok(())
        } else {
            Err(failure("cuEventQuery", NOT_READY))
        }
    };
    cuEventRecord(event: usize, on: usize) {
        lock(&RECORDED).insert(event, on);
        double.record(Stream { stream: on, event })
    };
    cuEventSynchronize(event: usize) double.wait_for(event);
    luxor_hold_stream(on: usize) {
        double.hold(on);
        Ok(())
    };
    luxor_run_stream(on: usize) {
        double.run_held(on);
        Ok(())
    };
    // Fails the call after `before` more calls of this name.
    luxor_fail(call: *const c_char, before: usize, code: u32) {
        let call = CStr::from_ptr(call).to_str().unwrap().to_owned();
        double.fail(Some(call.leak()), before, code);
        Ok(())
    };
    // Ends what `luxor_fail` has begun with an error after which every call fails, as when a new context
    // takes the place of a lost one.
    luxor_recover() {
        double.recover();
        Ok(())
    };
    // What was not given back: memories of GPUs, and of the computer.
    luxor_memories(memories: *mut usize, pinned: *mut usize) {
        (*memories, *pinned) = double.memories();
        Ok(())
    };
    luxor_followed(count: *mut usize, last: *mut usize) {
        let followed = &double.state().followed;
        (*count, *last) = (followed.len(), followed.last().copied().unwrap_or(0));
        Ok(())
    };
    cuGetErrorName(_code: u32, text: *mut *const c_char) {
        *text = c"CUDA_ERROR_OF_THE_DOUBLE".as_ptr();
        Ok(())
    };
    cuGetErrorString(_code: u32, text: *mut *const c_char) {
        *text = c"as the test asked".as_ptr();
        Ok(())
    };
    cuLaunchKernel(
        function: usize, grid: c_uint, _y: c_uint, _z: c_uint, threads: c_uint, _block_y: c_uint,
        _block_z: c_uint, shared: c_uint, on: usize, values: *mut *mut c_void,
        _extra: *mut *mut c_void
    ) {
        let function = Function(function);
        let arguments: Vec<Argument> = (double.param_lens(function).into_iter().enumerate())
            .map(|(index, len)| {
                let value = *values.add(index);
                match len {
                    4 => Argument::U32(ptr::read(value.cast())),
                    8 => Argument::Address(Address(ptr::read(value.cast()))),
                    _ => panic!("a parameter of {len} bytes"),
                }
            })
            .collect();
        double.launch(&Start {
            function,
            grid,
            threads,
            shared,
            stream: stream(on),
            arguments: &arguments,
        })
    };
}

/// A stream for a call that does not use its event.
fn stream(stream: usize) -> Stream {
    Stream { stream, event: 0 }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn int(number: u32) -> c_int {
    number.try_into().unwrap()
}

fn unsigned(number: c_int) -> u32 {
    number.try_into().unwrap()
}
