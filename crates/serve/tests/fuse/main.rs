// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests a disk as a file, through the kernel. Mounting needs root.

// The lengths are a few MiB.
#![allow(clippy::cast_possible_truncation)]

mod disk;

use std::{
    ffi::{OsStr, OsString},
    fs::{self, File},
    io,
    os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    process::Command,
    sync::{Arc, atomic::Ordering},
    thread::{self, JoinHandle},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use luxor_sector::{Disk, SectorSize};
use luxor_serve::{
    Export, Frontend, ServeError,
    fuse::{FileName, MAX_REQUEST, MountError, MountOptions, MountPoint, Mounted, Unmounter},
};
use nix::{
    errno::Errno,
    fcntl::{FallocateFlags, OFlag, fallocate},
    unistd::{Whence, geteuid, lseek},
};
use tempfile::TempDir;

use disk::disk;

/// Not a multiple of any sector size.
const LEN: u64 = 5_000_001;

#[test]
fn reads_and_writes_at_any_byte_are_those_of_a_file() {
    for sector_size in [SectorSize::B512, SectorSize::B4096] {
        let (_, disk) = disk(LEN, sector_size, false);
        let mount = Mount::new(disk.clone());
        let file = mount.open();
        let mut model = vec![0; LEN as usize];
        let mut random = Random(sector_size.bytes() as u64);
        for _ in 0..400 {
            let offset = random.below(LEN);
            let len = match random.below(4) {
                0 => random.below(16),
                1 => random.below(9000),
                2 => 4096,
                _ => random.below(3 * u64::from(MAX_REQUEST)),
            };
            let end = (offset + len).min(LEN);
            let range = offset as usize..end as usize;
            if random.below(2) == 0 {
                let bytes = random.bytes(range.len());
                file.write_all_at(&bytes, offset).unwrap();
                model[range].copy_from_slice(&bytes);
            } else {
                let mut bytes = vec![0; range.len()];
                file.read_exact_at(&mut bytes, offset).unwrap();
                assert!(bytes == model[range], "{len} bytes at {offset}");
            }
        }
        let mut all = Vec::new();
        io::Read::read_to_end(&mut &file, &mut all).unwrap();
        assert!(all == model);
        drop(file);
        mount.unmount().unwrap();

        let mut all = vec![0; LEN as usize];
        disk.read(&mut all, 0).unwrap();
        assert!(all == model);
    }
}

#[test]
fn many_threads_write_and_read_at_once() {
    let mount = Mount::new(disk(LEN, SectorSize::B4096, false).1);
    let file = mount.open();
    // Stripes that share sectors with their neighbours.
    let stripe = LEN / 16;
    thread::scope(|scope| {
        for i in 0..16 {
            let file = &file;
            scope.spawn(move || {
                let mut random = Random(i);
                for _ in 0..20 {
                    let bytes = random.bytes(stripe as usize);
                    file.write_all_at(&bytes, i * stripe).unwrap();
                    let mut back = vec![0; bytes.len()];
                    file.read_exact_at(&mut back, i * stripe).unwrap();
                    assert!(back == bytes, "stripe {i}");
                }
            });
        }
    });
}

#[test]
fn the_file_is_the_owners_and_as_long_as_the_disk() {
    for (read_only, mode) in [(false, 0o100_600), (true, 0o100_400)] {
        let mount = Mount::new(disk(LEN, SectorSize::B512, read_only).1);
        let metadata = fs::metadata(mount.file()).unwrap();
        assert_eq!(metadata.len(), LEN);
        assert_eq!(metadata.mode(), mode);
        assert_eq!(metadata.uid(), geteuid().as_raw());
        let folder = fs::metadata(mount.folder.path()).unwrap();
        assert_eq!(folder.mode(), 0o40_500);
        let names: Vec<OsString> = fs::read_dir(mount.folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert_eq!(names, ["plain text"]);

        let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
        let folder = mount.folder.path().to_str().unwrap();
        let line = mounts.lines().find(|line| line.contains(folder)).unwrap();
        let fields: Vec<_> = line.split(' ').collect();
        assert_eq!(fields[0], "my_volume");
        assert_eq!(fields[2], "fuse.luxor");
        for option in ["nodev", "nosuid", "noexec", "default_permissions"] {
            assert!(fields[3].split(',').any(|o| o == option), "{line}");
        }
        assert!(!fields[3].contains("allow_other"), "{line}");
        assert_eq!(
            fields[3].split(',').next() == Some("ro"),
            read_only,
            "{line}"
        );
    }
}

#[test]
fn writes_beyond_the_end_fail() {
    let mount = Mount::new(disk(LEN, SectorSize::B512, false).1);
    let file = mount.open();
    // As on a full device, the part that fits is written.
    assert_eq!(file.write_at(&[7; 100], LEN - 10).unwrap(), 10);
    for offset in [LEN, LEN + 1, 1 << 40] {
        let error = file.write_at(&[7], offset).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull, "{offset}");
        assert_eq!(file.read_at(&mut [0; 10], offset).unwrap(), 0, "{offset}");
    }
    let mut end = [0; 100];
    assert_eq!(file.read_at(&mut end, LEN - 11).unwrap(), 11);
    assert_eq!(end[..11], [0, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7]);
    let appending = File::options().append(true).open(mount.file()).unwrap();
    let error = io::Write::write(&mut &appending, &[7]).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    assert_eq!(file.metadata().unwrap().len(), LEN);
}

#[test]
fn nothing_is_created_renamed_truncated_or_removed() {
    let mount = Mount::new(disk(LEN, SectorSize::B512, false).1);
    let (file, other) = (mount.file(), mount.folder.path().join("other"));
    let denied = |what: &str, result: io::Result<()>| {
        let error = result.expect_err(what);
        assert_eq!(error.raw_os_error(), Some(Errno::EPERM as i32), "{what}");
    };
    denied("create", File::create(&other).map(drop));
    denied("mkdir", fs::create_dir(&other));
    denied("symlink", std::os::unix::fs::symlink("x", &other));
    denied("link", fs::hard_link(&file, &other));
    denied("rename", fs::rename(&file, &other));
    denied("unlink", fs::remove_file(&file));
    denied("O_TRUNC", File::create(&file).map(drop));
    denied("shorten", mount.open().set_len(LEN - 1));
    denied("lengthen", mount.open().set_len(LEN + 1));
    let mode = fs::Permissions::from_mode(0o666);
    denied("chmod", fs::set_permissions(&file, mode));
    denied("chown", std::os::unix::fs::chown(&file, Some(1), None));
    mount.open().set_len(LEN).unwrap();
    assert_eq!(fs::metadata(&file).unwrap().len(), LEN);
}

#[test]
fn a_read_only_disk_is_a_read_only_file() {
    let (storage, disk) = disk(LEN, SectorSize::B512, true);
    let mount = Mount::new(disk);
    for options in [
        File::options().write(true),
        File::options().read(true).write(true),
        File::options().append(true),
    ] {
        let error = options.open(mount.file()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ReadOnlyFilesystem);
    }
    assert_eq!(fs::read(mount.file()).unwrap(), vec![0; LEN as usize]);
    mount.unmount().unwrap();
    assert_eq!(storage.syncs.load(Ordering::SeqCst), 0);
}

#[test]
fn fsync_close_and_unmounting_reach_the_storage() {
    let (storage, disk) = disk(LEN, SectorSize::B512, false);
    let mount = Mount::new(disk);
    let file = mount.open();
    storage.must_be_synced(|| {
        file.write_all_at(b"x", 1000).unwrap();
        file.sync_all().unwrap();
    });
    storage.must_be_synced(|| {
        file.write_all_at(b"x", 2000).unwrap();
        file.sync_data().unwrap();
    });
    storage.must_be_synced(|| {
        file.write_all_at(b"x", 3000).unwrap();
        drop(file);
    });
    // A mapping is never closed. Python can make one, and this script never syncs it.
    let script = "import mmap, os, sys
fd = os.open(sys.argv[1], os.O_RDWR)
memory = mmap.mmap(fd, 0)
os.close(fd)
memory[4000:4003] = b'map'
os._exit(0)";
    let mut python = Command::new("/usr/bin/python3");
    python.args(["-c", script]).arg(mount.file());
    let disk = mount.disk.clone();
    storage.must_be_synced(|| {
        assert!(python.status().unwrap().success());
        mount.unmount().unwrap();
    });
    let mut bytes = [0; 5];
    disk.read(&mut bytes, 3999).unwrap();
    assert_eq!(&bytes, b"\0map\0");
}

#[test]
fn errors_of_the_storage_are_the_files() {
    let (storage, disk) = disk(LEN, SectorSize::B512, false);
    let mount = Mount::new(disk);
    let file = mount.open();
    file.write_all_at(&[1; 512], 0).unwrap();
    storage.fails.store(true, Ordering::SeqCst);
    let full = |error: io::Error| assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    full(file.write_at(&[2; 512], 512).unwrap_err());
    full(file.read_at(&mut [0; 512], 0).unwrap_err());
    // If the mount has tried to sync by itself meanwhile, data may already be lost.
    let code = file.sync_all().unwrap_err().raw_os_error().unwrap();
    let code = Errno::from_raw(code);
    assert!(matches!(code, Errno::ENOSPC | Errno::EIO), "{code}");
    storage.fails.store(false, Ordering::SeqCst);
    file.read_exact_at(&mut [0; 512], 0).unwrap();
    // Data that were not synced may be lost. A later success would hide that.
    file.sync_all().unwrap_err();
    drop(file);
    mount.unmount().unwrap_err();
}

#[test]
fn zeros_are_written_and_holes_are_not_made() {
    let (_, disk) = disk(LEN, SectorSize::B4096, false);
    let mount = Mount::new(disk);
    let file = mount.open();
    file.write_all_at(&vec![0xff; LEN as usize], 0).unwrap();
    let zero = FallocateFlags::FALLOC_FL_ZERO_RANGE;
    let keep = FallocateFlags::FALLOC_FL_KEEP_SIZE;
    fallocate(&file, zero, 1000, 100_000).unwrap();
    fallocate(&file, zero | keep, LEN as i64 - 5, 100).unwrap();
    let error = fallocate(&file, zero, LEN as i64 - 100, 101);
    assert_eq!(error, Err(Errno::ENOSPC));
    for mode in [
        FallocateFlags::empty(),
        keep,
        keep | FallocateFlags::FALLOC_FL_PUNCH_HOLE,
    ] {
        let error = fallocate(&file, mode, 200_000, 100_000);
        assert_eq!(error, Err(Errno::EOPNOTSUPP), "{mode:?}");
    }
    let mut model = vec![0xff; LEN as usize];
    model[1000..101_000].fill(0);
    model[LEN as usize - 5..].fill(0);
    assert!(fs::read(mount.file()).unwrap() == model);
    assert_eq!(lseek(&file, 1000, Whence::SeekData), Ok(1000));
    assert_eq!(lseek(&file, 1000, Whence::SeekHole), Ok(LEN as i64));
}

#[test]
fn direct_and_synchronous_files_work_too() {
    let (storage, disk) = disk(LEN, SectorSize::B4096, false);
    let mount = Mount::new(disk);
    let mut options = File::options();
    options.read(true).write(true);
    let direct = options
        .clone()
        .custom_flags(OFlag::O_DIRECT.bits())
        .open(mount.file())
        .unwrap();
    // FUSE needs no alignment.
    direct.write_all_at(b"direct", 12_345).unwrap();
    let mut back = [0; 6];
    direct.read_exact_at(&mut back, 12_345).unwrap();
    assert_eq!(&back, b"direct");
    let synchronous = options
        .custom_flags(OFlag::O_DSYNC.bits())
        .open(mount.file())
        .unwrap();
    storage.must_be_synced(|| synchronous.write_all_at(b"x", 0).unwrap());
}

#[test]
fn an_open_file_stays_usable_after_an_unmount() {
    let (_, disk) = disk(LEN, SectorSize::B512, false);
    let mount = Mount::new(disk.clone());
    let file = mount.open();
    mount.unmounter.unmount().unwrap();
    mount.unmounter.unmount().unwrap();
    assert!(!mount.file().exists());
    file.write_all_at(b"still there", 1).unwrap();
    drop(file);
    mount.ended().unwrap();
    let mut bytes = [0; 11];
    disk.read(&mut bytes, 1).unwrap();
    assert_eq!(&bytes, b"still there");
}

#[test]
fn umount_ends_the_mount() {
    for program in ["umount", "fusermount3"] {
        let mount = Mount::new(disk(LEN, SectorSize::B512, false).1);
        let mut command = Command::new(program);
        if program == "fusermount3" {
            command.arg("-u");
        }
        let status = command.arg(mount.folder.path()).status();
        assert!(
            status
                .unwrap_or_else(|e| panic!("{program}: {e}"))
                .success()
        );
        mount.ended().unwrap();
    }
}

#[test]
fn folders_that_cannot_be_mounted_on() {
    let folder = TempDir::new().unwrap();
    let missing = MountPoint::new(&folder.path().join("missing")).unwrap_err();
    assert!(matches!(missing, MountError::NoFolder { .. }), "{missing}");
    fs::write(folder.path().join("file"), "").unwrap();
    let file = MountPoint::new(&folder.path().join("file")).unwrap_err();
    assert!(matches!(file, MountError::NotAFolder { .. }), "{file}");
    let full = MountPoint::new(folder.path()).unwrap_err();
    assert!(matches!(full, MountError::NotEmpty { .. }), "{full}");
    let mount = Mount::new(disk(LEN, SectorSize::B512, false).1);
    let mounted = MountPoint::new(mount.folder.path()).unwrap_err();
    assert!(matches!(mounted, MountError::NotEmpty { .. }), "{mounted}");
}

#[test]
fn a_bind_mount_of_the_folder_is_not_unmounted() {
    let mount = Mount::new(disk(LEN, SectorSize::B512, false).1);
    let folder = mount.folder.path();
    tool("mount", ["--bind".as_ref(), folder, folder]);
    assert_eq!(mounts_on(folder), 2);
    mount.unmounter.unmount().unwrap_err();
    assert_eq!(mounts_on(folder), 2);
    tool("umount", [folder]);

    // A bind mount elsewhere stays when the folder's own mount has been removed.
    let other = BindMount::new(folder);
    tool("umount", [folder]);
    mount.unmounter.unmount().unwrap();
    assert_eq!(mounts_on(other.0.path()), 1);

    // This mount has the device of the first one, and also its number unless that was reused.
    tool("mount", ["--bind".as_ref(), other.0.path(), folder]);
    mount.unmounter.unmount().unwrap();
    assert_eq!(mounts_on(folder), 1);
    drop(other);
    tool("umount", [folder]);
    mount.ended().unwrap();
}

#[test]
fn a_folder_that_was_renamed_is_unmounted() {
    let parent = TempDir::new().unwrap();
    let [folder, renamed] = ["folder", "new \\ name"].map(|name| parent.path().join(name));
    fs::create_dir_all(folder.join("in it")).unwrap();
    let (_, disk) = disk(LEN, SectorSize::B512, false);
    let point = MountPoint::new(&folder.join("in it")).unwrap();
    let mounted = Mounted::new(Export::new(disk), point, &options()).unwrap();
    fs::rename(&folder, &renamed).unwrap();
    mounted.unmounter().unmount().unwrap();
    Box::new(mounted).run().unwrap();
    assert_eq!(fs::read_dir(renamed.join("in it")).unwrap().count(), 0);
}

#[test]
fn an_aborted_mount_is_unmounted() {
    let mut mount = Mount::new(disk(LEN, SectorSize::B512, false).1);
    let file = mount.open();
    let mut umount = Command::new("umount");
    let forced = umount.arg("--force").arg(mount.folder.path()).output();
    assert!(!forced.unwrap().status.success(), "the file is open");
    let error = file.read_at(&mut [0], 0).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::NotConnected);
    mount.serving.take().unwrap().join().unwrap().unwrap();
    assert_eq!(mounts_on(mount.folder.path()), 1);
    mount.unmounter.unmount().unwrap();
    assert_eq!(mounts_on(mount.folder.path()), 0);
    drop(file);

    // It may get the numbers of the first mount.
    let later = ["-ttmpfs".as_ref(), "tmpfs".as_ref(), mount.folder.path()];
    tool("mount", later);
    mount.unmounter.unmount().unwrap();
    assert_eq!(mounts_on(mount.folder.path()), 1);
    tool("umount", [mount.folder.path()]);
}

