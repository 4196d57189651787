// SPDX-License-Identifier: MIT OR Apache-2.0
//! Models of a disk's claims and of a range that changes its place: many schedules of threads, each
//! chosen at random or by priorities.

use std::{
    env,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
};

use shuttle::{
    sync::atomic::AtomicUsize,
    thread::{self, JoinHandle, yield_now},
};

use super::*;
use crate::{layout::Part, memory::MemoryStorage};

/// Runs `model` under many schedules, and fails if one of them ends in a panic or a deadlock.
fn check(model: fn()) {
    let schedules = env::var("LUXOR_MODEL_SCHEDULES").map_or(1000, |n| n.parse().unwrap());
    shuttle::check_random(model, schedules);
    shuttle::check_pct(model, schedules, 3);
}

fn join(threads: Vec<JoinHandle<()>>) {
    for thread in threads {
        thread.join().unwrap();
    }
}

/// Writers have their ranges alone, readers share, and a panic releases.
#[test]
fn claims_exclude_each_other_and_end_with_a_panic() {
    check(|| {
        let shared = Arc::new((Ranges::default(), [const { AtomicUsize::new(0) }; 4]));
        // Each thread claims these, in order. A writer counts as 100 readers.
        let claims = [
            [(0..3, true), (1..2, false)],
            [(2..4, true), (0..2, true)],
            [(1..3, false), (3..4, true)],
        ];
        let threads = claims.map(|claims| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                let (ranges, users) = &*shared;
                for (range, write) in claims {
                    let step = if write { 100 } else { 1 };
                    let work = AssertUnwindSafe(|| {
                        let _claimed = ranges.claim(range.start as u64..range.end as u64, write);
                        for user in &users[range.clone()] {
                            let others = user.fetch_add(step, Ordering::SeqCst);
                            assert!(others < 100 && (others == 0 || !write), "a range has two");
                        }
                        yield_now();
                        for user in &users[range] {
                            user.fetch_sub(step, Ordering::SeqCst);
                        }
                        resume_unwind(Box::new("on purpose"));
                    });
                    let end = catch_unwind(work).unwrap_err();
                    assert_eq!(end.downcast_ref(), Some(&"on purpose"));
                }
            })
        });
        join(threads.into());
    });
}

/// The length of a sector.
const SECTOR: u64 = 512;

/// Memory in which every access gives way to other threads.
struct Slow(MemoryStorage);

impl Storage for Slow {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn alignment(&self) -> usize {
        512
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        yield_now();
        self.0.read_exact_at(buf, offset)
    }

    fn write_all_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        yield_now();
        let written = self.0.write_all_at(buf, offset);
        yield_now();
        written
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync()
    }
}

fn part(offset: u64, sectors: u64) -> Part {
    Part {
        offset,
        len: sectors * SECTOR,
        crypt: None,
    }
}

fn disk() -> Arc<Disk> {
    let storage = Slow(MemoryStorage::new(vec![0; 6 * 512]));
    let parts = vec![part(0, 3)];
    Arc::new(Disk::new(Arc::new(storage), parts, DiskOptions::default()).unwrap())
}

/// Writes of parts of one sector, at bytes that differ, lose nothing.
#[test]
fn writes_within_a_sector_keep_each_other() {
    check(|| {
        let disk = disk();
        let threads = (0..3_u8).map(|n| {
            let disk = Arc::clone(&disk);
            thread::spawn(move || disk.write(&[n + 1], 510 + u64::from(n)).unwrap())
        });
        join(threads.collect());
        let mut found = [0; 3];
        disk.read(&mut found, 510).unwrap();
        assert_eq!(found, [1, 2, 3]);
    });
}

/// The first two sectors move to another place of the storage, one after the other, as in a
/// re-encryption. The old place is overwritten with 0xff between copy and move. Clients find their own
/// writes, and never the old place.
#[test]
fn a_range_that_moves_is_not_used_meanwhile() {
    check(|| {
        let disk = disk();
        let mover = {
            let disk = Arc::clone(&disk);
            thread::spawn(move || {
                let storage = Arc::clone(&disk).storage();
                for sector in 0..2 {
                    let held = disk.hold(sector * SECTOR..(sector + 1) * SECTOR);
                    let (from, to) = (sector * SECTOR, (sector + 3) * SECTOR);
                    let mut copied = [0; 512];
                    storage.read_exact_at(&mut copied, from).unwrap();
                    storage.write_all_at(&copied, to).unwrap();
                    storage.write_all_at(&[0xff; 512], from).unwrap();
                    let moved = sector + 1;
                    let parts = vec![part(3 * SECTOR, moved), part(moved * SECTOR, 3 - moved)];
                    held.replace(parts).unwrap();
                }
            })
        };
        let clients = [500, 1000].map(|offset| {
            let disk = Arc::clone(&disk);
            thread::spawn(move || {
                for value in 1..3 {
                    disk.write(&[value; 24], offset).unwrap();
                    let mut found = [0; 100];
                    disk.read(&mut found, offset).unwrap();
                    assert_eq!(found[..24], [value; 24]);
                    assert_eq!(found[24..], [0; 76]);
                }
            })
        });
        join([mover].into_iter().chain(clients).collect());
    });
}

/// A mover that fails leaves a range in which all requests fail, and none waits for ever.
#[test]
fn a_range_whose_move_failed_is_lost() {
    check(|| {
        let disk = disk();
        let other = Arc::clone(&disk);
        let mover = thread::spawn(move || drop(other.hold(0..SECTOR)));
        let other = Arc::clone(&disk);
        let client = thread::spawn(move || {
            // Before or after.
            let _ = other.write(&[1; 512], 0);
            other.write(&[2; 512], SECTOR).unwrap();
        });
        join(vec![mover, client]);
        disk.write(&[3], 0).unwrap_err();
        disk.read(&mut [0; 512], SECTOR).unwrap();
    });
}
