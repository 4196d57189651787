// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gives cryptsetup's command lines to both programs. The exit codes and the volumes must be the
//! same.

use std::{
    io::Write as _,
    process::{Command, Stdio},
};

use crate::{
    Cell,
    keys::{FORMAT, Subject, VERSIONS, say_the_same_but},
    product,
    programs::{Bench, Outcome, must},
};

/// A line for `cryptsetup` and `luxor`, the standard input, and the exit code.
type Line = (&'static str, &'static str, i32);

/// Lines that need only one keyslot, and leave the keyslots as they were.
const BOTH: &[Line] = &[
    ("isLuks VOLUME", "", 0),
    ("isLuks FIRST", "", 1),
    ("isLuks /no/such/volume", "", 4),
    ("luksUUID VOLUME", "", 0),
    ("luksUUID FIRST", "", 1),
    ("luksDump VOLUME", "", 0),
    ("luksDump FIRST", "", 1),
    ("luksDump /no/such/volume", "", 4),
    ("open --test-passphrase -d FIRST VOLUME", "", 0),
    ("open --test-passphrase -d SECOND VOLUME", "", 2),
    (
        "luksOpen --test-passphrase VOLUME any-name --key-file SECOND",
        "",
        2,
    ),
    ("open --test-passphrase -d FIRST -S 0 VOLUME", "", 0),
    ("open --test-passphrase -d FIRST -S 1 VOLUME", "", 1),
    ("open --test-passphrase -d /no/such/file VOLUME", "", 1),
    // Adds a new key in each way that the options allow.
    ("luksAddKey FAST -d FIRST VOLUME SECOND", "", 0),
    ("luksAddKey FAST -d FIRST VOLUME SECOND -S 1", "", 1),
    ("luksAddKey FAST -d FIRST VOLUME SECOND -S 5", "", 0),
    (
        "luksAddKey FAST -d SECOND VOLUME --new-keyfile LONG --key-slot 5 --new-key-slot 6",
        "",
        0,
    ),
    (
        "luksAddKey FAST -d SECOND VOLUME --new-keyfile LONG --key-slot 0 --new-key-slot 7",
        "",
        2,
    ),
    ("luksAddKey FAST -qd LONG VOLUME", "typed\n", 0),
    ("luksAddKey FAST VOLUME", "typed\nagain\n", 0),
    ("luksAddKey FAST VOLUME", "wrong\nagain\n", 2),
    ("open --test-passphrase VOLUME", "again\n", 0),
    ("open --test-passphrase VOLUME", "againx\n", 2),
    ("open --test-passphrase VOLUME -d -", "typed", 0),
    ("open --test-passphrase VOLUME -d -", "typed\n", 2),
    (
        "open --test-passphrase VOLUME -d - -l 5",
        "typed but more",
        0,
    ),
    ("luksChangeKey FAST SLOT3 VOLUME", "again\nchanged\n", 0),
    ("luksChangeKey FAST SLOT3 VOLUME", "again\nchanged\n", 2),
    ("luksChangeKey FAST VOLUME -S 9 -d LONG FIRST", "", 1),
    ("luksKillSlot -d FIRST VOLUME 5", "", 0),
    ("luksKillSlot -d FIRST VOLUME 5", "", 1),
    // A passphrase on standard input must open another keyslot. Empty input is allowed.
    ("luksKillSlot -q VOLUME 6", "wrong\n", 2),
    ("luksKillSlot -q VOLUME 6", "\n", 2),
    ("luksKillSlot -q VOLUME 2", "typed\n", 2),
    ("luksKillSlot -q -d - VOLUME 6", "typed\n", 2),
    ("luksKillSlot -q VOLUME 6", "typed\nand more\n", 0),
    ("luksAddKey FAST -d FIRST VOLUME LONG -S 6", "", 0),
    ("luksKillSlot -q -d - VOLUME 6", "", 0),
    ("luksAddKey FAST -d FIRST VOLUME LONG -S 6", "", 0),
    ("luksKillSlot -q VOLUME 6", "", 0),
    ("luksKillSlot -d LONG VOLUME 1", "", 2),
    ("luksKillSlot -q -d LONG VOLUME 1", "", 2),
    ("luksRemoveKey VOLUME", "typed\n", 0),
    ("luksRemoveKey VOLUME", "typed\n", 2),
    ("luksRemoveKey VOLUME SECOND", "", 0),
    ("luksRemoveKey VOLUME --key-file SECOND", "", 2),
    (
        "luksUUID --uuid 11111111-2222-4333-8444-555555555555 -q VOLUME",
        "",
        0,
    ),
    ("luksUUID --uuid nonsense -q VOLUME", "", 1),
    ("luksFrob VOLUME", "", 1),
    ("luksDump", "", 1),
    ("luksKillSlot VOLUME", "", 1),
    ("luksUUID --no-such-option VOLUME", "", 1),
];

