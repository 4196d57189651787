// SPDX-License-Identifier: MIT OR Apache-2.0
//! The effect of each change on the metadata, and each reason to refuse a change.

mod characters;
mod repair;
mod tokens;

use std::{ops::Range, sync::Arc};

use luxor_engine::{Backend, KeySize, Mode, Registry};
use luxor_sector::{
    MemoryStorage, Storage,
    faulty::{Faults, FaultyStorage},
};
use serde_json::{Value, json};

use super::{draft::MetadataDraft, error::ChangeError, members::JsonMembers};
use crate::{
    ActivationFlag, Luks2Header, Luks2Options, NewKeyslot, NewKeyslotError, NewLuks2Volume,
    Overwrite, PbkdfKind, PbkdfOptions, Priority, UnlockOptions, Unlocked, Uuid,
    luks2::{binary_header::TextField, json_c},
};

const HEADER: usize = 16 << 10;
/// The length of the area of a keyslot with a key of 32 bytes, in whole pages.
const AREA: usize = 128 << 10;
const SECRET: &[u8] = b"secret";

fn backend() -> Arc<dyn Backend> {
    Registry::cpu().best(Mode::Xts).unwrap()
}

fn cheap() -> PbkdfOptions {
    PbkdfOptions {
        kind: PbkdfKind::Pbkdf2,
        force_iterations: Some(1000),
        ..PbkdfOptions::default()
    }
}

fn volume() -> (MemoryStorage, Luks2Header) {
    let options = Luks2Options {
        key_size: KeySize::Aes128,
        pbkdf: cheap(),
        ..Luks2Options::default()
    };
    let volume = NewLuks2Volume::create(&options, SECRET, &*backend()).unwrap();
    let mut bytes = Vec::new();
    volume.write_stream(&mut bytes).unwrap();
    bytes.truncate(2 * HEADER + AREA);
    let storage = MemoryStorage::new(bytes);
    let header = Luks2Header::read(&storage).unwrap();
    (storage, header)
}

fn unlock(storage: &MemoryStorage, header: &Luks2Header, secret: &[u8]) -> Option<Unlocked> {
    header
        .unlock(storage, secret, &*backend(), &UnlockOptions::default())
        .ok()
}

fn new_keyslot(storage: &MemoryStorage, header: &Luks2Header, secret: &[u8]) -> NewKeyslot {
    let unlocked = unlock(storage, header, SECRET).unwrap();
    header
        .new_keyslot(&unlocked, secret, &cheap(), &*backend())
        .unwrap()
}

/// Writes metadata that no public method can write.
fn edited(
    storage: &MemoryStorage,
    header: &mut Luks2Header,
    edit: impl FnOnce(&mut MetadataDraft),
) {
    let mut draft = header.begin(storage).unwrap();
    edit(&mut draft);
    header.commit(storage, draft).unwrap();
}

fn json_of(header: &Luks2Header) -> Value {
    serde_json::from_str(header.text()).unwrap()
}

type Change = (
    &'static str,
    Box<dyn Fn(&mut Luks2Header, &dyn Storage) -> Result<(), ChangeError>>,
);