#[test]
fn a_folder_is_looked_at_again_before_it_is_mounted_on() {
    let (_, disk) = disk(LEN, SectorSize::B512, false);
    let parent = TempDir::new().unwrap();
    let [folder, moved, target] =
        ["folder", "moved", "target"].map(|name| parent.path().join(name));
    let prepared = || {
        fs::create_dir(&folder).unwrap();
        MountPoint::new(&folder).unwrap()
    };
    let mount = |point| Mounted::new(Export::new(disk.clone()), point, &options());

    let point = prepared();
    fs::remove_dir(&folder).unwrap();
    let removed = mount(point).unwrap_err();
    assert!(matches!(removed, MountError::NoFolder { .. }), "{removed}");

    let point = prepared();
    fs::write(folder.join("file"), "").unwrap();
    let filled = mount(point).unwrap_err();
    assert!(matches!(filled, MountError::NotEmpty { .. }), "{filled}");
    fs::remove_dir_all(&folder).unwrap();

    // A link that has replaced the folder is not followed.
    let point = prepared();
    fs::create_dir_all(target.join("file")).unwrap();
    fs::rename(&folder, &moved).unwrap();
    std::os::unix::fs::symlink(&target, &folder).unwrap();
    let mounted = mount(point).unwrap();
    let counts = [&moved, &target].map(|path| mounts_on(path));
    mounted.unmounter().unmount().unwrap();
    assert_eq!(counts, [1, 0]);
}

