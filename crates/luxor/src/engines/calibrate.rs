// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares devices with the CPU, for data in host memory.

use std::{
    num::NonZeroUsize,
    sync::Arc,
    time::{Duration, Instant},
};

use luxor_engine::{
    Backend, Buffer, DataUnitLen, Direction, Executor, KeySpec, LoadedKey, Mode, Registry, Run,
    XtsKey,
};

use super::{
    calibration::{Calibration, CalibrationError, Call, Cpu, Device, LEAST_CALL},
    registry,
};
use crate::{Context, Result};

const LONGEST_CALL: usize = 16 << 20;

/// How long each length of call is measured.
const TIME: Duration = Duration::from_millis(200);
const ROUNDS: usize = 3;

/// A device is given up if any of its calls except the first takes longer than this.
const PATIENCE: Duration = Duration::from_millis(250);

/// A device is given up if it is more than this many times slower than the CPU.
const HOPELESS: u64 = 16;

const UNIT: usize = 4096;

/// Compares every device of this machine with the CPU's best engine. Takes about three seconds for
/// each device. [`Calibration::write`] stores the result.
///
/// # Errors
/// Fails when a device gives different results from the CPU. A device that is missing or fails is
/// not an error: an event or [`Device::reason`] says why it is not used.
pub fn calibrate(context: &Context) -> Result<Calibration> {
    let registry = registry();
    let cpu = registry.best(Mode::Xts)?;
    let threads = context.thread_count();
    let mut devices = Vec::new();
    for (engine, device) in registry.probe_all() {
        if Registry::cpu().names().any(|name| name == engine) {
            continue;
        }
        match device {
            Ok(device) => devices.push(measure(&device, &cpu, threads, PATIENCE)?),
            Err(why) => context
                .events
                .note(&format!("{engine} was not compared: {why}")),
        }
    }
    let cpu = Cpu::of_this_machine(cpu.info().name, threads.get());
    Ok(Calibration::new(cpu, devices))
}

/// Measures `device` and `cpu` in turns, and gives the device up if a call takes longer than
/// `patience`.
///
/// # Errors
/// Fails when their results differ.
fn measure(
    device: &Arc<dyn Backend>,
    cpu: &Arc<dyn Backend>,
    threads: NonZeroUsize,
    patience: Duration,
) -> Result<Device> {
    let info = device.info();
    let mut calls = Vec::new();
    let unasked = info.min_batch <= LONGEST_CALL;
    let reason = match rates(&**device, &**cpu, threads, patience, &mut calls) {
        Err(Stop::Wrong) => {
            return Err(CalibrationError::Wrong {
                device: info.name,
                cpu: cpu.info().name,
            }
            .into());
        }
        _ if !unasked => Some(
            "it is for tests: it is a CPU, or its table look-ups would reveal keys to other \
                 programs"
                .into(),
        ),
        Ok(()) => None,
        Err(Stop::GivenUp(why)) => Some(why),
    };
    Ok(Device {
        engine: info.name.into(),
        device: info.device,
        wins_from: match reason {
            None => wins_from(&calls).map(|from| from.max(info.min_batch)),
            Some(_) => None,
        },
        reason,
        calls,
    })
}

/// Returns the shortest call from which on all calls are at least 10 % faster on the device.
fn wins_from(calls: &[Call]) -> Option<usize> {
    let wins = |call: &&Call| call.device >= call.cpu.saturating_add(call.cpu / 10);
    let won = calls.iter().rev().take_while(wins);
    won.last().map(|call| call.bytes)
}

/// Why measuring a device stops.
enum Stop {
    GivenUp(String),
    /// Its results differ from the CPU's.
    Wrong,
}

