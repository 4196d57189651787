// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tokens of other programs, whose texts Luxor keeps, and Luxor's own.

use luxor_sector::MemoryStorage;

use super::{changeable, edited};
use crate::{ChangeError, luks2::edit::JsonMembers};

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
            assert_eq!(header.token_json(9).unwrap(), token, "{name}");
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
