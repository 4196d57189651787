// SPDX-License-Identifier: MIT OR Apache-2.0
//! Changes of any LUKS1 header that is accepted: each is made wholly or not at all, and keeps
//! the other keyslots and the data, even if the storage fails on the way.

#![no_main]

use libfuzzer_sys::{
    arbitrary::{self, Arbitrary},
    fuzz_target,
};
use luxor_fuzz::volumes::{Faulty, Hostile, data_unwritten, good};
use luxor_luks::{ChangeError, LuksVersion, Uuid, VolumeHeader};

#[derive(Arbitrary, Debug)]
struct Input {
    volume: Hostile,
    fails_after: Option<u8>,
    changes: Vec<(Change, u8)>,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Change {
    Add,
    Replace,
    ReplaceInPlace,
    Remove,
    Erase,
    Uuid,
}

fuzz_target!(|input: Input| {
    let storage = input.volume.volume(LuksVersion::Luks1, input.fails_after);
    for (change, number) in input.changes.into_iter().take(4) {
        let Ok(header) = VolumeHeader::read(&storage) else {
            return;
        };
        changed(header, &storage, change, u32::from(number % 10));
    }
});

fn changed(mut header: VolumeHeader, storage: &Faulty, change: Change, number: u32) {
    let before = header.clone();
    let areas = before.keyslots().iter();
    let areas: Vec<_> = areas.map(|(n, slot)| (*n, storage.area(slot))).collect();
    let made = make(&mut header, storage, change, number);
    let (failed, writes) = (storage.failed(), storage.writes());
    data_unwritten(&before, &writes);
    let now = VolumeHeader::read(storage).expect("it is still a volume");
    let is_made = match made {
        Ok(()) => {
            assert!(now.digest() == header.digest(), "another header is written");
            true
        }
        Err(error) => {
            assert!(!error.to_string().is_empty());
            false
        }
    };
    if !failed {
        // A replacement lies in an empty area for a moment.
        let mut numbers = before.keyslot_numbers();
        match change {
            Change::Add if is_made => assert_eq!(now.keyslot_numbers().len(), numbers.len() + 1),
            Change::Remove | Change::Erase if is_made => {
                numbers.retain(|n| matches!(change, Change::Remove) && *n != number);
                assert_eq!(now.keyslot_numbers(), numbers);
            }
            _ => assert_eq!(now.keyslot_numbers(), numbers),
        }
    }
    assert!(before.has_same_data(&now));
    for (n, area) in areas {
        let is_kept = match change {
            Change::Erase => !is_made && !failed,
            Change::Add | Change::Uuid => true,
            _ => n != number || (!is_made && !failed),
        };
        if is_kept {
            assert!(before.has_same_keyslot(&now, n));
            assert!(storage.area(&now.keyslots()[&n]) == area, "keyslot {n}");
        }
    }
}

fn make(
    header: &mut VolumeHeader,
    storage: &Faulty,
    change: Change,
    number: u32,
) -> Result<(), ChangeError> {
    let new = &good(LuksVersion::Luks1).keyslot;
    match change {
        Change::Add => {
            let number = Some(number).filter(|number| *number < 9);
            header.add_keyslot(storage, new, number).map(drop)
        }
        Change::Replace => header.replace_keyslot(storage, number, new),
        Change::ReplaceInPlace => header.replace_keyslot_in_place(storage, number, new),
        Change::Remove => header.remove_keyslot(storage, number),
        Change::Erase => header.erase(storage),
        Change::Uuid => header.set_uuid(storage, Uuid::from_u128(7)),
    }
}
