// SPDX-License-Identifier: MIT OR Apache-2.0
//! Each rule of the metadata, broken.

use luxor_luks::{Luks2Header, PbkdfKind, UnlockOptions};
use luxor_sector::MemoryStorage;
use serde_json::{Map, Value, json};

use super::support::{Changes, SECRET, SIZE, attempt, changed, json_text, volume, with_json};
use crate::backend;

#[test]
fn each_rule_is_named_with_its_place() {
    let volume = volume(PbkdfKind::Pbkdf2);
    assert!(attempt(with_json(&volume, json_text(&volume).as_bytes())).is_ok());
    let json: Value = serde_json::from_str(json_text(&volume)).unwrap();
    let keyslot = json["keyslots"]["0"].clone();
    let segment = json["segments"]["0"].clone();
    let digest = json["digests"]["0"].clone();
    let many = |value: Value, n: u32| -> Value {
        Value::Object((0..n).map(|i| (i.to_string(), value.clone())).collect())
    };
    let many_texts = |text: &str| Value::Array(vec![json!(text); 100]);
    let area = |offset: &str, size: &str| {
        [
            ("keyslots/0/area/offset", Some(json!(offset))),
            ("keyslots/0/area/size", Some(json!(size))),
        ]
    };
    let second_keyslot = |offset: &str| {
        let mut second = keyslot.clone();
        second["area"]["offset"] = json!(offset);
        [
            ("keyslots/1", Some(second)),
            ("digests/0/keyslots", Some(json!(["0", "1"]))),
        ]
    };
    // Each segment begins 1 MiB after the one before.
    let segments = |parts: &[(u64, &str, &[&str])]| {
        let mut all = Map::new();
        let mut numbers = Vec::new();
        for (number, size, flags) in parts {
            let mut part = segment.clone();
            part["offset"] = json!(((16 + number) << 20).to_string());
            part["size"] = json!(size);
            part["flags"] = json!(flags);
            numbers.push(json!(number.to_string()));
            all.insert(number.to_string(), part);
        }
        vec![
            ("segments", Some(Value::Object(all))),
            ("digests/0/segments", Some(Value::Array(numbers))),
        ]
    };
    let file = |length: &str| json!({"type": "luxor-file", "keyslots": [], "length": length});
    let one = |path: &'static str, value: Value| vec![(path, Some(value))];

    let cases: Vec<(Changes<'_>, &str)> = vec![
        (
            vec![("keyslots/0/kdf/salt", None)],
            "keyslot 0: kdf.salt is missing",
        ),
        (vec![("config", None)], "config is missing"),
        (
            one("keyslots/x", keyslot.clone()),
            "keyslots: the key \"x\" is not an object number",
        ),
        (
            one("keyslots/01", keyslot.clone()),
            "keyslots: the key \"01\" is not the usual form of a number",
        ),
        (
            one("segments/0/offset", json!(16_777_216)),
            "segment 0: offset must be a text of decimal digits",
        ),
        (
            one("segments/0/offset", json!("16777217")),
            "segment 0: offset is 16777217; it must be a multiple of 512",
        ),
        (
            one("segments/0/size", json!("4097")),
            "segment 0: size is 4097; it must be a multiple of 4096",
        ),
        (
            one("segments/0/size", json!("18446744073709547520")),
            "segment 0: offset and size together exceed 64 bits",
        ),
        (
            one("segments/0/sector_size", json!(8192)),
            "segment 0: sector_size: it is 8192, none of 512, 1024, 2048 and 4096",
        ),
        (
            one("segments/0/sector_size", json!(1000)),
            "segment 0: sector_size is 1000; it must be 512, 1024, 2048 or 4096",
        ),
        (
            one("segments/0/encryption", json!("serpent-xts-plain64")),
            "segment 0: encryption: it is \"serpent-xts-plain64\", none of aes-xts-plain64,",
        ),
        (
            one("segments/0/encryption", json!("")),
            "segment 0: encryption must be a name",
        ),
        (
            one("segments/0/encryption", json!("cipher_null-ecb")),
            "segment 0: encryption is cipher_null",
        ),
        (
            one("keyslots/0/area/encryption", json!("cipher_null")),
            "keyslot 0: area.encryption is cipher_null",
        ),
        (
            one("keyslots/0/area/encryption", json!("aes-cbc-essiv:sha512")),
            "keyslot 0: its area is encrypted with \"aes-cbc-essiv:sha512\"",
        ),
        (
            one("segments/0/type", json!("linear")),
            "segment 0 is not encrypted, although no re-encryption is under way",
        ),
        (
            one("segments/0/type", json!("striped")),
            "segment 0: it is of type \"striped\", which this version",
        ),
        (
            one("segments/0/integrity", json!({})),
            "segment 0: it has integrity tags",
        ),
        (
            one("segments/0/flags", json!(["new-flag"])),
            "segment 0: it has the flag \"new-flag\"",
        ),
        (
            one("segments/0/flags", json!(["in-reencryption"])),
            "segment 0 belongs to a re-encryption, and config.requirements names none",
        ),
        (
            one("segments/0/flags", json!(["backup-final"])),
            "segments: there are only backup segments",
        ),
        (
            one(
                "segments/0/flags",
                json!(["backup-final", "in-reencryption"]),
            ),
            "segment 0 has both the flags backup-final and in-reencryption",
        ),
        (
            vec![("segments/0", None)],
            "segments: there are only backup segments",
        ),
        (
            segments(&[(0, "4096", &[]), (2, "dynamic", &[])]),
            "segments: 1 is missing; they must be numbered from 0 without gaps",
        ),
        (segments(&[(1, "dynamic", &[])]), "segments: 0 is missing"),
        (
            segments(&[(0, "dynamic", &["backup-previous"]), (1, "dynamic", &[])]),
            "segment 0 is a backup segment and precedes segment 1, which is not",
        ),
        (
            segments(&[(0, "dynamic", &[]), (1, "4096", &[])]),
            "segment 0: its size is dynamic, which only the last segment's may be",
        ),
        (
            segments(&[(0, "2097152", &[]), (1, "dynamic", &[])]),
            "segments 0 and 1 overlap at byte 17825792",
        ),
        (
            segments(&[
                (0, "4096", &[]),
                (1, "dynamic", &["backup-final"]),
                (2, "dynamic", &["backup-final"]),
            ]),
            "segments 1 and 2 both have the flag backup-final",
        ),
        (
            vec![("segments", Some(many(segment.clone(), 33)))],
            "segments: there are 33, and at most 32",
        ),
        (
            one("config/json_size", json!("12287")),
            "json_size is 12287, but the JSON area has 12288 bytes",
        ),
        (
            one("config/keyslots_size", json!("16744449")),
            "keyslots_size is 16744449",
        ),
        (
            one("config/keyslots_size", json!("134221824")),
            "keyslots_size is 134221824",
        ),
        (
            one("config/keyslots_size", json!("16748544")),
            "segment 0: the data begin at byte 16777216, before the keyslots area's end (16781312)",
        ),
        (
            area("28672", "258048").to_vec(),
            "keyslot 0: the area begins at byte 28672, before the end of the two headers (32768)",
        ),
        (
            area("16742952", "258048").to_vec(),
            "keyslot 0: the area ends at byte 17001000, past the keyslots area's end (16777216)",
        ),
        (
            area("18446744073709551615", "258048").to_vec(),
            "keyslot 0: area: offset and size together exceed 64 bits",
        ),
        (
            area("32768", "4096").to_vec(),
            "keyslot 0: the area has 4096 bytes, and the split key needs 256000",
        ),
        (
            second_keyslot("290815").to_vec(),
            "the areas of keyslots 0 and 1 overlap at byte 290815",
        ),
        (
            one("digests/0/keyslots", json!([])),
            "keyslot 0 belongs to 0 digests",
        ),
        (
            one("digests/1", digest.clone()),
            "keyslot 0 belongs to 2 digests",
        ),
        (
            one("digests/0/segments", json!([])),
            "segment 0 belongs to 0 digests",
        ),
        (
            one("digests/0/keyslots", json!(["0", "3"])),
            "digest 0 refers to keyslot 3, which does not exist",
        ),
        (
            one("digests/0/segments", json!(["1"])),
            "digest 0 refers to segment 1, which does not exist",
        ),
        (
            one("tokens/0/keyslots", json!(["8"])),
            "token 0 refers to keyslot 8, which does not exist",
        ),
        (
            one("tokens/0/type", json!("")),
            "token 0: type must be a name, and is \"\"",
        ),
        (
            one("tokens/0/type", json!("\0x")),
            "token 0: type must be a name, and is \"\\0x\"",
        ),
        (
            one("tokens/x", json!({"type": "x", "keyslots": []})),
            "tokens: the key \"x\" is not an object number",
        ),
        (
            one("keyslots", many(keyslot.clone(), 33)),
            "keyslots: there are 33, and at most 32",
        ),
        (
            one("digests", many(digest.clone(), 9)),
            "digests: there are 9, and at most 8",
        ),
        (
            one("tokens/1", file("7")),
            "token 0 (luxor-file), which says where the data end, is not supported: token 1 is of this \
             type too, and only one may be",
        ),
        (
            one("tokens/0/length", json!("9223372036854775808")),
            "is not supported: length: it is 8 EiB or more",
        ),
        (
            one("tokens/0/padding", json!("trailer-v2")),
            "is not supported: padding: it is \"trailer-v2\", not trailer-v1",
        ),
        (
            one("tokens/0/padding", json!("trailer-v1")),
            "is not supported: it has both a length and a padding",
        ),
        (
            one("tokens/0/length", json!(5)),
            "is not supported: length must be a text of decimal digits",
        ),
        (
            one("keyslots/0/priority", json!(3)),
            "the priority of keyslot 0 is ignore",
        ),
        (
            one("keyslots/0/key_size", json!(24)),
            "the keyslots of digest 0 state a key of 24 bytes, but the data are encrypted with \
             aes-xts-plain64, which has keys of 32, 48 or 64 bytes",
        ),
        (
            one("keyslots/0/key_size", json!(48)),
            "the volume key has 48 bytes: that is AES-192, which this version does not open",
        ),
        // The length of the stripes would be 704 bytes or 0, if it were computed in 32 bits.
        (
            one("keyslots/0/key_size", json!(1_073_742)),
            "keyslot 0: key_size must be a whole number from 1 to 8192",
        ),
        (
            one("keyslots/0/area/key_size", json!(1_073_742)),
            "keyslot 0: area.key_size must be a whole number from 1 to 512",
        ),
        (
            one("keyslots/0/af/stripes", json!(67_108_864)),
            "keyslot 0: af.stripes must be a whole number from 4000",
        ),
        (
            one("keyslots/0/af/stripes", json!(4)),
            "keyslot 0: af.stripes must be a whole number from 4000",
        ),
        (
            one("keyslots/0/af/hash", json!("sha3-256")),
            "keyslot 0: its stripes are hashed with \"sha3-256\"",
        ),
        (
            one("keyslots/0/kdf/hash", json!("streebog512")),
            "keyslot 0: its hash is \"streebog512\"",
        ),
        (
            one("keyslots/0/kdf/type", json!("scrypt")),
            "keyslot 0: kdf.type: it is \"scrypt\"",
        ),
        (
            one("keyslots/0/kdf/salt", json!("????")),
            "keyslot 0: kdf.salt must be 8 to 1024 bytes in base64",
        ),
        (
            one("keyslots/0/kdf/iterations", json!(0)),
            "keyslot 0: kdf.iterations must be a whole number from 1",
        ),
        (
            one("digests/0/hash", json!("sha3-256")),
            "digest 0: its hash is \"sha3-256\"",
        ),
        (
            one("digests/0/type", json!("sha256")),
            "digest 0: it is of type \"sha256\"",
        ),
        (
            vec![
                (
                    "config/requirements",
                    Some(json!({"mandatory": ["new-thing", "b"]})),
                ),
                ("keyslots/0/type", Some(json!("new"))),
            ],
            "requires \"new-thing\", \"b\", which this version does not support: it neither",
        ),
        (
            vec![
                (
                    "config/requirements",
                    Some(json!({"mandatory": ["online-reencrypt-v2", "new-thing"]})),
                ),
                ("keyslots/0/area/size", None),
            ],
            "requires \"new-thing\", which this version does not support (keyslot 0: area.size is missing)",
        ),
        // Texts from a volume must not send control sequences to a terminal, nor fill it.
        (
            one(
                "config/requirements",
                json!({"mandatory": ["\u{1b}[2J", "x".repeat(3000)]}),
            ),
            r#"requires "\u{1b}[2J", "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"…, which"#,
        ),
        (
            one("segments/0/encryption", json!("é".repeat(2000))),
            "it is \"éééééééééééééééééééééééééééééééééééééééé\"…, none of aes-xts",
        ),
        (
            one("keyslots/0/af/hash", json!("h".repeat(4000))),
            "its stripes are hashed with \"hhh",
        ),
        (
            one("keyslots/0/type", json!("t".repeat(4000))),
            "it is of type \"ttt",
        ),
        (
            one("keyslots/0/kdf/hash", json!("h".repeat(4000))),
            "its hash is \"hhh",
        ),
        (
            one("digests/0/hash", json!("h".repeat(4000))),
            "its hash is \"hhh",
        ),
        (
            one("config/requirements", json!(["x"])),
            "config.requirements must be an object",
        ),
    ];
    for (changes, words) in cases {
        let error = attempt(changed(&volume, &changes)).unwrap_err();
        assert!(
            error.contains(words),
            "expected {words:?}, and got {error:?}"
        );
    }
    // Unusual but valid values are accepted.
    for changes in [
        one("segments/0/iv_tweak", json!("18446744073709551615")),
        one("keyslots/0/priority", json!(2)),
        one("config/flags", json!(["allow-discards", "unknown"])),
        one("config/requirements", json!({})),
        one("config/flags", many_texts("unknown")),
        one("digests/0/keyslots", many_texts("0")),
        one("digests/0/segments", json!(["0", "0\0x"])),
        one(
            "tokens",
            many(json!({"type": "x", "keyslots": ["0", "0\0x"]}), 50),
        ),
        one("tokens/01", json!({"type": "x", "keyslots": ["0"]})),
        one("tokens/", json!({"type": "x", "keyslots": ["0"]})),
        one("keyslots/0/type", json!("luks2\0x")),
        one(
            "tokens/31",
            json!({"type": "x", "keyslots": ["0"], "more": [null]}),
        ),
        second_keyslot("290816").to_vec(),
        one("keyslots/0/unknown", json!({"a": 1})),
        segments(&[(0, "1048576", &[]), (1, "4096", &[]), (2, "dynamic", &[])]),
    ] {
        let result = attempt(changed(&volume, &changes));
        assert!(result.is_ok(), "{changes:?}: {result:?}");
    }
}

