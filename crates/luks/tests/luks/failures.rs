// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every change of either version with a write or a sync that fails: the error says in which state the
//! volume is.

use luxor_engine::KeySize;
use luxor_luks::{
    ChangeError, Luks1Options, Luks2HeaderSizes, Luks2Options, NewLuks1Volume, NewLuks2Volume,
    Priority, UnlockOptions, Uuid, VolumeHeader,
};
use luxor_sector::{
    MemoryStorage, Storage,
    faulty::{Cut, Faults, FaultyStorage},
};

use crate::{backend, cheap};

const SECRETS: [&[u8]; 2] = [b"zero", b"one"];

/// A volume with keyslots 0 and 1, and room for a third.
fn volume(is_luks2: bool) -> Vec<u8> {
    let storage = MemoryStorage::default();
    if is_luks2 {
        let options = Luks2Options {
            pbkdf: cheap(),
            header_sizes: Luks2HeaderSizes::new(None, Some(1 << 20), None, KeySize::Aes256)
                .unwrap(),
            ..Luks2Options::default()
        };
        let volume = NewLuks2Volume::create(&options, SECRETS[0], &*backend()).unwrap();
        volume.write_to(&storage).unwrap();
    } else {
        let options = Luks1Options {
            pbkdf: cheap(),
            ..Luks1Options::default()
        };
        let volume = NewLuks1Volume::create(&options, SECRETS[0], &*backend()).unwrap();
        volume.write_to(&storage).unwrap();
    }
    add(
        &mut VolumeHeader::read(&storage).unwrap(),
        &storage,
        SECRETS[1],
    )
    .unwrap();
    storage.into_bytes()
}

fn add(header: &mut VolumeHeader, storage: &dyn Storage, secret: &[u8]) -> Result<(), ChangeError> {
    let options = UnlockOptions::default();
    let unlocked = header.unlock(storage, SECRETS[0], &*backend(), &options);
    let new = header.new_keyslot(&unlocked.unwrap(), secret, &cheap(), &*backend());
    header.add_keyslot(storage, &new.unwrap(), None).map(drop)
}

fn replace(header: &mut VolumeHeader, storage: &dyn Storage) -> Result<(), ChangeError> {
    let options = UnlockOptions::default();
    let unlocked = header.unlock(storage, SECRETS[0], &*backend(), &options);
    let new = header.new_keyslot(&unlocked.unwrap(), b"new", &cheap(), &*backend());
    header.replace_keyslot(storage, 0, &new.unwrap())
}

/// Which of the secrets open the volume.
fn opened(storage: &dyn Storage) -> [bool; 2] {
    let header = VolumeHeader::read(storage).unwrap();
    let options = UnlockOptions::default();
    SECRETS.map(|secret| {
        header
            .unlock(storage, secret, &*backend(), &options)
            .is_ok()
    })
}

type Change = fn(&mut VolumeHeader, &dyn Storage) -> Result<(), ChangeError>;

#[test]
fn a_change_that_fails_says_in_which_state_the_volume_is() {
    const TOKEN: &str = r#"{"type":"a","keyslots":[]}"#;
    let changes: [(&str, bool, Change); 7] = [
        ("add", false, |header, storage| add(header, storage, b"two")),
        ("replace", false, replace),
        ("remove", false, |header, storage| {
            header.remove_keyslot(storage, 1)
        }),
        ("erase", false, |header, storage| header.erase(storage)),
        ("UUID", false, |header, storage| {
            header.set_uuid(storage, Uuid::nil())
        }),
        ("priority", true, |header, storage| {
            header.set_priority(storage, 1, Priority::Prefer)
        }),
        ("token", true, |header, storage| {
            header.add_token(storage, TOKEN, None).map(drop)
        }),
    ];
    for is_luks2 in [false, true] {
        let image = volume(is_luks2);
        for (name, _, change) in changes.iter().filter(|change| is_luks2 || !change.1) {
            let faults = (0..30).flat_map(|after| [(Some(after), None), (None, Some(after))]);
            let (mut unchanged, mut destroying) = (0, 0);
            for (fail_write_after, fail_sync_after) in faults {
                let faults = Faults {
                    fail_write_after,
                    fail_sync_after,
                    ..Faults::default()
                };
                let storage = FaultyStorage::with_faults(image.clone(), faults);
                let before = VolumeHeader::read(&storage).unwrap();
                let Err(error) = change(&mut before.clone(), &storage) else {
                    continue;
                };
                let now = VolumeHeader::read(&storage).unwrap();
                let error = error.with_state();
                match error {
                    ChangeError::Unchanged { .. } => {
                        unchanged += 1;
                        assert_eq!(opened(&storage), [true, true], "{name}: {error}");
                        let check = |image: MemoryStorage, _: &Cut<'_>| {
                            let after =
                                VolumeHeader::read(&image).map_err(|error| error.to_string())?;
                            let is_same = after.digest() == before.digest();
                            is_same.then_some(()).ok_or_else(|| error.to_string())
                        };
                        let count = storage.operation_count();
                        storage.cut_power(count, 1, check).unwrap();
                    }
                    ChangeError::Destroying { keyslot, .. } => {
                        destroying += 1;
                        assert_eq!(keyslot, (*name == "remove").then_some(1));
                        assert_eq!(now.keyslot_numbers(), before.keyslot_numbers());
                        assert!(opened(&storage)[0] || *name == "erase", "{error}");
                    }
                    ChangeError::Sync { .. } => {
                        assert_eq!(opened(&storage), [true, true], "{name}");
                    }
                    ChangeError::Unsettled { .. }
                    | ChangeError::Unfinished { .. }
                    | ChangeError::OldKeyLeft { .. }
                    | ChangeError::NewKeyElsewhere { .. } => {}
                    error => panic!("{name}: {error}"),
                }
            }
            if ["remove", "erase"].contains(name) {
                assert!(unchanged == 0 && destroying > 1, "{name}");
            } else {
                assert!(unchanged > 0 && destroying == 0, "{name}");
            }
        }
    }
}
