// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests on an OpenCL device of any kind. They fail without one.

use luxor_engine::{
    AesKey, Backend, DataUnitLen, Direction, KeySpec, LoadedKey, PAGE, Run, XtsKey,
};
use luxor_engine_gpu::{
    AesSize, Device, DeviceError, ForeignArgument, ForeignDevice, ForeignLaunch, ForeignSource,
    GpuBackend, KeyWords, Launch, Queue, QueueSizes, Resident, Tables, Tuning,
};
use luxor_engine_opencl::{Aes, Kernels, Layout, OpenCl, backend_with, devices, devices_with};
use luxor_reference as reference;

const SIZES: QueueSizes = QueueSizes {
    data: 4096,
    tweaks: 256,
    pieces: 64,
};

fn device() -> OpenCl {
    devices().unwrap().remove(0)
}

fn bytes(len: usize) -> Vec<u8> {
    (0..len)
        .map(|i| u8::try_from(i * 89 % 253).unwrap())
        .collect()
}

/// Checks XTS in both directions, with and without ciphertext stealing, and CTR, under AES keys of
/// `len` bytes.
fn check(backend: &GpuBackend<OpenCl>, len: usize) {
    let crypt = |key: &dyn LoadedKey, direction, unit_len, data: &[u8]| {
        let mut data = data.to_vec();
        let unit_len = DataUnitLen::new(unit_len).unwrap();
        let run = Run::new(7_u64.into(), 3, unit_len, data.as_mut_slice()).unwrap();
        key.crypt(direction, &mut [run]).unwrap();
        data
    };
    let secret: Vec<u8> = bytes(2 * len);
    let xts = KeySpec::Xts(XtsKey::new(&secret).unwrap());
    let xts = backend.load_key(&xts).unwrap();
    let ctr = KeySpec::Ctr(AesKey::new(&secret[..len]).unwrap());
    let ctr = backend.load_key(&ctr).unwrap();
    for unit_len in [512, 520, 5000] {
        let plaintext = bytes(20 * unit_len);
        let units = || plaintext.chunks(unit_len).zip((7..).step_by(3));
        let ciphertext: Vec<u8> = units()
            .flat_map(|(unit, number)| reference::xts_encrypt(&secret, number, unit))
            .collect();
        assert!(crypt(&*xts, Direction::Encrypt, unit_len, &plaintext) == ciphertext);
        assert!(crypt(&*xts, Direction::Decrypt, unit_len, &ciphertext) == plaintext);
        let ciphertext: Vec<u8> = units()
            .flat_map(|(unit, number)| reference::ctr(&secret[..len], number, unit))
            .collect();
        assert!(crypt(&*ctr, Direction::Encrypt, unit_len, &plaintext) == ciphertext);
    }
}

/// The layouts that most GPUs get, and those of the kernels without tables. PoCL takes long to compile
/// each of them.
#[test]
fn layouts_agree_with_the_reference() {
    let device = device();
    let tables = [(32, Tables::Two), (32, Tables::One), (8, Tables::Two)];
    let tables = tables.map(|(replicas, tables)| (Aes::Tables { replicas, tables }, tables));
    let bitsliced = [1, 4, 16].map(|lanes| (Aes::Bitsliced { lanes }, Tables::One));
    for (aes, tables) in tables.into_iter().chain(bitsliced) {
        let layout = Layout { aes, threads: 64 };
        if layout.local_memory() as u64 > device.local_memory() {
            assert!(device.in_layout(layout).is_err(), "{layout:?}");
            continue;
        }
        let device = device.in_layout(layout).unwrap();
        assert_eq!((device.layout(), device.tables()), (layout, tables));
        check(&GpuBackend::new(vec![device], Tuning::default()), 32);
    }
}

#[test]
fn either_kind_of_kernels_can_be_forced() {
    for (kernels, name, has_tables) in [
        (Kernels::Tables, "opencl-tables", true),
        (Kernels::Bitsliced, "opencl-bitsliced", false),
    ] {
        let backend = backend_with(kernels).unwrap();
        assert_eq!(backend.info().name, name);
        let [device, ..] = backend.devices() else {
            panic!("{name} has no device");
        };
        let found = matches!(device.layout().aes, Aes::Tables { .. });
        assert_eq!(found, has_tables, "{name}");
    }
}

