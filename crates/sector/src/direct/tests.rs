// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests with files in the temporary folder. Those with devices are in `tests/direct.rs`.

use luxor_conformance::Random;

use super::*;
use crate::storage::tests::behaves_as_a_file;

/// A file with `io_uring`, and one with threads.
fn both() -> [DirectFile; 2] {
    let new = || DirectFile::new(tempfile::tempfile().unwrap()).unwrap();
    let by_ring = new();
    assert!(
        by_ring.rings.is_some(),
        "these tests need io_uring: see kernel.io_uring_disabled"
    );
    [by_ring, new().without_io_uring()]
}

#[test]
fn direct_files_are_storage() {
    for file in both() {
        let alignment = file.alignment();
        assert!(alignment.is_power_of_two() && (1..=4096).contains(&alignment));
        behaves_as_a_file(&file, alignment);
    }
    for file in both() {
        behaves_as_a_file(&file, 8192);
    }
}

/// The kernel itself reports that the page cache is bypassed.
#[test]
fn transfers_are_direct() {
    for file in both() {
        let flags = fcntl(&file.file, FcntlArg::F_GETFL).unwrap();
        assert!(OFlag::from_bits_retain(flags).contains(OFlag::O_DIRECT));
    }
    let null = File::open("/dev/null").unwrap();
    let error = DirectFile::new(null).unwrap_err();
    assert!(error.to_string().contains("direct I/O"), "{error}");
}

/// Rounds of all sizes, with aligned memory and other memory.
#[test]
fn batches_of_any_kind_act_like_a_vector() {
    let mut random = Random::for_test("direct::batches_of_any_kind");
    const UNITS: usize = 6000;
    for file in both() {
        let unit = file.alignment();
        let mut model = random.bytes(UNITS * unit);
        file.write_all_at(&model, 0).unwrap();
        for most in [1, 2, 30, 300, 700] {
            let count = 1 + random.below(most);
            let longest = UNITS / count;
            let mut places = Vec::new();
            for k in 0..count {
                let len = random.below(longest + 1);
                let begin = k * longest + random.below(longest - len + 1);
                places.push((
                    begin * unit,
                    len * unit,
                    [0, 1, 16, unit / 2][random.below(4)],
                ));
            }
            let bytes: Vec<(usize, Buffer)> = places
                .iter()
                .map(|&(_, len, off)| {
                    let mut buffer = Buffer::zeroed(off + len);
                    buffer[off..].copy_from_slice(&random.bytes(len));
                    (off, buffer)
                })
                .collect();
            let mut writes: Vec<_> = places
                .iter()
                .zip(&bytes)
                .map(|(&(begin, ..), (off, buffer))| WriteAt {
                    buf: &buffer[*off..],
                    offset: begin as u64,
                    result: Err(io::Error::other("not made")),
                })
                .collect();
            file.write_batch(&mut writes);
            for write in writes {
                write.result.unwrap();
                let begin = usize::try_from(write.offset).unwrap();
                model[begin..begin + write.buf.len()].copy_from_slice(write.buf);
            }
            let mut found: Vec<_> = bytes
                .iter()
                .map(|(off, buffer)| (*off, Buffer::zeroed(buffer.len())))
                .collect();
            let mut reads: Vec<_> = places
                .iter()
                .zip(&mut found)
                .map(|(&(begin, ..), (off, buffer))| ReadAt {
                    buf: &mut buffer[*off..],
                    offset: begin as u64,
                    result: Err(io::Error::other("not made")),
                })
                .collect();
            file.read_batch(&mut reads);
            for read in &reads {
                read.result.as_ref().unwrap();
                let begin = usize::try_from(read.offset).unwrap();
                assert!(*read.buf == model[begin..begin + read.buf.len()]);
            }
        }
        let mut all = vec![0; model.len()];
        file.read_exact_at(&mut all, 0).unwrap();
        assert!(all == model);
    }
}

/// Only reads beyond the new end fail. The new end may lie within a unit.
#[test]
fn reads_beyond_the_end_of_a_shrunk_file_fail() {
    for file in both() {
        let unit = file.alignment();
        file.write_all_at(&vec![7; 8 * unit], 0).unwrap();
        for (end, there) in [(8 * unit, 8), (5 * unit + 100, 5), (3 * unit, 3), (1, 0)] {
            file.file.set_len(end as u64).unwrap();
            let mut buffers = vec![vec![0; unit]; 8];
            let mut reads: Vec<_> = (0..)
                .zip(&mut buffers)
                .map(|(k, buf)| ReadAt {
                    buf,
                    offset: k * unit as u64,
                    result: Ok(()),
                })
                .collect();
            file.read_batch(&mut reads);
            for (k, read) in reads.into_iter().enumerate() {
                match read.result {
                    Ok(()) => assert!(k < there && *read.buf == vec![7; unit]),
                    Err(error) => {
                        assert!(k >= there, "{error}");
                        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
                    }
                }
            }
            let error = file
                .read_exact_at(&mut vec![0; 8 * unit], 0)
                .map_err(|error| error.kind());
            assert_eq!(error.is_ok(), there == 8);
            assert!(error.is_ok() || error == Err(io::ErrorKind::UnexpectedEof));
        }
    }
}

/// Each thread has its own blocks, filled with bytes that depend on the block and the version. The
/// test overwrites its memory as soon as a batch returns, and a late transfer would change it.
#[test]
fn threads_read_back_their_writes_and_no_transfer_is_late() {
    const BLOCKS: usize = 64;
    const CANARY: u8 = 0xc5;
    for file in &both() {
        let unit = file.alignment();
        thread::scope(|scope| {
            for worker in 0..6 {
                scope.spawn(move || {
                    let mut random = Random::new(worker);
                    let mut memory = vec![CANARY; BLOCKS * (unit + 64)];
                    let first = worker * BLOCKS as u64;
                    let stamp = |block: u64, version: u8| {
                        (block.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56).to_le_bytes()[0] ^ version
                    };
                    for version in 0..60 {
                        let count = 1 + random.below(BLOCKS);
                        let blocks = || (first..).take(count);
                        for (room, block) in memory.chunks_mut(unit + 64).zip(blocks()) {
                            room[..unit].fill(stamp(block, version));
                        }
                        let mut writes: Vec<_> = memory
                            .chunks(unit + 64)
                            .zip(blocks())
                            .map(|(room, block)| WriteAt {
                                buf: &room[..unit],
                                offset: block * unit as u64,
                                result: Err(io::Error::other("not made")),
                            })
                            .collect();
                        file.write_batch(&mut writes);
                        writes.into_iter().for_each(|write| write.result.unwrap());
                        memory.fill(CANARY);
                        let mut reads: Vec<_> = memory
                            .chunks_mut(unit + 64)
                            .zip(blocks())
                            .map(|(room, block)| ReadAt {
                                buf: &mut room[..unit],
                                offset: block * unit as u64,
                                result: Err(io::Error::other("not made")),
                            })
                            .collect();
                        file.read_batch(&mut reads);
                        reads.into_iter().for_each(|read| read.result.unwrap());
                        for (room, block) in memory.chunks_mut(unit + 64).zip(blocks()) {
                            let expected = stamp(block, version);
                            assert!(room[..unit].iter().all(|&byte| byte == expected));
                            room[..unit].fill(CANARY);
                        }
                        assert!(memory.iter().all(|&byte| byte == CANARY));
                    }
                });
            }
        });
    }
}
