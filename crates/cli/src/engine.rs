// SPDX-License-Identifier: MIT OR Apache-2.0
//! The implementations of AES that this program has, and the choice of one.

use std::{num::NonZeroUsize, sync::Arc, thread};

use luxor_engine::{
    Backend, BackendError, CryptError, KeySpec, LoadedKey, Mode, Registry, SelectError, Unavailable,
};

use crate::{
    args::GlobalArgs,
    console::Console,
    error::{Error, Result},
};

/// Every backend of this program, best first. The only place that names them.
///
/// Those behind the CPU's are looked for when somebody names or lists them: a library that is
/// opened, and a device that wakes up, take longer than many a command.
#[must_use]
pub fn registry() -> Registry {
    let mut registry = Registry::cpu();
    registry.register("cuda", cuda);
    registry.register("opencl", opencl);
    registry.register("fpga", fpga);
    registry
}

#[cfg(feature = "cuda")]
fn cuda() -> Result<Arc<dyn Backend>, Unavailable> {
    match luxor_engine_cuda::backend() {
        Ok(backend) => Ok(Arc::new(backend)),
        Err(error) => Err(Unavailable::Device(error.to_string())),
    }
}

#[cfg(not(feature = "cuda"))]
fn cuda() -> Result<Arc<dyn Backend>, Unavailable> {
    Err(Unavailable::Feature { feature: "cuda" })
}

#[cfg(feature = "opencl")]
fn opencl() -> Result<Arc<dyn Backend>, Unavailable> {
    match luxor_engine_opencl::backend() {
        Ok(backend) => Ok(Arc::new(backend)),
        Err(error) => Err(Unavailable::Device(error.to_string())),
    }
}

#[cfg(not(feature = "opencl"))]
fn opencl() -> Result<Arc<dyn Backend>, Unavailable> {
    Err(Unavailable::Feature { feature: "opencl" })
}

#[cfg(feature = "fpga")]
fn fpga() -> Result<Arc<dyn Backend>, Unavailable> {
    match luxor_engine_fpga::model::backend() {
        Ok(backend) => Ok(Arc::new(backend)),
        Err(error) => Err(Unavailable::Device(error.to_string())),
    }
}

#[cfg(not(feature = "fpga"))]
fn fpga() -> Result<Arc<dyn Backend>, Unavailable> {
    Err(Unavailable::Feature { feature: "fpga" })
}

/// Refuses an engine that is absent before a command begins, whether the command
/// needs one or not.
///
/// # Errors
/// When the engine asked for is unknown or absent.
pub fn check(global: &GlobalArgs) -> Result<()> {
    if global.engine != "auto" {
        registry().get(&global.engine)?;
    }
    Ok(())
}

/// What `--engine` and `--threads` ask for.
pub struct Engine {
    /// Where keys are loaded.
    pub backend: Arc<dyn Backend>,
    /// How many threads do AES.
    pub threads: NonZeroUsize,
    console: Console,
}

impl Engine {
    /// The engine for `mode`.
    ///
    /// # Errors
    /// When the engine asked for is absent or has no such mode.
    pub fn select(global: &GlobalArgs, mode: Mode, console: Console) -> Result<Self> {
        let registry = registry();
        let backend = match global.engine.as_str() {
            "auto" => registry.best(mode)?,
            name => registry.get(name)?,
        };
        let info = backend.info();
        if !info.modes.contains(&mode) {
            return Err(BackendError::Unsupported {
                backend: info.name,
                mode,
            }
            .into());
        }
        let threads = global
            .threads
            .and_then(|threads| NonZeroUsize::new(threads.into()))
            .or_else(|| thread::available_parallelism().ok())
            .unwrap_or(NonZeroUsize::MIN);
        console.note(format!(
            "engine {} ({}), {threads} threads",
            info.name, info.device
        ));
        Ok(Self {
            backend,
            threads,
            console,
        })
    }

    /// A key in the engine's own form.
    ///
    /// # Errors
    /// When the device fails.
    pub fn load(&self, key: &KeySpec) -> Result<Box<dyn LoadedKey>> {
        Ok(self.backend.load_key(key)?)
    }
}

impl Drop for Engine {
    /// When the work is done, says what it was.
    fn drop(&mut self) {
        if let Some(tally) = self.backend.tally() {
            let name = self.backend.info().name;
            self.console.note(format!("engine {name}: {tally}"));
        }
    }
}

impl From<SelectError> for Error {
    fn from(error: SelectError) -> Self {
        Self::failure(error.to_string()).hint("`luxor engines` lists what there is.")
    }
}

impl From<BackendError> for Error {
    fn from(error: BackendError) -> Self {
        Self::failure(error.to_string())
    }
}

impl From<CryptError> for Error {
    fn from(error: CryptError) -> Self {
        Self::failure(error.to_string())
    }
}
