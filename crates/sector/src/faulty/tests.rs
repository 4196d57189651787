// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests `FaultyStorage` with protocols that survive a power cut and protocols that do not.

use std::{cell::Cell, collections::BTreeSet, convert::Infallible, iter, sync::Arc};

use super::*;

const COPY: usize = 1024;

/// A copy of a header: two sectors that begin and end with a sequence number, so that a torn copy
/// can be recognised.
fn copy(sequence: u8) -> [u8; COPY] {
    let mut copy = [0xEE; COPY];
    copy[0] = sequence;
    copy[COPY - 1] = sequence;
    copy
}

fn both(sequence: u8) -> Vec<u8> {
    copy(sequence).repeat(2)
}

/// The greatest sequence number of the copies that are whole.
fn newest(bytes: &[u8]) -> Option<u8> {
    let whole = bytes.chunks(COPY).filter(|c| *c == copy(c[0]));
    whole.map(|c| c[0]).max()
}

/// Writes both copies, with a sync after each, so that a power cut always leaves one whole.
fn update_in_turn(storage: &dyn Storage) -> io::Result<()> {
    storage.write_all_at(&copy(2), 0)?;
    storage.sync()?;
    storage.write_all_at(&copy(2), COPY as u64)?;
    storage.sync()
}

fn update_at_once(storage: &dyn Storage) -> io::Result<()> {
    storage.write_all_at(&copy(2), 0)?;
    storage.write_all_at(&copy(2), COPY as u64)?;
    storage.sync()
}

/// Cuts the power of `update`, which replaces sequence number 1 by 2.
fn survives(
    faults: Faults,
    update: impl FnOnce(&dyn Storage) -> io::Result<()>,
) -> Result<usize, Broken> {
    let image = &both(1);
    let cuts = PowerCuts {
        image,
        faults,
        ..PowerCuts::default()
    };
    cuts.check(
        |storage| update(storage).unwrap(),
        |after, cut| match newest(&after.into_bytes()) {
            Some(2) => Ok(()),
            Some(1) if cut.after < cut.of => Ok(()),
            other => Err(format!("the newest whole copy is {other:?}")),
        },
    )
}

/// All images after `count` operations.
fn images_after(storage: &FaultyStorage, count: usize, seed: u64) -> BTreeSet<Vec<u8>> {
    let mut images = BTreeSet::new();
    let seen = storage
        .cut_power(count, seed, |after, _| {
            assert!(images.insert(after.into_bytes()), "seen before");
            Ok::<_, Infallible>(())
        })
        .unwrap();
    assert_eq!(images.len(), seen);
    images
}

fn images(storage: &FaultyStorage) -> BTreeSet<Vec<u8>> {
    images_after(storage, storage.operation_count(), 1)
}

fn write(storage: &FaultyStorage, bytes: &[u8], offset: u64) {
    storage.write_all_at(bytes, offset).unwrap();
}

/// One sector for each of `bytes`, filled with that byte.
fn sectors(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().flat_map(|&b| [b; 512]).collect()
}

#[test]
fn copies_in_turn_survive_every_cut() {
    // Before the first write there is one image; after each write: none, all, and either sector
    // alone; after each sync, one.
    assert_eq!(survives(Faults::default(), update_in_turn).unwrap(), 11);
}

#[test]
fn ignored_syncs_are_noticed() {
    let faults = Faults {
        ignore_syncs: true,
        ..Faults::default()
    };
    let broken = survives(faults, update_in_turn).unwrap_err().to_string();
    // The first failure is either an acknowledged write that is lost or that no copy is whole.
    assert!(
        broken.starts_with("the newest whole copy is None\npower cut after operation 3 of 4"),
        "{broken}"
    );
}

#[test]
fn copies_at_once_are_noticed() {
    let broken = survives(Faults::default(), update_at_once).unwrap_err();
    assert!(broken.to_string().contains("is None"), "{broken}");
}

#[test]
fn a_missing_last_sync_is_noticed() {
    let update = |storage: &dyn Storage| storage.write_all_at(&copy(2), 0);
    let broken = survives(Faults::default(), update).unwrap_err();
    assert!(broken.to_string().contains("is Some(1)"), "{broken}");
}

