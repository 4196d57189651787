// SPDX-License-Identifier: MIT OR Apache-2.0
//! `reencrypt` with more keyslots and tokens than most volumes have.

use std::fs;

use serde_json::Value;

use crate::support::{FAST, Folder, Luxor, bytes, luxor, tool};

const KEYSLOTS: usize = 15;
const TOKENS: usize = 31;

fn run(folder: &Folder, line: &str) -> Luxor {
    luxor(line).current_dir(folder.path())
}

/// A volume with this number of keyslots, which the file `key` opens, and with 31 tokens, which
/// belong to the keyslots in turn.
fn prepared(keyslots: usize) -> Folder {
    let folder = Folder::new();
    folder.write("key", b"correct horse");
    folder.write("plain", bytes(64 << 10, 5));
    run(
        &folder,
        "encrypt --luks2-metadata-size 64K --key-size 256 --sector-size 512 --key-file key plain volume",
    )
    .args(FAST)
    .ok();
    for _ in 1..keyslots {
        run(&folder, "key add --key-file key --new-key-file key volume")
            .args(FAST)
            .ok();
    }
    for number in 0..TOKENS {
        let keyslot = number % keyslots;
        let token = format!(r#"{{"type":"mine","keyslots":["{keyslot}"],"number":{number}}}"#);
        folder.write("token", token);
        run(&folder, "token add --json-file token volume").ok();
    }
    folder
}

fn metadata(folder: &Folder) -> Value {
    let outcome = run(folder, "dump --json volume").ok();
    serde_json::from_slice(&outcome.stdout).unwrap()
}

/// Checks that each token belongs to `each` keyslots, and that tokens share them if they shared a keyslot
/// before.
fn check_tokens(json: &Value, each: usize) {
    let tokens = json["tokens"].as_object().unwrap();
    // One records the length of the file.
    assert_eq!(tokens.len(), TOKENS + 1);
    let mut of_keyslots = vec![None; KEYSLOTS];
    for token in tokens.values().filter(|token| token["type"] == "mine") {
        let number = usize::try_from(token["number"].as_u64().unwrap()).unwrap();
        let keyslots = token["keyslots"].as_array().unwrap();
        assert_eq!(keyslots.len(), each, "{token}");
        let before = of_keyslots[number % KEYSLOTS].replace(keyslots);
        assert!(before.is_none_or(|before| before == keyslots), "{json:#}");
    }
    let keyslots = of_keyslots.into_iter().flatten().flatten();
    let mut keyslots: Vec<_> = keyslots
        .map(|keyslot| keyslot.as_str().unwrap())
        .inspect(|keyslot| assert_eq!(json["keyslots"][keyslot]["type"], "luks2", "{json:#}"))
        .collect();
    keyslots.sort_unstable();
    keyslots.dedup();
    assert_eq!(keyslots.len(), each * KEYSLOTS);
}

#[test]
fn many_keyslots_and_tokens_are_kept() {
    let folder = prepared(KEYSLOTS);
    run(&folder, "reencrypt --init-only --key-file key volume")
        .args(FAST)
        .ok();
    let json = metadata(&folder);
    // The old ones, the new ones, and the state.
    assert_eq!(
        json["keyslots"].as_object().unwrap().len(),
        2 * KEYSLOTS + 1
    );
    check_tokens(&json, 2);
    let volume = folder.join("volume");
    tool("cryptsetup", ["luksDump".as_ref(), volume.as_os_str()]);

    run(&folder, "reencrypt --key-file key volume").ok();
    let json = metadata(&folder);
    assert_eq!(json["keyslots"].as_object().unwrap().len(), KEYSLOTS);
    assert_eq!(json["digests"].as_object().unwrap().len(), 1);
    check_tokens(&json, 1);
    tool("cryptsetup", ["luksDump".as_ref(), volume.as_os_str()]);
    run(&folder, "decrypt --key-file key volume out").ok();
    let same = fs::read(folder.join("out")).unwrap() == bytes(64 << 10, 5);
    assert!(same);
}

/// There are 32 keyslots, and each needs a new one and the state another.
#[test]
fn too_many_keyslots_change_nothing() {
    for keyslots in [KEYSLOTS + 1, 17, 31] {
        let folder = prepared(keyslots);
        let before = fs::read(folder.join("volume")).unwrap();
        run(&folder, "reencrypt --key-file key volume")
            .args(FAST)
            .fails(1, "all 32 keyslots are in use");
        assert!(
            fs::read(folder.join("volume")).unwrap() == before,
            "{keyslots}"
        );
        // Fewer of them can be kept.
        run(&folder, "reencrypt --key-slot 0 --key-file key volume")
            .args(FAST)
            .run()
            .assert_code(if keyslots == 31 { 1 } else { 0 });
    }
}
