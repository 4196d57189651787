// SPDX-License-Identifier: MIT OR Apache-2.0
//! `reencrypt` that is killed near its end, and then continued by `cryptsetup`, which begins again if the
//! metadata have no data left to change and no end. `crates/luxor/tests/reencrypt/cryptsetup.rs` hands all
//! other states to it.

use std::fs;

use super::reencrypt::{at, is_under_way};
use crate::support::{FAST, Folder, Outcome, bytes, is_long, shell_without_terminal};

const LEN: usize = 1 << 20;

/// The command that makes the volume, and the options of `reencrypt`, of which cryptsetup gets the last ones.
const WAYS: [(&str, &str, &str); 3] = [
    ("encrypt", "", ""),
    ("encrypt --header h", "--decrypt", "--header h"),
    (
        "encrypt --luks2-keyslots-size 480K",
        "--decrypt",
        "--header h",
    ),
];

fn run(folder: &Folder, tracer: &str, options: &str) -> Option<i32> {
    let fast = FAST.join(" ");
    let line = format!(
        "{tracer} \"$luxor\" reencrypt --threads 1 --hotzone-size 512K --key-file key {options} {fast} v"
    );
    shell_without_terminal(&line, folder.path()).code
}

#[test]
fn cryptsetup_keeps_the_data_after_a_kill_near_the_end() {
    for (make, begin, header) in WAYS {
        let folder = Folder::new();
        folder.write("key", b"correct horse");
        folder.write("plain", bytes(LEN, 3));
        at(&folder, &format!("{make} --key-file key plain v"))
            .args(FAST)
            .ok();
        let files = ["v", "h"].map(|name| (name, fs::read(folder.join(name)).ok()));
        let restore = || {
            for (name, bytes) in &files {
                match bytes {
                    Some(bytes) => drop(folder.write(name, bytes)),
                    None => drop(fs::remove_file(folder.join(name))),
                }
            }
        };
        let options = format!("{begin} {header}");
        let trace = "strace -f -qq -o trace -e trace=fsync,fdatasync";
        assert_eq!(run(&folder, trace, &options), Some(0));
        let trace = fs::read_to_string(folder.join("trace")).unwrap();
        let syncs = trace.matches("sync(").count();
        let first = if is_long() {
            1
        } else {
            syncs.saturating_sub(11)
        };
        let (mut continued, mut ended) = (0, 0);
        for kill in first..=syncs {
            restore();
            let tracer = format!(
                "strace -f -qq -o trace -e trace=fsync,fdatasync \
                 -e inject=fsync,fdatasync:signal=KILL:when={kill}"
            );
            if run(&folder, &tracer, &options) == Some(0) {
                // strace counts the calls of each thread.
                break;
            }
            let is_there = header.is_empty() || folder.join("h").exists();
            let was_under_way = is_there && under_way(&folder, header);
            let line = format!(
                "cryptsetup repair -q --key-file key {header} v; \
                 cryptsetup reencrypt -q --resume-only --force-offline-reencrypt --key-file key {header} v"
            );
            let outcome = shell_without_terminal(&line, folder.path());
            continued += usize::from(was_under_way);
            ended += usize::from(is_there && !was_under_way);
            if was_under_way {
                assert!(!under_way(&folder, header), "sync {kill}: {outcome:?}");
            } else if !begin.is_empty() {
                // Nothing has begun, or the file is still to be cut off, or all is done.
                let ended = again(&folder, &options);
                if let Some(command) = cut_off(&ended.stderr) {
                    shell_without_terminal(&command, folder.path()).assert_code(0);
                }
                let len = fs::metadata(folder.join("v")).unwrap().len();
                assert_eq!(len, LEN as u64, "{options}, sync {kill}");
            }
            let found = if begin.is_empty() {
                at(&folder, "decrypt --force --key-file key v out").ok();
                fs::read(folder.join("out")).unwrap()
            } else {
                fs::read(folder.join("v")).unwrap()
            };
            assert!(found[..LEN] == bytes(LEN, 3), "{options}, sync {kill}");
        }
        eprintln!("{options}: {continued} continued by cryptsetup, {ended} had ended");
        assert!(continued > 1 && ended > 1, "{continued} {ended}");
    }
}

