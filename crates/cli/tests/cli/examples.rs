// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs the examples in the help of each command, as they are printed, on a terminal.

use crate::{
    documents::{copied, prepared, run},
    support::{luxor, shell_without_terminal},
};

/// The examples that do not run here, and why.
const NOT_HERE: [(&str, &str); 11] = [
    (
        "sudo cryptsetup open photos.luks photos",
        "it needs dm-crypt",
    ),
    (
        "luxor serve --socket disk.sock --type plain --key-file key.bin --key-size 512 /dev/sdx1",
        "a disk: the table of advice serves such a file",
    ),
    (
        "luxor format --force --label Backups /dev/sdx1",
        "a disk: outputs.rs",
    ),
    (
        "luxor format --header disk.header /dev/sdx1",
        "a disk: format.rs",
    ),
    ("luxor resize /dev/sdx1", "a disk: resize.rs"),
    (
        "tar c photos | luxor encrypt --key-file key.bin - - | ssh host 'cat > photos.luks'",
        "another machine: streams.rs",
    ),
    (
        "ssh host cat photos.luks | luxor decrypt - photos.tar",
        "another machine: streams.rs",
    ),
    (
        "luxor bench --quick",
        "minutes: `cargo xtask page` runs all of it",
    ),
    (
        "luxor bench cpu --engine vaes512 --json result.json",
        "AVX-512",
    ),
    (
        "luxor bench file --size 1G",
        "minutes: `cargo xtask page` runs all of it",
    ),
    ("luxor bench cpu --unit 512 --call 64K", "minutes"),
];

/// As [`NOT_HERE`], for every example that begins like this.
const COMMANDS_NOT_HERE: [(&str, &str); 1] =
    [("luxor report ", "minutes: `cargo xtask page` runs it")];

/// What an example needs besides the files of the documents, by its beginning.
const BEFORE: [(&str, &str); 26] = [
    ("luxor encrypt photos.tar", "rm photos.luks"),
    ("luxor encrypt --label Photos", "rm photos.luks"),
    ("luxor encrypt backup.tar", "rm backup.luks"),
    ("tar c photos | luxor encrypt", "rm photos.luks"),
    ("luxor decrypt photos.luks", "rm photos.tar"),
    ("luxor decrypt backup.luks", "rm backup.tar"),
    (
        "luxor decrypt --key-file key.bin photos.luks",
        "tar c photos | luxor encrypt --force --key-file key.bin - photos.luks",
    ),
    (
        "luxor decrypt --header-digest",
        "rm photos.tar; luxor header digest photos.luks > photos.digest",
    ),
    ("luxor format --size 100G", "rm disk.luks"),
    (
        "luxor resize --size 50G",
        "luxor resize --size 60G disk.luks",
    ),
    (
        "luxor resize --header",
        "luxor format --key-file passphrase --size 1M --header disk.header disk.data",
    ),
    (
        "luxor header backup --header",
        "luxor encrypt --key-file passphrase --header photos.header photos.tar photos.data",
    ),
    (
        "luxor header restore",
        "luxor header backup photos.luks photos.header; luxor header digest photos.luks > photos.digest",
    ),
    (
        "luxor convert --type luks2",
        "luxor encrypt --force --type luks1 --key-file passphrase disk.img old.luks",
    ),
    (
        "luxor convert --type luks1",
        "luxor encrypt --force --sector-size 512 --key-file passphrase disk.img photos.luks",
    ),
    (
        "luxor key remove --key-slot 3",
        "luxor key add --key-file passphrase --new-key-file second.key --new-key-slot 3 backup.luks",
    ),
    (
        "luxor key change --key-file old.bin",
        "cp key.bin old.bin; cp new.key new.bin",
    ),
    (
        "luxor key test --key-file key.bin --key-slot 1",
        "luxor key test --key-file key.bin --key-slot 1 backup.luks",
    ),
    (
        "luxor check --key-file key.bin --key-slot 0",
        "luxor encrypt --force --key-file key.bin backup.tar backup.luks",
    ),
    (
        "luxor token add --json-file",
        r#"echo '{"type":"example","keyslots":["0"]}' > token.json"#,
    ),
    ("luxor reencrypt --encrypt", "truncate -s 80M disk.img"),
    (
        "luxor reencrypt --key-file key.bin --key-slot 0",
        "luxor encrypt --force --key-file key.bin disk.img disk.luks",
    ),
    (
        "luxor reencrypt",
        "luxor encrypt --force --key-file passphrase disk.img disk.luks",
    ),
    (
        "luxor token remove",
        "luxor token add --key-description words --token-id 1 backup.luks",
    ),
    ("nbdinfo", SERVER),
    ("qemu-img", SERVER),
];

/// The server ends when its client has gone.
const SERVER: &str =
    "setsid luxor serve --key-file passphrase --exit-on-idle --socket disk.sock disk.luks \
                      > said 2>&1 < /dev/null &
                      until [ -S disk.sock ]; do sleep 0.05; done";

/// Returns the examples in the help of all commands.
fn examples() -> Vec<String> {
    let mut found = Vec::new();
    let mut commands = vec![String::new()];
    while let Some(command) = commands.pop() {
        let help = luxor(&command).arg("--help").ok();
        let mut section = "";
        for line in help.text().lines() {
            if !line.starts_with(' ') {
                section = line.trim();
                continue;
            }
            match (section, line.trim()) {
                (_, "") => {}
                ("Commands:", line) => {
                    let name = line.split(' ').next().unwrap();
                    // The descriptions of commands go on in lines that are indented further.
                    if name != "help" && help.text().contains(&format!("\n  {name} ")) {
                        commands.push(format!("{command} {name}").trim().to_owned());
                    }
                }
                // A note may follow.
                ("Example:" | "Examples:", line) => {
                    found.push(line.split("   ").next().unwrap().to_owned());
                }
                _ => {}
            }
        }
    }
    found
}

#[test]
fn examples_in_the_help_work_as_they_are_printed() {
    let examples = examples();
    assert!(examples.len() > 60, "only {} were found", examples.len());
    let files = prepared();
    let more =
        "mkdir photos; cp note.txt photos; cp photos.luks backup.luks; cp backup.tar photos.tar
        cp backup.tar photos.img; head -c 32 k64 > k32; cp note.txt in; cp second.key second.bin
        mkdir -p .local/share/bash-completion/completions";
    shell_without_terminal(more, files.path()).assert_code(0);
    let mut failed = String::new();
    for example in &examples {
        let is_here = |(line, _): &(&str, &str)| example == line;
        let begins = |(begin, _): &(&str, &str)| example.starts_with(begin);
        if NOT_HERE.iter().any(is_here) || COMMANDS_NOT_HERE.iter().any(begins) {
            continue;
        }
        let folder = copied(&files);
        let before = BEFORE.iter().find(|found| begins(found));
        let before = before.map_or("true", |(_, before)| before);
        for line in [before, example] {
            let line = line.replace('~', "$PWD");
            let (code, screen) = run(&line, &folder);
            if code != 0 {
                failed += &format!("{example}\n{line}\n{screen}\n");
                break;
            }
        }
    }
    assert!(failed.is_empty(), "{failed}");
}

#[test]
fn what_is_named_is_an_example() {
    let examples = examples();
    for (line, why) in NOT_HERE {
        assert!(
            examples.iter().any(|example| example == line),
            "{line} ({why})"
        );
    }
    for (begin, what) in COMMANDS_NOT_HERE.iter().chain(&BEFORE) {
        let mut begins = examples.iter().map(|example| example.starts_with(begin));
        assert!(begins.any(|begins| begins), "{begin} ({what})");
    }
}
