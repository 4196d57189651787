// SPDX-License-Identifier: MIT OR Apache-2.0
//! `dump` and `check`.

use std::{
    fs::{self, File},
    os::unix::fs::PermissionsExt,
    path::Path,
    thread,
    time::Duration,
};

use serde_json::{Value, json};

use crate::support::{FAST, Folder, bytes, hex, luxor, terminal, tool, without_terminal};

/// A folder with a key, and volumes made by Luxor and by cryptsetup.
fn prepared() -> Folder {
    let folder = Folder::new();
    folder.write("key", b"correct horse");
    folder.write("plain", bytes(10_000, 1));
    luxor("encrypt --key-file key --label ours plain ours")
        .args(FAST)
        .current_dir(folder.path())
        .ok();
    let theirs = folder.write("theirs", vec![0; 20 << 20]);
    let key = folder.join("key");
    tool(
        "cryptsetup",
        [
            "luksFormat",
            "--batch-mode",
            "--type",
            "luks2",
            "--pbkdf",
            "pbkdf2",
            "--pbkdf-force-iterations",
            "1000",
            "--label",
            "theirs",
            "--key-file",
            key.to_str().unwrap(),
            theirs.to_str().unwrap(),
        ],
    );
    folder
}

fn dump_by_cryptsetup(volume: &Path, options: &[&str]) -> Vec<u8> {
    let volume = volume.to_str().unwrap();
    tool(
        "cryptsetup",
        ["luksDump"].iter().chain(options).copied().chain([volume]),
    )
    .stdout
}

#[test]
fn dump_json_equals_the_output_of_cryptsetup() {
    let folder = prepared();
    for name in ["ours", "theirs"] {
        let output = luxor("dump --json").arg(folder.join(name)).ok();
        let expected = dump_by_cryptsetup(&folder.join(name), &["--dump-json-metadata"]);
        assert_eq!(
            output.text(),
            String::from_utf8(expected).unwrap(),
            "{name}"
        );
        assert_eq!(output.stderr, "");
    }
}