/// One change of each kind, for a volume with keyslots 0 and 1 and token 0.
fn all_changes(new: NewKeyslot) -> Vec<Change> {
    let new = Arc::new(new);
    let replacement = new.clone();
    vec![
        (
            "add_keyslot",
            Box::new(move |h, s| h.add_keyslot(s, &new, None).map(drop)),
        ),
        (
            "replace_keyslot",
            Box::new(move |h, s| h.replace_keyslot(s, 0, &replacement)),
        ),
        ("remove_keyslot", Box::new(|h, s| h.remove_keyslot(s, 1))),
        ("erase", Box::new(|h, s| h.erase(s))),
        (
            "set_priority",
            Box::new(|h, s| h.set_priority(s, 0, Priority::Prefer)),
        ),
        (
            "add_token",
            Box::new(|h, s| {
                h.add_token(s, r#"{"type":"t","keyslots":[]}"#, None)
                    .map(drop)
            }),
        ),
        (
            "replace_token",
            Box::new(|h, s| h.replace_token(s, r#"{"type":"t","keyslots":[]}"#, 0)),
        ),
        ("remove_token", Box::new(|h, s| h.remove_token(s, 0))),
        (
            "set_label",
            Box::new(|h, s| h.set_label(s, &"l".parse().unwrap())),
        ),
        (
            "set_subsystem",
            Box::new(|h, s| h.set_subsystem(s, &"l".parse().unwrap())),
        ),
        (
            "set_uuid",
            Box::new(|h, s| h.set_uuid(s, Uuid::from_u128(1))),
        ),
        (
            "set_flags",
            Box::new(|h, s| h.set_flags(s, &[ActivationFlag::NoJournal])),
        ),
        (
            "repair",
            Box::new(|h, s| h.repair(s, Overwrite::Damaged).map(drop)),
        ),
    ]
}

/// A volume for `all_changes`, and these changes.
fn changeable() -> (MemoryStorage, Luks2Header, Vec<Change>) {
    let (storage, mut header) = volume();
    let new = new_keyslot(&storage, &header, b"second");
    header.add_keyslot(&storage, &new, None).unwrap();
    let token = r#"{"type":"x","keyslots":["1"],"unknown":[1.50,"\/"]}"#;
    header.add_token(&storage, token, None).unwrap();
    let new = new_keyslot(&storage, &header, b"third");
    (storage, header, all_changes(new))
}

#[test]
fn unrelated_metadata_stay_unchanged_to_the_byte() {
    let (storage, mut header, changes) = changeable();
    edited(&storage, &mut header, |draft| {
        draft.root.set("unknown", &json!({"z": 1, "a": [null]}));
        draft
            .root
            .edit(&["config"], |config| config.set("more", &json!({"b": {}})));
        draft
            .root
            .edit(&["keyslots", "0"], |keyslot| keyslot.set("note", &"n/o"));
        draft.binary.subsystem = TextField::from_bytes([0xf0; 48]);
    });
    let before = storage.into_bytes();
    for (name, change) in changes {
        let storage = MemoryStorage::new(before.clone());
        let mut now = Luks2Header::read(&storage).unwrap();
        change(&mut now, &storage).unwrap();
        let text = now.text();
        assert!(
            text.contains(r#""unknown":{"z":1,"a":[null]}"#),
            "{name}: {text}"
        );
        assert!(text.contains(r#","more":{"b":{}}"#), "{name}: {text}");
        if name != "erase" {
            assert!(text.contains(r#","note":"n/o""#), "{name}: {text}");
        }
        if name != "set_subsystem" {
            // The subsystem is not UTF-8.
            let field = &storage.to_bytes()[208..256];
            assert_eq!(field, [0xf0; 48], "{name}");
        }
        let keys = |header: &Luks2Header| match json_of(header) {
            Value::Object(root) => root.keys().cloned().collect::<Vec<_>>(),
            _ => unreachable!(),
        };
        assert_eq!(keys(&now), keys(&header), "{name}");
        let grown = u64::from(name != "repair");
        assert_eq!(now.binary().seqid, header.binary().seqid + grown, "{name}");
        assert!(now.warnings().is_empty(), "{name}");
        // Both copies have the same JSON text, and salts of their own.
        let bytes = storage.into_bytes();
        let [primary, secondary] = [0, HEADER].map(|at| &bytes[at..at + HEADER]);
        assert_eq!(primary[4096..], secondary[4096..], "{name}");
        assert_ne!(primary[104..168], secondary[104..168], "{name}");
        if name != "repair" {
            for (new, old) in [(primary, &before[..HEADER]), (secondary, &before[HEADER..])] {
                assert_ne!(new[104..168], old[104..168], "{name}");
            }
        }
    }
}

#[test]
fn metadata_that_changed_meanwhile_are_left_alone() {
    let (storage, header, changes) = changeable();
    let bytes = storage.into_bytes();
    for (name, change) in changes {
        let storage = MemoryStorage::new(bytes.clone());
        let mut other = Luks2Header::read(&storage).unwrap();
        // The same metadata, written again.
        edited(&storage, &mut other, |_| {});
        let before = storage.to_bytes();
        let error = change(&mut header.clone(), &storage).unwrap_err();
        assert!(
            matches!(error, ChangeError::ChangedMeanwhile),
            "{name}: {error}"
        );
        assert_eq!(storage.into_bytes(), before, "{name}");
    }
}

#[test]
fn metadata_with_requirements_are_left_alone() {
    let (storage, mut header, changes) = changeable();
    edited(&storage, &mut header, |draft| {
        draft.root.edit(&["config"], |config| {
            config.set("requirements", &json!({"mandatory": ["something-new"]}));
        });
    });
    let before = storage.to_bytes();
    for (name, change) in changes {
        if name == "erase" {
            continue;
        }
        let error = change(&mut header, &storage).unwrap_err();
        assert!(
            matches!(error, ChangeError::Requirements { .. }),
            "{name}: {error}"
        );
        assert!(error.to_string().contains("\"something-new\""), "{error}");
        assert_eq!(storage.to_bytes(), before, "{name}");
    }
    header.erase(&storage).unwrap();
    assert!(header.describe().keyslots.is_empty());
}

#[test]
fn keyslots_are_added_and_removed() {
    let (storage, mut header) = volume();
    let add = |header: &mut Luks2Header, secret: &[u8], number| {
        let new = new_keyslot(&storage, header, secret);
        header.add_keyslot(&storage, &new, number)
    };
    let offset = |header: &Luks2Header, number| {
        let area = &header.describe().keyslots[&number].area;
        (usize::try_from(area.offset).unwrap() - 2 * HEADER) / AREA
    };
    assert_eq!(add(&mut header, b"one", None).unwrap(), 1);
    assert_eq!(add(&mut header, b"nine", Some(9)).unwrap(), 9);
    assert_eq!([0, 1, 9].map(|n| offset(&header, n)), [0, 1, 2]);
    assert_eq!(header.describe().digests[&0].keyslots, [0, 1, 9]);
    for (number, secret) in [(0, SECRET), (1, b"one"), (9, b"nine")] {
        assert_eq!(unlock(&storage, &header, secret).unwrap().keyslot, number);
    }
    let error = add(&mut header, b"x", Some(9)).unwrap_err();
    assert!(
        matches!(error, ChangeError::Taken { number: 9, .. }),
        "{error}"
    );
    let error = add(&mut header, b"x", Some(32)).unwrap_err();
    assert!(
        matches!(
            error,
            ChangeError::Number {
                number: 32,
                max: 31,
                ..
            }
        ),
        "{error}"
    );

    // The first gap and the first free number.
    header.remove_keyslot(&storage, 1).unwrap();
    assert!(unlock(&storage, &header, b"one").is_none());
    assert_eq!(add(&mut header, b"again", None).unwrap(), 1);
    assert_eq!(offset(&header, 1), 1);
    let error = header.remove_keyslot(&storage, 2).unwrap_err();
    assert!(
        matches!(error, ChangeError::Missing { number: 2, .. }),
        "{error}"
    );

    // A gap that is too small is skipped, and areas begin at whole pages.
    edited(&storage, &mut header, |draft| {
        draft.root.edit(&["keyslots", "1", "area"], |area| {
            let begin = 2 * HEADER + AREA + 4096 + 512;
            area.set("offset", &begin.to_string());
        });
        draft
            .root
            .edit(&["keyslots"], |keyslots| keyslots.remove("9"));
        draft.forget_keyslots(|number| number == "9");
    });
    let free = |size| usize::try_from(header.free_area(size, &[]).unwrap()).unwrap();
    assert_eq!(free(4096), 2 * HEADER + AREA);
    assert_eq!(free(8192), 2 * HEADER + 2 * AREA + 8192);
}

#[test]
fn a_replaced_keyslot_keeps_all_but_its_key() {
    let (storage, mut header) = volume();
    header
        .add_token(&storage, r#"{"type":"t","keyslots":["0"]}"#, None)
        .unwrap();
    header.set_priority(&storage, 0, Priority::Prefer).unwrap();
    let before = storage.to_bytes();
    let new = new_keyslot(&storage, &header, b"other");
    header.replace_keyslot(&storage, 0, &new).unwrap();

    let keyslot = &header.describe().keyslots[&0];
    assert_eq!(keyslot.priority, Priority::Prefer);
    assert_eq!(keyslot.area.offset, (2 * HEADER + AREA) as u64);
    assert_eq!(header.describe().tokens[&0].keyslots, [0]);
    assert_eq!(unlock(&storage, &header, b"other").unwrap().keyslot, 0);
    assert!(unlock(&storage, &header, SECRET).is_none());
    overwritten(&before, &storage.to_bytes(), 2 * HEADER..2 * HEADER + AREA);

    let error = header.replace_keyslot(&storage, 1, &new).unwrap_err();
    assert!(
        matches!(error, ChangeError::Missing { number: 1, .. }),
        "{error}"
    );
}

/// What json-c accepts beyond JSON stays byte for byte.
#[test]
fn tokens_of_other_programs_survive_every_change() {
    let (storage, header, changes) = changeable();
    let bytes = storage.into_bytes();
    for (name, change) in changes {
        let storage = MemoryStorage::new(bytes.clone());
        let mut header = header.clone();
        edited(&storage, &mut header, |draft| {
            // The character is the byte 0xfe.
            let token = r#"{"type":"t","keyslots":[],"x":[1e400,-1.,NaN]}"#;
            let mut token = JsonMembers::parse(&json_c::decode(token.as_bytes()).unwrap());
            token.set("y", &"\u{10fffe}");
            draft
                .root
                .edit(&["tokens"], |tokens| tokens.set("9", &token));
        });
        change(&mut header, &storage).unwrap_or_else(|error| panic!("{name}: {error}"));
        let bytes = storage.to_bytes();
        let odd = b"\"x\":[1e400,-1.,NaN],\"y\":\"\xfe\"}";
        let copies = bytes[..2 * HEADER].chunks(HEADER);
        for copy in copies {
            let found = copy.windows(odd.len()).any(|part| part == odd);
            assert!(found, "{name}");
        }
        assert!(header.token_json(9).unwrap().ends_with(odd), "{name}");
    }
}

/// Without room for a second area, and with an area as short as after a conversion from LUKS1.
#[test]
fn a_keyslot_is_replaced_in_its_own_place_where_there_is_no_other() {
    let (storage, mut header) = volume();
    let new = new_keyslot(&storage, &header, b"other");
    let len = new.encrypted.len();
    edited(&storage, &mut header, |draft| {
        let path = ["keyslots", "0", "area"];
        draft
            .root
            .edit(&path, |area| area.set("size", &len.to_string()));
        let size = AREA.to_string();
        let config = |config: &mut JsonMembers| config.set("keyslots_size", &size);
        draft.root.edit(&["config"], config);
    });
    let error = header.replace_keyslot(&storage, 0, &new).unwrap_err();
    assert!(
        matches!(
            error,
            ChangeError::NoRoomBeside {
                keyslot: 0,
                is_only: true,
                ..
            }
        ),
        "{error}"
    );
    assert!(unlock(&storage, &header, SECRET).is_some());
    header.replace_keyslot_in_place(&storage, 0, &new).unwrap();
    let area = &header.describe().keyslots[&0].area;
    assert_eq!((area.offset, area.size), (2 * HEADER as u64, len as u64));
    assert_eq!(unlock(&storage, &header, b"other").unwrap().keyslot, 0);
    assert!(unlock(&storage, &header, SECRET).is_none());
}

/// A write that fails is no crash: the old area is written back, or the error names the keyslot.
#[test]
fn a_failure_in_place_loses_no_keyslot_without_saying_so() {
    let (storage, header) = volume();
    let new = new_keyslot(&storage, &header, b"new");
    let image = storage.into_bytes();
    let mut seen = [0; 3];
    for (writes, syncs) in (0..9)
        .map(|n| (Some(n), None))
        .chain((0..9).map(|n| (None, Some(n))))
    {
        let faults = Faults {
            fail_write_after: writes,
            fail_sync_after: syncs,
            ..Faults::default()
        };
        let storage = FaultyStorage::with_faults(image.clone(), faults);
        let mut header = Luks2Header::read(&storage).unwrap();
        let result = header.replace_keyslot_in_place(&storage, 0, &new);
        let opens = |secret| {
            let now = Luks2Header::read(&storage).unwrap();
            let options = UnlockOptions::default();
            now.unlock(&storage, secret, &*backend(), &options).is_ok()
        };
        match result {
            Ok(()) => assert!(opens(b"new")),
            Err(ChangeError::Unfinished { .. }) => {
                assert!(opens(b"new"));
                seen[0] += 1;
            }
            Err(ChangeError::KeyslotLost { keyslot: 0, .. }) => seen[1] += 1,
            Err(error) => {
                assert!(opens(SECRET), "{error}");
                seen[2] += 1;
            }
        }
    }
    assert!(seen.iter().all(|&count| count > 0), "{seen:?}");
}

/// After the metadata have changed, an error must say so, and where the old bytes may be.
#[test]
fn a_failure_after_the_key_has_changed_says_so() {
    let (storage, header) = volume();
    let new = new_keyslot(&storage, &header, b"new");
    let mut image = storage.into_bytes();
    image.resize(2 * HEADER + 2 * AREA, 0);
    let mut seen = [0; 2];
    for writes in 0.. {
        let faults = Faults {
            fail_write_after: Some(writes),
            ..Faults::default()
        };
        let storage = FaultyStorage::with_faults(image.clone(), faults);
        let mut header = Luks2Header::read(&storage).unwrap();
        let Err(error) = header.replace_keyslot(&storage, 0, &new) else {
            break;
        };
        let opens = |secret| {
            let now = Luks2Header::read(&storage).unwrap();
            let options = UnlockOptions::default();
            now.unlock(&storage, secret, &*backend(), &options).is_ok()
        };
        let is_changed = opens(b"new");
        assert_ne!(is_changed, opens(SECRET));
        let is_said = matches!(
            error,
            ChangeError::OldKeyLeft { keyslot: 0, offset, .. } if offset == 2 * HEADER as u64
        );
        assert_eq!(is_said, is_changed, "{writes}: {error}");
        seen[usize::from(is_said)] += 1;
    }
    // Failures of the area and of the first copy; failures of the other copy and of the old area.
    assert!(seen[0] >= 2 && seen[1] >= 2, "{seen:?}");
}

/// Checks that every sector of `range` has changed.
fn overwritten(before: &[u8], after: &[u8], range: Range<usize>) {
    let sectors = before[range.clone()]
        .chunks(512)
        .zip(after[range].chunks(512));
    for (i, (before, after)) in sectors.enumerate() {
        assert_ne!(before, after, "sector {i}");
    }
}

#[test]
fn a_removed_keyslot_is_overwritten_and_no_longer_referenced() {
    let (storage, mut header) = volume();
    let new = new_keyslot(&storage, &header, b"one");
    header.add_keyslot(&storage, &new, None).unwrap();
    let token = r#"{"type":"t","keyslots":["1","0"]}"#;
    header.add_token(&storage, token, None).unwrap();
    // A digest of a key that only keyslot 1 holds.
    edited(&storage, &mut header, |draft| {
        let digest = json!({
            "type": "pbkdf2", "keyslots": ["1"], "segments": [], "hash": "sha256",
            "iterations": 1000, "salt": "AAAAAAAAAAAAAAAA",
            "digest": "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
        });
        draft
            .root
            .edit(&["digests"], |digests| digests.set("4", &digest));
        let data = |digest: &mut JsonMembers| digest.set("keyslots", &["0"]);
        draft.root.edit(&["digests", "0"], data);
    });
    let error = header.replace_keyslot(&storage, 1, &new).unwrap_err();
    assert!(
        matches!(error, ChangeError::Unbound { keyslot: 1 }),
        "{error}"
    );

    let before = storage.to_bytes();
    header.remove_keyslot(&storage, 1).unwrap();
    let after = storage.to_bytes();
    let area = 2 * HEADER + AREA..2 * HEADER + AREA + 128_000;
    overwritten(&before, &after, area);
    assert_eq!(before[2 * HEADER..][..AREA], after[2 * HEADER..][..AREA]);
    let described = header.describe();
    assert_eq!(described.tokens[&0].keyslots, [0]);
    assert_eq!(described.digests.keys().collect::<Vec<_>>(), [&0]);

    header.erase(&storage).unwrap();
    overwritten(&after, &storage.to_bytes(), 2 * HEADER..after.len());
    assert_eq!(storage.to_bytes().len(), after.len(), "it must not grow");
    let described = header.describe();
    assert!(described.keyslots.is_empty() && described.tokens[&0].keyslots.is_empty());
    // The digest of the data stays.
    assert_eq!(described.digests[&0].keyslots, [0; 0]);
    assert!(unlock(&storage, &header, SECRET).is_none());
}

#[test]
fn keyslots_of_other_volumes_are_refused() {
    let (storage, mut header) = volume();
    let (other_storage, mut other) = volume();
    let new = new_keyslot(&other_storage, &other, b"x");
    for error in [
        header.add_keyslot(&storage, &new, None).unwrap_err(),
        header.replace_keyslot(&storage, 0, &new).unwrap_err(),
    ] {
        assert!(matches!(error, ChangeError::OtherKey), "{error}");
    }
    let unlocked = unlock(&storage, &header, SECRET).unwrap();
    // A digest with the same number, of another key.
    let error = other
        .new_keyslot(&unlocked, b"x", &cheap(), &*backend())
        .unwrap_err();
    assert!(matches!(error, NewKeyslotError::OtherVolume), "{error}");
    edited(&other_storage, &mut other, |draft| {
        draft.root.edit(&["digests"], |digests| {
            let digest: Value = serde_json::from_str(digests.raw("0").unwrap()).unwrap();
            digests.remove("0");
            digests.set("3", &digest);
        });
    });
    let error = other
        .new_keyslot(&unlocked, b"x", &cheap(), &*backend())
        .unwrap_err();
    assert!(matches!(error, NewKeyslotError::OtherVolume), "{error}");
    let options = PbkdfOptions {
        force_iterations: Some(1),
        ..cheap()
    };
    let error = header
        .new_keyslot(&unlocked, b"x", &options, &*backend())
        .unwrap_err();
    assert!(matches!(error, NewKeyslotError::Options(_)), "{error}");
}

#[test]
fn changes_beyond_the_available_room_are_refused() {
    let (storage, mut header) = volume();
    let new = new_keyslot(&storage, &header, b"x");
    edited(&storage, &mut header, |draft| {
        let size = (2 * AREA - 4096).to_string();
        draft
            .root
            .edit(&["config"], |config| config.set("keyslots_size", &size));
    });
    let before = storage.to_bytes();
    let error = header.add_keyslot(&storage, &new, None).unwrap_err();
    assert!(matches!(error, ChangeError::NoArea { .. }), "{error}");
    let error = header.replace_keyslot(&storage, 0, &new).unwrap_err();
    assert!(matches!(error, ChangeError::NoRoomBeside { .. }), "{error}");
    let token = |len: usize| json!({"type": "t", "keyslots": [], "x": "x".repeat(len)}).to_string();
    let error = header
        .add_token(&storage, token(12 << 10), None)
        .unwrap_err();
    assert!(
        matches!(error, ChangeError::NoRoom { room: 12288, .. }),
        "{error}"
    );
    assert_eq!(storage.to_bytes(), before);

    // Up to the last byte before the zero that ends the text.
    let left = 12288 - 1 - header.text().len() - token(0).len() - r#""0":"#.len();
    let error = header
        .add_token(&storage, token(left + 1), None)
        .unwrap_err();
    assert!(
        matches!(error, ChangeError::NoRoom { needed: 12289, .. }),
        "{error}"
    );
    header.add_token(&storage, token(left), None).unwrap();
    assert_eq!(header.text().len(), 12287);

    header.remove_token(&storage, 0).unwrap();
    for number in 0..32 {
        assert_eq!(header.add_token(&storage, token(0), None).unwrap(), number);
    }
    let error = header.add_token(&storage, token(0), None).unwrap_err();
    assert!(
        matches!(error, ChangeError::AllTaken { max: 32, .. }),
        "{error}"
    );

    edited(&storage, &mut header, |draft| {
        draft.binary.seqid = u64::MAX - 1;
    });
    assert_eq!(header.describe().seqid, u64::MAX);
    let error = header.set_uuid(&storage, Uuid::nil()).unwrap_err();
    assert!(matches!(error, ChangeError::SeqidExhausted), "{error}");
}

#[test]
fn tokens_keep_their_spelling() {
    let (storage, mut header) = volume();
    let json = "{ \"type\" : \"t\",\n \"keyslots\":[ \"0\" ], \"n\": 1.50, \"s\": \"a\\/b\" }\n";
    let one_line = r#"{"type":"t","keyslots":["0"],"n":1.50,"s":"a/b"}"#;
    assert_eq!(header.add_token(&storage, json, Some(5)).unwrap(), 5);
    assert_eq!(header.token_json(5).unwrap(), one_line.as_bytes());
    assert!(
        header
            .text()
            .contains(&format!(r#""tokens":{{"5":{one_line}}}"#))
    );
    assert_eq!(header.token_json(0), None);

    header
        .replace_token(&storage, r#"{"type":"u","keyslots":[]}"#, 5)
        .unwrap();
    assert_eq!(header.describe().tokens[&5].kind, "u");
    let missing = header.replace_token(&storage, json, 0).unwrap_err();
    assert!(
        matches!(missing, ChangeError::Missing { number: 0, .. }),
        "{missing}"
    );

    for (json, words) in [
        ("", "not valid JSON"),
        ("{", "not valid JSON"),
        ("[]", "not valid JSON"),
        (r#"{"type":"","keyslots":[]}"#, "token 0: type"),
        (
            &format!(
                r#"{{"type":"t","keyslots":[],"a":{}{}}}"#,
                "[".repeat(30),
                "]".repeat(30)
            ),
            "deeper than 32 levels",
        ),
        (r#"{"keyslots":[]}"#, "token 0: type"),
        (r#"{"type":"t"}"#, "token 0: keyslots"),
        (
            r#"{"type":"t","keyslots":["7"]}"#,
            "keyslot 7, which does not exist",
        ),
        (r#"{"type":"t","keyslots":[0]}"#, "token 0: keyslots.0"),
    ] {
        let error = header
            .add_token(&storage, json, None)
            .unwrap_err()
            .to_string();
        assert!(error.contains(words), "{json}: {error}");
    }
    // `cryptsetup token import` accepts this.
    header
        .replace_token(&storage, r#"{"type":"u","keyslots":["0","0"]}"#, 5)
        .unwrap();
    assert_eq!(header.describe().tokens[&5].keyslots, [0]);
    header.remove_token(&storage, 5).unwrap();
    assert!(
        header.text().contains(r#""tokens":{}"#),
        "{}",
        header.text()
    );
    let missing = header.remove_token(&storage, 5).unwrap_err();
    assert!(
        matches!(missing, ChangeError::Missing { number: 5, .. }),
        "{missing}"
    );
}

#[test]
fn names_and_flags_are_set() {
    let (storage, mut header) = volume();
    let long = "ä".repeat(23) + "x";
    header.set_label(&storage, &long.parse().unwrap()).unwrap();
    header
        .set_subsystem(&storage, &"sub".parse().unwrap())
        .unwrap();
    let uuid = Uuid::from_u128(0x0123_4567_89ab_4def_8123_4567_89ab_cdef);
    header.set_uuid(&storage, uuid).unwrap();
    let described = header.describe();
    assert_eq!(
        (described.label, described.subsystem),
        (long.as_str(), "sub")
    );
    assert_eq!(described.uuid, uuid.to_string());
    header.set_label(&storage, &"".parse().unwrap()).unwrap();
    assert_eq!(header.describe().label, "");

    edited(&storage, &mut header, |draft| {
        draft.root.edit(&["config"], |config| {
            config.set("flags", &["from-the-future", "no-journal"]);
        });
    });
    let flags = [
        ActivationFlag::NoReadWorkqueue,
        ActivationFlag::AllowDiscards,
    ];
    header.set_flags(&storage, &flags).unwrap();
    let expected = ["allow-discards", "no-read-workqueue", "from-the-future"];
    assert_eq!(header.describe().config.flags, expected);
    for flag in ActivationFlag::ALL {
        assert_eq!(flag.name().parse(), Ok(flag));
    }
    let error = "discard".parse::<ActivationFlag>().unwrap_err().to_string();
    assert!(error.contains("allow-discards, same-cpu-crypt"), "{error}");

    for (priority, text) in [
        (Priority::Ignore, ",\"priority\":0}"),
        (Priority::Prefer, ",\"priority\":2}"),
    ] {
        header.set_priority(&storage, 0, priority).unwrap();
        assert!(header.text().contains(text), "{}", header.text());
    }
    header.set_priority(&storage, 0, Priority::Normal).unwrap();
    assert!(!header.text().contains("priority"), "{}", header.text());
    let error = header
        .set_priority(&storage, 1, Priority::Normal)
        .unwrap_err();
    assert!(
        matches!(error, ChangeError::Missing { number: 1, .. }),
        "{error}"
    );
}

#[test]
fn a_failed_first_sync_leaves_the_volume_unchanged() {
    let (storage, _, changes) = changeable();
    let image = storage.into_bytes();
    for (what, change) in &changes {
        let faults = Faults {
            fail_sync_after: Some(0),
            ..Faults::default()
        };
        let storage = FaultyStorage::with_faults(image.clone(), faults);
        let mut header = Luks2Header::read(&storage).unwrap();
        let error = change(&mut header, &storage).unwrap_err();
        assert!(matches!(error, ChangeError::Sync { .. }), "{what}: {error}");
        assert!(storage.to_bytes() == image, "{what}");
    }
}

#[test]
fn a_keyslot_of_an_unknown_type_keeps_its_number_and_its_area() {
    let (storage, mut header) = volume();
    let offset = 2 * HEADER + AREA;
    edited(&storage, &mut header, |draft| {
        let area = json!({"type": "raw", "offset": offset.to_string(), "size": "4096"});
        let foreign = json!({"type": "new", "key_size": 32, "area": area});
        draft
            .root
            .edit(&["keyslots"], |keyslots| keyslots.set("1", &foreign));
        draft.root.edit(&["digests", "0"], |digest| {
            digest.set("keyslots", &["0", "1"]);
        });
    });
    let new = new_keyslot(&storage, &header, b"two");
    let error = header.add_keyslot(&storage, &new, Some(1)).unwrap_err();
    assert!(
        matches!(error, ChangeError::Taken { number: 1, .. }),
        "{error}"
    );
    assert_eq!(header.add_keyslot(&storage, &new, None).unwrap(), 2);
    let area = &header.describe().keyslots[&2].area;
    assert_eq!(area.offset, (offset + 4096) as u64);
}
