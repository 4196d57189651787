// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files that are no volumes are named for what they are, and the commands that a message advises work.

use std::{env, fs, path::Path};

use crate::support::{FAST, Folder, Luxor, Outcome, bytes, luxor, shell_without_terminal};

fn at(folder: &Folder, line: &str) -> Luxor {
    luxor(line).current_dir(folder.path())
}

fn volume() -> (Folder, Vec<u8>) {
    let folder = Folder::new();
    folder.write("key", b"correct horse");
    let plain = bytes(50_000, 1);
    folder.write("plain", &plain);
    at(&folder, "encrypt --key-file key plain v")
        .args(FAST)
        .ok();
    (folder, plain)
}

fn shell(folder: &Folder, line: &str) -> Outcome {
    let program = Path::new(env!("CARGO_BIN_EXE_luxor"));
    let path = env::var_os("PATH").unwrap_or_default();
    let path = format!("{}:{}", program.parent().unwrap().display(), path.display());
    shell_without_terminal(&format!("export PATH='{path}'; {line}"), folder.path())
}

/// Runs the command in the hint of a failure.
fn advised(folder: &Folder, failed: &Outcome, before: &str) {
    let line = failed
        .stderr
        .lines()
        .find_map(|line| Some(line.split_once(before)?.1));
    let line = line.and_then(|line| line.strip_prefix('`')?.split_once('`'));
    let (line, _) = line.unwrap_or_else(|| panic!("no {before:?} in {failed:?}"));
    shell(folder, line).assert_code(0);
}

/// Each of these opens a volume.
const COMMANDS: [&str; 12] = [
    "dump",
    "check",
    "uuid",
    "key list",
    "key test --key-file key",
    "key add --key-file key --new-key-file key",
    "token list",
    "header digest",
    "header repair",
    "config --label x",
    "resize",
    "serve --key-file key --socket s",
];

#[test]
fn every_command_says_what_it_sees() {
    let folder = Folder::new();
    folder.write("key", b"correct horse");
    folder.write("text", b"a note\n".repeat(600));
    fs::create_dir(folder.join("empty")).unwrap();
    shell(&folder, "qemu-img create -q -f qcow2 image 1M").assert_code(0);
    for command in COMMANDS {
        at(&folder, &format!("{command} image"))
            .fails(1, "image: this is not a LUKS volume: it is a qcow2 image");
        at(&folder, &format!("{command} text")).fails(1, "it is a text file");
    }
    for line in [
        "decrypt --key-file key image out",
        "header backup image out",
        "convert --type luks1 image",
        "reencrypt --key-file key image",
        "mount --key-file key image empty",
        "luksDump image",
        "dump --header image text",
    ] {
        at(&folder, line).fails(1, "it is a qcow2 image");
    }
    let stream = at(&folder, "dump -").stdin(fs::read(folder.join("image")).unwrap());
    stream.fails(
        1,
        "standard input: this is not a LUKS volume: it is a qcow2 image",
    );
    // Scripts ask in silence.
    let silent = at(&folder, "is-luks image").run();
    assert_eq!((silent.code, silent.stderr.as_str()), (Some(1), ""));
}

