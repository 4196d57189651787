// SPDX-License-Identifier: MIT OR Apache-2.0
//! Keys of the wrong length that a digest alone would confirm. PBKDF2-HMAC gives one result for a key
//! and for the same key with zeros behind it, and for a long key and its hash.

use std::collections::BTreeMap;

use luxor_engine::KeySize;
use luxor_luks::{
    ConfirmedKey, Encryption, HashAlgorithm, HeaderBackup, Luks1Options, Luks2Header, Luks2Options,
    Misfit, NewKeyslotError, NewLuks1Volume, NewLuks2Volume, NewVolumeKey, ReencryptionPlan,
    Resilience, UnlockError, UnlockOptions, VolumeHeader, VolumeKey,
};
use luxor_secret::SecretBytes;
use luxor_sector::{MemoryStorage, SectorSize, Storage};
use luxor_volume::Header;
use serde_json::{Value, json};

use super::support::{SECRET, changed, json_text};
use crate::{backend, cheap};

const OTHER: &[u8] = b"the secret of the longer key";

fn key_of(bytes: &[u8]) -> VolumeKey {
    let key = SecretBytes::copy_of(bytes);
    VolumeKey::new(key, Encryption::AesXtsPlain64, false).unwrap()
}

fn padded(key: &[u8], len: usize) -> Vec<u8> {
    let mut key = key.to_vec();
    key.resize(len, 0);
    key
}

/// Returns a volume up to the end of its header and keyslots, and its key.
fn luks2(size: KeySize) -> (Vec<u8>, Vec<u8>) {
    let options = Luks2Options {
        key_size: size,
        pbkdf: cheap(),
        ..Luks2Options::default()
    };
    let volume = NewLuks2Volume::create(&options, SECRET, &*backend()).unwrap();
    let mut bytes = Vec::new();
    volume.write_stream(&mut bytes).unwrap();
    (bytes, volume.volume_key().expose().to_vec())
}

fn luks1(size: KeySize, hash: HashAlgorithm) -> (Vec<u8>, Vec<u8>) {
    let options = Luks1Options {
        key_size: size,
        hash,
        pbkdf: cheap(),
        ..Luks1Options::default()
    };
    let volume = NewLuks1Volume::create(&options, SECRET, &*backend()).unwrap();
    let mut bytes = Vec::new();
    volume.write_stream(&mut bytes).unwrap();
    (bytes, volume.volume_key().expose().to_vec())
}

/// Gives the key `longer` a keyslot with the secret [`OTHER`], and binds it to the digest of the
/// volume's own key, as a hostile program would.
fn with_longer_key(volume: &[u8], longer: &[u8]) -> Vec<u8> {
    let storage = MemoryStorage::new(volume.to_vec());
    let mut header = Luks2Header::read(&storage).unwrap();
    let key = key_of(longer);
    let new = Luks2Header::new_unbound_keyslot(&key, OTHER, &cheap(), &*backend()).unwrap();
    assert_eq!(header.add_keyslot(&storage, &new, None).unwrap(), 1);
    let changes = [
        ("digests/1", None),
        ("digests/0/keyslots", Some(json!(["0", "1"]))),
    ];
    changed(&storage.into_bytes(), &changes)
}

fn unlock(volume: &[u8], secret: &[u8], keyslots: &[u32]) -> Result<Vec<u8>, UnlockError> {
    let storage = MemoryStorage::new(volume.to_vec());
    let header = VolumeHeader::read(&storage).unwrap();
    let options = UnlockOptions {
        keyslots: keyslots.to_vec(),
        ..UnlockOptions::default()
    };
    let unlocked = header.unlock(&storage, secret, &*backend(), &options);
    let tested = header.test(&storage, secret, &*backend(), &options);
    assert_eq!(unlocked.is_ok(), tested.is_ok());
    Ok(unlocked?.volume_key.expose().to_vec())
}

fn confirm(volume: &[u8], key: &[u8]) -> Result<BTreeMap<u32, VolumeKey>, UnlockError> {
    let header = VolumeHeader::read(&MemoryStorage::new(volume.to_vec())).unwrap();
    header.confirm_volume_key(&SecretBytes::copy_of(key), &UnlockOptions::default())
}

