// SPDX-License-Identifier: MIT OR Apache-2.0
//! `format`.

use std::{
    fs::{self, File},
    os::unix::fs::{MetadataExt, PermissionsExt},
};

use luxor::files::testing::Loop;
use serde_json::Value;

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
        ("--size 6K --sector-size 4096 new", "4096"),
        ("--size 6145 new", "6144 bytes"),
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
    format(&folder, "--force --sector-size 4096 odd").fails(1, "4096");
    format(&folder, "--force odd").ok();
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

/// One key should encrypt 2^36 blocks at most. No byte of these volumes is written.
#[test]
fn a_volume_of_more_than_1_tib_is_announced() {
    const TIB: u64 = 1 << 40;
    let folder = prepared();
    let dump = |line: &str| {
        let line = format!("dump {line}");
        let outcome = luxor(&line).current_dir(folder.path()).ok();
        let found = outcome.text().lines().find(|line| line.contains("2^36"));
        found.map(|line| line.trim().to_owned())
    };
    let shares = |blocks: &str, shares: [&str; 2]| {
        let [recommended, maximum] = shares;
        let of = format!("{recommended} of the recommended 2^36, {maximum} of the maximum 2^44");
        Some(format!("Key encrypts    {blocks} blocks: {of}"))
    };
    let announced = format(&folder, &format!("--size {} more", TIB + 4096)).ok();
    assert!(
        announced.stderr.contains("warning: one key encrypts")
            && announced.stderr.contains("1099511631872 bytes of more")
            && announced.stderr.contains("docs/reencryption.md"),
        "{announced:#?}"
    );
    assert_eq!(dump("more"), shares("68719476992", ["100.0 %", "0.4 %"]));
    let outcome = format(&folder, "--size 1T --force more").ok();
    assert!(!outcome.stderr.contains("one key"), "{outcome:#?}");
    assert_eq!(dump("more"), shares("68719476736", ["100.0 %", "0.4 %"]));

    for (line, is_announced) in [
        ("resize --size 1030G more", true),
        ("resize --shrink --size 1T more", false),
    ] {
        let outcome = luxor(line).current_dir(folder.path()).ok();
        assert_eq!(
            outcome.stderr.contains("one key"),
            is_announced,
            "{outcome:#?}"
        );
    }

    // Also where the header is detached, and for the command lines of cryptsetup.
    let data = File::create(folder.join("data")).unwrap();
    data.set_len(2 * TIB).unwrap();
    let outcome = format(&folder, "--header head data").ok();
    assert!(
        outcome.stderr.contains("2199023255552 bytes of data"),
        "{outcome:#?}"
    );
    let two = shares("137438953472", ["200.0 %", "0.8 %"]);
    assert_eq!(dump("--header head data"), two);
    assert_eq!(dump("head"), None);
    let line = "luksFormat --batch-mode --key-file key --header other data";
    let outcome = luxor(line).args(FAST).current_dir(folder.path()).ok();
    assert!(outcome.stderr.contains("1 TiB"), "{outcome:#?}");
    assert_eq!(dump("--header other data"), two);

    // `check` says it too.
    let check = |line: &str| luxor(line).current_dir(folder.path()).ok();
    let text = check("check --header head data");
    let words = "digest 0: its key encrypts 137438953472 blocks, more than the 1 TiB";
    assert!(text.text().contains(words), "{text:#?}");
    let json: Value =
        serde_json::from_slice(&check("check --json --header head data").stdout).unwrap();
    assert_eq!(json["key_scopes"][0]["blocks"], 1_u64 << 37, "{json}");
    let text = check("check more");
    assert!(!text.text().contains("encrypts"), "{text:#?}");
}

/// `encrypt` says it before it asks for the secret.
#[test]
fn a_file_of_more_than_1_tib_is_announced() {
    let folder = prepared();
    let file = File::create(folder.join("file")).unwrap();
    for (len, is_announced) in [(1 << 40, false), ((1 << 40) + 1, true)] {
        file.set_len(len).unwrap();
        // The secret is empty.
        let outcome = luxor("encrypt --passphrase-fd 0 file volume")
            .current_dir(folder.path())
            .run();
        outcome.assert_code(1);
        assert_eq!(
            outcome.stderr.contains("one key"),
            is_announced,
            "{outcome:#?}"
        );
        assert!(!folder.join("volume").exists());
    }
}

