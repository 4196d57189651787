// SPDX-License-Identifier: MIT OR Apache-2.0
//! A device: memory, variables and launches.

use crate::{
    error::{Fault, RunError},
    memory::{Moment, Segment, Segments, Shared},
    module::{Kernel, Module, Special, Threads},
    space::Space,
    thread::{Stop, Thread, World},
};

/// A device: modules, and the buffers that they share.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Indexed by module number; `None` after unloading.
    modules: Vec<Option<Loaded>>,
    buffers: Segments,
    launches: u32,
    max_steps: u64,
    own_banks: bool,
    // Reused from launch to launch to save allocations.
    shared: Shared,
    threads: Vec<Thread>,
    values: Vec<u64>,
    written: Vec<u64>,
}

/// A module loaded on a device.
#[derive(Clone, Debug)]
struct Loaded {
    module: Module,
    constants: Segments,
    variables: Segments,
}

/// In the host's addresses of a module's variables, the module's number begins at this bit.
const MODULE: u32 = 52;

/// The most modules ever loaded, so that the number stays below the bits of the spaces.
const MODULES: usize = 1 << 7;

/// The default limit on the instructions of a thread.
const MAX_STEPS: u64 = 1 << 26;

/// Bytes of constant memory (the CUDA C++ Programming Guide, table 21).
const CONSTANT_MEMORY: usize = 64 << 10;

/// The most threads of a block (same table).
const MAX_THREADS: u32 = 1024;

/// The most bytes of shared memory of a block with compute capability 7.5.
const SHARED_MEMORY: usize = 64 << 10;

