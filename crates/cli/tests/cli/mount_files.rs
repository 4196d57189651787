// SPDX-License-Identifier: MIT OR Apache-2.0
//! `luxor mount --files`: by the kernel for root, and by drivers for a user without privileges.

mod volumes;

use std::{
    fs,
    os::unix::{
        fs::{PermissionsExt, chown},
        process::CommandExt,
    },
    path::Path,
    process::Command,
    sync::PoisonError,
};

use crate::{
    mount::{FUSE_MODE, Fuse},
    support::{
        FAST, Folder, Outcome, as_nobody, copy_program, luxor, shell_without_terminal, tool,
    },
};

/// How the image of a file system is made of the folder `source`, or empty where the tool cannot.
const IMAGES: [(&str, &str); 8] = [
    ("ext4", "truncate -s 4M ext4; mkfs.ext4 -q -d source ext4"),
    ("ext2", "truncate -s 4M ext2; mkfs.ext2 -q -d source ext2"),
    ("squashfs", "mksquashfs source squashfs -quiet -no-progress"),
    ("EROFS", "mkfs.erofs EROFS source >said 2>&1"),
    ("ISO 9660", "genisoimage -quiet -R -J -o 'ISO 9660' source"),
    (
        "btrfs",
        "truncate -s 128M btrfs; mkfs.btrfs -q --rootdir source btrfs",
    ),
    ("NTFS", "truncate -s 4M NTFS; mkntfs -q -F NTFS >said 2>&1"),
    ("FAT", "truncate -s 4M FAT; mkfs.vfat FAT >said"),
];

/// A folder with a key, an empty folder `dir`, and the volume `NAME.luks` with this file system.
fn prepared(name: &str) -> Folder {
    let (_, make) = IMAGES.iter().find(|(known, _)| *known == name).unwrap();
    let folder = Folder::new();
    folder.write("key", b"correct horse");
    fs::create_dir_all(folder.join("source/sub")).unwrap();
    folder.write("source/hello", b"hello\n");
    folder.write("source/sub/long", [7; 300_000]);
    fs::create_dir(folder.join("dir")).unwrap();
    {
        // mkfs.btrfs looks at all mounts, and fails at those of users, which other tests make.
        let _alone = FUSE_MODE.lock().unwrap_or_else(PoisonError::into_inner);
        shell_without_terminal(make, folder.path()).assert_code(0);
    }
    encrypt(&folder, name, "volume.luks");
    folder
}

fn encrypt(folder: &Folder, plain: &str, volume: &str) {
    luxor("encrypt --key-file key")
        .args([plain, volume])
        .args(FAST)
        .current_dir(folder.path())
        .ok();
}

/// Returns `luxor mount --files --background --key-file key …`.
fn mount(folder: &Folder, arguments: &str) -> Outcome {
    luxor("mount --files --background --key-file key")
        .args(arguments.split_whitespace())
        .current_dir(folder.path())
        .run()
}

fn umount(folder: &Folder) {
    luxor("umount dir").current_dir(folder.path()).ok();
    assert_nothing_is_mounted(folder);
}

/// Neither the files nor the plaintext, and no loop device has it.
fn assert_nothing_is_mounted(folder: &Folder) {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let name = folder.path().to_str().unwrap();
    assert!(!mounts.contains(name), "{mounts}");
    assert_eq!(fs::read_dir(folder.join("dir")).unwrap().count(), 0);
    let private = folder.join("private");
    let left = fs::read_dir(private).map_or(0, Iterator::count);
    assert_eq!(left, 0, "the private folder is left");
    let loops = tool(
        "losetup",
        ["--list", "--noheadings", "--output", "BACK-FILE"],
    );
    assert!(!loops.text().contains(name), "{loops:?}");
}

