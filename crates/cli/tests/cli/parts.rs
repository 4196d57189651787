// SPDX-License-Identifier: MIT OR Apache-2.0
//! Volumes in partitions and at offsets, shared with cryptsetup, which sees them through loop devices.

use std::{
    fs::{self, File},
    io::{Seek, SeekFrom, Write},
    path::Path,
    process::Command,
};

use luxor::files::testing::{Loop, alone};

use crate::{
    serve::{Server, read_all, serve},
    support::{FAST, Folder, Luxor, bytes, luxor, shell_without_terminal, tool},
};

const MIB: u64 = 1 << 20;
const LEN: u64 = 64 * MIB;

fn at(folder: &Folder, line: &str) -> Luxor {
    luxor(line).current_dir(folder.path())
}

/// Makes `disk.img` with a table from sfdisk's script, other bytes around the range, and in the range a
/// volume of cryptsetup.
fn disk(script: &str, (begin, end): (u64, u64), options: &str) -> Folder {
    let folder = Folder::new();
    folder.write("key", b"correct horse");
    folder.write("new", b"battery staple");
    let path = folder.join("disk.img");
    File::create(&path).unwrap().set_len(LEN).unwrap();
    shell(
        &folder,
        &format!("printf '{script}' | sfdisk --quiet disk.img"),
    );
    let mut file = File::options().write(true).open(&path).unwrap();
    for (at, seed) in [(begin - 512, 1), (end, 2)] {
        file.seek(SeekFrom::Start(at)).unwrap();
        file.write_all(&bytes(512, seed)).unwrap();
    }
    on_loop(&folder, (begin, end), |device| {
        format!(
            "cryptsetup luksFormat --batch-mode {options} --pbkdf pbkdf2 --pbkdf-force-iterations 1000 \
             {device} key"
        )
    });
    folder
}

fn shell(folder: &Folder, line: &str) {
    shell_without_terminal(line, folder.path()).assert_code(0);
}

/// Runs a command of the shell with a loop device over these bytes of `disk.img`.
fn on_loop(folder: &Folder, (begin, end): (u64, u64), line: impl Fn(&str) -> String) {
    let _alone = alone();
    let (offset, size) = (begin.to_string(), (end - begin).to_string());
    let device = Loop::with(
        &folder.join("disk.img"),
        &["--offset", &offset, "--sizelimit", &size],
    );
    shell(folder, &line(device.name()));
}

/// Everything in `disk.img` except this range.
fn outside(folder: &Folder, (begin, end): (u64, u64)) -> Vec<u8> {
    let mut disk = fs::read(folder.join("disk.img")).unwrap();
    let range = usize::try_from(begin).unwrap()..usize::try_from(end).unwrap();
    disk.drain(range);
    disk
}

/// Writes the bytes of the range to a file of their own, which holds the volume alone.
fn extract(folder: &Folder, (begin, end): (u64, u64), name: &str) {
    let disk = fs::read(folder.join("disk.img")).unwrap();
    let range = usize::try_from(begin).unwrap()..usize::try_from(end).unwrap();
    folder.write(name, &disk[range]);
}

fn decrypted(folder: &Folder, line: &str) -> Vec<u8> {
    at(
        folder,
        &format!("decrypt --force --key-file key {line} out"),
    )
    .ok();
    fs::read(folder.join("out")).unwrap()
}

