// SPDX-License-Identifier: MIT OR Apache-2.0
//! A backend that uses the CPU for short calls and a device for long ones.

use alloc::{boxed::Box, format, string::String, sync::Arc};
use core::fmt;
use std::sync::OnceLock;

use crate::{
    backend::{Backend, BackendError, BackendInfo, CryptError, Direction, LoadedKey},
    buffer::Buffer,
    key::KeySpec,
    message::Messages,
    run::Run,
};

/// A CPU backend that passes long calls to a device. `from`, the length in bytes from which a call
/// is long, counts all runs of the call together.
///
/// It has the name and the modes of the CPU backend. The first call or buffer that is long enough
/// opens the device; short ones never do. If the device cannot be opened or refuses the key, the
/// CPU does everything.
///
/// An error of the device is returned to the caller. To continue on the CPU instead, pass a device
/// that is wrapped in a [`Fallback`](crate::Fallback).
pub struct Choice {
    cpu: Arc<dyn Backend>,
    device: Arc<Device>,
}

struct Device {
    /// The length in bytes from which a call goes to the device.
    from: usize,
    /// The device's description, in words.
    name: String,
    open: Box<dyn Fn() -> Option<Arc<dyn Backend>> + Send + Sync>,
    opened: OnceLock<Option<Arc<dyn Backend>>>,
}

impl Device {
    fn get(&self) -> Option<&Arc<dyn Backend>> {
        self.opened.get_or_init(|| (self.open)()).as_ref()
    }
}

impl Choice {
    /// Makes a backend that uses `cpu` for calls of fewer than `from` bytes, and for longer ones
    /// the device that `open` opens and `name` describes. `open` is called at most once, on the
    /// first thread that needs the device, while other threads wait. If it returns `None`, `cpu`
    /// does all calls.
    #[must_use]
    pub fn new(
        cpu: Arc<dyn Backend>,
        from: usize,
        name: impl Into<String>,
        open: impl Fn() -> Option<Arc<dyn Backend>> + Send + Sync + 'static,
    ) -> Self {
        let device = Device {
            from,
            name: name.into(),
            open: Box::new(open),
            opened: OnceLock::new(),
        };
        Self {
            cpu,
            device: Arc::new(device),
        }
    }
}

impl fmt::Debug for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (cpu, device) = (self.cpu.info().name, &self.device);
        write!(f, "Choice({cpu}, {} from {})", device.name, device.from)
    }
}

impl Backend for Choice {
    fn info(&self) -> BackendInfo {
        let mut info = self.cpu.info();
        let Device { from, name, .. } = &*self.device;
        let kib = from >> 10;
        info.device = format!("{}; and {name} for calls from {kib} KiB", info.device);
        info
    }

    fn load_key(&self, key: &KeySpec) -> Result<Box<dyn LoadedKey>, BackendError> {
        Ok(Box::new(ChoiceKey {
            cpu: self.cpu.load_key(key)?,
            device: Arc::clone(&self.device),
            spec: key.clone(),
            loaded: OnceLock::new(),
        }))
    }

    fn alloc(&self, len: usize) -> Buffer {
        let device = if len >= self.device.from {
            self.device.get()
        } else {
            None
        };
        device.unwrap_or(&self.cpu).alloc(len)
    }

    fn tally(&self) -> Option<String> {
        self.device.opened.get()?.as_ref()?.tally()
    }
}

struct ChoiceKey {
    cpu: Box<dyn LoadedKey>,
    device: Arc<Device>,
    spec: KeySpec,
    /// The key on the device; `None` if there is no device or the device refused the key.
    loaded: OnceLock<Option<Box<dyn LoadedKey>>>,
}