/// By its path, root could take another mount for its own, and unmount that one.
#[test]
fn a_mount_is_found_although_a_link_has_replaced_its_parent() {
    let parent = TempDir::new().unwrap();
    let [folder, moved, other] = ["folder", "moved", "other"].map(|name| parent.path().join(name));
    let mounts = [&folder, &other].map(|folder| folder.join("in it"));
    for folder in &mounts {
        fs::create_dir_all(folder).unwrap();
    }
    let point = MountPoint::new(&mounts[0]).unwrap();
    assert!(Unmounter::find_over(point.handle()).unwrap().is_none());
    for (folder, source) in mounts.iter().zip(["ours", "other"]) {
        tool(
            "mount",
            ["-ttmpfs".as_ref(), source.as_ref(), folder.as_os_str()],
        );
    }
    fs::rename(&folder, &moved).unwrap();
    std::os::unix::fs::symlink(&other, &folder).unwrap();
    let [found, by_path] = [
        Unmounter::find_over(point.handle()),
        Unmounter::find(&mounts[0]),
    ];
    for folder in [moved, other] {
        tool("umount", [folder.join("in it")]);
    }
    let sources = [found, by_path].map(|found| found.unwrap().unwrap().source());
    assert_eq!(sources, ["ours", "other"].map(PathBuf::from));
}

