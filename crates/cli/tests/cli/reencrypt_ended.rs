// SPDX-License-Identifier: MIT OR Apache-2.0
//! `reencrypt` that is killed near its end, and then continued by `cryptsetup`, which begins again if the
//! metadata have no data left to change and no end. `crates/luxor/tests/reencrypt/cryptsetup.rs` hands all
//! other states to it.

use std::fs;

use super::reencrypt::{at, is_under_way};
use crate::support::{FAST, Folder, bytes, is_long, shell_without_terminal};

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
                let _ = run(&folder, "", &options);
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

/// The file is cut off after the end. What another program has written to its end meanwhile stays.
#[test]
fn a_file_that_is_longer_than_its_data_is_cut_off_only_if_it_is_unchanged() {
    let folder = Folder::new();
    folder.write("key", b"correct horse");
    folder.write("plain", bytes(LEN, 3));
    let make = "encrypt --luks2-keyslots-size 480K --key-file key plain v";
    at(&folder, make).args(FAST).ok();
    let made = fs::read(folder.join("v")).unwrap();
    let options = "--decrypt --header h";
    for (change, len) in [
        (":", LEN),
        ("printf x >> v", made.len() + 1),
        ("truncate --size -1 v && printf x >> v", made.len()),
    ] {
        folder.write("v", &made);
        let _ = fs::remove_file(folder.join("h"));
        let tracer = "strace -f -qq -o trace -P v -e trace=ftruncate \
                      -e inject=ftruncate:signal=KILL:when=1";
        assert_ne!(run(&folder, tracer, options), Some(0));
        assert!(!under_way(&folder, "--header h"));
        let now = || fs::read(folder.join("v")).unwrap();
        assert_eq!(now().len(), made.len());
        shell_without_terminal(change, folder.path()).assert_code(0);
        assert_eq!(run(&folder, "", options), Some(0));
        assert_eq!(now().len(), len, "{change}");
        assert!(now()[..LEN] == bytes(LEN, 3), "{change}");
        // It is done once.
        let again = format!("reencrypt {options} --key-file key v");
        at(&folder, &again).fails(1, "have been decrypted already");
        assert_eq!(now().len(), len, "{change}");
    }
}
