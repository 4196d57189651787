// SPDX-License-Identifier: MIT OR Apache-2.0
//! `format`.

use std::{
    fs::{self, File},
    os::unix::fs::{MetadataExt, PermissionsExt},
};

use luxor_files::testing::Loop;

use crate::support::{FAST, Folder, Luxor, bytes, luxor, tool};

const HEADER: u64 = 16 << 20;

fn prepared() -> Folder {
    let folder = Folder::new();
    folder.write("key", b"correct horse");
    folder
}

fn format(folder: &Folder, line: &str) -> Luxor {
    luxor("format --key-file key")
        .args(FAST)
        .args(line.split_whitespace())
        .current_dir(folder.path())
}

/// Runs cryptsetup in the folder, and returns what it prints.
fn cryptsetup(folder: &Folder, line: &str) -> String {
    let shell = format!(
        "cd '{}' && exec cryptsetup -q {line}",
        folder.path().display()
    );
    tool("sh", ["-c", &shell]).text().to_owned()
}

fn decrypted(folder: &Folder, line: &str) -> Vec<u8> {
    luxor(&format!("decrypt --force --key-file key {line} out"))
        .current_dir(folder.path())
        .ok();
    fs::read(folder.join("out")).unwrap()
}

#[test]
fn a_new_volume_has_the_size_and_takes_no_room() {
    let folder = prepared();
    for (name, options, data) in [
        ("luks2", "", HEADER),
        (
            "label",
            "--label Photos --sector-size 512 --key-size 256",
            HEADER,
        ),
        ("luks1", "--type luks1", 2 << 20),
    ] {
        format(&folder, &format!("--size 1G {options} {name}")).ok();
        let metadata = fs::metadata(folder.join(name)).unwrap();
        assert_eq!(metadata.len(), data + (1 << 30), "{name}");
        assert!(metadata.blocks() * 512 < data + (1 << 20), "{name}");
        assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
        cryptsetup(
            &folder,
            &format!("open --test-passphrase --key-file key {name}"),
        );
        let outcome = luxor("check --key-file key")
            .arg(name)
            .current_dir(folder.path())
            .ok();
        assert!(outcome.text().contains("1073741824 bytes"), "{outcome:#?}");
        let dump = luxor("dump").arg(name).current_dir(folder.path()).ok();
        let segment = "to the end of the file or device";
        assert!(dump.text().contains(segment), "{dump:#?}");
        assert!(!dump.text().contains("luxor-file"), "{dump:#?}");
    }
    // A hole decrypts to unpredictable bytes, but they exist.
    format(&folder, "--size 12K small").ok();
    assert_eq!(decrypted(&folder, "small").len(), 12 << 10);
}

#[test]
fn sizes_are_whole_sectors() {
    let folder = prepared();
    let names = folder.names();
    for (line, words) in [
        ("--size 0 new", "not 0"),
        ("--size 6K new", "4096"),
        ("--size 1000 --sector-size 512 new", "512"),
        (
            "--size 9223372036854775296 --sector-size 512 new",
            "too many",
        ),
        ("--size 1M -", "file"),
    ] {
        format(&folder, line).fails(1, words);
    }
    for (line, words) in [
        ("--size 8388608T new", "8 EiB"),
        ("--size x new", "K, M, G or T"),
    ] {
        let outcome = format(&folder, line).run();
        outcome.assert_code(1);
        assert!(outcome.stderr.contains(words), "{outcome:#?}");
    }
    format(&folder, "new").fails(4, "--size");
    format(&folder, "--size 1M folder/new").fails(4, "folder");
    assert_eq!(folder.names(), names);
}

#[test]
fn an_existing_file_is_replaced_only_with_force() {
    let folder = prepared();
    let old = bytes(20 << 20, 1);
    folder.write("volume", &old);
    for line in ["volume", "--size 1M volume"] {
        format(&folder, line).fails(5, "--force");
        assert!(fs::read(folder.join("volume")).unwrap() == old);
    }
    format(&folder, "--force volume").ok();
    assert_eq!(fs::metadata(folder.join("volume")).unwrap().len(), 20 << 20);
    assert_eq!(decrypted(&folder, "volume").len(), 4 << 20);
    format(&folder, "--force --size 1M volume").ok();
    assert_eq!(fs::metadata(folder.join("volume")).unwrap().len(), 17 << 20);

    folder.write("short", vec![0; 16 << 20]);
    format(&folder, "--force short").fails(1, "not 0");
    folder.write("odd", vec![0; (16 << 20) + 512]);
    format(&folder, "--force odd").fails(1, "4096");
    format(&folder, "--force --sector-size 512 odd").ok();
}

#[test]
fn a_detached_header_leaves_data_that_exist() {
    let folder = prepared();
    format(&folder, "--size 1M --header head data").ok();
    assert_eq!(fs::metadata(folder.join("data")).unwrap().len(), 1 << 20);
    assert_eq!(fs::metadata(folder.join("head")).unwrap().len(), HEADER);
    assert_eq!(decrypted(&folder, "--header head data").len(), 1 << 20);

    let old = bytes(1 << 20, 2);
    folder.write("data", &old);
    format(&folder, "--header head data").fails(5, "--force");
    format(&folder, "--header other-head data").ok();
    assert!(fs::read(folder.join("data")).unwrap() == old);
    cryptsetup(&folder, "open --test-passphrase --key-file key other-head");
    format(&folder, "--header data data").fails(1, "different");
    format(&folder, "--force --header key data").fails(1, "key file");
}

/// The volume is as long as requested. The rest of the device is unused.
#[test]
fn a_device_becomes_a_volume() {
    let folder = prepared();
    let disk = folder.join("disk");
    File::create(&disk).unwrap().set_len(20 << 20).unwrap();
    let device = Loop::over(&disk);
    let name = device.name();

    format(&folder, name).fails(5, "--force");
    format(&folder, &format!("--force --size 5M {name}")).fails(1, "are needed");
    assert!(fs::read(&disk).unwrap().iter().all(|&byte| byte == 0));
    for (size, expected) in [("", "dynamic"), ("--size 2M", "2097152")] {
        format(&folder, &format!("--force {size} {name}")).ok();
        let dump = luxor("dump --json").arg(name).ok();
        let line = format!("\"size\":\"{expected}\"");
        assert!(dump.text().contains(&line), "{}", dump.text());
        cryptsetup(
            &folder,
            &format!("open --test-passphrase --key-file key {name}"),
        );
        let len = decrypted(&folder, name).len();
        assert_eq!(len, if size.is_empty() { 4 << 20 } else { 2 << 20 });
    }
}