#[test]
fn a_volume_key_of_another_length_is_refused() {
    let mut volumes = Vec::new();
    for size in [KeySize::Aes128, KeySize::Aes256] {
        volumes.push(luks2(size));
        for hash in [
            HashAlgorithm::Sha1,
            HashAlgorithm::Sha256,
            HashAlgorithm::Sha512,
        ] {
            volumes.push(luks1(size, hash));
        }
    }
    for (volume, key) in &volumes {
        let own = u32::try_from(key.len()).unwrap();
        assert_eq!(confirm(volume, key).unwrap()[&0].expose(), key);
        for len in (0..=200)
            .chain([4096, 1 << 20])
            .filter(|&len| len != key.len())
        {
            let error = confirm(volume, &padded(key, len)).unwrap_err();
            let words = error.to_string();
            assert!(
                words.contains(&format!("it has {len} bytes, not {own}")),
                "{words}"
            );
            assert!(error.is_wrong_secret(), "{words}");
            let UnlockError::VolumeKeyLen { found, expected } = error else {
                panic!("{words}");
            };
            assert_eq!((found, expected), (len, vec![own]));
        }
    }
}

/// Adding a key needs the volume key, which a caller of the library may have from anywhere.
#[test]
fn a_keyslot_is_not_made_for_a_key_with_zeros_behind_it() {
    for (volume, key) in [
        luks2(KeySize::Aes128),
        luks1(KeySize::Aes128, HashAlgorithm::Sha256),
    ] {
        let header = VolumeHeader::read(&MemoryStorage::new(volume)).unwrap();
        let new = |key: &[u8]| {
            let (digest, volume_key) = (0, &key_of(key));
            let key = ConfirmedKey { digest, volume_key };
            header.new_keyslot(key, OTHER, &cheap(), &*backend())
        };
        new(&key).unwrap();
        let error = new(&padded(&key, 64)).unwrap_err();
        assert!(matches!(error, NewKeyslotError::OtherVolume), "{error}");
    }
}

/// Both lengths are those of an AES-XTS key. Each keyslot opens with the length that it states, except a
/// key with zeros behind it.
#[test]
fn keyslots_that_disagree_about_the_length_of_their_key_open_the_shorter_key() {
    let (volume, key) = luks2(KeySize::Aes128);
    let longer = padded(&key, 64);
    let hostile = with_longer_key(&volume, &longer);
    for keyslots in [&[][..], &[0]] {
        assert_eq!(unlock(&hostile, SECRET, keyslots).unwrap(), key);
    }
    for keyslots in [&[][..], &[1]] {
        let error = unlock(&hostile, OTHER, keyslots).unwrap_err();
        assert!(error.is_wrong_secret(), "{error}");
    }
    assert_eq!(confirm(&hostile, &key).unwrap()[&0].expose(), key);
    let error = confirm(&hostile, &longer).unwrap_err();
    assert!(
        matches!(error, UnlockError::AmbiguousVolumeKey { found: 64 }),
        "{error}"
    );

    let header = VolumeHeader::read(&MemoryStorage::new(hostile.clone())).unwrap();
    header.check_openable().unwrap();
    assert_eq!(header.key_len(), None);
    let words = "the keyslots of digest 0 disagree about the length of their key: keyslot 0 states \
                 32 bytes, and keyslot 1 states 64";
    assert_eq!(header.check(None).damage, [words]);
    let new = |key: &[u8]| {
        let volume_key = &key_of(key);
        let key = ConfirmedKey {
            digest: 0,
            volume_key,
        };
        header.new_keyslot(key, b"third", &cheap(), &*backend())
    };
    new(&key).unwrap();
    assert!(matches!(new(&longer), Err(NewKeyslotError::OtherVolume)));

    // Without the encryption of the data, no length is known to be right.
    let unknown = changed(
        &hostile,
        &[("segments/0/encryption", Some(json!("serpent-xts-plain64")))],
    );
    let header = VolumeHeader::read(&MemoryStorage::new(unknown.clone())).unwrap();
    let storage = MemoryStorage::new(unknown);
    let options = UnlockOptions::default();
    let error = header.test(&storage, SECRET, &*backend(), &options);
    assert_eq!(error.unwrap_err().to_string(), words);

    // Without the hostile keyslot no keyslot contradicts another.
    let storage = MemoryStorage::new(hostile);
    let mut header = Luks2Header::read(&storage).unwrap();
    header.remove_keyslot(&storage, 1).unwrap();
    assert_eq!(unlock(&storage.into_bytes(), SECRET, &[]).unwrap(), key);
}