const LUKS2: &[Line] = &[
    ("isLuks --type luks2 VOLUME", "", 0),
    ("isLuks --type luks1 VOLUME", "", 1),
    ("luksDump --dump-json-metadata VOLUME", "", 0),
    ("config --label name --subsystem more VOLUME", "", 0),
    ("config --priority prefer -S 0 VOLUME", "", 0),
    ("config --priority best -S 0 VOLUME", "", 1),
    ("config --priority ignore VOLUME", "", 1),
    ("config --priority ignore -S 9 VOLUME", "", 1),
    ("config VOLUME", "", 1),
    // cryptsetup loses the priority of a keyslot that it converts.
    ("config --priority normal -S 0 VOLUME", "", 0),
    ("luksConvertKey OTHER -d FIRST VOLUME", "", 0),
    ("luksConvertKey OTHER -d LONG VOLUME", "", 2),
    ("token add --key-description words VOLUME", "", 0),
    (
        "token add --key-description words --key-slot 0 --token-id 5 VOLUME",
        "",
        0,
    ),
    (
        "token add --key-description words --token-id 5 VOLUME",
        "",
        1,
    ),
    (
        "token add --key-description words --key-slot 9 VOLUME",
        "",
        1,
    ),
    ("token import --json-file TOKEN VOLUME", "", 0),
    (
        "token import --token-id 9 VOLUME",
        "{\"type\":\"x\",\"keyslots\":[]}",
        0,
    ),
    (
        "token import --token-id 9 --token-replace --key-slot 0 VOLUME",
        "{\"type\":\"y\",\"keyslots\":[]}",
        0,
    ),
    ("token import --token-id 8 VOLUME", "{\"keyslots\":[]}", 1),
    ("token export --token-id 5 VOLUME", "", 0),
    ("token export --token-id 6 VOLUME", "", 1),
    ("token export VOLUME", "", 1),
    ("token remove --token-id 5 VOLUME", "", 0),
    ("token remove --token-id 5 VOLUME", "", 1),
    ("token remove VOLUME", "", 1),
    ("token frob VOLUME", "", 1),
    ("repair -q VOLUME", "", 0),
];

const LUKS1: &[Line] = &[
    ("isLuks --type luks1 VOLUME", "", 0),
    ("isLuks --type luks2 VOLUME", "", 1),
    ("luksAddKey FAST -d FIRST VOLUME SECOND -S 8", "", 1),
    ("config --label name VOLUME", "", 1),
    ("token add --key-description words VOLUME", "", 1),
    (
        "luksFormat -q NEW --luks2-metadata-size 16k VOLUME SECOND",
        "",
        1,
    ),
    (
        "luksFormat -q NEW --luks2-keyslots-size 4m VOLUME SECOND",
        "",
        1,
    ),
];

/// Removes the last keyslot, which cryptsetup permits in batch mode, and restores it.
const LAST: &[Line] = &[
    ("luksHeaderBackup VOLUME", "", 1),
    ("luksHeaderBackup FIRST --header-backup-file BACKUP", "", 1),
    (
        "luksHeaderBackup /no/file --header-backup-file BACKUP",
        "",
        4,
    ),
    ("luksHeaderBackup VOLUME --header-backup-file BACKUP", "", 0),
    ("luksRemoveKey -q VOLUME FIRST", "", 0),
    ("open --test-passphrase -d FIRST VOLUME", "", 2),
    ("luksHeaderRestore -q VOLUME", "", 1),
    (
        "luksHeaderRestore -q VOLUME --header-backup-file FIRST",
        "",
        1,
    ),
    (
        "luksHeaderRestore -q VOLUME --header-backup-file BACKUP",
        "",
        0,
    ),
    ("open --test-passphrase -d FIRST VOLUME", "", 0),
    ("luksErase -q VOLUME", "", 0),
    (FORMAT, "", 0),
    ("open --test-passphrase -d FIRST VOLUME", "", 0),
    ("luksFormat -q NEW --uuid UUID VOLUME", "typed\n", 0),
    ("open --test-passphrase VOLUME", "typed\n", 0),
    ("luksFormat -q NEW --uuid UUID VOLUME SECOND", "", 0),
    ("open --test-passphrase -d SECOND VOLUME", "", 0),
    ("luksFormat -q --type luks3 VOLUME SECOND", "", 1),
    ("luksFormat -q NEW VOLUME /no/such/file", "", 1),
];