#[test]
fn a_volume_in_a_partition_is_opened_as_advised() {
    let (folder, plain) = volume();
    shell(
        &folder,
        "truncate -s 40M 'my disk.img'
         printf 'label: gpt\\nsize=2MiB\\nsize=20MiB\\n' | sfdisk --quiet 'my disk.img'
         mkfs.ext4 -q -F -E offset=1048576 'my disk.img' 2M
         dd if=v of='my disk.img' bs=1M seek=3 conv=notrunc status=none",
    )
    .assert_code(0);
    let disk = "'my disk.img'";
    let failed = shell(&folder, &format!("luxor decrypt --key-file key {disk} out"));
    failed.assert_code(1);
    for words in [
        "(GPT)",
        "partition 1 is an ext4 file system",
        "partition 2 is a LUKS2 volume (at byte 3145728)",
        "luxor decrypt --volume-partition 2 --key-file key 'my disk.img' out",
    ] {
        assert!(failed.stderr.contains(words), "{words}: {failed:?}");
    }
    advised(&folder, &failed, "To open it: ");
    assert!(fs::read(folder.join("out")).unwrap() == plain);
    for command in [
        "dump",
        "check --key-file key",
        "key list",
        "luksDump",
        "header digest",
    ] {
        let failed = shell(&folder, &format!("luxor {command} {disk}"));
        failed.assert_code(1);
        advised(&folder, &failed, "To open it: ");
    }
    // A line that is copied must not destroy what the user has not named.
    for command in [
        "erase --batch-mode",
        "convert --type luks1",
        "key remove --force --key-slot 0",
    ] {
        let failed = shell(&folder, &format!("luxor {command} {disk}"));
        failed.assert_code(1);
        let words = "If you mean the volume in it, add --volume-partition 2.";
        assert!(failed.stderr.contains(words), "{failed:?}");
        assert!(!failed.stderr.contains("luxor "), "{failed:?}");
    }
    let pipe = shell(&folder, &format!("head -c 2M {disk} | luxor dump -"));
    assert!(pipe.stderr.contains("not a pipe"), "{pipe:?}");
    // Without the first copy of the table, by the second.
    shell(
        &folder,
        &format!("dd if=/dev/zero of={disk} bs=512 seek=1 count=1 conv=notrunc status=none"),
    )
    .assert_code(0);
    let failed = shell(&folder, &format!("luxor dump {disk}"));
    advised(&folder, &failed, "To open it: ");
}

#[test]
fn a_volume_at_another_byte_is_opened_as_advised() {
    let (folder, plain) = volume();
    shell(&folder, "(head -c 40960 /dev/zero; cat v) > image").assert_code(0);
    let failed = at(&folder, "decrypt --key-file key image out");
    let failed = failed.fails(1, "a LUKS2 volume begins at byte 40960");
    advised(&folder, &failed, "To open it: ");
    assert!(fs::read(folder.join("out")).unwrap() == plain);
}

#[test]
fn an_image_is_converted_as_advised() {
    let (folder, plain) = volume();
    shell(
        &folder,
        "qemu-img convert -f raw -O qcow2 v 'an image.qcow2'",
    )
    .assert_code(0);
    let failed = shell(&folder, "luxor dump 'an image.qcow2'");
    failed.assert_code(1);
    advised(&folder, &failed, "Convert it first: ");
    shell(
        &folder,
        "luxor decrypt --key-file key 'an image.qcow2.raw' out",
    )
    .assert_code(0);
    assert!(fs::read(folder.join("out")).unwrap() == plain);
}

#[test]
fn a_disk_of_a_virtual_machine_is_encrypted_as_advised() {
    let (folder, plain) = volume();
    for (format, name) in [
        ("qcow2", "an image.qcow2"),
        ("vmdk", "i.vmdk"),
        ("vdi", "i.vdi"),
    ] {
        let make = format!(
            "cp plain disk; truncate -s 64K disk; qemu-img convert -O {format} disk '{name}'"
        );
        shell(&folder, &make).assert_code(0);
        let failed = shell(&folder, &format!("luxor serve --socket s '{name}'"));
        failed.assert_code(1);
        advised(&folder, &failed, "Convert it first: ");
        let fast = format!(
            "encrypts it: `luxor encrypt {} --key-file key ",
            FAST.join(" ")
        );
        let stderr = failed.stderr.replace("encrypts it: `luxor encrypt ", &fast);
        advised(&folder, &Outcome { stderr, ..failed }, "encrypts it: ");
        let line = format!("luxor decrypt --force --key-file key '{name}.luks' out");
        shell(&folder, &line).assert_code(0);
        assert_eq!(fs::read(folder.join("out")).unwrap()[..plain.len()], plain);

        let line = format!(
            "luxor encrypt --key-file key {} '{name}' whole",
            FAST.join(" ")
        );
        let warned = shell(&folder, &format!("rm -f whole '{name}.raw'; {line}"));
        warned.assert_code(0);
        advised(&folder, &warned, "convert it first: ");
    }
    let line = format!(
        "luxor encrypt --key-file key {} plain other",
        FAST.join(" ")
    );
    assert_eq!(shell(&folder, &line).stderr, "");
}