/// Returns the sector size in the metadata, as cryptsetup prints it.
fn sector_size(folder: &Folder, name: &str) -> String {
    let dump = cryptsetup(folder, &format!("luksDump {name}"));
    let line = dump.lines().find(|line| line.trim().starts_with("sector:"));
    let size = line.and_then(|line| line.split_whitespace().nth(1));
    size.expect("there is a sector size").to_owned()
}

/// The default is that of cryptsetup for each length of a file and for each size of a device's blocks.
/// The program prints it if it is not 4096.
#[test]
fn the_sector_size_is_that_of_cryptsetup() {
    const MIB: u64 = 1 << 20;
    let theirs = |folder: &Folder, name: &str| {
        let line = "luksFormat -q --pbkdf pbkdf2 --pbkdf-force-iterations 1000 --key-file key";
        cryptsetup(folder, &format!("{line} {name}"));
        sector_size(folder, name)
    };
    let check = |folder: &Folder, name: &str, expected: &str| {
        let outcome = format(folder, &format!("--force {name}")).ok();
        assert_eq!(sector_size(folder, name), expected, "{name}");
        let says = format!("the sector size is {expected} bytes");
        assert_eq!(
            outcome.stderr.contains(&says),
            expected != "4096",
            "{outcome:#?}"
        );
    };
    let folder = prepared();
    let file = |len: u64| {
        File::create(folder.join("file"))
            .unwrap()
            .set_len(len)
            .unwrap();
    };
    for len in [20 * MIB, 20 * MIB + 512, 20 * MIB + 2048, 17 * MIB + 4096] {
        file(len);
        let expected = theirs(&folder, "file");
        file(len);
        check(&folder, "file", &expected);
    }
    for (block, len) in [
        (512, 20 * MIB),
        (512, 20 * MIB + 512),
        (1024, 20 * MIB),
        (2048, 20 * MIB + 2048),
        (4096, 20 * MIB),
    ] {
        file(len);
        let device = Loop::with_sectors(&folder.join("file"), block);
        let expected = theirs(&folder, device.name());
        check(&folder, device.name(), &expected);
        // A file that is encrypted onto the device, which the rest of its last sector may not fit.
        folder.write("input", vec![7; 1000]);
        let encrypt = format!("encrypt --force --key-file key input {}", device.name());
        luxor(&encrypt).args(FAST).current_dir(folder.path()).ok();
        assert_eq!(sector_size(&folder, device.name()), expected);
        assert_eq!(decrypted(&folder, device.name()), [7; 1000]);
    }
    // New files, and sizes that the user chose.
    for (options, name, expected) in [
        ("--size 6K", "new-512", "512"),
        ("--size 8K", "new-4096", "4096"),
        ("--size 8K --sector-size 1024", "new-1024", "1024"),
    ] {
        format(&folder, &format!("{options} {name}")).ok();
        assert_eq!(sector_size(&folder, name), expected);
    }
    file(20 * MIB + 100);
    let outcome = format(&folder, "--force file").fails(1, "512");
    assert!(
        outcome.stderr.contains("`truncate --size 20972032 file`"),
        "{outcome:#?}"
    );
    std::process::Command::new("truncate")
        .args(["--size", "20972032", "file"])
        .current_dir(folder.path())
        .status()
        .unwrap();
    check(&folder, "file", "512");

    for len in [0, 100, 16 * MIB, 16 * MIB + 1, 16 * MIB + 511] {
        file(len);
        let outcome = format(&folder, "--force file").fails(1, "the volume would hold");
        let possible = 16 * MIB + if len <= 16 * MIB { 4096 } else { 512 };
        let hint = format!("`truncate --size {possible} file`");
        assert!(outcome.stderr.contains(&hint), "{len}: {outcome:#?}");
        file(possible);
        format(&folder, "--force file").ok();
    }
    for (len, hint) in [(0, 4096), (1, 512), (511, 512), (1000, 512)] {
        let outcome = format(&folder, &format!("--size {len} short-{len}"));
        outcome.fails(1, &format!("A size of {hint} bytes is possible"));
        format(&folder, &format!("--size {hint} short-{len}")).ok();
    }

    // Data that are encrypted in place.
    folder.write("data", bytes(3 * 1024 + 512, 5));
    let in_place = "reencrypt --encrypt --header data.header --key-file key data";
    luxor(in_place).args(FAST).current_dir(folder.path()).ok();
    assert_eq!(sector_size(&folder, "data.header"), "512");
    luxor("decrypt --header data.header --key-file key data copy")
        .current_dir(folder.path())
        .ok();
    assert_eq!(
        fs::read(folder.join("copy")).unwrap(),
        bytes(3 * 1024 + 512, 5)
    );
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
