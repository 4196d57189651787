// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds the devices, and chooses those to use.

use std::{
    cmp::Reverse,
    env,
    sync::{Mutex, PoisonError},
};

use cl3::device as cl_device;

use crate::{
    cl::{self, DeviceId, Platform},
    error::{Failure, Unusable},
    layout::Facts,
};

/// Returns the devices to open, the best one first.
pub(crate) fn chosen() -> Result<Vec<Found>, Unusable> {
    // In PoCL 3.1, a thread that asks for devices while another thread makes the first such call
    // gets none.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);

    let platforms = cl::platforms()?;
    if platforms.is_empty() {
        return Err(Unusable::NoPlatform);
    }
    let mut asked = Vec::new();
    for kind in [cl_device::CL_DEVICE_TYPE_GPU, cl_device::CL_DEVICE_TYPE_ALL] {
        let mut found = Vec::new();
        asked.clear();
        for (index, platform) in platforms.iter().enumerate() {
            let devices = platform.devices(kind).and_then(|devices| {
                let found = devices.into_iter();
                found
                    .map(|device| Found::new(device, *platform, index))
                    .collect::<Result<Vec<_>, _>>()
            });
            // A platform that fails is skipped. Its error matters only if no device is found at
            // all.
            match devices {
                Ok(devices) => {
                    asked.push(platform.name());
                    found.extend(devices);
                }
                Err(failure) => asked.push(format!("{}: {failure}", platform.name())),
            }
        }
        let chosen = choose(&found);
        if !chosen.is_empty() {
            return Ok(chosen);
        }
    }
    let platforms = asked.join("; ");
    Err(Unusable::NoDevice { platforms })
}

/// Returns the reason why building a kernel on the platform of this name would end the whole
/// process. PoCL does that if its compiler finds no linker.
#[must_use]
pub fn lacks_linker(platform: &str) -> Option<&'static str> {
    let path = env::var_os("PATH").unwrap_or_default();
    let is_there = || env::split_paths(&path).any(|folder| folder.join("ld").is_file());
    (platform == "Portable Computing Language" && !is_there())
        .then_some("it needs the linker ld, which is not on PATH")
}

/// The properties of a device before it is opened.
#[derive(Clone)]
pub(crate) struct Found {
    pub(crate) device: DeviceId,
    pub(crate) platform_name: String,
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) facts: Facts,
    pub(crate) compute_units: u32,
    platform: usize,
    shares_memory: bool,
    /// Set if the device is unavailable, has no working compiler, or is big-endian.
    pub(crate) reason_against: Option<&'static str>,
}

impl Found {
    fn new(device: DeviceId, platform: Platform, index: usize) -> Result<Self, Failure> {
        let is = |parameter| device.number(parameter).map(|number| number != 0);
        let is_cpu = device.number(cl_device::CL_DEVICE_TYPE)? & cl_device::CL_DEVICE_TYPE_CPU != 0
            || device.number(cl_device::CL_DEVICE_LOCAL_MEM_TYPE)?
                == u64::from(cl_device::CL_GLOBAL);
        let reason_against = if !is(cl_device::CL_DEVICE_AVAILABLE)? {
            Some("the device is not available")
        } else if !is(cl_device::CL_DEVICE_COMPILER_AVAILABLE)? {
            Some("it has no compiler")
        } else if !is(cl_device::CL_DEVICE_ENDIAN_LITTLE)? {
            Some("it is big-endian")
        } else {
            lacks_linker(&platform.name())
        };
        let number = |parameter| device.number(parameter);
        Ok(Self {
            device,
            platform_name: platform.name(),
            name: device.text(cl_device::CL_DEVICE_NAME)?,
            version: device.text(cl_device::CL_DRIVER_VERSION)?,
            facts: Facts {
                is_cpu,
                local_memory: number(cl_device::CL_DEVICE_LOCAL_MEM_SIZE)?,
                work_group: usize::try_from(number(cl_device::CL_DEVICE_MAX_WORK_GROUP_SIZE)?)
                    .unwrap_or(usize::MAX),
                vector: usize::try_from(number(cl_device::CL_DEVICE_NATIVE_VECTOR_WIDTH_INT)?)
                    .unwrap_or(1),
            },
            compute_units: u32::try_from(number(cl_device::CL_DEVICE_MAX_COMPUTE_UNITS)?)
                .unwrap_or(1),
            platform: index,
            shares_memory: is(cl_device::CL_DEVICE_HOST_UNIFIED_MEMORY)?,
            reason_against,
        })
    }

    pub(crate) fn unusable(&self, reason: &str) -> Unusable {
        Unusable::Device {
            device: self.name.clone(),
            reason: reason.into(),
        }
    }
}

/// Returns the best device first, and then those of the same platform and name.
fn choose(found: &[Found]) -> Vec<Found> {
    let worth = |device: &&Found| {
        let usable = device.reason_against.is_none();
        (
            usable,
            !device.facts.is_cpu,
            !device.shares_memory,
            device.compute_units,
            Reverse(device.platform),
        )
    };
    let Some(best) = found.iter().max_by_key(worth) else {
        return Vec::new();
    };
    found
        .iter()
        .filter(|other| other.platform == best.platform && other.name == best.name)
        .cloned()
        .collect()
}
