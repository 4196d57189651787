// SPDX-License-Identifier: MIT OR Apache-2.0
//! A keyslot or digest that breaks a rule of its own. It is shown and kept, and its area and number
//! count; the other keyslots open the volume.

use luxor_luks::{Luks2Header, PbkdfKind, UnlockOptions, VolumeHeader};
use luxor_sector::MemoryStorage;
use luxor_volume::Header;
use serde_json::{Value, json};

use super::support::{SECRET, attempt, base64, changed, json_text, volume};
use crate::{backend, cheap};

/// The offset of the area of keyslot 1, between two areas.
const AREA: u64 = 32768 + (1 << 20);

/// Returns a volume with a second keyslot, and in it a second digest if `is_unbound`.
fn with_second(is_unbound: bool) -> Vec<u8> {
    let volume = volume(PbkdfKind::Pbkdf2);
    let json: Value = serde_json::from_str(json_text(&volume)).unwrap();
    let mut keyslot = json["keyslots"]["0"].clone();
    keyslot["area"]["offset"] = json!(AREA.to_string());
    let mut digest = json["digests"]["0"].clone();
    digest["segments"] = json!([]);
    digest["keyslots"] = json!(["1"]);
    let keyslots = if is_unbound {
        json!(["0"])
    } else {
        json!(["0", "1"])
    };
    let mut changes = vec![
        ("keyslots/1", Some(keyslot)),
        ("digests/0/keyslots", Some(keyslots)),
    ];
    if is_unbound {
        changes.push(("digests/1", Some(digest)));
    }
    changed(&volume, &changes)
}

/// Returns the whole text of a member of the metadata.
fn member(header: &Luks2Header, path: &str) -> String {
    let json: Value = serde_json::from_str(&header.metadata_json()).unwrap();
    json.pointer(path).unwrap().to_string()
}

#[test]
fn a_keyslot_that_breaks_a_rule_leaves_the_others() {
    let volume = with_second(false);
    let cases = [
        ("af/stripes", Some(json!(4001)), "af.stripes must be"),
        ("af/stripes", Some(json!(0)), "af.stripes must be"),
        ("af/stripes", Some(json!("4000")), "af.stripes must be"),
        ("af/hash", Some(json!(5)), "af.hash must be a name"),
        ("af", None, "af is missing"),
        ("kdf/salt", Some(base64(0)), "kdf.salt must be 8 to 1024"),
        ("kdf/salt", Some(base64(1)), "kdf.salt must be 8 to 1024"),
        ("kdf/salt", Some(base64(1025)), "kdf.salt must be 8 to 1024"),
        (
            "kdf/salt",
            Some(json!("????")),
            "kdf.salt must be 8 to 1024",
        ),
        ("kdf/salt", None, "kdf.salt is missing"),
        ("kdf/iterations", Some(json!(0)), "kdf.iterations must be"),
        ("kdf/hash", None, "kdf.hash is missing"),
        (
            "kdf",
            Some(
                json!({"type": "argon2id", "salt": base64(32), "time": 4, "memory": 0, "cpus": 1}),
            ),
            "kdf.memory must be",
        ),
        ("kdf", None, "kdf is missing"),
        ("area/size", Some(json!("1")), "the area has 1 bytes"),
        ("area/size", Some(json!("255999")), "the area has 255999"),
        (
            "area/offset",
            Some(json!((AREA + 1).to_string())),
            "area.offset is 1081345; it must be a multiple of 512",
        ),
        ("area/key_size", Some(json!(0)), "area.key_size must be"),
        ("area/key_size", Some(json!(513)), "area.key_size must be"),
        (
            "area/encryption",
            Some(json!("")),
            "area.encryption must be",
        ),
        ("key_size", Some(json!(0)), "key_size must be"),
        ("key_size", Some(json!(8193)), "key_size must be"),
        ("key_size", None, "key_size is missing"),
        ("key_size", Some(json!(63)), "key_size is 63, but the data"),
    ];
    for (field, value, words) in cases {
        let path = format!("keyslots/1/{field}");
        let what = format!("{path} is {value:?}");
        let bytes = changed(&volume, &[(&path, value)]);
        assert_eq!(attempt(bytes.clone()).unwrap().keyslot, 0, "{what}");
        let storage = MemoryStorage::new(bytes);
        let mut header = Luks2Header::read(&storage).unwrap();
        let foreign = &header.describe().foreign_keyslots[&1];
        assert!(foreign.breaks_rule && foreign.kind == "luks2", "{what}");
        assert!(foreign.what.starts_with(words), "{what}: {foreign:?}");
        let only = UnlockOptions {
            keyslots: vec![1],
            ..UnlockOptions::default()
        };
        let error = header.unlock(&storage, SECRET, &*backend(), &only);
        let error = error.unwrap_err().to_string();
        let expected = format!("keyslot 1: {words}");
        assert!(error.starts_with(&expected), "{what}: {error}");
        let found = VolumeHeader::read(&storage).unwrap().check(None).damage;
        assert_eq!(found, [format!("keyslot 1: {}", foreign.what)]);

        // A change keeps it, and takes neither its number nor its area.
        let before = member(&header, "/keyslots/1");
        let key = header.unlock(&storage, SECRET, &*backend(), &UnlockOptions::default());
        let new = header.new_keyslot(&key.unwrap(), b"new", &cheap(), &*backend());
        assert_eq!(
            header.add_keyslot(&storage, &new.unwrap(), None).unwrap(),
            2
        );
        assert_eq!(member(&header, "/keyslots/1"), before, "{what}");
        let area = &header.describe().keyslots[&2].area;
        assert!(area.offset + area.size <= AREA, "{what}: {area:?}");
        header.remove_keyslot(&storage, 1).unwrap();
        assert!(header.describe().foreign_keyslots.is_empty());
        assert_eq!(attempt(storage.into_bytes()).unwrap().keyslot, 0);
    }
}

