// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests clients of other projects on every kind of volume.

use std::fs;

use serde_json::{Value, json};

use crate::support::{Kind, Volume, assert_same, bytes, output};

const LEN: usize = 4 << 20;

#[test]
fn luks2_with_sectors_of_512_bytes() {
    clients(Kind::Luks2 { sector_size: 512 });
}

#[test]
fn luks2_with_sectors_of_4096_bytes() {
    clients(Kind::Luks2 { sector_size: 4096 });
}

#[test]
fn luks1() {
    clients(Kind::Luks1);
}

#[test]
fn plain() {
    clients(Kind::Plain);
}

fn clients(kind: Kind) {
    let mut expected = bytes(LEN, 2);
    let volume = Volume::new(kind, &expected);
    let server = volume.serve("");
    let uri = server.uri.as_str();
    copies(&volume, uri, &expected);

    expected = bytes(LEN, 3);
    volume.write("new", &expected);
    volume.run("nbdcopy new", &[uri]);
    copies(&volume, uri, &expected);
    expected = bytes(LEN, 4);
    volume.write("new", &expected);
    volume.run("qemu-img convert -n -f raw -O raw new", &[uri]);
    copies(&volume, uri, &expected);

    qemu_io(&volume, uri, &mut expected);
    copies(&volume, uri, &expected);
    let bench = "qemu-img bench -f raw -w --pattern 99 -d 32 -c 100 -s 5000 -S 7001 -o 4097";
    volume.run(bench, &[uri]);
    for k in 0..100 {
        expected[4097 + 7001 * k..][..5000].fill(99);
    }
    copies(&volume, uri, &expected);
    volume.run("qemu-img bench -f raw -d 64 -c 1000 -s 512", &[uri]);
    server.stop();
    assert_same(&volume.independent(), &expected);
    if kind != Kind::Plain {
        assert_same(&volume.decrypted(), &expected);
    }
}

/// Two programs that copy find these bytes, and a third one finds no difference.
fn copies(volume: &Volume, uri: &str, expected: &[u8]) {
    volume.run("nbdcopy", &[uri, "copy"]);
    assert_same(&fs::read(volume.path("copy")).unwrap(), expected);
    volume.run("qemu-img convert -f raw -O raw", &[uri, "copy"]);
    assert_same(&fs::read(volume.path("copy")).unwrap(), expected);
    volume.run("qemu-img compare -f raw -F raw", &[uri, "copy"]);
    let mut other = expected.to_vec();
    *other.last_mut().unwrap() ^= 1;
    volume.write("copy", other);
    let mut compare = volume.command("qemu-img", ["compare", "-f", "raw", "-F", "raw"]);
    let compared = output(compare.args([uri, "copy"]));
    assert_eq!(compared.status.code(), Some(1), "{compared:?}");
    let end = (expected.len() - 512).to_string();
    let said = String::from_utf8_lossy(&compared.stdout);
    assert!(said.contains(&end), "{said}");
}

