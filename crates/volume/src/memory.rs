// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds out how much memory is available before Argon2 allocates it. The kernel may kill a process
//! that uses too much, without any error.

use std::{
    fmt, fs,
    path::{Path, PathBuf},
};

use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit};

/// The limit that bounds the available memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MemoryBound {
    /// `MemAvailable` in `/proc/meminfo`.
    System,
    /// The limit of the process's control group, or of one of its parents.
    ControlGroup,
    /// `RLIMIT_AS`, the limit of the process's address space.
    AddressSpace,
}

impl fmt::Display for MemoryBound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::System => "the machine's available memory",
            Self::ControlGroup => "the control group's memory limit",
            Self::AddressSpace => "the address space limit (ulimit -v)",
        })
    }
}

/// The memory that the process can allocate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AvailableMemory {
    pub kib: u64,
    pub bound: MemoryBound,
}

/// Returns the least of what machine, control group and address space allow. `None` if the system
/// reports none of them.
pub(crate) fn available() -> Option<AvailableMemory> {
    let limit = getrlimit(Resource::RLIMIT_AS).map_or(RLIM_INFINITY, |(soft, _)| soft);
    let limit_kib = (limit != RLIM_INFINITY).then_some(limit / 1024);
    available_in(Path::new("/"), limit_kib)
}

/// Returns the physical memory of the machine in KiB.
pub(crate) fn physical_kib() -> Option<u64> {
    kib_line(&fs::read_to_string("/proc/meminfo").ok()?, "MemTotal:")
}

fn available_in(root: &Path, address_space_kib: Option<u64>) -> Option<AvailableMemory> {
    let read = |path: &str| fs::read_to_string(root.join(path)).ok();
    let system = || kib_line(&read("proc/meminfo")?, "MemAvailable:");
    let address_space = || {
        let used = kib_line(&read("proc/self/status")?, "VmSize:").unwrap_or(0);
        Some(address_space_kib?.saturating_sub(used))
    };
    [
        (MemoryBound::System, system()),
        (MemoryBound::ControlGroup, control_group_kib(root)),
        (MemoryBound::AddressSpace, address_space()),
    ]
    .into_iter()
    .filter_map(|(bound, kib)| Some(AvailableMemory { kib: kib?, bound }))
    .min_by_key(|available| available.kib)
}

/// Returns how much memory the process's control group and all its parents allow.
fn control_group_kib(root: &Path) -> Option<u64> {
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).ok()?;
    // Each line is "hierarchy:controllers:path". Version 2 has an empty list of controllers.
    let bytes = groups.lines().filter_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?);
        if controllers.is_empty() {
            least_along(&root.join("sys/fs/cgroup"), path, &CgroupVersion::V2)
        } else if controllers.split(',').any(|name| name == "memory") {
            least_along(&root.join("sys/fs/cgroup/memory"), path, &CgroupVersion::V1)
        } else {
            None
        }
    });
    Some(bytes.min()? / 1024)
}

enum CgroupVersion {
    V1,
    V2,
}

/// Returns the least that the group at `path` and its parents up to `mount` allow, in bytes.
fn least_along(mount: &Path, path: &str, version: &CgroupVersion) -> Option<u64> {
    // In a container the path may lead outside of the mount. The mount is then the container's own
    // group.
    let inside: PathBuf = Path::new(path.trim_start_matches('/'))
        .components()
        .filter(|part| matches!(part, std::path::Component::Normal(_)))
        .collect();
    let group = mount.join(inside);
    group
        .ancestors()
        .take_while(|ancestor| ancestor.starts_with(mount))
        .filter_map(|group| left_in(group, version))
        .min()
}

