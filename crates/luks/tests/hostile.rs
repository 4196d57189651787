// SPDX-License-Identifier: MIT OR Apache-2.0
//! Damaged and hostile headers: an error in words or the volume, in under a second
//! and never a panic.

use std::{fs, sync::Arc, time::Duration};

use luxor_engine::{Backend, Mode, Registry};
use luxor_luks::{
    CopyKind, Header, KeyslotError, Luks2Options, NewVolume, PbkdfKind, PbkdfOptions, ReadError,
    UnlockError, UnlockOptions, Unlocked, Warning,
};
use luxor_sector::{MemoryStorage, Storage};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

const SECRET: &[u8] = b"secret";
const SIZE: usize = 16 << 10;
/// Where keyslot 0's split key ends.
const AREA_END: usize = 32768 + 256_000;

fn backend() -> Arc<dyn Backend> {
    Registry::cpu().best(Mode::Xts).unwrap()
}

/// A volume up to the end of its one keyslot.
fn volume(kind: PbkdfKind) -> Vec<u8> {
    let argon2 = kind != PbkdfKind::Pbkdf2;
    let options = Luks2Options {
        pbkdf: PbkdfOptions {
            kind,
            memory_kib: argon2.then_some(32),
            parallel: argon2.then_some(1),
            force_iterations: Some(if argon2 { 4 } else { 1000 }),
            ..PbkdfOptions::default()
        },
        file_length: Some(5),
        ..Luks2Options::default()
    };
    let mut bytes = Vec::new();
    let volume = NewVolume::create(&options, SECRET, &*backend()).unwrap();
    volume.write_stream(&mut bytes).unwrap();
    bytes.truncate(AREA_END);
    bytes
}

fn unlock(header: &Header, storage: &dyn Storage) -> Result<Unlocked, UnlockError> {
    header.unlock(storage, SECRET, &*backend(), &UnlockOptions::default())
}

fn json_text(volume: &[u8]) -> &str {
    let area = &volume[4096..SIZE];
    let end = area.iter().position(|&b| b == 0).unwrap();
    std::str::from_utf8(&area[..end]).unwrap()
}

/// Both headers with this JSON area and true checksums, and the keyslots area of
/// `volume` after them.
fn with_json(volume: &[u8], json: &[u8]) -> Vec<u8> {
    let size = [SIZE, 64 << 10, 256 << 10, 4 << 20]
        .into_iter()
        .find(|size| json.len() + 4096 <= *size)
        .unwrap();
    let mut bytes = Vec::new();
    for copy in [&volume[..SIZE], &volume[SIZE..2 * SIZE]] {
        let begin = bytes.len();
        bytes.extend(&copy[..4096]);
        bytes[begin + 8..begin + 16].copy_from_slice(&(size as u64).to_be_bytes());
        bytes[begin + 256..begin + 264].copy_from_slice(&(begin as u64).to_be_bytes());
        bytes.extend(json);
        bytes.resize(begin + size, 0);
        seal(&mut bytes[begin..]);
    }
    bytes.extend(&volume[2 * SIZE..]);
    bytes
}

fn seal(copy: &mut [u8]) {
    copy[448..512].fill(0);
    let sum = Sha256::digest(&*copy);
    copy[448..480].copy_from_slice(&sum);
}

/// The time that this thread has had on a CPU: tests share it with others.
fn cpu_time() -> Duration {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(text.split_whitespace().next().unwrap().parse().unwrap())
}

/// Reads and, if that succeeds, unlocks; both fast.
fn attempt(bytes: Vec<u8>) -> Result<Unlocked, String> {
    let begin = cpu_time();
    let storage = MemoryStorage::new(bytes);
    let result = match Header::read(&storage) {
        Ok(header) => {
            // None of these may panic either.
            let _ = (
                header.metadata_json(),
                header.describe(),
                header.plaintext_len(1 << 30),
            );
            unlock(&header, &storage).map_err(|error| error.to_string())
        }
        Err(error) => Err(error.to_string()),
    };
    let took = cpu_time() - begin;
    assert!(took < Duration::from_secs(1), "took {took:?}: {result:?}");
    if let Err(words) = &result {
        assert!(words.len() > 15 && words.len() < 2000, "{words}");
    }
    result
}

type Changes<'a> = Vec<(&'a str, Option<Value>)>;

