// SPDX-License-Identifier: MIT OR Apache-2.0
//! Through NVIDIA's driver, which is looked for when it is needed, with the committed PTX.

#![allow(unsafe_code, reason = "memory of devices, by address")]

use std::{
    collections::{BTreeSet, HashMap},
    ffi::{CStr, CString},
    ops::Range,
    ptr::NonNull,
    slice,
    sync::Arc,
};

use luxor_engine_cuda::{
    COMPUTE_CAPABILITY, DRIVER, Driver, Library,
    driver::{Address, Argument, Attribute, Context, Function, Module, Start, Stream},
};
use luxor_engine_gpu::keys::KeyWords;

use super::{About, Arg, Gpu, Host, Launch, Memory, Paper, within};

/// The key's place: the first one.
const SLOT: u32 = 0;

/// As they were compiled (`THREADS`, and `kernels/ptx`).
fn program(paper: Paper) -> (&'static str, u32) {
    macro_rules! ptx {
        ($name:literal) => {
            concat!(
                include_str!(concat!("../../../kernels/ptx/", $name, ".ptx")),
                "\0"
            )
        };
    }
    match paper {
        Paper::AnSeo => (ptx!("an_seo"), 1024),
        Paper::Sanida => (ptx!("sanida"), 256),
    }
}

/// All devices of this machine's driver.
///
/// # Errors
/// Why there can be none.
pub(super) fn all() -> Result<Vec<Box<dyn Gpu>>, String> {
    let library = Library::open().map_err(|e| e.to_string())?;
    let driver: Arc<dyn Driver> = library;
    let boxed = |device| Box::new(device) as Box<dyn Gpu>;
    Ok(devices(&driver)?.into_iter().map(boxed).collect())
}

/// Those of a driver that the PTX is for, as the engine's backend has them.
fn devices(driver: &Arc<dyn Driver>) -> Result<Vec<Cuda>, String> {
    let version = said(driver.version())?;
    if version < DRIVER {
        return Err(format!("the driver is for CUDA {version}, not {DRIVER}"));
    }
    said(driver.init())?;
    let mut found = Vec::new();
    for device in 0..said(driver.device_count())? {
        let attribute = |attribute| said(driver.attribute(device, attribute));
        let capability = (
            attribute(Attribute::ComputeCapabilityMajor)?,
            attribute(Attribute::ComputeCapabilityMinor)?,
        );
        if capability >= COMPUTE_CAPABILITY {
            found.push((device, capability));
        }
    }
    let several = found.len() > 1;
    let open = |(number, (device, capability)): (u32, (u32, (u32, u32)))| {
        let name = match several {
            true => format!("cuda {number}"),
            false => "cuda".to_owned(),
        };
        Cuda::open(driver, name, device, capability, version)
    };
    (1..).zip(found).map(open).collect()
}

fn said<T>(result: Result<T, luxor_engine_cuda::Failure>) -> Result<T, String> {
    result.map_err(|failure| failure.to_string())
}

/// A device. What it has is its own, used by one thread and given back with it.
struct Cuda {
    about: About,
    driver: Arc<dyn Driver>,
    device: u32,
    context: Context,
    streams: Vec<Stream>,
    /// Those on which something was begun since the last wait.
    busy: BTreeSet<usize>,
    /// With their lengths.
    memories: Vec<(Address, usize)>,
    hosts: Vec<(NonNull<u8>, usize)>,
    modules: HashMap<&'static str, Module>,
    functions: HashMap<String, Function>,
    loaded: Option<Paper>,
}

impl Cuda {
    fn open(
        driver: &Arc<dyn Driver>,
        name: String,
        device: u32,
        (major, minor): (u32, u32),
        version: u32,
    ) -> Result<Self, String> {
        let hardware = said(driver.device_name(device))?;
        let about = About {
            name,
            device: format!(
                "{hardware} (compute capability {major}.{minor}, driver for CUDA {}.{})",
                version / 1000,
                version % 1000 / 10
            ),
            hardware,
            is_cpu: false,
        };
        let mut opened = Self {
            about,
            driver: Arc::clone(driver),
            device,
            context: said(driver.retain_context(device))?,
            streams: Vec::new(),
            busy: BTreeSet::new(),
            memories: Vec::new(),
            hosts: Vec::new(),
            modules: HashMap::new(),
            functions: HashMap::new(),
            loaded: None,
        };
        opened.queues(1)?;
        Ok(opened)
    }

