// SPDX-License-Identifier: MIT OR Apache-2.0
//! The one boundary: what every backend is, on a CPU, a GPU or an FPGA.

use alloc::{boxed::Box, string::String};
use core::fmt;

use crate::{
    buffer::Buffer,
    key::{KeySpec, Mode},
    message::Messages,
    run::Run,
};

/// Something that encrypts and decrypts runs of data units.
pub trait Backend: Send + Sync {
    /// What it is and what it can do.
    fn info(&self) -> BackendInfo;

    /// Prepares a key: expands it, and uploads it where there is a device.
    ///
    /// # Errors
    /// [`BackendError::Unsupported`] for a mode that is not in
    /// [`BackendInfo::modes`]; [`BackendError::EqualHalves`] where it refuses such keys;
    /// [`BackendError::Device`] when the device fails.
    fn load_key(&self, key: &KeySpec) -> Result<Box<dyn LoadedKey>, BackendError>;

    /// Page-aligned memory of `len` zero bytes; pinned where the device is
    /// faster with it. Wiped when dropped.
    fn alloc(&self, len: usize) -> Buffer;

    /// What its device has done so far, in words; `None` where nothing is counted.
    fn tally(&self) -> Option<String> {
        None
    }
}

/// A key in a backend's own form. Wiped when dropped.
pub trait LoadedKey: Send + Sync {
    /// Encrypts or decrypts `runs`, and returns when all are done. Safe to call
    /// from many threads at once.
    ///
    /// Before it does anything it looks at the unit lengths of all runs, those of
    /// no units included, as [`check_runs`] does.
    ///
    /// # Errors
    /// [`CryptError`], with the number of units that are done. All others hold
    /// their original input, so the caller can go on from there elsewhere.
    fn crypt(&self, direction: Direction, runs: &mut [Run<'_>]) -> Result<(), CryptError>;

    /// Calls of so many bytes and more are best made in one: the key spreads them itself
    /// over what it has. Shorter ones run on the calling thread, as all do of the CPU's keys,
    /// for which this is [`usize::MAX`].
    fn whole_from(&self) -> usize {
        usize::MAX
    }

    /// Messages in output feedback, which go on piece by piece. `None` for other modes, and
    /// where a backend has whole data units only.
    fn messages(&self) -> Option<&dyn Messages> {
        None
    }
}

/// Which way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Plaintext to ciphertext.
    Encrypt,
    /// Ciphertext to plaintext.
    Decrypt,
}

impl Direction {
    /// Both, for tests and tables.
    pub const ALL: [Self; 2] = [Self::Encrypt, Self::Decrypt];

    /// The other one.
    #[must_use]
    pub const fn inverse(self) -> Self {
        match self {
            Self::Encrypt => Self::Decrypt,
            Self::Decrypt => Self::Encrypt,
        }
    }
}

/// What a backend is and can do.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BackendInfo {
    /// The name by which it is forced: `vaes512`, `opencl`.
    pub name: &'static str,
    /// The device or the instructions, in words.
    pub device: String,
    /// What it can do; every other mode is [`BackendError::Unsupported`].
    pub modes: &'static [Mode],
    /// Calls with fewer bytes than this are better made on the CPU: [`usize::MAX`] where no
    /// call should come that nobody asked for by name. 0 for the CPU.
    pub min_batch: usize,
}

impl BackendInfo {
    /// A backend `name` on `device` with `modes`, for calls of any size.
    pub fn new(name: &'static str, device: impl Into<String>, modes: &'static [Mode]) -> Self {
        Self {
            name,
            device: device.into(),
            modes,
            min_batch: 0,
        }
    }
}

/// Why a backend cannot take a key.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackendError {
    /// Not one of its modes.
    #[error("the engine {backend} has no {mode} mode")]
    Unsupported {
        /// The backend's name.
        backend: &'static str,
        /// The mode asked for.
        mode: Mode,
    },
    /// It takes no key of XTS whose data key and tweak key are equal, not even where
    /// another one would, to read what has such a key.
    #[error("the engine {backend} does not accept a key with equal data and tweak keys")]
    EqualHalves {
        /// The backend's name.
        backend: &'static str,
    },
    /// The process is a fork of the one that made the key, and the system wiped the key.
    #[error("the key was lost when this process was forked")]
    KeyLostInFork,
    /// The device refused or failed.
    #[error("the engine {backend} failed: {message}")]
    Device {
        /// The backend's name.
        backend: &'static str,
        /// What the device's library said.
        message: String,
    },
}

/// Why a call was not finished, and how far it came.
#[derive(Debug)]
#[non_exhaustive]
pub struct CryptError {
    /// So many units, counted in order over all runs, are finished. Every other
    /// unit holds its original input.
    pub done: usize,
    /// What happened.
    pub kind: CryptErrorKind,
}

impl CryptError {
    /// After `done` units something of `kind` happened.
    #[must_use]
    pub fn new(done: usize, kind: CryptErrorKind) -> Self {
        Self { done, kind }
    }
}

impl fmt::Display for CryptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (after {} data units)", self.kind, self.done)
    }
}

impl core::error::Error for CryptError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        Some(&self.kind)
    }
}

/// The reasons for a [`CryptError`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CryptErrorKind {
    /// The mode has no data units of this length.
    #[error("{mode} cannot process data units of {unit_len} bytes")]
    UnitLen {
        /// The key's mode.
        mode: Mode,
        /// The length of the run's units in bytes.
        unit_len: usize,
    },
    /// The process is a fork of the one that loaded the key, and the system wiped the key's
    /// schedule.
    #[error("the key was lost when this process was forked")]
    KeyLostInFork,
    /// The device refused or failed.
    #[error("the engine {backend} failed: {message}")]
    Device {
        /// The backend's name.
        backend: &'static str,
        /// What the device's library said.
        message: String,
    },
    /// As another kind, and worse: units after [`CryptError::done`] were
    /// finished and could not be turned back.
    #[error("{cause}; the contents of the data units after the finished ones are undefined")]
    Torn {
        /// The first error.
        cause: String,
    },
}

/// The check that comes before any work: every run's unit length suits `mode`.
///
/// # Errors
/// [`CryptErrorKind::UnitLen`], with nothing done.
pub fn check_runs(mode: Mode, runs: &[Run<'_>]) -> Result<(), CryptError> {
    match runs
        .iter()
        .find(|run| !mode.accepts_unit_len(run.unit_len().get()))
    {
        None => Ok(()),
        Some(run) => {
            let unit_len = run.unit_len().get();
            Err(CryptError::new(
                0,
                CryptErrorKind::UnitLen { mode, unit_len },
            ))
        }
    }
}
