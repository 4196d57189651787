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
    /// The 32-bit integers of the device's own vectors.
    pub vector: usize,
}

/// How the kernels compute AES.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aes {
    /// With tables in local memory (`kernels/luxor.cl`).
    Tables {
        /// Copies of each word of a table: 1, 8 or 32.
        replicas: usize,
        /// The tables that the kernels keep.
        tables: Tables,
    },
    /// Without tables, in constant time on every device (`kernels/bitsliced.cl`).
    Bitsliced {
        /// Lanes of a vector: 1 for GPUs, where a work-item has words, or 4, 8 or 16.
        lanes: usize,
    },
}

/// The constants with which the kernels are compiled (`kernels/portability.h`,
/// `kernels/bitsliced_aes.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// How the kernels compute AES.
    pub aes: Aes,
    /// Work-items of a work-group, a multiple of 32.
    pub threads: usize,
}

/// The kernels that a backend runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kernels {
    /// Those that suit each device: [`Layout::select`].
    Auto,
    /// Those with tables, on every device.
    Tables,
    /// Those without tables, on every device.
    Bitsliced,
}

impl Kernels {
    /// Returns the backend's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "opencl",
            Self::Tables => "opencl-tables",
            Self::Bitsliced => "opencl-bitsliced",
        }
    }

    pub(crate) fn layout(self, facts: Facts) -> Option<Layout> {
        match self {
            Self::Auto => Layout::select(facts),
            Self::Tables => Layout::with_tables(facts),
            Self::Bitsliced => Layout::bitsliced(facts),
        }
    }
}

/// Work-items that process a stretch together.
const WARP: usize = 32;
/// The largest work-group for a GPU. Larger ones are not faster.
const MOST_THREADS: usize = 1024;
/// Work-items of a group on a CPU, where a group is a loop on one core. This many make copying the
/// table cheap.
const CPU_THREADS: usize = 256;
/// The most work-items of a group of the bitsliced kernels. More would leave each fewer registers
/// than its state needs.
const BITSLICED_THREADS: usize = 256;
/// The least work-items of a group for two tables with 32 copies. With smaller groups, the tables
/// would leave room for too few groups on a GPU to hide its memory's latency.
const THREADS_FOR_TWO_TABLES: usize = 512;

impl Layout {
    /// Returns the layout for a device, or `None` if it has room for none.
    ///
    /// A GPU with room for a copy of a table for each lane gets tables: no look-up waits for another,
    /// and none shows by its time what it looks up. Every other device gets the bitsliced kernels,
    /// which are in constant time everywhere, and faster on a CPU with vectors (docs/gpu-kernels.md).
    #[must_use]
    pub fn select(facts: Facts) -> Option<Self> {
        match Self::with_tables(facts) {
            Some(layout) if !facts.is_cpu && layout.is_constant_time() => Some(layout),
            _ => Self::bitsliced(facts),
        }
    }

    /// Returns the best layout with tables for a device, or `None` if not even the smallest one fits.
    #[must_use]
    pub fn with_tables(facts: Facts) -> Option<Self> {
        let most = if facts.is_cpu {
            CPU_THREADS
        } else {
            MOST_THREADS
        };
        let threads = threads(facts, most)?;
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
            .filter(|&&candidate| {
                candidate != (32, Tables::Two) || threads >= THREADS_FOR_TWO_TABLES
            })
            .map(|&(replicas, tables)| Self {
                aes: Aes::Tables { replicas, tables },
                threads,
            })
            .find(|layout| layout.local_memory() as u64 <= facts.local_memory)
    }

    /// Returns the layout of the bitsliced kernels for a device.
    #[must_use]
    pub fn bitsliced(facts: Facts) -> Option<Self> {
        let lanes = match facts.vector {
            _ if !facts.is_cpu => 1,
            16.. => 16,
            8..16 => 8,
            _ => 4,
        };
        let layout = Self {
            aes: Aes::Bitsliced { lanes },
            threads: threads(facts, BITSLICED_THREADS)?,
        };
        (layout.local_memory() as u64 <= facts.local_memory).then_some(layout)
    }

    /// Returns whether the time of the kernels on a GPU depends on no key and no data.
    #[must_use]
    pub fn is_constant_time(self) -> bool {
        match self.aes {
            Aes::Tables { replicas, .. } => replicas == WARP,
            Aes::Bitsliced { .. } => true,
        }
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
        size_of::<u32>()
            * match self.aes {
                Aes::Tables { replicas, .. } => 256 * replicas * self.tables(),
                // The round keys of AES-256, with a word for each bit of a column's bytes.
                Aes::Bitsliced { .. } => 15 * 32,
            }
    }