impl Machine {
    /// Creates a device with one module.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn new(module: &Module) -> Result<Self, RunError> {
        let mut machine = Self::default();
        machine.load(module)?;
        Ok(machine)
    }

    /// Loads a module with its initialised variables. Returns its number, counted from 0.
    ///
    /// # Errors
    /// [`RunError::Module`] if the variables do not fit into constant memory, or 128 modules have
    /// been loaded.
    pub fn load(&mut self, module: &Module) -> Result<usize, RunError> {
        let refused = |why| RunError::Module { why };
        let total: usize = module.constants.iter().map(|v| v.bytes.len()).sum();
        if total > CONSTANT_MEMORY {
            let why = format!("{total} bytes of constants exceed {CONSTANT_MEMORY} bytes");
            return Err(refused(why));
        }
        if self.modules.len() == MODULES {
            return Err(refused(format!("{MODULES} modules were loaded already")));
        }
        let mut constants = Segments::new(Space::Const, 0);
        let mut variables = Segments::new(Space::Global, Segments::VARIABLES);
        for variable in &module.constants {
            constants.add(variable.bytes.clone());
        }
        for variable in &module.globals {
            variables.add(variable.bytes.clone());
        }
        self.modules.push(Some(Loaded {
            module: module.clone(),
            constants,
            variables,
        }));
        Ok(self.modules.len() - 1)
    }

    /// Unloads a module. Returns whether it was loaded.
    pub fn unload(&mut self, module: usize) -> bool {
        let module = self.modules.get_mut(module);
        module.is_some_and(|module| module.take().is_some())
    }

    /// Limits each thread to `steps` instructions instead of 2²⁶.
    pub const fn set_max_steps(&mut self, steps: u64) {
        self.max_steps = steps;
    }

    /// Requires from now on that every access to shared memory is in the bank with the number of
    /// the thread's lane. Then no access waits for another, whatever the addresses are, so their
    /// timing reveals nothing about them.
    pub const fn require_own_banks(&mut self) {
        self.own_banks = true;
    }

    /// Returns the module that was loaded first.
    ///
    /// # Panics
    /// If no module was loaded, or the first one was unloaded.
    #[must_use]
    pub fn module(&self) -> &Module {
        let first = self.modules.first().and_then(Option::as_ref);
        &first.expect("a module is loaded").module
    }

    /// Allocates a buffer of `len` bytes in global memory, with meaningless contents. Returns its
    /// address, a multiple of 256.
    pub fn alloc(&mut self, len: usize) -> u64 {
        self.buffers.add(vec![0xa5; len])
    }

    /// Frees the buffer at `address` and returns its contents; `None` if there is no such buffer.
    /// Its address stays out of bounds.
    pub fn free(&mut self, address: u64) -> Option<Vec<u8>> {
        self.buffers.remove(address).map(|segment| segment.bytes)
    }

    /// Writes `bytes` to a buffer, or to a variable at an address from [`Self::variable_address`].
    ///
    /// # Errors
    /// [`RunError::Host`] if they are out of bounds.
    pub fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), RunError> {
        let (segment, at) = self.host(address, bytes.len())?;
        segment.bytes[at..at + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    /// Returns `len` bytes of a buffer or a variable.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub fn read(&mut self, address: u64, len: usize) -> Result<&[u8], RunError> {
        let (segment, at) = self.host(address, len)?;
        Ok(&segment.bytes[at..at + len])
    }

    fn host(&mut self, address: u64, len: usize) -> Result<(&mut Segment, usize), RunError> {
        let numbers = (MODULES as u64 - 1) << MODULE;
        let (space, within) = Space::of_generic(address & !numbers);
        let found = if space == Space::Global && address < Segments::VARIABLES {
            self.buffers.find(address, len)
        } else {
            let outside = Fault::OutOfBounds {
                space,
                address,
                len,
            };
            let number = usize::try_from((address & numbers) >> MODULE);
            let loaded = number.ok().and_then(|n| self.modules.get_mut(n)?.as_mut());
            match (loaded, space) {
                (Some(loaded), Space::Const) => loaded.constants.find(within, len),
                (Some(loaded), Space::Global) => loaded.variables.find(within, len),
                _ => Err(outside),
            }
        };
        found.map_err(RunError::Host)
    }

    /// Returns the address for the host, and the length, of a module's `.const` or `.global`
    /// variable.
    ///
    /// # Errors
    /// [`RunError::NoVariable`] if there is no such variable.
    pub fn variable_address(&self, module: usize, name: &str) -> Result<(u64, usize), RunError> {
        if let Some(Some(loaded)) = self.modules.get(module) {
            let of = &loaded.module;
            for (variables, base) in [
                (&of.constants, Space::Const.window()),
                (&of.globals, Segments::VARIABLES),
            ] {
                if let Some(index) = variables.iter().position(|v| v.name == name) {
                    let address = base + ((module as u64) << MODULE) + Segments::distance(index);
                    return Ok((address, variables[index].bytes.len()));
                }
            }
        }
        let name = name.to_owned();
        Err(RunError::NoVariable { name })
    }

    /// Writes `bytes` to the `.const` or `.global` variable `name` of the first module that has
    /// one, starting at byte `at`.
    ///
    /// # Errors
    /// If there is no such variable, or the bytes are out of its bounds.
    pub fn write_variable(&mut self, name: &str, at: usize, bytes: &[u8]) -> Result<(), RunError> {
        let address = self.first_variable(name)?;
        self.write(address + at as u64, bytes)
    }

    /// Returns `len` bytes of the variable, found in the same way.
    ///
    /// # Errors
    /// As [`Self::write_variable`].
    pub fn read_variable(&mut self, name: &str, at: usize, len: usize) -> Result<&[u8], RunError> {
        let address = self.first_variable(name)?;
        self.read(address + at as u64, len)
    }

    fn first_variable(&self, name: &str) -> Result<u64, RunError> {
        let mut modules = 0..self.modules.len();
        let found = modules.find_map(|module| self.variable_address(module, name).ok());
        let name = name.to_owned();
        let (address, _) = found.ok_or(RunError::NoVariable { name })?;
        Ok(address)
    }

    /// Runs a kernel to its end, from the first module that has one of this name. `params` comes
    /// from [`Parameters::bytes`].
    ///
    /// # Errors
    /// The error of the launch, or the first fault of a thread. Earlier writes to memory remain.
    pub fn launch(&mut self, kernel: &str, grid: Grid, params: &[u8]) -> Result<(), RunError> {
        let modules = self.modules.iter().enumerate();
        let found = modules.flat_map(|(number, loaded)| {
            let kernel = loaded.as_ref()?.module.shared_kernel(kernel)?;
            Some((number, kernel))
        });
        let Some((module, kernel)) = { found }.next() else {
            let name = kernel.to_owned();
            return Err(RunError::NoKernel { name });
        };
        let kernel = &*kernel;
        grid.check(kernel)?;
        if params.len() != kernel.params_len() {
            return Err(RunError::Parameters {
                kernel: kernel.name.clone(),
                expected: kernel.params_len(),
                found: params.len(),
            });
        }
        self.launches += 1;
        for z in 0..grid.blocks[2] {
            for y in 0..grid.blocks[1] {
                for x in 0..grid.blocks[0] {
                    self.block(module, kernel, grid, params, [x, y, z])?;
                }
            }
        }
        Ok(())
    }

    /// Runs a block to its end.
    fn block(
        &mut self,
        module: usize,
        kernel: &Kernel,
        grid: Grid,
        params: &[u8],
        block: [u32; 3],
    ) -> Result<(), RunError> {
        let Some(Some(loaded)) = self.modules.get_mut(module) else {
            let name = kernel.name.clone();
            return Err(RunError::NoKernel { name });
        };
        let count = grid.threads.iter().product::<u32>();
        let (size, bits) = (kernel.slots, kernel.written.len());
        self.shared.reset(grid.shared_len(kernel));
        // Values left by other threads are marked as unwritten in `written`.
        self.values.resize(count as usize * size, 0);
        self.written.clear();
        self.threads.resize_with(count as usize, Thread::default);
        for (number, thread) in (0..).zip(&mut self.threads) {
            thread.start(kernel.local);
            self.written.extend_from_slice(&kernel.written);
            let values = &mut self.values[number as usize * size..][..size];
            for (slot, value) in &kernel.fixed {
                values[*slot as usize] = *value;
            }
            for (slot, special) in &kernel.specials {
                values[*slot as usize] = grid.special(*special, block, number).into();
            }
        }
        let mut now = Moment {
            launch: self.launches,
            block: block[0] + grid.blocks[0] * (block[1] + grid.blocks[1] * block[2]),
            phase: 0,
            thread: 0,
        };
        loop {
            for (number, thread) in (0..).zip(&mut self.threads) {
                now.thread = number;
                let mut world = World {
                    kernel,
                    buffers: &mut self.buffers,
                    variables: &mut loaded.variables,
                    constants: &mut loaded.constants,
                    shared: &mut self.shared,
                    params,
                    now,
                    threads: count,
                    max_steps: self.max_steps,
                    own_banks: self.own_banks,
                };
                let index = number as usize;
                let values = &mut self.values[index * size..][..size];
                let written = &mut self.written[index * bits..][..bits];
                let stop = thread.run(&mut world, values, written).map_err(|fault| {
                    let line = kernel.code.get(thread.at).map_or(0, |i| i.line);
                    loaded
                        .module
                        .fault(kernel, line, block, grid.thread(number), fault)
                })?;
                thread.stop = Some(stop);
            }
            if meet(&self.threads, &loaded.module, kernel, grid, block)? {
                return Ok(());
            }
            self.shared.barrier();
            now.phase += 1;
        }
    }
}