#[test]
fn a_header_without_data_and_data_without_a_header_are_named() {
    let (folder, plain) = volume();
    at(&folder, "header backup v backup").ok();
    let words = "backup has a header and no data: it is a backup of a header";
    for line in [
        "decrypt --key-file key backup out",
        "serve --read-only --key-file key --socket s backup",
    ] {
        let failed = at(&folder, line).fails(1, words);
        let command = failed.stderr.split('`').nth(1);
        let command = command.unwrap_or_else(|| panic!("no command: {failed:?}"));
        let command = command.replace("TARGET", "--batch-mode damaged");
        shell(
            &folder,
            "cp v damaged; dd if=/dev/zero of=damaged bs=32K count=1 conv=notrunc",
        )
        .assert_code(0);
        let restored = shell(&folder, &format!("{command} --force"));
        restored.assert_code(0);
        at(&folder, "decrypt --force --key-file key damaged out").ok();
        assert!(fs::read(folder.join("out")).unwrap() == plain);
    }
    fs::remove_file(folder.join("out")).unwrap();
    at(&folder, "decrypt --header backup --key-file key v out").ok();
    assert!(fs::read(folder.join("out")).unwrap() == plain);

    at(&folder, "encrypt --header head --key-file key plain data")
        .args(FAST)
        .ok();
    for line in ["dump data", "decrypt --key-file key data out2"] {
        let failed = at(&folder, line).fails(1, "VeraCrypt");
        assert!(failed.stderr.contains("--header FILE"), "{failed:?}");
    }
}

/// A second copy that is intact stands for the first one, and repair restores that.
#[test]
fn a_damaged_first_header_is_repaired_as_advised() {
    let (folder, _) = volume();
    for block in ["/dev/zero", "/dev/urandom"] {
        shell(
            &folder,
            &format!("dd if={block} of=v bs=4096 count=1 conv=notrunc status=none"),
        )
        .assert_code(0);
        let seen = at(&folder, "dump v").ok();
        assert!(
            seen.stderr
                .contains("`luxor header repair v` makes both copies equal"),
            "{seen:?}"
        );
        at(&folder, "header repair v").ok();
        let seen = at(&folder, "check --key-file key v").ok();
        assert_eq!(seen.stderr, "", "{block}");
    }
}

/// The options for a part of a file are about the volume, not about a backup or a detached header.
#[test]
fn a_header_inside_another_file_is_copied_as_advised() {
    let (folder, plain) = volume();
    shell(
        &folder,
        "truncate -s 40M 'my disk.img'
         printf 'label: gpt\\nsize=2MiB\\nsize=20MiB\\n' | sfdisk --quiet 'my disk.img'
         dd if=v of='my disk.img' bs=1M seek=3 conv=notrunc status=none
         (head -c 40960 /dev/zero; cat v) > image; cp v damaged
         dd if=/dev/zero of=damaged bs=32K count=1 conv=notrunc status=none",
    )
    .assert_code(0);
    let words = "To copy the header of the volume in it: ";
    for file in ["'my disk.img'", "image"] {
        for line in [
            "luxor header restore --force --batch-mode damaged",
            "luxor decrypt --key-file key damaged out --header",
        ] {
            let failed = shell(&folder, &format!("{line} {file}"));
            failed.assert_code(1);
            let copy = failed.stderr.replace("NEW-FILE`", "copy`");
            let copy = Outcome {
                stderr: copy,
                ..failed
            };
            advised(&folder, &copy, words);
            shell(&folder, &format!("{line} copy")).assert_code(0);
            fs::remove_file(folder.join("copy")).unwrap();
        }
        let line = "luxor decrypt --force --key-file key damaged out";
        shell(&folder, line).assert_code(0);
        assert!(fs::read(folder.join("out")).unwrap() == plain);
        shell(
            &folder,
            "dd if=/dev/zero of=damaged bs=32K count=1 conv=notrunc",
        )
        .assert_code(0);
        fs::remove_file(folder.join("out")).unwrap();
    }
}

