// SPDX-License-Identifier: MIT OR Apache-2.0
//! `header`, and the requirements on headers.

mod restore;

use std::{
    fs::{self},
    os::unix::fs::PermissionsExt,
};

use crate::support::{
    FAST, Folder, Luxor, bytes, luxor, terminal, tool, with_metadata, without_terminal,
};

/// A folder with two keys, and a volume of each version.
fn prepared() -> Folder {
    let folder = Folder::new();
    folder.write("key", b"correct horse");
    folder.write("other", b"battery staple");
    folder.write("plain", bytes(10_000, 1));
    run(&folder, "encrypt --key-file key plain luks2")
        .args(FAST)
        .ok();
    folder.write("luks1", vec![0; 3 << 20]);
    cryptsetup(
        &folder,
        "luksFormat --type luks1 --key-size 256 --key-file key --pbkdf-force-iterations 1000 luks1",
    );
    folder
}

const VOLUMES: [&str; 2] = ["luks1", "luks2"];

fn run(folder: &Folder, line: &str) -> Luxor {
    luxor(line).current_dir(folder.path())
}

/// Runs cryptsetup in the folder, and returns what it prints.
fn cryptsetup(folder: &Folder, line: &str) -> String {
    let shell = format!(
        "cd '{}' && exec cryptsetup -q {line}",
        folder.path().display()
    );
    tool("sh", ["-c", &shell]).text().to_owned()
}

/// Makes `other`, with keyslot 1, the only key that opens the volume.
fn change_key(folder: &Folder, volume: &str) {
    let cheap = "--pbkdf pbkdf2 --pbkdf-force-iterations 1000";
    cryptsetup(
        folder,
        &format!("luksAddKey --key-file key --key-slot 1 {cheap} {volume} other"),
    );
    cryptsetup(folder, &format!("luksRemoveKey --key-file key {volume}"));
    run(folder, &format!("check --key-file key {volume}"))
        .run()
        .assert_code(2);
}

#[test]
fn a_backup_is_cryptsetups_and_read_only() {
    let folder = prepared();
    for volume in VOLUMES {
        run(&folder, &format!("header backup {volume} {volume}.ours")).ok();
        cryptsetup(
            &folder,
            &format!("luksHeaderBackup {volume} --header-backup-file {volume}.theirs"),
        );
        let ours = folder.join(format!("{volume}.ours"));
        let theirs = folder.join(format!("{volume}.theirs"));
        assert!(fs::read(&ours).unwrap() == fs::read(&theirs).unwrap());
        for file in [&ours, &theirs] {
            let mode = fs::metadata(file).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o400);
        }
        let outcome = run(&folder, &format!("header backup {volume} -")).ok();
        assert!(outcome.stdout == fs::read(&ours).unwrap());
    }
}

#[test]
fn a_backup_appears_whole_or_not_at_all() {
    let folder = prepared();
    let names = folder.names();
    run(&folder, "header backup plain none").fails(1, "LUKS");
    run(&folder, "header backup missing none").fails(4, "missing");
    run(&folder, "header backup luks2 folder/none").fails(4, "folder");
    run(&folder, "header backup --force luks2 luks2").fails(1, "luks2");
    folder.write("cut", &fs::read(folder.join("luks2")).unwrap()[..1 << 20]);
    run(&folder, "header backup cut none").fails(1, "cut off");
    fs::remove_file(folder.join("cut")).unwrap();
    assert_eq!(folder.names(), names);

    run(&folder, "header backup luks2 backup").ok();
    run(&folder, "header backup luks1 backup").fails(5, "--force");
    run(&folder, "header backup --force luks1 backup").ok();
    assert_eq!(fs::metadata(folder.join("backup")).unwrap().len() % 4096, 0);
    run(&folder, "dump backup").ok();
}

