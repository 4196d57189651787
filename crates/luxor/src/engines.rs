// SPDX-License-Identifier: MIT OR Apache-2.0
//! The AES engines of this program, and the choice between them.

mod calibrate;
pub mod calibration;
mod report;

use std::{num::NonZeroUsize, sync::Arc};

use luxor_engine::{
    Backend, BackendError, BackendInfo, Choice, Fallback, KeySpec, LoadedKey, Mode, Registry,
    SelectError, Unavailable,
};
use luxor_secret::with_key_stack;
use luxor_volume::{DataKey, Encryption, ExtentCipher, Plaintext, VolumeKey};

use self::calibration::Cpu;
pub use self::{
    calibrate::calibrate,
    calibration::{Calibration, CalibrationError},
    report::{EngineReport, SelfTest},
};
use crate::{Context, Events, OpenError, Result};

/// Returns every backend of this program, best first: those of the CPU, then `cuda`, `opencl` and
/// `fpga`. A backend that was not compiled in is listed too, as unavailable. No other code names
/// them.
///
/// A backend after those of the CPU is probed only when a caller names it or lists all of them:
/// opening its library and waking the device takes longer than many commands.
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
    Err(without_library("cuda"))
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
    Err(without_library("opencl"))
}

/// Returns the reason why a backend was not compiled in that loads a library.
#[cfg(not(all(feature = "cuda", feature = "opencl")))]
fn without_library(feature: &'static str) -> Unavailable {
    if cfg!(target_feature = "crt-static") {
        Unavailable::Device("not in the static program, which cannot load libraries".to_owned())
    } else {
        Unavailable::Feature { feature }
    }
}

/// Returns the core on a board, which all callers share, or its simulation if there is no board.
#[cfg(feature = "fpga")]
fn fpga() -> Result<Arc<dyn Backend>, Unavailable> {
    use luxor_engine_fpga::{model, uio};

    let backend = match uio::backend() {
        Some(board) => board.map(|backend| Arc::new(backend) as Arc<dyn Backend>),
        None => model::backend().map(|backend| Arc::new(backend) as Arc<dyn Backend>),
    };
    backend.map_err(|error| Unavailable::Device(error.to_string()))
}

#[cfg(not(feature = "fpga"))]
fn fpga() -> Result<Arc<dyn Backend>, Unavailable> {
    Err(Unavailable::Feature { feature: "fpga" })
}

/// Refuses an unavailable engine before any work begins.
///
/// # Errors
/// Fails with [`SelectError`] if the engine that `context` names is unknown or not available.
pub fn check(context: &Context) -> Result<()> {
    if context.engine != Context::AUTO {
        registry().get(&context.engine)?;
    }
    Ok(())
}

/// Whether [`Engine::select`] may choose an engine that uses a device.
#[must_use]
pub fn may_use_device(context: &Context) -> bool {
    if context.engine != Context::AUTO {
        return Registry::cpu().names().all(|cpu| cpu != context.engine);
    }
    let cpu = Registry::cpu().best(Mode::Xts).ok();
    let calibration = cpu.and_then(|cpu| calibrated(&*cpu, context.thread_count()).ok());
    calibration.is_some_and(|found| found.winner().is_some())
}

/// The AES engine that a [`Context`] asks for. When it is dropped, it notes in
/// [`Context::events`] what the backend has counted.
pub struct Engine {
    /// Loads the keys.
    pub backend: Arc<dyn Backend>,
    /// The number of threads that do AES.
    pub threads: NonZeroUsize,
    uses_device: bool,
    /// The name of the engine that the caller has named.
    pub(crate) named: Option<String>,
    /// The devices that the calibration has given up: engine, device and the reason.
    pub(crate) given_up: Vec<[String; 3]>,
    events: Arc<dyn Events>,
}