/// Where a kernel has no such file system and there is no driver, the message must say it.
#[test]
fn root_sees_the_files_of_each_file_system() {
    for (name, _) in IMAGES {
        let folder = prepared(name);
        let is_empty = ["NTFS", "FAT"].contains(&name);
        if is_empty {
            mount(&folder, "--read-write volume.luks dir").assert_code(0);
            fs::write(folder.join("dir/hello"), b"hello\n").unwrap();
            umount(&folder);
        }
        let outcome = mount(&folder, "volume.luks dir");
        if outcome.code != Some(0) {
            let kinds = fs::read_to_string("/proc/filesystems").unwrap();
            let kind = name.to_lowercase();
            assert!(!kinds.contains(&kind), "{name}: {outcome:?}");
            let words = ["this kernel cannot mount", "which is not installed"];
            let is_explained = words.iter().any(|words| outcome.stderr.contains(words));
            assert!(is_explained, "{name}: {outcome:?}");
            continue;
        }
        let line = format!("luxor: the files of volume.luks ({name}");
        assert!(outcome.stderr.starts_with(&line), "{outcome:?}");
        assert_eq!(fs::read(folder.join("dir/hello")).unwrap(), b"hello\n");
        if !is_empty {
            let long = fs::read(folder.join("dir/sub/long")).unwrap();
            assert!(long == [7; 300_000], "{name}");
        }
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let dir = folder.join("dir");
        let line = mounts
            .lines()
            .find(|line| line.contains(dir.to_str().unwrap()));
        let line = line.unwrap();
        assert!(line.contains("nosuid") && line.contains("nodev"), "{line}");
        umount(&folder);
    }
}

/// Makes [`prepared`] for a user without privileges.
fn prepared_for_nobody(name: &str) -> Folder {
    let folder = prepared(name);
    folder.open_to_everybody();
    fs::create_dir(folder.join("private")).unwrap();
    for name in ["key", "volume.luks", "dir", "private"] {
        chown(folder.join(name), Some(65534), Some(65534)).unwrap();
    }
    let mode = fs::Permissions::from_mode(0o600);
    fs::set_permissions(folder.join("key"), mode).unwrap();
    folder
}

/// Runs a line of shell as a user without privileges, with `/dev/fuse` open to users.
fn run_as_nobody(folder: &Folder, line: &str) -> Outcome {
    let _alone = FUSE_MODE.lock().unwrap_or_else(PoisonError::into_inner);
    alone_as_nobody(folder, line)
}

/// As [`run_as_nobody`], for a caller that holds the lock.
fn alone_as_nobody(folder: &Folder, line: &str) -> Outcome {
    let _fuse = Fuse::with_mode(0o666);
    let line = format!("export TMPDIR=$PWD/private; unset XDG_RUNTIME_DIR; {line}");
    as_nobody(&line, folder.path())
}

const FILES: &str = "$luxor mount --files --key-file key";

#[test]
fn a_user_sees_the_files_by_a_driver() {
    for name in ["ext4", "ext2", "squashfs", "ISO 9660"] {
        let folder = prepared_for_nobody(name);
        let line = format!(
            "{FILES} --background volume.luks dir && cat dir/hello && \
             cmp dir/sub/long source/sub/long && ! touch dir/new && $luxor umount dir && echo done"
        );
        let outcome = run_as_nobody(&folder, &line);
        assert_eq!(outcome.text(), "hello\ndone\n", "{name}: {outcome:?}");
        assert!(outcome.stderr.contains("read-only"), "{outcome:?}");
        assert_nothing_is_mounted(&folder);
    }
}

#[test]
fn a_weaker_driver_writes_only_when_asked_to() {
    let folder = prepared_for_nobody("ext4");
    let line = format!(
        "{FILES} --background volume.luks dir
         echo no 2>&1 >dir/new | grep -o Read-only
         $luxor umount dir
         {FILES} --background --read-write volume.luks dir
         echo yes >dir/new && fusermount3 -u dir
         until {FILES} --background --read-only volume.luks dir 2>said || grep -v lock said >&2
         do sleep 0.05; done
         cat dir/new; $luxor umount dir"
    );
    let outcome = run_as_nobody(&folder, &line);
    assert_eq!(outcome.text(), "Read-only\nyes\n", "{outcome:?}");
    let words = "fuse2fs does not use the journal";
    assert_eq!(outcome.stderr.matches(words).count(), 1, "{outcome:?}");
    assert_nothing_is_mounted(&folder);
    luxor("decrypt --key-file key volume.luks back")
        .current_dir(folder.path())
        .ok();
    tool("e2fsck", ["-fn".as_ref(), folder.join("back").as_os_str()]);

    let both = "--read-only --read-write volume.luks dir";
    mount(&folder, both).assert_code(1);
    let squashfs = prepared("squashfs");
    let refused = mount(&squashfs, "--read-write volume.luks dir");
    refused.assert_code(1);
    assert!(
        refused.stderr.contains("no file in squashfs"),
        "{refused:?}"
    );
}