/// Sets the member at a path such as `keyslots/0/area/offset`, or removes it.
fn changed(volume: &[u8], changes: &[(&str, Option<Value>)]) -> Vec<u8> {
    let mut json: Value = serde_json::from_str(json_text(volume)).unwrap();
    for (path, value) in changes {
        let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
        let parent = if parent.is_empty() {
            String::new()
        } else {
            format!("/{parent}")
        };
        let parent = json.pointer_mut(&parent).unwrap().as_object_mut().unwrap();
        match value {
            Some(value) => parent.insert(name.into(), value.clone()),
            None => parent.shift_remove(name),
        };
    }
    with_json(volume, json.to_string().as_bytes())
}

#[test]
fn a_truncated_header_is_told() {
    let volume = volume(PbkdfKind::Pbkdf2);
    for len in (0..=volume.len()).step_by(512) {
        let storage = MemoryStorage::new(volume[..len].to_vec());
        match Header::read(&storage) {
            Err(error) => {
                assert!(len < SIZE, "{len}: {error}");
                let expected = if len == 0 {
                    "no LUKS header"
                } else {
                    "cut off"
                };
                assert!(error.to_string().contains(expected), "{len}: {error}");
            }
            Ok(header) => {
                assert!(len >= SIZE, "{len}");
                assert_eq!(header.warnings().len(), usize::from(len < 2 * SIZE));
                match unlock(&header, &storage) {
                    Ok(_) => assert_eq!(len, AREA_END),
                    Err(error) => {
                        assert!(len < AREA_END, "{len}: {error}");
                        let words = error.to_string();
                        assert!(
                            words.contains("keyslot 0: its area at byte 32768"),
                            "{words}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn a_flipped_bit_in_any_byte_leaves_the_other_copy() {
    let volume = volume(PbkdfKind::Pbkdf2);
    let storage = MemoryStorage::new(volume.clone());
    let intact = Header::read(&storage).unwrap();
    assert!(intact.warnings().is_empty());
    let flip = |at: usize| {
        let mut byte = [0];
        storage.read_exact_at(&mut byte, at as u64).unwrap();
        storage
            .write_all_at(&[byte[0] ^ (1 << (at % 8))], at as u64)
            .unwrap();
    };
    for at in 0..2 * SIZE {
        flip(at);
        // A SHA-256 checksum leaves half of its field unused.
        if (480..512).contains(&(at % SIZE)) {
            assert!(Header::read(&storage).unwrap().warnings().is_empty());
            flip(at);
            continue;
        }
        let header = Header::read(&storage).unwrap_or_else(|error| panic!("byte {at}: {error}"));
        let expected = if at < SIZE {
            CopyKind::Primary
        } else {
            CopyKind::Secondary
        };
        match header.warnings() {
            [Warning::Damaged { kind, .. }] => assert_eq!(*kind, expected, "byte {at}"),
            warnings => panic!("byte {at}: {warnings:?}"),
        }
        assert_eq!(header.metadata_json(), intact.metadata_json());
        if at < SIZE {
            // The same byte of the other copy too: nothing valid is left.
            flip(at + SIZE);
            let error = Header::read(&storage).unwrap_err();
            match (at, &error) {
                (0..6, ReadError::NotLuks) | (6.., ReadError::Damaged { .. }) => {}
                _ => panic!("byte {at}: {error}"),
            }
            flip(at + SIZE);
        }
        flip(at);
    }
    assert_eq!(storage.into_bytes(), volume);
}

#[test]
fn the_newer_copy_counts() {
    let volume = volume(PbkdfKind::Pbkdf2);
    for (primary, secondary, used) in [
        (1, 1, CopyKind::Primary),
        (2, 1, CopyKind::Primary),
        (1, 2, CopyKind::Secondary),
        (0, u64::MAX, CopyKind::Secondary),
    ] {
        let mut bytes = volume.clone();
        for (copy, seqid) in [(0, primary), (SIZE, secondary)] {
            bytes[copy + 16..copy + 24].copy_from_slice(&u64::to_be_bytes(seqid));
            seal(&mut bytes[copy..copy + SIZE]);
        }
        let header = Header::read(&MemoryStorage::new(bytes)).unwrap();
        assert_eq!(header.describe().seqid, primary.max(secondary));
        let status = header.describe().copies.clone();
        assert!(status.iter().all(|copy| copy.used == (copy.kind == used)));
        assert_eq!(header.warnings().len(), usize::from(primary != secondary));
    }
}

#[test]
fn a_secondary_copy_is_found_at_each_of_its_nine_places() {
    let volume = volume(PbkdfKind::Pbkdf2);
    for shift in 14..=22 {
        let size = 1_usize << shift;
        let json = json_text(&volume)
            .replace("\"12288\"", &format!("\"{}\"", size - 4096))
            .replace(
                "\"offset\":\"32768\"",
                &format!("\"offset\":\"{}\"", 2 * size),
            )
            .replace(
                "\"keyslots_size\":\"16744448\"",
                "\"keyslots_size\":\"1048576\"",
            );
        let mut bytes = vec![0; size];
        bytes.extend(&volume[SIZE..SIZE + 4096]);
        bytes[size + 8..size + 16].copy_from_slice(&(size as u64).to_be_bytes());
        bytes[size + 256..size + 264].copy_from_slice(&(size as u64).to_be_bytes());
        bytes.extend(json.as_bytes());
        bytes.resize(2 * size, 0);
        seal(&mut bytes[size..]);
        bytes.extend(&volume[2 * SIZE..]);
        let storage = MemoryStorage::new(bytes);
        let header = Header::read(&storage).unwrap();
        assert_eq!(header.describe().header_size, size as u64);
        unlock(&header, &storage).unwrap();
    }
}

#[test]
fn json_of_every_wrong_type_is_an_error_or_a_volume() {
    let replacements = [
        "null",
        "true",
        "-1",
        "0",
        "1",
        "1.5",
        "1e400",
        "1e308",
        "4294967295",
        "4294967296",
        "18446744073709551616",
        "\"\"",
        "\"x\"",
        "\"0\"",
        "\"1\"",
        "\"-1\"",
        "\"18446744073709551615\"",
        "\"18446744073709551616\"",
        "\"999999999999999999999999\"",
        "[]",
        "[\"0\"]",
        "[\"0\",\"0\"]",
        "[\"9\"]",
        "{}",
        "{\"0\":{}}",
        "{\"0\":null}",
    ];
    let mut errors = 0;
    let mut volumes = 0;
    for kind in [PbkdfKind::Pbkdf2, PbkdfKind::Argon2id] {
        let volume = volume(kind);
        let json: Value = serde_json::from_str(json_text(&volume)).unwrap();
        let mut paths = Vec::new();
        every_path(&json, String::new(), &mut paths);
        assert!(paths.len() > 45, "{paths:?}");
        for path in &paths {
            let mut marked = json.clone();
            *marked.pointer_mut(path).unwrap() = "@".into();
            let marked = marked.to_string();
            for replacement in replacements {
                let text = marked.replace("\"@\"", replacement);
                match attempt(with_json(&volume, text.as_bytes())) {
                    Ok(_) => volumes += 1,
                    Err(_) => errors += 1,
                }
            }
            if let Some(member) = path.strip_prefix('/')
                && let Some((parent, _)) = path.rsplit_once('/')
                && json.pointer(parent).unwrap().is_object()
            {
                let _ = attempt(changed(&volume, &[(member, None)]));
            }
        }
    }
    println!("{errors} errors, {volumes} volumes");
    // Some values are right all the same: 1 iteration more or less is another key,
    // but an iv_tweak of 1 is a volume.
    assert!(
        errors > 10 * volumes && volumes > 0,
        "{errors} errors, {volumes} volumes"
    );
}

fn every_path(json: &Value, path: String, paths: &mut Vec<String>) {
    match json {
        Value::Object(object) => {
            for (key, value) in object {
                every_path(value, format!("{path}/{key}"), paths);
            }
        }
        Value::Array(array) => {
            for (i, value) in array.iter().enumerate() {
                every_path(value, format!("{path}/{i}"), paths);
            }
        }
        _ => {}
    }
    paths.push(path);
}

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
            "keyslots: the key \"x\" is no object number",
        ),
        (
            one("keyslots/01", keyslot.clone()),
            "keyslots: the key \"01\" is no object number",
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
            "segment 0: sector_size is 8192",
        ),
        (
            one("segments/0/encryption", json!("serpent-xts-plain64")),
            "segment 0: encryption: it is \"serpent-xts-plain64\", not aes-xts-plain64, which this version does not open",
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
            "segment 0: it is of type \"linear\", which this version",
        ),
        (
            one("segments/0/integrity", json!({})),
            "segment 0: it has integrity tags",
        ),
        (
            one("segments/0/flags", json!(["backup-final"])),
            "segment 0: it has the flag \"backup-final\"",
        ),
        (
            one("segments/1", segment.clone()),
            "the volume has 2 segments",
        ),
        (vec![("segments/0", None)], "the volume has 0 segments"),
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
            "segment 0: the data begins at byte 16777216, before the keyslots area's end (16781312)",
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
            one("digests/0/keyslots", json!(["0", "0"])),
            "digest 0: keyslots.1 refers to 0 for the second time",
        ),
        (
            one("tokens", many(json!({"type": "x", "keyslots": []}), 33)),
            "tokens: there are 33, and at most 32",
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
            "tokens 0 and 1 are both of type luxor-file",
        ),
        (
            one("tokens/0/length", json!(5)),
            "token 0: length must be a text of decimal digits",
        ),
        (
            one("keyslots/0/priority", json!(3)),
            "keyslot 0: priority must be a whole number from 0 to 2",
        ),
        (
            one("keyslots/0/key_size", json!(16)),
            "keyslot 0: its key has 16 bytes",
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
            one(
                "config/requirements",
                json!({"mandatory": ["online-reencrypt-v2"]}),
            ),
            "requires \"online-reencrypt-v2\",",
        ),
        (
            vec![
                (
                    "config/requirements",
                    Some(json!({"mandatory": ["new-thing", "b"]})),
                ),
                ("keyslots/0/type", Some(json!("reencrypt"))),
            ],
            "requires \"new-thing\", \"b\", which this version does not have (keyslot 0: it is of type \"reencrypt\"",
        ),
        // What a volume says plays no tricks on a terminal, and fills none.
        (
            one(
                "config/requirements",
                json!({"mandatory": ["\u{1b}[2J", "x".repeat(3000)]}),
            ),
            r#"requires "\u{1b}[2J", "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"…, which"#,
        ),
        (
            one("segments/0/encryption", json!("é".repeat(2000))),
            "it is \"éééééééééééééééééééééééééééééééééééééééé\"…, not aes-xts",
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
    // What is lawful stays lawful.
    for changes in [
        one("segments/0/iv_tweak", json!("18446744073709551615")),
        one("keyslots/0/priority", json!(2)),
        one("config/flags", json!(["allow-discards", "unknown"])),
        one("config/requirements", json!({})),
        one(
            "tokens/31",
            json!({"type": "x", "keyslots": ["0"], "more": [null]}),
        ),
        second_keyslot("290816").to_vec(),
        one("keyslots/0/unknown", json!({"a": 1})),
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
            &|area| area[json.len()] = b' ',
            "only zero bytes may follow",
        ),
        (&|area| area[json.len()] = b'}', "no valid JSON"),
        (
            &|area| area[2] = 0xff,
            "byte 2 of the JSON area is no UTF-8",
        ),
        (&|area| area[1] = b'\'', "no valid JSON"),
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

#[test]
fn big_and_deep_json_is_read_or_refused_fast() {
    let volume = volume(PbkdfKind::Pbkdf2);
    let room = (4 << 20) - 4096 - 1;
    let token = |inner: &str, close: &str| {
        // The sizes and offsets of a header of 4 MiB.
        let json = json_text(&volume)
            .replace("\"12288\"", &format!("\"{}\"", room + 1))
            .replace("\"16744448\"", "\"8388608\"")
            .replace("\"offset\":\"32768\"", "\"offset\":\"8388608\"");
        let (before, after) = json.split_once("\"tokens\":{").unwrap();
        let before = format!("{before}\"tokens\":{{\"1\":{{\"type\":\"x\",\"keyslots\":[],\"y\":");
        let left = room - before.len() - after.len() - close.len() - 10;
        let inner = inner.repeat(left / inner.len());
        format!("{before}{inner}{close}}},{after}")
    };
    let keys: String = (0..290_000).map(|i| format!("\"{i}\":0,")).collect();
    let json = token(" ", &format!("{{{keys}\"x\":1}}"));
    assert!(json.len() <= room && json.len() > 3 << 20, "{}", json.len());
    attempt(with_json(&volume, json.as_bytes())).unwrap();
    let json = token(" ", &format!("[{}0]", "0,".repeat(1 << 20)));
    attempt(with_json(&volume, json.as_bytes())).unwrap();
    for (inner, close) in [
        ("[", ""),
        ("{\"a\":", ""),
        ("[", "]"),
        ("\"\\u0041\",", "1"),
    ] {
        let error = attempt(with_json(&volume, token(inner, close).as_bytes())).unwrap_err();
        assert!(error.contains("no valid JSON"), "{error}");
    }
}

#[test]
fn hostile_costs_are_refused_at_once_and_named_overrides_lift_them() {
    let unlock = |bytes: &[u8], memory_limit_kib, iterations_limit| {
        let storage = MemoryStorage::new(bytes.to_vec());
        let options = UnlockOptions {
            memory_limit_kib,
            iterations_limit,
            ..UnlockOptions::default()
        };
        let begin = cpu_time();
        let result =
            Header::read(&storage)
                .unwrap()
                .unlock(&storage, SECRET, &*backend(), &options);
        let took = cpu_time() - begin;
        assert!(took < Duration::from_millis(500), "{took:?}");
        result.unwrap_err()
    };
    let pbkdf2 = volume(PbkdfKind::Pbkdf2);
    let argon2 = volume(PbkdfKind::Argon2id);
    let billion = Some(json!(1_000_000_000));

    let keyslot = changed(&pbkdf2, &[("keyslots/0/kdf/iterations", billion.clone())]);
    let error = unlock(&keyslot, None, None);
    assert!(matches!(
        error,
        UnlockError::Keyslot {
            error: KeyslotError::Limit(_),
            ..
        }
    ));
    assert!(
        error
            .to_string()
            .contains("--pbkdf-iterations-limit 1000000000"),
        "{error}"
    );

    let digest = changed(&pbkdf2, &[("digests/0/iterations", billion.clone())]);
    let error = unlock(&digest, None, None);
    assert!(matches!(error, UnlockError::DigestLimit { digest: 0, .. }));
    assert!(
        error
            .to_string()
            .contains("--pbkdf-iterations-limit 1000000000"),
        "{error}"
    );

    let passes = changed(&argon2, &[("keyslots/0/kdf/time", billion)]);
    let error = unlock(&passes, None, None);
    assert!(
        error
            .to_string()
            .contains("--pbkdf-iterations-limit 1000000000"),
        "{error}"
    );

    let memory = changed(
        &argon2,
        &[("keyslots/0/kdf/memory", Some(json!(100 << 20)))],
    );
    let error = unlock(&memory, None, None);
    assert!(
        error.to_string().contains("--pbkdf-memory-limit 104857600"),
        "{error}"
    );
    assert!(!error.is_out_of_memory());
    // With the overrides it is the machine that decides, before anything is allocated.
    let error = unlock(&memory, Some(100 << 20), None);
    assert!(error.is_out_of_memory(), "{error}");
    assert!(error.to_string().contains("104857600 KiB"), "{error}");
}

const SPECIAL: &[u8] = b" {}[]\",:0129-.eE\\u\x01\x7fnt";

#[test]
fn random_damage_under_true_checksums_never_panics() {
    let volume = volume(PbkdfKind::Pbkdf2);
    let json = json_text(&volume).as_bytes();
    let seed = 0x1ce_b00d_u64;
    println!("seed {seed:#x}");
    let mut state = seed;
    let mut random = |below: usize| {
        // xorshift64 (Marsaglia 2003).
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state % below as u64).unwrap()
    };
    let mut opened = 0;
    for _ in 0..3000 {
        let mut text = json.to_vec();
        for _ in 0..=random(3) {
            let at = random(text.len());
            match random(4) {
                0 => text[at] = SPECIAL[random(SPECIAL.len())],
                1 => drop(text.splice(at..(at + random(20)).min(text.len()), [])),
                2 => {
                    let from = random(text.len());
                    let piece = text[from..(from + random(60)).min(text.len())].to_vec();
                    drop(text.splice(at..at, piece));
                }
                _ => text[at] ^= 1 << random(8),
            }
        }
        opened += usize::from(attempt(with_json(&volume, &text)).is_ok());
    }
    println!("{opened} of 3000 opened all the same");
    assert!(opened < 1000);
}
