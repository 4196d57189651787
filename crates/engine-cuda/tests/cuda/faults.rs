// SPDX-License-Identifier: MIT OR Apache-2.0
//! What happens if the driver refuses a call, and if a device is lost.

use std::sync::Arc;

use luxor_engine::{
    Backend, BackendError, CryptErrorKind, DataUnitLen, Direction, KeySpec, Run, XtsKey,
};
use luxor_engine_cuda::{Cuda, Driver, Unusable};
use luxor_engine_gpu::{Device, DeviceError, GpuBackend, QueueSizes, Tuning};
use luxor_ptx_driver::{
    Double, GPU, ILLEGAL_ADDRESS, INVALID_PTX, LAUNCH_OUT_OF_RESOURCES, NO_DEVICE, OUT_OF_MEMORY,
    Properties,
};

fn all(double: &Arc<Double>) -> Result<Vec<Cuda>, Unusable> {
    let driver: Arc<dyn Driver> = Arc::clone(double) as _;
    Cuda::all(&driver)
}

fn refused(double: &Arc<Double>) -> Unusable {
    let why = all(double).map(|devices| devices.len()).unwrap_err();
    assert_eq!(double.leaks(), "", "{why}");
    why
}

#[test]
fn a_driver_that_is_too_old_gets_no_further_calls() {
    let double = Double::new(&[GPU]);
    double.state().version = 11080;
    assert_eq!(
        refused(&double).to_string(),
        "NVIDIA's driver is too old: it supports CUDA 11.8, but Luxor needs 12.0"
    );
    assert_eq!(double.state().calls, ["cuDriverGetVersion"]);
}

#[test]
fn a_missing_device_is_not_a_driver_failure() {
    assert_eq!(refused(&Double::new(&[])), Unusable::NoDevice);
    for call in ["cuInit", "cuDeviceGetCount"] {
        let double = Double::new(&[GPU]);
        double.fail(Some(call), 0, NO_DEVICE);
        assert_eq!(refused(&double), Unusable::NoDevice);
    }
    let double = Double::new(&[GPU]);
    double.fail(Some("cuInit"), 0, 999);
    assert!(matches!(refused(&double), Unusable::Failed(failure) if failure.code == 999));
}

#[test]
fn a_device_that_lacks_something_is_left_out() {
    let old = Properties {
        capability: (7, 0),
        ..GPU
    };
    let small = Properties {
        shared: 49152,
        ..GPU
    };
    assert_eq!(
        refused(&Double::new(&[old, small])).to_string(),
        "Double 0 has compute capability 7.0, but Luxor needs compute capability 7.5"
    );
    assert_eq!(
        refused(&Double::new(&[small])).to_string(),
        "Double 0 has 49152 bytes of shared memory per block, but Luxor needs 65536 bytes of shared \
         memory per block"
    );
    let devices = all(&Double::new(&[old, GPU, small])).unwrap();
    let names: Vec<_> = devices.iter().map(Device::description).collect();
    assert!(
        names.len() == 1 && names[0].starts_with("Double 1, "),
        "{names:?}"
    );
}

#[test]
fn a_compile_error_contains_the_drivers_log() {
    let double = Double::new(&[GPU]);
    double.fail(Some("cuModuleLoadDataEx"), 0, INVALID_PTX);
    let text = refused(&double).to_string();
    assert!(
        text.contains("cuModuleLoadDataEx") && text.contains("as the test asked"),
        "{text}"
    );
}

#[test]
fn running_out_of_memory_frees_what_was_allocated() {
    let sizes = QueueSizes {
        data: 4096,
        tweaks: 1024,
        pieces: 64,
    };
    for (call, calls) in [("cuMemAlloc_v2", 3), ("cuMemHostAlloc", 2)] {
        for before in 0..calls {
            let double = Double::new(&[GPU]);
            let device = all(&double).unwrap().remove(0);
            double.fail(Some(call), before, OUT_OF_MEMORY);
            let error = device.queue(sizes).map(drop).unwrap_err();
            assert!(matches!(error, DeviceError::OutOfMemory { .. }), "{error}");
            // There is enough memory for a second attempt.
            device.queue(sizes).map(drop).unwrap();
            drop(device);
            assert_eq!(double.leaks(), "");
        }
    }
}

