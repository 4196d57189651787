// SPDX-License-Identifier: MIT OR Apache-2.0
//! A driver without a GPU. It runs the committed PTX in `luxor-ptx`'s emulator, counts the objects
//! that it hands out, and fails the calls that a test chooses. Commands on a stream run at once,
//! unless a test holds the stream.

#![allow(
    unsafe_code,
    reason = "the functions of `Driver` are unsafe, even in a double"
)]

use std::{
    alloc::{Layout, alloc_zeroed, dealloc},
    collections::{BTreeMap, HashMap, VecDeque},
    ffi::CStr,
    ptr::NonNull,
    slice,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread::{self, ThreadId},
};

use luxor_engine_cuda::{
    Driver, Failure,
    driver::{Address, Argument, Attribute, Context, Function, Module, Pointer, Start, Stream},
};
use luxor_ptx::{Grid, Machine, Parameters};

/// `CUDA_ERROR_OUT_OF_MEMORY`.
pub const OUT_OF_MEMORY: u32 = 2;
/// `CUDA_ERROR_NO_DEVICE`.
pub const NO_DEVICE: u32 = 100;
/// `CUDA_ERROR_INVALID_PTX`.
pub const INVALID_PTX: u32 = 218;
/// `CUDA_ERROR_ILLEGAL_ADDRESS`.
pub const ILLEGAL_ADDRESS: u32 = 700;
/// `CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES`.
pub const LAUNCH_OUT_OF_RESOURCES: u32 = 701;

/// After these errors, every call fails.
const STICKY: [u32; 3] = [214, ILLEGAL_ADDRESS, 719];
/// The keys of module `n` are at address `n` times this.
const CONSTANTS: u64 = 1 << 40;
const PAGE: usize = 4096;

/// A device's properties.
#[derive(Clone, Copy)]
pub struct Properties {
    /// The compute capability, (9, 0) for 9.0.
    pub capability: (u32, u32),
    /// The most bytes of shared memory of a block.
    pub shared: u32,
}

/// A device that can run the kernels.
pub const GPU: Properties = Properties {
    capability: (9, 0),
    shared: 227 << 10,
};

/// A driver of devices that run kernels in the emulator.
pub struct Double(Mutex<State>);

/// What a [`Double`] knows.
pub struct State {
    /// The newest CUDA version that it supports: 12040 is 12.4.
    pub version: u32,
    /// The devices.
    pub devices: Vec<Properties>,
    /// All calls, in order.
    pub calls: Vec<&'static str>,
    /// The kernels that were launched: name, blocks, threads, shared memory.
    pub launches: Vec<(String, u32, u32, u32)>,
    /// Whether kernels run. Otherwise they are only recorded.
    pub runs: bool,
    /// The call to fail: its name, or `None` for any; how many such calls succeed first; the
    /// result.
    fail: Option<(Option<&'static str>, usize, u32)>,
    has_failed: bool,
    lost: Option<u32>,
    memory: BTreeMap<u64, Vec<u8>>,
    /// The context in which each memory was allocated.
    owners: HashMap<u64, Context>,
    next_address: u64,
    host: HashMap<usize, usize>,
    streams: usize,
    next_handle: usize,
    contexts: usize,
    current: HashMap<ThreadId, Context>,
    /// The streams that a stream followed.
    pub followed: Vec<usize>,
    /// Streams of a context other than the current one.
    pub foreign: HashMap<usize, Context>,
    /// Streams that are being captured into a graph.
    pub capturing: Vec<usize>,
    /// The commands of held streams.
    held: HashMap<usize, VecDeque<Command>>,
    /// Whether each event is complete.
    events: HashMap<usize, bool>,
    modules: HashMap<usize, Program>,
    functions: HashMap<usize, (usize, String)>,
}

/// A command on a stream.
enum Command {
    Write(u64, Vec<u8>),
    Launch {
        function: Function,
        grid: u32,
        threads: u32,
        shared: u32,
        arguments: Vec<Argument>,
    },
    Free(u64),
    Record(usize),
}

struct Program {
    /// The address of its keys.
    keys: u64,
    machine: Machine,
}

impl Double {
    /// Makes a driver of these devices, with the version 12.4.
    #[must_use]
    pub fn new(devices: &[Properties]) -> Arc<Self> {
        Arc::new(Self(Mutex::new(State {
            version: 12040,
            devices: devices.to_vec(),
            calls: Vec::new(),
            launches: Vec::new(),
            runs: true,
            fail: None,
            has_failed: false,
            lost: None,
            memory: BTreeMap::new(),
            next_address: 1 << 20,
            host: HashMap::new(),
            streams: 0,
            next_handle: 1,
            contexts: 0,
            current: HashMap::new(),
            owners: HashMap::new(),
            followed: Vec::new(),
            foreign: HashMap::new(),
            capturing: Vec::new(),
            held: HashMap::new(),
            events: HashMap::new(),
            modules: HashMap::new(),
            functions: HashMap::new(),
        })))
    }

