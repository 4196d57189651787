// SPDX-License-Identifier: MIT OR Apache-2.0
//! `luksFormat` beside cryptsetup: the keyslot's number, where the data begin, both labels.

use std::fs;

use crate::support::{FAST, Folder, bytes, luxor, shell_without_terminal, terminal, tool};

const KEY: &str = "correct horse";

/// What cryptsetup says of a volume, without what differs in every volume.
fn dumped(folder: &Folder, header: &str) -> String {
    let path = folder.join(header);
    let dump = tool("cryptsetup", ["luksDump".as_ref(), path.as_os_str()]);
    let is_drawn = |line: &str| {
        let hexadecimal = |word: &str| word.len() == 2 && u8::from_str_radix(word, 16).is_ok();
        let name = line.trim().split(':').next().unwrap_or_default();
        ["Epoch", "UUID", "Salt", "Digest", "MK digest", "MK salt"].contains(&name)
            || line.split_whitespace().all(hexadecimal)
            || line.contains("header information")
    };
    let kept = dump.text().lines().filter(|line| !is_drawn(line));
    kept.collect::<Vec<_>>().join("\n")
}

#[test]
fn luks_format_lays_a_volume_out_as_cryptsetup_does() {
    let folder = Folder::new();
    folder.write("key", KEY);
    for options in [
        "-S 5",
        "-S 31 --label Photos --subsystem images",
        "--offset 65536",
        "--offset 8192",
        "--offset 16384 --luks2-metadata-size 64k",
        "--offset 262144 --luks2-keyslots-size 512k",
        "--type luks1 -S 7",
        "--type luks1 --offset 8192",
        "--type luks1 --offset 4040",
    ] {
        let mut dumps = Vec::new();
        for program in ["cryptsetup", "\"$luxor\""] {
            let line = format!(
                "truncate -s 200M v && {program} luksFormat -q --pbkdf pbkdf2 \
                 --pbkdf-force-iterations 1000 {options} v key 2>/dev/null"
            );
            shell_without_terminal(&line, folder.path()).assert_code(0);
            dumps.push(dumped(&folder, "v"));
            for test in ["cryptsetup open", "\"$luxor\" open"] {
                let line = format!("{test} --test-passphrase --key-file key v");
                shell_without_terminal(&line, folder.path()).assert_code(0);
            }
        }
        assert!(dumps[0].contains("offset"), "{}", dumps[0]);
        assert_eq!(dumps[1], dumps[0], "{options}");
    }
}

#[test]
fn what_does_not_fit_before_the_data_is_refused() {
    let folder = Folder::new();
    folder.write("key", KEY);
    let names = folder.names();
    for (options, words) in [
        ("--offset 32769", "a multiple of 4096"),
        ("--offset 8 --luks2-keyslots-size 512K", "at least 557056"),
        ("--offset 64", "a keyslot of this volume needs 258048"),
        ("--type luks1 --offset 4032", "at least 2068480"),
        ("--type luks1 --offset 4294967296", "cannot begin at byte"),
        ("--offset 18446744073709551615", "a multiple of 4096"),
        ("--key-slot 32", "LUKS2 has keyslots 0 to 31"),
        ("--type luks1 --key-slot 8", "LUKS1 has keyslots 0 to 7"),
        ("--type luks1 --subsystem x", "LUKS1 does not have"),
    ] {
        let line = luxor("format --key-file key --size 1M v").args(FAST);
        let line = line.args(options.split(' ')).current_dir(folder.path());
        line.fails(1, words);
    }
    assert_eq!(folder.names(), names);
}

/// The place before the data is a hole in a file, and zeros in a pipe.
#[test]
fn data_that_begin_later_come_back() {
    let folder = Folder::new();
    let plain = bytes(10_000, 3);
    folder.write("key", KEY);
    folder.write("plain", &plain);
    for (line, header) in [
        ("plain v", ""),
        ("plain - > v", ""),
        ("- - < plain > v", ""),
        ("--header h plain v", "--header h"),
    ] {
        let line = format!(
            "rm -f v h out; \"$luxor\" encrypt --key-file key --pbkdf pbkdf2 \
             --pbkdf-force-iterations 1000 --offset 65536 --key-slot 2 {line} && \
             \"$luxor\" decrypt --key-file key {header} v out && cmp plain out"
        );
        shell_without_terminal(&line, folder.path()).assert_code(0);
        let len = fs::metadata(folder.join("v")).unwrap().len();
        assert!(len >= (32 << 20) + 12_288, "{line}: {len}");
    }
}

/// Before the end of the keyslots area nothing would open the volume: the area becomes shorter.
#[test]
fn data_with_a_detached_header_begin_after_the_keyslots_area() {
    let folder = Folder::new();
    folder.write("key", KEY);
    let line = |offset: &str| {
        let line = luxor("format --key-file key --header h --size 1M v").args(FAST);
        line.args(["--offset", offset]).current_dir(folder.path())
    };
    line("64").fails(1, "a keyslot of this volume needs 258048");
    line("8192").ok();
    assert!(dumped(&folder, "h").contains("Keyslots area: \t4161536 [bytes]"));
    let check = "check --key-file key --header h v";
    luxor(check).current_dir(folder.path()).ok();
}

#[test]
fn luks_format_asks_on_a_terminal_before_it_replaces_a_file() {
    let folder = Folder::new();
    let old = bytes(20 << 20, 1);
    let line = format!("luksFormat {} v", FAST.join(" "));
    folder.write("v", &old);
    let (code, screen) = terminal(&line, &["no\n"], folder.path());
    assert_eq!(code, 1, "{screen}");
    assert!(screen.contains("All data on v will be lost."), "{screen}");
    assert!(fs::read(folder.join("v")).unwrap() == old);
    let answers = ["YES\n", "correct horse\n", "correct horse\n"];
    let (code, screen) = terminal(&line, &answers, folder.path());
    assert_eq!(code, 0, "{screen}");
    assert!(fs::read(folder.join("v")).unwrap().starts_with(b"LUKS"));
    // Luxor's own name asks nothing, and neither does a line without a terminal.
    let (code, screen) = terminal("format v", &[], folder.path());
    assert_eq!(code, 5, "{screen}");
    let shell = "echo x | \"$luxor\" luksFormat v";
    shell_without_terminal(shell, folder.path()).assert_code(5);
}