impl LoadedKey for ChoiceKey {
    fn crypt(&self, direction: Direction, runs: &mut [Run<'_>]) -> Result<(), CryptError> {
        let len: usize = runs.iter().map(Run::len).sum();
        // A device takes no parts of units.
        if len < self.device.from || runs.iter().any(Run::is_part) {
            return self.cpu.crypt(direction, runs);
        }
        let load = || self.device.get()?.load_key(&self.spec).ok();
        match self.loaded.get_or_init(load) {
            Some(key) => key.crypt(direction, runs),
            None => self.cpu.crypt(direction, runs),
        }
    }

    fn whole_from(&self) -> usize {
        match self.loaded.get() {
            None => self.device.from,
            Some(Some(key)) => key.whole_from().max(self.device.from),
            Some(None) => self.cpu.whole_from(),
        }
    }

    fn takes_parts_of_units(&self) -> bool {
        self.cpu.takes_parts_of_units()
    }

    fn messages(&self) -> Option<&dyn Messages> {
        self.cpu.messages()
    }
}

#[cfg(test)]
mod tests {
    use alloc::{string::ToString, vec, vec::Vec};
    use core::{
        num::NonZeroUsize,
        sync::atomic::{AtomicUsize, Ordering},
    };
    use std::sync::Mutex;

    use super::*;
    use crate::{
        Executor, Fallback, Registry,
        backend::CryptErrorKind,
        key::{AesKey, Mode, XtsKey},
        run::DataUnitLen,
    };

    const FROM: usize = 2048;

    /// A device that records the lengths of its calls, and finishes the first `able` units of each.
    #[derive(Clone)]
    struct Double {
        calls: Arc<Mutex<Vec<usize>>>,
        able: usize,
        takes_keys: bool,
    }

    impl Double {
        fn new(able: usize) -> Self {
            Self {
                calls: Arc::default(),
                able,
                takes_keys: true,
            }
        }

        fn calls(&self) -> Vec<usize> {
            self.calls.lock().unwrap().clone()
        }
    }

    impl Backend for Double {
        fn info(&self) -> BackendInfo {
            BackendInfo::new("double", "a double", &[Mode::Xts])
        }

        fn load_key(&self, key: &KeySpec) -> Result<Box<dyn LoadedKey>, BackendError> {
            if !self.takes_keys {
                return Err(BackendError::EqualHalves { backend: "double" });
            }
            let key = cpu().load_key(key)?;
            Ok(Box::new(DoubleKey(self.clone(), key)))
        }

        fn alloc(&self, len: usize) -> Buffer {
            let mut marked = Buffer::zeroed(len);
            marked.fill(0xdd);
            marked
        }

        fn tally(&self) -> Option<String> {
            Some(self.calls().len().to_string())
        }
    }

    struct DoubleKey(Double, Box<dyn LoadedKey>);

    impl LoadedKey for DoubleKey {
        fn crypt(&self, direction: Direction, runs: &mut [Run<'_>]) -> Result<(), CryptError> {
            let len = runs.iter().map(Run::len).sum();
            self.0.calls.lock().unwrap().push(len);
            let mut left = self.0.able;
            for run in runs {
                let able = left.min(run.units());
                left -= able;
                let (mut head, tail) = run.reborrow().split_at(able);
                self.1.crypt(direction, core::slice::from_mut(&mut head))?;
                if tail.units() > 0 {
                    let (backend, message) = ("double", "unplugged".into());
                    let kind = CryptErrorKind::Device { backend, message };
                    return Err(CryptError::new(self.0.able, kind));
                }
            }
            Ok(())
        }

        fn whole_from(&self) -> usize {
            0
        }
    }

    fn cpu() -> Arc<dyn Backend> {
        Registry::cpu().get("portable").unwrap()
    }

    fn spec() -> KeySpec {
        let bytes: Vec<u8> = (0..64).collect();
        KeySpec::Xts(XtsKey::new(&bytes).unwrap())
    }

