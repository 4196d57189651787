// SPDX-License-Identifier: MIT OR Apache-2.0
//! Volumes with data or keyslots that Luxor does not support. Every command that needs only the
//! metadata, or keyslots that Luxor supports, works as in cryptsetup. The others say what is not
//! supported, and never that something is damaged.

use std::{fs, path::Path, process::Command};

use luxor::luks::HashAlgorithm;
use serde_json::{Value, json};

use crate::support::{Folder, Luxor, Outcome, luxor};

const COPY: usize = 16 << 10;
const CHEAP: &str = "--pbkdf pbkdf2 --pbkdf-force-iterations 1000";

/// A folder with the keys `k`, `k2` and `k3`, and a volume `base` with the first two of them in its
/// keyslots 0 and 1.
fn base(format: &str) -> Folder {
    let folder = Folder::new();
    for name in ["k", "k2", "k3"] {
        folder.write(name, name);
    }
    folder.write(
        "token",
        r#"{"type":"someone's","keyslots":["1"],"word":"x"}"#,
    );
    folder.write("base", vec![0; 3 << 20]);
    theirs(
        &folder,
        &format!("luksFormat -q {format} {CHEAP} --key-file k base"),
    );
    theirs(
        &folder,
        &format!("luksAddKey -q {CHEAP} --key-file k base k2"),
    );
    folder
}

fn luks1() -> Folder {
    base("--type luks1")
}

fn luks2() -> Folder {
    base("--type luks2 --luks2-metadata-size 16k --luks2-keyslots-size 1984k")
}

/// Runs cryptsetup, which must succeed.
fn theirs(folder: &Folder, line: &str) -> Outcome {
    let outcome = cryptsetup(folder.path(), line);
    outcome.assert_code(0);
    outcome
}

fn cryptsetup(folder: &Path, line: &str) -> Outcome {
    let mut command = Command::new("cryptsetup");
    command.args(line.split_whitespace()).current_dir(folder);
    let output = command.output().expect("cryptsetup is needed");
    Outcome::new(format!("cryptsetup {line}"), output)
}

fn ours(folder: &Path, line: &str) -> Luxor {
    luxor(line).current_dir(folder)
}

/// Writes `bytes` over the volume `base`.
fn patch(folder: &Folder, offset: usize, bytes: &[u8]) {
    let mut volume = fs::read(folder.join("base")).unwrap();
    volume[offset..][..bytes.len()].copy_from_slice(bytes);
    folder.write("base", volume);
}

/// Changes the metadata of the LUKS2 volume `base`, in both copies.
fn edit(folder: &Folder, change: impl Fn(&mut Value)) {
    edit_text(folder, |text| {
        let mut metadata: Value = serde_json::from_slice(text).unwrap();
        change(&mut metadata);
        metadata.to_string().into_bytes()
    });
}

/// Returns `text` with `new` in place of `old`, which it has once.
fn replaced(text: &[u8], old: &[u8], new: &[u8]) -> Vec<u8> {
    let at = text
        .windows(old.len())
        .position(|part| part == old)
        .unwrap();
    [&text[..at], new, &text[at + old.len()..]].concat()
}

fn edit_text(folder: &Folder, change: impl Fn(&[u8]) -> Vec<u8>) {
    let mut volume = fs::read(folder.join("base")).unwrap();
    for copy in [0, COPY] {
        let copy = &mut volume[copy..][..COPY];
        let text = copy[4096..].split(|byte| *byte == 0).next().unwrap();
        let text = change(text);
        copy[4096..].fill(0);
        copy[4096..][..text.len()].copy_from_slice(&text);
        copy[448..512].fill(0);
        let mut checksum = [0; 64];
        HashAlgorithm::Sha256.digest_into(&[&*copy], &mut checksum);
        copy[448..480].copy_from_slice(&checksum[..32]);
    }
    folder.write("base", volume);
}

