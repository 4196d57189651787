// SPDX-License-Identifier: MIT OR Apache-2.0
//! Decryption restores what was encrypted.

use std::{
    ffi::OsStr,
    fs::{self, File},
    io::{Seek, SeekFrom, Write},
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
};

use crate::support::{FAST, Folder, bytes, is_long, luxor, tool};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const HEADER: u64 = 16 * MIB;

/// Returns the CPU's engines that are available.
fn engines() -> Vec<String> {
    let output = luxor("engines --json").ok();
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let engines = json["engines"].as_array().unwrap().iter();
    engines
        .filter(|engine| engine["present"] == true)
        .map(|engine| engine["name"].as_str().unwrap().to_owned())
        .filter(|name| !["cuda", "opencl", "fpga"].contains(&name.as_str()))
        .collect()
}

/// Uses any OpenCL implementation. Without one this test fails.
#[cfg(feature = "opencl")]
#[test]
fn opencl_and_cpu_decrypt_each_others_output() {
    let folder = Folder::new();
    folder.write("key", b"correct horse");
    let plain = bytes(3_000_001, 5);
    folder.write("plain", &plain);
    for (sector, there, back) in [("4096", "opencl", "auto"), ("512", "auto", "opencl")] {
        luxor("encrypt --key-file key --force --sector-size")
            .args([sector, "--engine", there, "plain", "volume"])
            .args(FAST)
            .current_dir(folder.path())
            .ok();
        luxor("decrypt --key-file key --force --engine")
            .args([back, "volume", "back"])
            .current_dir(folder.path())
            .ok();
        let same = fs::read(folder.join("back")).unwrap() == plain;
        assert!(same, "from {there} to {back}");
    }
    luxor("raw encrypt --mode ofb --iv 00000000000000000000000000000000 --engine opencl")
        .args(["--key-file", "key", "plain", "output"])
        .current_dir(folder.path())
        .fails(1, "the engine opencl has no ofb mode");
}

/// Tests every length with every sector size. Engines take turns, so that each one decrypts the
/// ciphertext of another.
#[test]
fn every_length_is_restored_exactly() {
    let folder = Folder::new();
    folder.write("key", b"correct horse");
    let engines = engines();
    let mut turn = 0;
    for len in [0, 1, 511, 512, 513, 4095, 4096, 4097, MIB - 1, MIB, MIB + 1] {
        let plain = bytes(usize::try_from(len).unwrap(), len);
        folder.write("plain", &plain);
        for sector in [512, 1024, 2048, 4096_u64] {
            let (first, second) = (
                &engines[turn % engines.len()],
                &engines[(turn + 1) % engines.len()],
            );
            turn += 1;
            luxor("encrypt --key-file key --force")
                .args(FAST)
                .args([
                    "--engine",
                    first,
                    "--sector-size",
                    &sector.to_string(),
                    "plain",
                    "volume",
                ])
                .current_dir(folder.path())
                .ok();
            let size = fs::metadata(folder.join("volume")).unwrap().len();
            assert_eq!(
                size,
                HEADER + len.max(1).next_multiple_of(sector),
                "{len} bytes in {sector}"
            );
            luxor("decrypt --key-file key --force --engine")
                .args([second, "volume", "back"])
                .current_dir(folder.path())
                .ok();
            assert!(
                fs::read(folder.join("back")).unwrap() == plain,
                "{len} bytes in sectors of {sector}, {first} and {second}"
            );
        }
    }
}

#[test]
fn every_pbkdf_and_key_size_works() {
    let folder = Folder::new();
    folder.write("key", b"correct horse");
    let plain = bytes(10_000, 1);
    folder.write("plain", &plain);
    for pbkdf in [
        "argon2id --pbkdf-memory 32 --pbkdf-parallel 1 --pbkdf-force-iterations 4",
        "argon2i --pbkdf-memory 64 --pbkdf-parallel 2 --pbkdf-force-iterations 4",
        "pbkdf2 --pbkdf-force-iterations 1000",
    ] {
        for bits in ["256", "512"] {
            luxor("encrypt --force --key-file key --pbkdf")
                .args(pbkdf.split(' '))
                .args(["--key-size", bits, "--label", "a label", "--uuid"])
                .args(["3c4e1a2b-0000-4000-8000-00000000beef", "plain", "volume"])
                .current_dir(folder.path())
                .ok();
            luxor("decrypt --force --key-file key volume back")
                .current_dir(folder.path())
                .ok();
            assert!(
                fs::read(folder.join("back")).unwrap() == plain,
                "{pbkdf} {bits}"
            );
            let dump = luxor("dump volume").current_dir(folder.path()).ok();
            assert!(dump.text().contains("a label"), "{}", dump.text());
            assert!(
                dump.text().contains("3c4e1a2b-0000-4000-8000-00000000beef"),
                "{}",
                dump.text()
            );
        }
    }
}

