// SPDX-License-Identifier: MIT OR Apache-2.0
//! Changes the key and the sectors of a disk, zone by zone, while threads read and write it.

use std::ops::Range;

use super::*;
use crate::rewrite::{Rewrite, Side};

const LEN: usize = 96 << 10;
const ZONE: usize = 8 << 10;
const THREADS: usize = 3;

/// The parts when the bytes before `done` have key 2 and sectors of 4096 bytes.
fn parts_until(done: u64) -> Vec<Part> {
    let mut parts = vec![
        part(4096, done, SectorSize::B4096, 2),
        part(4096 + done, LEN as u64 - done, SectorSize::B512, 1),
    ];
    if let Some((_, geometry)) = &mut parts[1].crypt {
        geometry.iv_offset += done / 512;
    }
    parts.retain(|part| part.len > 0);
    parts
}

fn change(disk: &Disk, storage: &dyn Storage, zone: Range<u64>) {
    let held = disk.hold(zone.clone());
    let (old, new) = (
        part(0, 0, SectorSize::B512, 1),
        part(0, 0, SectorSize::B4096, 2),
    );
    let side = |part: &Part| part.crypt.clone().unwrap();
    let ((old, old_geometry), (new, new_geometry)) = (side(&old), side(&new));
    let rewrite = Rewrite {
        storage,
        old: Side {
            offset: 4096,
            cipher: Some((old_geometry, &*old)),
        },
        new: Side {
            offset: 4096,
            cipher: Some((new_geometry, &*new)),
        },
        threads: NonZeroUsize::MIN,
        transfers: NonZeroUsize::MIN,
    };
    rewrite.run(&zone).unwrap();
    storage.sync().unwrap();
    held.replace(parts_until(zone.end)).unwrap();
}

/// The threads share sectors, but each has bytes of its own.
#[test]
fn requests_never_see_a_range_that_is_changed() {
    let (storage, disk) = single(LEN as u64, SectorSize::B512);
    let disk = Arc::new(disk);
    let beneath = disk.clone().storage();
    let done = AtomicBool::new(false);
    let own = |thread: usize| (thread * 700..LEN).step_by(700 * THREADS);
    let mut model = vec![0; LEN];
    disk.write(&model, 0).unwrap();
    let written = thread::scope(|scope| {
        let clients: Vec<_> = (0..THREADS)
            .map(|number| {
                let (disk, done) = (&disk, &done);
                scope.spawn(move || {
                    let mut random = Random::for_test(&format!("disk::hold {number}"));
                    let mut model = vec![0; LEN];
                    // Some requests come after the last zone.
                    let mut left = 200;
                    while left > 0 {
                        left -= u32::from(done.load(Ordering::Relaxed));
                        let places: Vec<_> = own(number).collect();
                        let place = places[random.below(places.len())];
                        let len = (LEN - place).min(700);
                        let range = place..place + len;
                        let mut found = vec![0; len];
                        let mut bytes = random.bytes(len);
                        let mut batch = Vec::new();
                        let transfer = |data| Transfer {
                            offset: place as u64,
                            data,
                            result: Ok(()),
                        };
                        match random.below(4) {
                            0 => disk.read(&mut found, place as u64).unwrap(),
                            1 => {
                                disk.write(&bytes, place as u64).unwrap();
                                model[range].copy_from_slice(&bytes);
                                continue;
                            }
                            2 => {
                                model[range.clone()].copy_from_slice(&bytes);
                                batch.push(transfer(TransferData::Write(&mut bytes)));
                                batch.push(transfer(TransferData::Read(&mut found)));
                            }
                            _ => batch.push(transfer(TransferData::Read(&mut found))),
                        }
                        disk.transfer(&mut batch);
                        assert!(batch.iter().all(|transfer| transfer.result.is_ok()));
                        assert!(found == model[range], "at {place}");
                    }
                    model
                })
            })
            .collect();
        for begin in (0..LEN).step_by(ZONE) {
            change(&disk, &*beneath, begin as u64..(begin + ZONE) as u64);
        }
        done.store(true, Ordering::Relaxed);
        clients
            .into_iter()
            .map(|client| client.join().unwrap())
            .collect::<Vec<_>>()
    });
    for (number, written) in (0..).zip(written) {
        for place in own(number) {
            let range = place..(place + 700).min(LEN);
            model[range.clone()].copy_from_slice(&written[range]);
        }
    }
    let mut found = vec![0; LEN];
    disk.read(&mut found, 0).unwrap();
    assert!(found == model);
    assert!(storage.to_bytes()[4096..][..LEN] == encrypted(&model, 4096, 2));
}

#[test]
fn a_range_that_is_lost_fails_alone() {
    let (_, disk) = single(LEN as u64, SectorSize::B512);
    disk.hold(0..16384).release();
    drop(disk.hold(4096..8192));
    let mut byte = [0];
    for (offset, good) in [(4095, true), (4096, false), (8191, false), (8192, true)] {
        assert_eq!(disk.read(&mut byte, offset).is_ok(), good, "{offset}");
        assert_eq!(disk.write(&byte, offset).is_ok(), good, "{offset}");
        assert_eq!(disk.write_zeroes(offset, 1).is_ok(), good, "{offset}");
    }
    let mut bytes = [[1; 512]; 3];
    let mut batch: Vec<_> = (bytes.iter_mut().zip([0, 6000, 9000]))
        .map(|(bytes, offset)| Transfer {
            offset,
            data: TransferData::Write(bytes),
            result: Ok(()),
        })
        .collect();
    disk.transfer(&mut batch);
    let good: Vec<_> = batch
        .iter()
        .map(|transfer| transfer.result.is_ok())
        .collect();
    assert_eq!(good, [true, false, true]);
}

#[test]
fn the_storage_beneath_shares_the_errors_of_syncs() {
    let faults = Faults {
        fail_sync_after: Some(0),
        ..Faults::default()
    };
    let (_, disk) = with_faults(LEN as u64, SectorSize::B512, faults);
    let disk = Arc::new(disk);
    let beneath = disk.clone().storage();
    disk.write(&[1], 0).unwrap();
    disk.flush().unwrap_err();
    beneath.sync().unwrap_err();
    beneath.write_all_at(&[0; 512], 4096).unwrap();
    beneath.sync().unwrap_err();
}
