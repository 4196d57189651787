// SPDX-License-Identifier: MIT OR Apache-2.0
//! `key remove` on a terminal: what it asks, and what it destroys only with a yes.

use crate::support::{FAST, Folder, Luxor, luxor, terminal, terminal_shell};

fn run(folder: &Folder, line: &str) -> Luxor {
    luxor(line).current_dir(folder.path())
}

/// A volume with the passphrases `main` in keyslot 0, `second` in 1 and `third` in 2.
fn prepared() -> Folder {
    let folder = Folder::new();
    folder.write("plain", b"plain");
    for key in ["main", "second", "third"] {
        folder.write(key, key);
    }
    run(&folder, "encrypt --key-file main plain volume")
        .args(FAST)
        .ok();
    for key in ["second", "third"] {
        let add = "key add --key-file main volume --new-key-file";
        run(&folder, add).arg(key).args(FAST).ok();
    }
    folder
}

/// The passphrases that open the volume.
fn opening(folder: &Folder) -> Vec<&'static str> {
    let opens = |key: &&str| {
        let test = run(folder, "key test volume --key-file").arg(key).run();
        test.code == Some(0)
    };
    ["main", "second", "third"]
        .into_iter()
        .filter(opens)
        .collect()
}

#[test]
fn a_typed_passphrase_is_removed_only_after_a_yes() {
    let folder = prepared();
    let remove = |line: &str, answers: &[&str]| terminal(line, answers, folder.path());
    for answer in ["\n", "yes\n", "NO\n"] {
        let (code, screen) = remove("key remove volume", &["main\n", answer]);
        assert_eq!(code, 1, "{screen}");
        for words in [
            "Passphrase to remove from volume: ",
            "Keyslot 0 of volume will be destroyed",
            "2 other keyslots open the volume.",
            "nothing was done",
        ] {
            assert!(screen.contains(words), "{words}: {screen}");
        }
        assert_eq!(opening(&folder), ["main", "second", "third"]);
    }
    let (code, screen) = remove("key remove volume", &["wrong\n", "second\n", "YES\n"]);
    assert_eq!(code, 0, "{screen}");
    assert!(screen.contains("Keyslot 1 of volume"), "{screen}");
    assert!(screen.contains("keyslot 1 removed"), "{screen}");
    assert_eq!(opening(&folder), ["main", "third"]);

    // With a number, the passphrase is another one.
    let line = "key remove --key-slot 2 volume";
    let (code, screen) = remove(line, &["main\n", "NO\n"]);
    assert_eq!(code, 1, "{screen}");
    for words in [
        "Passphrase for another keyslot of volume: ",
        "Keyslot 2 of volume will be destroyed",
        "1 other keyslot opens the volume.",
    ] {
        assert!(screen.contains(words), "{words}: {screen}");
    }
    assert_eq!(opening(&folder), ["main", "third"]);
    let (code, screen) = remove(line, &["main\n", "YES\n"]);
    assert_eq!(code, 0, "{screen}");
    assert_eq!(opening(&folder), ["main"]);

    let (code, screen) = remove("key remove --last volume", &["main\n", "NO\n"]);
    assert_eq!(code, 1, "{screen}");
    assert!(
        screen.contains("No other keyslot opens the volume"),
        "{screen}"
    );
    let (code, screen) = remove("key remove --last --key-slot 0 volume", &["main\n", "NO\n"]);
    assert_eq!(code, 1, "{screen}");
    assert!(
        screen.contains("Passphrase for keyslot 0 of volume: "),
        "{screen}"
    );
    assert_eq!(opening(&folder), ["main"]);
}

/// Scripts that name the key, and lines of cryptsetup, run as before on a terminal too.
#[test]
fn a_key_that_is_not_typed_is_removed_without_a_question() {
    for (line, typed) in [
        ("key remove --key-file second volume", ""),
        ("key remove --key-slot 1 --force volume", ""),
        ("key remove --key-slot 1 --key-file main volume", ""),
        ("key remove --passphrase-fd 0 volume < second", ""),
        ("key remove --batch-mode volume", "second\n"),
        ("luksRemoveKey volume", "second\n"),
        ("luksRemoveKey volume second", ""),
        ("luksKillSlot volume 1", "main\n"),
        ("luksKillSlot --batch-mode volume 1", ""),
    ] {
        let folder = prepared();
        let answers: &[_] = if typed.is_empty() { &[] } else { &[typed] };
        let line = format!("\"$luxor\" {line}");
        let (code, screen) = terminal_shell(&line, answers, folder.path());
        assert_eq!(code, 0, "{line}: {screen}");
        assert!(!screen.contains("YES"), "{line}: {screen}");
        assert_eq!(opening(&folder), ["main", "third"], "{line}");
    }
}