#[test]
fn several_devices_share_a_call() {
    let mut tuning = Tuning::default();
    (tuning.batch, tuning.least_batch, tuning.queues) = (16384, 4096, 2);
    let backend = GpuBackend::new(vec![device(), device()], tuning);
    assert!(backend.info().device.starts_with("2 devices: "));
    check(&backend, 16);
}

#[test]
fn too_large_a_queue_is_reported_as_out_of_memory() {
    let device = device();
    let sizes = QueueSizes {
        data: 1 << 60,
        ..SIZES
    };
    let error = device.queue(sizes).map(drop).unwrap_err();
    assert!(matches!(error, DeviceError::OutOfMemory { .. }), "{error}");
    // NVIDIA's library allocates at the first use.
    let calls = ["clCreateBuffer", "clEnqueueFillBuffer"];
    let text = error.to_string();
    assert!(calls.iter().any(|call| text.contains(call)), "{text}");
    assert!(device.alloc(1 << 60).is_none());
    // The device still works.
    device.queue(SIZES).map(drop).unwrap();
}

#[test]
fn memory_of_alloc_is_pinned() {
    let device = device();
    let buffer = device.alloc(10_000).unwrap();
    assert_eq!((buffer.len(), buffer.as_ptr().addr() % PAGE), (10_000, 0));
    assert!(buffer.iter().all(|&byte| byte == 0));
    assert!(device.is_pinned(&buffer) && device.is_pinned(&buffer[9_999..]));
    assert!(!device.is_pinned(&[0; 16]));
}

#[test]
fn a_queue_is_wiped() {
    let device = device();
    let mut queue = device.queue(SIZES).unwrap();
    queue.staging().fill(0x5a);
    queue.upload_staging(0..4096).unwrap();
    queue.wait().unwrap();
    let used = QueueSizes {
        data: 4000,
        ..SIZES
    };
    queue.wipe(used).unwrap();
    let left = |byte: u8, queue: &mut <OpenCl as Device>::Queue| {
        queue.staging().iter().filter(|&&b| b == byte).count()
    };
    assert_eq!(left(0x5a, &mut queue), 96);
    queue.staging().fill(1);
    queue.download_staging(0..4096).unwrap();
    queue.wait().unwrap();
    assert_eq!((left(0, &mut queue), left(0x5a, &mut queue)), (4000, 96));
}

/// A kernel that never writes its local memory, and copies what an earlier kernel left there.
const LISTENER: ForeignSource = ForeignSource {
    opencl: "
        __kernel void listen(__global uint *heard, __local volatile uint *left)
        {
            for (uint i = get_local_id(0); i < 480; i += get_local_size(0)) {
                heard[480 * get_group_id(0) + i] = left[i];
            }
        }
    ",
    ptx: c"",
    threads: 32,
    replicas: 1,
    local: 480 * 4,
};

