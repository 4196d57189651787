// SPDX-License-Identifier: MIT OR Apache-2.0
//! Through OpenCL, whose library is looked for when it is needed.

#![allow(unsafe_code, reason = "calls of the system's OpenCL library")]

use std::{
    collections::HashMap,
    ffi::{CString, c_void},
    ops::Range,
    ptr, slice,
};

use cl3::{
    command_queue, context, device, event, info_type::InfoType, kernel, memory, platform, program,
};
use luxor_engine_gpu::keys::KeyWords;

use super::{About, Arg, Gpu, Host, Launch, Memory, Paper, within};

const TRUE: u32 = 1;
const FALSE: u32 = 0;

/// As `kernels/an_seo.cl` and `kernels/sanida.cl` put them together.
fn source(paper: Paper) -> String {
    macro_rules! kernels {
        ($($file:literal)*) => {
            [$(include_str!(concat!("../../../kernels/", $file))),*].concat()
        };
    }
    match paper {
        Paper::AnSeo => kernels!("portability.h" "tables.h" "aes.h" "gf128.h" "an_seo.h"),
        Paper::Sanida => {
            kernels!("portability.h" "tables.h" "aes.h" "gf128.h" "numbers.h" "sanida.h")
        }
    }
}

/// All devices of all platforms.
///
/// # Errors
/// Why there can be none.
pub(super) fn all() -> Result<Vec<Box<dyn Gpu>>, String> {
    if let Err(error) = cl3::load_library() {
        return Err(format!("the library cannot be loaded: {error}"));
    }
    let platforms = match platform::get_platform_ids() {
        Ok(platforms) => platforms,
        // What the loader says where there are none.
        Err(cl3::error_codes::CL_PLATFORM_NOT_FOUND_KHR) => Vec::new(),
        Err(code) => return Err(failed("clGetPlatformIDs")(code)),
    };
    let mut found = Vec::new();
    for platform in platforms {
        let name = text(platform::get_platform_info(
            platform,
            platform::CL_PLATFORM_NAME,
        ));
        if let Some(reason) = luxor_engine_opencl::lacks_linker(&name) {
            return Err(format!("{name}: {reason}"));
        }
        // A platform that has none says so by an error.
        let ids = device::get_device_ids(platform, device::CL_DEVICE_TYPE_ALL);
        found.extend(ids.unwrap_or_default().into_iter().map(|id| (platform, id)));
    }
    let several = found.len() > 1;
    let open = |(number, (platform, id))| {
        let name = match several {
            true => format!("opencl {number}"),
            false => "opencl".to_owned(),
        };
        let opened = OpenCl::open(&name, platform, id)?;
        Ok(Box::new(opened) as Box<dyn Gpu>)
    };
    (1..).zip(found).map(open).collect()
}

fn failed(call: &'static str) -> impl Fn(i32) -> String {
    move |code| format!("{call} failed with code {code}")
}

fn text(info: Result<InfoType, i32>) -> String {
    match info {
        Ok(InfoType::VecUchar(bytes)) => {
            let text = String::from_utf8_lossy(&bytes);
            text.trim_end_matches('\0').trim().to_owned()
        }
        _ => String::new(),
    }
}

fn number(info: &Result<InfoType, i32>) -> u64 {
    match *info {
        Ok(InfoType::Uint(number)) => number.into(),
        Ok(InfoType::Ulong(number)) => number,
        Ok(InfoType::Size(number)) => number as u64,
        _ => 0,
    }
}

/// A device. All its objects are its own, used by one thread and released with it.
struct OpenCl {
    about: About,
    device: *mut c_void,
    context: *mut c_void,
    queues: Vec<*mut c_void>,
    memories: Vec<*mut c_void>,
    /// The memory object and where the host has it.
    hosts: Vec<(*mut c_void, *mut u8)>,
    key: *mut c_void,
    largest_group: u64,
    local_memory: u64,
    programs: HashMap<&'static str, *mut c_void>,
    /// Of the program that is loaded.
    kernels: HashMap<String, *mut c_void>,
    loaded: Option<(Paper, usize)>,
}

