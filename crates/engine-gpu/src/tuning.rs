// SPDX-License-Identifier: MIT OR Apache-2.0
//! How long batches are, and how many are under way.

/// How much is under way at a time, and in which portions.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Tuning {
    /// Bytes of data of a queue, 8 MiB by default: a batch has no more, but where one data
    /// unit has. On the device is half as much again, and on the host, pinned, as much.
    pub batch: usize,
    /// A call is cut into batches for all queues as long as they have so many bytes: 1 MiB.
    pub least_batch: usize,
    /// Queues of a device: 4. So many batches are copied and encrypted at a time.
    pub queues: usize,
    /// Runs of so many bytes in pinned memory are not staged: 64 KiB. What is shorter is
    /// sooner copied than a copy of its own is begun.
    pub direct: usize,
    /// Calls with fewer bytes are faster on the CPU ([`BackendInfo::min_batch`](luxor_engine::BackendInfo::min_batch)): 0.
    pub min_batch: usize,
}

impl Default for Tuning {
    fn default() -> Self {
        Self {
            batch: 8 << 20,
            least_batch: 1 << 20,
            queues: 4,
            direct: 64 << 10,
            min_batch: 0,
        }
    }
}
