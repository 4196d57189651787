// SPDX-License-Identifier: MIT OR Apache-2.0
//! Volume keys of the wrong length. The digest of a volume confirms its key with zeros behind it too,
//! so every command must compare the length.

use std::fs;

use serde_json::{Value, json};

use crate::support::{FAST, Folder, Luxor, luxor, tool, with_metadata};

fn run(folder: &Folder, line: &str) -> Luxor {
    luxor(line).current_dir(folder.path())
}

/// A folder with a volume `volume` of this type, with a key of 256 bits. `vk` is its key, and
/// `longer` the same with 32 zeros behind it.
fn prepared(kind: &str) -> Folder {
    let folder = Folder::new();
    folder.write("key", b"correct horse");
    folder.write("other", b"battery staple");
    folder.write("plain", vec![b'p'; 8192]);
    run(
        &folder,
        "encrypt --key-size 256 --key-file key plain volume",
    )
    .args(["--type", kind])
    .args(FAST)
    .ok();
    run(
        &folder,
        "dump --batch-mode --volume-key --volume-key-file vk --key-file key volume",
    )
    .ok();
    let key = fs::read(folder.join("vk")).unwrap();
    assert_eq!(key.len(), 32);
    folder.write("longer", [&key[..], &[0; 32]].concat());
    folder
}

const COMMANDS: [&str; 8] = [
    "decrypt --volume-key-file FILE volume out",
    "decrypt --volume-key-file FILE --header backup volume out",
    "decrypt --volume-key-file FILE volume -",
    "check --volume-key-file FILE volume",
    "key add --volume-key-file FILE --new-key-file other volume",
    "serve --volume-key-file FILE --socket socket volume",
    "serve --volume-key-file FILE --read-only --socket socket volume",
    "mount --volume-key-file FILE volume folder",
];

#[test]
fn a_volume_key_of_another_length_opens_nothing() {
    for kind in ["luks1", "luks2"] {
        let folder = prepared(kind);
        fs::create_dir(folder.join("folder")).unwrap();
        run(&folder, "header backup volume backup").ok();
        let before = fs::read(folder.join("volume")).unwrap();
        let key = fs::read(folder.join("longer")).unwrap();
        let names = folder.names();
        for len in [0, 16, 31, 33, 48, 64, 4096] {
            let mut key = key.clone();
            key.resize(len, 0);
            folder.write("wrong", key);
            for command in COMMANDS {
                let line = command.replace("FILE", "wrong");
                let outcome = run(&folder, &line).run();
                assert_eq!(outcome.code, Some(2), "{kind} {line}: {outcome:#?}");
                let words = format!("it has {len} bytes, not 32");
                assert!(outcome.stderr.contains(&words), "{line}: {outcome:#?}");
                // `check` prints what it finds.
                assert!(
                    outcome.stdout.is_empty() || line.starts_with("check"),
                    "{line}"
                );
            }
            fs::remove_file(folder.join("wrong")).unwrap();
        }
        assert_eq!(folder.names(), names);
        assert!(fs::read(folder.join("volume")).unwrap() == before);

        run(&folder, "decrypt --volume-key-file vk volume out").ok();
        assert_eq!(fs::read(folder.join("out")).unwrap(), [b'p'; 8192]);
    }
}

/// A keyslot that holds the key with zeros behind it and belongs to the digest of the volume key.
/// cryptsetup 2.6.1 makes it, because that digest confirms the key. It opens nothing, and the other keyslots
/// open the volume.
#[test]
fn a_keyslot_with_zeros_behind_the_key_opens_nothing() {
    let folder = prepared("luks2");
    run(&folder, "header backup volume backup").ok();
    let line = "luksAddKey -q --unbound --key-slot 1 --key-size 512 --volume-key-file longer \
                --pbkdf pbkdf2 --pbkdf-force-iterations 1000 volume other";
    let shell = format!("cd '{}' && exec cryptsetup {line}", folder.path().display());
    tool("sh", ["-c", &shell]);
    let volume = with_metadata(&fs::read(folder.join("volume")).unwrap(), |text| {
        let mut json: Value = serde_json::from_str(text).unwrap();
        // Versions of cryptsetup that compare the length make a digest of its own for the key.
        let digests = json["digests"].as_object_mut().unwrap();
        digests.retain(|number, _| number == "0");
        json["digests"]["0"]["keyslots"] = json!(["0", "1"]);
        json.to_string()
    });
    folder.write("volume", volume);
    let words = "keyslot 0 states 32 bytes, and keyslot 1 states 64";
    for line in [
        "decrypt --key-file other volume out",
        "decrypt --volume-key-file longer volume out",
        "check --key-file other volume",
        "dump --batch-mode --volume-key --volume-key-file out --key-file other volume",
        "key test --key-file other volume",
        "key test --key-slot 1 --key-file other volume",
        "key add --key-file other --new-key-file plain volume",
        "key change --key-file other --new-key-file plain volume",
        "key convert --pbkdf pbkdf2 --key-file other volume",
        "key remove --key-file other volume",
        "reencrypt --key-file other volume",
        "reencrypt --decrypt --header new --key-file other volume",
        "serve --key-file other --socket socket volume",
    ] {
        let outcome = run(&folder, line).run();
        assert_eq!(outcome.code, Some(2), "{line}: {outcome:#?}");
        assert!(!folder.join("out").exists(), "{line}");
    }
    let outcome = run(&folder, "check volume").run();
    outcome.assert_code(1);
    assert!(outcome.stderr.contains(words), "{outcome:#?}");
    for key in [
        "--key-file key",
        "--key-slot 0 --key-file key",
        "--volume-key-file vk",
    ] {
        run(&folder, &format!("decrypt {key} volume out")).ok();
        assert_eq!(fs::read(folder.join("out")).unwrap(), [b'p'; 8192]);
        fs::remove_file(folder.join("out")).unwrap();
    }
    // The metadata are still shown.
    run(&folder, "dump volume").ok();
    run(&folder, "key list volume").ok();

    // Its backup is not restored over the volume that it was made from.
    run(&folder, "header backup volume hostile").ok();
    fs::copy(folder.join("volume"), folder.join("copy")).unwrap();
    run(&folder, "header restore --batch-mode --force copy backup").ok();
    run(&folder, "header restore --batch-mode copy hostile").fails(1, words);
    run(&folder, "decrypt --key-file key copy out").ok();
    fs::remove_file(folder.join("out")).unwrap();

    // The hostile keyslot can be removed by its number.
    run(&folder, "key remove --key-slot 1 --force volume").ok();
    run(&folder, "decrypt --key-file key volume out").ok();
    assert_eq!(fs::read(folder.join("out")).unwrap(), [b'p'; 8192]);
}

/// Without a keyslot nothing in the metadata states the length.
#[test]
fn without_keyslots_a_volume_key_with_zeros_behind_it_is_refused() {
    for (kind, words) in [
        ("luks1", "it has 64 bytes, not 32"),
        ("luks2", "this one of 64 bytes ends with zeros"),
    ] {
        let folder = prepared(kind);
        run(&folder, "erase --batch-mode volume").ok();
        for line in [
            "decrypt --volume-key-file longer volume out",
            "key add --volume-key-file longer --new-key-file other volume",
        ] {
            run(&folder, line).fails(2, words);
        }
        run(
            &folder,
            "key add --volume-key-file vk --new-key-file other volume",
        )
        .args(FAST)
        .ok();
        run(&folder, "decrypt --key-file other volume out").ok();
        assert_eq!(fs::read(folder.join("out")).unwrap(), [b'p'; 8192]);
    }
}
