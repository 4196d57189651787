// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files on a full file system, and files that become shorter.

use std::fs;

use nix::fcntl::{FallocateFlags, fallocate};

use crate::{
    raw::{Client, EIO, ENOSPC, READ, WRITE_ZEROES, request, write},
    support::{Kind, Server, Volume, assert_same, bytes},
};

const LEN: usize = 8 << 20;

/// A write that needs more space fails. Other requests succeed.
#[test]
fn a_full_disk_fails_those_writes_that_need_room() {
    const BLOCK: usize = 64 << 10;
    let plain = bytes(LEN, 2);
    let volume = Volume::new(Kind::Luks1, &plain);
    let file = fs::File::options().write(true).open(volume.path("volume"));
    let (begin, half) = (volume.data_offset(), LEN / 2);
    let mode = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
    let hole = i64::try_from(begin + half as u64).unwrap();
    fallocate(file.unwrap(), mode, hole, half.try_into().unwrap()).unwrap();

    // A separate file system, with space for only a part of the hole.
    let serve = volume.serving("--socket socket");
    let line = format!(
        "mkdir small && mount -t tmpfs -o size=8m none small && cp --sparse=always volume small && \
         exec {} \"$@\"",
        serve.get_program().display()
    );
    let mut unshare = volume.command("unshare", ["--mount"]);
    if !nix::unistd::geteuid().is_root() {
        unshare.arg("--map-root-user");
    }
    unshare.args(["sh", "-c", &line, "sh"]);
    let arguments: Vec<_> = serve.get_args().collect();
    let (last, options) = arguments.split_last().unwrap();
    assert_eq!(*last, "volume");
    let server = Server::start({
        unshare.args(options).arg("small/volume");
        unshare
    });

    let (mut writer, mut other) = (Client::new(&volume), Client::new(&volume));
    let block = bytes(BLOCK, 3);
    let written = (half..LEN)
        .step_by(BLOCK)
        .take_while(|&at| match writer.write(at, &block) {
            Ok(()) => true,
            Err(error) => {
                assert_eq!(error, ENOSPC);
                false
            }
        })
        .count();
    assert!(written > 4 && written < half / BLOCK, "{written}");
    let full = half + BLOCK * (written + 1);
    assert_eq!(writer.does(WRITE_ZEROES, full, BLOCK), ENOSPC);
    // Requests that arrive together with one that fails.
    writer.send(
        &[
            request(READ, 0, 10, 0, 5000),
            write(0, 11, 4096, &block),
            write(0, 12, full, &block),
            write(0, 13, 1001, &block[..3000]),
            request(READ, 0, 14, half, BLOCK),
        ]
        .concat(),
    );
    let mut errors = [u32::MAX; 5];
    for _ in 0..errors.len() {
        let (error, cookie) = writer.reply().unwrap();
        errors[usize::try_from(cookie).unwrap() - 10] = error;
        match cookie {
            10 => drop(writer.receive(5000)),
            14 => assert_same(&writer.receive(BLOCK), &block),
            _ => {}
        }
    }
    assert_eq!(errors, [0, 0, ENOSPC, 0, 0]);

    let mut expected = plain;
    expected[4096..][..BLOCK].copy_from_slice(&block);
    expected[1001..][..3000].copy_from_slice(&block[..3000]);
    for at in (half..LEN).step_by(BLOCK).take(written) {
        expected[at..][..BLOCK].copy_from_slice(&block);
    }
    let end = half + BLOCK * written;
    assert_same(&other.read(0, end).unwrap(), &expected[..end]);
    server.stop();
}

/// Requests for the lost part fail, requests for the rest succeed.
#[test]
fn a_truncated_file_is_served_up_to_its_end() {
    const LEFT: usize = 5 << 20;
    for kind in [Kind::EXAMPLE, Kind::Luks1, Kind::Plain] {
        let mut expected = bytes(LEN, 2);
        let volume = Volume::new(kind, &expected);
        let server = volume.serve("");
        let mut client = Client::new(&volume);
        assert_same(&client.read(0, LEN).unwrap(), &expected);
        let file = fs::File::options().write(true).open(volume.path("volume"));
        // The file ends in the middle of a sector.
        let (file, left) = (file.unwrap(), volume.data_offset() + LEFT as u64 + 100);
        file.set_len(left).unwrap();

        for (at, len) in [(6 << 20, 4096), (LEFT, 512), (LEFT - 1, 2), (0, LEN)] {
            assert_eq!(client.read(at, len), Err(EIO), "{len} bytes at {at}");
        }
        assert_same(&client.read(0, LEFT).unwrap(), &expected[..LEFT]);
        // A part of a missing sector cannot be changed.
        assert_eq!(client.write((6 << 20) + 1, b"here"), Err(EIO));
        // A whole missing sector cannot be written either, and the file does not grow.
        assert_eq!(client.write(LEN - 4096, &[7; 4096]), Err(EIO));
        assert_eq!(client.does(WRITE_ZEROES, LEN - 65536, 65536), EIO);
        assert_eq!(file.metadata().unwrap().len(), left);
        client.send(
            &[
                request(READ, 0, 0, LEFT - 4096, 4096),
                request(READ, 0, 1, LEFT, 4096),
                request(READ, 0, 2, 0, 4096),
            ]
            .concat(),
        );
        for _ in 0..3 {
            let (error, cookie) = client.reply().unwrap();
            assert_eq!(error, if cookie == 1 { EIO } else { 0 });
            match cookie {
                0 => assert_same(&client.receive(4096), &expected[LEFT - 4096..LEFT]),
                2 => assert_same(&client.receive(4096), &expected[..4096]),
                _ => {}
            }
        }
        client.write(777, b"there").unwrap();
        expected[777..782].copy_from_slice(b"there");
        let mut another = Client::new(&volume);
        assert_same(&another.read(0, LEFT).unwrap(), &expected[..LEFT]);
        server.stop();
    }
}
