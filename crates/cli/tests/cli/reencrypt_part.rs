// SPDX-License-Identifier: MIT OR Apache-2.0
//! `reencrypt --device-size`: only the first part of the data changes. Luxor and cryptsetup take turns.

use std::fs;

use serde_json::Value;

use crate::{
    reencrypt::interrupt_within_zones,
    support::{FAST, Folder, Luxor, bytes, luxor, shell_without_terminal, terminal_shell},
};

const LEN: usize = 3 << 20;
const PART: usize = 2 << 20;
const SIZE: &str = "--device-size 2M";

struct Mode {
    /// The options that begin it, and those that cryptsetup gets in addition.
    begin: &'static str,
    theirs: &'static str,
    /// The options that continue it.
    go_on: &'static str,
    /// The command that makes the volume. None: the data are plain.
    volume: Option<&'static str>,
    /// Where the data begin and will begin.
    offsets: [usize; 2],
}

impl Mode {
    fn moves(&self) -> bool {
        self.offsets[0] != self.offsets[1]
    }
}

const MODES: [Mode; 4] = [
    Mode {
        begin: "",
        theirs: "",
        go_on: "",
        volume: Some("encrypt --luks2-keyslots-size 992K plain v"),
        offsets: [1 << 20; 2],
    },
    Mode {
        begin: "--encrypt --header h",
        theirs: "--type luks2",
        go_on: "--header h",
        volume: None,
        offsets: [0; 2],
    },
    Mode {
        begin: "--decrypt --header h",
        theirs: "",
        go_on: "--header h",
        volume: Some("encrypt --header h plain v"),
        offsets: [0; 2],
    },
    Mode {
        begin: "--decrypt --header h",
        theirs: "",
        go_on: "--header h",
        volume: Some("encrypt --luks2-keyslots-size 992K plain v"),
        offsets: [1 << 20, 0],
    },
];

fn at(folder: &Folder, line: &str) -> Luxor {
    luxor(line).current_dir(folder.path())
}

fn with(volume: Option<&str>) -> Folder {
    let folder = Folder::new();
    folder.write("key", b"correct horse");
    folder.write("plain", bytes(LEN, 3));
    match volume {
        Some(line) => {
            at(&folder, &format!("{line} --key-file key"))
                .args(FAST)
                .ok();
            // Only empty volumes may end anywhere.
            let header = if folder.join("h").exists() { "h" } else { "v" };
            let line = format!("token remove --force --token-id 0 {header}");
            at(&folder, &line).ok();
        }
        None => {
            folder.write("v", bytes(LEN, 3));
        }
    }
    folder
}

fn ours(options: &str) -> String {
    let luxor = env!("CARGO_BIN_EXE_luxor");
    format!("'{luxor}' reencrypt --key-file key {options} v")
}

fn theirs(options: &str) -> String {
    let fast = FAST.join(" ");
    format!("cryptsetup reencrypt -q --force-offline-reencrypt --key-file key {fast} {options} v")
}

fn segments(folder: &Folder, mode: &Mode) -> Vec<Value> {
    let header = if mode.go_on.is_empty() { "v" } else { "h" };
    let dump = at(folder, &format!("dump --json {header}")).ok();
    let metadata: Value = serde_json::from_str(dump.text()).unwrap();
    let segments = metadata["segments"].as_object().unwrap();
    segments.values().cloned().collect()
}

/// Begins, and ends by a signal within the part.
fn begin(folder: &Folder, mode: &Mode, is_theirs: bool) {
    let options = format!("--hotzone-size 64K {SIZE} {}", mode.begin);
    if is_theirs {
        let line = format!(
            "strace -f -qq -o /dev/null -e trace=fsync,fdatasync \
             -e inject=fsync,fdatasync:signal=INT:when={} {}",
            if mode.moves() { 9 } else { 26 },
            theirs(&format!("{options} {}", mode.theirs))
        );
        shell_without_terminal(&line, folder.path());
    } else {
        let line = format!("reencrypt --key-file key --batch-mode {options} v");
        let metadata = if mode.go_on.is_empty() { "v" } else { "h" };
        interrupt_within_zones(at(folder, &line).args(FAST), &folder.join(metadata));
    }
    assert!(
        segments(folder, mode).len() > 3,
        "{} {is_theirs}",
        mode.begin
    );
}