impl Default for Machine {
    fn default() -> Self {
        Self {
            modules: Vec::new(),
            buffers: Segments::new(Space::Global, 0),
            launches: 0,
            max_steps: MAX_STEPS,
            own_banks: false,
            shared: Shared::default(),
            threads: Vec::new(),
            values: Vec::new(),
            written: Vec::new(),
        }
    }
}

/// Checks the threads of a block after each has stopped at a barrier or ended. Returns whether all
/// have ended.
fn meet(
    threads: &[Thread],
    module: &Module,
    kernel: &Kernel,
    grid: Grid,
    block: [u32; 3],
) -> Result<bool, RunError> {
    let stops = || (0..).zip(threads).map(|(n, t)| (n, t.stop));
    let waiting = stops().find_map(|(number, stop)| match stop {
        Some(Stop::Barrier {
            at,
            number: barrier,
            aligned,
        }) => Some((number, at, barrier, aligned)),
        _ => None,
    });
    let Some((number, at, barrier, aligned)) = waiting else {
        return Ok(true);
    };
    let line = kernel.code[at].line;
    let mut others = stops().filter_map(|(other, stop)| {
        let instead = match stop {
            Some(Stop::Barrier {
                at: other_at,
                number: other_barrier,
                aligned: other_aligned,
            }) => {
                let same = at == other_at || !aligned && !other_aligned;
                if same && barrier == other_barrier {
                    return None;
                }
                let line = kernel.code[other_at].line;
                format!("which waits at barrier {other_barrier} in line {line}")
            }
            _ => "which has ended".to_owned(),
        };
        let other = grid.thread(other);
        Some(Fault::Barrier { other, instead })
    });
    match others.next() {
        None => Ok(false),
        Some(fault) => {
            let thread = grid.thread(number);
            Err(module.fault(kernel, line, block, thread, fault))
        }
    }
}