#[test]
fn a_failure_says_how_to_see_it_again() {
    let cuts = PowerCuts {
        image: &sectors(&[0; 4]),
        seed: 0xABC,
        ..PowerCuts::default()
    };
    let work = |storage: &FaultyStorage| {
        write(storage, &[1; 2048], 0);
        write(storage, &[2; 512], 2048);
        storage.sync().unwrap();
    };
    let broken = |bad: &[u8]| {
        let bad = sectors(bad);
        let check = |after: MemoryStorage, _: &Cut<'_>| {
            if after.into_bytes() == bad {
                Err("bad")
            } else {
                Ok(())
            }
        };
        let texts = [(); 2].map(|()| cuts.check(work, check).unwrap_err().to_string());
        assert_eq!(texts[0], texts[1]);
        texts[0].clone()
    };
    assert_eq!(
        broken(&[0, 0, 0, 0]),
        "bad\npower cut before operation 1 of 4, LUXOR_TEST_SEED=0xabc"
    );
    assert_eq!(
        broken(&[1, 0, 0, 0, 2]),
        "bad\n\
         power cut after operation 3 of 4 (write of 512 bytes at 2048), LUXOR_TEST_SEED=0xabc\n\
         \x20 1 (write of 2048 bytes at 0): torn, its sectors kept (1) and lost (0): 1000\n\
         \x20 2 (growth from 2048 to 2560 bytes): kept\n\
         \x20 3 (write of 512 bytes at 2048): kept"
    );
}

#[test]
fn a_write_tears_between_sectors_of_the_disk() {
    let storage = FaultyStorage::new(vec![0; 2048]);
    write(&storage, &[1; 1100], 500);
    let mut patterns = BTreeSet::new();
    for image in images(&storage) {
        let pattern = [500..512, 512..1024, 1024..1536, 1536..1600].map(|sector| {
            let part = &image[sector];
            assert!(part.iter().all(|b| *b == part[0]));
            part[0]
        });
        assert!(image[..500].iter().chain(&image[1600..]).all(|b| *b == 0));
        patterns.insert(pattern);
    }
    // At least these of the 16 patterns occur, whatever the seed.
    for pattern in [[0; 4], [1; 4], [1, 0, 0, 0], [0, 1, 1, 1]] {
        assert!(patterns.contains(&pattern), "{patterns:?}");
    }
    assert!(patterns.len() > 8, "{patterns:?}");

    let storage = FaultyStorage::new(vec![0; 1024]);
    write(&storage, &[1; 512], 512);
    assert_eq!(images(&storage).len(), 2);
}

#[test]
fn overlapping_writes_reach_the_disk_in_any_order() {
    // All in one sector, so that a torn write cannot look like this.
    let of = |a: u8, b: u8, c: u8| [[a; 100], [b; 100], [c; 100]].concat();
    let earlier_last = of(1, 1, 2);

    let storage = FaultyStorage::new(vec![0; 300]);
    write(&storage, &[1; 200], 0);
    write(&storage, &[2; 200], 100);
    let expected = [
        of(0, 0, 0),
        of(1, 1, 0),
        of(0, 2, 2),
        of(1, 2, 2),
        earlier_last.clone(),
    ];
    assert_eq!(images(&storage), BTreeSet::from(expected));

    // No write passes a successful or failed sync, but it can pass an ignored one.
    for (fail_sync_after, ignore_syncs, passes) in [
        (None, false, false),
        (Some(0), false, false),
        (None, true, true),
    ] {
        let faults = Faults {
            fail_sync_after,
            ignore_syncs,
            ..Faults::default()
        };
        let storage = FaultyStorage::with_faults(vec![0; 300], faults);
        write(&storage, &[1; 200], 0);
        assert_eq!(storage.sync().is_err(), fail_sync_after.is_some());
        write(&storage, &[2; 200], 100);
        assert_eq!(images(&storage).contains(&earlier_last), passes);
    }
}

#[test]
fn each_overlapping_pair_is_swapped() {
    const PAIRS: usize = 8;
    let storage = FaultyStorage::new(sectors(&[0; PAIRS]));
    for k in 0..PAIRS as u64 {
        write(&storage, &[1; 200], k * 512);
        write(&storage, &[2; 200], k * 512 + 100);
    }
    let images = images(&storage);
    for k in 0..PAIRS {
        let mut bytes = storage.to_bytes();
        bytes[k * 512..][..200].fill(1);
        assert!(images.contains(&bytes), "{k}");
    }
}

#[test]
fn all_subsets_of_few_writes() {
    let storage = FaultyStorage::new(sectors(&[0; 7]));
    for k in 0..6 {
        write(&storage, &[1; 512], k * 512);
    }
    let subsets = (0..64_u8).map(|set| {
        let bits: Vec<u8> = (0..7).map(|k| set >> k & 1).collect();
        sectors(&bits)
    });
    assert_eq!(images(&storage), subsets.collect());
    // At an earlier cut, later writes are not there.
    assert_eq!(images_after(&storage, 2, 1).len(), 4);
    assert_eq!(images_after(&storage, 0, 1).len(), 1);
}