impl OpenCl {
    fn open(name: &str, platform: *mut c_void, id: *mut c_void) -> Result<Self, String> {
        let info = |what| device::get_device_info(id, what);
        let version = platform::get_platform_info(platform, platform::CL_PLATFORM_VERSION);
        let about = About {
            name: name.to_owned(),
            hardware: text(info(device::CL_DEVICE_NAME)),
            device: format!(
                "{} ({}, driver {})",
                text(info(device::CL_DEVICE_NAME)),
                text(version),
                text(info(device::CL_DRIVER_VERSION)),
            ),
            is_cpu: number(&info(device::CL_DEVICE_TYPE)) & device::CL_DEVICE_TYPE_CPU != 0,
        };
        let context = context::create_context(&[id], ptr::null(), None, ptr::null_mut())
            .map_err(failed("clCreateContext"))?;
        let mut opened = Self {
            about,
            device: id,
            context,
            queues: Vec::new(),
            memories: Vec::new(),
            hosts: Vec::new(),
            key: ptr::null_mut(),
            largest_group: number(&info(device::CL_DEVICE_MAX_WORK_GROUP_SIZE)),
            local_memory: number(&info(device::CL_DEVICE_LOCAL_MEM_SIZE)),
            programs: HashMap::new(),
            kernels: HashMap::new(),
            loaded: None,
        };
        opened.queues(1)?;
        opened.key = opened.buffer(memory::CL_MEM_READ_ONLY, 192 * 4)?;
        Ok(opened)
    }

    fn buffer(&self, flags: u64, len: usize) -> Result<*mut c_void, String> {
        // SAFETY: the context is this device's, and with these flags there is no host pointer.
        unsafe { memory::create_buffer(self.context, flags, len, ptr::null_mut()) }
            .map_err(|code| format!("clCreateBuffer for {len} bytes failed with code {code}"))
    }

    /// Threads of a group.
    fn threads(&self, paper: Paper) -> Result<usize, String> {
        let (wanted, local) = match paper {
            Paper::AnSeo => (1024, 256 * 4 * 32),
            Paper::Sanida => (256, 256 + 48 * 256),
        };
        if self.local_memory < local {
            return Err(format!(
                "{} bytes of local memory are fewer than {local}",
                self.local_memory
            ));
        }
        [wanted, 256, 128, 64, 32]
            .into_iter()
            .find(|&threads| threads as u64 <= self.largest_group)
            .ok_or_else(|| "the device's groups are too small".to_owned())
    }

    fn build(&self, paper: Paper, threads: usize) -> Result<*mut c_void, String> {
        let source = source(paper);
        let built = program::create_program_with_source(self.context, &[&source])
            .map_err(failed("clCreateProgramWithSource"))?;
        let replicas = if paper == Paper::AnSeo { 32 } else { 1 };
        let options = format!("-cl-std=CL1.2 -DREPLICAS={replicas} -DTABLES=1 -DTHREADS={threads}");
        let options = CString::new(options).map_err(|e| e.to_string())?;
        let result = program::build_program(built, &[self.device], &options, None, ptr::null_mut());
        result.map_err(|code| {
            let what = program::CL_PROGRAM_BUILD_LOG;
            let log = text(program::get_program_build_info(built, self.device, what));
            // SAFETY: nobody else has it.
            let _ = unsafe { program::release_program(built) };
            format!("clBuildProgram failed with code {code}:\n{log}")
        })?;
        Ok(built)
    }

    fn kernel(&mut self, name: &str) -> Result<*mut c_void, String> {
        if let Some(&kernel) = self.kernels.get(name) {
            return Ok(kernel);
        }
        let program = match self.loaded {
            Some((paper, _)) => self.programs.get(paper.name()).copied(),
            None => None,
        };
        let program = program.ok_or("no kernels are loaded")?;
        let c_name = CString::new(name).map_err(|e| e.to_string())?;
        let created = kernel::create_kernel(program, &c_name).map_err(failed("clCreateKernel"))?;
        self.kernels.insert(name.to_owned(), created);
        Ok(created)
    }