#[test]
fn every_flush_fails_after_writes_were_lost() {
    let (_, disk) = disk(LEN, SectorSize::B512, false);
    let folder = TempDir::new().unwrap();
    let export = Export::new(disk);
    let point = MountPoint::new(folder.path()).unwrap();
    let mounted = Mounted::new(Arc::clone(&export), point, &options()).unwrap();
    let unmounter = mounted.unmounter();
    let serving = thread::spawn(|| Box::new(mounted).run());
    let file = File::options()
        .write(true)
        .open(folder.path().join("plain text"))
        .unwrap();
    file.write_all_at(b"new", 7).unwrap();
    file.sync_all().unwrap();
    export.lose_writes();
    file.write_all_at(b"new", 7).unwrap();
    let error = file.sync_all().unwrap_err();
    assert_eq!(error.raw_os_error(), Some(Errno::EIO as i32));
    drop(file);
    unmounter.unmount().unwrap();
    let ended = serving.join().unwrap().unwrap_err();
    assert!(matches!(ended, ServeError::Flush { .. }), "{ended}");
}

/// Returns how many mounts are stacked on `folder`.
fn mounts_on(folder: &Path) -> usize {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let folder = folder.to_str();
    let on_folder = |line: &&str| line.split(' ').nth(4) == folder;
    mounts.lines().filter(on_folder).count()
}