    /// Returns the state, for a look or a change. No call proceeds meanwhile.
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fails the call after `before` more calls of `call` (or of any function) with this result.
    pub fn fail(&self, call: Option<&'static str>, before: usize, code: u32) {
        self.state().fail = Some((call, before, code));
    }

    /// Lets calls succeed again after an error that has made all fail.
    pub(crate) fn recover(&self) {
        self.state().lost = None;
    }

    /// Returns whether the requested failure has happened.
    pub fn has_failed(&self) -> bool {
        self.state().has_failed
    }

    /// Returns a list of the objects that were not given back; empty if there are none.
    pub fn leaks(&self) -> String {
        let state = self.state();
        let mut leaks = String::new();
        for (what, count) in [
            ("memories", state.memory.len()),
            ("pinned memories", state.host.len()),
            ("streams", state.streams),
            ("events", state.events.len()),
            ("contexts", state.contexts),
            ("modules", state.modules.len()),
        ] {
            if count != 0 {
                leaks += &format!("{count} {what} ");
            }
        }
        leaks
    }

    /// Returns how many memories on devices and pinned memories exist.
    pub(crate) fn memories(&self) -> (usize, usize) {
        let state = self.state();
        (state.memory.len(), state.host.len())
    }

    /// Holds the commands that come to `stream` from now on.
    pub fn hold(&self, stream: usize) {
        self.state().held.entry(stream).or_default();
    }

    /// Runs the commands that were held, and no longer holds the stream.
    pub fn run_held(&self, stream: usize) {
        self.state().run_held(stream);
    }

    /// Returns the contents of all modules' key slots.
    ///
    /// # Panics
    /// If a module has no key slots.
    pub fn keys(&self) -> Vec<u8> {
        let mut state = self.state();
        let modules = state.modules.values_mut();
        modules
            .flat_map(|module| {
                let keys = module.machine.read_variable("luxor_keys", 0, 64 * 768);
                keys.unwrap().to_vec()
            })
            .collect()
    }

    /// Returns the bytes of each parameter of a kernel.
    pub(crate) fn param_lens(&self, function: Function) -> Vec<usize> {
        let state = self.state();
        let (module, name) = &state.functions[&function.0];
        let kernel = state.modules[module].machine.module().kernel(name);
        let params = kernel.unwrap().params().iter();
        params.map(ExactSizeIterator::len).collect()
    }