/// No command is advised that would change the target of a backup.
#[test]
fn a_backup_that_cannot_be_read_is_not_repaired_in_its_target() {
    let (folder, _) = volume();
    at(&folder, "header backup v backup").ok();
    for (name, line) in [
        ("unknown", "head -c 9000 plain > unknown"),
        ("empty", ": > empty"),
        ("short", "head -c 20000 backup > short"),
        (
            "bad",
            "cat backup > bad; for at in 300 16700; do printf x | dd of=bad bs=1 seek=$at conv=notrunc; done",
        ),
        ("zeros", "truncate -s 20M zeros"),
    ] {
        shell(&folder, line).assert_code(0);
        let failed = at(&folder, &format!("header restore --batch-mode v {name}"));
        let failed = failed.fails(1, &format!("{name}: "));
        assert!(!failed.stderr.contains('`'), "{failed:?}");
    }
}

/// A partition table belongs to a whole disk: its second copy is also at the end of each part.
#[test]
fn a_part_of_a_disk_has_no_partition_table() {
    let (folder, plain) = volume();
    shell(
        &folder,
        "truncate -s 40M disk
         printf 'label: gpt\\nsize=2MiB\\nsize=20MiB\\n' | sfdisk --quiet disk
         dd if=v of=disk bs=1M seek=3 conv=notrunc status=none",
    )
    .assert_code(0);
    let failed = at(&folder, "check --volume-offset 30M disk").fails(1, "are all zero");
    assert!(!failed.stderr.contains("GPT"), "{failed:?}");
    // The offset is that in the file, and takes the place of the given one.
    for part in ["--volume-offset 1048576", "--volume-offset 2097152"] {
        let line = format!("decrypt --key-file key {part} disk out");
        let failed = at(&folder, &line).fails(1, "a LUKS2 volume begins at byte 3145728");
        let words = format!("give --volume-offset 3145728 in place of {part}.");
        assert!(failed.stderr.contains(&words), "{failed:?}");
        let line = line.replace(part, "--volume-offset 3145728");
        at(&folder, &line).ok();
        assert!(fs::read(folder.join("out")).unwrap() == plain);
        fs::remove_file(folder.join("out")).unwrap();
    }
    // An image inside a partition has no name of its own.
    shell(
        &folder,
        "qemu-img convert -O qcow2 plain q; dd if=q of=disk bs=1M seek=1 conv=notrunc status=none",
    )
    .assert_code(0);
    let failed = at(&folder, "dump --volume-partition 1 disk").fails(1, "a qcow2 image");
    assert!(!failed.stderr.contains('`'), "{failed:?}");
}

/// Nothing can be changed there, and nothing is kept.
#[test]
fn files_that_are_none_have_no_advice_for_files() {
    let folder = Folder::new();
    let _socket = std::os::unix::net::UnixListener::bind(folder.join("socket")).unwrap();
    fs::create_dir(folder.join("folder")).unwrap();
    folder.write("empty", b"");
    for (name, words) in [
        ("/dev/zero", "are all zero"),
        ("/dev/full", "are all zero"),
        ("/dev/random", "bytes that look random"),
        ("/dev/null", "it is empty"),
        ("/proc/version", "it is a text file"),
        ("/proc/self/mem", "cannot open"),
        ("socket", "socket is a socket, not a file"),
        ("folder", "folder is a folder, not a file"),
        ("empty", "it is empty"),
    ] {
        let failed = at(&folder, &format!("dump {name}")).fails(1, words);
        assert!(!failed.stderr.contains("luxor header"), "{failed:?}");
        assert!(!failed.stderr.contains(&format!(" {name}`")), "{failed:?}");
    }
}

/// A header is restored to a file that can have had one.
#[test]
fn no_header_is_restored_to_a_file_without_room_for_one() {
    let (folder, _) = volume();
    shell(
        &folder,
        "head -c 9000 plain > short; (printf x; head -c 39999 /dev/zero) > long; truncate -s 40K hole",
    )
    .assert_code(0);
    // The kernel makes the files in /sys when they are read.
    for (name, restores) in [
        ("short", false),
        ("/sys/kernel/notes", false),
        ("/sys/kernel/btf/vmlinux", false),
        ("long", true),
        ("hole", true),
    ] {
        if name.starts_with('/') && !Path::new(name).exists() {
            continue;
        }
        for command in ["check", "dump"] {
            let failed = at(&folder, &format!("{command} {name}")).run();
            failed.assert_code(1);
            let advice = failed.stderr.contains("luxor header restore");
            assert_eq!(advice, restores, "{failed:?}");
        }
    }
}
