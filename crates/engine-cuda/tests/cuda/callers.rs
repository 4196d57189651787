// SPDX-License-Identifier: MIT OR Apache-2.0
//! Data in memory that a caller allocated on the device.

#![allow(unsafe_code, reason = "the memory is given by address")]

use std::sync::Arc;

use luxor_engine::{DataUnitLen, Direction, KeySpec, XtsKey};
use luxor_engine_cuda::{
    Cuda, CudaMemory, Driver,
    driver::{Address, Context},
    keeping_context,
};
use luxor_engine_gpu::{GpuBackend, GpuKey, Resident, ResidentRun, Tuning};
use luxor_ptx_driver::{Double, GPU};
use luxor_reference as reference;

const LEN: usize = 1024;
const STREAM: usize = 77;

struct Fixture {
    double: Arc<Double>,
    backend: GpuBackend<Cuda>,
    key: GpuKey<Cuda>,
    secret: [u8; 64],
}

impl Fixture {
    fn new() -> Self {
        let double = Double::new(&[GPU, GPU]);
        let driver: Arc<dyn Driver> = Arc::clone(&double) as _;
        let backend = GpuBackend::new(Cuda::all(&driver).unwrap(), Tuning::default());
        let secret = std::array::from_fn(|i| u8::try_from(i).unwrap());
        let key = KeySpec::Xts(XtsKey::new(&secret).unwrap());
        let key = backend.load(&key).unwrap();
        Self {
            double,
            backend,
            key,
            secret,
        }
    }

    /// Allocates memory as a caller would, with `bytes` at byte 16.
    fn filled(&self, bytes: &[u8]) -> Address {
        let address = self.double.alloc(16 + bytes.len()).unwrap();
        let stream = self.double.create_stream().unwrap();
        // SAFETY: the memory was allocated above.
        let written = unsafe {
            let to = address.after(16);
            (self.double).upload(to, bytes.as_ptr(), bytes.len(), stream)
        };
        written.unwrap();
        address
    }

    /// Returns the bytes of the memory from byte 16 on.
    fn bytes(&self, address: Address) -> Vec<u8> {
        let mut bytes = vec![0; LEN];
        let stream = self.double.create_stream().unwrap();
        // SAFETY: the memory has this length, and was allocated by `filled`.
        let read = unsafe {
            let from = address.after(16);
            (self.double).download(bytes.as_mut_ptr(), from, LEN, stream)
        };
        read.unwrap();
        bytes
    }

    fn memory(&self, address: Address) -> CudaMemory {
        let device = &self.backend.devices()[1];
        // SAFETY: the memory was allocated by `filled` and is never freed, and the double accepts
        // any stream.
        unsafe { CudaMemory::of_caller(device, address.after(16).0, LEN, STREAM) }
    }

    fn crypt(&self, direction: Direction, data: Resident<'_, CudaMemory>) {
        let run = ResidentRun {
            first: 5_u64.into(),
            stride: 1,
            unit_len: DataUnitLen::new(512).unwrap(),
            units: LEN / 512,
            input_at: 0,
            output_at: 0,
        };
        self.key.crypt_resident(1, direction, &[run], data).unwrap();
    }
}

#[test]
fn the_memory_is_used_after_the_callers_commands_and_never_freed() {
    let fixture = Fixture::new();
    let plaintext: Vec<u8> = (0..LEN).map(|i| u8::try_from(i % 251).unwrap()).collect();
    let ciphertext: Vec<u8> = (5..)
        .zip(plaintext.chunks(512))
        .flat_map(|(number, unit)| reference::xts_encrypt(&fixture.secret, number, unit))
        .collect();
    let (from, to) = (fixture.filled(&plaintext), fixture.filled(&[0; LEN]));
    let (input, mut output) = (fixture.memory(from), fixture.memory(to));

    let data = Resident::Separate {
        input: &input,
        output: &mut output,
    };
    fixture.crypt(Direction::Encrypt, data);
    assert!(fixture.bytes(from) == plaintext && fixture.bytes(to) == ciphertext);
    let followed = fixture.double.state().followed.clone();
    assert!(!followed.is_empty() && followed.iter().all(|&stream| stream == STREAM));

    fixture.crypt(Direction::Decrypt, Resident::InPlace(&mut output));
    assert!(fixture.bytes(to) == plaintext);
    drop((input, output));
    assert!(fixture.bytes(from) == plaintext && fixture.bytes(to) == plaintext);
}

#[test]
fn the_kernel_follows_the_callers_stream_before_it_begins() {
    let fixture = Fixture::new();
    let mut memory = fixture.memory(fixture.filled(&[7; LEN]));
    let before = fixture.double.state().calls.len();
    fixture.crypt(Direction::Encrypt, Resident::InPlace(&mut memory));
    let state = fixture.double.state();
    let calls = &state.calls[before..];
    let first = |name| calls.iter().position(|&call| call == name).unwrap();
    assert!(
        first("cuStreamWaitEvent") < first("cuLaunchKernel"),
        "{calls:?}"
    );
}

#[test]
fn the_callers_context_is_current_again_afterwards() {
    let fixture = Fixture::new();
    assert_eq!(fixture.backend.devices()[1].number(), 1);
    let mut memory = fixture.memory(fixture.filled(&[7; LEN]));
    for context in [Context(0), Context(1)] {
        fixture.double.make_current(context).unwrap();
        let crypt = || fixture.crypt(Direction::Encrypt, Resident::InPlace(&mut memory));
        keeping_context(&*fixture.double, crypt);
        assert_eq!(fixture.double.current_context().unwrap(), context);
    }
    fixture.crypt(Direction::Encrypt, Resident::InPlace(&mut memory));
    assert_eq!(fixture.double.current_context().unwrap(), Context(2));
}
