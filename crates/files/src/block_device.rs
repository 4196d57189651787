// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the system reports about block devices: the devices and files below them, and their users.
//! All of it comes from `/sys` and `/proc`. Without these nothing is known, and only `O_EXCL`
//! protects a device.

use std::{
    ffi::OsString,
    fs::{self, Metadata},
    ops::Range,
    os::unix::{
        ffi::OsStringExt,
        fs::{FileTypeExt, MetadataExt},
    },
    path::{Path, PathBuf},
};

use nix::sys::stat::{major, makedev, minor};

/// The identity of a file. It is the same for hard links, symbolic links and all nodes of one
/// device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileIdentity {
    /// A regular file.
    File {
        /// The file system.
        dev: u64,
        /// The inode number.
        ino: u64,
    },
    /// A block device.
    Device {
        /// The device number.
        rdev: u64,
    },
}

impl FileIdentity {
    /// Returns the identity; `None` for anything but regular files and block devices.
    #[must_use]
    pub fn from_metadata(metadata: &Metadata) -> Option<Self> {
        if metadata.is_file() {
            Some(Self::File {
                dev: metadata.dev(),
                ino: metadata.ino(),
            })
        } else if metadata.file_type().is_block_device() {
            Some(Self::Device {
                rdev: metadata.rdev(),
            })
        } else {
            None
        }
    }

    /// Returns whether a write to one of them changes the other. That is so if they are the same,
    /// or if one is the disk of the partition, the backing file of the loop device, or a device
    /// below the mapped device, that the other is; or if two loop devices have the same backing
    /// file. Two partitions of one disk do not overlap.
    #[must_use]
    pub fn overlaps(self, other: Self) -> bool {
        let (own, others) = (self.foundations(), other.foundations());
        own.contains(&other)
            || others.contains(&self)
            || shows_through_loop(&own, &others)
            || shows_through_loop(&others, &own)
    }

    /// Returns what uses the file or device and would not notice writes to it, in words:
    /// `mounted at /srv`, `in use by /dev/loop0`. Uses of another device that shows some of its
    /// bytes count too: a partition, or a loop device over the same part of a file.
    #[must_use]
    pub fn user(self) -> Option<String> {
        // Only loop devices, or devices upon one, can show a file; `loop_device` finds those.
        if let Self::Device { .. } = self {
            let is_this = |rdev| self.shares_bytes(Self::Device { rdev });
            if let Ok(mounts) = fs::read("/proc/self/mountinfo")
                && let Some(place) = mounted_at(&mounts, is_this)
            {
                return Some(format!("mounted at {}", crate::path_name(&place)));
            }
            for device in entries(Path::new("/sys/class/block")) {
                if let Some(holder) = entries(&device.join("holders")).first()
                    && let Some(name) = holder.file_name()
                    && device_number(&device.join("dev")).is_some_and(is_this)
                {
                    return Some(format!("in use by /dev/{}", name.display()));
                }
            }
        }
        Some(format!("in use by {}", self.loop_device()?))
    }

    /// Returns a loop device that shows some of its bytes, such as `/dev/loop0`. That device lies
    /// over it or over the same file, but not below it.
    #[must_use]
    pub fn loop_device(self) -> Option<String> {
        let own = self.foundations();
        let devices = entries(Path::new("/sys/block"));
        let device = devices.iter().find(|device| {
            backing_file(device).is_some()
                && device_number(&device.join("dev"))
                    .map(|rdev| Self::Device { rdev })
                    .is_some_and(|device| !own.contains(&device) && self.shares_bytes(device))
        })?;
        Some(format!("/dev/{}", device.file_name()?.display()))
    }

    /// Returns the device of a partition of this disk that has one of these bytes, such as
    /// `/dev/sda2`. `None` if this is no disk, or has no partition there with a device.
    pub(crate) fn partition_over(self, range: &Range<u64>) -> Option<String> {
        let Self::Device { rdev } = self else {
            return None;
        };
        partition_over(&sysfs(rdev), Path::new("/dev"), range)
    }