/// Writes patterns that begin and end within sectors, and overlap.
fn qemu_io(volume: &Volume, uri: &str, expected: &mut [u8]) {
    let mut fill = |at: usize, len: usize, byte| expected[at..][..len].fill(byte);
    fill(1, 1, 0xa1);
    fill(511, 2, 0xa2);
    fill(4095, 4098, 0xa3);
    fill(100_001, 300_003, 0xa4);
    fill(200_000, 70_001, 0);
    fill(1 << 20, 4096, 0xa5);
    fill((1 << 20) + 10, 20, 0);
    fill(LEN - 7, 7, 0xa6);
    fill(2_000_000, 513, 0xa7);
    let patterns = "
        write -P 0xa1 1 1
        write -P 0xa2 511 2
        write -P 0xa3 4095 4098
        write -P 0xa4 100001 300003
        write -z 200000 70001
        write -f -P 0xa5 1M 4k
        write -f -z 1048586 20
        write -f -P 0xa6 4194297 7
        aio_write -P 0xa7 2000000 513
        aio_flush
        flush
        read -P 0xa2 511 2
        read -P 0xa3 4095 4098
        read -P 0 200000 70001
        read -P 0xa6 4194297 7";
    let mut qemu = volume.command("qemu-io", ["-f", "raw"]);
    for command in patterns.lines().map(str::trim).filter(|c| !c.is_empty()) {
        qemu.args(["-c", command]);
    }
    let output = output(qemu.arg(uri));
    let said = String::from_utf8_lossy(&output.stdout);
    // qemu-io reports a missing pattern, but does not fail.
    assert!(!said.contains("verification failed"), "{said}");
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn nbdinfo_shows_what_the_server_offers() {
    let volume = Volume::new(Kind::EXAMPLE, &bytes(100_001, 2));
    for (arguments, writes, trims) in [
        ("", true, false),
        ("--allow-discards", true, true),
        ("--read-only --allow-discards", false, false),
    ] {
        let server = volume.serve(&format!("{arguments} --export-name disk"));
        // The default export is the same disk.
        let uris = [server.uri.clone(), server.uri.replace("///disk?", "///?")];
        for uri in &uris {
            let mut found = nbdinfo(&volume, &[uri]);
            let export = found["exports"][0].take();
            assert_eq!(found["protocol"], "newstyle-fixed");
            assert_eq!(found["structured"], true);
            assert_eq!(found["TLS"], false);
            for (key, value) in [
                ("export-name", json!("disk")),
                ("export-size", json!(100_001)),
                ("contexts", json!(["base:allocation"])),
                ("block_size_minimum", json!(1)),
                ("block_size_preferred", json!(4096)),
                ("block_size_maximum", json!(32 << 20)),
                ("is_read_only", json!(!writes)),
                ("can_zero", json!(writes)),
                ("can_trim", json!(trims)),
                ("can_flush", json!(true)),
                ("can_fua", json!(true)),
                ("can_cache", json!(true)),
                ("can_df", json!(true)),
                ("can_multi_conn", json!(true)),
                ("can_fast_zero", json!(false)),
                ("is_rotational", json!(false)),
            ] {
                assert_eq!(export[key], value, "{key} with {arguments:?}");
            }
        }
        let list = nbdinfo(&volume, &["--list", &uris[1]]);
        let names: Vec<_> = list["exports"]
            .as_array()
            .unwrap()
            .iter()
            .map(|export| &export["export-name"])
            .collect();
        assert_eq!(names, ["disk"]);
        server.stop();
    }
}

fn nbdinfo(volume: &Volume, arguments: &[&str]) -> Value {
    serde_json::from_str(&volume.run("nbdinfo --json", arguments)).unwrap()
}

/// A file with a length that is not a multiple of the sector size is a disk of exactly that length,
/// and its last bytes can be written.
#[test]
fn a_file_of_odd_length() {
    for (sector_size, len) in [(512, 1_000_001), (4096, 3 * 4096 + 1)] {
        let mut expected = bytes(len, 2);
        let volume = Volume::new(Kind::Luks2 { sector_size }, &expected);
        let server = volume.serve("");
        let uri = server.uri.as_str();
        volume.run("nbdcopy", &[uri, "copy"]);
        assert_same(&fs::read(volume.path("copy")).unwrap(), &expected);
        // qemu's disks consist of sectors of 512 bytes, so it appends zeros.
        volume.run("qemu-img convert -f raw -O raw", &[uri, "copy"]);
        let mut padded = expected.clone();
        padded.resize(len.next_multiple_of(512), 0);
        assert_same(&fs::read(volume.path("copy")).unwrap(), &padded);
        let last = format!("write -P 0x77 {} 3", len - 3);
        volume.run("qemu-io -f raw -c", &[&last, uri]);
        expected[len - 3..].fill(0x77);
        assert_same(&volume.independent(), &expected);
        expected = bytes(len, 3);
        volume.write("new", &expected);
        volume.run("nbdcopy --flush new", &[uri]);
        server.stop();
        assert_same(&volume.independent(), &expected);
        assert_same(&volume.decrypted(), &expected);
    }
}

/// Writes of every length from 512 bytes to 1 MiB, 32 at a time on each of four connections, at
/// unaligned offsets and with unaligned lengths. Then everything is read back and the checksums are
/// verified.
#[test]
fn fio_finds_its_checksums() {
    const JOBS: &str = "
verify=crc32c
verify_fatal=1
iodepth=32
numjobs=4
offset=333
offset_increment=1000003
size=1000001
io_size=1000001
rw=randwrite
bs_unaligned=1
group_reporting=1
[long]
bsrange=512-1m
[short]
stonewall
bsrange=512-8k
";
    for kind in [
        Kind::Luks2 { sector_size: 512 },
        Kind::Luks2 { sector_size: 4096 },
        Kind::Luks1,
        Kind::Plain,
    ] {
        let volume = Volume::new(kind, &vec![0; LEN]);
        let server = volume.serve("");
        let global = format!("[global]\nioengine=nbd\nuri={}\n", server.uri);
        volume.write("jobs", global + JOBS);
        let said = volume.run("fio --output-format=json --output=report jobs", &[]);
        assert_eq!(said, "", "{kind:?}");
        let report = fs::read(volume.path("report")).unwrap();
        let report: Value = serde_json::from_slice(&report).unwrap();
        let jobs = report["jobs"].as_array().unwrap();
        assert_eq!(jobs.len(), 2);
        for job in jobs {
            assert_eq!(job["error"], 0, "{kind:?}");
            let (read, written) = (&job["read"]["io_bytes"], &job["write"]["io_bytes"]);
            assert!(written.as_u64() > Some(3 << 20), "{job}");
            assert_eq!(read, written, "what is written is verified");
        }
        server.stop();
    }
}