#[test]
fn the_json_area_holds_one_object_and_zeros() {
    let volume = volume(PbkdfKind::Pbkdf2);
    let json = json_text(&volume).as_bytes();
    let area = |edit: &dyn Fn(&mut Vec<u8>)| {
        let mut area = json.to_vec();
        area.resize(SIZE - 4096, 0);
        edit(&mut area);
        attempt(with_json(&volume, &area))
    };
    assert!(area(&|_| ()).is_ok());
    assert!(area(&|area| area[json.len()] = b' ').is_ok());
    assert!(area(&|area| area[json.len()..][..3].copy_from_slice(b"/*x")).is_ok());
    for (edit, words) in [
        (
            &(|area: &mut Vec<u8>| area[0] = b' ') as &dyn Fn(&mut Vec<u8>),
            "must begin with '{'",
        ),
        (&|area| area.fill(0), "must begin with '{'"),
        (
            &|area| area[json.len()..].fill(b' '),
            "not ended by a zero byte",
        ),
        (
            &|area| *area.last_mut().unwrap() = 1,
            "byte 12287 of the JSON area",
        ),
        (
            &|area| area[json.len()] = b'x',
            "something follows the value",
        ),
        (&|area| area[json.len()] = b'}', "not valid JSON"),
        (&|area| area[json.len()] = b'/', "not valid JSON"),
        (&|area| area[2] = 0xff, "keyslots is missing"),
        (&|area| area[1] = b'\'', "not valid JSON"),
        (
            &|area| area[json.len() / 2] = 0,
            "only zero bytes may follow",
        ),
    ] {
        let error = area(edit).unwrap_err();
        assert!(
            error.contains(words),
            "expected {words:?}, and got {error:?}"
        );
    }
}