    /// Returns whether both show a byte of the same file or device. What lies below a mapped device
    /// is not considered.
    fn shares_bytes(self, other: Self) -> bool {
        let ((below, own), (other, others)) = (self.part(), other.part());
        below == other && own.start < others.end && others.start < own.end
    }

    /// Returns the file or device below all partitions and loop devices, and the range of its bytes
    /// that this one shows.
    fn part(self) -> (Self, Range<u64>) {
        let (mut below, mut begin, mut len) = (self, 0_u64, u64::MAX);
        // Limited, because the path of a backing file may by now name another file, even this
        // device.
        for _ in 0..64 {
            let Self::Device { rdev } = below else { break };
            let folder = sysfs(rdev);
            let number = |name: &str| -> Option<u64> {
                let text = fs::read_to_string(folder.join(name)).ok()?;
                text.trim().parse().ok()
            };
            // `/sys` counts in sectors of 512 bytes, whatever the device's sector size.
            let next = if folder.join("partition").exists() {
                let disk = device_number(&folder.join("../dev"));
                let start = number("start").map(|start| start.saturating_mul(512));
                disk.map(|rdev| Self::Device { rdev }).zip(start)
            } else {
                backing_file(&folder).zip(number("loop/offset"))
            };
            if let Some(size) = number("size") {
                // Treat an empty loop device as one byte, because its file may grow.
                len = len.min(size.saturating_mul(512)).max(1);
            }
            let Some((next, offset)) = next else { break };
            (below, begin) = (next, begin.saturating_add(offset));
        }
        (below, begin..begin.saturating_add(len))
    }

    /// Returns itself and everything below it.
    fn foundations(self) -> Vec<Self> {
        let mut found = vec![self];
        let mut next = 0;
        while let Some(&identity) = found.get(next) {
            next += 1;
            let Self::Device { rdev } = identity else {
                continue;
            };
            for below in directly_below(rdev) {
                if !found.contains(&below) {
                    found.push(below);
                }
            }
        }
        found
    }
}

/// Returns the device of a partition that has a byte of `range`, from the folder of its disk in `/sys` and
/// that of the devices.
fn partition_over(disk: &Path, devices: &Path, range: &Range<u64>) -> Option<String> {
    entries(disk).into_iter().find_map(|folder| {
        let number = |name: &str| -> Option<u64> {
            let text = fs::read_to_string(folder.join(name)).ok()?;
            text.trim().parse().ok()
        };
        number("partition")?;
        // `/sys` counts in sectors of 512 bytes, whatever the disk's sector size.
        let begin = number("start")?.saturating_mul(512);
        let end = begin.saturating_add(number("size")?.saturating_mul(512));
        let device = devices.join(folder.file_name()?);
        let is_over = begin < range.end && range.start < end && device.exists();
        is_over.then(|| device.display().to_string())
    })
}

/// Returns whether a loop device in `one`, which is not in `other`, has a backing file in `other`.
fn shows_through_loop(one: &[FileIdentity], other: &[FileIdentity]) -> bool {
    one.iter().any(|identity| match *identity {
        FileIdentity::Device { rdev } => {
            !other.contains(identity)
                && backing_file(&sysfs(rdev)).is_some_and(|below| other.contains(&below))
        }
        FileIdentity::File { .. } => false,
    })
}

fn directly_below(rdev: u64) -> Vec<FileIdentity> {
    let folder = sysfs(rdev);
    let mut below = Vec::new();
    if folder.join("partition").exists() {
        below.extend(device_number(&folder.join("../dev")));
    }
    for slave in entries(&folder.join("slaves")) {
        below.extend(device_number(&slave.join("dev")));
    }
    let mut below: Vec<_> = below
        .into_iter()
        .map(|rdev| FileIdentity::Device { rdev })
        .collect();
    below.extend(backing_file(&folder));
    below
}