/// A length that the encryption of the data does not have is wrong, if another keyslot states one that it
/// has.
#[test]
fn a_keyslot_with_a_length_that_the_cipher_does_not_have_leaves_the_others() {
    let (volume, key) = luks2(KeySize::Aes256);
    let hostile = with_longer_key(&volume, &key);
    for len in [1, 31, 63, 65, 96, 8192] {
        for broken in [0, 1] {
            let size = format!("keyslots/{broken}/key_size");
            let area = format!("keyslots/{broken}/area");
            let place = json!({
                "type": "raw", "encryption": "aes-xts-plain64", "key_size": 64,
                "offset": (1_u64 << 22).to_string(), "size": (4_u64 << 20).to_string(),
            });
            let mut changes = vec![(size.as_str(), Some(json!(len)))];
            if (65..8192).contains(&len) {
                // The area must have room for the split key.
                changes.push((area.as_str(), Some(place)));
            }
            let odd = changed(&hostile, &changes);
            let (good, bad) = if broken == 0 {
                (OTHER, SECRET)
            } else {
                (SECRET, OTHER)
            };
            assert_eq!(unlock(&odd, good, &[]).unwrap(), key, "{len}");
            let error = unlock(&odd, bad, &[broken]).unwrap_err().to_string();
            assert!(error.contains(&format!("keyslot {broken}: ")), "{error}");
            let header = VolumeHeader::read(&MemoryStorage::new(odd)).unwrap();
            assert_eq!(header.key_len(), Some(64));
            assert_eq!(header.openable_keyslots(), [1 - broken]);
        }
    }
}

/// A keyslot with another length for the same digest is no backup of the volume.
#[test]
fn a_backup_with_a_key_of_another_length_needs_force() {
    let (volume, key) = luks2(KeySize::Aes128);
    let hostile = with_longer_key(&volume, &padded(&key, 64));
    let changes = [
        ("keyslots/0", None),
        ("digests/0/keyslots", Some(json!(["1"]))),
    ];
    let longer = changed(&hostile, &changes);
    // Its header is consistent, so only the volume shows that it is wrong.
    assert_eq!(unlock(&longer, OTHER, &[]).unwrap(), padded(&key, 64));
    for (backup, has) in [
        (&hostile, |misfit: &Misfit| {
            matches!(misfit, Misfit::Contradiction { .. })
        }),
        (&longer, |misfit: &Misfit| {
            matches!(
                misfit,
                Misfit::KeyLen {
                    backup: 64,
                    volume: 32
                }
            )
        }),
    ] as [(_, fn(&Misfit) -> bool); 2]
    {
        let backup = HeaderBackup::read(&MemoryStorage::new(backup.clone())).unwrap();
        let storage = MemoryStorage::new(volume.clone());
        let misfits = backup.misfits(VolumeHeader::read(&storage).as_ref());
        assert!(
            misfits
                .iter()
                .any(|misfit| has(misfit) && misfit.is_serious()),
            "{misfits:?}"
        );
        backup.restore(&storage, false).unwrap_err();
        assert!(storage.into_bytes() == volume);
    }
}

#[test]
fn without_keyslots_a_key_that_ends_with_zeros_is_refused() {
    for size in [KeySize::Aes128, KeySize::Aes256] {
        let (volume, key) = luks2(size);
        let storage = MemoryStorage::new(volume);
        let mut header = Luks2Header::read(&storage).unwrap();
        header.erase(&storage).unwrap();
        let volume = storage.into_bytes();
        assert_eq!(confirm(&volume, &key).unwrap()[&0].expose(), key);
        for len in (0..=200).filter(|&len| len != key.len()) {
            let error = confirm(&volume, &padded(&key, len)).unwrap_err();
            assert!(error.is_wrong_secret(), "{error}");
            match error {
                UnlockError::VolumeKeyLen { found, expected } => {
                    assert_eq!((found, expected), (len, vec![32, 64]));
                }
                UnlockError::AmbiguousVolumeKey { found: 64 } => {
                    assert_eq!((len, key.len()), (64, 32));
                }
                UnlockError::WrongVolumeKey => assert_eq!((len, key.len()), (32, 64)),
                other => panic!("{other}"),
            }
        }
    }
}

