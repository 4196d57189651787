// SPDX-License-Identifier: MIT OR Apache-2.0
use std::{
    ffi::OsString,
    fs::{self, File},
    io,
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

use clap::Parser;
use luxor::sector::Disk;
use nix::{libc, sys::stat::Mode as FileMode, unistd::mkfifo};

use super::*;
use luxor::files::testing::{Loop, alone};

use crate::{
    args::{ConfineWhen, GlobalArgs},
    commands,
    error::{self, ErrorClass},
};

/// A command line that consists of the options for an export.
#[derive(Parser)]
struct Line {
    #[command(flatten)]
    global: GlobalArgs,
    #[command(flatten)]
    export: ExportArgs,
}

fn words(folder: &Path, line: &str) -> Vec<OsString> {
    let words = line.split_whitespace();
    let path = |word: &str| folder.join(word.trim_start_matches('@')).into();
    words
        .map(|word| {
            if word.starts_with('@') {
                path(word)
            } else {
                word.into()
            }
        })
        .collect()
}

/// Opens the volume that a line describes. `@name` is a file in `folder`.
fn open(folder: &Path, line: &str) -> Result<VolumeDisk> {
    let line = words(folder, &format!("x -q {line}"));
    let line = Line::try_parse_from(line).unwrap_or_else(|error| panic!("{error}"));
    super::open(&line.export, None, &Context::new(line.global, false)).map(|(export, _)| export)
}

#[track_caller]
fn refused(folder: &Path, line: &str, class: ErrorClass, words: &str) {
    let error = open(folder, line).expect_err("it is refused");
    let lines = error::lines(&error).unwrap();
    assert!(lines.contains(words), "{lines}");
    assert_eq!(error.class(), class, "{lines}");
}

/// Runs `luxor` with a line that makes, decrypts or changes a volume.
fn luxor(folder: &Path, line: &str) {
    let mut cli = commands::parse(words(folder, &format!("luxor -q {line}"))).unwrap();
    // The process of the tests goes on.
    cli.global.confine = ConfineWhen::No;
    let context = &Context::new(cli.global, false);
    let done = cli.command.run(context);
    done.unwrap_or_else(|error| panic!("{line}: {error}"));
}

const MAKE: &str = "encrypt --pbkdf pbkdf2 --pbkdf-force-iterations 1000 --key-file @key";

/// A folder with a key file, and with a volume that contains `plain`.
fn folder(plain: &[u8], options: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("key"), "correct horse").unwrap();
    fs::write(folder.path().join("plain"), plain).unwrap();
    luxor(folder.path(), &format!("{MAKE} {options} @plain @volume"));
    folder
}

fn all(disk: &Disk) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(disk.len()).unwrap()];
    disk.read(&mut bytes, 0).unwrap();
    bytes
}

#[test]
fn a_volume_has_the_bytes_and_the_length_of_its_file() {
    let _alone = alone();
    for (len, options) in [
        (10_000, ""),
        (10_000, "--header @header"),
        (10_000, "--sector-size 512 --key-size 256"),
        (4096, ""),
        (1, ""),
        (0, ""),
        (5 * 512, "--type luks1"),
    ] {
        let mut plain: Vec<u8> = (0..len).map(|i: u32| i.to_le_bytes()[0]).collect();
        let folder = folder(&plain, options);
        let folder = folder.path();
        let header = if options.contains("header") {
            "--header @header"
        } else {
            ""
        };
        let line = format!("--key-file @key {header} @volume");
        let export = open(folder, &line).unwrap();
        assert_eq!(all(export.shared()), plain, "{len} {options}");
        for at in [0, 700, 4095, 9_999] {
            if let Some(byte) = plain.get_mut(at) {
                *byte ^= 0xff;
                export.shared().write(&[*byte], at as u64).unwrap();
            }
        }
        let end = u64::from(len);
        assert!(export.shared().write(b"x", end).is_err(), "{len} {options}");
        export.shared().flush().unwrap();
        drop(export);

        luxor(
            folder,
            &format!("decrypt --force --key-file @key {header} @volume @plain"),
        );
        let back = fs::read(folder.join("plain")).unwrap();
        assert_eq!(back, plain, "{len} {options}");
        let export = open(folder, &format!("--read-only {line}")).unwrap();
        assert!(export.shared().is_read_only() && export.shared().write(b"", 0).is_err());
        assert_eq!(all(export.shared()), plain, "{len} {options}");
    }
}

