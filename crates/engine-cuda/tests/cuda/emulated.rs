// SPDX-License-Identifier: MIT OR Apache-2.0
//! The backend on the committed PTX in the emulator, against the reference.

use std::sync::Arc;

use luxor_engine::{AesKey, Backend, DataUnitLen, Direction, KeySpec, LoadedKey, Run, XtsKey};
use luxor_engine_cuda::{Cuda, CudaMemory, Driver};
use luxor_engine_gpu::{Device, GpuBackend, GpuKey, Resident, ResidentRun, Tuning};
use luxor_ptx_driver::{Double, GPU};
use luxor_reference as reference;

fn bytes(seed: u8, len: usize) -> Vec<u8> {
    let step = |i: usize| u8::try_from(i * 89 % 253).unwrap() ^ seed;
    (0..len).map(step).collect()
}

fn backend(double: &Arc<Double>) -> GpuBackend<Cuda> {
    let driver: Arc<dyn Driver> = Arc::clone(double) as _;
    let mut tuning = Tuning::default();
    // Small batches, because the emulator is slow.
    tuning.batch = 16 << 10;
    tuning.least_batch = 8 << 10;
    GpuBackend::new(Cuda::all(&driver).unwrap(), tuning)
}

/// Encrypts and decrypts with `key`, and compares with the reference's `encrypt`.
fn check(
    key: &dyn LoadedKey,
    (first, stride): (u128, u64),
    unit_len: usize,
    plaintext: &[u8],
    encrypt: impl Fn(u128, &[u8]) -> Vec<u8>,
) {
    let units = plaintext.chunks(unit_len).zip(0_u128..);
    let ciphertext: Vec<u8> = units
        .flat_map(|(unit, i)| encrypt(first.wrapping_add(i * u128::from(stride)), unit))
        .collect();
    for (direction, input, expected) in [
        (Direction::Encrypt, plaintext, &ciphertext[..]),
        (Direction::Decrypt, &ciphertext, plaintext),
    ] {
        let mut data = input.to_vec();
        let len = DataUnitLen::new(unit_len).unwrap();
        let run = Run::new(first.into(), stride, len, data.as_mut_slice()).unwrap();
        key.crypt(direction, &mut [run]).unwrap();
        assert!(data == expected, "{direction:?}, units of {unit_len}");
    }
}

#[test]
fn the_committed_ptx_agrees_with_the_reference() {
    let double = Double::new(&[GPU]);
    let backend = backend(&double);
    assert_eq!(
        backend.info().device,
        "Double 0, compute capability 9.0, 2 multiprocessors, driver for CUDA 12.4"
    );
    for len in [16, 32] {
        let secret = bytes(1, 2 * len);
        let xts = KeySpec::Xts(XtsKey::new(&secret).unwrap());
        let xts = backend.load_key(&xts).unwrap();
        let numbers = (u128::from(u64::MAX) - 9, 8);
        // Whole blocks, stolen ciphertext and units of more than one stretch, in several batches.
        for (unit_len, units) in [(512, 40), (16, 3), (17, 2), (520, 5), (4096 + 16 + 3, 2)] {
            let plaintext = bytes(2, unit_len * units);
            check(&*xts, numbers, unit_len, &plaintext, |number, unit| {
                reference::xts_encrypt(&secret, number, unit)
            });
        }
        let ctr = KeySpec::Ctr(AesKey::new(&secret[..len]).unwrap());
        let ctr = backend.load_key(&ctr).unwrap();
        for (unit_len, units) in [(1, 2), (48, 3), (4096 + 21, 2)] {
            let plaintext = bytes(3, unit_len * units);
            let numbers = (u128::MAX - 1, u64::MAX);
            check(&*ctr, numbers, unit_len, &plaintext, |number, unit| {
                reference::ctr(&secret[..len], number, unit)
            });
        }
    }
    let state = double.state();
    for (name, blocks, threads, shared) in &state.launches {
        assert!((1..=2).contains(blocks), "{name}: {blocks} blocks");
        assert_eq!((*threads, *shared), (1024, 65536), "{name}");
    }
    // 16 KiB of 512-byte units are 32 stretches of a warp each, in as many blocks as run at a time.
    let full = ("xts_encrypt_128".to_owned(), 2, 1024, 65536);
    assert!(state.launches.contains(&full));
}