#[test]
fn either_program_does_the_first_part_of_the_data() {
    for mode in &MODES {
        for (theirs_begins, end) in [
            (true, ours(mode.go_on)),
            (true, ours(&format!("{} {SIZE}", mode.go_on))),
            (false, theirs(&format!("{} {SIZE}", mode.go_on))),
            (false, ours(mode.go_on)),
        ] {
            let name = format!("{} {theirs_begins} {end}", mode.begin);
            let folder = with(mode.volume);
            let before = fs::read(folder.join("v")).unwrap();
            begin(&folder, mode, theirs_begins);
            let other = ours(&format!("{} --batch-mode --device-size 1M", mode.go_on));
            let other = shell_without_terminal(&other, folder.path());
            other.assert_code(1);
            let outcome = shell_without_terminal(&end, folder.path());
            outcome.assert_code(0);
            let is_said = outcome.stderr.contains("the other 1048576 are lost");
            assert_eq!(
                is_said,
                !end.contains(SIZE) && !mode.moves(),
                "{name}: {outcome:#?}"
            );

            let [last] = &segments(&folder, mode)[..] else {
                panic!("{name}");
            };
            assert_eq!(last["size"], "dynamic", "{name}");
            let after = fs::read(folder.join("v")).unwrap();
            assert_eq!(after.len(), before.len(), "{name}");
            let [from, to] = mode.offsets;
            let rest = from.max(to) + PART;
            // cryptsetup overwrites what is left of data that it moves.
            let is_overwritten = mode.moves() && end.starts_with("cryptsetup");
            assert!(is_overwritten || after[rest..] == before[rest..], "{name}");
            let part = &bytes(LEN, 3)[..PART];
            if mode.begin.contains("--decrypt") {
                assert!(after[..PART] == *part, "{name}");
                let again = ours(&format!("{} --batch-mode {SIZE}", mode.go_on));
                let again = shell_without_terminal(&again, folder.path());
                again.assert_code(1);
                let words = "nothing is left to do";
                assert!(again.stderr.contains(words), "{name}: {again:#?}");
            } else {
                assert!(after[to..][..PART] != before[from..][..PART], "{name}");
                let line = format!("decrypt --key-file key {} v out", mode.go_on);
                at(&folder, &line).ok();
                let out = fs::read(folder.join("out")).unwrap();
                assert!(out[..PART] == *part, "{name}");
                assert!(out[PART..] != bytes(LEN, 3)[PART..], "{name}");
            }
        }
    }
}

#[test]
fn a_part_that_does_not_fit_is_refused() {
    let folder = with(None);
    at(&folder, "encrypt --key-file key plain w")
        .args(FAST)
        .ok();
    let fast = FAST.join(" ");
    let line = format!("\"$luxor\" encrypt --key-file key {fast} - - < plain > t");
    shell_without_terminal(&line, folder.path()).assert_code(0);
    let refused = |options: &str, file: &str, words: &str| {
        let before = fs::read(folder.join(file)).unwrap();
        let line = format!("reencrypt --key-file key --batch-mode {options} {file}");
        at(&folder, &line).args(FAST).fails(1, words);
        assert!(fs::read(folder.join(file)).unwrap() == before, "{options}");
        assert!(!folder.join("h").exists(), "{options}");
    };
    for (size, words) in [
        ("0", ", and not 0"),
        ("4097", "must be a multiple of the sector size"),
        ("4M", "is more than its 3145728 bytes of data"),
        ("2M", "is less than the 3145728 bytes of the file in it"),
    ] {
        refused(&format!("--device-size {size}"), "w", words);
        refused(
            &format!("--decrypt --header h --device-size {size}"),
            "w",
            words,
        );
        if !size.starts_with('2') {
            refused(
                &format!("--encrypt --header h --device-size {size}"),
                "v",
                words,
            );
        }
    }
    refused(
        SIZE,
        "t",
        "is less than the 3145728 bytes of the file in it",
    );
    let shift = "reencrypt --encrypt --reduce-device-size 1M --device-size 1M v";
    let outcome = at(&folder, shift).run();
    outcome.assert_code(1);
    assert!(
        outcome.stderr.contains("cannot be used with"),
        "{outcome:#?}"
    );
}

/// What comes after the part is lost.
#[test]
fn a_part_needs_confirmation() {
    let folder = with(MODES[0].volume);
    let before = fs::read(folder.join("v")).unwrap();
    let fast = FAST.join(" ");
    let line = format!("reencrypt --key-file key {fast} {SIZE} v");
    let words = "all data after the first 2097152 bytes will be lost, which are 1048576 bytes";
    let outcome = at(&folder, &line).fails(1, words);
    assert!(outcome.stderr.contains("--batch-mode"), "{outcome:#?}");
    let line = format!("\"$luxor\" {line}");
    let (code, screen) = terminal_shell(&line, &["no\n"], folder.path());
    assert!(code == 1 && screen.contains(words), "{screen}");
    assert!(fs::read(folder.join("v")).unwrap() == before);

    // Nothing is recorded before the first zone.
    let line = format!("{line} --init-only");
    let (code, screen) = terminal_shell(&line, &["YES\n"], folder.path());
    assert!(
        code == 0 && screen.contains("needs --device-size again"),
        "{screen}"
    );
    let line = format!("reencrypt --key-file key --batch-mode {SIZE} v");
    let outcome = at(&folder, &line).ok();
    assert!(outcome.stderr.contains(words), "{outcome:#?}");
    let after = fs::read(folder.join("v")).unwrap();
    let rest = MODES[0].offsets[0] + PART;
    assert!(after[rest..] == before[rest..]);
    // Nothing is lost, and there is no question.
    let all = format!("reencrypt --key-file key {fast} --device-size 3M v");
    at(&folder, &all).ok();
}