#[test]
fn a_direct_export_bypasses_the_page_cache() {
    let _alone = alone();
    let mut plain: Vec<u8> = (0..50_000).map(|i: u32| i.to_le_bytes()[0]).collect();
    let folder = folder(&plain, "");
    let folder = folder.path();
    let export = open(folder, "--direct --key-file @key @volume").unwrap();
    assert_eq!(all(export.shared()), plain);
    plain[4000..9000].fill(7);
    export.shared().write(&plain[4000..9000], 4000).unwrap();
    export.shared().flush().unwrap();
    drop(export);
    luxor(folder, "decrypt --key-file @key @volume @back");
    assert!(fs::read(folder.join("back")).unwrap() == plain);

    fs::write(folder.join("disk"), [0; 65536]).unwrap();
    fs::write(folder.join("plain-key"), [7; 32]).unwrap();
    let device = Loop::with_sectors(&folder.join("disk"), 4096);
    let device = device.0.to_str().unwrap();
    for (offset, direct, fits) in [(8, "--direct", true), (1, "--direct", false), (1, "", true)] {
        let line = format!(
            "--type plain {direct} --offset {offset} --allow-weak-key --key-file @plain-key {device}"
        );
        if fits {
            drop(open(folder, &line).unwrap());
        } else {
            refused(folder, &line, ErrorClass::Failure, "multiples of 4096");
            refused(folder, &line, ErrorClass::Failure, "without --direct");
        }
    }
}

#[test]
fn writers_are_alone_and_readers_are_not() {
    let _alone = alone();
    let folder = folder(b"attack at dawn", "");
    let folder = folder.path();
    for kind in ["", "--type plain --allow-weak-key"] {
        let key = if kind.is_empty() {
            "@key"
        } else {
            "@plain-key"
        };
        fs::write(folder.join("plain-key"), [7; 32]).unwrap();
        let read = format!("{kind} --key-file {key} --read-only @volume");
        let write = format!("{kind} --key-file {key} @volume");
        let reader = open(folder, &read).unwrap();
        let other = open(folder, &read).unwrap();
        refused(folder, &write, ErrorClass::Busy, "is in use elsewhere");
        drop(reader);
        refused(folder, &write, ErrorClass::Busy, "is in use elsewhere");
        let disk = other.shared().clone();
        drop(other);
        refused(folder, &write, ErrorClass::Busy, "is in use elsewhere");
        drop(disk);
        let writer = open(folder, &write).unwrap();
        refused(folder, &read, ErrorClass::Busy, "is open for writing");
        refused(folder, &write, ErrorClass::Busy, "is in use elsewhere");
        // The locks on the data do not cover the metadata.
        luxor(folder, "config --label name @volume");
        drop(writer);
        open(folder, &read).unwrap();
    }
}

#[test]
fn discards_reach_the_storage_when_asked_for() {
    let _alone = alone();
    let folder = folder(b"attack at dawn", "");
    let folder = folder.path();
    let allows = |options: &str| {
        let line = format!("--key-file @key {options} @volume");
        open(folder, &line).unwrap().shared().allows_discards()
    };
    assert!(!allows(""));
    assert!(allows("--allow-discards"));
    luxor(folder, "config --flags same-cpu-crypt @volume");
    assert!(!allows(""));
    luxor(folder, "config --flags allow-discards @volume");
    assert!(allows(""));
    assert!(!allows("--read-only"));
}

#[test]
fn inputs_that_are_not_storage_are_refused() {
    let _alone = alone();
    let folder = folder(b"attack at dawn", "");
    let folder = folder.path();
    mkfifo(&folder.join("pipe"), FileMode::S_IRWXU).unwrap();
    for (volume, exit, words) in [
        ("@missing", ErrorClass::Missing, "does not exist"),
        ("@key/x", ErrorClass::Missing, "does not exist"),
        ("-", ErrorClass::Failure, "standard input"),
        (
            "@pipe",
            ErrorClass::Failure,
            "neither a file nor a block device",
        ),
        (
            "/dev/null",
            ErrorClass::Failure,
            "neither a file nor a block device",
        ),
        ("@", ErrorClass::Failure, "is a folder"),
        ("@key", ErrorClass::Failure, "LUKS"),
    ] {
        for read_only in ["", "--read-only"] {
            let line = format!("{read_only} --key-file @key {volume}");
            refused(folder, &line, exit, words);
        }
    }
    fs::write(folder.join("wrong"), "wrong").unwrap();
    refused(folder, "--key-file @wrong @volume", ErrorClass::NoKey, "");
}

#[test]
fn a_file_under_a_loop_device_is_not_written() {
    let _alone = alone();
    let folder = folder(b"attack at dawn", "");
    let folder = folder.path();
    let device = Loop::over(&folder.join("volume"));
    let user = format!("in use by {}", device.0.display());
    refused(folder, "--key-file @key @volume", ErrorClass::Busy, &user);
    open(folder, "--key-file @key --read-only @volume").unwrap();

    let line = format!("--key-file @key {}", device.0.display());
    let export = open(folder, &line).unwrap();
    assert_eq!(all(export.shared()), b"attack at dawn");
    refused(folder, &line, ErrorClass::Busy, "use");
    // It could not be mounted either, because mounting opens it with `O_EXCL`.
    let exclusive = File::options()
        .read(true)
        .custom_flags(libc::O_EXCL)
        .open(&device.0);
    assert_eq!(exclusive.unwrap_err().kind(), io::ErrorKind::ResourceBusy);
    export.shared().write(b"A", 0).unwrap();
    export.shared().flush().unwrap();
    drop(export);
    let above = Loop::over(&device.0);
    let user = format!("in use by {}", above.0.display());
    refused(folder, &line, ErrorClass::Busy, &user);
    drop(above);
    drop(device);
    let export = open(folder, "--key-file @key @volume").unwrap();
    assert_eq!(all(export.shared()), b"Attack at dawn");
}

