// SPDX-License-Identifier: MIT OR Apache-2.0
//! A key keeps its slot until no queue uses it.

use std::sync::Arc;

use luxor_engine_cuda::{Cuda, CudaKey, CudaQueue, Driver};
use luxor_engine_gpu::{AesSize, Device, KeyWords, Launch, Queue, QueueSizes};
use luxor_ptx_driver::{Double, GPU};

fn key(device: &Cuda, byte: u8) -> CudaKey {
    let words = KeyWords::of_bytes(
        AesSize::Aes256,
        &[byte; 32],
        Some(&[!byte; 32]),
        device.tables(),
    );
    device.load_key(&words).unwrap()
}

fn queue(device: &Cuda) -> CudaQueue {
    let sizes = QueueSizes {
        data: 4096,
        tweaks: 256,
        pieces: 64,
    };
    device.queue(sizes).unwrap()
}

fn launch(queue: &mut CudaQueue, key: &CudaKey) {
    let tweaks = Launch::Tweaks {
        pieces_at: 0,
        piece_count: 1,
        units: 1,
        spu: 1,
        tweaks_at: 0,
    };
    queue.launch(key, &tweaks).unwrap();
}

/// Returns the contents of the first slots. The tests use no others.
fn places(double: &Double) -> Vec<Vec<u8>> {
    let keys = double.keys();
    keys.chunks(768).take(3).map(<[u8]>::to_vec).collect()
}

#[test]
fn a_key_that_is_dropped_while_it_is_used_keeps_its_place() {
    let double = Double::new(&[GPU]);
    double.state().runs = false;
    let driver: Arc<dyn Driver> = Arc::clone(&double) as _;
    let device = Cuda::all(&driver).unwrap().remove(0);
    let (mut a, mut b) = (queue(&device), queue(&device));

    let first = key(&device, 1);
    launch(&mut a, &first);
    let used = places(&double);
    drop(first);
    assert!(places(&double) == used, "wiped while a kernel may read it");

    let second = key(&device, 2);
    launch(&mut b, &second);
    let both = places(&double);
    assert!(both[0] == used[0], "overwritten while a kernel may read it");
    assert!(
        both[1] != used[1],
        "the second key shares the slot of the first"
    );

    // The end of one key's use does not end the other's.
    a.wait().unwrap();
    drop(second);
    let left = places(&double);
    assert!(left[0].iter().all(|&byte| byte == 0), "not wiped");
    assert!(left[1] == both[1], "wiped while a kernel may read it");
    b.wait().unwrap();
    assert!(double.keys().iter().all(|&byte| byte == 0), "not wiped");

    // Both slots are free again.
    let third = key(&device, 3);
    let found = places(&double);
    assert!(found[0].iter().any(|&byte| byte != 0));
    drop((third, a, b, device));
    assert_eq!(double.leaks(), "");
}