#[test]
fn the_digest_pins_the_header() {
    let folder = prepared();
    for (volume, len) in [("luks1", 592), ("luks2", 0x4000)] {
        let outcome = run(&folder, &format!("header digest {volume}")).ok();
        let digest = outcome.text().trim_end().to_owned();
        let head = folder.write("head", &fs::read(folder.join(volume)).unwrap()[..len]);
        let by_coreutils = tool("sha256sum", [&head]).text()[..64].to_owned();
        assert_eq!(digest, by_coreutils);
        run(&folder, &format!("header backup {volume} {volume}.backup")).ok();
        let of_backup = run(&folder, &format!("header digest {volume}.backup")).ok();
        assert_eq!(of_backup.text().trim_end(), digest);

        let pinned = |line: &str| run(&folder, &format!("--header-digest {digest} {line}"));
        let lines = [
            format!("dump {volume}"),
            format!("check --key-file key {volume}"),
            format!("decrypt --force --key-file key {volume} out"),
            format!("header digest {volume}"),
            format!("header backup --force {volume} again"),
        ];
        for line in &lines {
            pinned(line).ok();
        }
        change_key(&folder, volume);
        for line in &lines {
            pinned(line).fails(1, &digest);
        }
        // The policy applies to the backup, because its header will be used.
        pinned(&format!("header restore --batch-mode {volume} again")).ok();
        pinned(&format!("check --key-file key {volume}")).ok();
        change_key(&folder, volume);
        run(&folder, &format!("header backup --force {volume} again")).ok();
        pinned(&format!("header restore --force {volume} again")).fails(1, &digest);
    }
}

#[test]
fn requirements_are_held_before_a_secret_is_asked_for() {
    let folder = prepared();
    for (options, volume, words) in [
        ("--require-pbkdf argon2id", "luks2", "argon2id"),
        (
            "--require-pbkdf argon2i,argon2id",
            "luks1",
            "argon2i or argon2id",
        ),
        (
            "--require-cipher aes-cbc-plain64",
            "luks2",
            "aes-cbc-plain64",
        ),
        (
            "--require-cipher aes-xts-plain",
            "luks1",
            "aes-xts-plain is required",
        ),
    ] {
        // Standard input contains no passphrase, and none is asked for.
        run(&folder, &format!("{options} decrypt {volume} out")).fails(1, words);
        run(&folder, &format!("check {volume} {options}")).fails(1, words);
    }
    for volume in VOLUMES {
        // An accepted function whose cost is too low.
        let cheap = format!("check --require-pbkdf pbkdf2 {volume}");
        run(&folder, &cheap).fails(1, "at least 600000 iterations");
        cryptsetup(
            &folder,
            &format!(
                "luksChangeKey --key-file key --pbkdf pbkdf2 --hash sha256 \
                 --pbkdf-force-iterations 600000 {volume} key"
            ),
        );
    }
    for options in [
        "--require-pbkdf pbkdf2",
        "--require-pbkdf argon2id,pbkdf2",
        "--require-pbkdf argon2id --require-pbkdf pbkdf2",
        "--require-cipher aes-cbc-plain,aes-xts-plain64 --require-pbkdf pbkdf2",
    ] {
        for volume in VOLUMES {
            run(&folder, &format!("check {options} {volume}")).ok();
        }
    }
    for (line, words) in [
        ("check --require-cipher aes-xts luks2", "aes-xts-plain64"),
        ("check --require-pbkdf scrypt luks2", "argon2id"),
        ("check --header-digest 00 luks2", "64"),
    ] {
        let outcome = run(&folder, line).run();
        outcome.assert_code(1);
        assert!(outcome.stderr.contains(words), "{outcome:#?}");
    }
    run(
        &folder,
        "encrypt --require-pbkdf argon2id --key-file key plain out",
    )
    .fails(1, "--require");
    run(&folder, "engines --header-digest")
        .arg("0".repeat(64))
        .fails(1, "--header-digest");
}

#[test]
fn a_damaged_copy_is_rewritten() {
    let folder = prepared();
    let good = fs::read(folder.join("luks2")).unwrap();
    let repair = || run(&folder, "header repair luks2");
    let outcome = repair().ok();
    assert!(outcome.text().contains("both copies"), "{outcome:#?}");
    assert!(fs::read(folder.join("luks2")).unwrap() == good);

    for (at, copy) in [
        (0, "primary"),
        (5000, "primary"),
        (0x4000, "secondary"),
        (0x5000, "secondary"),
    ] {
        let mut damaged = good.clone();
        damaged[at] ^= 1;
        folder.write("luks2", damaged);
        let outcome = run(&folder, "check luks2").run();
        outcome.assert_code(1);
        let outcome = repair().ok();
        assert!(outcome.text().contains(copy), "{outcome:#?}");
        run(&folder, "check --key-file key luks2").ok();
        cryptsetup(&folder, "open --test-passphrase --key-file key luks2");
        let repaired = fs::read(folder.join("luks2")).unwrap();
        assert!(repaired[0x8000..] == good[0x8000..]);
    }

    // The user may want to keep a file system in this place.
    let mut other = good.clone();
    other[..4].copy_from_slice(b"XFSB");
    folder.write("luks2", &other);
    repair().fails(1, "XFS");
    assert!(fs::read(folder.join("luks2")).unwrap() == other);
    run(&folder, "header repair --force luks2").ok();
    run(&folder, "check --key-file key luks2").ok();
    // Two damaged copies cannot be repaired.
    let mut lost = good;
    lost[100] ^= 1;
    lost[0x4000 + 100] ^= 1;
    folder.write("luks2", lost);
    repair().fails(1, "both copies");
    run(&folder, "header repair luks1").ok();
    run(&folder, "header repair missing").fails(4, "missing");
    run(&folder, "header repair plain").fails(1, "LUKS");
}