const UNIT: usize = 512;

/// The result of encrypting 20 units in batches of 8 on one queue.
struct Outcome {
    data: Vec<u8>,
    result: Result<(), BackendError>,
    done: usize,
}

fn run(double: &Arc<Double>) -> Outcome {
    let input: Vec<u8> = (0..20 * UNIT)
        .map(|i| (i % 251).try_into().unwrap())
        .collect();
    let mut outcome = Outcome {
        data: input.clone(),
        result: Ok(()),
        done: 0,
    };
    let mut tuning = Tuning::default();
    (tuning.batch, tuning.least_batch, tuning.queues) = (8 * UNIT, 8 * UNIT, 1);
    let failed = |message| BackendError::Device {
        backend: "cuda",
        message,
    };
    let devices = match all(double) {
        Ok(devices) => devices,
        Err(why) => {
            outcome.result = Err(failed(why.to_string()));
            return outcome;
        }
    };
    let backend = GpuBackend::new(devices, tuning);
    let secret: Vec<u8> = (0..64).collect();
    let spec = KeySpec::Xts(XtsKey::new(&secret).unwrap());
    let key = match backend.load_key(&spec) {
        Ok(key) => key,
        Err(why) => {
            outcome.result = Err(why);
            return outcome;
        }
    };
    let unit_len = DataUnitLen::new(UNIT).unwrap();
    let run = Run::new(5_u64.into(), 1, unit_len, outcome.data.as_mut_slice()).unwrap();
    outcome.done = 20;
    if let Err(error) = key.crypt(Direction::Encrypt, &mut [run]) {
        let CryptErrorKind::Device { message, .. } = error.kind else {
            panic!("{error}");
        };
        outcome.done = error.done;
        outcome.result = Err(failed(message));
    }
    for (i, unit) in input.chunks(UNIT).enumerate() {
        let expected = if i < outcome.done {
            luxor_reference::xts_encrypt(&secret, 5 + i as u128, unit)
        } else {
            unit.to_vec()
        };
        let found = &outcome.data[i * UNIT..][..UNIT];
        assert!(found == expected, "unit {i}, {} are done", outcome.done);
    }
    outcome
}

#[test]
fn a_launch_that_fails_leaves_the_rest_unchanged() {
    // Fails the first kernel of the second batch; the first batch has two kernels.
    let double = Double::new(&[GPU]);
    double.fail(Some("cuLaunchKernel"), 2, LAUNCH_OUT_OF_RESOURCES);
    let outcome = run(&double);
    let message = outcome.result.unwrap_err().to_string();
    assert!(
        message.contains("a launch failed: cuLaunchKernel"),
        "{message}"
    );
    assert!(outcome.done < 20);
    assert_eq!(double.leaks(), "");
}

#[test]
fn a_device_that_is_lost_midway_leaves_the_rest_unchanged() {
    let double = Double::new(&[GPU]);
    double.fail(Some("cuMemcpyDtoHAsync_v2"), 1, ILLEGAL_ADDRESS);
    let outcome = run(&double);
    let message = outcome.result.unwrap_err().to_string();
    assert!(message.contains("the device is lost"), "{message}");
    assert!(outcome.done < 20);
    assert_eq!(double.leaks(), "");
}

/// Fails each call in turn, in two ways. Units that are done must be right, the rest unchanged, and
/// all objects given back.
#[test]
fn any_call_may_fail() {
    for code in [OUT_OF_MEMORY, ILLEGAL_ADDRESS] {
        let mut failures = 0;
        for before in 0.. {
            let double = Double::new(&[GPU]);
            double.fail(None, before, code);
            let outcome = run(&double);
            assert_eq!(double.leaks(), "", "call {before}, {code}");
            if !double.has_failed() {
                assert!(outcome.result.is_ok());
                break;
            }
            failures += usize::from(outcome.result.is_err());
        }
        // Not every fault makes the call fail: the last calls only wipe, and some are retried.
        assert!(failures > 30, "{failures}");
    }
}
