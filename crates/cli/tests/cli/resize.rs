// SPDX-License-Identifier: MIT OR Apache-2.0
//! `resize`: files with an exact length, disks, devices, and what is refused.

use std::{
    fs::{self, File},
    path::Path,
};

use luxor::files::testing::Loop;

use crate::support::{FAST, Folder, Luxor, bytes, luxor, shell_without_terminal, tool};

const HEADER: u64 = 16 << 20;

fn at(folder: &Folder, line: &str) -> Luxor {
    luxor(line).current_dir(folder.path())
}

/// A folder with a key file, and with what `line` makes.
fn with(line: &str, plain: &[u8]) -> Folder {
    let folder = Folder::new();
    folder.write("key", b"correct horse");
    folder.write("plain", plain);
    at(&folder, &format!("{line} --key-file key"))
        .args(FAST)
        .ok();
    folder
}

fn len(path: &Path) -> u64 {
    fs::metadata(path).unwrap().len()
}

fn decrypted(folder: &Folder, volume: &str) -> Vec<u8> {
    at(
        folder,
        &format!("decrypt --force --key-file key {volume} out"),
    )
    .ok();
    fs::read(folder.join("out")).unwrap()
}

/// Both programs still accept the volume.
fn opens(folder: &Folder, volume: &str) {
    at(folder, &format!("check --key-file key {volume}")).ok();
    let line = format!("cryptsetup open --test-passphrase --key-file key {volume}");
    shell_without_terminal(&line, folder.path()).assert_code(0);
}

#[test]
fn a_file_keeps_what_it_has() {
    let plain = bytes(10_000, 1);
    let folder = with("encrypt plain v", &plain);
    let volume = folder.join("v");
    for (options, size, sectors) in [
        ("--size 10001", 10_001, 3),
        ("--size 5M", 5 << 20, 1280),
        ("--size 9999 --shrink", 9999, 3),
        ("--size 0 --shrink", 0, 1),
        ("--size 10000", 10_000, 3),
        // It fills the file already.
        ("", 10_000, 3),
    ] {
        at(&folder, &format!("resize {options} v")).ok();
        assert_eq!(len(&volume), HEADER + sectors * 4096, "{options}");
        let now = decrypted(&folder, "v");
        assert_eq!(now.len(), size, "{options}");
        opens(&folder, "v");
        if options == "--size 5M" {
            assert_eq!(now[..10_000], plain, "{options}");
            // The first sector of the file was padded with zeros.
            assert!(now[10_000..12_288].iter().all(|&byte| byte == 0));
        }
    }
}

#[test]
fn a_disk_grows_and_shrinks() {
    for (options, header) in [("", HEADER), ("--type luks1", 2 << 20)] {
        let folder = with(&format!("format --size 1M {options} v"), b"");
        let before = decrypted(&folder, "v");
        for (line, size) in [("--size 3M", 3 << 20), ("--size 64K --shrink", 64 << 10)] {
            let told = at(&folder, &format!("resize {line} v")).ok().stderr;
            assert!(
                told.starts_with(&format!("luxor: v holds {size} bytes now, ")),
                "{told}"
            );
            assert_eq!(len(&folder.join("v")), header + size);
            let now = decrypted(&folder, "v");
            let same = now.len().min(before.len());
            assert_eq!((now.len() as u64, &now[..same]), (size, &before[..same]));
            opens(&folder, "v");
        }
        // A part of a sector may be the rest of a longer volume.
        let volume = File::options().write(true).open(folder.join("v")).unwrap();
        volume.set_len(header + (1 << 20) + 100).unwrap();
        at(&folder, "resize v").fails(1, "--shrink makes the volume");
        let outcome = at(&folder, "resize --shrink v").ok();
        let numbers = outcome
            .stderr
            .split(' ')
            .filter_map(|word| word.parse().ok());
        let numbers: Vec<u64> = numbers.collect();
        assert!(numbers[1] > numbers[0], "{outcome:#?}");
        assert_eq!(len(&folder.join("v")), header + (1 << 20));
    }
}