    /// Returns the tables for which the round keys are expanded.
    #[must_use]
    pub fn key_tables(self) -> Tables {
        match self.aes {
            Aes::Tables { tables, .. } => tables,
            // The round keys as they are.
            Aes::Bitsliced { .. } => Tables::One,
        }
    }

    /// Returns the compiler options.
    #[must_use]
    pub fn options(self) -> String {
        let (tables, threads) = (self.tables(), self.threads);
        let (replicas, lanes) = match self.aes {
            Aes::Tables { replicas, .. } => (replicas, String::new()),
            Aes::Bitsliced { lanes } => (1, format!(" -DLANES={lanes}")),
        };
        format!("-cl-std=CL1.2 -DREPLICAS={replicas} -DTABLES={tables} -DTHREADS={threads}{lanes}")
    }

    fn tables(self) -> usize {
        match self.key_tables() {
            Tables::One => 1,
            Tables::Two => 2,
            Tables::Four => 4,
        }
    }
}

/// Returns the work-items of a group, at most `most`, or `None` if the device has not even a warp.
fn threads(facts: Facts, most: usize) -> Option<usize> {
    let threads = facts.work_group.min(most) / WARP * WARP;
    (threads > 0).then_some(threads)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(is_cpu: bool, local_memory: u64, work_group: usize) -> Facts {
        Facts {
            is_cpu,
            local_memory,
            work_group,
            vector: 8,
        }
    }

    fn tables(is_cpu: bool, local_memory: u64, work_group: usize) -> Option<(usize, usize, usize)> {
        let layout = Layout::with_tables(facts(is_cpu, local_memory, work_group))?;
        assert!(layout.local_memory() as u64 <= local_memory);
        match layout.aes {
            Aes::Tables { replicas, .. } => Some((replicas, layout.tables(), layout.threads)),
            Aes::Bitsliced { .. } => None,
        }
    }

    #[test]
    fn each_device_gets_tables_that_fit() {
        // 64 KiB, with a group of 1024 and with a group of 256.
        assert_eq!(tables(false, 65536, 1024), Some((32, 2, 1024)));
        assert_eq!(tables(false, 65536, 256), Some((32, 1, 256)));
        // NVIDIA's library offers 48 KiB.
        assert_eq!(tables(false, 49152, 1024), Some((32, 1, 1024)));
        assert_eq!(tables(false, 32768, 256), Some((32, 1, 256)));
        assert_eq!(tables(false, 32767, 256), Some((8, 2, 256)));
        assert_eq!(tables(false, 16383, 256), Some((8, 1, 256)));
        assert_eq!(tables(false, 8191, 100), Some((1, 4, 96)));
        assert_eq!(tables(false, 4095, 32), Some((1, 1, 32)));
        assert_eq!(tables(false, 1023, 1024), None);
        assert_eq!(tables(false, 65536, 31), None);
        // A CPU gets the small layouts however much local memory it reports.
        assert_eq!(tables(true, 1 << 20, 4096), Some((1, 4, 256)));
        assert_eq!(tables(true, 4095, 64), Some((1, 1, 64)));
    }

    #[test]
    fn only_a_gpu_with_room_for_a_copy_for_each_lane_gets_tables() {
        let of = |is_cpu, local_memory, vector| {
            let layout = Layout::select(Facts {
                vector,
                ..facts(is_cpu, local_memory, 1024)
            })?;
            assert!(layout.is_constant_time());
            match layout.aes {
                Aes::Tables { replicas, .. } => Some(("tables", replicas, layout.threads)),
                Aes::Bitsliced { lanes } => Some(("bitsliced", lanes, layout.threads)),
            }
        };
        assert_eq!(of(false, 32768, 1), Some(("tables", 32, 1024)));
        assert_eq!(of(false, 32767, 1), Some(("bitsliced", 1, 256)));
        assert_eq!(of(false, 1920, 4), Some(("bitsliced", 1, 256)));
        assert_eq!(of(false, 1919, 4), None);
        for (vector, lanes) in [(1, 4), (4, 4), (8, 8), (15, 8), (16, 16), (64, 16)] {
            assert_eq!(of(true, 1 << 20, vector), Some(("bitsliced", lanes, 256)));
        }
    }

    #[test]
    fn groups_are_halved_down_to_a_warp() {
        let mut layout = Layout {
            aes: Aes::Tables {
                replicas: 1,
                tables: Tables::Two,
            },
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
        layout.aes = Aes::Bitsliced { lanes: 16 };
        assert_eq!(
            layout.options(),
            "-cl-std=CL1.2 -DREPLICAS=1 -DTABLES=1 -DTHREADS=32 -DLANES=16"
        );
    }
}
