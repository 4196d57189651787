// SPDX-License-Identifier: MIT OR Apache-2.0
//! Data in memory that a caller allocated on the device, on the caller's stream.

#![allow(unsafe_code, reason = "memory and streams are given by address")]

use std::sync::{Arc, Mutex};

use luxor_engine::{DataUnitLen, Direction, KeySpec, XtsKey};
use luxor_engine_cuda::{
    Cuda, CudaMemory, Driver,
    driver::{Address, Context},
    keeping_context,
};
use luxor_engine_gpu::{
    CallersStream, DeviceError, DeviceMemory, DeviceRange, GpuBackend, GpuKey, Portion,
    ResidentError, ResidentRun, StreamDevice, Tuning,
};
use luxor_ptx_driver::{Double, GPU, ILLEGAL_ADDRESS, OUT_OF_MEMORY};
use luxor_reference as reference;

const LEN: usize = 1024;
const STREAM: usize = 77;
const ON: CallersStream<'_> = CallersStream {
    stream: STREAM,
    after: &[],
};

const RUN: fn() -> ResidentRun = || ResidentRun {
    first: 5_u64.into(),
    stride: 1,
    unit_len: DataUnitLen::new(512).unwrap(),
    units: LEN / 512,
    input_at: 0,
    output_at: 0,
};

struct Fixture {
    double: Arc<Double>,
    backend: GpuBackend<Cuda>,
    key: GpuKey<Cuda>,
}

fn secret(seed: u8) -> [u8; 64] {
    std::array::from_fn(|i| u8::try_from(i).unwrap() ^ seed)
}

fn load(backend: &GpuBackend<Cuda>, seed: u8) -> GpuKey<Cuda> {
    let key = KeySpec::Xts(XtsKey::new(&secret(seed)).unwrap());
    backend.load(&key).unwrap()
}

fn plaintext() -> Vec<u8> {
    (0..LEN).map(|i| u8::try_from(i % 251).unwrap()).collect()
}

fn ciphertext(seed: u8) -> Vec<u8> {
    let plaintext = plaintext();
    let units = (5..).zip(plaintext.chunks(512));
    units
        .flat_map(|(number, unit)| reference::xts_encrypt(&secret(seed), number, unit))
        .collect()
}

impl Fixture {
    fn new() -> Self {
        let double = Double::new(&[GPU, GPU]);
        let driver: Arc<dyn Driver> = Arc::clone(&double) as _;
        let backend = GpuBackend::new(Cuda::all(&driver).unwrap(), Tuning::default());
        let key = load(&backend, 0);
        Self {
            double,
            backend,
            key,
        }
    }

    /// Allocates memory on a device as a caller would, with `bytes` at byte 16.
    fn filled(&self, device: usize, bytes: &[u8]) -> DeviceRange {
        self.double.make_current(Context(device + 1)).unwrap();
        let address = self.double.alloc(16 + bytes.len()).unwrap();
        let stream = self.double.create_stream().unwrap();
        // SAFETY: the memory was allocated above.
        let written = unsafe {
            let to = address.after(16);
            (self.double).upload(to, bytes.as_ptr(), bytes.len(), stream)
        };
        written.unwrap();
        DeviceRange {
            address: address.after(16).0,
            len: bytes.len(),
        }
    }

    fn bytes(&self, memory: DeviceRange) -> Vec<u8> {
        let mut bytes = vec![0; memory.len];
        let stream = self.double.create_stream().unwrap();
        // SAFETY: the memory has this length, and was allocated by `filled`.
        let read = unsafe {
            let from = Address(memory.address);
            (self.double).download(bytes.as_mut_ptr(), from, memory.len, stream)
        };
        read.unwrap();
        bytes
    }

    /// Returns the message of an error, after which nothing was enqueued.
    fn refused(&self, memories: (DeviceRange, DeviceRange), on: CallersStream<'_>) -> String {
        let launches = self.double.state().launches.len();
        let error = encrypt(&self.key, memories, on).unwrap_err();
        assert_eq!(self.double.state().launches.len(), launches);
        error.to_string()
    }
}