fn under_way(folder: &Folder, header: &str) -> bool {
    if header.is_empty() {
        return is_under_way(folder);
    }
    let dump = at(folder, "dump --json h").ok();
    dump.text().contains("online-reencrypt")
}

fn again(folder: &Folder, options: &str) -> Outcome {
    let fast = FAST.join(" ");
    at(
        folder,
        &format!("reencrypt --key-file key {options} {fast} v"),
    )
    .run()
}

fn assert_refused(outcome: &Outcome, words: &str) {
    outcome.assert_code(1);
    assert!(outcome.stderr.contains(words), "{outcome:#?}");
}

/// Returns the command that cuts off the file where a message says that its data end.
pub fn cut_off(message: &str) -> Option<String> {
    // No key authenticates the length.
    assert!(!message.contains("truncate"), "{message}");
    let (_, end) = message.split_once("the data end at byte ")?;
    let end = end.split(',').next()?;
    Some(format!("truncate --size {end} v"))
}

/// The file is cut off after the end. Anyone who can write the header can write where, so after a kill it is
/// the user who cuts it off.
#[test]
fn no_file_is_cut_off_because_of_its_header() {
    let folder = Folder::new();
    folder.write("key", b"correct horse");
    folder.write("plain", bytes(LEN, 3));
    let make = "encrypt --luks2-keyslots-size 480K --key-file key plain v";
    at(&folder, make).args(FAST).ok();
    let len = || fs::metadata(folder.join("v")).unwrap().len();
    let made = len();
    let options = "--decrypt --header h";
    let tracer = "strace -f -qq -o trace -P v -e trace=ftruncate \
                  -e inject=ftruncate:signal=KILL:when=1";
    assert_ne!(run(&folder, tracer, options), Some(0));
    assert!(!under_way(&folder, "--header h"));
    for options in [
        options,
        "--header h",
        "--header h --resume-only",
        "--header h --init-only",
    ] {
        let outcome = again(&folder, options);
        assert_refused(&outcome, "the data end at byte 1048576");
        let command = cut_off(&outcome.stderr).unwrap();
        assert_eq!(command, "truncate --size 1048576 v");
        assert_eq!(len(), made);
    }
    shell_without_terminal("truncate --size 1048576 v", folder.path()).assert_code(0);
    assert_eq!(run(&folder, "", options), Some(0));
    assert!(fs::read(folder.join("v")).unwrap() == bytes(LEN, 3));
    // It is done once.
    assert_refused(&again(&folder, options), "have been decrypted already");

    // A header with such a token of another program.
    folder.write("token", br#"{"type":"luxor-tail","keyslots":[],"end":0}"#);
    let import = "cryptsetup token import --json-file token h";
    shell_without_terminal(import, folder.path()).assert_code(0);
    let outcome = again(&folder, options);
    assert_refused(&outcome, "the data end at byte 0");
    cut_off(&outcome.stderr).unwrap();
    assert_eq!(len(), LEN as u64);
}

/// A copy of the header of a file that was decrypted says how long that file was.
#[test]
fn no_message_has_a_command_that_shortens_another_file() {
    let folder = Folder::new();
    folder.write("key", b"correct horse");
    folder.write("plain", bytes(9000, 3));
    at(&folder, "encrypt --key-file key plain v")
        .args(FAST)
        .ok();
    let options = "--decrypt --header h";
    assert_eq!(run(&folder, "", options), Some(0));
    folder.write("v", bytes(12_000, 4));
    let outcome = again(&folder, options);
    assert_refused(&outcome, "the file has 9000 bytes");
    assert!(
        outcome.stderr.contains("v may be another file"),
        "{outcome:#?}"
    );
    assert!(!outcome.stderr.contains("truncate"), "{outcome:#?}");
}

/// cryptsetup stores checksums of 4096 bytes each, and none of a shorter rest of a zone. If it was killed
/// within such a zone, that rest is old or new, and nothing says which.
#[test]
fn a_rest_without_a_checksum_is_not_taken_for_done() {
    let (mut refused, mut continued) = (0, 0);
    for (len, sector) in [(5120, 1024), (6144, 2048), (4608, 512), (8192, 1024)] {
        for kill in 4..=9 {
            let folder = Folder::new();
            folder.write("key", b"correct horse");
            folder.write("plain", bytes(len, 5));
            let make = format!("encrypt --sector-size {sector} --luks2-keyslots-size 1M");
            at(&folder, &format!("{make} --key-file key plain v"))
                .args(FAST)
                .ok();
            let line = format!(
                "strace -f -qq -o trace -e inject=fsync,fdatasync:signal=KILL:when={kill} \
                 cryptsetup reencrypt -q --key-file key --pbkdf pbkdf2 \
                 --pbkdf-force-iterations 1000 --force-offline-reencrypt v"
            );
            let _ = shell_without_terminal(&line, folder.path());
            let before = fs::read(folder.join("v")).unwrap();
            let outcome = again(&folder, "");
            if outcome.code == Some(0) {
                at(&folder, "decrypt --key-file key v out").ok();
                let out = fs::read(folder.join("out")).unwrap();
                assert!(out == bytes(len, 5), "{len} {sector} {kill}");
                continued += 1;
            } else {
                assert_refused(&outcome, "the checksum does not show");
                let data = before.len() - len;
                let now = fs::read(folder.join("v")).unwrap();
                let rest = data + len / 4096 * 4096;
                assert!(now[rest..] == before[rest..], "{len} {sector} {kill}");
                refused += 1;
            }
        }
    }
    eprintln!("{refused} refused, {continued} continued");
    assert!(refused > 0 && continued > 0, "{refused} {continued}");
}

/// A command that is killed while it writes the header in front of the data: each message names the command
/// that continues it, which leads to the same volume.
#[test]
fn an_encryption_that_is_killed_at_its_begin_names_what_continues_it() {
    let make = |folder: &Folder| {
        let plain = bytes(1 << 20, 5);
        folder.write("key", b"correct horse");
        folder.write("other", b"another");
        folder.write("v", [plain.clone(), vec![0; 63 << 20]].concat());
        plain
    };
    let (mut only_encrypt, mut any) = (0, 0);
    for kill in 1..10 {
        let folder = Folder::new();
        let plain = make(&folder);
        let tracer = format!(
            "strace -f -qq -o trace -e trace=fdatasync -e inject=fdatasync:signal=KILL:when={kill}"
        );
        let line = "--encrypt --reduce-device-size 32M";
        assert_ne!(run(&folder, &tracer, line), Some(0));
        let killed = fs::read(folder.join("v")).unwrap();
        let mut advised = Vec::new();
        for line in [
            "dump v",
            "check v",
            "check --key-file key v",
            "decrypt --key-file key v -",
            "reencrypt --key-file key v",
            "reencrypt --decrypt --header new --key-file key v",
            "serve --key-file key --socket s v",
            "serve --read-only --key-file key --socket s v",
            "key add --key-file key --new-key-file other v",
            "header repair v",
        ] {
            // A server that starts would not end.
            let tracer = "timeout --signal=INT 2";
            let outcome = at(&folder, line).args(["-q"]).under(tracer).run();
            fs::write(folder.join("v"), &killed).unwrap();
            let continued = outcome
                .stderr
                .split('`')
                .find(|span| span.starts_with("luxor reencrypt "));
            if let Some(command) = continued {
                advised.push(command.to_owned());
            }
            // Neither a wrong key nor a backup is the matter once the header is begun.
            if killed.starts_with(b"LUKS") {
                let is_wrong = ["no keyslot accepts", "header restore"];
                let is_wrong = is_wrong.iter().any(|words| outcome.stderr.contains(words));
                assert!(!is_wrong, "{kill}: {outcome:#?}");
                let names = continued.is_some() || outcome.code == Some(0);
                assert!(names || outcome.code == Some(124), "{kill}: {outcome:#?}");
            }
        }
        if advised.is_empty() {
            continue;
        }
        only_encrypt += usize::from(advised.iter().all(|command| command.contains("--encrypt")));
        any += 1;
        advised.sort_unstable();
        advised.dedup();
        for command in advised {
            fs::write(folder.join("v"), &killed).unwrap();
            let line = command.strip_prefix("luxor ").unwrap();
            at(&folder, &format!("{line} --key-file key"))
                .args(FAST)
                .ok();
            at(&folder, "decrypt --force --key-file key v out").ok();
            let out = fs::read(folder.join("out")).unwrap();
            assert!(out.starts_with(&plain), "{kill}: {command}");
        }
    }
    assert!(
        only_encrypt > 0 && any > only_encrypt,
        "{only_encrypt} of {any}"
    );
}