#[track_caller]
fn tool(program: &str, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) {
    let status = Command::new(program).args(arguments).status();
    assert!(status.expect(program).success(), "{program}");
}

/// A bind mount of another folder, until dropped.
struct BindMount(TempDir);

impl BindMount {
    fn new(folder: &Path) -> Self {
        let bind = Self(TempDir::new().unwrap());
        tool("mount", ["--bind".as_ref(), folder, bind.0.path()]);
        bind
    }
}

impl Drop for BindMount {
    fn drop(&mut self) {
        let mut umount = Command::new("umount");
        let _ = umount.arg("--lazy").arg(self.0.path()).status();
    }
}

#[test]
fn the_time_of_change_is_that_of_the_volume_until_it_is_written() {
    let (_, disk) = disk(LEN, SectorSize::B512, false);
    let mount = Mount::new(disk);
    let file = mount.open();
    let modified = || file.metadata().unwrap().modified().unwrap();
    assert_eq!(modified(), options().modified);
    let begun = SystemTime::now();
    file.write_all_at(b"new", 7).unwrap();
    assert!(modified() >= begun, "{:?}", modified());
    drop(file);
    mount.unmount().unwrap();
}

fn options() -> MountOptions {
    MountOptions {
        name: FileName::new("plain text").unwrap(),
        source: "my,volume".into(),
        modified: UNIX_EPOCH + Duration::from_secs(1_000_000_000),
        allow_other: false,
        part: None,
        read_only: false,
    }
}