#[test]
fn a_digest_that_breaks_a_rule_leaves_the_others() {
    let volume = with_second(true);
    let cases = [
        ("digest", Some(base64(0)), "digest must be 20 to 64 bytes"),
        ("digest", Some(base64(19)), "digest must be 20 to 64 bytes"),
        (
            "digest",
            Some(base64(21)),
            "digest has 21 bytes, not 32 as sha256",
        ),
        (
            "digest",
            Some(base64(33)),
            "digest has 33 bytes, not 32 as sha256",
        ),
        (
            "digest",
            Some(base64(64)),
            "digest has 64 bytes, not 32 as sha256",
        ),
        ("digest", Some(base64(65)), "digest must be 20 to 64 bytes"),
        (
            "digest",
            Some(json!("????")),
            "digest must be 20 to 64 bytes",
        ),
        ("digest", None, "digest is missing"),
        ("salt", Some(base64(7)), "salt must be 8 to 1024 bytes"),
        ("salt", Some(base64(1025)), "salt must be 8 to 1024 bytes"),
        ("salt", None, "salt is missing"),
        ("iterations", Some(json!(0)), "iterations must be"),
        ("hash", Some(json!(5)), "hash must be a text"),
        ("hash", None, "hash is missing"),
    ];
    for (field, value, words) in cases {
        let what = format!("{field} is {value:?}");
        let edit = |digest: u32| {
            let path = format!("digests/{digest}/{field}");
            changed(&volume, &[(&path, value.clone())])
        };
        let bytes = edit(1);
        assert_eq!(attempt(bytes.clone()).unwrap().keyslot, 0, "{what}");
        let storage = MemoryStorage::new(bytes);
        let mut header = Luks2Header::read(&storage).unwrap();
        let foreign = &header.describe().foreign_digests[&1];
        assert!(foreign.breaks_rule, "{what}");
        assert!(foreign.what.starts_with(words), "{what}: {foreign:?}");
        let before = member(&header, "/digests/1");
        header.set_label(&storage, &"x".parse().unwrap()).unwrap();
        assert_eq!(member(&header, "/digests/1"), before, "{what}");

        // No key can be compared with the digest of the data, and `check` says so.
        let error = attempt(edit(0)).unwrap_err();
        assert!(error.starts_with(&format!("digest 0: {words}")), "{error}");
        let header = VolumeHeader::read(&MemoryStorage::new(edit(0))).unwrap();
        let found = header.check(None);
        assert!(found.damage[0].starts_with(&format!("digest 0: {words}")));
        assert!(!found.can_read_data);
    }
}

/// cryptsetup has these rules for the types of keyslots that it knows.
#[test]
fn a_keyslot_of_an_unknown_type_needs_no_digest() {
    let volume = with_second(false);
    let unknown = ("keyslots/1/type", Some(json!("new")));
    let digests = [
        ("digests/0/keyslots", Some(json!(["0"]))),
        ("keyslots/1/kdf", None),
        ("keyslots/1/af", None),
    ];
    for change in digests {
        let bytes = changed(&volume, &[unknown.clone(), change]);
        assert_eq!(attempt(bytes.clone()).unwrap().keyslot, 0);
        let storage = MemoryStorage::new(bytes);
        let mut header = Luks2Header::read(&storage).unwrap();
        header.remove_keyslot(&storage, 1).unwrap();
    }
    let error = attempt(changed(
        &volume,
        &[("digests/0/keyslots", Some(json!(["0"])))],
    ));
    let error = error.unwrap_err();
    assert!(error.contains("keyslot 1 belongs to 0 digests"), "{error}");
}

/// A keyslot that encrypts nothing gives the volume key away, whichever keyslot opens the volume.
#[test]
fn a_null_cipher_in_any_keyslot_is_refused() {
    let volume = with_second(false);
    let cipher = Some(json!("cipher_null-ecb"));
    let error = attempt(changed(&volume, &[("keyslots/1/area/encryption", cipher)]));
    let error = error.unwrap_err();
    assert!(error.contains("keyslot 1: area.encryption is cipher_null"));
}