/// Returns where a device is mounted for which `is_meant` returns true. `mounts` is proc(5)'s
/// `mountinfo`.
fn mounted_at(mounts: &[u8], is_meant: impl Fn(u64) -> bool) -> Option<PathBuf> {
    mounts.split(|&b| b == b'\n').find_map(|line| {
        let fields: Vec<&[u8]> = line.split(|&b| b == b' ').collect();
        let number = parse_number(std::str::from_utf8(fields.get(2)?).ok()?);
        let separator = fields.iter().position(|&field| field == b"-")?;
        // btrfs has device numbers of its own, so the mount source is checked too.
        let source = || {
            let source = fs::metadata(unescaped(fields.get(separator + 2)?)).ok()?;
            source.file_type().is_block_device().then(|| source.rdev())
        };
        (number.is_some_and(&is_meant) || source().is_some_and(&is_meant))
            .then(|| unescaped(fields[4]))
    })
}

/// `mountinfo` writes space, tab, newline and backslash as `\040` and so on.
fn unescaped(field: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&first, tail)) = rest.split_first() {
        let code = tail
            .get(..3)
            .and_then(|digits| std::str::from_utf8(digits).ok());
        match code.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) if first == b'\\' => {
                bytes.push(byte);
                rest = &tail[3..];
            }
            _ => {
                bytes.push(first);
                rest = tail;
            }
        }
    }
    OsString::from_vec(bytes).into()
}

fn backing_file(folder: &Path) -> Option<FileIdentity> {
    let mut path = fs::read(folder.join("loop/backing_file")).ok()?;
    path.pop_if(|last| *last == b'\n');
    FileIdentity::from_metadata(&fs::metadata(OsString::from_vec(path)).ok()?)
}

fn sysfs(rdev: u64) -> PathBuf {
    format!("/sys/dev/block/{}:{}", major(rdev), minor(rdev)).into()
}

fn device_number(path: &Path) -> Option<u64> {
    parse_number(fs::read_to_string(path).ok()?.trim())
}

