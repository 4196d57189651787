// SPDX-License-Identifier: MIT OR Apache-2.0
//! Metadata in the JSON of json-c, which is more than RFC 8259, beside cryptsetup: both read the same, and a
//! change keeps it.

use std::{
    fs::{self, File},
    path::Path,
    process::{Command, Output},
};

use luxor_luks::{Luks2Header, PbkdfKind, ReadError};
use luxor_sector::MemoryStorage;
use serde_json::Value;

use crate::hostile::support::{SECRET, json_text, unlock, volume, with_json};

struct Scratch(tempfile::TempDir);

impl Scratch {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("secret"), SECRET).unwrap();
        Self(folder)
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// Writes a volume with these metadata at its beginning.
    fn write(&self, bytes: &[u8]) {
        let path = self.path().join("volume");
        fs::write(&path, bytes).unwrap();
        File::options()
            .write(true)
            .open(path)
            .unwrap()
            .set_len(20 << 20)
            .unwrap();
    }

    fn cryptsetup(&self, arguments: &str) -> Output {
        let mut cryptsetup = Command::new("cryptsetup");
        cryptsetup
            .args(arguments.split_whitespace())
            .current_dir(self.path());
        cryptsetup.output().expect("cryptsetup must be installed")
    }

    fn opens(&self) -> bool {
        let open = "open --test-passphrase --key-file secret volume";
        self.cryptsetup(open).status.success()
    }

    fn dump(&self) -> Vec<u8> {
        let dump = "luksDump --dump-json-metadata volume";
        self.cryptsetup(dump).stdout
    }

    fn token(&self) -> Vec<u8> {
        let export = "token export --token-id 3 volume";
        self.cryptsetup(export).stdout
    }
}

/// Token 3 of a program with each freedom that json-c permits.
const HOSTILE: &[u8] = b"{\"3\":{\"type\":\"lost\",\"keyslots\":[]},'3':{/*c*/'type':\"f\\u006fo\\u0000x\",\
    \"keyslots\":[\"0\",\"0\\u0000y\",],\"a\":1,\"a\":[01,-0,64e,00e,1.5e,1.,-.5,1e400,NAN,-infinity,TRUE,\
    99999999999999999999],\"\\ud83d\":\"\\ud83d\xff\t\n\x01\xf4\x8f\xbf\xbe\\ud83d\\ude00\",\"k\\u0000z\":{\"\":\
    'q\"'},\"s\":\"\\/\",},//\n\"07\":{\"type\":\"x\",\"keyslots\":[\"0\"]},\"\":{\"type\":\"x\",\"keyslots\":[]}}";

