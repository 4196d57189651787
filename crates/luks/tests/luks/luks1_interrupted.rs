// SPDX-License-Identifier: MIT OR Apache-2.0
//! Conversions between LUKS1 and LUKS2 that a crash has interrupted, and the operations after it.
//! They must leave nothing that could open the volume or be taken for its header.

use std::{
    collections::HashSet,
    fs::{self, File},
    process::Command,
};

use luxor_engine::KeySize;
use luxor_luks::{
    ConvertError, Luks1Options, LuksVersion, NewLuks1Volume, UnlockOptions, Uuid, VolumeHeader,
};
use luxor_sector::{
    MemoryStorage, Storage,
    faulty::{Cut, Faults, FaultyStorage, PowerCuts},
};

use crate::{backend, cheap};

const SECTOR: usize = 512;

fn convert(storage: &dyn Storage) -> Result<(), ConvertError> {
    match VolumeHeader::read(storage).unwrap() {
        VolumeHeader::Luks1(header) => header.convert_to_luks2(storage).map(drop),
        VolumeHeader::Luks2(header) => header.convert_to_luks1(storage, false).map(drop),
    }
}

fn version(storage: &dyn Storage) -> LuksVersion {
    VolumeHeader::read(storage).unwrap().version()
}

fn opens(storage: &dyn Storage, secret: &[u8]) -> bool {
    let header = VolumeHeader::read(storage).unwrap();
    let options = UnlockOptions::default();
    header
        .unlock(storage, secret, &*backend(), &options)
        .is_ok()
}

/// Adds `new` in the first free keyslot, and removes `old`.
fn change_key(storage: &dyn Storage, old: &[u8], new: &[u8]) {
    let mut header = VolumeHeader::read(storage).unwrap();
    let options = UnlockOptions::default();
    let unlocked = header.unlock(storage, old, &*backend(), &options).unwrap();
    let keyslot = header
        .new_keyslot(&unlocked, new, &cheap(), &*backend())
        .unwrap();
    header.add_keyslot(storage, &keyslot, None).unwrap();
    header.remove_keyslot(storage, unlocked.keyslot).unwrap();
}

/// Returns a volume with these keyslots, each with its number as the secret.
fn luks1(key_size: KeySize, numbers: &[u32]) -> Vec<u8> {
    let options = Luks1Options {
        key_size,
        pbkdf: cheap(),
        ..Luks1Options::default()
    };
    let volume = NewLuks1Volume::create(&options, b"first", &*backend()).unwrap();
    let storage = MemoryStorage::default();
    volume.write_to(&storage).unwrap();
    let mut header = VolumeHeader::read(&storage).unwrap();
    let options = UnlockOptions::default();
    let unlocked = header
        .unlock(&storage, b"first", &*backend(), &options)
        .unwrap();
    header.remove_keyslot(&storage, 0).unwrap();
    for &number in numbers {
        let secret = number.to_string();
        let new = header
            .new_keyslot(&unlocked, secret.as_bytes(), &cheap(), &*backend())
            .unwrap();
        header.add_keyslot(&storage, &new, Some(number)).unwrap();
    }
    storage.into_bytes()
}

/// Returns the sectors of all used areas.
fn used_sectors(image: &[u8]) -> HashSet<Vec<u8>> {
    let header = VolumeHeader::read(&MemoryStorage::new(image.to_vec())).unwrap();
    let areas = header.keyslots().values().flat_map(|keyslot| {
        let begin = usize::try_from(keyslot.area.offset).unwrap();
        let len = keyslot.key_len as usize * 4000;
        image[begin..begin + len].chunks(SECTOR)
    });
    areas.map(<[u8]>::to_vec).collect()
}

/// Returns how many sectors of an image contain a part of a key but belong to no used keyslot, or
/// duplicate one.
fn left_over(image: &[u8], of_keys: &HashSet<Vec<u8>>) -> usize {
    let sectors = image.chunks(SECTOR);
    let found = sectors.filter(|&sector| of_keys.contains(sector)).count();
    let header = VolumeHeader::read(&MemoryStorage::new(image.to_vec())).unwrap();
    let in_use: u32 = header.keyslots().values().map(|k| k.key_len * 4000).sum();
    found - in_use as usize / SECTOR
}

/// Covers every way in which the areas make room.
#[test]
fn nothing_of_a_key_is_left_in_an_empty_keyslot() {
    for (key_size, numbers) in [
        (KeySize::Aes256, &[0, 6][..]),
        (KeySize::Aes128, &[0, 1, 2, 3, 4, 5, 6, 7]),
    ] {
        let image = luks1(key_size, numbers);
        let of_keys = used_sectors(&image);
        assert_eq!(left_over(&image, &of_keys), 0);
        let cuts = PowerCuts {
            image: &image,
            ..PowerCuts::default()
        };
        let mut begun = 0;
        let check = |after: MemoryStorage, _: &Cut<'_>| -> Result<(), String> {
            let image = after.to_bytes();
            begun += usize::from(left_over(&image, &of_keys) > 0);
            if version(&after) == LuksVersion::Luks1 && numbers.len() < 8 {
                let VolumeHeader::Luks1(mut header) = VolumeHeader::read(&after).unwrap() else {
                    unreachable!()
                };
                header.set_uuid(&after, Uuid::from_u128(7)).unwrap();
                if left_over(&after.to_bytes(), &of_keys) > 0 {
                    return Err("the next change leaves it".into());
                }
            }
            let after = MemoryStorage::new(image);
            if version(&after) == LuksVersion::Luks1 {
                convert(&after).map_err(|error| error.to_string())?;
            }
            match left_over(&after.to_bytes(), &of_keys) {
                0 => Ok(()),
                sectors => Err(format!("{sectors} sectors are left")),
            }
        };
        cuts.check(|storage| convert(storage).unwrap(), check)
            .unwrap();
        assert!(begun > 0, "nothing was ever left");
    }
}

