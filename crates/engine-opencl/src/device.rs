// SPDX-License-Identifier: MIT OR Apache-2.0
//! A device that runs the kernels.

use std::sync::Arc;

use luxor_engine::Buffer;
use luxor_engine_gpu::{Device, DeviceError, KeyWords, QueueSizes, Tables};

use crate::{
    cl::{Context, Kind},
    discovery::{Found, chosen},
    error::{Failure, Unusable},
    layout::{Aes, Kernels, Layout},
    memory::{OpenClMemory, Service},
    program::Programs,
    queue::OpenClQueue,
    shared::{OpenClKey, Shared, key_memory},
};

/// Threads that a compute unit of a GPU holds at a time, roughly. Further work-groups would wait,
/// and would fill their tables for less work.
const THREADS_OF_UNIT: usize = 2048;
/// Work-groups for each core of a CPU. More than one, so that no core is idle at the end.
const GROUPS_OF_CORE: u32 = 4;

/// An OpenCL device that is ready to run the kernels.
pub struct OpenCl(Arc<Shared>);

/// Returns the devices that a backend uses: the best GPU and all devices of the same platform and
/// name. Without a GPU it returns a CPU, which is useful for tests.
///
/// A GPU with its own memory is better than one that shares the CPU's; then the GPU with more
/// compute units is better. Other devices are not used: a call would have to wait for the slower
/// ones, and one GPU may appear on several platforms.
///
/// # Errors
/// [`Unusable`]: the reason why there is no device, or why the best device cannot be used.
pub fn devices() -> Result<Vec<OpenCl>, Unusable> {
    devices_with(Kernels::Auto)
}

/// As [`devices`], with these kernels.
///
/// # Errors
/// As [`devices`].
pub fn devices_with(kernels: Kernels) -> Result<Vec<OpenCl>, Unusable> {
    let mut devices = Vec::new();
    let mut first = None;
    for found in chosen()? {
        let opened = match (found.reason_against, kernels.layout(found.facts)) {
            (Some(reason), _) => Err(found.unusable(reason)),
            (None, None) => Err(found.unusable("it has too little local memory")),
            (None, Some(layout)) => OpenCl::open(&found, kernels, layout).map_err(Unusable::from),
        };
        match opened {
            Ok(device) => devices.push(device),
            Err(why) => first = first.or(Some(why)),
        }
    }
    match first {
        Some(why) if devices.is_empty() => Err(why),
        _ => Ok(devices),
    }
}

impl OpenCl {
    pub(crate) fn inner(&self) -> &Shared {
        &self.0
    }

    pub(crate) fn open(found: &Found, kernels: Kernels, layout: Layout) -> Result<Self, Failure> {
        let context = Context::new(found.device)?;
        let programs = Programs::new(&context, layout)?;
        let layout = programs.layout();
        let groups_of_unit = if found.facts.is_cpu {
            GROUPS_OF_CORE
        } else {
            u32::try_from(THREADS_OF_UNIT / layout.threads).map_or(1, |groups| groups.max(1))
        };
        let units = found.compute_units;
        let description = format!(
            "{}, {units} compute units, {} {}",
            found.name, found.platform_name, found.version
        );
        Ok(Self(Arc::new(Shared {
            service: Arc::new(Service::new(&context)?),
            programs,
            kernels,
            most_groups: units.max(1).saturating_mul(groups_of_unit),
            description,
            found: found.clone(),
        })))
    }

    /// Opens the same device with the kernels in another layout, which may be slower. For
    /// comparisons.
    ///
    /// # Errors
    /// [`Unusable`] if the layout needs more than [`OpenCl::local_memory`], or if the kernels
    /// cannot be built in it.
    pub fn in_layout(&self, layout: Layout) -> Result<Self, Unusable> {
        let found = &self.0.found;
        if layout.local_memory() as u64 > self.local_memory() {
            return Err(found.unusable("it has too little local memory"));
        }
        Ok(Self::open(found, self.0.kernels, layout)?)
    }

    /// Returns the bytes of local memory of a work-group.
    #[must_use]
    pub fn local_memory(&self) -> u64 {
        self.0.found.facts.local_memory
    }

    /// Returns whether no time of the kernels on this device depends on a key or on data. A CPU's
    /// caches show which entries of a table are read, however many copies there are.
    #[must_use]
    pub fn is_constant_time(&self) -> bool {
        let tables = matches!(self.layout().aes, Aes::Tables { .. });
        self.layout().is_constant_time() && !(self.0.found.facts.is_cpu && tables)
    }

    /// Returns the layout of the kernels.
    #[must_use]
    pub fn layout(&self) -> Layout {
        self.0.programs.layout()
    }
}

impl Device for OpenCl {
    type Queue = OpenClQueue;
    type Key = OpenClKey;
    type Memory = OpenClMemory;

    fn name(&self) -> &'static str {
        self.0.kernels.name()
    }

    fn description(&self) -> String {
        self.0.description.clone()
    }

    fn tables(&self) -> Tables {
        self.layout().key_tables()
    }

    fn load_key(&self, words: &KeyWords) -> Result<OpenClKey, DeviceError> {
        // Build the kernels now, if this is the first key of its size.
        self.0.programs.get_or_build(words.size())?;
        Ok(OpenClKey {
            device: Arc::clone(&self.0),
            size: words.size(),
            memory: key_memory(&self.0.service, words)?,
        })
    }

    fn queue(&self, sizes: QueueSizes) -> Result<OpenClQueue, DeviceError> {
        Ok(OpenClQueue::new(&self.0, sizes)?)
    }

    fn alloc(&self, len: usize) -> Option<Buffer> {
        let memory = self.0.service.pinned_for_callers(len).ok()?;
        Some(Buffer::from_owner(memory))
    }

    fn is_pinned(&self, bytes: &[u8]) -> bool {
        self.0.service.ranges.contain(bytes)
    }

    fn memory(&self, len: usize) -> Result<OpenClMemory, DeviceError> {
        Ok(OpenClMemory::zeroed(&self.0.service, Kind::Device, len)?)
    }

    fn write(&self, memory: &mut OpenClMemory, at: usize, bytes: &[u8]) -> Result<(), DeviceError> {
        memory.write(at, bytes)
    }

    fn read(&self, memory: &OpenClMemory, at: usize, bytes: &mut [u8]) -> Result<(), DeviceError> {
        memory.read(at, bytes)
    }

    fn copy(
        &self,
        from: &OpenClMemory,
        to: &mut OpenClMemory,
        len: usize,
    ) -> Result<(), DeviceError> {
        to.copy(from, len)
    }
}
