// SPDX-License-Identifier: MIT OR Apache-2.0
//! Backups of any header, restored to any volume: without force a volume that opened opens
//! afterwards, also if the storage fails on the way, and data are never overwritten.

#![no_main]

use libfuzzer_sys::{
    arbitrary::{self, Arbitrary},
    fuzz_target,
};
use luxor_fuzz::volumes::{Hostile, data_unwritten, version};
use luxor_luks::{HeaderBackup, RestoreError, VolumeHeader};
use luxor_sector::MemoryStorage;

#[derive(Arbitrary, Debug)]
struct Input {
    backup: Hostile,
    present: Hostile,
    backup_luks2: bool,
    present_luks2: bool,
    force: bool,
    fails_after: Option<u8>,
}

fuzz_target!(|input: Input| {
    let source = input.backup.volume(version(input.backup_luks2), None);
    let taken = HeaderBackup::take(&source);
    assert!(source.writes().is_empty(), "a backup writes");
    let taken = match taken {
        Ok(taken) => taken,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    let file = MemoryStorage::new(taken.bytes().to_vec());
    let backup = HeaderBackup::read(&file).expect("what was taken is read");
    assert!(backup.header().digest() == taken.header().digest());

    let volume = input
        .present
        .volume(version(input.present_luks2), input.fails_after);
    let present = VolumeHeader::read(&volume);
    let misfits = backup.misfits(present.as_ref());
    let is_serious = misfits.iter().any(|misfit| misfit.is_serious());
    let restored = backup.restore(&volume, input.force);
    let (failed, writes) = (volume.failed(), volume.writes());
    data_unwritten(backup.header(), &writes);
    match &restored {
        Ok(()) => {
            assert!(input.force || !is_serious);
            let now = VolumeHeader::read(&volume).expect("it was restored");
            assert!(now.has_same_data(backup.header()) || input.force);
            assert!(now.warnings().is_empty() || !input.backup_luks2);
            assert_eq!(now.keyslots(), backup.header().keyslots());
            for (number, keyslot) in now.keyslots() {
                let same = volume.area(keyslot) == source.area(keyslot);
                assert!(same, "keyslot {number} has other bytes");
            }
            if !input.force {
                let present = present.as_ref().expect("its absence is serious");
                let digest =
                    |header: &VolumeHeader| Some(header.volume_key_digest()?.value.clone());
                assert!(digest(present).is_some() && digest(present) == digest(&now));
                assert!(!now.data_keyslots().is_empty(), "no keyslot is left");
                assert_eq!(now.encryptions(), present.encryptions());
            }
        }
        Err(RestoreError::Misfit { .. }) => {
            assert!(!input.force && is_serious && writes.is_empty());
        }
        Err(error) => assert!(failed, "{error}"),
    }
    if let Ok(present) = present {
        if !input.force {
            data_unwritten(&present, &writes);
        }
        // LUKS1's sectors replace LUKS2's first copy, and the second was damaged.
        let is_only_copy = !present.warnings().is_empty() && !input.backup_luks2;
        let now = VolumeHeader::read(&volume);
        assert!(now.is_ok() || failed && is_only_copy, "the header is lost");
    }
});
