// SPDX-License-Identifier: MIT OR Apache-2.0
//! The implementations of AES that this program has, and the choice of one.

use std::{num::NonZeroUsize, sync::Arc, thread};

use luxor_engine::{
    Backend, BackendError, CryptError, Fallback, KeySpec, LoadedKey, Mode, Registry, SelectError,
    Unavailable,
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
        let warn = move |text: &str| console.warn(text);
        Ok(Self {
            backend: carrying_on(backend, mode, warn)?,
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

/// `backend`, and if it is a device's, the CPU's best when that fails, of which `warn` is
/// told once.
fn carrying_on(
    backend: Arc<dyn Backend>,
    mode: Mode,
    warn: impl Fn(&str) + Send + Sync + 'static,
) -> Result<Arc<dyn Backend>, SelectError> {
    let cpu = Registry::cpu();
    if cpu.names().any(|name| name == backend.info().name) {
        return Ok(backend);
    }
    let cpu = cpu.best(mode)?;
    Ok(Arc::new(Fallback::new(backend, cpu, warn)))
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

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use luxor_engine::{BackendInfo, Buffer, CryptErrorKind, DataUnitLen, Direction, Run, XtsKey};

    use super::*;

    /// Loads keys, and does nothing else.
    struct Unplugged;

    impl Backend for Unplugged {
        fn info(&self) -> BackendInfo {
            BackendInfo::new("cuda", "a device that is not there any more", &[Mode::Xts])
        }

        fn load_key(&self, _: &KeySpec) -> Result<Box<dyn LoadedKey>, BackendError> {
            Ok(Box::new(Self))
        }

        fn alloc(&self, len: usize) -> Buffer {
            Buffer::zeroed(len)
        }
    }

    impl LoadedKey for Unplugged {
        fn crypt(&self, _: Direction, _: &mut [Run<'_>]) -> Result<(), CryptError> {
            let (backend, message) = ("cuda", "unplugged".into());
            Err(CryptError::new(
                0,
                CryptErrorKind::Device { backend, message },
            ))
        }
    }

    #[test]
    fn a_device_that_fails_is_told_of_once_and_the_cpu_goes_on() {
        let told = Arc::new(Mutex::new(Vec::new()));
        let hears = Arc::clone(&told);
        let warn = move |text: &str| hears.lock().unwrap().push(text.to_owned());
        let backend = carrying_on(Arc::new(Unplugged), Mode::Xts, warn).unwrap();
        let key: Vec<u8> = (0..64).collect();
        let spec = KeySpec::Xts(XtsKey::new(&key).unwrap());
        let key = backend.load_key(&spec).unwrap();
        let mut bytes = [7; 1024];
        for direction in Direction::ALL {
            let unit = DataUnitLen::new(512).unwrap();
            let run = Run::new(3_u64.into(), 1, unit, &mut bytes[..]).unwrap();
            key.crypt(direction, &mut [run]).unwrap();
            assert_eq!(bytes == [7; 1024], direction == Direction::Decrypt);
        }
        let told = told.lock().unwrap();
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(
            told[0].starts_with("the engine cuda failed: unplugged; "),
            "{told:?}"
        );
    }

    #[test]
    fn the_cpus_engines_are_as_they_are() {
        let portable = Registry::cpu().get("portable").unwrap();
        let backend = carrying_on(Arc::clone(&portable), Mode::Xts, |_| {}).unwrap();
        assert!(Arc::ptr_eq(&backend, &portable));
    }
}