/// Returns the stored calibration of this machine (from [`calibration::path`]), if it was made with
/// `cpu` as the CPU's engine and with `threads` threads.
///
/// # Errors
/// Those of [`Calibration::read`], and [`CalibrationError::NoFolder`].
pub fn calibrated(
    cpu: &dyn Backend,
    threads: NonZeroUsize,
) -> Result<Calibration, CalibrationError> {
    let path = calibration::path()?;
    let name = cpu.info().name;
    Calibration::read(&path, || Cpu::of_this_machine(name, threads.get()))
}

impl Engine {
    /// Selects the engine for `mode`.
    ///
    /// # Errors
    /// Fails when the engine that `context` names is not available or does not support `mode`.
    pub fn select(context: &Context, mode: Mode) -> Result<Self> {
        let registry = registry();
        let [for_warnings, for_notes] = [(); 2].map(|()| Arc::clone(&context.events));
        let warn = move |text: &str| for_warnings.warning(text);
        let note = move |text: &str| for_notes.note(text);
        let threads = context.thread_count();
        let is_auto = context.engine == Context::AUTO;
        let found = if is_auto {
            registry.best(mode)?
        } else {
            registry.get(&context.engine)?
        };
        let mut backend = carrying_on(Arc::clone(&found), mode, warn.clone())?;
        let mut given_up = Vec::new();
        if is_auto && mode == Mode::Xts {
            match calibrated(&*backend, threads) {
                Ok(calibration) => {
                    given_up = calibration.given_up();
                    let open = |name: &str| self::registry().get(name);
                    backend = with_device(backend, &calibration, open, note, warn);
                }
                Err(why) => context.events.note(&why.to_string()),
            }
        }
        let uses_device = is_device(&*found) || !Arc::ptr_eq(&found, &backend);
        let info = backend.info();
        if !info.modes.contains(&mode) {
            return Err(BackendError::Unsupported {
                backend: info.name,
                mode,
            }
            .into());
        }
        context.events.note(&format!(
            "engine {} ({}), {threads} threads",
            info.name, info.device
        ));
        Ok(Self {
            backend,
            threads,
            uses_device,
            named: (!is_auto).then(|| context.engine.clone()),
            given_up,
            events: Arc::clone(&context.events),
        })
    }

    /// Returns the backend if it may use a device, otherwise `None`. Pass it to
    /// [`Job::backend`](luxor_sector::pipeline::Job::backend), so that a copy allocates its buffers
    /// where the device can reach them.
    #[must_use]
    pub fn device(&self) -> Option<&dyn Backend> {
        self.uses_device.then_some(&*self.backend)
    }

    /// Whether the CPU encrypts and decrypts data that are or will be in the memory of this device: the
    /// caller has named another engine, or the calibration has given the device up, because it is a CPU itself
    /// or much slower than this one. A calibration that only prefers the CPU for data in the computer's memory
    /// does not count: these data cross the bus in any case, and once.
    pub(crate) fn spares(&self, device: &BackendInfo) -> bool {
        if let Some(named) = &self.named {
            return named != device.name;
        }
        let mut given_up = self.given_up.iter();
        let found =
            given_up.find(|[engine, name, _]| *engine == device.name && *name == device.device);
        if let Some([engine, _, reason]) = found {
            let text = format!("engine {engine} is not used: {reason}; the CPU does AES");
            self.events.note(&text);
        }
        found.is_some()
    }

    /// Loads `key` into the engine.
    ///
    /// # Errors
    /// Fails with [`BackendError`] if the backend refuses the key or its device fails.
    pub fn load(&self, key: &KeySpec) -> Result<Box<dyn LoadedKey>> {
        Ok(with_key_stack(|| self.backend.load_key(key))?)
    }

    /// Loads a volume key for data with this encryption.
    ///
    /// # Errors
    /// Fails when `key` does not have one of [`Encryption::key_lens`], and with [`BackendError`] if
    /// the backend refuses the key or its device fails.
    pub(crate) fn load_volume_key(
        &self,
        key: &VolumeKey,
        encryption: Encryption,
    ) -> Result<Box<dyn LoadedKey>> {
        let key = key.key_spec(encryption)?;
        self.load(&key)
    }