#[test]
fn a_header_in_the_dialect_of_json_c_is_the_same_to_cryptsetup_and_after_a_change() {
    let clean = volume(PbkdfKind::Pbkdf2);
    let json = json_text(&clean);
    // The volume has a token with the length of its file.
    let (before, after) = json.split_once("\"tokens\":{").unwrap();
    let (_, after) = after.split_once("}},").unwrap_or_else(|| panic!("{json}"));
    let text = |tokens: &[u8]| {
        let before = format!("{before}\"tokens\":");
        [before.as_bytes(), tokens, b",", after.as_bytes()].concat()
    };
    let token = |more: &str| {
        text(format!("{{\"3\":{{\"type\":\"t\",\"keyslots\":[\"0\"],{more}}}}}").as_bytes())
    };
    let nested = |levels: usize| {
        token(&format!(
            "\"a\":{}{}",
            "[".repeat(levels),
            "]".repeat(levels)
        ))
    };
    let plain = text(b"{}");
    let edited = |from: &str, to: &str| {
        let text = str::from_utf8(&plain).unwrap();
        assert!(text.contains(from), "{from}: {text}");
        text.replace(from, to).into_bytes()
    };
    let twenty = |item: &str| format!("[{}]", [item; 70].join(","));
    let (of_keyslot, of_segment) = ("\"keyslots\":[\"0\"]", "\"segments\":[\"0\"]");
    let opened = [
        text(HOSTILE),
        nested(28),
        nested(29),
        token(&format!("\"a\":\"{}\"", "x".repeat(9000))),
        text(br#"{"3":{"type":"luks2-foo","keyslots":["0"]}}"#),
        text(br#"{"3":{"type":"luks2-keyring","keyslots":["0"],"key_description":"d","x":1}}"#),
        text(format!(r#"{{"3":{{"type":"t","keyslots":{}}}}}"#, twenty("\"0\"")).as_bytes()),
        [&plain[..], b" \n/*x"].concat(),
        edited(",", " ,\n\t"),
        edited("\"keyslots_size\":\"", "\"keyslots_size\":\" +"),
        edited(
            "\"config\":{",
            &format!(
                "\"config\":{{\"flags\":{},",
                twenty("\"no-journal\\u0000x\"")
            ),
        ),
        edited(of_keyslot, "\"keyslots\":[\"0\",\"0\"]"),
        edited(of_segment, "\"segments\":[\"0\",\"0\\u0000x\"]"),
        edited("\"type\":\"luks2\"", "'type':'x','type':'luks2\\u0000x'"),
        edited("\"offset\":\"", "\"offset\":\"0"),
        edited("\"key_size\":64", "\"key_size\":064"),
        edited("\"salt\":\"", "\"salt\":\" \\u0000\n"),
    ];
    let scratch = Scratch::new();
    for text in opened {
        let shown = String::from_utf8_lossy(&text).into_owned();
        let bytes = with_json(&clean, &text);
        scratch.write(&bytes);
        assert!(scratch.opens(), "{shown}");
        let (dump, token) = (scratch.dump(), scratch.token());
        let storage = MemoryStorage::new(bytes);
        let read =
            || Luks2Header::read(&storage).unwrap_or_else(|error| panic!("{error}: {shown}"));
        let dumped = |header: &Luks2Header| {
            let mut json = Vec::new();
            header.write_metadata_json(&mut json).unwrap();
            json
        };
        let mut header = read();
        unlock(&header, &storage).unwrap_or_else(|error| panic!("{error}: {shown}"));
        assert!(dumped(&header) == dump, "{shown}");

        header.set_label(&storage, &"l".parse().unwrap()).unwrap();
        assert!(read().warnings().is_empty());
        scratch.write(&storage.to_bytes());
        assert!(scratch.opens(), "{shown}");
        assert_eq!(scratch.token(), token, "{shown}");
        assert!(scratch.dump() == dump, "{shown}");
        assert!(dumped(&header) == dump, "{shown}");
    }
    // Luxor names the reason, and calls none of them damaged: the checksum is right.
    let refused = [
        (nested(30), "deeper than 32 levels"),
        (
            token(&format!("\"a\":\"{}\"", "\u{1}".repeat(2500))),
            "would have no room",
        ),
        (
            edited("\"keyslots\":{\"0\"", "\"keyslots\":{\"00\""),
            "not the usual form of a number",
        ),
        (
            edited("\"sector_size\":4096", "\"sector_size\":4096e"),
            "sector_size must be a whole number",
        ),
        (token("\"a\":+1"), "not valid JSON"),
        (token("\"a\":1 \"b\":2"), "not valid JSON"),
        ([&plain[..], b"x"].concat(), "not valid JSON"),
    ];
    for (text, reason) in refused {
        let bytes = with_json(&clean, &text);
        scratch.write(&bytes);
        let shown = String::from_utf8_lossy(&text).into_owned();
        assert!(!scratch.opens(), "{shown}");
        let error = Luks2Header::read(&MemoryStorage::new(bytes)).unwrap_err();
        assert!(
            matches!(error, ReadError::Unsupported { .. }),
            "{error}: {shown}"
        );
        assert!(error.to_string().contains(reason), "{error}");
    }
}

#[test]
fn tokens_are_imported_as_cryptsetup_imports_them() {
    let scratch = Scratch::new();
    let clean = volume(PbkdfKind::Pbkdf2);
    let keyring = |more: &str| format!(r#"{{"type":"luks2-keyring","keyslots":["0"]{more}}}"#);
    let token = |more: &str| format!(r#"{{"type":"t","keyslots":["0"]{more}}}"#);
    for (json, is_token) in [
        (token(""), true),
        (token(r#","a":1,"a":2"#), true),
        (
            r#"{"type":"luks2-foo","type":"t","keyslots":["0"]}"#.into(),
            true,
        ),
        ("/*x*/{'type':'t',//\n'keyslots':['0',],}".into(), true),
        (token(",\"a\":\"x\ty\n\""), true),
        (token(r#","a":"\ud83d","\u0000":"\u0000""#), true),
        (token(",\"a\":[01,-0,64e,00e,1.5e,1e400,NAN]"), true),
        (token("") + " {", true),
        (token("") + "\0x", true),
        (token("") + "/*", true),
        (token("") + "/", false),
        (token("").replace("[\"0\"]", "[\"0\",\"0\\u0000x\"]"), true),
        (token("").replace("[\"0\"]", "[\"7\"]"), false),
        (token("").replace("[\"0\"]", "[0]"), false),
        (token(",\"a\":+1"), false),
        (r#"{"type":"luks2-foo","keyslots":[]}"#.into(), false),
        (r#"{"type":"luks2-","keyslots":[]}"#.into(), false),
        (r#"{"type":"luks2","keyslots":[]}"#.into(), true),
        (r#"{"type":"LUKS2-foo","keyslots":[]}"#.into(), true),
        (keyring(r#","key_description":"d""#), true),
        (
            keyring(r#","key_description":"d","key_description":"e""#),
            true,
        ),
        (keyring(r#","key_description":"d","x":1"#), false),
        (keyring(r#","key_description":"""#), false),
        (keyring(r#","key_description":"\u0000x""#), false),
        (keyring(r#","key_description":1"#), false),
        (keyring(r#","x":"d""#), false),
        (keyring(""), false),
        ("[]".into(), false),
        ("null".into(), false),
        (String::new(), false),
    ] {
        scratch.write(&clean);
        fs::write(scratch.path().join("token"), &json).unwrap();
        let import = scratch.cryptsetup("token import --token-id 3 --json-file token volume");
        assert_eq!(import.status.success(), is_token, "{json}");
        let theirs = scratch.token();

        let storage = MemoryStorage::new(clean.clone());
        let mut header = Luks2Header::read(&storage).unwrap();
        let added = header.add_token(&storage, &json, Some(3));
        assert_eq!(added.is_ok(), is_token, "{json}: {added:?}");
        scratch.write(&storage.to_bytes());
        assert_eq!(scratch.token(), theirs, "{json}");
        assert_eq!(header.token_json(3).unwrap_or_default(), theirs, "{json}");
    }
    // cryptsetup imports it, and cannot read the header any more.
    let deep = token(&format!(",\"a\":{}{}", "[".repeat(30), "]".repeat(30)));
    let storage = MemoryStorage::new(clean.clone());
    let mut header = Luks2Header::read(&storage).unwrap();
    let error = header.add_token(&storage, deep, Some(3)).unwrap_err();
    assert!(
        error.to_string().contains("deeper than 32 levels"),
        "{error}"
    );
    assert!(storage.to_bytes() == clean);
}

/// cryptsetup checks the type of most numbers, and turns the others, whatever they are, into an `int`.
#[test]
fn numbers_of_other_types_are_read_as_cryptsetup_reads_them() {
    let clean = volume(PbkdfKind::Pbkdf2);
    let scratch = Scratch::new();
    let mut opened = 0;
    for (field, value) in [
        ("/keyslots/0/key_size", 64),
        ("/keyslots/0/area/key_size", 64),
        ("/keyslots/0/af/stripes", 4000),
        ("/keyslots/0/kdf/iterations", 1000),
        ("/digests/0/iterations", 1000),
        ("/segments/0/sector_size", 4096),
    ] {
        let with_exponent = format!("{}e1", value / 10);
        let forms = [
            format!("{value}.0"),
            format!("{value}."),
            format!("{value}.9"),
            format!("{value}e0"),
            format!("0{value}"),
            format!("{value}e"),
            format!("\"{value}\""),
            format!("\" +{value}x\""),
            format!("[{value}]"),
            "true".into(),
            "null".into(),
            with_exponent,
        ];
        for form in forms {
            let mut json: Value = serde_json::from_str(json_text(&clean)).unwrap();
            *json.pointer_mut(field).unwrap() = "FORM".into();
            let json = json.to_string().replace("\"FORM\"", &form);
            let bytes = with_json(&clean, json.as_bytes());
            scratch.write(&bytes);
            let storage = MemoryStorage::new(bytes);
            let header = Luks2Header::read(&storage);
            let opens = header.is_ok_and(|header| unlock(&header, &storage).is_ok());
            assert_eq!(opens, scratch.opens(), "{field}: {form}");
            opened += usize::from(opens);
        }
    }
    assert!(opened > 10, "{opened}");
}
