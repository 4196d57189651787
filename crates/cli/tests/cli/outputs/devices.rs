// SPDX-License-Identifier: MIT OR Apache-2.0
//! Outputs that are no files: devices, FIFOs and the standard streams.

use std::{
    fs::{self, File},
    io::{Read, Write},
    os::unix::fs::symlink,
    process::Command,
};

use luxor::files::testing::Loop;

use super::{decrypt, encrypt, prepared};
use crate::support::{FAST, Outcome, bytes, luxor, tool};

#[test]
fn block_devices_are_outputs_and_inputs() {
    assert!(
        nix::unistd::geteuid().is_root(),
        "loop devices and mounts need root: `cargo xtask test` runs the tests with sudo"
    );
    let folder = prepared();
    let plain = bytes(1 << 20, 9);
    folder.write("plain", &plain);
    let image = folder.write("image", vec![0x55; 20 << 20]);
    let device = Loop::over(&image);
    let name = device.name();

    encrypt(&folder).args(["plain", name]).fails(5, "--force");
    assert!(fs::read(&image).unwrap().iter().all(|&byte| byte == 0x55));

    encrypt(&folder).args(["--force", "plain", name]).ok();
    // The rest of the device does not belong to the file.
    let dump = luxor("dump").arg(name).ok();
    assert!(dump.text().contains("1048576 bytes"), "{}", dump.text());
    decrypt(&folder).args([name, "back"]).ok();
    assert!(fs::read(folder.join("back")).unwrap() == plain);
    tool(
        "cryptsetup",
        [
            "open",
            "--test-passphrase",
            "--key-file",
            folder.join("key").to_str().unwrap(),
            name,
        ],
    );

    // A device as the input.
    let raw = folder.write("raw-image", bytes(3 << 20, 10));
    let source = Loop::over(&raw);
    encrypt(&folder).args([source.name(), "of-device"]).ok();
    decrypt(&folder).args(["of-device", "again"]).ok();
    tool("cmp", [folder.join("again"), raw]);

    // A device that is too small.
    let small = Loop::over(&folder.write("small", vec![0x55; 17 << 20]));
    folder.write("large", vec![0; 2 << 20]);
    // Standard input has no passphrase: it is not asked for.
    luxor("encrypt --force large")
        .arg(small.name())
        .current_dir(folder.path())
        .fails(1, "are needed");
    luxor("format --force --size 2M")
        .arg(small.name())
        .current_dir(folder.path())
        .fails(1, "are needed");

    // A mounted device.
    let mounted = Loop::over(&folder.write("ext", vec![0; 20 << 20]));
    tool("mkfs.ext4", ["-q", mounted.name()]);
    fs::create_dir(folder.join("mount")).unwrap();
    tool(
        "mount",
        [mounted.name(), folder.join("mount").to_str().unwrap()],
    );
    let outcome = encrypt(&folder)
        .args(["--force", "plain", mounted.name()])
        .run();
    tool("umount", [folder.join("mount")]);
    outcome.assert_code(5);
}

/// With --force the contents that will be destroyed are named first. Without it the refusal names
/// them.
#[test]
fn the_content_of_a_device_is_named() {
    let folder = prepared();
    let device = Loop::over(&folder.write("disk", vec![0; 20 << 20]));
    let format = format!("format --key-file key {}", device.name());
    let commands = [
        format.clone(),
        format!("encrypt --key-file key plain {}", device.name()),
        format!("decrypt --key-file key volume {}", device.name()),
    ];
    for command in &commands {
        let words = "an ext4 file system (signature at byte 1080)";
        tool("mkfs.ext4", ["-q", "-F", device.name()]);
        let run = |options: &str| {
            let line = format!("{command} {options}");
            luxor(&line)
                .current_dir(folder.path())
                .args(if command.starts_with("decrypt") {
                    &[][..]
                } else {
                    &FAST[..]
                })
        };
        run("").fails(5, words);
        tool("e2fsck", ["-fn", device.name()]);
        let outcome = run("--force").ok();
        assert!(outcome.stderr.contains(words), "{command}: {outcome:#?}");
        assert!(
            outcome.stderr.contains("warning"),
            "{command}: {outcome:#?}"
        );
        tool("mkfs.ext4", ["-q", "-F", device.name()]);
        let outcome = run("--force -q").ok();
        assert!(!outcome.stderr.contains(words), "{command}: {outcome:#?}");
    }
    // Both copies of a header are named. On an empty device nothing is named.
    let run = || luxor(&format).current_dir(folder.path()).args(FAST);
    run().arg("--force").ok();
    let outcome = run().fails(5, "a LUKS volume (signature at byte 0)");
    assert!(
        outcome.stderr.contains("signature at byte 16384"),
        "{outcome:#?}"
    );
    tool("wipefs", ["-qa", device.name()]);
    let outcome = run().fails(5, "is a block device: --force");
    assert!(!outcome.stderr.contains("signature"), "{outcome:#?}");
}