#[test]
fn of_many_writes_the_extremes_and_random_subsets() {
    const MANY: usize = 40;
    let storage = FaultyStorage::new(sectors(&[0; MANY]));
    for k in 0..MANY as u64 {
        write(&storage, &[1; 512], k * 512);
    }
    let images = images_after(&storage, MANY, 7);
    let mut expected = BTreeSet::from([sectors(&[0; MANY]), sectors(&[1; MANY])]);
    for k in 0..MANY {
        for others in [0, 1] {
            let mut bytes = [others; MANY];
            bytes[k] = 1 - others;
            expected.insert(sectors(&bytes));
        }
    }
    assert!(images.is_superset(&expected));
    assert_eq!(images.len(), expected.len() + 64);

    // The other images depend on the seed.
    assert_eq!(images, images_after(&storage, MANY, 7));
    let others = images_after(&storage, MANY, 8);
    assert_eq!(images.intersection(&others).count(), expected.len());
}

#[test]
fn of_many_writes_each_is_torn() {
    const MANY: usize = 10;
    let storage = FaultyStorage::new(sectors(&[0; 2 * MANY]));
    for k in 0..MANY as u64 {
        write(&storage, &[1; 1024], k * 1024);
    }
    let images = images_after(&storage, MANY, 7);
    for torn in [[0, 1], [1, 0]] {
        assert!(images.contains(&sectors(&torn.repeat(MANY))));
        for k in 0..MANY {
            for others in [0, 1] {
                let mut bytes = [others; 2 * MANY];
                bytes[2 * k..][..2].copy_from_slice(&torn);
                assert!(images.contains(&sectors(&bytes)), "{bytes:?}");
            }
        }
    }
    assert!(images.contains(&sectors(&[0; 2 * MANY])));
    assert!(images.contains(&sectors(&[1; 2 * MANY])));
}

#[test]
fn a_write_tears_in_a_random_pattern_too() {
    let storage = FaultyStorage::new(sectors(&[0; 100]));
    for k in 0..10 {
        write(&storage, &[1; 5120], k * 5120);
    }
    let images = images(&storage);
    assert!(images.contains(&storage.to_bytes()));
    for k in 0..10 {
        assert!(images.iter().any(|image| {
            let there = |write: &[u8]| write.iter().filter(|&&b| b == 1).count() / 512;
            let mut others = image.chunks(5120).map(there).collect::<Vec<_>>();
            let this = others.remove(k);
            others == [0; 9] && (2..9).contains(&this)
        }));
    }
}

#[test]
fn a_check_may_panic() {
    let storage = FaultyStorage::new(vec![0; 2]);
    for text in ["it", "is"] {
        let broken = storage
            .cut_power(0, 1, |_, _| -> Result<(), Infallible> {
                if text == "it" {
                    panic!("it broke")
                } else {
                    panic!("{text} broken")
                }
            })
            .unwrap_err();
        let expected = format!("{text} bro");
        assert!(broken.to_string().starts_with(&expected), "{broken}");
        assert!(broken.to_string().contains("power cut before"), "{broken}");
    }
}

#[test]
fn growth_and_its_write_can_be_lost_separately() {
    let storage = FaultyStorage::new(vec![1; 4]);
    write(&storage, &[2; 4], 2);
    assert_eq!(
        storage.operations(),
        [
            Operation::Growth { from: 4, to: 6 },
            Operation::Write {
                offset: 2,
                bytes: vec![2; 4]
            }
        ]
    );
    let expected = [
        &[1, 1, 1, 1][..],
        &[1, 1, 1, 1, 0, 0],
        &[1, 1, 2, 2],
        &[1, 1, 2, 2, 2, 2],
    ];
    assert_eq!(images(&storage), expected.map(<[u8]>::to_vec).into());
    assert_eq!(
        images_after(&storage, 1, 1),
        expected[..2].iter().map(|i| i.to_vec()).collect()
    );

    // With many operations: each growth together with its write alone, and all except these.
    let storage = FaultyStorage::new(Vec::new());
    for k in 0..10 {
        write(&storage, &[k + 1; 512], u64::from(k) * 512);
    }
    let images = images(&storage);
    for k in 0..10_u8 {
        let alone: Vec<u8> = iter::repeat_n(0, k.into()).chain([k + 1]).collect();
        assert!(images.contains(&sectors(&alone)), "{k}");
    }
    assert!(images.contains(&sectors(&[1, 2, 3, 4, 5, 6, 7, 8, 9])));

    // A torn write alone, which needs its growth.
    write(&storage, &[11; 1024], 5120);
    let images = self::images(&storage);
    for torn in [[11, 0], [0, 11]] {
        assert!(images.contains(&sectors(&[[0; 10].as_slice(), &torn].concat())));
    }
}

