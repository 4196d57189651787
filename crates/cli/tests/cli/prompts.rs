// SPDX-License-Identifier: MIT OR Apache-2.0
//! What another program changes while a question waits for its answer must not be lost.

use std::{fs, iter};

use crate::support::{FAST, Folder, Luxor, answered, bytes, luxor};

fn run(folder: &Folder, line: &str) -> Luxor {
    luxor(line).current_dir(folder.path())
}

/// A folder with a volume of this type that the file `key` opens, and its `backup`.
fn prepared(kind: &str) -> Folder {
    let folder = Folder::new();
    folder.write("key", b"correct horse");
    folder.write("other", b"battery staple");
    folder.write("third", b"third");
    folder.write("plain", bytes(4096, 1));
    run(
        &folder,
        "encrypt --sector-size 512 --key-file key plain volume",
    )
    .args(["--type", kind])
    .args(FAST)
    .ok();
    run(&folder, "header backup volume backup").ok();
    folder
}

/// Commands that ask, and the answers.
const COMMANDS: [(&str, &[&str]); 5] = [
    ("header restore volume backup", &["YES\n"]),
    ("erase volume", &["YES\n"]),
    ("convert --type TYPE volume", &["YES\n"]),
    ("key remove volume", &["correct horse\n", "YES\n"]),
    (
        "key remove --key-slot 0 volume",
        &["correct horse\n", "YES\n"],
    ),
];

/// A key that was added meanwhile stays, and so do the others.
#[test]
fn a_key_that_is_added_while_a_question_waits_is_not_lost() {
    for (kind, other) in [("luks1", "luks2"), ("luks2", "luks1")] {
        for (command, answers) in COMMANDS {
            let folder = prepared(kind);
            if command.starts_with("key remove") {
                // Not the only key.
                run(
                    &folder,
                    "key add --key-file key --new-key-file third volume",
                )
                .args(FAST)
                .ok();
                if command.contains("--key-slot") {
                    // The answer must open another keyslot.
                    run(&folder, "key add --key-file key --new-key-file key volume")
                        .args(FAST)
                        .ok();
                }
            }
            let command = command.replace("TYPE", other);
            let mut after = Vec::new();
            let last = answers.len() - 1;
            let answers = answers.iter().enumerate().map(|(number, answer)| {
                if number == last {
                    run(
                        &folder,
                        "key add --key-file key --new-key-file other volume",
                    )
                    .args(FAST)
                    .ok();
                    after = fs::read(folder.join("volume")).unwrap();
                }
                *answer
            });
            let line = format!("\"$luxor\" {command}");
            let (code, screen) = answered(&line, answers, folder.path());
            run(&folder, "key test volume --key-file other").ok();
            if command.starts_with("key remove") {
                // The other keyslot does not forbid it.
                assert_eq!(code, 0, "{kind} {command}: {screen}");
                run(&folder, "key test volume --key-file third").ok();
                run(&folder, "key test --key-slot 0 --key-file key volume")
                    .fails(1, "there is no keyslot 0");
                continue;
            }
            assert_eq!(code, 5, "{kind} {command}: {screen}");
            assert!(screen.contains("changed"), "{kind} {command}: {screen}");
            let now = fs::read(folder.join("volume")).unwrap();
            assert!(now == after, "{kind} {command}: {screen}");
            run(&folder, "key test volume --key-file key").ok();
        }
    }
}

/// All of them derive their keys at the same time, and then change the header.
#[test]
fn keys_that_are_added_at_once_are_all_there() {
    for kind in ["luks1", "luks2"] {
        let folder = prepared(kind);
        let names: Vec<_> = (1..7).map(|number| format!("key{number}")).collect();
        let mut running = Vec::new();
        for name in &names {
            folder.write(name, name.as_bytes());
            let add = run(&folder, "key add volume --key-file key --new-key-file");
            running.push(add.arg(name).args(FAST).spawn());
        }
        for child in running {
            let outcome = child.wait_with_output().unwrap();
            assert!(outcome.status.success(), "{kind}: {outcome:?}");
        }
        for name in &names {
            run(&folder, "key test volume --key-file").arg(name).ok();
        }
    }
}