/// FAT has only an experimental driver, and NTFS one that sets its user ID, which `/etc/fuse.conf` must
/// let into the mounts of users.
#[test]
fn a_user_writes_to_file_systems_of_windows() {
    for (name, permits) in [("FAT", ""), ("NTFS", "user_allow_other\n"), ("NTFS", "")] {
        let folder = prepared_for_nobody(name);
        folder.write("fuse.conf", permits);
        copy_program(&folder.join("luxor"));
        let line = format!(
            "luxor=./luxor; export TMPDIR=$PWD/private; unset XDG_RUNTIME_DIR
             {FILES} --background --read-write volume.luks dir || exit
             echo yes >dir/new && $luxor umount dir
             {FILES} --background volume.luks dir
             cat dir/new && stat -c %a dir/new; $luxor umount dir"
        );
        let whole = "mount --bind fuse.conf /etc/fuse.conf && exec setpriv --reuid=65534 \
                     --regid=65534 --clear-groups sh -c \"$line\"";
        let _alone = FUSE_MODE.lock().unwrap_or_else(PoisonError::into_inner);
        let _fuse = Fuse::with_mode(0o666);
        let mut unshare = Command::new("unshare");
        unshare
            .args(["--mount", "sh", "-c", whole])
            .env("line", &line)
            .current_dir(folder.path());
        let outcome = Outcome::new(line, unshare.output().unwrap());
        let driver = tool("sh", ["-c", "command -v ntfs-3g"]);
        let driver = Path::new(driver.text().trim());
        let sets_user_id = driver.metadata().unwrap().permissions().mode() & 0o4000 != 0;
        if name == "NTFS" && permits.is_empty() && sets_user_id {
            outcome.assert_code(1);
            assert!(
                outcome
                    .stderr
                    .contains("ntfs-3g, which is to show the files in dir, runs as root")
                    && outcome
                        .stderr
                        .contains("`echo user_allow_other >>/etc/fuse.conf`"),
                "{outcome:?}"
            );
        } else {
            let [file, mode] = [0, 1].map(|line| outcome.text().lines().nth(line));
            assert_eq!(file, Some("yes"), "{name}: {outcome:?}");
            // Other users could come in where the mount is open to them.
            assert!(mode.unwrap().ends_with("00"), "{name}: {outcome:?}");
        }
        assert_nothing_is_mounted(&folder);
    }
}

/// Waits until the files are there, in a line of shell, and then until the server has ended.
const UNTIL_MOUNTED: &str = "until [ -e dir/hello ]; do sleep 0.05; done";
const UNTIL_UNMOUNTED: &str = "i=0; while { grep -q $PWD /proc/self/mountinfo || \
    [ -n \"$(ls private)\" ]; } && [ $i -lt 400 ]; do sleep 0.05; i=$((i + 1)); done; ls private dir";

#[test]
fn whichever_process_dies_nothing_stays_mounted() {
    // The driver is the child of the helper, which is the first child of the server.
    let processes = "server=$!; helper=$(cat /proc/$server/task/*/children); helper=${helper%% *}; \
                     driver=$(cat /proc/$helper/task/*/children)";
    for (dies, code, words) in [
        ("$driver", 1, "fuse2fs was ended by SIGKILL"),
        (
            "$helper",
            1,
            "the process that watches the driver has ended",
        ),
        ("$server", 137, ""),
    ] {
        let folder = prepared_for_nobody("ext4");
        let line = format!(
            "{FILES} volume.luks dir & {UNTIL_MOUNTED}; {processes}
             kill -KILL {dies}; wait $server; echo $?
             {UNTIL_UNMOUNTED}"
        );
        let outcome = run_as_nobody(&folder, &line);
        let expected = format!("{code}\ndir:\n\nprivate:\n");
        assert_eq!(outcome.text(), expected, "{dies}: {outcome:?}");
        assert!(outcome.stderr.contains(words), "{dies}: {outcome:?}");
        assert_nothing_is_mounted(&folder);
    }
}