/// Metadata of future versions can be examined, but the volume is not opened.
#[test]
fn unknown_metadata_are_shown_and_not_opened() {
    let volume = volume(PbkdfKind::Pbkdf2);
    let keyslot = |kind: &str| {
        json!({
            "type": kind,
            "key_size": 64,
            "area": {"type": "raw", "offset": "290816", "size": "4096"},
        })
    };
    let unknown = "new-thing";
    let cases: Vec<Changes<'_>> = vec![
        vec![("config/requirements", Some(json!({"mandatory": [unknown]})))],
        vec![("segments/0/type", Some(json!(unknown)))],
        vec![("segments/0/flags", Some(json!([unknown])))],
        vec![("segments/0/encryption", Some(json!(unknown)))],
        vec![("keyslots/0/type", Some(json!(unknown)))],
        vec![("keyslots/0/kdf/type", Some(json!(unknown)))],
        vec![("keyslots/0/af/type", Some(json!(unknown)))],
        vec![("keyslots/0/area/type", Some(json!(unknown)))],
        vec![("digests/0/type", Some(json!(unknown)))],
        vec![("tokens/0/padding", Some(json!(unknown)))],
        vec![("tokens/0/length", Some(json!(unknown)))],
    ];
    for changes in cases {
        let bytes = changed(&volume, &changes);
        let storage = MemoryStorage::new(bytes.clone());
        let header =
            Luks2Header::read(&storage).unwrap_or_else(|error| panic!("{changes:?}: {error}"));
        assert!(header.metadata_json().contains(unknown));
        assert!(header.warnings().is_empty());
        let error = attempt(bytes).unwrap_err();
        assert!(error.contains(unknown), "{changes:?}: {error}");
    }

    // An unneeded object does not prevent opening the volume, but its area and its number count.
    let beside = |area: &str| {
        let mut foreign = keyslot(unknown);
        foreign["area"]["offset"] = json!(area);
        changed(
            &volume,
            &[
                ("keyslots/3", Some(foreign)),
                ("digests/0/keyslots", Some(json!(["0", "3"]))),
            ],
        )
    };
    assert_eq!(attempt(beside("290816")).unwrap().keyslot, 0);
    // Its area must have a type, like that of any keyslot.
    let mut untyped = keyslot(unknown);
    untyped["area"].as_object_mut().unwrap().remove("type");
    let error = attempt(changed(&volume, &[("keyslots/3", Some(untyped))])).unwrap_err();
    assert!(error.contains("keyslot 3: area.type"), "{error}");
    let storage = MemoryStorage::new(beside("290816"));
    let header = Luks2Header::read(&storage).unwrap();
    let foreign = &header.describe().foreign_keyslots[&3];
    assert_eq!(
        (foreign.kind.as_str(), &*foreign.what),
        (unknown, "it is of type \"new-thing\"")
    );
    let error = attempt(beside("286720")).unwrap_err();
    assert!(
        error.contains("the areas of keyslots 0 and 3 overlap"),
        "{error}"
    );
    let only = UnlockOptions {
        keyslots: vec![3],
        ..UnlockOptions::default()
    };
    let error = header
        .unlock(&storage, SECRET, &*backend(), &only)
        .unwrap_err();
    assert!(
        error
            .to_string()
            .contains("keyslot 3: it is of type \"new-thing\""),
        "{error}"
    );
}