/// Every command that opens a volume does it in a partition too, changes nothing else, and cryptsetup
/// reads the result.
#[test]
fn a_volume_in_a_partition_is_shared_with_cryptsetup() {
    let gpt = "label: gpt\\nsize=4MiB\\nsize=40MiB\\nsize=4MiB\\n";
    let logical = "label: dos\\nstart=2048, size=2048, type=83\\n\
        start=4096, size=120000, type=5\\nstart=8192, size=2048, type=83\\n\
        start=12288, size=81920, type=83\\n";
    for (script, range, number, options) in [
        (gpt, (5 * MIB, 45 * MIB), 2, ""),
        (logical, (6 * MIB, 46 * MIB), 6, "--sector-size 4096"),
        (gpt, (5 * MIB, 45 * MIB), 2, "--type luks1"),
    ] {
        let folder = disk(script, range, options);
        let is_luks2 = !options.contains("luks1");
        let before = outside(&folder, range);
        let part = format!("--volume-partition {number}");
        let line = |command: &str| format!("{command} {part} disk.img");
        on_loop(&folder, range, |device| {
            format!(
                "cryptsetup luksAddKey --key-file key --pbkdf pbkdf2 --pbkdf-force-iterations 1000 \
                 {device} new"
            )
        });
        let opens = |key: &str| {
            on_loop(&folder, range, |device| {
                format!("cryptsetup open --test-passphrase --key-file {key} {device}")
            });
        };

        at(&folder, &line("dump")).ok();
        at(&folder, &line("check --key-file new")).ok();
        at(&folder, &line("is-luks")).ok();
        at(&folder, &line("key test --key-file new")).ok();
        at(
            &folder,
            &line("key change --key-file new --new-key-file third"),
        )
        .args(FAST)
        .fails(1, "third");
        folder.write("third", b"third");
        at(
            &folder,
            &line("key change --key-file new --new-key-file third"),
        )
        .args(FAST)
        .ok();
        opens("third");
        at(&folder, &line("key remove --key-file third")).ok();
        opens("key");

        // The data: written through the server, read from the bytes of the partition alone.
        let sockets = "--socket socket disk.img";
        let server = Server::start(&folder, &format!("{part} {sockets}"));
        let size = tool("nbdinfo", ["--size", &server.uri]);
        let size: usize = size.text().trim().parse().unwrap();
        let header = if is_luks2 { 16 * MIB } else { 2 * MIB };
        assert_eq!(size as u64, range.1 - range.0 - header, "{options}");
        let plain = bytes(size, 7);
        let source = folder.write("plain", &plain);
        tool("nbdcopy", [source.as_os_str(), server.uri.as_ref()]);
        // The locks are those of the whole file.
        Luxor::within(std::time::Duration::from_secs(60))
            .args([
                "serve",
                "--key-file",
                "key",
                "--socket",
                "other",
                "disk.img",
            ])
            .current_dir(folder.path())
            .fails(5, "is locked");
        server.stop();
        extract(&folder, range, "alone");
        assert!(decrypted(&folder, "alone") == plain, "{options}");
        assert!(decrypted(&folder, &format!("{part} disk.img")) == plain);
        let server = Server::start(&folder, &format!("{part} --direct --read-only {sockets}"));
        assert!(read_all(&server.uri, &folder) == plain);
        server.stop();

        // The header: backed up, damaged, restored, repaired.
        at(&folder, &format!("header backup {part} disk.img backup")).ok();
        on_loop(&folder, range, |device| {
            format!(
                "cryptsetup luksHeaderBackup {device} --header-backup-file theirs && cmp backup theirs && rm theirs"
            )
        });
        at(
            &folder,
            &format!("decrypt --force --header backup --key-file key {part} disk.img out"),
        )
        .ok();
        assert!(fs::read(folder.join("out")).unwrap() == plain);
        wipe(&folder.join("disk.img"), range.0, 512);
        if is_luks2 {
            at(&folder, &line("header repair")).ok();
        } else {
            at(
                &folder,
                &format!("header restore --batch-mode --force {part} disk.img backup"),
            )
            .ok();
        }
        opens("key");

        if is_luks2 {
            at(&folder, &line("config --label in-a-partition")).ok();
            at(&folder, &line("reencrypt --key-file key"))
                .args(FAST)
                .ok();
            opens("key");
            extract(&folder, range, "alone");
            assert!(decrypted(&folder, "alone") == plain);
            let too_long = format!("resize {part} --size 30M disk.img");
            at(&folder, &too_long).fails(1, "of a part of 41943040 bytes");
            at(
                &folder,
                &format!("resize {part} --size 1M --shrink disk.img"),
            )
            .ok();
            assert!(decrypted(&folder, &format!("{part} disk.img")) == plain[..1 << 20]);
            at(&folder, &format!("resize {part} disk.img")).ok();
            at(&folder, &line("convert --type luks1 --batch-mode --force")).run();
        }
        at(&folder, &line("erase --batch-mode")).ok();
        assert_eq!(fs::metadata(folder.join("disk.img")).unwrap().len(), LEN);
        assert!(outside(&folder, range) == before, "{script} {options}");
    }
}