/// The old passphrase was checked for a keyslot that is another one now.
#[test]
fn a_keyslot_that_changes_while_a_question_waits_is_not_changed_again() {
    for kind in ["luks1", "luks2"] {
        let folder = prepared(kind);
        let mut number = 0;
        let answers = iter::from_fn(|| {
            number += 1;
            if number == 2 {
                let change = "key change --key-file key --new-key-file other volume";
                run(&folder, change).args(FAST).ok();
            }
            [
                "correct horse\n",
                "battery and staple\n",
                "battery and staple\n",
            ]
            .get(number - 1)
            .copied()
        });
        let line = format!("\"$luxor\" key change {} volume", FAST.join(" "));
        let (code, screen) = answered(&line, answers, folder.path());
        assert_eq!(code, 5, "{kind}: {screen}");
        assert!(screen.contains("in the meantime"), "{kind}: {screen}");
        run(&folder, "key test volume --key-file other").ok();
    }
}

/// A keyslot that was written over without a change of the header counts too.
#[test]
fn header_restore_notices_a_changed_keyslot() {
    let folder = prepared("luks2");
    let mut volume = fs::read(folder.join("volume")).unwrap();
    // The last byte of keyslot 0's stripes.
    volume[32768 + 255_999] ^= 1;
    let answers = iter::once_with(|| {
        folder.write("volume", &volume);
        "YES\n"
    });
    let line = "\"$luxor\" header restore volume backup";
    let (code, screen) = answered(line, answers, folder.path());
    assert_eq!(code, 5, "{screen}");
    assert!(
        screen.contains("has changed since it was checked"),
        "{screen}"
    );
    assert!(fs::read(folder.join("volume")).unwrap() == volume);
}

/// The backup that was checked is the one that is written.
#[test]
fn a_backup_that_changes_while_the_question_waits_is_not_used() {
    let folder = prepared("luks2");
    run(
        &folder,
        "key change --key-file key --new-key-file other volume",
    )
    .args(FAST)
    .ok();
    run(&folder, "encrypt --key-file third plain another")
        .args(FAST)
        .ok();
    run(&folder, "header backup another stranger").ok();
    let answers = iter::once_with(|| {
        // The same file with other bytes, and its path with another file.
        let stranger = fs::read(folder.join("stranger")).unwrap();
        let backup = folder.join("backup");
        let mut permissions = fs::metadata(&backup).unwrap().permissions();
        std::os::unix::fs::PermissionsExt::set_mode(&mut permissions, 0o600);
        fs::set_permissions(&backup, permissions).unwrap();
        fs::write(&backup, stranger).unwrap();
        fs::remove_file(&backup).unwrap();
        fs::copy(folder.join("stranger"), &backup).unwrap();
        "YES\n"
    });
    let line = "\"$luxor\" header restore volume backup";
    let (code, screen) = answered(line, answers, folder.path());
    assert_eq!(code, 0, "{screen}");
    run(&folder, "key test --key-file key volume").ok();
    run(&folder, "key test --key-file third volume")
        .run()
        .assert_code(2);
}

/// The question names how many bytes will be lost.
#[test]
fn data_that_are_added_while_the_question_waits_are_not_lost() {
    let folder = prepared("luks2");
    run(&folder, "format --size 1M --key-file key empty")
        .args(FAST)
        .ok();
    let path = folder.join("empty");
    let mut after = Vec::new();
    let answers = iter::once_with(|| {
        after = fs::read(&path).unwrap();
        after.extend(bytes(64 << 10, 2));
        folder.write("empty", &after);
        "YES\n"
    });
    let line = "\"$luxor\" reencrypt --device-size 512K --key-file key --pbkdf pbkdf2 \
                --pbkdf-force-iterations 1000 empty";
    let (code, screen) = answered(line, answers, folder.path());
    assert!(screen.contains("which are 524288 bytes"), "{screen}");
    assert_eq!(code, 1, "{screen}");
    let words = "589824 bytes of data come after the first 524288 now, and 524288 were to be lost";
    assert!(screen.contains(words), "{screen}");
    assert!(fs::read(&path).unwrap() == after);
}