/// Returns a LUKS2 volume with a key of `bits` bits, in keyslots 1 and 2, and a changed segment.
fn with_key(bits: u32, change: impl Fn(&mut Value)) -> Folder {
    let folder = luks2();
    let unbound = format!("luksAddKey -q {CHEAP} --unbound --key-size {bits}");
    for line in [
        format!("{unbound} --key-slot 2 base k"),
        "luksKillSlot -q base 0".to_owned(),
        "luksKillSlot -q base 1".to_owned(),
    ] {
        theirs(&folder, &line);
    }
    edit(&folder, |metadata| {
        metadata["digests"]["1"]["segments"] = json!(["0"]);
        metadata["digests"].as_object_mut().unwrap().remove("0");
        change(&mut metadata["segments"]["0"]);
    });
    // This cryptsetup has no AES-192 for the area of a keyslot.
    let add = format!("luksAddKey -q {CHEAP} --key-slot 1 --key-file k base k2");
    ours(folder.path(), &add).ok();
    theirs(&folder, "open --test-passphrase --key-file k2 base");
    folder
}

/// What Luxor does with a volume.
struct Case {
    name: &'static str,
    folder: Folder,
    /// The commands that Luxor refuses, by the first words of their lines.
    refused: &'static [&'static str],
    /// The commands that only cryptsetup refuses.
    only_ours: &'static [&'static str],
    /// What a refusal says.
    words: &'static str,
}

/// The commands that both programs have, and that only read. They act on a copy of the volume.
const READING: [&str; 6] = [
    "luksDump v",
    "luksUUID v",
    "isLuks v",
    "luksHeaderBackup v --header-backup-file backup",
    "open --test-passphrase --key-file k v",
    "luksDump -q --dump-volume-key --key-file k v",
];

/// Those that change the copy.
const WRITING: [&str; 8] = [
    "luksHeaderRestore -q v --header-backup-file base.header",
    "repair -q v",
    "luksAddKey -q CHEAP --key-file k v k3",
    "luksChangeKey -q CHEAP --key-file k v k3",
    "luksRemoveKey -q v k2",
    "luksKillSlot -q v 1",
    "luksErase -q v",
    "luksUUID -q --uuid 12345678-1234-1234-1234-123456789abc v",
];

/// Those for LUKS2 only.
const OF_LUKS2: [&str; 5] = [
    "luksDump --dump-json-metadata v",
    "luksConvertKey -q CHEAP --key-file k v",
    "config --label l v",
    "config --key-slot 1 --priority prefer v",
    "token import --json-file token v",
];

/// Luxor's own commands that need only the metadata.
const OWN: [&str; 4] = ["check v", "key list v", "header digest v", "dump v"];

/// The commands that need the data.
const OF_DATA: [&str; 4] = [
    "decrypt --key-file k v out",
    "serve --key-file k --socket s v",
    "reencrypt --key-file k v",
    "resize v",
];

fn starts(line: &str, list: &[&str]) -> bool {
    list.iter().any(|beginning| line.starts_with(beginning))
}

impl Case {
    /// Tries all commands. Returns what is wrong.
    fn check(&self) -> Vec<String> {
        let folder = self.folder.path();
        let base = fs::read(folder.join("base")).unwrap();
        let mut wrong = Vec::new();
        let fresh = || {
            for name in ["backup", "out"] {
                let _ = fs::remove_file(folder.join(name));
            }
            fs::write(folder.join("v"), &base).unwrap();
        };
        ours(folder, "header backup base base.header").ok();
        let of_luks2 = OF_LUKS2.iter().filter(|_| base[7] == 2);
        for line in READING.iter().chain(&WRITING).chain(of_luks2) {
            let line = &line.replace("CHEAP", CHEAP);
            fresh();
            let theirs = cryptsetup(folder, line);
            let their_volume = fs::read(folder.join("v")).unwrap();
            fresh();
            let ours = ours(folder, line).run();
            let our_volume = fs::read(folder.join("v")).unwrap();
            let mut expect = |what: &str, is_right: bool| {
                if !is_right {
                    wrong.push(format!("{}: {what}\n{ours:?}\n{theirs:?}", self.name));
                }
            };
            if starts(line, self.refused) {
                // 2 if another keyslot could be tried.
                expect("must be refused", matches!(ours.code, Some(1 | 2)));
                expect("must say why", ours.stderr.contains(self.words));
                expect("must not speak of damage", !ours.stderr.contains("damage"));
                expect("must change nothing", our_volume == base);
                continue;
            }
            expect("must work", ours.code == Some(0));
            let only_ours = starts(line, self.only_ours);
            expect("must work there too", only_ours || theirs.code == Some(0));
            if line.starts_with("luksDump --dump-json") || line == "luksUUID v" {
                expect(
                    "must print the same",
                    only_ours || ours.stdout == theirs.stdout,
                );
            }
            if our_volume == base && their_volume == base {
                continue;
            }
            // To cryptsetup, what Luxor wrote means the same as what it wrote itself.
            let opened = |volume: &[u8]| {
                fs::write(folder.join("v"), volume).unwrap();
                ["k", "k2", "k3"].map(|key| {
                    let test = format!("open --test-passphrase --key-file {key} v");
                    cryptsetup(folder, &test).code == Some(0)
                })
            };
            expect(
                "must leave the same keys",
                only_ours || opened(&our_volume) == opened(&their_volume),
            );
        }
        for line in OWN {
            fresh();
            let outcome = ours(folder, line).run();
            if outcome.code != Some(0) {
                wrong.push(format!("{}: {outcome:?}", self.name));
            }
        }
        // What serves a volume that it can open runs until it is stopped.
        for line in OF_DATA.iter().filter(|line| starts(line, self.refused)) {
            fresh();
            let outcome = ours(folder, line).run();
            let is_right = outcome.code == Some(1)
                && outcome.stderr.contains(self.words)
                && !outcome.stderr.contains("damage");
            if !is_right {
                wrong.push(format!("{}: {outcome:?}", self.name));
            }
        }
        wrong
    }
}