/// The length of each LUKS2 header before: greater than the range in which the areas of LUKS1 make
/// room.
const OLD_LEN: usize = 256 << 10;

/// Returns a LUKS2 volume of 2 MiB with headers of that length, changed several times, with the
/// secret `old`.
fn luks2_with_longer_headers() -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("old"), "old").unwrap();
    let volume = File::create(folder.path().join("volume")).unwrap();
    volume.set_len(3 << 20).unwrap();
    let options = "luksFormat -q --type luks2 --luks2-metadata-size 256k --luks2-keyslots-size 1536k \
                   --offset 4096 --sector-size 512 --key-size 256 --pbkdf pbkdf2 \
                   --pbkdf-force-iterations 1000 --key-file old volume";
    let output = Command::new("cryptsetup")
        .args(options.split_whitespace())
        .current_dir(folder.path())
        .output()
        .expect("cryptsetup must be installed");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let mut bytes = fs::read(folder.path().join("volume")).unwrap();
    bytes.truncate((2 << 20) + SECTOR);
    let storage = MemoryStorage::new(bytes);
    let VolumeHeader::Luks2(mut header) = VolumeHeader::read(&storage).unwrap() else {
        panic!("it must be LUKS2")
    };
    for i in 0..5 {
        header.set_uuid(&storage, Uuid::from_u128(i)).unwrap();
    }
    assert_eq!(header.describe().header_size, OLD_LEN as u64);
    storage.into_bytes()
}

/// Returns the volume as LUKS1, when the power failed before the rest of LUKS2's headers was
/// overwritten.
fn interrupted(image: &[u8]) -> MemoryStorage {
    let faults = Faults {
        fail_write_after: Some(2),
        ..Faults::default()
    };
    let storage = FaultyStorage::with_faults(image.to_vec(), faults);
    convert(&storage).unwrap_err();
    let storage = MemoryStorage::new(storage.to_bytes());
    assert_eq!(version(&storage), LuksVersion::Luks1);
    assert!(has_secondary(&storage.to_bytes()));
    storage
}

fn has_secondary(image: &[u8]) -> bool {
    image
        .chunks(SECTOR)
        .any(|sector| sector.starts_with(b"SKUL\xba\xbe"))
}

/// Two crashes, and a change of the key between them.
#[test]
fn an_old_secondary_header_is_not_taken_for_the_new_one() {
    let image = luks2_with_longer_headers();
    // Also as other programs' changes leave it: with the old header.
    let storage = interrupted(&image);
    let old_header = storage.to_bytes()[OLD_LEN..2 * OLD_LEN].to_vec();
    change_key(&storage, b"old", b"new");
    let image = storage.to_bytes();
    let with_old_header = {
        let mut image = image.clone();
        image[OLD_LEN..2 * OLD_LEN].copy_from_slice(&old_header);
        image
    };
    for image in [&image, &with_old_header] {
        let cuts = PowerCuts {
            image,
            ..PowerCuts::default()
        };
        let check = |after: MemoryStorage, cut: &Cut<'_>| {
            if !opens(&after, b"new") {
                Err("the key is lost")
            } else if opens(&after, b"old") {
                Err("the old key is back")
            } else if cut.after == cut.of && has_old_header(&after) {
                Err("it is still there")
            } else {
                Ok(())
            }
        };
        cuts.check(|storage| convert(storage).unwrap(), check)
            .unwrap();
    }
}

fn has_old_header(storage: &MemoryStorage) -> bool {
    let bytes = storage.to_bytes();
    let both = [16 << 10, OLD_LEN].map(|at| has_secondary(&bytes[at..at + SECTOR]));
    both != [true, false]
}

#[test]
fn the_next_change_removes_an_old_secondary_header() {
    let storage = interrupted(&luks2_with_longer_headers());
    let VolumeHeader::Luks1(mut header) = VolumeHeader::read(&storage).unwrap() else {
        panic!("it must be LUKS1")
    };
    header.set_uuid(&storage, Uuid::from_u128(7)).unwrap();
    let mut bytes = storage.to_bytes();
    assert!(!has_secondary(&bytes));
    assert!(opens(&storage, b"old"));
    // Damage to LUKS1's header must not make it valid again.
    bytes[0] ^= 1;
    VolumeHeader::read(&MemoryStorage::new(bytes)).unwrap_err();
}
