// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs the command lines of README and the documents as they are printed, on a terminal.
//!
//! A block of commands, and a command in a table, each have a folder of their own with the files that
//! the documents talk about.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
};

use crate::support::{FAST, Folder, bytes, luxor, shell_without_terminal, tool, typed};

/// What a command may need that is not here. Other tests have it.
const NEEDS: [(&str, &str); 12] = [
    ("ssh ", "another machine"),
    ("aws s3", "an object store: the tests of the Python module"),
    ("rclone", "an object store: the tests of the Python module"),
    ("remote/", "an object store"),
    ("clevis ", "Clevis"),
    ("--token-id", "a smart card or a TPM"),
    ("luxor decrypt volume out", "a token of Clevis: tokens.rs"),
    ("/dev/sdx1", "a disk"),
    (
        "image.sif",
        "an image of Apptainer: mount_files.rs has a volume at an offset",
    ),
    ("--tls-", "certificates: tests/serve"),
    ("luxor bench", "minutes: `cargo xtask page` runs all of it"),
    ("luxor report", "minutes: `cargo xtask page` runs it"),
];

/// How many commands need something of [`NEEDS`]. A command that is added here has a test elsewhere.
const LEFT_OUT: usize = 24;

/// The passphrase that opens the volumes, with the key files `key.bin` and `new.key`.
pub const PASSPHRASE: &str = "correct horse";

/// Adds cheap key derivation where a keyslot is made, and a PID file to a server.
const WRAPPER: &str = r#"#!/bin/sh
case "$1 $2" in
    encrypt*|format*|reencrypt*|"key add"|"key change"|luksAddKey*)
        case "$*" in
            *--pbkdf-memory*|*--iter-time*) ;;
            *) set -- "$@" --pbkdf pbkdf2 --pbkdf-force-iterations 1000 ;;
        esac ;;
    serve*)
        case "$*" in *--pid-file*) ;; *) set -- "$@" --pid-file running.pid ;; esac ;;
esac
exec "$luxor" "$@"
"#;

/// Ends a server as soon as clients can connect, and a mount as soon as it is there.
const STOP: &str = "\
(for i in $(seq 600); do
    if [ -s running.pid ]; then kill $(cat running.pid); break; fi
    if mountpoint -q plain; then fusermount3 -u plain; break; fi
    sleep 0.05
done) & ";

/// Returns the documents with commands.
fn documents() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folders = ["docs", "docs/papers"];
    let in_docs = folders.map(|folder| fs::read_dir(root.join(folder)).unwrap());
    let in_docs = in_docs.into_iter().flatten();
    let in_docs = in_docs.map(|entry| entry.unwrap().path());
    let others = ["README.md", "BENCHMARKING.md", "systemd/README.md"];
    let mut found: Vec<_> = in_docs
        .chain(others.map(|name| root.join(name)))
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .collect();
    found.sort();
    found
}

/// Returns the groups of commands that call `luxor`: those of each block, and each command in a table.
fn groups(text: &str) -> Vec<Vec<String>> {
    let mut groups = Vec::new();
    let mut block: Option<(bool, Vec<String>)> = None;
    let mut is_to_be_run = false;
    for line in text.lines() {
        match (line.strip_prefix("```"), &mut block) {
            (Some(_), Some((_, commands))) => {
                groups.push(std::mem::take(commands));
                block = None;
            }
            (Some("console"), None) => block = Some((false, Vec::new())),
            (Some("sh"), None) => block = Some((true, vec![String::new()])),
            (Some(_), None) => block = Some((false, Vec::new())),
            // A block of shell is one command.
            (None, Some((true, commands))) => commands[0] += &format!("{line}\n"),
            (None, Some((false, commands))) => {
                let goes_on = commands
                    .last()
                    .is_some_and(|command| command.ends_with('\\'));
                if let Some(command) = line.strip_prefix("$ ") {
                    commands.push(command.to_owned());
                } else if let (true, Some(last)) = (goes_on, commands.last_mut()) {
                    *last += &format!("\n{line}");
                }
            }
            (None, None) if line.starts_with('|') => {
                is_to_be_run |= line.contains("| run |");
                let codes = line.split('`').skip(1).step_by(2).filter(|_| is_to_be_run);
                // Shorter ones only name a command.
                let is_whole = |code: &&str| code.split(' ').count() > 2;
                let commands = codes.filter(|code| code.starts_with("luxor "));
                let commands = commands.filter(is_whole);
                groups.extend(commands.map(|command| vec![command.to_owned()]));
            }
            (None, None) => is_to_be_run = false,
        }
    }
    let calls = |command: &String| {
        let mut lines = command.lines();
        lines.any(|line| line.starts_with("luxor ") || line.contains("| luxor "))
    };
    groups.retain(|group| group.iter().any(calls));
    for group in &mut groups {
        let prepares = |command: &String| {
            ["mkdir ", "truncate "]
                .iter()
                .any(|begin| command.starts_with(begin))
        };
        group.retain(|command| calls(command) || prepares(command));
    }
    groups
}