#[test]
fn a_fifo_is_an_input_and_an_output() {
    let folder = prepared();
    tool("mkfifo", [folder.join("fifo")]);
    let child = decrypt(&folder).args(["volume", "fifo"]).spawn();
    let mut out = Vec::new();
    File::open(folder.join("fifo"))
        .unwrap()
        .read_to_end(&mut out)
        .unwrap();
    let outcome = Outcome::new(
        "decrypt volume fifo".into(),
        child.wait_with_output().unwrap(),
    );
    outcome.assert_code(0);
    assert!(out == fs::read(folder.join("plain")).unwrap());

    // A new FIFO: a child of another test may still hold a copy of the reader above, which would
    // take the bytes in place of `luxor`.
    tool("mkfifo", [folder.join("fifo2")]);
    let child = encrypt(&folder).args(["fifo2", "of-fifo"]).spawn();
    let mut fifo = File::options()
        .write(true)
        .open(folder.join("fifo2"))
        .unwrap();
    fifo.write_all(b"through a fifo").unwrap();
    drop(fifo);
    Outcome::new("encrypt fifo".into(), child.wait_with_output().unwrap()).assert_code(0);
    let back = decrypt(&folder).args(["of-fifo", "-"]).ok();
    assert_eq!(back.stdout, b"through a fifo");
}

/// Rust's runtime opens `/dev/null` in place of closed streams, so output would be lost without an
/// error.
#[test]
fn closed_standard_streams_are_errors() {
    let folder = prepared();
    let run = |line: &str| {
        let mut shell = Command::new("sh");
        shell
            .args(["-c", &format!("\"$0\" {line}"), env!("CARGO_BIN_EXE_luxor")])
            .current_dir(folder.path());
        Outcome::new(line.to_owned(), shell.output().unwrap())
    };
    let before = folder.names();
    let decrypt = "decrypt --key-file key volume";
    symlink("/proc/self/fd/1", folder.join("link")).unwrap();
    for (line, words) in [
        (format!("{decrypt} - >&-"), "standard output"),
        (format!("{decrypt} - 1</dev/null"), "standard output"),
        ("dump volume >&-".to_owned(), "standard output"),
        ("dump volume 1</dev/null".to_owned(), "standard output"),
        ("check volume 1</dev/null".to_owned(), "standard output"),
        ("engines --json 1</dev/null".to_owned(), "standard output"),
        ("completions bash 1</dev/null".to_owned(), "standard output"),
        ("--help 1</dev/null".to_owned(), "standard output"),
        (
            format!("{decrypt} new --progress-json >&-"),
            "standard output",
        ),
        (
            "dump volume --volume-key --batch-mode --key-file key >&-".to_owned(),
            "standard output",
        ),
        ("--help >&-".to_owned(), "standard output"),
        (
            "encrypt --key-file key - new <&-".to_owned(),
            "standard input",
        ),
        (
            "encrypt --key-file key - new 0>/dev/null".to_owned(),
            "standard input",
        ),
        (
            "encrypt --passphrase-fd 0 plain new <&-".to_owned(),
            "standard input",
        ),
    ] {
        let outcome = run(&line);
        outcome.assert_code(1);
        for words in [words, "Bad file descriptor"] {
            assert!(outcome.stderr.contains(words), "{line}: {}", outcome.stderr);
        }
    }
    // The same by other names of the descriptor.
    for (line, stream) in [
        (format!("{decrypt} NAME >&-"), 1),
        (format!("{decrypt} NAME 2>&-"), 2),
        ("encrypt --key-file key NAME new <&-".to_owned(), 0),
        ("key test --key-file NAME volume <&-".to_owned(), 0),
    ] {
        for name in [
            "/dev/fd/N",
            "/dev/fd/../fd/N",
            "/proc/self/fd/N",
            "/proc/thread-self/fd/N",
            "link",
        ] {
            if name == "link" {
                fs::remove_file(folder.join("link")).unwrap();
                symlink(format!("/proc/self/fd/{stream}"), folder.join("link")).unwrap();
            }
            let name = name.replace('N', &stream.to_string());
            let outcome = run(&line.replace("NAME", &name));
            outcome.assert_code(1);
            assert!(
                stream == 2 || outcome.stderr.contains("No such device or address"),
                "{outcome:#?}"
            );
        }
    }
    fs::remove_file(folder.join("link")).unwrap();
    for line in [
        "--help > /dev/full",
        "--version > /dev/full",
        "decrypt --help > /dev/full",
    ] {
        let outcome = run(line);
        outcome.assert_code(1);
        assert!(outcome.stderr.contains("No space left"), "{outcome:#?}");
    }
    assert_eq!(folder.names(), before);
    // Streams that are not used may be closed.
    run(&format!("{decrypt} new <&- >&- 2>&-")).assert_code(0);
    assert!(fs::read(folder.join("new")).unwrap() == bytes(100_000, 1));
    run(&format!("{decrypt} - > /dev/null")).assert_code(0);
}
