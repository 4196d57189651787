// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tokens of other programs, whose texts Luxor keeps, and Luxor's own.

use luxor_sector::MemoryStorage;
use serde_json::json;

use super::{changeable, edited, json_of, volume};
use crate::{ChangeError, luks2::edit::JsonMembers, token_with_keyslot};

/// As json-c reads it, and with the digits that it would drop.
const ODD_TOKEN: &[u8] = b"{\"type\":\"t\",\"keyslots\":[],\"a\":[1.50,1e400,1.,NaN],\
    \"b\":123456789012345678901234567890,\"\xfec\":\"\xff\xf4\x8f\xbc\x80\",\"padding\":\"p\"}";

#[test]
fn tokens_keep_what_json_has_not() {
    let with_keyslot = |json: &[u8]| token_with_keyslot(json, 0);
    let (storage, mut header) = volume();
    header.add_token(&storage, ODD_TOKEN, Some(5)).unwrap();
    assert_eq!(header.token_json(5).unwrap(), ODD_TOKEN);
    header.replace_token(&storage, ODD_TOKEN, 5).unwrap();
    assert_eq!(header.token_json(5).unwrap(), ODD_TOKEN);

    let expected = [&ODD_TOKEN[..23], b"[\"0\"]", &ODD_TOKEN[25..]].concat();
    let assigned = with_keyslot(ODD_TOKEN).unwrap();
    assert_eq!(assigned, expected);
    assert_eq!(with_keyslot(&assigned).unwrap(), expected);
    header.replace_token(&storage, &assigned, 5).unwrap();
    assert_eq!(header.token_json(5).unwrap(), expected);
    assert_eq!(header.describe().tokens[&5].keyslots, [0]);
    for json in [
        "[]",
        r#"{"type":"t"}"#,
        r#"{"type":"t","keyslots":[0]}"#,
        r#"{"type":"t","keyslots":[],"a":1 "b":2}"#,
    ] {
        assert!(with_keyslot(json.as_bytes()).is_err(), "{json}");
    }
}

/// cryptsetup removes one reference of several, and then refuses its own metadata.
#[test]
fn a_keyslot_is_removed_from_every_token_however_it_is_named_there() {
    let (storage, header, changes) = changeable();
    let bytes = storage.into_bytes();
    for (name, change) in changes {
        let storage = MemoryStorage::new(bytes.clone());
        let mut header = header.clone();
        edited(&storage, &mut header, |draft| {
            let token = r#"{"type":"t","keyslots":["1","0","1","1\u0000x"]}"#;
            let token = JsonMembers::parse(token);
            draft.root.edit(&["tokens"], |tokens| {
                for key in ["9", "09", ""] {
                    tokens.set(key, &token);
                }
            });
        });
        change(&mut header, &storage).unwrap_or_else(|error| panic!("{name}: {error}"));
        let json = &json_of(&header)["tokens"];
        let expected = match name {
            "remove_keyslot" => json!(["0"]),
            "erase" => json!([]),
            _ => json!(["1", "0", "1", "1\0x"]),
        };
        for key in ["9", "09", ""] {
            assert_eq!(json[key]["keyslots"], expected, "{name}, {key}");
        }
    }
}

#[test]
fn the_length_in_a_trailer_is_recorded_in_its_own_token_only() {
    let (storage, mut header) = volume();
    header.add_token(&storage, ODD_TOKEN, Some(0)).unwrap();
    let trailer = r#"{"type":"luxor-file","keyslots":[],"padding":"trailer-v1"}"#;
    header.add_token(&storage, trailer, Some(1)).unwrap();
    header.record_file_length(&storage, 7).unwrap();
    assert_eq!(header.file_length(), Some(7));
    assert_eq!(header.token_json(0).unwrap(), ODD_TOKEN);
}

/// Only the data need it. But a token that Luxor could not read again is not written.
#[test]
fn a_file_token_that_is_not_supported_hides_only_the_data() {
    for token in [
        r#"{"type":"luxor-file","keyslots":[],"padding":"trailer-v2"}"#,
        r#"{"type":"luxor-file","keyslots":[],"padding":1}"#,
        r#"{"type":"luxor-file","keyslots":[]}"#,
        r#"{"type":"luxor-file","keyslots":[],"length":5}"#,
        r#"{"type":"luxor-file","keyslots":[],"length":"-5"}"#,
        r#"{"type":"luxor-file","keyslots":[],"length":"9223372036854775808"}"#,
        r#"{"type":"luxor-file","keyslots":[],"length":"5","padding":"trailer-v1"}"#,
    ] {
        let (storage, header, changes) = changeable();
        let bytes = storage.into_bytes();
        for (name, change) in changes {
            let storage = MemoryStorage::new(bytes.clone());
            let mut header = header.clone();
            let refused = header.add_token(&storage, token, Some(9)).unwrap_err();
            assert!(matches!(refused, ChangeError::Invalid(_)), "{refused}");
            let odd = JsonMembers::parse(token);
            edited(&storage, &mut header, |draft| {
                draft.root.edit(&["tokens"], |tokens| tokens.set("9", &odd));
            });
            change(&mut header, &storage).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(header.token_json(9).unwrap(), token.as_bytes(), "{name}");
            assert!(header.warnings().is_empty(), "{name}");
            let error = header.check_openable().unwrap_err().to_string();
            assert!(error.contains("token 9 (luxor-file)"), "{name}: {error}");
            let error = header.extents(1 << 40).unwrap_err().to_string();
            assert!(error.contains("is not supported"), "{name}: {error}");
            header.remove_token(&storage, 9).unwrap();
            header.check_openable().unwrap();
        }
    }
}