    /// Calls are for this device from now on.
    fn enter(&self) -> Result<(), String> {
        said(self.driver.make_current(self.context))
    }

    /// A stream, for something to be begun on it.
    fn stream(&mut self, queue: usize) -> Result<Stream, String> {
        self.enter()?;
        self.busy.insert(queue);
        Ok(self.streams[queue])
    }

    fn module(&mut self, paper: Paper) -> Result<Module, String> {
        if let Some(&module) = self.modules.get(paper.name()) {
            return Ok(module);
        }
        let (text, _) = program(paper);
        let text = CStr::from_bytes_with_nul(text.as_bytes()).map_err(|e| e.to_string())?;
        let module = said(self.driver.load_module(text))?;
        self.modules.insert(paper.name(), module);
        Ok(module)
    }

    /// A kernel of the program that is loaded. `shared`: bytes of a block.
    fn function(&mut self, name: &str, shared: u32) -> Result<Function, String> {
        if let Some(&function) = self.functions.get(name) {
            return Ok(function);
        }
        let paper = self.loaded.ok_or("no kernels are loaded")?;
        let module = self.module(paper)?;
        let c_name = CString::new(name).map_err(|e| e.to_string())?;
        let function = said(self.driver.function(module, &c_name))?;
        if shared > 0 {
            // They are fewer than any block may have: it is for the multiprocessor's part.
            said(self.driver.allow_shared(function, shared))?;
        }
        self.functions.insert(name.to_owned(), function);
        Ok(function)
    }

    fn fill_with_zeros(&mut self, memory: Address, len: usize) -> Result<(), String> {
        let stream = self.stream(0)?;
        // SAFETY: the memory has so many bytes, and `wait` comes before anything else.
        said(unsafe { self.driver.fill_with_zeros(memory, len, stream) })?;
        self.wait()
    }
}

impl Gpu for Cuda {
    fn about(&self) -> &About {
        &self.about
    }

    fn load(&mut self, paper: Paper, key: &KeyWords) -> Result<(), String> {
        self.wait()?;
        let module = self.module(paper)?;
        self.loaded = Some(paper);
        let (keys, len) = said(self.driver.global(module, c"luxor_keys"))?;
        let words = key.expose();
        if size_of_val(words) > len {
            return Err(format!("{len} bytes have no room for a key"));
        }
        let stream = self.stream(0)?;
        // SAFETY: there is room, and the words are borrowed until `wait` returns.
        let begun = unsafe {
            let from = words.as_ptr().cast();
            self.driver.upload(keys, from, size_of_val(words), stream)
        };
        self.wait()?;
        said(begun)
    }

    fn queues(&mut self, count: usize) -> Result<(), String> {
        self.enter()?;
        while self.streams.len() < count {
            self.streams.push(said(self.driver.create_stream())?);
        }
        Ok(())
    }

    fn memory(&mut self, len: usize) -> Result<Memory, String> {
        self.enter()?;
        let address = said(self.driver.alloc(len))?;
        self.memories.push((address, len));
        self.fill_with_zeros(address, len)?;
        let at = self.memories.len() - 1;
        Ok(Memory { at, len })
    }

    fn host(&mut self, len: usize) -> Result<Host, String> {
        self.enter()?;
        let start = said(self.driver.alloc_host(len))?;
        self.hosts.push((start, len));
        // SAFETY: so long, and nobody else has it. It comes with anything in it.
        unsafe { start.write_bytes(0, len) };
        let at = self.hosts.len() - 1;
        Ok(Host { at, len })
    }

    fn bytes(&mut self, host: Host) -> Result<&mut [u8], String> {
        self.wait()?;
        let (start, len) = self.hosts[host.at];
        // SAFETY: of this length, initialised by `host`, and there until this value is
        // dropped; nothing is under way, and nothing can be begun while this is borrowed.
        Ok(unsafe { slice::from_raw_parts_mut(start.as_ptr(), len) })
    }

    fn upload(
        &mut self,
        queue: usize,
        from: Host,
        to: Memory,
        range: Range<usize>,
    ) -> Result<(), String> {
        within(&range, to, from)?;
        let stream = self.stream(queue)?;
        let (host, _) = self.hosts[from.at];
        let (memory, _) = self.memories[to.at];
        // SAFETY: the range is in both, and the host's memory is neither written nor given
        // back before `wait`.
        said(unsafe {
            self.driver.upload(
                memory.after(range.start),
                host.as_ptr().add(range.start),
                range.len(),
                stream,
            )
        })
    }