#[test]
fn writes_lost_by_a_failed_sync_are_never_durable() {
    let faults = Faults {
        fail_sync_after: Some(1),
        ..Faults::default()
    };
    let storage = FaultyStorage::with_faults(sectors(&[0; 3]), faults);
    write(&storage, &[1; 512], 0);
    storage.sync().unwrap();
    write(&storage, &[2; 512], 512);
    let error = storage.sync().unwrap_err();
    assert_eq!(error.raw_os_error(), Some(EIO));
    let maybe = BTreeSet::from([sectors(&[1, 0, 0]), sectors(&[1, 2, 0])]);
    assert_eq!(images(&storage), maybe);
    storage.sync().unwrap();
    assert_eq!(images(&storage), maybe);

    write(&storage, &[3; 512], 1024);
    storage.sync().unwrap();
    let maybe = BTreeSet::from([sectors(&[1, 0, 3]), sectors(&[1, 2, 3])]);
    assert_eq!(images(&storage), maybe);
    // Reads still see it, and a new write in its place becomes durable as usual.
    assert_eq!(storage.to_bytes(), sectors(&[1, 2, 3]));
    write(&storage, &[4; 512], 512);
    storage.sync().unwrap();
    assert_eq!(images(&storage), BTreeSet::from([sectors(&[1, 4, 3])]));
}

#[test]
fn the_nth_read_write_or_sync_fails() {
    let eio = |result: io::Result<()>| {
        result.is_err_and(|error| {
            assert_eq!(error.raw_os_error(), Some(EIO));
            true
        })
    };
    let none = Faults::default();
    for n in 0..4 {
        let after = Some(n);
        for (what, faults) in [
            (
                "read",
                Faults {
                    fail_read_after: after,
                    ..none
                },
            ),
            (
                "write",
                Faults {
                    fail_write_after: after,
                    ..none
                },
            ),
            (
                "sync",
                Faults {
                    fail_sync_after: after,
                    ..none
                },
            ),
        ] {
            let storage = FaultyStorage::with_faults(vec![0; 8], faults);
            for k in 0..4 {
                let byte = u8::try_from(k).unwrap() + 1;
                let fails = |this| k == n && this == what;
                assert_eq!(eio(storage.write_all_at(&[byte], k)), fails("write"));
                assert_eq!(eio(storage.read_exact_at(&mut [0], k)), fails("read"));
                assert_eq!(eio(storage.sync()), fails("sync"));
                let written = if fails("write") { 0 } else { byte };
                assert_eq!(storage.to_bytes()[usize::from(byte) - 1], written);
            }
        }
    }
}

#[test]
fn a_full_disk_accepts_part_of_a_write() {
    let faults = Faults {
        room: Some(100),
        ..Faults::default()
    };
    let storage = FaultyStorage::with_faults(vec![0; 50], faults);
    write(&storage, &[1; 60], 30);
    for (offset, len) in [(80, 150), (149, 150), (150, 150), (1 << 40, 150)] {
        let error = storage.write_all_at(&[2; 100], offset).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert_eq!(error.raw_os_error(), Some(ENOSPC));
        assert_eq!(storage.len().unwrap(), len);
    }
    assert_eq!(
        storage.to_bytes(),
        [vec![0; 30], vec![1; 50], vec![2; 70]].concat()
    );
    // Writes within the existing length still succeed.
    write(&storage, &[3; 150], 0);
    storage.sync().unwrap();
    assert_eq!(images(&storage), BTreeSet::from([vec![3; 150]]));

    let faults = Faults {
        room: Some(0),
        ..Faults::default()
    };
    let device = FaultyStorage::with_faults(vec![0; 50], faults);
    write(&device, &[1; 50], 0);
    assert!(device.write_all_at(&[1], 50).is_err());
}