/// The processes that watch and unmount keep what they need. The server, which has the keys, does not.
#[test]
fn the_server_of_files_is_confined_and_still_unmounts() {
    let line = format!(
        "{FILES} -v volume.luks dir 2>said & server=$!
         until grep -q 'are in dir' said; do sleep 0.05; done; cat dir/hello; cat said >&2
         grep -hE '^(NoNewPrivs|Seccomp):' /proc/$server/task/*/status | sort -u
         grep -h '^CapEff:' /proc/$server/status; kill -TERM $server; wait $server; echo $?"
    );
    let run_as_root = |folder: &Folder, line: &str| {
        let line = format!("luxor={}; {line}", env!("CARGO_BIN_EXE_luxor"));
        shell_without_terminal(&line, folder.path())
    };
    let run_as_nobody: fn(&Folder, &str) -> Outcome = run_as_nobody;
    for (folder, run) in [
        (prepared_for_nobody("ext4"), run_as_nobody),
        (prepared("ext4"), run_as_root),
    ] {
        let outcome = run(&folder, &line);
        let expected = format!(
            "hello\nNoNewPrivs:\t1\nSeccomp:\t2\nCapEff:\t{:016}\n0\n",
            0
        );
        assert_eq!(outcome.text(), expected, "{outcome:?}");
        assert_nothing_is_mounted(&folder);
    }
}

#[test]
fn umount_removes_what_two_killed_processes_have_left() {
    let folder = prepared_for_nobody("ext4");
    // Stopped, neither can clean up before it is killed too.
    let line = format!(
        "{FILES} volume.luks dir & {UNTIL_MOUNTED}; server=$!
         helper=$(cat /proc/$server/task/*/children); kill -STOP $server $helper
         kill -KILL $server $helper; wait $server
         {FILES} volume.luks dir; echo $?; $luxor umount dir; echo $?
         {UNTIL_UNMOUNTED}"
    );
    let outcome = run_as_nobody(&folder, &line);
    assert_eq!(outcome.text(), "5\n0\ndir:\n\nprivate:\n", "{outcome:?}");
    assert!(
        outcome.stderr.contains("To unmount it: `luxor umount dir`"),
        "{outcome:?}"
    );
    assert_nothing_is_mounted(&folder);
    // Also after another program has unmounted the files alone.
    for command in [
        "$luxor umount dir",
        "{FILES} --background volume.luks dir && $luxor umount dir",
    ] {
        let command = command.replace("{FILES}", FILES);
        let line = line.replace(
            "$luxor umount dir",
            &format!("fusermount3 -u dir; {command}"),
        );
        let outcome = run_as_nobody(&folder, &line);
        assert_eq!(outcome.text(), "5\n0\ndir:\n\nprivate:\n", "{outcome:?}");
        assert_nothing_is_mounted(&folder);
    }
}

#[test]
fn files_in_use_stay_mounted_and_signals_end_the_mount() {
    let folder = prepared_for_nobody("ext4");
    let line = format!(
        "{FILES} volume.luks dir & {UNTIL_MOUNTED}
         exec 5<dir/hello; timeout 20 $luxor umount dir; echo $?; read -r line <&5; echo $line; exec 5<&-
         kill -TERM $!; wait $!; echo $?; {UNTIL_UNMOUNTED}"
    );
    let outcome = run_as_nobody(&folder, &line);
    let expected = "5\nhello\n0\ndir:\n\nprivate:\n";
    assert_eq!(outcome.text(), expected, "{outcome:?}");
    assert!(
        outcome.stderr.contains("luxor: dir is in use"),
        "{outcome:?}"
    );
    assert_nothing_is_mounted(&folder);
}