impl Module {
    fn fault(
        &self,
        kernel: &Kernel,
        line: u32,
        block: [u32; 3],
        thread: [u32; 3],
        fault: Fault,
    ) -> RunError {
        RunError::Fault {
            kernel: kernel.name.clone(),
            line,
            text: self.line(line).to_owned(),
            block,
            thread,
            fault,
        }
    }
}

/// The blocks of a launch, the threads of a block, and the shared memory of each block beyond the
/// kernel's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    /// The number of blocks in x, y and z.
    pub blocks: [u32; 3],
    /// The number of threads of a block in x, y and z.
    pub threads: [u32; 3],
    /// Bytes of added shared memory.
    pub dynamic_shared: u32,
}

impl Grid {
    /// Creates a grid in x only, without added shared memory.
    #[must_use]
    pub const fn new(blocks: u32, threads: u32) -> Self {
        Self {
            blocks: [blocks, 1, 1],
            threads: [threads, 1, 1],
            dynamic_shared: 0,
        }
    }

    /// Adds `bytes` of shared memory for `.extern .shared` variables.
    #[must_use]
    pub const fn with_shared(self, bytes: u32) -> Self {
        Self {
            dynamic_shared: bytes,
            ..self
        }
    }

    fn shared_len(self, kernel: &Kernel) -> usize {
        // Added memory begins at the next multiple of its alignment, which is at most 16 here.
        match self.dynamic_shared {
            0 => kernel.shared,
            more => kernel.shared.next_multiple_of(16) + more as usize,
        }
    }

    fn check(self, kernel: &Kernel) -> Result<(), RunError> {
        let all = |sizes: [u32; 3]| sizes.into_iter().try_fold(1, u32::checked_mul);
        let threads = all(self.threads);
        let why = if all(self.blocks).is_none_or(|count| count == 0) {
            format!("impossible grid of {:?} blocks", self.blocks)
        } else if threads.is_none_or(|count| count == 0 || count > MAX_THREADS) {
            format!("impossible block of {:?} threads", self.threads)
        } else if let Some(Threads::AtMost(most)) = kernel.threads
            && threads.is_some_and(|count| count > most)
        {
            format!(
                "a block of {:?} threads exceeds .maxntid {most}",
                self.threads
            )
        } else if let Some(Threads::Exactly(exactly)) = kernel.threads
            && exactly != self.threads
        {
            format!(
                "a block has {:?} threads, but .reqntid is {exactly:?}",
                self.threads
            )
        } else if self.shared_len(kernel) > SHARED_MEMORY {
            let len = self.shared_len(kernel);
            format!("{len} bytes of shared memory exceed {SHARED_MEMORY} bytes")
        } else {
            return Ok(());
        };
        let kernel = kernel.name.clone();
        Err(RunError::Grid { kernel, why })
    }

    /// Returns x, y and z of thread `number` of a block.
    const fn thread(self, number: u32) -> [u32; 3] {
        let [x, y, _] = self.threads;
        [number % x, number / x % y, number / (x * y)]
    }

    fn special(self, special: Special, block: [u32; 3], number: u32) -> u32 {
        match special {
            Special::Tid(axis) => self.thread(number)[axis],
            Special::Ntid(axis) => self.threads[axis],
            Special::Ctaid(axis) => block[axis],
            Special::Nctaid(axis) => self.blocks[axis],
            Special::LaneId => number % 32,
            Special::WarpId => number / 32,
            Special::WarpCount => self.threads.iter().product::<u32>().div_ceil(32),
        }
    }
}

/// A kernel's parameters. Each is aligned to its own length.
#[derive(Clone, Debug, Default)]
pub struct Parameters(Vec<u8>);

impl Parameters {
    /// Creates an empty list.
    #[must_use]
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Adds a 32-bit parameter.
    #[must_use]
    pub fn u32(self, value: u32) -> Self {
        self.add(&value.to_le_bytes())
    }

    /// Adds a 64-bit parameter: a number or an address.
    #[must_use]
    pub fn u64(self, value: u64) -> Self {
        self.add(&value.to_le_bytes())
    }

    /// Returns the bytes of all parameters.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    fn add(mut self, bytes: &[u8]) -> Self {
        self.0.resize(self.0.len().next_multiple_of(bytes.len()), 0);
        self.0.extend_from_slice(bytes);
        self
    }
}