#[test]
fn a_detached_header_has_the_length_of_its_data() {
    let plain = bytes(5000, 2);
    let folder = with("encrypt --header h plain v", &plain);
    at(&folder, "resize --header h --size 20000 v").ok();
    assert_eq!(len(&folder.join("v")), 20_480);
    let now = decrypted(&folder, "--header h v");
    assert_eq!((now.len(), &now[..5000]), (20_000, &plain[..]));
    at(&folder, "resize h").fails(1, "detached header");
    // The header is not its own data.
    let before = fs::read(folder.join("h")).unwrap();
    for line in ["--size 4096 --shrink h", "--size 30M h"] {
        at(&folder, &format!("resize --header h {line}")).fails(1, "h is a detached header");
    }
    at(&folder, "decrypt --key-file key --header h h again").fails(1, "h is a detached header");
    assert!(fs::read(folder.join("h")).unwrap() == before);
}

#[test]
fn a_device_must_have_the_room() {
    let folder = with("format --size 4M v", b"");
    let disk = folder.join("v");
    File::options()
        .write(true)
        .open(&disk)
        .unwrap()
        .set_len(HEADER + (8 << 20))
        .unwrap();
    let device = Loop::over(&disk);
    let name = device.name();
    let resize = |options: &str| at(&folder, &format!("resize {options} {name}"));
    let size = || {
        let dump = luxor("dump --json").arg(name).ok();
        let json: serde_json::Value = serde_json::from_str(dump.text()).unwrap();
        json.pointer("/segments/0/size").unwrap().clone()
    };
    assert_eq!(size(), "dynamic");
    resize("--size 9M").fails(1, "of a device of 25165824 bytes");
    resize("--size 6M").fails(1, "its last 2097152 bytes would be lost");
    resize("--size 6M --shrink").ok();
    assert_eq!(size(), "6291456");
    assert_eq!(decrypted(&folder, name).len(), 6 << 20);
    resize("").ok();
    assert_eq!(size(), "dynamic");
    assert_eq!(decrypted(&folder, name).len(), 8 << 20);
    // A part of a sector at the end stays unused.
    let disk = File::options().write(true).open(&disk).unwrap();
    disk.set_len(HEADER + (9 << 20) + 512).unwrap();
    tool("losetup", ["--set-capacity", name]);
    resize("").fails(1, "--shrink makes the volume");
    resize("--shrink").ok();
    assert_eq!(size(), (9 << 20).to_string());
    opens(&folder, name);
}

#[test]
fn what_cannot_be_resized_stays_as_it_is() {
    let folder = with("format --size 1M v", b"");
    let copy = |from: &str, to: &str| tool("cp", [folder.join(from), folder.join(to)]);
    let before = fs::read(folder.join("v")).unwrap();
    for (options, words) in [
        ("--size 2M --shrink", "it would become longer"),
        (
            "--size 5000",
            "a multiple of the sector size (4096), and not 0",
        ),
        ("--size 0 --shrink", "and not 0"),
        ("--size 512K", "its last 524288 bytes would be lost"),
        ("--size 9223372036854771712", "too many for a volume"),
    ] {
        at(&folder, &format!("resize {options} v")).fails(1, words);
    }
    let served = at(&folder, "serve --key-file key --read-only --socket s v").spawn();
    while !folder.join("s").exists() {
        std::thread::yield_now();
    }
    let outcome = at(&folder, "resize --size 2M v").fails(5, "v is locked");
    assert!(!outcome.stderr.contains("--read-only"), "{outcome:#?}");
    nix::sys::signal::kill(
        nix::unistd::Pid::from_raw(i32::try_from(served.id()).unwrap()),
        nix::sys::signal::SIGTERM,
    )
    .unwrap();
    served.wait_with_output().unwrap();
    assert!(fs::read(folder.join("v")).unwrap() == before);

    // Its length is in a trailer, which needs the key.
    let line = "head -c 5000 plain | \"$luxor\" encrypt --key-file key --pbkdf pbkdf2 \
                --pbkdf-force-iterations 1000 - - > piped";
    folder.write("plain", bytes(6000, 1));
    shell_without_terminal(line, folder.path()).assert_code(0);
    copy("piped", "again");
    at(&folder, "resize --size 6000 piped").fails(1, "in a trailer after them");
    assert!(fs::read(folder.join("piped")).unwrap() == fs::read(folder.join("again")).unwrap());
    at(&folder, "resize --size 6000 key").fails(1, "");
    at(&folder, "resize --size 6000 nothing").fails(4, "nothing does not exist");
}
