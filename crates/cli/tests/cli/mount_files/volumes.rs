// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which part of a volume is mounted, how the volume is opened for it, and what helps if that is impossible.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, chown},
};

use super::{
    FILES, assert_nothing_is_mounted, encrypt, mount, prepared, prepared_for_nobody, run_as_nobody,
    umount,
};
use crate::support::{Folder, shell_without_terminal, typed};

#[test]
fn partitions_within_and_around_the_volume_are_told_apart() {
    let folder = prepared("ext4");
    let make = "truncate -s 12M disk; printf 'label: gpt\\nsize=1MiB\\nsize=4MiB\\n' | sfdisk -q disk
                dd if=ext4 of=disk bs=1M seek=2 conv=notrunc status=none
                truncate -s 32M around; printf 'label: gpt\\nsize=1MiB\\nsize=24MiB\\n' | sfdisk -q around
                dd if=volume.luks of=around bs=1M seek=2 conv=notrunc status=none";
    shell_without_terminal(make, folder.path()).assert_code(0);
    encrypt(&folder, "disk", "disk.luks");
    let within = "luxor: disk.luks: it has no partition table\n  For a partition table in the volume, \
                  give --files --partition N in place of --volume-partition.";
    let around = "To open it: `luxor mount --volume-partition 2 --files --background --key-file key \
                  around dir`";
    let none =
        "luxor: the plaintext of volume.luks: it has no partition table\n  Leave out --partition.";
    for (arguments, words) in [
        ("--volume-partition 2 disk.luks dir", within),
        ("--partition 2 around dir", around),
        ("--partition=2 around dir", around),
        ("--partition 2 volume.luks dir", none),
    ] {
        let outcome = mount(&folder, arguments);
        outcome.assert_code(1);
        assert!(outcome.stderr.contains(words), "{outcome:?}");
    }
    for arguments in [
        "--partition 2 disk.luks dir",
        "--volume-partition 2 around dir",
        "volume.luks dir",
    ] {
        mount(&folder, arguments).assert_code(0);
        umount(&folder);
    }
}

/// A copy of a mounted file system needs its journal.
#[test]
fn a_journal_is_replayed_as_advised() {
    let folder = Folder::new();
    folder.write("key", b"correct horse");
    for name in ["dir", "private"] {
        fs::create_dir(folder.join(name)).unwrap();
    }
    let make = "truncate -s 16M ext4; mkfs.ext4 -q ext4; truncate -s 20M disk
                debugfs -w -R 'feature needs_recovery' ext4 >said
                echo 'label: gpt\nsize=1M\nsize=16M\n' | sfdisk -q disk
                dd if=ext4 of=disk bs=1M seek=2 conv=notrunc status=none";
    shell_without_terminal(make, folder.path()).assert_code(0);
    encrypt(&folder, "ext4", "my volume.luks");
    encrypt(&folder, "disk", "disk.luks");
    for name in ["key", "my volume.luks", "disk.luks", "dir", "private"] {
        chown(folder.join(name), Some(65534), Some(65534)).unwrap();
    }
    folder.open_to_everybody();
    for volume in ["'my volume.luks'", "--partition 2 disk.luks"] {
        // A driver that replays it changes the volume.
        shell_without_terminal("mkdir -p kept; cp -p *.luks kept", folder.path()).assert_code(0);
        let files = format!("{FILES} --background {volume} dir");
        let outcome = run_as_nobody(&folder, &files);
        outcome.assert_code(1);
        // fuse2fs 1.47.0 mounts it, and dies at the first access.
        let writes = files.replace("--background", "--background --read-write");
        let tried = run_as_nobody(&folder, &format!("{writes} && ls dir && $luxor umount dir"));
        let is_shown = tried.stderr.contains("are in dir");
        assert_eq!(is_shown, tried.text() == "lost+found\n", "{tried:?}");
        shell_without_terminal("cp -p kept/*.luks .", folder.path()).assert_code(0);
        let Some((_, advice)) = outcome.stderr.split_once("replay its journal: ") else {
            assert!(volume.contains("--partition"), "{outcome:?}");
            assert!(outcome.stderr.contains("if root mounts it"), "{outcome:?}");
            continue;
        };
        let commands: Vec<_> = advice.split('`').skip(1).step_by(2).collect();
        let [mount, repair, umount] = commands[..] else {
            panic!("{outcome:?}")
        };
        let mount = mount.replace("luxor mount", "$luxor mount --key-file key");
        let umount = umount.replace("luxor", "$luxor");
        let line = format!(
            "{mount} 2>/dev/null && {repair} >/dev/null 2>&1; {umount}; {files} 2>/dev/null && ls dir; $luxor umount dir"
        );
        let outcome = run_as_nobody(&folder, &line);
        assert_eq!(outcome.text(), "lost+found\n", "{outcome:?}");
        assert_nothing_is_mounted(&folder);
    }
}

