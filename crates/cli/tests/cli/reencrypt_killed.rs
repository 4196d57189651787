// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the commands say of a volume after `reencrypt` was killed, and what the commands that they advise do.

use std::fs;

use super::reencrypt::at;
use crate::support::{FAST, Folder, Outcome, bytes, shell_without_terminal};

pub(super) const LEN: usize = 1 << 20;

/// A folder with the key and the plain data, and the volume that this command makes of them, or else the data.
pub(super) fn folder(make: Option<&str>) -> Folder {
    let folder = Folder::new();
    folder.write("key", b"correct horse");
    folder.write("other", b"another");
    folder.write("plain", bytes(LEN, 3));
    match make {
        Some(line) => {
            let line = format!("{line} --key-file key plain v");
            at(&folder, &line).args(FAST).ok();
        }
        None => drop(folder.write("v", bytes(LEN, 3))),
    }
    folder
}

/// Runs `reencrypt`, and kills it at a sync. Returns whether it was killed.
fn killed(folder: &Folder, sync: usize, options: &str) -> bool {
    let fast = FAST.join(" ");
    let line = format!(
        "strace -f -qq -o /dev/null -e trace=fsync,fdatasync \
         -e inject=fsync,fdatasync:signal=KILL:when={sync} \"$luxor\" \
         reencrypt --threads 1 --hotzone-size 512K --key-file key {options} {fast} v"
    );
    shell_without_terminal(&line, folder.path()).code != Some(0)
}

