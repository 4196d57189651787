// SPDX-License-Identifier: MIT OR Apache-2.0
//! Conversions of any volume between LUKS1 and LUKS2: done wholly or not at all, with the keys,
//! the keyslots and the data as before, even if the storage fails on the way.

#![no_main]

use std::collections::BTreeMap;

use libfuzzer_sys::fuzz_target;
use luxor_fuzz::volumes::{Attempt, Faulty, data_unwritten};
use luxor_luks::VolumeHeader;

fuzz_target!(|input: Attempt| {
    let storage = input.storage();
    if convert(&storage, input.force) {
        // There and back.
        convert(&storage, true);
    }
});

/// Returns whether the volume was converted.
fn convert(storage: &Faulty, force: bool) -> bool {
    let Ok(before) = VolumeHeader::read(storage) else {
        return false;
    };
    let keys = keys(&before, storage);
    let converted = before.clone().convert(storage, force);
    let (failed, writes) = (storage.failed(), storage.writes());
    data_unwritten(&before, &writes);
    let now = VolumeHeader::read(storage).expect("it is still a volume");
    if let Err(error) = &converted {
        assert!(!error.to_string().is_empty());
        assert!(failed || now.version() == before.version(), "{error}");
    } else {
        assert_ne!(now.version(), before.version());
        assert!(now.warnings().is_empty(), "{:?}", now.warnings());
    }
    assert_eq!(now.encryptions(), before.encryptions());
    assert_eq!(now.segment(), before.segment());
    // LUKS1 has 20 bytes of it.
    let digest = |header: &VolumeHeader| Some(header.volume_key_digest()?.value[..20].to_vec());
    assert_eq!(digest(&now), digest(&before));
    let now = self::keys(&now, storage);
    let mut kept = keys.iter();
    // A failure may leave a key in two keyslots, or under another number.
    let is_kept = |(number, key)| {
        if failed {
            now.values().any(|now| now == key)
        } else {
            now.get(number) == Some(key)
        }
    };
    assert!(kept.all(is_kept), "a keyslot is lost");
    assert!(failed || now.len() == keys.len());
    converted.is_ok()
}

/// The contents of the keyslots that open the data.
fn keys(header: &VolumeHeader, storage: &Faulty) -> BTreeMap<u32, Vec<u8>> {
    let numbers = header.data_keyslots();
    let mut keyslots = header.keyslots().clone();
    keyslots.retain(|number, _| numbers.contains(number));
    let contents = keyslots.iter();
    contents
        .map(|(number, keyslot)| (*number, storage.area(keyslot)))
        .collect()
}