#[test]
fn root_is_told_that_the_kernel_must_write_to_replay_a_journal() {
    let folder = prepared("ext4");
    shell_without_terminal(
        "debugfs -w -R 'feature needs_recovery' ext4 >said",
        folder.path(),
    )
    .assert_code(0);
    encrypt(&folder, "ext4", "unclean.luks");
    let refused = mount(&folder, "--read-only unclean.luks dir");
    refused.assert_code(1);
    assert_nothing_is_mounted(&folder);
    if !fs::read_to_string("/proc/filesystems")
        .unwrap()
        .contains("\text4\n")
    {
        assert!(
            refused.stderr.contains("Journal needs recovery"),
            "{refused:?}"
        );
        return;
    }
    assert!(
        refused.stderr.contains("leave out --read-only"),
        "{refused:?}"
    );
    mount(&folder, "unclean.luks dir").assert_code(0);
    assert_eq!(fs::read(folder.join("dir/hello")).unwrap(), b"hello\n");
    umount(&folder);
}

/// Only a mount that writes keeps others out, and needs the permission to write.
#[test]
fn a_mount_that_only_reads_opens_the_volume_for_reading() {
    let folder = prepared_for_nobody("ext4");
    let mode = fs::Permissions::from_mode(0o400);
    fs::set_permissions(folder.join("volume.luks"), mode).unwrap();
    let line = format!(
        "mkdir private/other; {FILES} --background volume.luks dir && \
         {FILES} --background volume.luks private/other && cat private/other/hello dir/hello
         $luxor umount private/other; rmdir private/other
         $luxor umount dir; {FILES} --background --read-write volume.luks dir"
    );
    let outcome = run_as_nobody(&folder, &line);
    assert_eq!(outcome.text(), "hello\nhello\n", "{outcome:?}");
    let words = "fuse2fs does not use the journal";
    assert_eq!(outcome.stderr.matches(words).count(), 2, "{outcome:?}");
    assert_eq!(
        outcome.stderr.matches("Permission denied").count(),
        1,
        "{outcome:?}"
    );
    assert_nothing_is_mounted(&folder);
}

#[test]
fn a_user_at_a_terminal_hears_of_the_files_and_of_the_end() {
    let folder = prepared("ext4");
    let mount = "$luxor mount --key-file key volume.luks dir";
    let umount = "(until mountpoint -q dir; do sleep 0.05; done; $luxor umount dir) &";
    let end = "to end it: Ctrl-C, or `luxor umount dir`";
    let files = "it is a file system (ext4): with --files, `luxor mount` shows the files in it";
    for (line, has_files, has_end) in [
        (format!("{umount} {mount}; wait"), true, true),
        (format!("{umount} {mount} --files; wait"), false, true),
        (
            format!("{mount} --background; $luxor umount dir"),
            true,
            false,
        ),
    ] {
        let (code, screen) = typed(&line, |_| None, folder.path());
        assert_eq!(code, 0, "{screen}");
        assert_eq!(screen.contains(files), has_files, "{screen}");
        assert_eq!(screen.contains(end), has_end, "{screen}");
    }
    assert_nothing_is_mounted(&folder);
}

/// The key file does not exist.
#[test]
fn what_fusermount3_would_refuse_is_refused_before_a_secret_is_read() {
    let folder = prepared_for_nobody("ext4");
    for (mode, options, words) in [
        (0o755, "", "dir belongs to another user"),
        (0o1777, "--files", "dir belongs to another user"),
        (0o777, "", "missing"),
        (
            0o777,
            "--allow-other",
            "`echo user_allow_other >>/etc/fuse.conf`",
        ),
    ] {
        chown(folder.join("dir"), Some(0), Some(0)).unwrap();
        fs::set_permissions(folder.join("dir"), fs::Permissions::from_mode(mode)).unwrap();
        let conf = fs::read_to_string("/etc/fuse.conf").unwrap_or_default();
        let is_permitted = conf.lines().any(|line| line.trim() == "user_allow_other");
        let is_refused = !(is_permitted && options == "--allow-other");
        let words = if is_refused { words } else { "missing" };
        let line = format!("$luxor mount {options} --key-file missing volume.luks dir");
        let outcome = run_as_nobody(&folder, &line);
        assert!(outcome.stderr.contains(words), "{words}: {outcome:?}");
    }
}