/// The files of a folder, to be put back.
pub(super) struct Files(Vec<(&'static str, Option<Vec<u8>>)>);

impl Files {
    pub(super) fn of(folder: &Folder) -> Self {
        let files = ["v", "h"].map(|name| (name, fs::read(folder.join(name)).ok()));
        Self(files.into())
    }

    pub(super) fn restore(&self, folder: &Folder) {
        for (name, bytes) in &self.0 {
            match bytes {
                Some(bytes) => drop(folder.write(name, bytes)),
                None => drop(fs::remove_file(folder.join(name))),
            }
        }
    }
}

/// Runs a command on the files, and puts them back. A server that starts would not end.
fn say(folder: &Folder, files: &Files, line: &str) -> Outcome {
    let outcome = at(folder, line).under("timeout --signal=INT 2").run();
    files.restore(folder);
    outcome
}

/// Returns the first command that a message advises.
fn advised(outcome: &Outcome) -> Option<String> {
    let spans = outcome.stderr.split('`').skip(1).step_by(2);
    let mut commands = spans.filter_map(|span| span.strip_prefix("luxor "));
    commands.next().map(str::to_owned)
}

fn has_data(folder: &Folder, header: &str) -> bool {
    let line = format!("decrypt --force --key-file key {header} v out");
    let decrypted = at(folder, &line).run();
    decrypted.code == Some(0) && fs::read(folder.join("out")).unwrap()[..LEN] == bytes(LEN, 3)
}

/// The header is after the data, which have not changed.
#[test]
fn an_encryption_that_has_changed_nothing_begins_again_as_advised() {
    let folder = folder(None);
    let plain = [bytes(LEN, 3), vec![0; 2 << 20]].concat();
    let begin = "--encrypt --reduce-device-size 2M";
    let mut prepared = 0;
    for sync in 1..=4 {
        folder.write("v", &plain);
        assert!(killed(&folder, sync, begin), "{sync}");
        let files = Files::of(&folder);
        if !fs::read(folder.join("v")).unwrap()[LEN..].starts_with(b"LUKS") || sync > 3 {
            continue;
        }
        prepared += 1;
        for line in [
            "dump v",
            "check v",
            "decrypt --key-file key v out",
            "serve --key-file key --socket s v",
            "key list v",
            "key add --key-file key --new-key-file other v",
            "header backup v b",
            "header repair v",
            "reencrypt --key-file key v",
            "reencrypt --key-file key --resume-only v",
        ] {
            let outcome = say(&folder, &files, line);
            outcome.assert_code(1);
            assert!(
                outcome.stderr.contains("its data are not encrypted"),
                "{outcome:#?}"
            );
            let command = advised(&outcome).unwrap();
            assert_eq!(
                command,
                "reencrypt --encrypt --reduce-device-size 2097152 v"
            );
        }
        // With another key and sector size than before.
        let line = format!("reencrypt {begin} --sector-size 512 --key-file other v");
        at(&folder, &line).args(FAST).ok();
        at(&folder, "decrypt --force --key-file other v out").ok();
        assert!(fs::read(folder.join("out")).unwrap()[..LEN] == plain[..LEN]);
    }
    assert_eq!(prepared, 1);
    // Other bytes after the data are not overwritten.
    let mut other = plain.clone();
    other[LEN + 100] = 1;
    folder.write("v", other);
    let outcome = say(
        &folder,
        &Files::of(&folder),
        &format!("reencrypt {begin} --key-file key v"),
    );
    assert!(outcome.stderr.contains("are not empty"), "{outcome:#?}");
}

/// Between the copies of the metadata, one of which names a zone that nothing protects, the data are as they
/// were. No advice deletes what says so. In the zone they are lost, and no advice promises to finish it.
#[test]
fn a_zone_without_protection_is_lost_only_if_it_may_have_changed() {
    for (make, begin, header) in [
        (Some("encrypt --luks2-keyslots-size 992K"), "", ""),
        (None, "--encrypt --header h", "--header h"),
        (
            Some("encrypt --header h"),
            "--decrypt --header h",
            "--header h",
        ),
    ] {
        let folder = folder(make);
        let made = Files::of(&folder);
        let (mut between, mut lost) = (0, 0);
        for sync in 1.. {
            made.restore(&folder);
            if !killed(&folder, sync, &format!("--resilience none {begin}")) {
                break;
            }
            let files = Files::of(&folder);
            let is_there = header.is_empty() || folder.join("h").exists();
            if !is_there {
                continue;
            }
            let metadata = if header.is_empty() { "v" } else { "h" };
            let check = say(&folder, &files, &format!("check {header} v"));
            let go_on = format!("reencrypt --key-file key {header} v");
            let decrypt = format!("decrypt --force --key-file key {header} v out");
            let is_under_way = at(&folder, &format!("dump {metadata}"))
                .ok()
                .text()
                .contains("online-reencrypt");
            if !is_under_way {
                continue;
            }
            let is_readable = say(&folder, &files, &decrypt).code == Some(0);
            assert_eq!(is_readable, has_data(&folder, header), "{begin} {sync}");
            if !is_readable {
                lost += 1;
                check.assert_code(1);
                let all = [
                    decrypt,
                    go_on,
                    format!("serve --read-only --key-file key --socket s {header} v"),
                    format!("key add --key-file key --new-key-file other {header} v"),
                    format!("resize {header} v"),
                ];
                let all = all.map(|line| say(&folder, &files, &line));
                for outcome in all.iter().chain([&check]) {
                    assert_eq!(outcome.code, Some(1), "{begin} {sync}: {outcome:#?}");
                    let is_said = outcome.stderr.contains("restore the volume from a backup");
                    // One of the copies may be older.
                    let advised = advised(outcome).unwrap_or_default();
                    let is_of_header = advised.is_empty() || advised.starts_with("header repair ");
                    assert!(is_said && is_of_header, "{outcome:#?}");
                }
                continue;
            }
            // All advice keeps the data.
            if check.stderr.contains("before it took effect") {
                between += 1;
            }
            if let Some(command) = advised(&check) {
                assert!(command.starts_with("header repair "), "{check:#?}");
                at(&folder, &command).ok();
                assert!(has_data(&folder, header), "{begin} {sync}");
                at(&folder, &format!("check {header} v")).ok();
            }
            let restore = format!(
                "\"$luxor\" header backup --force {metadata} b && \
                 \"$luxor\" header restore --batch-mode --force {metadata} b"
            );
            // It makes the older copy of the metadata equal to the newer one.
            let cryptsetup = format!("cryptsetup luksDump {metadata}");
            for before in ["true", &restore, &cryptsetup] {
                files.restore(&folder);
                shell_without_terminal(before, folder.path()).assert_code(0);
                at(&folder, &go_on).ok();
                if begin.contains("--decrypt") {
                    assert!(
                        fs::read(folder.join("v")).unwrap() == bytes(LEN, 3),
                        "{sync}"
                    );
                } else {
                    assert!(has_data(&folder, header), "{begin} {sync}");
                }
            }
        }
        eprintln!("{begin}: {between} between the copies, {lost} lost");
        assert!(between >= 2 && lost >= 2, "{begin}: {between} {lost}");
    }
}

#[test]
fn a_file_that_was_decrypted_is_not_said_to_be_cut_off() {
    for rest in [0, 5] {
        let folder = Folder::new();
        folder.write("key", b"correct horse");
        folder.write("plain", bytes(LEN + rest, 3));
        let make = "encrypt --luks2-keyslots-size 480K --key-file key plain v";
        at(&folder, make).args(FAST).ok();
        at(&folder, "reencrypt --decrypt --header h --key-file key v")
            .args(FAST)
            .ok();
        let files = Files::of(&folder);
        for line in [
            "decrypt --key-file key --header h v out",
            "serve --key-file key --socket s --header h v",
            "serve --read-only --key-file key --socket s --header h v",
            "mount --key-file key --header h v DIR",
            "resize --header h v",
            "resize --shrink --size 4096 --header h v",
            "decrypt --truncated --key-file key --header h v out",
        ] {
            fs::create_dir_all(folder.join("DIR")).unwrap();
            let outcome = say(&folder, &files, line);
            outcome.assert_code(1);
            let words = "If the volume was decrypted permanently, its data are there in plaintext";
            assert!(outcome.stderr.contains(words), "{rest}: {outcome:#?}");
            for wrong in ["cut off", "--truncated", "--shrink"] {
                assert!(!outcome.stderr.contains(wrong), "{rest}: {outcome:#?}");
            }
        }
    }
}

/// An option with which it has begun is named, or does no harm.
#[test]
fn the_same_command_continues_or_says_which_one_does() {
    let folder = folder(None);
    let begin = "--encrypt --header h --device-size 512K --batch-mode";
    let (mut without_zone, mut with_zone) = (0, 0);
    for sync in 5..=10 {
        folder.write("v", bytes(LEN, 3));
        let _ = fs::remove_file(folder.join("h"));
        assert!(killed(&folder, sync, begin), "{sync}");
        if !folder.join("h").exists() {
            continue;
        }
        let again = at(&folder, &format!("reencrypt {begin} --key-file key v")).run();
        again.assert_code(5);
        let command = advised(&again).unwrap();
        let wanted = "reencrypt --resume-only --device-size 524288 --header h v";
        assert_eq!(command, wanted);
        let dump = at(&folder, "dump --json h").ok();
        let has_zone = dump.text().contains("in-reencryption");
        with_zone += usize::from(has_zone);
        without_zone += usize::from(!has_zone);
        at(&folder, &format!("{command} --batch-mode --key-file key")).ok();
        let stored = fs::read(folder.join("v")).unwrap();
        let plain = bytes(LEN, 3);
        assert!(stored[..4096] != plain[..4096] && stored[LEN / 2..] == plain[LEN / 2..]);
    }
    assert!(
        with_zone > 0 && without_zone > 0,
        "{with_zone} {without_zone}"
    );
}

#[test]
fn the_keyslots_that_are_kept_can_be_named_again() {
    let folder = folder(Some("encrypt"));
    let add = "key add --key-file key --new-key-file other v";
    at(&folder, add).args(FAST).ok();
    let line = |options: &str| at(&folder, &format!("reencrypt --key-file {options} v")).args(FAST);
    line("key --key-slot 0 --init-only").ok();
    let again = line("key --key-slot 0 --init-only").run();
    assert_eq!(advised(&again).as_deref(), Some("reencrypt v"));
    // Others are not taken for these.
    for options in ["key --key-slot 1", "other --key-slot 1"] {
        line(options).fails(2, "v");
    }
    for options in ["key --key-slot 0 --key-slot 1", "key --key-slot 2"] {
        line(options).fails(1, "the keyslots to keep were chosen then");
    }
    let other = line("key --key-size 256").fails(1, "it has begun with another key length");
    assert_eq!(advised(&other).as_deref(), Some("reencrypt v"));
    line("key --key-slot 0").ok();
    assert!(has_data(&folder, ""));
    at(&folder, "key test --key-file other v").fails(2, "v");
}

/// The header does not say in which part of a disk its data are.
#[test]
fn a_disk_is_not_taken_for_the_data_in_one_of_its_partitions() {
    for script in [
        "label: gpt\\nstart=2048, size=2048\\n",
        "label: dos\\nstart=2048, size=2048\\n",
    ] {
        let folder = Folder::new();
        folder.write("key", b"correct horse");
        let line = format!("truncate -s 4M v; printf '{script}' | sfdisk --quiet v");
        shell_without_terminal(&line, folder.path()).assert_code(0);
        let mut disk = fs::read(folder.join("v")).unwrap();
        disk[LEN..2 * LEN].copy_from_slice(&bytes(LEN, 3));
        folder.write("v", &disk);
        let run = |options: &str| {
            at(&folder, &format!("reencrypt --key-file key {options} v"))
                .args(FAST)
                .run()
        };
        let refused = |options: &str| {
            let files = Files::of(&folder);
            let outcome = run(options);
            outcome.assert_code(1);
            let words = "All of it would be changed, with the partition table";
            assert!(outcome.stderr.contains(words), "{outcome:#?}");
            assert!(fs::read(folder.join("v")).ok() == files.0[0].1);
            files.restore(&folder);
        };
        refused("--encrypt --header h");
        assert!(!folder.join("h").exists());
        let part = "--volume-partition 1 --header h";
        run(&format!("--encrypt --init-only {part}")).assert_code(0);
        refused("--header h");
        run(part).assert_code(0);
        refused("--header h");
        refused("--decrypt --header h");
        run(&format!("--init-only {part}")).assert_code(0);
        refused("--header h");
        run(part).assert_code(0);
        run(&format!("--decrypt --init-only {part}")).assert_code(0);
        refused("--header h");
        run(&format!("--decrypt {part}")).assert_code(0);
        assert!(fs::read(folder.join("v")).unwrap() == disk);

        // All of it can be encrypted nevertheless, and decrypted again.
        fs::remove_file(folder.join("h")).unwrap();
        run("--encrypt --force --init-only --header h").assert_code(0);
        refused("--header h");
        run("--force --header h").assert_code(0);
        run("--header h").assert_code(0);
        run("--decrypt --header h").assert_code(0);
        assert!(fs::read(folder.join("v")).unwrap() == disk);
    }
}

/// A backup of a header without keyslots opens nothing.
#[test]
fn a_header_without_keyslots_is_damaged_and_has_no_backup() {
    let folder = folder(Some("encrypt --header h"));
    for len in [40_000, 100_000, (16 << 20) - 4096] {
        let line = format!("cp h cut; truncate --size {len} cut");
        shell_without_terminal(&line, folder.path()).assert_code(0);
        let words = "metadata and keyslots have 16777216 bytes";
        for line in ["check cut", "check --header cut v", "header backup cut b"] {
            at(&folder, line).run().assert_code(1);
            let outcome = at(&folder, line).run();
            assert!(outcome.stderr.contains(words), "{outcome:#?}");
        }
    }
    // The encryption has written the metadata to the front, and not yet the keyslots.
    let mut found = 0;
    for sync in 4..=7 {
        folder.write("v", [bytes(LEN, 3), vec![0; 2 << 20]].concat());
        assert!(killed(&folder, sync, "--encrypt --reduce-device-size 2M"));
        let files = Files::of(&folder);
        let [check, backup] =
            ["check v", "header backup --force v b"].map(|line| say(&folder, &files, line));
        let opens = at(&folder, "key test --key-file key v").run().code == Some(0);
        assert_eq!(check.code == Some(0), opens, "{sync}: {check:#?}");
        assert_eq!(backup.code == Some(0), opens, "{sync}: {backup:#?}");
        if !opens {
            assert_eq!(advised(&check), advised(&backup), "{check:#?} {backup:#?}");
            let command = advised(&check).unwrap();
            at(&folder, &format!("{command} --key-file key"))
                .args(FAST)
                .ok();
            assert!(has_data(&folder, ""));
            found += usize::from(!command.contains("--encrypt"));
        }
    }
    assert!(found > 0);
}

/// The command line has no data, so the advice asks for them.
#[test]
fn advice_about_a_detached_header_alone_names_it_as_a_header() {
    let folder = folder(Some("encrypt --header h"));
    let line = "reencrypt --init-only --header h --key-file key v";
    at(&folder, line).args(FAST).ok();
    for line in [
        "key add --key-file key --new-key-file other h",
        "key remove --key-file key h",
        "config --label name h",
    ] {
        let outcome = at(&folder, line).run();
        outcome.assert_code(1);
        let command = advised(&outcome).unwrap();
        assert_eq!(command, "reencrypt --header h DATA", "{outcome:#?}");
        assert!(
            outcome.stderr.contains("DATA is the file or device"),
            "{outcome:#?}"
        );
    }
    at(&folder, "reencrypt --header h v --key-file key").ok();
    assert!(has_data(&folder, "--header h"));
}
