// SPDX-License-Identifier: MIT OR Apache-2.0
//! `reencrypt --encrypt` and `--decrypt`: plain data become a volume and the reverse, where they are.
//! Luxor and cryptsetup take turns, and are killed.

use std::{
    fs::{self, File},
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::Value;

use super::reencrypt_ended::cut_off;
use crate::support::{FAST, Folder, Luxor, bytes, is_long, luxor, shell_without_terminal};

const LEN: usize = 12 << 20;
const MIB: u64 = 1 << 20;

/// A way to or from plain data.
struct Mode {
    name: &'static str,
    /// The command that makes the volume to be decrypted, if any.
    volume: Option<&'static str>,
    /// The options that begin it. cryptsetup gets `theirs` too.
    begin: &'static str,
    theirs: &'static str,
    /// The options that continue it.
    go_on: &'static str,
}

const DETACHED: Option<&str> = Some("encrypt --sector-size 512 --header h");
/// A header of 1 MiB, over which the data move.
const ATTACHED: Option<&str> = Some("encrypt --luks2-keyslots-size 992K");
const TO_HEADER: &str = "--header h";

const MODES: [Mode; 7] = [
    Mode {
        name: "encrypt",
        volume: None,
        begin: "--encrypt --header h --sector-size 512",
        theirs: "--type luks2",
        go_on: TO_HEADER,
    },
    Mode {
        name: "encrypt, journal",
        volume: None,
        begin: "--encrypt --header h --sector-size 4096 --resilience journal",
        theirs: "--type luks2",
        go_on: TO_HEADER,
    },
    Mode {
        name: "encrypt, datashift",
        volume: None,
        begin: "--encrypt --reduce-device-size 2M --sector-size 512",
        theirs: "--type luks2 --luks2-keyslots-size 512k",
        go_on: "",
    },
    Mode {
        name: "decrypt, checksum",
        volume: DETACHED,
        begin: "--decrypt --header h",
        theirs: "",
        go_on: TO_HEADER,
    },
    Mode {
        name: "decrypt, journal",
        volume: DETACHED,
        begin: "--decrypt --header h --resilience journal",
        theirs: "",
        go_on: TO_HEADER,
    },
    Mode {
        name: "decrypt, datashift-checksum",
        volume: ATTACHED,
        begin: "--decrypt --header h",
        theirs: "",
        go_on: TO_HEADER,
    },
    Mode {
        name: "decrypt, datashift-checksum, sha512",
        volume: ATTACHED,
        begin: "--decrypt --header h --resilience datashift-checksum --resilience-hash sha512",
        theirs: "",
        go_on: TO_HEADER,
    },
];

fn at(folder: &Folder, line: &str) -> Luxor {
    luxor(line).current_dir(folder.path())
}

fn ours(folder: &Folder, options: &str) -> Luxor {
    at(folder, &format!("reencrypt --key-file key {options} v"))
}

fn their_line(options: &str) -> String {
    let fast = FAST.join(" ");
    format!("cryptsetup reencrypt -q --force-offline-reencrypt --key-file key {fast} {options} v")
}

fn plain() -> Vec<u8> {
    bytes(LEN, 3)
}

impl Mode {
    /// A folder with the key and the data.
    fn folder(&self) -> Folder {
        let folder = Folder::new();
        folder.write("key", b"correct horse");
        match self.volume {
            Some(line) => {
                folder.write("plain", plain());
                let line = format!("{line} --key-file key plain v");
                at(&folder, &line).args(FAST).ok();
            }
            None => {
                folder.write("v", plain());
                if self.begin.contains("--reduce") {
                    lengthen(&folder, LEN as u64 + 2 * MIB);
                }
            }
        }
        folder
    }

    /// The metadata, which are in another file unless the header is in front of the data.
    fn metadata(&self, folder: &Folder) -> Value {
        let file = if self.go_on.is_empty() { "v" } else { "h" };
        let dump = at(folder, &format!("dump --json {file}")).ok();
        serde_json::from_str(dump.text()).unwrap()
    }

    fn is_under_way(&self, folder: &Folder) -> bool {
        let metadata = self.metadata(folder);
        metadata.pointer("/config/requirements").is_some()
    }

    fn begins(&self, folder: &Folder, theirs: bool) {
        let options = format!("{} --init-only", self.begin);
        if theirs {
            let line = their_line(&format!("{options} {}", self.theirs));
            shell_without_terminal(&line, folder.path()).assert_code(0);
        } else {
            ours(folder, &options).args(FAST).ok();
        }
        assert!(self.is_under_way(folder), "{}", self.name);
    }

    /// The data have become what they were to become, and nothing is left of the way there.
    fn is_done(&self, folder: &Folder) {
        let metadata = self.metadata(folder);
        assert!(metadata.pointer("/config/requirements").is_none());
        assert_eq!(metadata["segments"].as_object().unwrap().len(), 1);
        let keyslots = usize::from(self.volume.is_none());
        assert_eq!(metadata["keyslots"].as_object().unwrap().len(), keyslots);
        let stored = fs::read(folder.join("v")).unwrap();
        if self.volume.is_some() {
            assert!(stored[..LEN] == plain(), "{}", self.name);
            return;
        }
        let begin = if self.go_on.is_empty() { MIB } else { 0 };
        let begin = usize::try_from(begin).unwrap();
        assert!(stored[begin..][..4096] != plain()[..4096]);
        // The first bytes of the data are not left where they were moved to.
        let end = stored.len() - begin;
        assert!(begin == 0 || stored[end..][..4096] != plain()[..4096]);
        let line = format!("decrypt --force --key-file key {} v out", self.go_on);
        at(folder, &line).ok();
        assert!(fs::read(folder.join("out")).unwrap()[..LEN] == plain());
        let line = format!(
            "cryptsetup open --test-passphrase --key-file key {} v",
            self.go_on
        );
        shell_without_terminal(&line, folder.path()).assert_code(0);
    }
}

fn lengthen(folder: &Folder, len: u64) {
    let file = File::options().write(true).open(folder.join("v")).unwrap();
    file.set_len(len).unwrap();
}

#[test]
fn either_program_begins_and_either_ends() {
    for mode in &MODES {
        for (theirs_begins, theirs_ends) in [(true, false), (false, true), (false, false)] {
            let folder = mode.folder();
            mode.begins(&folder, theirs_begins);
            if theirs_ends {
                let line = their_line(&format!("{} --resume-only", mode.go_on));
                shell_without_terminal(&line, folder.path()).assert_code(0);
            } else {
                ours(&folder, &format!("{} --resume-only", mode.go_on)).ok();
            }
            mode.is_done(&folder);
        }
    }
}

/// Each turn begins after another part of a second, so that kills come at any moment.
#[test]
fn programs_that_are_killed_take_turns() {
    let wanted = if is_long() { 200 } else { 6 };
    let mut within_any = 0;
    for mode in &MODES {
        let (mut kills, mut within, mut turn) = (0, 0, 0);
        while kills < wanted {
            let folder = mode.folder();
            mode.begins(&folder, false);
            while mode.is_under_way(&folder) {
                let options = format!("{} --hotzone-size 64K", mode.go_on);
                // cryptsetup destroys keyslots before its last change, so it is killed only long before.
                let is_theirs = turn % 2 == 1;
                let signal = if is_theirs && turn > 3 {
                    Signal::SIGINT
                } else {
                    Signal::SIGKILL
                };
                let mut program = if is_theirs {
                    let line = format!("exec {}", their_line(&options));
                    let mut shell = Command::new("sh");
                    shell.args(["-c", &line]).current_dir(folder.path());
                    shell.stdout(Stdio::null()).stderr(Stdio::null());
                    shell.spawn().unwrap()
                } else {
                    ours(&folder, &options).stderr_to(Stdio::null()).spawn()
                };
                thread::sleep(Duration::from_millis(30 + turn * 37 % 90));
                let was_running = program.try_wait().unwrap().is_none();
                let _ = kill(Pid::from_raw(program.id().cast_signed()), signal);
                program.wait().unwrap();
                kills += usize::from(was_running);
                let segments = mode.metadata(&folder)["segments"].to_string();
                within += usize::from(segments.contains("in-reencryption"));
                turn += 1;
            }
            mode.is_done(&folder);
            turn = 0;
        }
        eprintln!(
            "{}: {kills} kills, {within} of them within a zone",
            mode.name
        );
        within_any += within;
    }
    assert!(within_any > 0);
}

#[test]
fn a_file_that_was_decrypted_ends_where_its_data_end() {
    let folder = Folder::new();
    folder.write("key", b"correct horse");
    folder.write("plain", bytes(LEN + 5, 3));
    at(&folder, "encrypt --key-file key plain v")
        .args(FAST)
        .ok();
    ours(&folder, "--decrypt --header h").args(FAST).ok();
    assert!(fs::read(folder.join("v")).unwrap() == bytes(LEN + 5, 3));
}

#[test]
fn what_does_not_fit_stays_as_it_is() {
    let folder = Folder::new();
    folder.write("key", b"correct horse");
    folder.write("v", plain());
    let refused = |options: &str, words: &str| {
        let before = fs::read(folder.join("v")).unwrap();
        let outcome = ours(&folder, options).args(FAST).fails(1, words);
        assert!(fs::read(folder.join("v")).unwrap() == before, "{options}");
        outcome
    };
    let reduce = |size: &str| format!("--encrypt --reduce-device-size {size}");
    refused(&reduce("2M"), "its last 2097152 bytes are not empty");
    refused(
        &reduce("2M --force --resilience journal"),
        "--resilience journal",
    );
    refused(&reduce("5000"), "must be a multiple of 8192");
    refused(&reduce("12M"), "without its last 12582912 bytes it has 0");
    refused(&reduce("100M"), "without its last 104857600 bytes it has 0");
    refused(
        &reduce("10M"),
        "its 2097152 bytes of data are shorter than a header",
    );
    refused(&reduce("256K"), "the header cannot have 131072 bytes");
    refused(&reduce("2M --header h"), "--encrypt needs either");
    refused("--encrypt", "--encrypt needs either");
    refused("--decrypt --header h", "it is not a LUKS volume");
    assert!(!folder.join("h").exists());

    lengthen(&folder, LEN as u64 + 2 * MIB);
    ours(&folder, &reduce("2M")).args(FAST).ok();
    refused(&reduce("2M"), "it is a LUKS volume already");
    refused("--decrypt", "its header must be in another file");
    refused("--decrypt --header v", "its header must be in another file");
    let shifted = "--decrypt --header h --resilience";
    refused(
        &format!("{shifted} none"),
        "resilience none is not possible",
    );
    refused(&format!("{shifted} datashift"), "--resilience datashift");
    refused(&format!("{shifted} journal"), "has no room for");
    at(&folder, "format --size 1M --key-file key --header other x")
        .args(FAST)
        .ok();
    refused(
        "--decrypt --header other",
        "is not a copy of the header of v",
    );
    refused("--header other", "it has a LUKS header of its own");
    ours(&folder, "--decrypt --header h --init-only")
        .args(FAST)
        .ok();
    ours(&folder, "--header h").ok();
    assert!(fs::read(folder.join("v")).unwrap()[..LEN] == plain());
}

#[test]
fn data_that_are_too_long_for_one_key_are_announced() {
    let folder = Folder::new();
    folder.write("key", b"correct horse");
    folder.write("v", b"");
    let limit = MIB << 20;
    for (begin, free) in [
        ("--encrypt --header h --init-only", 0),
        ("--encrypt --reduce-device-size 2M --init-only", 2 * MIB),
    ] {
        for (len, words) in [(limit, ""), (limit + 4096, "more than the 1 TiB")] {
            lengthen(&folder, len + free);
            let outcome = ours(&folder, begin).args(FAST).ok();
            let is_announced = outcome.stderr.contains("one key encrypts the 10995");
            assert_eq!(is_announced, !words.is_empty(), "{begin}: {outcome:#?}");
            assert!(outcome.stderr.contains(words), "{outcome:#?}");
            folder.write("v", b"");
            let _ = fs::remove_file(folder.join("h"));
        }
    }
}

/// A copy of the header that is no longer that of the volume would decrypt it with another key.
#[test]
fn only_the_present_header_decrypts() {
    let folder = MODES[5].folder();
    folder.write("wrong", b"wrong");
    let h = folder.join("h");
    // An attempt that fails leaves no copy.
    let line = "reencrypt --decrypt --header h --key-file wrong v";
    at(&folder, line).fails(2, "v");
    for (options, words) in [
        ("--resume-only", "no re-encryption has begun"),
        ("--hotzone-size 512", "a zone must have at least 4096 bytes"),
        ("--resilience journal", "has no room for"),
    ] {
        let line = format!("--decrypt --header h {options}");
        ours(&folder, &line).fails(1, words);
        assert!(!h.exists(), "{options}");
    }

    at(&folder, "header backup v h").ok();
    ours(&folder, "").args(FAST).ok();
    let before = fs::read(folder.join("v")).unwrap();
    let decrypt = "--decrypt --header h";
    ours(&folder, decrypt).fails(1, "is not a copy of the header of v");
    fs::remove_file(&h).unwrap();

    // A header that decrypts another volume.
    let line = "encrypt --key-file key --luks2-keyslots-size 992K plain w";
    at(&folder, line).args(FAST).ok();
    let line = "reencrypt --decrypt --header hw --key-file key --init-only w";
    at(&folder, line).args(FAST).ok();
    for options in ["--header hw", "--decrypt --header hw"] {
        ours(&folder, options).fails(1, "it has a LUKS header of its own");
    }
    ours(&folder, "--init-only").args(FAST).ok();
    ours(&folder, decrypt).fails(1, "a re-encryption is under way");
    assert!(!h.exists());
    ours(&folder, "").ok();
    assert!(fs::read(folder.join("v")).unwrap() != before);
    ours(&folder, decrypt).args(FAST).ok();
    assert!(fs::read(folder.join("v")).unwrap() == plain());
    ours(&folder, decrypt).fails(1, "have been decrypted already");
    assert!(fs::read(folder.join("v")).unwrap() == plain());
}

/// Without `--decrypt` an interrupted decryption is refused until its header records it. Each command that
/// the message names then does what it says.
#[test]
fn an_interrupted_decryption_is_continued_as_advised() {
    let folder = Folder::new();
    folder.write("key", b"correct horse");
    let data = bytes(3_000_000, 3);
    folder.write("plain", &data);
    let line = "encrypt --luks2-keyslots-size 992K --key-file key plain made";
    at(&folder, line).args(FAST).ok();
    let costs = FAST.join(" ");
    let shell = |line: &str| shell_without_terminal(line, folder.path());
    let is_decrypted = || fs::read(folder.join("v")).unwrap() == data;
    let mut followed = 0;
    for sync in 1.. {
        let _ = fs::remove_file(folder.join("h"));
        fs::copy(folder.join("made"), folder.join("v")).unwrap();
        let killed = shell(&format!(
            "strace -f -qq -o /dev/null -e inject=fsync,fdatasync:signal=KILL:when={sync} \"$luxor\" \
             reencrypt --decrypt --header h --key-file key {costs} v"
        ));
        if killed.code == Some(0) {
            break;
        }
        shell("cp v killed; [ ! -e h ] || cp h killed.h").assert_code(0);
        let failed = ours(&folder, "--header h").args(FAST).run();
        if failed.code == Some(0) {
            assert!(is_decrypted(), "{sync}: {failed:?}");
            continue;
        }
        if !folder.join("h").exists() {
            failed.assert_code(4);
            assert!(fs::read(folder.join("v")).unwrap() == fs::read(folder.join("made")).unwrap());
            continue;
        }
        failed.assert_code(1);
        if failed.stderr.contains("have been decrypted already") {
            assert!(is_decrypted(), "{sync}");
            continue;
        }
        let command = || Some(failed.stderr.split('`').nth(1)?.to_owned());
        let command = cut_off(&failed.stderr).or_else(command);
        let command = command.unwrap_or_else(|| panic!("{sync}: no advice: {failed:#?}"));
        let command = command.replacen("luxor", "\"$luxor\"", 1);
        let options = if command.starts_with("truncate ") {
            ""
        } else {
            &format!("--key-file key {costs}")
        };
        shell(&format!("{command} {options}")).assert_code(0);
        assert!(is_decrypted(), "{sync}");
        if failed.stderr.contains("Without --header") {
            shell("cp killed v; cp killed.h h").assert_code(0);
            ours(&folder, "").args(FAST).ok();
            at(&folder, "decrypt --force --key-file key v out").ok();
            assert!(fs::read(folder.join("out")).unwrap() == data, "{sync}");
        }
        followed += 1;
    }
    assert!(followed >= 5, "{followed}");
}

/// Something else than the header is before the data.
#[test]
fn bytes_before_the_data_stay() {
    let folder = Folder::new();
    folder.write("key", b"correct horse");
    folder.write("v", plain());
    let costs = FAST.join(" ");
    let line =
        format!("cryptsetup luksFormat -q --key-file key {costs} --header h --offset 4096 v");
    shell_without_terminal(&line, folder.path()).assert_code(0);
    let before = fs::read(folder.join("v")).unwrap();
    ours(&folder, "--decrypt --header h").fails(1, "something else than its header");
    assert!(fs::read(folder.join("v")).unwrap() == before);
}

/// cryptsetup has begun to move encrypted data for a longer header.
#[test]
fn data_that_move_for_a_longer_header_are_continued() {
    let folder = MODES[5].folder();
    lengthen(&folder, LEN as u64 + 3 * MIB);
    for options in [
        "--reduce-device-size 2M --init-only",
        "--resume-only --hotzone-size 64k",
    ] {
        let line = format!("timeout --signal INT 0.3 {}", their_line(options));
        shell_without_terminal(&line, folder.path());
    }
    ours(&folder, "").ok();
    at(&folder, "decrypt --force --key-file key v out").ok();
    assert!(fs::read(folder.join("out")).unwrap()[..LEN] == plain());
    let line = "cryptsetup open --test-passphrase --key-file key v";
    shell_without_terminal(line, folder.path()).assert_code(0);
}

/// The header of one image must not encrypt another.
#[test]
fn an_existing_header_is_not_taken_for_a_new_one() {
    let mode = &MODES[0];
    let folder = mode.folder();
    mode.begins(&folder, false);
    let before = fs::read(folder.join("h")).unwrap();
    let again = ours(&folder, mode.begin).args(FAST);
    again.fails(5, "h exists already");
    assert!(fs::read(folder.join("h")).unwrap() == before);
    ours(&folder, mode.go_on).ok();
    mode.is_done(&folder);
}

/// Kills again and again, also where the last zone is recovered.
#[test]
fn a_decryption_that_is_killed_at_each_write_goes_on() {
    for len in [3000, 3 << 20] {
        let folder = Folder::new();
        folder.write("key", b"correct horse");
        let data = bytes(len, 3);
        folder.write("plain", &data);
        let line = "encrypt --luks2-keyslots-size 992K --key-file key plain made";
        at(&folder, line).args(FAST).ok();
        let all = if is_long() { 60 } else { 20 };
        // In the short form each write is the first in one of both cases.
        let step = if is_long() { 1 } else { 2 };
        for first in (3 + usize::from(len == 3000)..all).step_by(step) {
            fs::copy(folder.join("made"), folder.join("v")).unwrap();
            let _ = fs::remove_file(folder.join("h"));
            let mut kills = 0;
            for write in [first, 3, 5, 4] {
                let line = format!(
                    "strace -f -qq -o /dev/null -e trace=pwrite64 \
                     -e inject=pwrite64:signal=KILL:when={write} \
                     '{}' reencrypt --threads 1 --decrypt --header h --key-file key {} v",
                    env!("CARGO_BIN_EXE_luxor"),
                    FAST.join(" "),
                );
                let outcome = shell_without_terminal(&line, folder.path());
                kills += usize::from(outcome.code != Some(0));
            }
            if fs::read(folder.join("v")).unwrap() != data {
                let outcome = ours(&folder, "--decrypt --header h").args(FAST).run();
                match cut_off(&outcome.stderr) {
                    Some(command) => shell_without_terminal(&command, folder.path()).assert_code(0),
                    None => outcome.assert_code(0),
                }
            }
            assert!(
                fs::read(folder.join("v")).unwrap() == data,
                "{first}: {kills} kills"
            );
        }
    }
}
