// SPDX-License-Identifier: MIT OR Apache-2.0
//! The core itself as a [`Transport`], simulated by a program that Verilator builds from `rtl/`.
//!
//! The simulation matches the hardware cycle by cycle, but runs a thousand times slower. It is
//! meant for tests, for counting cycles, and for seeing the core work. It is not safe for secrets:
//! its S-boxes are tables in memory, so other programs on the machine can learn about keys from its
//! timing, and its state is in ordinary memory.

#![allow(unsafe_code, reason = "calls C++")]

use std::ptr::NonNull;
#[cfg(feature = "designs")]
use std::{ffi::c_void, slice};

use crate::{
    backend::FpgaBackend,
    driver::DriverError,
    transport::{Transport, TransportError},
};

/// Creates a backend on a simulated core.
///
/// # Errors
/// [`DriverError`] if the simulated core does not work.
pub fn backend() -> Result<FpgaBackend<Model>, DriverError> {
    let device = concat!("simulation by ", env!("LUXOR_VERILATOR"));
    // Any CPU is faster for any number of bytes.
    FpgaBackend::new(Model::new(), device, usize::MAX)
}

/// A build of the core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Design {
    /// Both directions and key sizes, counter mode, a separate unit for tweaks (`TWEAK=DEDICATED`),
    /// one register per round.
    Full,
    /// The design of Elmoghany et al., 2011: AES-128, encryption only, the tweak before the data of
    /// each unit (`TWEAK=PAPER`), two registers per round.
    #[cfg(feature = "designs")]
    Paper,
    /// As [`Design::Paper`], but with the tweaks of later units between the data of the current one
    /// (`TWEAK=SHARED`), and four registers per round, as in the recorded results for an ECP5.
    #[cfg(feature = "designs")]
    Shared,
}

impl Design {
    fn functions(self) -> &'static ffi::Streams {
        // SAFETY: `streams.cpp` defines these constants with the layout of `ffi::Streams`, and
        // nothing writes to them.
        unsafe {
            match self {
                Self::Full => &ffi::luxor_full,
                #[cfg(feature = "designs")]
                Self::Paper => &ffi::luxor_paper,
                #[cfg(feature = "designs")]
                Self::Shared => &ffi::luxor_shared,
            }
        }
    }
}

/// A simulated core and its registers.
#[derive(Debug)]
struct Host {
    functions: &'static ffi::Host,
    model: NonNull<ffi::Model>,
}

// SAFETY: a model is not bound to a thread. It has its own `VerilatedContext`, and all other state
// that Verilator's code keeps between calls is constant or atomic. `&mut` ensures that one thread
// at a time uses the model.
unsafe impl Send for Host {}

impl Host {
    fn new(functions: &'static ffi::Host, seed: u64) -> Self {
        // SAFETY: the function accepts any seed. The model that it returns belongs to this value
        // alone until `drop` deletes it.
        let model = unsafe { (functions.create)(seed) };
        Self {
            functions,
            model: NonNull::new(model).expect("`new` does not return null"),
        }
    }

    fn read(&mut self, register: u16) -> Result<u32, TransportError> {
        let mut value = 0;
        // SAFETY: the model exists until `drop`, and `&mut self` excludes other users. The result
        // is written to a variable that outlives the call.
        let code =
            unsafe { (self.functions.read)(self.model.as_ptr(), register.into(), &raw mut value) };
        of_code(code, register).map(|()| value)
    }

    fn write(&mut self, register: u16, value: u32) -> Result<(), TransportError> {
        // SAFETY: as in `read`.
        let code = unsafe { (self.functions.write)(self.model.as_ptr(), register.into(), value) };
        of_code(code, register)
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // SAFETY: the model exists until this call, and is not used afterwards.
        unsafe { (self.functions.destroy)(self.model.as_ptr()) }
    }
}

/// A simulated core. Its clock runs only while a method waits for something.
#[derive(Debug)]
pub struct Model {
    functions: &'static ffi::Streams,
    host: Host,
}

impl Model {
    /// Creates a core whose interfaces never stall.
    ///
    /// # Panics
    /// Never. If memory runs out, the process aborts.
    #[must_use]
    pub fn new() -> Self {
        Self::with_design(Design::Full)
    }

    /// Creates a core of the given design; otherwise as [`Model::new`].
    ///
    /// # Panics
    /// As [`Model::new`].
    #[must_use]
    pub fn with_design(design: Design) -> Self {
        Self::with_seed(design, 0)
    }

    /// Creates a core for tests, with random stalls on every interface and random values in all
    /// state without a reset. Both depend on `seed`.
    ///
    /// # Panics
    /// As [`Model::new`].
    #[must_use]
    pub fn with_random_stalls(seed: u64) -> Self {
        Self::with_seed(Design::Full, seed.max(1))
    }

    fn with_seed(design: Design, seed: u64) -> Self {
        let functions = design.functions();
        Self {
            functions,
            host: Host::new(&functions.host, seed),
        }
    }
}