    /// Encrypts `len` zero bytes under `key`, in units of 512 bytes and in two runs.
    fn encrypt(key: &dyn LoadedKey, len: usize) -> (Vec<u8>, Result<(), CryptError>) {
        let mut bytes = vec![0; len];
        let (head, tail) = bytes.split_at_mut(512);
        let unit = DataUnitLen::new(512).unwrap();
        let mut runs = [
            Run::new(7_u64.into(), 1, unit, head).unwrap(),
            Run::new(8_u64.into(), 1, unit, tail).unwrap(),
        ];
        let result = key.crypt(Direction::Encrypt, &mut runs);
        (bytes, result)
    }

    fn expected(len: usize) -> Vec<u8> {
        encrypt(&*cpu().load_key(&spec()).unwrap(), len).0
    }

    /// A choice with `double`, and a counter of how often it was opened.
    fn choice(double: Option<Double>) -> (Choice, Arc<AtomicUsize>) {
        let opened = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&opened);
        let open = move || {
            count.fetch_add(1, Ordering::Relaxed);
            Some(Arc::new(double.clone()?) as Arc<dyn Backend>)
        };
        (Choice::new(cpu(), FROM, "a double", open), opened)
    }

    #[test]
    fn long_calls_go_to_the_device_and_only_they_open_it() {
        let double = Double::new(usize::MAX);
        let (choice, opened) = choice(Some(double.clone()));
        assert_eq!(choice.info().name, "portable");
        assert!(choice.info().modes.contains(&Mode::Ecb));
        let text = choice.info().device;
        assert!(
            text.ends_with("; and a double for calls from 2 KiB"),
            "{text}"
        );
        let keys = [(); 2].map(|()| choice.load_key(&spec()).unwrap());
        for len in [512, FROM - 512] {
            assert_eq!(encrypt(&*keys[0], len).0, expected(len));
        }
        assert!(choice.alloc(FROM - 1).iter().all(|&b| b == 0));
        assert_eq!(keys[0].whole_from(), FROM);
        assert_eq!(choice.tally(), None);
        assert_eq!(opened.load(Ordering::Relaxed), 0);
        for key in &keys {
            for len in [FROM, FROM - 512, FROM + 512] {
                assert_eq!(encrypt(&**key, len).0, expected(len));
            }
            assert_eq!(key.whole_from(), FROM);
        }
        assert!(choice.alloc(FROM).iter().all(|&b| b == 0xdd));
        assert_eq!(opened.load(Ordering::Relaxed), 1);
        assert_eq!(double.calls(), [FROM, FROM + 512].repeat(2));
        assert_eq!(choice.tally().as_deref(), Some("4"));
    }

    #[test]
    fn without_the_device_the_cpu_does_it_all() {
        let stubborn = Double {
            takes_keys: false,
            ..Double::new(usize::MAX)
        };
        for (double, tally) in [(None, None), (Some(stubborn), Some("0"))] {
            let (choice, opened) = choice(double);
            let key = choice.load_key(&spec()).unwrap();
            for _ in 0..2 {
                let (bytes, result) = encrypt(&*key, FROM);
                result.unwrap();
                assert_eq!(bytes, expected(FROM));
            }
            assert_eq!(opened.load(Ordering::Relaxed), 1);
            assert_eq!(key.whole_from(), usize::MAX);
            assert_eq!(choice.tally().as_deref(), tally);
        }
    }

    #[test]
    fn a_failing_device_is_reported_once_and_not_used_again() {
        let double = Double::new(2);
        let told = Arc::new(AtomicUsize::new(0));
        let (device, count) = (double.clone(), Arc::clone(&told));
        let choice = Choice::new(cpu(), FROM, "a double", move || {
            let count = Arc::clone(&count);
            let tell = move |_: &str| {
                count.fetch_add(1, Ordering::Relaxed);
            };
            Some(Arc::new(Fallback::new(
                Arc::new(device.clone()),
                cpu(),
                tell,
            )))
        });
        let key = choice.load_key(&spec()).unwrap();
        for _ in 0..2 {
            let (bytes, result) = encrypt(&*key, FROM);
            result.unwrap();
            assert_eq!(bytes, expected(FROM));
        }
        assert_eq!(told.load(Ordering::Relaxed), 1);
        assert_eq!(double.calls(), [FROM]);
        assert_eq!(key.whole_from(), usize::MAX);
    }