#[test]
fn short_transfers_are_completed_and_fail_in_the_middle() {
    let with = |faults: Faults| {
        let longest_transfer = NonZeroUsize::new(40);
        FaultyStorage::with_faults(
            vec![0; 100],
            Faults {
                longest_transfer,
                ..faults
            },
        )
    };
    let bytes: Vec<u8> = (0..100).collect();
    let storage = with(Faults::default());
    write(&storage, &bytes, 0);
    assert_eq!(
        format!("{:?}", storage.operations()),
        "[write of 40 bytes at 0, write of 40 bytes at 40, write of 20 bytes at 80]"
    );
    let mut found = [0; 90];
    storage.read_exact_at(&mut found, 10).unwrap();
    assert_eq!(found, bytes[10..]);

    let storage = with(Faults {
        fail_write_after: Some(2),
        fail_read_after: Some(1),
        ..Faults::default()
    });
    let error = storage.write_all_at(&bytes, 0).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(EIO));
    assert_eq!(storage.to_bytes()[..80], bytes[..80]);
    assert_eq!(storage.to_bytes()[80..], [0; 20]);
    storage.read_exact_at(&mut found[..40], 0).unwrap();
    let error = storage.read_exact_at(&mut found[..41], 0).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(EIO));
}

#[test]
fn a_cut_can_be_compared_with_what_was_acknowledged() {
    // Acknowledged after the second of three writes.
    let acknowledged = Cell::new(0);
    let cuts = PowerCuts {
        image: &sectors(&[0; 3]),
        ..PowerCuts::default()
    };
    let run = |ignore_syncs| {
        let faults = Faults {
            ignore_syncs,
            ..Faults::default()
        };
        PowerCuts { faults, ..cuts }.check(
            |storage| {
                write(storage, &[1; 512], 0);
                write(storage, &[1; 512], 512);
                storage.sync().unwrap();
                acknowledged.set(storage.operation_count());
                write(storage, &[1; 512], 1024);
            },
            |after, cut| {
                let is_there = after.into_bytes()[..1024] == [1; 1024];
                if cut.after < acknowledged.get() || is_there {
                    Ok(())
                } else {
                    Err("an acknowledged write is not there")
                }
            },
        )
    };
    assert_eq!(run(false).unwrap(), 1 + 2 + 4 + 1 + 2);
    let broken = run(true).unwrap_err().to_string();
    assert!(broken.contains("after operation 3 of 4"), "{broken}");
}

#[test]
fn a_killed_program_can_do_nothing_more() {
    let storage = FaultyStorage::new(both(1));
    let killed = Killed::after_syncs(&storage, 1);
    killed.write_all_at(&copy(2), 0).unwrap();
    killed.sync().unwrap();
    killed.write_all_at(&copy(3), COPY as u64).unwrap();
    assert_eq!(killed.len().unwrap(), 2 * COPY as u64);
    killed.sync().unwrap_err();
    killed.write_all_at(&copy(4), 0).unwrap_err();
    killed.read_exact_at(&mut [0], 0).unwrap_err();
    killed.len().unwrap_err();
    killed.sync().unwrap_err();
    // The next program reads everything; only what was synced is durable.
    assert_eq!(storage.to_bytes(), [copy(2), copy(3)].concat());
    let syncs = storage.operations().into_iter();
    let syncs = syncs.filter(|operation| matches!(operation, Operation::Sync(_)));
    assert_eq!(syncs.count(), 1);
}

#[test]
fn a_sync_of_a_file_leaves_the_other_file_uncertain() {
    for fail_sync_after in [None, Some(0)] {
        let faults = Faults {
            fail_sync_after,
            ..Faults::default()
        };
        let storage = Arc::new(FaultyStorage::with_faults(sectors(&[0; 4]), faults));
        let [header, data] = [0..1024, 1024..2048].map(|range| storage.file(range));
        let mut found = [0; 512];
        header.read_exact_at(&mut found, 600).unwrap_err();
        header.write_all_at(&[1; 512], 600).unwrap_err();
        data.write_all_at(&[1; 512], 512).unwrap();
        header.write_all_at(&[2; 512], 0).unwrap();
        assert_eq!(header.sync().is_err(), fail_sync_after.is_some());
        data.read_exact_at(&mut found, 512).unwrap();
        assert_eq!(found, [1; 512]);
        header.write_all_at(&[3; 512], 512).unwrap();
        header.sync().unwrap();
        let of_header =
            |header: [u8; 2]| [0, 1].map(|last| sectors(&[header[0], header[1], 0, last]));
        let mut expected = BTreeSet::from(of_header([2, 3]));
        if fail_sync_after.is_some() {
            expected.extend(of_header([0, 3]));
        }
        assert_eq!(images(&storage), expected);
        data.sync().unwrap();
        let count = storage.operation_count();
        assert_eq!(images(&storage).len(), expected.len() / 2);
        assert_eq!(
            format!("{}", storage.operations()[count - 1]),
            "sync, of bytes 1024 to 2048"
        );
    }
}