impl Default for Model {
    fn default() -> Self {
        Self::new()
    }
}

impl Transport for Model {
    fn read(&mut self, register: u16) -> Result<u32, TransportError> {
        self.host.read(register)
    }

    fn write(&mut self, register: u16, value: u32) -> Result<(), TransportError> {
        self.host.write(register, value)
    }

    /// # Panics
    /// If the packet is empty or does not consist of whole beats.
    fn send(&mut self, packet: &[u8]) -> Result<(), TransportError> {
        let beat_len = self.functions.beat_len;
        assert!(
            !packet.is_empty() && packet.len().is_multiple_of(beat_len),
            "{} bytes in beats of {beat_len}",
            packet.len()
        );
        // SAFETY: as in `Host::read`. The function copies `packet.len()` bytes before it returns, and the
        // assertion above checks that they are whole beats.
        unsafe { (self.functions.send)(self.host.model.as_ptr(), packet.as_ptr(), packet.len()) };
        Ok(())
    }

    fn receive(&mut self, answer: &mut [u8], limit: u64) -> Result<Option<usize>, TransportError> {
        let mut len = 0;
        // SAFETY: as in `Host::read`. The function writes at most `answer.len()` bytes.
        let code = unsafe {
            (self.functions.receive)(
                self.host.model.as_ptr(),
                answer.as_mut_ptr(),
                answer.len(),
                &raw mut len,
                limit,
            )
        };
        match code {
            ffi::DONE => Ok(Some(len)),
            ffi::NOTHING => Ok(None),
            _ => Err(failed()),
        }
    }

    fn wait(&mut self, limit: u64) -> Result<bool, TransportError> {
        // SAFETY: as in `Host::read`.
        match unsafe { (self.functions.host.wait)(self.host.model.as_ptr(), limit) } {
            ffi::DONE => Ok(true),
            ffi::NOTHING => Ok(false),
            _ => Err(failed()),
        }
    }

    fn abort(&mut self) -> Result<(), TransportError> {
        // SAFETY: as in `Host::read`.
        unsafe { (self.functions.abort)(self.host.model.as_ptr()) };
        Ok(())
    }
}

/// The memory behind the bus of a [`Master`]. Addresses and lengths are those of a beat. A result of
/// `false` is an error on the bus.
///
/// C++ calls these functions, so a panic in one ends the process.
#[cfg(feature = "designs")]
pub trait Memory: Send {
    /// Reads a beat.
    fn load(&mut self, address: u64, beat: &mut [u8]) -> bool;

    /// Writes the bytes of a beat whose bits in `strobes` are 1.
    fn store(&mut self, address: u64, beat: &[u8], strobes: u64) -> bool;
}

/// A simulated core with a bus master, of the design [`Design::Full`]: its registers, and a memory of
/// the caller's behind its bus. Its clock runs only in [`Master::run`] and while registers are
/// accessed.
#[cfg(feature = "designs")]
#[derive(Debug)]
pub struct Master {
    functions: &'static ffi::Master,
    host: Host,
    memory: NonNull<Box<dyn Memory>>,
}

// SAFETY: `Host` and the memory can be sent, and only this value uses either.
#[cfg(feature = "designs")]
unsafe impl Send for Master {}

#[cfg(feature = "designs")]
impl Master {
    /// Creates a core. With a seed other than 0 every interface stalls at random, and all state
    /// without a reset begins with random values.
    #[must_use]
    pub fn new(memory: Box<dyn Memory>, seed: u64) -> Self {
        // SAFETY: as in `Design::functions`, for `memory.cpp` and `ffi::Master`.
        let functions = unsafe { &ffi::luxor_master };
        let host = Host::new(&functions.host, seed);
        let memory = NonNull::from(Box::leak(Box::new(memory)));
        // SAFETY: the model calls `load` and `store` with this pointer while it is in a function of
        // `self`, which `drop` ends before it frees the memory.
        unsafe {
            (functions.attach)(host.model.as_ptr(), memory.as_ptr().cast(), load, store);
        }
        Self {
            functions,
            host,
            memory,
        }
    }

    /// Reads a register.
    ///
    /// # Errors
    /// As [`Transport::read`].
    pub fn read(&mut self, register: u16) -> Result<u32, TransportError> {
        self.host.read(register)
    }

    /// Writes a register.
    ///
    /// # Errors
    /// As [`Transport::write`].
    pub fn write(&mut self, register: u16, value: u32) -> Result<(), TransportError> {
        self.host.write(register, value)
    }

    /// Runs this many cycles. Returns whether the interrupt line is 1 then.
    ///
    /// # Errors
    /// [`TransportError::Other`] if the simulation finds an error in the core.
    pub fn run(&mut self, cycles: u64) -> Result<bool, TransportError> {
        // SAFETY: as in `Host::read`.
        match unsafe { (self.functions.run)(self.host.model.as_ptr(), cycles) } {
            ffi::DONE => Ok(true),
            ffi::NOTHING => Ok(false),
            _ => Err(failed()),
        }
    }
}

