// SPDX-License-Identifier: MIT OR Apache-2.0
//! Keys with characters that stand for something else in the parsed text.

use serde_json::json;

use super::{HEADER, SECRET, changeable, edited, json_of, unlock};
use crate::{
    ActivationFlag, ChangeError, CopyKind, Luks2Header, Priority,
    luks2::{edit::JsonMembers, json_c},
};

const OBJECTS: [&[&str]; 7] = [
    &[],
    &["config"],
    &["keyslots", "0"],
    &["keyslots", "1"],
    &["tokens", "0"],
    &["segments", "0"],
    &["digests", "0"],
];

/// The last one is the byte 0xfe.
const KEYS: [&str; 6] = [
    r"a\udbff\udf00",
    r"a\udbff\udf22:1,\uDBFF\uDF22b",
    r"\udbff\udf00x",
    r"\udbff\udffe",
    r"\udbff\udf80\u0022",
    "\u{10fffe}",
];

#[test]
fn a_change_keeps_keys_with_any_character() {
    let (storage, header, changes) = changeable();
    let clean = storage.into_bytes();
    for key in KEYS {
        let mut root = JsonMembers::parse(header.text());
        for path in OBJECTS {
            root.edit(path, |object| object.set("@", &json!({ "@": 1 })));
        }
        let text = root.text().replace('@', key);
        let mut bytes = clean.clone();
        for (kind, at) in [(CopyKind::Primary, 0), (CopyKind::Secondary, HEADER)] {
            let mut binary = header.binary().clone();
            binary.offset = at as u64;
            bytes[at..at + HEADER].copy_from_slice(&binary.serialise(kind, &text));
        }
        let name: String =
            serde_json::from_str(&json_c::decode(&json_c::encode(&format!("\"{key}\""))).unwrap())
                .unwrap();
        for (change_name, change) in &changes {
            let storage = luxor_sector::MemoryStorage::new(bytes.clone());
            let mut changed = Luks2Header::read(&storage).unwrap();
            change(&mut changed, &storage)
                .unwrap_or_else(|error| panic!("{change_name}, {key}: {error}"));
            let now = Luks2Header::read(&storage).unwrap();
            assert!(now.warnings().is_empty(), "{change_name}, {key}");
            let root = json_of(&now);
            for path in [OBJECTS[0], OBJECTS[1], OBJECTS[5], OBJECTS[6]] {
                let object = path.iter().fold(&root, |object, name| &object[name]);
                assert_eq!(object[&name], json!({ &name: 1 }), "{change_name}, {key}");
            }
            let opens = unlock(&storage, &now, SECRET).is_some();
            let is_lost = ["erase", "replace_keyslot"].contains(change_name);
            assert_eq!(opens, !is_lost, "{change_name}, {key}");
        }
    }
}

/// No text that a reader would read differently gets into a volume.
#[test]
fn metadata_that_would_be_read_differently_are_not_written() {
    let (storage, mut header, _) = changeable();
    let before = storage.to_bytes();
    for text in ["\u{10ff00}", "\u{10ff00}1", "\u{10ff22}", "a\u{10ff7f}"] {
        for is_key in [true, false] {
            let mut draft = header.begin(&storage).unwrap();
            if is_key {
                draft.root.set(text, &1);
            } else {
                draft.root.set("unknown", &text);
            }
            let error = header.commit(&storage, draft).unwrap_err();
            let refused = matches!(error, ChangeError::NotReadBack | ChangeError::Invalid(_));
            assert!(refused, "{text:?}: {error}");
            assert!(storage.to_bytes() == before, "{text:?}");
        }
    }
}

#[test]
fn unknown_flags_keep_their_bytes() {
    let (storage, mut header, _) = changeable();
    edited(&storage, &mut header, |draft| {
        let flags = ["x\u{10fffe}", "no-journal"];
        draft
            .root
            .edit(&["config"], |config| config.set("flags", &flags));
    });
    header
        .set_flags(&storage, &[ActivationFlag::AllowDiscards])
        .unwrap();
    let flags = &json_of(&header)["config"]["flags"];
    assert_eq!(*flags, json!(["allow-discards", "x\u{10fffe}"]));
}

/// As `cryptsetup luksDump` shows them.
#[test]
fn a_priority_is_any_value_that_c_reads_as_an_integer() {
    let (storage, mut header, _) = changeable();
    for (value, expected) in [
        (json!("2"), Priority::Prefer),
        (json!(2.7), Priority::Prefer),
        (json!("2abc"), Priority::Prefer),
        (json!(" +2"), Priority::Prefer),
        (json!(true), Priority::Normal),
        (json!("1"), Priority::Normal),
        (json!(false), Priority::Ignore),
        (json!(0.9), Priority::Ignore),
        (json!("abc"), Priority::Ignore),
        (json!(5), Priority::Ignore),
        (json!(-1), Priority::Ignore),
        (json!(null), Priority::Ignore),
        (json!([1]), Priority::Ignore),
    ] {
        edited(&storage, &mut header, |draft| {
            let set = |keyslot: &mut JsonMembers| keyslot.set("priority", &value);
            draft.root.edit(&["keyslots", "0"], set);
        });
        let found = header.describe().keyslots[&0].priority;
        assert_eq!(found, expected, "{value}");
    }
}
