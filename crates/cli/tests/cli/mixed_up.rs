// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files that a user names for what they are not: the header of another volume, a header in place of the
//! data, a volume in place of data. No command changes them.

use std::fs;

use super::serve::Server;
use crate::support::{FAST, Folder, Luxor, bytes, luxor};

const LEN: usize = 1 << 20;

fn at(folder: &Folder, line: &str) -> Luxor {
    luxor(line).current_dir(folder.path())
}

/// A folder with the volume `v`, the volume `data` with the detached header `h`, and plain data.
fn files() -> Folder {
    let folder = Folder::new();
    folder.write("key", b"correct horse");
    folder.write("plain", bytes(LEN, 5));
    for line in ["encrypt plain v", "encrypt --header h plain data"] {
        at(&folder, &format!("{line} --key-file key"))
            .args(FAST)
            .ok();
    }
    folder
}

/// Checks that the command fails, and leaves all files as they are.
fn refuses(folder: &Folder, line: &str, words: &str) -> String {
    let all = || ["v", "h", "data", "plain"].map(|name| fs::read(folder.join(name)).unwrap());
    let before = all();
    let fast: &[&str] = if line.starts_with("reencrypt") {
        &FAST
    } else {
        &[]
    };
    let outcome = at(folder, &format!("{line} --key-file key"))
        .args(fast)
        .run();
    assert!(outcome.code.is_some_and(|code| code > 0), "{outcome:?}");
    assert!(outcome.stderr.contains(words), "{outcome:?}");
    assert!(before == all(), "{line}");
    outcome.stderr
}

#[test]
fn data_are_not_encrypted_with_the_header_of_another_volume() {
    let folder = files();
    let told = refuses(&folder, "reencrypt --encrypt --header h plain", "exists");
    assert!(!told.contains("luxor reencrypt"), "{told}");
    // With a header whose encryption has begun, the advised command continues it.
    at(
        &folder,
        "reencrypt --encrypt --init-only --header new plain --key-file key",
    )
    .args(FAST)
    .ok();
    let told = refuses(&folder, "reencrypt --encrypt --header new plain", "exists");
    let advised = "luxor reencrypt --resume-only --header new plain";
    assert!(told.contains(advised), "{told}");
    at(
        &folder,
        "reencrypt --resume-only --header new plain --key-file key",
    )
    .ok();
    at(&folder, "decrypt --header new plain out --key-file key").ok();
    assert!(fs::read(folder.join("out")).unwrap() == bytes(LEN, 5));
}

#[test]
fn a_detached_header_is_not_decrypted_as_if_it_had_the_data() {
    let folder = files();
    let line = "reencrypt --decrypt --header new h";
    refuses(&folder, line, "is a detached header");
    assert!(!folder.join("new").exists());
}

#[test]
fn a_volume_is_not_taken_for_the_data_of_a_detached_header() {
    let folder = files();
    for line in ["serve --socket s --header h v", "mount --header h v folder"] {
        fs::create_dir_all(folder.join("folder")).unwrap();
        refuses(&folder, line, "is a LUKS volume of its own");
    }
    let words = "is a LUKS volume of its own";
    for size in ["64K", "8M"] {
        let line = format!("resize --batch-mode --shrink --size {size} --header h v");
        let before = fs::read(folder.join("v")).unwrap();
        let outcome = at(&folder, &line.replace("--batch-mode ", "")).run();
        assert!(
            outcome.code == Some(1) && outcome.stderr.contains(words),
            "{outcome:?}"
        );
        assert!(fs::read(folder.join("v")).unwrap() == before);
    }
    // A copy of its own header is one.
    at(&folder, "header backup v copy").ok();
    at(&folder, "resize --size 2M --header copy v").ok();
}

#[test]
fn a_healthy_volume_is_not_said_to_be_interrupted() {
    let folder = files();
    let line = "reencrypt --encrypt --header new v";
    let told = refuses(&folder, line, "it is a LUKS volume already");
    assert!(!told.contains("luxor reencrypt"), "{told}");
}

#[test]
fn the_other_version_of_luks_is_no_damage() {
    let folder = files();
    for line in ["dump --type luks1 v", "check --type luks1 v"] {
        let outcome = at(&folder, line).run();
        assert!(
            outcome.code == Some(1) && outcome.stderr.contains("it is a LUKS2 volume, not LUKS1"),
            "{outcome:?}"
        );
        assert!(!outcome.stderr.contains("repair"), "{outcome:?}");
    }
}

#[test]
fn serving_a_file_with_a_signature_as_a_plain_volume_is_a_warning() {
    let folder = files();
    folder.write("key32", bytes(32, 7));
    let line = "serve --type plain --key-file key32 --socket";
    let server = Server::spawn(at(&folder, &format!("{line} s1 plain")));
    assert!(server.warnings.is_empty(), "{:?}", server.warnings);
    server.stop();
    let server = Server::spawn(at(&folder, &format!("{line} s2 v")));
    let words = "luxor: warning: v has a LUKS volume (signature at byte 0)";
    assert!(
        server.warnings[0].starts_with(words),
        "{:?}",
        server.warnings
    );
    server.stop();
    let server = Server::spawn(at(&folder, &format!("{line} s3 --read-only v")));
    assert!(server.warnings.is_empty(), "{:?}", server.warnings);
}