#[test]
fn a_damaged_luks1_header_is_restored() {
    let folder = prepared();
    let good = fs::read(folder.join("luks1")).unwrap();
    let outcome = run(&folder, "header repair luks1").ok();
    assert!(outcome.text().contains("is good"), "{outcome:#?}");
    let digest = run(&folder, "header digest luks1").ok();
    let digest = digest.text().trim().to_owned();

    // Damages the offset of keyslot 0, which is in use, and the stripes of keyslot 1.
    let mut damaged = good.clone();
    damaged[208 + 40..208 + 44].fill(0xff);
    damaged[256 + 44..256 + 48].fill(0);
    folder.write("luks1", &damaged);
    run(&folder, "check luks1").fails(1, "LUKS1 header");
    let other = "0".repeat(64);
    run(
        &folder,
        &format!("header repair --header-digest {other} luks1"),
    )
    .fails(1, "refused");
    assert!(fs::read(folder.join("luks1")).unwrap() == damaged);
    let line = format!("header repair --header-digest {digest} luks1");
    let outcome = run(&folder, &line).ok();
    for words in [
        "keyslot 0: its area begins at byte 4096 instead of ",
        "keyslot 1: it has 4000 stripes instead of 0",
        "the header is restored",
    ] {
        assert!(outcome.text().contains(words), "{outcome:#?}");
    }
    assert!(fs::read(folder.join("luks1")).unwrap() == good);

    // `repair` is cryptsetup's name for the command.
    tool(
        "wipefs",
        ["--all".as_ref(), folder.join("luks1").as_os_str()],
    );
    assert!(fs::read(folder.join("luks1")).unwrap() != good);
    run(&folder, "check luks1").fails(1, "LUKS");
    run(&folder, "repair luks1").ok();
    assert!(fs::read(folder.join("luks1")).unwrap() == good);

    // Only the user who made the volume knows the contents of keyslot 5.
    let mut damaged = good.clone();
    damaged[208 + 5 * 48..][..48].fill(0xa5);
    folder.write("luks1", &damaged);
    run(&folder, "header repair luks1").fails(1, "keyslots 5");
    assert!(fs::read(folder.join("luks1")).unwrap() == damaged);
    let outcome = run(&folder, "header repair --force luks1").ok();
    assert!(
        outcome.text().contains("keyslot 5: it is empty now"),
        "{outcome:#?}"
    );
    // The salt and the iterations stay.
    let mut emptied = good.clone();
    emptied[208 + 5 * 48 + 4..][..36].fill(0xa5);
    assert!(fs::read(folder.join("luks1")).unwrap() == emptied);
    run(&folder, "check --key-file key luks1").ok();

    let mut lost = good;
    // The iterations of the digest.
    lost[164..168].fill(0);
    folder.write("luks1", &lost);
    let outcome = run(&folder, "header repair luks1").fails(1, "mk-digest-iter");
    assert!(
        outcome.stderr.contains("luxor header restore"),
        "{outcome:#?}"
    );
}