const ALL: &[&str] = &[""];
const DATA: &[&str] = &["decrypt", "serve", "reencrypt"];
const KEYS: &[&str] = &[
    "open",
    "luksDump -q",
    "luksAddKey",
    "luksChangeKey",
    "luksRemoveKey",
    "decrypt",
    "serve",
];
const CHANGES: &[&str] = &[
    "luksHeaderRestore",
    "repair",
    "luksAddKey",
    "luksChangeKey",
    "luksConvertKey",
    "luksRemoveKey",
    "luksKillSlot",
    "luksUUID -q",
    "config",
    "token",
    "decrypt",
    "serve",
    "reencrypt",
];
/// What needs the second keyslot's key.
const KEY_1: &[&str] = &["luksRemoveKey"];
/// What makes a keyslot. This cryptsetup has neither AES-192 nor serpent for the area, or gives the
/// keyslot a number after one that it cannot open.
const NEW_KEYSLOT: &[&str] = &["luksAddKey", "luksChangeKey", "luksConvertKey"];

#[test]
fn what_is_not_needed_need_not_be_supported() {
    let mut cases = Vec::new();
    let mut case = |name, folder: Folder, refused, only_ours, words| {
        cases.push(Case {
            name,
            folder,
            refused,
            only_ours,
            words,
        });
    };
    let folder = luks1();
    patch(&folder, 8, b"serpent\0");
    case("LUKS1 serpent", folder, KEYS, &[], "serpent-xts-plain64");
    let folder = luks1();
    patch(&folder, 72, b"sha384\0");
    case("LUKS1 sha384", folder, KEYS, &[], "sha384");
    let folder = luks1();
    patch(&folder, 72, b"foo256\0");
    case("LUKS1 foo256", folder, KEYS, ALL, "foo256");
    let folder = with_key(384, |_| {});
    case("LUKS2 AES-192", folder, DATA, NEW_KEYSLOT, "AES-192");
    let folder = luks2();
    edit(&folder, |metadata| {
        metadata["segments"]["0"]["encryption"] = json!("serpent-xts-plain64");
    });
    case(
        "LUKS2 serpent",
        folder,
        DATA,
        NEW_KEYSLOT,
        "serpent-xts-plain64",
    );
    let folder = with_key(768, |segment| {
        segment["integrity"] = json!({
            "type": "hmac(sha256)", "journal_encryption": "none", "journal_integrity": "none",
        });
    });
    case("LUKS2 integrity", folder, DATA, &[], "integrity tags");
    let folder = luks2();
    edit(&folder, |metadata| {
        metadata["segments"]["0"]["type"] = json!("future");
    });
    case(
        "LUKS2 segment type",
        folder,
        DATA,
        &[],
        "of type \"future\"",
    );
    let folder = luks2();
    edit(&folder, |metadata| {
        metadata["keyslots"]["1"]["area"]["encryption"] = json!("serpent-xts-plain64");
    });
    case(
        "LUKS2 area",
        folder,
        KEY_1,
        NEW_KEYSLOT,
        "serpent-xts-plain64",
    );
    let folder = luks2();
    edit(&folder, |metadata| {
        metadata["keyslots"]["1"]["kdf"]["type"] = json!("scrypt");
    });
    case("LUKS2 kdf", folder, KEY_1, NEW_KEYSLOT, "scrypt");
    let folder = luks2();
    edit(&folder, |metadata| {
        metadata["keyslots"]["1"]["af"]["type"] = json!("luks9");
    });
    case("LUKS2 af", folder, KEY_1, ALL, "luks9");
    let folder = luks2();
    edit(&folder, |metadata| {
        metadata["keyslots"]["1"]["type"] = json!("future");
    });
    case(
        "LUKS2 keyslot type",
        folder,
        KEY_1,
        &["luksKillSlot", "luksErase"],
        "future",
    );
    let folder = luks2();
    edit(&folder, |metadata| {
        metadata["tokens"]["0"] = json!({ "type": "future", "keyslots": ["1"], "x": 1 });
    });
    case("LUKS2 token", folder, &[], &[], "");
    let folder = luks2();
    edit(&folder, |metadata| {
        metadata["config"]["requirements"] = json!({ "mandatory": ["future"] });
    });
    case(
        "LUKS2 requirement",
        folder,
        CHANGES,
        &[],
        "requires \"future\"",
    );
    let folder = luks2();
    edit(&folder, |metadata| {
        metadata["segments"]["0"]["sector_size"] = json!(8192);
    });
    case("LUKS2 sector size", folder, DATA, &[], "8192");
    let folder = luks2();
    edit(&folder, |metadata| {
        metadata["keyslots"]["1"]["priority"] = json!(9);
    });
    case("LUKS2 priority", folder, KEY_1, &[], "tried keyslot 0");
    for odd in ["1e400", "1.", "-1.e5", "NaN", "-Infinity", "\"a\u{fffd}\""] {
        let folder = luks2();
        edit_text(&folder, |text| {
            let odd = odd.replace('\u{fffd}', "\u{1}").into_bytes();
            let odd = odd
                .into_iter()
                .map(|byte| if byte == 1 { 0xfe } else { byte });
            let token = [
                &b"\"tokens\":{\"0\":{\"type\":\"t\",\"keyslots\":[],\"x\":"[..],
                &odd.collect::<Vec<_>>(),
                b"}}",
            ];
            replaced(text, b"\"tokens\":{}", &token.concat())
        });
        case("LUKS2 token of json-c", folder, &[], &[], "");
    }
    let wrong: Vec<String> = cases.iter().flat_map(Case::check).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// A keyslot that Luxor does not support does not make up for the last one that it opens.
#[test]
fn the_last_keyslot_that_luxor_opens_is_kept() {
    type Change = fn(&mut Value);
    let changes: [Change; 5] = [
        |keyslot| keyslot["kdf"]["type"] = json!("foo"),
        |keyslot| keyslot["af"]["hash"] = json!("foo"),
        |keyslot| keyslot["area"]["encryption"] = json!("foo-xts-plain64"),
        |keyslot| keyslot["area"]["key_size"] = json!(24),
        |keyslot| keyslot["type"] = json!("foo"),
    ];
    for change in changes {
        let folder = luks2();
        edit(&folder, |metadata| change(&mut metadata["keyslots"]["1"]));
        let before = fs::read(folder.join("base")).unwrap();
        let words = "keyslot 0 is the last one that Luxor can open";
        for line in [
            "key remove --key-slot 0 --key-file k base",
            "key remove --key-slot 0 --force base",
            "key remove --key-file k base",
        ] {
            let refused = ours(folder.path(), line).fails(1, words);
            assert!(refused.stderr.contains("--last"), "{refused:#?}");
            assert!(fs::read(folder.join("base")).unwrap() == before, "{line}");
        }
        ours(folder.path(), "key remove --key-slot 1 --key-file k base").ok();
        ours(folder.path(), "key test --key-file k base").ok();
    }
}

/// All keyslots of a digest that Luxor does not support count.
#[test]
fn the_last_keyslot_of_an_unsupported_digest_is_kept() {
    let folder = luks2();
    edit(&folder, |metadata| {
        metadata["digests"]["0"]["type"] = json!("foo");
    });
    ours(folder.path(), "key remove --key-slot 1 --force base").ok();
    let last = ours(folder.path(), "key remove --key-slot 0 --force base");
    last.fails(1, "keyslot 0 is the last one");
}
