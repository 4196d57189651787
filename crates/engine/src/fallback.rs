// SPDX-License-Identifier: MIT OR Apache-2.0
//! A backend that continues on the CPU when its device fails.

use alloc::{
    boxed::Box,
    string::{String, ToString},
    sync::Arc,
    vec::Vec,
};
use core::{
    fmt,
    sync::atomic::{AtomicBool, Ordering},
};

use crate::{
    backend::{
        Backend, BackendError, BackendInfo, CryptError, CryptErrorKind, Direction, LoadedKey,
    },
    buffer::Buffer,
    key::KeySpec,
    message::Messages,
    run::Run,
};

/// The backend of a device, replaced by the CPU when the device fails.
///
/// It has the device's name and modes. When a call fails on the device, the CPU finishes that call
/// and does all later ones; a device that has failed once is never used again. The first failure is
/// reported once.
///
/// A refused key or unit length is not a failure of the device, and stays an error.
pub struct Fallback {
    device: Arc<dyn Backend>,
    cpu: Arc<dyn Backend>,
    state: Arc<State>,
}

struct State {
    failed: AtomicBool,
    tell: Box<dyn Fn(&str) + Send + Sync>,
}

impl Fallback {
    /// Makes a backend that uses `device`, and after its first failure `cpu`, which must have all
    /// modes of the device. At that failure `tell` is called once, on the thread that meets it,
    /// with a sentence that names both.
    #[must_use]
    pub fn new(
        device: Arc<dyn Backend>,
        cpu: Arc<dyn Backend>,
        tell: impl Fn(&str) + Send + Sync + 'static,
    ) -> Self {
        let cpu_name = cpu.info().name;
        let tell = move |error: &str| tell(&alloc::format!("{error}; {cpu_name} does the rest"));
        let state = State {
            failed: AtomicBool::new(false),
            tell: Box::new(tell),
        };
        Self {
            device,
            cpu,
            state: Arc::new(state),
        }
    }

    /// Whether the device has failed.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.state.has_failed()
    }
}

impl State {
    fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    fn fail(&self, error: &str) {
        if !self.failed.swap(true, Ordering::AcqRel) {
            (self.tell)(error);
        }
    }
}

impl fmt::Debug for Fallback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (device, cpu) = (self.device.info().name, self.cpu.info().name);
        write!(f, "Fallback({device}, {cpu})")
    }
}

impl Backend for Fallback {
    fn info(&self) -> BackendInfo {
        self.device.info()
    }

    fn load_key(&self, key: &KeySpec) -> Result<Box<dyn LoadedKey>, BackendError> {
        let mut device = None;
        if !self.has_failed() {
            match self.device.load_key(key) {
                Ok(key) => device = Some(key),
                Err(error @ BackendError::Device { .. }) => self.state.fail(&error.to_string()),
                Err(refused) => return Err(refused),
            }
        }
        Ok(Box::new(FallbackKey {
            device,
            cpu: self.cpu.load_key(key)?,
            state: Arc::clone(&self.state),
        }))
    }

    fn alloc(&self, len: usize) -> Buffer {
        let backend = if self.has_failed() {
            &self.cpu
        } else {
            &self.device
        };
        backend.alloc(len)
    }

    fn tally(&self) -> Option<String> {
        self.device.tally()
    }
}

struct FallbackKey {
    /// `None` if the device had failed before this key was loaded.
    device: Option<Box<dyn LoadedKey>>,
    cpu: Box<dyn LoadedKey>,
    state: Arc<State>,
}

impl LoadedKey for FallbackKey {
    fn crypt(&self, direction: Direction, runs: &mut [Run<'_>]) -> Result<(), CryptError> {
        let Some(device) = self.device.as_ref().filter(|_| !self.state.has_failed()) else {
            return self.cpu.crypt(direction, runs);
        };
        let Err(error) = device.crypt(direction, runs) else {
            return Ok(());
        };
        if !matches!(error.kind, CryptErrorKind::Device { .. }) {
            return Err(error);
        }
        self.state.fail(&error.kind.to_string());
        let mut left = error.done;
        let mut rest: Vec<_> = runs
            .iter_mut()
            .map(|run| {
                let finished = left.min(run.units());
                left -= finished;
                run.reborrow().split_at(finished).1
            })
            .collect();
        let result = self.cpu.crypt(direction, &mut rest);
        result.map_err(|e| CryptError::new(error.done + e.done, e.kind))
    }

    fn whole_from(&self) -> usize {
        match &self.device {
            Some(device) if !self.state.has_failed() => device.whole_from(),
            _ => self.cpu.whole_from(),
        }
    }

    fn takes_parts_of_units(&self) -> bool {
        match &self.device {
            Some(_) if !self.state.has_failed() => false,
            _ => self.cpu.takes_parts_of_units(),
        }
    }

    fn messages(&self) -> Option<&dyn Messages> {
        match &self.device {
            Some(device) if !self.state.has_failed() => device.messages(),
            _ => self.cpu.messages(),
        }
    }
}