#[test]
fn pipes_work_both_ways() {
    let folder = Folder::new();
    folder.write("key", b"correct horse");
    for len in [0, 1, 4096, 5_000_001] {
        let plain = bytes(len, 2);
        folder.write("plain", &plain);
        let encrypt = || {
            luxor("encrypt --key-file key --force")
                .args(FAST)
                .current_dir(folder.path())
        };
        let decrypt = || luxor("decrypt --key-file key --force").current_dir(folder.path());
        // From a pipe to a file, and from a file to a pipe.
        encrypt().args(["-", "volume"]).stdin(plain.clone()).ok();
        let out = decrypt().args(["volume", "-"]).ok();
        assert!(out.stdout == plain, "{len}");
        // From a file to a pipe, and from a pipe to a pipe.
        let volume = encrypt().args(["plain", "-"]).ok();
        assert_eq!(volume.stderr, "");
        let out = decrypt().args(["-", "-"]).stdin(volume.stdout.clone()).ok();
        assert!(out.stdout == plain, "{len}");
        // The volume from the pipe also works as a file.
        folder.write("piped", &volume.stdout);
        decrypt().args(["piped", "back"]).ok();
        assert!(fs::read(folder.join("back")).unwrap() == plain, "{len}");
        // A file on standard input has a known length.
        let stdin = File::open(folder.join("plain")).unwrap();
        let volume = encrypt().args(["-", "-"]).stdin_from(stdin).ok();
        let out = decrypt().args(["-", "-"]).stdin(volume.stdout).ok();
        assert!(out.stdout == plain, "{len}");
    }
}

#[test]
fn the_header_may_be_detached() {
    let folder = Folder::new();
    folder.write("key", b"correct horse");
    let plain = bytes(100_001, 3);
    folder.write("plain", &plain);
    luxor("encrypt --key-file key --header header plain data")
        .args(FAST)
        .current_dir(folder.path())
        .ok();
    assert_eq!(fs::metadata(folder.join("data")).unwrap().len(), 102_400);
    luxor("decrypt --key-file key --header header data back")
        .current_dir(folder.path())
        .ok();
    assert!(fs::read(folder.join("back")).unwrap() == plain);
    // Both through pipes: with a detached header the length need not be known in advance.
    let data = luxor("encrypt --key-file key --header second - -")
        .args(FAST)
        .current_dir(folder.path())
        .stdin(plain.clone())
        .ok();
    let out = luxor("decrypt --key-file key --header second - -")
        .current_dir(folder.path())
        .stdin(data.stdout)
        .ok();
    assert!(out.stdout == plain);
    // The wrong header.
    let out = luxor("decrypt --key-file key --header plain data other").current_dir(folder.path());
    out.fails(1, "plain");
    luxor("encrypt --key-file key --header header plain other")
        .current_dir(folder.path())
        .fails(5, "header");
    luxor("encrypt --key-file key --header same plain same")
        .current_dir(folder.path())
        .fails(1, "different files");
    assert_eq!(
        folder.names(),
        ["back", "data", "header", "key", "plain", "second"]
    );
}

/// The data offset of a detached header is 0, so a header without its data could be decrypted as if
/// it were the data.
#[test]
fn a_detached_header_is_not_taken_for_the_data() {
    let folder = Folder::new();
    let key = folder.write("key", b"correct horse");
    let data = folder.write("data", vec![0; 1 << 20]);
    let header = folder.join("header");
    let cheap = "luksFormat --batch-mode --pbkdf pbkdf2 --pbkdf-force-iterations 1000";
    let mut arguments: Vec<&OsStr> = cheap.split(' ').map(AsRef::as_ref).collect();
    arguments.extend(["--key-file".as_ref(), key.as_os_str()]);
    arguments.extend(["--header".as_ref(), header.as_os_str(), data.as_os_str()]);
    tool("cryptsetup", arguments);

    luxor("decrypt --key-file key header out")
        .current_dir(folder.path())
        .fails(1, "detached header");
    let checked = luxor("check --key-file key header")
        .current_dir(folder.path())
        .ok();
    assert!(checked.text().contains("detached"), "{checked:#?}");
    luxor("decrypt --key-file key --header header data out")
        .current_dir(folder.path())
        .ok();
    luxor("check --key-file key --header header data")
        .current_dir(folder.path())
        .ok();
}