fn rates(
    device: &dyn Backend,
    cpu: &dyn Backend,
    threads: NonZeroUsize,
    patience: Duration,
    calls: &mut Vec<Call>,
) -> Result<(), Stop> {
    // Not a secret; its two halves differ, as XTS requires.
    let key: Vec<u8> = (0..64).collect();
    let key = KeySpec::Xts(XtsKey::new(&key).expect("the key has 64 bytes, and its halves differ"));
    let executor = Executor::new(threads);
    let mut cpu = Side::new(cpu, &key, &executor)?;
    let mut device = Side::new(device, &key, &executor)?;
    // The first calls may compile kernels. They also show whether longer calls take too long.
    let lens = [UNIT, UNIT, 16 * UNIT].into_iter().map(|len| (len, false));
    let mut len = LEAST_CALL;
    let measured = std::iter::from_fn(|| {
        let this = len;
        len *= 2;
        (this <= LONGEST_CALL).then_some((this, true))
    });
    for (index, (len, is_measured)) in lens.chain(measured).enumerate() {
        cpu.call(len)?;
        let taken = device.call(len)?;
        if cpu.buffer[..len] != device.buffer[..len] {
            return Err(Stop::Wrong);
        }
        if taken > patience && index > 0 {
            return Err(Stop::GivenUp(format!(
                "a call of {} KiB takes {} ms",
                len >> 10,
                taken.as_millis()
            )));
        }
        if is_measured {
            let call = in_turns(&mut cpu, &mut device, len)?;
            let hopeless = call.device.saturating_mul(HOPELESS) < call.cpu;
            calls.push(call);
            if hopeless {
                let why = format!("it is more than {HOPELESS} times slower than the CPU");
                return Err(Stop::GivenUp(why));
            }
        }
    }
    Ok(())
}

fn in_turns(cpu: &mut Side<'_>, device: &mut Side<'_>, len: usize) -> Result<Call, Stop> {
    let begun = Instant::now();
    let (mut of_cpu, mut of_device) = (Vec::new(), Vec::new());
    while of_cpu.len() < ROUNDS || begun.elapsed() < TIME {
        of_cpu.push(cpu.call(len)?);
        of_device.push(device.call(len)?);
    }
    // Each call encrypts the output of the one before, so one comparison checks all rounds.
    if cpu.buffer[..len] != device.buffer[..len] {
        return Err(Stop::Wrong);
    }
    Ok(Call {
        bytes: len,
        cpu: rate(len, &mut of_cpu),
        device: rate(len, &mut of_device),
    })
}

/// Returns the median rate in bytes a second.
fn rate(len: usize, times: &mut [Duration]) -> u64 {
    times.sort_unstable();
    let nanoseconds = times[times.len() / 2].as_nanos().max(1);
    let rate = len as u128 * 1_000_000_000 / nanoseconds;
    u64::try_from(rate).unwrap_or(u64::MAX)
}

/// One engine with its key and its buffer.
struct Side<'a> {
    key: Box<dyn LoadedKey>,
    buffer: Buffer,
    executor: &'a Executor,
}

impl<'a> Side<'a> {
    fn new(backend: &dyn Backend, key: &KeySpec, executor: &'a Executor) -> Result<Self, Stop> {
        let key = backend.load_key(key);
        Ok(Self {
            key: key.map_err(|error| Stop::GivenUp(error.to_string()))?,
            buffer: backend.alloc(LONGEST_CALL),
            executor,
        })
    }

