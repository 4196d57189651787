// SPDX-License-Identifier: MIT OR Apache-2.0
//! The core itself as a [`Transport`], simulated by a program that Verilator builds from `rtl/`.
//!
//! The simulation matches the hardware cycle by cycle, but runs a thousand times slower. It is
//! meant for tests, for counting cycles, and for seeing the core work. It is not safe for secrets:
//! its S-boxes are tables in memory, so other programs on the machine can learn about keys from its
//! timing, and its state is in ordinary memory.

#![allow(unsafe_code, reason = "calls C++")]

use std::ptr::NonNull;

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
    /// Both directions and key sizes, a separate unit for tweaks (`TWEAK=DEDICATED`), one register
    /// per round.
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
    fn functions(self) -> &'static ffi::Functions {
        // SAFETY: `shim.cpp` defines these constants with the layout of `ffi::Functions`, and
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

/// A simulated core. Its clock runs only while a method waits for something.
#[derive(Debug)]
pub struct Model {
    functions: &'static ffi::Functions,
    model: NonNull<ffi::Model>,
}

// SAFETY: a model is not bound to a thread. It has its own `VerilatedContext`, and all other state
// that Verilator's code keeps between calls is constant or atomic. `&mut` ensures that one thread
// at a time uses the model.
unsafe impl Send for Model {}

impl Model {
    /// Creates a core whose interfaces never stall.
    ///
    /// # Panics
    /// Never. If memory runs out, the process aborts.
    #[must_use]
    pub fn new() -> Self {
        Self::of(Design::Full)
    }

    /// Creates a core of the given design; otherwise as [`Model::new`].
    ///
    /// # Panics
    /// As [`Model::new`].
    #[must_use]
    pub fn of(design: Design) -> Self {
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
        // SAFETY: the function accepts any seed. The model that it returns belongs to this value
        // alone until `drop` deletes it.
        let model = unsafe { (functions.create)(seed) };
        Self {
            functions,
            model: NonNull::new(model).expect("`new` does not return null"),
        }
    }
}

impl Default for Model {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        // SAFETY: the model exists until this call, and is not used afterwards.
        unsafe { (self.functions.destroy)(self.model.as_ptr()) }
    }
}

impl Transport for Model {
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

    /// # Panics
    /// If the packet is empty or does not consist of whole beats.
    fn send(&mut self, packet: &[u8]) -> Result<(), TransportError> {
        let beat_len = self.functions.beat_len;
        assert!(
            !packet.is_empty() && packet.len().is_multiple_of(beat_len),
            "{} bytes in beats of {beat_len}",
            packet.len()
        );
        // SAFETY: as in `read`. The function copies `packet.len()` bytes before it returns, and the
        // assertion above checks that they are whole beats.
        unsafe { (self.functions.send)(self.model.as_ptr(), packet.as_ptr(), packet.len()) };
        Ok(())
    }

    fn receive(&mut self, answer: &mut [u8], limit: u64) -> Result<Option<usize>, TransportError> {
        let mut len = 0;
        // SAFETY: as in `read`. The function writes at most `answer.len()` bytes.
        let code = unsafe {
            (self.functions.receive)(
                self.model.as_ptr(),
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
        // SAFETY: as in `read`.
        match unsafe { (self.functions.wait)(self.model.as_ptr(), limit) } {
            ffi::DONE => Ok(true),
            ffi::NOTHING => Ok(false),
            _ => Err(failed()),
        }
    }

    fn abort(&mut self) -> Result<(), TransportError> {
        // SAFETY: as in `read`.
        unsafe { (self.functions.abort)(self.model.as_ptr()) };
        Ok(())
    }
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

/// The interface of `shim.cpp`.
mod ffi {
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

    /// The functions that `shim.cpp` exports for a design.
    #[repr(C)]
    #[derive(Debug)]
    pub(super) struct Functions {
        pub(super) create: unsafe extern "C" fn(seed: u64) -> *mut Model,
        pub(super) destroy: unsafe extern "C" fn(model: *mut Model),
        pub(super) read: unsafe extern "C" fn(model: *mut Model, u32, value: *mut u32) -> i32,
        pub(super) write: unsafe extern "C" fn(model: *mut Model, u32, value: u32) -> i32,
        pub(super) send: unsafe extern "C" fn(model: *mut Model, *const u8, len: usize),
        pub(super) receive: unsafe extern "C" fn(
            model: *mut Model,
            answer: *mut u8,
            room: usize,
            len: *mut usize,
            limit: u64,
        ) -> i32,
        pub(super) wait: unsafe extern "C" fn(model: *mut Model, limit: u64) -> i32,
        pub(super) abort: unsafe extern "C" fn(model: *mut Model),
        pub(super) beat_len: usize,
    }

    unsafe extern "C" {
        pub(super) static luxor_full: Functions;
        #[cfg(feature = "designs")]
        pub(super) static luxor_paper: Functions;
        #[cfg(feature = "designs")]
        pub(super) static luxor_shared: Functions;
    }
}