#[test]
fn names_may_be_anything() {
    let folder = Folder::new();
    folder.write("key", b"correct horse");
    let plain = bytes(5000, 4);
    for name in [
        &b"two words"[..],
        b"\xff\xfe not utf-8",
        b"new\nline",
        b"-dash",
        "Ünïcödé".as_bytes(),
    ] {
        let name = OsStr::from_bytes(name);
        let volume = [name.as_bytes(), b".luks"].concat();
        let back = [name.as_bytes(), b".back"].concat();
        folder.write(name, &plain);
        luxor("encrypt --key-file key")
            .args(FAST)
            .args(["--".as_ref(), name, OsStr::from_bytes(&volume)])
            .current_dir(folder.path())
            .ok();
        luxor("decrypt --key-file key --")
            .args([OsStr::from_bytes(&volume), OsStr::from_bytes(&back)])
            .current_dir(folder.path())
            .ok();
        assert!(
            fs::read(folder.join(OsStr::from_bytes(&back))).unwrap() == plain,
            "{name:?}"
        );
        // Error messages show the names.
        let outcome = luxor("decrypt --key-file key --")
            .args([OsStr::from_bytes(&volume), OsStr::from_bytes(&back)])
            .current_dir(folder.path())
            .run();
        outcome.assert_code(5);
        assert_eq!(
            outcome
                .stderr
                .lines()
                .filter(|line| line.starts_with("luxor: "))
                .count(),
            1
        );
        assert!(
            !outcome.stderr.contains(char::REPLACEMENT_CHARACTER),
            "{outcome:#?}"
        );
    }
}

/// A file of 640 MiB, or of 5 GiB with `LUXOR_TEST_LONG`, nearly all holes: memory does not grow with
/// the file, and the holes are restored.
#[test]
fn holes_come_back_as_holes() {
    let len = if is_long() { 5 * KIB * MIB } else { 640 * MIB };
    let folder = Folder::new();
    folder.write("key", b"correct horse");
    let mut plain = File::create(folder.join("plain")).unwrap();
    // Islands of data at unaligned offsets. The last one is at the very end.
    for (offset, len) in [
        (0, 3 * KIB),
        (MIB - 17, 1000 * KIB),
        (len / 5 + 123, 64 * KIB),
        (len / 2, 10 * MIB),
        (len - 5, 5),
    ] {
        plain.seek(SeekFrom::Start(offset)).unwrap();
        plain
            .write_all(&bytes(usize::try_from(len).unwrap(), offset))
            .unwrap();
    }
    drop(plain);

    let encrypt = luxor("encrypt --key-file key plain volume")
        .args(FAST)
        .current_dir(folder.path());
    let (outcome, peak) = encrypt.run_measured();
    outcome.assert_code(0);
    assert!(peak < 64 * KIB, "encrypt needed {peak} KiB of memory");
    let decrypt = luxor("decrypt --key-file key volume back").current_dir(folder.path());
    let (outcome, peak) = decrypt.run_measured();
    outcome.assert_code(0);
    assert!(peak < 64 * KIB, "decrypt needed {peak} KiB of memory");

    tool("cmp", [folder.join("plain"), folder.join("back")]);
    let (plain, back) = (
        fs::metadata(folder.join("plain")).unwrap(),
        fs::metadata(folder.join("back")).unwrap(),
    );
    assert_eq!(back.len(), len);
    assert!(
        back.blocks() <= plain.blocks() + 2048,
        "{} blocks of 512 bytes, not {}",
        back.blocks(),
        plain.blocks()
    );
    let volume = fs::metadata(folder.join("volume")).unwrap();
    assert!(
        volume.blocks() * 512 >= len,
        "ciphertext must have no holes"
    );

    fs::remove_file(folder.join("back")).unwrap();
}

#[test]
fn sparse_never_writes_the_zeros() {
    let folder = Folder::new();
    folder.write("key", b"correct horse");
    folder.write("plain", vec![0; 1 << 20]);
    luxor("encrypt --key-file key plain volume")
        .args(FAST)
        .current_dir(folder.path())
        .ok();
    for (option, full) in [("auto", false), ("never", true)] {
        luxor("decrypt --key-file key --force --sparse")
            .args([option, "volume", "back"])
            .current_dir(folder.path())
            .ok();
        let metadata = fs::metadata(folder.join("back")).unwrap();
        assert_eq!(metadata.len(), 1 << 20);
        assert_eq!(
            metadata.blocks() >= 2048,
            full,
            "{option}: {} blocks",
            metadata.blocks()
        );
        assert!(
            fs::read(folder.join("back"))
                .unwrap()
                .iter()
                .all(|&byte| byte == 0)
        );
    }
}

/// `stat` says 4096 bytes, or none, of these files, and their contents have other lengths.
#[test]
fn files_of_the_kernel_are_read_to_their_end() {
    let folder = Folder::new();
    folder.write("key", [7; 16]);
    let iv = "0".repeat(32);
    for name in ["/sys/devices/system/cpu/online", "/proc/version"] {
        let contents = fs::read(name).unwrap();
        luxor(&format!("encrypt --key-file key {name} volume"))
            .args(FAST)
            .current_dir(folder.path())
            .ok();
        luxor("decrypt --key-file key volume copy")
            .current_dir(folder.path())
            .ok();
        assert_eq!(fs::read(folder.join("copy")).unwrap(), contents);
        luxor(&format!(
            "raw encrypt --mode ctr --key-file key --iv {iv} {name} raw"
        ))
        .current_dir(folder.path())
        .ok();
        assert_eq!(fs::read(folder.join("raw")).unwrap().len(), contents.len());
        for name in ["volume", "copy", "raw"] {
            fs::remove_file(folder.join(name)).unwrap();
        }
    }
}