fn parse_number(text: &str) -> Option<u64> {
    let (major, minor) = text.split_once(':')?;
    Some(makedev(major.parse().ok()?, minor.parse().ok()?))
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Loop, alone};

    fn identity(path: &Path) -> FileIdentity {
        FileIdentity::from_metadata(&fs::metadata(path).unwrap()).unwrap()
    }

    #[test]
    fn a_loop_device_is_its_file() {
        let _alone = alone();
        let folder = tempfile::tempdir().unwrap();
        let [file, other] = ["a file", "other"].map(|name| folder.path().join(name));
        fs::write(&file, [0; 8192]).unwrap();
        fs::write(&other, [0; 8192]).unwrap();
        let link = folder.path().join("link");
        fs::hard_link(&file, &link).unwrap();
        assert!(identity(&file).overlaps(identity(&link)));
        assert!(!identity(&file).overlaps(identity(&other)));
        assert_eq!(identity(&file).loop_device(), None);

        let device = Loop::over(&file);
        assert!(identity(&device.0).overlaps(identity(&link)));
        assert!(identity(&link).overlaps(identity(&device.0)));
        assert!(!identity(&device.0).overlaps(identity(&other)));
        assert_eq!(identity(&link).loop_device().unwrap(), device.name());

        let twin = Loop::over(&file);
        assert!(identity(&twin.0).overlaps(identity(&device.0)));
        let unrelated = Loop::over(&other);
        assert!(!identity(&unrelated.0).overlaps(identity(&device.0)));
        drop(twin);

        let above = Loop::over(&device.0);
        let beside = Loop::over(&device.0);
        assert!(identity(&above.0).overlaps(identity(&beside.0)));
        drop(beside);
        assert!(identity(&above.0).overlaps(identity(&file)));
        assert_eq!(
            identity(&device.0).user().unwrap(),
            format!("in use by {}", above.name())
        );
    }

    #[test]
    fn loop_devices_over_one_part_of_a_file_are_found() {
        let _alone = alone();
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(4 << 20).unwrap();
        let beside = |device: &Loop| identity(&device.0).loop_device();
        let name = |device: &Loop| Some(device.name().to_owned());

        let first = Loop::with(file.path(), &["--sizelimit", "1048576"]);
        let behind = Loop::with(file.path(), &["--offset", "1048576"]);
        assert_eq!((beside(&first), beside(&behind)), (None, None));
        let across = Loop::with(
            file.path(),
            &["--offset", "524288", "--sizelimit", "524288"],
        );
        assert_eq!(
            (beside(&first), beside(&across)),
            (name(&across), name(&first))
        );
        assert_eq!(beside(&behind), None);
        drop(across);

        // The last 512 KiB of `first`, which begin at 512 KiB in the file.
        let above = Loop::with(&first.0, &["--offset", "524288"]);
        assert_eq!(beside(&above), None);
        assert_eq!(beside(&first), name(&above));
        let before = Loop::with(file.path(), &["--sizelimit", "524288"]);
        assert_eq!(beside(&above), None);
        let across = Loop::with(
            file.path(),
            &["--offset", "1044480", "--sizelimit", "524288"],
        );
        assert_eq!(beside(&above), name(&across));
        assert_eq!(beside(&before), name(&first));
        drop((above, before, first));
        assert_eq!(beside(&across), name(&behind));
    }

    #[test]
    fn mounts_are_found_in_mountinfo() {
        let mounts = b"22 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
            30 22 8:2 / /srv/my\\040disk rw,relatime shared:7 master:1 - ext4 /dev/sda2 rw\n\
            31 22 0:44 / /proc/x rw - proc proc rw\nrubbish\n31 22\n";
        let at = |device: u64| mounted_at(mounts, |mounted| mounted == device);
        assert_eq!(at(makedev(8, 1)), Some("/".into()));
        assert_eq!(at(makedev(8, 2)), Some("/srv/my disk".into()));
        assert_eq!(at(makedev(8, 3)), None);
        assert_eq!(unescaped(br"a\134b\0"), PathBuf::from(r"a\b\0"));
    }

    #[test]
    fn the_devices_of_partitions_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let [disk, devices] = ["sda", "dev"].map(|name| folder.path().join(name));
        for (name, start, size) in [("sda1", 8, 8), ("sda2", 16, 100), ("sda9", 200, 1)] {
            let part = disk.join(name);
            fs::create_dir_all(&part).unwrap();
            let digits = name.trim_start_matches("sda");
            fs::write(part.join("partition"), format!("{digits}\n")).unwrap();
            fs::write(part.join("start"), format!("{start}\n")).unwrap();
            fs::write(part.join("size"), format!("{size}\n")).unwrap();
        }
        fs::create_dir_all(disk.join("queue")).unwrap();
        fs::create_dir(&devices).unwrap();
        for name in ["sda1", "sda2"] {
            fs::write(devices.join(name), "").unwrap();
        }
        let over = |range: Range<u64>| {
            let device = partition_over(&disk, &devices, &range)?;
            Some(device.rsplit('/').next().unwrap().to_owned())
        };
        assert_eq!(over(0..8 * 512), None);
        assert_eq!(over(0..8 * 512 + 1), Some("sda1".to_owned()));
        assert_eq!(over(16 * 512..17 * 512), Some("sda2".to_owned()));
        assert_eq!(
            over(116 * 512..u64::MAX),
            None,
            "the node of sda9 is missing"
        );
        assert_eq!(
            partition_over(Path::new("/nowhere"), &devices, &(0..9)),
            None
        );
    }

    #[test]
    fn nothing_is_known_of_a_device_that_is_not_there() {
        let rdev = makedev(4095, 1_000_000);
        assert_eq!(FileIdentity::Device { rdev }.user(), None);
        let file = tempfile::NamedTempFile::new().unwrap();
        assert_eq!(identity(file.path()).user(), None);
        assert_eq!(
            FileIdentity::from_metadata(&fs::metadata("/dev/null").unwrap()),
            None
        );
        assert_eq!(
            FileIdentity::from_metadata(&fs::metadata("/").unwrap()),
            None
        );
    }
}
