// SPDX-License-Identifier: MIT OR Apache-2.0
//! `--luks2-metadata-size` and `--luks2-keyslots-size`.

use std::fs;

use crate::support::{FAST, Folder, Luxor, bytes, luxor};

const KIB: u64 = 1 << 10;

fn prepared() -> Folder {
    let folder = Folder::new();
    folder.write("key", b"correct horse");
    folder.write("other", b"battery staple");
    folder.write("plain", bytes(4096, 1));
    folder
}

/// Runs a command that reads the key file.
fn with_key(folder: &Folder, line: &str) -> Luxor {
    luxor(line)
        .args(["--key-file", "key"])
        .current_dir(folder.path())
}

/// Runs a command that makes a keyslot.
fn making(folder: &Folder, line: &str) -> Luxor {
    with_key(folder, line).args(FAST)
}

fn len(folder: &Folder, name: &str) -> u64 {
    fs::metadata(folder.join(name)).unwrap().len()
}

#[test]
fn a_volume_has_the_header_that_is_asked_for() {
    let folder = prepared();
    let plain = bytes(4096, 1);
    for (options, header) in [
        ("", 16384),
        ("--luks2-metadata-size 64K", 16384),
        ("--luks2-keyslots-size 252K", 284),
        (
            "--luks2-metadata-size 16384 --luks2-keyslots-size 512k",
            544,
        ),
        (
            "--luks2-metadata-size 32KiB --luks2-keyslots-size 128K --key-size 256",
            192,
        ),
        ("--luks2-metadata-size 4M --luks2-keyslots-size 8M", 16384),
    ] {
        let header = header * KIB;
        let encrypt = format!("encrypt --force {options} plain");
        let decrypts = |line: &str| {
            let out = with_key(&folder, &format!("decrypt {line} -")).ok();
            assert!(out.stdout == plain, "{options}: {line}");
            let checked = with_key(&folder, &format!("check {line}")).ok();
            assert!(checked.text().contains("good"), "{options}: {checked:#?}");
        };
        making(&folder, &format!("{encrypt} volume")).ok();
        assert_eq!(len(&folder, "volume"), header + 4096, "{options}");
        decrypts("volume");

        let piped = making(&folder, &format!("{encrypt} -")).ok();
        assert_eq!(piped.stdout.len() as u64, header + 4096, "{options}");
        folder.write("piped", piped.stdout);
        decrypts("piped");

        making(&folder, &format!("{encrypt} data --header header")).ok();
        let lens = ["header", "data"].map(|name| len(&folder, name));
        assert_eq!(lens, [header, 4096], "{options}");
        decrypts("--header header data");
        for name in ["header", "data"] {
            fs::remove_file(folder.join(name)).unwrap();
        }

        making(
            &folder,
            &format!("format --force --size 8K {options} volume"),
        )
        .ok();
        assert_eq!(len(&folder, "volume"), header + 8192, "{options}");
        with_key(&folder, "check volume").ok();
    }
}

#[test]
fn the_documented_small_header_has_two_keyslots() {
    let folder = prepared();
    making(&folder, "encrypt --luks2-keyslots-size 512K plain volume").ok();
    let backup = "header backup volume backup";
    luxor(backup).current_dir(folder.path()).ok();
    assert_eq!(len(&folder, "backup"), 544 * KIB);

    // There is room for a key while another one is changed, and for no third one.
    making(&folder, "key change volume --new-key-file other").ok();
    with_key(&folder, "key test volume").fails(2, "keyslot 0");
    luxor("key change volume --key-file other --new-key-file key")
        .args(FAST)
        .current_dir(folder.path())
        .ok();
    making(&folder, "key add volume --new-key-file other").ok();
    let full = fs::read(folder.join("volume")).unwrap();
    for line in ["key add", "key change"] {
        let line = format!("{line} volume --new-key-file plain");
        making(&folder, &line).fails(1, "no room for 258048 more bytes");
    }
    assert!(fs::read(folder.join("volume")).unwrap() == full);
    for key in ["key", "other"] {
        let out = luxor("decrypt volume - --key-file")
            .arg(key)
            .current_dir(folder.path())
            .ok();
        assert!(out.stdout == bytes(4096, 1), "{key}");
    }

    luxor("erase --batch-mode volume")
        .current_dir(folder.path())
        .ok();
    with_key(&folder, "key test volume").fails(2, "keyslot");
    luxor("header restore --batch-mode --force volume backup")
        .current_dir(folder.path())
        .ok();
    with_key(&folder, "key test volume").ok();
}

/// LUKS1 always has eight keyslots.
#[test]
fn a_small_header_cannot_become_luks1() {
    let folder = prepared();
    for (keyslots, fits) in [("512K", false), ("2012K", false), ("2016K", true)] {
        let line = "format --force --sector-size 512 --size 4K volume --luks2-keyslots-size";
        making(&folder, &format!("{line} {keyslots}")).ok();
        let before = fs::read(folder.join("volume")).unwrap();
        let convert = luxor("convert --batch-mode --type luks1 volume").current_dir(folder.path());
        if fits {
            convert.ok();
        } else {
            convert.fails(1, "room for eight keyslots");
            assert!(fs::read(folder.join("volume")).unwrap() == before);
        }
        with_key(&folder, "key test volume").ok();
    }
}

/// They are refused before the key is read.
#[test]
fn sizes_out_of_bounds_are_refused() {
    let folder = prepared();
    let names = folder.names();
    for (options, words) in [
        ("--luks2-metadata-size 16", "metadata size is 16 bytes"),
        ("--luks2-metadata-size 20K", "metadata size is 20480 bytes"),
        ("--luks2-metadata-size 8M", "metadata size is 8388608 bytes"),
        ("--luks2-metadata-size 16KB", "K, M, G or T"),
        ("--luks2-keyslots-size 300000", "multiple of 4096"),
        ("--luks2-keyslots-size 129M", "at most 128 MiB"),
        ("--luks2-keyslots-size 0", "needs 258048"),
        ("--luks2-keyslots-size 248K", "needs 258048"),
        ("--luks2-keyslots-size 124K --key-size 256", "needs 131072"),
        ("--type luks1 --luks2-metadata-size 16K", "LUKS1"),
        ("--type luks1 --luks2-keyslots-size 512K", "LUKS1"),
    ] {
        for command in ["encrypt plain new", "format --size 4K new"] {
            let outcome = luxor(&format!("{command} {options} --key-file no-such-file"))
                .current_dir(folder.path())
                .run();
            outcome.assert_code(1);
            assert!(outcome.stderr.contains(words), "{outcome:#?}");
        }
    }
    assert_eq!(folder.names(), names);
}
