// SPDX-License-Identifier: MIT OR Apache-2.0
//! `header`, and the requirements on headers.

use std::{
    fs::{self, File},
    iter,
    os::unix::fs::PermissionsExt,
    thread,
    time::Duration,
};

use crate::support::{
    FAST, Folder, Luxor, answered, bytes, luxor, terminal, tool, with_metadata, without_terminal,
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
fn a_restored_header_opens_with_the_old_key_only() {
    let folder = prepared();
    for volume in VOLUMES {
        let before = fs::read(folder.join(volume)).unwrap();
        run(&folder, &format!("header backup {volume} {volume}.backup")).ok();
        change_key(&folder, volume);
        let restore = format!("header restore --batch-mode {volume} {volume}.backup");
        run(&folder, &restore).ok();
        assert!(fs::read(folder.join(volume)).unwrap() == before, "{volume}");
        run(&folder, &format!("check --key-file other {volume}"))
            .run()
            .assert_code(2);
        cryptsetup(
            &folder,
            &format!("open --test-passphrase --key-file key {volume}"),
        );
    }
}

#[test]
fn a_backup_without_keyslots_or_file_length_needs_force() {
    let folder = prepared();
    for volume in VOLUMES {
        fs::copy(folder.join(volume), folder.join("copy")).unwrap();
        cryptsetup(&folder, "luksErase copy");
        run(&folder, "header backup --force copy erased").ok();
        let before = fs::read(folder.join(volume)).unwrap();
        let restore = format!("header restore --batch-mode {volume} erased");
        run(&folder, &restore).fails(1, "no keyslot that opens the data");
        assert!(fs::read(folder.join(volume)).unwrap() == before, "{volume}");
    }
    // One header has a token with the length of the file, the other one has none.
    fs::copy(folder.join("luks2"), folder.join("copy")).unwrap();
    cryptsetup(&folder, "token remove --token-id 0 copy");
    run(&folder, "header backup copy tokenless").ok();
    run(&folder, "header restore --batch-mode luks2 tokenless").fails(1, "no recorded length");
    run(&folder, "decrypt --key-file key luks2 out").ok();
    assert!(fs::read(folder.join("out")).unwrap() == bytes(10_000, 1));
    run(
        &folder,
        "header restore --batch-mode --force luks2 tokenless",
    )
    .ok();
    run(&folder, "header backup luks2 same").ok();
    run(&folder, "header restore --batch-mode luks2 same").ok();
}

#[test]
fn a_backup_for_differently_encrypted_data_needs_force() {
    let folder = prepared();
    let before = fs::read(folder.join("luks2")).unwrap();
    let otherwise = "describes the data differently";
    for (from, to, words) in [
        (r#""iv_tweak":"0""#, r#""iv_tweak":"8""#, otherwise),
        (r#""sector_size":4096"#, r#""sector_size":2048"#, otherwise),
        (
            r#"{"type":"pbkdf2","keyslots""#,
            r#"{"type":"new","keyslots""#,
            "cannot be compared",
        ),
    ] {
        folder.write("backup", with_text(&before, from, to));
        run(&folder, "header restore --batch-mode luks2 backup").fails(1, words);
        assert!(fs::read(folder.join("luks2")).unwrap() == before, "{to}");
    }
}

/// Replaces a text in both copies of the LUKS2 metadata.
fn with_text(volume: &[u8], from: &str, to: &str) -> Vec<u8> {
    with_metadata(volume, |text| {
        assert!(text.contains(from), "{text}");
        text.replace(from, to)
    })
}

/// A digest covers only one of the two copies. The other copy must not bring in another header.
#[test]
fn a_pinned_backup_with_a_replaced_copy_is_refused() {
    let folder = prepared();
    run(&folder, "encrypt --key-file key plain attacker")
        .args(FAST)
        .ok();
    run(&folder, "header backup luks2 backup").ok();
    let digest = run(&folder, "header digest backup").ok().stdout;
    let digest = String::from_utf8(digest).unwrap();
    let mut replaced = fs::read(folder.join("backup")).unwrap();
    let attacker = fs::read(folder.join("attacker")).unwrap();
    replaced[0x4000..0x8000].copy_from_slice(&attacker[0x4000..0x8000]);
    folder.write("replaced", replaced);

    let before = fs::read(folder.join("luks2")).unwrap();
    let restore = format!(
        "header restore --batch-mode --header-digest {} luks2 replaced",
        digest.trim()
    );
    run(&folder, &restore).fails(1, "differ");
    assert!(fs::read(folder.join("luks2")).unwrap() == before);
    let outcome = run(&folder, "check replaced").run();
    outcome.assert_code(1);
    assert!(outcome.stderr.contains("differ"), "{outcome:?}");
}

#[test]
fn a_detached_header_is_the_one_that_is_meant() {
    let folder = prepared();
    run(&folder, "encrypt --key-file key --header head plain data")
        .args(FAST)
        .ok();
    let (head, data) = (folder.join("head"), folder.join("data"));
    let before = (fs::read(&head).unwrap(), fs::read(&data).unwrap());
    run(&folder, "header backup --header head data backup").ok();
    assert!(fs::read(folder.join("backup")).unwrap() == before.0);
    change_key(&folder, "head");
    run(
        &folder,
        "header restore --batch-mode --header head data backup",
    )
    .ok();
    assert!((fs::read(&head).unwrap(), fs::read(&data).unwrap()) == before);
}

#[test]
fn nothing_is_replaced_without_a_yes() {
    let folder = prepared();
    run(&folder, "header backup luks2 backup").ok();
    change_key(&folder, "luks2");
    let changed = fs::read(folder.join("luks2")).unwrap();

    let outcome = without_terminal("header", &["restore", "luks2", "backup"], folder.path());
    outcome.assert_code(1);
    assert!(outcome.stderr.contains("--batch-mode"), "{outcome:#?}");
    for answer in ["yes\n", "\n", "NO\n"] {
        let (code, screen) = terminal("header restore luks2 backup", &[answer], folder.path());
        assert_eq!(code, 1, "{screen}");
        assert!(screen.contains("nothing was done"), "{screen}");
    }
    assert!(fs::read(folder.join("luks2")).unwrap() == changed);

    let (code, screen) = terminal("header restore luks2 backup", &["YES\n"], folder.path());
    assert_eq!(code, 0, "{screen}");
    assert!(screen.contains("all keyslots"), "{screen}");
    run(&folder, "check --key-file key luks2").ok();
}

/// Only the volume that the question was about may be overwritten.
#[test]
fn a_file_swapped_in_during_the_prompt_is_not_overwritten() {
    let folder = prepared();
    run(&folder, "header backup luks2 backup").ok();
    folder.write("nothing", vec![0; 17 << 20]);
    run(&folder, "encrypt --key-file other plain another")
        .args(FAST)
        .ok();
    let restore = |swap: &dyn Fn()| {
        let answers = iter::once_with(|| {
            swap();
            "YES\n"
        });
        answered(
            "\"$luxor\" header restore luks2 backup",
            answers,
            folder.path(),
        )
    };
    let volume = folder.join("luks2");
    let before = fs::read(&volume).unwrap();
    for other in ["another", "luks1", "nothing"] {
        let (there, away) = (folder.join(other), folder.join("away"));
        let (code, screen) = restore(&|| {
            fs::rename(&volume, &away).unwrap();
            fs::copy(&there, &volume).unwrap();
        });
        assert_eq!(code, 5, "{other}: {screen}");
        assert!(
            screen.contains("has changed since it was checked"),
            "{screen}"
        );
        assert!(
            fs::read(&volume).unwrap() == fs::read(&there).unwrap(),
            "{other}"
        );
        assert!(fs::read(&away).unwrap() == before, "{other}");
        fs::rename(&away, &volume).unwrap();
    }
    let away = folder.join("away");
    let (code, screen) = restore(&|| fs::rename(&volume, &away).unwrap());
    assert_eq!(code, 4, "{screen}");
    assert!(!volume.exists() && fs::read(&away).unwrap() == before);

    // The backup is read once, before the prompt.
    fs::rename(&away, &volume).unwrap();
    let (code, screen) = restore(&|| {
        fs::remove_file(folder.join("backup")).unwrap();
        fs::copy(folder.join("another"), folder.join("backup")).unwrap();
    });
    assert_eq!(code, 0, "{screen}");
    run(&folder, "check --key-file key luks2").ok();
}

#[test]
fn a_backup_that_does_not_fit_needs_force() {
    let folder = prepared();
    run(&folder, "header backup luks2 backup").ok();
    run(
        &folder,
        "encrypt --key-size 256 --key-file other plain short",
    )
    .args(FAST)
    .ok();
    let before = fs::read(folder.join("short")).unwrap();
    let outcome = run(&folder, "header restore --batch-mode short backup").fails(1, "64 bytes");
    assert!(outcome.stderr.contains("--force"), "{outcome:#?}");
    assert!(fs::read(folder.join("short")).unwrap() == before);
    // `--force` does not skip the question.
    let outcome = without_terminal(
        "header",
        &["restore", "--force", "short", "backup"],
        folder.path(),
    );
    outcome.assert_code(1);
    assert!(outcome.stderr.contains("--batch-mode"), "{outcome:#?}");
    assert!(fs::read(folder.join("short")).unwrap() == before);
    run(&folder, "header restore --force --batch-mode short backup").ok();
    run(&folder, "check --key-file key short").ok();

    // Restoring a damaged backup would not improve the header.
    for (len, at, words) in [
        (1 << 20, None, "cut off"),
        (16 << 20, Some(0x5000), "damaged"),
    ] {
        let mut backup = fs::read(folder.join("backup")).unwrap();
        backup.truncate(len);
        if let Some(at) = at {
            backup[at] ^= 1;
        }
        folder.write("damaged", backup);
        run(&folder, "header restore --batch-mode luks2 damaged").fails(1, words);
    }
    run(&folder, "header restore --batch-mode luks2 plain").fails(1, "LUKS");
    run(&folder, "header restore --batch-mode luks2 missing").fails(4, "missing");
    run(&folder, "header restore --batch-mode missing backup").fails(4, "missing");
    run(&folder, "header restore --force backup backup").fails(1, "backup");
    run(&folder, "check --key-file key luks2").ok();
}

/// The message names the UUID and the label of the volume that would be destroyed, or the file
/// system.
#[test]
fn overwriting_another_volume_or_other_data_needs_force() {
    let folder = prepared();
    run(&folder, "header backup luks2 backup").ok();
    run(
        &folder,
        "encrypt --label photographs --key-file other plain another",
    )
    .args(FAST)
    .ok();
    folder.write("same-key", fs::read(folder.join("luks2")).unwrap());
    cryptsetup(
        &folder,
        "luksUUID --uuid 12345678-1234-4321-8765-123456789abc same-key",
    );
    let uuid = tool(
        "cryptsetup",
        ["luksUUID", folder.join("another").to_str().unwrap()],
    );
    folder.write("ext4", vec![0; 20 << 20]);
    tool(
        "mkfs.ext4",
        ["-q", "-F", folder.join("ext4").to_str().unwrap()],
    );
    folder.write("noise", bytes(17 << 20, 7));
    for (target, words) in [
        ("another", uuid.text().trim()),
        ("another", "photographs"),
        ("another", "a different volume key"),
        ("same-key", "12345678-1234-4321-8765-123456789abc"),
        ("ext4", "an ext4 file system (signature at byte 1080)"),
        ("noise", "no header"),
    ] {
        let before = fs::read(folder.join(target)).unwrap();
        let restore = |options: &str| {
            let line = format!("header restore {options} {target} backup");
            run(&folder, &line)
        };
        let outcome = restore("--batch-mode").fails(1, words);
        assert!(outcome.stderr.contains("--force"), "{outcome:#?}");
        assert!(fs::read(folder.join(target)).unwrap() == before, "{target}");
        let outcome = restore("--batch-mode --force").ok();
        assert!(outcome.stderr.contains(words), "{target}: {outcome:#?}");
        run(&folder, &format!("header digest {target}")).ok();
        folder.write(target, before);
    }
}

/// A file never grows unless it was empty.
#[test]
fn a_target_that_is_too_short_is_refused() {
    let folder = prepared();
    run(&folder, "header backup luks2 backup").ok();
    let volume = fs::read(folder.join("luks2")).unwrap();
    folder.write("ordinary", bytes(3 << 20, 7));
    folder.write("cut", &volume[..3 << 20]);
    for target in ["ordinary", "cut"] {
        let before = fs::read(folder.join(target)).unwrap();
        for options in ["--batch-mode", "--batch-mode --force"] {
            for place in [
                format!("{target} backup"),
                format!("--header {target} x backup"),
            ] {
                let line = format!("header restore {options} {place}");
                run(&folder, &line).fails(1, "3145728 bytes: it needs 16777216");
                assert!(fs::read(folder.join(target)).unwrap() == before, "{line}");
            }
        }
    }
}

#[test]
fn a_lost_header_is_restored() {
    let folder = prepared();
    for volume in VOLUMES {
        let before = fs::read(folder.join(volume)).unwrap();
        run(&folder, &format!("header backup {volume} backup --force")).ok();
        let mut lost = before.clone();
        lost[..0x8000].fill(0);
        folder.write(volume, lost);
        let outcome = without_terminal("header", &["restore", volume, "backup"], folder.path());
        outcome.assert_code(1);
        assert!(outcome.stderr.contains("no header"), "{outcome:#?}");
        run(
            &folder,
            &format!("header restore --batch-mode --force {volume} backup"),
        )
        .ok();
        assert!(fs::read(folder.join(volume)).unwrap() == before);
    }
    // The backup is restored to an empty file, as a detached header.
    run(&folder, "header backup luks2 backup --force").ok();
    folder.write("fresh", b"");
    run(&folder, "header restore --batch-mode fresh backup").ok();
    run(&folder, "check --key-file key fresh")
        .run()
        .assert_code(1);
    run(&folder, "decrypt --header fresh --key-file key luks2 out").ok();
}

/// The command waits for other programs that read or change the metadata, and they wait for it.
#[test]
fn a_header_is_restored_alone() {
    let folder = prepared();
    run(&folder, "header backup luks2 backup").ok();
    let file = File::open(folder.join("luks2")).unwrap();
    for (line, shared) in [
        ("header restore --batch-mode luks2 backup", true),
        ("header backup luks2 other-backup", false),
    ] {
        if shared {
            file.lock_shared().unwrap();
        } else {
            file.lock().unwrap();
        }
        let mut child = run(&folder, line).spawn();
        thread::sleep(Duration::from_millis(300));
        assert_eq!(child.try_wait().unwrap(), None, "{line} did not wait");
        file.unlock().unwrap();
        assert!(child.wait_with_output().unwrap().status.success(), "{line}");
    }
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
    assert!(fs::read(folder.join("luks1")).unwrap() == good);
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