    fn download(
        &mut self,
        queue: usize,
        from: Memory,
        to: Host,
        range: Range<usize>,
    ) -> Result<(), String> {
        within(&range, from, to)?;
        let stream = self.stream(queue)?;
        let (host, _) = self.hosts[to.at];
        let (memory, _) = self.memories[from.at];
        // SAFETY: as in `upload`; nor is it read before.
        said(unsafe {
            self.driver.download(
                host.as_ptr().add(range.start),
                memory.after(range.start),
                range.len(),
                stream,
            )
        })
    }

    fn launch(&mut self, queue: usize, launch: &Launch) -> Result<(), String> {
        let stream = self.stream(queue)?;
        let paper = self.loaded.ok_or("no kernels are loaded")?;
        let (_, threads) = program(paper);
        let call = launch.call(threads as usize)?;
        let shared = u32::try_from(call.local).map_err(|e| e.to_string())?;
        let function = self.function(&call.kernel, shared)?;
        let argument = |arg: &Arg| match *arg {
            Arg::Key => Argument::U32(SLOT),
            Arg::Memory(memory) => Argument::Address(self.memories[memory.at].0),
            Arg::U32(number) => Argument::U32(number),
        };
        let arguments: Vec<Argument> = call.args.iter().map(argument).collect();
        let start = Start {
            function,
            grid: call.items.div_ceil(threads),
            threads,
            shared,
            stream,
            arguments: &arguments,
        };
        // SAFETY: these are the kernel's arguments (`Launch::call`, which has also seen that
        // it stays within its memories).
        said(unsafe { self.driver.launch(&start) })
    }

    fn wait(&mut self) -> Result<(), String> {
        self.enter()?;
        let mut outcome = Ok(());
        for queue in std::mem::take(&mut self.busy) {
            // SAFETY: it is this device's until `drop`.
            outcome = outcome.and(said(unsafe { self.driver.wait(self.streams[queue]) }));
        }
        outcome
    }
}

impl Drop for Cuda {
    fn drop(&mut self) {
        // Where something failed there is nothing to wipe any more.
        let _ = self.wait();
        for (memory, len) in std::mem::take(&mut self.memories) {
            let _ = self.fill_with_zeros(memory, len);
            // SAFETY: nothing is under way, and nobody has it any more; so with all below.
            unsafe { self.driver.free(memory) };
        }
        for &(host, len) in &self.hosts {
            // SAFETY: as above, and it has so many bytes.
            unsafe {
                host.write_bytes(0, len);
                self.driver.free_host(host);
            }
        }
        for &stream in &self.streams {
            // SAFETY: as above.
            unsafe { self.driver.destroy_stream(stream) };
        }
        for &module in self.modules.values() {
            // SAFETY: as above.
            unsafe { self.driver.unload_module(module) };
        }
        // SAFETY: as above.
        unsafe { self.driver.release_context(self.device) };
    }
}

#[cfg(test)]
#[path = "../../../crates/engine-cuda/tests/cuda/double.rs"]
#[allow(
    dead_code,
    unreachable_pub,
    reason = "the backend's tests use all of it"
)]
pub(crate) mod double;

/// A device of the double's. It looks that all memory is wiped when it comes back.
#[cfg(test)]
pub(super) fn emulated() -> Vec<Box<dyn Gpu>> {
    let driver: Arc<dyn Driver> = double::Double::new(&[double::GPU]);
    let device = devices(&driver).unwrap().pop().unwrap();
    vec![Box::new(device)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_that_is_too_old_is_said_to_be_so() {
        let double = double::Double::new(&[double::GPU]);
        double.state().version = DRIVER - 10;
        let driver: Arc<dyn Driver> = Arc::clone(&double) as _;
        let said = devices(&driver).err().unwrap();
        assert!(said.contains("11990"), "{said}");
    }

    #[test]
    fn devices_are_those_that_the_ptx_is_for() {
        let old = double::Properties {
            capability: (7, 0),
            ..double::GPU
        };
        let double = double::Double::new(&[old, double::GPU, double::GPU]);
        let driver: Arc<dyn Driver> = Arc::clone(&double) as _;
        let devices = devices(&driver).unwrap();
        let names: Vec<_> = devices
            .iter()
            .map(|gpu| gpu.about().name.as_str())
            .collect();
        assert_eq!(names, ["cuda 1", "cuda 2"]);
        assert_eq!(devices[1].about().hardware, "Double 2");
        drop(devices);
        assert_eq!(double.leaks(), "");
    }
}