    /// Loads the key for one extent of a plaintext.
    pub(crate) fn load_part_key(
        &self,
        plaintext: &Plaintext,
        cipher: ExtentCipher,
    ) -> Result<Arc<dyn LoadedKey>> {
        // Unlocking yields the key of every extent.
        match plaintext.keys.get(&cipher.key) {
            Some(DataKey::Loaded(key)) => Ok(Arc::clone(key)),
            Some(DataKey::Engine(key)) => self.load_key_of(key, cipher),
            None => Err(OpenError::NoKey.into()),
        }
    }

    /// Loads `key` for an extent with this encryption, which is one of the engine's.
    pub(crate) fn load_key_of(
        &self,
        key: &VolumeKey,
        cipher: ExtentCipher,
    ) -> Result<Arc<dyn LoadedKey>> {
        let encryption = cipher.encryption.ok_or(OpenError::NoEngine)?;
        Ok(Arc::from(self.load_volume_key(key, encryption)?))
    }
}

/// Returns `backend`. If it belongs to a device, the best CPU backend takes over when the device
/// fails, and `warn` is called once.
fn carrying_on(
    backend: Arc<dyn Backend>,
    mode: Mode,
    warn: impl Fn(&str) + Send + Sync + 'static,
) -> Result<Arc<dyn Backend>, SelectError> {
    if !is_device(&*backend) {
        return Ok(backend);
    }
    let cpu = Registry::cpu().best(mode)?;
    Ok(Arc::new(Fallback::new(backend, cpu, warn)))
}

/// Whether `backend` uses a device: it is not one of the CPU's engines.
#[must_use]
pub fn is_device(backend: &dyn Backend) -> bool {
    let name = backend.info().name;
    Registry::cpu().names().all(|cpu| cpu != name)
}

/// Returns `cpu`, with long XTS calls going to the device that was faster in `calibration`, if
/// there is one.
///
/// `open` opens the device at the first long call. If it is not found, or another device is found,
/// `note` is called and `cpu` does all calls. If the device fails, `warn` is called and `cpu`
/// continues.
fn with_device(
    cpu: Arc<dyn Backend>,
    calibration: &Calibration,
    open: impl Fn(&str) -> Result<Arc<dyn Backend>, SelectError> + Send + Sync + 'static,
    note: impl Fn(&str) + Send + Sync + 'static,
    warn: impl Fn(&str) + Clone + Send + Sync + 'static,
) -> Arc<dyn Backend> {
    let Some((device, from)) = calibration.winner() else {
        return cpu;
    };
    let (name, calibrated) = (device.engine.clone(), device.device.clone());
    let shown = format!("{name} ({calibrated})");
    let open = move || {
        let stays = |why: String| note(&format!("{why}; all calls stay on the CPU"));
        let device = match open(&name) {
            Ok(device) => device,
            Err(error) => {
                stays(error.to_string());
                return None;
            }
        };
        let found = device.info().device;
        if found != calibrated {
            stays(format!(
                "the engine {name} was calibrated on {calibrated}, but now runs on {found}"
            ));
            return None;
        }
        note(&format!(
            "engine {name} is used from the first long call on"
        ));
        carrying_on(device, Mode::Xts, warn.clone()).ok()
    };
    Arc::new(Choice::new(cpu, from, shown, open))
}