#[test]
fn a_missing_driver_is_named_with_its_packages() {
    let folder = prepared_for_nobody("ext4");
    let line = format!("PATH=/nonexistent {FILES} volume.luks dir");
    let outcome = run_as_nobody(&folder, &line);
    outcome.assert_code(1);
    let words = "luxor: ext4 needs the program fuse2fs, which is not installed\n  It is in the \
                 package fuse2fs of Debian and Fedora. Without --files, `luxor mount volume.luks DIR` \
                 needs no driver, and shows the plaintext as a file.\n";
    assert_eq!(outcome.stderr, words);
    for program in ["dnf", "apt-get"] {
        let _ = fs::remove_dir_all(folder.join("bin"));
        driver(&folder, program, "");
        let outcome = run_as_nobody(&folder, &format!("PATH=$PWD/bin {FILES} volume.luks dir"));
        let words = format!("As root, `{program} install fuse2fs` installs it.");
        assert!(outcome.stderr.contains(&words), "{outcome:?}");
    }

    for (place, magic, words) in [
        (
            82,
            "FAT32   ",
            "It is in Debian's package fusefat; Fedora has none.",
        ),
        (
            1024,
            r"\342\341\365\340",
            "Debian's package erofsfuse, and in Fedora's erofs-fuse",
        ),
        (
            0,
            "XFSB",
            "no driver for XFS: the kernel has one, for which it takes root",
        ),
    ] {
        let folder = with_magic(place, magic);
        folder.open_to_everybody();
        fs::create_dir(folder.join("private")).unwrap();
        for name in ["key", "volume.luks", "dir", "private"] {
            chown(folder.join(name), Some(65534), Some(65534)).unwrap();
        }
        let outcome = run_as_nobody(&folder, &line);
        outcome.assert_code(1);
        assert!(outcome.stderr.contains(words), "{outcome:?}");
        assert_nothing_is_mounted(&folder);
    }
}

/// A folder as [`prepared`], whose volume has only zeros and a magic.
fn with_magic(place: u64, magic: &str) -> Folder {
    let folder = Folder::new();
    folder.write("key", b"correct horse");
    fs::create_dir(folder.join("dir")).unwrap();
    let make = format!(
        "truncate -s 1M image; printf '{magic}' | dd of=image bs=1 seek={place} conv=notrunc \
         status=none"
    );
    shell_without_terminal(&make, folder.path()).assert_code(0);
    encrypt(&folder, "image", "volume.luks");
    folder
}

#[test]
fn plaintext_without_files_is_named() {
    for (place, magic, words) in [
        (512, "LABELONE", "the plaintext is an LVM physical volume"),
        (
            4096,
            r"\374\116\053\251",
            "the plaintext is a Linux RAID member",
        ),
        (0, r"QFI\373", "the plaintext is a qcow2 image"),
        (0, "", "the plaintext has no known file system: its first"),
        // A superblock that lies.
        (1080, r"\123\357", "cannot mount the ext"),
    ] {
        let folder = with_magic(place, magic);
        let outcome = mount(&folder, "volume.luks dir");
        outcome.assert_code(1);
        assert!(outcome.stderr.contains(words), "{words}: {outcome:?}");
        if words.contains("qcow2") || words.contains("no known") {
            let advice = "Leave out --files to see it as a file: `luxor mount volume.luks DIR`";
            assert!(outcome.stderr.contains(advice), "{outcome:?}");
        }
        assert_nothing_is_mounted(&folder);
    }
    let folder = with_magic(0, "");
    encrypt(&folder, "volume.luks", "other.luks");
    let outcome = mount(&folder, "other.luks dir");
    outcome.assert_code(1);
    assert!(
        outcome.stderr.contains("another LUKS2 volume"),
        "{outcome:?}"
    );
}

#[test]
fn a_partition_of_the_plaintext_is_chosen() {
    for label in ["gpt", "dos"] {
        let folder = prepared("ext4");
        let make = format!(
            "truncate -s 12M disk; printf 'label: {label}\\nsize=1MiB\\nsize=4MiB\\n' | \
             sfdisk --quiet disk; dd if=ext4 of=disk bs=1M seek=2 conv=notrunc status=none"
        );
        shell_without_terminal(&make, folder.path()).assert_code(0);
        encrypt(&folder, "disk", "disk.luks");
        let outcome = mount(&folder, "disk.luks dir");
        outcome.assert_code(1);
        let list = "  Choose a partition with --partition N:\n    \
                    1: no known signature, 1048576 bytes\n    \
                    2: an ext4 file system, 4194304 bytes\n";
        assert!(outcome.stderr.ends_with(list), "{outcome:?}");
        mount(&folder, "--partition 2 disk.luks dir").assert_code(0);
        assert_eq!(fs::read(folder.join("dir/hello")).unwrap(), b"hello\n");
        fs::write(folder.join("dir/new"), b"new").unwrap();
        umount(&folder);
        // Nothing outside the partition has changed.
        luxor("decrypt --key-file key disk.luks back")
            .current_dir(folder.path())
            .ok();
        let [before, after] = ["disk", "back"].map(|name| fs::read(folder.join(name)).unwrap());
        assert!(before[..2 << 20] == after[..2 << 20] && before[6 << 20..] == after[6 << 20..]);
        assert!(before != after);

        for (number, words) in [
            ("9", "there is no partition 9"),
            ("1", "no known file system"),
        ] {
            let outcome = mount(&folder, &format!("--partition {number} disk.luks dir"));
            outcome.assert_code(1);
            assert!(outcome.stderr.contains(words), "{outcome:?}");
        }
        // The table says more than there is.
        let make = "rm disk.luks; truncate -s 4M disk";
        shell_without_terminal(make, folder.path()).assert_code(0);
        encrypt(&folder, "disk", "disk.luks");
        let outcome = mount(&folder, "--partition 2 disk.luks dir");
        outcome.assert_code(1);
        assert!(
            outcome.stderr.contains("only 4194304 bytes are there"),
            "{outcome:?}"
        );
        assert_nothing_is_mounted(&folder);
    }
}