    #[test]
    fn the_units_done_by_the_device_are_passed_on() {
        let (choice, _) = choice(Some(Double::new(2)));
        let key = choice.load_key(&spec()).unwrap();
        let (bytes, result) = encrypt(&*key, FROM);
        assert_eq!(result.unwrap_err().done, 2);
        assert_eq!(bytes[..1024], expected(FROM)[..1024]);
        assert!(bytes[1024..].iter().all(|&b| b == 0));
    }

    /// A device that fails from the data unit with number 2 on. Executors divide its calls.
    struct Halting;

    impl Backend for Halting {
        fn info(&self) -> BackendInfo {
            BackendInfo::new("halting", "a halting device", &[Mode::Xts])
        }

        fn load_key(&self, key: &KeySpec) -> Result<Box<dyn LoadedKey>, BackendError> {
            Ok(Box::new(HaltingKey(cpu().load_key(key)?)))
        }

        fn alloc(&self, len: usize) -> Buffer {
            Buffer::zeroed(len)
        }
    }

    struct HaltingKey(Box<dyn LoadedKey>);

    impl LoadedKey for HaltingKey {
        fn crypt(&self, direction: Direction, runs: &mut [Run<'_>]) -> Result<(), CryptError> {
            let mut done = 0;
            for run in runs {
                if run.first().get() >= 2 {
                    let (backend, message) = ("halting", "halted".into());
                    return Err(CryptError::new(
                        done,
                        CryptErrorKind::Device { backend, message },
                    ));
                }
                done += run.units();
                self.0.crypt(direction, core::slice::from_mut(run))?;
            }
            Ok(())
        }
    }

    #[test]
    fn parts_of_units_stay_on_the_cpu() {
        const MIB: usize = 1 << 20;
        let choice = Choice::new(cpu(), FROM, "halting", || Some(Arc::new(Halting)));
        let executor = Executor::new(NonZeroUsize::new(2).unwrap());
        let encrypt = |key: &dyn LoadedKey, short: usize| {
            let mut bytes = vec![0; 4 * MIB];
            let (long, rest) = bytes.split_at_mut(2 * MIB);
            let unit = |len| DataUnitLen::new(len).unwrap();
            let mut runs = [
                Run::new(0_u64.into(), 1, unit(MIB), long).unwrap(),
                Run::new(2_u64.into(), 1, unit(short), rest).unwrap(),
            ];
            let result = executor.crypt(key, Direction::Encrypt, &mut runs);
            (bytes, result)
        };
        let key = choice.load_key(&spec()).unwrap();
        // Before the device is open, executors do not divide long calls.
        assert_eq!(encrypt(&*key, MIB).1.unwrap_err().done, 2);
        assert_eq!(key.whole_from(), usize::MAX);
        // Now they do. The device gets no part, not even the first of a unit.
        let alone = cpu().load_key(&spec()).unwrap();
        let (bytes, result) = encrypt(&*key, MIB);
        result.unwrap();
        assert!(bytes == encrypt(&*alone, MIB).0);
        // The device gets the short units and fails. Each long one counts once.
        let (bytes, result) = encrypt(&*key, 512);
        assert_eq!(result.unwrap_err().done, 2);
        assert!(bytes[..2 * MIB] == encrypt(&*alone, 512).0[..2 * MIB]);
        assert!(bytes[2 * MIB..].iter().all(|&byte| byte == 0));
    }

    #[test]
    fn modes_missing_on_the_device_run_on_the_cpu() {
        let (choice, _) = choice(None);
        let spec = KeySpec::Ecb(AesKey::new(&[7; 16]).unwrap());
        let (bytes, result) = encrypt(&*choice.load_key(&spec).unwrap(), FROM);
        result.unwrap();
        assert_eq!(bytes, encrypt(&*cpu().load_key(&spec).unwrap(), FROM).0);
    }
}