#[test]
fn more_keys_than_places_share_the_places() {
    let double = Double::new(&[GPU]);
    let backend = backend(&double);
    let secrets: Vec<_> = (0..70).map(|seed| bytes(seed, 32)).collect();
    let keys: Vec<_> = secrets
        .iter()
        .map(|secret| {
            let key = KeySpec::Xts(XtsKey::new(secret).unwrap());
            backend.load_key(&key).unwrap()
        })
        .collect();
    // Keys without a slot, keys with one, and keys that lost theirs.
    for index in [69, 64, 0, 1, 30, 63, 68, 0] {
        let plaintext = bytes(9, 32);
        check(&*keys[index], (7, 1), 32, &plaintext, |number, unit| {
            reference::xts_encrypt(&secrets[index], number, unit)
        });
    }
    let taken = |double: &Double| {
        let keys = double.keys();
        let places = keys.chunks(768);
        places.filter(|place| place.iter().any(|&b| b != 0)).count()
    };
    assert_eq!(taken(&double), 64);
    drop(keys);
    assert_eq!(taken(&double), 0, "keys remain on the device");
    drop(backend);
    assert_eq!(double.leaks(), "");
}

#[test]
fn memory_of_alloc_is_pinned_and_wiped_on_release() {
    let double = Double::new(&[GPU, GPU]);
    let backend = backend(&double);
    let before = double.state().calls.len();
    let mut buffer = backend.alloc(8192);
    assert_eq!(buffer.as_ptr().addr() % 4096, 0);
    assert!(buffer.iter().all(|&byte| byte == 0));
    buffer.fill(0x5a);
    for device in backend.devices() {
        use luxor_engine_gpu::Device as _;
        assert!(device.is_pinned(&buffer[100..]));
        assert!(!device.is_pinned(&[0; 16]));
    }
    // The double checks that the buffer is wiped.
    drop(buffer);
    let state = double.state();
    let calls = &state.calls[before..];
    assert!(calls.contains(&"cuMemHostAlloc") && calls.contains(&"cuMemFreeHost"));
}

#[test]
fn device_memory_is_copied_on_the_device() {
    let double = Double::new(&[GPU, GPU]);
    let backend = backend(&double);
    let [device, other] = backend.devices() else {
        panic!("there are two devices");
    };
    let mut from = device.memory(100).unwrap();
    let mut to = device.memory(90).unwrap();
    device.write(&mut from, 0, &bytes(7, 100)).unwrap();
    device.copy(&from, &mut to, 80).unwrap();
    let mut found = [1; 90];
    device.read(&to, 0, &mut found).unwrap();
    assert!(found[..80] == bytes(7, 80) && found[80..] == [0; 10]);
    assert!(device.copy(&from, &mut to, 91).is_err());
    assert!(device.copy(&to, &mut from, 91).is_err());
    let mut elsewhere = other.memory(100).unwrap();
    let refused = device.copy(&from, &mut elsewhere, 80).unwrap_err();
    assert!(refused.to_string().contains("another device"), "{refused}");
}

#[test]
fn data_of_another_device_are_refused() {
    let double = Double::new(&[GPU, GPU]);
    let backend = backend(&double);
    let key = KeySpec::Xts(XtsKey::new(&bytes(1, 32)).unwrap());
    let key = backend.load(&key).unwrap();
    let mut memories: Vec<_> = (backend.devices().iter())
        .map(|device| device.memory(512).unwrap())
        .collect();
    let [own, other] = memories.as_mut_slice() else {
        panic!("there are two devices");
    };
    let refused = "a launch failed: the memory is another device's";
    assert_eq!(encrypt(&key, Resident::InPlace(other)), refused);
    let (input, output) = (&*own, &mut *other);
    let data = Resident::Separate { input, output };
    assert_eq!(encrypt(&key, data), refused);
    let (input, output) = (&*other, &mut *own);
    let data = Resident::Separate { input, output };
    assert_eq!(encrypt(&key, data), refused);
    assert_eq!(encrypt(&key, Resident::InPlace(own)), "");
}

/// Encrypts a data unit on the first device. Returns the error message, or an empty string.
fn encrypt(key: &GpuKey<Cuda>, data: Resident<'_, CudaMemory>) -> String {
    let run = ResidentRun {
        first: 0_u64.into(),
        stride: 1,
        unit_len: DataUnitLen::new(512).unwrap(),
        units: 1,
        input_at: 0,
        output_at: 0,
    };
    let result = key.crypt_resident(0, Direction::Encrypt, &[run], data);
    result.map_or_else(|error| error.to_string(), |()| String::new())
}
