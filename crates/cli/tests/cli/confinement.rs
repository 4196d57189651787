// SPDX-License-Identifier: MIT OR Apache-2.0
//! Commands that read a volume are confined before they do, and `encrypt` before it reads a secret. How far a kernel allows that is tested with a
//! server (`tests/serve/confinement.rs`).

use std::{
    fs,
    os::unix::fs::{PermissionsExt, chown},
};

use nix::unistd::geteuid;

use crate::support::{FAST, Folder, Outcome, bytes, luxor};

/// A folder with a key, a file, and a volume that contains the file.
fn prepared() -> Folder {
    let folder = Folder::new();
    folder.write("key", b"correct horse");
    folder.write("plain", bytes(1_000_001, 1));
    luxor("encrypt --key-file key plain volume")
        .args(FAST)
        .current_dir(folder.path())
        .ok();
    folder
}

fn run(folder: &Folder, line: &str) -> Outcome {
    luxor(line)
        .env("LUXOR_TRIALS", "all")
        .current_dir(folder.path())
        .run()
}

/// Checks that the trials were refused, as far as the note says that they would be.
#[track_caller]
fn is_confined(outcome: &Outcome) {
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let said = &outcome.stderr;
    let has = |measure: &str| said.contains(&format!("{measure} yes"));
    assert!(has("confined: no_new_privs"), "{said}");
    let no_programs = has("Landlock") || has("seccomp");
    for (trial, is_refused) in [
        ("make", has("Landlock")),
        ("list", has("Landlock")),
        ("start", no_programs),
    ] {
        let line = format!("trial here {trial}: ");
        let outcome = said.split(&line).nth(1).unwrap_or_else(|| panic!("{said}"));
        assert_eq!(!outcome.starts_with("done"), is_refused, "{trial} {said}");
    }
}

#[test]
fn commands_for_files_are_confined() {
    let folder = prepared();
    for line in [
        "dump -v volume",
        "dump -v --json volume",
        "dump -v --volume-key --batch-mode --volume-key-file new --key-file key volume",
        "check -v --key-file key volume",
        "decrypt -v --key-file key volume back",
        "decrypt -v --key-file key volume -",
        "encrypt -v --key-file key --pbkdf-memory 32 --pbkdf-force-iterations 4 plain new-volume",
        "encrypt -v --key-file key --iter-time 1 --header new-header plain new-data",
        "encrypt -v --key-file key --pbkdf pbkdf2 --force plain new-data",
        "decrypt -v --key-file key new-volume back-too",
    ] {
        let outcome = run(&folder, line);
        is_confined(&outcome);
        assert!(outcome.stderr.contains("capabilities yes"), "{outcome:?}");
    }
    for name in ["back", "back-too"] {
        assert!(fs::read(folder.join(name)).unwrap() == bytes(1_000_001, 1));
    }
    let outcome = run(&folder, "dump -v --confine no volume");
    assert!(!outcome.stderr.contains("confined"), "{outcome:?}");
    assert!(!outcome.stderr.contains("trial"), "{outcome:?}");
}

/// Root needs capabilities for the files of other users, and gives up the others.
#[test]
fn root_reads_and_replaces_the_files_of_other_users() {
    let folder = prepared();
    let sticky = folder.join("sticky");
    fs::create_dir(&sticky).unwrap();
    fs::set_permissions(&sticky, fs::Permissions::from_mode(0o1777)).unwrap();
    folder.write("sticky/old", b"old");
    let theirs = folder.join("theirs");
    fs::create_dir(&theirs).unwrap();
    for name in ["key", "volume"] {
        let path = folder.join(name);
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
    }
    let is_root = geteuid().is_root();
    if is_root {
        let (user, group) = (Some(65534), Some(65534));
        for name in ["key", "volume", "theirs", "sticky", "sticky/old"] {
            chown(folder.join(name), user, group).unwrap();
        }
    }
    for (output, kept) in [
        ("sticky/old", "CAP_FOWNER is kept"),
        ("theirs/new", "CAP_DAC_OVERRIDE is kept"),
    ] {
        let line = format!("decrypt -v --force --key-file key volume {output}");
        let outcome = run(&folder, &line);
        is_confined(&outcome);
        assert_eq!(outcome.stderr.contains(kept), is_root, "{outcome:?}");
        assert!(fs::read(folder.join(output)).unwrap() == bytes(1_000_001, 1));
    }
}