/// Encrypts two units with `key` on the second device.
fn encrypt(
    key: &GpuKey<Cuda>,
    (input, output): (DeviceRange, DeviceRange),
    on: CallersStream<'_>,
) -> Result<(), ResidentError> {
    // SAFETY: the memory was allocated by `filled` and is never freed, and the double accepts any
    // stream.
    unsafe { key.crypt_on_stream(1, Direction::Encrypt, &[RUN()], (input, output), on) }
}

#[test]
fn a_caller_gets_the_result_in_its_own_memory() {
    let fixture = Fixture::new();
    let (from, to) = (
        fixture.filled(1, &plaintext()),
        fixture.filled(1, &[0; LEN]),
    );
    encrypt(&fixture.key, (from, to), ON).unwrap();
    assert!(fixture.bytes(from) == plaintext() && fixture.bytes(to) == ciphertext(0));
    encrypt(&fixture.key, (from, from), ON).unwrap();
    assert!(fixture.bytes(from) == ciphertext(0));
    // SAFETY: as in `encrypt`.
    let decrypted = unsafe {
        let key = &fixture.key;
        key.crypt_on_stream(1, Direction::Decrypt, &[RUN()], (to, to), ON)
    };
    decrypted.unwrap();
    assert!(fixture.bytes(to) == plaintext());
}

#[test]
fn a_call_returns_before_the_work_is_done() {
    let fixture = Fixture::new();
    let memory = fixture.filled(1, &plaintext());
    let before = fixture.double.state().calls.len();
    fixture.double.hold(STREAM);
    for _ in 0..3 {
        encrypt(&fixture.key, (memory, memory), ON).unwrap();
    }
    assert!(fixture.bytes(memory) == plaintext());
    {
        let state = fixture.double.state();
        let waits = ["cuEventSynchronize", "cuStreamSynchronize"];
        assert!(
            !state.calls[before..]
                .iter()
                .any(|call| waits.contains(call))
        );
    }
    fixture.double.run_held(STREAM);
    let decrypt = |data: Vec<u8>| -> Vec<u8> {
        let units = (5..).zip(data.chunks(512));
        units
            .flat_map(|(number, unit)| reference::xts_decrypt(&secret(0), number, unit))
            .collect()
    };
    let mut data = fixture.bytes(memory);
    for _ in 0..3 {
        data = decrypt(data);
    }
    assert!(data == plaintext());
}

/// Copies all of a borrowed memory to the host.
fn copied(fixture: &Fixture, memory: &CudaMemory) -> Vec<u8> {
    let copy = Mutex::new(vec![0; memory.len()]);
    let portion = Portion {
        source: (),
        len: memory.len(),
        crypt: None,
        copies: vec![(0..memory.len(), 0)],
    };
    let write = |(): &(), bytes: &mut [u8]| {
        copy.lock().unwrap().copy_from_slice(bytes);
        Ok::<(), DeviceError>(())
    };
    let portions = std::iter::once(portion);
    fixture
        .backend
        .write_from(1, memory, portions, |(), _| Ok(()), write)
        .unwrap();
    copy.into_inner().unwrap()
}

#[test]
fn borrowed_memory_has_what_its_streams_have_done_and_stays_the_callers() {
    let fixture = Fixture::new();
    let memory = fixture.filled(1, &plaintext());
    fixture.double.hold(STREAM);
    encrypt(&fixture.key, (memory, memory), ON).unwrap();
    // Any address.
    let part = DeviceRange {
        address: memory.address + 5,
        len: 77,
    };
    let device = &fixture.backend.devices()[1];
    // SAFETY: the memory was allocated by `filled`, and the double accepts any stream.
    let borrowed = unsafe { device.borrow(part, &[STREAM]) }.unwrap();
    assert!(copied(&fixture, &borrowed) == ciphertext(0)[5..82]);
    drop(borrowed);
    assert!(fixture.bytes(memory) == ciphertext(0));
}

#[test]
fn memory_that_is_not_the_devices_is_not_borrowed() {
    let fixture = Fixture::new();
    let memory = fixture.filled(1, &plaintext());
    let beyond = DeviceRange {
        address: 1 << 60,
        len: LEN,
    };
    let longer = DeviceRange {
        len: LEN + 1,
        ..memory
    };
    let device = &fixture.backend.devices()[1];
    for range in [beyond, longer] {
        // SAFETY: as above.
        let refused = unsafe { device.borrow(range, &[]) };
        assert!(
            matches!(refused, Err(DeviceError::Launch { .. })),
            "{range:?}"
        );
    }
    fixture.double.state().capturing.push(STREAM);
    // SAFETY: as above.
    let refused = unsafe { device.borrow(memory, &[STREAM]) };
    assert!(matches!(refused, Err(DeviceError::Launch { .. })));
}

