// SPDX-License-Identifier: MIT OR Apache-2.0
//! Repairs of any damaged metadata: planning writes nothing, a repair makes what was planned, and
//! without force it puts nothing in place of damaged bytes of LUKS1 but what they were.

#![no_main]

use libfuzzer_sys::fuzz_target;
use luxor_fuzz::volumes::{Attempt, Hostile, data_unwritten};
use luxor_luks::{HeaderRepair, Overwrite, VolumeHeader};
use luxor_sector::Storage;

fuzz_target!(|input: Attempt| {
    let overwrite = if input.force {
        Overwrite::Anything
    } else {
        Overwrite::Damaged
    };
    let storage = input.storage();
    let before = VolumeHeader::read(&storage);
    let _ = HeaderRepair::outlook(&storage);
    let plan = match HeaderRepair::plan(&storage, overwrite) {
        Ok(plan) => plan,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            assert!(storage.writes().is_empty());
            return;
        }
    };
    assert!(storage.writes().is_empty(), "planning writes");
    let planned = plan.header();
    let damaged = beginning(&storage);
    let repaired = plan.write(&storage);
    let (failed, writes) = (storage.failed(), storage.writes());
    data_unwritten(&planned, &writes);
    let now = VolumeHeader::read(&storage);
    match repaired {
        Ok(repaired) => {
            assert!(!repaired.to_string().is_empty());
            let now = now.as_ref().expect("a repaired header is read");
            assert!(now.has_same_data(&planned) && planned.has_same_data(now));
            assert_eq!(now.keyslots(), planned.keyslots());
            let again = HeaderRepair::plan(&storage, overwrite).expect("it is good");
            again.write(&storage).expect("a second repair does nothing");
            assert!(storage.writes().is_empty(), "a second repair writes");
        }
        Err(error) => {
            assert!(!error.to_string().is_empty());
            assert!(failed || writes.is_empty(), "{error}: {writes:?}");
        }
    }
    if let Ok(before) = before {
        let now = now.expect("what could be read can still be read");
        // A damaged field may be a part of these.
        if before.warnings().is_empty() {
            assert!(before.has_same_data(&now));
            assert_eq!(before.keyslots(), now.keyslots());
        }
        let mut numbers = before.keyslots().keys();
        assert!(numbers.all(|number| now.keyslots().contains_key(number)));
    }
    if !input.luks2 && !input.force && input.volume.is_metadata_good() {
        let good = Hostile::default().volume(input.version(), None);
        let bytes = beginning(&storage).into_iter().zip(beginning(&good));
        for (at, ((now, good), damaged)) in bytes.zip(damaged).enumerate() {
            // The area of an empty keyslot may lie anywhere.
            let (slot, field) = (at.saturating_sub(208) / 48, at.saturating_sub(208) % 48);
            let is_free = (40..44).contains(&field) && !matches!(slot, 0 | 3);
            assert!(
                now == good || now == damaged || is_free,
                "byte {at} is invented"
            );
        }
    }
});

fn beginning(storage: &dyn Storage) -> Vec<u8> {
    let mut bytes = vec![0; 1024];
    storage.read_exact_at(&mut bytes, 0).expect("it is there");
    bytes
}