/// Metadata of 4 MiB, which have 120 MB when indented.
#[test]
fn hostile_metadata_are_dumped_in_bounded_memory() {
    let folder = Folder::new();
    folder.write("key", b"key");
    folder.write("volume", vec![0; 17 << 20]);
    let shell = |line: &str| {
        let line = format!("cd '{}' && {line}", folder.path().display());
        tool("sh", ["-c", &line])
    };
    shell(
        "cryptsetup -q luksFormat --type luks2 --luks2-metadata-size 4m --luks2-keyslots-size 4m \
         --pbkdf pbkdf2 --pbkdf-force-iterations 1000 --key-file key volume",
    );
    // The deepest nesting that metadata may have.
    let (depth, items) = (28, 2_000_000);
    let zeros = "[".repeat(depth) + &"0,".repeat(items) + "0" + &"]".repeat(depth);
    let token = format!(r#"{{"type":"x","keyslots":[],"y":{zeros}}}"#);
    folder.write("token", token);
    luxor("token add --json-file token volume")
        .current_dir(folder.path())
        .ok();
    let program = env!("CARGO_BIN_EXE_luxor");
    let dump = shell(&format!(
        "ulimit -v 200000 && {{ '{program}' dump --json volume; echo $? >code; }} | wc -c"
    ));
    assert_eq!(fs::read_to_string(folder.join("code")).unwrap(), "0\n");
    assert!(dump.text().trim().parse::<usize>().unwrap() > 60 * items);
    for line in ["dump", "check"] {
        shell(&format!("ulimit -v 200000 && '{program}' {line} volume"));
    }
}

#[test]
fn dump_shows_the_important_fields() {
    let folder = prepared();
    for name in ["ours", "theirs"] {
        let text = luxor("dump").arg(folder.join(name)).ok();
        let expected = String::from_utf8(dump_by_cryptsetup(&folder.join(name), &[])).unwrap();
        let uuid = expected
            .lines()
            .find_map(|line| line.strip_prefix("UUID:"))
            .unwrap()
            .trim();
        for part in [
            uuid,
            name,
            "aes-xts-plain64",
            "pbkdf2",
            "1000",
            "16777216",
            "4096",
        ] {
            assert!(text.text().contains(part), "no {part:?} in {}", text.text());
        }
    }
    let ours = luxor("dump").arg(folder.join("ours")).ok();
    assert!(
        ours.text().contains("10000"),
        "the file's length: {}",
        ours.text()
    );
}

/// A volume can also be dumped from a pipe.
#[test]
fn dump_reads_pipes() {
    let folder = prepared();
    let outcome = luxor("dump --json -")
        .stdin(fs::read(folder.join("ours")).unwrap())
        .ok();
    assert_eq!(
        outcome.stdout,
        luxor("dump --json").arg(folder.join("ours")).ok().stdout
    );
}

#[test]
fn a_hostile_label_is_escaped() {
    let folder = prepared();
    luxor("encrypt --key-file key --label")
        .args(["\u{1b}[2Jgone", "plain", "tricky"])
        .args(FAST)
        .current_dir(folder.path())
        .ok();
    let text = luxor("dump").arg(folder.join("tricky")).ok();
    assert!(!text.stdout.contains(&0x1b), "{}", text.text());
    assert!(text.text().contains("gone"), "{}", text.text());
}

#[test]
fn files_without_a_header_are_refused() {
    let folder = prepared();
    folder.write("empty", b"");
    folder.write("text", "LUKS".repeat(2000));
    for command in ["dump", "dump --json", "check"] {
        for (name, words) in [("empty", "LUKS"), ("text", "LUKS"), ("plain", "LUKS")] {
            luxor(command).arg(folder.join(name)).fails(1, words);
        }
    }
}

#[test]
fn check_says_which_copy_is_damaged() {
    let folder = prepared();
    let check = |name: &str| luxor("check").arg(folder.join(name)).run();
    for name in ["ours", "theirs"] {
        check(name).assert_code(0);
        let volume = fs::read(folder.join(name)).unwrap();
        // Each copy has 16 KiB: 4 KiB of binary header, then JSON.
        for (offset, words) in [
            (0, "primary"),
            (100, "primary"),
            (5000, "primary"),
            (0x4000, "secondary"),
            (0x4000 + 5000, "secondary"),
        ] {
            let mut damaged = volume.clone();
            damaged[offset] ^= 0x20;
            folder.write("damaged", &damaged);
            let outcome = check("damaged");
            outcome.assert_code(1);
            let all = outcome.stderr.clone() + outcome.text();
            assert!(all.contains(words), "byte {offset}: {outcome:#?}");
            // The volume can still be opened.
            luxor("decrypt --force --key-file key damaged back")
                .current_dir(folder.path())
                .run()
                .assert_code(0);
        }
        let mut damaged = volume.clone();
        damaged[100] ^= 1;
        damaged[0x4000 + 100] ^= 1;
        folder.write("damaged", &damaged);
        let outcome = check("damaged");
        outcome.assert_code(1);
        luxor("decrypt --key-file key damaged none")
            .current_dir(folder.path())
            .run()
            .assert_code(1);
        assert!(!folder.join("none").exists());
    }
}

#[test]
fn check_opens_a_keyslot_with_a_key() {
    let folder = prepared();
    folder.write("wrong", b"wrong");
    for name in ["ours", "theirs"] {
        let check = |options: &str| {
            luxor("check")
                .args(options.split(' '))
                .arg(name)
                .current_dir(folder.path())
        };
        let outcome = check("--key-file key").ok();
        assert!(outcome.text().contains("keyslot 0"), "{outcome:#?}");
        check("--passphrase-fd 0").stdin("correct horse\n").ok();
        check("--key-file key --key-slot 0").ok();
        check("--key-file wrong").run().assert_code(2);
        check("--key-file key --key-slot 1").run().assert_code(1);
    }
    let checked = |line: &str, code| -> Value {
        let outcome = luxor(line).current_dir(folder.path()).run();
        outcome.assert_code(code);
        serde_json::from_slice(&outcome.stdout).unwrap()
    };
    let example = include_str!("../../../../docs/examples/check.json");
    let example: Value = serde_json::from_str(example).unwrap();
    assert_eq!(checked("check --json --key-file key ours", 0), example);
    let wrong = checked("check --json --key-file wrong ours", 2);
    assert_eq!(
        (&wrong["good"], &wrong["keys"]),
        (&example["good"], &json!([]))
    );
    // The area of a keyslot is damaged: the metadata are intact, but the key is lost.
    let mut volume = fs::read(folder.join("ours")).unwrap();
    volume[32768 + 5] ^= 1;
    folder.write("damaged", &volume);
    luxor("check damaged").current_dir(folder.path()).ok();
    luxor("check --key-file key damaged")
        .current_dir(folder.path())
        .run()
        .assert_code(2);
}

/// Replaces a text in both copies of the JSON metadata.
fn with_text(folder: &Folder, volume: &[u8], old: &str, new: &str) -> Vec<u8> {
    let mut volume = volume.to_vec();
    for begin in [0, 0x4000] {
        let copy = &mut volume[begin..begin + 0x4000];
        let text = String::from_utf8_lossy(&copy[4096..]).into_owned();
        let text = text.trim_end_matches('\0').replace(old, new);
        copy[4096..].fill(0);
        copy[4096..][..text.len()].copy_from_slice(text.as_bytes());
        copy[448..512].fill(0);
        let sum = tool("sha256sum", [folder.write("copy", &*copy)]);
        for (byte, digits) in copy[448..480].iter_mut().zip(sum.stdout.chunks(2)) {
            let digits = std::str::from_utf8(digits).unwrap();
            *byte = u8::from_str_radix(digits, 16).unwrap();
        }
    }
    volume
}

/// These metadata are intact, but Luxor cannot open the volume.
#[test]
fn check_says_why_a_volume_that_is_not_damaged_does_not_open() {
    let folder = prepared();
    let volume = fs::read(folder.join("ours")).unwrap();
    let crypt = "\"type\":\"crypt\"";
    let integrity = format!("{crypt},\"integrity\":{{\"type\":\"hmac(sha256)\"}}");
    // The key of data that are not supported can be checked, and plain data have none.
    for (new, words, code) in [
        (
            "\"type\":\"linear\"",
            "data: segment 0 is not encrypted, although",
            1,
        ),
        (
            &integrity,
            "data: segment 0: it has integrity tags, which",
            0,
        ),
        (
            "\"type\":\"striped\"",
            "data: segment 0: it is of type \"striped\", which",
            0,
        ),
    ] {
        let changed = with_text(&folder, &volume, crypt, new);
        assert!(changed != volume);
        folder.write("changed", &changed);
        let outcome = luxor("check changed").current_dir(folder.path()).ok();
        assert!(outcome.text().contains(words), "{outcome:#?}");
        assert!(outcome.stderr.is_empty(), "{outcome:#?}");
        let outcome = luxor("check --key-file key changed")
            .current_dir(folder.path())
            .run();
        outcome.assert_code(code);
        assert!(!outcome.stderr.contains("damaged"), "{outcome:#?}");
    }
}

/// cryptsetup locks a volume while it changes the metadata. They must not be read during that time.
#[test]
fn metadata_are_not_read_while_they_are_changed() {
    let folder = prepared();
    let file = File::open(folder.join("ours")).unwrap();
    for line in [
        "dump ours",
        "check ours",
        "decrypt --force --key-file key ours back",
    ] {
        file.lock().unwrap();
        let mut child = luxor(line).current_dir(folder.path()).spawn();
        thread::sleep(Duration::from_millis(300));
        assert_eq!(child.try_wait().unwrap(), None, "{line} did not wait");
        file.unlock().unwrap();
        assert!(child.wait_with_output().unwrap().status.success(), "{line}");
    }
    file.lock_shared().unwrap();
    luxor("decrypt --force --key-file key ours back")
        .current_dir(folder.path())
        .ok();
}

/// cryptsetup makes a volume with any given key. Luxor does not accept a key with equal halves.
#[test]
fn weak_keys_are_named_and_may_be_allowed() {
    let folder = prepared();
    folder.write("weak-key", [7; 64]);
    let weak = folder.write("weak", vec![0; 20 << 20]);
    let name = |file: &str| folder.join(file).into_os_string().into_string().unwrap();
    let line = format!(
        "luksFormat --batch-mode --type luks2 --pbkdf pbkdf2 --pbkdf-force-iterations 1000 --key-size 512 \
         --volume-key-file {} --key-file {} {}",
        name("weak-key"),
        name("key"),
        weak.display(),
    );
    tool("cryptsetup", line.split_whitespace());
    luxor("decrypt --key-file key weak out")
        .current_dir(folder.path())
        .fails(1, "--allow-weak-key");
    luxor("check --key-file key weak")
        .current_dir(folder.path())
        .run()
        .assert_code(1);
    luxor("decrypt --allow-weak-key --key-file key weak out")
        .current_dir(folder.path())
        .ok();
}

/// Printing the volume key needs a confirmation.
#[test]
fn the_volume_key_is_printed_after_confirmation() {
    let folder = prepared();
    folder.write("wrong", b"wrong");
    for name in ["ours", "theirs"] {
        let line = format!(
            "cd '{}' && cryptsetup luksDump -q --dump-volume-key --volume-key-file {name}.theirs \
             --key-file key {name}",
            folder.path().display()
        );
        tool("sh", ["-c", &line]);
        let key = fs::read(folder.join(format!("{name}.theirs"))).unwrap();
        let dump =
            |options: &str| luxor(&format!("dump {options} {name}")).current_dir(folder.path());

        let outcome = dump("--volume-key --batch-mode --key-file key").ok();
        assert_eq!(outcome.text(), hex(&key) + "\n");
        let file = format!("{name}.key");
        dump(&format!(
            "--volume-key --batch-mode --key-file key --volume-key-file {file}"
        ))
        .ok();
        let metadata = fs::metadata(folder.join(&file)).unwrap();
        assert_eq!(metadata.permissions().mode() & 0o777, 0o400);
        assert_eq!(fs::read(folder.join(&file)).unwrap(), key);
        dump(&format!(
            "--volume-key --batch-mode --key-file key --volume-key-file {file}"
        ))
        .fails(5, "exists");
        dump("--volume-key --batch-mode --key-file key --volume-key-file key").fails(1, "key file");

        dump("--volume-key --batch-mode --key-file wrong").fails(2, "no keyslot");
        dump("--volume-key --batch-mode --key-file wrong --volume-key-file none").fails(2, "");
        assert!(!folder.join("none").exists());
        for (options, words) in [
            ("--volume-key-file none", "--volume-key"),
            ("--batch-mode", "--volume-key"),
            ("--volume-key --json", "--json"),
        ] {
            let outcome = dump(options).run();
            outcome.assert_code(1);
            assert!(outcome.stderr.contains(words), "{outcome:#?}");
        }

        let arguments = ["--volume-key", "--key-file", "key", name];
        let outcome = without_terminal("dump", &arguments, folder.path());
        outcome.assert_code(1);
        assert!(outcome.stderr.contains("--batch-mode"), "{outcome:#?}");
        assert!(outcome.stdout.is_empty());
        let line = format!("dump --volume-key {name}");
        let (code, screen) = terminal(&line, &["no\n"], folder.path());
        assert_eq!(code, 1, "{screen}");
        assert!(!screen.contains(&hex(&key)));
        let (code, screen) = terminal(&line, &["YES\n", "correct horse\n"], folder.path());
        assert_eq!(code, 0, "{screen}");
        assert!(screen.contains(&hex(&key)), "{screen}");
    }
}
