// SPDX-License-Identifier: MIT OR Apache-2.0
//! What happens when another program changes a volume while `decrypt` reads it.

use std::{
    fs::{self, File, OpenOptions},
    io::{Read, Write},
    process::{Child, Stdio},
};

use crate::support::{FAST, Folder, Outcome, bytes, luxor, tool};

const CHANGED: &str = "the metadata changed while the data were being read";

/// A folder with a volume that has more plaintext than a pipe holds.
fn prepared() -> (Folder, Vec<u8>) {
    let folder = Folder::new();
    let plain = bytes((4 << 20) + 5, 1);
    folder.write("key", b"key");
    folder.write("plain", &plain);
    luxor("encrypt --key-file key plain volume")
        .args(FAST)
        .current_dir(folder.path())
        .ok();
    (folder, plain)
}

/// Starts `decrypt` with a FIFO as its key file. It has read the metadata, and waits for its key.
fn waiting(folder: &Folder, output: &str) -> (Child, File) {
    let _ = fs::remove_file(folder.join("fifo"));
    tool("mkfifo", [folder.join("fifo")]);
    let child = luxor("decrypt --key-file fifo volume")
        .arg(output)
        .current_dir(folder.path())
        .spawn();
    let key = OpenOptions::new()
        .write(true)
        .open(folder.join("fifo"))
        .unwrap();
    (child, key)
}

fn with_key(child: Child, mut key: File) -> Outcome {
    key.write_all(b"key").unwrap();
    drop(key);
    Outcome::new("decrypt".into(), child.wait_with_output().unwrap())
}

/// Removes the length of the file from the volume, so that its plaintext is a different one.
fn change_the_data(folder: &Folder) {
    luxor("token remove --force --token-id 0 volume")
        .current_dir(folder.path())
        .ok();
}

/// Changes the label and adds a key, which does not affect the data.
fn change_the_rest(folder: &Folder) {
    luxor("config --label name volume")
        .current_dir(folder.path())
        .ok();
    folder.write("other", b"other");
    luxor("key add --key-file key --new-key-file other volume")
        .args(FAST)
        .current_dir(folder.path())
        .ok();
}

#[test]
fn metadata_that_change_before_the_key_comes_are_not_used() {
    let (folder, _) = prepared();
    let volume = fs::read(folder.join("volume")).unwrap();
    for output in ["back", "-"] {
        let (child, key) = waiting(&folder, output);
        change_the_data(&folder);
        let outcome = with_key(child, key);
        outcome.assert_code(1);
        assert!(outcome.stderr.contains(CHANGED), "{outcome:#?}");
        assert!(outcome.stdout.is_empty(), "the data have been read");
        assert!(!folder.join("back").exists());
        folder.write("volume", &volume);
    }
}

#[test]
fn metadata_that_change_while_the_data_are_read_leave_no_output() {
    let (folder, plain) = prepared();
    let begun = |header: &str| {
        let mut child = luxor("decrypt --key-file key")
            .args(header.split_whitespace())
            .args(["volume", "-"])
            .current_dir(folder.path())
            .stdout_to(Stdio::piped())
            .spawn();
        let mut pipe = child.stdout.take().unwrap();
        let mut back = vec![0; 1];
        pipe.read_exact(&mut back).unwrap();
        (child, pipe, back)
    };
    let (child, mut pipe, mut back) = begun("");
    change_the_rest(&folder);
    pipe.read_to_end(&mut back).unwrap();
    let outcome = Outcome::new("decrypt".into(), child.wait_with_output().unwrap());
    outcome.assert_code(0);
    assert!(back == plain, "wrong bytes");

    for header in ["", "--header header"] {
        // A copy of the volume also works as a detached header.
        let volume = fs::read(folder.join("volume")).unwrap();
        if !header.is_empty() {
            folder.write("header", &volume);
        }
        let (child, mut pipe, mut back) = begun(header);
        let name = if header.is_empty() {
            "volume"
        } else {
            "header"
        };
        luxor("token remove --force --token-id 0")
            .arg(name)
            .current_dir(folder.path())
            .ok();
        pipe.read_to_end(&mut back).unwrap();
        let outcome = Outcome::new("decrypt".into(), child.wait_with_output().unwrap());
        outcome.assert_code(1);
        assert!(outcome.stderr.contains(CHANGED), "{outcome:#?}");
        assert!(outcome.stderr.contains(name), "{outcome:#?}");
        folder.write("volume", &volume);
    }
}

#[test]
fn keys_and_names_may_change_meanwhile() {
    let (folder, plain) = prepared();
    let (child, key) = waiting(&folder, "back");
    change_the_rest(&folder);
    with_key(child, key).assert_code(0);
    assert!(fs::read(folder.join("back")).unwrap() == plain);
}

/// A pipe is read once, and the data file contains no header.
#[test]
fn a_header_from_a_pipe_is_read_once() {
    let (folder, plain) = prepared();
    let volume = fs::read(folder.join("volume")).unwrap();
    let mut data = volume.clone();
    data[..32768].fill(0);
    folder.write("data", data);
    luxor("decrypt --key-file key --header - data back")
        .stdin(volume)
        .current_dir(folder.path())
        .ok();
    assert!(fs::read(folder.join("back")).unwrap() == plain);
}
