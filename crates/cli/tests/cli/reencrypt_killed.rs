// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the commands say of a volume after `reencrypt` was killed, and what the commands that they advise do.

use std::fs;

use super::reencrypt::at;
use crate::support::{FAST, Folder, Outcome, bytes, shell_without_terminal};

const LEN: usize = 1 << 20;

/// A folder with the key and the plain data, and the volume that this command makes of them, or else the data.
fn folder(make: Option<&str>) -> Folder {
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
struct Files(Vec<(&'static str, Option<Vec<u8>>)>);

impl Files {
    fn of(folder: &Folder) -> Self {
        let files = ["v", "h"].map(|name| (name, fs::read(folder.join(name)).ok()));
        Self(files.into())
    }

    fn restore(&self, folder: &Folder) {
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
