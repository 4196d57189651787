// SPDX-License-Identifier: MIT OR Apache-2.0
//! `Fallback` continues on the CPU when a device fails.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use luxor_engine::{
    AesKey, Backend, BackendError, BackendInfo, Buffer, CryptError, CryptErrorKind, DataUnitLen,
    Direction, Executor, Fallback, InOut, KeySpec, LoadedKey, Mode, Registry, Run, XtsKey,
    check_runs,
};

fn portable() -> Arc<dyn Backend> {
    Registry::cpu().get("portable").unwrap()
}

/// The portable kernel as a device, which fails after `units` units.
struct Device {
    units: Arc<AtomicUsize>,
    error: fn() -> CryptErrorKind,
    refuses: Option<fn() -> BackendError>,
    calls: Arc<AtomicUsize>,
}

struct DeviceKey {
    key: Box<dyn LoadedKey>,
    units: Arc<AtomicUsize>,
    error: fn() -> CryptErrorKind,
    calls: Arc<AtomicUsize>,
}

fn unplugged() -> CryptErrorKind {
    CryptErrorKind::Device {
        backend: "double",
        message: "unplugged".into(),
    }
}

impl Backend for Device {
    fn info(&self) -> BackendInfo {
        BackendInfo::new("double", "double", &[Mode::Xts])
    }

    fn load_key(&self, key: &KeySpec) -> Result<Box<dyn LoadedKey>, BackendError> {
        if let Some(refuses) = self.refuses {
            return Err(refuses());
        }
        Ok(Box::new(DeviceKey {
            key: portable().load_key(key)?,
            units: Arc::clone(&self.units),
            error: self.error,
            calls: Arc::clone(&self.calls),
        }))
    }

    fn alloc(&self, len: usize) -> Buffer {
        Buffer::zeroed(len)
    }

    fn tally(&self) -> Option<String> {
        Some("double".into())
    }
}

impl LoadedKey for DeviceKey {
    fn crypt(&self, direction: Direction, runs: &mut [Run<'_>]) -> Result<(), CryptError> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        check_runs(Mode::Xts, runs)?;
        let mut done = 0;
        for run in runs {
            let mut rest = run.reborrow();
            while !rest.is_empty() {
                let taken = self
                    .units
                    .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1));
                if taken.is_err() {
                    return Err(CryptError::new(done, (self.error)()));
                }
                let (one, others) = rest.split_at(1);
                self.key.crypt(direction, &mut [one])?;
                done += 1;
                rest = others;
            }
        }
        Ok(())
    }
}

struct Stage {
    fallback: Fallback,
    told: Arc<Mutex<Vec<String>>>,
    calls: Arc<AtomicUsize>,
}

fn stage(
    units: usize,
    error: fn() -> CryptErrorKind,
    refuses: Option<fn() -> BackendError>,
) -> Stage {
    let calls = Arc::new(AtomicUsize::new(0));
    let device = Device {
        units: Arc::new(AtomicUsize::new(units)),
        error,
        refuses,
        calls: Arc::clone(&calls),
    };
    let told = Arc::new(Mutex::new(Vec::new()));
    let hears = Arc::clone(&told);
    let tell = move |text: &str| hears.lock().unwrap().push(text.to_string());
    Stage {
        fallback: Fallback::new(Arc::new(device), portable(), tell),
        told,
        calls,
    }
}

fn xts() -> KeySpec {
    let bytes: Vec<u8> = (0..32).collect();
    KeySpec::Xts(XtsKey::new(&bytes).unwrap())
}

/// Processes three runs of 7, 0 and 9 units, the last one with a separate output.
fn crypt(key: &dyn LoadedKey, direction: Direction) -> (Result<(), CryptError>, Vec<u8>) {
    let unit = DataUnitLen::new(48).unwrap();
    let (mut a, mut b, c) = (vec![1; 7 * 48], vec![2; 9 * 48], vec![3; 9 * 48]);
    let mut runs = [
        Run::new(5_u64.into(), 2, unit, &mut a[..]).unwrap(),
        Run::new(5_u64.into(), 2, unit, &mut [][..]).unwrap(),
        Run::new(
            500_u64.into(),
            1,
            unit,
            InOut::Separate {
                input: &c,
                output: &mut b,
            },
        )
        .unwrap(),
    ];
    let result = key.crypt(direction, &mut runs);
    a.extend(b);
    (result, a)
}