/// Returns how much one group allows: its limit less its usage. The page cache does not count as
/// used, because the kernel reclaims it.
fn left_in(group: &Path, version: &CgroupVersion) -> Option<u64> {
    let (limit, usage, cache) = match version {
        CgroupVersion::V1 => (
            "memory.limit_in_bytes",
            "memory.usage_in_bytes",
            ["total_inactive_file", "total_active_file"],
        ),
        CgroupVersion::V2 => (
            "memory.max",
            "memory.current",
            ["inactive_file", "active_file"],
        ),
    };
    let number = |name: &str| -> Option<u64> {
        fs::read_to_string(group.join(name))
            .ok()?
            .trim()
            .parse()
            .ok()
    };
    // Without a limit the text is "max", which does not parse.
    let limit = number(limit)?;
    let usage = number(usage)?;
    let statistics = fs::read_to_string(group.join("memory.stat")).unwrap_or_default();
    let cached: u64 = statistics
        .lines()
        .filter_map(|line| line.split_once(' '))
        .filter(|(name, _)| cache.contains(name))
        .filter_map(|(_, value)| value.trim().parse::<u64>().ok())
        .fold(0, u64::saturating_add);
    Some(limit.saturating_sub(usage.saturating_sub(cached)))
}

/// Returns the number in a line such as `MemTotal:   24111000 kB`.
fn kib_line(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    const MEMINFO: (&str, &str) = (
        "proc/meminfo",
        "MemTotal:  24000000 kB\nMemFree: 1 kB\nMemAvailable:   20000000 kB\n",
    );
    const STATUS: (&str, &str) = ("proc/self/status", "Name:\tluxor\nVmSize:\t   50000 kB\n");

    #[test]
    fn the_least_bound_counts() {
        let root = machine(&[MEMINFO, STATUS]);
        let system = AvailableMemory {
            kib: 20_000_000,
            bound: MemoryBound::System,
        };
        assert_eq!(available_in(root.path(), None), Some(system));
        assert_eq!(available_in(root.path(), Some(1 << 40)), Some(system));
        let address_space = AvailableMemory {
            kib: 150_000,
            bound: MemoryBound::AddressSpace,
        };
        assert_eq!(
            available_in(root.path(), Some(200_000)),
            Some(address_space)
        );
        let none = AvailableMemory {
            kib: 0,
            bound: MemoryBound::AddressSpace,
        };
        assert_eq!(available_in(root.path(), Some(10)), Some(none));
        assert_eq!(available_in(machine(&[]).path(), None), None);
    }

    #[test]
    fn version_2_groups_bound_up_to_the_mount() {
        let base = "sys/fs/cgroup";
        let files = |inner: &'static str, outer: &'static str| {
            machine(&[
                MEMINFO,
                ("proc/self/cgroup", "0::/outer/inner\n"),
                (&format!("{base}/outer/inner/memory.max"), inner),
                (&format!("{base}/outer/inner/memory.current"), "1048576\n"),
                (&format!("{base}/outer/memory.max"), outer),
                (&format!("{base}/outer/memory.current"), "3145728\n"),
                (
                    &format!("{base}/outer/memory.stat"),
                    "anon 5\ninactive_file 1048576\nactive_file 1048576\nfile 7\n",
                ),
            ])
        };
        let group = |kib| {
            Some(AvailableMemory {
                kib,
                bound: MemoryBound::ControlGroup,
            })
        };
        assert_eq!(
            available_in(files("5242880\n", "max\n").path(), None),
            group(4096)
        );
        // 9 MiB less 3 MiB used, 2 MiB of which are page cache.
        assert_eq!(
            available_in(files("max\n", "9437184\n").path(), None),
            group(8192)
        );
        assert_eq!(
            available_in(files("1000\n", "max\n").path(), None),
            group(0)
        );
        let unlimited = available_in(files("max\n", "max\n").path(), None).unwrap();
        assert_eq!(unlimited.bound, MemoryBound::System);
    }

    #[test]
    fn version_1_groups_bound_too_and_foreign_paths_do_not_mislead() {
        let root = machine(&[
            MEMINFO,
            (
                "proc/self/cgroup",
                "5:cpu,cpuacct:/x\n4:memory:/../../docker/abc\n0::/\n",
            ),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "8388608\n"),
            ("sys/fs/cgroup/memory/memory.usage_in_bytes", "4194304\n"),
            (
                "sys/fs/cgroup/memory/memory.stat",
                "inactive_file 9\ntotal_inactive_file 1048576\n",
            ),
        ]);
        let group = AvailableMemory {
            kib: 5120,
            bound: MemoryBound::ControlGroup,
        };
        assert_eq!(available_in(root.path(), None), Some(group));
    }

    #[test]
    fn this_machine_reports_its_memory() {
        assert!(physical_kib().unwrap() >= available().unwrap().kib);
    }
}