    fn call(&self, call: &'static str) -> Result<MutexGuard<'_, State>, Failure> {
        let mut state = self.state();
        state.calls.push(call);
        if let Some(code) = state.lost {
            return Err(failure(call, code));
        }
        if let Some((name, before, code)) = &mut state.fail
            && name.is_none_or(|name| name == call)
        {
            if *before == 0 {
                let code = *code;
                state.fail = None;
                state.has_failed = true;
                if STICKY.contains(&code) {
                    state.lost = Some(code);
                }
                return Err(failure(call, code));
            }
            *before -= 1;
        }
        Ok(state)
    }

    /// As [`Double::call`], for calls that cannot fail.
    fn note(&self, call: &'static str) -> MutexGuard<'_, State> {
        let mut state = self.state();
        state.calls.push(call);
        state
    }
}

pub(crate) fn failure(call: &'static str, code: u32) -> Failure {
    Failure {
        call,
        code,
        name: "CUDA_ERROR_OF_THE_DOUBLE".into(),
        text: "as the test asked".into(),
    }
}

impl State {
    /// Runs the command, or keeps it if the stream is held.
    fn enqueue(&mut self, stream: Stream, command: Command) {
        match self.held.get_mut(&stream.stream) {
            Some(held) => held.push_back(command),
            None => self.execute(command),
        }
    }

    fn execute(&mut self, command: Command) {
        match command {
            Command::Write(address, bytes) => self.write(address, &bytes),
            Command::Launch {
                function,
                grid,
                threads,
                shared,
                arguments,
            } => self.run(function, (grid, threads, shared), &arguments),
            Command::Free(address) => {
                let bytes = self.memory.remove(&address).expect("memory is freed twice");
                let wiped = bytes.iter().all(|&byte| byte == 0);
                assert!(wiped || self.has_failed, "device memory is not wiped");
            }
            Command::Record(event) => {
                self.events.insert(event, true);
            }
        }
    }

    fn run_held(&mut self, stream: usize) {
        for command in self.held.remove(&stream).into_iter().flatten() {
            self.execute(command);
        }
    }

    fn handle(&mut self) -> usize {
        self.next_handle += 1;
        self.next_handle
    }

    /// Returns the memory that contains `len` bytes at `address`, and their offset in it.
    fn find(&mut self, address: u64, len: usize) -> (&mut Vec<u8>, usize) {
        let (start, memory) = self.memory.range_mut(..=address).next_back().unwrap();
        let at = usize::try_from(address - start).unwrap();
        assert!(at + len <= memory.len(), "{len} bytes at {at} of a memory");
        (memory, at)
    }

    fn write(&mut self, address: u64, bytes: &[u8]) {
        let program = self
            .modules
            .values_mut()
            .find(|program| (program.keys..program.keys + (64 * 768)).contains(&address));
        if let Some(program) = program {
            let at = usize::try_from(address - program.keys).unwrap();
            let written = program.machine.write_variable("luxor_keys", at, bytes);
            return written.unwrap();
        }
        let (memory, at) = self.find(address, bytes.len());
        memory[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// Runs a kernel on copies of the memories in its arguments.
    fn run(
        &mut self,
        function: Function,
        (blocks, threads, shared): (u32, u32, u32),
        arguments: &[Argument],
    ) {
        let (module, name) = self.functions[&function.0].clone();
        self.launches.push((name.clone(), blocks, threads, shared));
        if !self.runs {
            return;
        }
        let mut parameters = Parameters::new();
        // Keyed by start address: input and output may be the same memory.
        let mut copies: BTreeMap<u64, u64> = BTreeMap::new();
        for argument in arguments {
            parameters = match *argument {
                Argument::U32(number) => parameters.u32(number),
                Argument::Address(Address(address)) => {
                    let (begin, memory) = self.memory.range(..=address).next_back().unwrap();
                    let machine = &mut self.modules.get_mut(&module).unwrap().machine;
                    let copy = *copies.entry(*begin).or_insert_with(|| {
                        let copy = machine.alloc(memory.len());
                        machine.write(copy, memory).unwrap();
                        copy
                    });
                    parameters.u64(copy + (address - begin))
                }
            };
        }
        let machine = &mut self.modules.get_mut(&module).unwrap().machine;
        let grid = Grid::new(blocks, threads).with_shared(shared);
        let run = machine.launch(&name, grid, parameters.bytes());
        run.unwrap_or_else(|error| panic!("{name}: {error}"));
        for (begin, copy) in copies {
            *self.memory.get_mut(&begin).unwrap() = machine.free(copy).unwrap();
        }
    }
}

impl Driver for Double {
    fn version(&self) -> Result<u32, Failure> {
        Ok(self.call("cuDriverGetVersion")?.version)
    }

    fn init(&self) -> Result<(), Failure> {
        self.call("cuInit").map(drop)
    }

    fn device_count(&self) -> Result<u32, Failure> {
        let state = self.call("cuDeviceGetCount")?;
        Ok(u32::try_from(state.devices.len()).unwrap())
    }

    fn device_name(&self, device: u32) -> Result<String, Failure> {
        drop(self.call("cuDeviceGetName")?);
        Ok(format!("Double {device}"))
    }

    fn attribute(&self, device: u32, attribute: Attribute) -> Result<u32, Failure> {
        let state = self.call("cuDeviceGetAttribute")?;
        let properties = state.devices[device as usize];
        Ok(match attribute {
            Attribute::Multiprocessors => 2,
            Attribute::ComputeCapabilityMajor => properties.capability.0,
            Attribute::ComputeCapabilityMinor => properties.capability.1,
            Attribute::SharedMemoryPerBlock => properties.shared,
        })
    }

    fn retain_context(&self, device: u32) -> Result<Context, Failure> {
        self.call("cuDevicePrimaryCtxRetain")?.contexts += 1;
        Ok(Context(device as usize + 1))
    }

    unsafe fn release_context(&self, _: u32) {
        self.note("cuDevicePrimaryCtxRelease_v2").contexts -= 1;
    }

    fn current_context(&self) -> Result<Context, Failure> {
        let state = self.call("cuCtxGetCurrent")?;
        let context = state.current.get(&thread::current().id());
        Ok(context.copied().unwrap_or(Context(0)))
    }

    fn make_current(&self, context: Context) -> Result<(), Failure> {
        // Succeeds even in a lost context, so that objects can be given back.
        let mut state = self.note("cuCtxSetCurrent");
        state.current.insert(thread::current().id(), context);
        Ok(())
    }

    fn load_module(&self, ptx: &CStr) -> Result<Module, Failure> {
        let mut state = self.call("cuModuleLoadDataEx")?;
        let module = luxor_ptx::Module::parse(ptx.to_str().unwrap()).unwrap();
        let handle = state.handle();
        let program = Program {
            keys: CONSTANTS * handle as u64,
            machine: Machine::new(&module).unwrap(),
        };
        state.modules.insert(handle, program);
        Ok(Module(handle))
    }

    unsafe fn unload_module(&self, module: Module) {
        let unloaded = self.note("cuModuleUnload").modules.remove(&module.0);
        assert!(unloaded.is_some(), "a module is unloaded twice");
    }

    fn function(&self, module: Module, name: &CStr) -> Result<Function, Failure> {
        let mut state = self.call("cuModuleGetFunction")?;
        let name = name.to_str().unwrap().to_owned();
        let known = state.modules[&module.0].machine.module().kernel(&name);
        assert!(known.is_some(), "{name}");
        let handle = state.handle();
        state.functions.insert(handle, (module.0, name));
        Ok(Function(handle))
    }

    fn global(&self, module: Module, name: &CStr) -> Result<(Address, usize), Failure> {
        let state = self.call("cuModuleGetGlobal_v2")?;
        assert_eq!(name, c"luxor_keys");
        Ok((Address(state.modules[&module.0].keys), 64 * 768))
    }

    fn allow_shared(&self, _: Function, bytes: u32) -> Result<(), Failure> {
        assert!(bytes <= 65536, "{bytes} bytes of shared memory");
        self.call("cuFuncSetAttribute").map(drop)
    }

    fn resident_blocks(&self, _: Function, _: u32, _: u32) -> Result<u32, Failure> {
        drop(self.call("cuOccupancyMaxActiveBlocksPerMultiprocessor")?);
        Ok(1)
    }

    fn alloc(&self, len: usize) -> Result<Address, Failure> {
        let mut state = self.call("cuMemAlloc_v2")?;
        assert!(len > 0, "the driver refuses to allocate zero bytes");
        let address = state.next_address;
        state.next_address += (len as u64).next_multiple_of(512) + 512;
        // The memory contains another program's data.
        state.memory.insert(address, vec![0xa5; len]);
        if let Some(&context) = state.current.get(&thread::current().id()) {
            state.owners.insert(address, context);
        }
        Ok(Address(address))
    }

    unsafe fn free(&self, memory: Address) {
        let mut state = self.note("cuMemFree_v2");
        let bytes = state
            .memory
            .remove(&memory.0)
            .expect("device memory is freed twice");
        let wiped = bytes.iter().all(|&byte| byte == 0);
        assert!(wiped || state.has_failed, "device memory is not wiped");
    }

    fn alloc_host(&self, len: usize) -> Result<NonNull<u8>, Failure> {
        let mut state = self.call("cuMemHostAlloc")?;
        assert!(
            len.is_multiple_of(PAGE),
            "the next memory would not be aligned"
        );
        let layout = Layout::from_size_align(len, PAGE).unwrap();
        // SAFETY: `layout` has at least one byte, since callers never ask for zero bytes.
        let memory = NonNull::new(unsafe { alloc_zeroed(layout) }).unwrap();
        state.host.insert(memory.addr().get(), len);
        Ok(memory)
    }

    unsafe fn free_host(&self, memory: NonNull<u8>) {
        let len = self.note("cuMemFreeHost").host.remove(&memory.addr().get());
        let len = len.expect("pinned memory is freed twice");
        // SAFETY: `memory` is from `alloc_host`, which allocated `len` bytes.
        let bytes = unsafe { slice::from_raw_parts(memory.as_ptr(), len) };
        assert!(
            bytes.iter().all(|&byte| byte == 0),
            "pinned memory is not wiped"
        );
        let layout = Layout::from_size_align(len, PAGE).unwrap();
        // SAFETY: as above, and the caller promises that the memory is unused.
        unsafe { dealloc(memory.as_ptr(), layout) };
    }

    fn create_stream(&self) -> Result<Stream, Failure> {
        let mut state = self.call("cuStreamCreate")?;
        state.streams += 1;
        let (stream, event) = (state.handle(), state.handle());
        Ok(Stream { stream, event })
    }

    unsafe fn destroy_stream(&self, _: Stream) {
        self.note("cuStreamDestroy_v2").streams -= 1;
    }

    fn create_event(&self) -> Result<usize, Failure> {
        let mut state = self.call("cuEventCreate")?;
        let event = state.handle();
        state.events.insert(event, true);
        Ok(event)
    }

    unsafe fn destroy_event(&self, event: usize) {
        let destroyed = self.note("cuEventDestroy_v2").events.remove(&event);
        assert!(destroyed.is_some(), "an event is destroyed twice");
    }

    unsafe fn context_of(&self, stream: usize) -> Result<Context, Failure> {
        let state = self.call("cuStreamGetCtx")?;
        let foreign = state.foreign.get(&stream).copied();
        Ok(foreign.unwrap_or_else(|| state.current[&thread::current().id()]))
    }

    unsafe fn is_capturing(&self, stream: usize) -> Result<bool, Failure> {
        let state = self.call("cuStreamIsCapturing")?;
        Ok(state.capturing.contains(&stream))
    }

    fn pointer(&self, address: Address) -> Result<Pointer, Failure> {
        let state = self.call("cuPointerGetAttributes")?;
        let before = state.memory.range(..=address.0).next_back();
        let found = before.filter(|(start, bytes)| address.0 - *start < bytes.len() as u64);
        let Some((&start, bytes)) = found else {
            return Ok(Pointer {
                is_usable: false,
                device: None,
                start: Address(0),
                len: 0,
            });
        };
        let current = state.current.get(&thread::current().id());
        let owner = state.owners.get(&start);
        Ok(Pointer {
            is_usable: owner.is_some() && owner == current,
            device: owner.map(|context| u32::try_from(context.0 - 1).unwrap()),
            start: Address(start),
            len: bytes.len(),
        })
    }

    unsafe fn alloc_on(&self, len: usize, _: Stream) -> Result<Address, Failure> {
        let mut state = self.call("cuMemAllocAsync")?;
        let address = state.next_address;
        state.next_address += (len as u64).next_multiple_of(512) + 512;
        state.memory.insert(address, vec![0xa5; len]);
        Ok(Address(address))
    }

    unsafe fn free_on(&self, memory: Address, stream: Stream) -> Result<(), Failure> {
        let mut state = self.call("cuMemFreeAsync")?;
        state.enqueue(stream, Command::Free(memory.0));
        Ok(())
    }

    unsafe fn upload(
        &self,
        to: Address,
        from: *const u8,
        len: usize,
        stream: Stream,
    ) -> Result<(), Failure> {
        let mut state = self.call("cuMemcpyHtoDAsync_v2")?;
        // SAFETY: the caller promises that `from` is valid for `len` bytes.
        let bytes = unsafe { slice::from_raw_parts(from, len) };
        state.enqueue(stream, Command::Write(to.0, bytes.to_vec()));
        Ok(())
    }

    unsafe fn download(
        &self,
        to: *mut u8,
        from: Address,
        len: usize,
        _: Stream,
    ) -> Result<(), Failure> {
        let mut state = self.call("cuMemcpyDtoHAsync_v2")?;
        let (memory, at) = state.find(from.0, len);
        // SAFETY: the caller promises that `to` is valid for `len` bytes.
        unsafe { to.copy_from_nonoverlapping(memory[at..at + len].as_ptr(), len) };
        Ok(())
    }

    unsafe fn copy(
        &self,
        to: Address,
        from: Address,
        len: usize,
        _: Stream,
    ) -> Result<(), Failure> {
        let mut state = self.call("cuMemcpyDtoDAsync_v2")?;
        let (memory, at) = state.find(from.0, len);
        let bytes = memory[at..at + len].to_vec();
        state.write(to.0, &bytes);
        Ok(())
    }

    unsafe fn fill_with_zeros(
        &self,
        memory: Address,
        len: usize,
        stream: Stream,
    ) -> Result<(), Failure> {
        let mut state = self.call("cuMemsetD8Async")?;
        state.enqueue(stream, Command::Write(memory.0, vec![0; len]));
        Ok(())
    }

    unsafe fn launch(&self, start: &Start<'_>) -> Result<(), Failure> {
        let mut state = self.call("cuLaunchKernel")?;
        let launch = Command::Launch {
            function: start.function,
            grid: start.grid,
            threads: start.threads,
            shared: start.shared,
            arguments: start.arguments.to_vec(),
        };
        state.enqueue(start.stream, launch);
        Ok(())
    }

    unsafe fn follow(&self, _: Stream, other: usize) -> Result<(), Failure> {
        self.call("cuStreamWaitEvent")?.followed.push(other);
        Ok(())
    }

    unsafe fn record(&self, stream: Stream) -> Result<(), Failure> {
        let mut state = self.call("cuEventRecord")?;
        state.events.insert(stream.event, false);
        state.enqueue(stream, Command::Record(stream.event));
        Ok(())
    }

    unsafe fn is_complete(&self, event: usize) -> Result<bool, Failure> {
        Ok(self.call("cuEventQuery")?.events[&event])
    }

    unsafe fn wait_for(&self, event: usize) -> Result<(), Failure> {
        let mut state = self.call("cuEventSynchronize")?;
        // The commands run while the host waits.
        let is_there = |held: &VecDeque<Command>| {
            let mut commands = held.iter();
            commands.any(|command| matches!(command, Command::Record(of) if *of == event))
        };
        let stream = state.held.iter().find(|(_, held)| is_there(held));
        if let Some(stream) = stream.map(|(stream, _)| *stream) {
            state.run_held(stream);
        }
        Ok(())
    }

    unsafe fn wait(&self, stream: Stream) -> Result<(), Failure> {
        let mut state = self.call("cuStreamSynchronize")?;
        state.run_held(stream.stream);
        Ok(())
    }
}