#[test]
fn the_cpu_does_what_the_device_left_undone() {
    let cpu = portable().load_key(&xts()).unwrap();
    for direction in Direction::ALL {
        let (_, expected) = crypt(&*cpu, direction);
        for units in 0..=40 {
            let stage = stage(units, unplugged, None);
            let key = stage.fallback.load_key(&xts()).unwrap();
            for _ in 0..2 {
                let (result, found) = crypt(&*key, direction);
                result.unwrap();
                assert!(found == expected, "{units}");
            }
            assert_eq!(stage.fallback.has_failed(), units < 32);
            // The failure was reported once, and the device is not used again.
            let told = stage.told.lock().unwrap().clone();
            if units < 32 {
                let text = "the engine double failed: unplugged; portable does the rest";
                assert_eq!(told, [text]);
                let calls = stage.calls.load(Ordering::Relaxed);
                assert_eq!(calls, 1 + usize::from(units >= 16));
            } else {
                assert!(told.is_empty());
            }
        }
    }
}

#[test]
fn many_threads_cause_one_warning() {
    let stage = stage(1000, unplugged, None);
    let key = stage.fallback.load_key(&xts()).unwrap();
    let unit = DataUnitLen::new(512).unwrap();
    let executor = Executor::new(4.try_into().unwrap());
    let mut bytes = vec![7; 4 << 20];
    let run = Run::new(0_u64.into(), 1, unit, &mut bytes[..]).unwrap();
    executor
        .crypt(&*key, Direction::Encrypt, &mut [run])
        .unwrap();
    let cpu = portable().load_key(&xts()).unwrap();
    let run = Run::new(0_u64.into(), 1, unit, &mut bytes[..]).unwrap();
    cpu.crypt(Direction::Decrypt, &mut [run]).unwrap();
    assert!(bytes.iter().all(|&b| b == 7));
    assert_eq!(stage.told.lock().unwrap().len(), 1);
}

#[test]
fn a_key_that_the_device_cannot_load_goes_to_the_cpu() {
    let failed = || BackendError::Device {
        backend: "double",
        message: "no memory".into(),
    };
    let stage = stage(100, unplugged, Some(failed));
    let cpu = portable().load_key(&xts()).unwrap();
    for _ in 0..3 {
        let key = stage.fallback.load_key(&xts()).unwrap();
        let (result, found) = crypt(&*key, Direction::Encrypt);
        result.unwrap();
        assert!(found == crypt(&*cpu, Direction::Encrypt).1);
    }
    assert_eq!(stage.told.lock().unwrap().len(), 1);
}

#[test]
fn refusals_are_not_retried_on_the_cpu() {
    let refused = stage(
        100,
        unplugged,
        Some(|| BackendError::EqualHalves { backend: "double" }),
    );
    let error = refused.fallback.load_key(&xts()).err().unwrap();
    assert!(matches!(error, BackendError::EqualHalves { .. }));

    let torn = || CryptErrorKind::Torn {
        cause: "unplugged".into(),
    };
    let torn = stage(3, torn, None);
    let key = torn.fallback.load_key(&xts()).unwrap();
    let error = crypt(&*key, Direction::Encrypt).0.unwrap_err();
    assert!(matches!(error.kind, CryptErrorKind::Torn { .. }));
    assert_eq!(error.done, 3);

    let short = stage(100, unplugged, None);
    let key = short.fallback.load_key(&xts()).unwrap();
    let mut bytes = [0; 15];
    let unit = DataUnitLen::new(15).unwrap();
    let run = Run::new(0_u64.into(), 1, unit, &mut bytes[..]).unwrap();
    let error = key.crypt(Direction::Encrypt, &mut [run]).unwrap_err();
    assert!(matches!(error.kind, CryptErrorKind::UnitLen { .. }));
    for stage in [refused, torn, short] {
        assert!(stage.told.lock().unwrap().is_empty());
        assert!(!stage.fallback.has_failed());
    }
}

#[test]
fn the_fallback_bears_the_devices_name() {
    let stage = stage(1, unplugged, None);
    assert_eq!(stage.fallback.info().name, "double");
    assert_eq!(stage.fallback.info().modes, [Mode::Xts]);
    assert_eq!(stage.fallback.tally().as_deref(), Some("double"));
    assert_eq!(
        format!("{:?}", stage.fallback),
        "Fallback(double, portable)"
    );
    assert_eq!(stage.fallback.alloc(3).len(), 3);
    let ecb = KeySpec::Ecb(AesKey::new(&[1; 16]).unwrap());
    assert!(stage.fallback.load_key(&ecb).is_ok());
}