/// Rules for the keyslot of a re-encryption.
#[test]
fn the_state_of_a_re_encryption_has_rules() {
    let volume = volume(PbkdfKind::Pbkdf2);
    let keyslot = |kind: &str| {
        json!({
            "type": "reencrypt",
            "key_size": 1,
            "mode": "reencrypt",
            "direction": "forward",
            "area": {
                "type": kind, "offset": "290816", "size": "4096",
                "hash": "sha256", "sector_size": 4096, "shift_size": "1048576",
            },
        })
    };
    let required = || Some(json!({ "mandatory": ["online-reencrypt-v2"] }));
    let json: Value = serde_json::from_str(json_text(&volume)).unwrap();
    let segment = |flag: &str| {
        let mut segment = json["segments"]["0"].clone();
        segment["flags"] = json!([flag]);
        Some(segment)
    };
    let with = |kind: &str, member: &str, value: Value, required: Option<Value>| {
        let member = format!("keyslots/1/{member}");
        changed(
            &volume,
            &[
                ("keyslots/1", Some(keyslot(kind))),
                ("digests/0/keyslots", Some(json!(["0", "1"]))),
                ("segments/1", segment("backup-previous")),
                ("segments/2", segment("backup-final")),
                ("digests/0/segments", Some(json!(["0", "1", "2"]))),
                ("config/requirements", required),
                (&member, Some(value)),
            ],
        )
    };
    let read_required = |kind: &str, member: &str, value: Value, required: Option<Value>| {
        let bytes = with(kind, member, value, required);
        Luks2Header::read(&MemoryStorage::new(bytes)).map_err(|error| error.to_string())
    };
    let read =
        |kind: &str, member: &str, value: Value| read_required(kind, member, value, required());
    // The digest of the state would not be checked then.
    for kind in ["checksum", "new-kind"] {
        let error = read_required(kind, "unknown", json!(1), Some(json!({}))).unwrap_err();
        assert!(
            error.contains("keyslot 1 belongs to a re-encryption"),
            "{error}"
        );
    }
    for kind in [
        "none",
        "journal",
        "checksum",
        "datashift",
        "datashift-journal",
        "datashift-checksum",
    ] {
        let header = read(kind, "unknown", json!(1)).unwrap();
        let (number, keyslot) = header.describe().reencrypt.unwrap();
        assert_eq!((*number, keyslot.resilience.name()), (1, kind));
        assert_eq!(keyslot.resilience.shift().is_some(), kind.contains("shift"));
        assert_eq!(
            keyslot.resilience.checksum().is_some(),
            kind.contains("sum")
        );
    }
    // A keyslot of an unknown kind holds no state that this version knows.
    let header = read("new-kind", "unknown", json!(1)).unwrap();
    assert!(header.describe().reencrypt.is_none());
    assert_eq!(
        header.describe().foreign_keyslots[&1].what,
        "area.type: it is \"new-kind\""
    );

    let kind = "datashift-checksum";
    for (member, value, words) in [
        (
            "key_size",
            json!(64),
            "key_size must be a whole number from 1 to 1",
        ),
        (
            "mode",
            json!("recrypt"),
            "mode must be encrypt or reencrypt or decrypt",
        ),
        (
            "direction",
            json!(1),
            "direction must be forward or backward, and is 1",
        ),
        ("area/hash", json!(1), "area.hash must be a name"),
        ("area/hash", json!(""), "area.hash must be a name"),
        ("area/size", json!("0"), "keyslot 1: the area has no bytes"),
        (
            "area/sector_size",
            json!(256),
            "area.sector_size is 256; it must be a power of two",
        ),
        (
            "area/sector_size",
            json!(1000),
            "area.sector_size is 1000; it must be a power of two",
        ),
        (
            "area/shift_size",
            json!("0"),
            "area.shift_size is 0; it must be a multiple of 512",
        ),
        (
            "area/shift_size",
            json!("511"),
            "area.shift_size is 511; it must be a multiple of 512",
        ),
        (
            "area/offset",
            json!("286720"),
            "the areas of keyslots 0 and 1 overlap",
        ),
    ] {
        let error = read(kind, member, value).unwrap_err();
        assert!(error.contains(words), "{member}: {error}");
    }
    let old = Some(json!({ "mandatory": ["online-reencrypt"] }));
    let error = attempt(with("none", "unknown", json!(1), old)).unwrap_err();
    assert!(error.contains("its state has no digest"), "{error}");
    let two = Some(json!({ "mandatory": ["online-reencrypt-v3", "online-reencrypt-v2"] }));
    let error = read_required("none", "unknown", json!(1), two).unwrap_err();
    let words = "two re-encryptions, online-reencrypt-v3 and online-reencrypt-v2";
    assert!(error.contains(words), "{error}");
    let whole = with("none", "unknown", json!(1), required());
    for (path, value, words) in [
        (
            "keyslots/1/type",
            json!("new"),
            "no keyslot of type reencrypt",
        ),
        (
            "segments/1/flags",
            json!(["backup-moved-segment"]),
            "flag backup-previous",
        ),
        (
            "segments/2/flags",
            json!(["backup-moved-segment"]),
            "flag backup-final",
        ),
    ] {
        let error = attempt(changed(&whole, &[(path, Some(value))])).unwrap_err();
        assert!(error.contains(words), "{path}: {error}");
    }

    let mut second = keyslot("none");
    second["area"]["offset"] = json!("294912");
    let bytes = changed(
        &volume,
        &[
            ("keyslots/1", Some(keyslot("none"))),
            ("keyslots/2", Some(second)),
            ("digests/0/keyslots", Some(json!(["0", "1", "2"]))),
        ],
    );
    let error = attempt(bytes).unwrap_err();
    assert!(
        error.contains("keyslots 1 and 2 are both of type reencrypt"),
        "{error}"
    );
}

/// `cryptsetup token import` accepts the first two. No known program creates the third; it must not
/// prevent opening the volume, so that it can be removed.
#[test]
fn unusual_tokens_do_not_prevent_opening() {
    let volume = volume(PbkdfKind::Pbkdf2);
    for (path, token) in [
        ("tokens/1", json!({"type": "x", "keyslots": ["0", "0"]})),
        ("tokens/1", json!({"type": "x\0y", "keyslots": []})),
        ("tokens/40", json!({"type": "x", "keyslots": []})),
    ] {
        let bytes = changed(&volume, &[(path, Some(token))]);
        assert!(attempt(bytes).is_ok(), "{path}");
    }
}