fn wipe(path: &Path, offset: u64, len: usize) {
    let mut file = File::options().write(true).open(path).unwrap();
    file.seek(SeekFrom::Start(offset)).unwrap();
    file.write_all(&vec![0; len]).unwrap();
}

#[test]
fn a_volume_at_an_offset_ends_with_its_file() {
    let folder = Folder::new();
    folder.write("key", b"correct horse");
    let plain = bytes(100_000, 1);
    folder.write("plain", &plain);
    at(&folder, "encrypt --key-file key plain v")
        .args(FAST)
        .ok();
    let front = bytes(3 << 20, 2);
    let volume = fs::read(folder.join("v")).unwrap();
    let whole = [&front[..], &volume].concat();
    folder.write("disk.img", &whole);
    for offset in ["3M", "3145728", "3072K"] {
        assert!(decrypted(&folder, &format!("--volume-offset {offset} disk.img")) == plain);
    }
    at(
        &folder,
        "key add --volume-offset 3M --key-file key --new-key-file plain disk.img",
    )
    .args(FAST)
    .ok();
    on_loop(&folder, (3 * MIB, whole.len() as u64), |device| {
        format!("cryptsetup open --test-passphrase --key-file plain {device}")
    });
    let server = Server::spawn(serve(
        &folder,
        "--volume-offset 3M --socket socket disk.img",
    ));
    let new = bytes(plain.len(), 3);
    let source = folder.write("new", &new);
    tool("nbdcopy", [source.as_os_str(), server.uri.as_ref()]);
    server.stop();
    assert!(decrypted(&folder, "--volume-offset 3M disk.img") == new);
    assert!(fs::read(folder.join("disk.img")).unwrap()[..3 << 20] == front[..]);
    // The file is not the volume's: it keeps its length.
    at(&folder, "resize --volume-offset 3M --size 1G disk.img").fails(1, "of a part of");
    assert_eq!(
        fs::metadata(folder.join("disk.img")).unwrap().len(),
        whole.len() as u64
    );

    // Data encrypted in place, and the header of a volume whose data are at an offset.
    folder.write("raw", [&front[..], &bytes(1 << 20, 4)].concat());
    at(
        &folder,
        "reencrypt --encrypt --header head --volume-offset 3M --key-file key raw",
    )
    .args(FAST)
    .ok();
    let back = decrypted(&folder, "--header head --volume-offset 3M raw");
    assert!(back == bytes(1 << 20, 4));
    assert!(fs::read(folder.join("raw")).unwrap()[..3 << 20] == front[..]);
}

#[test]
fn a_part_that_does_not_exist_is_refused() {
    let folder = Folder::new();
    folder.write("key", b"correct horse");
    folder.write("text", b"no table");
    shell(
        &folder,
        "truncate -s 8M disk.img; printf 'label: dos\\n1: start=2048, size=2048, type=83\\n\
         2: start=4096, size=4096, type=5\\n' | sfdisk --quiet disk.img",
    );
    for (line, words) in [
        (
            "dump --volume-partition 3 disk.img",
            "there is no partition 3; it has 1",
        ),
        (
            "dump --volume-partition 2 disk.img",
            "an extended partition",
        ),
        ("dump --volume-partition 1 text", "no partition table"),
        (
            "dump --volume-offset 1M text",
            "no volume can begin at byte 1048576",
        ),
        ("dump --volume-offset 1000 disk.img", "multiple of 512"),
        (
            "serve --key-file key --volume-partition 9 --socket s disk.img",
            "no partition 9",
        ),
        ("resize --volume-partition 9 disk.img", "no partition 9"),
        (
            "key add --volume-partition 9 --key-file key --new-key-file key disk.img",
            "no partition 9",
        ),
    ] {
        at(&folder, line).fails(1, words);
    }
    at(&folder, "dump --volume-offset 512 -")
        .stdin(bytes(4096, 1))
        .fails(1, "a stream, which has no parts");
    let both = at(
        &folder,
        "dump --volume-offset 512 --volume-partition 1 disk.img",
    )
    .run();
    assert_eq!(both.code, Some(1), "{both:?}");
    assert!(both.stderr.contains("cannot be used with"), "{both:?}");
}