    /// Encrypts the first `len` bytes and returns how long that took.
    fn call(&mut self, len: usize) -> Result<Duration, Stop> {
        let unit = DataUnitLen::new(UNIT).expect("4096 is a valid data unit length");
        let run = Run::new(0_u64.into(), 1, unit, &mut self.buffer[..len]);
        let run = run.expect("every length that is measured is a multiple of UNIT");
        let begun = Instant::now();
        let done = self
            .executor
            .crypt(&*self.key, Direction::Encrypt, &mut [run]);
        let taken = begun.elapsed();
        done.map_err(|error| Stop::GivenUp(error.to_string()))?;
        Ok(taken)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use luxor_engine::{BackendError, BackendInfo, CryptError, CryptErrorKind};

    use super::*;

    /// A device that computes on the CPU and has the given faults.
    #[derive(Clone, Default)]
    struct Double {
        refuses_keys: bool,
        min_batch: usize,
        /// The number of calls that succeed before `fault` occurs.
        well: usize,
        fault: Option<Fault>,
        calls: Arc<AtomicUsize>,
    }

    #[derive(Clone, Copy)]
    enum Fault {
        Wrong,
        Fails,
    }

    fn portable() -> Arc<dyn Backend> {
        Registry::cpu().get("portable").unwrap()
    }

    impl Backend for Double {
        fn info(&self) -> BackendInfo {
            let mut info = BackendInfo::new("double", "a double", &[Mode::Xts]);
            info.min_batch = self.min_batch;
            info
        }

        fn load_key(&self, key: &KeySpec) -> Result<Box<dyn LoadedKey>, BackendError> {
            if self.refuses_keys {
                return Err(BackendError::EqualHalves { backend: "double" });
            }
            Ok(Box::new(DoubleKey(self.clone(), portable().load_key(key)?)))
        }

        fn alloc(&self, len: usize) -> Buffer {
            Buffer::zeroed(len)
        }
    }

    struct DoubleKey(Double, Box<dyn LoadedKey>);

    impl LoadedKey for DoubleKey {
        fn crypt(&self, direction: Direction, runs: &mut [Run<'_>]) -> Result<(), CryptError> {
            let double = &self.0;
            let calls = double.calls.fetch_add(1, Ordering::Relaxed);
            match double.fault.filter(|_| calls >= double.well) {
                Some(Fault::Fails) => {
                    let (backend, message) = ("double", "unplugged".into());
                    let kind = CryptErrorKind::Device { backend, message };
                    Err(CryptError::new(0, kind))
                }
                Some(Fault::Wrong) => {
                    self.1.crypt(direction, runs)?;
                    runs[0].output()[5] ^= 1;
                    Ok(())
                }
                None => self.1.crypt(direction, runs),
            }
        }

        fn whole_from(&self) -> usize {
            0
        }
    }

    fn measured(double: &Double, patience: Duration) -> Result<Device> {
        let double: Arc<dyn Backend> = Arc::new(double.clone());
        measure(&double, &portable(), NonZeroUsize::MIN, patience)
    }

    #[test]
    fn a_device_wins_from_the_length_where_it_always_wins() {
        let calls = |rates: &[(u64, u64)]| -> Vec<Call> {
            let sized = rates.iter().enumerate();
            let call = |(i, &(cpu, device))| Call {
                bytes: 1_usize << i,
                cpu,
                device,
            };
            sized.map(call).collect()
        };
        for (rates, expected) in [
            (&[][..], None),
            (&[(100, 110), (100, 200)], Some(1)),
            (&[(100, 109), (100, 110)], Some(2)),
            (&[(100, 900), (100, 109), (100, 110), (100, 300)], Some(4)),
            (&[(100, 900), (100, 900), (100, 109)], None),
        ] {
            assert_eq!(wins_from(&calls(rates)), expected, "{rates:?}");
        }
    }

    #[test]
    fn a_device_that_is_too_slow_is_given_up() {
        let slow = Double::default();
        let device = measured(&slow, Duration::ZERO).unwrap();
        let reason = device.reason.unwrap();
        assert!(reason.starts_with("a call of 4 KiB takes "), "{reason}");
        assert_eq!((device.wins_from, device.calls), (None, Vec::new()));
        // The first call, which may compile kernels, and one more.
        assert_eq!(slow.calls.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn wrong_answers_are_an_error_and_failures_a_reason() {
        for well in [0, 2, 4, 5] {
            let with = |fault| {
                let double = Double {
                    well,
                    fault: Some(fault),
                    ..Double::default()
                };
                measured(&double, Duration::MAX)
            };
            let error = with(Fault::Wrong).unwrap_err();
            let words = "the engine double gives different results from portable";
            assert!(error.message().starts_with(words), "{error:?}");
            let device = with(Fault::Fails).unwrap();
            let reason = device.reason.as_deref().unwrap();
            assert!(reason.contains("unplugged"), "{reason}");
            assert_eq!(device.wins_from, None);
        }
        let refusing = Double {
            refuses_keys: true,
            ..Double::default()
        };
        let device = measured(&refusing, Duration::MAX);
        assert!(
            device
                .unwrap()
                .reason
                .unwrap()
                .contains("does not accept a key")
        );
    }

    #[test]
    fn a_device_used_only_on_request_never_wins() {
        let double = Double {
            min_batch: usize::MAX,
            ..Double::default()
        };
        let device = measured(&double, Duration::ZERO).unwrap();
        assert_eq!(device.wins_from, None);
        let reason = device.reason.unwrap();
        assert!(reason.starts_with("it is for tests"), "{reason}");
    }
}