#[test]
fn of_two_copies_that_differ_the_primary_stays() {
    let folder = prepared();
    let before = fs::read(folder.join("luks2")).unwrap();
    let labelled = |label: &str| {
        folder.write("luks2", &before);
        run(&folder, &format!("config --label {label} luks2")).ok();
        fs::read(folder.join("luks2")).unwrap()
    };
    let (good, twin) = (labelled("first"), labelled("second"));
    let mut mixed = good.clone();
    mixed[0x4000..0x8000].copy_from_slice(&twin[0x4000..0x8000]);
    for name in ["ours", "theirs"] {
        folder.write(name, &mixed);
    }
    // cryptsetup also uses the primary copy, and changes neither copy.
    cryptsetup(&folder, "repair -q theirs");
    assert!(fs::read(folder.join("theirs")).unwrap() == mixed);
    let label = |name: &str| {
        let dump = cryptsetup(&folder, &format!("luksDump {name}"));
        dump.lines()
            .find(|line| line.starts_with("Label"))
            .unwrap()
            .to_owned()
    };
    assert!(label("theirs").contains("first"));

    let outcome = run(&folder, "check ours").run();
    outcome.assert_code(1);
    assert!(
        outcome.stderr.contains("luxor header repair"),
        "{outcome:#?}"
    );
    let outcome = run(&folder, "header repair ours").ok();
    assert!(outcome.text().contains("secondary"), "{outcome:#?}");
    run(&folder, "check --key-file key ours").ok();
    let repaired = fs::read(folder.join("ours")).unwrap();
    assert!(repaired[..0x4000] == good[..0x4000] && repaired[0x8000..] == good[0x8000..]);
    assert_eq!(label("ours"), label("theirs"));
    // Without the primary copy, the same metadata are read.
    let mut lost = repaired;
    lost[..0x4000].fill(0);
    folder.write("ours", lost);
    let outcome = run(&folder, "dump ours").ok();
    assert!(outcome.text().contains("first"), "{outcome:#?}");
    let outcome = run(&folder, "header repair ours").ok();
    assert!(outcome.text().contains("primary"), "{outcome:#?}");
}

/// The secondary copy may hold a keyslot or a token that the primary one lacks.
#[test]
fn copies_of_equal_age_are_overwritten_only_by_force() {
    let folder = prepared();
    let before = fs::read(folder.join("luks2")).unwrap();
    let after = |line: &str| {
        folder.write("luks2", &before);
        run(&folder, line).ok();
        fs::read(folder.join("luks2")).unwrap()
    };
    let good = after("config --label first luks2");
    let twin = after("config --priority prefer --key-slot 0 luks2");
    let mut mixed = good.clone();
    mixed[0x4000..0x8000].copy_from_slice(&twin[0x4000..0x8000]);
    folder.write("luks2", &mixed);

    let check = run(&folder, "check luks2").run();
    check.assert_code(1);
    for words in [
        "they differ in their keyslots, label",
        "`luxor header repair --force luks2`",
    ] {
        assert!(check.stderr.contains(words), "{check:#?}");
    }
    for line in ["header repair luks2", "config --label new luks2"] {
        let refused = run(&folder, line).run();
        refused.assert_code(1);
        for words in [
            "equally old, and differ in their keyslots, label",
            "`luxor header repair --force luks2`",
        ] {
            assert!(refused.stderr.contains(words), "{refused:#?}");
        }
        assert!(fs::read(folder.join("luks2")).unwrap() == mixed);
    }
    let repaired = run(&folder, "header repair --force luks2").ok();
    assert!(
        repaired.text().contains("it had other keyslots, label"),
        "{repaired:#?}"
    );
    run(&folder, "check --key-file key luks2").ok();
    let repaired = fs::read(folder.join("luks2")).unwrap();
    assert!(repaired[..0x4000] == good[..0x4000] && repaired[0x8000..] == good[0x8000..]);
}

