// SPDX-License-Identifier: MIT OR Apache-2.0
//! Volumes that are made from a pipe to a pipe: a trailer after the data tells their length.

use std::fs;

use crate::support::{FAST, Folder, Luxor, bytes, luxor, tool};

const HEADER: usize = 16 << 20;
const SECTOR: usize = 4096;

fn prepared() -> Folder {
    let folder = Folder::new();
    folder.write("key", b"correct horse");
    folder
}

fn decrypt(folder: &Folder) -> Luxor {
    luxor("decrypt --key-file key").current_dir(folder.path())
}

/// Encrypts `plain` from a pipe to a pipe.
fn streamed(folder: &Folder, plain: &[u8]) -> Vec<u8> {
    let encrypt = luxor("encrypt --key-file key - -").args(FAST);
    let volume = encrypt.current_dir(folder.path()).stdin(plain).ok();
    assert_eq!(volume.stderr, "");
    volume.stdout
}

#[test]
fn a_pipe_becomes_a_volume_in_a_pipe_and_comes_back() {
    let folder = prepared();
    for len in [0, 1, 4095, 4096, 4097, 1 << 20, 5_000_001] {
        let plain = bytes(len, 2);
        let volume = streamed(&folder, &plain);
        let padded = len.max(1).next_multiple_of(SECTOR);
        assert_eq!(volume.len(), HEADER + padded + SECTOR, "{len}");
        let back = decrypt(&folder).args(["-", "-"]).stdin(volume.clone()).ok();
        assert!(back.stdout == plain, "{len}");
        folder.write("volume", volume);
        decrypt(&folder).args(["--force", "volume", "back"]).ok();
        assert!(fs::read(folder.join("back")).unwrap() == plain, "{len}");
    }
    let dump = luxor("dump volume").current_dir(folder.path()).ok();
    assert!(dump.text().contains("in a trailer"), "{dump:#?}");
    luxor("check --key-file key volume")
        .current_dir(folder.path())
        .ok();
    let open = ["open", "--test-passphrase", "--key-file", "key", "volume"];
    let open = open.map(|word| match word {
        "key" | "volume" => folder.join(word).into_os_string(),
        word => word.into(),
    });
    tool("cryptsetup", open);
}

/// Neither a volume that was cut nor noise behind one becomes a wrong file.
#[test]
fn the_trailer_alone_ends_the_file() {
    let folder = prepared();
    let plain = bytes(50_000, 3);
    let volume = streamed(&folder, &plain);
    for missing in [
        1,
        SECTOR,
        SECTOR + 1,
        3 * SECTOR,
        volume.len() - HEADER - SECTOR,
    ] {
        let cut = &volume[..volume.len() - missing];
        folder.write("cut", cut);
        let words = "has no trailer after the data: it was cut off";
        decrypt(&folder).args(["cut", "out"]).fails(1, words);
        decrypt(&folder)
            .args(["-", "out"])
            .stdin(cut)
            .fails(1, words);
        assert!(!folder.join("out").exists());
        let left = (cut.len() - HEADER) / SECTOR * SECTOR;
        for input in ["cut", "-"] {
            let saved = decrypt(&folder).args(["--force", "--truncated", input, "out"]);
            saved
                .stdin(cut)
                .fails(1, "the trailer that ends the file is missing");
            let saved = fs::read(folder.join("out")).unwrap();
            assert!(saved.len() == left && saved.starts_with(&plain[..left.min(plain.len())]));
        }
        fs::remove_file(folder.join("out")).unwrap();
    }
    for behind in [1, SECTOR, 100_000] {
        let long = [&volume[..], &bytes(behind, 4)].concat();
        folder.write("long", &long);
        for options in [["long", "-"], ["-", "-"]] {
            let back = decrypt(&folder).args(options).stdin(long.clone()).ok();
            assert!(back.stdout == plain, "{behind}");
        }
        let saved = decrypt(&folder).args(["--truncated", "long", "-"]).ok();
        assert!(saved.stdout == plain, "{behind}");
    }
    // The trailer of a second volume in the place of the first one's.
    let other = streamed(&folder, &plain);
    let end = volume.len() - SECTOR;
    folder.write("mixed", [&volume[..end], &other[end..]].concat());
    decrypt(&folder)
        .args(["mixed", "out"])
        .fails(1, "no trailer");
    // The trailer of a longer file is moved to where it was.
    let moved = [&volume[..end - SECTOR], &volume[end..]].concat();
    folder.write("moved", moved);
    decrypt(&folder)
        .args(["moved", "out"])
        .fails(1, "no trailer");
}

#[test]
fn luks1_has_no_trailer() {
    let folder = prepared();
    let encrypt = luxor("encrypt --type luks1 --key-file key - -").current_dir(folder.path());
    let words = "LUKS1 cannot store it after them";
    encrypt.stdin(vec![0; 512]).fails(1, words);
}

#[test]
fn memory_is_bounded_in_a_pipe() {
    let folder = prepared();
    let plain = bytes(96 << 20, 5);
    let volume = streamed(&folder, &plain);
    let encrypt = luxor("encrypt --key-file key - -").args(FAST);
    let lines = [
        (encrypt.stdin(plain), "encrypt"),
        (luxor("decrypt --key-file key - -").stdin(volume), "decrypt"),
    ];
    for (line, name) in lines {
        let line = line.current_dir(folder.path());
        let (outcome, peak) = line.run_measured();
        outcome.assert_code(0);
        assert!(peak < 64 << 10, "{name} needed {peak} KiB of memory");
    }
}
