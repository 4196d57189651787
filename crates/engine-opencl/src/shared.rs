// SPDX-License-Identifier: MIT OR Apache-2.0
//! The state that a device's queues and keys share: its memory and its kernels.

use std::sync::Arc;

use luxor_engine_gpu::{AesSize, DeviceError, KeyWords};
use zeroize::Zeroizing;

use crate::{
    cl::Kind,
    discovery::Found,
    layout::Kernels,
    memory::{OpenClMemory, Service},
    program::Programs,
};

/// The shared state of a device.
pub(crate) struct Shared {
    pub(crate) service: Arc<Service>,
    pub(crate) programs: Programs,
    /// What was asked for.
    pub(crate) kernels: Kernels,
    /// The most work-groups of a launch.
    pub(crate) most_groups: u32,
    pub(crate) description: String,
    pub(crate) found: Found,
}

/// A key on a device. Wiped there when dropped.
pub struct OpenClKey {
    pub(crate) device: Arc<Shared>,
    pub(crate) size: AesSize,
    pub(crate) memory: OpenClMemory,
}

/// Allocates device memory that holds a key in the kernels' format.
pub(crate) fn key_memory(
    service: &Arc<Service>,
    words: &KeyWords,
) -> Result<OpenClMemory, DeviceError> {
    let bytes = words.expose().iter().flat_map(|word| word.to_le_bytes());
    let mut key = Zeroizing::new([0; size_of::<[u32; luxor_engine_gpu::keys::KEY_WORDS]>()]);
    key.iter_mut().zip(bytes).for_each(|(to, byte)| *to = byte);
    let mut memory = OpenClMemory::zeroed(service, Kind::Constant, key.len())?;
    memory.write(0, &*key)?;
    Ok(memory)
}