/// Makes a driver for [`WITH_DRIVER`], which is a script.
fn driver(folder: &Folder, name: &str, script: &str) {
    let bin = folder.join("bin");
    fs::create_dir(&bin).unwrap();
    let driver = bin.join(name);
    fs::write(&driver, format!("#!/bin/bash\n{script}\n")).unwrap();
    fs::set_permissions(driver, fs::Permissions::from_mode(0o755)).unwrap();
}

const WITH_DRIVER: &str = "PATH=$PWD/bin:$PATH $luxor mount --files --key-file key";

/// A driver gets neither the descriptor of the passphrase nor the environment, and a name is no option.
#[test]
fn a_driver_gets_only_what_it_needs() {
    let folder = prepared_for_nobody("squashfs");
    let log = folder.join("log");
    let script = format!(
        "{{ ls -l /proc/$$/fd; env; }} >{}\nexec {} \"$@\"",
        log.display(),
        tool("sh", ["-c", "command -v squashfuse"]).text().trim()
    );
    driver(&folder, "squashfuse", &script);
    let odd = "-o allow_other,\n\\ x";
    fs::create_dir(folder.join(odd)).unwrap();
    chown(folder.join(odd), Some(65534), Some(65534)).unwrap();
    let line = format!(
        "export PATH=$PWD/bin:$PATH SECRET=hidden; odd='{odd}'
         $luxor mount --files --background --passphrase-fd 9 volume.luks -- \"$odd\" 9<key
         cat \"./$odd/hello\" && grep -c allow_other /proc/self/mountinfo
         $luxor umount -- \"$odd\" && echo done"
    );
    let outcome = run_as_nobody(&folder, &line);
    // The name is in the list of mounts once, with its newline escaped.
    assert_eq!(outcome.text(), "hello\n1\ndone\n", "{outcome:?}");
    let log = fs::read_to_string(log).unwrap();
    assert!(
        !log.contains("hidden") && log.contains("LC_ALL=C.UTF-8"),
        "{log}"
    );
    assert!(!log.contains("/key") && !log.contains("/dev/fuse"), "{log}");
    assert_nothing_is_mounted(&folder);
}

#[test]
fn files_beneath_another_mount_stay_mounted() {
    let folder = prepared("ext4");
    let dir = folder.join("dir");
    let mut mount = Command::new("sh");
    let line = "$luxor mount --files --key-file key volume.luks dir & server=$!
        until [ -e dir/hello ]; do sleep 0.05; done
        mount -t tmpfs tmpfs dir; kill -TERM $server; sleep 1; umount dir
        $luxor umount dir; wait $server";
    mount
        .args(["-c", line])
        .env("luxor", env!("CARGO_BIN_EXE_luxor"))
        .current_dir(folder.path())
        .process_group(0);
    let outcome = Outcome::new(line.into(), mount.output().unwrap());
    let words = "cannot unmount: something else is mounted over it";
    assert!(outcome.stderr.contains(words), "{outcome:?}");
    outcome.assert_code(0);
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 0);
    assert_nothing_is_mounted(&folder);
}

/// The root file system of an encrypted container image is a volume at an offset, with squashfs in it.
#[test]
fn a_volume_inside_an_image_shows_its_files() {
    let folder = prepared("squashfs");
    let make = "truncate -s 40960 image; cat volume.luks >>image";
    shell_without_terminal(make, folder.path()).assert_code(0);
    mount(&folder, "--volume-offset 40960 --read-only image dir").assert_code(0);
    assert_eq!(fs::read(folder.join("dir/hello")).unwrap(), b"hello\n");
    umount(&folder);
}

