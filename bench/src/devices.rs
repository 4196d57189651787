// SPDX-License-Identifier: MIT OR Apache-2.0
//! The devices of the engine's backends, each with Luxor's kernels and with the papers' kernels.

mod luxor;
mod paper;

use std::rc::Rc;

use luxor_engine_gpu::{ForeignDevice, GpuBackend, Tuning};
use luxor_engine_opencl::{Aes, Kernels};
use serde::{Deserialize, Serialize};

#[cfg(test)]
pub(crate) use self::paper::double;
pub(crate) use self::{
    luxor::{LuxorKernels, Work},
    paper::{Host, Launch, Memory, Paper, PaperKernels},
};

/// The end of the name of a device that is a CPU.
pub(crate) const CPU: &str = " (CPU)";

/// The description of a device.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct About {
    /// `opencl` or `cuda`, with a number if there are several devices, and `(CPU)` behind it if it is
    /// one; `opencl-tables` or `opencl-bitsliced` for the kernels that `opencl` does not choose.
    pub(crate) name: String,
    /// The names of the device, its platform and its driver.
    pub(crate) device: String,
    /// Whether it is a CPU. A CPU only tests the kernels and gets less work.
    pub(crate) is_cpu: bool,
}

pub(crate) struct Device {
    pub(crate) about: About,
    pub(crate) luxor: Box<dyn LuxorKernels>,
    pub(crate) papers: Box<dyn PaperKernels>,
}

/// Returns all devices of the backends, and the reasons why there are no others.
pub(crate) fn all() -> (Vec<Device>, Vec<String>) {
    let mut found = Vec::new();
    let mut absent = Vec::new();
    match luxor_engine_opencl::devices() {
        Ok(devices) => found.extend(separate_backends("opencl", devices)),
        Err(why) => absent.push(format!("opencl: {why}")),
    }
    match luxor_engine_cuda::devices() {
        Ok(devices) => found.extend(separate_backends("cuda", devices)),
        Err(why) => absent.push(format!("cuda: {why}")),
    }
    (found, absent)
}

/// Returns the devices of OpenCL with the kernels that [`all`] does not give them: those without tables
/// in the place of those with tables, or the other way round.
pub(crate) fn with_other_kernels() -> Vec<Device> {
    let Ok(devices) = luxor_engine_opencl::devices() else {
        return Vec::new();
    };
    let Some(Aes::Tables { .. }) = devices.first().map(|device| device.layout().aes) else {
        return with_kernels(Kernels::Tables);
    };
    with_kernels(Kernels::Bitsliced)
}

fn with_kernels(kernels: Kernels) -> Vec<Device> {
    let devices = luxor_engine_opencl::devices_with(kernels);
    devices.map_or_else(
        |_| Vec::new(),
        |devices| separate_backends(kernels.name(), devices),
    )
}

/// Makes each device a backend of its own.
fn separate_backends<D: ForeignDevice>(interface: &str, devices: Vec<D>) -> Vec<Device> {
    let several = devices.len() > 1;
    let device = |(number, device): (usize, D)| {
        let mut name = interface.to_owned();
        if several {
            name += &format!(" {number}");
        }
        if device.is_cpu() {
            name += CPU;
        }
        let about = About {
            name,
            device: device.description(),
            is_cpu: device.is_cpu(),
        };
        let backend = Rc::new(GpuBackend::new(vec![device], Tuning::default()));
        Device {
            luxor: luxor::on(about.clone(), Rc::clone(&backend)),
            papers: paper::on(about.clone(), backend),
            about,
        }
    };
    (1..).zip(devices).map(device).collect()
}

fn said<T>(result: Result<T, impl ToString>) -> Result<T, String> {
    result.map_err(|error| error.to_string())
}

/// Returns whether none of the devices is a GPU.
pub(crate) fn lack_gpu(devices: &[About]) -> bool {
    devices.iter().all(|device| device.is_cpu)
}

/// Returns the name that the maker gives a device, and its interface.
pub(crate) fn name(devices: &[About], interface: &str) -> String {
    let mut devices = devices.iter();
    let device = devices.find(|about| about.name == interface);
    let names = device.and_then(|about| about.device.split(',').next());
    names.map_or_else(
        || interface.to_owned(),
        |name| format!("{name} ({interface})"),
    )
}

/// Describes the devices in sentences that continue a text.
pub(crate) fn text(devices: &[About]) -> String {
    let devices = devices.iter();
    devices
        .map(|about| format!(" {} is {}.", about.name, about.device))
        .collect()
}

/// Returns the reasons why there are no other devices, and a note for each device that is a CPU.
pub(crate) fn absent(devices: &[About], absent: &[String]) -> Vec<String> {
    let cpus = devices.iter().filter(|about| about.is_cpu);
    let said = cpus.map(|about| {
        format!(
            "a GPU as {}: this device is a CPU. It gets less data, and its speed says nothing about \
             GPUs",
            about.name
        )
    });
    said.chain(absent.iter().cloned()).collect()
}

/// Returns an emulated NVIDIA device, which runs the committed PTX.
#[cfg(test)]
pub(crate) fn emulated() -> Device {
    use luxor_ptx_driver::{Double, GPU};

    let driver: std::sync::Arc<dyn luxor_engine_cuda::Driver> = Double::new(&[GPU]);
    let devices = luxor_engine_cuda::Cuda::all(&driver).unwrap();
    separate_backends("cuda", devices).pop().unwrap()
}