    fn forget_kernels(&mut self) {
        for (_, kernel) in self.kernels.drain() {
            // SAFETY: nobody else has it. What is enqueued keeps it.
            let _ = unsafe { kernel::release_kernel(kernel) };
        }
    }
}

/// Nobody asks for it: queues are in order.
fn forget(event: *mut c_void) {
    // SAFETY: it was given to the caller just now.
    let _ = unsafe { event::release_event(event) };
}

impl Gpu for OpenCl {
    fn about(&self) -> &About {
        &self.about
    }

    fn load(&mut self, paper: Paper, key: &KeyWords) -> Result<(), String> {
        self.wait()?;
        let threads = self.threads(paper)?;
        if !self.programs.contains_key(paper.name()) {
            let program = self.build(paper, threads)?;
            self.programs.insert(paper.name(), program);
        }
        if self.loaded.is_none_or(|(loaded, _)| loaded != paper) {
            self.forget_kernels();
        }
        self.loaded = Some((paper, threads));
        let words = key.expose();
        let (at, none) = (words.as_ptr().cast(), ptr::null());
        // SAFETY: the buffer has 192 words, as the key has, and the call returns when they are
        // copied.
        let event = unsafe {
            command_queue::enqueue_write_buffer(
                self.queues[0],
                self.key,
                TRUE,
                0,
                size_of_val(words),
                at,
                0,
                none,
            )
        };
        forget(event.map_err(failed("clEnqueueWriteBuffer"))?);
        Ok(())
    }

    fn queues(&mut self, count: usize) -> Result<(), String> {
        while self.queues.len() < count {
            // SAFETY: both are this device's.
            let queue =
                unsafe { command_queue::create_command_queue(self.context, self.device, 0) };
            self.queues
                .push(queue.map_err(failed("clCreateCommandQueue"))?);
        }
        Ok(())
    }

    fn memory(&mut self, len: usize) -> Result<Memory, String> {
        let buffer = self.buffer(memory::CL_MEM_READ_WRITE, len)?;
        self.memories.push(buffer);
        let at = self.memories.len() - 1;
        Ok(Memory { at, len })
    }

    fn host(&mut self, len: usize) -> Result<Host, String> {
        let flags = memory::CL_MEM_READ_WRITE | memory::CL_MEM_ALLOC_HOST_PTR;
        let buffer = self.buffer(flags, len)?;
        let mut at = ptr::null_mut();
        let how = memory::CL_MAP_READ | memory::CL_MAP_WRITE;
        // SAFETY: the buffer has so many bytes, the call returns when they are there, and no
        // kernel gets this buffer.
        let event = unsafe {
            command_queue::enqueue_map_buffer(
                self.queues[0],
                buffer,
                TRUE,
                how,
                0,
                len,
                &mut at,
                0,
                ptr::null(),
            )
        };
        self.hosts.push((buffer, at.cast()));
        forget(event.map_err(failed("clEnqueueMapBuffer"))?);
        // SAFETY: mapped just now, so long, and nobody else has it. What the library put there
        // may be uninitialised memory.
        unsafe { ptr::write_bytes(at.cast::<u8>(), 0, len) };
        let at = self.hosts.len() - 1;
        Ok(Host { at, len })
    }

    fn bytes(&mut self, host: Host) -> Result<&mut [u8], String> {
        self.wait()?;
        let (_, at) = self.hosts[host.at];
        // SAFETY: mapped with this length and initialised by `host`, until this value is
        // dropped; nothing is under way, and nothing can be begun while this is borrowed.
        Ok(unsafe { slice::from_raw_parts_mut(at, host.len) })
    }

    fn upload(
        &mut self,
        queue: usize,
        from: Host,
        to: Memory,
        range: Range<usize>,
    ) -> Result<(), String> {
        within(&range, to, from)?;
        let ((_, host), queue) = (self.hosts[from.at], self.queues[queue]);
        // SAFETY: the range is in both, and the host's memory is neither written nor released
        // before `wait`.
        let event = unsafe {
            command_queue::enqueue_write_buffer(
                queue,
                self.memories[to.at],
                FALSE,
                range.start,
                range.len(),
                host.add(range.start).cast(),
                0,
                ptr::null(),
            )
        };
        forget(event.map_err(failed("clEnqueueWriteBuffer"))?);
        Ok(())
    }