impl Drop for Engine {
    /// Notes what the backend tallied, when the work is done.
    fn drop(&mut self) {
        if let Some(tally) = self.backend.tally() {
            let name = self.backend.info().name;
            self.events.note(&format!("engine {name}: {tally}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use luxor_engine::{
        BackendInfo, Buffer, CryptError, CryptErrorKind, DataUnitLen, Direction, Run, XtsKey,
    };

    use super::*;

    /// Loads keys, but fails every call.
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
    fn a_failing_device_is_reported_once_and_the_cpu_continues() {
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
    fn the_cpus_engines_are_not_wrapped() {
        let portable = Registry::cpu().get("portable").unwrap();
        let backend = carrying_on(Arc::clone(&portable), Mode::Xts, |_| {}).unwrap();
        assert!(Arc::ptr_eq(&backend, &portable));
    }

    fn calibration(device: &str, wins_from: Option<usize>) -> Calibration {
        let device = calibration::Device {
            engine: "cuda".into(),
            device: device.into(),
            wins_from,
            reason: None,
            calls: Vec::new(),
        };
        Calibration::new(Cpu::of_this_machine("portable", 1), vec![device])
    }

    /// Makes a call of 1024 bytes, for the CPU, and two of 4096. Returns the notes and the
    /// warnings.
    fn noted_with(calibration: &Calibration, is_there: bool) -> (Vec<String>, Vec<String>) {
        let (notes, warnings) = (Arc::default(), Arc::default());
        let into = |list: &Arc<Mutex<Vec<String>>>| {
            let list = Arc::clone(list);
            move |text: &str| list.lock().unwrap().push(text.to_owned())
        };
        let open = move |name: &str| {
            assert_eq!(name, "cuda");
            if is_there {
                Ok(Arc::new(Unplugged) as Arc<dyn Backend>)
            } else {
                Registry::cpu().get("cuda")
            }
        };
        let cpu = Registry::cpu().get("portable").unwrap();
        let (note, warn) = (into(&notes), into(&warnings));
        let backend = with_device(cpu, calibration, open, note, warn);
        let spec = KeySpec::Xts(XtsKey::new(&Vec::from_iter(0..64)).unwrap());
        let key = backend.load_key(&spec).unwrap();
        for (len, notes_after) in [(1024, 0), (4096, 1), (4096, 1)] {
            let mut bytes = vec![7; len];
            for direction in Direction::ALL {
                let unit = DataUnitLen::new(512).unwrap();
                let run = Run::new(3_u64.into(), 1, unit, &mut bytes[..]).unwrap();
                key.crypt(direction, &mut [run]).unwrap();
                assert_eq!(bytes == vec![7; len], direction == Direction::Decrypt);
            }
            assert!(notes.lock().unwrap().len() <= notes_after);
        }
        let taken = |list: Arc<Mutex<Vec<String>>>| list.lock().unwrap().clone();
        (taken(notes), taken(warnings))
    }

    const THERE: &str = "a device that is not there any more";

    #[test]
    fn a_device_that_wins_gets_the_long_calls_until_it_fails() {
        let (notes, warnings) = noted_with(&calibration(THERE, Some(4096)), true);
        assert_eq!(notes, ["engine cuda is used from the first long call on"]);
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(
            warnings[0].starts_with("the engine cuda failed: unplugged; "),
            "{warnings:?}"
        );
    }

    #[test]
    fn a_changed_or_missing_device_is_noted_once() {
        let (notes, warnings) = noted_with(&calibration("a better one", Some(4096)), true);
        let other = format!(
            "the engine cuda was calibrated on a better one, but now runs on {THERE}; all calls \
             stay on the CPU"
        );
        assert_eq!(notes, [other]);
        assert_eq!(warnings.len(), 0);
        let (notes, warnings) = noted_with(&calibration(THERE, Some(4096)), false);
        assert_eq!((notes.len(), warnings.len()), (1, 0));
        assert!(
            notes[0].starts_with("there is no engine called \"cuda\""),
            "{notes:?}"
        );
    }

    #[test]
    fn where_no_device_wins_the_cpus_backend_is_not_wrapped() {
        let cpu = Registry::cpu().get("portable").unwrap();
        let open = |_: &str| unreachable!("no device wins, so none is opened");
        let calibration = calibration(THERE, None);
        let backend = with_device(Arc::clone(&cpu), &calibration, open, |_| {}, |_| {});
        assert!(Arc::ptr_eq(&backend, &cpu));
    }
}
