// SPDX-License-Identifier: MIT OR Apache-2.0
//! The traits that every backend implements, on a CPU, a GPU or an FPGA.

use alloc::{boxed::Box, string::String};
use core::fmt;

use crate::{
    buffer::Buffer,
    key::{AesSize, KeySpec, Mode},
    message::Messages,
    run::Run,
};

/// An implementation that encrypts and decrypts runs of data units.
pub trait Backend: Send + Sync {
    /// Describes the backend and its abilities.
    fn info(&self) -> BackendInfo;

    /// Prepares a key: expands it, and uploads it if there is a device.
    ///
    /// # Errors
    /// [`BackendError::Unsupported`] for a mode that is not in [`BackendInfo::modes`];
    /// [`BackendError::EqualHalves`] if the backend refuses equal data and tweak keys;
    /// [`BackendError::KeyLostInFork`] if a fork wiped the key; [`BackendError::Device`] if the
    /// device fails.
    fn load_key(&self, key: &KeySpec) -> Result<Box<dyn LoadedKey>, BackendError>;

    /// Allocates `len` page-aligned zero bytes, pinned if that makes the device faster. They are
    /// wiped when dropped.
    fn alloc(&self, len: usize) -> Buffer;

    /// What the device has done so far, in words, or `None` if nothing is counted.
    fn tally(&self) -> Option<String> {
        None
    }
}

/// A key in a backend's own form. Wiped when dropped.
pub trait LoadedKey: Send + Sync {
    /// Encrypts or decrypts `runs`, and returns when all are finished. Several threads may call it
    /// at once.
    ///
    /// It first checks the unit lengths of all runs as [`check_runs`] does, including runs of zero
    /// units.
    ///
    /// # Errors
    /// [`CryptError`], with the number of finished units. All other units hold their original
    /// input, so the caller can continue from there with another backend. The exception is
    /// [`CryptErrorKind::Torn`].
    fn crypt(&self, direction: Direction, runs: &mut [Run<'_>]) -> Result<(), CryptError>;

    /// The length in bytes from which a caller should not split a call, because the key spreads it
    /// over its own hardware. Shorter calls run on the calling thread. CPU keys always run on the
    /// calling thread, and return [`usize::MAX`].
    fn whole_from(&self) -> usize {
        usize::MAX
    }

    /// Whether a run may be a part of a long data unit ([`Run::unit_offset`]). Only keys that fail for no other
    /// reason than the length of a unit or a lost key take them.
    fn takes_parts_of_units(&self) -> bool {
        false
    }

    /// Messages in output feedback, encrypted piece by piece. `None` for other modes, and for
    /// backends that process only whole data units.
    fn messages(&self) -> Option<&dyn Messages> {
        None
    }
}

/// Encryption or decryption.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Plaintext to ciphertext.
    Encrypt,
    /// Ciphertext to plaintext.
    Decrypt,
}

impl Direction {
    /// Both directions, for tests and tables.
    pub const ALL: [Self; 2] = [Self::Encrypt, Self::Decrypt];

    /// The opposite direction.
    #[must_use]
    pub const fn inverse(self) -> Self {
        match self {
            Self::Encrypt => Self::Decrypt,
            Self::Decrypt => Self::Encrypt,
        }
    }
}

/// A description of a backend and its abilities.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BackendInfo {
    /// The name with which a user forces it, such as `vaes512` or `opencl`.
    pub name: &'static str,
    /// The device or the instruction set, in words.
    pub device: String,
    /// The supported modes; every other mode is [`BackendError::Unsupported`].
    pub modes: &'static [Mode],
    /// The supported AES variants; every other one is [`BackendError::KeySize`].
    pub key_sizes: &'static [AesSize],
    /// Calls with fewer bytes than this are faster on the CPU. [`usize::MAX`] if the backend should
    /// be used only when forced by name; 0 for the CPU itself.
    pub min_batch: usize,
}

impl BackendInfo {
    /// Describes the backend `name` on `device` with `modes`, for all keys and calls of any
    /// size.
    pub fn new(name: &'static str, device: impl Into<String>, modes: &'static [Mode]) -> Self {
        Self {
            name,
            device: device.into(),
            modes,
            key_sizes: &AesSize::ALL,
            min_batch: 0,
        }
    }
}

/// Why a backend cannot load a key.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackendError {
    /// The backend does not support the mode.
    #[error("the engine {backend} has no {mode} mode")]
    Unsupported {
        /// The backend's name.
        backend: &'static str,
        /// The requested mode.
        mode: Mode,
    },
    /// The backend does not support the AES variant.
    #[error("the engine {backend} has no AES-{}", size.bits())]
    KeySize {
        /// The backend's name.
        backend: &'static str,
        /// The variant of the key.
        size: AesSize,
    },
    /// The backend refuses every XTS key with equal data and tweak keys. Other backends accept one
    /// where the caller permits it, to read existing data.
    #[error("the engine {backend} does not accept a key with equal data and tweak keys")]
    EqualHalves {
        /// The backend's name.
        backend: &'static str,
    },
    /// This process is a fork of the one that made the key, and the system wiped the key.
    #[error("the key was lost when this process was forked: load it after the fork")]
    KeyLostInFork,
    /// The device refused the request or failed.
    #[error("the engine {backend} failed: {message}")]
    Device {
        /// The backend's name.
        backend: &'static str,
        /// The message of the device's library.
        message: String,
    },
}

/// Why a call was not finished, and how many units it finished.
#[derive(Debug)]
#[non_exhaustive]
pub struct CryptError {
    /// The number of finished units, counted in order over all runs. Every other unit holds its
    /// original input, except with [`CryptErrorKind::Torn`].
    pub done: usize,
    /// The cause.
    pub kind: CryptErrorKind,
}

impl CryptError {
    /// Makes an error of `kind` after `done` finished units.
    #[must_use]
    pub fn new(done: usize, kind: CryptErrorKind) -> Self {
        Self { done, kind }
    }
}

impl fmt::Display for CryptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.done {
            0 => write!(f, "{}", self.kind),
            done => write!(f, "{} (after {done} data units)", self.kind),
        }
    }
}

impl core::error::Error for CryptError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        Some(&self.kind)
    }
}

/// The causes of a [`CryptError`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CryptErrorKind {
    /// The mode does not accept data units of this length.
    #[error("a data unit of {mode} has {}, not {unit_len}", mode.accepted_unit_lens())]
    UnitLen {
        /// The key's mode.
        mode: Mode,
        /// The length of the run's units in bytes.
        unit_len: usize,
    },
    /// This process is a fork of the one that loaded the key, and the system wiped the key
    /// schedule.
    #[error("the key was lost when this process was forked: load it after the fork")]
    KeyLostInFork,
    /// The device refused the request or failed.
    #[error("the engine {backend} failed: {message}")]
    Device {
        /// The backend's name.
        backend: &'static str,
        /// The message of the device's library.
        message: String,
    },
    /// Another error, after which units beyond [`CryptError::done`] had already been changed and
    /// could not be restored.
    #[error("{cause}; the contents of the data units after the finished ones are undefined")]
    Torn {
        /// The first error.
        cause: String,
    },
}

/// Checks, before any work, that `mode` accepts the unit length of every run.
///
/// # Errors
/// [`CryptErrorKind::UnitLen`], with no unit processed.
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