/// cryptsetup uses the older copy here, and no command of Luxor loses it unasked.
#[test]
fn a_keyslot_of_the_older_copy_is_lost_only_by_force() {
    let folder = prepared();
    let good = fs::read(folder.join("luks2")).unwrap();
    let mut newer = good.clone();
    newer[16..24].copy_from_slice(&99_u64.to_be_bytes());
    let mut newer = with_metadata(&newer, |text| {
        text.replacen(r#""key_size":64"#, r#""key_size":"64""#, 1)
    });
    newer[0x4000..].copy_from_slice(&good[0x4000..]);
    folder.write("luks2", &newer);
    let opens = "open --batch-mode --test-passphrase --key-file key copy";
    folder.write("copy", &newer);
    cryptsetup(&folder, opens);

    let check = run(&folder, "check luks2").run();
    check.assert_code(1);
    let words = "keyslot 0 can only be used in the older one";
    assert!(check.stderr.contains(words), "{check:#?}");
    assert!(!check.stderr.contains("header repair"), "{check:#?}");
    for line in ["header repair luks2", "config --label new luks2"] {
        let refused = run(&folder, line).run();
        refused.assert_code(1);
        for words in [
            "keyslot 0 can only be used in the older copy",
            "`luxor header backup luks2 NEW-FILE`",
            "`luxor header repair --force luks2`",
        ] {
            assert!(refused.stderr.contains(words), "{refused:#?}");
        }
        assert!(fs::read(folder.join("luks2")).unwrap() == newer);
    }
    run(&folder, "header backup luks2 NEW-FILE").ok();
    let backup = fs::read(folder.join("NEW-FILE")).unwrap();
    assert!(backup[..0x8000] == newer[..0x8000]);
    run(&folder, "header repair --force luks2").ok();
    let repaired = fs::read(folder.join("luks2")).unwrap();
    assert!(repaired[..0x4000] == newer[..0x4000] && repaired[0x8000..] == good[0x8000..]);
}

#[test]
fn a_converted_volume_opens_and_converts_back() {
    let folder = prepared();
    let before = fs::read(folder.join("luks1")).unwrap();
    run(&folder, "convert --type luks1 luks1").fails(1, "already a LUKS1 volume");
    let outcome = without_terminal("convert", &["--type", "luks2", "luks1"], folder.path());
    outcome.assert_code(1);
    assert!(outcome.stderr.contains("--batch-mode"), "{outcome:#?}");
    assert!(fs::read(folder.join("luks1")).unwrap() == before);

    let (code, screen) = terminal("convert --type luks2 luks1", &["YES\n"], folder.path());
    assert_eq!(code, 0, "{screen}");
    assert!(
        run(&folder, "dump luks1")
            .ok()
            .text()
            .contains("LUKS2 volume")
    );
    cryptsetup(&folder, "open --test-passphrase --key-file key luks1");
    run(&folder, "check --key-file key luks1").ok();
    run(&folder, "convert --type luks1 --batch-mode luks1").ok();
    assert!(
        run(&folder, "dump luks1")
            .ok()
            .text()
            .contains("LUKS1 volume")
    );
    cryptsetup(&folder, "open --test-passphrase --key-file key luks1");
    let after = fs::read(folder.join("luks1")).unwrap();
    assert!(after[2 << 20..] == before[2 << 20..]);

    // LUKS1 supports neither the token with the file's length nor sectors of 4096 bytes.
    let before = fs::read(folder.join("luks2")).unwrap();
    run(&folder, "convert --type luks1 --batch-mode luks2").fails(1, "LUKS1 has");
    assert!(fs::read(folder.join("luks2")).unwrap() == before);
    run(&folder, "convert --type luks2 --batch-mode none").fails(4, "does not exist");
}

#[test]
fn an_erased_volume_cannot_be_opened() {
    let folder = prepared();
    let before = fs::read(folder.join("luks2")).unwrap();
    run(&folder, "header backup luks2 backup").ok();
    let outcome = without_terminal("erase", &["luks2"], folder.path());
    outcome.assert_code(1);
    assert!(outcome.stderr.contains("--batch-mode"), "{outcome:#?}");
    let (code, screen) = terminal("erase luks2", &["y\n"], folder.path());
    assert_eq!(code, 1, "{screen}");
    assert!(fs::read(folder.join("luks2")).unwrap() == before);

    let (code, screen) = terminal("erase luks2", &["YES\n"], folder.path());
    assert_eq!(code, 0, "{screen}");
    let erased = fs::read(folder.join("luks2")).unwrap();
    run(&folder, "check luks2").ok();
    let outcome = run(&folder, "dump luks2").ok();
    assert!(!outcome.text().contains("Keyslot 0"), "{outcome:#?}");
    // The old area contains nothing of the key, and the data have not changed.
    assert!(erased[0x8000..][..256_000] != before[0x8000..][..256_000]);
    assert!(erased[16 << 20..] == before[16 << 20..]);
    let outcome = run(&folder, "check --key-file key luks2").run();
    assert_ne!(outcome.code, Some(0), "{outcome:#?}");
    // A backup still opens the volume.
    run(&folder, "header restore --batch-mode luks2 backup").ok();
    run(&folder, "check --key-file key luks2").ok();

    run(&folder, "erase --batch-mode luks2").ok();
    run(&folder, "erase --batch-mode luks1").ok();
    let outcome = run(&folder, "dump luks1").ok();
    assert!(outcome.text().contains("0 of 8 in use"), "{outcome:#?}");
    run(&folder, "erase --batch-mode plain").fails(1, "LUKS");
    run(&folder, "erase --batch-mode missing").fails(4, "missing");
}