/// A partition with a device has cryptsetup's lock under the number of that device.
#[test]
fn a_partition_with_a_device_is_changed_through_it() {
    let range = (5 * MIB, 45 * MIB);
    let folder = disk("label: gpt\\nsize=4MiB\\nsize=40MiB\\n", range, "");
    let _alone = alone();
    let device = Loop::over(&folder.join("disk.img"));
    let (begin, len) = (
        (range.0 / 512).to_string(),
        ((range.1 - range.0) / 512).to_string(),
    );
    tool("addpart", [device.name(), "2", &begin, &len]);
    let partition = format!("{}p2", device.name());
    let name = device.name();
    at(&folder, &format!("dump --volume-partition 2 {name}")).ok();
    at(
        &folder,
        &format!("check --key-file key --volume-partition 2 {name}"),
    )
    .ok();
    for line in [
        "key add --key-file key --new-key-file new",
        "header repair",
        "erase --batch-mode",
        "resize --size 1M --shrink",
        "reencrypt --key-file key",
        "serve --key-file key --socket s",
    ] {
        let refused = at(&folder, &format!("{line} --volume-partition 2 {name}"));
        let refused = refused.fails(5, &partition);
        assert!(
            refused
                .stderr
                .contains(&format!("Name {partition} instead.")),
            "{refused:?}"
        );
    }
    at(
        &folder,
        &format!("key add --key-file key --new-key-file new {partition}"),
    )
    .args(FAST)
    .ok();
    tool("delpart", [name, "2"]);
    let without = at(
        &folder,
        &format!("config --label x --volume-partition 2 {name}"),
    );
    without.ok();
    let found = Command::new("cryptsetup")
        .args(["luksUUID", &partition])
        .output();
    assert!(
        !found.unwrap().status.success(),
        "the partition has no device any more"
    );
}

/// A change of the volume would destroy what else its partition covers.
#[test]
fn a_partition_that_overlaps_another_one_is_only_read() {
    let script = "label: dos\nstart=2048, size=79872\nstart=90000, size=2048\n";
    let folder = disk(script, (MIB, 40 * MIB), "--type luks2");
    let label = |label: &str| {
        let line = format!("config --label {label} --volume-partition 1 disk.img");
        at(&folder, &line)
    };
    label("a").ok();
    let mut file = File::options()
        .write(true)
        .open(folder.join("disk.img"))
        .unwrap();
    file.seek(SeekFrom::Start(446 + 16 + 8)).unwrap();
    file.write_all(&4096_u32.to_le_bytes()).unwrap();
    let test = "key test --key-file key --volume-partition 1 disk.img";
    at(&folder, test).ok();
    label("b").fails(1, "partition 1 overlaps partition 2");
}

/// The options for the part are those of the target in `header restore`.
#[test]
fn a_header_backup_in_a_part_is_not_restored_from_there() {
    let folder = Folder::new();
    folder.write("key", "correct horse");
    folder.write("plain", bytes(1 << 20, 1));
    let at = |line: &str| luxor(line).current_dir(folder.path());
    at("encrypt --key-file key plain v").args(FAST).ok();
    at("header backup v backup").ok();
    let mut disk = vec![0; 1 << 20];
    disk.extend(fs::read(folder.join("backup")).unwrap());
    folder.write("disk", disk);
    let lines = [
        "decrypt --volume-offset 1M --key-file key disk out",
        "decrypt --header backup --key-file key backup out",
    ];
    for line in lines {
        let refused = at(line).fails(1, "has a header and no data");
        assert!(!refused.stderr.contains("header restore"), "{refused:#?}");
        let words = "copy it to a file of its own";
        assert!(refused.stderr.contains(words), "{refused:#?}");
    }
    // Done as it says.
    let copy = "tail -c +1048577 disk > own && cmp own backup";
    shell_without_terminal(copy, folder.path()).assert_code(0);
    at("decrypt --header own --key-file key v out").ok();
    at("header restore --batch-mode v own").ok();
    at("decrypt --force --key-file key v out").ok();
}