/// Makes the files that the documents talk about.
pub fn prepared() -> Folder {
    let folder = Folder::new();
    for (name, len) in [
        ("backup.tar", 10_000),
        ("note.txt", 100),
        ("disk.img", 1 << 20),
        ("data", 1 << 20),
        ("picture.raw", 5000),
        ("key.bin", 64),
        ("k64", 64),
        ("volume-key", 64),
        ("second.key", 32),
        ("new.key", 32),
    ] {
        folder.write(name, bytes(len, len as u64 + 7));
    }
    // As long as a header, with a hole.
    let image = File::options().write(true).open(folder.join("disk.img"));
    image.unwrap().set_len(17 << 20).unwrap();
    folder.write("passphrase", PASSPHRASE);
    fs::create_dir(folder.join("bin")).unwrap();
    let wrapper = folder.write("bin/luxor", WRAPPER);
    tool("chmod", ["+x".as_ref(), wrapper.as_os_str()]);

    let small = ["--luks2-keyslots-size", "1M", "--key-file", "passphrase"];
    let make = luxor("encrypt backup.tar photos.luks")
        .args(small)
        .args(FAST);
    make.current_dir(folder.path()).ok();
    tool("cp", [folder.join("photos.luks"), folder.join("old.luks")]);
    for key in ["key.bin", "new.key"] {
        let add = luxor("key add photos.luks --key-file passphrase --new-key-file");
        add.arg(key).args(FAST).current_dir(folder.path()).ok();
    }
    // A volume with files.
    let album = "mkdir album; cp note.txt album; truncate -s 2M ext4; \
        mkfs.ext4 -q -d album ext4; rm -r album";
    shell_without_terminal(album, folder.path()).assert_code(0);
    let make = luxor("encrypt ext4 album.luks").args(small).args(FAST);
    make.current_dir(folder.path()).ok();
    fs::remove_file(folder.join("ext4")).unwrap();
    // An image of a virtual machine, and a disk with a volume in its third partition, at 5 MiB.
    let disk = "qemu-img convert -f raw -O qcow2 disk.img disk.qcow2; \
        truncate -s 24M laptop.img; cat table.txt | sfdisk --quiet laptop.img; \
        dd if=photos.luks of=laptop.img bs=1M seek=5 conv=notrunc status=none; rm table.txt";
    folder.write(
        "table.txt",
        "label: gpt\nsize=2MiB\nsize=2MiB\nsize=16MiB\n",
    );
    shell_without_terminal(disk, folder.path()).assert_code(0);
    for name in ["disk.luks", "disk.img.luks", "volume", "table/backup.luks"] {
        let to = folder.join(name);
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        tool("cp", [folder.join("photos.luks"), to]);
    }
    folder
}

/// Runs a command on a terminal, and answers its questions. Returns its exit code and what it shows.
pub fn run(command: &str, folder: &Folder) -> (i32, String) {
    let runs_on = ["luxor serve", "luxor mount"]
        .iter()
        .any(|begin| command.starts_with(begin));
    let runs_on = runs_on && !command.contains("--background");
    let stop = if runs_on { STOP } else { "" };
    let line = format!("set -eo pipefail; PATH=$PWD/bin:$PATH; {stop}{command}");
    let answer = |screen: &str| {
        let asks = screen.ends_with("Type YES to go on: ");
        let answer = if asks { "YES" } else { PASSPHRASE };
        Some(format!("{answer}\n"))
    };
    typed(&line, answer, folder.path())
}

/// A job of the shell in its background is stopped when it asks for a passphrase on the terminal.
#[test]
fn no_document_starts_luxor_as_a_job_of_the_shell() {
    for document in documents() {
        let text = fs::read_to_string(&document).unwrap();
        let text = text.replace("\\\n", " ");
        for line in text.lines() {
            let is_job = line.contains("luxor ") && line.trim_end().ends_with(" &");
            assert!(!is_job, "{}: {line}", document.display());
        }
    }
}

/// Copies the files that [`prepared`] has made.
pub fn copied(files: &Folder) -> Folder {
    let folder = Folder::new();
    let copy = format!("cp -r '{}'/. .", files.path().display());
    shell_without_terminal(&copy, folder.path()).assert_code(0);
    folder
}

#[test]
fn commands_in_the_documents_work_as_they_are_printed() {
    let files = prepared();
    let (mut ran, mut left_out, mut failed) = (0, 0, String::new());
    for document in documents() {
        let text = fs::read_to_string(&document).unwrap();
        for group in groups(&text) {
            let folder = copied(&files);
            if group.len() == 1 && text.contains(&format!("`{}`", group[0])) {
                fs::rename(folder.join("table/backup.luks"), folder.join("backup.luks")).unwrap();
                fs::create_dir(folder.join("plain")).unwrap();
                if group[0].starts_with("luxor format --size") {
                    // It makes the volume that the other commands already have.
                    fs::remove_file(folder.join("disk.luks")).unwrap();
                }
            }
            for command in group {
                if command.contains(" - disk.luks") {
                    // It makes this volume.
                    fs::remove_file(folder.join("disk.luks")).unwrap();
                }
                if NEEDS.iter().any(|(needed, _)| command.contains(needed)) {
                    left_out += 1;
                    continue;
                }
                let (code, screen) = run(&command, &folder);
                if code != 0 {
                    failed += &format!("{}: {command}\n{screen}\n", document.display());
                }
                ran += 1;
            }
            // What goes on in the background.
            let end = "[ ! -e running.pid ] || kill $(cat running.pid); ! mountpoint -q plain || \
                       fusermount3 -u plain; while [ -e running.pid ]; do sleep 0.05; done";
            shell_without_terminal(end, folder.path()).assert_code(0);
        }
    }
    assert!(failed.is_empty(), "{failed}");
    assert!(ran >= 20, "{ran} commands ran");
    assert_eq!(left_out, LEFT_OUT);
}

#[test]
fn what_a_command_needs_is_in_some_document() {
    let texts = documents()
        .into_iter()
        .map(|path| fs::read_to_string(path).unwrap());
    let commands: String = texts.flat_map(|text| groups(&text).concat()).collect();
    for (needed, what) in NEEDS {
        assert!(commands.contains(needed), "{needed} ({what})");
    }
}