#[test]
fn calls_with_one_key_share_its_slot() {
    let fixture = Fixture::new();
    fixture.double.state().runs = false;
    let memory = fixture.filled(1, &plaintext());
    let before = fixture.double.state().calls.len();
    fixture.double.hold(STREAM);
    for _ in 0..70 {
        encrypt(&fixture.key, (memory, memory), ON).unwrap();
    }
    let state = fixture.double.state();
    assert!(!state.calls[before..].contains(&"cuEventSynchronize"));
}

#[test]
fn dropping_a_key_waits_for_its_work_and_wipes_it() {
    let fixture = Fixture::new();
    let memory = fixture.filled(1, &plaintext());
    let other = load(&fixture.backend, 1);
    fixture.double.hold(STREAM);
    encrypt(&other, (memory, memory), ON).unwrap();
    let taken = || {
        let keys = fixture.double.keys();
        let places = keys.chunks(768);
        places.filter(|place| place.iter().any(|&b| b != 0)).count()
    };
    // On both devices.
    assert_eq!(taken(), 4);
    drop(other);
    assert!(fixture.bytes(memory) == ciphertext(1));
    assert_eq!(taken(), 2);
}

#[test]
fn more_keys_than_slots_wait_for_the_oldest_work() {
    let fixture = Fixture::new();
    let memories: Vec<_> = (0..66).map(|_| fixture.filled(1, &plaintext())).collect();
    let keys: Vec<_> = (0..66).map(|seed| load(&fixture.backend, seed)).collect();
    fixture.double.hold(STREAM);
    for (key, &memory) in keys.iter().zip(&memories) {
        encrypt(key, (memory, memory), ON).unwrap();
    }
    fixture.double.run_held(STREAM);
    for (seed, &memory) in (0..).zip(&memories) {
        assert!(fixture.bytes(memory) == ciphertext(seed), "key {seed}");
    }
    let double = Arc::clone(&fixture.double);
    drop(keys);
    drop(fixture.key);
    assert!(double.keys().iter().all(|&byte| byte == 0));
}

/// The first work has not ended, but that of 63 other keys has.
#[test]
fn work_that_has_ended_makes_room_behind_work_that_has_not() {
    const OTHER: CallersStream<'_> = CallersStream {
        stream: STREAM + 1,
        after: &[],
    };
    let fixture = Fixture::new();
    let held = fixture.filled(1, &plaintext());
    let memories: Vec<_> = (1..70).map(|_| fixture.filled(1, &plaintext())).collect();
    let keys: Vec<_> = (0..70).map(|seed| load(&fixture.backend, seed)).collect();
    fixture.double.hold(STREAM);
    encrypt(&keys[0], (held, held), ON).unwrap();
    let before = fixture.double.state().calls.len();
    for (key, &memory) in keys[1..].iter().zip(&memories) {
        encrypt(key, (memory, memory), OTHER).unwrap();
    }
    assert!(!fixture.double.state().calls[before..].contains(&"cuEventSynchronize"));
    for (seed, &memory) in (1..).zip(&memories) {
        assert!(fixture.bytes(memory) == ciphertext(seed), "key {seed}");
    }
    fixture.double.run_held(STREAM);
    assert!(fixture.bytes(held) == ciphertext(0));
}

#[test]
fn the_work_follows_other_streams_of_the_caller() {
    let fixture = Fixture::new();
    let memory = fixture.filled(1, &plaintext());
    let before = fixture.double.state().calls.len();
    let on = CallersStream {
        stream: STREAM,
        after: &[2, STREAM, 99],
    };
    encrypt(&fixture.key, (memory, memory), on).unwrap();
    let state = fixture.double.state();
    assert_eq!(state.followed, [2, 99]);
    let calls = &state.calls[before..];
    let at = |name| calls.iter().position(|&call| call == name).unwrap();
    assert!(at("cuStreamWaitEvent") < at("cuMemcpyHtoDAsync_v2"));
}

