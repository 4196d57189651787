// SPDX-License-Identifier: MIT OR Apache-2.0
//! The sizes and numbers of batches.

/// Sizes and numbers of the batches that are under way at a time. To change one, start from
/// [`Tuning::default`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Tuning {
    /// Bytes of data of a queue: 8 MiB by default. A batch has at most this many bytes, unless it
    /// is one longer data unit. A queue takes half as much again on the device, and the same size
    /// of pinned memory on the host.
    pub batch: usize,
    /// The least bytes of a batch: 1 MiB by default. A call is split over all queues only into
    /// batches of at least this size.
    pub least_batch: usize,
    /// Queues of each device: 4 by default. This many batches are copied and encrypted at a time.
    pub queues: usize,
    /// The most bytes of tweaks of a launch on data in device memory: 64 MiB by default, enough for
    /// 2 GiB of data units of 512 bytes. A queue takes this memory on the device when a call first
    /// needs it. Each launch ends with a part of the device idle, so few long launches are faster.
    pub resident_tweaks: usize,
    /// Runs in pinned memory of at least this many bytes are not staged: 64 KiB by default. A
    /// shorter run is copied to staging memory faster than a transfer of its own starts.
    pub direct: usize,
    /// Calls with fewer bytes are faster on the CPU
    /// ([`BackendInfo::min_batch`](luxor_engine::BackendInfo)): 0 by default.
    pub min_batch: usize,
}

impl Default for Tuning {
    fn default() -> Self {
        Self {
            batch: 8 << 20,
            least_batch: 1 << 20,
            queues: 4,
            resident_tweaks: 64 << 20,
            direct: 64 << 10,
            min_batch: 0,
        }
    }
}