/// A disk that is mounted and served.
struct Mount {
    folder: TempDir,
    disk: Arc<Disk>,
    unmounter: Unmounter,
    serving: Option<JoinHandle<Result<(), ServeError>>>,
}

impl Mount {
    fn new(disk: Arc<Disk>) -> Self {
        let folder = TempDir::new().unwrap();
        let point = MountPoint::new(folder.path()).unwrap();
        let mounted = Mounted::new(Export::new(disk.clone()), point, &options()).unwrap();
        Self {
            folder,
            disk,
            unmounter: mounted.unmounter(),
            serving: Some(thread::spawn(|| Box::new(mounted).run())),
        }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("plain text")
    }

    fn open(&self) -> File {
        let path: &Path = &self.file();
        let file = File::options().read(true).write(true).open(path);
        file.unwrap_or_else(|e| panic!("{}: {e}", path.display()))
    }

    fn unmount(self) -> Result<(), ServeError> {
        self.unmounter.unmount().unwrap();
        self.ended()
    }

    /// Waits for the end after another program has unmounted it.
    fn ended(mut self) -> Result<(), ServeError> {
        self.serving.take().unwrap().join().unwrap()
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if let Some(serving) = self.serving.take() {
            // Unmount by other means than the test, which may just have failed.
            let mut umount = Command::new("umount");
            umount.args(["--lazy", "--quiet"]).arg(self.folder.path());
            while umount.status().is_ok_and(|status| status.success()) {}
            let _ = serving.join();
        }
    }
}

/// A reproducible generator: `SplitMix64` (Steele, Lea, Flood 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        for eight in bytes.chunks_mut(8) {
            eight.copy_from_slice(&self.next().to_le_bytes()[..eight.len()]);
        }
        bytes
    }
}