#[test]
fn a_signal_ends_the_wait_for_a_driver_that_hangs() {
    let folder = prepared_for_nobody("ext4");
    driver(
        &folder,
        "fuse2fs",
        "echo >$(dirname $0)/../started; exec sleep 600",
    );
    for background in ["", "--background"] {
        let line = format!(
            "{WITH_DRIVER} {background} volume.luks dir & until [ -e started ]; do sleep 0.05; done
             rm started; kill -TERM $!; wait $!; echo $?; {UNTIL_UNMOUNTED}"
        );
        let outcome = run_as_nobody(&folder, &line);
        assert_eq!(outcome.text(), "130\ndir:\n\nprivate:\n", "{outcome:?}");
        assert_eq!(outcome.stderr, "luxor: interrupted\n");
        assert_nothing_is_mounted(&folder);
    }
}

/// The driver has opened the plaintext, which keeps the server, and would mount the files.
#[test]
fn a_driver_that_has_not_mounted_yet_ends_with_the_helper() {
    let folder = prepared_for_nobody("ext4");
    let real = tool("sh", ["-c", "command -v fuse2fs"]);
    let script = format!(
        "exec 9<\"$4\"; echo >{}/started; sleep 1; exec {} $1 $2 $3 /proc/self/fd/9 \"$5\"",
        folder.path().display(),
        real.text().trim()
    );
    driver(&folder, "fuse2fs", &script);
    let line = format!(
        "{WITH_DRIVER} volume.luks dir & server=$!; until [ -e started ]; do sleep 0.05; done
         kill -KILL $(cat /proc/$server/task/*/children)
         (sleep 20; kill -KILL $server) >/dev/null 2>&1 &
         wait $server; echo $?; {UNTIL_UNMOUNTED}"
    );
    let outcome = run_as_nobody(&folder, &line);
    assert_eq!(outcome.text(), "1\ndir:\n\nprivate:\n", "{outcome:?}");
    let words = "luxor: the process that watches the driver has ended\n";
    assert_eq!(outcome.stderr, words);
    assert_nothing_is_mounted(&folder);
}

/// A process that the driver has started may be about to mount when the server dies.
#[test]
fn no_process_of_a_driver_mounts_after_the_server_has_died() {
    let folder = prepared_for_nobody("ext4");
    shell_without_terminal(IMAGES[2].1, folder.path()).assert_code(0);
    let script = format!(
        "cd {}; (echo >started; sleep 1; exec squashfuse -f squashfs \"$5\") & exec sleep 600",
        folder.path().display()
    );
    driver(&folder, "fuse2fs", &script);
    let line = format!(
        "{WITH_DRIVER} volume.luks dir & until [ -e started ]; do sleep 0.05; done
         kill -KILL $!; wait $!; sleep 2; {UNTIL_UNMOUNTED}"
    );
    let outcome = run_as_nobody(&folder, &line);
    assert_eq!(outcome.text(), "dir:\n\nprivate:\n", "{outcome:?}");
    assert_nothing_is_mounted(&folder);
}

/// fuse2fs explains itself on standard output. What a driver repeats of a hostile file system does not reach
/// the terminal as it is.
#[test]
fn the_words_of_a_driver_are_shown_without_control_characters() {
    let folder = prepared_for_nobody("ext4");
    let script = r"printf 'at\033[1m\u202e\n' >&2; echo '`last`'; exit 9";
    driver(&folder, "fuse2fs", script);
    let outcome = run_as_nobody(&folder, &format!("{WITH_DRIVER} volume.luks dir"));
    outcome.assert_code(1);
    let words = r"fuse2fs ended with exit code 9: at\u{1b}[1m\u{202e}; \u{60}last\u{60}";
    assert!(outcome.stderr.contains(words), "{outcome:?}");
}

#[test]
fn umount_reports_that_the_driver_has_failed_at_the_end() {
    let folder = prepared_for_nobody("ext4");
    let real = tool("sh", ["-c", "command -v fuse2fs"]);
    let script = format!("{} \"$@\"; exit 7", real.text().trim());
    driver(&folder, "fuse2fs", &script);
    for (options, code) in [("--read-write", 1), ("", 0)] {
        let line = format!(
            "{WITH_DRIVER} {options} volume.luks dir & {UNTIL_MOUNTED}
             $luxor umount dir; echo $?; wait $!; echo $?; {UNTIL_UNMOUNTED}"
        );
        let outcome = run_as_nobody(&folder, &line);
        let expected = format!("{code}\n{code}\ndir:\n\nprivate:\n");
        assert_eq!(outcome.text(), expected, "{outcome:?}");
        let lost = outcome.stderr.matches("recent writes may be lost").count();
        assert_eq!(lost, 2 * code, "{outcome:?}");
        assert_nothing_is_mounted(&folder);
    }
}

/// The kernel tells no program that did not wait for its data: neither `close` nor `umount` fails.
#[test]
fn umount_reports_writes_that_the_volume_could_not_take() {
    let folder = prepared("ext4");
    let fast = FAST.join(" ");
    let line = format!(
        "mkdir small && mount -t tmpfs -o size=12M tmpfs small
         $luxor format -q {fast} --key-file key --luks2-keyslots-size 512K --size 64M small/volume
         $luxor mount --background --key-file key small/volume dir
         mkfs.ext4 -q -E lazy_itable_init=1 dir/volume && $luxor umount dir && echo made
         $luxor mount --files --read-write --key-file key small/volume dir & server=$!
         until [ -e dir/lost+found ]; do sleep 0.05; done
         head -c 30M /dev/urandom >dir/new; $luxor umount dir; echo $?; wait $server; echo $?"
    );
    let mut unshare = Command::new("unshare");
    unshare
        .args(["--mount", "sh", "-c", &line])
        .env("luxor", env!("CARGO_BIN_EXE_luxor"))
        .current_dir(folder.path());
    let outcome = Outcome::new(line, unshare.output().unwrap());
    assert_eq!(outcome.text(), "made\n1\n1\n", "{outcome:?}");
    let words = "luxor: dir: recent writes may be lost";
    assert!(outcome.stderr.contains(words), "{outcome:?}");
    assert_nothing_is_mounted(&folder);
}

#[test]
fn a_file_system_with_errors_is_repaired_as_advised() {
    let folder = prepared("ext4");
    tool(
        "debugfs",
        [
            "-w",
            "-R",
            "set_super_value state 2",
            folder.join("ext4").to_str().unwrap(),
        ],
    );
    encrypt(&folder, "ext4", "errors.luks");
    for name in ["key", "errors.luks", "dir"] {
        chown(folder.join(name), Some(65534), Some(65534)).unwrap();
    }
    folder.open_to_everybody();
    fs::create_dir(folder.join("private")).unwrap();
    chown(folder.join("private"), Some(65534), Some(65534)).unwrap();
    let files = format!("{FILES} --background errors.luks dir");
    let line = format!(
        "{files} || $luxor mount --background --key-file key errors.luks dir
         e2fsck -fy dir/errors >said; $luxor umount dir
         {files} && cat dir/hello; $luxor umount dir"
    );
    let outcome = run_as_nobody(&folder, &line);
    assert_eq!(outcome.text(), "hello\n", "{outcome:?}");
    let words = "Errors detected; running e2fsck is required.\n  If it was not unmounted cleanly";
    assert!(outcome.stderr.contains(words), "{outcome:?}");
    assert_nothing_is_mounted(&folder);
}

#[test]
fn root_is_told_whose_mount_it_cannot_look_at() {
    let folder = prepared_for_nobody("squashfs");
    let line = format!("{FILES} --background volume.luks dir");
    let _alone = FUSE_MODE.lock().unwrap_or_else(PoisonError::into_inner);
    alone_as_nobody(&folder, &line).assert_code(0);
    let refused = luxor("umount dir").current_dir(folder.path()).run();
    tool("umount", [folder.join("dir")]);
    alone_as_nobody(&folder, UNTIL_UNMOUNTED).assert_code(0);
    refused.assert_code(1);
    let words = "cannot look at dir: Permission denied\n  A mount is closed to other users";
    assert!(refused.stderr.contains(words), "{refused:?}");
    assert!(
        refused.stderr.contains("`umount dir` works too"),
        "{refused:?}"
    );
    assert_nothing_is_mounted(&folder);
}