/// A cipher with keys of 16 or 32 bytes, and a keyslot with one of 64.
#[test]
fn a_length_that_the_cipher_does_not_have_is_refused() {
    let (volume, key) = luks2(KeySize::Aes256);
    let changes = [("segments/0/encryption", Some(json!("aes-cbc-plain64")))];
    let hostile = changed(&volume, &changes);
    let words = "the keyslots of digest 0 state a key of 64 bytes, but the data are encrypted with \
                 aes-cbc-plain64, which has keys of 16, 24 or 32 bytes";
    assert_eq!(
        unlock(&hostile, SECRET, &[]).unwrap_err().to_string(),
        words
    );
    for key in [&key[..], &key[..32], &key[..16]] {
        assert_eq!(confirm(&hostile, key).unwrap_err().to_string(), words);
    }
}

/// During a re-encryption each of the two keys has its length.
#[test]
fn both_keys_of_a_reencryption_have_their_lengths() {
    let (volume, key) = luks2(KeySize::Aes128);
    let storage = MemoryStorage::new(volume.clone());
    storage
        .write_all_at(&[0; 8192], volume.len() as u64)
        .unwrap();
    let mut header = Luks2Header::read(&storage).unwrap();
    let new = VolumeKey::random(64, Encryption::AesXtsPlain64).unwrap();
    let new = NewVolumeKey::with_digest(new, &cheap()).unwrap();
    let carried = luxor_luks::CarriedKeyslot {
        from: 0,
        new: new.keyslot(SECRET, &cheap(), &*backend()).unwrap(),
    };
    let plan = ReencryptionPlan {
        old: ConfirmedKey {
            digest: 0,
            volume_key: &key_of(&key),
        },
        new: &new,
        keyslots: &[carried],
        sector_size: SectorSize::B4096,
        resilience: Resilience::Journal,
        pbkdf: &cheap(),
        file_length: None,
    };
    header.begin_reencryption(&storage, &plan).unwrap();
    let begun = storage.into_bytes();
    assert_eq!(unlock(&begun, SECRET, &[]).unwrap(), key);

    // A keyslot for the old digest or for the new one that states another length.
    let json: Value = serde_json::from_str(json_text(&begun)).unwrap();
    let digest_of = |keyslot: &str| {
        let digests = json["digests"].as_object().unwrap();
        let has = |digest: &&Value| digest["keyslots"] == json!([keyslot]);
        let (number, _) = digests.iter().find(|(_, digest)| has(digest)).unwrap();
        number.clone()
    };
    for keyslot in ["0", "1"] {
        let digest = digest_of(keyslot);
        let mut copy = json["keyslots"][keyslot].clone();
        let len = copy["key_size"].as_u64().unwrap();
        assert_eq!(len, if keyslot == "0" { 32 } else { 64 });
        copy["key_size"] = json!(96 - len);
        copy["type"] = json!("new");
        // The key of keyslot 0 leaves half of its area unused.
        copy["area"]["offset"] = json!((32_768 + 128_000).to_string());
        copy["area"]["size"] = json!("512");
        let keyslots = format!("digests/{digest}/keyslots");
        let changes = [
            ("keyslots/9", Some(copy)),
            ("keyslots/0/area/size", Some(json!("128000"))),
            (keyslots.as_str(), Some(json!([keyslot, "9"]))),
        ];
        let odd = changed(&begun, &changes);
        assert_eq!(unlock(&odd, SECRET, &[]).unwrap(), key);
        let header = VolumeHeader::read(&MemoryStorage::new(odd)).unwrap();
        let found = header.check(None).damage.join("; ");
        let words = format!("the keyslots of digest {digest} disagree about the length");
        assert!(found.starts_with(&words), "{found}");
    }
}
