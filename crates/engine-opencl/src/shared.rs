// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a device's queues and keys share: its memory, and the kernels on it.

use std::sync::Arc;

use luxor_engine_gpu::{AesSize, DeviceError, KeyWords};
use zeroize::Zeroizing;

use crate::{
    cl::Kind,
    discovery::Found,
    memory::{OpenClMemory, Service},
    program::Programs,
};

/// What is shared.
pub(crate) struct Shared {
    pub(crate) service: Arc<Service>,
    pub(crate) programs: Programs,
    /// The most groups of a launch.
    pub(crate) most_groups: usize,
    pub(crate) description: String,
    pub(crate) found: Found,
}

/// A key on a device. Wiped there when dropped.
pub struct OpenClKey {
    pub(crate) device: Arc<Shared>,
    pub(crate) size: AesSize,
    pub(crate) memory: OpenClMemory,
}

/// Memory with a key in it, as kernels read it.
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
