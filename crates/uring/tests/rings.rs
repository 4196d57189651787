// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which transfers are made, and that the kernel does not touch the memory afterwards.

use std::{
    fs::{File, OpenOptions},
    io::{self, Seek},
    os::unix::fs::FileExt,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use luxor_conformance::Random;
use luxor_uring::{DEPTH, Read, Rings, Write};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

fn rings() -> Rings {
    Rings::new().expect("these tests need io_uring: see kernel.io_uring_disabled")
}

/// The byte that fills a block after it was written `version` times.
fn stamp(block: u64, version: u8) -> u8 {
    (block.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8 ^ version
}

const BLOCK: usize = 512;
const BLOCKS: usize = 600;
/// Fills the space between the buffers, and the buffers after each call.
const CANARY: u8 = 0xc5;

/// Threads write and read their own blocks of one file, while signals interrupt them. Buffers are
/// separated by canaries, and are overwritten with canaries as soon as a call returns, so that a
/// late write is detected.
#[test]
fn buffers_are_the_callers_again_when_a_call_is_over() {
    let interrupted = Arc::new(AtomicUsize::new(0));
    signal_hook::flag::register_usize(signal_hook::consts::SIGUSR1, Arc::clone(&interrupted), 1)
        .unwrap();
    let file = &tempfile::tempfile().unwrap();
    let rings = &rings();
    let end = &AtomicBool::new(false);
    thread::scope(|scope| {
        let workers: Vec<_> = (0..6_u64)
            .map(|worker| scope.spawn(move || write_and_read(file, rings, worker)))
            .collect();
        scope.spawn(|| {
            while !end.load(Ordering::Relaxed) {
                kill(Pid::this(), Signal::SIGUSR1).unwrap();
                thread::sleep(Duration::from_micros(20));
            }
        });
        for worker in workers {
            worker.join().unwrap();
        }
        end.store(true, Ordering::Relaxed);
    });
    assert_eq!(interrupted.load(Ordering::Relaxed), 1);
}

fn write_and_read(file: &File, rings: &Rings, worker: u64) {
    let mut random = Random::new(worker);
    let mut versions = vec![0_u8; BLOCKS];
    let offset = |block: usize| (worker * BLOCKS as u64 + block as u64) * BLOCK as u64;
    let number = |block: usize| worker * BLOCKS as u64 + block as u64;
    // Every block exists from the start.
    for block in 0..BLOCKS {
        let bytes = [stamp(number(block), 0); BLOCK];
        file.write_all_at(&bytes, offset(block)).unwrap();
    }
    let mut memory = vec![CANARY; BLOCKS * (BLOCK + 64)];
    let begun = Instant::now();
    let mut rounds = 0;
    while rounds < 50 || begun.elapsed() < Duration::from_millis(1500) {
        rounds += 1;
        let count = 1 + random.below(2 * DEPTH + 10);
        let first = random.below(BLOCKS);
        // All blocks differ, since 7 and `BLOCKS` have no common factor.
        let blocks: Vec<usize> = (0..count).map(|k| (first + k * 7) % BLOCKS).collect();

        for (room, &block) in memory.chunks_mut(BLOCK + 64).zip(&blocks) {
            versions[block] = versions[block].wrapping_add(1);
            room[..BLOCK].fill(stamp(number(block), versions[block]));
        }
        let mut batch: Vec<_> = memory
            .chunks(BLOCK + 64)
            .zip(&blocks)
            .map(|(room, &block)| Write::new(&room[..BLOCK], offset(block)))
            .collect();
        rings.write(file, &mut batch);
        for write in &mut batch {
            finish(&mut write.result, || file.write_at(write.buf, write.offset));
        }
        memory.fill(CANARY);

        let mut batch: Vec<_> = memory
            .chunks_mut(BLOCK + 64)
            .zip(&blocks)
            .map(|(room, &block)| Read::new(&mut room[..BLOCK], offset(block)))
            .collect();
        rings.read(file, &mut batch);
        for read in &mut batch {
            finish(&mut read.result, || file.read_at(read.buf, read.offset));
        }
        drop(batch);
        for (room, &block) in memory.chunks_mut(BLOCK + 64).zip(&blocks) {
            let expected = stamp(number(block), versions[block]);
            assert!(room[..BLOCK].iter().all(|&byte| byte == expected));
            room[..BLOCK].fill(CANARY);
        }
        assert!(memory.iter().all(|&byte| byte == CANARY), "a late write");
    }
}

/// Checks that the transfer is complete, or repeats it if it was not begun.
fn finish(result: &mut io::Result<usize>, again: impl FnOnce() -> io::Result<usize>) {
    if matches!(result, Err(error) if error.kind() == io::ErrorKind::Interrupted) {
        *result = again();
    }
    assert_eq!(*result.as_ref().unwrap(), BLOCK);
}

#[test]
fn more_transfers_than_a_ring_holds_go_in_rounds() {
    let (file, rings) = (tempfile::tempfile().unwrap(), rings());
    for count in [0, 1, DEPTH - 1, DEPTH, DEPTH + 1, 3 * DEPTH + 5] {
        let bytes: Vec<u8> = (0..=250).cycle().take(count).collect();
        let mut batch: Vec<_> = (0..)
            .zip(bytes.chunks(1))
            .map(|(offset, byte)| Write::new(byte, offset))
            .collect();
        rings.write(&file, &mut batch);
        assert!(
            batch
                .iter()
                .all(|write| *write.result.as_ref().unwrap() == 1)
        );
        let mut found = vec![0; count];
        let mut batch: Vec<_> = (0..)
            .zip(found.chunks_mut(1))
            .map(|(offset, byte)| Read::new(byte, offset))
            .collect();
        rings.read(&file, &mut batch);
        assert!(batch.iter().all(|read| *read.result.as_ref().unwrap() == 1));
        assert!(found == bytes);
    }
}

#[test]
fn each_transfer_has_its_own_outcome() {
    let (file, rings) = (tempfile::tempfile().unwrap(), rings());
    file.write_all_at(&[7; 1000], 0).unwrap();
    let offsets = [
        0,
        900,
        1000,
        1 << 40,
        i64::MAX as u64,
        1 << 63,
        u64::MAX - 1,
        u64::MAX,
    ];
    let mut buffers = [[1; 200]; 8];
    let mut batch: Vec<_> = offsets
        .into_iter()
        .zip(&mut buffers)
        .map(|(offset, buf)| Read::new(buf, offset))
        .collect();
    batch.push(Read::new(&mut [], 5));
    rings.read(&file, &mut batch);
    let found: Vec<_> = batch
        .iter()
        .map(|read| read.result.as_ref().map_err(io::Error::kind).copied())
        .collect();
    let refused = Err(io::ErrorKind::InvalidInput);
    assert_eq!(found[..4], [Ok(200), Ok(100), Ok(0), Ok(0)]);
    assert!(matches!(found[4], Ok(0) | Err(io::ErrorKind::InvalidInput)));
    assert_eq!(found[5..], [refused, refused, refused, Ok(0)]);
    assert_eq!(buffers[0], [7; 200]);
    assert_eq!(buffers[1][..100], [7; 100]);
    assert_eq!(buffers[1][100..], [1; 100]);
    assert_eq!(buffers[7], [1; 200]);
    assert_eq!((&file).stream_position().unwrap(), 0);

    for (path, write, expected) in [("/dev/full", true, 28), ("/dev/null", false, 9)] {
        let file = OpenOptions::new()
            .read(!write)
            .write(write)
            .open(path)
            .unwrap();
        let mut batch = [0, 4096].map(|offset| Write::new(&[1; 100], offset));
        rings.write(&file, &mut batch);
        for write in batch {
            assert_eq!(write.result.unwrap_err().raw_os_error(), Some(expected));
        }
    }
}
