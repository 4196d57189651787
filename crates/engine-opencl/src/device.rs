// SPDX-License-Identifier: MIT OR Apache-2.0
//! A device with the kernels on it.

use std::sync::Arc;

use luxor_engine::Buffer;
use luxor_engine_gpu::{Device, DeviceError, KeyWords, QueueSizes, Tables};

use crate::{
    cl::{Context, Kind},
    discovery::{Found, chosen},
    error::{Failure, Unusable},
    layout::Layout,
    memory::{OpenClMemory, Service},
    program::Programs,
    queue::OpenClQueue,
    shared::{OpenClKey, Shared, key_memory},
};

/// The backend's name.
pub const NAME: &str = "opencl";

/// Threads that a GPU's compute unit holds at a time, about: more groups wait, and fill
/// their tables for less.
const THREADS_OF_UNIT: usize = 2048;
/// Groups for each core of a CPU, so that none has nothing to do at the end.
const GROUPS_OF_CORE: usize = 4;

/// A device of OpenCL's, ready to run the kernels.
pub struct OpenCl(Arc<Shared>);

/// The devices that a backend uses: the best GPU, and all others of its platform and name;
/// where there is no GPU, a CPU with which somebody wants to test.
///
/// A GPU with memory of its own is better than one that has the CPU's, then one with more
/// compute units. Others are left alone: beside the best one they would be what is waited
/// for, and one GPU may be on several platforms.
///
/// # Errors
/// [`Unusable`]: why there is none, or why the best one is none.
pub fn devices() -> Result<Vec<OpenCl>, Unusable> {
    let mut devices = Vec::new();
    let mut first = None;
    for found in chosen()? {
        let opened = match (found.reason_against, Layout::of(found.facts)) {
            (Some(reason), _) => Err(found.unusable(reason)),
            (None, None) => Err(found.unusable("it has too little local memory")),
            (None, Some(layout)) => OpenCl::open(&found, layout).map_err(Unusable::from),
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

    pub(crate) fn open(found: &Found, layout: Layout) -> Result<Self, Failure> {
        let context = Context::new(found.device)?;
        let programs = Programs::new(&context, layout)?;
        let layout = programs.layout();
        let groups_of_unit = if found.facts.is_cpu {
            GROUPS_OF_CORE
        } else {
            (THREADS_OF_UNIT / layout.threads).max(1)
        };
        let units = found.compute_units;
        let description = format!(
            "{}, {units} compute units, {} {}",
            found.name, found.platform_name, found.version
        );
        Ok(Self(Arc::new(Shared {
            service: Arc::new(Service::new(&context)?),
            programs,
            most_groups: (units as usize).max(1) * groups_of_unit,
            description,
            found: found.clone(),
        })))
    }

    /// The same device with kernels in another form, which may be slower: for comparisons.
    ///
    /// # Errors
    /// [`Failure`], where the device cannot have it.
    pub fn in_layout(&self, layout: Layout) -> Result<Self, Failure> {
        Self::open(&self.0.found, layout)
    }

    /// Which form of the kernels it has.
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
        NAME
    }

    fn description(&self) -> String {
        self.0.description.clone()
    }

    fn tables(&self) -> Tables {
        self.layout().tables
    }

    fn load_key(&self, words: &KeyWords) -> Result<OpenClKey, DeviceError> {
        // Builds the kernels, if this is the first key of its size.
        self.0.programs.of(words.size())?;
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