#[cfg(feature = "designs")]
impl Drop for Master {
    fn drop(&mut self) {
        // SAFETY: the pointer is from a `Box` in `new`. The model is not used any more but by the
        // drop of `host`, which does not call the memory.
        drop(unsafe { Box::from_raw(self.memory.as_ptr()) });
    }
}

/// # Safety
/// `memory` must be the one of a [`Master`], and `beat` a beat of the bus that nothing else uses.
#[cfg(feature = "designs")]
unsafe extern "C" fn load(memory: *mut c_void, address: u64, beat: *mut u8, len: usize) -> bool {
    // SAFETY: `Master` keeps the memory, and `&mut self` of its functions excludes other users. The
    // caller promises the rest.
    let (memory, beat) = unsafe {
        (
            &mut *memory.cast::<Box<dyn Memory>>(),
            slice::from_raw_parts_mut(beat, len),
        )
    };
    memory.load(address, beat)
}

/// # Safety
/// As [`load`].
#[cfg(feature = "designs")]
unsafe extern "C" fn store(
    memory: *mut c_void,
    address: u64,
    beat: *const u8,
    len: usize,
    strobes: u64,
) -> bool {
    // SAFETY: as in `load`.
    let (memory, beat) = unsafe {
        (
            &mut *memory.cast::<Box<dyn Memory>>(),
            slice::from_raw_parts(beat, len),
        )
    };
    memory.store(address, beat, strobes)
}

fn of_code(code: i32, register: u16) -> Result<(), TransportError> {
    match code {
        ffi::DONE => Ok(()),
        ffi::DEAD => Err(TransportError::Dead { register }),
        ffi::BUS_ERROR => Err(TransportError::Bus { register }),
        _ => Err(failed()),
    }
}

fn failed() -> TransportError {
    TransportError::Other("the simulation found an error in the core".into())
}

/// The interface of the files in `src/shim`.
mod ffi {
    #[cfg(feature = "designs")]
    use std::ffi::c_void;
    use std::marker::{PhantomData, PhantomPinned};

    /// An opaque C++ object.
    #[repr(C)]
    pub(super) struct Model {
        _data: [u8; 0],
        _marker: PhantomData<(*mut u8, PhantomPinned)>,
    }

    pub(super) const DONE: i32 = 0;
    pub(super) const NOTHING: i32 = 1;
    pub(super) const DEAD: i32 = -1;
    pub(super) const BUS_ERROR: i32 = -2;

    /// The functions that every design has.
    #[repr(C)]
    #[derive(Debug)]
    pub(super) struct Host {
        pub(super) create: unsafe extern "C" fn(seed: u64) -> *mut Model,
        pub(super) destroy: unsafe extern "C" fn(model: *mut Model),
        pub(super) read: unsafe extern "C" fn(model: *mut Model, u32, value: *mut u32) -> i32,
        pub(super) write: unsafe extern "C" fn(model: *mut Model, u32, value: u32) -> i32,
        pub(super) wait: unsafe extern "C" fn(model: *mut Model, limit: u64) -> i32,
    }

    /// The functions of a design with streams.
    #[repr(C)]
    #[derive(Debug)]
    pub(super) struct Streams {
        pub(super) host: Host,
        pub(super) send: unsafe extern "C" fn(model: *mut Model, *const u8, len: usize),
        pub(super) receive: unsafe extern "C" fn(
            model: *mut Model,
            answer: *mut u8,
            room: usize,
            len: *mut usize,
            limit: u64,
        ) -> i32,
        pub(super) abort: unsafe extern "C" fn(model: *mut Model),
        pub(super) beat_len: usize,
    }

    #[cfg(feature = "designs")]
    pub(super) type Load =
        unsafe extern "C" fn(*mut c_void, u64, beat: *mut u8, len: usize) -> bool;
    #[cfg(feature = "designs")]
    pub(super) type Store =
        unsafe extern "C" fn(*mut c_void, u64, beat: *const u8, len: usize, strobes: u64) -> bool;

    /// The functions of a design with a bus master.
    #[cfg(feature = "designs")]
    #[repr(C)]
    #[derive(Debug)]
    pub(super) struct Master {
        pub(super) host: Host,
        pub(super) attach: unsafe extern "C" fn(model: *mut Model, *mut c_void, Load, Store),
        pub(super) run: unsafe extern "C" fn(model: *mut Model, cycles: u64) -> i32,
    }

    unsafe extern "C" {
        pub(super) static luxor_full: Streams;
        #[cfg(feature = "designs")]
        pub(super) static luxor_master: Master;
        #[cfg(feature = "designs")]
        pub(super) static luxor_paper: Streams;
        #[cfg(feature = "designs")]
        pub(super) static luxor_shared: Streams;
    }
}
