// SPDX-License-Identifier: MIT OR Apache-2.0
//! Chooses the layout of the kernels for a device.

use luxor_engine_gpu::Tables;

/// The properties of a device that decide its layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Whether the device is a CPU or has no local memory of its own. Its local memory is then
    /// ordinary memory, in which copies of tables only take up cache.
    pub is_cpu: bool,
    /// Bytes of local memory.
    pub local_memory: u64,
    /// The most work-items of a work-group.
    pub work_group: usize,
}

/// The constants with which the kernels are compiled (`kernels/portability.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Copies of each word of a table: 1, 8 or 32.
    pub replicas: usize,
    /// The tables that the kernels keep.
    pub tables: Tables,
    /// Work-items of a work-group, a multiple of 32.
    pub threads: usize,
}

/// Work-items that process a stretch together.
const WARP: usize = 32;
/// The largest work-group for a GPU. Larger ones are not faster.
const MOST_THREADS: usize = 1024;
/// Work-items of a group on a CPU, where a group is a loop on one core. This many make copying the
/// table cheap.
const CPU_THREADS: usize = 256;
/// The least work-items of a group for two tables with 32 copies. With smaller groups, the tables
/// would leave room for too few groups on a GPU to hide its memory's latency.
const THREADS_FOR_TWO_TABLES: usize = 512;

impl Layout {
    /// Returns the best layout for a device, or `None` if not even the smallest one fits.
    #[must_use]
    pub fn of(facts: Facts) -> Option<Self> {
        let most = if facts.is_cpu {
            CPU_THREADS
        } else {
            MOST_THREADS
        };
        let threads = facts.work_group.min(most) / WARP * WARP;
        if threads == 0 {
            return None;
        }
        // Prefer a copy for each of the 32 lanes, each in its own bank, if there is room.
        let gpu = [
            (32, Tables::Two),
            (32, Tables::One),
            (8, Tables::Two),
            (8, Tables::One),
            (1, Tables::Four),
            (1, Tables::One),
        ];
        let candidates = if facts.is_cpu { &gpu[4..] } else { &gpu[..] };
        candidates
            .iter()
            .map(|&(replicas, tables)| Self {
                replicas,
                tables,
                threads,
            })
            .filter(|layout| {
                (layout.replicas, layout.tables) != (32, Tables::Two)
                    || threads >= THREADS_FOR_TWO_TABLES
            })
            .find(|layout| layout.local_memory() as u64 <= facts.local_memory)
    }

    /// Returns the same layout with half as many threads, or `None` below a warp.
    #[must_use]
    pub fn halved(self) -> Option<Self> {
        let threads = self.threads / 2 / WARP * WARP;
        (threads > 0).then_some(Self { threads, ..self })
    }

    /// Returns the bytes of local memory of a work-group.
    #[must_use]
    pub fn local_memory(self) -> usize {
        256 * size_of::<u32>() * self.replicas * self.tables()
    }

    /// Returns the compiler options.
    #[must_use]
    pub fn options(self) -> String {
        let (replicas, tables, threads) = (self.replicas, self.tables(), self.threads);
        format!("-cl-std=CL1.2 -DREPLICAS={replicas} -DTABLES={tables} -DTHREADS={threads}")
    }

    fn tables(self) -> usize {
        match self.tables {
            Tables::One => 1,
            Tables::Two => 2,
            Tables::Four => 4,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(is_cpu: bool, local_memory: u64, work_group: usize) -> Option<(usize, usize, usize)> {
        let layout = Layout::of(Facts {
            is_cpu,
            local_memory,
            work_group,
        })?;
        assert!(layout.local_memory() as u64 <= local_memory);
        Some((layout.replicas, layout.tables(), layout.threads))
    }

    #[test]
    fn each_device_gets_a_layout_that_fits() {
        // 64 KiB, with a group of 1024 and with a group of 256.
        assert_eq!(layout(false, 65536, 1024), Some((32, 2, 1024)));
        assert_eq!(layout(false, 65536, 256), Some((32, 1, 256)));
        // NVIDIA's library offers 48 KiB.
        assert_eq!(layout(false, 49152, 1024), Some((32, 1, 1024)));
        assert_eq!(layout(false, 32768, 256), Some((32, 1, 256)));
        assert_eq!(layout(false, 32767, 256), Some((8, 2, 256)));
        assert_eq!(layout(false, 16383, 256), Some((8, 1, 256)));
        assert_eq!(layout(false, 8191, 100), Some((1, 4, 96)));
        assert_eq!(layout(false, 4095, 32), Some((1, 1, 32)));
        assert_eq!(layout(false, 1023, 1024), None);
        assert_eq!(layout(false, 65536, 31), None);
        // A CPU gets the small layouts however much local memory it reports.
        assert_eq!(layout(true, 1 << 20, 4096), Some((1, 4, 256)));
        assert_eq!(layout(true, 4095, 64), Some((1, 1, 64)));
    }

    #[test]
    fn groups_are_halved_down_to_a_warp() {
        let mut layout = Layout {
            replicas: 1,
            tables: Tables::Two,
            threads: 192,
        };
        let mut threads = Vec::new();
        while let Some(smaller) = layout.halved() {
            threads.push(smaller.threads);
            layout = smaller;
        }
        assert_eq!(threads, [96, 32]);
        assert_eq!(
            layout.options(),
            "-cl-std=CL1.2 -DREPLICAS=1 -DTABLES=2 -DTHREADS=32"
        );
    }
}