/// Neither PoCL nor most GPUs clear local memory between kernels. On a device that does, this test
/// passes in any case; `kernels/test` looks at the memory itself.
#[test]
#[expect(unsafe_code, reason = "it runs a kernel that is not Luxor's")]
fn no_kernel_leaves_round_keys_in_local_memory() {
    const GROUPS: usize = 64;
    const LEN: usize = GROUPS * LISTENER.local as usize;
    let device = devices_with(Kernels::Bitsliced).unwrap().remove(0);
    let keys: [[u8; 32]; 2] = core::array::from_fn(|of| {
        core::array::from_fn(|i| u8::try_from((i + 32 * of) * 151 % 257 % 256).unwrap())
    });
    // Round key 0 as the kernels expand it: a word for each bit of a column's bytes.
    let expanded = keys.map(|key| {
        let words = (0..32).flat_map(|i| {
            let byte = |row: usize| 0_u8.wrapping_sub(key[4 * (i % 4) + row] >> (i / 4) & 1);
            [0, 1, 2, 3].map(byte)
        });
        words.collect::<Vec<u8>>()
    });
    let words = KeyWords::of_bytes(AesSize::Aes256, &keys[0], Some(&keys[1]), device.tables());
    let key = device.load_key(&words).unwrap();
    let (input_at, output_at, tweaks_at, pieces_at) = (0, 0, 0, 0);
    let (units, blocks, pitch, spu, tail, piece_count) = (8, 1, 3, 1, 5, 1);
    let mut launches = vec![
        Launch::Tweaks {
            pieces_at,
            piece_count,
            units,
            spu,
            tweaks_at,
        },
        Launch::Ctr {
            input_at,
            output_at,
            pieces_at,
            piece_count,
            units,
            len: 37,
            pitch,
            spu,
        },
    ];
    for direction in [Direction::Encrypt, Direction::Decrypt] {
        launches.push(Launch::Xts {
            direction,
            input_at,
            output_at,
            tweaks_at,
            units,
            blocks,
            pitch,
            spu,
        });
        launches.push(Launch::Tails {
            direction,
            input_at,
            output_at,
            tweaks_at,
            units,
            blocks,
            pitch,
            spu,
            tail,
        });
    }
    let mut listener = device.program(&LISTENER).unwrap();
    let heard = device.memory(LEN).unwrap();
    let mut queue = device.queue(SIZES).unwrap();
    // Several times, since the device may run the listener elsewhere.
    for launch in launches.iter().flat_map(|launch| [launch; 8]) {
        queue.launch(&key, launch).unwrap();
        let listen = ForeignLaunch {
            kernel: "listen",
            arguments: &[ForeignArgument::Memory(&heard)],
            threads: u32::try_from(GROUPS).unwrap() * OpenCl::group(&listener),
            local: LISTENER.local,
        };
        // SAFETY: `heard` has room for 480 words of each group, and `wait` ends before the memories
        // are dropped.
        unsafe { OpenCl::launch(&mut queue, &mut listener, &listen) }.unwrap();
        queue.wait().unwrap();
        let mut bytes = vec![0; LEN];
        device.read(&heard, 0, &mut bytes).unwrap();
        for (name, expanded) in ["data", "tweak"].iter().zip(&expanded) {
            let found = bytes.windows(expanded.len()).any(|part| part == expanded);
            assert!(!found, "{launch:?} left the {name} key");
        }
    }
}

#[test]
fn nothing_goes_beyond_the_memory() {
    let device = device();
    let mut queue = device.queue(SIZES).unwrap();
    let words = KeyWords::of_bytes(AesSize::Aes128, &[1; 16], Some(&[2; 16]), device.tables());
    let key = device.load_key(&words).unwrap();
    let tweaks = |units| Launch::Tweaks {
        pieces_at: 32,
        piece_count: 1,
        units,
        spu: 1,
        tweaks_at: 16,
    };
    queue.launch(&key, &tweaks(15)).unwrap();
    queue.wait().unwrap();
    let error = queue.launch(&key, &tweaks(16)).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("256 bytes of tweaks at byte 16 exceed its 256 bytes"),
        "{error}"
    );
    // The next wait reports the error once more, the one after it does not.
    assert_eq!(queue.wait(), Err(error));
    assert_eq!(queue.wait(), Ok(()));
    let (mut from, mut to) = (device.memory(100).unwrap(), device.memory(90).unwrap());
    device.write(&mut from, 0, &bytes(100)).unwrap();
    device.copy(&from, &mut to, 80).unwrap();
    let mut found = [1; 90];
    device.read(&to, 0, &mut found).unwrap();
    assert!(found[..80] == bytes(80) && found[80..] == [0; 10]);
    assert!(device.copy(&from, &mut to, 91).is_err());
    assert!(device.copy(&to, &mut from, 91).is_err());
    let other = self::device();
    let error = queue.launch(&other.load_key(&words).unwrap(), &tweaks(1));
    assert!(
        (error.unwrap_err().to_string()).contains("the key is another device's"),
        "a key"
    );
    let mut memory = other.memory(4096).unwrap();
    let mut data = Resident::InPlace(&mut memory);
    let error = queue.launch_on(&mut data, &key, &tweaks(1)).unwrap_err();
    assert!(
        error.to_string().contains("the memory is another device's"),
        "{error}"
    );
}
