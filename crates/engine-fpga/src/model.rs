// SPDX-License-Identifier: MIT OR Apache-2.0
//! The core itself, simulated: what Verilator makes of `rtl/`, as a [`Transport`].
//!
//! It is the hardware cycle by cycle, at a thousandth of its speed, and as slow as any
//! simulation: for tests, measurements of cycles, and to see it work. Its S-boxes are
//! tables in memory, so that other programs on the same machine can learn about keys from
//! the time that it takes, and what it holds is in ordinary memory.

#![allow(unsafe_code, reason = "calls of C++")]

use std::ptr::NonNull;

use crate::{
    backend::FpgaBackend,
    driver::DriverError,
    transport::{Transport, TransportError},
};

/// A backend on a simulated core.
///
/// # Errors
/// [`DriverError`], if the core does not work.
pub fn backend() -> Result<FpgaBackend<Model>, DriverError> {
    let device = concat!("simulation by ", env!("LUXOR_VERILATOR"));
    // Any CPU is faster, whatever it has to do.
    FpgaBackend::new(Model::new(), device, usize::MAX)
}

/// A build of the core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Design {
    /// Both directions and key sizes; tweaks in a unit of their own (`TWEAK=DEDICATED`); one
    /// register a round.
    Full,
    /// Elmoghany et al., 2011: AES-128, encryption, the tweak before the data of each unit
    /// (`TWEAK=PAPER`), two registers a round.
    #[cfg(feature = "designs")]
    Paper,
    /// As [`Design::Paper`], but for tweaks of coming units between the data of the present one
    /// (`TWEAK=SHARED`), and four registers a round, as in what is recorded for an ECP5.
    #[cfg(feature = "designs")]
    Shared,
}

impl Design {
    fn functions(self) -> &'static ffi::Functions {
        // SAFETY: `shim.cpp` has these, of this form, and nobody writes to them.
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

/// A simulated core with its clock, which runs while something is waited for.
#[derive(Debug)]
pub struct Model {
    functions: &'static ffi::Functions,
    model: NonNull<ffi::Model>,
}

// SAFETY: nothing in a model belongs to a thread: it has a `VerilatedContext` of its own,
// and Verilator's code keeps no other state between calls that is not constant or atomic.
// `&mut` sees to it that one thread at a time is in it.
unsafe impl Send for Model {}

impl Model {
    /// A core that nobody has to wait for.
    ///
    /// # Panics
    /// Never; there is an abort when there is too little memory.
    #[must_use]
    pub fn new() -> Self {
        Self::of(Design::Full)
    }

    /// As [`Model::new`], of such a build.
    ///
    /// # Panics
    /// As [`Model::new`].
    #[must_use]
    pub fn of(design: Design) -> Self {
        Self::with_seed(design, 0)
    }

    /// A core with random stalls on every interface, and with random values in whatever
    /// has no reset, from this seed: for tests.
    ///
    /// # Panics
    /// As [`Model::new`].
    #[must_use]
    pub fn with_random_stalls(seed: u64) -> Self {
        Self::with_seed(Design::Full, seed.max(1))
    }

    fn with_seed(design: Design, seed: u64) -> Self {
        let functions = design.functions();
        // SAFETY: the function takes any number. What it returns is a model, which is this
        // value's alone until it is deleted in `drop`.
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
        // SAFETY: the model is there until here, and is not used after this.
        unsafe { (self.functions.destroy)(self.model.as_ptr()) }
    }
}

impl Transport for Model {
    fn read(&mut self, register: u16) -> Result<u32, TransportError> {
        let mut value = 0;
        // SAFETY: the model is there until `drop`, and nobody else has it meanwhile. The
        // number is written through a reference that lives as long as the call.
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
    /// If the packet is not of whole beats, or has none.
    fn send(&mut self, packet: &[u8]) -> Result<(), TransportError> {
        let beat_len = self.functions.beat_len;
        assert!(
            !packet.is_empty() && packet.len().is_multiple_of(beat_len),
            "{} bytes in beats of {beat_len}",
            packet.len()
        );
        // SAFETY: as in `read`. So many bytes are read before the function returns, and the
        // model takes beats of that length only, which they are.
        unsafe { (self.functions.send)(self.model.as_ptr(), packet.as_ptr(), packet.len()) };
        Ok(())
    }

    fn receive(&mut self, answer: &mut [u8], limit: u64) -> Result<Option<usize>, TransportError> {
        let mut len = 0;
        // SAFETY: as in `read`. At most as many bytes are written as `answer` has.
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

/// `shim.cpp`
mod ffi {
    use std::marker::{PhantomData, PhantomPinned};

    /// Something of C++, behind a pointer.
    #[repr(C)]
    pub(super) struct Model {
        _data: [u8; 0],
        _marker: PhantomData<(*mut u8, PhantomPinned)>,
    }

    pub(super) const DONE: i32 = 0;
    pub(super) const NOTHING: i32 = 1;
    pub(super) const DEAD: i32 = -1;
    pub(super) const BUS_ERROR: i32 = -2;

    /// What `shim.cpp` has for a design.
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