#[test]
fn memory_that_the_gpu_cannot_use_is_refused() {
    let fixture = Fixture::new();
    let good = fixture.filled(1, &[7; LEN]);
    let beyond = DeviceRange {
        len: LEN + 1,
        ..good
    };
    let unknown = DeviceRange {
        address: 64,
        ..good
    };
    for bad in [fixture.filled(0, &[7; LEN]), unknown, beyond] {
        for memories in [(bad, good), (good, bad)] {
            let text = fixture.refused(memories, ON);
            assert!(text.contains("the GPU cannot use"), "{text}");
        }
    }
    let short = DeviceRange {
        len: LEN - 1,
        ..good
    };
    let text = fixture.refused((short, good), ON);
    assert!(text.contains("exceed 1023 bytes"), "{text}");
    let shifted = DeviceRange {
        address: good.address + 8,
        ..good
    };
    let text = fixture.refused((shifted, good), ON);
    assert!(text.contains("no memory for data units"), "{text}");
    let overlapping = DeviceRange {
        address: good.address + 512,
        ..good
    };
    let text = fixture.refused((good, overlapping), ON);
    assert!(text.contains("overlap"), "{text}");
    assert!(fixture.bytes(good) == [7; LEN]);
}

#[test]
fn streams_on_which_nothing_can_run_are_refused() {
    let fixture = Fixture::new();
    let good = fixture.filled(1, &[7; LEN]);
    fixture.double.state().foreign.insert(5, Context(1));
    fixture.double.state().capturing.push(6);
    for (bad, text) in [(5, "primary context"), (6, "being captured")] {
        for on in [
            CallersStream {
                stream: bad,
                after: &[],
            },
            CallersStream {
                stream: STREAM,
                after: &[bad],
            },
        ] {
            let found = fixture.refused((good, good), on);
            assert!(found.contains(text), "{found}");
        }
    }
}

/// Fails each call in turn, in two ways. Nothing may leak, and a later call works unless the device is
/// lost.
#[test]
fn any_call_may_fail() {
    for code in [OUT_OF_MEMORY, ILLEGAL_ADDRESS] {
        let mut failures = 0;
        for before in 0.. {
            let fixture = Fixture::new();
            let memory = fixture.filled(1, &plaintext());
            fixture.double.fail(None, before, code);
            let result = encrypt(&fixture.key, (memory, memory), ON);
            if !fixture.double.has_failed() {
                assert!(result.is_ok());
                break;
            }
            failures += usize::from(result.is_err());
            let again = encrypt(&fixture.key, (memory, memory), ON);
            assert_eq!(again.is_ok(), code == OUT_OF_MEMORY, "call {before}");
            let double = Arc::clone(&fixture.double);
            drop(fixture);
            // Apart from what `filled` allocated, only memory that could not be freed.
            let left = double.leaks();
            for what in ["pinned", "events", "contexts", "modules"] {
                assert!(!left.contains(what), "call {before}, {code}: {left}");
            }
        }
        assert!(failures > 10, "{failures}");
    }
}

#[test]
fn the_callers_context_is_current_again_afterwards() {
    let fixture = Fixture::new();
    assert_eq!(fixture.backend.devices()[1].number(), 1);
    let memory = fixture.filled(1, &[7; LEN]);
    let encrypt = || encrypt(&fixture.key, (memory, memory), ON).unwrap();
    for context in [Context(0), Context(1)] {
        fixture.double.make_current(context).unwrap();
        keeping_context(&*fixture.double, encrypt);
        assert_eq!(fixture.double.current_context().unwrap(), context);
    }
    encrypt();
    assert_eq!(fixture.double.current_context().unwrap(), Context(2));
}

#[test]
fn the_device_of_an_address_is_found() {
    let fixture = Fixture::new();
    let devices = fixture.backend.devices();
    for device in [0, 1] {
        let memory = fixture.filled(device, &[7; LEN]);
        let found = Cuda::of_address(devices, memory.address + 100);
        assert_eq!(found.unwrap(), Some(device));
    }
    assert_eq!(Cuda::of_address(devices, 64).unwrap(), None);
    assert_eq!(Cuda::of_address(&[], 64).unwrap(), None);
}