    fn download(
        &mut self,
        queue: usize,
        from: Memory,
        to: Host,
        range: Range<usize>,
    ) -> Result<(), String> {
        within(&range, from, to)?;
        let ((_, host), queue) = (self.hosts[to.at], self.queues[queue]);
        // SAFETY: as in `upload`; nor is it read before.
        let event = unsafe {
            command_queue::enqueue_read_buffer(
                queue,
                self.memories[from.at],
                FALSE,
                range.start,
                range.len(),
                host.add(range.start).cast(),
                0,
                ptr::null(),
            )
        };
        forget(event.map_err(failed("clEnqueueReadBuffer"))?);
        Ok(())
    }

    fn launch(&mut self, queue: usize, launch: &Launch) -> Result<(), String> {
        let (_, threads) = self.loaded.ok_or("no kernels are loaded")?;
        let call = launch.call(threads)?;
        let kernel = self.kernel(&call.kernel)?;
        let set = |index: usize, len: usize, at: *const c_void| {
            let index = u32::try_from(index).unwrap_or(u32::MAX);
            // SAFETY: the value is copied during the call, and the library refuses one whose
            // length is not the argument's.
            unsafe { kernel::set_kernel_arg(kernel, index, len, at) }
                .map_err(failed("clSetKernelArg"))
        };
        for (index, arg) in call.args.iter().enumerate() {
            let buffer = match arg {
                Arg::Key => self.key,
                Arg::Memory(memory) => self.memories[memory.at],
                Arg::U32(number) => {
                    set(index, size_of::<u32>(), ptr::from_ref(number).cast())?;
                    continue;
                }
            };
            set(index, size_of::<*mut c_void>(), (&raw const buffer).cast())?;
        }
        if call.local > 0 {
            set(call.args.len(), call.local, ptr::null())?;
        }
        let global = (call.items as usize).next_multiple_of(threads);
        // SAFETY: the kernel's arguments are set, and `Launch::call` has seen that it stays
        // within its buffers.
        let event = unsafe {
            command_queue::enqueue_nd_range_kernel(
                self.queues[queue],
                kernel,
                1,
                ptr::null(),
                &raw const global,
                &raw const threads,
                0,
                ptr::null(),
            )
        };
        forget(event.map_err(failed("clEnqueueNDRangeKernel"))?);
        // Sends it on, beside what other queues have to do.
        command_queue::flush(self.queues[queue]).map_err(failed("clFlush"))
    }

    fn wait(&mut self) -> Result<(), String> {
        for &queue in &self.queues {
            command_queue::finish(queue).map_err(failed("clFinish"))?;
        }
        Ok(())
    }
}

impl Drop for OpenCl {
    fn drop(&mut self) {
        let _ = self.wait();
        self.forget_kernels();
        // SAFETY: nothing is under way, and nobody else has any of these; memory that is
        // mapped is not used any more.
        unsafe {
            for program in self.programs.values() {
                let _ = program::release_program(*program);
            }
            for &(buffer, at) in &self.hosts {
                if !at.is_null() {
                    let (queue, at) = (self.queues[0], at.cast());
                    let none = ptr::null();
                    let unmapped =
                        command_queue::enqueue_unmap_mem_object(queue, buffer, at, 0, none);
                    let _ = unmapped.map(forget);
                }
            }
            let _ = self.wait();
            let hosts = self.hosts.iter().map(|&(buffer, _)| buffer);
            for buffer in hosts.chain(self.memories.iter().copied()) {
                let _ = memory::release_mem_object(buffer);
            }
            if !self.key.is_null() {
                let _ = memory::release_mem_object(self.key);
            }
            for &queue in &self.queues {
                let _ = command_queue::release_command_queue(queue);
            }
            let _ = context::release_context(self.context);
        }
    }
}