/// New LUKS2 volumes with other headers.
const HEADER_SIZES: &[Line] = &[
    // cryptsetup aligns the data to 1 MiB, where they begin here in both programs.
    (
        "luksFormat -q NEW --uuid UUID --luks2-metadata-size 64k --luks2-keyslots-size 896k VOLUME \
         SECOND",
        "",
        0,
    ),
    (
        "luksFormat -q NEW --luks2-metadata-size 20k VOLUME SECOND",
        "",
        1,
    ),
    (
        "luksFormat -q NEW --uuid UUID --luks2-metadata-size 32k VOLUME SECOND",
        "",
        0,
    ),
];

/// The short form leaves out detached headers of LUKS1.
#[test]
fn scripts_carry_over() {
    let mut failures = Vec::new();
    let mut lines = 0;
    for luks1 in VERSIONS {
        for detached in [false, true] {
            if detached && luks1 && !product::is_long() {
                continue;
            }
            let mut bench = Bench::new();
            let cell = Cell {
                detached,
                ..Cell::of_version(luks1)
            };
            let subject = Subject::new(&mut bench, cell).expect("cryptsetup formats");
            // Makes room for a new format.
            subject.volume.grow(20 << 20).unwrap();
            let theirs = subject.copy(&mut bench).unwrap();
            let all = if luks1 {
                [BOTH, LUKS1, LAST].concat()
            } else {
                [BOTH, LUKS2, LAST, HEADER_SIZES].concat()
            };
            lines += all.len();
            // After a difference, later lines would differ too.
            let outcome = all
                .into_iter()
                .try_for_each(|line| both(&subject, &theirs, line));
            failures.extend(outcome.err().map(|error| format!("{cell}: {error}")));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    let of_version = |luks1| {
        if luks1 {
            LUKS1.len()
        } else {
            LUKS2.len() + HEADER_SIZES.len()
        }
    };
    let forms = |luks1| if luks1 && !product::is_long() { 1 } else { 2 };
    let expected =
        VERSIONS.map(|luks1| forms(luks1) * (BOTH.len() + LAST.len() + of_version(luks1)));
    assert_eq!(lines, expected.into_iter().sum::<usize>());
}

fn both(ours: &Subject, theirs: &Subject, (line, typed, code): Line) -> Outcome<()> {
    let theirs_said = ended(theirs, "cryptsetup", line, typed, code)?;
    let ours_said = ended(ours, env!("CARGO_BIN_EXE_luxor"), line, typed, code)?;
    if line.starts_with("luksUUID") || line.starts_with("token export") {
        must(
            ours_said.trim_end() == theirs_said.trim_end(),
            &format!("{line}: {ours_said:?} instead of {theirs_said:?}"),
        )?;
    }
    // These actions change nothing.
    let reads = ["is", "luksDump", "luksOpen", "open"];
    if reads.iter().any(|name| line.starts_with(name)) {
        return Ok(());
    }
    // A new volume has its own volume key, so its digest differs.
    say_the_same_but(ours, theirs, |line| line.starts_with("/digests/0/digest "))
        .map_err(|error| format!("{line}: {error}"))
}

/// Checks the exit code, and returns what the program printed.
fn ended(subject: &Subject, program: &str, line: &str, typed: &str, code: i32) -> Outcome<String> {
    let mut child = Command::new(program)
        .args(subject.line(line))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| format!("{program}: {e}"))?;
    let mut stdin = child.stdin.take().expect("standard input is a pipe");
    // A program that refuses before it reads closes the pipe. Its exit code shows that.
    let _ = stdin.write_all(typed.as_bytes());
    drop(stdin);
    let output = child.wait_with_output().map_err(|e| e.to_string())?;
    let said = String::from_utf8_lossy(&output.stderr);
    must(
        output.status.code() == Some(code),
        &format!(
            "{program} {line}: {} instead of {code}: {}",
            output.status,
            said.trim()
        ),
    )?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