/// cryptsetup's lock, which keeps it from continuing or starting a re-encryption.
#[test]
fn an_export_keeps_reencryptions_out() {
    let _alone = alone();
    // The lock is global, so the UUID must be unique on this machine.
    let uuid = format!("9a1d2f60-5c1e-4b7e-8f0a-{:012x}", std::process::id());
    let folder = folder(b"attack at dawn", &format!("--uuid {uuid}"));
    let folder = folder.path();
    let lock = format!("/run/cryptsetup/LN_LUKS2-reencryption-{uuid}");
    for read_only in ["", "--read-only"] {
        let line = format!("{read_only} --key-file @key @volume");
        let export = open(folder, &line).unwrap();
        let file = File::open(&lock).unwrap();
        assert!(file.try_lock().is_err());
        drop(export);
        assert!(!Path::new(&lock).exists(), "the last lock takes it with it");
        let file = File::create(&lock).unwrap();
        file.try_lock().unwrap();
        refused(
            folder,
            &line,
            ErrorClass::Busy,
            "another program is re-encrypting it",
        );
        fs::remove_file(&lock).unwrap();
    }
}

#[test]
fn nothing_is_written_during_a_reencryption() {
    let _alone = alone();
    let folder = folder(b"attack at dawn", "");
    let folder = folder.path();
    let begun = std::process::Command::new("cryptsetup")
        .args(["reencrypt", "--init-only", "--batch-mode", "--key-file"])
        .args([folder.join("key"), folder.join("volume")])
        .args(["--pbkdf", "pbkdf2", "--pbkdf-force-iterations", "1000"])
        .output()
        .unwrap();
    assert!(begun.status.success(), "{begun:?}");
    let line = "--key-file @key @volume";
    let words_of_refusal = "a re-encryption is under way";
    refused(folder, line, ErrorClass::Failure, words_of_refusal);
    open(folder, &format!("--read-only {line}")).unwrap();
}

#[test]
fn the_type_must_match_the_volume() {
    let _alone = alone();
    let folder = folder(b"attack at dawn", "");
    let folder = folder.path();
    for (kind, accepted) in [("luks", true), ("luks1", false), ("luks2", true)] {
        let line = format!("--type {kind} --key-file @key @volume");
        if accepted {
            assert!(open(folder, &line).is_ok(), "{kind}");
        } else {
            refused(folder, &line, ErrorClass::Failure, "it is a LUKS2 volume");
        }
    }
    for option in [
        "--cipher aes-xts-plain64",
        "--key-size 256",
        "--offset 0",
        "--skip 0",
        "--size 1",
        "--sector-size 512",
        "--iv-large-sectors",
    ] {
        let name = option.split(' ').next().unwrap();
        let line = format!("{option} --key-file @key @volume");
        refused(folder, &line, ErrorClass::Failure, name);
    }
    let digest = "0".repeat(64);
    for option in [
        "--header @plain",
        "--require-type luks",
        "--require-cipher aes-xts-plain64",
        "--require-pbkdf pbkdf2",
        &format!("--header-digest {digest}"),
        "--key-slot 0",
        "--pbkdf-memory-limit 1",
        "--pbkdf-iterations-limit 1",
    ] {
        let name = option.split(' ').next().unwrap();
        let line = format!("--type plain {option} --key-file @key @volume");
        refused(folder, &line, ErrorClass::Failure, name);
    }
}

#[test]
fn a_plain_volume_uses_the_first_bytes_of_the_key_file() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("data"), [1; 4096]).unwrap();
    let key: Vec<u8> = (0..70).collect();
    for (name, bytes) in [("key", &key[..64]), ("long", &key), ("short", &key[..63])] {
        fs::write(folder.join(name), bytes).unwrap();
    }
    fs::write(folder.join("shifted"), [&[9; 5], &key[..]].concat()).unwrap();
    let plain = |line: &str| {
        let line = format!("--type plain --key-size 512 {line} @data");
        open(folder, &line).map(|export| all(export.shared()))
    };
    let expected = plain("--key-file @key").unwrap();
    assert_eq!(plain("--key-file @long").unwrap(), expected);
    let shifted = plain("--key-file @shifted --keyfile-offset 5").unwrap();
    assert_eq!(shifted, expected);
    for (line, words) in [
        ("--key-file @short", "63 of the 64 bytes of --key-size"),
        ("", "needs --key-file"),
        ("--key-file @key --keyfile-size 64", "--keyfile-size"),
        ("--key-file @data", "data key and the tweak key are equal"),
    ] {
        let error = plain(line).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
    plain("--key-file @data --allow-weak-key").unwrap();
}
