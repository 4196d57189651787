// SPDX-License-Identifier: MIT OR Apache-2.0
//! Holes in the encrypted file are not zeros, whatever clients make of holes.

use std::{fs, os::unix::fs::MetadataExt};

use nix::fcntl::{FallocateFlags, fallocate};

use crate::support::{Kind, Server, Volume, assert_same, bytes, output};

const LEN: usize = 8 << 20;

/// The ranges that become holes.
const HOLES: [(usize, usize); 3] = [(0, 65536), (1 << 20, 2 << 20), (LEN - 8192, 8192)];

#[test]
fn holes_read_as_decrypted_zeros() {
    for kind in [
        Kind::Luks2 { sector_size: 512 },
        Kind::Luks2 { sector_size: 4096 },
        Kind::Luks1,
        Kind::Plain,
    ] {
        let mut plain = bytes(LEN, 2);
        let volume = Volume::new(kind, &plain);
        let file = fs::File::options()
            .write(true)
            .open(volume.path("volume"))
            .unwrap();
        let before = file.metadata().unwrap().blocks();
        for (at, len) in HOLES {
            let at = volume.data_offset() + at as u64;
            let mode = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
            fallocate(&file, mode, at.cast_signed(), len.try_into().unwrap()).unwrap();
        }
        let freed = 512 * (before - file.metadata().unwrap().blocks());
        assert!(freed > 2 << 20, "{freed}: this file system has no holes");
        drop(file);

        let noise = volume.independent();
        if kind != Kind::Plain {
            assert_same(&volume.decrypted(), &noise);
        }
        for (at, len) in HOLES {
            assert!(noise[at..][..4096] != [0; 4096] && noise[at..][..4096] != plain[at..][..4096]);
            plain[at..][..len].fill(0);
        }
        let zeros = plain;
        let server = volume.serve("--read-only");
        every_reader_finds(&volume, &server, &noise, &zeros);
        server.stop();
    }
}

/// A client that discards reads the same noise afterwards as all others.
#[test]
fn discarded_ranges_read_as_decrypted_zeros() {
    let mut zeros = bytes(LEN, 2);
    let volume = Volume::new(Kind::EXAMPLE, &zeros);
    let server = volume.serve("--allow-discards");
    let mut qemu = volume.command("qemu-io", ["-f", "raw", "-d", "unmap"]);
    for (at, len) in HOLES {
        qemu.args(["-c", &format!("discard {at} {len}")]);
        zeros[at..][..len].fill(0);
    }
    assert!(output(qemu.arg(&server.uri)).status.success());
    let noise = volume.independent();
    assert!(noise[1 << 20..][..4096] != [0; 4096]);
    every_reader_finds(&volume, &server, &noise, &zeros);
    server.stop();
    assert_same(&volume.decrypted(), &noise);
}

/// Checks that every client reads `noise`. `zeros` is what a client would read if it took holes for
/// zeros.
fn every_reader_finds(volume: &Volume, server: &Server, noise: &[u8], zeros: &[u8]) {
    let uri = server.uri.as_str();
    let copied = |line: &str, arguments: &[&str]| {
        volume.run(line, arguments);
        let bytes = fs::read(volume.path("copy")).unwrap();
        fs::remove_file(volume.path("copy")).unwrap();
        bytes
    };
    assert_same(&copied("nbdcopy", &[uri, "copy"]), noise);
    let convert = "qemu-img convert -f raw -O raw";
    assert_same(&copied(convert, &[uri, "copy"]), noise);

    // Copies over a file with zeros, which copies only what differs or what the source does not
    // have allocated.
    volume.write("noise", noise);
    volume.write("zeros", zeros);
    let over = "qemu-img convert -f raw -O qcow2 -B zeros -F raw";
    volume.run(over, &[uri, "over"]);
    let whole = "qemu-img convert -f qcow2 -O raw over copy";
    assert_same(&copied(whole, &[]), noise);

    let compare = |with: &str| {
        let mut compare = volume.command("qemu-img", ["compare", "-f", "raw", "-F", "raw"]);
        output(compare.args([uri, with])).status.code()
    };
    assert_eq!(compare("noise"), Some(0));
    assert_eq!(compare("zeros"), Some(1));
}
